//! Parts of round trips: each moment is attributed to the activity of a side.

use crate::measure::notes::NEVER;
use crate::measure::stamped::{CallStamps, StampLog};
use tripmeter_model::figure::Figure;

const SEND: usize = 0;
const OWN: usize = 1;
const PREPARE: usize = 2;
const RECEIVE: usize = 3;
const WAY: usize = 4;
const FIGURES: [Figure; 5] =
    [Figure::PartSend, Figure::PartOwn, Figure::PartPrepare, Figure::PartReceive, Figure::PartWay];

/// Time between two receipts of answers by the leader, split into parts; in ticks.
struct SplitTrip {
    total: u64,
    parts: [u64; 5],
}

/// Parts and call times per message, in ticks, in the order of the registry of figures. Empty if no trip has all of its
/// stamps.
///
/// Parts are means over the middle fifth of the trips, by duration. So they add up to about the median, even if
/// durations have two peaks. Call times are medians over both sides.
pub fn figures(leader: &StampLog<'_>, follower: &StampLog<'_>, messages: std::ops::Range<u64>) -> Vec<(Figure, f64)> {
    let (mut trips, mut calls) = (Vec::new(), [const { Vec::new() }; 3]);
    for sequence in messages {
        let both = leader.calls(sequence).zip(follower.calls(sequence));
        let before = leader.calls(sequence - 1).zip(follower.calls(sequence - 1));
        let Some((both, before)) = both.zip(before) else { continue };
        let is_whole =
            |calls: &CallStamps| [calls.prepare, calls.send, calls.sent, calls.taken].iter().all(|at| *at != NEVER);
        if ![both.0, both.1, before.0, before.1].iter().all(is_whole) {
            continue;
        }
        trips.push(trip(before, both));
        for (own, other) in [(both.0, both.1), (both.1, both.0)] {
            calls[0].push((own.sent - own.send) as f64);
            if own.take != NEVER {
                calls[1].push(own.taken.saturating_sub(own.take.max(other.send)) as f64);
            }
            calls[2].push(own.taken as f64 - other.sent as f64);
        }
    }
    let Some(parts) = middle(&mut trips) else { return Vec::new() };
    let parts = FIGURES.into_iter().zip(parts);
    let calls = [Figure::SendCall, Figure::ReceiveCall, Figure::SentToReceived].into_iter().zip(calls);
    parts.chain(calls.filter_map(|(figure, times)| Some((figure, median(times)?)))).collect()
}

fn median(mut times: Vec<f64>) -> Option<f64> {
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

/// Mean of each part per message, over the middle fifth of the trips; a trip has two messages.
fn middle(trips: &mut [SplitTrip]) -> Option<[f64; 5]> {
    trips.sort_unstable_by_key(|trip| trip.total);
    let outer = trips.len() * 2 / 5;
    let middle = trips.get(outer..trips.len() - outer).filter(|middle| !middle.is_empty())?;
    let sum = |part: usize| middle.iter().map(|trip| trip.parts[part]).sum::<u64>();
    Some(std::array::from_fn(|part| sum(part) as f64 / middle.len() as f64 / 2.0))
}

/// Splits the time since the previous answer was received. A send call has priority: it may outlast its message, even
/// into the next trip. Unclaimed time is transit.
fn trip(
    (leader_before, follower_before): (CallStamps, CallStamps),
    (leader, follower): (CallStamps, CallStamps),
) -> SplitTrip {
    let (begin, end) = (leader_before.taken, leader.taken);
    // A receive call that begins before the message is sent only waits until then.
    let receive = |own: CallStamps, other: CallStamps| {
        (if own.take == NEVER { NEVER } else { own.take.max(other.send) }, own.taken)
    };
    let claims = [
        (SEND, (leader.send, leader.sent)),
        (SEND, (follower.send, follower.sent)),
        (SEND, (follower_before.send, follower_before.sent)),
        (OWN, (begin, leader.prepare)),
        (OWN, (follower.taken, follower.prepare)),
        (PREPARE, (leader.prepare, leader.send)),
        (PREPARE, (follower.prepare, follower.send)),
        (RECEIVE, receive(follower, leader)),
        (RECEIVE, receive(leader, follower)),
    ];
    let mut edges: Vec<u64> = claims.iter().flat_map(|(_, (from, to))| [*from, *to]).chain([begin, end]).collect();
    edges.retain(|edge| (begin..=end).contains(edge));
    edges.sort_unstable();
    let mut parts = [0; 5];
    for pair in edges.windows(2) {
        let is_claimed = |(_, (from, to)): &&(usize, (u64, u64))| *from <= pair[0] && pair[1] <= *to;
        let part = claims.iter().find(is_claimed).map_or(WAY, |(part, _)| *part);
        parts[part] += pair[1] - pair[0];
    }
    SplitTrip { total: end.saturating_sub(begin), parts }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::notes::ArrivalLog;
    use crate::measure::stamped::STAMPS;

    fn calls(stamps: [u64; 5]) -> CallStamps {
        let [prepare, send, sent, take, taken] = stamps;
        CallStamps { prepare, send, sent, take, taken }
    }

    const BEFORE: (CallStamps, CallStamps) = (
        CallStamps { prepare: 0, send: 1, sent: 2, take: 90, taken: 100 },
        CallStamps { prepare: 70, send: 75, sent: 80, take: 50, taken: 60 },
    );

    #[test]
    fn each_moment_is_given_to_one_part() {
        let leader = calls([103, 105, 115, 190, 200]);
        let follower = calls([152, 155, 170, 140, 150]);
        let trip = trip(BEFORE, (leader, follower));
        let mut expected = [0; 5];
        expected[SEND] = 10 + 15;
        expected[OWN] = 3 + 2;
        expected[PREPARE] = 2 + 3;
        expected[RECEIVE] = 10 + 10;
        expected[WAY] = 25 + 20;
        assert_eq!((trip.parts, trip.total), (expected, 100));
    }

    #[test]
    fn a_send_call_that_outlasts_the_message_is_sending_also_in_the_next_trip() {
        // The leader's call returns after the answer has arrived; the follower's previous call ends in this trip.
        let before = (BEFORE.0, CallStamps { sent: 120, ..BEFORE.1 });
        let trip = trip(before, (calls([103, 105, 108, 160, 165]), calls([142, 144, 170, 130, 140])));
        // The follower's calls last from 103 to 105, and from 144 to 165.
        assert_eq!((trip.parts[SEND], trip.parts.iter().sum::<u64>()), (20 + 21, 65));
        assert_eq!(trip.parts[RECEIVE], 10);
    }

    #[test]
    fn a_receive_call_begins_to_receive_when_the_message_is_sent() {
        let blocked = trip(BEFORE, (calls([103, 105, 115, 116, 200]), calls([152, 155, 170, 81, 150])));
        assert_eq!((blocked.parts[RECEIVE], blocked.parts[WAY]), (35 + 30, 0));
        let called_back = trip(BEFORE, (calls([103, 105, 115, NEVER, 200]), calls([152, 155, 170, NEVER, 150])));
        assert_eq!((called_back.parts[RECEIVE], called_back.parts[WAY]), (0, 35 + 30));
    }

    #[test]
    fn parts_add_up_to_the_middle_of_the_trips() {
        // Trips of 100 ticks, and one of 1,000; the fifth has no answer.
        const COUNT: usize = 12;
        let at = |index: usize| 1000 + 100 * index as u64 + if index > 7 { 900 } else { 0 };
        let side = |offsets: [u64; STAMPS]| -> [Vec<u64>; STAMPS] {
            offsets.map(|offset| (0..COUNT).map(|index| if index == 4 { NEVER } else { at(index) + offset }).collect())
        };
        let (mut leader, mut follower) = (side([3, 5, 15, 90, 100]), side([52, 55, 70, 40, 50]));
        fn log(side: &mut [Vec<u64>; STAMPS]) -> StampLog<'_> {
            let logs = side.iter_mut().map(|ticks| ArrivalLog { ticks, marks: &mut [] });
            StampLog::new(7, logs.collect()).unwrap()
        }
        let (leader, follower) = (log(&mut leader), log(&mut follower));
        let figures = figures(&leader, &follower, 8..7 + COUNT as u64);
        let get = |figure| figures.iter().find(|(other, _)| *other == figure).unwrap().1;
        let sum: f64 = FIGURES.map(get).iter().sum();
        assert_eq!((sum, get(Figure::PartSend)), (50.0, 12.5));
        assert_eq!((get(Figure::SendCall), get(Figure::SentToReceived)), (15.0, 35.0));
    }
}
