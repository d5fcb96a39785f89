//! Type erasure of systems. Below a [`Lane`], every loop is compiled for the system's own links. Above it, nothing is
//! generic over systems, clocks or payload handling.
//!
//! A lane is called once per batch, never per message: in a batch of 1,024 messages or more, the call costs nothing.

mod lane;
mod link;
mod round_trips;

use crate::measure::inbox::Inbox;
pub use crate::measure::setting::LoopSetting;
pub use lane::{
    Answering, Calls, Ended, Flow, Keeps, Lane, Logging, Publication, Published, Received, Receiving, Spaced, Turns,
};
use link::AllLinks;
pub use round_trips::RoundTrips;
use tripmeter_abi::{DaemonCommand, Description, Limits, LinkOptions, Node, NodeOptions, Result, System, Wait};

/// [`System`] behind `dyn`.
pub trait AnySystem: Send + Sync {
    fn description(&self) -> Description;

    fn probe(&self, options: &NodeOptions) -> Result<Limits>;

    fn daemon_command(&self, options: &NodeOptions) -> Result<Option<DaemonCommand>>;

    /// Opens a node with a link for each inbox. Under wait `callback` the inboxes get the messages.
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

/// Node with its links. It stays in the thread that opened it; its lanes may be used in others.
pub trait AnyNode {
    fn lanes(&mut self) -> Vec<&mut dyn Lane>;

    /// All links, for one thread to poll in turns.
    fn in_turns(&mut self) -> Box<dyn Turns + '_>;
}

/// Fields in drop order: links are closed before the node, and both before the inboxes.
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
