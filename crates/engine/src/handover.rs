//! The hand-over probe: one cache line passed to the other CPU and back.
//!
//! It shows what the two CPUs and their hypervisor do at the moment, apart from any transport.

use crate::clock::Timebase;
use crate::os::{MemoryFile, SharedPage};
use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;
use tripmeter_model::manifest::Handover;

/// Round trips of one probe; takes well below a millisecond on two CPUs.
pub const TRIPS: u64 = 2000;
const MOST_TIME: Duration = Duration::from_millis(500);
/// How long a bare loop waits: its follower's process may only have been started, on a busy machine.
const MOST_TIME_BARE: Duration = Duration::from_secs(30);
/// The leader hands over no more.
const ENDED: u64 = u64::MAX;

/// One page that both processes have mapped. Its first word is the cache line that is handed over.
#[derive(Debug)]
pub struct Page(SharedPage);

impl Page {
    /// A new page, at the leader.
    ///
    /// # Errors
    /// If the kernel has no memory file for us.
    pub fn create() -> io::Result<Self> {
        SharedPage::create().map(Self)
    }

    /// Where the followers find it.
    pub fn place(&self) -> MemoryFile {
        self.0.place()
    }

    /// The leader's page, at the follower.
    ///
    /// # Errors
    /// If the leader has gone, or is not seen here.
    pub fn open(place: MemoryFile) -> io::Result<Self> {
        SharedPage::open(place).map(Self)
    }

    /// The memory file that has it.
    ///
    /// # Errors
    /// If there is no descriptor left.
    pub fn file(&self) -> io::Result<File> {
        self.0.file.try_clone()
    }

    /// The page of such a file.
    ///
    /// # Errors
    /// If it is none.
    pub fn of(file: File) -> io::Result<Self> {
        SharedPage::map(file).map(Self)
    }

    fn word(&self) -> &AtomicU64 {
        self.header(0)
    }

    /// Spins until the word has this value; false after `most`, or if the other side has ended it.
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

    /// The leader's half: hands the line over and waits for it, [`TRIPS`] times, or as often as half a second allows where
    /// others keep the CPUs busy. `None` if the other side is not there.
    pub fn lead(&self, timebase: &Timebase) -> Option<Handover> {
        self.lead_patiently(timebase, MOST_TIME)
    }

    /// The same with that patience for each trip.
    fn lead_patiently(&self, timebase: &Timebase, patience: Duration) -> Option<Handover> {
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
        Some(Handover {
            samples: samples.len() as u64,
            min_ns: samples[0] as f64 * tick_ns,
            median_ns: tripmeter_stats::quantile(&samples, 0.5) * tick_ns,
        })
    }

    /// The follower's half.
    pub fn follow(&self) {
        self.follow_patiently(MOST_TIME);
    }

    fn follow_patiently(&self, patience: Duration) {
        for trip in 0..TRIPS {
            if !self.await_value(2 * trip + 1, patience) {
                // The next probe begins anew.
                self.word().store(0, Release);
                return;
            }
            self.word().store(2 * trip + 2, Release);
        }
    }
}

/// A bare ping-pong over the page, for comparison: header and word are in one cache line.
impl Page {
    /// The word at that place of the cache line.
    fn header(&self, place: usize) -> &AtomicU64 {
        debug_assert!(place < 8);
        &self.0.words()[place]
    }

    /// Writes a header of 16 bytes, and hands the line over by `value`.
    fn send(&self, value: u64) {
        self.header(1).store(value, Relaxed);
        self.header(2).store(!value, Relaxed);
        self.word().store(value, Release);
    }

    /// Waits for `value` and verifies the header.
    fn receive(&self, value: u64) -> bool {
        self.await_value(value, MOST_TIME_BARE)
            && self.header(1).load(Relaxed) == value
            && self.header(2).load(Relaxed) == !value
    }

    /// Round trips in ticks, by one reading of the clock each. `None` if the other side is not there.
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

    /// The other half; false if it ended early.
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

    /// Longer than a busy machine keeps a thread from a CPU.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// What both sides give, each over a mapping of its own.
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
        // The last one begins within the time.
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
