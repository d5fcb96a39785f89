//! Where the types of a system end. Below a [`Lane`] every loop is compiled for the system's own links; above it nothing is
//! generic over systems, clocks or what is done with payloads.
//!
//! A lane is called once per batch of messages, never per message: a batch of 1,024 or more costs nothing.

mod lane;
mod link;
mod round_trips;

use crate::measure::callback::Inbox;
pub use lane::{
    Answering, Calls, Ended, Flow, Lane, Logging, LoopSetting, Publication, Published, Received, Receiving, Spaced,
    Turns,
};
use link::AllLinks;
pub use round_trips::RoundTrips;
use tripmeter_abi::{DaemonCommand, Description, Limits, LinkOptions, Node, NodeOptions, Result, System, Wait};

/// Any [`System`].
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

    /// Opens a node with a link for each of the inboxes, which get its messages under wait `callback`.
    ///
    /// # Errors
    /// If the node or a link cannot be opened.
    fn open<'a>(&self, options: &NodeOptions, inboxes: &'a [Box<Inbox>]) -> Result<Box<dyn AnyNode + 'a>>;
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

    fn open<'a>(&self, options: &NodeOptions, inboxes: &'a [Box<Inbox>]) -> Result<Box<dyn AnyNode + 'a>> {
        let mut node = System::open(self, options)?;
        let mut links = Vec::new();
        for (index, inbox) in (0..).zip(inboxes) {
            let callback = (options.wait == Wait::Callback).then(|| inbox.callback());
            links.push(node.link(&LinkOptions { index, callback })?);
        }
        Ok(Box::new(OpenedNode { links, _node: node, _inboxes: inboxes }))
    }
}

/// A node with its links. It stays in the thread that opened it; its lanes may be used in others.
pub trait AnyNode {
    /// Each link.
    fn lanes(&mut self) -> Vec<&mut dyn Lane>;

    /// All links, for one thread that polls them in turns.
    fn in_turns(&mut self) -> Box<dyn Turns + '_>;
}

/// The links are closed before the node, and both before the inboxes.
struct OpenedNode<'a, N: Node> {
    links: Vec<N::Link>,
    _node: N,
    _inboxes: &'a [Box<Inbox>],
}

impl<N: Node> AnyNode for OpenedNode<'_, N> {
    fn lanes(&mut self) -> Vec<&mut dyn Lane> {
        self.links.iter_mut().map(|link| link as &mut dyn Lane).collect()
    }

    fn in_turns(&mut self) -> Box<dyn Turns + '_> {
        Box::new(AllLinks(&mut self.links))
    }
}
