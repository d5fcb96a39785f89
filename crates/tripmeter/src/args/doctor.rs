use clap::Args;
use std::str::FromStr;
use std::time::Duration;
use tripmeter_engine::audit::cpu_list;

/// Report noisy machine settings and how to fix them
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter doctor
  tripmeter doctor --cpus 2,3 --seconds 2
  tripmeter doctor --json --strict
  tripmeter doctor --to lab2 --to lab3
  tripmeter doctor --list

Levels: info (as it should be, or good to know), warn (figures may be worse or
less steady than the transport's own), fail (figures may show the machine rather
than the transport). A setting that cannot be read is shown as `not visible
here`; it neither warns nor fails.

With --to, each host is compared with this one: versions of system and plugins,
interfaces, what warns or fails on either, and how far apart the clocks are.

Exit codes: 0 good, 1 something warns or fails (with --strict), 64 wrong usage,
69 a host cannot be reached.")]
pub struct DoctorArgs {
    /// CPUs for leader and follower: 2,3 or 0-3 [default: those that `run` chooses]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuList>,
    /// Length of the hiccup check, which keeps all of these CPUs busy
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds, allow_negative_numbers = true)]
    pub seconds: Duration,
    /// Exit with code 1 if any check warns or fails
    #[arg(long)]
    pub strict: bool,
    /// List the checks only: what each reads, its limits, and the remedy
    #[arg(long, conflicts_with_all = ["cpus", "seconds", "strict"])]
    pub list: bool,
    /// Compare with another host, named as for ssh; repeat it for several
    #[arg(long, value_name = "[USER@]HOST", conflicts_with = "list")]
    pub to: Vec<String>,
    /// Address or interface here that the host reaches [default: as ssh]
    #[arg(long, value_name = "ADDRESS|NAME", requires = "to", hide_short_help = true)]
    pub interface: Option<String>,
    /// Address or interface there: one for all hosts, or one for each [default: as ssh]
    #[arg(long, value_name = "ADDRESS|NAME", requires = "to", hide_short_help = true)]
    pub to_interface: Vec<String>,
    /// Print the audit as JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// Print no progress to standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// CPUs without duplicates, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(pub Vec<usize>);

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let list = cpu_list(text).filter(|cpus| !cpus.is_empty());
        let mut cpus = list.ok_or("expected CPU numbers, e.g. 2,3 or 0-3")?;
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self(cpus))
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.01..=60.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected 0.01 to 60 seconds".to_owned())
}
