//! Row of the metric table with its sub-experiment, and lines that show it.

use crate::document::{Cell, Missing};
use crate::labels::offered;
use crate::measured::MeasuredSide;
use crate::merged::{MISSED, Merged};
use tripmeter_analysis::derived::{Each, cost, counts, is_all_lost, loss, losses, over_core_to_core};
use tripmeter_analysis::{MetricTable, Rounds, Row};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::Counts;
use tripmeter_model::metric::{At, Process, Stream};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::trial::{SHOWN_FOLLOWERS, Trial};

/// Mark of kernel times that may have been sampled by timer ticks.
const SAMPLED: &str = "~";

/// Line of a table, which shows a row of the metric table.
pub trait TableLine {
    fn row(&self) -> &TableRow<'_>;

    /// Index among the lines of its row.
    fn place(&self) -> usize {
        0
    }
}

/// Row of the metric table with its sub-experiment.
#[derive(Clone, Copy)]
pub struct TableRow<'a> {
    pub metrics: &'a MetricTable,
    pub sub: &'a Merged<'a>,
    pub row: Row,
    /// True for the first row of a payload, which shows figures of the whole payload.
    is_first: bool,
}

impl<'a> TableRow<'a> {
    /// Row that is the first of its payload.
    pub fn new(side: &'a MeasuredSide<'a>, row: Row) -> Self {
        Self { metrics: &side.metrics, sub: &side.subs[row.sub as usize], row, is_first: true }
    }

    /// All rows of some sub-experiments: by payload, then in the order of the plan, including its rates.
    pub fn rows(side: &'a MeasuredSide<'a>, is_of: impl Fn(&SubExperiment) -> bool) -> Vec<Self> {
        let of_row = |row| Self::new(side, row);
        let mut rows: Vec<Self> = side.metrics.all_rows().map(of_row).filter(|row| is_of(row.sub.planned)).collect();
        rows.sort_by_key(|row| (row.row.payload_bytes, row.row.sub, row.place()));
        for index in 1..rows.len() {
            rows[index].is_first = !Self::is_same_payload(&rows[index - 1], &rows[index]);
        }
        rows
    }

    pub fn is_same_payload(&self, other: &Self) -> bool {
        (self.row.sub, self.row.payload_bytes) == (other.row.sub, other.row.payload_bytes)
    }

    fn place(&self) -> Option<usize> {
        self.sub.planned.workload.loads.iter().position(|load| *load == self.load())
    }

    pub fn load(&self) -> OfferedLoad {
        self.metrics.load(self.row)
    }

    pub fn get(&self, stream: &Stream, figure: Figure, statistic: Statistic) -> Option<Rounds<'a>> {
        self.metrics.get(self.row, stream, figure, statistic)
    }

    /// Figure that has one value for all messages.
    pub fn value(&self, figure: Figure) -> Option<Rounds<'a>> {
        self.get(&Stream::all(), figure, Statistic::Value)
    }

    /// Figure that has one value for all messages, in one round; 0 if the round has none.
    pub fn at(&self, round: u32, figure: Figure) -> f64 {
        self.value(figure).and_then(|rounds| rounds.at(round)).unwrap_or(0.0)
    }

    /// Figure over all rounds; 0 if it has none.
    pub fn total(&self, figure: Figure) -> f64 {
        self.value(figure).map_or(0.0, |rounds| rounds.folded())
    }

    /// Offered rate; 0 if there was none.
    pub fn offered_hz(&self) -> f64 {
        self.total(Figure::OfferedRate)
    }

    /// Offered rate or bursts; missing if there was neither.
    pub fn offered(&self) -> Cell {
        match self.load() {
            load if load.is_uneven() => Cell::text(offered(load)),
            _ => Cell::maybe(self.value(Figure::OfferedRate).map(|offered| offered.folded())),
        }
    }

    /// Achieved rate, marked if the offered one was missed.
    pub fn achieved(&self) -> Cell {
        self.median(self.value(Figure::AchievedRate)).marked(self.mark(|trial| trial.rate_missed, MISSED))
    }

    /// `*` if a trial was cut short, or messages arrived damaged or not at all.
    pub fn star(&self) -> &'static str {
        let is_bad = self.trials().any(|(_, trial)| trial.cut_short.is_some())
            || self.totals().damaged.max(self.damaged_beside()) > 0
            || is_all_lost(self.metrics, self.row);
        if is_bad { "*" } else { "" }
    }

    /// Number of samples of a latency of all messages, in all rounds.
    pub fn samples(&self, figure: Figure) -> f64 {
        self.get(&Stream::all(), figure, Statistic::N).map_or(0.0, |samples| samples.values.iter().sum())
    }

    /// Messages never answered, with an interval if round trips have one: over rounds, or within the only one.
    pub fn lost(&self, stream: &Stream) -> Cell {
        let median = self.get(&Stream::all(), Figure::RttHalf, Statistic::P50);
        let has_intervals = self.sub.rounds > 1 || median.is_some_and(|median| median.within[0].is_some());
        Cell::events(&losses(self.metrics, self.row, stream, &[Figure::Lost]), has_intervals)
    }

    /// Excess of `times` a latency over the core-to-core probe.
    pub fn over_core_to_core(&self, stream: &Stream, figure: Figure, times: f64) -> Cell {
        let over = over_core_to_core(self.metrics, self.row, stream, figure, 1.0).scaled(times);
        let mark = self.sub.payload(self.row.payload_bytes).mark();
        match Cell::of_each(&over, self.sub.rounds).marked(mark) {
            Cell::Missing(_) if !mark.is_empty() => Cell::Missing(Missing::ProbesDiffer),
            over => over,
        }
    }

    /// Delay beyond which a message counts as sent late.
    pub fn too_late(&self) -> &'static str {
        if self.load().burst().is_some() { "a gap between bursts" } else { "a period" }
    }

    pub fn have_bursts(rows: &[Self]) -> bool {
        rows.iter().any(|times| times.load().burst().is_some())
    }

    pub fn trials(&self) -> impl Iterator<Item = &'a (u32, Trial)> {
        self.metrics.trials(self.row).iter()
    }

    /// Payload within a sentence: `at 64k`, `on all topics`.
    pub fn at_size(&self) -> String {
        self.metrics.at_size(self.row)
    }

    /// `mark` if the condition holds in any round, else empty.
    pub fn mark(&self, is: impl Fn(&Trial) -> bool, mark: &'static str) -> &'static str {
        if self.trials().any(|(_, trial)| is(trial)) { mark } else { "" }
    }

    /// Damaged messages outside the trials of its payload; 0 unless this is the payload's first row.
    pub fn damaged_beside(&self) -> u64 {
        let cells = || self.sub.payload(self.row.payload_bytes).cells;
        if self.is_first { cells().iter().map(|cell| cell.damaged_beside()).fold(0, u64::saturating_add) } else { 0 }
    }

    /// Streams that have an `index`, sorted by it.
    pub fn streams(&self, index: impl Fn(&Stream) -> Option<u32>) -> Vec<(u32, Stream)> {
        let all = self.metrics.streams(self.row, Figure::Sent).into_iter();
        let mut streams: Vec<(u32, Stream)> = all.filter_map(|stream| Some((index(stream)?, stream.clone()))).collect();
        streams.sort_unstable();
        streams
    }

    pub fn followers(&self) -> Vec<(u32, Stream)> {
        self.streams(|stream| if let Some(At::Follower(index)) = stream.at { Some(index) } else { None })
    }

    /// Streams with a throughput: the shown ones of several followers, or the only one.
    pub fn receivers(&self) -> Vec<&'a Stream> {
        let mut streams = self.metrics.streams(self.row, Figure::ReceivedRate);
        let is_fan_out = streams.iter().any(|stream| stream.at.is_some());
        streams.retain(|stream| if is_fan_out { stream.at.is_some() } else { **stream == Stream::all() });
        streams.truncate(SHOWN_FOLLOWERS);
        streams
    }

    /// Names, figures and streams of the service times to each shown follower.
    pub fn services(&self) -> impl Iterator<Item = (String, Option<Figure>, Stream)> {
        let followers = self.followers().into_iter().take(SHOWN_FOLLOWERS);
        followers.map(|(index, stream)| (format!("service to {index}"), Some(Figure::Service), stream))
    }

    /// Makes a line for each of these latencies.
    pub fn timed<P: Clone>(
        &self,
        latencies: impl IntoIterator<Item = (String, Option<Figure>, Stream)>,
        part: P,
    ) -> Vec<TimedLine<'a, P>> {
        let line =
            |(place, (name, figure, stream))| TimedLine { row: *self, name, figure, stream, place, part: part.clone() };
        latencies.into_iter().enumerate().map(line).collect()
    }

    pub fn counts(&self, stream: &Stream) -> Vec<(u32, Counts)> {
        counts(self.metrics, self.row, stream)
    }

    /// Counts of messages over all rounds.
    pub fn totals(&self) -> Counts {
        self.counts(&Stream::all()).into_iter().fold(Counts::default(), |sum, (_, counts)| sum + counts)
    }

    /// Transport, with notes on a single process and several followers.
    pub fn transport(&self) -> String {
        let workload = &self.sub.planned.workload;
        let same_process = if self.sub.same_process() { " (same process)" } else { "" };
        let followers = match workload.is_fan_out() {
            true => format!(" to {} followers", workload.followers()),
            false => String::new(),
        };
        format!("{}{same_process}{followers}", self.sub.planned.transport_text())
    }

    /// Median over rounds with its interval.
    pub fn over(&self, values: Vec<f64>) -> Cell {
        Cell::of_each(&values.into_iter().map(|value| (value, None)).collect(), self.sub.rounds)
    }

    /// Median of a figure over rounds, with the interval over rounds, or within the only one.
    pub fn median(&self, rounds: Option<Rounds<'_>>) -> Cell {
        Cell::of_each(&Each::from_rounds(rounds), self.sub.rounds)
    }

    /// Statistic of `times` a latency: the median over rounds; the largest for [`Statistic::Max`].
    pub fn latency(&self, stream: &Stream, figure: Figure, statistic: Statistic, times: f64) -> Cell {
        let each = Each::from_rounds(self.get(stream, figure, statistic)).scaled(times);
        if statistic == Statistic::Max { Cell::largest(&each) } else { Cell::of_each(&each, self.sub.rounds) }
    }

    pub fn of_process(&self, process: Process, figure: Figure) -> Cell {
        self.median(self.get(&Stream::process(process), figure, Statistic::Value))
    }

    /// Stored or derived cost of a process.
    pub fn cost(&self, process: Process, figure: Figure) -> Cell {
        match figure {
            Figure::KernelShare => self.kernel_share(process),
            _ if figure.is_derived() => self.over(cost(self.metrics, self.row, process, figure)),
            _ => self.of_process(process, figure),
        }
    }

    /// CPU time in the kernel; missing if the kernel splits CPU time inexactly.
    fn kernel_share(&self, process: Process) -> Cell {
        let has_cpu_time = self.get(&Stream::process(process), Figure::CpuTime, Statistic::Value).is_some();
        match self.over(cost(self.metrics, self.row, process, Figure::KernelShare)) {
            Cell::Missing(_) if has_cpu_time => Cell::Missing(Missing::SplitByTicks),
            cell => cell.marked(if self.metrics.may_sample_kernel_time { SAMPLED } else { "" }),
        }
    }

    /// Share of messages that did not arrive in time and intact, or of calls that did not succeed.
    pub fn loss(&self, stream: &Stream) -> Cell {
        Cell::lost(&loss(self.metrics, self.row, stream))
    }
}

impl TableLine for TableRow<'_> {
    fn row(&self) -> &TableRow<'_> {
        self
    }
}

/// Line of a row: a latency of one of its streams.
pub struct TimedLine<'a, P = ()> {
    pub row: TableRow<'a>,
    /// Name of the latency; empty if the line has none.
    pub name: String,
    pub figure: Option<Figure>,
    pub stream: Stream,
    /// Index among the lines of its row, or of its topic.
    pub place: usize,
    /// Additional data that its table needs.
    pub part: P,
}

impl<P> TableLine for TimedLine<'_, P> {
    fn row(&self) -> &TableRow<'_> {
        &self.row
    }

    fn place(&self) -> usize {
        self.place
    }
}

impl<P> TimedLine<'_, P> {
    pub fn name(&self) -> Cell {
        if self.name.is_empty() { Cell::NOTHING } else { Cell::text(self.name.clone()) }
    }

    pub fn latency(&self, statistic: Statistic) -> Cell {
        self.figure.map_or(Cell::NOTHING, |figure| self.row.latency(&self.stream, figure, statistic, 1.0))
    }

    /// Figure that has one value for its stream.
    pub fn value(&self, figure: Figure) -> Cell {
        self.row.median(self.row.get(&self.stream, figure, Statistic::Value))
    }

    /// Cell of the whole row, shown only in the first line.
    pub fn if_first(&self, cell: impl Fn(&TableRow<'_>) -> Cell) -> Cell {
        if self.place == 0 { cell(&self.row) } else { Cell::NOTHING }
    }

    /// Index of its follower; 0 if there is only one.
    pub fn follower(&self) -> u32 {
        if let Some(At::Follower(index)) = self.stream.at { index } else { 0 }
    }

    pub fn counts(&self) -> Vec<(u32, Counts)> {
        self.row.counts(&self.stream)
    }

    pub fn damaged(&self) -> u64 {
        self.counts().iter().map(|(_, counts)| counts.damaged).fold(0, u64::saturating_add)
    }

    /// True if none of its messages arrived in some round.
    pub fn is_all_lost(&self) -> bool {
        self.counts().iter().any(|(_, counts)| counts.is_all_lost())
    }

    /// Mark like [`TableRow::star`], for its stream.
    pub fn star(&self) -> &'static str {
        let is_cut_short = self.row.trials().any(|(_, trial)| trial.cut_short.is_some());
        let beside = if self.place == 0 { self.row.damaged_beside() } else { 0 };
        if is_cut_short || self.damaged().max(beside) > 0 || self.is_all_lost() { "*" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Block, Document};
    use crate::fixture::{squeezed, text};
    use crate::results::NamedResults;
    use crate::tables::columns::cost;
    use crate::tables::description::TableOf;

    /// This test is the only place that knows all columns of the cost.
    #[test]
    fn each_process_has_its_cost() {
        let manifest = crate::fixture::published("uds/stream", &[1000.0]);
        let side = MeasuredSide::new(&NamedResults { name: "", manifest: &manifest });
        let row = TableRow::rows(&side, |_| true)[0];
        let both = ["response", "service", "service to 0"].map(|name| (name.to_owned(), None, Stream::all()));
        let lines = row.timed(both, ());
        let table = TableOf::new(String::new(), &lines).with(cost("")).table();
        assert!(table.rows[2].1.iter().all(|cell| *cell == Cell::NOTHING), "of another line");
        let lines = squeezed(&text(&Document { blocks: vec![Block::Table(table)] }));
        assert_eq!(lines[0], "CPU kernel CPU/msg switches preempted faults memory");
        assert_eq!(lines[3..5], ["3.1 1.6 31.0 4002 2 0.025 12.3", "1.2 0.6 12.0 4002 2 0.025 9.0"]);
        let mut older = side.metrics.clone();
        older.may_sample_kernel_time = true;
        let row = TableRow { metrics: &older, ..row };
        assert_eq!(row.kernel_share(Process::Leader).mark(), SAMPLED, "of an older folder");
        let mut manifest = manifest.clone();
        let trial = crate::fixture::trial_of(&mut manifest, 0);
        trial.remove(&Stream::process(Process::Leader), Figure::KernelTime);
        let metrics = MetricTable::from_manifest(&manifest);
        let without = TableRow { metrics: &metrics, ..row };
        assert_eq!(without.kernel_share(Process::Leader), Cell::Missing(Missing::SplitByTicks));
        assert!(matches!(without.cost(Process::Leader, Figure::CpuShare), Cell::Number { .. }), "the sum is right");
    }
}
