//! Process that disturbs a measurement on purpose: busy threads, copies of memory, a TCP stream. It measures only
//! itself, and ends when the supervisor ends.

use super::{Error, Result};
use crate::channel::{Heard, Incoming, send};
use crate::clock::monotonic_ns;
use crate::memory::filled;
use crate::os::{self, Whose};
use crate::wire::{BackgroundPart, BackgroundReading, ToWorker};
use std::fs;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Bytes per copy, and per send.
const PIECE: usize = 64 << 10;
/// Buffer size as a multiple of the last-level cache.
const CACHES: u64 = 4;
/// Bounds of the buffer size in bytes.
const BUFFER_BYTES: std::ops::RangeInclusive<u64> = 32 << 20..=256 << 20;

#[derive(Default)]
struct Done {
    memory_bytes: AtomicU64,
    network_bytes: AtomicU64,
}

/// Runs the load until the supervisor has gone or the time is over; answers each [`ToWorker::Continue`] with a reading.
/// Fails if a thread, buffer or connection cannot be made.
pub(super) fn load(part: &BackgroundPart, stream: UnixStream) -> Result<()> {
    let mut supervisor = stream.try_clone().map_err(|error| Error::failed("supervisor's channel", error))?;
    let done = Arc::new(Done::default());
    if let Err(error) = start(part, &done) {
        // The supervisor also sees this process end.
        let _ = send(
            &mut supervisor,
            &BackgroundReading { failed: Some(error.to_string()), ..BackgroundReading::default() },
        );
        return Err(error);
    }
    let (mut incoming, begin) = (Incoming::new(stream), Instant::now());
    let limit = Duration::from_nanos(part.limit_ns);
    while let Some(left) = limit.checked_sub(begin.elapsed()) {
        match incoming.next::<ToWorker>(left.min(Duration::from_secs(1))) {
            Ok(Heard::Nothing) => {}
            Ok(Heard::Message(ToWorker::Continue)) => {
                let reading = BackgroundReading {
                    at_ns: monotonic_ns(),
                    cpu_time_ns: os::usage(Whose::Process).cpu_time_ns,
                    memory_bytes: done.memory_bytes.load(Relaxed),
                    network_bytes: done.network_bytes.load(Relaxed),
                    failed: None,
                };
                send(&mut supervisor, &reading).map_err(|error| Error::failed("supervisor's channel", error))?;
            }
            // Its threads end with this process.
            _ => return Ok(()),
        }
    }
    Ok(())
}

fn start(part: &BackgroundPart, done: &Arc<Done>) -> Result<()> {
    for _ in 0..part.load.cpu {
        spawn("load-cpu", spin)?;
    }
    if part.load.memory {
        let bytes = (CACHES * last_cache_bytes()).clamp(*BUFFER_BYTES.start(), *BUFFER_BYTES.end());
        let buffer = filled(1_u8, bytes, "the load in memory")?;
        let done = done.clone();
        spawn("load-memory", move || copy(buffer, &done))?;
    }
    if part.load.network {
        let failed = |error| Error::failed("the load on the network", error);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let to = listener.local_addr().map_err(failed)?;
        let (out, own) = TcpStream::connect(to).and_then(|out| Ok((out.local_addr()?, out))).map_err(failed)?;
        let (incoming, from) = listener.accept().map_err(failed)?;
        if from != out {
            return Err(Error::Failed("the load on the network: somebody else connected to it".to_owned()));
        }
        let done = done.clone();
        spawn("load-send", move || transmit(own))?;
        spawn("load-receive", move || drain(incoming, &done))?;
    }
    Ok(())
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = Builder::new().name(name.to_owned()).spawn(work);
    spawned.map(drop).map_err(|error| Error::failed("a thread of the load", error))
}

fn spin() {
    let mut number = 1_u64;
    loop {
        number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// Copies one half of the buffer to the other, endlessly.
fn copy(mut buffer: Vec<u8>, done: &Done) {
    let half = buffer.len() / 2;
    let (from, to) = buffer.split_at_mut(half);
    loop {
        for (from, to) in from.chunks(PIECE).zip(to.chunks_mut(PIECE)) {
            to.copy_from_slice(black_box(from));
            black_box(&mut *to);
            done.memory_bytes.fetch_add(from.len() as u64, Relaxed);
        }
    }
}

fn transmit(mut stream: TcpStream) {
    let piece = vec![1; PIECE];
    while stream.write_all(&piece).is_ok() {}
}

fn drain(mut stream: TcpStream, done: &Done) {
    let mut piece = vec![0; PIECE];
    while let Ok(bytes @ 1..) = stream.read(&mut piece) {
        done.network_bytes.fetch_add(bytes as u64, Relaxed);
    }
}

/// Size of the last-level cache of CPU 0; 0 if the machine does not show it.
fn last_cache_bytes() -> u64 {
    let sizes = (0..8).filter_map(|index| {
        let file = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = fs::read_to_string(file).ok()?;
        text.trim().strip_suffix('K')?.parse::<u64>().ok()
    });
    sizes.max().unwrap_or(0) << 10
}
