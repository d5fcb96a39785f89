//! Parts of a command that a fleet runs.

use crate::args::{Command, ExperimentArgs, MeasuringArgs, OutputArgs, RunningArgs};

pub struct MeasuringCommand<'a> {
    /// `None` if it measures several experiments.
    pub experiment: Option<ExperimentArgs>,
    pub measuring: &'a MeasuringArgs,
    pub output: &'a OutputArgs,
    /// Flag that was given, but has no meaning on other hosts.
    pub unfit: Option<&'static str>,
}

impl<'a> MeasuringCommand<'a> {
    fn of_one(experiment: ExperimentArgs, measuring: &'a MeasuringArgs, running: &'a RunningArgs) -> Option<Self> {
        let flags =
            [("--print", running.print), ("--live", running.live), ("--rendezvous", running.rendezvous.is_some())];
        let unfit = flags.into_iter().find(|(_, is_set)| *is_set).map(|(flag, _)| flag);
        Some(Self { experiment: Some(experiment), measuring, output: &running.output, unfit })
    }
}

impl Command {
    /// Parts of a measuring command; `None` for any other command.
    pub fn measuring(&self) -> Option<MeasuringCommand<'_>> {
        let other = |measuring, output, unfit| Some(MeasuringCommand { experiment: None, measuring, output, unfit });
        match self {
            Command::Run(args) => MeasuringCommand::of_one(args.experiment(), &args.measuring, &args.running),
            Command::Replay(args) => {
                MeasuringCommand::of_one(args.experiment(), &args.common.measuring, &args.common.running)
            }
            Command::Pattern(command) => {
                let (_, args) = command.parts();
                MeasuringCommand::of_one(command.experiment(), &args.measuring, &args.running)
            }
            Command::Ab(args) => other(&args.measuring, &args.output, args.live.then_some("--live")),
            Command::Choose(args) => other(&args.measuring, &args.output, args.print.then_some("--print")),
            Command::Explain(args) => other(&args.measuring, &args.output, args.from.as_ref().map(|_| "--from")),
            _ => None,
        }
    }
}
