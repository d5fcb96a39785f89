//! Answers that end a trip.

use crate::message::TouchLimit;
use tripmeter_abi::Message;
use tripmeter_model::manifest::Counts;

/// What a message means for the trip that is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TripStep {
    /// All have answered, in time and intact.
    Answered,
    /// It is over, and not answered.
    Over,
    /// It goes on.
    On,
}

/// Knows who is to answer, and accounts for every message that comes back. The leader's loop is compiled for each kind.
pub trait Answers {
    /// A cell begins: nothing counted; messages up to `sequence` belong to an earlier one, and count as late when they come.
    fn begin(&mut self, sequence: u64);

    /// A message is about to be sent.
    fn sent(&mut self);

    /// A message has come while the answers to `sequence` are awaited.
    fn step(&mut self, message: &Message, sequence: u64, length: usize, touch: TouchLimit) -> TripStep
    where
        Self: Sized;

    /// The message was not answered in time. Returns how many it were in a row, at the worst follower.
    fn give_up(&mut self, sequence: u64) -> u32;

    /// The user asked to stop, or the time was over, while this message was in flight: it counts for nothing. It may be
    /// of an earlier cell.
    fn abandon(&mut self, sequence: u64);

    /// Messages that count for nothing: 1 at most.
    fn abandoned(&self) -> u64;

    /// What went wrong so far: `sent` and `received` are the loop's to know.
    fn counts(&self) -> Counts;

    /// The same at each of several followers, with `received`.
    fn at_followers(&self) -> Vec<Counts> {
        Vec::new()
    }

    /// Who has not answered lately, of several followers.
    fn silent(&self) -> Option<u32> {
        None
    }
}
