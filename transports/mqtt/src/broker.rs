//! The broker: started with a configuration of ours, or already running.
#![expect(unsafe_code, reason = "a system call")]

use crate::credentials;
use crate::settings::{Kind, Settings};
use std::ffi::CStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tripmeter_abi::{Error, NodeOptions, Result, Status, locked_version};

const EMBEDDED: &str = "tripmeter_mqtt_broker";
const MOSQUITTO_PASSWORDS: &str = "mosquitto.passwords";
const STARTING_TIME: Duration = Duration::from_secs(10);
const ANSWERING_TIME: Duration = Duration::from_millis(500);
/// Attempts to find a free port: another process may take it before the broker does.
const TRIES: u32 = 3;

/// Address of a broker, which the end that holds it sends to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub at: SocketAddr,
    /// Process of a broker that we started; else 0.
    pub process: u32,
}

impl Address {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        format!("{} {}", self.at, self.process).into_bytes()
    }

    /// Parses an address, which a password may follow.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<(Self, Option<String>)> {
        let parsed = std::str::from_utf8(bytes).ok().and_then(|text| {
            let mut words = text.split(' ');
            let (at, process) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some((Self { at, process }, words.next().map(str::to_owned)))
        });
        parsed.ok_or_else(|| Error::failed("the peer's address is not the address of a broker"))
    }

    /// Error text of a failed connection to the broker, with its name.
    pub(crate) fn explain(self, kind: Kind, why: &str) -> String {
        let (name, at, process) = (kind.name(), self.at, self.process);
        let has_ended = process != 0 && fs::read_link(format!("/proc/{process}/exe")).is_err();
        if has_ended {
            return format!("the broker has gone: '{name}' (process {process}, {at}) has ended: {why}");
        }
        format!("broker '{name}' at {at}: {why}")
    }
}

/// The run's broker; ends when dropped if we started it.
pub(crate) struct Broker {
    at: Address,
    child: Option<Child>,
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // No data is lost. Both calls fail only if it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Broker {
    /// Starts the broker and waits until it listens, unless it is running already.
    pub(crate) fn join(settings: &Settings, options: &NodeOptions) -> Result<Self> {
        let ip = settings.host.unwrap_or(options.address());
        check(settings, ip)?;
        if let (true, Some(port)) = (settings.is_running, settings.port) {
            return Ok(Self { at: Address { at: (ip, port).into(), process: 0 }, child: None });
        }
        let (folder, agreed) = (credentials::folder(&options.scratch_dir), options.agreed_folder());
        for folder in [&folder, &agreed] {
            fs::create_dir_all(folder).map_err(|error| Error::os(&folder.display().to_string(), error))?;
        }
        let password = credentials::write_password([&folder, &agreed])?;
        if settings.is_secured {
            credentials::write(&folder, &agreed, ip)?;
        }
        let mut tries = if settings.port.is_some() { 1 } else { TRIES };
        loop {
            tries -= 1;
            match start(settings, ip, &folder, &password) {
                Err(error) if tries > 0 && error.message.contains("in use") => {}
                started => return started,
            }
        }
    }

    pub(crate) fn address(&self) -> Address {
        self.at
    }
}

/// Checks that the broker runs, or can be started here. Fails with `Unavailable`, naming the program or port that
/// is missing or taken.
pub(crate) fn check(settings: &Settings, ip: IpAddr) -> Result<()> {
    let missing = |text: String| Err(Error::new(Status::Unavailable, text));
    if let (true, Some(port)) = (settings.is_running, settings.port) {
        let at = SocketAddr::from((ip, port));
        return match TcpStream::connect_timeout(&at, ANSWERING_TIME) {
            Ok(_) => Ok(()),
            Err(error) => missing(format!("no broker at {at}: {error}; start one, or use broker=start")),
        };
    }
    if program(settings.kind).is_none() {
        return missing(match settings.kind {
            Kind::Mosquitto => "program 'mosquitto' is not installed; packages needed: mosquitto".to_owned(),
            Kind::Embedded => format!(
                "program '{EMBEDDED}' is not beside the plugin; build both with `scripts/build-transports.sh mqtt`"
            ),
        });
    }
    let Some(port) = settings.port else { return Ok(()) };
    match TcpListener::bind((ip, port)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            missing(format!("port {port} of {ip} is in use; give another one, port=free, or broker=running"))
        }
        Err(error) => missing(format!("port {port} of {ip} cannot be used: {error}; give another one")),
    }
}

fn program(kind: Kind) -> Option<PathBuf> {
    match kind {
        Kind::Embedded => Some(own_folder()?.join(EMBEDDED)).filter(|file| file.exists()),
        Kind::Mosquitto => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            // Debian's folder, which is not in every user's path.
            let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
            folders.map(|folder| folder.join("mosquitto")).find(|file| file.exists())
        }
    }
}

/// Folder that this plugin was loaded from.
fn own_folder() -> Option<PathBuf> {
    // SAFETY: all fields of the block are pointers, for which zero is a value.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the block is writable; any address may be asked for.
    let is_known = unsafe { libc::dladdr(own_folder as *const libc::c_void, &raw mut found) } != 0;
    if !is_known || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a name of a loaded object, which lives as long as that is loaded.
    let file = Path::new(std::ffi::OsStr::from_bytes(unsafe { CStr::from_ptr(found.dli_fname) }.to_bytes()));
    Some(file.canonicalize().ok()?.parent()?.to_path_buf())
}

/// Versions of the crates, from the lock file, and of Mosquitto, if it is installed.
pub(crate) fn versions() -> String {
    static MOSQUITTO: OnceLock<String> = OnceLock::new();
    let locked = |name| locked_version(include_str!("../Cargo.lock"), name);
    let mosquitto = MOSQUITTO.get_or_init(|| {
        // No other option prints the version; this one exits with code 3.
        let told = program(Kind::Mosquitto).and_then(|file| Command::new(file).arg("-h").output().ok());
        let told = told.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let line = told.lines().next().and_then(|line| line.strip_prefix("mosquitto version "));
        line.map_or(String::new(), |version| format!(", Mosquitto {version}"))
    });
    format!("rumqttc {}, rumqttd {}{mosquitto}", locked("rumqttc"), locked("rumqttd"))
}

fn start(settings: &Settings, ip: IpAddr, folder: &Path, password: &str) -> Result<Broker> {
    let (name, log) = (settings.kind.name(), folder.join("broker.log"));
    let program = program(settings.kind).ok_or_else(|| Error::failed(format!("broker '{name}' is not here")))?;
    let system = |error| Error::os(&format!("starting broker '{name}'"), error);
    let mut command = Command::new(program);
    let port = match settings.kind {
        Kind::Embedded => {
            let (bytes, queue) = (settings.payload_bytes.to_string(), settings.queue.to_string());
            let nodelay = if settings.is_undelayed { "on" } else { "off" };
            let tls = if settings.is_secured { "on" } else { "off" };
            command
                .args([SocketAddr::from((ip, settings.port.unwrap_or(0))).to_string(), bytes, queue])
                .args([nodelay, tls])
                .arg(folder);
            None
        }
        Kind::Mosquitto => {
            let port = match settings.port {
                Some(port) => port,
                None => free_port(ip).map_err(system)?,
            };
            hash_password(folder, password)?;
            let file = folder.join("mosquitto.conf");
            fs::write(&file, configuration(settings, folder, (ip, port).into())).map_err(system)?;
            command.arg("-c").arg(file);
            Some(port)
        }
    };
    let output = File::create(&log).map_err(system)?;
    let errors = output.try_clone().map_err(system)?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    let parent = std::process::id();
    // SAFETY: system calls only, which may be made between fork and exec.
    unsafe {
        command.pre_exec(move || match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 if libc::getppid() as u32 == parent => Ok(()),
            // The parent has ended already.
            0 => Err(std::io::Error::from_raw_os_error(libc::ESRCH)),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let child = command.spawn().map_err(system)?;
    let at = Address { at: (ip, port.unwrap_or(0)).into(), process: child.id() };
    let mut broker = Broker { at, child: Some(child) };
    let port = broker.await_ready(name, port, &log)?;
    broker.at.at.set_port(port);
    Ok(broker)
}

impl Broker {
    /// Waits until the broker reports that it listens; returns the port.
    fn await_ready(&mut self, name: &str, port: Option<u16>, log: &Path) -> Result<u16> {
        let begin = Instant::now();
        loop {
            // Checked before the log: after its end the log is complete.
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            let said = fs::read_to_string(log).unwrap_or_default();
            if let Some(port) = said.lines().find_map(|line| ready_port(line, port)) {
                return Ok(port);
            }
            let last = said.lines().last().unwrap_or("it said nothing");
            if let Some(status) = ended {
                return Err(Error::failed(format!("broker '{name}' ended at its start ({status}): {last}")));
            }
            if begin.elapsed() > STARTING_TIME {
                let seconds = STARTING_TIME.as_secs();
                return Err(Error::failed(format!("broker '{name}' does not listen after {seconds} s: {last}")));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Port in the line by which a broker reports that it listens; Mosquitto listens at the given one.
fn ready_port(line: &str, given: Option<u16>) -> Option<u16> {
    match given {
        Some(port) => (line.contains("mosquitto version") && line.ends_with(" running")).then_some(port),
        None => line.strip_prefix("listening on ")?.parse::<SocketAddr>().ok().map(|at| at.port()),
    }
}

/// Hashes the password by Mosquitto's own program: from a file, as everybody can read arguments.
fn hash_password(folder: &Path, password: &str) -> Result<()> {
    let what = "making a password for broker 'mosquitto' by `mosquitto_passwd`";
    let file = folder.join(MOSQUITTO_PASSWORDS);
    let mut options = File::options();
    let opened = options.write(true).create(true).truncate(true).mode(0o600).open(&file);
    let written = opened.and_then(|mut opened| writeln!(opened, "{}:{password}", credentials::USER));
    let hashed =
        written.and_then(|()| Command::new("mosquitto_passwd").arg("-U").arg(&file).stdin(Stdio::null()).output());
    let made = hashed.map_err(|error| Error::os(what, error))?;
    if made.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&made.stderr);
    Err(Error::failed(format!("{what}: {}: {}", made.status, said.lines().next_back().unwrap_or_default())))
}

fn free_port(ip: IpAddr) -> std::io::Result<u16> {
    Ok(TcpListener::bind((ip, 0))?.local_addr()?.port())
}

/// Complete configuration of Mosquitto.
fn configuration(settings: &Settings, folder: &Path, at: SocketAddr) -> String {
    let Settings { is_undelayed, in_flight, queue, .. } = settings;
    let mut text = format!(
        "listener {} {}\n\
         allow_anonymous false\n\
         password_file {}\n\
         persistence false\n\
         set_tcp_nodelay {is_undelayed}\n\
         max_inflight_messages {in_flight}\n\
         max_queued_messages {queue}\n\
         sys_interval 0\n\
         log_dest stderr\n\
         log_type error\n\
         log_type warning\n\
         log_type information\n",
        at.port(),
        at.ip(),
        folder.join(MOSQUITTO_PASSWORDS).display()
    );
    // SAFETY: geteuid cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        // Otherwise it becomes another user, who may not read the scratch folder.
        text += "user root\n";
    }
    if settings.is_secured {
        for (key, name) in [
            ("cafile", credentials::AUTHORITY),
            ("certfile", credentials::BROKER_CERTIFICATE),
            ("keyfile", credentials::BROKER_KEY),
        ] {
            let _ = writeln!(text, "{key} {}", folder.join(name).display());
        }
        text += "require_certificate true\n";
    }
    text
}
