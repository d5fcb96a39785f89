use crate::message::TouchLimit;
use tripmeter_abi::Message;
use tripmeter_model::manifest::Counts;

/// Effect of a message on the trip under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TripStep {
    /// All followers have answered, in time and intact.
    Answered,
    /// The trip is over without a valid answer.
    Over,
    On,
}

/// Accounting of answers, and of the followers that must still answer. The leader's loop is compiled for each type.
pub trait Answers {
    /// Begins a cell with zero counts. Messages up to `sequence` belong to an earlier cell, and count as late.
    fn begin(&mut self, sequence: u64);

    /// Prepares for a message that is about to be sent.
    fn sent(&mut self);

    /// Accounts for a message that comes while answers to `sequence` are awaited.
    fn step(&mut self, message: &Message, sequence: u64, length: usize, touch: TouchLimit) -> TripStep
    where
        Self: Sized;

    /// Counts the message as lost. Returns the consecutive losses at the worst follower.
    fn give_up(&mut self, sequence: u64) -> u32;

    /// Excludes a message from the counts that was in flight when the user asked to stop, or when the time was over. It
    /// may belong to an earlier cell.
    fn abandon(&mut self, sequence: u64);

    /// Number of messages excluded by [`Answers::abandon`], 0 or 1.
    fn abandoned(&self) -> u64;

    /// Counts so far, except `sent` and `received`, which the loop knows.
    fn counts(&self) -> Counts;

    /// Counts of each follower, with `received`; empty if there is only one follower.
    fn at_followers(&self) -> Vec<Counts> {
        Vec::new()
    }

    /// Index of the follower that failed to answer most often in a row; `None` if there is only one follower.
    fn silent(&self) -> Option<u32> {
        None
    }
}
