use crate::message::TouchLimit;
use tripmeter_abi::Message;
use tripmeter_model::manifest::Counts;

/// Effect of a message on the trip under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TripStep {
    /// All followers have answered, in time and intact.
    Answered,
    /// Trip over without a valid answer.
    Over,
    On,
}

/// Accounting of every message that comes back, and of who must answer. The leader's loop is compiled for each kind.
pub trait Answers {
    /// Begins a cell with zero counts. Messages up to `sequence` belong to an earlier one, and count as late.
    fn begin(&mut self, sequence: u64);

    /// Prepares for a message that is about to be sent.
    fn sent(&mut self);

    /// Accounts for a message that comes while answers to `sequence` are awaited.
    fn step(&mut self, message: &Message, sequence: u64, length: usize, touch: TouchLimit) -> TripStep
    where
        Self: Sized;

    /// Counts the message as lost. Returns the consecutive losses at the worst follower.
    fn give_up(&mut self, sequence: u64) -> u32;

    /// Excludes this message from the counts: it was in flight when the user asked to stop, or the time was over. It may
    /// be of an earlier cell.
    fn abandon(&mut self, sequence: u64);

    /// Number of messages excluded by [`Answers::abandon`], 0 or 1.
    fn abandoned(&self) -> u64;

    /// Counts so far, except `sent` and `received`, which the loop knows.
    fn counts(&self) -> Counts;

    /// Counts at each of several followers, with `received`.
    fn at_followers(&self) -> Vec<Counts> {
        Vec::new()
    }

    /// Index of a follower that has not answered lately, if there are several.
    fn silent(&self) -> Option<u32> {
        None
    }
}
