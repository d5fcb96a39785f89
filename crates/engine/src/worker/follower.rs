//! The process that answers. All its settings come from the leader.

use super::{ANSWER_TIMEOUT, BuiltIn, Error, OPEN_TIMEOUT, Result, find, probe};
use crate::control::{Channel, FromFollower, PROTOCOL, Setup, ToFollower};
use crate::handover::Page;
use crate::measure::callback::{self, Inbox};
use crate::measure::{Failure, Shared, Watch, echo};
use crate::message::{TouchKind, with_touch};
use crate::os::{self, Target};
use crate::proof::{Baseline, Observer};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tripmeter_abi::{Link, LinkOptions, Node, System, Wait};

/// Longest that a follower has nothing to do: the leader may be writing a million samples.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// A follower that has its settings.
pub struct Follower {
    control: Channel<ToFollower>,
    shared: Arc<Shared>,
    setup: Setup,
}

/// Follows the leader at the other end of `stream` until it says good-bye.
///
/// # Errors
/// What ended it; the leader has been told.
pub fn follow(stream: UnixStream, built_in: BuiltIn<'_>) -> Result<()> {
    let mut follower = Follower::start(stream)?;
    let setup = &follower.setup;
    let result = find(&setup.system, setup.plugin.as_deref(), built_in).and_then(|system| system.follow(&mut follower));
    follower.report(result)
}

impl Follower {
    /// Receives the settings; to be called in the thread that will follow.
    ///
    /// # Errors
    /// If the leader goes away, or speaks another protocol.
    pub fn start(stream: UnixStream) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let is_stop = |message: &ToFollower| matches!(message, ToFollower::Stop);
        let control = Channel::new(stream, shared.clone(), Target::current(), is_stop)
            .map_err(|error| Error::of("control channel", error))?;
        match control.receive(ANSWER_TIMEOUT)? {
            ToFollower::Setup(setup) if setup.protocol == PROTOCOL => {
                shared.interrupt.store(setup.interrupt, Relaxed);
                Ok(Self { control, shared, setup: *setup })
            }
            ToFollower::Setup(setup) => Err(Error::Failed(format!(
                "the leader speaks protocol {}, this follower {PROTOCOL}; use the same tripmeter on both sides",
                setup.protocol
            ))),
            _ => Err(Error::Failed("the leader sent no settings".to_owned())),
        }
    }

    /// Tells the leader if it failed.
    ///
    /// # Errors
    /// The result's own.
    pub(super) fn report(&mut self, result: Result<()>) -> Result<()> {
        if let Err(error) = &result {
            // A leader that has gone need not be told.
            let _ = self.control.send(&FromFollower::Failed(error.to_string()));
        }
        result
    }

    fn say(&mut self, message: &FromFollower) -> Result<()> {
        self.control.send(message).map_err(|error| Error::of("the leader has gone", error))
    }

    fn pin(&self, now: bool) -> Result<()> {
        match self.setup.cpu {
            Some(cpu) if now => os::pin_thread(cpu).map_err(|error| Error::of(&format!("processor {cpu}"), error)),
            _ => Ok(()),
        }
    }

    /// Opens the transport, connects it, and serves the leader's requests.
    ///
    /// # Errors
    /// What ended it.
    pub fn run<S: System>(&mut self, system: &S) -> Result<()> {
        let page = Page::open(&self.setup.handover).map_err(|error| Error::of("hand-over page", error))?;
        let baseline = Observer::baseline();
        let inbox = Box::<Inbox>::default();
        self.pin(!self.setup.own_threads)?;
        let mut node = system.open(&self.setup.options).map_err(|error| Error::of("open", error))?;
        self.pin(self.setup.own_threads)?;
        let callback = (self.setup.options.wait == Wait::Callback).then(|| inbox.callback());
        let options = LinkOptions { index: 0, callback };
        let mut link = node.link(&options).map_err(|error| Error::of("open", error))?;
        self.connect(&mut link)?;
        self.serve(&mut link, &inbox, &page, &baseline)
    }

    fn connect<L: Link>(&mut self, link: &mut L) -> Result<()> {
        let address = link.address().map_err(|error| Error::of("open", error))?;
        self.say(&FromFollower::Opened { address })?;
        let ToFollower::Connect(peer) = self.control.receive(OPEN_TIMEOUT)? else {
            return Err(Error::Failed("the leader did not send its address".to_owned()));
        };
        let timeout_ns = OPEN_TIMEOUT.as_nanos() as u64;
        link.connect(&[peer], timeout_ns).map_err(|error| Error::of("connect", error))?;
        let memory_lock = os::lock_memory().map_or_else(|error| error.to_string(), |()| "locked".to_owned());
        self.say(&FromFollower::Connected { memory_lock })
    }

    fn serve<L: Link>(&mut self, link: &mut L, inbox: &Inbox, page: &Page, baseline: &Baseline) -> Result<()> {
        loop {
            match self.control.receive(IDLE_TIMEOUT)? {
                ToFollower::Handover => {
                    self.say(&FromFollower::Ready)?;
                    page.follow();
                }
                ToFollower::Cell { .. } => {
                    self.ready()?;
                    let mut link = Watch::off(link);
                    with_touch!(self.setup.touch, T => self.answer::<L, T, false>(&mut link, inbox))?;
                    self.say(&FromFollower::Stopped)?;
                }
                ToFollower::Probe(plan) => probe::follow(self, link, inbox, baseline, plan)?,
                ToFollower::Bye => return Ok(()),
                ToFollower::Setup(_) | ToFollower::Connect(_) | ToFollower::Stop => {
                    return Err(Error::Failed("the leader's messages are out of order".to_owned()));
                }
            }
        }
    }

    /// Answers messages until the leader says stop, or has gone.
    pub(super) fn answer<L: Link, T: TouchKind, const ON: bool>(
        &mut self,
        link: &mut Watch<'_, L, ON>,
        inbox: &Inbox,
    ) -> Result<()> {
        let timeout_ns = self.setup.loss_timeout_ns;
        let result = match self.setup.options.wait {
            Wait::Callback => {
                let control = &mut self.control;
                // A leader that has gone ends the loop.
                let listening = || drop(control.send(&FromFollower::Ready));
                callback::echo::<L, T, ON>(inbox, link, &self.shared, timeout_ns, listening)
            }
            Wait::Poll | Wait::Block => echo::run::<_, T>(link, &self.shared, timeout_ns),
        };
        self.shared.stop.store(false, Relaxed);
        match result {
            Ok(()) => Ok(()),
            Err(Failure::Transport(error)) => Err(Error::of("answer", error)),
            Err(failure) => Err(Error::Failed(failure.to_string())),
        }
    }

    /// Messages may come from now on. Under wait `callback` they may only once [`answer`](Self::answer) handles them,
    /// which says so itself.
    pub(super) fn ready(&mut self) -> Result<()> {
        if self.is_called_back() { Ok(()) } else { self.say(&FromFollower::Ready) }
    }

    /// Messages are handled in the system's own thread.
    pub(super) fn is_called_back(&self) -> bool {
        self.setup.options.wait == Wait::Callback
    }

    pub(super) fn finish_probe(&mut self, evidence: crate::proof::Evidence) -> Result<()> {
        self.say(&FromFollower::Evidence(Box::new(evidence)))
    }
}
