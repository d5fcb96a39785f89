//! The process that drives and records.

use super::follower::Follower;
use super::{ANSWER_TIMEOUT, BuiltIn, Error, OPEN_TIMEOUT, Result, find, probe};
use crate::any::AnySystem;
use crate::clock::{Clock, Source};
use crate::control::{Channel, FromFollower, FromLeader, Job, NoMessage, PROTOCOL, Setup, ToFollower, ToWorker, send};
use crate::files::Files;
use crate::handover::Page;
use crate::measure::alarm::Alarm;
use crate::measure::callback::Inbox;
use crate::measure::trips::POLL_IDLE_MASK;
use crate::measure::{Failure, Shared};
use crate::message::with_touch;
use crate::os::{self, Target};
use crate::proof::Observer;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tripmeter_abi::{Description, Link, LinkOptions, Node, NodeOptions, Role, System, Variant, Wait};
use tripmeter_model::plan::Raw;

const FOLLOWER_GONE: &str = "the follower has gone";

/// A leader that has its job and its follower.
pub struct Leader {
    pub(super) job: Job,
    pub(super) shared: Arc<Shared>,
    pub(super) files: Files,
    supervisor: Channel<ToWorker>,
    control: Channel<FromFollower>,
    alarm: Alarm,
    phase: String,
    variant: Variant,
    description: Description,
}

/// What the leader measures with, over all payloads.
pub(super) struct Session<'a, L, C> {
    pub link: &'a mut L,
    pub clock: C,
    pub inbox: &'a Inbox,
    pub page: Page,
    /// In nanoseconds and in ticks.
    pub loss_timeout: (u64, u64),
    pub idle_mask: u32,
    pub packet_bytes: u64,
    /// Latest message sent.
    pub sequence: u64,
    /// Latest message answered.
    pub answered: u64,
}

/// Does a job; the supervisor, at the other end of `stream`, is told how it ended.
///
/// # Errors
/// If the supervisor cannot be told.
pub fn lead(job: Job, stream: UnixStream, built_in: BuiltIn<'_>) -> Result<()> {
    let mut supervisor = stream.try_clone().map_err(|error| Error::of("supervisor's channel", error))?;
    let led = prepare(job, stream, built_in).and_then(|(system, mut leader, thread)| {
        let result = system.lead(&mut leader);
        drop(leader);
        if let Some(thread) = thread {
            // Its errors have come over the control channel.
            let _ = thread.join();
        }
        result
    });
    let ending = match led {
        Ok(()) => FromLeader::Done,
        Err(Error::Interrupted) => FromLeader::Interrupted,
        Err(Error::Failed(why)) => FromLeader::Failed(why),
    };
    send(&mut supervisor, &ending).map_err(|error| Error::of("supervisor's channel", error))
}

/// What a leader is made of: its system, itself, and its follower, if that is a thread.
type Prepared = (Arc<dyn AnySystem>, Leader, Option<JoinHandle<()>>);

fn prepare(job: Job, supervisor: UnixStream, built_in: BuiltIn<'_>) -> Result<Prepared> {
    let shared = Arc::new(Shared::default());
    let is_stop = |message: &ToWorker| matches!(message, ToWorker::Stop);
    let supervisor = Channel::new(supervisor, shared.clone(), Target::current(), is_stop)
        .map_err(|error| Error::of("supervisor's channel", error))?;
    let transport = &job.sub_experiment.transport;
    let system = find(&transport.system, job.plugin.as_deref(), built_in)?;
    let description = system.description();
    let variant = description.variant(&transport.variant).cloned();
    let variant = variant.ok_or_else(|| Error::Failed(format!("transport '{transport}' has no such variant")))?;
    shared.interrupt.store(variant.interrupt, Relaxed);
    let (stream, thread) = meet_follower(&job, &system, variant.same_process)?;
    let control = Channel::new(stream, shared.clone(), Target::current(), |_| false)
        .map_err(|error| Error::of("control channel", error))?;
    let files = Files::create(&job.results_dir, &job.sub_experiment.name, job.raw == Raw::Csv)
        .map_err(|error| Error::of("results folder", error))?;
    let alarm = Alarm::new(shared.clone(), Target::current());
    let phase = String::new();
    let leader = Leader { job, shared, files, supervisor, control, alarm, phase, variant, description };
    Ok((system, leader, thread))
}

/// The follower's end of the control channel: a process that comes to the socket, or a thread of this process.
fn meet_follower(
    job: &Job,
    system: &Arc<dyn AnySystem>,
    same_process: bool,
) -> Result<(UnixStream, Option<JoinHandle<()>>)> {
    let failed = |error| Error::of("control socket", error);
    if same_process {
        let (own, other) = UnixStream::pair().map_err(failed)?;
        let system = system.clone();
        let follow = move || {
            // An error has been sent to the leader, which reports it.
            let _ = Follower::start(other).and_then(|mut follower| {
                let result = system.follow(&mut follower);
                follower.report(result)
            });
        };
        return Ok((own, Some(std::thread::spawn(follow))));
    }
    let listener = UnixListener::bind(&job.control).map_err(failed)?;
    let ready = os::wait_readable(&[&listener], ANSWER_TIMEOUT * 3).map_err(failed)?;
    if !ready[0] {
        return Err(Error::Failed("the follower process did not come".to_owned()));
    }
    Ok((listener.accept().map_err(failed)?.0, None))
}

impl Leader {
    /// Says what it does from now on.
    pub(super) fn phase(&mut self, phase: &str) {
        phase.clone_into(&mut self.phase);
        self.report(&FromLeader::Phase(phase.to_owned()));
    }

    /// Tells the supervisor; one that has gone has taken this process with it.
    pub(super) fn report(&mut self, event: &FromLeader) {
        let _ = self.supervisor.send(event);
    }

    /// Waits until the supervisor has noted a finished cell.
    pub(super) fn await_noted(&self) -> Result<()> {
        match self.supervisor.receive(ANSWER_TIMEOUT)? {
            ToWorker::Continue => Ok(()),
            _ => Err(self.failed("the supervisor's messages are out of order")),
        }
    }

    pub(super) fn tell(&mut self, message: &ToFollower) -> Result<()> {
        let sent = self.control.send(message);
        sent.map_err(|_| self.blame(Failure::PeerGone))
    }

    pub(super) fn hear(&mut self, time: Duration) -> Result<FromFollower> {
        match self.control.receive(time) {
            Ok(FromFollower::Failed(why)) => Err(self.failed(&format!("the follower failed: {why}"))),
            Ok(message) => Ok(message),
            Err(NoMessage::Closed) => Err(self.failed(FOLLOWER_GONE)),
            Err(NoMessage::TimedOut) => Err(self.failed("the follower does not answer")),
        }
    }

    /// Sends a message that the follower answers with `Ready`.
    pub(super) fn ask_ready(&mut self, message: &ToFollower) -> Result<()> {
        self.tell(message)?;
        match self.hear(ANSWER_TIMEOUT)? {
            FromFollower::Ready => Ok(()),
            _ => Err(self.failed("the follower's messages are out of order")),
        }
    }

    fn failed(&self, why: &str) -> Error {
        let transport = &self.job.sub_experiment.transport;
        Error::Failed(format!("transport '{transport}' failed to {}: {why}", self.phase))
    }

    fn transport_failed(&self, error: &tripmeter_abi::Error) -> Error {
        self.failed(&error.message)
    }

    /// Names the cause: the follower's own word, if it has one, tells more than what the leader saw of it.
    pub(super) fn blame(&mut self, failure: Failure) -> Error {
        let deadline = Instant::now() + Duration::from_millis(300);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.control.receive(left) {
                Ok(FromFollower::Failed(why)) => return self.failed(&format!("the follower failed: {why}")),
                Ok(_) => {}
                Err(_) if matches!(failure, Failure::PeerGone) => return self.failed(FOLLOWER_GONE),
                Err(NoMessage::Closed) => return self.failed(&format!("{FOLLOWER_GONE}: {failure}")),
                Err(NoMessage::TimedOut) => return self.failed(&failure.to_string()),
            }
        }
    }

    /// Interrupts blocking calls that are overdue from now on.
    pub(super) fn arm(&self) {
        if self.job.sub_experiment.wait == Wait::Block {
            self.alarm.set(Some(Duration::from_nanos(self.job.loss_timeout_ns) / 2));
        }
    }

    /// The same with a period so short that nothing is waited for.
    pub(super) fn arm_briefly(&self) {
        if self.job.sub_experiment.wait == Wait::Block {
            self.alarm.set(Some(Duration::from_millis(2)));
        }
    }

    pub(super) fn disarm(&self) {
        self.alarm.set(None);
    }

    /// An error if the user has asked to stop.
    pub(super) fn check_stop(&self) -> Result<()> {
        if self.shared.stop.swap(false, Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn node_options(&self, role: Role) -> NodeOptions {
        let plan = &self.job.sub_experiment;
        NodeOptions {
            role,
            pattern: plan.pattern,
            wait: plan.wait,
            variant: plan.transport.variant.clone(),
            settings: plan.transport.settings.clone(),
            run_id: self.job.run_id.clone(),
            scratch_dir: self.job.scratch_dir.clone(),
            max_payload_bytes: largest_message(&plan.payloads),
            link_count: 1,
            follower_count: 1,
            follower_index: 0,
        }
    }

    fn setup(&self, page: &Page) -> Setup {
        Setup {
            protocol: PROTOCOL,
            system: self.job.sub_experiment.transport.system.clone(),
            plugin: self.job.plugin.clone(),
            options: self.node_options(Role::Follower),
            touch: self.job.sub_experiment.touch,
            cpu: self.job.follower_cpu,
            own_threads: self.variant.own_threads,
            interrupt: self.variant.interrupt,
            handover: page.path(),
            loss_timeout_ns: self.job.loss_timeout_ns,
        }
    }

    /// The clock to measure with.
    pub fn clock(&self) -> Source {
        self.job.timebase.source
    }

    /// Opens the transport and measures every payload.
    ///
    /// # Errors
    /// What ended it; the payloads before are on disk.
    pub fn run<S: System, C: Clock + Copy>(&mut self, system: &S, clock: C) -> Result<()> {
        self.phase("open");
        let page = Page::create().map_err(|error| self.failed(&error.to_string()))?;
        let setup = self.setup(&page);
        self.tell(&ToFollower::Setup(Box::new(setup)))?;
        let baseline = Observer::baseline();
        let inbox = Box::<Inbox>::default();
        self.pin(!self.variant.own_threads)?;
        let options = self.node_options(Role::Leader);
        let limits = system.probe(&options).map_err(|error| self.transport_failed(&error))?;
        let mut node = system.open(&options).map_err(|error| self.transport_failed(&error))?;
        self.pin(self.variant.own_threads)?;
        let callback = (options.wait == Wait::Callback).then(|| inbox.callback());
        let link_options = LinkOptions { index: 0, callback };
        let mut link = node.link(&link_options).map_err(|error| self.transport_failed(&error))?;
        self.connect(&mut link)?;
        let loss_timeout_ns = self.job.loss_timeout_ns;
        let mut session = Session {
            link: &mut link,
            clock,
            inbox: &inbox,
            page,
            loss_timeout: (loss_timeout_ns, self.job.timebase.to_ticks(loss_timeout_ns)),
            idle_mask: if options.wait == Wait::Poll { POLL_IDLE_MASK } else { 0 },
            packet_bytes: limits.packet_bytes,
            sequence: 0,
            answered: 0,
        };
        let variant = self.variant.clone();
        let proof = probe::lead(self, &mut session, &baseline, &variant)?;
        self.report(&FromLeader::Proof(proof));
        for payload_bytes in self.job.sub_experiment.payloads.clone() {
            self.check_stop()?;
            with_touch!(self.job.sub_experiment.touch, T => self.measure::<_, C, T>(&mut session, payload_bytes))?;
        }
        self.phase("close");
        self.tell(&ToFollower::Bye)
    }

    fn pin(&self, now: bool) -> Result<()> {
        match self.job.leader_cpu {
            Some(cpu) if now => {
                os::pin_thread(cpu).map_err(|error| self.failed(&format!("processor {cpu} cannot be used: {error}")))
            }
            _ => Ok(()),
        }
    }

    fn connect<L: Link>(&mut self, link: &mut L) -> Result<()> {
        let address = link.address().map_err(|error| self.transport_failed(&error))?;
        let FromFollower::Opened { address: peer } = self.hear(OPEN_TIMEOUT)? else {
            return Err(self.failed("the follower's messages are out of order"));
        };
        self.phase("connect");
        self.tell(&ToFollower::Connect(address))?;
        let connected = link.connect(&[peer], OPEN_TIMEOUT.as_nanos() as u64);
        connected.map_err(|error| self.blame(Failure::Transport(error)))?;
        let FromFollower::Connected { memory_lock: other } = self.hear(OPEN_TIMEOUT)? else {
            return Err(self.failed("the follower's messages are out of order"));
        };
        let own = os::lock_memory().map_or_else(|error| error.to_string(), |()| "locked".to_owned());
        let memory_lock = if own == other { own } else { format!("leader: {own}; follower: {other}") };
        self.report(&FromLeader::Opened {
            transport_version: self.description.version.clone(),
            system_version: self.description.system_version.clone(),
            same_process: self.variant.same_process,
            memory_lock,
        });
        Ok(())
    }
}

/// The largest message of a sub-experiment, which the path proof does not exceed.
fn largest_message(payloads: &[u64]) -> u64 {
    payloads.iter().copied().max().unwrap_or(0)
}
