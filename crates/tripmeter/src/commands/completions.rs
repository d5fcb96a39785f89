use crate::args::{CompletionsArgs, command};
use crate::error::CliError;
use crate::output;
use tripmeter_model::exit;

pub fn completions(args: &CompletionsArgs) -> Result<u8, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "tripmeter", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(exit::GOOD)
}
