//! Core-to-core probe: passes one cache line to the other CPU and back.
//!
//! It shows the state of the two CPUs and their hypervisor, independent of any transport.

use crate::clock::Timebase;
use crate::os::{MemoryFile, SharedPage};
use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;
use tripmeter_model::manifest::CoreToCoreProbe;

/// Number of round trips per probe; all of them take well below a millisecond on two CPUs.
pub const TRIPS: u64 = 2000;
const MOST_TIME: Duration = Duration::from_millis(500);
/// Timeout for a message in a bare loop: long enough for the follower process to start on a busy machine.
const MOST_TIME_BARE: Duration = Duration::from_secs(30);
/// Value of the shared word after the leader has ended the probe.
const ENDED: u64 = u64::MAX;

/// Page that both processes map. Its first word lies in the cache line that is passed.
#[derive(Debug)]
pub struct Page(SharedPage);

impl Page {
    /// Creates a page, in the leader.
    pub fn create() -> io::Result<Self> {
        SharedPage::create().map(Self)
    }

    pub fn place(&self) -> MemoryFile {
        self.0.place()
    }

    /// Maps the leader's page, in the follower.
    pub fn open(place: MemoryFile) -> io::Result<Self> {
        SharedPage::open(place).map(Self)
    }

    pub fn file(&self) -> io::Result<File> {
        self.0.file.try_clone()
    }

    pub fn map(file: File) -> io::Result<Self> {
        SharedPage::map(file).map(Self)
    }

    fn word(&self) -> &AtomicU64 {
        self.header(0)
    }

    /// Spins until the word has this value. Returns false after the time `most`, or if the peer has ended the probe.
    fn await_value(&self, value: u64, most: Duration) -> bool {
        let start = std::time::Instant::now();
        loop {
            for _ in 0..4096 {
                match self.word().load(Acquire) {
                    found if found == value => return true,
                    ENDED => return false,
                    _ => std::hint::spin_loop(),
                }
            }
            if start.elapsed() > most {
                return false;
            }
        }
    }

    /// Runs the leader's half: [`TRIPS`] round trips, or as many as fit into half a second on busy CPUs. `None` if the
    /// peer does not answer.
    pub fn lead(&self, timebase: &Timebase) -> Option<CoreToCoreProbe> {
        self.lead_patiently(timebase, MOST_TIME)
    }

    fn lead_patiently(&self, timebase: &Timebase, patience: Duration) -> Option<CoreToCoreProbe> {
        self.word().store(0, Release);
        let mut samples = Vec::with_capacity(TRIPS as usize);
        let mut previous = timebase.now();
        let deadline = previous + timebase.to_ticks(MOST_TIME.as_nanos() as u64);
        for trip in 0..TRIPS {
            if previous > deadline {
                self.word().store(ENDED, Release);
                break;
            }
            self.word().store(2 * trip + 1, Release);
            if !self.await_value(2 * trip + 2, patience) {
                return None;
            }
            let now = timebase.now();
            samples.push(now - previous);
            previous = now;
        }
        samples.sort_unstable();
        let tick_ns = 1e9 / timebase.frequency_hz;
        Some(CoreToCoreProbe {
            samples: samples.len() as u64,
            min_ns: samples[0] as f64 * tick_ns,
            median_ns: tripmeter_stats::quantile(&samples, 0.5) * tick_ns,
        })
    }

    pub fn follow(&self) {
        self.follow_patiently(MOST_TIME);
    }

    fn follow_patiently(&self, patience: Duration) {
        for trip in 0..TRIPS {
            if !self.await_value(2 * trip + 1, patience) {
                // The next probe starts from 0.
                self.word().store(0, Release);
                return;
            }
            self.word().store(2 * trip + 2, Release);
        }
    }
}

/// Bare ping-pong over the page, for comparison. Header and word share a cache line.
impl Page {
    fn header(&self, place: usize) -> &AtomicU64 {
        debug_assert!(place < 8);
        &self.0.words()[place]
    }

    /// Writes a header of 16 bytes, then hands the cache line over by storing `value` in the first word.
    fn send(&self, value: u64) {
        self.header(1).store(value, Relaxed);
        self.header(2).store(!value, Relaxed);
        self.word().store(value, Release);
    }

    fn receive(&self, value: u64) -> bool {
        self.await_value(value, MOST_TIME_BARE)
            && self.header(1).load(Relaxed) == value
            && self.header(2).load(Relaxed) == !value
    }

    /// Exchanges messages, with one clock reading each. Round trips in ticks; `None` if the peer does not answer.
    pub fn exchange(&self, timebase: &Timebase, trips: u64) -> Option<Vec<u64>> {
        let mut samples = vec![0; trips as usize];
        let mut previous = timebase.now();
        for (trip, sample) in (0..).zip(&mut samples) {
            self.send(2 * trip + 1);
            if !self.receive(2 * trip + 2) {
                return None;
            }
            let now = timebase.now();
            *sample = now - previous;
            previous = now;
        }
        Some(samples)
    }

    /// Runs the follower's half of [`Self::exchange`]. Returns false if a message was late or wrong.
    pub fn answer(&self, trips: u64) -> bool {
        (0..trips).all(|trip| {
            let is_there = self.receive(2 * trip + 1);
            self.send(2 * trip + 2);
            is_there
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than a thread on a busy machine waits for a CPU.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn meet<L, F: Send>(lead: impl Fn(&Page) -> L, follow: impl Fn(&Page) -> F + Sync) -> (L, F) {
        let page = Page::create().unwrap();
        let other = Page::open(page.place()).unwrap();
        std::thread::scope(|scope| {
            let follower = scope.spawn(|| follow(&{ other }));
            (lead(&page), follower.join().unwrap())
        })
    }

    #[test]
    fn a_line_goes_over_and_back_between_two_mappings() {
        let lead = |page: &Page| page.lead_patiently(&Timebase::NANOSECONDS, PATIENCE);
        let (probe, ()) = meet(lead, |page| page.follow_patiently(PATIENCE));
        let probe = probe.unwrap();
        assert!(probe.min_ns <= probe.median_ns && (1..=TRIPS).contains(&probe.samples));
    }

    #[test]
    fn a_slow_other_side_gives_fewer_samples_in_bounded_time() {
        let follow = |other: &Page| {
            for trip in 0..TRIPS {
                if !other.await_value(2 * trip + 1, PATIENCE) {
                    return trip;
                }
                std::thread::sleep(MOST_TIME / 20);
                other.word().store(2 * trip + 2, Release);
            }
            TRIPS
        };
        let lead = |page: &Page| page.lead_patiently(&Timebase::NANOSECONDS, PATIENCE);
        let (probe, answered) = meet(lead, follow);
        let probe = probe.unwrap();
        // The last round trip begins before the deadline.
        assert!(probe.samples <= 21 && answered == probe.samples, "{probe:?}");
    }

    #[test]
    fn a_bare_exchange_has_a_sample_for_each_trip() {
        const TRIPS: u64 = 100;
        let exchange = |page: &Page| page.exchange(&Timebase::NANOSECONDS, TRIPS);
        let (samples, is_answered) = meet(exchange, |other| other.answer(TRIPS));
        assert_eq!((samples.unwrap().len() as u64, is_answered), (TRIPS, true));
    }

    #[test]
    fn nobody_there_is_no_figure() {
        assert!(Page::create().unwrap().lead(&Timebase::NANOSECONDS).is_none());
    }
}
