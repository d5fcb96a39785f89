//! Reports of the followers at the end of a leg.

use super::Error;
use super::leader::Leader;
use super::patience::FollowerPatience;
use crate::measure::Failure;
use crate::wire::{FromLeader, Report, ToFollower, WRITING};

pub(super) struct FollowerReports {
    /// Report of each follower; `None` if it can no longer report.
    pub reports: Vec<Option<Report>>,
    pub broken: Option<Error>,
}

/// Sends the followers the number of the last message over each link, and reads their reports.
pub(super) fn end_followers(
    leader: &mut Leader,
    last: Vec<u64>,
    patience: FollowerPatience,
    after_failure: Option<FollowerPatience>,
) -> FollowerReports {
    let broken = leader.controls.send_all(&ToFollower::End { last }).err();
    let patience = after_failure.filter(|_| broken.is_some()).unwrap_or(patience);
    recv_reports(leader, patience, broken)
}

/// Reads what followers noted until a failure, if they can still report and `patience` is given.
pub(super) fn end_after_failure(
    leader: &mut Leader,
    last: Vec<u64>,
    failure: Failure,
    patience: Option<FollowerPatience>,
) -> FollowerReports {
    let followers = leader.controls.followers();
    let Some(patience) = patience else {
        let reports = (0..followers).map(|_| None).collect();
        return FollowerReports { reports, broken: Some(leader.controls.diagnose(failure)) };
    };
    // Results are saved, whoever has ended; the last report of a failed follower is still to be read.
    leader.controls.report(&FromLeader::Phase(WRITING.to_owned()));
    let end = ToFollower::End { last };
    (0..followers).for_each(|follower| drop(leader.controls.try_send(follower, &end)));
    let mut side = recv_reports(leader, patience, None);
    let said = side.reports.iter().flatten().any(|report| report.failed.is_some());
    if !said {
        side.broken = Some(leader.controls.diagnose(failure));
    }
    side
}

fn recv_reports(leader: &mut Leader, patience: FollowerPatience, broken: Option<Error>) -> FollowerReports {
    let mut side = FollowerReports { reports: Vec::new(), broken };
    for follower in 0..leader.controls.followers() {
        match leader.controls.recv_report(follower, patience) {
            Ok(report) => {
                if let Some(why) = report.failed.as_ref().filter(|_| side.broken.is_none()) {
                    let who = leader.controls.who(follower as usize);
                    side.broken = Some(leader.controls.failed(&format!("{who} failed: {why}")));
                }
                side.reports.push(Some(report));
            }
            Err(error) => {
                side.reports.push(None);
                side.broken.get_or_insert(error);
            }
        }
    }
    side
}
