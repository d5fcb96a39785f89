//! Real results, the program, and a real server that speaks S3.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Ends what hangs.
const LONGEST: Duration = Duration::from_secs(120);

/// The query of docs/archive.md.
pub const P99: &str = include_str!("../../queries/p99_by_machine_and_week.sql");

/// A program that scripts/test-archive.sh has made.
fn made(variable: &str) -> PathBuf {
    let path =
        std::env::var_os(variable).unwrap_or_else(|| panic!("{variable} is not set: run scripts/test-archive.sh"));
    PathBuf::from(path)
}

/// The end of a program, with what it printed.
pub fn run(mut command: Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A results folder of two rounds, with round trips of two transports, measured once for all tests.
pub fn measured() -> &'static Path {
    static MEASURED: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = MEASURED.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        for (name, arguments) in [
            (
                "pings",
                "ping uds/stream shm/ring --wait block -n 3000 --payloads 64,1k --rounds 2 --attempts 1 --no-spin",
            ),
            ("messages", "publish uds/stream --rate 5000 -n 2000 --payloads 1k --no-floor --attempts 1 --no-spin"),
        ] {
            let output = run(tripmeter(
                arguments.split(' ').chain(["--raw", "samples", "--no-report", "-o"]).map(str::to_owned),
                &folder.path().join(name),
            ));
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
        folder
    });
    folder.path()
}

/// `tripmeter` with arguments, the last of which is a path.
pub fn tripmeter(arguments: impl IntoIterator<Item = String>, path: &Path) -> Command {
    let mut command = Command::new(made("TRIPMETER"));
    command.args(arguments).arg(path);
    command
}

/// A copy of a results folder, whose files are changed by `change`.
pub fn copy(from: &Path, to: &Path, change: &dyn Fn(&str, String) -> String) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        match path.is_dir() {
            true => copy(&path, &to.join(&name), change),
            false => match fs::read_to_string(&path) {
                Ok(text) => fs::write(to.join(&name), change(&name, text)).unwrap(),
                Err(_) => drop(fs::copy(&path, to.join(&name)).unwrap()),
            },
        }
    }
}

/// Twelve copies of a real run, later days one after the other; figures of the last six are half as large again.
pub fn history_of(pings: &Path, folder: &Path) {
    for day in 1..=12 {
        let factor = if day > 6 { 1.5 } else { 1.0 } + f64::from(day * day % 7) / 1000.0;
        copy(pings, &folder.join(format!("day-{day:02}")), &|name, text| match name {
            "manifest.json" => {
                let mut manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
                manifest["started"] = format!("2026-01-{day:02}T12:00:00+00:00").into();
                manifest.to_string()
            }
            "trials.jsonl" => text.lines().map(|line| slower(line, factor) + "\n").collect(),
            _ => text,
        });
    }
}

fn slower(line: &str, factor: f64) -> String {
    let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
    if let Some(figure) = line.pointer_mut("/streams/all/rtt_half_ns") {
        for statistic in ["p50", "p99"] {
            figure[statistic] = (figure[statistic].as_f64().unwrap() * factor).into();
        }
        figure["within"] = serde_json::json!({});
    }
    line.to_string()
}

/// The program that is tested; `endpoint` is that of a store.
pub fn archive(arguments: &[&str], endpoint: Option<&str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tripmeter-archive"));
    command.args(arguments).stdin(Stdio::null()).env("RUST_BACKTRACE", "1");
    for (name, value) in
        [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_REGION", "us-east-1")]
    {
        command.env(name, value);
    }
    if let Some(endpoint) = endpoint {
        command.env("AWS_ENDPOINT_URL", endpoint);
    }
    command
}

/// What it prints, if all is well.
pub fn good(arguments: &[&str], endpoint: Option<&str>) -> String {
    let output = run(archive(arguments, endpoint));
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The one line of an error, and the exit code.
pub fn refused(arguments: &[&str], endpoint: Option<&str>) -> (i32, String) {
    let output = run(archive(arguments, endpoint));
    let told = text(&output.stderr);
    assert!(!output.status.success() && told.lines().count() == 1, "{arguments:?}: {told}{}", text(&output.stdout));
    (output.status.code().unwrap(), told)
}

/// The rows of a query as CSV, without the header.
pub fn rows(dest: &str, sql: &str, endpoint: Option<&str>) -> Vec<Vec<String>> {
    let printed = good(&["query", dest, sql, "--csv"], endpoint);
    printed.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

/// The first cell of a query.
pub fn cell(dest: &str, sql: &str, endpoint: Option<&str>) -> String {
    rows(dest, sql, endpoint)[0][0].clone()
}

/// Every file below a folder, with its bytes and the time of its last change.
pub fn files(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => {
                let changed = path.metadata().unwrap().modified().unwrap();
                found.insert(path.clone(), (fs::read(&path).unwrap(), changed));
            }
        }
    }
    found
}

/// Waits until something is there.
pub fn wait<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(begin.elapsed() < LONGEST, "no {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A port that nobody listens at, nor at the one after it.
pub fn free_port() -> u16 {
    wait("two free ports", || {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        TcpListener::bind(("127.0.0.1", port.checked_add(1)?)).ok().map(|_| port)
    })
}

/// A process that ends with the test.
pub struct Server(pub Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Moto's server, with an empty bucket `lab`.
pub fn store() -> (Server, String) {
    store_of(&[])
}

/// The same, which knows no key.
pub fn store_that_refuses() -> (Server, String) {
    // The bucket is made before keys are asked for.
    store_of(&[("INITIAL_NO_AUTH_ACTION_COUNT", "1")])
}

fn store_of(variables: &[(&str, &str)]) -> (Server, String) {
    let port = free_port();
    let mut command = Command::new(made("TRIPMETER_MOTO"));
    command.envs(variables.iter().copied());
    command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
    let server = Server(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let mut connection = wait("answer of moto", || TcpStream::connect(("127.0.0.1", port)).ok());
    write!(connection, "PUT /lab HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    (server, format!("http://127.0.0.1:{port}"))
}

/// Passes bytes on to a server until so many have gone there; then it is gone itself.
pub fn breaking_off(endpoint: &str, bytes: usize) -> String {
    let server = endpoint.trim_start_matches("http://").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let left = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(bytes));
        for client in listener.incoming().map(Result::unwrap) {
            if left.load(std::sync::atomic::Ordering::Relaxed) == 0 {
                // Refused: it is closed at once.
                continue;
            }
            let (server, left) = (TcpStream::connect(&server).unwrap(), left.clone());
            let (mut back, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut back, &mut to_client));
            std::thread::spawn(move || pass(client, server, &left));
        }
    });
    format!("http://{address}")
}

fn pass(mut client: TcpStream, mut server: TcpStream, left: &std::sync::atomic::AtomicUsize) {
    use std::sync::atomic::Ordering::Relaxed;
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        let may = count.min(left.load(Relaxed));
        left.fetch_sub(may, Relaxed);
        if server.write_all(&buffer[..may]).is_err() || may < count {
            break;
        }
    }
    let _ = server.shutdown(std::net::Shutdown::Both);
    let _ = client.shutdown(std::net::Shutdown::Both);
}
