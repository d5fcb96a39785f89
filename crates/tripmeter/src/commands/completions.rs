use crate::args::{Cli, CompletionsArgs};
use crate::error::CliError;
use crate::output;
use clap::CommandFactory;
use tripmeter_model::exit;

/// `tripmeter completions`
pub fn completions(args: &CompletionsArgs) -> Result<u8, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tripmeter", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(exit::GOOD)
}
