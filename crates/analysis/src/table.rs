//! Figures of an experiment, by address.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use tripmeter_model::address::FigureAddress;
use tripmeter_model::figure::{Figure, Fold, Statistic, Unit};
use tripmeter_model::manifest::{Manifest, PayloadResult, SubExperimentResult};
use tripmeter_model::metric::{Interval, Stream};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::payload::at_text;
use tripmeter_model::trial::Trial;
use tripmeter_stats::ErrorBounds;
use tripmeter_stats::order::fewest_for_upper_bound;
use tripmeter_stats::rounds::{ALPHA, Estimate, figure_over_rounds};

/// Rates, which show a missed rate themselves.
const RATES: [Figure; 5] =
    [Figure::AchievedRate, Figure::SlowestRate, Figure::PublishedRate, Figure::ReceivedRate, Figure::Completed];

/// Row of most tables: one sub-experiment at one payload and one offered load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    /// Index of the sub-experiment, in the order of the plan.
    pub sub: u32,
    /// Bytes per message; of the largest if sizes differ.
    pub payload_bytes: u64,
    /// Index of the offered load, in the order of first measurement.
    pub load: u32,
}

/// Address of a figure over all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Sub-experiment, payload and offered load.
    pub row: Row,
    /// Index of the stream.
    pub stream: u32,
    /// The figure.
    pub figure: Figure,
    /// Statistic of its samples.
    pub statistic: Statistic,
}

/// Values of one figure, round by round.
#[derive(Clone, Copy, Debug)]
pub struct Rounds<'a> {
    /// Address of the figure.
    pub key: Key,
    /// Rounds that have the figure, ascending.
    pub rounds: &'a [u32],
    /// Value of each round, in the unit of the figure.
    pub values: &'a [f64],
    /// Interval within each round.
    pub within: &'a [Option<Interval>],
    /// Largest error of the values from the clocks of two hosts, in their unit, over all rounds; 0 with one clock.
    pub error: f64,
}

impl Rounds<'_> {
    /// Value over all rounds, by the rule of the figure.
    pub fn folded(&self) -> f64 {
        match self.key.figure.fold_of(self.key.statistic) {
            Fold::Median => self.estimate().map_or(f64::NAN, |estimate| estimate.median),
            Fold::Sum => self.values.iter().sum(),
            Fold::Max => self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// Value in a round; `None` if the round lacks the figure.
    pub fn at(&self, round: u32) -> Option<f64> {
        Some(self.values[self.rounds.binary_search(&round).ok()?])
    }

    /// Median over the rounds, with its interval.
    pub fn estimate(&self) -> Option<Estimate> {
        figure_over_rounds(self.values, self.errors())
    }

    /// Error bounds below and above the values.
    pub fn errors(&self) -> ErrorBounds {
        ErrorBounds::both(self.error)
    }

    /// Pairs of values from the rounds that both have.
    pub fn paired(&self, other: &Rounds<'_>) -> Vec<(f64, f64)> {
        self.rounds.iter().zip(self.values).filter_map(|(round, value)| Some((*value, other.at(*round)?))).collect()
    }
}

/// Figures of an experiment, sorted by address and then by round.
#[derive(Clone, Debug, Default)]
pub struct MetricTable {
    subs: Vec<String>,
    loads: Vec<OfferedLoad>,
    streams: Vec<Stream>,
    /// Index of each stream, in a map because a recording may have thousands of topics.
    places_of_streams: HashMap<Stream, u32>,
    keys: Vec<(Key, Range<usize>)>,
    rounds: Vec<u32>,
    values: Vec<f64>,
    within: Vec<Option<Interval>>,
    /// Trials of each row by round, without their figures.
    trials: BTreeMap<Row, Vec<(u32, Trial)>>,
    several_sizes: HashSet<Row>,
    /// True if kernel times may be sampled by timer ticks.
    pub may_sample_kernel_time: bool,
}

/// Builder of a table, which takes trials in any order.
#[derive(Debug, Default)]
pub struct Builder {
    table: MetricTable,
    entries: Vec<(Key, u32, f64, Option<Interval>)>,
    /// Index of each sub-experiment, in a map because there may be thousands.
    places_of_subs: HashMap<String, u32>,
}

/// Index of `one` in `all`; adds it if it is new.
fn index_of<T: PartialEq + Clone>(all: &mut Vec<T>, one: &T) -> u32 {
    let found = all.iter().position(|known| known == one).unwrap_or_else(|| {
        all.push(one.clone());
        all.len() - 1
    });
    found as u32
}

impl Builder {
    /// Builder for sub-experiments of these names, in this order.
    pub fn new(subs: Vec<String>) -> Self {
        // If names are equal, the first one counts.
        let mut places_of_subs = HashMap::new();
        for (name, place) in subs.iter().zip(0..) {
            places_of_subs.entry(name.clone()).or_insert(place);
        }
        Self { table: MetricTable { subs, ..MetricTable::default() }, entries: Vec::new(), places_of_subs }
    }

    /// Adds a trial.
    pub fn add(&mut self, sub: &str, round: u32, payload_bytes: u64, trial: Trial) {
        let table = &mut self.table;
        let sub = match self.places_of_subs.get(sub) {
            Some(place) => *place,
            None => {
                let place = index_of(&mut table.subs, &sub.to_owned());
                self.places_of_subs.insert(sub.to_owned(), place);
                place
            }
        };
        let load = index_of(&mut table.loads, &trial.load);
        let row = Row { sub, payload_bytes, load };
        for one in trial.figures() {
            let new = table.streams.len() as u32;
            let stream = *table.places_of_streams.entry(one.stream.clone()).or_insert_with_key(|stream| {
                table.streams.push(stream.clone());
                new
            });
            let key = Key { row, stream, figure: one.figure, statistic: one.statistic };
            self.entries.push((key, round, one.value, one.within));
        }
        if trial.has_several_sizes() {
            table.several_sizes.insert(row);
        }
        table.trials.entry(row).or_default().push((round, trial.without_figures()));
    }

    /// Table of the trials.
    pub fn build(self) -> MetricTable {
        let Self { mut table, mut entries, .. } = self;
        entries.sort_by_key(|entry| (entry.0, entry.1));
        table.trials.values_mut().for_each(|trials| trials.sort_by_key(|trial| trial.0));
        for (place, (key, round, value, within)) in entries.into_iter().enumerate() {
            match table.keys.last_mut() {
                Some((last, places)) if *last == key => places.end = place + 1,
                _ => table.keys.push((key, place..place + 1)),
            }
            table.rounds.push(round);
            table.values.push(value);
            table.within.push(within);
        }
        table
    }
}

impl MetricTable {
    /// Figures of a manifest, without discarded attempts and without disturbed passes of `tripmeter explain`.
    pub fn from_manifest(manifest: &Manifest) -> Self {
        Self::of_those(manifest, |_, _| true)
    }

    /// Figures of the payloads, each of a sub-experiment in one round, for which `counts` is true.
    pub fn of_those(manifest: &Manifest, counts: impl Fn(&SubExperimentResult, &PayloadResult) -> bool) -> Self {
        let planned = &manifest.plan.sub_experiments;
        let undisturbed: HashSet<&str> =
            planned.iter().filter(|sub| !sub.is_disturbed()).map(|sub| sub.name.as_str()).collect();
        let mut builder = Builder::new(planned.iter().map(|sub| sub.name.clone()).collect());
        for result in &manifest.sub_experiments {
            if !undisturbed.contains(result.name.as_str()) {
                continue;
            }
            for cell in result.cells.iter().filter(|cell| counts(result, cell)) {
                for trial in cell.flat_trials() {
                    builder.add(&result.name, result.round, cell.payload_bytes, trial);
                }
            }
        }
        MetricTable { may_sample_kernel_time: manifest.may_sample_kernel_time(), ..builder.build() }
    }

    /// Name of a sub-experiment.
    pub fn sub(&self, row: Row) -> &str {
        &self.subs[row.sub as usize]
    }

    /// Offered load of a row.
    pub fn load(&self, row: Row) -> OfferedLoad {
        self.loads[row.load as usize]
    }

    /// True if the messages of a row have several sizes, the largest of which is its payload.
    pub fn has_several_sizes(&self, row: Row) -> bool {
        self.several_sizes.contains(&row)
    }

    /// Payload of a row within a sentence: `at 64k`, `on all topics`.
    pub fn at_size(&self, row: Row) -> String {
        at_text(row.payload_bytes, self.has_several_sizes(row))
    }

    /// True if the offered rate was missed in some round.
    pub fn is_rate_missed(&self, row: Row) -> bool {
        self.trials(row).iter().any(|(_, trial)| trial.rate_missed)
    }

    /// Trials of a row with their rounds, ascending, without figures.
    pub fn trials(&self, row: Row) -> &[(u32, Trial)] {
        self.trials.get(&row).map_or(&[], Vec::as_slice)
    }

    /// All rows with a trial.
    pub fn all_rows(&self) -> impl Iterator<Item = Row> {
        self.trials.keys().copied()
    }

    /// Rows of a sub-experiment with a trial.
    pub fn rows_of(&self, sub: u32) -> impl Iterator<Item = Row> {
        let row = |end| Row { sub, payload_bytes: end, load: end as u32 };
        self.trials.range(row(0)..=row(u64::MAX)).map(|(row, _)| *row)
    }

    /// Row of a payload, if it was measured at only one offered load.
    pub fn only_row(&self, sub: u32, payload_bytes: u64) -> Option<Row> {
        let row = |load| Row { sub, payload_bytes, load };
        let mut rows = self.trials.range(row(0)..=row(u32::MAX)).map(|(row, _)| *row);
        rows.next().filter(|_| rows.next().is_none())
    }

    /// Stream of a key.
    pub fn stream(&self, key: Key) -> &Stream {
        &self.streams[key.stream as usize]
    }

    fn at(&self, place: usize) -> Rounds<'_> {
        let (key, places) = &self.keys[place];
        let places = places.clone();
        let values = &self.values[places.clone()];
        let (rounds, within) = (&self.rounds[places.clone()], &self.within[places]);
        Rounds { key: *key, rounds, values, within, error: self.error(*key, rounds, values) }
    }

    /// Largest error of a figure from the clocks of two hosts, for these rounds and values. A stream without its own
    /// error has that of stream `all`.
    fn error(&self, key: Key, rounds: &[u32], values: &[f64]) -> f64 {
        if !key.figure.has_two_clocks() || key.statistic == Statistic::N {
            return 0.0;
        }
        let (stream, all) = (self.stream(key), Stream::all());
        let get = |stream, figure| self.get(key.row, stream, figure, Statistic::Value);
        let Some(error) = get(stream, Figure::ClockError).or_else(|| get(&all, Figure::ClockError)) else { return 0.0 };
        // Rounds with too large clock errors have no value.
        let ns = rounds.iter().filter_map(|round| error.at(*round)).fold(0.0, f64::max);
        if key.figure.unit() == Unit::Ns {
            return ns;
        }
        // For rates: the time of counting may be shorter by the error, but is at least 1 ns.
        let Some(time) = get(stream, Figure::Subscription) else { return 0.0 };
        let shortest_ns = rounds.iter().filter_map(|round| time.at(*round)).fold(f64::INFINITY, f64::min);
        let largest = values.iter().copied().fold(0.0, f64::max);
        largest * ns / (shortest_ns - ns).max(1.0)
    }

    /// Figures with a wanted key, in the order of the keys.
    pub fn select(&self, is_wanted: impl Fn(&Key) -> bool) -> impl Iterator<Item = Rounds<'_>> {
        (0..self.keys.len()).filter(move |place| is_wanted(&self.keys[*place].0)).map(|place| self.at(place))
    }

    /// Rows that have a figure with a wanted key, by sub-experiment, payload and load.
    pub fn rows(&self, is_wanted: impl Fn(&Key) -> bool) -> Vec<Row> {
        let mut rows: Vec<Row> = self.keys.iter().map(|(key, _)| *key).filter(is_wanted).map(|key| key.row).collect();
        rows.dedup();
        rows
    }

    /// Figure of a row.
    pub fn get(&self, row: Row, stream: &Stream, figure: Figure, statistic: Statistic) -> Option<Rounds<'_>> {
        let stream = *self.places_of_streams.get(stream)?;
        let key = Key { row, stream, figure, statistic };
        let place = self.keys.binary_search_by_key(&key, |(known, _)| *known).ok()?;
        Some(self.at(place))
    }

    /// True if each round has enough samples for an upper bound at 95 %. Also true if not a percentile above the
    /// median.
    pub fn is_bounded(&self, row: Row, stream: &Stream, figure: Figure, statistic: Statistic) -> bool {
        self.samples_needed(row, stream, figure, statistic).is_none()
    }

    /// Samples per round that a percentile needs for an upper bound at 95 %, if a round has fewer.
    pub fn samples_needed(&self, row: Row, stream: &Stream, figure: Figure, statistic: Statistic) -> Option<u64> {
        let needed = samples_for(statistic)?;
        let samples = self.get(row, stream, figure, Statistic::N);
        let fewest = samples.map_or(0.0, |samples| samples.values.iter().copied().fold(f64::INFINITY, f64::min));
        (fewest < needed as f64).then_some(needed)
    }

    /// Lines about rows of a sub-experiment whose offered rate was missed. The first list has rows whose rate is not
    /// among the `judged` figures, the second has the others.
    pub fn missed_rates(&self, name: &str, judged: &[&FigureAddress]) -> [Vec<(Row, String)>; 2] {
        let is_judged = |row: &Row| {
            judged.iter().any(|one| {
                let is_here = one.payload_bytes == row.payload_bytes && one.load == self.load(*row);
                is_here && one.sub_experiment == name && RATES.contains(&one.figure)
            })
        };
        let rows = self.all_rows().filter(|row| self.sub(*row) == name && self.is_rate_missed(*row));
        let (known, others): (Vec<Row>, Vec<Row>) = rows.partition(is_judged);
        [others, known].map(|rows| rows.into_iter().map(|row| (row, self.missed_rate(row))).collect())
    }

    /// Rows whose offered rate was missed in some round.
    pub(crate) fn misses(&self) -> Vec<Row> {
        self.all_rows().filter(|row| self.is_rate_missed(*row)).collect()
    }

    /// True if a figure belongs to `row`, whose rate was missed, and is not a rate itself.
    pub(crate) fn is_of_missed(&self, row: Row, address: &FigureAddress) -> bool {
        let is_here = row.payload_bytes == address.payload_bytes && self.load(row) == address.load;
        is_here && self.sub(row) == address.sub_experiment && !RATES.contains(&address.figure)
    }

    fn missed_rate(&self, row: Row) -> String {
        let (trials, all) = (self.trials(row), Stream::all());
        let missed = trials.iter().filter(|(_, trial)| trial.rate_missed).count();
        let rounds = if trials.len() > 1 { format!(" in {missed} of {} rounds", trials.len()) } else { String::new() };
        let values = |figure| self.get(row, &all, figure, Statistic::Value).map_or(&[][..], |found| found.values);
        let least = |figure| values(figure).iter().copied().reduce(f64::min);
        let kept = least(Figure::AchievedRate).or_else(|| least(Figure::PublishedRate)).map(f64::round);
        let rates = match kept.zip(least(Figure::OfferedRate)) {
            // The rate was kept overall, but messages were sent in clusters.
            Some((kept, offered)) if kept >= offered.round() => {
                let late = values(Figure::Behind).iter().copied().reduce(f64::max).unwrap_or(0.0);
                format!(": up to {late} messages per round were sent late")
            }
            // The offered rate is rounded: computed from whole nanoseconds, its last digits differ from the request.
            Some((kept, offered)) => format!(": {kept} of {} /s", (offered * 1e6).round() / 1e6),
            None => String::new(),
        };
        let (at, load) = (self.at_size(row), self.load(row));
        format!("RATE MISSED {at} {load}{rounds}{rates}; the figures are for a lower load than planned")
    }

    /// Streams of a row that have a figure.
    pub fn streams(&self, row: Row, figure: Figure) -> Vec<&Stream> {
        let first = self.keys.partition_point(|(key, _)| key.row < row);
        let of_row = self.keys[first..].iter().map(|(key, _)| *key).take_while(|key| key.row == row);
        let of_figure = of_row.filter(|key| key.figure == figure);
        let mut streams: Vec<&Stream> = of_figure.map(|key| self.stream(key)).collect();
        streams.dedup();
        streams
    }
}

/// Samples needed for a one-sided upper bound at 95 % of a percentile above the median; `None` for other statistics.
/// With few samples, a high percentile is merely the maximum, but a median is still a median.
pub fn samples_for(statistic: Statistic) -> Option<u64> {
    let below = match statistic {
        Statistic::P90 => 0.9,
        Statistic::P99 => 0.99,
        Statistic::P999 => 0.999,
        Statistic::P9999 => 0.9999,
        _ => return None,
    };
    Some(fewest_for_upper_bound(below, ALPHA))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(load: OfferedLoad, median: f64, lost: f64) -> Trial {
        let mut trial = Trial::new(load);
        let within = Some(Interval { low: median - 1.0, high: median + 1.0 });
        trial.put_statistic(&Stream::all(), Figure::RttHalf, Statistic::P50, median, within);
        trial.put(&Stream::all(), Figure::Lost, lost);
        trial.put(&Stream::follower(1), Figure::Lost, lost);
        trial
    }

    #[test]
    fn figures_are_found_by_their_address_round_by_round() {
        let mut builder = Builder::new(vec!["a".to_owned(), "b".to_owned()]);
        let hz = OfferedLoad::Rate { hz: 10.0 };
        for (sub, round, bytes, load, median, lost) in [
            ("b", 2, 1024, hz, 30.0, 0.0),
            ("a", 1, 2048, OfferedLoad::Closed, 5.0, 1.0),
            ("b", 1, 1024, hz, 10.0, 2.0),
            ("b", 3, 1024, hz, 20.0, 3.0),
            ("a", 1, 1024, OfferedLoad::Closed, 4.0, 0.0),
            ("a", 3, 1024, OfferedLoad::Closed, 8.0, 0.0),
        ] {
            builder.add(sub, round, bytes, trial(load, median, lost));
        }
        let table = builder.build();
        let rows = table.rows(|key| key.figure == Figure::RttHalf);
        let shown = |row: &Row| (table.sub(*row).to_owned(), row.payload_bytes, table.load(*row));
        let expected = [("a", 1024, OfferedLoad::Closed), ("a", 2048, OfferedLoad::Closed), ("b", 1024, hz)];
        assert_eq!(
            rows.iter().map(shown).collect::<Vec<_>>(),
            expected.map(|(sub, bytes, load)| (sub.into(), bytes, load))
        );
        let get = |row, stream, figure, statistic| table.get(rows[row], &stream, figure, statistic);
        let b = get(2, Stream::all(), Figure::RttHalf, Statistic::P50).unwrap();
        assert_eq!((b.rounds, b.values, b.folded()), (&[1, 2, 3][..], &[10.0, 30.0, 20.0][..], 20.0));
        assert_eq!(b.within[0], Some(Interval { low: 9.0, high: 11.0 }));
        let a = get(0, Stream::all(), Figure::RttHalf, Statistic::P50).unwrap();
        assert_eq!(b.paired(&a), [(10.0, 4.0), (20.0, 8.0)]);
        assert_eq!(get(2, Stream::follower(1), Figure::Lost, Statistic::Value).unwrap().folded(), 5.0);
        assert!(get(2, Stream::follower(2), Figure::Lost, Statistic::Value).is_none());
        assert!(get(2, Stream::all(), Figure::RttHalf, Statistic::P99).is_none());
        assert_eq!(table.streams(rows[0], Figure::Lost), [&Stream::all(), &Stream::follower(1)]);
        assert_eq!(table.select(|key| key.statistic == Statistic::P50).count(), 3);
        assert_eq!((table.only_row(0, 2048), table.only_row(1, 2048)), (Some(rows[1]), None));
    }

    #[test]
    fn what_depends_on_two_clocks_has_their_largest_error_in_its_interval() {
        let (all, one, other) = (Stream::all(), Stream::follower(0), Stream::follower(1));
        let mut builder = Builder::new(vec!["a".to_owned()]);
        for round in 1..=6 {
            let mut trial = trial(OfferedLoad::Max, 100.0, 0.0);
            let ns = f64::from(round);
            for (stream, error_ns) in [(&all, 20.0 + ns), (&one, 20.0 + ns), (&other, 10.0)] {
                trial.put(stream, Figure::ClockError, error_ns);
                trial.put_statistic(stream, Figure::OneWay, Statistic::P50, 100.0 + ns, None);
            }
            trial.put_statistic(&Stream::last(), Figure::OneWay, Statistic::N, 9.0, None);
            trial.put_statistic(&Stream::last(), Figure::OneWay, Statistic::Max, 100.0, None);
            trial.put(&all, Figure::Subscription, 1026.0);
            trial.put(&all, Figure::ReceivedRate, 500.0);
            builder.add("a", round, 1024, trial);
        }
        // The latencies of this round are omitted, without effect on others.
        let mut refused = trial(OfferedLoad::Max, 100.0, 0.0);
        refused.put(&all, Figure::ClockError, 1e6);
        builder.add("a", 7, 1024, refused);
        let table = builder.build();
        let row = table.all_rows().next().unwrap();
        let of = |stream: &Stream, figure, statistic| table.get(row, stream, figure, statistic).unwrap();
        let p50 = |stream: &Stream| of(stream, Figure::OneWay, Statistic::P50).estimate().unwrap().interval.unwrap();
        assert_eq!(p50(&all), Interval { low: 101.0 - 26.0, high: 106.0 + 26.0 });
        assert_eq!(p50(&other), Interval { low: 101.0 - 10.0, high: 106.0 + 10.0 });
        let errors = [
            of(&Stream::last(), Figure::OneWay, Statistic::Max),
            of(&Stream::last(), Figure::OneWay, Statistic::N),
            of(&all, Figure::RttHalf, Statistic::P50),
            of(&all, Figure::Subscription, Statistic::Value),
            of(&all, Figure::ReceivedRate, Statistic::Value),
        ];
        // The time of 1026 ns may be 26 ns too long, so the rate of 500 /s may be 500 * 26 / 1000 = 13 /s higher.
        assert_eq!(errors.map(|rounds| rounds.error), [26.0, 0.0, 0.0, 26.0, 13.0]);
    }
}
