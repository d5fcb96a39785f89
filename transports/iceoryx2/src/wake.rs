//! Notification of messages, and the wait for it.

use crate::session::{Ipc, Session, failed, peer_left};
use iceoryx2::port::listener::{Listener, ListenerWaitError};
use iceoryx2::port::notifier::Notifier;
use iceoryx2::prelude::EventId;
use iceoryx2::service::port_factory::PortFactory as _;
use iceoryx2::service::port_factory::event::PortFactory;
use std::time::Duration;
use tripmeter_abi::Result;

pub(crate) trait Wake {
    /// True if [`Wake::wait`] sleeps.
    const SLEEPS: bool;
    /// True if `count` peers have their halves open.
    fn peers_are_there(&self, count: usize) -> bool;
    /// Called after every message sent.
    fn notify(&self) -> Result<()>;
    fn wait(&self, timeout_ns: u64) -> Result<()>;
}

/// Wait `poll`: no notification, no sleep.
pub(crate) struct Spin;

impl Spin {
    pub(crate) fn open(_session: &Session) -> Result<Self> {
        Ok(Self)
    }
}

impl Wake for Spin {
    const SLEEPS: bool = false;

    fn peers_are_there(&self, _count: usize) -> bool {
        true
    }

    fn notify(&self) -> Result<()> {
        Ok(())
    }

    fn wait(&self, _timeout_ns: u64) -> Result<()> {
        Ok(())
    }
}

/// Wait `block`: iceoryx2's event service, one per direction.
pub(crate) struct Events {
    notifier: Notifier<Ipc>,
    listener: Listener<Ipc>,
    outward: PortFactory<Ipc>,
    inward: PortFactory<Ipc>,
}

impl Events {
    pub(crate) fn open(session: &Session) -> Result<Self> {
        let [outward, inward] = session.directions();
        let (outward, inward) = (event(session, outward)?, event(session, inward)?);
        let listener = inward.listener_builder().create().map_err(failed("creating the listener"))?;
        let notifier = outward.notifier_builder().create().map_err(failed("creating the notifier"))?;
        Ok(Self { notifier, listener, outward, inward })
    }
}

fn event(session: &Session, direction: &str) -> Result<PortFactory<Ipc>> {
    let [notifiers, listeners] = session.ends(direction);
    session
        .service(&format!("wake-{direction}"))?
        .event()
        .max_nodes(notifiers + listeners)
        .max_listeners(listeners)
        .max_notifiers(notifiers)
        .event_id_max_value(0)
        .disable_notifier_created_event()
        .disable_notifier_dropped_event()
        .disable_notifier_dead_event()
        .open_or_create()
        .map_err(failed("opening the event service"))
}

impl Wake for Events {
    const SLEEPS: bool = true;

    fn peers_are_there(&self, count: usize) -> bool {
        self.outward.dynamic_config().number_of_listeners() >= count
            && self.inward.dynamic_config().number_of_notifiers() >= count
    }

    fn notify(&self) -> Result<()> {
        match self.notifier.notify_with_custom_event_id(EventId::new(0)) {
            Ok(0) => Err(peer_left()),
            Ok(_) => Ok(()),
            Err(error) => Err(failed("notifying")(error)),
        }
    }

    fn wait(&self, timeout_ns: u64) -> Result<()> {
        // iceoryx2 counts in microseconds, of which 0 means to wait for ever.
        let timeout = Duration::from_nanos(timeout_ns).max(Duration::from_micros(1));
        match self.listener.timed_wait(|_| (), timeout) {
            Ok(_) | Err(ListenerWaitError::InterruptSignal) => Ok(()),
            Err(error) => Err(failed("waiting for an event")(error)),
        }
    }
}
