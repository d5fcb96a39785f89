//! How far the clocks of two hosts are apart: who asks reads its clock before and after, who answers in between. Whatever
//! the ways there and back take, the answer was read within that time.

use crate::clock::{Clock, Timebase};
use crate::wire::ClockAddress;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Questions of one reading, at least: the one that was answered soonest counts.
const QUESTIONS: u64 = 200;
/// After so many it is the way that takes long.
const MANY_QUESTIONS: u64 = 2000;
/// Longest time of a reading where one was answered soon enough.
const READING_TIME: Duration = Duration::from_millis(60);
/// The same where others keep both sides from their CPUs, and none was soon enough.
const LONGEST_READING: Duration = Duration::from_secs(2);
/// Half of the time that is soon enough, in nanoseconds.
const SOON_NS: f64 = 20_000.0;
/// After so long without an answer the next question is asked; a later answer counts too.
const ANSWER_TIME: Duration = Duration::from_millis(5);
/// After so long without a question nobody asks any more: longer than a reading.
const SILENCE: Duration = Duration::from_secs(3);
/// How long the first question may take, as where to ask is sent through ssh; and the first answer.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Number of the question that is none.
const LAST: u64 = u64::MAX;

const TOKEN_BYTES: usize = 16;
/// Token and number.
const QUESTION_BYTES: usize = TOKEN_BYTES + 8;
/// The same and the clock.
const ANSWER_BYTES: usize = QUESTION_BYTES + 8;

/// Answers for the clock of a follower.
pub(crate) struct ClockServer {
    socket: UdpSocket,
    token: [u8; TOKEN_BYTES],
}

impl ClockServer {
    /// At a free port of that address.
    ///
    /// # Errors
    /// If there is no such address.
    pub fn bind(address: IpAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind((address, 0))?;
        socket.set_nonblocking(true)?;
        // Keyed by the kernel's random numbers.
        let random = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        let mut token = [0; TOKEN_BYTES];
        token[..8].copy_from_slice(&random().to_le_bytes());
        token[8..].copy_from_slice(&random().to_le_bytes());
        Ok(Self { socket, token })
    }

    /// What who asks must know.
    ///
    /// # Errors
    /// If the operating system does not tell.
    pub fn address(&self) -> io::Result<ClockAddress> {
        Ok(ClockAddress { at: self.socket.local_addr()?, token: self.token })
    }

    /// Answers until the last question, or until nobody asks any more.
    pub fn serve(&self, clock: &impl Clock) {
        let (mut end, mut room) = (Instant::now() + LONGEST_WAIT, [0; QUESTION_BYTES + 1]);
        while Instant::now() < end {
            let asked = self.socket.recv_from(&mut room);
            let now = clock.now();
            let (length, from) = match asked {
                Ok(asked) => asked,
                Err(_) => {
                    std::hint::spin_loop();
                    continue;
                }
            };
            if length != QUESTION_BYTES || room[..TOKEN_BYTES] != self.token {
                continue;
            }
            end = Instant::now() + SILENCE;
            if number(&room[TOKEN_BYTES..]) == LAST {
                return;
            }
            let mut answer = [0; ANSWER_BYTES];
            answer[..QUESTION_BYTES].copy_from_slice(&room[..QUESTION_BYTES]);
            answer[QUESTION_BYTES..].copy_from_slice(&now.to_le_bytes());
            // One that is lost is asked for again.
            let _ = self.socket.send_to(&answer, from);
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.get(..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The clock of another host, read once, in ticks of both clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClockReading {
    /// The middle of the time in which it was read.
    pub here: f64,
    /// What it said.
    pub there: u64,
    /// Half of that time: it cannot be further off.
    pub bound: f64,
}

impl ClockReading {
    /// Of a clock that said `there` between two readings here.
    pub fn between(before: u64, there: u64, after: u64) -> Self {
        let half = after.saturating_sub(before) as f64 / 2.0;
        Self { here: before as f64 + half, there, bound: half }
    }

    /// Asks that clock until it was answered soon.
    ///
    /// # Errors
    /// If there is no answer.
    pub fn take(from: IpAddr, clock: &ClockAddress, timebase: &Timebase) -> io::Result<Self> {
        Self::take_by(from, clock, timebase, timebase.ticks_per_ns())
    }

    /// The same by any clock here, with so many ticks in a nanosecond.
    ///
    /// # Errors
    /// If there is no answer.
    pub fn take_by(from: IpAddr, clock: &ClockAddress, own: &impl Clock, ticks_per_ns: f64) -> io::Result<Self> {
        let socket = UdpSocket::bind((from, 0))?;
        socket.connect(clock.at)?;
        socket.set_nonblocking(true)?;
        let mut question = [0; QUESTION_BYTES];
        question[..TOKEN_BYTES].copy_from_slice(&clock.token);
        let (begin, mut best) = (Instant::now(), None::<Self>);
        // When each question was asked.
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
                // The answer to the one before: nobody is there yet.
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
        // Else its own patience ends it.
        (0..3).for_each(|_| drop(socket.send(&question)));
        best.ok_or_else(|| io::Error::new(ErrorKind::TimedOut, format!("nothing came back from UDP {}", clock.at)))
    }
}

/// The number of a question, what the clock said, and when that was here.
fn answer(socket: &UdpSocket, asked: u64, own: &impl Clock) -> Option<(u64, u64, u64)> {
    let (begin, mut room) = (Instant::now(), [0; ANSWER_BYTES + 1]);
    loop {
        match socket.recv(&mut room) {
            Ok(ANSWER_BYTES) if number(&room[TOKEN_BYTES..]) <= asked => {
                return Some((number(&room[TOKEN_BYTES..]), number(&room[QUESTION_BYTES..]), own.now()));
            }
            // No answer yet, another's message, or nobody there.
            _ => {}
        }
        if begin.elapsed() > ANSWER_TIME {
            return None;
        }
        std::hint::spin_loop();
    }
}

/// The clock of another host between two readings of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockLine {
    before: ClockReading,
    after: ClockReading,
}

impl ClockLine {
    /// Between these.
    pub fn new(before: ClockReading, after: ClockReading) -> Self {
        Self { before, after }
    }

    /// Ticks here at the tick there. Between the readings no clock is off by more than the larger bound, if it runs evenly.
    pub fn here(&self, there: u64) -> u64 {
        let Self { before, after } = self;
        let (ran, passed) = (after.there as f64 - before.there as f64, after.here - before.here);
        // Both readings at one time, or of a clock that stands still: there is no time between them to convert.
        let rate = if ran > 0.0 && passed > 0.0 { passed / ran } else { 1.0 };
        let since = (there as i128 - i128::from(before.there)) as f64;
        // Not as a float all at once: ticks since the start of a machine have more digits.
        (before.here as i128 + (since * rate).round() as i128).clamp(0, i128::from(u64::MAX - 1)) as u64
    }

    /// Ticks here that it may be off.
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

    /// Each answer takes longer than it is waited for.
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
        // There it is 5 s later, and a second has 20 ppm more.
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
