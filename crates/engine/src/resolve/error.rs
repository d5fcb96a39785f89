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

    /// Problem with one transport. Its name as written is added, unless the message has it already.
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
    #[error("the experiment has nothing to measure; name transports, or add [[sub_experiment]] to the file")]
    NoSubExperiment,
    #[error("none of the requested transports can run here: {}", lines.join(" | "))]
    NothingLeft { lines: Vec<String>, code: u8 },
    #[error("{0} rounds are outside the limits of 1 to {most} (--rounds)", most = MOST_ROUNDS)]
    Rounds(u32),
    #[error(
        "{rounds} rounds of {trials} trials make {}, but results hold at most {most}; use fewer rounds (--rounds), \
         transports, payloads or loads", u64::from(*rounds) * trials, most = MOST_TRIALS
    )]
    TooManyTrials { rounds: u32, trials: u64 },
    #[error("a time of {0} s for all rounds must be above 0 and at most 10000000 s (--for)")]
    For(f64),
    #[error("--rounds and --for exclude each other; leave one of them out")]
    RoundsAndFor,
    #[error("--keep-samples 0 keeps no samples; keep 1 or more, or use --raw none")]
    KeepNoSamples,
    #[error(
        "--keep-samples needs several rounds, but there is one round; use more (--rounds, --for), or leave \
         --keep-samples out"
    )]
    KeepSamplesOfOne,
    #[error("there are no samples to keep, as --raw none writes none; leave --keep-samples or --raw none out")]
    KeepSamplesOfNone,
    #[error("{0} attempts are outside the limits of 1 to {most} (--attempts)", most = super::defaults::MOST_ATTEMPTS)]
    Attempts(u32),
    #[error(
        "a seed of {0} exceeds {MOST_COUNT}, the largest whole number that JSON keeps exactly; use a smaller one \
         (--seed)"
    )]
    Seed(u64),
    #[error("a loss time-out of {0} s is outside 0.001 to 600 s (--loss-timeout)")]
    LossTimeout(f64),
    #[error("a time cap of {0} s per payload must be above 0 and at most 1000000 s (--time-cap)")]
    TimeCap(f64),
    #[error("{followers} followers are outside the limits of 1 to {most} (--followers; `choose`: --subscribers)")]
    Followers { followers: u32, most: u32 },
    #[error(
        "{followers} followers and {publishers} publishers: only one side may have several; leave out --followers or \
         --publishers"
    )]
    FollowersAndPublishers { followers: u32, publishers: u32 },
    #[error(
        "pattern '{pattern}' has one follower, but {followers} were requested; leave --followers out, or measure another \
         pattern"
    )]
    OneFollower { pattern: &'static str, followers: u32 },
    #[error(
        "with {0} followers, the arrivals of all samples must be kept in memory; leave out `--raw none`, or use \
         --followers 1"
    )]
    FollowersWithoutRaw(u32),
    #[error(
        "it delivers each message to one follower only, but {0} were requested; use a transport that `tripmeter list` \
         shows with 'fan-out', or --followers 1 (`choose`: --subscribers 1)"
    )]
    NoFanOut(u32),
    #[error(
        "{}{}",
        only_here(*path),
        can.as_ref().map_or_else(String::new, |can| format!("; choose from {can}, or leave --to out"))
    )]
    OneHost { path: Path, can: Option<String> },
    #[error("it measures between two hosts; name the other host (--to)")]
    NeedsHost,
    #[error("'{0}' is not a host name for ssh: write USER@HOST, or a name from ~/.ssh/config (--to)")]
    NoHost(String),
    #[error("a host of --to has a password, which the results would record; let ssh log in with a key")]
    HostPassword,
    #[error("--interface and --to-interface require --to, which names the other host")]
    InterfaceOfNoHost,
    #[error("{interfaces} interfaces for {hosts} hosts; give one for all, or one for each (--to-interface)")]
    Interfaces { interfaces: usize, hosts: usize },
    #[error(
        "{followers} {} requested, but there {}; each host has one follower, so leave --followers out",
        if *followers == 1 { "follower was" } else { "followers were" },
        if *hosts == 1 { "is 1 host".to_owned() } else { format!("are {hosts} hosts") }
    )]
    FollowersOfHosts { followers: u32, hosts: usize },
    #[error("a clock error of {0} µs must be above 0 and at most 1000000 µs (--max-clock-error)")]
    ClockError(f64),
    #[error("pattern 'log' runs on one host; leave --to out")]
    HostsOfLog,
    #[error("one-way latency needs all samples in memory; leave out `--raw none` or --one-way")]
    OneWayWithoutRaw,
    #[error(
        "`--raw eprosima` needs round trips one after the other, but none are measured; use `--raw samples`, or \
         pattern 'ping' without a rate"
    )]
    NoRoundTrips,
    #[error("0 samples are too few; use 1 or more (-n)")]
    NoSamples,
    #[error("{samples} round trips per payload exceed the limit of {most}; use fewer (-n, --warmup)")]
    TooManySamples { samples: u64, most: u64 },
    #[error(
        "{samples} samples per payload exceed the limit of {most} for keeping all of them; use fewer (-n), or keep \
         only histograms (--raw none)"
    )]
    TooManyRawSamples { samples: u64, most: u64 },
    #[error(transparent)]
    Payload(#[from] PayloadError),
    #[error("CPU {cpu} for the {role} does not exist or is not allowed for this process; choose one of {allowed}")]
    Cpu { role: &'static str, cpu: usize, allowed: String },
    #[error("'{0}' is not a list of CPUs such as 0-2 or 0,2 (--cpus)")]
    NotCpus(String),
    #[error("CPU {cpu} does not exist or is not allowed for this process; choose from {allowed} (--cpus)")]
    CpuOfList { cpu: usize, allowed: String },
    #[error("--cpus lets the kernel choose from a list; leave out --cpus, or --leader-cpu and --follower-cpu")]
    CpusAndCpu,
    #[error(
        "'--cpus' belongs to patterns 'publish', 'call' and 'log' and to several clients, not to one link under '{0}'; use \
         --leader-cpu and --follower-cpu"
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
    #[error("none of the transports has a setting '{0}'; `tripmeter list` lists their settings")]
    UnusedSetting(String),
    #[error("'{flag}' belongs to {}, not to '{pattern}'; set {}, or leave it out", patterns(having), one_of(having))]
    FlagOf { flag: &'static str, pattern: Pattern, having: Vec<Pattern> },
    #[error("'{0}' does not apply to pattern 'log', where one process logs whole lines; leave it out")]
    NotInLog(&'static str),
    #[error("its path is '{0}', but lines go to a file or a pipe; fix the plugin")]
    LogPath(tripmeter_model::Path),
    #[error(
        "its lines need {needed} in a file, but '{folder}' has {free} left; free some space, set TMPDIR to another \
         folder, or log less (-n, --payloads)"
    )]
    NoRoomForLog { needed: String, free: String, folder: String },
    #[error(
        "its lines need {needed} in a file, but files are limited to {limit} bytes; raise that (ulimit -f), or log \
         less (-n, --payloads)"
    )]
    LogOverLimit { needed: String, limit: u64 },
    #[error("'{text}' is not a number of clients from 1 to {most} (--clients)")]
    Clients { text: String, most: u32 },
    #[error("{count} numbers of clients exceed the limit of {most}; give fewer (--clients)")]
    TooManyNumbers { count: usize, most: usize },
    #[error(
        "'{0}' belongs to mode 'fixed-freq', not to 'bench', which calls as fast as answers come; leave '{0}' or the \
         mode out"
    )]
    PaceOfBench(&'static str),
    #[error(
        "round trips at a rate, in bursts or with several clients have one follower, but {0} were requested; leave out \
         --followers, or --rate, --demand and --clients"
    )]
    FollowersAtRate(u32),
    #[error("{topics} topics are outside the limits of 1 to {most} (--topics)")]
    Topics { topics: u32, most: u32 },
    #[error("{publishers} publishers are outside the limits of 1 to {most} (--publishers)")]
    Publishers { publishers: u32, most: u32 },
    #[error(
        "{publishers} publishers and {topics} topics: several publishers share one topic; leave --publishers or \
         --topics out"
    )]
    PublishersAndTopics { publishers: u32, topics: u32 },
    #[error("it allows one publisher per topic, but {publishers} were requested; use one of {can}, or --publishers 1")]
    OnePublisher { publishers: u32, can: String },
    #[error(
        "{played}: the pattern must be 'publish' or 'call', with a topic for each publisher or client, not \
         '{pattern}'; choose one of these"
    )]
    RecordingPattern { played: Played, pattern: Pattern },
    #[error(
        "there are {topics} topics, but at most {most} can be clients; leave out --as-calls (pattern 'call'), or some of the \
         topics"
    )]
    RecordingClients { topics: usize, most: u32 },
    #[error("{what} and {played} exclude each other: {why}; leave {what} out")]
    RecordingSays { what: &'static str, played: Played, why: &'static str },
    #[error("a recording and {played} exclude each other; leave one of them out", played = Played::Topics)]
    RecordingAndTopics,
    #[error("{0} topics exceed the limit of {MOST_TOPICS}, as each needs a thread on both sides (--topic)")]
    NamedTopics(usize),
    #[error(
        "the topic name '{name}' has {bytes} bytes; a name must have 1 to {MOST_SAID_BYTES} bytes and no control \
         characters (--topic NAME:SIZE:RATE)"
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
    #[error("a sub-experiment has a duration_s of its own, {0} s, but all topics share one; set it for the experiment")]
    DurationOfTopics(f64),
    #[error(
        "topic '{topic}' has messages of {payload} bytes ({}), above the limit of {limit} bytes here{}; choose another \
         transport, or leave the topic out",
        display_size(*.payload), because(daemon.as_deref())
    )]
    RecordedOverLimit { topic: String, payload: u64, limit: u64, daemon: Option<String> },
    #[error("the largest messages are {payload} bytes, on topic '{topic}' (one of {topics} topics): {error}")]
    RecordingRefused { topics: usize, topic: String, payload: u64, error: Box<RegistryError> },
    #[error("pattern 'publish' always measures one-way latency; leave 'one_way' out")]
    OneWayAlready,
    #[error(
        "one-way latency under throughput needs memory for each stream at each follower, and {streams} exceed the limit \
         of {most}; use fewer (--followers, --topics, --publishers), or leave --one-way out"
    )]
    TooManyTimed { streams: u32, most: u32 },
    #[error("pattern 'throughput' keeps no samples: leave 'samples_above' out")]
    NoSamplesAbove,
    #[error("{0} exclude each other; give one of them")]
    OffersExclude(String),
    #[error("a recovery time requires bursts; add --demand, or leave --recovery out")]
    RecoveryAlone,
    #[error("'{text}': {what}")]
    NotALoad { text: String, what: &'static str },
    #[error("{count} trials of each payload exceed the limit of {most}; use fewer (--rate, --demand, --recovery)")]
    TooManyOffers { count: usize, most: usize },
    #[error("trial {trial} repeats an earlier one; give each only once ({flags}), as --rounds N repeats them all")]
    OfferTwice { flags: &'static str, trial: usize },
    #[error(
        "it cannot be scheduled as '{sched}': {why}; allow it (`ulimit -r {most}` as root, 'rtprio' in \
         /etc/security/limits.conf, or the capability CAP_SYS_NICE), or leave --sched out", most = MOST_PRIORITY + 1
    )]
    NoRealTime { sched: Sched, why: String },
    #[error(
        "polling loops under '{sched}' would occupy all {cpus} CPUs that they may use, as kernel.sched_rt_runtime_us \
         is -1; set it to 950000, or use --wait block"
    )]
    Starves { sched: Sched, cpus: usize },
    #[error(
        "polling loops under '{sched}' need a CPU each, but several share CPU {cpu}, where one would keep the others \
         from running; choose others (--leader-cpu, --follower-cpu), use fewer links, or --wait block"
    )]
    TakesTurns { sched: Sched, cpu: usize },
    #[error(
        "{loops} polling loops under '{sched}' need a CPU each, but there are {cpus} (--cpus); name more, or use \
         --wait block"
    )]
    FewOfCpus { sched: Sched, loops: usize, cpus: usize },
    #[error(
        "{threads} polling loops under '{sched}' need a CPU each, but may use only {cpus}; use fewer on both sides, or \
         --wait block"
    )]
    TooFewCpus { sched: Sched, threads: usize, cpus: usize },
    #[error("a trial duration of {0} s must be above 0 and at most 86400 s (--duration)")]
    Duration(f64),
    #[error("it cannot carry pattern '{pattern}', only {can}")]
    Pattern { pattern: Pattern, can: String },
    #[error("it cannot wait by '{wait}', only by {can}; choose one of these (--wait)")]
    Wait { wait: Wait, can: String },
    #[error("it declares no way to wait; fix the plugin")]
    NoWait,
    #[error(
        "a payload of {payload} bytes ({}) exceeds the limit of {limit} bytes here{}; use a smaller one \
         (--payloads)", display_size(*.payload), because(daemon.as_deref())
    )]
    PayloadOverLimit { payload: u64, limit: u64, daemon: Option<String> },
    #[error("its daemon '{daemon}' is not running; start it, or let tripmeter start it (--daemons start)")]
    DaemonRequired { daemon: String },
    #[error("its daemon '{daemon}' is not running, and '{program}', which would start it, is not in PATH{remedy}")]
    DaemonMissing { daemon: String, program: String, remedy: String },
    #[error("the name '{0}' must have 1 to 100 letters, digits and '_.=-', and begin with a letter, digit, '_' or '='")]
    Name(String),
    #[error("the name '{name}' is taken by '{other}'; give each its own with `name = \"...\"`")]
    NameTaken { name: String, other: String },
    #[error(
        "it matches {0} transports, which cannot share one name or title; leave name and title out, or name the variant"
    )]
    NameForSeveral(usize),
    #[error("this sub-experiment is the same as number {0}; leave one out")]
    Repeated(usize),
    #[error("it is not a workload of pattern '{0}'")]
    WorkloadOf(Pattern),
    #[error("it does not match the plan's recording")]
    NotTheRecording,
    #[error("{cpus} CPUs for {followers} followers; give one for each, or none")]
    CpusOfFollowers { cpus: usize, followers: u32 },
    #[error("no experiment can set it")]
    NotAskedFor,
}

/// Phrase for some patterns: `pattern 'call'`, or `patterns …`.
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

    /// True if the cause is the transport or this machine, so that the other transports can still be measured.
    pub(super) fn is_of_the_transport(&self) -> bool {
        match self {
            Problem::Registry(RegistryError::Refused(error)) => error.status != Status::Invalid,
            Problem::Registry(error) => {
                !matches!(error, RegistryError::Unknown { .. } | RegistryError::NoProber { .. })
            }
            Problem::DaemonRequired { .. } | Problem::DaemonMissing { .. } | Problem::PayloadOverLimit { .. } => true,
            Problem::RecordedOverLimit { .. } | Problem::RecordingRefused { .. } => true,
            Problem::NoRoomForLog { .. } | Problem::LogOverLimit { .. } => true,
            Problem::Starves { .. } | Problem::TooFewCpus { .. } | Problem::NoRealTime { .. } => true,
            Problem::NoFanOut(_) | Problem::OneHost { .. } | Problem::OnePublisher { .. } => true,
            Problem::Pattern { .. } | Problem::Wait { .. } => true,
            _ => false,
        }
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
            ", because the running '{daemon}' was set up for no more; wait for the experiment that started it, or stop \
             it"
        ),
        (None, Some(lack)) => format!(", as {lack}"),
        (None, None) => String::new(),
    }
}

/// Reason why a transport does not reach other hosts.
fn only_here(path: Path) -> String {
    match path {
        Path::Tcp | Path::Udp => "it finds peers only on this host".to_owned(),
        _ => format!("its messages travel through {path}, which does not reach another host"),
    }
}
