//! A minimal ping-pong of two processes on the crate iceoryx2: publish-subscribe, one service each way, loaned
//! messages, busy polling, 16 bytes written and read. Prints one line of JSON, `{"rtt_ns":{"p50":…}}`.

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;
type Ends = (Publisher<ipc::Service, [u8], ()>, Subscriber<ipc::Service, [u8], ()>);

/// Longest that the other side may be silent.
const PATIENCE: Duration = Duration::from_secs(20);

struct Options {
    payload: usize,
    samples: usize,
    warmup: usize,
    leader_cpu: usize,
    follower_cpu: usize,
    /// Name of the services; given to the follower only.
    follow: Option<String>,
}

fn parse() -> Result<Options> {
    let mut options =
        Options { payload: 1024, samples: 20_000, warmup: 1000, leader_cpu: 0, follower_cpu: 1, follow: None };
    let mut words = std::env::args().skip(1);
    while let Some(flag) = words.next() {
        let value = words.next().ok_or_else(|| format!("{flag} has no value"))?;
        match flag.as_str() {
            "--payload" => options.payload = value.parse::<usize>()?.max(16),
            "--samples" => options.samples = value.parse::<usize>()?.max(1),
            "--warmup" => options.warmup = value.parse()?,
            "--leader-cpu" => options.leader_cpu = value.parse()?,
            "--follower-cpu" => options.follower_cpu = value.parse()?,
            "--follow" => options.follow = Some(value),
            _ => return Err(format!("unknown flag {flag}").into()),
        }
    }
    Ok(options)
}

fn pin(cpu: usize) -> Result<()> {
    // SAFETY: CPU_SET and sched_setaffinity(2) get a set of the size that is given; zero is a valid set.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
}

/// A publisher of one service and a subscriber of the other, connected.
fn open(node: &Node<ipc::Service>, name: &str, [out, back]: [&str; 2], payload: usize) -> Result<Ends> {
    let service = |direction: &str| {
        node.service_builder(&format!("{name}-{direction}").as_str().try_into()?)
            .publish_subscribe::<[u8]>()
            .open_or_create()
            .map_err(Box::<dyn Error>::from)
    };
    let (out, back) = (service(out)?, service(back)?);
    let publisher = out.publisher_builder().initial_max_slice_len(payload).create()?;
    let subscriber = back.subscriber_builder().create()?;
    let begin = Instant::now();
    while out.dynamic_config().number_of_subscribers() == 0 || back.dynamic_config().number_of_publishers() == 0 {
        if begin.elapsed() > PATIENCE {
            return Err("the other process did not come".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok((publisher, subscriber))
}

fn send((publisher, _): &Ends, payload: usize, sequence: u64) -> Result<()> {
    let sample = publisher.loan_slice_uninit(payload)?;
    // SAFETY: any content of mapped memory is a valid `u8`.
    let mut sample = unsafe { sample.assume_init() };
    sample.payload_mut()[..8].copy_from_slice(&sequence.to_ne_bytes());
    sample.payload_mut()[8..16].copy_from_slice(&(!sequence).to_ne_bytes());
    sample.send()?;
    Ok(())
}

/// Waits for the message with this sequence number.
fn receive((_, subscriber): &Ends, sequence: u64) -> Result<()> {
    let mut tries = 0_u32;
    let mut begin = None;
    loop {
        if let Some(sample) = subscriber.receive()? {
            let (number, check) = (sample.payload()[..8].try_into()?, sample.payload()[8..16].try_into()?);
            if u64::from_ne_bytes(number) != sequence || u64::from_ne_bytes(check) != !sequence {
                return Err(format!("not message {sequence}").into());
            }
            return Ok(());
        }
        tries = tries.wrapping_add(1);
        if tries & 0xfffff == 0 && begin.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return Err(format!("message {sequence} did not come").into());
        }
    }
}

/// Round trips, warm-up included.
fn trips(options: &Options) -> u64 {
    (options.warmup + options.samples) as u64
}

fn follow(options: &Options, name: &str) -> Result<()> {
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let ends = open(&node, name, ["back", "out"], options.payload)?;
    pin(options.follower_cpu)?;
    for sequence in 1..=trips(options) {
        receive(&ends, sequence)?;
        send(&ends, options.payload, sequence)?;
    }
    Ok(())
}

fn lead(options: &Options, name: &str) -> Result<Vec<u64>> {
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let ends = open(&node, name, ["out", "back"], options.payload)?;
    pin(options.leader_cpu)?;
    let mut samples = vec![0; options.warmup + options.samples];
    // The follower may still be connecting.
    std::thread::sleep(Duration::from_millis(100));
    let mut previous = Instant::now();
    for (sequence, sample) in (1..).zip(&mut samples) {
        send(&ends, options.payload, sequence)?;
        receive(&ends, sequence)?;
        let now = Instant::now();
        *sample = (now - previous).as_nanos() as u64;
        previous = now;
    }
    Ok(samples.split_off(options.warmup))
}

fn start_follower(name: &str) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args().skip(1)).args(["--follow", name]).stdout(Stdio::null());
    Ok(command.spawn()?)
}

fn main() -> Result<()> {
    let options = parse()?;
    set_log_level(LogLevel::Error);
    if let Some(name) = &options.follow {
        return follow(&options, name);
    }
    let name = format!("native-{}", std::process::id());
    let mut follower = start_follower(&name)?;
    let samples = lead(&options, &name);
    if samples.is_err() {
        follower.kill()?;
    }
    follower.wait()?;
    let mut samples = samples?;
    samples.sort_unstable();
    println!("{{\"payload_bytes\":{},\"rtt_ns\":{{\"p50\":{}}}}}", options.payload, samples[samples.len() / 2]);
    Ok(())
}
