//! The process that answers. All its settings come from the leader.

use super::{ANSWER_TIMEOUT, BuiltIn, Error, MANY_LINKS, OPEN_TIMEOUT, Result, arrivals_file, confine, find, probe};
use crate::clock::{Clock, Monotonic, Source, Tsc};
use crate::control::{Channel, FromFollower, NoMessage, PROTOCOL, Setup, ToFollower, Versions};
use crate::handover::Page;
use crate::measure::arrivals;
use crate::measure::callback::{self, Inbox};
use crate::measure::delayed::Delayed;
use crate::measure::sink::Sink;
use crate::measure::stamps::{Arrived, NoStamps, Numbered, Stamps};
use crate::measure::{Failure, Shared, Watch, echo};
use crate::message::{TouchKind, with_touch};
use crate::os::{self, ForThisUser, Target};
use crate::proof::{Baseline, Observer};
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tripmeter_abi::{Link, LinkOptions, Node, Pattern, System, Wait};

/// Longest that a follower has nothing to do: the leader may be writing a million samples.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// A follower that has its settings.
pub struct Follower {
    control: Channel<ToFollower>,
    shared: Arc<Shared>,
    setup: Setup,
}

/// Follows the leader at the other end of `stream` until it says good-bye. It names a system; where that is, if it is a
/// plugin, `plugins` says.
///
/// # Errors
/// What ended it; the leader has been told.
pub fn follow(stream: UnixStream, plugins: &BTreeMap<String, PathBuf>, built_in: BuiltIn<'_>) -> Result<()> {
    let mut follower = Follower::start(stream)?;
    if follower.pattern() == Pattern::Log {
        let result = follower.read_logs();
        return follower.report(result);
    }
    let system = &follower.setup.system;
    let plugin = plugins.get(system).map(PathBuf::as_path);
    let result = find(system, plugin, built_in).and_then(|system| system.follow(&mut follower));
    follower.report(result)
}

impl Follower {
    /// Receives the settings; to be called in the thread that will follow.
    ///
    /// # Errors
    /// If the leader goes away, or speaks another protocol.
    pub fn start(stream: UnixStream) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let stops = |message: &ToFollower| match message {
            ToFollower::Stop => Some(0),
            ToFollower::StopAfter { last } => Some(*last),
            _ => None,
        };
        let mut control = Channel::new(stream, shared.clone(), Target::current(), stops)
            .map_err(|error| Error::of("control channel", error))?;
        let greeting = control.receive(ANSWER_TIMEOUT);
        let versions = match &greeting {
            Ok(ToFollower::Setup(setup)) if setup.protocol != PROTOCOL => {
                let tripmeter = Some(setup.tripmeter.clone()).filter(|version| !version.is_empty());
                Some(Versions { protocol: setup.protocol, tripmeter })
            }
            // Of the same version it is no message of another one, but junk.
            Err(NoMessage::Junk(junk)) => junk.versions.clone().filter(|versions| versions.protocol != PROTOCOL),
            _ => None,
        };
        if let Some(versions) = versions {
            // A leader that has gone need not be told.
            let _ = control.send(&FromFollower::Failed(versions.differ()));
            return Err(Error::Failed(versions.differ()));
        }
        if let Err(NoMessage::Junk(junk)) = &greeting {
            // The same.
            let _ = control.send(&FromFollower::Failed(junk.to_string()));
        }
        match greeting? {
            ToFollower::Setup(setup) => {
                shared.interrupt.store(setup.interrupt, Relaxed);
                confine(&setup.cpus)?;
                Ok(Self { control, shared, setup: *setup })
            }
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

    pub(super) fn say(&mut self, message: &FromFollower) -> Result<()> {
        self.control.send(message).map_err(|error| Error::of("the leader has gone", error))
    }

    pub(super) fn pin(&self, now: bool) -> Result<()> {
        match self.setup.cpu {
            Some(cpu) if now => os::pin_thread(cpu).map_err(|error| Error::of(&format!("processor {cpu}"), error)),
            _ => Ok(()),
        }
    }

    /// Opens the transport, connects it, and serves the leader's requests.
    ///
    /// # Errors
    /// What ended it.
    pub fn run<S: System, C: Clock + Copy>(&mut self, system: &S, clock: C) -> Result<()> {
        let page = Page::open(&self.setup.handover).map_err(|error| Error::of("hand-over page", error))?;
        let baseline = Observer::baseline();
        let links = self.setup.options.link_count;
        if links > MANY_LINKS {
            os::raise_file_limit();
        }
        let inboxes: Vec<Box<Inbox>> = (0..links).map(|_| Box::default()).collect();
        self.pin(!self.setup.own_threads)?;
        let for_this_user = ForThisUser::begin();
        let mut node = system.open(&self.setup.options).map_err(|error| Error::of("open", error))?;
        let mut links = Vec::new();
        for (index, inbox) in (0..).zip(&inboxes) {
            let callback = self.is_called_back().then(|| inbox.callback());
            let link = node.link(&LinkOptions { index, callback });
            links.push(link.map_err(|error| Error::of("open", error))?);
        }
        self.connect(&mut links)?;
        drop(for_this_user);
        self.serve(&mut links, clock, &inboxes, &page, &baseline)
    }

    fn connect<L: Link>(&mut self, links: &mut [L]) -> Result<()> {
        let addresses: tripmeter_abi::Result<_> = links.iter_mut().map(Link::address).collect();
        let addresses = addresses.map_err(|error| Error::of("open", error))?;
        self.say(&FromFollower::Opened { addresses })?;
        let ToFollower::Connect(peers) = self.control.receive(OPEN_TIMEOUT)? else {
            return Err(Error::Failed("the leader did not send its address".to_owned()));
        };
        let timeout_ns = OPEN_TIMEOUT.as_nanos() as u64;
        // One of the leader's links for each of ours, or all of them, those of several publishers, for the one.
        let of_each = self.setup.options.publisher_count.max(1) as usize;
        for (link, peers) in links.iter_mut().zip(peers.chunks(of_each)) {
            link.connect(peers, timeout_ns).map_err(|error| Error::of("connect", error))?;
        }
        self.pin(self.setup.own_threads)?;
        let memory_lock = os::lock_memory().map_or_else(|error| error.to_string(), |()| "locked".to_owned());
        self.say(&FromFollower::Connected { memory_lock })
    }

    /// The clock to measure with.
    pub fn clock(&self) -> Source {
        self.setup.timebase.source
    }

    fn serve<L: Link, C: Clock + Copy>(
        &mut self,
        links: &mut [L],
        clock: C,
        inboxes: &[Box<Inbox>],
        page: &Page,
        baseline: &Baseline,
    ) -> Result<()> {
        loop {
            let (Some(link), Some(inbox)) = (links.first_mut(), inboxes.first()) else {
                return Err(Error::Failed("the leader asked for no link".to_owned()));
            };
            match self.control.receive(IDLE_TIMEOUT)? {
                ToFollower::Handover => {
                    self.say(&FromFollower::Ready)?;
                    page.follow();
                }
                ToFollower::Cell { first, noted, .. } => {
                    let ticks = self.setup.timebase.to_ticks(self.setup.answer_delay_ns);
                    match self.setup.arrivals {
                        None if ticks > 0 => self.cell(&mut Delayed { link, clock, ticks }, inbox, &mut NoStamps)?,
                        None => self.cell(link, inbox, &mut NoStamps)?,
                        Some(Source::Tsc) => self.noted_cell(link, inbox, Arrived::new(Tsc, first, noted)?)?,
                        Some(Source::Monotonic) => {
                            self.noted_cell(link, inbox, Arrived::new(Monotonic, first, noted)?)?
                        }
                    }
                    self.say(&FromFollower::Stopped)?;
                }
                ToFollower::Count { first } => {
                    self.ready()?;
                    let mut link = Watch::off(link);
                    let arrived = with_touch!(self.setup.touch, T => self.count::<L, C, T, false>(&mut link, clock, inbox, first))?;
                    self.say(&FromFollower::Arrived(arrived))?;
                }
                ToFollower::Receive { first, messages } => {
                    with_touch!(self.setup.touch, T => self.receive::<L, C, T>(links, clock, inboxes, first, &messages))?;
                }
                ToFollower::Answer => {
                    with_touch!(self.setup.touch, T => self.answer_calls::<L, T>(links, inboxes))?;
                }
                ToFollower::Probe(plan) => probe::follow(self, link, clock, inbox, baseline, plan)?,
                ToFollower::Bye => return Ok(()),
                ToFollower::Setup(_)
                | ToFollower::Connect(_)
                | ToFollower::Stop
                | ToFollower::StopAfter { .. }
                | ToFollower::ReadLog { .. }
                | ToFollower::LogClosed { .. }
                | ToFollower::Sent { .. } => {
                    return Err(Error::Failed("the leader's messages are out of order".to_owned()));
                }
            }
        }
    }

    fn cell<L: Link, S: Stamps>(&mut self, link: &mut L, inbox: &Inbox, stamps: &mut S) -> Result<()> {
        self.ready()?;
        let mut link = Watch::off(link);
        with_touch!(self.setup.touch, T => self.answer::<L, T, S, false>(&mut link, inbox, stamps))
    }

    /// A cell whose arrivals are noted, and left in a file for the leader.
    fn noted_cell<L: Link, C: Clock>(&mut self, link: &mut L, inbox: &Inbox, mut arrived: Arrived<C>) -> Result<()> {
        if let Some(follower) = self.number() {
            let mut numbered = Numbered { follower, stamps: arrived };
            self.cell(link, inbox, &mut numbered)?;
            arrived = numbered.stamps;
        } else {
            self.cell(link, inbox, &mut arrived)?;
        }
        let bytes: Vec<u8> = arrived.ticks().iter().flat_map(|ticks| ticks.to_le_bytes()).collect();
        let options = &self.setup.options;
        let file = arrivals_file(&options.scratch_dir, options.follower_index);
        std::fs::write(&file, bytes).map_err(|error| Error::of(&format!("file '{}'", file.display()), error))
    }

    /// Answers messages until the leader says stop, or has gone.
    pub(super) fn answer<L: Link, T: TouchKind, S: Stamps, const ON: bool>(
        &mut self,
        link: &mut Watch<'_, L, ON>,
        inbox: &Inbox,
        stamps: &mut S,
    ) -> Result<()> {
        let timeout_ns = self.setup.loss_timeout_ns;
        let result = match self.setup.options.wait {
            Wait::Callback => {
                let control = &mut self.control;
                // A leader that has gone ends the loop.
                let listening = || drop(control.send(&FromFollower::Ready));
                callback::echo::<L, T, S, ON>(inbox, link, &self.shared, timeout_ns, stamps, listening)
            }
            Wait::Poll | Wait::Block => echo::run::<_, T>(link, &self.shared, timeout_ns, stamps),
        };
        self.shared.stop.store(false, Relaxed);
        match result {
            Ok(()) => Ok(()),
            Err(Failure::Transport(error)) => Err(Error::of("answer", error)),
            Err(failure) => Err(Error::Failed(failure.to_string())),
        }
    }

    /// Counts messages until the leader says how many there are, and they have come, or it has gone.
    pub(super) fn count<L: Link, C: Clock, T: TouchKind, const ON: bool>(
        &mut self,
        link: &mut Watch<'_, L, ON>,
        clock: C,
        inbox: &Inbox,
        first: u64,
    ) -> Result<arrivals::Arrived> {
        let shared = self.shared.clone();
        let mut sink = Sink::new(link, clock, &shared, first);
        sink.loss_timeout_ns = self.setup.loss_timeout_ns;
        sink.ticks_per_ns = self.setup.timebase.ticks_per_ns();
        let result = if self.is_called_back() {
            let control = &mut self.control;
            // A leader that has gone ends the loop.
            sink.run_called_back::<T>(inbox, || drop(control.send(&FromFollower::Ready)))
        } else {
            sink.run::<T>()
        };
        self.shared.stop.store(false, Relaxed);
        result.map_err(|failure| Error::of("take messages", failure))
    }

    /// Its index, if there are several.
    pub(super) fn number(&self) -> Option<u32> {
        let options = &self.setup.options;
        (options.follower_count > 1).then_some(options.follower_index)
    }

    pub(super) fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The next word of the leader.
    pub(super) fn hear(&self, time: Duration) -> std::result::Result<ToFollower, NoMessage> {
        self.control.receive(time)
    }

    /// The pattern that this is.
    pub(super) fn pattern(&self) -> Pattern {
        self.setup.options.pattern
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::receive;
    use std::io::{BufReader, Write};

    /// What a follower and its leader say of that first line.
    fn said(line: &str) -> (String, String) {
        let (mut leader, stream) = UnixStream::pair().unwrap();
        writeln!(leader, "{line}").unwrap();
        let Err(error) = Follower::start(stream) else { panic!("'{line}' was taken") };
        leader.shutdown(std::net::Shutdown::Write).unwrap();
        let heard = receive::<FromFollower>(&mut BufReader::new(leader)).unwrap();
        let heard = if let Some(FromFollower::Failed(why)) = heard { why } else { String::new() };
        (error.to_string(), heard)
    }

    #[test]
    fn both_sides_hear_both_versions_whatever_else_the_settings_hold() {
        let own = format!("protocol {PROTOCOL} (tripmeter {})", env!("CARGO_PKG_VERSION"));
        for (line, leader) in [
            (r#"{"Setup":{"protocol":7,"tripmeter":"0.0.9","new":[1]}}"#, "protocol 7 (tripmeter 0.0.9)"),
            (r#"{"Setup":{"protocol":7}}"#, "protocol 7 (tripmeter of unknown version)"),
        ] {
            let (follower, heard) = said(line);
            assert!(follower.contains(leader) && follower.contains(&own), "{follower}");
            assert_eq!(follower, heard);
        }
    }

    #[test]
    fn settings_of_this_version_that_are_none_are_junk() {
        let (follower, heard) = said(&format!(r#"{{"Setup":{{"protocol":{PROTOCOL},"tripmeter":"x","cpu":"0"}}}}"#));
        assert_eq!(follower, heard);
        assert!(follower.starts_with("junk on the control channel: \"{\"Setup\""), "{follower}");
    }

    #[test]
    fn junk_is_called_junk() {
        let (follower, heard) = said("GET / HTTP/1.1");
        assert_eq!(follower, heard);
        assert_eq!(follower, "junk on the control channel: \"GET / HTTP/1.1\"");
    }
}
