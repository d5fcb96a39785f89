use super::Shared;
use super::inbox::Inbox;
use crate::clock::Timebase;
use crate::message::TouchLimit;
use tripmeter_abi::Wait;

/// Parameters of a loop. Each loop has its own copy: a pointer would cost one more load in the measured window.
#[derive(Clone, Copy)]
pub struct LoopSetting<'a> {
    pub timebase: Timebase,
    pub touch: TouchLimit,
    pub wait: Wait,
    /// Longest wait for a message, and for a full transport to take one.
    pub loss_timeout_ns: u64,
    /// Receiver of messages under wait `callback`.
    pub inbox: &'a Inbox,
    pub shared: &'a Shared,
}
