//! Offset between the clocks of two hosts. The asking side reads its clock before a question and after the answer; the
//! other side reads its own in between. However long both ways take, that reading lies within the interval.

use crate::clock::{Clock, Timebase};
use crate::os;
use crate::wire::ClockAddress;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Smallest number of questions per reading; the fastest answer counts.
const QUESTIONS: u64 = 200;
/// Number of questions after which slow answers are accepted.
const MANY_QUESTIONS: u64 = 2000;
/// Longest duration of a reading if an answer was fast enough.
const READING_TIME: Duration = Duration::from_millis(60);
/// Longest duration of a reading if no answer was fast enough, because both sides wait for CPUs.
const LONGEST_READING: Duration = Duration::from_secs(2);
/// Half of a round trip, in nanoseconds, up to which an answer is fast enough.
const SOON_NS: f64 = 20_000.0;
/// Timeout of an answer, after which the next question is sent; a later answer still counts.
const ANSWER_TIME: Duration = Duration::from_millis(5);
/// Silence during which a side spins: longer than an answer takes if nothing else wants its CPU.
const SPIN_TIME: Duration = Duration::from_micros(20);
/// Silence after which no more questions are expected; longer than a reading.
const SILENCE: Duration = Duration::from_secs(3);
/// Longest wait for the first question, whose address is sent through ssh, and for the first answer.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Number that ends a series of questions.
const LAST: u64 = u64::MAX;

const TOKEN_BYTES: usize = 16;
/// Bytes of a question: token and number.
const QUESTION_BYTES: usize = TOKEN_BYTES + 8;
/// Bytes of an answer: token, number and clock.
const ANSWER_BYTES: usize = QUESTION_BYTES + 8;

pub(crate) struct ClockServer {
    socket: UdpSocket,
    token: [u8; TOKEN_BYTES],
}

impl ClockServer {
    pub fn bind(address: IpAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind((address, 0))?;
        socket.set_nonblocking(true)?;
        // The hash is keyed by random numbers of the kernel.
        let random = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        let mut token = [0; TOKEN_BYTES];
        token[..8].copy_from_slice(&random().to_le_bytes());
        token[8..].copy_from_slice(&random().to_le_bytes());
        Ok(Self { socket, token })
    }

    /// Address and token for the asking side.
    pub fn address(&self) -> io::Result<ClockAddress> {
        Ok(ClockAddress { at: self.socket.local_addr()?, token: self.token })
    }

    /// Answers until the last question, or until no more come.
    pub fn serve(&self, clock: &impl Clock) {
        let (mut quiet, mut room) = (Quiet::begin(LONGEST_WAIT), [0; QUESTION_BYTES + 1]);
        while !quiet.is_over() {
            let asked = self.socket.recv_from(&mut room);
            let now = clock.now();
            let (length, from) = match asked {
                Ok(asked) => asked,
                Err(_) => {
                    quiet.wait(&self.socket);
                    continue;
                }
            };
            if length != QUESTION_BYTES || room[..TOKEN_BYTES] != self.token {
                continue;
            }
            quiet = Quiet::begin(SILENCE);
            if number(&room[TOKEN_BYTES..]) == LAST {
                return;
            }
            let mut answer = [0; ANSWER_BYTES];
            answer[..QUESTION_BYTES].copy_from_slice(&room[..QUESTION_BYTES]);
            answer[QUESTION_BYTES..].copy_from_slice(&now.to_le_bytes());
            // A lost answer is asked for again.
            let _ = self.socket.send_to(&answer, from);
        }
    }
}

/// Time without a message.
struct Quiet {
    begin: Instant,
    longest: Duration,
}

impl Quiet {
    fn begin(longest: Duration) -> Self {
        Self { begin: Instant::now(), longest }
    }

    fn is_over(&self) -> bool {
        self.begin.elapsed() > self.longest
    }

    /// Spins at first, then sleeps until a message comes: the other side may need this CPU to send one. A thread that
    /// slept is also scheduled before threads that kept the CPU busy.
    fn wait(&self, socket: &UdpSocket) {
        let passed = self.begin.elapsed();
        if passed < SPIN_TIME || os::wait_readable(&[socket], self.longest.saturating_sub(passed)).is_err() {
            std::hint::spin_loop();
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.get(..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Reading of another host's clock, in ticks of both clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClockReading {
    /// Own clock at the middle of the interval in which the other clock was read.
    pub here: f64,
    pub there: u64,
    /// Half of that interval: the largest error of `here`.
    pub bound: f64,
}

impl ClockReading {
    /// Reading of the other clock, `there`, between two readings of our own.
    pub fn between(before: u64, there: u64, after: u64) -> Self {
        let half = after.saturating_sub(before) as f64 / 2.0;
        Self { here: before as f64 + half, there, bound: half }
    }

    /// Reads the clock of another host; sends questions until an answer is fast enough.
    pub fn take(from: IpAddr, clock: &ClockAddress, timebase: &Timebase) -> io::Result<Self> {
        Self::take_by(from, clock, timebase, timebase.ticks_per_ns())
    }

    /// Reads the clock of another host, compared with any clock of this host.
    pub fn take_by(from: IpAddr, clock: &ClockAddress, own: &impl Clock, ticks_per_ns: f64) -> io::Result<Self> {
        let socket = UdpSocket::bind((from, 0))?;
        socket.connect(clock.at)?;
        socket.set_nonblocking(true)?;
        let mut question = [0; QUESTION_BYTES];
        question[..TOKEN_BYTES].copy_from_slice(&clock.token);
        let (begin, mut best) = (Instant::now(), None::<Self>);
        // Send times of the questions.
        let mut sent = Vec::with_capacity(MANY_QUESTIONS as usize);
        for asked in 0.. {
            let is_soon = best.is_some_and(|best| best.bound / ticks_per_ns <= SOON_NS);
            let passed = begin.elapsed();
            let is_enough = is_soon && (asked >= QUESTIONS || passed > READING_TIME);
            let longest = if best.is_some() { LONGEST_READING } else { LONGEST_WAIT };
            let is_long = best.is_some() && asked >= MANY_QUESTIONS;
            if is_enough || is_long || passed > longest {
                break;
            }
            question[TOKEN_BYTES..].copy_from_slice(&asked.to_le_bytes());
            sent.push(own.now());
            match socket.send(&question) {
                Ok(_) => {}
                // The error belongs to the previous question: the server is not ready.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(error),
            }
            if let Some((number, there, after)) = answer(&socket, asked, own) {
                let before = sent[number as usize];
                let found = Self::between(before, there, after);
                best = best.filter(|best| best.bound <= found.bound).or(Some(found));
            }
        }
        question[TOKEN_BYTES..].copy_from_slice(&LAST.to_le_bytes());
        // If all are lost, the server's own timeout ends it.
        (0..3).for_each(|_| drop(socket.send(&question)));
        best.ok_or_else(|| io::Error::new(ErrorKind::TimedOut, format!("no answer from UDP {}", clock.at)))
    }
}

/// Number of the answered question, clock in the answer, and time of its arrival here.
fn answer(socket: &UdpSocket, asked: u64, own: &impl Clock) -> Option<(u64, u64, u64)> {
    let (quiet, mut room) = (Quiet::begin(ANSWER_TIME), [0; ANSWER_BYTES + 1]);
    loop {
        match socket.recv(&mut room) {
            Ok(ANSWER_BYTES) if number(&room[TOKEN_BYTES..]) <= asked => {
                return Some((number(&room[TOKEN_BYTES..]), number(&room[QUESTION_BYTES..]), own.now()));
            }
            // No answer yet, a message of another program, or a server that is not ready.
            _ => {}
        }
        if quiet.is_over() {
            return None;
        }
        quiet.wait(socket);
    }
}

/// Conversion from another host's clock to ours, by a line through two readings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockLine {
    before: ClockReading,
    after: ClockReading,
}

impl ClockLine {
    pub fn new(before: ClockReading, after: ClockReading) -> Self {
        Self { before, after }
    }

    /// Own ticks for a tick of the other clock. If both clocks run evenly, the error between the readings is at most
    /// the larger bound.
    pub fn here(&self, there: u64) -> u64 {
        let Self { before, after } = self;
        let (ran, passed) = (after.there as f64 - before.there as f64, after.here - before.here);
        // If both readings are equal, or a clock stands still, there is no rate.
        let rate = if ran > 0.0 && passed > 0.0 { passed / ran } else { 1.0 };
        let since = (there as i128 - i128::from(before.there)) as f64;
        // Only differences are floats: ticks since boot have more digits than a float.
        (before.here as i128 + (since * rate).round() as i128).clamp(0, i128::from(u64::MAX - 1)) as u64
    }

    pub fn bound(&self) -> f64 {
        self.before.bound.max(self.after.bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_read_within_its_bound() {
        let base = Timebase::NANOSECONDS;
        let server = ClockServer::bind([127, 0, 0, 1].into()).unwrap();
        let address = server.address().unwrap();
        let reading = std::thread::scope(|scope| {
            scope.spawn(|| server.serve(&base));
            ClockReading::take([127, 0, 0, 1].into(), &address, &base).unwrap()
        });
        assert!((reading.there as f64 - reading.here).abs() <= reading.bound, "{reading:?}");
        let stranger = ClockAddress { token: [0; TOKEN_BYTES], ..address };
        let refused = std::thread::scope(|scope| {
            scope.spawn(|| server.serve(&base));
            ClockReading::take([127, 0, 0, 1].into(), &stranger, &base)
        });
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
    }

    /// Each answer takes longer than the timeout of a question.
    #[test]
    fn a_clock_behind_a_long_way_is_read_within_its_bound() {
        let base = Timebase::NANOSECONDS;
        let server = ClockServer::bind([127, 0, 0, 1].into()).unwrap();
        let [way, back] = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        let address = server.address().unwrap();
        back.connect(address.at).unwrap();
        let far = ClockAddress { at: way.local_addr().unwrap(), ..address };
        [&way, &back].iter().for_each(|socket| socket.set_read_timeout(Some(SILENCE)).unwrap());
        let reading = std::thread::scope(|scope| {
            scope.spawn(|| server.serve(&base));
            scope.spawn(|| {
                let mut room = [0; 64];
                while let Ok((bytes, from)) = way.recv_from(&mut room) {
                    std::thread::sleep(2 * ANSWER_TIME);
                    let sent = back.send(&room[..bytes]).and_then(|_| back.recv(&mut room));
                    let Ok(bytes) = sent else { break };
                    way.send_to(&room[..bytes], from).unwrap();
                }
            });
            ClockReading::take([127, 0, 0, 1].into(), &far, &base).unwrap()
        });
        assert!(reading.bound >= ANSWER_TIME.as_nanos() as f64, "{reading:?}");
        assert!((reading.there as f64 - reading.here).abs() <= reading.bound, "{reading:?}");
    }

    #[test]
    fn a_clock_that_is_off_and_runs_faster_is_followed_within_the_bound() {
        // The other clock is 5 s ahead, and 20 ppm fast.
        let there = |here: f64| (5e9 + here * 1.00002) as u64;
        let reading = |here: f64, bound: f64| ClockReading { here, there: there(here), bound };
        let line = ClockLine::new(reading(1e15, 300.0), reading(1e15 + 60e9, 500.0));
        for here in [1e15, 1e15 + 1e9, 1e15 + 59e9] {
            assert!((line.here(there(here)) as f64 - here).abs() <= 2.0, "{here}");
        }
        assert_eq!(line.bound(), 500.0);
        let same = ClockLine::new(reading(10.0, 1.0), reading(10.0, 1.0));
        assert_eq!(same.here(there(10.0) + 7), 17);
    }
}
