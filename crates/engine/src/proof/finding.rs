//! Constructors of judgements, and the check of brokers.

use super::observations::Observations;
use tripmeter_model::manifest::Verdict;

pub(super) type Judgement = (Verdict, String);

pub(super) fn proven(finding: impl Into<String>) -> Judgement {
    (Verdict::Proven, finding.into())
}

pub(super) fn failed(finding: impl Into<String>) -> Judgement {
    (Verdict::Failed, finding.into())
}

pub(super) fn not_visible(finding: impl Into<String>) -> Judgement {
    (Verdict::NotVisible, finding.into())
}

/// Judges if both sides are connected with the same third process, by their busiest connections.
pub(super) fn between(observed: &Observations, bytes: &str) -> Judgement {
    let (Some(leader), Some(follower)) = (observed.leader.busiest_tcp(), observed.follower.busiest_tcp()) else {
        return not_visible(format!("{bytes}, but the addresses of a TCP connection could not be read"));
    };
    let at = leader.other;
    if at != follower.other {
        return failed(format!(
            "no broker is between: the leader is connected with {at}, the follower with {}",
            follower.other
        ));
    }
    // PIDs of two hosts cannot be compared.
    let followers = Some(observed.follower.process_id).filter(|_| !observed.claim.between_hosts);
    let processes = [Some(observed.leader.process_id), followers];
    let holder = leader.holder.as_ref().or(follower.holder.as_ref());
    if [leader.own, follower.own].contains(&at)
        || holder.is_some_and(|holder| processes.contains(&Some(holder.process_id)))
    {
        return failed(format!("no broker is between: {at} is the leader or the follower itself"));
    }
    // Processes of this user are visible, so this one is neither leader nor follower.
    let who = holder.map_or("a process that is not visible here".to_owned(), ToString::to_string);
    proven(format!("{bytes}, through {who} at {at}"))
}
