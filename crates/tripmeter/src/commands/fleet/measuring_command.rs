//! Parts of a command that a fleet runs.

use crate::args::{Command, ExperimentArgs, MeasuringArgs, OutputArgs};

pub struct MeasuringCommand<'a> {
    /// `None` if it measures several experiments.
    pub experiment: Option<ExperimentArgs>,
    pub measuring: &'a MeasuringArgs,
    pub output: &'a OutputArgs,
    /// Flag that was given, but has no meaning on other hosts.
    pub unfit: Option<&'static str>,
}

impl Command {
    /// Parts of a measuring command; `None` for any other command.
    pub fn measuring(&self) -> Option<MeasuringCommand<'_>> {
        macro_rules! running {
            ($args:expr) => {{
                let running = &$args.running;
                let flags = [
                    ("--print", running.print),
                    ("--live", running.live),
                    ("--rendezvous", running.rendezvous.is_some()),
                ];
                let unfit = flags.into_iter().find(|(_, is_set)| *is_set).map(|(flag, _)| flag);
                let experiment = Some($args.experiment());
                Some(MeasuringCommand { experiment, measuring: &$args.measuring, output: &running.output, unfit })
            }};
        }
        let other = |measuring, output, unfit| Some(MeasuringCommand { experiment: None, measuring, output, unfit });
        match self {
            Command::Run(args) => running!(args),
            Command::Ping(args) => running!(args),
            Command::Publish(args) => running!(args),
            Command::Call(args) => running!(args),
            Command::Throughput(args) => running!(args),
            Command::Replay(args) => running!(args),
            Command::Log(args) => running!(args),
            Command::Ab(args) => other(&args.measuring, &args.output, args.live.then_some("--live")),
            Command::Choose(args) => other(&args.measuring, &args.output, args.print.then_some("--print")),
            Command::Explain(args) => other(&args.measuring, &args.output, args.from.as_ref().map(|_| "--from")),
            _ => None,
        }
    }
}
