//! Lines of the first screen, and their cells.

use crate::document::{Block, Cell, Column, Digits, Missing, Table};
use crate::floors::Floors;
use crate::labels::{Distinctions, LabelledLine, load_text};
use crate::merged::{CHANGED, MISSED, Merged, rounds_text};
use crate::notes;
use std::collections::BTreeSet;
use tripmeter_analysis::{MetricTable, Row};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::{Manifest, RunStatus, Verdict};
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::pattern::{PatternFacts, ShownLatency};
use tripmeter_model::payload::{display_size, size_key, size_text};
use tripmeter_model::plan::SubExperiment;
use tripmeter_stats::median;

/// Maximum number of payloads in 80 columns.
const MOST_PAYLOADS: usize = 3;
/// Maximum width of a line.
pub(super) const COLUMNS: u16 = 80;
/// Width beyond which labels are broken.
const LABEL_COLUMNS: usize = 26;

const FLOOR_HELP: &str = "latency as a multiple of shm's, round by round, at the same payloads, wait and touch (geometric mean); the bar is its \
     logarithm";

/// True if one can be the floor of the other: the same pattern, loads, wait and touch.
pub(super) fn is_alike(one: &SubExperiment, other: &SubExperiment) -> bool {
    (&one.workload.loads, one.workload.topology) == (&other.workload.loads, other.workload.topology)
        && one.background == other.background
        && one.has_conditions_of(other)
}

pub(super) struct ScreenPage<'a> {
    pub manifest: &'a Manifest,
    pub subs: &'a [Merged<'a>],
    pub metrics: &'a MetricTable,
    pub floors: Floors,
}

/// A line: a sub-experiment at one offered load, with all payloads.
pub(super) type LoadLine = (u32, u32);

pub(super) fn row(line: LoadLine, payload_bytes: u64) -> Row {
    Row { sub: line.0, payload_bytes, load: line.1 }
}

/// Help of the columns of a payload: median and 99th percentile.
pub(super) const LATENCY_HELP: [&str; 2] = [
    "median; * fewer samples or messages than planned, or damaged ones, ~ the core-to-core latency changed, ! the rate was \
     missed, the path proof failed, or it polled on a shared CPU",
    "99th percentile; - too few samples for an upper bound",
];

/// Mark extended by [`MISSED`] if the figures are unusable.
pub(super) fn with_missed(mark: &'static str, is_missed: bool) -> &'static str {
    match mark {
        _ if !is_missed => mark,
        "*" => "*!",
        CHANGED => "~!",
        _ => MISSED,
    }
}

impl<'a> ScreenPage<'a> {
    fn sub(&self, index: u32) -> &'a Merged<'a> {
        &self.subs[index as usize]
    }

    pub(super) fn planned(&self, line: LoadLine) -> &'a SubExperiment {
        self.sub(line.0).planned
    }

    /// Lines of sub-experiments that have a figure, and up to three of their payloads: smallest, middle and largest.
    pub(super) fn lines(
        &self,
        is_of: impl Fn(&SubExperiment) -> bool,
        figure: impl Fn(OfferedLoad) -> Figure,
    ) -> (Vec<LoadLine>, Vec<u64>, usize) {
        let rows = self.metrics.rows(|key| key.figure == figure(self.metrics.load(key.row)));
        let rows: Vec<Row> = rows.into_iter().filter(|row| is_of(self.sub(row.sub).planned)).collect();
        let mut lines: Vec<LoadLine> = rows.iter().map(|row| (row.sub, row.load)).collect();
        lines.sort_unstable();
        lines.dedup();
        let payloads: Vec<u64> =
            rows.iter().map(|row| row.payload_bytes).collect::<BTreeSet<_>>().into_iter().collect();
        let count = payloads.len();
        let shown =
            if count <= MOST_PAYLOADS { payloads } else { vec![payloads[0], payloads[count / 2], payloads[count - 1]] };
        (lines, shown, count)
    }

    pub(super) fn latencies(&self, facts: &PatternFacts, shown: &ShownLatency) -> Option<Table> {
        let (mut lines, payloads, count) = self.lines(|sub| sub.facts() == facts, shown.figure);
        if lines.is_empty() {
            return None;
        }
        let level = |line: &LoadLine| {
            let of = |payloads: &[u64]| self.level(*line, payloads, (shown.figure)(self.load(*line)), Statistic::P50);
            let kept = payloads.iter().copied().filter(|payload| self.is_fit(*line, *payload));
            [of(&kept.collect::<Vec<_>>()), of(&payloads)]
        };
        // Lines that are not ranked come last, also sorted by speed.
        lines.sort_by(|a, b| level(a).partial_cmp(&level(b)).expect("a level is a number"));
        let distances: Vec<Option<f64>> =
            lines.iter().map(|line| self.distance(*line, &payloads, shown.figure)).collect();
        let has_floor = distances.iter().any(Option::is_some) || lines.iter().any(|line| self.is_floor(*line));
        let farthest = distances.iter().flatten().fold(1.0, |most: f64, distance| most.max(*distance));
        let mut columns = vec![Column::words("transport", &format!("µs, {}", shown.title), "")];
        for &bytes in &payloads {
            // An experiment plays at most one recording.
            let several = lines.iter().any(|line| self.metrics.has_several_sizes(row(*line, bytes)));
            let size = size_text(bytes, several);
            let key = if several { size_key(bytes, several) } else { size.clone() };
            for (statistic, help) in [Statistic::P50, Statistic::P99].into_iter().zip(LATENCY_HELP) {
                let (id, title) = (format!("{key}_{statistic}"), statistic.id());
                columns.push(Column::numbers(&id, title, "µs", Digits::Significant(3), help).grouped(&size));
            }
        }
        if has_floor {
            let floor = Column { is_right: true, ..Column::words("floor", "floor", FLOOR_HELP) };
            columns.extend([floor, Column::words("distance", "", "")]);
        }
        let distinctions = self.distinctions(&lines);
        let rows = lines.iter().zip(&distances).map(|(line, distance)| {
            let mut cells = vec![Cell::text(broken(&distinctions.parts(self.labelled(*line))))];
            for payload in &payloads {
                cells.extend(self.pair(*line, *payload, (shown.figure)(self.load(*line))));
            }
            if has_floor {
                cells.extend(match distance {
                    _ if self.is_floor(*line) => [Cell::Floor, Cell::Bar(0.0)],
                    Some(ratio) => {
                        let share = if farthest > 1.0 { ratio.max(1.0).ln() / farthest.ln() } else { 0.0 };
                        [Cell::Ratio { value: *ratio, interval: None }, Cell::Bar(share)]
                    }
                    None => [Cell::Missing(Missing::NotMeasured), Cell::Bar(0.0)],
                });
            }
            (None, cells)
        });
        let mut title = self.title(&lines, &payloads, count);
        let (load, are_round_trips) = (self.load(lines[0]), self.planned(lines[0]).are_round_trips());
        if load != OfferedLoad::Closed && are_round_trips && lines.iter().all(|line| self.load(*line) == load) {
            title += &format!(", {}", load_text(load));
        }
        Some(Table::new(title, columns, rows.collect()).within(COLUMNS))
    }

    /// True if the figures of the line do not describe the transport.
    pub(super) fn is_disqualified(&self, line: LoadLine) -> bool {
        self.sub(line.0).disqualified().is_some()
    }

    /// True if figures at a payload are ranked.
    fn is_fit(&self, line: LoadLine, payload_bytes: u64) -> bool {
        !self.is_disqualified(line) && !self.is_missed(line, payload_bytes)
    }

    /// True if a round ended before it had all samples.
    pub(super) fn is_cut_short(&self, line: LoadLine, payload_bytes: u64) -> bool {
        let cells = self.sub(line.0).payload(payload_bytes).cells;
        cells.iter().any(|cell| cell.cut_short.is_some() && cell.samples < cell.samples_planned)
    }

    pub(super) fn pair(&self, line: LoadLine, payload_bytes: u64, figure: Figure) -> [Cell; 2] {
        let get = |statistic| self.metrics.get(row(line, payload_bytes), &Stream::all(), figure, statistic);
        let merged = self.sub(line.0).payload(payload_bytes);
        let mark = if merged.star().is_empty() { merged.mark() } else { merged.star() };
        let missed = self.is_missed(line, payload_bytes) || self.is_disqualified(line);
        let mut p50 = Cell::from_rounds(get(Statistic::P50)).marked(with_missed(mark, missed));
        if matches!(p50, Cell::Missing(_)) && merged.cells.iter().any(|cell| cell.is_all_lost()) {
            p50 = Cell::Missing(notes::words(&self.planned(line).workload).no_samples);
        }
        let is_bounded = self.metrics.is_bounded(row(line, payload_bytes), &Stream::all(), figure, Statistic::P99);
        [p50, Cell::from_rounds(get(Statistic::P99)).marked(with_missed("", missed)).if_bounded(is_bounded)]
    }

    pub(super) fn throughput(&self, stars: &BTreeSet<Row>) -> Option<Table> {
        let (mut lines, payloads, count) = self.lines(|_| true, |_| Figure::ReceivedRate);
        if lines.is_empty() {
            return None;
        }
        let level = |line: &LoadLine| {
            let is_unfit = !payloads.iter().any(|payload| self.is_fit(*line, *payload));
            (is_unfit, -self.level(*line, &payloads, Figure::ReceivedRate, Statistic::Value))
        };
        lines.sort_by(|a, b| level(a).partial_cmp(&level(b)).expect("a level is a number"));
        let mut columns = vec![Column::words("transport", "received", "")];
        for payload in payloads.iter().map(|payload| display_size(*payload)) {
            let of = |what, title, divisor, help| {
                let id = format!("{payload}_{what}");
                let column = Column::numbers(&id, title, "", Digits::AllSignificant(3), help);
                Column { divisor, ..column.grouped(&payload) }
            };
            columns.push(of("k_per_s", "k/s", 1e3, "thousand messages per second that arrived intact"));
            columns.push(of("mb_per_s", "MB/s", 1e6, "million payload bytes per second that arrived intact"));
        }
        let distinctions = self.distinctions(&lines);
        let rows = lines.iter().map(|line| {
            let mut cells = vec![Cell::text(broken(&distinctions.parts(self.labelled(*line))))];
            for payload_bytes in &payloads {
                let missed = self.is_missed(*line, *payload_bytes) || self.sub(line.0).disqualified().is_some();
                let row = row(*line, *payload_bytes);
                let star = if stars.contains(&row) { "*" } else { "" };
                cells.extend([(Figure::ReceivedRate, star), (Figure::ReceivedBytes, "")].map(|(figure, mark)| {
                    let rounds = self.metrics.get(row, &Stream::all(), figure, Statistic::Value);
                    Cell::from_rounds(rounds).marked(with_missed(mark, missed))
                }));
            }
            (None, cells)
        });
        let title = self.title(&lines, &payloads, count);
        Some(Table::new(title, columns, rows.collect()).within(COLUMNS))
    }

    pub(super) fn load(&self, line: LoadLine) -> OfferedLoad {
        self.metrics.load(row(line, 0))
    }

    /// True if the offered rate was missed.
    fn is_missed(&self, line: LoadLine, payload_bytes: u64) -> bool {
        self.metrics.is_rate_missed(row(line, payload_bytes))
    }

    /// Geometric mean of a figure over payloads; infinite if there is none.
    pub(super) fn level(&self, line: LoadLine, payloads: &[u64], figure: Figure, statistic: Statistic) -> f64 {
        let of = |payload_bytes: &u64| {
            Some(self.metrics.get(row(line, *payload_bytes), &Stream::all(), figure, statistic)?.folded())
        };
        geometric_mean(payloads.iter().filter_map(of)).unwrap_or(f64::INFINITY)
    }

    fn is_floor(&self, line: LoadLine) -> bool {
        self.floor(line).is_some_and(|floor| floor == line)
    }

    /// Floor of a line, at the same offered load.
    fn floor(&self, line: LoadLine) -> Option<LoadLine> {
        let floor = self.floors.find(self.subs, self.planned(line), |_| true)?;
        Some((floor, line.1))
    }

    /// Ratio to the floor: median over rounds at each payload, then geometric mean over payloads. Payloads at which
    /// either missed its rate are left out.
    fn distance(&self, line: LoadLine, payloads: &[u64], figure: fn(OfferedLoad) -> Figure) -> Option<f64> {
        let floor = self.floor(line)?;
        let ratio = |payload_bytes: &u64| {
            let of = |line: LoadLine| {
                let of_all = Stream::all();
                let kept = Some(row(line, *payload_bytes)).filter(|row| !self.metrics.is_rate_missed(*row))?;
                self.metrics.get(kept, &of_all, figure(self.load(line)), Statistic::P50)
            };
            let pairs = of(line)?.paired(&of(floor)?);
            median(&pairs.iter().filter(|pair| pair.1 > 0.0).map(|pair| pair.0 / pair.1).collect::<Vec<_>>())
        };
        geometric_mean(payloads.iter().filter_map(ratio))
    }

    /// Pattern of these lines, state, rounds, and the number of shown payloads out of `count`.
    fn title(&self, lines: &[LoadLine], shown: &[u64], count: usize) -> String {
        let mut title = self.planned(lines[0]).facts().word().to_owned();
        if self.manifest.status != RunStatus::Complete {
            title += ", INCOMPLETE";
        }
        if self.manifest.plan.rounds > 1 {
            let payloads = lines.iter().flat_map(|line| shown.iter().map(|bytes| self.sub(line.0).payload(*bytes)));
            let finished = payloads.map(|payload| payload.cells.len()).filter(|rounds| *rounds > 0);
            title += &format!(", median of {}", rounds_text(self.manifest.plan.rounds, finished));
        }
        if shown.len() < count {
            title += &format!(", {} of {count} payloads", shown.len());
        }
        title
    }

    pub(super) fn distinctions(&self, lines: &[LoadLine]) -> Distinctions<'_> {
        Distinctions::from_lines(lines.iter().map(|line| self.labelled(*line)))
    }

    pub(super) fn labelled(&self, line: LoadLine) -> LabelledLine<'_> {
        LabelledLine { sub: self.sub(line.0), load: self.load(line) }
    }

    pub(super) fn facts(&self) -> Option<Block> {
        let proofs: Vec<_> = self.subs.iter().filter_map(|sub| Some((sub, sub.proof()?.1))).collect();
        if proofs.is_empty() {
            return None;
        }
        let count = |verdict| proofs.iter().filter(|(_, proof)| proof.verdict == verdict).count();
        let verdicts = [(Verdict::Proven, "ok"), (Verdict::NotVisible, "not visible"), (Verdict::Failed, "FAILED")];
        let verdicts = verdicts.into_iter().map(|(verdict, word)| (count(verdict), word));
        let verdicts: Vec<String> =
            verdicts.filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
        Some(Block::Text(format!("path proofs: {}", verdicts.join(", "))))
    }
}

/// Parts in lines of at most [`LABEL_COLUMNS`] characters, if they can be broken.
pub(super) fn broken(parts: &[String]) -> String {
    let pieces = parts.iter().enumerate().flat_map(|(index, part)| {
        let broken = part.replace('?', "\n?").replace('&', "\n&");
        let pieces: Vec<String> = broken.split('\n').map(str::to_owned).collect();
        pieces.into_iter().enumerate().map(move |(place, piece)| {
            let glue = if index > 0 && place == 0 { ", " } else { "" };
            format!("{glue}{piece}")
        })
    });
    let mut lines = vec![String::new()];
    for piece in pieces {
        let last = lines.last_mut().expect("there is a line");
        if !last.is_empty() && last.chars().count() + piece.chars().count() > LABEL_COLUMNS {
            lines.push(format!("  {}", piece.trim_start_matches(", ")));
        } else {
            last.push_str(&piece);
        }
    }
    lines.join("\n")
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let logarithms: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::ln).collect();
    (!logarithms.is_empty()).then(|| (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp())
}
