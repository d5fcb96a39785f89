//! The process that answers. All its settings come from the leader.

use super::{ANSWER_TIMEOUT, BuiltIn, Error, MANY_LINKS, OPEN_TIMEOUT, Result, arrivals_file, confine, find, probe};
use crate::channel::{Channel, NoMessage, Versions};
use crate::handover::Page;
use crate::lanes::{Answering, AnySystem, Endpoint, Lane, Setting};
use crate::measure::callback::Inbox;
use crate::measure::notes::ArrivalLog;
use crate::measure::{Failure, Shared};
use crate::os::{self, ForThisUser, Target};
use crate::proof::{Baseline, Observer};
use crate::wire::{Arrived, Begin, FromFollower, PROTOCOL, Report, Setup, Task, ToFollower};
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tripmeter_abi::{Pattern, Wait};

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
        return follower.pass_on(result);
    }
    let system = &follower.setup.system;
    let plugin = plugins.get(system).map(PathBuf::as_path);
    let result = find(system, plugin, built_in).and_then(|system| follower.run(&*system));
    follower.pass_on(result)
}

impl Follower {
    /// Receives the settings; to be called in the thread that will follow.
    ///
    /// # Errors
    /// If the leader goes away, or speaks another protocol.
    pub fn start(stream: UnixStream) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let stops = |message: &ToFollower, shared: &Shared| match message {
            ToFollower::End { last } if shared.is_alone.load(Relaxed) => Some(last.first().copied().unwrap_or(0)),
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
    pub(super) fn pass_on(&mut self, result: Result<()>) -> Result<()> {
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
    pub fn run(&mut self, system: &dyn AnySystem) -> Result<()> {
        let page = Page::open(&self.setup.handover).map_err(|error| Error::of("hand-over page", error))?;
        let baseline = Observer::baseline();
        let links = self.setup.options.link_count;
        if links == 0 {
            return Err(Error::Failed("the leader asked for no link".to_owned()));
        }
        if links > MANY_LINKS {
            os::raise_file_limit();
        }
        let inboxes: Vec<Box<Inbox>> = (0..links).map(|_| Box::default()).collect();
        self.pin(!self.setup.own_threads)?;
        let for_this_user = ForThisUser::begin();
        let mut endpoint = system.open(&self.setup.options, &inboxes).map_err(|error| Error::of("open", error))?;
        self.connect(&mut endpoint.lanes())?;
        drop(for_this_user);
        self.serve(&mut *endpoint, &inboxes, &page, &baseline)
    }

    fn connect(&mut self, lanes: &mut [&mut dyn Lane]) -> Result<()> {
        let addresses: tripmeter_abi::Result<_> = lanes.iter_mut().map(|lane| lane.link().address()).collect();
        let addresses = addresses.map_err(|error| Error::of("open", error))?;
        self.say(&FromFollower::Opened { addresses })?;
        let ToFollower::Connect(peers) = self.control.receive(OPEN_TIMEOUT)? else {
            return Err(Error::Failed("the leader did not send its address".to_owned()));
        };
        let timeout_ns = OPEN_TIMEOUT.as_nanos() as u64;
        // One of the leader's links for each of ours, or all of them, those of several publishers, for the one.
        let of_each = self.setup.options.publisher_count.max(1) as usize;
        for (lane, peers) in lanes.iter_mut().zip(peers.chunks(of_each)) {
            lane.link().connect(peers, timeout_ns).map_err(|error| Error::of("connect", error))?;
        }
        self.pin(self.setup.own_threads)?;
        let memory_lock = os::lock_memory().map_or_else(|error| error.to_string(), |()| "locked".to_owned());
        self.say(&FromFollower::Connected { memory_lock })
    }

    /// Does what the leader says until it says good-bye.
    fn serve(
        &mut self,
        endpoint: &mut dyn Endpoint,
        inboxes: &[Box<Inbox>],
        page: &Page,
        baseline: &Baseline,
    ) -> Result<()> {
        loop {
            match self.control.receive(IDLE_TIMEOUT)? {
                ToFollower::Handover => {
                    self.say(&FromFollower::Ready)?;
                    page.follow();
                }
                ToFollower::Begin(begin) if begin.observe => {
                    self.shared.is_alone.store(true, Relaxed);
                    probe::follow(self, endpoint, inboxes, baseline, &begin)?;
                }
                ToFollower::Begin(begin) => self.begin(endpoint, inboxes, begin)?,
                ToFollower::Bye => return Ok(()),
                ToFollower::Setup(_) | ToFollower::Connect(_) | ToFollower::End { .. } => {
                    return Err(Error::Failed("the leader's messages are out of order".to_owned()));
                }
            }
        }
    }

    /// Handles messages until the leader has sent all, and reports them.
    fn begin(&mut self, endpoint: &mut dyn Endpoint, inboxes: &[Box<Inbox>], begin: Begin) -> Result<()> {
        let Begin { task, first, most, .. } = begin;
        let is_alone = match task {
            Task::Answer => self.pattern() != Pattern::Rpc,
            Task::Count => most.is_empty(),
            Task::ReadLog { .. } => return Err(Error::Failed("the leader asked a transport for a log".to_owned())),
        };
        self.shared.is_alone.store(is_alone, Relaxed);
        match task {
            Task::Count if is_alone => {
                self.ready()?;
                let arrived = vec![self.count(endpoint, inboxes, first, None)?];
                self.report(Report { arrived, ..Report::default() })
            }
            Task::Answer if is_alone => self.answer_one(endpoint, inboxes, first, most.first().copied()),
            Task::Answer => self.answer_calls(endpoint, inboxes),
            _ => self.receive(endpoint, inboxes, first, &most),
        }
    }

    /// Answers the messages of the first link; of so many, if any, arrivals are noted and left for the leader.
    fn answer_one(
        &mut self,
        endpoint: &mut dyn Endpoint,
        inboxes: &[Box<Inbox>],
        first: u64,
        noted: Option<u64>,
    ) -> Result<()> {
        let mut log = noted.map(ArrivalLog::new).transpose()?;
        let answers = Answering {
            names_request: false,
            follower: self.number(),
            kept: log.as_mut().map(|log| (first, log)),
            delay_ns: self.setup.answer_delay_ns,
        };
        self.ready()?;
        self.answer(endpoint, inboxes, answers, None)?;
        if let Some(log) = log {
            self.write_arrivals([&log])?;
        }
        self.report(Report::default())
    }

    /// Leaves arrivals in a file for the leader.
    pub(super) fn write_arrivals<'a>(&self, logs: impl IntoIterator<Item = &'a ArrivalLog>) -> Result<()> {
        let mut bytes = Vec::new();
        logs.into_iter().for_each(|log| log.write_to(&mut bytes));
        let options = &self.setup.options;
        let file = arrivals_file(&options.scratch_dir, options.follower_index);
        std::fs::write(&file, bytes).map_err(|error| Error::of(&format!("file '{}'", file.display()), error))
    }

    /// Sends the leader what has come of the messages.
    pub(super) fn report(&mut self, report: Report) -> Result<()> {
        self.say(&FromFollower::Report(Box::new(report)))
    }

    /// Answers messages until the leader says stop, or has gone.
    pub(super) fn answer(
        &mut self,
        endpoint: &mut dyn Endpoint,
        inboxes: &[Box<Inbox>],
        answers: Answering<'_>,
        observer: Option<&mut Observer>,
    ) -> Result<()> {
        let answered = self
            .alone(endpoint, inboxes, |lane, setting, listening| lane.answer(setting, answers, observer, listening));
        answered.map_err(|failure| match failure {
            Failure::Transport(error) => Error::of("answer", error),
            failure => Error::Failed(failure.to_string()),
        })
    }

    /// Counts messages until the leader says how many there are, and they have come, or it has gone.
    pub(super) fn count(
        &mut self,
        endpoint: &mut dyn Endpoint,
        inboxes: &[Box<Inbox>],
        first: u64,
        observer: Option<&mut Observer>,
    ) -> Result<Arrived> {
        let counted =
            self.alone(endpoint, inboxes, |lane, setting, listening| lane.count(setting, first, observer, listening));
        counted.map_err(|failure| Error::of("take messages", failure))
    }

    /// Has the first link used in this thread, which says that it is ready once a callback is in place.
    fn alone<R>(
        &mut self,
        endpoint: &mut dyn Endpoint,
        inboxes: &[Box<Inbox>],
        work: impl FnOnce(&mut dyn Lane, Setting<'_>, &mut dyn FnMut()) -> std::result::Result<R, Failure>,
    ) -> std::result::Result<R, Failure> {
        let (shared, is_called_back, control) = (self.shared.clone(), self.is_called_back(), &mut self.control);
        let setup = &self.setup;
        let mut listening = || {
            if is_called_back {
                // A leader that has gone ends the loop.
                let _ = control.send(&FromFollower::Ready);
            }
        };
        let result = work(endpoint.lanes().swap_remove(0), setting(setup, &inboxes[0], &shared), &mut listening);
        shared.stop.store(false, Relaxed);
        result
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
}

/// What a loop over a link runs in.
pub(super) fn setting<'a>(setup: &Setup, inbox: &'a Inbox, shared: &'a Shared) -> Setting<'a> {
    let Setup { timebase, touch, loss_timeout_ns, .. } = *setup;
    Setting { timebase, touch, wait: setup.options.wait, loss_timeout_ns, inbox, shared }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::receive;
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
