use super::parsers::text_path;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use tripmeter_engine::bare::BarePath;

/// Test this program on this machine
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter selftest                   in less than two minutes
  tripmeter selftest --full -o DIR     the campaign; the same command continues it
  tripmeter selftest --full -o DIR --comparisons 3

It compares `uds` and `shm` with themselves by `tripmeter ab`, and counts false
alarms. It compares `uds` with a `uds` whose follower delays each answer by a
tenth of the median, and counts how often this is detected. It measures its own
bare loops beside both, and checks that stalls and losses that it injects are
found. docs/accuracy.md says what is required.

Exit codes: 0 all good, 1 a requirement is not met, 64 wrong usage, 65 the
folder is of another campaign, 70 our fault, 73 cannot create, 75 comparisons
failed, or both sides share a CPU, 130 interrupted.")]
pub struct SelftestArgs {
    /// The whole campaign: 100 comparisons of each transport with itself, and 150 with an injected delay
    #[arg(long, requires = "output")]
    pub full: bool,
    /// Number of comparisons of each kind
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub comparisons: Option<u32>,
    /// Seed of the first comparison; the others use the following ones [default: 1]
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true, value_parser = clap::value_parser!(u64).range(..=u64::from(u32::MAX)))]
    pub seed: u64,
    /// Results folder, required with --full [default: a temporary one that is removed]
    #[arg(short, long, value_name = "DIR", value_parser = text_path())]
    pub output: Option<PathBuf>,
    /// Print the results as JSON instead of a page
    #[arg(long)]
    pub json: bool,
    /// Print no progress to standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// One side of a bare loop.
#[derive(Args)]
pub struct BareArgs {
    /// Transport of the loop
    #[arg(value_enum)]
    pub kind: BareKind,
    /// Round trips
    pub trips: u64,
    /// Bytes of a message
    #[arg(value_parser = clap::value_parser!(u64).range(16..=65536))]
    pub payload_bytes: u64,
    /// CPUs of leader and follower; without them the kernel chooses
    #[arg(num_args = 0..=2)]
    pub cpus: Vec<usize>,
    /// Run the follower
    #[arg(long)]
    pub follow: bool,
}

/// Transport of a bare loop.
#[derive(Clone, Copy, ValueEnum)]
pub enum BareKind {
    /// Unix datagram sockets.
    Uds,
    /// A cache line.
    Shm,
}

impl From<BareKind> for BarePath {
    fn from(kind: BareKind) -> BarePath {
        match kind {
            BareKind::Uds => BarePath::Uds,
            BareKind::Shm => BarePath::Shm,
        }
    }
}
