//! Search for the highest rate at which no more than a given share of messages is lost.
//!
//! Full speed comes first; if that loses no more than the bound, it is the answer. Otherwise the answer lies below. Short
//! trials enclose it by halving the interval on a logarithmic scale, and a trial of full length confirms the rate found.
//! Their number is bounded.
//!
//! # Source
//! Simplified after Multiple Loss Ratio Search (IETF draft-ietf-bmwg-mlrsearch). It begins at the rate received at the
//! highest load, with short trials first. Both ends of the interval are measured again at full length.

use tripmeter_model::figure::Figure;
use tripmeter_model::metric::Stream;
use tripmeter_model::search::Step;
use tripmeter_model::trial::Trial;

/// Most trials of a search, including the first.
pub(crate) const MOST_TRIALS: usize = 20;
/// Full length of a trial, divided by the length of a short one.
const SHORTER: u64 = 4;
/// Largest ratio between the interval's ends at which they count as one rate.
const PRECISION: f64 = 1.02;
/// Share of a rate that must be sent for it to count as kept.
const KEPT: f64 = 0.98;
/// Factor from a rate that lost too much to the next one, while nothing is known to pass.
const DESCENT: f64 = 0.7;

/// Factor from a rate that was found, but not confirmed, to the next one.
const BACK_OFF: f64 = 0.9;

pub struct SearchResult {
    /// Trial at the highest rate that passed; if none did, the last one.
    pub trial: Trial,
    pub passed: bool,
}

struct Search<'a, E> {
    loss_bound: f64,
    full_ns: u64,
    /// Makes a trial at a rate, or at full speed, of this length in nanoseconds.
    run: &'a mut dyn FnMut(Option<f64>, u64) -> Result<Trial, E>,
    steps: Vec<Step>,
}

/// Runs the search; every trial is in [`Trial::steps`] of the result. A trial that was cut short ends the search.
pub fn search<E>(
    loss_bound: f64,
    full_ns: u64,
    run: &mut dyn FnMut(Option<f64>, u64) -> Result<Trial, E>,
) -> Result<SearchResult, E> {
    let mut search = Search { loss_bound, full_ns, run, steps: Vec::new() };
    let (mut trial, passed) = search.enclose()?;
    trial.steps = search.steps;
    Ok(SearchResult { trial, passed })
}

impl<E> Search<'_, E> {
    fn enclose(&mut self) -> Result<(Trial, bool), E> {
        let (mut latest, passed) = self.step(None, self.full_ns)?;
        if passed || latest.cut_short.is_some() {
            return Ok((latest, passed));
        }
        let received_hz = hz(&latest, Figure::ReceivedRate);
        let (mut low, mut high) = (None, hz(&latest, Figure::PublishedRate));
        let mut rate = received_hz.clamp(1.0, high.max(1.0));
        let mut length_ns = self.full_ns / SHORTER;
        while self.steps.len() < MOST_TRIALS && latest.cut_short.is_none() && rate >= 1.0 {
            let (trial, passed) = self.step(Some(rate), length_ns)?;
            latest = trial;
            if passed && length_ns == self.full_ns {
                return Ok((latest, true));
            }
            let was_full = length_ns == self.full_ns;
            if passed {
                low = Some(rate);
            } else {
                high = rate;
                low = low.filter(|low| *low < high);
            }
            (rate, length_ns) = match low {
                // The last trial is reserved for the confirmation.
                Some(low) if high / low <= PRECISION || self.steps.len() + 2 > MOST_TRIALS => (low, self.full_ns),
                Some(low) => ((low * high).sqrt(), self.full_ns / SHORTER),
                // A rate that passed a short trial failed a long one.
                None if was_full => (high * BACK_OFF, self.full_ns),
                None => (high * DESCENT, length_ns),
            };
        }
        Ok((latest, false))
    }

    fn step(&mut self, rate_hz: Option<f64>, duration_ns: u64) -> Result<(Trial, bool), E> {
        let trial = (self.run)(rate_hz, duration_ns)?;
        let (loss, published_hz) = (loss(&trial), hz(&trial, Figure::PublishedRate));
        let kept = rate_hz.is_none_or(|rate| published_hz >= rate * KEPT);
        let passed = loss <= self.loss_bound && kept && trial.count(&Stream::all(), Figure::Sent) > 0;
        self.steps.push(Step { rate_hz, duration_ns, published_hz, loss, passed });
        Ok((trial, passed))
    }
}

fn hz(trial: &Trial, figure: Figure) -> f64 {
    trial.value(&Stream::all(), figure).unwrap_or(0.0)
}

/// Share of messages lost or damaged.
fn loss(trial: &Trial) -> f64 {
    let counts = trial.counts(&Stream::all());
    let gone = counts.lost + counts.damaged;
    gone as f64 / (gone + counts.received).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_model::cut_short::CutShort;
    use tripmeter_model::manifest::Counts;
    use tripmeter_model::pace::OfferedLoad;
    use tripmeter_model::search::per_second;

    /// Result for a system that sends `fastest` messages per second at most, delivers `capacity`, and loses the rest.
    fn found(fastest: f64, capacity: f64, loss_bound: f64) -> SearchResult {
        let mut run = |rate: Option<f64>, ns: u64| Ok::<_, ()>(trial(rate, ns, fastest, capacity));
        search(loss_bound, 1_000_000_000, &mut run).unwrap()
    }

    fn trial(rate: Option<f64>, ns: u64, fastest: f64, capacity: f64) -> Trial {
        let published_hz = rate.unwrap_or(f64::INFINITY).min(fastest);
        let sent = (published_hz * ns as f64 / 1e9) as u64;
        let received = sent.min((capacity * ns as f64 / 1e9) as u64);
        let mut trial = Trial::new(OfferedLoad::Search { loss_bound: 0.0 });
        let (all, counts) = (Stream::all(), Counts { sent, received, lost: sent - received, ..Counts::default() });
        trial.put_counts(&all, &counts, false);
        trial.put(&all, Figure::PublishedRate, published_hz);
        trial.put(&all, Figure::ReceivedRate, per_second(received, ns));
        if let Some(hz) = rate {
            trial.put(&all, Figure::OfferedRate, hz);
        }
        trial
    }

    #[test]
    fn a_system_that_loses_nothing_is_as_fast_as_it_goes() {
        let found = found(1e6, 2e6, 0.0);
        assert!(found.passed && found.trial.value(&Stream::all(), Figure::OfferedRate).is_none());
        assert_eq!(found.trial.steps.len(), 1);
    }

    #[test]
    fn the_capacity_is_found_to_a_few_percent_from_below() {
        for capacity in [999.0, 12_345.0, 400_000.0, 990_000.0] {
            let found = found(1e6, capacity, 0.0);
            let rate = found.trial.value(&Stream::all(), Figure::OfferedRate).unwrap();
            assert!(found.passed && rate <= capacity * 1.001 && rate > capacity * 0.95, "{capacity}: {rate}");
            assert!(found.trial.steps.len() <= MOST_TRIALS);
            assert_eq!(found.trial.steps.last().unwrap().duration_ns, 1_000_000_000, "confirmed at full length");
        }
    }

    #[test]
    fn a_looser_bound_finds_a_higher_rate() {
        let [strict, loose] = [0.0, 0.1]
            .map(|bound| found(1e6, 100_000.0, bound).trial.value(&Stream::all(), Figure::OfferedRate).unwrap());
        assert!(loose > strict * 1.05 && loose < strict * 1.2, "{strict} {loose}");
    }

    #[test]
    fn a_system_that_always_loses_ends_without_an_answer() {
        let mut runs = 0;
        let mut run = |rate: Option<f64>, ns: u64| {
            runs += 1;
            let mut trial = trial(rate, ns, 1e6, 1e5);
            let lost = trial.count(&Stream::all(), Figure::Lost) + 1;
            trial.put(&Stream::all(), Figure::Lost, lost as f64);
            Ok::<_, ()>(trial)
        };
        let found = search(0.0, 1_000_000_000, &mut run).unwrap();
        assert!(!found.passed && found.trial.steps.iter().all(|step| !step.passed));
        assert!(runs <= MOST_TRIALS, "{runs}");
    }

    #[test]
    fn a_rate_that_loses_only_in_a_long_trial_is_not_the_answer() {
        let mut run = |rate: Option<f64>, ns: u64| {
            let is_fine = ns < 1_000_000_000 || rate.is_some_and(|rate| rate < 50_000.0);
            Ok::<_, ()>(trial(rate, ns, 1e6, if is_fine { 1e5 } else { 4e4 }))
        };
        let found = search(0.0, 1_000_000_000, &mut run).unwrap();
        let rate = found.trial.value(&Stream::all(), Figure::OfferedRate).unwrap();
        assert!(rate <= 50_000.0 || !found.passed, "{rate}");
        assert!(found.trial.steps.len() <= MOST_TRIALS);
    }

    #[test]
    fn an_interrupted_trial_ends_it() {
        let mut run = |rate: Option<f64>, ns: u64| {
            let mut trial = trial(rate, ns, 1e6, 1e5);
            trial.cut_short = rate.map(|_| CutShort::Interrupted);
            Ok::<_, ()>(trial)
        };
        assert_eq!(search(0.0, 1_000_000_000, &mut run).unwrap().trial.steps.len(), 2);
    }
}
