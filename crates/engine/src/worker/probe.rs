//! The proof of the path, run by both sides before anything is measured.

use super::follower::Follower;
use super::leader::{Leader, Session, is_one_way};
use super::{Error, Result};
use crate::clock::Clock;
use crate::measure::answers::{Answers, Several};
use crate::measure::callback::Inbox;
use crate::measure::stamps::{NoStamps, Numbered, Requests};
use crate::measure::stream::{Even, Extent, Stream, Unspaced};
use crate::measure::trips::Trips;
use crate::measure::{End, Tracker, Watch, callback};
use crate::message::TouchFull;
use crate::proof::{self, Baseline, Claim, Evidence, Observer};
use crate::wire::{Begin, FromLeader, Report, Task, ToFollower};
use std::time::Duration;
use tripmeter_abi::{Link, Pattern, Variant, Wait};
use tripmeter_model::manifest::{PathProof, Verdict};

/// Other programs' traffic on the loopback may hide a path for a moment: so often is looked for it.
const MOST_TRIES: u32 = 5;
/// The pause before the second look; it grows by as much from look to look.
const PAUSE: Duration = Duration::from_millis(100);

/// How often the leader says that it is still at it.
const SIGN_OF_LIFE_NS: u64 = 2_000_000_000;

const PHASE: &str = "prove its path";

/// Extent of a path proof.
#[derive(Clone, Copy)]
struct ProbePlan {
    /// Messages in each direction.
    messages: u64,
    /// Bytes of each.
    payload_bytes: u64,
}

fn sign_of_life(leader: &mut Leader) {
    leader.report(&FromLeader::Phase(PHASE.to_owned()));
}

/// The follower's half.
pub(super) fn follow<L: Link, C: Clock>(
    follower: &mut Follower,
    link: &mut L,
    clock: C,
    inbox: &Inbox,
    baseline: &Baseline,
) -> Result<()> {
    let mut observer = Observer::start(baseline);
    follower.ready()?;
    if !follower.is_called_back() {
        observer.parked();
    }
    let mut watched = Watch::on(link, &mut observer);
    if is_one_way(follower.pattern()) {
        follower.count::<L, C, TouchFull, true>(&mut watched, clock, inbox, 1)?;
    } else if let Some(number) = follower.number() {
        let mut stamps = Numbered { follower: number, stamps: NoStamps };
        follower.answer::<L, TouchFull, _, true>(&mut watched, inbox, &mut stamps)?;
    } else if follower.pattern() == Pattern::Rpc {
        follower.answer::<L, TouchFull, Requests, true>(&mut watched, inbox, &mut Requests)?;
    } else {
        follower.answer::<L, TouchFull, NoStamps, true>(&mut watched, inbox, &mut NoStamps)?;
    }
    follower.report(Report { evidence: Some(observer.finish()), ..Report::default() })
}

/// The leader's half: the verdict over both sides' evidence; of several followers one after the other.
pub(super) fn lead<L: Link, C: Clock + Copy>(
    leader: &mut Leader,
    session: &mut Session<'_, L, C>,
    baseline: &Baseline,
    variant: &Variant,
) -> Result<PathProof> {
    leader.phase(PHASE);
    let mut proofs = Vec::new();
    for follower in 0..leader.followers() {
        let mut proof = prove(leader, session, baseline, variant, follower)?;
        let mut tries = 1;
        while proof.verdict == Verdict::NotVisible && tries < MOST_TRIES {
            sign_of_life(leader);
            std::thread::sleep(PAUSE * tries);
            proof = prove(leader, session, baseline, variant, follower)?;
            tries += 1;
        }
        sign_of_life(leader);
        proofs.push(proof);
    }
    Ok(proof::of_all(proofs))
}

/// What shows between the leader and one follower, while the others take the same messages and keep quiet.
fn prove<L: Link, C: Clock + Copy>(
    leader: &mut Leader,
    session: &mut Session<'_, L, C>,
    baseline: &Baseline,
    variant: &Variant,
    follower: u32,
) -> Result<PathProof> {
    let largest = leader.job.sub_experiment.payloads.iter().copied().max().unwrap_or(proof::MOST_PAYLOAD_BYTES);
    let payload_bytes = largest.min(proof::MOST_PAYLOAD_BYTES);
    let plan = ProbePlan { messages: proof::messages_for(payload_bytes), payload_bytes };
    let mut observer = Observer::start(baseline);
    let others: Vec<u32> = (0..leader.followers()).filter(|other| *other != follower).collect();
    let begin = |task, observe| {
        ToFollower::Begin(Begin { task, first: session.sequence + 1, payload_bytes, most: Vec::new(), observe })
    };
    for other in &others {
        leader.ask_one_ready(*other, &begin(Task::Count, false))?;
    }
    let task = if is_one_way(leader.job.sub_experiment.pattern) { Task::Count } else { Task::Answer };
    leader.ask_one_ready(follower, &begin(task, true))?;
    let answered = if task == Task::Count {
        send(leader, session, &mut observer, plan)?;
        Err(observer)
    } else {
        if others.is_empty() {
            exchange(leader, session, Tracker::default(), &mut observer, plan)?;
        } else {
            exchange(leader, session, Several::only(leader.followers(), follower), &mut observer, plan)?;
        }
        Ok(observer.finish())
    };
    leader.tell(&ToFollower::End { last: vec![session.sequence] })?;
    let time = super::ANSWER_TIMEOUT + Duration::from_nanos(leader.job.loss_timeout_ns);
    let Some(other) = leader.hear_report(follower, time)?.evidence else {
        return Err(Error::Failed("the follower sent no evidence of its path".to_owned()));
    };
    // One way, the system's own threads may go on sending after the last call has returned, until all has arrived.
    let own = answered.unwrap_or_else(Observer::finish);
    for silent in others {
        leader.hear_report(silent, time)?;
    }
    Ok(verdict(variant, plan, &own, &other))
}

fn exchange<L: Link, C: Clock + Copy, A: Answers>(
    leader: &mut Leader,
    session: &mut Session<'_, L, C>,
    answers: A,
    observer: &mut Observer,
    plan: ProbePlan,
) -> Result<()> {
    let mut ticks = vec![0; plan.messages as usize];
    let watched = Watch::on(&mut *session.link, observer);
    let (shared, base) = (leader.shared.clone(), leader.job.timebase);
    let mut trips = Trips::new(watched, session.clock, answers, &shared, session.loss_timeout, session.idle_mask);
    trips.sequence = session.sequence;
    trips.begin(plan.payload_bytes as usize);
    leader.arm();
    let mut answered = 0;
    // Trips may be slow, e.g. where lost packets are sent again: each part ends with a sign of life.
    let result = loop {
        let (part, deadline) = (&mut ticks[answered..], base.now() + base.to_ticks(SIGN_OF_LIFE_NS));
        let result = match leader.job.sub_experiment.wait {
            Wait::Callback => callback::trips::<_, _, _, TouchFull, true>(session.inbox, &mut trips, part, deadline),
            Wait::Poll | Wait::Block => trips.run::<TouchFull>(part, deadline),
        };
        match result {
            (count, Ok(End::Deadline)) if answered + count < ticks.len() => {
                answered += count;
                sign_of_life(leader);
            }
            (_, result) => break result,
        }
    };
    leader.disarm();
    session.sequence = trips.sequence;
    drop(trips);
    match result {
        Ok(_) => leader.check_stop(),
        Err(failure) => Err(leader.blame(failure)),
    }
}

/// One way, slowly: nothing is to be lost, and the follower looks where the first message waits.
fn send<L: Link, C: Clock + Copy>(
    leader: &mut Leader,
    session: &mut Session<'_, L, C>,
    observer: &mut Observer,
    plan: ProbePlan,
) -> Result<()> {
    /// The follower looks for 20 ms at most.
    const LOOK_NS: u64 = 40_000_000;
    /// Forgetting what was touched takes both sides longer, the more memory is mapped for other links.
    const FORGET_PER_LINK_NS: u64 = 2_000_000;
    const LONGEST_FORGET_NS: u64 = 1_000_000_000;
    const REST_NS: u64 = 400_000_000;
    let base = leader.job.timebase;
    let forget_ns = (FORGET_PER_LINK_NS * session.others.len() as u64).min(LONGEST_FORGET_NS);
    let mut links = [Watch::on(&mut *session.link, observer)];
    let (shared, length) = (leader.shared.clone(), plan.payload_bytes as usize);
    let mut stream = Stream::new(&mut links, session.clock, &shared, length, session.sequence);
    stream.timeout_ns = session.loss_timeout.0;
    leader.arm();
    let to = |count| Extent { burst: 1, last: session.sequence + count, deadline: u64::MAX };
    let faulting = proof::FAULTING_MESSAGES.min(plan.messages);
    let mut even = Even::new((base.to_ticks(REST_NS) / plan.messages) as f64);
    let result = stream.run::<TouchFull, _>(&mut Unspaced, to(1)).and_then(|_| {
        stream.due = base.now() + base.to_ticks(LOOK_NS);
        stream.run::<TouchFull, _>(&mut even, to(faulting))
    });
    let result = result.and_then(|_| {
        stream.due = stream.due.max(base.now() + base.to_ticks(forget_ns));
        stream.run::<TouchFull, _>(&mut even, to(plan.messages))
    });
    leader.disarm();
    session.sequence = stream.sequence;
    match result {
        Ok(_) => leader.check_stop(),
        Err(failure) => Err(leader.blame(failure)),
    }
}

fn verdict(variant: &Variant, plan: ProbePlan, leader: &Evidence, follower: &Evidence) -> PathProof {
    let claim = Claim {
        path: variant.path,
        zero_copy: variant.zero_copy,
        same_process: variant.same_process,
        broker: variant.broker,
        messages: plan.messages,
        payload_bytes: plan.payload_bytes,
    };
    proof::judge(&claim, leader, follower)
}
