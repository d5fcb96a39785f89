//! Followers on other hosts. They are reached by the system's own `ssh`, which carries the control channel. Tripmeter
//! opens no control port, and has no cryptography of its own.
//!
//! ```text
//! leader ── Unix socket ── relay ── ssh ── tripmeter remote ── Unix socket ── follower
//!                          (worker)        (remote host)                      (worker, remote host)
//! ```
//!
//! To the supervisor, a relay is the follower process: it ends with the follower, and passes on its last message. Both
//! ends of the ssh connection send a heartbeat each second. If one stays silent, the other closes the connection, and
//! the processes started over it end.

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

/// Passes a text to every parser of the output of system programs.
pub(crate) fn read_by_all(text: &str) {
    time_sync::read_by_all(text);
    network::read_by_all(text);
}
