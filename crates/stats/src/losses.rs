//! How far shares of lost messages and failed calls can be trusted.

use crate::binomial::rate_interval;
use crate::order::median_interval;
use crate::rounds::ALPHA;
use tripmeter_model::channel::{ChannelTrial, SHOWN_FOLLOWERS};
use tripmeter_model::loss::{LossFigure, LossInterval, LossMethod};
use tripmeter_model::manifest::{Cell, Counts, Manifest};

/// How many were lost in a round, and of how many.
pub type Losses = (u64, u64);

/// The interval, at 95 % or more, of a share of which each round is told; `None` of nothing.
///
/// Of one round, and where nothing was lost at all, it is Clopper and Pearson's of all together, which assumes that each is
/// lost by itself. Otherwise it spans the shares of all rounds, which contains the median of a round with a probability of
/// 1 - 2^(1 - rounds) at least, whatever the distribution, and always the share of all together; with fewer than six
/// rounds there is none.
///
/// # Source
/// Clopper and Pearson (1934), doi:10.1093/biomet/26.4.404; Hahn and Meeker, "Statistical Intervals", 5.3.
pub fn interval(rounds: &[Losses]) -> Option<LossInterval> {
    let rounds: Vec<Losses> = rounds.iter().filter(|(_, of)| *of > 0).map(|&(lost, of)| (lost.min(of), of)).collect();
    let (lost, of) = sum(&rounds);
    if of == 0 {
        return None;
    }
    if rounds.len() == 1 || lost == 0 {
        let found = rate_interval(lost, of, ALPHA);
        return Some(LossInterval { method: LossMethod::Independent, interval: Some([found.low, found.high]) });
    }
    let shares: Vec<f64> = rounds.iter().map(|&(lost, of)| lost as f64 / of as f64).collect();
    let ends = [shares.iter().copied().fold(1.0, f64::min), shares.iter().copied().fold(0.0, f64::max)];
    Some(LossInterval { method: LossMethod::Rounds, interval: median_interval(&shares, ALPHA).map(|_| ends) })
}

/// All rounds together.
pub fn sum(rounds: &[Losses]) -> Losses {
    rounds.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// Every share of a loss, in the order of the plan.
pub fn losses(manifest: &Manifest) -> Vec<LossFigure> {
    let planned = manifest.plan.sub_experiments.iter();
    let cells = planned.flat_map(|sub| sub.payloads.iter().map(move |&bytes| (&sub.name, bytes)));
    cells.flat_map(|(name, bytes)| of_payload(manifest, name, bytes)).collect()
}

fn of_payload(manifest: &Manifest, name: &str, payload_bytes: u64) -> Vec<LossFigure> {
    let results = manifest.sub_experiments.iter().filter(|result| result.name == name);
    let cells = results.flat_map(|result| &result.cells).filter(|cell| cell.payload_bytes == payload_bytes);
    // In the order in which they come first, with those of all rounds.
    let mut found: Vec<(String, Vec<Losses>)> = Vec::new();
    for (figure, losses) in cells.flat_map(of_cell) {
        match found.iter_mut().find(|(known, _)| *known == figure) {
            Some((_, rounds)) => rounds.push(losses),
            None => found.push((figure, vec![losses])),
        }
    }
    let figure = |(figure, rounds): (String, Vec<Losses>)| {
        let ((events, of), bounds) = (sum(&rounds), interval(&rounds)?);
        let (name, share) = (name.to_owned(), events as f64 / of as f64);
        Some(LossFigure { name, payload_bytes, figure, rounds: rounds.len() as u32, events, of, share, bounds })
    };
    found.into_iter().filter_map(figure).collect()
}

/// What a cell lost, by where it stands in it.
fn of_cell(cell: &Cell) -> Vec<(String, Losses)> {
    let mut found = Vec::new();
    let mut put = |place: String, events: u64, of: u64| found.push((place, (events, of)));
    let counts = cell.counts;
    // With several followers the cell's counts are totals of them, not of messages.
    if cell.trials.is_empty() && cell.channel.is_empty() && cell.rpc.is_empty() && cell.followers.is_empty() {
        put("counts.lost".to_owned(), counts.lost, counts.sent);
    }
    if cell.log.is_some() {
        put("counts.damaged".to_owned(), counts.damaged, counts.sent);
    }
    for (index, follower) in cell.followers.iter().enumerate() {
        put(format!("followers[{index}].counts.lost"), follower.counts.lost, follower.counts.sent);
    }
    for (index, trial) in cell.trials.iter().enumerate() {
        for (follower, arrival) in trial.followers.iter().enumerate() {
            let gone = arrival.lost + arrival.damaged;
            put(format!("trials[{index}].followers[{follower}].loss"), gone, gone + arrival.received);
        }
    }
    for (index, trial) in cell.channel.iter().enumerate() {
        of_channel(index, trial, &mut put);
    }
    for (index, trial) in cell.rpc.iter().enumerate() {
        let counts = trial.counts;
        put(format!("rpc[{index}].counts.timed_out"), counts.timed_out, counts.made);
        put(format!("rpc[{index}].counts.failed"), counts.failed, counts.made);
    }
    found
}

fn of_channel(index: usize, trial: &ChannelTrial, put: &mut dyn FnMut(String, u64, u64)) {
    let mut loss = |place: String, counts: &Counts| {
        let (gone, sent) = gone(counts);
        put(format!("channel[{index}]{place}.loss"), gone, sent);
    };
    loss(String::new(), &trial.counts);
    for (topic, one) in trial.topics.iter().enumerate() {
        loss(format!(".topics[{topic}]"), &one.counts);
    }
    for one in &trial.publishers {
        loss(format!(".publishers[{}]", one.publisher), &one.counts);
    }
    for one in trial.followers.iter().take(SHOWN_FOLLOWERS) {
        loss(format!(".followers[{}]", one.follower), &one.counts);
    }
}

/// Messages that did not come in time and intact, and those that were sent.
pub fn gone(counts: &Counts) -> Losses {
    (counts.lost + counts.late + counts.damaged, counts.sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_round_and_no_loss_are_bounded_as_if_independent() {
        assert_eq!(interval(&[]), None);
        assert_eq!(interval(&[(0, 0)]), None);
        let one = interval(&[(3, 1000)]).unwrap();
        let expected = rate_interval(3, 1000, ALPHA);
        assert_eq!(
            one,
            LossInterval { method: LossMethod::Independent, interval: Some([expected.low, expected.high]) }
        );
        let none = interval(&[(0, 500); 4]).unwrap();
        let expected = rate_interval(0, 2000, ALPHA);
        assert_eq!((none.method, none.interval), (LossMethod::Independent, Some([0.0, expected.high])));
    }

    #[test]
    fn a_burst_in_one_of_six_rounds_is_in_the_interval_and_fewer_have_none() {
        let mut rounds = [(0, 1000); 6];
        rounds[4] = (80, 1000);
        let found = interval(&rounds).unwrap();
        assert_eq!((found.method, found.interval), (LossMethod::Rounds, Some([0.0, 0.08])));
        assert_eq!(interval(&rounds[1..]).unwrap().interval, None);
    }

    #[test]
    fn losses_are_named_by_their_place() {
        let counts = Counts { sent: 100, lost: 4, ..Counts::default() };
        assert_eq!(of_cell(&Cell { counts, ..Cell::default() }), [("counts.lost".to_owned(), (4, 100))]);
    }
}
