//! `tripmeter iceperf`: iceperf's benchmark with its own flags.

use super::run;
use crate::args::{
    Benchmark, ExperimentArgs, FollowArgs, IceperfArgs, IceperfCommand, IceperfLeaderArgs, MeasuringArgs, OutputArgs,
    PluginArgs, ShownArgs, Technology,
};
use crate::error::CliError;
use crate::measurement::{Measurement, measure};
use std::time::Duration;
use tripmeter_engine::Followers;
use tripmeter_model::exit;

const RENDEZVOUS: &str = "iceperf";
/// Seconds that leader and follower wait for each other.
const PATIENCE: u32 = 600;

pub fn iceperf(args: &IceperfArgs) -> Result<u8, CliError> {
    match &args.command {
        IceperfCommand::Leader(args) => leader(args),
        IceperfCommand::Follower(_) => {
            run::follow(&FollowArgs { name: RENDEZVOUS.to_owned(), timeout: PATIENCE, plugins: PluginArgs::default() })
        }
    }
}

fn leader(args: &IceperfLeaderArgs) -> Result<u8, CliError> {
    if args.benchmark == Benchmark::Throughput {
        let text = "iceperf has no throughput benchmark; use `tripmeter throughput`, or leave -b out";
        return Err(CliError::new(exit::USAGE, text));
    }
    let measuring = MeasuringArgs { samples: Some(args.samples), ..MeasuringArgs::default() };
    let transports = match args.technology {
        Technology::All => None,
        Technology::IceoryxCpp => Some("iceoryx"),
        Technology::IceoryxC => Some("iceoryx-c"),
        Technology::MessageQueue => Some("mq"),
        Technology::UnixDomainSocket => Some("uds"),
    };
    let experiment = ExperimentArgs {
        transports: transports.into_iter().map(str::to_owned).collect(),
        ..ExperimentArgs::written("iceperf", &measuring)
    };
    measure(&Measurement {
        experiment: &experiment,
        output: &OutputArgs { no_report: true, ..OutputArgs::default() },
        is_live: false,
        shown: ShownArgs::default(),
        followers: Followers::ByHand { rendezvous: RENDEZVOUS.to_owned(), wait: Duration::from_secs(PATIENCE.into()) },
        is_strict: false,
    })
}
