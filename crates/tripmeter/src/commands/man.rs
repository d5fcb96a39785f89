use crate::args::{ManArgs, command};
use crate::error::CliError;
use crate::output;
use crate::plotting::create_folder;
use tripmeter_model::exit;
use tripmeter_model::file::write_whole;

/// Writes a man page for the program and one per command.
pub fn man(args: &ManArgs) -> Result<u8, CliError> {
    create_folder(&args.folder)?;
    let mut whole = command();
    whole.build();
    let mut pages = Vec::new();
    collect(&whole, "tripmeter", &mut pages);
    for (name, page) in pages {
        let file = args.folder.join(format!("{name}.1"));
        let mut text = Vec::new();
        page.render(&mut text)
            .map_err(|error| CliError::new(exit::SOFTWARE, format!("the page '{name}' cannot be made: {error}")))?;
        write_whole(&file, &text)?;
        output::print(&format!("{}\n", file.display()))?;
    }
    Ok(exit::GOOD)
}

fn collect(command: &clap::Command, name: &str, pages: &mut Vec<(String, clap_mangen::Man)>) {
    pages.push((name.to_owned(), clap_mangen::Man::new(command.clone()).title(name)));
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help") {
        collect(inner, &format!("{name}-{}", inner.get_name()), pages);
    }
}
