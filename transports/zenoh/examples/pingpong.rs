//! Minimal ping-pong of two processes on the crate zenoh, for `bench/native/run.py`: one publisher and one
//! subscriber each way, both sides blocking in a channel. Prints one line of JSON, `{"rtt_ns":{"p50":…}}`.
//!
//! As in zenoh's own `z_ping`, the payload of a socket is one buffer that is sent repeatedly. Shared memory gets a
//! chunk for every message, of which 16 bytes are written.
#![expect(unsafe_code, reason = "memory and calls as a host has them")]

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use zenoh::bytes::ZBytes;
use zenoh::handlers::FifoChannelHandler;
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::CongestionControl;
use zenoh::sample::Sample;
use zenoh::shm::{GarbageCollect, PosixShmProviderBackend, ShmProvider, ShmProviderBuilder};
use zenoh::{Config, Session, Wait};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const PATIENCE: Duration = Duration::from_secs(20);

struct Options {
    payload: usize,
    samples: usize,
    warmup: usize,
    leader_cpu: usize,
    follower_cpu: usize,
    /// `tcp`, `unix` or `shm`.
    over: String,
    /// True if pieces are copied together, as for a receiver that needs one piece.
    joins: bool,
    /// Address of the leader; set in the follower only.
    follow: Option<String>,
}

fn parse() -> Result<Options> {
    let mut options = Options {
        payload: 1024,
        samples: 20_000,
        warmup: 1000,
        leader_cpu: 0,
        follower_cpu: 1,
        over: "tcp".to_owned(),
        joins: false,
        follow: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(flag) = words.next() {
        let value = words.next().ok_or_else(|| format!("{flag} has no value"))?;
        match flag.as_str() {
            "--payload" => options.payload = value.parse::<usize>()?.max(16),
            "--samples" => options.samples = value.parse::<usize>()?.max(1),
            "--warmup" => options.warmup = value.parse()?,
            "--leader-cpu" => options.leader_cpu = value.parse()?,
            "--follower-cpu" => options.follower_cpu = value.parse()?,
            "--over" => options.over = value,
            "--joins" => options.joins = value.parse()?,
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

/// Session that listens at one endpoint or connects to one, without discovery.
fn open(verb: &str, endpoint: &str, over: &str) -> Result<Session> {
    let mut config = Config::default();
    let shared = (over == "shm").to_string();
    config.insert_json5("mode", "\"peer\"")?;
    config.insert_json5("listen/endpoints", "[]")?;
    config.insert_json5(&format!("{verb}/endpoints"), &format!("[{endpoint:?}]"))?;
    config.insert_json5("scouting/multicast/enabled", "false")?;
    config.insert_json5("scouting/gossip/enabled", "false")?;
    config.insert_json5("transport/shared_memory/enabled", &shared)?;
    config.insert_json5("transport/shared_memory/transport_optimization/enabled", "false")?;
    zenoh::open(config).wait()
}

enum Payload {
    Same(ZBytes),
    Chunks(ShmProvider<PosixShmProviderBackend>, usize),
}

impl Payload {
    fn from_options(options: &Options) -> Result<Self> {
        if options.over != "shm" {
            return Ok(Payload::Same(vec![1; options.payload].into()));
        }
        let bytes = options.payload.next_multiple_of(4096) * 4;
        Ok(Payload::Chunks(ShmProviderBuilder::default_backend(bytes).wait()?, options.payload))
    }

    fn next(&self, sequence: u64) -> Result<ZBytes> {
        match self {
            Payload::Same(bytes) => Ok(bytes.clone()),
            Payload::Chunks(provider, bytes) => {
                let chunk = provider.alloc(*bytes).with_policy::<GarbageCollect>().wait();
                let mut chunk = chunk.map_err(|error| format!("no chunk: {error:?}"))?;
                chunk[..8].copy_from_slice(&sequence.to_ne_bytes());
                chunk[8..16].copy_from_slice(&(!sequence).to_ne_bytes());
                Ok(chunk.into())
            }
        }
    }
}

struct Ends {
    publisher: Publisher<'static>,
    subscriber: Subscriber<FifoChannelHandler<Sample>>,
    payload: Payload,
    /// Buffer in which pieces are joined.
    room: Option<Vec<u8>>,
}

impl Ends {
    fn new(session: &Session, [out, back]: [&'static str; 2], options: &Options) -> Result<Self> {
        let subscriber = session.declare_subscriber(back).wait()?;
        let publisher =
            session.declare_publisher(out).congestion_control(CongestionControl::Block).express(true).wait()?;
        let begin = Instant::now();
        while !publisher.matching_status().wait()?.matching() {
            if begin.elapsed() > PATIENCE {
                return Err("the other process did not come".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let room = options.joins.then(|| Vec::with_capacity(options.payload));
        Ok(Self { publisher, subscriber, payload: Payload::from_options(options)?, room })
    }

    fn send(&self, sequence: u64) -> Result<()> {
        self.publisher.put(self.payload.next(sequence)?).wait()
    }

    fn receive(&mut self) -> Result<()> {
        let sample = self.subscriber.recv_timeout(PATIENCE)?.ok_or("a message did not come")?;
        let payload = sample.payload();
        let first = payload.slices().next().unwrap_or_default();
        match &mut self.room {
            Some(room) if first.len() < payload.len() => {
                room.clear();
                payload.slices().for_each(|piece| room.extend_from_slice(piece));
                std::hint::black_box(room.as_slice());
            }
            _ => _ = std::hint::black_box(first),
        }
        Ok(())
    }
}

fn follow(options: &Options, endpoint: &str) -> Result<()> {
    let session = open("connect", endpoint, &options.over)?;
    let mut ends = Ends::new(&session, ["native/back", "native/out"], options)?;
    pin(options.follower_cpu)?;
    println!("ready");
    for sequence in 1..=(options.warmup + options.samples) as u64 {
        ends.receive()?;
        ends.send(sequence)?;
    }
    // The last answer may still be in flight.
    std::thread::sleep(Duration::from_millis(200));
    Ok(())
}

fn lead(options: &Options) -> Result<Vec<u64>> {
    let folder = std::env::temp_dir().join(format!("native-zenoh-{}", std::process::id()));
    let endpoint = match options.over.as_str() {
        "unix" => format!("unixsock-stream/{}", folder.display()),
        _ => "tcp/127.0.0.1:0".to_owned(),
    };
    let session = open("listen", &endpoint, &options.over)?;
    let locators = session.info().locators().wait();
    let mut follower = start_follower(&locators.first().ok_or("zenoh listens nowhere")?.to_string())?;
    let mut ends = Ends::new(&session, ["native/out", "native/back"], options)?;
    let mut line = String::new();
    BufReader::new(follower.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    pin(options.leader_cpu)?;
    let mut samples = vec![0; options.warmup + options.samples];
    let mut previous = Instant::now();
    for (sequence, sample) in (1..).zip(&mut samples) {
        ends.send(sequence)?;
        ends.receive()?;
        let now = Instant::now();
        *sample = (now - previous).as_nanos() as u64;
        previous = now;
    }
    follower.wait()?;
    // zenoh leaves its segments behind.
    zenoh::shm::cleanup_orphaned_shm_segments();
    Ok(samples.split_off(options.warmup))
}

fn start_follower(endpoint: &str) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args().skip(1)).args(["--follow", endpoint]).stdout(Stdio::piped());
    Ok(command.spawn()?)
}

fn main() -> Result<()> {
    let options = parse()?;
    zenoh::init_log_from_env_or("error");
    if let Some(endpoint) = &options.follow {
        return follow(&options, endpoint);
    }
    let mut samples = lead(&options)?;
    samples.sort_unstable();
    println!("{{\"rtt_ns\":{{\"p50\":{}}}}}", samples[samples.len() / 2]);
    Ok(())
}
