//! Messages between a leader, its supervisor and its followers.

use super::patience::{FollowerPatience, SIGN_OF_LIFE, STOPPED, Stillness};
use super::{Error, Result};
use crate::channel::{Channel, NoMessage};
use crate::measure::Failure;
use crate::os;
use crate::wire::{FromFollower, FromLeader, GONE, Job, Report, ToFollower, ToWorker};
use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

/// Longest time that the supervisor takes to write a manifest, as other programs may keep the disk busy.
const LONGEST_NOTING: Duration = Duration::from_secs(60);

/// Control channels of a leader, and its current phase.
pub(super) struct Controls {
    supervisor: Channel<ToWorker>,
    followers: Vec<Channel<FromFollower>>,
    /// Arrivals that came with the latest report of each follower.
    came: Vec<Vec<u8>>,
    /// Most bytes of arrivals that each follower may send.
    most_came: Cell<usize>,
    /// Hosts of the followers, for errors; empty if all are on this one.
    hosts: Vec<String>,
    transport: String,
    phase: String,
    /// Reason why each follower failed; `None` until it has reported one.
    failures: Vec<Option<String>>,
}

impl Controls {
    pub(super) fn new(supervisor: Channel<ToWorker>, followers: Vec<Channel<FromFollower>>, job: &Job) -> Self {
        let (came, failures) = (vec![Vec::new(); followers.len()], vec![None; followers.len()]);
        let transport = job.sub_experiment.transport.to_string();
        Self {
            supervisor,
            followers,
            came,
            most_came: Cell::new(0),
            hosts: job.hosts.names.clone(),
            transport,
            phase: String::new(),
            failures,
        }
    }

    /// Closes the channels to the followers.
    pub(super) fn hang_up(&self) {
        self.followers.iter().for_each(Channel::hang_up);
    }

    pub(super) fn phase(&self) -> &str {
        &self.phase
    }

    /// Begins a phase, and reports it.
    pub(super) fn set_phase(&mut self, phase: &str) {
        phase.clone_into(&mut self.phase);
        self.report(&FromLeader::Phase(phase.to_owned()));
    }

    pub(super) fn sign_of_life(&mut self) {
        self.report(&FromLeader::Phase(self.phase.clone()));
    }

    /// Reports to the supervisor. Errors are ignored: this process ends with the supervisor.
    pub(super) fn report(&mut self, event: &FromLeader) {
        let _ = self.supervisor.send(event);
    }

    /// Waits until the supervisor has recorded a finished cell.
    pub(super) fn await_noted(&self) -> Result<()> {
        match self.recv_supervisor(LONGEST_NOTING)? {
            ToWorker::Continue => Ok(()),
            _ => Err(self.failed("the supervisor's messages are out of order")),
        }
    }

    pub(super) fn recv_supervisor(&self, time: Duration) -> Result<ToWorker> {
        Ok(self.supervisor.receive(time)?)
    }

    pub(super) fn followers(&self) -> u32 {
        self.followers.len() as u32
    }

    /// Name of a follower, as in messages.
    pub(super) fn who(&self, follower: usize) -> String {
        match (self.hosts.get(follower), self.followers.len()) {
            (Some(host), _) => format!("the follower on host '{host}'"),
            (None, 1) => "the follower".to_owned(),
            (None, count) => format!("follower {follower} (of 0 to {})", count - 1),
        }
    }

    pub(super) fn send_all(&mut self, message: &ToFollower) -> Result<()> {
        (0..self.followers()).try_for_each(|follower| self.send(follower, message))
    }

    pub(super) fn send(&mut self, follower: u32, message: &ToFollower) -> Result<()> {
        self.try_send(follower, message).map_err(|_| self.diagnose(Failure::PeerGone))
    }

    /// Sends to a follower that may have gone.
    pub(super) fn try_send(&mut self, follower: u32, message: &ToFollower) -> io::Result<()> {
        self.followers[follower as usize].send(message)
    }

    /// Next message of each follower, by index, while all open or connect.
    pub(super) fn recv_opening(&mut self) -> Result<Vec<FromFollower>> {
        (0..self.followers()).map(|follower| self.recv(follower, FollowerPatience::OPENING)).collect()
    }

    /// Next message of a follower; `None` if none came in time.
    pub(super) fn recv_within(&mut self, follower: u32, time: Duration) -> Result<Option<FromFollower>> {
        let received = self.followers[follower as usize].receive(time);
        if let Ok(FromFollower::Failed(why)) = &received {
            self.failures[follower as usize] = Some(why.clone());
        }
        let who = || self.who(follower as usize);
        match received {
            Ok(FromFollower::Failed(why)) => Err(self.failed(&format!("{} failed: {why}", who()))),
            Ok(message) => Ok(Some(message)),
            Err(NoMessage::Closed) => Err(self.failed(&format!("{} {GONE}", who()))),
            Err(NoMessage::TimedOut) => Ok(None),
            Err(NoMessage::Junk(junk)) => Err(self.failed(&format!("{} sent {junk}", who()))),
        }
    }

    /// Report of a follower on the messages that have ended.
    pub(super) fn recv_report(&mut self, follower: u32, patience: FollowerPatience) -> Result<Report> {
        let mut came = std::mem::take(&mut self.came[follower as usize]);
        came.clear();
        loop {
            match self.recv(follower, patience)? {
                FromFollower::Report(report) => {
                    self.came[follower as usize] = came;
                    return Ok(*report);
                }
                FromFollower::Arrivals(piece) => {
                    let piece = BASE64.decode(piece);
                    came.extend(
                        piece.map_err(|error| self.failed(&format!("its arrivals are not valid base64: {error}")))?,
                    );
                    let most = self.most_came.get();
                    if came.len() > most {
                        let (who, bytes) = (self.who(follower as usize), came.len());
                        return Err(self.failed(&format!("{who} sent {bytes} bytes of arrivals, {most} were expected")));
                    }
                }
                _ => return Err(self.failed("the follower's messages are out of order")),
            }
        }
    }

    /// Limits the bytes of arrivals that each follower may send from now on.
    pub(super) fn expect_arrivals(&self, bytes: usize) {
        self.most_came.set(bytes);
    }

    /// True if arrivals came with a follower's latest report, and have not been taken yet.
    pub(super) fn has_arrivals(&self, follower: u32) -> bool {
        !self.came[follower as usize].is_empty()
    }

    pub(super) fn take_arrivals(&mut self, follower: u32) -> Vec<u8> {
        std::mem::take(&mut self.came[follower as usize])
    }

    /// Next message of a follower; the supervisor gets signs of life until then.
    /// Fails if it does not come in time, or the follower's process does nothing.
    pub(super) fn recv(&mut self, follower: u32, patience: FollowerPatience) -> Result<FromFollower> {
        let begin = Instant::now();
        let mut stillness = self.followers[follower as usize].peer_pid().map(Stillness::new);
        loop {
            if let Some(message) = self.recv_within(follower, SIGN_OF_LIFE)? {
                return Ok(message);
            }
            let who = self.who(follower as usize);
            let still = stillness.as_mut().map_or(Duration::ZERO, Stillness::look);
            let why = stillness.as_ref().map_or_else(String::new, Stillness::why);
            if still > patience.still {
                let seconds = still.as_secs();
                let what = format!("{who} hangs: it sent no message for {seconds} s, and its process did nothing{why}");
                return Err(self.failed_of(follower, what));
            }
            if begin.elapsed() > patience.whole {
                let (seconds, what) = (patience.whole.as_secs(), patience.what);
                return Err(self.failed_of(follower, format!("{who} {what} after {seconds} s{why}")));
            }
            self.report(&FromLeader::Progress { samples: 0, moves: 0 });
        }
    }

    /// Error about a silent follower, with the resources that its process lacks.
    fn failed_of(&self, follower: u32, what: String) -> Error {
        let pid = self.followers[follower as usize].peer_pid();
        self.failed(&if let Some(pid) = pid { os::with_lack_of(pid, what) } else { what })
    }

    /// Sends a message to all followers, and awaits `Ready` from each.
    pub(super) fn ask_all(&mut self, message: &ToFollower) -> Result<()> {
        self.send_all(message)?;
        (0..self.followers()).try_for_each(|follower| self.recv_ready(follower))
    }

    /// Sends a message to one follower, and awaits `Ready`.
    pub(super) fn ask(&mut self, follower: u32, message: &ToFollower) -> Result<()> {
        self.send(follower, message)?;
        self.recv_ready(follower)
    }

    fn recv_ready(&mut self, follower: u32) -> Result<()> {
        match self.recv(follower, FollowerPatience::ANSWER)? {
            FromFollower::Ready => Ok(()),
            _ => Err(self.failed("the follower's messages are out of order")),
        }
    }

    pub(super) fn failed(&self, why: &str) -> Error {
        let mut stopped = self.followers.iter().map(|follower| follower.peer_pid().is_some_and(os::is_stopped));
        let stopped = stopped.position(|is_stopped| is_stopped && !why.contains(STOPPED));
        let stopped = stopped.map(|index| format!("; {} is {STOPPED}", self.who(index)));
        let child = || os::stopped_child().filter(|child| !why.contains(child)).map(|child| format!("; {child}"));
        let stopped = stopped.or_else(child).unwrap_or_default();
        Error::Failed(format!("transport '{}' failed to {}: {why}{stopped}", self.transport, self.phase))
    }

    pub(super) fn transport_failed(&self, error: &tripmeter_abi::Error) -> Error {
        self.failed(&error.message)
    }

    /// Finds the cause of a failure. A follower's own report says more than the leader's view of it. A follower that
    /// ended without a report says more than what the others report about that.
    pub(super) fn diagnose(&mut self, failure: Failure) -> Error {
        const LOOK: Duration = Duration::from_millis(1);
        // An ssh that has lost its host may take longer to report it.
        let most = Duration::from_millis(if self.hosts.is_empty() { 300 } else { 3000 });
        let deadline = Instant::now() + most;
        // Failures that were reported while another message was awaited.
        let mut said = self.failures.clone();
        loop {
            let is_second_look = said.iter().any(Option::is_some);
            for (index, control) in self.followers.iter().enumerate() {
                match control.receive(LOOK) {
                    Ok(FromFollower::Failed(why)) => said[index] = Some(why),
                    Err(NoMessage::Junk(junk)) => return self.failed(&format!("{} sent {junk}", self.who(index))),
                    Err(NoMessage::Closed) if said[index].is_none() => {
                        let gone = format!("{} {GONE}", self.who(index));
                        let is_all = matches!(failure, Failure::PeerGone);
                        return self.failed(&if is_all { gone } else { format!("{gone}: {failure}") });
                    }
                    _ => {}
                }
            }
            let word = said.iter().enumerate().find_map(|(index, why)| Some((index, why.as_ref()?)));
            let is_over = Instant::now() > deadline;
            if let Some((index, why)) = word.filter(|_| is_second_look || is_over) {
                return self.failed(&format!("{} failed: {why}", self.who(index)));
            }
            if is_over {
                // The transport may notice a lost host long before its ssh reports it.
                let silent: Vec<String> = (0..self.hosts.len()).map(|index| self.who(index)).collect();
                let silent =
                    if silent.is_empty() { String::new() } else { format!("; no report from {}", silent.join(", ")) };
                return self.failed(&format!("{failure}{silent}"));
            }
        }
    }
}
