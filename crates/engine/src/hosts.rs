//! Followers on other hosts: reached by the system's own `ssh`, which carries the control channel. No port of ours listens
//! for control, and no cryptography is ours.
//!
//! ```text
//! leader ── Unix socket ── relay ── ssh ── tripmeter remote ── Unix socket ── follower
//!                          (worker)        (there)                            (worker, there)
//! ```
//!
//! A relay is the follower process as the supervisor sees it: it ends when that ends, and its last word is that one's. Both
//! ends of the ssh connection say every second that they are there: one that says nothing for a while is given
//! up, and what it started ends.

mod bounded;
mod look;
mod meet;
mod network;
mod push;
mod run_there;
mod serve;
mod silence;
mod ssh;
mod time_sync;
mod turns;
mod words;

pub(crate) use bounded::next_line;
pub use look::{NOT_PUSHED, look_at, own_look};
pub use meet::{HostError, HostProblem};
pub(crate) use meet::{Met, look_again, meet};
pub use push::Pushed;
pub(crate) use run_there::{ArchiveLimits, unpack};
pub use run_there::{CommandThere, EndedThere, WayThere, run_there};
pub use serve::serve;
pub(crate) use silence::{LONGEST_SILENCE, SIGN_OF_LIFE, Silence};
pub(crate) use ssh::Ssh;
pub use ssh::reach;
pub use turns::take_turns;
pub(crate) use words::{Connection, FromHost, Hello, ToHost};

/// Has every reader of what programs of the system say read a text.
pub(crate) fn read_by_all(text: &str) {
    time_sync::read_by_all(text);
    network::read_by_all(text);
}
