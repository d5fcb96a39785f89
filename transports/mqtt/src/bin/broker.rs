//! Embedded broker: rumqttd in its own process, at one address only.
//!
//! `tripmeter_mqtt_broker PORT PAYLOAD_BYTES QUEUE on|off on|off FOLDER`: port (0: any free one), largest message,
//! messages kept for a slow subscriber, TCP_NODELAY, TLS, and folder of the run's password and certificates.
//!
//! Prints `listening on ADDRESS:PORT` when clients may connect, and runs until it is killed.
#![expect(unsafe_code, reason = "a system call")]

use rumqttd::{Broker, Config, ConnectionSettings, RouterConfig, ServerSettings, TlsConfig};
use socket2::Socket;
use std::collections::HashMap;
use std::fs;
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::os::fd::FromRawFd;
use std::process::ExitCode;
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

const PACKET_EXTRA_BYTES: usize = 1024;
/// Segments of rumqttd's log. It keeps forwarded messages too, and drops whole segments.
const PARTS: usize = 4;
const LEAST_PART_BYTES: usize = 4 << 20;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    const USAGE: &str = "usage: tripmeter_mqtt_broker ADDRESS:PORT PAYLOAD_BYTES QUEUE on|off on|off FOLDER";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [at, payload, queue, nodelay, tls, folder] = &arguments[..] else { return Err(USAGE.to_owned()) };
    let number = |text: &String| text.parse::<usize>().map_err(|_| USAGE.to_owned());
    let at = at.parse::<SocketAddr>().map_err(|_| USAGE.to_owned())?;
    let password = fs::read_to_string(format!("{folder}/password"));
    let password = password.map_err(|error| format!("'{folder}/password' cannot be read: {error}"))?;
    let config = config(at, number(payload)?, number(queue)?, password, (tls == "on").then_some(folder));
    let mut broker = Broker::new(config);
    let server = spawn(move || broker.start().map_err(|error| error.to_string()));
    let (socket, port) = listening(&server)?;
    if nodelay == "on" {
        // rumqttd has no setting for this. Connections inherit it.
        socket.set_tcp_nodelay(true).map_err(|error| format!("setting a socket option failed: {error}"))?;
    }
    println!("listening on {}", SocketAddr::from((at.ip(), port)));
    match server.join() {
        Ok(Ok(())) => Err("the server has ended".to_owned()),
        Ok(Err(error)) => Err(format!("the server has ended: {error}")),
        Err(_) => Err("the server has panicked".to_owned()),
    }
}

fn config(listen: SocketAddr, payload_bytes: usize, queue: usize, password: String, folder: Option<&String>) -> Config {
    let tls = folder.map(|folder| TlsConfig::Rustls {
        capath: Some(format!("{folder}/authority.pem")),
        certpath: format!("{folder}/broker.pem"),
        keypath: format!("{folder}/broker.key"),
    });
    let connections = ConnectionSettings {
        connection_timeout_ms: 10_000,
        max_payload_size: payload_bytes + PACKET_EXTRA_BYTES,
        max_inflight_count: 200,
        auth: Some(HashMap::from([("tripmeter".to_owned(), password)])),
        external_auth: None,
        dynamic_filters: false,
    };
    let server = ServerSettings { name: "mqtt".to_owned(), listen, tls, next_connection_delay_ms: 0, connections };
    let router = RouterConfig {
        max_connections: 4096,
        max_outgoing_packet_count: 200,
        max_segment_size: (payload_bytes * queue / PARTS).max(LEAST_PART_BYTES),
        max_segment_count: PARTS,
        ..RouterConfig::default()
    };
    Config { router, v4: Some(HashMap::from([("mqtt".to_owned(), server)])), ..Config::default() }
}

/// Listening socket of the server, and its port: rumqttd tells neither.
fn listening<T>(server: &JoinHandle<T>) -> Result<(ManuallyDrop<Socket>, u16), String> {
    loop {
        if server.is_finished() {
            return Err("the server does not listen: is its port in use?".to_owned());
        }
        for entry in fs::read_dir("/proc/self/fd").map_err(|error| error.to_string())?.flatten() {
            let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // SAFETY: not closed here; for a descriptor that is closed by now, the calls below fail.
            let socket = ManuallyDrop::new(unsafe { Socket::from_raw_fd(fd) });
            if socket.is_listener().is_ok_and(|listens| listens) {
                let address = socket.local_addr();
                let address = address.map_err(|error| format!("asking for a socket's address failed: {error}"))?;
                let port = address.as_socket().map_or(0, |address| address.port());
                return Ok((socket, port));
            }
        }
        sleep(Duration::from_millis(2));
    }
}
