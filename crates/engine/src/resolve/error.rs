//! Problems of an experiment that make it impossible to plan.

use crate::os;
use crate::registry::RegistryError;
use thiserror::Error;
use tripmeter_abi::{Path, Status};
use tripmeter_model::bounds::MOST_SAID_BYTES;
use tripmeter_model::count::MOST_COUNT;
use tripmeter_model::interference::{MOST_PRIORITY, Sched};
use tripmeter_model::payload::{PayloadError, display_size};
use tripmeter_model::plan::{MOST_ROUNDS, MOST_TRIALS};
use tripmeter_model::recording::{MOST_MESSAGES, MOST_TOPICS, Played};
use tripmeter_model::{Pattern, Wait, exit};

#[derive(Debug, Error)]
#[error("{place}{problem}")]
pub struct PlanError {
    place: String,
    pub problem: Problem,
}

impl PlanError {
    pub(super) fn anywhere(problem: Problem) -> Self {
        Self { place: String::new(), problem }
    }

    /// Problem of one transport, named as written unless the problem names it.
    pub(super) fn at(transport: &str, problem: Problem) -> Self {
        match problem {
            Problem::Registry(ref error) if !matches!(error, RegistryError::Refused(_)) => Self::anywhere(problem),
            _ => Self { place: format!("transport '{transport}': "), problem },
        }
    }

    pub fn exit_code(&self) -> u8 {
        self.problem.exit_code()
    }
}

pub(super) trait AtTransport<T> {
    fn at(self, transport: &str) -> Result<T, PlanError>;
}

impl<T> AtTransport<T> for Result<T, Problem> {
    fn at(self, transport: &str) -> Result<T, PlanError> {
        self.map_err(|problem| PlanError::at(transport, problem))
    }
}

#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Problem {
    #[error("nothing is to be measured; name transports, or add [[sub_experiment]] to the file")]
    NoSubExperiment,
    #[error("none of the transports asked for can run here: {}", lines.join(" | "))]
    NothingLeft { lines: Vec<String>, code: u8 },
    #[error("{0} rounds were asked for; ask for 1 to {most} (--rounds)", most = MOST_ROUNDS)]
    Rounds(u32),
    #[error(
        "{rounds} rounds of {trials} trials each are {}, and at most {most} can be read again; ask for fewer rounds (--rounds), \
         or for fewer transports, payloads or loads", u64::from(*rounds) * trials, most = MOST_TRIALS
    )]
    TooManyTrials { rounds: u32, trials: u64 },
    #[error("{0} s of rounds were asked for; ask for more than 0 and up to 10000000 s (--for)")]
    For(f64),
    #[error("rounds end by their number or by time; leave --rounds or --for out")]
    RoundsAndFor,
    #[error("samples of no round would be kept; keep 1 or more (--keep-samples), or none at all (--raw none)")]
    KeepNoSamples,
    #[error("samples of earlier rounds are to be removed, and there is one round; ask for more (--rounds, --for)")]
    KeepSamplesOfOne,
    #[error("samples of the last rounds are to be kept, and none are written; leave --keep-samples or --raw none out")]
    KeepSamplesOfNone,
    #[error("{0} attempts were asked for; ask for 1 to {most} (--attempts)", most = super::defaults::MOST_ATTEMPTS)]
    Attempts(u32),
    #[error(
        "a seed of {0} is more than {MOST_COUNT}, up to which JSON keeps whole numbers exact; take a smaller one (--seed)"
    )]
    Seed(u64),
    #[error("a loss time-out of {0} s is outside 0.001 to 600 s (--loss-timeout)")]
    LossTimeout(f64),
    #[error("a time cap of {0} s per payload is not above 0 and up to 1000000 s (--time-cap)")]
    TimeCap(f64),
    #[error("{followers} followers were asked for; ask for 1 to {most} (--followers, of choose --subscribers)")]
    Followers { followers: u32, most: u32 },
    #[error(
        "{followers} followers and {publishers} publishers were asked for, and of several one side only is measured; leave \
         --followers or --publishers out"
    )]
    FollowersAndPublishers { followers: u32, publishers: u32 },
    #[error("pattern 'rpc' has 1 follower, {0} were asked for; leave --followers out, or measure another pattern")]
    FollowersOfCalls(u32),
    #[error(
        "{0} followers need the arrivals of all samples in memory; leave out `--raw none`, or ask for 1 (--followers)"
    )]
    FollowersWithoutRaw(u32),
    #[error(
        "it reaches 1 follower with a message, {0} were asked for; choose one that `tripmeter list` shows with \
         'fan-out', or ask for 1 (--followers; of `choose`, --subscribers)"
    )]
    NoFanOut(u32),
    #[error(
        "{}{}",
        only_here(*path),
        can.as_ref().map_or_else(String::new, |can| format!("; choose of {can}, or leave --to out"))
    )]
    OneHost { path: Path, can: Option<String> },
    #[error("it measures between two hosts; name the other one (--to)")]
    NeedsHost,
    #[error("'{0}' is no host as ssh takes it: USER@HOST, or a name of ~/.ssh/config (--to)")]
    NoHost(String),
    #[error("a host of --to has a password, which results would keep; let ssh log in by a key")]
    HostPassword,
    #[error("--interface and --to-interface belong to --to, which says what other host is measured with")]
    InterfaceOfNoHost,
    #[error("{interfaces} interfaces were given for {hosts} hosts; give one for all, or one for each (--to-interface)")]
    Interfaces { interfaces: usize, hosts: usize },
    #[error(
        "{followers} {} asked for, and there {}; each has one follower: leave --followers out",
        if *followers == 1 { "follower was" } else { "followers were" },
        if *hosts == 1 { "is 1 host".to_owned() } else { format!("are {hosts} hosts") }
    )]
    FollowersOfHosts { followers: u32, hosts: usize },
    #[error("clocks that may be {0} µs apart: above 0 and up to 1000000 µs are allowed (--max-clock-error)")]
    ClockError(f64),
    #[error("pattern 'log' has no other host; leave --to out")]
    HostsOfLog,
    #[error("latency one way needs all samples in memory; leave out `--raw none` or --one-way")]
    OneWayWithoutRaw,
    #[error(
        "`--raw eprosima` writes round trips one after the other, and none are measured; ask for `--raw samples`, or for \
         pattern 'pingpong' without a rate"
    )]
    NoRoundTrips,
    #[error("0 samples were asked for; ask for 1 or more (-n)")]
    NoSamples,
    #[error("{samples} round trips per payload were asked for, the limit is {most}; ask for fewer (-n, --warmup)")]
    TooManySamples { samples: u64, most: u64 },
    #[error(
        "{samples} samples per payload are too many to keep each of them, the limit is {most}; ask for fewer (-n), or \
         keep histograms only (--raw none)"
    )]
    TooManyRawSamples { samples: u64, most: u64 },
    #[error(transparent)]
    Payload(#[from] PayloadError),
    #[error("CPU {cpu} for the {role} does not exist or is not allowed to this process; choose one of {allowed}")]
    Cpu { role: &'static str, cpu: usize, allowed: String },
    #[error("'{0}' is not a list of CPUs as 0-2 or 0,2 (--cpus)")]
    NotCpus(String),
    #[error("CPU {cpu} does not exist or is not allowed to this process; choose of {allowed} (--cpus)")]
    CpuOfList { cpu: usize, allowed: String },
    #[error("'--cpus' lets the kernel choose of a list; leave --leader-cpu and --follower-cpu out, or --cpus")]
    CpusAndCpu,
    #[error(
        "'--cpus' belongs to patterns 'channel', 'rpc' and 'log', not to '{0}'; use --leader-cpu and --follower-cpu"
    )]
    CpusOf(Pattern),
    #[error("cannot read which CPUs this process may use: {0}")]
    NoCpus(String),
    #[error("cannot create a scratch folder: {0}; set TMPDIR to a folder that can be written")]
    NoScratch(String),
    #[error("{0}")]
    Selector(String),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error("there is no variant '{variant}'{hint}; variants are {known}")]
    UnknownVariant { variant: String, known: String, hint: String },
    #[error("there is no setting '{setting}'{hint}; {known}")]
    UnknownSetting { setting: String, known: String, hint: String },
    #[error("setting '{setting}': {why}; let the plugin read it from a file or the environment")]
    SecretSetting { setting: String, why: String },
    #[error("none of the transports has a setting '{0}'; `tripmeter list` lists what they have")]
    UnusedSetting(String),
    #[error("'{flag}' belongs to {}, not to '{pattern}'; set {}, or leave it out", patterns(having), one_of(having))]
    FlagOf { flag: &'static str, pattern: Pattern, having: Vec<Pattern> },
    #[error("'{0}' has no meaning under pattern 'log', where one process logs whole lines; leave it out")]
    NotInLog(&'static str),
    #[error("its path is '{0}', and lines go to a file or a pipe; fix the plugin")]
    LogPath(tripmeter_model::Path),
    #[error(
        "its lines need {needed} in a file, and '{folder}' has {free} left; make room, set TMPDIR to a folder that has it, \
         or ask for less (-n, --payloads)"
    )]
    NoRoomForLog { needed: String, free: String, folder: String },
    #[error(
        "its lines need {needed} in a file, and files are limited to {limit} bytes; raise that (ulimit -f), or ask for less \
         (-n, --payloads)"
    )]
    LogOverLimit { needed: String, limit: u64 },
    #[error("'{text}' is not a number of clients, 1 to {most} (--clients)")]
    Clients { text: String, most: u32 },
    #[error("{count} numbers of clients were asked for, the limit is {most}; ask for fewer (--clients)")]
    TooManyNumbers { count: usize, most: usize },
    #[error(
        "'{0}' belongs to mode 'fixed-freq', not to 'bench', which calls as fast as it is answered; leave '{0}' or mode \
         out"
    )]
    PaceOfBench(&'static str),
    #[error(
        "round trips at a rate or in bursts have 1 follower, {0} were asked for; leave --followers, or --rate and \
         --demand, out"
    )]
    FollowersAtRate(u32),
    #[error("{topics} topics were asked for; ask for 1 to {most} (--topics)")]
    Topics { topics: u32, most: u32 },
    #[error("{publishers} publishers were asked for; ask for 1 to {most} (--publishers)")]
    Publishers { publishers: u32, most: u32 },
    #[error(
        "{publishers} publishers and {topics} topics were asked for, and several publishers have one topic; leave \
         --publishers or --topics out"
    )]
    PublishersAndTopics { publishers: u32, topics: u32 },
    #[error(
        "a topic of it has 1 publisher, {publishers} were asked for; choose one of {can}, or ask for 1 (--publishers)"
    )]
    OnePublisher { publishers: u32, can: String },
    #[error(
        "{played}: the pattern is 'channel' or 'rpc', a topic of each publisher or client, not '{pattern}'; choose one of \
         these"
    )]
    RecordingPattern { played: Played, pattern: Pattern },
    #[error(
        "there are {topics} topics, each a client, and at most {most} clients; publish the topics (without --as-calls, \
         pattern 'channel'), or leave some out"
    )]
    RecordingClients { topics: usize, most: u32 },
    #[error("{what} and {played} exclude each other: {why}; leave {what} out")]
    RecordingSays { what: &'static str, played: Played, why: &'static str },
    #[error("a recording and {played} exclude each other; leave one of them out", played = Played::Topics)]
    RecordingAndTopics,
    #[error("{0} topics are named, more than {MOST_TOPICS}, as each needs a thread on both sides (--topic)")]
    NamedTopics(usize),
    #[error(
        "a topic's name '{name}' has {bytes} bytes, and a name has 1 to {MOST_SAID_BYTES} bytes and no control characters \
         (--topic NAME:SIZE:RATE)"
    )]
    TopicName { name: String, bytes: usize },
    #[error("topic '{0}' is named twice; give each topic its own name (--topic NAME:SIZE:RATE)")]
    TopicTwice(String),
    #[error("topic '{topic}': {problem}")]
    OfTopic { topic: String, problem: Box<Problem> },
    #[error(
        "{hz} messages per second are fewer than 2 messages in {seconds} s; publish for longer (--duration), or raise \
         its rate"
    )]
    FewOfTopic { hz: f64, seconds: f64 },
    #[error(
        "the topics have {messages} messages in {seconds} s, more than {MOST_MESSAGES}; publish for a shorter time \
         (--duration), or lower the rates"
    )]
    MessagesOfTopics { messages: u64, seconds: f64 },
    #[error(
        "a sub-experiment has a duration_s of its own, {0} s, and topics have one for all; set that of the experiment"
    )]
    DurationOfTopics(f64),
    #[error(
        "topic '{topic}' has messages of {payload} bytes ({}), more than {limit} bytes, the most that it can carry \
         here{}; choose another transport, or leave the topic out",
        display_size(*.payload), because(daemon.as_deref())
    )]
    RecordedOverLimit { topic: String, payload: u64, limit: u64, daemon: Option<String> },
    #[error("the largest messages are {payload} bytes, on topic '{topic}' (of {topics}): {error}")]
    RecordingRefused { topics: usize, topic: String, payload: u64, error: Box<RegistryError> },
    #[error("pattern 'channel' is one way by itself; leave 'one_way' out")]
    OneWayAlready,
    #[error(
        "latency one way under throughput needs memory for each follower, {followers} followers were asked for and at most \
         {most} can be; ask for fewer (--followers), or leave --one-way out"
    )]
    FollowersOneWay { followers: u32, most: u32 },
    #[error("pattern 'throughput' keeps no samples: leave 'samples_above' out")]
    NoSamplesAbove,
    #[error("{0} exclude each other; give one of them")]
    OffersExclude(String),
    #[error("a recovery time was given, but no burst that it belongs to; add --demand, or leave --recovery out")]
    RecoveryAlone,
    #[error("'{text}' is not {what}")]
    NotALoad { text: String, what: &'static str },
    #[error(
        "{count} trials of each payload were asked for, the limit is {most}; ask for fewer (--rate, --demand, --recovery)"
    )]
    TooManyOffers { count: usize, most: usize },
    #[error("trial {trial} is the same as one before it; write each only once ({flags}), --rounds N repeats them all")]
    OfferTwice { flags: &'static str, trial: usize },
    #[error(
        "it cannot be scheduled by '{sched}': {why}; allow it (`ulimit -r {most}` as root, 'rtprio' in \
         /etc/security/limits.conf, or the capability CAP_SYS_NICE), or leave --sched out", most = MOST_PRIORITY + 1
    )]
    NoRealTime { sched: Sched, why: String },
    #[error(
        "loops that poll under '{sched}' would keep all {cpus} CPUs that they may use for themselves, as \
         kernel.sched_rt_runtime_us is -1; set it to 950000, or wait by block (--wait)"
    )]
    Starves { sched: Sched, cpus: usize },
    #[error(
        "loops that poll under '{sched}' need a CPU each, and several have CPU {cpu}, where one would keep the others from running; \
         choose others (--leader-cpu, --follower-cpu), have fewer links, or wait by block (--wait)"
    )]
    TakesTurns { sched: Sched, cpu: usize },
    #[error(
        "{loops} loops that poll under '{sched}' need a CPU each, and they have {cpus} (--cpus); name more, or wait by block \
         (--wait)"
    )]
    FewOfCpus { sched: Sched, loops: usize, cpus: usize },
    #[error(
        "{threads} loops that poll under '{sched}' need a CPU each, and they may use {cpus}; ask for fewer of both sides, or \
         wait by block (--wait)"
    )]
    TooFewCpus { sched: Sched, threads: usize, cpus: usize },
    #[error("a trial of {0} s is not above 0 and up to 86400 s (--duration)")]
    Duration(f64),
    #[error("it cannot carry pattern '{pattern}', only {can}")]
    Pattern { pattern: Pattern, can: String },
    #[error("it cannot wait by '{wait}', only by {can}; choose one of those (--wait)")]
    Wait { wait: Wait, can: String },
    #[error("it declares no way to wait; fix the plugin")]
    NoWait,
    #[error(
        "a payload of {payload} bytes ({}) is larger than {limit} bytes, the most that it can carry here{}; ask for less \
         (--payloads)", display_size(*.payload), because(daemon.as_deref())
    )]
    PayloadOverLimit { payload: u64, limit: u64, daemon: Option<String> },
    #[error("its daemon '{daemon}' is not running; start it, or let tripmeter start it (--daemons start)")]
    DaemonRequired { daemon: String },
    #[error("its daemon '{daemon}' is not running, and '{program}' is not found in PATH to start it{remedy}")]
    DaemonMissing { daemon: String, program: String, remedy: String },
    #[error("the name '{0}' is not of 1 to 100 letters, digits and '_.=-', beginning with a letter, digit, '_' or '='")]
    Name(String),
    #[error("the name '{name}' is taken by '{other}'; give each its own with `name = \"...\"`")]
    NameTaken { name: String, other: String },
    #[error("it stands for {0} transports, which cannot share one name or title; leave these out, or name the variant")]
    NameForSeveral(usize),
    #[error("this sub-experiment is the same as number {0}; leave one out")]
    Repeated(usize),
    #[error("it is no workload of pattern '{0}'")]
    WorkloadOf(Pattern),
    #[error("it is not what the plan's recording has")]
    NotTheRecording,
    #[error("{cpus} CPUs for {followers} followers; each has one, or none has")]
    CpusOfFollowers { cpus: usize, followers: u32 },
    #[error("no experiment can ask for it")]
    NotAskedFor,
}

/// Phrase for some patterns: `pattern 'rpc'`, or `patterns …`.
fn patterns(having: &[Pattern]) -> String {
    let named: Vec<String> = having.iter().map(|pattern| format!("'{pattern}'")).collect();
    match &named[..] {
        [most @ .., last] if !most.is_empty() => format!("patterns {} and {last}", most.join(", ")),
        _ => format!("pattern {}", named.concat()),
    }
}

fn one_of(having: &[Pattern]) -> String {
    if let [one] = having { format!("pattern = \"{one}\"") } else { "one of these".to_owned() }
}

impl Problem {
    pub fn exit_code(&self) -> u8 {
        match self {
            Problem::Registry(error) => error.exit_code(),
            Problem::RecordingRefused { error, .. } => error.exit_code(),
            Problem::NothingLeft { code, .. } => *code,
            Problem::DaemonRequired { .. } | Problem::DaemonMissing { .. } => exit::UNAVAILABLE,
            Problem::NoRealTime { .. } | Problem::Starves { .. } | Problem::TooFewCpus { .. } => exit::UNAVAILABLE,
            Problem::NoCpus(_) => exit::SOFTWARE,
            Problem::NoScratch(_) | Problem::NoRoomForLog { .. } | Problem::LogOverLimit { .. } => exit::CANNOT_CREATE,
            _ => exit::USAGE,
        }
    }

    /// True if the cause is this machine, and not the experiment.
    pub(super) fn is_of_this_machine(&self) -> bool {
        match self {
            Problem::Registry(RegistryError::Refused(error)) => error.status != Status::Invalid,
            Problem::Registry(error) => {
                !matches!(error, RegistryError::Unknown { .. } | RegistryError::NoProber { .. })
            }
            Problem::DaemonRequired { .. } | Problem::DaemonMissing { .. } | Problem::PayloadOverLimit { .. } => true,
            Problem::RecordedOverLimit { .. } | Problem::RecordingRefused { .. } => true,
            Problem::NoRoomForLog { .. } | Problem::LogOverLimit { .. } => true,
            // Other transports wait in other ways.
            Problem::Starves { .. } | Problem::TooFewCpus { .. } => true,
            _ => false,
        }
    }

    /// True if other transports may be able to do it.
    pub(super) fn is_of_the_transport(&self) -> bool {
        matches!(
            self,
            Problem::NoFanOut(_)
                | Problem::OneHost { .. }
                | Problem::OnePublisher { .. }
                | Problem::Pattern { .. }
                | Problem::Wait { .. }
        )
    }
}

pub(super) fn listed<T: ToString>(words: impl IntoIterator<Item = T>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| word.to_string()).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

/// Cause of a limit, and what to do: a running daemon, or too little shared memory.
fn because(daemon: Option<&str>) -> String {
    match (daemon, os::shared_memory()) {
        (Some(daemon), _) => format!(
            ", because the '{daemon}' that is running was set up for no more; wait for the experiment that started it, or \
             stop it"
        ),
        (None, Some(lack)) => format!(", as {lack}"),
        (None, None) => String::new(),
    }
}

/// Reason why a transport does not reach other hosts.
fn only_here(path: Path) -> String {
    match path {
        Path::Tcp | Path::Udp => "it finds its peers on this host only".to_owned(),
        _ => format!("its messages travel through {path}, which another host has no part in"),
    }
}
