//! Reports of the followers at the end of a leg.

use super::leader::Leader;
use super::patience::FollowerPatience;
use super::{Error, Result};
use crate::measure::Failure;
use crate::wire::{FromLeader, Report, ToFollower, WRITING};

pub(super) struct FollowerReports {
    /// Report of each follower; `None` if it can no longer report.
    pub reports: Vec<Option<Report>>,
    pub broken: Option<Error>,
}

/// Sends the followers the number of the last message over each link, and reads their reports. If one has gone, the
/// limits `after_failure` apply to the others; with `None`, they are not asked.
pub(super) fn end_followers(
    leader: &mut Leader,
    last: Vec<u64>,
    patience: FollowerPatience,
    after_failure: Option<FollowerPatience>,
) -> FollowerReports {
    if !send_end(leader, last) {
        let broken = Some(leader.controls.diagnose(Failure::PeerGone));
        let reports = match after_failure {
            Some(patience) => known(recv_reports(leader, patience)),
            None => nobodys(leader),
        };
        return FollowerReports { reports, broken };
    }
    let received = recv_reports(leader, patience);
    let mut broken = None;
    for (follower, report) in received.iter().enumerate() {
        let error = match report {
            Ok(report) => failure_of(leader, follower, report),
            Err(error) => Some(Error::Failed(error.to_string())),
        };
        broken = broken.or(error);
    }
    FollowerReports { reports: known(received), broken }
}

/// Reads what followers noted until a failure, if they can still report and `patience` is given. A follower's own
/// report says more than the leader's view of it.
pub(super) fn end_after_failure(
    leader: &mut Leader,
    last: Vec<u64>,
    failure: Failure,
    patience: Option<FollowerPatience>,
) -> FollowerReports {
    let Some(patience) = patience else {
        return FollowerReports { reports: nobodys(leader), broken: Some(leader.controls.diagnose(failure)) };
    };
    // Results are saved even if a follower has ended. The last report of a failed follower is still to be read.
    leader.controls.report(&FromLeader::Phase(WRITING.to_owned()));
    send_end(leader, last);
    let reports = known(recv_reports(leader, patience));
    let mut each = reports.iter().enumerate();
    let told = each.find_map(|(follower, report)| failure_of(leader, follower, report.as_ref()?));
    let broken = Some(told.unwrap_or_else(|| leader.controls.diagnose(failure)));
    FollowerReports { reports, broken }
}

/// Sends the end to all followers; true if all got it.
fn send_end(leader: &mut Leader, last: Vec<u64>) -> bool {
    let end = ToFollower::End { last };
    let gone = (0..leader.controls.followers()).filter(|follower| leader.controls.try_send(*follower, &end).is_err());
    gone.count() == 0
}

fn recv_reports(leader: &mut Leader, patience: FollowerPatience) -> Vec<Result<Report>> {
    (0..leader.controls.followers()).map(|follower| leader.controls.recv_report(follower, patience)).collect()
}

/// Error of a follower whose report has a reason why it could not continue.
fn failure_of(leader: &Leader, follower: usize, report: &Report) -> Option<Error> {
    let why = report.failed.as_ref()?;
    let who = leader.controls.who(follower);
    Some(leader.controls.failed(&format!("{who} failed: {why}")))
}

fn known(reports: Vec<Result<Report>>) -> Vec<Option<Report>> {
    reports.into_iter().map(Result::ok).collect()
}

fn nobodys(leader: &Leader) -> Vec<Option<Report>> {
    (0..leader.controls.followers()).map(|_| None).collect()
}
