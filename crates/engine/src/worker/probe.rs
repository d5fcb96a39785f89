//! Proof of the path, run by both sides before anything is measured.

use super::follower::Follower;
use super::leader::{Leader, Session};
use super::patience::FollowerPatience;
use super::{Error, Result};
use crate::lanes::{Answering, AnyNode, Flow, RoundTrips, Spaced};
use crate::measure::LoopEnd;
use crate::measure::callback::Inbox;
use crate::measure::stream::{Even, Extent};
use crate::proof::{self, Baseline, Claim, Observer};
use crate::wire::{Begin, FromLeader, Report, Task, TaskReply, ToFollower};
use std::ops::Range;
use std::time::Duration;
use tripmeter_abi::Variant;
use tripmeter_model::manifest::{PathProof, Verdict};

/// Most attempts: other programs' traffic on the loopback may hide a path for a moment.
const MOST_TRIES: u32 = 5;
/// Pause before the second attempt; it grows by as much each time.
const PAUSE: Duration = Duration::from_millis(100);

/// Time over which one-way messages are sent in the first attempt.
const REST: Duration = Duration::from_millis(400);

const SIGN_OF_LIFE_NS: u64 = 2_000_000_000;

const PHASE: &str = "prove its path";

#[derive(Clone, Copy)]
struct ProbePlan {
    /// Messages in each direction.
    messages: u64,
    payload_bytes: u64,
}

/// Runs the follower's half.
pub(super) fn follow(
    follower: &mut Follower,
    endpoint: &mut dyn AnyNode,
    inboxes: &[Box<Inbox>],
    baseline: &Baseline,
    begin: &Begin,
) -> Result<()> {
    let mut observer = Observer::start(baseline);
    follower.ready()?;
    if !follower.is_called_back() {
        observer.parked();
    }
    let mut arrived = Vec::new();
    if let TaskReply::Answer { names_request } = begin.task.reply {
        let answers = Answering { names_request, follower: follower.number(), ..Answering::default() };
        follower.answer(endpoint, inboxes, answers, Some(&mut observer))?;
    } else {
        arrived.push(follower.count(endpoint, inboxes, begin.first, None, Some(&mut observer))?);
    }
    follower.report(Report { arrived, evidence: Some(observer.finish()), ..Report::default() })
}

/// Runs the leader's half, and returns the verdict from both sides' evidence. With answers, each follower gets messages
/// of its own; one-way messages show the path to all followers at once.
pub(super) fn lead(
    leader: &mut Leader,
    session: &mut Session<'_>,
    baseline: &Baseline,
    variant: &Variant,
) -> Result<PathProof> {
    leader.controls.set_phase(PHASE);
    let followers = leader.controls.followers();
    let at_once = if leader.job.sub_experiment.workload.is_one_way() { followers } else { 1 };
    let mut proofs = Vec::new();
    for first in (0..followers).step_by(at_once as usize) {
        let group = first..first + at_once;
        let mut rest = REST;
        let (mut found, mut is_whole) = prove(leader, session, baseline, variant, group.clone(), rest)?;
        for tries in 1..MOST_TRIES {
            if found.iter().all(|proof| proof.verdict != Verdict::NotVisible) {
                break;
            }
            leader.controls.sign_of_life();
            std::thread::sleep(PAUSE * tries);
            // A follower without a CPU may have lost messages, so they are sent more slowly.
            rest = if is_whole { rest } else { 2 * rest };
            let again;
            (again, is_whole) = prove(leader, session, baseline, variant, group.clone(), rest)?;
            for (proof, again) in found.iter_mut().zip(again) {
                let damaged = proof.damaged + again.damaged;
                // A path that was seen once stays seen.
                let seen = if proof.verdict == Verdict::NotVisible { again } else { proof.clone() };
                *proof = PathProof { damaged, ..seen };
            }
        }
        leader.controls.sign_of_life();
        proofs.append(&mut found);
    }
    Ok(proof::of_all(proofs))
}

/// Returns the visible paths between the leader and these followers, and true if all messages came. The other followers
/// take the same messages, but do not answer. One-way messages are spread over `rest`.
fn prove(
    leader: &mut Leader,
    session: &mut Session<'_>,
    baseline: &Baseline,
    variant: &Variant,
    followers: Range<u32>,
    rest: Duration,
) -> Result<(Vec<PathProof>, bool)> {
    let largest = leader.job.sub_experiment.payloads.iter().copied().max().unwrap_or(proof::MOST_PAYLOAD_BYTES);
    let payload_bytes = largest.min(proof::MOST_PAYLOAD_BYTES);
    let plan = ProbePlan { messages: proof::messages_for(payload_bytes), payload_bytes };
    let mut observer = Observer::start(baseline);
    let others: Vec<u32> = (0..leader.controls.followers()).filter(|other| !followers.contains(other)).collect();
    let begin =
        |task, observe| ToFollower::Begin(Begin { observe, ..Begin::new(task, session.sequence + 1, payload_bytes) });
    for other in &others {
        leader.controls.ask(*other, &begin(Task::COUNT, false))?;
    }
    let task = if leader.job.sub_experiment.workload.is_one_way() { Task::COUNT } else { leader.answer_task() };
    for follower in followers.clone() {
        leader.controls.ask(follower, &begin(task, true))?;
    }
    let (answered, damaged) = if task == Task::COUNT {
        send(leader, session, &mut observer, plan, rest)?;
        (Err(observer), 0)
    } else {
        let damaged = exchange(leader, session, followers.start, &mut observer, plan)?;
        (Ok(observer.finish()), damaged)
    };
    leader.controls.send_all(&ToFollower::End { last: vec![session.sequence] })?;
    let patience = FollowerPatience::taking(leader.job.loss_timeout_ns);
    let mut reports = Vec::new();
    for follower in followers {
        let report = leader.controls.recv_report(follower, patience)?;
        let damaged = report.damaged();
        let other = report.evidence;
        let other = other.ok_or_else(|| Error::Failed("the follower sent no evidence of its path".to_owned()))?;
        reports.push((other, damaged));
    }
    // With one-way messages, the system's own threads may still send after the last call, until all have arrived.
    let own = answered.unwrap_or_else(Observer::finish);
    let count = leader.controls.followers();
    let is_whole = reports.iter().all(|(other, _)| other.has_received(plan.messages));
    let proofs = reports.iter().map(|(other, damaged)| {
        let claim = claim(variant, plan, count, !leader.is_on_one_host());
        let proof = proof::judge(&claim, &own, other);
        PathProof { damaged: *damaged, ..proof }
    });
    let mut proofs: Vec<PathProof> = proofs.collect();
    proofs[0].damaged += damaged;
    for silent in others {
        proofs[0].damaged += leader.controls.recv_report(silent, patience)?.damaged();
    }
    Ok((proofs, is_whole))
}

/// Exchanges messages with one follower, and returns the number of damaged messages.
fn exchange(
    leader: &mut Leader,
    session: &mut Session<'_>,
    follower: u32,
    observer: &mut Observer,
    plan: ProbePlan,
) -> Result<u64> {
    let mut ticks = vec![0; plan.messages as usize];
    let (shared, base) = (leader.shared.clone(), leader.job.timebase);
    let setting = leader.setting(&session.inboxes[0], &shared);
    let length = plan.payload_bytes as usize;
    let mut trips = RoundTrips::new(leader.controls.followers(), Some(follower), session.sequence, length);
    leader.arm();
    let mut answered = 0;
    // Trips may be slow if packets are retransmitted or CPUs are busy, so progress is reported after each part.
    let result = loop {
        let (part, deadline) = (&mut ticks[answered..], base.now() + base.to_ticks(SIGN_OF_LIFE_NS));
        let result = session.lanes[0].round_trips(setting, &mut trips, part, deadline, Some(&mut *observer));
        match result {
            (count, Ok(LoopEnd::Deadline)) if answered + count < ticks.len() => {
                answered += count;
                leader.controls.report(&FromLeader::Progress { samples: 0, moves: trips.sequence() });
            }
            (_, result) => break result,
        }
    };
    leader.disarm();
    session.sequence = trips.sequence();
    match result {
        Ok(_) => leader.check_stop().map(|()| trips.answers().counts().damaged),
        Err(failure) => Err(leader.controls.diagnose(failure)),
    }
}

/// Sends one way, slowly: nothing may get lost, and the follower checks where the first message waits.
fn send(
    leader: &mut Leader,
    session: &mut Session<'_>,
    observer: &mut Observer,
    plan: ProbePlan,
    rest: Duration,
) -> Result<()> {
    /// Wait for the follower, which checks for 20 ms at most.
    const LOOK_NS: u64 = 40_000_000;
    /// Time to forget touched memory on both sides; it grows with the memory that other links have mapped.
    const FORGET_PER_LINK_NS: u64 = 2_000_000;
    /// Limit of each wait, however many links and followers there are.
    const LONGEST_WAIT_NS: u64 = 1_000_000_000;
    let base = leader.job.timebase;
    // With several followers, some may wait for a CPU meanwhile.
    let followers = u64::from(leader.controls.followers());
    let look_ns = (LOOK_NS * followers).min(LONGEST_WAIT_NS);
    let forget_ns = (FORGET_PER_LINK_NS * (session.lanes.len() as u64 * followers - 1)).min(LONGEST_WAIT_NS);
    let shared = leader.shared.clone();
    let setting = leader.setting(&session.inboxes[0], &shared);
    let mut flow = Flow::new(Spaced::Unspaced, plan.payload_bytes as usize, session.sequence);
    let lane = &mut *session.lanes[0];
    leader.arm();
    let to = |count| Extent { burst: 1, last: session.sequence + count, deadline: u64::MAX };
    let faulting = proof::FAULTING_MESSAGES.min(plan.messages);
    let even = Even::new((base.to_ticks(rest.as_nanos() as u64) / plan.messages) as f64);
    // Polling followers that share a CPU take long turns, so progress is reported after each part.
    let mut stream = |flow: &mut Flow, extent: Extent| loop {
        let deadline = base.now() + base.to_ticks(SIGN_OF_LIFE_NS);
        match lane.stream(setting, flow, Extent { deadline, ..extent }, Some(&mut *observer)) {
            Ok(LoopEnd::Deadline) => {
                leader.controls.report(&FromLeader::Progress { samples: 0, moves: flow.sequence });
            }
            result => break result,
        }
    };
    let result = stream(&mut flow, to(1)).and_then(|_| {
        (flow.spaced, flow.due) = (Spaced::Even(even), base.now() + base.to_ticks(look_ns));
        stream(&mut flow, to(faulting))
    });
    let result = result.and_then(|_| {
        flow.due = flow.due.max(base.now() + base.to_ticks(forget_ns));
        stream(&mut flow, to(plan.messages))
    });
    leader.disarm();
    session.sequence = flow.sequence;
    match result {
        Ok(_) => leader.check_stop(),
        Err(failure) => Err(leader.controls.diagnose(failure)),
    }
}

fn claim(variant: &Variant, plan: ProbePlan, followers: u32, between_hosts: bool) -> Claim {
    Claim {
        path: variant.path,
        zero_copy: variant.zero_copy,
        same_process: variant.same_process,
        broker: variant.broker,
        between_hosts,
        followers,
        messages: plan.messages,
        payload_bytes: plan.payload_bytes,
    }
}
