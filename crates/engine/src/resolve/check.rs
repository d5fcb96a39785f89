//! Checks a plan against its limits, whether it comes from an experiment or from the manifest of a results folder.

use super::defaults::MOST_ATTEMPTS;
use super::error::{PlanError, Problem};
use super::machine::Machine;
use super::{call, load, real_time, topics, topology};
use thiserror::Error;
use tripmeter_model::count::MOST_COUNT;
use tripmeter_model::pattern::{Axis, PatternFacts};
use tripmeter_model::payload;
use tripmeter_model::plan::{Host, MOST_ROUNDS, Plan, Raw, SubExperiment};
use tripmeter_model::recording::{LONGEST_NS, MOST_MESSAGES, MOST_TOPICS, Recording};
use tripmeter_model::secret::has_password;
use tripmeter_model::workload::{Recorded, Workload};

const MOST_SAMPLES: u64 = 1_000_000_000_000;
/// Largest number of raw samples over all links and followers.
const MOST_RAW_SAMPLES: u64 = 100_000_000;
/// Largest number of followers of a saturating stream that record arrivals. Each needs about 25 MB of memory.
const MOST_TIMED: u32 = 16;

#[derive(Debug, Error)]
#[error("the key '{field}': {problem}")]
pub struct OutOfBounds {
    /// Path in the manifest, such as `plan.sub_experiments[0].workload.followers`.
    pub field: String,
    pub problem: Box<Problem>,
    sub: Option<usize>,
}

impl OutOfBounds {
    fn at(field: &str, problem: Problem) -> Self {
        Self { field: format!("plan.{field}"), problem: Box::new(problem), sub: None }
    }

    pub(super) fn into_plan_error(self, plan: &Plan) -> PlanError {
        match self.sub.and_then(|sub| plan.sub_experiments.get(sub)) {
            Some(sub) => PlanError::at(&sub.transport.to_string(), *self.problem),
            None => PlanError::anywhere(*self.problem),
        }
    }
}

/// Adds the name of the field to a problem.
trait InField {
    fn in_field(self, field: impl Into<String>) -> Result<(), (String, Problem)>;
}

impl<E: Into<Problem>> InField for Result<(), E> {
    fn in_field(self, field: impl Into<String>) -> Result<(), (String, Problem)> {
        self.map_err(|problem| (field.into(), problem.into()))
    }
}

/// Checks a plan's numbers against their limits, and its CPUs against this machine, before anything is started or
/// allocated.
pub fn check_plan(plan: &Plan) -> Result<(), OutOfBounds> {
    let machine = Machine::this().map_err(|problem| OutOfBounds::at("leader_cpu", problem))?;
    check_on(&machine, plan)
}

pub(super) fn check_on(machine: &Machine, plan: &Plan) -> Result<(), OutOfBounds> {
    whole(machine, plan).map_err(|(field, problem)| OutOfBounds::at(&field, problem))?;
    for (sub, planned) in plan.sub_experiments.iter().enumerate() {
        one(machine, plan, planned).map_err(|(field, problem)| OutOfBounds {
            sub: Some(sub),
            ..OutOfBounds::at(&format!("sub_experiments[{sub}].{field}"), problem)
        })?;
    }
    Ok(())
}

/// Checks the fields of the whole plan.
fn whole(machine: &Machine, plan: &Plan) -> Result<(), (String, Problem)> {
    if plan.sub_experiments.is_empty() {
        return Err(Problem::NoSubExperiment).in_field("sub_experiments");
    }
    rounds(plan)?;
    plan.for_ns.map_or(Ok(()), |ns| for_time(ns as f64 / 1e9)).in_field("for_ns")?;
    attempts(plan.attempts).in_field("attempts")?;
    loss_timeout(plan.loss_timeout_ns as f64 / 1e9).in_field("loss_timeout_ns")?;
    machine.place(plan.leader_cpu, None).map(drop).in_field("leader_cpu")?;
    machine.place(None, plan.follower_cpu).map(drop).in_field("follower_cpu")?;
    machine.has(&plan.cpus).in_field("cpus")?;
    for (at, host) in plan.hosts.iter().enumerate() {
        self::host(&host.to).in_field(format!("hosts[{at}].to"))?;
    }
    match plan.max_clock_error_ns as f64 / 1e3 {
        us if plan.hosts.is_empty() && us > 0.0 => Err(Problem::NeedsHost),
        us if !plan.hosts.is_empty() => clock_error(us),
        _ => Ok(()),
    }
    .in_field("max_clock_error_ns")?;
    if plan.raw.eprosima && !plan.sub_experiments.iter().any(|sub| sub.workload.is_round_trips()) {
        return Err(Problem::NoRoundTrips).in_field("raw");
    }
    plan.recording.as_ref().map_or(Ok(()), recording).in_field("recording")
}

fn one(machine: &Machine, plan: &Plan, sub: &SubExperiment) -> Result<(), (String, Problem)> {
    let (workload, raw, facts) = (&sub.workload, plan.raw, sub.facts());
    payload::check_list(&sub.payloads).in_field("payloads")?;
    workload_of(plan, sub)?;
    load::check_of(sub.allowed(), workload).in_field("workload.loads")?;
    hosts(&plan.hosts, raw, facts, workload, sub.one_way).in_field("pattern")?;
    samples_above(!sub.samples_above.is_empty(), workload).in_field("samples_above")?;
    // A saturating workload has no number of samples.
    let unused = u64::from(workload.is_saturating());
    samples([sub.samples.max(unused)], 0, workload, raw).in_field("samples")?;
    samples(sub.samples_above.iter().map(|above| above.samples), 0, workload, raw).in_field("samples_above")?;
    samples([1], sub.warmup, workload, raw).in_field("warmup")?;
    one_way(sub.one_way, workload, raw).in_field("one_way")?;
    sub.time_cap_ns.map_or(Ok(()), |ns| time_cap(ns as f64 / 1e9)).in_field("time_cap_ns")?;
    let (cpus, followers) = (sub.follower_cpus.len(), workload.followers());
    if cpus != 0 && cpus != followers as usize {
        return Err(Problem::CpusOfFollowers { cpus, followers }).in_field("follower_cpus");
    }
    machine.has(&sub.follower_cpus).in_field("follower_cpus")?;
    real_time::takes_turns(plan, sub).in_field("sched")?;
    // Only other commands set these, and their runs are not resumed from here.
    let others = [
        ("environment", sub.environment.is_empty()),
        ("answer_delay_ns", sub.answer_delay_ns == 0),
        ("instrument", sub.instrument.is_none()),
    ];
    let other = others.into_iter().find(|(_, is_unset)| !is_unset);
    other.map_or(Ok(()), |(field, _)| Err(Problem::NotAskedFor).in_field(field))
}

fn workload_of(plan: &Plan, sub: &SubExperiment) -> Result<(), (String, Problem)> {
    let SubExperiment { pattern, workload, .. } = sub;
    let topology = &workload.topology;
    let numbers = topology::check(topology.topics, topology.publishers);
    let field = if matches!(numbers, Err(Problem::Topics { .. })) { "topics" } else { "publishers" };
    numbers.in_field(format!("workload.{field}"))?;
    call::clients(topology.clients).in_field("workload.clients")?;
    followers(sub.facts(), workload, plan.raw).in_field("workload.followers")?;
    workload.timeout_ns.map_or(Ok(()), |ns| loss_timeout(ns as f64 / 1e9)).in_field("workload.timeout_ns")?;
    let most_messages = workload.most_messages;
    samples(most_messages, 0, workload, plan.raw).in_field("workload.most_messages")?;
    workload.duration_ns.map_or(Ok(()), |ns| load::duration(ns as f64 / 1e9)).in_field("workload.duration_ns")?;
    if sub.allowed().is_none() {
        return Err(Problem::WorkloadOf(*pattern)).in_field("workload");
    }
    let recorded = plan.recording.as_ref().map(|recording| {
        let links = recording.topics.len();
        (Recorded { messages: recording.messages, duration_ns: recording.played_ns() }, links)
    });
    match workload.recorded.map(|recorded| (recorded, workload.links() as usize)) == recorded {
        true => Ok(()),
        false => Err(Problem::NotTheRecording).in_field("workload.recorded"),
    }
}

/// Checks the number of rounds, and the number of rounds that keep samples. Commands that change the rounds of a plan
/// call it again.
pub fn check_rounds(plan: &Plan) -> Result<(), PlanError> {
    rounds(plan).map_err(|(_, problem)| PlanError::anywhere(problem))
}

fn rounds(plan: &Plan) -> Result<(), (String, Problem)> {
    let (rounds, trials) = (plan.rounds, plan.trials_of_round());
    let number = match rounds {
        _ if !(1..=MOST_ROUNDS).contains(&rounds) => Err(Problem::Rounds(rounds)),
        _ if rounds > plan.most_rounds() => Err(Problem::TooManyTrials { rounds, trials }),
        _ => Ok(()),
    };
    number.in_field("rounds")?;
    let kept = match plan.keep_samples {
        Some(0) => Err(Problem::KeepNoSamples),
        Some(_) if !plan.has_round_folders() => Err(Problem::KeepSamplesOfOne),
        Some(_) if plan.raw.is_none() => Err(Problem::KeepSamplesOfNone),
        _ => Ok(()),
    };
    kept.in_field("keep_samples")
}

fn recording(recording: &Recording) -> Result<(), Problem> {
    let Recording { messages, duration_ns, topics, speed, .. } = recording;
    let is_bounded = *messages <= MOST_MESSAGES && *duration_ns <= LONGEST_NS && topics.len() <= MOST_TOPICS;
    match is_bounded && *speed > 0.0 {
        true if recording.has_file() => Ok(()),
        true => topics::check(recording),
        false => Err(Problem::NotTheRecording),
    }
}

/// Checks that `samples_above` is given only if the workload has a number of samples to replace.
pub(super) fn samples_above(are_given: bool, workload: &Workload) -> Result<(), Problem> {
    if are_given && workload.is_saturating() { Err(Problem::NoSamplesAbove) } else { Ok(()) }
}

pub(super) fn samples(
    counts: impl IntoIterator<Item = u64>,
    warmup: u64,
    workload: &Workload,
    raw: Raw,
) -> Result<(), Problem> {
    // Each link and follower has its own samples; links of a recording share its messages.
    let links = if workload.is_recorded() { 1 } else { workload.links() };
    let each = links.saturating_mul(workload.followers());
    let keeps_each = !raw.is_none() && !workload.is_saturating();
    counts.into_iter().try_for_each(|samples| match samples {
        0 => Err(Problem::NoSamples),
        _ if samples.max(warmup) > MOST_SAMPLES => {
            Err(Problem::TooManySamples { samples: samples.max(warmup), most: MOST_SAMPLES })
        }
        _ if samples.saturating_mul(each.into()) > MOST_RAW_SAMPLES && keeps_each => {
            Err(Problem::TooManyRawSamples { samples, most: MOST_RAW_SAMPLES / u64::from(each) })
        }
        _ => Ok(()),
    })
}

/// Checks the number of followers. Round trips to several followers need arrivals, and so raw samples.
pub(super) fn followers(facts: &PatternFacts, workload: &Workload, raw: Raw) -> Result<(), Problem> {
    let most = facts.most_followers;
    match workload.followers() {
        1 => Ok(()),
        followers if followers == 0 || followers > most => Err(Problem::Followers { followers, most }),
        _ if workload.is_log() => Err(Problem::NotInLog("followers")),
        followers if !facts.has_axis(Axis::Followers) => Err(Problem::OneFollower { pattern: facts.word(), followers }),
        followers if workload.is_call() => Err(Problem::FollowersAtRate(followers)),
        followers if workload.publishers() > 1 => {
            Err(Problem::FollowersAndPublishers { followers, publishers: workload.publishers() })
        }
        _ if workload.is_one_way() => Ok(()),
        followers if raw.is_none() => Err(Problem::FollowersWithoutRaw(followers)),
        _ => Ok(()),
    }
}

/// Checks that arrivals can be recorded, if one-way latencies are requested.
pub(super) fn one_way(is_asked: bool, workload: &Workload, raw: Raw) -> Result<(), Problem> {
    let streams = workload.links().saturating_mul(workload.followers());
    if is_asked && workload.is_saturating() && streams > MOST_TIMED {
        return Err(Problem::TooManyTimed { streams, most: MOST_TIMED });
    }
    if is_asked && workload.is_publication() {
        return Err(Problem::OneWayAlready);
    }
    // Calls and streams do not need raw samples: calls join arrivals by batches, and streams sample their messages.
    if is_asked && workload.is_round_trips() && raw.is_none() {
        return Err(Problem::OneWayWithoutRaw);
    }
    Ok(())
}

/// Checks that the workload supports followers on other hosts, if there are any.
pub(super) fn hosts(
    hosts: &[Host],
    raw: Raw,
    facts: &PatternFacts,
    workload: &Workload,
    is_one_way: bool,
) -> Result<(), Problem> {
    let followers = workload.followers();
    match hosts.len() {
        0 => Ok(()),
        _ if !facts.crosses_hosts => Err(Problem::HostsOfLog),
        _ if (is_one_way || workload.is_publication()) && raw.is_none() => Err(Problem::OneWayWithoutRaw),
        hosts if hosts != followers as usize => Err(Problem::FollowersOfHosts { followers, hosts }),
        _ => Ok(()),
    }
}

/// Checks a host name for ssh, which must not look like an option.
pub(super) fn host(to: &str) -> Result<(), Problem> {
    if has_password(to) {
        return Err(Problem::HostPassword);
    }
    let is_good = !to.is_empty() && !to.starts_with('-') && to.chars().all(|letter| letter.is_ascii_graphic());
    if is_good { Ok(()) } else { Err(Problem::NoHost(to.to_owned())) }
}

pub(super) fn attempts(attempts: u32) -> Result<(), Problem> {
    if (1..=MOST_ATTEMPTS).contains(&attempts) { Ok(()) } else { Err(Problem::Attempts(attempts)) }
}

pub(super) fn seed(seed: u64) -> Result<(), Problem> {
    if seed <= MOST_COUNT { Ok(()) } else { Err(Problem::Seed(seed)) }
}

pub(super) fn loss_timeout(seconds: f64) -> Result<(), Problem> {
    if (0.001..=600.0).contains(&seconds) { Ok(()) } else { Err(Problem::LossTimeout(seconds)) }
}

pub(super) fn for_time(seconds: f64) -> Result<(), Problem> {
    if seconds > 0.0 && seconds <= 1e7 { Ok(()) } else { Err(Problem::For(seconds)) }
}

pub(super) fn time_cap(seconds: f64) -> Result<(), Problem> {
    if seconds > 0.0 && seconds <= 1e6 { Ok(()) } else { Err(Problem::TimeCap(seconds)) }
}

pub(super) fn clock_error(us: f64) -> Result<(), Problem> {
    if us > 0.0 && us <= 1e6 { Ok(()) } else { Err(Problem::ClockError(us)) }
}
