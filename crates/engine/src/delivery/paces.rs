//! Rates that links achieved.

use crate::clock::Timebase;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeptRate {
    pub achieved_hz: f64,
    pub slowest_hz: f64,
    pub rate_missed: bool,
}

/// Relative excess of the time that messages take, above which their rate counts as missed.
const TOLERANCE: f64 = 0.01;

pub struct Paces {
    timebase: Timebase,
    /// Number of messages of each link, and the ticks that they took.
    pub each: Vec<(u64, f64)>,
    pub pieces: u64,
    /// Ticks between two messages of a link.
    period: f64,
    /// Lateness of sending, in ticks, beyond which a message is behind: a period, or the gap between two bursts.
    pub gap: f64,
}

impl Paces {
    pub fn new(timebase: Timebase, links: usize, period: f64) -> Self {
        Self { timebase, each: vec![(0, 0.0); links], pieces: 0, period, gap: period }
    }

    pub fn add(&mut self, link: usize, sent: u64, ticks: f64) {
        let pace = &mut self.each[link];
        *pace = (pace.0 + sent, pace.1 + ticks);
    }

    pub fn kept(&self) -> KeptRate {
        let rates = || (0..self.each.len()).filter_map(|link| self.rate_hz(link));
        let topics = rates().count().max(1) as f64;
        KeptRate {
            achieved_hz: rates().sum::<f64>() / topics,
            slowest_hz: rates().reduce(f64::min).unwrap_or(0.0),
            rate_missed: (0..self.each.len()).any(|link| self.is_missed(link)),
        }
    }

    /// Messages per second of a link; `None` if it sent none.
    pub fn rate_hz(&self, link: usize) -> Option<f64> {
        let (sent, ticks) = self.each[link];
        (sent > 0).then(|| sent as f64 * self.timebase.ticks_per_ns() * 1e9 / ticks)
    }

    /// Longest time of a topic or client until the due time after its last message, in nanoseconds; 0 without a rate.
    pub fn paced_ns(&self) -> u64 {
        let ticks = self.each.iter().map(|(_, ticks)| *ticks).fold(0.0, f64::max);
        self.timebase.to_ns(ticks as u64)
    }

    pub fn is_missed(&self, link: usize) -> bool {
        let (sent, ticks) = self.each[link];
        is_missed(ticks, sent as f64, self.period, self.pieces as f64 * self.gap)
    }
}

/// True if `sent` messages took longer than one per `period` allows, beyond the tolerance and `slack`.
pub fn is_missed(time: f64, sent: f64, period: f64, slack: f64) -> bool {
    time > sent * period * (1.0 + TOLERANCE) + slack
}
