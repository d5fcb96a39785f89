//! Accounting of answers from several followers. A trip ends when all have answered.

use super::answers::{Answers, TripStep};
use super::tracker::Tracker;
use crate::message::{self, Kind, TouchLimit};
use tripmeter_abi::Message;
use tripmeter_model::manifest::Counts;

#[derive(Debug, Default)]
pub struct SeveralFollowers {
    trackers: Vec<Tracker>,
    /// Bits of the followers that must answer.
    everybody: u64,
    /// Bits of the followers that have not answered the message in flight.
    pending: u64,
    /// True if an answer to the message in flight was damaged.
    is_spoiled: bool,
    /// Answers to the message in flight from unknown followers.
    nameless: u32,
    /// Damaged answers that cannot be attributed to a follower.
    unattributed: u64,
    silent: Option<u32>,
}

/// Most followers of a sub-experiment: each has a bit.
pub const MOST_FOLLOWERS: u32 = u64::BITS;

impl SeveralFollowers {
    /// Followers 0 to `count` - 1, all of which answer.
    pub fn new(count: u32) -> Self {
        assert!((1..=MOST_FOLLOWERS).contains(&count), "the plan allows no other number");
        Self {
            trackers: (0..count).map(|_| Tracker::default()).collect(),
            everybody: u64::MAX >> (MOST_FOLLOWERS - count),
            pending: 0,
            is_spoiled: false,
            nameless: 0,
            unattributed: 0,
            silent: None,
        }
    }

    /// Accounting of `count` followers, of which only `follower` must answer.
    pub fn only(count: u32, follower: u32) -> Self {
        Self { everybody: 1 << follower, ..Self::new(count) }
    }

    fn indices(bits: u64) -> impl Iterator<Item = usize> {
        (0..MOST_FOLLOWERS as usize).filter(move |index| bits >> index & 1 == 1)
    }

    /// Notes an answer, intact or not, from the follower with this bit; 0 if it is unknown.
    #[inline(always)]
    fn heard(&mut self, bit: u64) -> TripStep {
        self.pending &= !bit;
        if self.pending.count_ones() <= self.nameless {
            return self.over();
        }
        TripStep::On
    }

    #[inline(always)]
    fn over(&mut self) -> TripStep {
        if self.nameless > 0 {
            self.name_them();
        }
        if self.is_spoiled { TripStep::Over } else { TripStep::Answered }
    }

    /// Attributes damaged answers from unknown followers to those that have not answered.
    #[cold]
    fn name_them(&mut self) {
        for index in Self::indices(self.pending) {
            self.trackers[index].counts.damaged += 1;
        }
        (self.pending, self.nameless) = (0, 0);
    }

    #[cold]
    fn stray(&mut self, message: &Message, awaited: u64, touch: TouchLimit) -> TripStep {
        let header = message::header(message);
        let found = header.and_then(|header| Some((header.sequence, header.intact_of(message.length)?)));
        let Some((sequence, (kind, follower))) = found.filter(|found| (found.1.1 as usize) < self.trackers.len())
        else {
            if self.pending == 0 {
                self.unattributed += 1;
                return TripStep::On;
            }
            (self.nameless, self.is_spoiled) = (self.nameless + 1, true);
            return self.heard(0);
        };
        let bit = 1 << follower;
        let is_pending = self.pending & bit != 0;
        let tracker = &mut self.trackers[follower as usize];
        let is_over = if kind == Kind::PongToUnreadable {
            tracker.counts.damaged += 1;
            true
        } else {
            // A follower that answers again is no longer awaited.
            tracker.readable(message, (sequence, kind), if is_pending { awaited } else { awaited + 1 }, touch)
        };
        if !(is_over && is_pending) {
            return TripStep::On;
        }
        self.is_spoiled = true;
        self.heard(bit)
    }
}

impl Answers for SeveralFollowers {
    fn begin(&mut self, sequence: u64) {
        self.trackers.iter_mut().for_each(|tracker| tracker.begin(sequence));
        (self.pending, self.nameless, self.unattributed) = (0, 0, 0);
        self.silent = None;
    }

    #[inline(always)]
    fn sent(&mut self) {
        (self.pending, self.is_spoiled, self.nameless) = (self.everybody, false, 0);
    }

    #[inline(always)]
    fn step(&mut self, message: &Message, sequence: u64, length: usize, touch: TouchLimit) -> TripStep {
        let header = message::header(message).filter(|header| header.sequence == sequence && message.length == length);
        let of = header.and_then(|header| header.intact_of(length));
        if let Some((Kind::Pong, follower)) = of
            && let Some(tracker) = self.trackers.get_mut(follower as usize)
            && self.pending >> follower & 1 == 1
            && message::body_intact(message, sequence, touch)
        {
            tracker.answer(sequence);
            tracker.counts.received += 1;
            return self.heard(1 << follower);
        }
        self.stray(message, sequence, touch)
    }

    fn give_up(&mut self, sequence: u64) -> u32 {
        let mut worst = 0;
        for index in Self::indices(self.pending) {
            let silent = self.trackers[index].give_up(sequence);
            if silent > worst {
                (worst, self.silent) = (silent, Some(index as u32));
            }
        }
        self.unattributed += u64::from(self.nameless);
        (self.pending, self.nameless) = (0, 0);
        worst
    }

    fn abandon(&mut self, sequence: u64) {
        for index in Self::indices(self.everybody) {
            let tracker = &mut self.trackers[index];
            tracker.abandon(sequence);
            let has_answered = tracker.is_answered(sequence);
            tracker.counts.received -= u64::from(has_answered);
        }
        (self.pending, self.nameless) = (0, 0);
    }

    fn abandoned(&self) -> u64 {
        self.trackers.iter().map(Tracker::abandoned).max().unwrap_or(0)
    }

    fn counts(&self) -> Counts {
        let sum = self.trackers.iter().map(|tracker| tracker.counts).fold(Counts::default(), |sum, one| sum + one);
        Counts { received: 0, damaged: sum.damaged + self.unattributed, ..sum }
    }

    fn at_followers(&self) -> Vec<Counts> {
        self.trackers.iter().map(|tracker| tracker.counts).collect()
    }

    fn silent(&self) -> Option<u32> {
        self.silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Header;
    use std::ptr::null_mut;

    const LENGTH: usize = 16;

    fn step(several: &mut SeveralFollowers, header: Header, sequence: u64) -> TripStep {
        let message = Message { data: (&raw const header).cast(), length: LENGTH, token: null_mut() };
        several.step(&message, sequence, LENGTH, TouchLimit::NONE)
    }

    fn pong(sequence: u64, follower: u32) -> Header {
        Header::from_sender(sequence, Kind::Pong, LENGTH, follower)
    }

    fn torn() -> Header {
        Header::from_sender(1, Kind::Pong, LENGTH + 1, 0)
    }

    fn counts(several: &SeveralFollowers) -> Vec<Counts> {
        several.at_followers()
    }

    fn received(received: u64) -> Counts {
        Counts { received, ..Counts::default() }
    }

    #[test]
    fn a_trip_is_over_when_all_have_answered_in_whatever_order() {
        for count in [2, 3, MOST_FOLLOWERS] {
            let mut several = SeveralFollowers::new(count);
            several.begin(0);
            several.sent();
            for follower in (1..count).rev() {
                assert_eq!(step(&mut several, pong(1, follower), 1), TripStep::On);
            }
            assert_eq!(step(&mut several, pong(1, 0), 1), TripStep::Answered);
            assert_eq!(counts(&several), vec![received(1); count as usize]);
        }
    }

    #[test]
    fn what_goes_wrong_at_one_follower_is_counted_there() {
        let mut several = SeveralFollowers::new(3);
        several.begin(0);
        several.sent();
        // Message 1: the answer of follower 1 is lost, that of follower 0 comes twice.
        assert_eq!(step(&mut several, pong(1, 0), 1), TripStep::On);
        assert_eq!(step(&mut several, pong(1, 0), 1), TripStep::On);
        assert_eq!(step(&mut several, pong(1, 2), 1), TripStep::On);
        assert_eq!(several.give_up(1), 1);
        several.sent();
        // Message 2: the answer of follower 2 is damaged. Then the lost answer to message 1 comes after all, overtaken.
        assert_eq!(step(&mut several, Header::from_sender(2, Kind::PongToDamaged, LENGTH, 2), 2), TripStep::On);
        assert_eq!(step(&mut several, pong(2, 1), 2), TripStep::On);
        assert_eq!(step(&mut several, pong(1, 1), 2), TripStep::On);
        assert_eq!(step(&mut several, pong(2, 0), 2), TripStep::Over);
        let expected = [
            Counts { duplicated: 1, ..received(2) },
            Counts { late: 1, reordered: 1, ..received(1) },
            Counts { damaged: 1, ..received(1) },
        ];
        assert_eq!(counts(&several), expected);
        let total = Counts { duplicated: 1, late: 1, reordered: 1, damaged: 1, ..Counts::default() };
        assert_eq!(several.counts(), total);
    }

    #[test]
    fn a_damaged_header_is_of_the_one_that_does_not_answer() {
        let mut several = SeveralFollowers::new(3);
        several.begin(0);
        several.sent();
        assert_eq!(step(&mut several, torn(), 1), TripStep::On);
        assert_eq!(step(&mut several, pong(1, 2), 1), TripStep::On);
        assert_eq!(step(&mut several, pong(1, 0), 1), TripStep::Over);
        several.sent();
        assert_eq!(step(&mut several, Header::from_sender(77, Kind::PongToUnreadable, LENGTH, 0), 2), TripStep::On);
        assert_eq!(step(&mut several, pong(2, 1), 2), TripStep::On);
        assert_eq!(step(&mut several, pong(2, 2), 2), TripStep::Over);
        let damaged = |index: usize| counts(&several)[index].damaged;
        assert_eq!([damaged(0), damaged(1), damaged(2)], [1, 1, 0]);
    }

    #[test]
    fn one_damaged_and_one_lost_cannot_be_distinguished_but_are_counted() {
        let mut several = SeveralFollowers::new(2);
        several.begin(0);
        several.sent();
        assert_eq!(step(&mut several, torn(), 1), TripStep::On);
        several.give_up(1);
        assert_eq!((several.counts().damaged, several.counts().lost), (1, 2));
    }

    #[test]
    fn a_late_answer_of_one_that_is_awaited_ends_nothing() {
        let mut several = SeveralFollowers::new(2);
        several.begin(0);
        several.sent();
        assert_eq!(step(&mut several, pong(1, 0), 1), TripStep::On);
        several.give_up(1);
        several.sent();
        assert_eq!(step(&mut several, pong(1, 1), 2), TripStep::On);
        assert_eq!(step(&mut several, pong(2, 0), 2), TripStep::On);
        assert_eq!(step(&mut several, pong(2, 1), 2), TripStep::Answered);
        assert_eq!(counts(&several), [received(2), Counts { late: 1, ..received(1) }]);
    }

    #[test]
    fn an_answer_of_nobody_is_damaged_and_one_when_all_have_answered_ends_nothing() {
        let mut several = SeveralFollowers::new(2);
        several.begin(0);
        several.sent();
        // There is no follower 2, so the answer is attributed to a follower that has not answered.
        assert_eq!(step(&mut several, pong(1, 2), 1), TripStep::On);
        assert_eq!(step(&mut several, pong(1, 0), 1), TripStep::Over);
        assert_eq!((several.counts().damaged, counts(&several)[1].damaged), (1, 1));
        several.sent();
        assert_eq!(step(&mut several, pong(2, 0), 2), TripStep::On);
        assert_eq!(step(&mut several, pong(2, 1), 2), TripStep::Answered);
        for _ in 0..2 {
            assert_eq!(step(&mut several, torn(), 2), TripStep::On);
        }
        assert_eq!((several.counts().damaged, counts(&several)[0]), (3, received(2)));
    }

    #[test]
    fn of_several_that_keep_silent_alike_the_first_is_named() {
        let mut several = SeveralFollowers::new(3);
        several.begin(0);
        several.sent();
        assert_eq!(step(&mut several, pong(1, 0), 1), TripStep::On);
        assert_eq!((several.give_up(1), several.silent()), (1, Some(1)));
    }

    #[test]
    fn the_one_that_keeps_silent_is_named() {
        let mut several = SeveralFollowers::new(2);
        several.begin(0);
        for sequence in 1..=3 {
            several.sent();
            assert_eq!(step(&mut several, pong(sequence, 0), sequence), TripStep::On);
            assert_eq!(several.give_up(sequence), sequence as u32);
        }
        assert_eq!(several.silent(), Some(1));
    }

    #[test]
    fn a_message_in_flight_at_the_stop_counts_for_nobody() {
        let mut several = SeveralFollowers::new(2);
        several.begin(0);
        several.sent();
        assert_eq!(step(&mut several, pong(1, 0), 1), TripStep::On);
        several.abandon(1);
        assert_eq!(step(&mut several, pong(1, 1), 2), TripStep::On);
        assert_eq!((counts(&several), several.abandoned()), (vec![Counts::default(); 2], 1));
    }

    #[test]
    fn of_those_that_are_to_answer_one_may_be_enough() {
        let mut several = SeveralFollowers::only(3, 1);
        several.begin(0);
        several.sent();
        assert_eq!(step(&mut several, pong(1, 1), 1), TripStep::Answered);
    }
}
