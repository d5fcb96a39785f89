//! Process of the leader: from its job to its end.

use super::access::{TruePair, prove_refusal};
use super::attempts::Attempts;
use super::controls::Controls;
use super::follower::Follower;
use super::leader::{Leader, Session};
use super::logging::open_log;
use super::payload::payloads;
use super::{ANSWER_TIMEOUT, BuiltIn, Error, MANY_LINKS, OPEN_TIMEOUT, Result, agreed, confine, find, probe};
use crate::audit;
use crate::channel::{Channel, send};
use crate::core_to_core::Page;
use crate::files::Files;
use crate::lanes::{AnySystem, Lane};
use crate::measure::callback::Inbox;
use crate::measure::interrupter::Interrupter;
use crate::measure::{Failure, Shared};
use crate::os::{self, ForThisUser, Target, Whose};
use crate::proof::{self, Baseline, Observer};
use crate::results::to_go_on;
use crate::wire::{CLOSING, FromFollower, FromLeader, Job, ToFollower, ToWorker, WRITING};
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Instant;
use tripmeter_abi::Role;
use tripmeter_model::kernel_queue::{KernelQueues, QueueSide};

/// Phase after a failure, once the results so far are written.
const ENDING: &str = "end after a failure";

/// Does a job, and reports its end to the supervisor at the other end of `stream`.
pub fn lead(job: Job, stream: UnixStream, built_in: BuiltIn<'_>) -> Result<()> {
    let mut supervisor = stream.try_clone().map_err(|error| Error::failed("supervisor's channel", error))?;
    let (result, threads) = match prepare(job, stream, built_in) {
        Ok((system, mut leader, threads)) => {
            let result = run(&mut leader, &*system);
            // Followers that are threads do not see this process end.
            leader.controls.hang_up();
            drop(leader);
            (result, threads)
        }
        Err(error) => (Err(error), Vec::new()),
    };
    // Their errors were reported over the control channel.
    let end = |threads: Vec<JoinHandle<()>>| threads.into_iter().for_each(|thread| drop(thread.join()));
    let gone = |error| Error::failed("supervisor's channel", error);
    let ending = match result {
        Ok(()) => {
            end(threads);
            let used = audit::this_thread("leader", Whose::Process);
            send(&mut supervisor, &FromLeader::Used(used)).map_err(gone)?;
            return send(&mut supervisor, &FromLeader::Done).map_err(gone);
        }
        Err(Error::Interrupted) => FromLeader::Interrupted,
        Err(Error::Failed(why)) => FromLeader::Failed(os::with_lack(why)),
    };
    // Sent before the threads of followers are joined, as one may hang.
    send(&mut supervisor, &ending).map_err(gone)?;
    end(threads);
    Ok(())
}

/// System, leader, and its followers if they are threads.
type PreparedLeader = (Arc<dyn AnySystem>, Leader, Vec<JoinHandle<()>>);

fn prepare(job: Job, supervisor: UnixStream, built_in: BuiltIn<'_>) -> Result<PreparedLeader> {
    confine(&job.cpus.all)?;
    let shared = Arc::new(Shared::default());
    let stops = |message: &ToWorker, _: &Shared| matches!(message, ToWorker::Stop).then_some(0);
    let supervisor = Channel::new(supervisor, shared.clone(), Target::current(), stops)
        .map_err(|error| Error::failed("supervisor's channel", error))?;
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
    let controls = controls.map_err(|error| Error::failed("control channel", error))?;
    let controls = Controls::new(supervisor, controls, &job);
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied | ErrorKind::StorageFull => {
            Error::Failed(format!("results folder: {error}; {}", to_go_on(&error)))
        }
        _ => Error::failed("results folder", error),
    };
    let results = job.results.open().map_err(failed)?;
    let files = Files::for_job(&job, &results).map_err(failed)?;
    let attempts = Attempts::new(&results, &job.sub_experiment.name).map_err(failed)?;
    let interrupter = Interrupter::new(shared.clone(), Target::current());
    let interrupter =
        interrupter.map_err(|error| Error::failed("the thread that ends long waits cannot be started", error))?;
    let leader = Leader { job, shared, files, attempts, controls, interrupter, variant, description };
    Ok((system, leader, threads))
}

/// Starts followers as threads of this process, and returns their control channels.
fn start_followers(job: &Job, system: &Arc<dyn AnySystem>) -> Result<(Vec<UnixStream>, Vec<JoinHandle<()>>)> {
    let (mut streams, mut threads) = (Vec::new(), Vec::new());
    for _ in &job.controls {
        let (own, other) = UnixStream::pair().map_err(|error| Error::failed("control socket", error))?;
        let system = system.clone();
        let follow = move || {
            // An error has been sent to the leader, which reports it.
            let _ = Follower::start(other, None).and_then(|mut follower| {
                let result = follower.run(&*system);
                follower.pass_on(result)
            });
        };
        streams.push(own);
        let thread = std::thread::Builder::new().spawn(follow);
        threads.push(thread.map_err(|error| Error::failed("thread of a follower", error))?);
    }
    Ok((streams, threads))
}

/// Accepts each follower process at its socket, and returns the control channels.
fn meet_followers(job: &Job) -> Result<Vec<UnixStream>> {
    let failed = |error| Error::failed("control socket", error);
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

/// Opens the transport and measures every payload. After an error, the finished payloads are on disk.
fn run(leader: &mut Leader, system: &dyn AnySystem) -> Result<()> {
    if leader.job.sub_experiment.workload.is_log() {
        let packet_bytes = open_log(leader, system)?;
        let (lanes, inboxes) = (Vec::new(), &[]);
        let mut session = Session { lanes, inboxes, page: None, packet_bytes, sequence: 0, abandoned: 0 };
        return measure(leader, &mut session, system);
    }
    leader.controls.set_phase("open");
    let page = leader.is_on_one_host().then(Page::create).transpose();
    let page = page.map_err(|error| leader.controls.failed(&error.to_string()))?;
    for follower in 0..leader.controls.followers() {
        let setup = leader.setup(page.as_ref(), follower);
        leader.controls.send(follower, &ToFollower::Setup(Box::new(setup)))?;
    }
    let baseline = Observer::baseline(leader.job.hosts.local_address);
    if leader.job.sub_experiment.workload.links() > MANY_LINKS {
        os::raise_file_limit();
    }
    let inboxes: Vec<Box<Inbox>> = (0..leader.job.sub_experiment.workload.links()).map(|_| Box::default()).collect();
    leader.pin(!leader.variant.own_threads)?;
    let options = leader.node_options(Role::Leader, 0);
    let address = options.local_address.unwrap_or(Ipv4Addr::LOCALHOST.into());
    if let Some(lack) = os::no_port(leader.variant.path, address) {
        return Err(leader.controls.failed(&lack));
    }
    let limits = system.probe(&options).map_err(|error| leader.controls.transport_failed(&error))?;
    let for_this_user = ForThisUser::begin();
    let begin = Instant::now();
    let mut endpoint = system.open(&options, &inboxes).map_err(|error| leader.controls.transport_failed(&error))?;
    if !leader.is_on_one_host() {
        leader.controls.send_all(&ToFollower::Agreed(agreed::read(&options.scratch_dir)?))?;
    }
    let mut lanes = endpoint.lanes();
    let (own, peer) = connect(leader, &mut lanes, &baseline)?;
    drop(for_this_user);
    leader.pin(leader.variant.own_threads)?;
    let pair = TruePair { leader: own, follower: peer, took: begin.elapsed() };
    let trials = prove_refusal(leader, limits.unauthorized_peers, &pair)?;
    let (inboxes, packet_bytes) = (&inboxes, limits.packet_bytes);
    let mut session = Session { lanes, inboxes, page, packet_bytes, sequence: 0, abandoned: 0 };
    let variant = leader.variant.clone();
    let proof = probe::lead(leader, &mut session, &baseline, &variant)?;
    leader.controls.report(&FromLeader::Proof(proof::with_unauthorized_peers(proof, trials)));
    measure(leader, &mut session, system)
}

/// Measures every payload, and ends the followers.
fn measure(leader: &mut Leader, session: &mut Session<'_>, system: &dyn AnySystem) -> Result<()> {
    if let Err(error) = payloads(leader, session, system) {
        if let Error::Failed(why) = &error {
            leader.controls.report(&FromLeader::Broken(why.clone()));
        }
        // The phase is no longer WRITING, as nothing more is written.
        let phase = leader.controls.phase().to_owned();
        leader.controls.set_phase(if phase == WRITING { ENDING } else { &phase });
        return Err(error);
    }
    leader.controls.set_phase(CLOSING);
    leader.controls.send_all(&ToFollower::Bye)
}

/// Connects all sides, and returns the addresses of the leader and of the first follower.
fn connect(leader: &mut Leader, lanes: &mut [&mut dyn Lane], baseline: &Baseline) -> Result<(Vec<u8>, Vec<u8>)> {
    let out_of_order = |leader: &Leader| leader.controls.failed("the follower's messages are out of order");
    let addresses: tripmeter_abi::Result<Vec<_>> = lanes.iter_mut().map(|lane| lane.link().address()).collect();
    let mut addresses = addresses.map_err(|error| leader.controls.transport_failed(&error))?;
    // Addresses of each follower's links.
    let mut peers = Vec::new();
    for opened in leader.controls.recv_opening()? {
        let FromFollower::Opened { addresses: peer } = opened else { return Err(out_of_order(leader)) };
        peers.push(peer);
    }
    leader.controls.set_phase("connect");
    let links_of_follower = leader.job.sub_experiment.workload.follower_links() as usize;
    if peers.iter().any(|peer| peer.len() != links_of_follower) {
        return Err(out_of_order(leader));
    }
    leader.controls.send_all(&ToFollower::Connect(addresses.clone()))?;
    for (index, lane) in lanes.iter_mut().enumerate() {
        // Several publishers share one link of the follower.
        let peers: Vec<Vec<u8>> = peers.iter().map(|peer| peer[index % peer.len()].clone()).collect();
        let connected = lane.link().connect(&peers, OPEN_TIMEOUT.as_nanos() as u64);
        connected.map_err(|error| leader.controls.diagnose(Failure::Transport(error)))?;
        leader.controls.sign_of_life();
    }
    refuse_third_hosts(leader)?;
    let (mut others, mut queues) = (Vec::new(), baseline.queues(QueueSide::Leader, leader.variant.path));
    for connected in leader.controls.recv_opening()? {
        let FromFollower::Connected { memory_lock, queues: own } = connected else {
            return Err(out_of_order(leader));
        };
        others.push(memory_lock);
        queues.extend(own);
    }
    let own = os::lock_memory().map_or_else(|error| error.to_string(), |()| "locked".to_owned());
    others.dedup();
    let memory_lock = match &others[..] {
        [other] if *other == own => own,
        others => format!("leader: {own}; follower: {}", others.join(", ")),
    };
    leader.controls.report(&FromLeader::Opened {
        transport_version: leader.description.version.clone(),
        system_version: leader.description.system_version.clone(),
        same_process: leader.variant.same_process,
        memory_lock,
        queues: KernelQueues::joined(queues),
    });
    Ok((addresses.swap_remove(0), peers.swap_remove(0).swap_remove(0)))
}

/// Fails if a link goes to a third host, as a follower on another host may send any address. A broker may be elsewhere.
fn refuse_third_hosts(leader: &mut Leader) -> Result<()> {
    let Some(own) = leader.job.hosts.local_address.filter(|_| !leader.variant.broker) else { return Ok(()) };
    let hosts = [&leader.job.hosts.addresses[..], &[own]].concat();
    let failed = |error| Error::failed("the sockets of the leader", error);
    match proof::connected_elsewhere(&hosts).map_err(failed)? {
        Some(other) => {
            let hosts = leader.job.hosts.names.join(", ");
            Err(leader.controls.failed(&format!("messages would go to {other}, which is not an address of {hosts}")))
        }
        None => Ok(()),
    }
}
