//! Leader and follower as separate processes of this test program.
//!
//! The counters of a process must not include what other tests do.

use super::ways;
use crate::proof::{Evidence, Observer, messages_for};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path as FilePath;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Timeout that finds a hang, and that a busy machine does not reach.
pub const DEADLINE: Duration = Duration::from_secs(300);
/// Folder that the leader creates after it has published the first message. Creating it reads and writes nothing, and
/// opens no descriptor, so it leaves no evidence.
const PUBLISHED: &str = "published";

/// Concurrent observations of the process, whose reads must not count.
const OTHER_OBSERVERS: u64 = 8;

const PAYLOAD: &str = "TRIPMETER_PROOF_PAYLOAD";
const WAY: &str = "TRIPMETER_PROOF_WAY";
const ROLES: &str = "TRIPMETER_PROOF_ROLES";
const DIRECTORY: &str = "TRIPMETER_PROOF_DIRECTORY";

pub fn payload_bytes() -> usize {
    static BYTES: LazyLock<usize> = LazyLock::new(|| std::env::var(PAYLOAD).unwrap().parse().unwrap());
    *BYTES
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    Leader = 0,
    Follower = 1,
}

impl Role {
    const BOTH: [Self; 2] = [Self::Leader, Self::Follower];
}

/// Evidence of both sides, after real traffic between two processes or two threads.
pub fn observe(way: &str, same_process: bool, payload: u64) -> [Evidence; 2] {
    let directory = tempfile::tempdir().unwrap();
    let roles: &[&str] = if same_process { &["leader follower"] } else { &["leader", "follower"] };
    let mut sides: Vec<_> = roles.iter().map(|roles| start(way, roles, payload, directory.path())).collect();
    let started = Instant::now();
    for side in &mut sides {
        loop {
            if let Some(status) = side.0.try_wait().unwrap() {
                assert!(status.success(), "a side of '{way}' ended with {status}");
                break;
            }
            assert!(started.elapsed() < DEADLINE, "a side of '{way}' hangs");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Role::BOTH.map(|role| {
        let json = fs::read_to_string(directory.path().join(format!("{role:?}.json"))).unwrap();
        serde_json::from_str(&json).unwrap()
    })
}

struct Side(Child);

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(way: &str, roles: &str, payload: u64, directory: &FilePath) -> Side {
    let module = module_path!().split_once("::").unwrap().1;
    let child = Command::new(std::env::current_exe().unwrap())
        .args([&format!("{module}::one_side"), "--exact", "--ignored", "--nocapture"])
        .envs([(WAY, way), (ROLES, roles)])
        .env(PAYLOAD, payload.to_string())
        .env(DIRECTORY, directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    Side(child.unwrap())
}

#[test]
#[ignore = "a part of the other tests, which start it as a process"]
fn one_side() {
    let Ok(way) = std::env::var(WAY) else { return };
    let roles = std::env::var(ROLES).unwrap();
    let directory = std::path::PathBuf::from(std::env::var_os(DIRECTORY).unwrap());
    std::thread::scope(|scope| {
        for role in Role::BOTH {
            if roles.contains(&format!("{role:?}").to_lowercase()) {
                let (way, directory) = (&way, &directory);
                scope.spawn(move || run(role, way, directory));
            }
        }
    });
}

fn run(role: Role, way: &str, directory: &FilePath) {
    let mut control = Control::open(role, directory);
    // Like the engine's core-to-core page, but large enough for a message.
    let page = ways::map(&directory.join("hand-over"), payload_bytes());
    let baseline = Observer::baseline(None);
    control.meet();
    // Libraries have such a pipe to wake their threads.
    let _pipe = std::io::pipe().unwrap();
    let mut ends = ways::open(way, role, directory, &mut control);
    let mut observer = Observer::start(&baseline);
    control.meet();
    for sequence in 0..messages_for(payload_bytes() as u64) {
        if role == Role::Leader {
            send(&mut *ends, &mut observer, sequence);
            if sequence == 0 {
                fs::create_dir(directory.join(PUBLISHED)).unwrap();
            }
        } else if sequence == 0 {
            // Meanwhile the first message waits.
            ways::poll(|| directory.join(PUBLISHED).exists().then_some(()));
            observer.parked();
        }
        page.fill(sequence as u8);
        if sequence < OTHER_OBSERVERS {
            Observer::start(&baseline).finish();
        }
        let message = ends.take();
        observer.received(sequence, message.as_ptr(), message.len());
        assert!(message.len() == payload_bytes() && message.iter().all(|&byte| byte == sequence as u8));
        if role == Role::Follower {
            send(&mut *ends, &mut observer, sequence);
        }
    }
    let evidence = observer.finish();
    // Neither side writes or closes anything before the other has finished.
    control.meet();
    fs::write(directory.join(format!("{role:?}.json")), serde_json::to_string(&evidence).unwrap()).unwrap();
}

fn send(ends: &mut dyn ways::Ends, observer: &mut Observer, sequence: u64) {
    let loan = ends.loan();
    loan.fill(sequence as u8);
    observer.sent(sequence, loan.as_ptr(), loan.len());
    ends.publish();
}

/// Lines between both sides, over a Unix stream socket like the engine's.
pub struct Control(BufReader<UnixStream>);

impl Control {
    fn open(role: Role, directory: &FilePath) -> Self {
        let file = directory.join("control");
        let stream = match role {
            Role::Leader => {
                let unfinished = directory.join("control-unfinished");
                let listener = UnixListener::bind(&unfinished).unwrap();
                fs::rename(unfinished, file).unwrap();
                listener.accept().unwrap().0
            }
            Role::Follower => connect(&file),
        };
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Self(BufReader::new(stream))
    }

    pub fn tell(&mut self, line: &str) {
        writeln!(self.0.get_mut(), "{line}").unwrap();
    }

    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Waits until both sides have called it.
    pub fn meet(&mut self) {
        self.tell("");
        self.hear();
    }
}

fn connect(file: &FilePath) -> UnixStream {
    let start = Instant::now();
    loop {
        match UnixStream::connect(file) {
            Ok(stream) => return stream,
            Err(error) => assert!(start.elapsed() < DEADLINE, "no leader: {error}"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
