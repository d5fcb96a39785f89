//! A system with its types erased, so that the measuring loop is chosen once, before it starts.

use crate::clock::{Monotonic, Source, Tsc};
use crate::wire::Intrusion;
use crate::worker::{follower::Follower, intruder, leader::Leader};
use tripmeter_abi::{DaemonCommand, Description, Limits, NodeOptions, Result, System};
use tripmeter_model::manifest::IntruderTrial;

/// Any [`System`]. The measuring loops are compiled for each system's own types; the one indirect call is here.
pub trait AnySystem: Send + Sync {
    /// See [`System::description`].
    fn description(&self) -> Description;

    /// See [`System::probe`].
    ///
    /// # Errors
    /// As there.
    fn probe(&self, options: &NodeOptions) -> Result<Limits>;

    /// See [`System::daemon_command`].
    ///
    /// # Errors
    /// As there.
    fn daemon_command(&self, options: &NodeOptions) -> Result<Option<DaemonCommand>>;

    /// Runs the leader's half of a sub-experiment to its end.
    ///
    /// # Errors
    /// What ended it.
    fn lead(&self, leader: &mut Leader) -> crate::worker::Result<()>;

    /// Runs the follower's half of a sub-experiment to its end.
    ///
    /// # Errors
    /// What ended it.
    fn follow(&self, follower: &mut Follower) -> crate::worker::Result<()>;

    /// Tries to get in as somebody who must not.
    fn intrude(&self, intrusion: &Intrusion) -> IntruderTrial;
}

impl<S: System> AnySystem for S {
    fn description(&self) -> Description {
        System::description(self)
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        System::probe(self, options)
    }

    fn daemon_command(&self, options: &NodeOptions) -> Result<Option<DaemonCommand>> {
        System::daemon_command(self, options)
    }

    fn lead(&self, leader: &mut Leader) -> crate::worker::Result<()> {
        match leader.clock() {
            Source::Tsc => leader.run(self, Tsc),
            Source::Monotonic => leader.run(self, Monotonic),
        }
    }

    fn follow(&self, follower: &mut Follower) -> crate::worker::Result<()> {
        match follower.clock() {
            Source::Tsc => follower.run(self, Tsc),
            Source::Monotonic => follower.run(self, Monotonic),
        }
    }

    fn intrude(&self, intrusion: &Intrusion) -> IntruderTrial {
        intruder::attempt(self, intrusion)
    }
}
