//! Ping-pong of two pinned processes over `shm`, without the engine: the cost of the transport alone.
//!
//! `cargo run --release -p tripmeter-transport-shm --example pingpong -- [payload bytes] [poll|block] [trips] [depth]`
//! prints half round trips in nanoseconds, without the first tenth of the trips.
#![expect(unsafe_code, reason = "memory and calls as a host has them")]

use std::error::Error;
use std::time::Instant;
use tripmeter_abi::{Link, LinkOptions, Message, Node, NodeOptions, Pattern, Role, System, Wait};
use tripmeter_transport_shm::{Shm, ShmLink};

const CPUS: [usize; 2] = [0, 1];
const TIMEOUT_NS: u64 = 5_000_000_000;
/// Failed takes in a row after which the peer counts as dead.
const MISSES: u64 = 2_000_000_000;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |index: usize, default: &str| words.get(index).map_or(default.to_owned(), String::clone);
    let (payload, trips): (usize, usize) = (word(0, "1024").parse()?, word(2, "100000").parse()?);
    let options = options(Role::Leader, payload, word(1, "poll").parse()?, word(3, "16"));
    let mut leader = open(&options)?;
    let address = leader.address()?;
    // SAFETY: there is one thread; the child uses its own link only and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = follow(&NodeOptions { role: Role::Follower, ..options }, address, trips);
        // SAFETY: `_exit` runs no destructors: the child must not drop its copy of the leader's link.
        unsafe { libc::_exit(done.is_err().into()) };
    }
    pin(CPUS[0]);
    leader.connect(&[Vec::new()], TIMEOUT_NS)?;
    let start = (Instant::now(), ticks());
    let samples = lead(&mut leader, payload, trips)?;
    let ns_per_tick = start.0.elapsed().as_nanos() as f64 / (ticks() - start.1) as f64;
    report(samples, ns_per_tick / 2.0);
    Ok(())
}

fn options(role: Role, payload: usize, wait: Wait, depth: String) -> NodeOptions {
    NodeOptions {
        role,
        pattern: Pattern::Ping,
        wait,
        variant: "ring".into(),
        settings: [("depth".to_owned(), depth)].into(),
        run_id: format!("shm-example-{}", std::process::id()),
        scratch_dir: std::env::temp_dir(),
        max_payload_bytes: payload as u64,
        link_count: 1,
        follower_count: 1,
        follower_index: 0,
        unauthorized_peer: None,
        publisher_count: 1,
        local_address: None,
    }
}

fn open(options: &NodeOptions) -> Outcome<ShmLink> {
    Shm.probe(options)?;
    Ok(Shm.open(options)?.link(&LinkOptions { index: 0, callback: None })?)
}

fn lead(link: &mut ShmLink, payload: usize, trips: usize) -> Outcome<Vec<u64>> {
    let mut samples = vec![1; trips];
    let mut last = ticks();
    for (trip, sample) in samples.iter_mut().enumerate() {
        send(link, payload, trip as u64)?;
        let message = receive(link)?;
        if read(&message) != trip as u64 {
            return Err("a message is not the one expected".into());
        }
        link.release(message);
        let now = ticks();
        *sample = now - last;
        last = now;
    }
    samples.drain(..trips / 10);
    Ok(samples)
}

fn follow(options: &NodeOptions, address: Vec<u8>, trips: usize) -> Outcome<()> {
    pin(CPUS[1]);
    let mut link = open(options)?;
    link.connect(&[address], TIMEOUT_NS)?;
    for _ in 0..trips {
        let message = receive(&mut link)?;
        send(&mut link, message.length, read(&message))?;
        link.release(message);
    }
    Ok(())
}

#[inline(always)]
fn send(link: &mut ShmLink, length: usize, sequence: u64) -> Outcome<()> {
    let loan = link.loan(length, None)?;
    // SAFETY: the loan is writable, 8-byte aligned, and no shorter than 16 bytes.
    unsafe {
        loan.data.cast::<u64>().write(sequence);
        loan.data.cast::<u64>().add(1).write(!sequence);
    }
    if link.publish(loan, TIMEOUT_NS)? { Ok(()) } else { Err("the ring stayed full".into()) }
}

#[inline(always)]
fn receive(link: &mut ShmLink) -> Outcome<Message> {
    for _ in 0..MISSES {
        if let Some(message) = link.take(TIMEOUT_NS)? {
            return Ok(message);
        }
    }
    Err("no message came".into())
}

#[inline(always)]
fn read(message: &Message) -> u64 {
    // SAFETY: as for the loan that was sent.
    let (sequence, check) = unsafe { (message.data.cast::<u64>().read(), message.data.cast::<u64>().add(1).read()) };
    if check == !sequence { sequence } else { u64::MAX }
}

fn report(mut samples: Vec<u64>, half_ns_per_tick: f64) {
    samples.sort_unstable();
    let at = |share: usize| samples[(samples.len() - 1) * share / 100] as f64 * half_ns_per_tick;
    let middle = &samples[samples.len() / 4..=samples.len() * 3 / 4];
    let midmean = middle.iter().sum::<u64>() as f64 / middle.len() as f64 * half_ns_per_tick;
    let mean = samples.iter().sum::<u64>() as f64 / samples.len() as f64 * half_ns_per_tick;
    println!("min {:.1} p50 {:.1} midmean {midmean:.1} p99 {:.1} mean {mean:.1}", at(0), at(50), at(99));
}

fn pin(cpu: usize) {
    // SAFETY: an empty set is all zeros; the set is only read by the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    let mut cpu = 0;
    // SAFETY: every x86-64 CPU of the last decades has the instruction.
    unsafe { std::arch::x86_64::__rdtscp(&raw mut cpu) }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
