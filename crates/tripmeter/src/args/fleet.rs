use super::parsers::{text_path, words_of};
use clap::Args;
use std::path::PathBuf;
use tripmeter_analysis::flags::FiguresArgs;
use tripmeter_model::fleet::FleetMode;

/// Run one command on many hosts, or between all pairs of them
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter fleet HOSTS.toml -- ping tcp udp
  tripmeter fleet HOSTS.toml --mode hosts -o results/lab -- run quick --rounds 5")]
#[command(after_long_help = "Examples:
  tripmeter fleet HOSTS.toml -- ping tcp udp --payloads 1k
  tripmeter fleet HOSTS.toml --jobs 4 --push -- throughput tcp
  tripmeter fleet HOSTS.toml --mode star --center lab2 -- publish zenoh
  tripmeter fleet HOSTS.toml --mode hosts -o results/lab -- run quick --rounds 5

HOSTS.toml:
  [[hosts]]
  name = \"lab1\"            # names its folder, and the host for ssh without `ssh`
  ssh = \"user@10.0.0.1\"    # how ssh reaches it from here
  to = \"10.1.0.1\"          # how the other hosts reach it [default: ssh]
  interface = \"eth1\"       # carries its messages [default: as ssh]

The folder has a results folder for each host or pair, fleet.json with what was
measured and what failed, and report.html with a heat map of each figure. The
same command with the same -o measures only what is missing. A host that fails
is named, and the others continue. docs/fleet.md says more.

Exit codes: 0 good, 64 wrong usage, 65 wrong data, 66 no such file, 69 no host
can be used, 73 cannot create, 75 some hosts or pairs have no results or only
some of them, 130 interrupted.")]
pub struct FleetArgs {
    /// The hosts: names, and how ssh reaches them
    #[arg(value_name = "HOSTS.toml")]
    pub hosts: PathBuf,
    /// Any measuring command, with its flags
    #[arg(value_name = "COMMAND", last = true, required = true, num_args = 1..)]
    pub command: Vec<String>,
    /// Measure each host by itself, each pair, or one host with each other
    #[arg(long, default_value = "pairs", value_parser = words_of(&MODES))]
    pub mode: FleetMode,
    /// The host of a star [default: the first]
    #[arg(long, value_name = "NAME")]
    pub center: Option<String>,
    /// Measure pairs from both ends
    #[arg(long)]
    pub both_ways: bool,
    /// Measurements at once; no two share a host [default: 1; by themselves, or under
    /// a scheduler, all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Copy this program and its plugins to the hosts
    #[arg(long)]
    pub push: bool,
    /// Let a scheduler allocate the hosts; their names are its nodes
    #[arg(long, value_parser = words_of(&[("slurm", Scheduler::Slurm)]), conflicts_with = "push")]
    pub scheduler: Option<Scheduler>,
    #[command(flatten)]
    pub figures: FiguresArgs,
    /// Folder of all results [default: results/DATE_TIME]
    #[arg(short, long, value_name = "DIR", value_parser = text_path())]
    pub output: Option<PathBuf>,
    /// Print fleet.json and all figures instead of tables
    #[arg(long)]
    pub json: bool,
    /// Print no progress to standard error
    #[arg(short, long)]
    pub quiet: bool,
}

const MODES: [(&str, FleetMode); 3] =
    [("hosts", FleetMode::Hosts), ("pairs", FleetMode::Pairs), ("star", FleetMode::Star)];

/// Allocator of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// Slurm, with `salloc` and `srun`.
    Slurm,
}
