//! Meeting of a leader with a follower that the user started by hand in another terminal.

use crate::channel::{Heard, Incoming, Versions, send};
use crate::os;
use crate::private::Private;
use crate::received::BoundedMessage;
use crate::scratch;
use crate::spawn::{ROOT, Worker, wait_until};
use crate::wire::{Follow, ToWorker};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use thiserror::Error;
use tripmeter_model::printable::line;

/// Order from the leader's supervisor to the follower's.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Order {
    System(String),
    /// Start a follower process for the leader that listens at this socket.
    Start(PathBuf),
    Finish,
    End,
    /// Reason why the experiment cannot begin.
    Refuse(String),
}

/// First message from a follower. A second leader, which only tests whether the rendezvous is taken, sends nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Coming {
    /// Versions of the follower, which must be the leader's.
    Follower(Versions),
}

impl BoundedMessage for Order {}

impl BoundedMessage for Coming {}

/// Longest wait for the lock while another leader opens the rendezvous.
const LOCK_TIME: Duration = Duration::from_secs(25);
const GREETING_TIME: Duration = Duration::from_secs(2);

/// Command that starts the awaited side.
fn start(who: &str) -> &'static str {
    if who == "follower" { "`tripmeter follow`" } else { "a measuring command, such as `tripmeter ping`," }
}

#[derive(Debug, Error)]
pub enum MeetError {
    #[error("no {who} came to '{}' within {seconds} s; start {} with the same --rendezvous", rendezvous.display(), start(who))]
    Nobody {
        /// The side that was awaited.
        who: &'static str,
        rendezvous: PathBuf,
        seconds: u64,
    },
    #[error("another leader waits at '{}'; give both sides another --rendezvous", .0.display())]
    Taken(PathBuf),
    #[error("{0}")]
    Versions(String),
    #[error("rendezvous '{}' cannot be used: {}", .0.display(), .1)]
    System(PathBuf, io::Error),
    #[error("interrupted")]
    Interrupted,
    #[error("the leader ended before the experiment was over")]
    LeaderGone,
    #[error("the follower ended before the experiment was over; start both sides again")]
    FollowerGone,
}

fn socket(name: &str) -> String {
    format!("rendezvous-{name}")
}

/// Path of a rendezvous socket, as shown in messages.
pub fn rendezvous(name: &str) -> Result<PathBuf, MeetError> {
    let shown = Private::with(|private| Ok(private.shown(&socket(name))));
    shown.map_err(|error| MeetError::System(PathBuf::from(name), error))
}

#[derive(Debug)]
pub struct Meeting {
    stream: UnixStream,
}

impl Meeting {
    /// Waits for a follower of this user at the rendezvous called `name`.
    pub fn wait(name: &str, time: Duration, stop: &AtomicBool) -> Result<Self, MeetError> {
        let shown = rendezvous(name)?;
        let system = |error| MeetError::System(shown.clone(), error);
        let opened = Private::with(|private| {
            let place = private.at(&socket(name));
            // One leader at a time: two would remove each other's socket.
            let look = || match private.lock() {
                Ok(None) if stop.load(Relaxed) => Some(Err(ErrorKind::Interrupted.into())),
                tried => tried.transpose(),
            };
            let _locked = wait_until(LOCK_TIME, Duration::from_millis(1), look).unwrap_or_else(|| {
                let seconds = LOCK_TIME.as_secs();
                let why = format!("another leader has held its lock for {seconds} s; if it hangs, end it");
                Err(io::Error::new(ErrorKind::TimedOut, why))
            })?;
            if UnixStream::connect(&place).is_ok() {
                return Ok(None);
            }
            // Nobody listens: a killed leader left the socket behind.
            let _ = fs::remove_file(&place);
            Ok(Some((UnixListener::bind(place)?, private)))
        });
        let (listener, private) = match opened {
            Ok(Some(opened)) => opened,
            Ok(None) => return Err(MeetError::Taken(shown)),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(MeetError::Interrupted),
            Err(error) => return Err(system(error)),
        };
        let begin = Instant::now();
        let met = loop {
            if stop.load(Relaxed) {
                break Err(MeetError::Interrupted);
            }
            match os::wait_readable(&[&listener], Duration::from_millis(200)) {
                Err(error) => break Err(system(error)),
                Ok(ready) if ready[0] => match listener.accept() {
                    Ok((mut stream, _)) if os::check_peer(&stream).is_ok() => match versions_of_follower(&stream) {
                        Some(versions) if versions == Versions::own() => break Ok(stream),
                        Some(versions) => {
                            let why = versions.differ("follower", "leader");
                            // The follower may have gone; this side reports the reason as well.
                            let _ = send(&mut stream, &Order::Refuse(why.clone()));
                            break Err(MeetError::Versions(why));
                        }
                        None => {}
                    },
                    Ok(_) => {}
                    Err(error) => break Err(system(error)),
                },
                Ok(_) if begin.elapsed() > time => {
                    let (who, seconds) = ("follower", time.as_secs());
                    break Err(MeetError::Nobody { who, rendezvous: shown.clone(), seconds });
                }
                Ok(_) => {}
            }
        };
        // Only one follower is accepted.
        let _ = fs::remove_file(private.at(&socket(name)));
        Ok(Self { stream: met? })
    }

    /// Has the other side start a follower process for `system`, which connects to the leader at `control`.
    pub fn start(&mut self, system: &str, control: &Path) -> Result<(), MeetError> {
        self.order(&Order::System(system.to_owned()))?;
        self.order(&Order::Start(control.to_path_buf()))
    }

    pub fn finish(&mut self) {
        // If the follower has gone, its process has ended.
        let _ = self.order(&Order::Finish);
    }

    fn order(&mut self, order: &Order) -> Result<(), MeetError> {
        send(&mut self.stream, order).map_err(|_| MeetError::FollowerGone)
    }
}

/// Versions in the first message of the peer; `None` if it is not a follower.
fn versions_of_follower(stream: &UnixStream) -> Option<Versions> {
    let heard = stream.try_clone().and_then(|stream| Incoming::new(stream).next(GREETING_TIME));
    let Ok(Heard::Message(Coming::Follower(versions))) = heard else { return None };
    Some(versions)
}

impl Drop for Meeting {
    fn drop(&mut self) {
        // An error means that the follower has gone already.
        let _ = self.order(&Order::End);
    }
}

/// Waits for a leader of this user, and starts a follower process for each of its sub-experiments. `plugins`, files
/// by name of the system, are the only ones loaded. `watch` is called with the name of each system.
pub fn follow(
    tripmeter: &Path,
    plugins: &BTreeMap<String, PathBuf>,
    name: &str,
    time: Duration,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&str),
) -> Result<(), MeetError> {
    let shown = rendezvous(name)?;
    let system = |error| MeetError::System(shown.clone(), error);
    let mut stream = find_leader(name, time, stop)?;
    send(&mut stream, &Coming::Follower(Versions::own())).map_err(|_| MeetError::LeaderGone)?;
    let mut incoming = Incoming::new(stream);
    let mut worker: Option<Worker> = None;
    loop {
        if stop.load(Relaxed) {
            return Err(MeetError::Interrupted);
        }
        match incoming.next(Duration::from_millis(500)) {
            Ok(Heard::Nothing) => {}
            Ok(Heard::Message(Order::System(name))) => watch(&name),
            Ok(Heard::Message(Order::Start(control))) => {
                // The control socket is in the leader's scratch folder.
                let folder = control.parent().unwrap_or(Path::new(ROOT));
                let started = Worker::spawn(tripmeter, folder, &BTreeMap::new(), None, None);
                let mut started = started.map_err(system)?;
                let part = Follow { control, plugins: plugins.clone(), place: None };
                started.send(&ToWorker::Follow(part)).map_err(system)?;
                worker = Some(started);
            }
            Ok(Heard::Message(Order::Finish)) => {
                if let Some(mut worker) = worker.take() {
                    worker.end(Duration::from_secs(5));
                }
            }
            Ok(Heard::Message(Order::End)) => return Ok(()),
            Ok(Heard::Message(Order::Refuse(why))) => return Err(MeetError::Versions(line(&why).into_owned())),
            ended @ (Ok(Heard::End) | Err(_)) => {
                drop(worker);
                // A killed leader leaves its scratch files behind; its processes have ended, so they can be removed.
                scratch::remove_leftovers();
                return Err(match ended {
                    Err(error) if error.kind() == ErrorKind::InvalidData => system(error),
                    _ => MeetError::LeaderGone,
                });
            }
        }
    }
}

fn find_leader(name: &str, time: Duration, stop: &AtomicBool) -> Result<UnixStream, MeetError> {
    let shown = rendezvous(name)?;
    let begin = Instant::now();
    loop {
        let connected = Private::open().and_then(|private| UnixStream::connect(private.at(&socket(name))));
        match connected.and_then(|stream| os::check_peer(&stream).map(|()| stream)) {
            Ok(stream) => return Ok(stream),
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                return Err(MeetError::System(shown, error));
            }
            Err(_) if stop.load(Relaxed) => return Err(MeetError::Interrupted),
            Err(_) if begin.elapsed() > time => {
                let (who, seconds) = ("leader", time.as_secs());
                return Err(MeetError::Nobody { who, rendezvous: shown, seconds });
            }
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn both_sides_of_different_versions_hear_both_versions() {
        let (name, stop) = (format!("versions-{}", std::process::id()), AtomicBool::new(false));
        let (led, mut heard) = std::thread::scope(|scope| {
            let leader = scope.spawn(|| Meeting::wait(&name, Duration::from_secs(120), &stop));
            let mut stream = find_leader(&name, Duration::from_secs(120), &stop).unwrap();
            let versions = Versions { protocol: 1, tripmeter: Some("0.0.1".to_owned()) };
            send(&mut stream, &Coming::Follower(versions)).unwrap();
            (leader.join().unwrap(), Incoming::new(stream))
        });
        let told = led.unwrap_err().to_string();
        let own = env!("CARGO_PKG_VERSION");
        assert!(told.contains("the follower has protocol 1 (tripmeter 0.0.1)") && told.contains(own), "{told}");
        let heard = heard.next::<Order>(Duration::from_secs(120));
        assert!(matches!(&heard, Ok(Heard::Message(Order::Refuse(why))) if *why == told), "{heard:?}");
    }

    #[test]
    fn of_leaders_that_start_together_one_waits_and_the_others_say_so() {
        const LEADERS: usize = 8;
        let name = format!("test-{}", std::process::id());
        for _ in 0..20 {
            let (together, stop, taken) = (Barrier::new(LEADERS), AtomicBool::new(false), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for _ in 0..LEADERS {
                    scope.spawn(|| {
                        together.wait();
                        match Meeting::wait(&name, Duration::from_secs(120), &stop) {
                            // The last leader to fail ends the wait of the one that remains.
                            Err(MeetError::Taken(_)) => {
                                if taken.fetch_add(1, Relaxed) + 2 == LEADERS {
                                    stop.store(true, Relaxed);
                                }
                            }
                            ended => assert!(matches!(ended, Err(MeetError::Interrupted)), "{ended:?}"),
                        }
                    });
                }
            });
            assert_eq!(taken.into_inner(), LEADERS - 1);
        }
    }
}
