//! The proof of the path, run by both sides before anything is measured.

use super::follower::Follower;
use super::leader::{Leader, Session};
use super::{Error, Result};
use crate::clock::Clock;
use crate::control::{FromFollower, ProbePlan, ToFollower};
use crate::measure::callback::Inbox;
use crate::measure::trips::Trips;
use crate::measure::{Watch, callback};
use crate::message::TouchFull;
use crate::proof::{self, Baseline, Claim, Evidence, Observer};
use tripmeter_abi::{Link, Variant, Wait};
use tripmeter_model::manifest::PathProof;

/// The follower's half.
pub(super) fn follow<L: Link>(
    follower: &mut Follower,
    link: &mut L,
    inbox: &Inbox,
    baseline: &Baseline,
    plan: ProbePlan,
) -> Result<()> {
    debug_assert!(plan.messages > 0);
    let mut observer = Observer::start(baseline);
    follower.ready()?;
    if !follower.is_called_back() {
        observer.parked();
    }
    follower.answer::<L, TouchFull, true>(&mut Watch::on(link, &mut observer), inbox)?;
    follower.finish_probe(observer.finish())
}

/// The leader's half: the verdict over both sides' evidence.
pub(super) fn lead<L: Link, C: Clock + Copy>(
    leader: &mut Leader,
    session: &mut Session<'_, L, C>,
    baseline: &Baseline,
    variant: &Variant,
) -> Result<PathProof> {
    leader.phase("prove its path");
    let largest = leader.job.sub_experiment.payloads.iter().copied().max().unwrap_or(proof::MOST_PAYLOAD_BYTES);
    let payload_bytes = largest.min(proof::MOST_PAYLOAD_BYTES);
    let plan = ProbePlan { messages: proof::messages_for(payload_bytes), payload_bytes };
    let mut observer = Observer::start(baseline);
    leader.ask_ready(&ToFollower::Probe(plan))?;
    exchange(leader, session, &mut observer, plan)?;
    let own = observer.finish();
    leader.tell(&ToFollower::Stop)?;
    let FromFollower::Evidence(other) = leader.hear(super::ANSWER_TIMEOUT)? else {
        return Err(Error::Failed("the follower sent no evidence of its path".to_owned()));
    };
    Ok(verdict(variant, plan, &own, &other))
}

fn exchange<L: Link, C: Clock + Copy>(
    leader: &mut Leader,
    session: &mut Session<'_, L, C>,
    observer: &mut Observer,
    plan: ProbePlan,
) -> Result<()> {
    let mut ticks = vec![0; plan.messages as usize];
    let watched = Watch::on(&mut *session.link, observer);
    let mut trips = Trips::new(watched, session.clock, &leader.shared, session.loss_timeout, session.idle_mask);
    trips.sequence = session.sequence;
    trips.begin(plan.payload_bytes as usize);
    leader.arm();
    let result = match leader.job.sub_experiment.wait {
        Wait::Callback => callback::trips::<_, _, TouchFull, true>(session.inbox, &mut trips, &mut ticks, u64::MAX),
        Wait::Poll | Wait::Block => trips.run::<TouchFull>(&mut ticks, u64::MAX),
    };
    leader.disarm();
    session.sequence = trips.sequence;
    session.answered = trips.answered;
    drop(trips);
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
        messages: plan.messages,
        payload_bytes: plan.payload_bytes,
    };
    proof::judge(&claim, leader, follower)
}
