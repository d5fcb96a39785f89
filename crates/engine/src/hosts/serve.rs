//! Command on the follower's host, started by ssh: it sends a greeting, checks its host, and starts one follower.

use super::network::network_of;
use super::silence::{LONGEST_SILENCE, SIGN_OF_LIFE, Silence};
use super::words::{FromHost, Hello, HostFindings, ToHost};
use crate::audit::{self, Root};
use crate::channel::{Heard, Incoming, receive_line};
use crate::clock::{Calibration, TimeOfDay};
use crate::environment;
use crate::node_options::node_options;
use crate::os;
use crate::registry::{Entry, Registry, SystemSource};
use crate::resolve;
use crate::scratch::{self, ScratchFolder};
use crate::spawn::Worker;
use crate::two_clocks::ClockServer;
use crate::wire::{Follow, FollowerPlace, FromFollower, ToWorker};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, BufReader, Write};
use std::net::IpAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tripmeter_abi::{NodeOptions, Role};
use tripmeter_model::exit;
use tripmeter_model::host::SystemLook;
use tripmeter_model::plan::SubExperiment;

const COMING_TIME: Duration = Duration::from_secs(10);
const HICCUP_SPIN: Duration = Duration::from_millis(200);
/// Capacity of the queue of messages from the measuring host, which waits while the queue is full.
const MOST_UNHEARD: usize = 16;
const ENDING_TIME: Duration = Duration::from_secs(5);

/// Runs the hidden command `remote`. Returns the exit code.
pub fn serve(registry: &Registry, program: &Path) -> u8 {
    let out = Output::default();
    let ended = converse(registry, program, &out);
    match ended {
        Ok(()) => exit::GOOD,
        Err(why) => {
            // The other host may have gone.
            let _ = out.send(&FromHost::Failed(why));
            exit::SOFTWARE
        }
    }
}

/// Standard output, shared by two threads.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<()>>);

impl Output {
    fn send<T: Serialize>(&self, message: &T) -> io::Result<()> {
        let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
        line.push(b'\n');
        let _turn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = io::stdout().lock();
        out.write_all(&line)?;
        out.flush()
    }
}

fn converse(registry: &Registry, program: &Path, out: &Output) -> Result<(), String> {
    out.send(&Hello::own()).map_err(|error| error.to_string())?;
    let (sender, heard) = sync_channel(MOST_UNHEARD);
    std::thread::spawn(move || {
        let mut reader = BufReader::new(io::stdin());
        while let Ok(Some(line)) = receive_line(&mut reader) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let alive = out.clone();
    std::thread::spawn(move || {
        while alive.send(&FromHost::Alive).is_ok() {
            std::thread::sleep(SIGN_OF_LIFE);
        }
    });
    loop {
        match next(&heard)? {
            None => return Ok(()),
            Some(ToHost::Prepare { plans, address }) => {
                let prepared = FromHost::Prepared(Box::new(prepare(registry, &plans, address)));
                out.send(&prepared).map_err(|error| error.to_string())?;
            }
            Some(ToHost::List) => {
                out.send(&FromHost::Systems(systems(registry))).map_err(|error| error.to_string())?;
            }
            Some(ToHost::Clock { address, epoch_ns }) => {
                let failed = |error: io::Error| format!("its clock cannot be asked at {address}: {error}");
                let server = ClockServer::bind(address).map_err(failed)?;
                out.send(&FromHost::Clock(server.address().map_err(failed)?)).map_err(failed)?;
                server.serve(&TimeOfDay { epoch_ns });
            }
            Some(ToHost::Start { address, cpu }) => {
                let word = follow(registry, program, (address, cpu), &heard, out)?;
                return out.send(&FromHost::Ended(word)).map_err(|error| error.to_string());
            }
            Some(ToHost::Control(_) | ToHost::Alive) => {}
        }
    }
}

pub(super) fn systems(registry: &Registry) -> BTreeMap<String, SystemLook> {
    let is_here = |entry: &&Entry| !matches!(entry.source, SystemSource::Missing { .. });
    let look = |entry: &Entry| match entry.describe() {
        Ok(found) => SystemLook {
            version: Some(found.version.clone()),
            system_version: Some(found.system_version.clone()),
            problem: None,
        },
        Err(why) => SystemLook { problem: Some(why.to_string()), ..SystemLook::default() },
    };
    registry.entries().iter().filter(is_here).map(|entry| (entry.system().to_owned(), look(entry))).collect()
}

fn next(heard: &Receiver<Vec<u8>>) -> Result<Option<ToHost>, String> {
    match heard.recv_timeout(LONGEST_SILENCE) {
        Ok(line) => crate::channel::parse(&line).map(Some).map_err(|error: io::Error| error.to_string()),
        Err(RecvTimeoutError::Disconnected) => Ok(None),
        Err(RecvTimeoutError::Timeout) => Err("the measuring host has sent nothing for too long".to_owned()),
    }
}

/// Audits this host, and checks that it can run the plans.
fn prepare(registry: &Registry, plans: &[SubExperiment], address: IpAddr) -> HostFindings {
    let calibration = Calibration::new();
    let cpus = resolve::usual_cpus();
    let audit = audit::before(&Root::machine(), &cpus, &calibration, Some(HICCUP_SPIN));
    let environment = environment::environment(&calibration);
    let (mut systems, mut problems) = (BTreeMap::new(), BTreeMap::new());
    let scratch = ScratchFolder::create();
    for plan in plans {
        let unknown = |_| "it has no such transport".to_owned();
        let described = registry.get(&plan.transport.system).map_err(unknown).and_then(|entry| {
            let description = entry.describe().map_err(ToString::to_string)?;
            Ok((entry, (description.version.clone(), description.system_version.clone())))
        });
        let can = described.as_ref().map_err(Clone::clone).and_then(|(entry, _)| {
            let scratch = scratch.as_ref().map_err(|error| format!("scratch folder: {error}"))?;
            let options = options(plan, scratch.folder(), address);
            entry.probe(&options).map(|_| ()).map_err(|error| error.to_string())
        });
        systems.insert(plan.transport.system.clone(), described.map(|(_, versions)| versions));
        can.err().map(|why| problems.insert(plan.name.clone(), why));
    }
    let network = network_of(address);
    HostFindings { environment, audit, network, cpu: cpus.last().copied(), systems, problems }
}

fn options(plan: &SubExperiment, scratch: &Path, address: IpAddr) -> NodeOptions {
    NodeOptions {
        run_id: scratch::fresh_run_id(),
        scratch_dir: scratch.to_path_buf(),
        // This address has the same family as the leader's.
        local_address: Some(address),
        ..node_options(plan, Role::Follower)
    }
}

/// Starts a follower, relays its control channel, and returns its last message.
fn follow(
    registry: &Registry,
    program: &Path,
    (address, cpu): (IpAddr, Option<usize>),
    heard: &Receiver<Vec<u8>>,
    out: &Output,
) -> Result<Option<FromFollower>, String> {
    scratch::remove_leftovers();
    let mut scratch = ScratchFolder::create().map_err(|error| format!("scratch folder: {error}"))?;
    let part = scratch.part().map_err(|error| format!("scratch folder: {error}"))?;
    let started = |error: io::Error| format!("a follower cannot be started: {error}");
    let control = part.folder.join("control");
    let listener = UnixListener::bind(&control).map_err(started)?;
    let mut follower = Worker::spawn(program, &part.folder, &BTreeMap::new(), None, None).map_err(started)?;
    let place = FollowerPlace { scratch_dir: part.folder.clone(), address, cpu };
    let order = Follow { control, plugins: registry.plugins(), place: Some(place) };
    follower.send(&ToWorker::Follow(order)).map_err(started)?;
    if !os::wait_readable(&[&listener], COMING_TIME).map_err(started)?[0] {
        return Err("the follower process did not connect".to_owned());
    }
    let (mut stream, _) = listener.accept().map_err(started)?;
    os::check_peer(&stream).map_err(started)?;
    let reader = stream.try_clone().map_err(started)?;
    let back = out.clone();
    let says = std::thread::spawn(move || carry_back(reader, &back));
    carry_on(
        heard,
        LONGEST_SILENCE,
        || follower.has_ended(),
        |line| {
            // If the follower has gone, `has_ended` reports it.
            let _ = stream.write_all(format!("{line}\n").as_bytes());
        },
    );
    let _ = stream.shutdown(std::net::Shutdown::Both);
    follower.end(ENDING_TIME);
    // An error means that the thread has panicked; nothing more is sent.
    let _ = says.join();
    let word = follower.last_word();
    let crash = follower.crash().map(|how| FromFollower::Failed(format!("the follower process {how}")));
    part.remove();
    Ok(word.or(crash))
}

/// Passes on lines from the leader until the follower has ended, the leader has gone, or the silence was too long.
fn carry_on(
    heard: &Receiver<Vec<u8>>,
    longest_silence: Duration,
    mut has_ended: impl FnMut() -> bool,
    mut carry: impl FnMut(&str),
) {
    let mut silence = Silence::new(longest_silence);
    while !has_ended() {
        let Ok(message) = next_soon(heard) else { return };
        silence.note(message.is_some());
        if silence.is_over() {
            return;
        }
        if let Some(ToHost::Control(line)) = message {
            carry(&line);
        }
    }
}

struct Gone;

/// Next message, if one comes within 20 ms.
fn next_soon(heard: &Receiver<Vec<u8>>) -> Result<Option<ToHost>, Gone> {
    match heard.recv_timeout(Duration::from_millis(20)) {
        Ok(line) => crate::channel::parse(&line).map(Some).map_err(|_: io::Error| Gone),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(Gone),
    }
}

fn carry_back(follower: UnixStream, out: &Output) {
    let mut incoming = Incoming::new(follower);
    loop {
        match incoming.next_line(Duration::from_secs(1)) {
            Ok(Heard::Message(line)) => {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                if out.send(&FromHost::Control(text)).is_err() {
                    return;
                }
            }
            Ok(Heard::Nothing) => {}
            Ok(Heard::End) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn control_that_is_busy_without_a_sign_of_life_is_no_silence_and_silence_ends_it() {
        const LONGEST: Duration = Duration::from_secs(1);
        let (sender, heard) = sync_channel(MOST_UNHEARD);
        let line = serde_json::to_vec(&ToHost::Control("7".to_owned())).unwrap();
        let (mut carried, begin) = (0, Instant::now());
        std::thread::scope(|scope| {
            let sender = &sender;
            scope.spawn(move || {
                while begin.elapsed() < 3 * LONGEST {
                    std::thread::sleep(LONGEST / 20);
                    if sender.send(line.clone()).is_err() {
                        return;
                    }
                }
            });
            carry_on(&heard, LONGEST, || false, |_| carried += 1);
            drop(heard);
        });
        assert!(begin.elapsed() > 3 * LONGEST, "it was given up while it was busy, after {carried} lines");
        assert!(carried > 0);
    }
}
