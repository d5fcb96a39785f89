//! A row of the metric table with its sub-experiment, and the columns and cells that tables of several patterns share.

use super::description::TableLine;
use crate::document::{Cell, Column, Digits, Missing, Note, Severity};
use crate::labels::offered;
use crate::merged::Merged;
use crate::notes;
use crate::page::measured::MeasuredSide;
use tripmeter_analysis::derived::{Each, counts, cpu_share, faults_per_message, kernel_share, loss, switches_hz};
use tripmeter_analysis::{MetricTable, Rounds, Row};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::Counts;
use tripmeter_model::metric::{At, Process, Stream};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::trial::Trial;

/// Statistics shown of latencies.
pub const LATENCIES: [Statistic; 6] =
    [Statistic::Mean, Statistic::P50, Statistic::P90, Statistic::P99, Statistic::P999, Statistic::Max];

/// Stands before kernel times that timer ticks may have sampled.
const SAMPLED: &str = "~";

/// A row of the metric table with its sub-experiment.
#[derive(Clone, Copy)]
pub struct TableRow<'a> {
    /// The figures.
    pub metrics: &'a MetricTable,
    /// Its sub-experiment.
    pub sub: &'a Merged<'a>,
    /// Its address.
    pub row: Row,
    /// Whether it is the first of its payload; that line has the figures of the whole payload.
    is_first: bool,
}

impl<'a> TableRow<'a> {
    /// Every row of some sub-experiments: by payload, then in the order of the plan, which has that of the rates too.
    pub fn rows(side: &'a MeasuredSide<'a>, is_of: impl Fn(&SubExperiment) -> bool) -> Vec<Self> {
        let MeasuredSide { subs, metrics, .. } = side;
        let of_row = |row: Row| Self { metrics, sub: &subs[row.sub as usize], row, is_first: true };
        let mut rows: Vec<Self> = metrics.all_rows().map(of_row).filter(|row| is_of(row.sub.planned)).collect();
        rows.sort_by_key(|row| (row.row.payload_bytes, row.row.sub, row.place()));
        for index in 1..rows.len() {
            rows[index].is_first = !Self::is_same_payload(&rows[index - 1], &rows[index]);
        }
        rows
    }

    /// Whether two rows are of one payload of one sub-experiment.
    pub fn is_same_payload(&self, other: &Self) -> bool {
        (self.row.sub, self.row.payload_bytes) == (other.row.sub, other.row.payload_bytes)
    }

    /// The place of its load in the plan.
    fn place(&self) -> Option<usize> {
        self.sub.planned.workload.loads.iter().position(|load| *load == self.load())
    }

    /// How messages were offered.
    pub fn load(&self) -> OfferedLoad {
        self.metrics.load(self.row)
    }

    /// A figure of this row.
    pub fn get(&self, stream: &Stream, figure: Figure, statistic: Statistic) -> Option<Rounds<'a>> {
        self.metrics.get(self.row, stream, figure, statistic)
    }

    /// A figure of one value, of all messages.
    pub fn value(&self, figure: Figure) -> Option<Rounds<'a>> {
        self.get(&Stream::all(), figure, Statistic::Value)
    }

    /// A figure of one value, of all messages, in one round; 0 if the round has none.
    pub fn at(&self, round: u32, figure: Figure) -> f64 {
        self.value(figure).and_then(|rounds| rounds.at(round)).unwrap_or(0.0)
    }

    /// A figure of all rounds put together; 0 if it has none.
    pub fn total(&self, figure: Figure) -> f64 {
        self.value(figure).map_or(0.0, |rounds| rounds.folded())
    }

    /// The rate that was offered; 0 if there was none.
    pub fn offered_hz(&self) -> f64 {
        self.total(Figure::OfferedRate)
    }

    /// The rate that was offered, or the bursts; missing if there was neither.
    pub fn offered(&self) -> Cell {
        match self.load() {
            load @ OfferedLoad::Burst(_) => Cell::text(offered(load)),
            _ => Cell::maybe(self.value(Figure::OfferedRate).map(|offered| offered.folded())),
        }
    }

    /// A message is behind if it was sent later than this after it was due.
    pub fn too_late(&self) -> &'static str {
        if self.load().burst().is_some() { "a gap between bursts" } else { "a period" }
    }

    /// Whether the messages of any row came in bursts.
    pub fn have_bursts(rows: &[Self]) -> bool {
        rows.iter().any(|times| times.load().burst().is_some())
    }

    /// Its trials, round by round.
    pub fn trials(&self) -> impl Iterator<Item = &'a (u32, Trial)> {
        self.metrics.trials(self.row).iter()
    }

    /// Place of its figures within a sentence: `at 64k`, `on all topics`.
    pub fn at_size(&self) -> String {
        self.metrics.at_size(self.row)
    }

    /// `mark` if the condition holds in any round, else nothing.
    pub fn mark(&self, is: impl Fn(&Trial) -> bool, mark: &'static str) -> &'static str {
        if self.trials().any(|(_, trial)| is(trial)) { mark } else { "" }
    }

    /// Notes on rows: for each payload why it has fewer trials than planned, then the notes of each row.
    pub fn notes(rows: &[Self], of_row: impl Fn(&Self) -> Vec<Note>) -> Vec<Note> {
        let of_payload = |rows: &[Self]| {
            let (first, at) = (rows[0], rows[0].at_size());
            let short = |why: &str| first.warning(format!("* {} {at}: {why}", first.sub.planned.name));
            let of_rows = rows.iter().flat_map(&of_row).chain(first.warm_up());
            Self::shortfalls(rows).into_iter().map(short).chain(of_rows).collect::<Vec<_>>()
        };
        rows.chunk_by(Self::is_same_payload).flat_map(of_payload).collect()
    }

    /// Reasons why rounds have fewer trials of this payload than planned.
    fn shortfalls(rows: &[Self]) -> Vec<&'a str> {
        let Some(Self { sub, row, .. }) = rows.first() else { return Vec::new() };
        let planned = sub.planned.workload.loads.len();
        let is_measured = |one: &&Self, round: u32| one.trials().any(|trial| trial.0 == round);
        let measured = |round| rows.iter().filter(|one| is_measured(one, round)).count();
        let short = sub.results.iter().filter(|result| measured(result.round) < planned);
        let cells = short.flat_map(|result| &result.cells).filter(|cell| cell.payload_bytes == row.payload_bytes);
        cells.filter_map(|cell| cell.cut_short.as_deref()).collect()
    }

    /// A note on damage in the warm-up of its payload, which no trial counts.
    pub fn warm_up(&self) -> Option<Note> {
        let damaged = self.sub.payload(self.row.payload_bytes).warmup_damaged();
        let what = if self.sub.planned.workload.is_call() { "failed" } else { "damaged" };
        let (name, at) = (&self.sub.planned.name, self.at_size());
        (damaged > 0).then(|| self.info(format!("{name} {at}: {damaged} {what} in the warm-up")))
    }

    /// A note that no message of a trial arrived.
    pub fn nothing_arrived(&self, text: String) -> Note {
        Note { kind: notes::NOTHING_ARRIVED, ..self.warning(text) }
    }

    /// Damaged messages outside the trials of its payload; 0 unless this is the payload's first row.
    pub fn damaged_beside(&self) -> u64 {
        let cells = || self.sub.payload(self.row.payload_bytes).cells;
        if self.is_first { cells().iter().map(|cell| cell.damaged_beside()).fold(0, u64::saturating_add) } else { 0 }
    }

    /// Streams for which `index` returns an index, in its order.
    pub fn streams(&self, index: impl Fn(&Stream) -> Option<u32>) -> Vec<(u32, Stream)> {
        let all = self.metrics.streams(self.row, Figure::Sent).into_iter();
        let mut streams: Vec<(u32, Stream)> = all.filter_map(|stream| Some((index(stream)?, stream.clone()))).collect();
        streams.sort_unstable();
        streams
    }

    /// Several followers, by their index.
    pub fn followers(&self) -> Vec<(u32, Stream)> {
        self.streams(|stream| if let Some(At::Follower(index)) = stream.at { Some(index) } else { None })
    }

    /// Counts of messages of a stream, per round.
    pub fn counts(&self, stream: &Stream) -> Vec<(u32, Counts)> {
        counts(self.metrics, self.row, stream)
    }

    /// Counts of messages of all rounds together.
    pub fn totals(&self) -> Counts {
        self.counts(&Stream::all()).into_iter().fold(Counts::default(), |sum, (_, counts)| sum + counts)
    }

    /// A cell for each of [`naming_columns`].
    pub fn naming(&self) -> Vec<Cell> {
        let planned = self.sub.planned;
        let same_process = if self.sub.same_process() { " (same process)" } else { "" };
        let followers = match planned.workload.is_fan_out() {
            true => format!(" to {} followers", planned.workload.followers()),
            false => String::new(),
        };
        let transport = format!("{}{same_process}{followers}", planned.transport_text());
        [transport, self.sub.wait_text(), planned.touch.to_string()].map(Cell::text).to_vec()
    }

    /// The median over rounds with its interval.
    pub fn over(&self, values: Vec<f64>) -> Cell {
        Cell::of_each(&values.into_iter().map(|value| (value, None)).collect(), self.sub.rounds)
    }

    /// Median of a figure over rounds with its interval, or with that within the only round.
    pub fn of(&self, rounds: Option<Rounds<'_>>) -> Cell {
        Cell::of_each(&Each::of(rounds), self.sub.rounds)
    }

    /// A statistic of a latency: the median over rounds, for [`Statistic::Max`] the largest.
    pub fn latency(&self, stream: &Stream, figure: Figure, statistic: Statistic) -> Cell {
        match (statistic, self.get(stream, figure, statistic)) {
            (Statistic::Max, rounds) => Cell::largest(&Each::of(rounds)),
            (_, rounds) => self.of(rounds),
        }
    }

    /// Some of them.
    pub fn latencies(&self, stream: &Stream, figure: Figure, statistics: &[Statistic]) -> Vec<Cell> {
        statistics.iter().map(|statistic| self.latency(stream, figure, *statistic)).collect()
    }

    /// CPU time of a process, as a share of one core.
    pub fn cpu_share(&self, process: Process) -> Cell {
        self.over(cpu_share(self.metrics, self.row, process))
    }

    /// Resources used by a process: a cell for each of [`cost_columns`].
    pub fn cost(&self, process: Process) -> Vec<Cell> {
        let (metrics, row) = (self.metrics, self.row);
        let memory = self.get(&Stream::process(process), Figure::PeakMemory, Statistic::Value);
        vec![
            self.cpu_share(process),
            self.kernel_share(process),
            self.over(switches_hz(metrics, row, process)),
            self.of(self.get(&Stream::process(process), Figure::InvoluntarySwitches, Statistic::Value)),
            self.over(faults_per_message(metrics, row, process)),
            self.of(memory),
        ]
    }

    /// CPU time in the kernel; where there is CPU time alone, the kernel does not account its parts exactly.
    fn kernel_share(&self, process: Process) -> Cell {
        let has_cpu_time = self.get(&Stream::process(process), Figure::CpuTime, Statistic::Value).is_some();
        match self.over(kernel_share(self.metrics, self.row, process)) {
            Cell::Missing(_) if has_cpu_time => Cell::Missing(Missing::SplitByTicks),
            cell => cell.marked(if self.metrics.may_sample_kernel_time { SAMPLED } else { "" }),
        }
    }

    /// Blank cells in the place of [`TableRow::cost`].
    pub fn no_cost() -> Vec<Cell> {
        cost_columns("").iter().map(|_| Cell::Missing(Missing::NotOfThisRow)).collect()
    }

    /// Its messages were answered.
    pub fn is_of_calls(&self) -> bool {
        self.sub.planned.workload.is_call()
    }

    /// Messages that did not come in time and intact, or calls that did not succeed, of those sent.
    pub fn loss(&self, stream: &Stream) -> Cell {
        Cell::lost(&loss(self.metrics, self.row, stream))
    }

    /// A warning on this row.
    pub fn warning(&self, text: String) -> Note {
        Note::new(Severity::Warning, notes::TRIALS, Some(self.row), text)
    }

    /// A warning that this row missed its rate.
    pub fn rate_missed(&self, text: String) -> Note {
        Note { kind: notes::RATE_MISSED, ..self.warning(text) }
    }

    /// A note on this row for information.
    pub fn info(&self, text: String) -> Note {
        Note { severity: Severity::Info, ..self.warning(text) }
    }

    /// The outcome of the path proof.
    pub fn proof(&self) -> Cell {
        Cell::text(notes::proof(self.sub))
    }
}

impl TableLine for TableRow<'_> {
    fn row(&self) -> &TableRow<'_> {
        self
    }
}

/// Transport, wait and touch.
pub fn naming_columns(rows: &[TableRow<'_>]) -> Vec<Column> {
    let to_several = "with several followers, response and service end when the last of them has the message; service to i ends at follower i (the first 16)";
    let help = if rows.iter().any(|row| row.sub.planned.workload.is_fan_out()) { to_several } else { "" };
    let polls = rows.iter().any(|row| row.sub.polls_on_shared_cpu);
    let wait = if polls { "! it polled on a shared CPU: latencies are time slices of the scheduler" } else { "" };
    [("transport", help), ("wait", wait), ("touch", "")].map(|(id, help)| Column::words(id, id, help).merged()).to_vec()
}

/// Columns of the offered and the achieved rate, with their help texts.
pub fn rate_columns([offered, achieved]: [&'static str; 2]) -> [Column; 2] {
    let column = |id, title, help| Column::numbers(id, title, "/s", Digits::Rate, help).merged();
    [column("offered_rate_hz", "offered", offered), column("achieved_rate_hz", "achieved", achieved)]
}

/// A column for each of these statistics of a latency in microseconds.
pub fn latency_columns(statistics: &[Statistic]) -> Vec<Column> {
    let column = |statistic: &Statistic| {
        let title = match statistic {
            Statistic::Mean => "average",
            Statistic::P999 => "p99.9",
            other => other.id(),
        };
        Column::numbers(&format!("{statistic}_ns"), title, "µs", Digits::Fixed(3), "")
    };
    statistics.iter().map(column).collect()
}

/// Columns of the resources used by a process; `cpu_help` says which line is of which process.
pub fn cost_columns(cpu_help: &'static str) -> Vec<Column> {
    let memory =
        "most that was resident, our buffers of samples included, MB = 1000000 bytes; of several processes that of one";
    vec![
        Column { divisor: 0.01, ..Column::numbers("cpu_share", "CPU", "%", Digits::Fixed(1), cpu_help) },
        Column {
            divisor: 0.01,
            ..Column::numbers(
                "kernel_share",
                "kernel",
                "%",
                Digits::Fixed(1),
                "part of CPU that is spent in the kernel; - where the kernel splits CPU time by timer ticks, ~ where older results may have that",
            )
        },
        Column::numbers("switches_hz", "switches", "/s", Digits::Rate, "context switches of the same processes"),
        Column::numbers(
            "involuntary_switches",
            "preempted",
            "n",
            Digits::Integer,
            "times that the same processes lost their CPU",
        )
        .if_any(),
        Column::numbers("faults_per_message", "faults", "/msg", Digits::Fixed(3), "page faults of the same processes"),
        Column { divisor: 1e6, ..Column::numbers("peak_memory_bytes", "memory", "MB", Digits::Fixed(1), memory) },
    ]
}

/// Column of lost, late or damaged messages.
pub fn loss_column() -> Column {
    Column::numbers(
        "loss",
        "loss",
        "%",
        Digits::Percent,
        "messages lost, late or damaged, in per cent of the messages sent",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Block, Document, Table};
    use crate::fixture::{squeezed, text};
    use crate::results::NamedResults;

    /// The only place that knows all columns of the cost.
    #[test]
    fn each_process_has_its_cost() {
        let manifest = crate::fixture::published("uds/stream", &[1000.0]);
        let side = MeasuredSide::new(&NamedResults { name: "", manifest: &manifest });
        let row = TableRow::rows(&side, |_| true)[0];
        let cells = [Process::Leader, Process::Follower].map(|process| (None, row.cost(process)));
        let table = Table::new(String::new(), cost_columns(""), cells.to_vec());
        let lines = squeezed(&text(&Document { blocks: vec![Block::Table(table)] }));
        assert_eq!(lines[0], "CPU kernel switches preempted faults memory");
        assert_eq!(lines[3..5], ["3.1 1.6 4002 2 0.025 12.3", "1.2 0.6 4002 2 0.025 9.0"]);
        let mut older = side.metrics.clone();
        older.may_sample_kernel_time = true;
        let row = TableRow { metrics: &older, ..row };
        assert_eq!(row.kernel_share(Process::Leader).mark(), SAMPLED, "of an older folder");
        let mut manifest = manifest.clone();
        let trial = crate::fixture::trial_of(&mut manifest, 0);
        trial.remove(&Stream::process(Process::Leader), Figure::KernelTime);
        let metrics = MetricTable::of(&manifest);
        let without = TableRow { metrics: &metrics, ..row }.cost(Process::Leader);
        assert_eq!(without[1], Cell::Missing(Missing::SplitByTicks));
        assert!(matches!(without[0], Cell::Number { .. }), "the sum is right");
        assert_eq!(TableRow::no_cost().len(), cost_columns("").len());
    }
}
