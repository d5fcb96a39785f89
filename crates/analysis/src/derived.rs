//! Figures that are computed from others, and not stored.

use crate::table::{MetricTable, Rounds, Row};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::{CoreToCoreProbe, CoreToCoreProbes, Counts, ModeChange};
use tripmeter_model::metric::{At, Interval, Probe, Process, Stream};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_stats::ErrorBounds;
use tripmeter_stats::proportion::Proportion;

const LOST_MESSAGES: [Figure; 3] = [Figure::Lost, Figure::Late, Figure::Damaged];
const LOST_CALLS: [Figure; 2] = [Figure::TimedOut, Figure::Failed];

/// Losses of each round, with the messages sent. Losses are messages or lines that were lost, late or damaged, or calls
/// that timed out or failed. All displays, limits and comparisons of losses use this function.
pub fn loss(table: &MetricTable, row: Row, stream: &Stream) -> Vec<Proportion> {
    let is_of_calls = table.get(row, stream, Figure::TimedOut, Statistic::Value).is_some();
    losses(table, row, stream, if is_of_calls { &LOST_CALLS } else { &LOST_MESSAGES })
}

/// Streams that have a derived figure. If counts of stream `all` are totals, only followers have a loss.
pub fn streams(table: &MetricTable, row: Row, figure: Figure) -> Vec<&Stream> {
    match figure {
        Figure::LossShare | Figure::DeliveredShare => {
            let has_totals = is_total_of_followers(table, row);
            let streams = table.streams(row, Figure::Sent).into_iter();
            streams.filter(|stream| !has_totals || **stream != Stream::all()).collect()
        }
        _ => COSTS.iter().find(|cost| cost.0 == figure).map_or(Vec::new(), |cost| table.streams(row, cost.1[0])),
    }
}

/// Values of a derived figure, for each round that has it.
pub fn by_round(table: &MetricTable, row: Row, stream: &Stream, figure: Figure) -> Vec<(u32, f64)> {
    let sent = || table.get(row, stream, Figure::Sent, Statistic::Value);
    match (figure, stream.process) {
        (Figure::LossShare | Figure::DeliveredShare, _) => {
            let Some(sent) = sent() else { return Vec::new() };
            let rounds = sent.rounds.iter().copied().zip(loss(table, row, stream));
            let shares = rounds.filter(|(_, lost)| lost.of > 0).map(|(round, lost)| (round, lost.share()));
            let is_loss = figure == Figure::LossShare;
            shares.map(|(round, share)| (round, if is_loss { share } else { 1.0 - share })).collect()
        }
        (_, Some(process)) => cost_by_round(table, row, process, figure),
        _ => Vec::new(),
    }
}

/// Sum of the counts `lost` in each round, with the messages sent.
pub fn losses(table: &MetricTable, row: Row, stream: &Stream, lost: &[Figure]) -> Vec<Proportion> {
    let get = |figure| table.get(row, stream, figure, Statistic::Value);
    let Some(sent) = get(Figure::Sent) else { return Vec::new() };
    let lost: Vec<_> = lost.iter().filter_map(|figure| get(*figure)).collect();
    let of_round = |(round, sent): (&u32, &f64)| {
        let at = |one: &Rounds<'_>| one.at(*round).unwrap_or(0.0);
        Proportion { events: lost.iter().map(at).sum::<f64>() as u64, of: *sent as u64 }
    };
    sent.rounds.iter().zip(sent.values).map(of_round).collect()
}

/// True if counts of stream `all`, except `sent` and `received`, are totals over several followers, as under `ping`.
/// Their share of the messages sent is then meaningless, and may exceed 1.
pub fn is_total_of_followers(table: &MetricTable, row: Row) -> bool {
    let is_follower = |stream: &&Stream| matches!(stream.at, Some(At::Follower(_)));
    table.load(row) == OfferedLoad::Closed && table.streams(row, Figure::Sent).iter().any(is_follower)
}

/// Cost of a process in each round; empty if `figure` is not a derived cost.
pub fn cost(table: &MetricTable, row: Row, process: Process, figure: Figure) -> Vec<f64> {
    cost_by_round(table, row, process, figure).into_iter().map(|(_, cost)| cost).collect()
}

/// Derived costs of a process, each with the figures whose sum is divided, the divisor and a factor. The divisor is the
/// time of measurement, or the number of messages sent or calls made.
const COSTS: [(Figure, &[Figure], Figure, f64); 5] = [
    (Figure::CpuShare, &[Figure::CpuTime], Figure::Window, 1.0),
    (Figure::KernelShare, &[Figure::KernelTime], Figure::Window, 1.0),
    (Figure::CpuPerMessage, &[Figure::CpuTime], Figure::Sent, 1.0),
    (Figure::SwitchesRate, &[Figure::VoluntarySwitches, Figure::InvoluntarySwitches], Figure::Window, 1e9),
    (Figure::FaultsPerMessage, &[Figure::PageFaults], Figure::Sent, 1.0),
];

fn cost_by_round(table: &MetricTable, row: Row, process: Process, figure: Figure) -> Vec<(u32, f64)> {
    let Some((_, parts, by, factor)) = COSTS.iter().find(|cost| cost.0 == figure) else { return Vec::new() };
    let stream = Stream::process(process);
    let get = |figure| table.get(row, &stream, figure, Statistic::Value);
    let by = if *by == Figure::Sent { table.get(row, &Stream::all(), *by, Statistic::Value) } else { get(*by) };
    let (Some(by), Some(parts)) = (by, parts.iter().map(|part| get(*part)).collect::<Option<Vec<_>>>()) else {
        return Vec::new();
    };
    let at = |round: u32| {
        Some(parts.iter().map(|part| part.at(round)).sum::<Option<f64>>()? * factor / by.at(round)?.max(1.0))
    };
    by.rounds.iter().filter_map(|round| Some((*round, at(*round)?))).collect()
}

/// Values of a figure by round, with the intervals within the rounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Each {
    /// Value of each round that has it.
    pub values: Vec<f64>,
    /// Interval within each of these rounds.
    pub within: Vec<Option<Interval>>,
    /// Largest errors from the clocks of two hosts, over all rounds.
    pub errors: ErrorBounds,
}

impl Each {
    /// Values of a stored figure; empty if `rounds` is `None`.
    pub fn from_rounds(rounds: Option<Rounds<'_>>) -> Self {
        let of = |rounds: Rounds<'_>| Self {
            values: rounds.values.to_vec(),
            within: rounds.within.to_vec(),
            errors: rounds.errors(),
        };
        rounds.map(of).unwrap_or_default()
    }

    /// Multiplies values and intervals, e.g. half round trips to round trips.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        self.values.iter_mut().for_each(|value| *value *= factor);
        let both = |within: Interval| Interval { low: within.low * factor, high: within.high * factor };
        self.within.iter_mut().for_each(|within| *within = within.map(both));
        self.errors = self.errors.scaled(factor);
        self
    }
}

impl FromIterator<(f64, Option<Interval>)> for Each {
    fn from_iter<T: IntoIterator<Item = (f64, Option<Interval>)>>(rounds: T) -> Self {
        let (values, within) = rounds.into_iter().unzip();
        Self { values, within, errors: ErrorBounds::NONE }
    }
}

fn probes(table: &MetricTable, row: Row, round: u32) -> CoreToCoreProbes {
    let probe = |probe| {
        let get = |statistic| table.get(row, &Stream::probe(probe), Figure::CoreToCore, statistic)?.at(round);
        let samples = get(Statistic::N)? as u64;
        Some(CoreToCoreProbe { samples, min_ns: get(Statistic::Min)?, median_ns: get(Statistic::P50)? })
    };
    CoreToCoreProbes { before: probe(Probe::Before), after: probe(Probe::After) }
}

/// Median of a latency minus `ways` core-to-core latencies, for each round with a probe. Omits rounds in which a CPU
/// was taken away: the probe then measured something else.
pub fn over_core_to_core(table: &MetricTable, row: Row, stream: &Stream, figure: Figure, ways: f64) -> Each {
    let Some(median) = table.get(row, stream, figure, Statistic::P50) else { return Each::default() };
    let of_round = |((round, value), within): ((&u32, &f64), &Option<Interval>)| {
        let probes = probes(table, row, *round);
        if probes.change() == Some(ModeChange::TakenAway) {
            return None;
        }
        let ns = ways * probes.one_way_ns()?;
        Some((value - ns, within.map(|within| Interval { low: within.low - ns, high: within.high - ns })))
    };
    let each: Each = median.rounds.iter().zip(median.values).zip(median.within).filter_map(of_round).collect();
    Each { errors: median.errors(), ..each }
}

/// Ratio of a figure to another, for each round that has both.
///
/// If the errors of both are independent, the confidence of the ratio's interval is at least that of the figures'
/// intervals. If the clock error may be as large as the divisor, the ratio has no upper bound.
pub fn ratio(ours: &Rounds<'_>, other: &Rounds<'_>) -> Each {
    let quotient = |a: f64, b: f64| if a.is_finite() && b.is_finite() { Some(a / b) } else { None };
    let mut errors = ErrorBounds::NONE;
    let of_round = |(place, round): (usize, &u32)| {
        let at = other.rounds.binary_search(round).ok().filter(|at| other.values[*at] > 0.0)?;
        let within = ours.within[place].zip(other.within[at]).map(|(ours, other)| Interval {
            low: quotient(ours.low, other.high).unwrap_or(f64::NEG_INFINITY),
            high: quotient(ours.high, other.low).filter(|_| other.low > 0.0).unwrap_or(f64::INFINITY),
        });
        let (one, reference) = (ours.values[place], other.values[at]);
        let (least, most) = ((one - ours.error).max(0.0) / (reference + other.error), one + ours.error);
        let most = if reference > other.error { most / (reference - other.error) } else { f64::INFINITY };
        errors.below = errors.below.max(one / reference - least);
        errors.above = errors.above.max(most - one / reference);
        Some((one / reference, within))
    };
    let each: Each = ours.rounds.iter().enumerate().filter_map(of_round).collect();
    Each { errors, ..each }
}

/// CPU time of both processes per message sent or call made, in nanoseconds, for each round.
pub fn cpu_per_message(table: &MetricTable, row: Row) -> Vec<(u32, f64)> {
    let [leader, follower] =
        [Process::Leader, Process::Follower].map(|process| cost_by_round(table, row, process, Figure::CpuPerMessage));
    let of = |(round, cost): &(u32, f64)| Some((*round, cost + follower.iter().find(|one| one.0 == *round)?.1));
    leader.iter().filter_map(of).collect()
}

/// Counts of the messages of a stream, for each round that has them. Timed-out calls count as lost, failed ones as
/// damaged.
pub fn counts(table: &MetricTable, row: Row, stream: &Stream) -> Vec<(u32, Counts)> {
    let get = |figure| table.get(row, stream, figure, Statistic::Value);
    let Some(sent) = get(Figure::Sent) else { return Vec::new() };
    let [received, late, duplicated, reordered] =
        [Figure::Received, Figure::Late, Figure::Duplicated, Figure::Reordered].map(get);
    let [lost, damaged] = [[Figure::Lost, Figure::TimedOut], [Figure::Damaged, Figure::Failed]]
        .map(|[one, other]| get(one).or_else(|| get(other)));
    let of_round = |(round, sent): (&u32, &f64)| {
        let at = |one: &Option<Rounds<'_>>| one.as_ref().and_then(|one| one.at(*round)).unwrap_or(0.0) as u64;
        let counts = Counts {
            sent: *sent as u64,
            received: at(&received),
            lost: at(&lost),
            late: at(&late),
            duplicated: at(&duplicated),
            reordered: at(&reordered),
            damaged: at(&damaged),
        };
        (*round, counts)
    };
    sent.rounds.iter().zip(sent.values).map(of_round).collect()
}

/// True if no message arrived in some round, or none of one stream.
pub fn is_all_lost(table: &MetricTable, row: Row) -> bool {
    let is_lost = |stream: &&Stream| counts(table, row, stream).iter().any(|(_, counts)| counts.is_all_lost());
    table.streams(row, Figure::Sent).iter().any(is_lost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Builder;
    use tripmeter_model::trial::Trial;

    #[test]
    fn losses_and_shares_are_of_each_round() {
        let mut builder = Builder::new(Vec::new());
        for (round, lost, cpu) in [(1, 3.0, 50.0), (2, 0.0, 100.0)] {
            let mut trial = Trial::new(OfferedLoad::Max);
            let process = Stream::process(Process::Leader);
            for (stream, figure, value) in [
                (&Stream::all(), Figure::Sent, 10.0),
                (&Stream::all(), Figure::Lost, lost),
                (&Stream::all(), Figure::Damaged, 1.0),
                (&process, Figure::CpuTime, cpu),
                (&process, Figure::KernelTime, cpu / 2.0),
                (&process, Figure::Window, 200.0),
            ] {
                trial.put(stream, figure, value);
            }
            if round == 2 {
                let figures = [Figure::VoluntarySwitches, Figure::InvoluntarySwitches, Figure::PageFaults];
                figures.into_iter().zip([4.0, 2.0, 5.0]).for_each(|(figure, value)| trial.put(&process, figure, value));
            }
            builder.add("a", round, 16, trial);
        }
        let (table, row) = (builder.build(), Row { sub: 0, payload_bytes: 16, load: 0 });
        assert_eq!(
            losses(&table, row, &Stream::all(), &LOST_MESSAGES),
            [4, 1].map(|events| Proportion { events, of: 10 })
        );
        assert!(losses(&table, row, &Stream::last(), &LOST_MESSAGES).is_empty());
        assert_eq!(cost(&table, row, Process::Leader, Figure::CpuShare), [0.25, 0.5]);
        assert!(cost(&table, row, Process::Follower, Figure::CpuShare).is_empty());
        let leader = Stream::process(Process::Leader);
        assert_eq!(by_round(&table, row, &leader, Figure::KernelShare), [(1, 0.125), (2, 0.25)]);
        assert_eq!(streams(&table, row, Figure::KernelShare), [&leader]);
        let counted = |lost| Counts { sent: 10, lost, damaged: 1, ..Counts::default() };
        assert_eq!(counts(&table, row, &Stream::all()), [(1, counted(3)), (2, counted(0))]);
        assert!(counts(&table, row, &Stream::last()).is_empty() && is_all_lost(&table, row));
        // A round that lacks a part has no derived figure.
        assert_eq!(cost(&table, row, Process::Leader, Figure::FaultsPerMessage), [0.5]);
        assert_eq!(cost(&table, row, Process::Leader, Figure::SwitchesRate), [3e7]);
    }

    #[test]
    fn every_derived_figure_is_a_share_of_losses_or_a_cost() {
        let is_here = |figure: &Figure| {
            [Figure::LossShare, Figure::DeliveredShare].contains(figure) || COSTS.iter().any(|cost| cost.0 == *figure)
        };
        assert!(Figure::ALL.iter().all(|figure| figure.is_derived() == is_here(figure)));
    }

    /// Table of one row with the medians of two rounds, and probes before them.
    fn of_medians(medians: [f64; 2], within: Interval, probes: [f64; 2]) -> MetricTable {
        let mut builder = Builder::new(Vec::new());
        for (round, (median, probe)) in (1..).zip(medians.into_iter().zip(probes)) {
            let mut trial = Trial::new(OfferedLoad::Closed);
            trial.put_statistic(&Stream::all(), Figure::RttHalf, Statistic::P50, median, Some(within));
            for (statistic, value) in [(Statistic::N, 2000.0), (Statistic::Min, probe), (Statistic::P50, probe)] {
                trial.put_statistic(&Stream::probe(Probe::Before), Figure::CoreToCore, statistic, value, None);
                trial.put_statistic(&Stream::probe(Probe::After), Figure::CoreToCore, statistic, value, None);
            }
            builder.add("a", round, 16, trial);
        }
        builder.build()
    }

    #[test]
    fn the_core_to_core_latency_is_half_of_the_probe_and_none_where_a_cpu_was_away() {
        let within = Interval { low: 90.0, high: f64::INFINITY };
        let (table, row) =
            (of_medians([100.0, 200.0], within, [40.0, 9000.0]), Row { sub: 0, payload_bytes: 16, load: 0 });
        let over = over_core_to_core(&table, row, &Stream::all(), Figure::RttHalf, 1.0);
        let expected = Interval { low: 70.0, high: f64::INFINITY };
        assert_eq!(over, Each { values: vec![80.0], within: vec![Some(expected)], errors: ErrorBounds::NONE });
        assert_eq!(over_core_to_core(&table, row, &Stream::all(), Figure::RttHalf, 2.0).values, [60.0]);
        assert_eq!(over.scaled(2.0).values, [160.0]);
        assert_eq!(over_core_to_core(&table, row, &Stream::last(), Figure::RttHalf, 1.0), Each::default());
    }

    #[test]
    fn a_ratio_is_of_rounds_that_both_have_and_its_ends_are_the_farthest() {
        let of = |medians, low, high| of_medians(medians, Interval { low, high }, [1.0; 2]);
        let row = Row { sub: 0, payload_bytes: 16, load: 0 };
        let get =
            |table: &MetricTable| Each::from_rounds(table.get(row, &Stream::all(), Figure::RttHalf, Statistic::P50));
        let both = |ours: &MetricTable, other: &MetricTable| {
            let [ours, other] =
                [ours, other].map(|table| table.get(row, &Stream::all(), Figure::RttHalf, Statistic::P50));
            ratio(&ours.unwrap(), &other.unwrap())
        };
        let (ours, other) = (of([100.0, 300.0], 80.0, 120.0), of([50.0, 0.0], 40.0, 60.0));
        assert_eq!(get(&ours).values, [100.0, 300.0]);
        let expected = Interval { low: 80.0 / 60.0, high: 3.0 };
        assert_eq!(
            both(&ours, &other),
            Each { values: vec![2.0], within: vec![Some(expected)], errors: ErrorBounds::NONE }
        );
        let expected = Interval { low: f64::NEG_INFINITY, high: 3.0 };
        assert_eq!(both(&ours, &of([50.0, 0.0], 40.0, f64::INFINITY)).within, [Some(expected)]);
    }

    #[test]
    fn a_ratio_by_two_clocks_is_as_far_off_as_it_may_be_and_has_no_bound_where_the_other_may_be_0() {
        let of = |name: &str, p50: f64, error_ns: f64| {
            let mut builder = Builder::new(vec![name.to_owned()]);
            for round in 1..=6 {
                let mut trial = Trial::new(OfferedLoad::Closed);
                trial.put_statistic(&Stream::all(), Figure::OneWay, Statistic::P50, p50, None);
                trial.put(&Stream::all(), Figure::ClockError, error_ns);
                builder.add(name, round, 16, trial);
            }
            builder.build()
        };
        let errors = |ours: &MetricTable, other: &MetricTable| {
            let row = Row { sub: 0, payload_bytes: 16, load: 0 };
            let get = |table| MetricTable::get(table, row, &Stream::all(), Figure::OneWay, Statistic::P50);
            let each = ratio(&get(ours).unwrap(), &get(other).unwrap());
            (each.values[0], each.errors)
        };
        let ours = of("a", 300.0, 20.0);
        let expected = ErrorBounds { below: 3.0 - 280.0 / 125.0, above: 320.0 / 75.0 - 3.0 };
        assert_eq!(errors(&ours, &of("b", 100.0, 25.0)), (3.0, expected));
        let (value, unbounded) = errors(&ours, &of("b", 100.0, 100.0));
        assert_eq!((value, unbounded.below, unbounded.above), (3.0, 3.0 - 280.0 / 200.0, f64::INFINITY));
        assert_eq!(errors(&of("a", 3.0, 0.0), &of("b", 1.0, 0.0)), (3.0, ErrorBounds::NONE));
    }
}
