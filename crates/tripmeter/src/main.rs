mod ab_json;
mod args;
mod commands;
mod database;
mod deadline;
mod embedded;
mod error;
mod experiment;
mod explanation;
mod live;
mod lock;
mod many_runs;
mod measurement;
mod output;
mod plotting;
mod progress;
mod recording;
mod repeat;
mod results;
mod sample_files;
mod sample_plots;
mod signals;
mod sorting;
mod verdicts;

use args::{Cli, Command};
use clap::FromArgMatches;
use clap::error::ErrorKind;
use commands::run::run;
use error::in_one_line;
use std::process::ExitCode;
use tripmeter_engine::os;
use tripmeter_engine::worker::BuiltIn;
use tripmeter_model::exit;

fn main() -> ExitCode {
    // Must come first, before any function needs much stack.
    match os::ensure_stack() {
        Ok(()) => command_line(),
        Err(why) => {
            output::say(&format!("tripmeter: {why}"));
            ExitCode::from(exit::UNAVAILABLE)
        }
    }
}

#[inline(never)]
fn command_line() -> ExitCode {
    os::full_files_are_errors();
    let parsed = args::command().try_get_matches().and_then(|found| Cli::from_arg_matches(&found));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return args_refused(&error),
    };
    let outcome = match cli.command {
        Command::Run(args) => commands::run::run_or_resume(&args),
        Command::Pattern(command) => run(&command.experiment(), &command.parts().1.running),
        Command::Replay(args) => run(&args.experiment(), &args.common.running),
        Command::Ab(args) => commands::ab::ab(&args),
        Command::Choose(args) => commands::choose::choose(&args),
        Command::Explain(args) => commands::explain::explain(&args),
        Command::Fleet(args) => commands::fleet::fleet(&args),
        Command::Follow(args) => commands::run::follow(&args),
        Command::Show(args) => commands::show::show(&args),
        Command::Report(args) => commands::report::report(&args),
        Command::Export(args) => commands::export::export(&args),
        Command::List(args) => commands::list::list(&args),
        Command::Install(args) => commands::install::install(&args),
        Command::PluginCheck(args) => commands::plugin_check::plugin_check(&args),
        Command::Man(args) => commands::man::man(&args),
        Command::Iceperf(args) => commands::iceperf::iceperf(&args),
        Command::Doctor(args) => commands::doctor::doctor(&args),
        Command::Selftest(args) => commands::selftest::selftest(&args),
        Command::Check(args) => commands::check::check(&args),
        Command::Limits(args) => commands::limits::limits(&args),
        Command::Compare(args) => commands::compare::compare(&args),
        Command::History(args) => commands::history::history(&args),
        Command::Eprosima(args) => commands::eprosima::eprosima(&args),
        Command::Completions(args) => commands::completions::completions(&args),
        Command::Bare(args) => commands::selftest::bare(&args),
        Command::Worker => Ok(worker()),
        Command::Remote => commands::run::remote(),
        Command::DescribePlugin { file } => Ok(tripmeter_engine::registry::answer(&file)),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            output::say(&format!("tripmeter: {error}"));
            ExitCode::from(error.code)
        }
    }
}

/// Runs a measuring process of the supervisor; returns the exit code.
fn worker() -> u8 {
    let systems = tripmeter_builtin::systems();
    tripmeter_engine::worker::main(BuiltIn { systems: &systems, plugin: tripmeter_builtin::plugin })
}

/// Prints help and version; any other error is wrong usage, printed as one line.
fn args_refused(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // A closed pipe is not an error.
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { exit::USAGE } else { exit::GOOD });
    }
    output::say(&format!("tripmeter: {}; see --help", in_one_line(error)));
    ExitCode::from(exit::USAGE)
}
