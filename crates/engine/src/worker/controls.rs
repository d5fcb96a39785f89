//! What the leader says to its supervisor and its followers, and hears of them.

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

/// Longest that the supervisor takes to write a manifest, others may keep it from the disk.
const LONGEST_NOTING: Duration = Duration::from_secs(60);

/// The control channels of a leader, and what it is at.
pub(super) struct Controls {
    supervisor: Channel<ToWorker>,
    followers: Vec<Channel<FromFollower>>,
    /// Arrivals that each has sent with its latest report.
    came: Vec<Vec<u8>>,
    /// Most bytes of them that each may send.
    most_came: Cell<usize>,
    /// Where followers are, if that is not here, and what is measured, for errors.
    hosts: Vec<String>,
    transport: String,
    phase: String,
    /// Why each follower failed, once it has said so.
    failures: Vec<Option<String>>,
}

impl Controls {
    /// Channels that are open.
    pub(super) fn new(supervisor: Channel<ToWorker>, followers: Vec<Channel<FromFollower>>, job: &Job) -> Self {
        let (came, failures) = (vec![Vec::new(); followers.len()], vec![None; followers.len()]);
        let transport = job.sub_experiment.transport.to_string();
        Self {
            supervisor,
            followers,
            came,
            most_came: Cell::new(0),
            hosts: job.hosts.clone(),
            transport,
            phase: String::new(),
            failures,
        }
    }

    /// Says no more to the followers.
    pub(super) fn hang_up(&self) {
        self.followers.iter().for_each(Channel::hang_up);
    }

    /// What it is at.
    pub(super) fn phase(&self) -> &str {
        &self.phase
    }

    /// Says what it does from now on.
    pub(super) fn set_phase(&mut self, phase: &str) {
        phase.clone_into(&mut self.phase);
        self.report(&FromLeader::Phase(phase.to_owned()));
    }

    /// Says that it is still at it.
    pub(super) fn sign_of_life(&mut self) {
        self.report(&FromLeader::Phase(self.phase.clone()));
    }

    /// Tells the supervisor; one that has gone has taken this process with it.
    pub(super) fn report(&mut self, event: &FromLeader) {
        let _ = self.supervisor.send(event);
    }

    /// Waits until the supervisor has noted a finished cell.
    pub(super) fn await_noted(&self) -> Result<()> {
        match self.recv_supervisor(LONGEST_NOTING)? {
            ToWorker::Continue => Ok(()),
            _ => Err(self.failed("the supervisor's messages are out of order")),
        }
    }

    pub(super) fn recv_supervisor(&self, time: Duration) -> Result<ToWorker> {
        Ok(self.supervisor.receive(time)?)
    }

    /// Followers of this leader.
    pub(super) fn followers(&self) -> u32 {
        self.followers.len() as u32
    }

    /// A follower, for people.
    pub(super) fn who(&self, follower: usize) -> String {
        match (self.hosts.get(follower), self.followers.len()) {
            (Some(host), _) => format!("the follower on host '{host}'"),
            (None, 1) => "the follower".to_owned(),
            (None, count) => format!("follower {follower} (of 0 to {})", count - 1),
        }
    }

    /// Tells all followers.
    pub(super) fn send_all(&mut self, message: &ToFollower) -> Result<()> {
        (0..self.followers()).try_for_each(|follower| self.send(follower, message))
    }

    /// Tells one.
    pub(super) fn send(&mut self, follower: u32, message: &ToFollower) -> Result<()> {
        self.try_send(follower, message).map_err(|_| self.diagnose(Failure::PeerGone))
    }

    /// Tells one that may have gone.
    pub(super) fn try_send(&mut self, follower: u32, message: &ToFollower) -> io::Result<()> {
        self.followers[follower as usize].send(message)
    }

    /// The next message of each follower, by index, all of which open or connect.
    pub(super) fn recv_opening(&mut self) -> Result<Vec<FromFollower>> {
        (0..self.followers()).map(|follower| self.recv(follower, FollowerPatience::OPENING)).collect()
    }

    /// A follower's next message; `None` if there was none in time.
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

    /// The follower's report on the messages that have ended.
    ///
    /// # Errors
    /// As [`Controls::recv`].
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
                    came.extend(piece.map_err(|error| self.failed(&format!("its arrivals are no base64: {error}")))?);
                    let most = self.most_came.get();
                    if came.len() > most {
                        let (who, bytes) = (self.who(follower as usize), came.len());
                        return Err(self.failed(&format!("{who} sent {bytes} bytes of arrivals, {most} were to come")));
                    }
                }
                _ => return Err(self.failed("the follower's messages are out of order")),
            }
        }
    }

    /// How many bytes of arrivals each may send from now on.
    pub(super) fn expect_arrivals(&self, bytes: usize) {
        self.most_came.set(bytes);
    }

    /// Whether arrivals came with a follower's latest report, and were not taken.
    pub(super) fn has_arrivals(&self, follower: u32) -> bool {
        !self.came[follower as usize].is_empty()
    }

    /// Arrivals that came with a follower's latest report.
    pub(super) fn take_arrivals(&mut self, follower: u32) -> Vec<u8> {
        std::mem::take(&mut self.came[follower as usize])
    }

    /// A follower's next message; signs of life for the supervisor until then.
    ///
    /// # Errors
    /// If it does not come in time, or the follower's process does nothing.
    pub(super) fn recv(&mut self, follower: u32, patience: FollowerPatience) -> Result<FromFollower> {
        let begin = Instant::now();
        let mut stillness = self.followers[follower as usize].peer_pid().map(Stillness::of);
        loop {
            if let Some(message) = self.recv_within(follower, SIGN_OF_LIFE)? {
                return Ok(message);
            }
            let who = self.who(follower as usize);
            let still = stillness.as_mut().map_or(Duration::ZERO, Stillness::look);
            let why = stillness.as_ref().map_or_else(String::new, Stillness::why);
            if still > patience.still {
                let seconds = still.as_secs();
                let what = format!(
                    "{who} stands still: it has said nothing for {seconds} s, and its process did nothing{why}"
                );
                return Err(self.failed_of(follower, what));
            }
            if begin.elapsed() > patience.whole {
                let (seconds, what) = (patience.whole.as_secs(), patience.what);
                return Err(self.failed_of(follower, format!("{who} {what} after {seconds} s{why}")));
            }
            self.report(&FromLeader::Progress { samples: 0, moves: 0 });
        }
    }

    /// A failure of a follower that has said nothing, with what its process lacks.
    fn failed_of(&self, follower: u32, what: String) -> Error {
        let pid = self.followers[follower as usize].peer_pid();
        self.failed(&if let Some(pid) = pid { os::with_lack_of(pid, what) } else { what })
    }

    /// Sends a message to all that each answers with `Ready`.
    pub(super) fn ask_all(&mut self, message: &ToFollower) -> Result<()> {
        self.send_all(message)?;
        (0..self.followers()).try_for_each(|follower| self.recv_ready(follower))
    }

    /// The same to one.
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

    /// Names the cause: a follower's own word, if it has one, tells more than what the leader saw of it; one that ended
    /// without a word tells more than what others say of that.
    pub(super) fn diagnose(&mut self, failure: Failure) -> Error {
        const LOOK: Duration = Duration::from_millis(1);
        // An ssh that has lost its host says why only then.
        let most = Duration::from_millis(if self.hosts.is_empty() { 300 } else { 3000 });
        let deadline = Instant::now() + most;
        // What one said while something else was waited for.
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
                // A host that has gone may be found out by the transport long before its ssh says so.
                let silent: Vec<String> = (0..self.hosts.len()).map(|index| self.who(index)).collect();
                let silent = if silent.is_empty() {
                    String::new()
                } else {
                    format!("; nothing was said by {}", silent.join(", "))
                };
                return self.failed(&format!("{failure}{silent}"));
            }
        }
    }
}
