//! Number of rounds of a run with `--for`, estimated after each round.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tripmeter_model::manifest::Manifest;
use tripmeter_model::plan::Plan;

/// Interval between checks if the next round may begin.
const LOOK: Duration = Duration::from_millis(20);

/// Returns a function that estimates the total number of rounds: the plan's, or as many as fit into its time.
///
/// The total includes rounds of earlier processes, but the estimate uses only rounds of this process. Until its first
/// round has ended, the plan's number stays. The function waits if there would be too many rounds.
pub fn rounds_wanted(plan: &Plan, stop: Arc<AtomicBool>) -> impl FnMut(&Manifest) -> u32 + use<> {
    let (for_ns, most) = (plan.for_ns, plan.most_rounds());
    let (mut begin, mut before) = (Instant::now(), None);
    move |manifest| {
        let Some(whole) = for_ns.map(Duration::from_nanos) else { return manifest.plan.rounds };
        let last = manifest.sub_experiments.iter().map(|result| result.round).max().unwrap_or(0);
        let before = *before.get_or_insert(last);
        let (rounds, most) = (last - before, most.saturating_sub(before).max(1));
        if rounds == 0 {
            begin = Instant::now();
            return manifest.plan.rounds;
        }
        let least = whole.mul_f64(f64::from(rounds) / f64::from(most));
        while begin.elapsed() < least && !stop.load(Relaxed) {
            std::thread::sleep(LOOK);
        }
        (before + within(whole, begin.elapsed(), rounds, most)).max(last)
    }
}

/// Number of rounds that begin within the time `whole`, at most `most`, given that `rounds` took `spent`.
fn within(whole: Duration, spent: Duration, rounds: u32, most: u32) -> u32 {
    let fit = whole.as_secs_f64() * f64::from(rounds) / spent.as_secs_f64().max(1e-9);
    fit.ceil().clamp(1.0, f64::from(most)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_round_begins_after_the_time() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        assert_eq!(within(minutes(60), minutes(10), 10, 100), 60);
        assert_eq!(within(minutes(60), minutes(59), 10, 100), 11, "the next one begins in time");
        assert_eq!(within(minutes(60), minutes(60), 10, 100), 10);
        assert_eq!(within(minutes(60), minutes(90), 10, 100), 7, "the engine has ten by now, and ends");
        assert_eq!(within(minutes(60), Duration::ZERO, 1, 100), 100);
    }
}
