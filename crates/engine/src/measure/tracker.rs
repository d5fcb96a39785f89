use super::answers::{Answers, TripStep};
use crate::message::{self, Header, Kind, TouchLimit};
use crate::numbers::Gaps;
use tripmeter_abi::Message;
use tripmeter_model::manifest::Counts;

/// Accounting of every message from one follower. Anything but the expected answer is handled off the fast path.
#[derive(Debug, Default)]
pub struct Tracker {
    /// Counts so far, except `sent` and `received`, which the loop knows.
    pub counts: Counts,
    /// Latest message of this cell answered intact.
    answered: u64,
    given_up: Gaps,
    /// Last message of the earlier cells.
    earlier: u64,
    /// Message in flight when the user asked to stop or the time was over, even of an earlier cell; 0 if none was.
    abandoned: u64,
    /// Messages in a row without an answer.
    silent: u32,
}

impl Answers for Tracker {
    fn begin(&mut self, sequence: u64) {
        *self = Self::after(sequence);
    }

    #[inline(always)]
    fn sent(&mut self) {}

    #[inline(always)]
    fn step(&mut self, message: &Message, sequence: u64, length: usize, touch: TouchLimit) -> TripStep {
        let expected = message.length == length
            && message::header(message) == Some(Header::new(sequence, Kind::Pong, length))
            && message::body_intact(message, sequence, touch);
        if expected {
            self.answer(sequence);
            return TripStep::Answered;
        }
        // Passing a copy keeps the message itself in registers.
        if self.stray(&{ *message }, sequence, touch) { TripStep::Over } else { TripStep::On }
    }

    fn give_up(&mut self, sequence: u64) -> u32 {
        self.counts.lost += 1;
        self.given_up.add(sequence, sequence);
        self.silent += 1;
        self.silent
    }

    fn abandon(&mut self, sequence: u64) {
        self.abandoned = sequence;
    }

    fn abandoned(&self) -> u64 {
        u64::from(self.abandoned > self.earlier)
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

impl Tracker {
    /// Tracker of a cell. Messages up to `sequence` belong to an earlier cell, and count as late.
    pub fn after(sequence: u64) -> Self {
        Self { earlier: sequence, given_up: Gaps::with_room(), ..Self::default() }
    }

    /// Notes an answer that came in time and intact.
    #[inline(always)]
    pub(super) fn answer(&mut self, sequence: u64) {
        self.answered = sequence;
        self.silent = 0;
    }

    /// True if the latest answer was to this message.
    pub(super) fn is_answered(&self, sequence: u64) -> bool {
        self.answered == sequence
    }

    /// Accounts for a message that is not the intact answer to `awaited`. True if it is the damaged answer, which ends
    /// the trip.
    #[cold]
    fn stray(&mut self, message: &Message, awaited: u64, touch: TouchLimit) -> bool {
        let header = message::header(message);
        let Some((header, kind)) = header.and_then(|header| Some((header, header.intact(message.length)?))) else {
            // An unreadable answer is attributed to the only message in flight.
            self.counts.damaged += 1;
            return true;
        };
        self.readable(message, (header.sequence, kind), awaited, touch)
    }

    /// Accounts for a message that is not the expected answer, but has an intact header.
    pub(super) fn readable(
        &mut self,
        message: &Message,
        (sequence, kind): (u64, Kind),
        awaited: u64,
        touch: TouchLimit,
    ) -> bool {
        if sequence < awaited {
            self.old(sequence);
            return false;
        }
        let damaged = kind != Kind::Pong || !message::body_intact(message, sequence, touch);
        if damaged {
            self.counts.damaged += 1;
        }
        damaged && sequence == awaited
    }

    fn old(&mut self, sequence: u64) {
        if sequence == self.abandoned {
            return;
        }
        if sequence <= self.earlier {
            self.counts.late += 1;
            return;
        }
        if !self.given_up.fill(sequence) {
            self.counts.duplicated += 1;
            return;
        }
        self.counts.lost -= 1;
        self.counts.late += 1;
        if self.answered > sequence {
            self.counts.reordered += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    fn stray(tracker: &mut Tracker, header: Header, awaited: u64, answered: u64) -> bool {
        let message = Message { data: (&raw const header).cast(), length: 16, token: null_mut() };
        tracker.answered = answered;
        tracker.stray(&message, awaited, TouchLimit::NONE)
    }

    #[test]
    fn an_answer_that_comes_again_is_a_duplicate() {
        let mut tracker = Tracker::default();
        assert!(!stray(&mut tracker, Header::new(4, Kind::Pong, 16), 5, 4));
        assert_eq!(tracker.counts, Counts { duplicated: 1, ..Counts::default() });
    }

    #[test]
    fn an_answer_after_the_time_out_is_late_and_no_longer_lost() {
        let mut tracker = Tracker::default();
        tracker.give_up(4);
        assert!(!stray(&mut tracker, Header::new(4, Kind::Pong, 16), 5, 3));
        assert_eq!(tracker.counts, Counts { late: 1, ..Counts::default() });
        assert!(!stray(&mut tracker, Header::new(4, Kind::Pong, 16), 5, 3));
        assert_eq!(tracker.counts, Counts { late: 1, duplicated: 1, ..Counts::default() });
    }

    #[test]
    fn a_message_in_flight_at_the_stop_counts_for_nothing() {
        let mut tracker = Tracker::default();
        tracker.abandon(5);
        assert!(!stray(&mut tracker, Header::new(5, Kind::Pong, 16), 6, 4));
        assert_eq!((tracker.counts, tracker.abandoned()), (Counts::default(), 1));
        assert_eq!(Tracker::default().abandoned(), 0);
    }

    #[test]
    fn an_answer_of_an_earlier_cell_is_late_and_was_never_lost_in_this_one() {
        let mut tracker = Tracker::after(4);
        assert!(!stray(&mut tracker, Header::new(4, Kind::Pong, 16), 5, 0));
        assert!(!stray(&mut tracker, Header::new(3, Kind::Pong, 16), 5, 0));
        assert_eq!(tracker.counts, Counts { late: 2, ..Counts::default() });
        let mut begun = Tracker::default();
        begun.give_up(4);
        begun.begin(4);
        assert!(!stray(&mut begun, Header::new(4, Kind::Pong, 16), 5, 0));
        assert_eq!(begun.counts, Counts { late: 1, ..Counts::default() });
    }

    #[test]
    fn the_only_follower_has_no_counts_apart_and_is_not_named() {
        let mut tracker = Tracker::default();
        tracker.give_up(1);
        assert_eq!((tracker.at_followers(), tracker.silent()), (Vec::new(), None));
    }

    #[test]
    fn a_damaged_message_of_another_number_ends_no_trip() {
        let mut tracker = Tracker::default();
        assert!(!stray(&mut tracker, Header::new(9, Kind::PongToDamaged, 16), 5, 4));
        assert_eq!(tracker.counts, Counts { damaged: 1, ..Counts::default() });
    }

    #[test]
    fn an_answer_overtaken_by_a_later_one_is_reordered() {
        let mut tracker = Tracker::default();
        tracker.give_up(4);
        assert!(!stray(&mut tracker, Header::new(4, Kind::Pong, 16), 6, 5));
        assert_eq!(tracker.counts, Counts { late: 1, reordered: 1, ..Counts::default() });
    }

    #[test]
    fn a_damaged_answer_ends_its_trip() {
        let mut tracker = Tracker::default();
        assert!(stray(&mut tracker, Header::new(5, Kind::Pong, 17), 5, 4));
        assert!(stray(&mut tracker, Header::new(5, Kind::PongToDamaged, 16), 5, 4));
        assert_eq!(tracker.counts, Counts { damaged: 2, ..Counts::default() });
    }
}
