//! Evaluation of the passes of `tripmeter explain`: parts of a message's time.

use std::collections::BTreeMap;
use tripmeter_model::explain::{
    CallCount, ExplainedTransport, ExplainedWait, Explanation, MessageCost, Parts, SCHEMA_VERSION, SystemCall,
};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::{Manifest, RunStatus, SubExperimentResult};
use tripmeter_model::metric::{Process, Stream};
use tripmeter_model::plan::{Instrument, SubExperiment};
use tripmeter_model::trial::Trial;
use tripmeter_model::{Touch, Wait};

/// Fewest calls per message to show: a worker's own calls are rarer, and their number varies between runs.
const RARE: f64 = 0.05;

/// Fewest additional messages in the longer traced pass: with fewer, the worker's own calls would weigh too much.
const FEWEST_TRACED: f64 = 40.0;

/// System calls by name, for both sides of a sub-experiment together.
pub type TracedCalls = BTreeMap<String, CallCount>;

/// Evaluates the passes of a run. `traced` contains, for each traced sub-experiment, its system calls or the reason
/// that there are none.
pub fn explain(manifest: &Manifest, traced: &BTreeMap<String, Result<TracedCalls, String>>) -> Explanation {
    let mut transports: Vec<Group<'_>> = Vec::new();
    for pass in &manifest.plan.sub_experiments {
        let name = pass.transport.to_string();
        let is_same =
            |group: &&mut Group<'_>| group.found.transport == name && group.found.is_floor == pass.added_as_floor;
        let group = match transports.iter_mut().find(is_same) {
            Some(group) => group,
            None => {
                let found = ExplainedTransport {
                    transport: name,
                    is_floor: pass.added_as_floor,
                    ..ExplainedTransport::default()
                };
                transports.push(Group { found, polls_on_shared_cpu: false, touched: None, traces: Vec::new() });
                transports.last_mut().expect("it has just been pushed")
            }
        };
        let result = manifest.sub_experiments.iter().find(|result| result.name == pass.name);
        group.polls_on_shared_cpu |= manifest.plan.polls_on_shared_cpu(pass);
        group.add(pass, result, traced.get(&pass.name));
    }
    Explanation {
        schema_version: SCHEMA_VERSION.to_owned(),
        payload_bytes: manifest
            .plan
            .sub_experiments
            .iter()
            .find_map(|pass| pass.payloads.first().copied())
            .unwrap_or(0),
        clock_read_ns: manifest.environment.clock.read_cost_ns,
        transports: transports.into_iter().map(Group::finish).collect(),
        no_system_calls: None,
        no_counters: None,
        are_counters_without_kernel: false,
    }
}

struct Group<'a> {
    found: ExplainedTransport,
    polls_on_shared_cpu: bool,
    /// Wait strategy and median latency of the pass that touches every byte.
    touched: Option<(Wait, f64)>,
    traces: Vec<(f64, &'a TracedCalls)>,
}

impl<'a> Group<'a> {
    fn add(
        &mut self,
        pass: &SubExperiment,
        result: Option<&SubExperimentResult>,
        traced: Option<&'a Result<TracedCalls, String>>,
    ) {
        let trial = result.and_then(|result| result.cells.last()).and_then(|cell| cell.trials.first());
        let is_whole = result.is_some_and(|result| result.status == RunStatus::Complete);
        let Some(trial) = trial.filter(|_| is_whole) else {
            let why = result.and_then(|result| result.error.as_deref()).unwrap_or("it did not finish");
            self.found.missing.push(format!("{}: {why}", pass.title));
            return;
        };
        let median = trial.of_all(Figure::RttHalf, Statistic::P50);
        match pass.instrument {
            None if pass.touch == Touch::Full => self.touched = median.map(|median| (pass.wait, median)),
            None => self.wait(pass.wait).undisturbed_ns = median,
            Some(Instrument::Stamps) => self.stamped(pass, trial),
            Some(Instrument::Counters) => {
                self.found.cost = cost(trial, result.is_some_and(|result| result.same_process));
            }
            Some(Instrument::SystemCalls) => match traced {
                Some(Ok(calls)) => self.traces.push((messages(trial), calls)),
                Some(Err(why)) => self.found.missing.push(format!("{}: {why}", pass.title)),
                None => {}
            },
        }
    }

    fn wait(&mut self, wait: Wait) -> &mut ExplainedWait {
        let waits = &mut self.found.waits;
        let at = waits.iter().position(|other| other.wait == wait).unwrap_or_else(|| {
            waits.push(ExplainedWait {
                wait,
                polls_on_shared_cpu: false,
                undisturbed_ns: None,
                parts: None,
                send_call_ns: None,
                sent_to_received_ns: None,
                receive_call_ns: None,
            });
            waits.len() - 1
        });
        &mut waits[at]
    }

    fn stamped(&mut self, pass: &SubExperiment, trial: &Trial) {
        let value = |figure| trial.value(&Stream::all(), figure);
        let Some(parts) = parts(value) else {
            self.found.missing.push(format!("{}: no round trip has all its time stamps", pass.title));
            return;
        };
        let wait = self.wait(pass.wait);
        wait.parts = Some(parts);
        wait.send_call_ns = value(Figure::SendCall);
        wait.sent_to_received_ns = value(Figure::SentToReceived);
        wait.receive_call_ns = value(Figure::ReceiveCall);
    }

    fn finish(self) -> ExplainedTransport {
        let Self { mut found, polls_on_shared_cpu, touched, traces } = self;
        for one in &mut found.waits {
            one.polls_on_shared_cpu = polls_on_shared_cpu && one.wait == Wait::Poll;
        }
        let of = |wait| found.waits.iter().find(|other| other.wait == wait);
        let undisturbed = |wait| of(wait).and_then(|wait| wait.undisturbed_ns);
        // Scheduler time slices hide the costs of touching and waking up.
        let is_shared = |wait: Wait| of(wait).is_some_and(|wait| wait.polls_on_shared_cpu);
        let touched = touched.filter(|(wait, _)| !is_shared(*wait));
        let touch_ns = touched.and_then(|(wait, touched)| Some(touched - undisturbed(wait)?));
        let polled = of(Wait::Poll).filter(|wait| !wait.polls_on_shared_cpu);
        let medians = undisturbed(Wait::Block).zip(polled.and_then(|wait| wait.undisturbed_ns));
        let block_over_poll_ns = medians.map(|(block, poll)| block - poll);
        let polled = polled.and_then(|wait| wait.parts);
        (found.touch_ns, found.block_over_poll_ns) = (touch_ns, block_over_poll_ns);
        let blocked = found.waits.iter_mut().find(|wait| wait.wait == Wait::Block);
        if let (Some(polled), Some(parts)) = (polled, blocked.and_then(|wait| wait.parts.as_mut())) {
            split_wakeup(parts, &polled, block_over_poll_ns);
        }
        found.system_calls = per_message(&traces);
        if let (None, [one, other]) = (&found.system_calls, &traces[..]) {
            let (few, many) = (one.0.min(other.0), one.0.max(other.0));
            let name = &found.transport;
            let why = format!(
                "{name}: no system calls: {few} and {many} messages in the traced passes are too few; raise --time-cap"
            );
            found.missing.push(why);
        }
        found
    }
}

fn parts(value: impl Fn(Figure) -> Option<f64>) -> Option<Parts> {
    let [prepare_ns, send_ns, way_ns, receive_ns, own_ns] = [
        value(Figure::PartPrepare)?,
        value(Figure::PartSend)?,
        value(Figure::PartWay)?,
        value(Figure::PartReceive)?,
        value(Figure::PartOwn)?,
    ];
    let total_ns = prepare_ns + send_ns + way_ns + receive_ns + own_ns;
    Some(Parts { prepare_ns, send_ns, way_ns, receive_ns, wakeup_ns: 0.0, own_ns, total_ns })
}

/// Separates the wake-up from transit and receive: their extra time over `poll`, at most the undisturbed extra time of
/// `block`. The remaining time is split as under `poll`.
fn split_wakeup(parts: &mut Parts, polled: &Parts, block_over_poll_ns: Option<f64>) {
    let (blocked, under_poll) = (parts.way_ns + parts.receive_ns, polled.way_ns + polled.receive_ns);
    let wakeup = (blocked - under_poll).min(block_over_poll_ns.unwrap_or(f64::INFINITY));
    if wakeup > 0.0 {
        let way = if under_poll > 0.0 { (blocked - wakeup) * polled.way_ns / under_poll } else { 0.0 };
        (parts.way_ns, parts.receive_ns, parts.wakeup_ns) = (way, blocked - wakeup - way, wakeup);
    }
}

fn messages(trial: &Trial) -> f64 {
    2.0 * trial.value(&Stream::all(), Figure::Sent).unwrap_or(0.0)
}

/// Cost of both sides per message. As threads of one process, each side has counted both.
fn cost(trial: &Trial, is_same_process: bool) -> Option<MessageCost> {
    let messages = messages(trial);
    let of = |figure| {
        let side = |process| trial.value(&Stream::process(process), figure);
        let (leader, follower) = (side(Process::Leader)?, side(Process::Follower)?);
        let sum = if is_same_process { leader } else { leader + follower };
        (messages > 0.0).then_some(sum / messages)
    };
    Some(MessageCost {
        cpu_ns: of(Figure::CpuTime)?,
        kernel_ns: of(Figure::KernelTime),
        voluntary_switches: of(Figure::VoluntarySwitches)?,
        involuntary_switches: of(Figure::InvoluntarySwitches)?,
        page_faults: of(Figure::PageFaults)?,
        cycles: of(Figure::Cycles),
        instructions: of(Figure::Instructions),
    })
}

/// System calls per additional message of the longer pass, so that the worker's own calls cancel. `None` if it has too
/// few additional messages, e.g. because a pass ran out of time.
fn per_message(traces: &[(f64, &TracedCalls)]) -> Option<Vec<SystemCall>> {
    let (few, many) = match traces {
        [one, other] if one.0 < other.0 => (one, other),
        [one, other] if one.0 > other.0 => (other, one),
        _ => return None,
    };
    let messages = many.0 - few.0;
    if messages < FEWEST_TRACED || many.0 < 2.0 * few.0 {
        return None;
    }
    let call = |(name, many): (&String, &CallCount)| {
        let few = few.1.get(name).copied().unwrap_or_default();
        let each = |many: u64, few: u64| (many as f64 - few as f64).max(0.0) / messages;
        SystemCall {
            name: name.clone(),
            calls: each(many.calls, few.calls),
            in_vain: each(many.in_vain, few.in_vain),
            bytes: each(many.bytes, few.bytes),
        }
    };
    let mut calls: Vec<SystemCall> = many.1.iter().map(call).collect();
    calls.retain(|call| call.calls >= RARE || call.in_vain >= RARE);
    calls.sort_by(|one, other| other.calls.total_cmp(&one.calls).then(other.in_vain.total_cmp(&one.in_vain)));
    Some(calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traced(calls: &[(&str, u64, u64, u64)]) -> TracedCalls {
        let count = |&(name, calls, in_vain, bytes): &(&str, u64, u64, u64)| {
            (name.to_owned(), CallCount { calls, in_vain, bytes })
        };
        calls.iter().map(count).collect()
    }

    #[test]
    fn what_a_worker_does_beside_messages_cancels() {
        let few = traced(&[("sendto", 1100, 0, 1_100_000), ("mmap", 300, 2, 0), ("recvfrom", 1050, 400, 1_050_000)]);
        let many = traced(&[("sendto", 3101, 0, 3_100_000), ("mmap", 300, 2, 0), ("recvfrom", 3050, 6400, 3_050_000)]);
        for traces in [[(1000.0, &few), (3000.0, &many)], [(3000.0, &many), (1000.0, &few)]] {
            let calls = per_message(&traces).unwrap();
            let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
            assert_eq!(names, ["sendto", "recvfrom"]);
            assert_eq!((calls[1].calls, calls[1].in_vain, calls[1].bytes), (1.0, 3.0, 1000.0));
        }
        assert_eq!(per_message(&[(1000.0, &few)]), None);
        assert_eq!(per_message(&[(1000.0, &few), (1000.0, &many)]), None);
        assert_eq!(per_message(&[(1000.0, &few), (1900.0, &many)]), None, "the time of the long pass was over");
        assert_eq!(per_message(&[(6.0, &few), (20.0, &many)]), None, "too few to tell calls of messages from others");
    }

    #[test]
    fn waking_up_is_what_block_takes_longer_than_poll() {
        let parts = |way_ns, receive_ns| Parts {
            prepare_ns: 1.0,
            send_ns: 2.0,
            way_ns,
            receive_ns,
            wakeup_ns: 0.0,
            own_ns: 3.0,
            total_ns: 6.0 + way_ns + receive_ns,
        };
        let (polled, mut blocked) = (parts(10.0, 20.0), parts(0.0, 100.0));
        split_wakeup(&mut blocked, &polled, None);
        assert_eq!(
            (blocked.way_ns, blocked.receive_ns, blocked.wakeup_ns, blocked.total_ns),
            (10.0, 20.0, 70.0, 106.0)
        );
        let mut bounded = parts(0.0, 100.0);
        split_wakeup(&mut bounded, &polled, Some(40.0));
        assert_eq!(
            (bounded.way_ns, bounded.receive_ns, bounded.wakeup_ns, bounded.total_ns),
            (20.0, 40.0, 40.0, 106.0)
        );
        for (receive_ns, block_over_poll_ns) in
            [(25.0, None), (25.0, Some(9.0)), (100.0, Some(0.0)), (100.0, Some(-87.0))]
        {
            let mut whole = parts(0.0, receive_ns);
            split_wakeup(&mut whole, &polled, block_over_poll_ns);
            assert_eq!(whole, parts(0.0, receive_ns));
        }
    }
}
