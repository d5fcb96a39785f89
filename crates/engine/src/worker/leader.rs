//! The process that drives and records.

use super::attempts::Attempts;
use super::follower::Follower;
use super::intruder::TruePair;
use super::patience::Patience;
use super::{ANSWER_TIMEOUT, BuiltIn, Error, MANY_LINKS, OPEN_TIMEOUT, Result, arrivals_file, confine, find, probe};
use crate::audit;
use crate::channel::{Channel, NoMessage, send};
use crate::files::{Files, Kind, StampFiles, TrialFile};
use crate::handover::Page;
use crate::lanes::{AnySystem, Lane, Setting};
use crate::measure::alarm::Alarm;
use crate::measure::callback::Inbox;
use crate::measure::notes::{self, ArrivalLog};
use crate::measure::{Failure, Shared};
use crate::os::{self, ForThisUser, Target, Whose};
use crate::proof::{self, Observer};
use crate::wire::{CLOSING, FromFollower, FromLeader, Job, PROTOCOL, Setup, ToFollower, ToWorker, WRITING};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tripmeter_abi::{Description, NodeOptions, Pattern, Role, Variant, Wait};
use tripmeter_model::plan::Raw;

/// Longest that the supervisor takes to write a manifest, others may keep it from the disk.
const LONGEST_NOTING: Duration = Duration::from_secs(60);
const GONE: &str = "has gone";
/// What a leader is to do that has written what was measured until a failure.
const ENDING: &str = "end after a failure";

/// A leader that has its job and its followers.
pub struct Leader {
    pub(super) job: Job,
    pub(super) shared: Arc<Shared>,
    pub(super) files: Output,
    pub(super) attempts: Attempts,
    supervisor: Channel<ToWorker>,
    pub(super) controls: Vec<Channel<FromFollower>>,
    alarm: Alarm,
    phase: String,
    pub(super) variant: Variant,
    pub(super) description: Description,
}

/// What the leader measures with, over all payloads.
pub(super) struct Session<'a> {
    /// One for each topic, publisher or client.
    pub lanes: Vec<&'a mut dyn Lane>,
    /// Of every lane.
    pub inboxes: &'a [Box<Inbox>],
    pub page: Page,
    pub packet_bytes: u64,
    /// Latest message sent.
    pub sequence: u64,
}

/// Does a job; the supervisor, at the other end of `stream`, is told how it ended.
///
/// # Errors
/// If the supervisor cannot be told.
pub fn lead(job: Job, stream: UnixStream, built_in: BuiltIn<'_>) -> Result<()> {
    let mut supervisor = stream.try_clone().map_err(|error| Error::of("supervisor's channel", error))?;
    let led = prepare(job, stream, built_in).and_then(|(system, mut leader, threads)| {
        let result = leader.run(&*system);
        // Followers that are threads do not see this process end.
        leader.controls.iter().for_each(Channel::hang_up);
        drop(leader);
        for thread in threads {
            // Its errors have come over the control channel.
            let _ = thread.join();
        }
        result
    });
    let ending = match led {
        Ok(()) => {
            let used = audit::this_thread("leader", Whose::Process);
            send(&mut supervisor, &FromLeader::Used(used)).map_err(|error| Error::of("supervisor's channel", error))?;
            FromLeader::Done
        }
        Err(Error::Interrupted) => FromLeader::Interrupted,
        Err(Error::Failed(why)) => FromLeader::Failed(why),
    };
    send(&mut supervisor, &ending).map_err(|error| Error::of("supervisor's channel", error))
}

/// What a leader is made of: its system, itself, and its followers, if they are threads.
type Prepared = (Arc<dyn AnySystem>, Leader, Vec<JoinHandle<()>>);

fn prepare(job: Job, supervisor: UnixStream, built_in: BuiltIn<'_>) -> Result<Prepared> {
    confine(&job.cpus)?;
    let shared = Arc::new(Shared::default());
    let stops = |message: &ToWorker, _: &Shared| matches!(message, ToWorker::Stop).then_some(0);
    let supervisor = Channel::new(supervisor, shared.clone(), Target::current(), stops)
        .map_err(|error| Error::of("supervisor's channel", error))?;
    let transport = &job.sub_experiment.transport;
    let system = find(&transport.system, job.plugin.as_deref(), built_in)?;
    let description = system.description();
    let variant = description.variant(&transport.variant).cloned();
    let variant = variant.ok_or_else(|| Error::Failed(format!("transport '{transport}' has no such variant")))?;
    shared.interrupt.store(variant.interrupt, Relaxed);
    let (streams, threads) =
        if variant.same_process { start_followers(&job, &system)? } else { (meet_followers(&job)?, Vec::new()) };
    let channel = |stream| Channel::new(stream, shared.clone(), Target::current(), |_, _| None);
    let controls: std::io::Result<Vec<_>> = streams.into_iter().map(channel).collect();
    let controls = controls.map_err(|error| Error::of("control channel", error))?;
    let files = Output::create(&job).map_err(|error| Error::of("results folder", error))?;
    let attempts = Attempts::new(&job.results_dir, &job.sub_experiment.name);
    let attempts = attempts.map_err(|error| Error::of("results folder", error))?;
    let alarm = Alarm::new(shared.clone(), Target::current());
    let phase = String::new();
    let leader = Leader { job, shared, files, attempts, supervisor, controls, alarm, phase, variant, description };
    Ok((system, leader, threads))
}

/// Followers that are threads of this process, and the control channels to them.
fn start_followers(job: &Job, system: &Arc<dyn AnySystem>) -> Result<(Vec<UnixStream>, Vec<JoinHandle<()>>)> {
    let (mut streams, mut threads) = (Vec::new(), Vec::new());
    for _ in &job.controls {
        let (own, other) = UnixStream::pair().map_err(|error| Error::of("control socket", error))?;
        let system = system.clone();
        let follow = move || {
            // An error has been sent to the leader, which reports it.
            let _ = Follower::start(other).and_then(|mut follower| {
                let result = follower.run(&*system);
                follower.pass_on(result)
            });
        };
        streams.push(own);
        threads.push(std::thread::spawn(follow));
    }
    Ok((streams, threads))
}

/// The control channels to the processes that come to the sockets, each to its own.
fn meet_followers(job: &Job) -> Result<Vec<UnixStream>> {
    let failed = |error| Error::of("control socket", error);
    let listeners: std::io::Result<Vec<_>> = job.controls.iter().map(UnixListener::bind).collect();
    let mut streams = Vec::new();
    for (index, listener) in listeners.map_err(failed)?.iter().enumerate() {
        let ready = os::wait_readable(&[listener], ANSWER_TIMEOUT * 3).map_err(failed)?;
        if !ready[0] {
            let which = if job.controls.len() > 1 { format!(" {index}") } else { String::new() };
            return Err(Error::Failed(format!("the follower process{which} did not come")));
        }
        let stream = listener.accept().map_err(failed)?.0;
        os::check_peer(&stream).map_err(failed)?;
        streams.push(stream);
    }
    Ok(streams)
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
        match self.hear_supervisor(LONGEST_NOTING)? {
            ToWorker::Continue => Ok(()),
            _ => Err(self.failed("the supervisor's messages are out of order")),
        }
    }

    /// Leader and follower are threads of one process.
    pub(super) fn is_same_process(&self) -> bool {
        self.variant.same_process
    }

    pub(super) fn hear_supervisor(&self, time: Duration) -> Result<ToWorker> {
        Ok(self.supervisor.receive(time)?)
    }

    /// Followers of this leader.
    pub(super) fn followers(&self) -> u32 {
        self.controls.len() as u32
    }

    /// A follower, for people.
    pub(super) fn who(&self, follower: usize) -> String {
        match self.controls.len() {
            1 => "the follower".to_owned(),
            count => format!("follower {follower} (of 0 to {})", count - 1),
        }
    }

    /// Tells all followers.
    pub(super) fn tell(&mut self, message: &ToFollower) -> Result<()> {
        (0..self.followers()).try_for_each(|follower| self.tell_one(follower, message))
    }

    pub(super) fn tell_one(&mut self, follower: u32, message: &ToFollower) -> Result<()> {
        let sent = self.controls[follower as usize].send(message);
        sent.map_err(|_| self.blame(Failure::PeerGone))
    }

    /// The next message of each follower, by index, all of which open or connect.
    fn hear_all(&mut self) -> Result<Vec<FromFollower>> {
        (0..self.followers()).map(|follower| self.hear_one(follower, Patience::OPENING)).collect()
    }

    /// A follower's next message; `None` if there was none in time.
    pub(super) fn hear_within(&mut self, follower: u32, time: Duration) -> Result<Option<FromFollower>> {
        let who = || self.who(follower as usize);
        match self.controls[follower as usize].receive(time) {
            Ok(FromFollower::Failed(why)) => Err(self.failed(&format!("{} failed: {why}", who()))),
            Ok(message) => Ok(Some(message)),
            Err(NoMessage::Closed) => Err(self.failed(&format!("{} {GONE}", who()))),
            Err(NoMessage::TimedOut) => Ok(None),
            Err(NoMessage::Junk(junk)) => Err(self.failed(&format!("{} sent {junk}", who()))),
        }
    }

    /// When the messages of each stream came to a follower, which have so many.
    pub(super) fn read_arrivals(&self, follower: u32, messages: &[u64]) -> Result<Vec<ArrivalLog>> {
        let file = arrivals_file(&self.job.scratch_dir, follower);
        let named = format!("file '{}'", file.display());
        let bytes = std::fs::read(&file).map_err(|error| Error::of(&named, error))?;
        notes::from_bytes(&bytes, messages).ok_or_else(|| Error::Failed(format!("{named} is not of these messages")))
    }

    /// Sends a message to all that each answers with `Ready`.
    pub(super) fn ask_ready(&mut self, message: &ToFollower) -> Result<()> {
        self.tell(message)?;
        (0..self.followers()).try_for_each(|follower| self.hear_ready(follower))
    }

    /// The same to one.
    pub(super) fn ask_one_ready(&mut self, follower: u32, message: &ToFollower) -> Result<()> {
        self.tell_one(follower, message)?;
        self.hear_ready(follower)
    }

    fn hear_ready(&mut self, follower: u32) -> Result<()> {
        match self.hear_one(follower, Patience::ANSWER)? {
            FromFollower::Ready => Ok(()),
            _ => Err(self.failed("the follower's messages are out of order")),
        }
    }

    pub(super) fn failed(&self, why: &str) -> Error {
        let transport = &self.job.sub_experiment.transport;
        Error::Failed(format!("transport '{transport}' failed to {}: {why}", self.phase))
    }

    pub(super) fn transport_failed(&self, error: &tripmeter_abi::Error) -> Error {
        self.failed(&error.message)
    }

    /// Names the cause: a follower's own word, if it has one, tells more than what the leader saw of it; one that ended
    /// without a word tells more than what others say of that.
    pub(super) fn blame(&mut self, failure: Failure) -> Error {
        const LOOK: Duration = Duration::from_millis(1);
        let deadline = Instant::now() + Duration::from_millis(300);
        let mut said = vec![None; self.controls.len()];
        loop {
            let is_second_look = said.iter().any(Option::is_some);
            for (index, control) in self.controls.iter().enumerate() {
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
            if let Some((index, why)) = word.filter(|_| is_second_look) {
                return self.failed(&format!("{} failed: {why}", self.who(index)));
            }
            if Instant::now() > deadline {
                return self.failed(&failure.to_string());
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

    /// Options of the leader's node, or of a follower's, for `follower`.
    pub(super) fn node_options(&self, role: Role, follower: u32) -> NodeOptions {
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
            link_count: if role == Role::Leader { plan.links() } else { plan.follower_links() },
            publisher_count: plan.publishers(),
            follower_count: plan.followers,
            follower_index: follower,
            intruder: None,
        }
    }

    pub(super) fn setup(&self, page: &Page, follower: u32) -> Setup {
        Setup {
            protocol: PROTOCOL,
            tripmeter: env!("CARGO_PKG_VERSION").to_owned(),
            system: self.job.sub_experiment.transport.system.clone(),
            options: self.node_options(Role::Follower, follower),
            touch: self.job.sub_experiment.touch,
            cpu: self.job.follower_cpus[follower as usize],
            cpus: self.job.cpus.clone(),
            own_threads: self.variant.own_threads,
            interrupt: self.variant.interrupt,
            timebase: self.job.timebase,
            answer_delay_ns: self.job.sub_experiment.answer_delay_ns,
            handover: page.path(),
            loss_timeout_ns: self.job.loss_timeout_ns,
        }
    }

    /// What a loop over a link runs in.
    pub(super) fn setting<'a>(&self, inbox: &'a Inbox, shared: &'a Shared) -> Setting<'a> {
        let (plan, loss_timeout_ns) = (&self.job.sub_experiment, self.job.loss_timeout_ns);
        Setting { timebase: self.job.timebase, touch: plan.touch, wait: plan.wait, loss_timeout_ns, inbox, shared }
    }

    /// Opens the transport and measures every payload.
    ///
    /// # Errors
    /// What ended it; the payloads before are on disk.
    pub fn run(&mut self, system: &dyn AnySystem) -> Result<()> {
        if self.job.sub_experiment.pattern == Pattern::Log {
            return self.log(system);
        }
        self.phase("open");
        let page = Page::create().map_err(|error| self.failed(&error.to_string()))?;
        for follower in 0..self.followers() {
            let setup = self.setup(&page, follower);
            self.tell_one(follower, &ToFollower::Setup(Box::new(setup)))?;
        }
        let baseline = Observer::baseline();
        if self.job.sub_experiment.links() > MANY_LINKS {
            os::raise_file_limit();
        }
        let inboxes: Vec<Box<Inbox>> = (0..self.job.sub_experiment.links()).map(|_| Box::default()).collect();
        self.pin(!self.variant.own_threads)?;
        let options = self.node_options(Role::Leader, 0);
        let limits = system.probe(&options).map_err(|error| self.transport_failed(&error))?;
        let for_this_user = ForThisUser::begin();
        let begin = Instant::now();
        let mut endpoint = system.open(&options, &inboxes).map_err(|error| self.transport_failed(&error))?;
        let mut lanes = endpoint.lanes();
        let (leader, follower) = self.connect(&mut lanes)?;
        drop(for_this_user);
        self.pin(self.variant.own_threads)?;
        let pair = TruePair { leader, follower, took: begin.elapsed() };
        let trials = self.prove_refusal(limits.intruders, &pair)?;
        let mut session = Session { lanes, inboxes: &inboxes, page, packet_bytes: limits.packet_bytes, sequence: 0 };
        let variant = self.variant.clone();
        let proof = probe::lead(self, &mut session, &baseline, &variant)?;
        self.report(&FromLeader::Proof(proof::with_intruders(proof, trials)));
        if let Err(error) = self.payloads(&mut session) {
            // Nothing is written any more.
            let phase = self.phase.clone();
            self.phase(if phase == WRITING { ENDING } else { &phase });
            return Err(error);
        }
        self.phase(CLOSING);
        self.tell(&ToFollower::Bye)
    }

    /// All payloads, one after the other.
    fn payloads(&mut self, session: &mut Session<'_>) -> Result<()> {
        for payload_bytes in self.job.sub_experiment.payloads.clone() {
            self.attempts.begin()?;
            self.payload(session, payload_bytes)?;
            while self.attempts.next() {
                self.payload(session, payload_bytes)?;
            }
        }
        Ok(())
    }

    /// One attempt at one payload.
    fn payload(&mut self, session: &mut Session<'_>, payload_bytes: u64) -> Result<()> {
        self.check_stop()?;
        let plan = &self.job.sub_experiment;
        match plan.pattern {
            _ if plan.channel.is_some() => self.measure_channel(session, payload_bytes),
            _ if plan.rpc.is_some() => self.measure_rpc(session, payload_bytes),
            pattern if is_one_way(pattern) => self.measure_load(session, payload_bytes),
            _ => self.measure(session, payload_bytes),
        }
    }

    pub(super) fn pin(&self, now: bool) -> Result<()> {
        match self.job.leader_cpu {
            Some(cpu) if now => {
                os::pin_thread(cpu).map_err(|error| self.failed(&format!("processor {cpu} cannot be used: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// The addresses of the leader and of the first follower, once all are connected.
    fn connect(&mut self, lanes: &mut [&mut dyn Lane]) -> Result<(Vec<u8>, Vec<u8>)> {
        let out_of_order = |leader: &Self| leader.failed("the follower's messages are out of order");
        let addresses: tripmeter_abi::Result<Vec<_>> = lanes.iter_mut().map(|lane| lane.link().address()).collect();
        let mut addresses = addresses.map_err(|error| self.transport_failed(&error))?;
        // Of each follower, those of its links.
        let mut peers = Vec::new();
        for opened in self.hear_all()? {
            let FromFollower::Opened { addresses: peer } = opened else { return Err(out_of_order(self)) };
            peers.push(peer);
        }
        self.phase("connect");
        let links_of_follower = self.job.sub_experiment.follower_links() as usize;
        if peers.iter().any(|peer| peer.len() != links_of_follower) {
            return Err(out_of_order(self));
        }
        self.tell(&ToFollower::Connect(addresses.clone()))?;
        for (index, lane) in lanes.iter_mut().enumerate() {
            // Of several publishers, all come to one link.
            let peers: Vec<Vec<u8>> = peers.iter().map(|peer| peer[index % peer.len()].clone()).collect();
            let connected = lane.link().connect(&peers, OPEN_TIMEOUT.as_nanos() as u64);
            connected.map_err(|error| self.blame(Failure::Transport(error)))?;
            // A sign of life.
            self.report(&FromLeader::Phase(self.phase.clone()));
        }
        let mut others = Vec::new();
        for connected in self.hear_all()? {
            let FromFollower::Connected { memory_lock } = connected else { return Err(out_of_order(self)) };
            others.push(memory_lock);
        }
        let own = os::lock_memory().map_or_else(|error| error.to_string(), |()| "locked".to_owned());
        others.dedup();
        let memory_lock = match &others[..] {
            [other] if *other == own => own,
            others => format!("leader: {own}; follower: {}", others.join(", ")),
        };
        self.report(&FromLeader::Opened {
            transport_version: self.description.version.clone(),
            system_version: self.description.system_version.clone(),
            same_process: self.variant.same_process,
            memory_lock,
        });
        Ok((addresses.swap_remove(0), peers.swap_remove(0).swap_remove(0)))
    }
}

/// What is written of a sub-experiment besides the manifest.
pub(super) enum Output {
    /// Round trips.
    Samples(Files),
    /// Trials of one-way messages.
    Trials(TrialFile),
    /// Messages at a fixed rate, and calls.
    Stamps(StampFiles),
}

impl Output {
    fn create(job: &Job) -> std::io::Result<Self> {
        let name = &job.sub_experiment.name;
        if let Some(kind) = Kind::of(&job.sub_experiment) {
            return StampFiles::create(&job.results_dir, name, kind, job.raw == Raw::Csv).map(Output::Stamps);
        }
        if is_one_way(job.sub_experiment.pattern) {
            return TrialFile::create(&job.results_dir, name).map(Output::Trials);
        }
        if job.sub_experiment.pattern == Pattern::Log {
            return Files::of_calls(&job.results_dir, name, job.raw == Raw::Csv).map(Output::Samples);
        }
        Files::create(&job.results_dir, name, job.raw == Raw::Csv).map(Output::Samples)
    }
}

/// The follower does not answer, but counts.
pub(super) fn is_one_way(pattern: Pattern) -> bool {
    matches!(pattern, Pattern::Throughput | Pattern::Channel)
}

/// The largest message of a sub-experiment, which the path proof does not exceed.
fn largest_message(payloads: &[u64]) -> u64 {
    payloads.iter().copied().max().unwrap_or(0)
}
