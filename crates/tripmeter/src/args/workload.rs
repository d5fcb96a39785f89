//! Flags of workloads. [`flag`] declares each once; a command has those that [`flags_of`] names, with its own help.

use super::parsers::topic;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, value_parser};
use tripmeter_model::experiment::{Common, WrittenTopic};

/// Workload given by flags.
#[derive(Clone, Default)]
pub struct WorkloadArgs {
    pub common: Common,
    /// Topics with a size and a rate each.
    pub topics: Vec<WrittenTopic>,
}

const FOLLOWERS: (&str, &str) = ("followers", "Receivers of every message, up to 64 [default: 1]");
const SUBSCRIBERS: (&str, &str) = ("followers", "Subscribers, up to 512 [default: 1]");
const DEMAND: (&str, &str) = (
    "demand",
    "Send messages in bursts of N\n\nEach of several numbers is a trial of its own, after the rates. All messages of a \
     burst are due when it begins. The bursts of all topics and clients begin together; under `throughput` they are \
     sent one after the other.",
);
const RECOVERY: (&str, &str) = ("recovery", "Milliseconds from the start of one burst to the next [default: 5]");

macro_rules! rates {
    ($help:literal) => {
        concat!($help, "\n\nEach of several rates is a trial of its own.")
    };
}

macro_rules! numbers {
    ($help:literal) => {
        concat!($help, "\n\nEach of several numbers is a sub-experiment of its own.")
    };
}

/// Flags of a command with their help, in its order.
fn flags_of(command: &str) -> &'static [(&'static str, &'static str)] {
    match command {
        "ping" => &[
            ("rate", rates!("Round trips per second [default: closed loop]")),
            ("clients", numbers!("Clients in parallel, each with a link of its own [default: 1]")),
            FOLLOWERS,
            ("one-way", "Also measure one-way latency"),
            DEMAND,
            RECOVERY,
        ],
        "publish" => &[
            ("rate", rates!("Messages per second of each publisher [default: 1000]")),
            ("topics", "Topics, each with a publishing thread [default: 1]"),
            (
                "topic",
                "Topic of its own size and rate: NAME:SIZE:RATE\n\nIt may be repeated: all topics are published at \
                 once, each with a thread, like a recording of them.",
            ),
            ("duration", "Time for which those topics are published [default: 10]"),
            ("publishers", "Publishers of one topic [default: 1]\n\nEach publisher has its own link and thread."),
            SUBSCRIBERS,
            DEMAND,
            RECOVERY,
        ],
        "call" => &[
            ("rate", rates!("Calls per second of each client [default: closed loop]")),
            ("clients", numbers!("Clients in parallel [default: 1]")),
            ("one-way", "Also measure one-way latency of requests"),
            DEMAND,
            RECOVERY,
        ],
        "throughput" => &[
            ("rate", rates!("Messages per second, or max [default: max]")),
            ("loss-bound", "Find the highest rate with this loss: 0, 0.5%"),
            ("duration", "Longest trial [default: 1, or none with -n]"),
            ("topics", "Topics in parallel [default: 1]"),
            ("publishers", "Publishers of the one topic [default: 1]"),
            FOLLOWERS,
            ("one-way", "Also measure one-way latency\n\nThis costs a clock reading per message."),
            DEMAND,
            RECOVERY,
        ],
        "replay" => &[("one-way", "Also measure one-way latency of requests"), SUBSCRIBERS],
        "ab" => &[
            ("rate", "Messages or calls per second, or max"),
            ("topics", "Topics of `publish` or `throughput`, each with a publishing thread"),
            ("publishers", "Publishers of one topic of `publish` or `throughput`"),
            ("followers", "Receivers of every message"),
            ("clients", "Clients of `ping` or `call` in parallel"),
            ("loss-bound", "Find the highest rate of `throughput` with this loss: 0, 0.5%"),
            ("duration", "Longest trial of `throughput`, or time for which each --topic is published"),
            ("topic", "Topic of `publish` with its own size and rate: NAME:SIZE:RATE; repeatable"),
        ],
        _ => &[],
    }
}

fn flag(name: &'static str) -> Arg {
    let flag = Arg::new(name).long(name);
    let text = |value| flag.clone().value_name(value).allow_hyphen_values(true);
    let number = |value| flag.clone().value_name(value).allow_negative_numbers(true);
    match name {
        "one-way" => flag.action(ArgAction::SetTrue),
        "topic" => flag.value_name("TOPIC").value_parser(topic).action(ArgAction::Append),
        "topics" | "publishers" | "followers" => number("N").value_parser(value_parser!(u32)),
        "duration" => number("SECONDS").value_parser(value_parser!(f64)),
        "loss-bound" => text("SHARE"),
        _ => text("LIST"),
    }
}

impl Args for WorkloadArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        let is_ab = command.get_name() == "ab";
        let flags = flags_of(command.get_name()).iter().map(|(name, help)| {
            let flag = flag(name).hide_short_help(is_ab || *name == RECOVERY.0);
            match help.split_once("\n\n") {
                Some((short, _)) => flag.help(short).long_help(*help),
                None => flag.help(*help),
            }
        });
        command.args(flags)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for WorkloadArgs {
    fn from_arg_matches(found: &ArgMatches) -> Result<Self, clap::Error> {
        let text = |name| value::<String>(found, name);
        let number = |name| value::<u32>(found, name);
        let common = Common {
            rate: text("rate"),
            demand: text("demand"),
            recovery_ms: text("recovery"),
            topics: number("topics"),
            publishers: number("publishers"),
            followers: number("followers"),
            clients: text("clients"),
            loss_bound: text("loss-bound"),
            duration_s: value(found, "duration"),
            one_way: value(found, "one-way").filter(|is_set| *is_set),
            ..Common::default()
        };
        let topics = found.try_get_many("topic").ok().flatten().into_iter().flatten().cloned().collect();
        Ok(Self { common, topics })
    }

    fn update_from_arg_matches(&mut self, found: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(found)?;
        Ok(())
    }
}

/// Value of a flag; `None` also if the command does not have it.
fn value<T: Clone + Send + Sync + 'static>(found: &ArgMatches, name: &str) -> Option<T> {
    found.try_get_one(name).ok().flatten().cloned()
}
