mod ab;
mod choose;
mod doctor;
mod eprosima;
mod experiment;
mod explain;
mod fleet;
mod iceperf;
mod machine;
mod measure;
mod parsers;
pub mod plotting;
mod results;
mod selftest;
mod sorting;
mod verdicts;
mod workload;

pub use ab::{AbArgs, AbCommand, AbWorkloadArgs, SidesArgs};
pub use choose::ChooseArgs;
pub use doctor::DoctorArgs;
pub use eprosima::{
    CompareSubexperimentsArgs, DetermineRequirementsArgs, EprosimaArgs, EprosimaCheckArgs, EprosimaCommand,
    EprosimaCompareArgs, EprosimaHistoryArgs, JobArgs, ProcessArgs, PruneArgs,
};
pub use experiment::{ExperimentArgs, Written};
pub use explain::ExplainArgs;
pub use fleet::FleetArgs;
pub use iceperf::{Benchmark, IceperfArgs, IceperfCommand, IceperfLeaderArgs, Technology};
pub use machine::{CompletionsArgs, InstallArgs, ListArgs, ManArgs, PluginCheckArgs};
pub use measure::{
    AllowedArgs, Cpu, FollowArgs, HostsArgs, KeptArgs, MeasuringArgs, OutputArgs, PatternCommand, PluginArgs,
    ReplayArgs, RunArgs, RunningArgs, ShownArgs,
};
pub use results::{ExchangeFormat, ExportArgs, ExportFormat, ReportArgs, ShowArgs, TableFormat};
pub use selftest::{BareArgs, SelftestArgs};
pub use sorting::SortArgs;
pub use tripmeter_analysis::flags::{FiguresArgs, Share};
pub use verdicts::{CheckArgs, CompareArgs, HistoryArgs, LimitsArgs, Method};

use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;

/// Measure message paths: latency, throughput, loss and cost between programs
#[derive(Parser)]
#[command(name = "tripmeter", version, max_term_width = 80, arg_required_else_help = true)]
#[command(help_template = "{about}\n{usage-heading} {usage}{after-help}")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Run(RunArgs),
    #[command(flatten)]
    Pattern(PatternCommand),
    Replay(ReplayArgs),
    Ab(AbArgs),
    Choose(ChooseArgs),
    Explain(ExplainArgs),
    Fleet(FleetArgs),
    Follow(FollowArgs),
    Show(ShowArgs),
    Report(ReportArgs),
    Compare(CompareArgs),
    Check(CheckArgs),
    Limits(LimitsArgs),
    History(HistoryArgs),
    Export(ExportArgs),
    List(ListArgs),
    Install(InstallArgs),
    PluginCheck(PluginCheckArgs),
    Doctor(DoctorArgs),
    Selftest(SelftestArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    Eprosima(EprosimaArgs),
    Iceperf(IceperfArgs),
    #[command(hide = true)]
    Bare(BareArgs),
    #[command(hide = true)]
    Worker,
    #[command(hide = true)]
    Remote,
    #[command(hide = true)]
    DescribePlugin {
        file: PathBuf,
    },
}

const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Measure",
        &[
            "run",
            "ping",
            "publish",
            "call",
            "throughput",
            "replay",
            "log",
            "ab",
            "choose",
            "explain",
            "fleet",
            "follow",
        ],
    ),
    ("Results", &["show", "report", "compare", "check", "limits", "history", "export"]),
    ("Machine", &["list", "install", "plugin-check", "doctor", "selftest", "completions", "man"]),
    ("Other tools", &["eprosima", "iceperf"]),
];

/// Command line with its commands in groups.
pub fn command() -> clap::Command {
    let command = Cli::command();
    let line = |name: &&str| {
        let about = command.find_subcommand(name)?.get_about()?;
        Some(format!("  {name:12} {about}\n"))
    };
    let group =
        |(title, names): &(&str, &[&str])| format!("\n{title}:\n{}", names.iter().filter_map(line).collect::<String>());
    let groups: String = GROUPS.iter().map(group).collect::<Vec<_>>().concat();
    let next = "\nFirst: `tripmeter run`. Examples of a command: `tripmeter ping -h`. Version: -V";
    command.after_help((groups + next).trim_start().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(command: &clap::Command, name: String, found: &mut Vec<(String, clap::Command)>) {
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help") {
            let name = format!("{name} {}", inner.get_name());
            found.push((name.clone(), inner.clone()));
            all(inner, name, found);
        }
    }

    fn every_command() -> Vec<(String, clap::Command)> {
        let mut command = command();
        command.build();
        let mut found = vec![("tripmeter".to_owned(), command.clone())];
        all(&command, "tripmeter".to_owned(), &mut found);
        found
    }

    #[test]
    fn short_help_fits_a_screen() {
        for (name, command) in every_command() {
            let text = command.clone().term_width(80).render_help().to_string();
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(text.lines().count() <= 40 && widest <= 80, "{name}: {} x {widest}\n{text}", text.lines().count());
        }
    }

    #[test]
    fn ab_takes_the_names_of_patterns_for_those_of_commands() {
        let pattern = |name: &str| {
            let cli = Cli::try_parse_from(["tripmeter", "ab", "uds", "tcp", "--pattern", name]).unwrap();
            let Command::Ab(args) = cli.command else { panic!("it is ab") };
            args.workload.command.unwrap()
        };
        for (alias, name) in [("rpc", "call"), ("channel", "publish"), ("pingpong", "ping"), ("logger", "log")] {
            assert_eq!(pattern(alias), pattern(name));
        }
        assert!(Cli::try_parse_from(["tripmeter", "ab", "uds", "tcp", "--pattern", "rp"]).is_err());
    }

    #[test]
    fn each_command_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let command = Cli::command();
        let mut visible: Vec<&str> =
            command.get_subcommands().filter(|one| !one.is_hide_set()).map(clap::Command::get_name).collect();
        grouped.sort_unstable();
        visible.sort_unstable();
        assert_eq!(grouped, visible);
    }

    /// Commands that take the flags of another tool are exempt.
    #[test]
    fn a_short_flag_means_the_same_everywhere() {
        let mut meanings = std::collections::BTreeMap::new();
        let is_own = |name: &str| !["eprosima", "iceperf"].iter().any(|tool| name.contains(tool));
        for (name, command) in every_command().iter().filter(|(name, _)| is_own(name)) {
            for argument in command.get_arguments() {
                let (Some(short), Some(long)) = (argument.get_short(), argument.get_long()) else { continue };
                let meaning = meanings.entry(short).or_insert_with(|| long.to_owned());
                assert_eq!(meaning, long, "-{short} of {name}");
            }
        }
    }

    #[test]
    fn flags_without_meaning_are_not_offered() {
        for (command, flags) in [("replay", &["--payloads", "--samples"][..]), ("log", &["--touch"])] {
            let mut found = self::command().find_subcommand(command).unwrap().clone();
            let help = found.render_long_help().to_string();
            assert!(help.contains("--warmup") && flags.iter().all(|flag| !help.contains(flag)), "{command}: {help}");
        }
    }

    #[test]
    fn help_has_no_full_stop() {
        for (name, command) in every_command() {
            for argument in command.get_arguments() {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.ends_with('.') && !help.is_empty(), "{name}: {}: '{help}'", argument.get_id());
                assert!(!help.starts_with("Under"), "{name}: {}: '{help}'", argument.get_id());
            }
        }
    }
}
