//! State and helpers of a follower. All its settings come from the leader.

use super::pool::CostWindow;
use super::{ANSWER_TIMEOUT, Error, Result, confine};
use crate::channel::{Channel, NoMessage, Versions};
use crate::clock::Calibration;
use crate::lanes::{Answering, AnyNode, Lane, LoopSetting};
use crate::measure::callback::Inbox;
use crate::measure::notes::{ArrivalLog, ArrivalMemory};
use crate::measure::{Failure, Shared};
use crate::os::{self, Target};
use crate::proof::Observer;
use crate::two_clocks::ClockServer;
use crate::wire::{ArrivalPlace, Arrived, FollowerPlace, FromFollower, PROTOCOL, Report, Setup, ToFollower};
use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tripmeter_abi::Wait;

/// Longest time without work: the leader may be writing a million samples.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// Bytes of arrivals per message, before base64.
const MOST_PIECE_BYTES: usize = 3 << 20;

pub struct Follower {
    pub(super) control: Channel<ToFollower>,
    pub(super) shared: Arc<Shared>,
    pub(super) cost: Arc<CostWindow>,
    setup: Setup,
}

impl Follower {
    /// Receives the settings; must be called in the follower's measuring thread. On another host than the leader's,
    /// `place` replaces settings that are not valid there. Fails if the leader goes away, or speaks another protocol.
    pub(crate) fn start(stream: UnixStream, place: Option<&FollowerPlace>) -> Result<Self> {
        let (shared, cost) = (Arc::new(Shared::default()), Arc::new(CostWindow::default()));
        let window = cost.clone();
        let stops = move |message: &ToFollower, shared: &Shared| match message {
            ToFollower::End { last } if shared.is_alone.load(Relaxed) => {
                window.end();
                Some(last.first().copied().unwrap_or(0))
            }
            _ => None,
        };
        let mut control = Channel::new(stream, shared.clone(), Target::current(), stops)
            .map_err(|error| Error::failed("control channel", error))?;
        let greeting = control.receive(ANSWER_TIMEOUT);
        let versions = match &greeting {
            Ok(ToFollower::Setup(setup)) if setup.protocol != PROTOCOL => {
                let tripmeter = Some(setup.tripmeter.clone()).filter(|version| !version.is_empty());
                Some(Versions { protocol: setup.protocol, tripmeter })
            }
            // Unreadable settings of this protocol are junk, not settings of another version.
            Err(NoMessage::Junk(junk)) => junk.versions.clone().filter(|versions| versions.protocol != PROTOCOL),
            _ => None,
        };
        if let Some(versions) = versions {
            // It fails if the leader has ended.
            let _ = control.send(&FromFollower::Failed(versions.differ("leader", "follower")));
            return Err(Error::Failed(versions.differ("leader", "follower")));
        }
        if let Err(NoMessage::Junk(junk)) = &greeting {
            // The leader may have ended.
            let _ = control.send(&FromFollower::Failed(junk.to_string()));
        }
        match greeting? {
            ToFollower::Setup(mut setup) => {
                if let Some(place) = place {
                    setup.options.scratch_dir.clone_from(&place.scratch_dir);
                    setup.options.local_address = Some(place.address);
                    (setup.cpu, setup.cpus) = (setup.cpu.or(place.cpu), Vec::new());
                    setup.timebase = Calibration::new().timebase;
                }
                shared.interrupt.store(setup.interrupt, Relaxed);
                confine(&setup.cpus)?;
                Ok(Self { control, shared, cost, setup: *setup })
            }
            _ => Err(Error::Failed("the leader sent no settings".to_owned())),
        }
    }

    /// Reports an error to the leader, and returns the result.
    pub(super) fn pass_on(&mut self, result: Result<()>) -> Result<()> {
        if let Err(error) = &result {
            // The leader may have ended.
            let _ = self.control.send(&FromFollower::Failed(os::with_lack(error.to_string())));
        }
        result
    }

    pub(super) fn send(&mut self, message: &FromFollower) -> Result<()> {
        self.control.send(message).map_err(|error| Error::failed("the leader has gone", error))
    }

    /// Applies the planned scheduling to this process, once its measuring threads exist.
    pub(super) fn schedule(&self) -> Result<()> {
        let sched = self.setup.sched;
        if sched.is_other() {
            return Ok(());
        }
        os::schedule_process(sched, self.setup.library_sched)
            .map_err(|error| Error::failed("real-time scheduling", error))
    }

    pub(super) fn pin(&self, now: bool) -> Result<()> {
        match self.setup.cpu {
            Some(cpu) if now => os::pin_thread(cpu).map_err(|error| Error::failed(&format!("CPU {cpu}"), error)),
            _ => Ok(()),
        }
    }

    /// Memory for the arrivals of `messages` of each stream.
    pub(super) fn arrivals(&self, place: ArrivalPlace, messages: Vec<u64>) -> Result<ArrivalMemory> {
        match place {
            ArrivalPlace::Follower => Ok(ArrivalMemory::create(messages, 1)?),
            ArrivalPlace::Leader(file) => {
                let memory = ArrivalMemory::open(file, messages, self.setup.options.follower_index);
                memory.map_err(|error| Error::failed("memory for arrivals", error))
            }
        }
    }

    /// Sends the arrivals kept here, if the leader does not share this memory.
    pub(super) fn send_arrivals(&mut self, place: Option<ArrivalPlace>, memory: Option<ArrivalMemory>) -> Result<()> {
        let (Some(ArrivalPlace::Follower), Some(mut memory)) = (place, memory) else { return Ok(()) };
        for piece in memory.part(0).chunks(MOST_PIECE_BYTES) {
            self.send(&FromFollower::Arrivals(BASE64.encode(piece)))?;
        }
        Ok(())
    }

    /// Answers requests for the clock until the leader has asked often enough.
    pub(super) fn answer_clock(&mut self) -> Result<()> {
        let failed = |error| Error::failed("asking for the clock", error);
        let address = self.setup.options.local_address;
        let address = address.ok_or_else(|| Error::Failed("the leader has the same clock".to_owned()))?;
        let server = ClockServer::bind(address).map_err(failed)?;
        let asked = server.address().map_err(failed)?;
        self.send(&FromFollower::Clock(asked))?;
        server.serve(&self.setup.timebase);
        Ok(())
    }

    pub(super) fn report(&mut self, report: Report) -> Result<()> {
        self.send(&FromFollower::Report(Box::new(report)))
    }

    /// Answers messages until the leader stops it or has gone.
    pub(super) fn answer(
        &mut self,
        endpoint: &mut dyn AnyNode,
        inboxes: &[Box<Inbox>],
        answers: Answering<'_>,
        observer: Option<&mut Observer>,
    ) -> Result<()> {
        let answered = self
            .alone(endpoint, inboxes, |lane, setting, listening| lane.answer(setting, answers, observer, listening));
        answered.map_err(|failure| match failure {
            Failure::Transport(error) => Error::failed("answer", error),
            failure => Error::Failed(failure.to_string()),
        })
    }

    /// Counts messages until all that the leader announced have come, or it has gone. Arrivals are kept in `kept`, if given.
    pub(super) fn count(
        &mut self,
        endpoint: &mut dyn AnyNode,
        inboxes: &[Box<Inbox>],
        first: u64,
        kept: Option<ArrivalLog<'_>>,
        observer: Option<&mut Observer>,
    ) -> Result<Arrived> {
        let counted = self
            .alone(endpoint, inboxes, |lane, setting, listening| lane.count(setting, first, kept, observer, listening));
        counted.map_err(|failure| Error::failed("take messages", failure))
    }

    /// Uses the first link in this thread, and reports that it is ready once a callback is in place.
    fn alone<R>(
        &mut self,
        endpoint: &mut dyn AnyNode,
        inboxes: &[Box<Inbox>],
        work: impl FnOnce(&mut dyn Lane, LoopSetting<'_>, &mut dyn FnMut()) -> std::result::Result<R, Failure>,
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

    /// Index of this follower, if there are several.
    pub(super) fn number(&self) -> Option<u32> {
        let options = &self.setup.options;
        (options.follower_count > 1).then_some(options.follower_index)
    }

    pub(super) fn setup(&self) -> &Setup {
        &self.setup
    }

    pub(super) fn recv(&self, time: Duration) -> std::result::Result<ToFollower, NoMessage> {
        self.control.receive(time)
    }

    /// Reports that messages may come. Under wait `callback`, it is reported once the callback is in place.
    pub(super) fn ready(&mut self) -> Result<()> {
        if self.is_called_back() { Ok(()) } else { self.send(&FromFollower::Ready) }
    }

    /// True if messages are handled in the system's own thread.
    pub(super) fn is_called_back(&self) -> bool {
        self.setup.options.wait == Wait::Callback
    }
}

pub(super) fn setting<'a>(setup: &Setup, inbox: &'a Inbox, shared: &'a Shared) -> LoopSetting<'a> {
    let Setup { timebase, touch, loss_timeout_ns, .. } = *setup;
    LoopSetting { timebase, touch: touch.into(), wait: setup.options.wait, loss_timeout_ns, inbox, shared }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::receive;
    use std::io::{BufReader, Write};

    /// Errors that a follower and its leader report for that first line.
    fn said(line: &str) -> (String, String) {
        let (mut leader, stream) = UnixStream::pair().unwrap();
        writeln!(leader, "{line}").unwrap();
        let Err(error) = Follower::start(stream, None) else { panic!("'{line}' was taken") };
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
