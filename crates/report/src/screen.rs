//! The first screen: at most 80 columns, systems as rows, payloads as groups of columns, the best first. Everything else is
//! in the table `all`.

pub(crate) mod notes;
mod topics;

use crate::document::{Block, Cell, Column, Digits, Document, Missing, Table};
use crate::fastest;
use crate::floors::Floors;
use crate::labels::{Distinctions, LabelledLine, load_text};
use crate::measured::MeasuredSide;
use crate::merged::{CHANGED, MISSED, Merged, rounds_text};
use crate::results::NamedResults;
use crate::tables::{TABLES, load};
use std::collections::BTreeSet;
use tripmeter_analysis::{MetricTable, Row};
use tripmeter_model::Pattern;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::{Manifest, RunStatus, Verdict};
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::pattern::{PATTERNS, ShownLatency};
use tripmeter_model::payload::{display_size, size_key, size_text};
use tripmeter_model::plan::SubExperiment;
use tripmeter_stats::median;

/// Payloads that fit into 80 columns.
const MOST_PAYLOADS: usize = 3;
/// Columns of a line.
const COLUMNS: u16 = 80;
/// Labels longer than this are broken.
const LABEL_COLUMNS: usize = 26;

const FLOOR_HELP: &str =
    "times the latency of shm at the same payloads, wait and touch (geometric mean); the bar is its logarithm";

/// A table for each pattern, then path proofs, then the notes, one line for each kind; `all_notes` shows all.
pub fn screen(manifest: &Manifest, all_notes: bool) -> Document {
    let side = MeasuredSide::new(&NamedResults { name: "", manifest });
    let (subs, metrics) = (&side.subs, &side.metrics);
    let floors = Floors::of(subs, is_alike);
    let page = ScreenPage { manifest, subs, metrics, floors };
    let (mut blocks, mut of_trials, mut stars) = (Vec::new(), Vec::new(), BTreeSet::new());
    for kind in &TABLES {
        let made = (kind.make)(String::new(), &side);
        of_trials.extend(made.notes);
        stars.extend(made.stars);
    }
    for (pattern, shown) in PATTERNS.iter().flat_map(|facts| facts.latencies.iter().map(|shown| (facts.pattern, shown)))
    {
        blocks.extend(page.latencies(pattern, shown).map(Block::Table));
        blocks.extend(topics::blocks(&page, pattern, shown));
        blocks.extend(fastest::line(&side, |sub| sub.pattern == pattern, shown.figure));
    }
    let under_load = Some(load::table(&side)).filter(|table| !table.rows.is_empty());
    blocks.extend(under_load.map(|table| Block::Table(table.within(COLUMNS))));
    blocks.extend(page.throughput(&stars).map(Block::Table));
    blocks.extend(fastest::line(&side, |sub| sub.pattern == Pattern::Throughput, |_| Figure::ReceivedRate));
    let is_lost = || subs.iter().flat_map(Merged::payloads).any(|cell| cell.is_wholly_lost());
    // That everything was lost is among the notes.
    if blocks.is_empty() && !is_lost() {
        let mut cells = subs.iter().flat_map(|sub| &sub.results).flat_map(|result| &result.cells);
        let is_withheld = !manifest.environment.hosts.is_empty() && cells.any(|cell| cell.samples > 0);
        let text = if is_withheld {
            "No latency can be told; --wide shows counts and rates."
        } else {
            "Nothing was measured."
        };
        blocks.push(Block::Text(text.to_owned()));
    }
    blocks.extend(page.facts());
    let notes = notes::notes(&side, of_trials, all_notes);
    if !notes.is_empty() {
        blocks.push(Block::Notes(notes));
    }
    Document { blocks }
}

/// True if one can be the floor of the other: the same pattern, loads, wait and touch.
fn is_alike(one: &SubExperiment, other: &SubExperiment) -> bool {
    (one.pattern, &one.workload.loads) == (other.pattern, &other.workload.loads)
        && (one.wait, one.touch, one.sched, one.load) == (other.wait, other.touch, other.sched, other.load)
}

struct ScreenPage<'a> {
    manifest: &'a Manifest,
    subs: &'a [Merged<'a>],
    metrics: &'a MetricTable,
    floors: Floors,
}

/// A line: a sub-experiment at one offered load, with all payloads.
type LoadLine = (u32, u32);

fn row(line: LoadLine, payload_bytes: u64) -> Row {
    Row { sub: line.0, payload_bytes, load: line.1 }
}

/// Help of the columns of a payload: median and 99th percentile.
const LATENCY_HELP: [&str; 2] = [
    "median; * fewer samples or messages than planned, or damaged ones, ~ the core-to-core latency changed, ! the rate was \
     missed, the path proof failed, or it polled on a shared CPU",
    "99th percentile; - too few samples for an upper bound",
];

/// A mark, and that the figures are no answer.
fn with_missed(mark: &'static str, is_missed: bool) -> &'static str {
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

    fn planned(&self, line: LoadLine) -> &'a SubExperiment {
        self.sub(line.0).planned
    }

    /// The lines of a pattern that have a figure, and their payloads: the smallest, the largest and one in the middle.
    fn lines(&self, pattern: Pattern, figure: impl Fn(OfferedLoad) -> Figure) -> (Vec<LoadLine>, Vec<u64>, usize) {
        let rows = self.metrics.rows(|key| key.figure == figure(self.metrics.load(key.row)));
        let rows: Vec<Row> = rows.into_iter().filter(|row| self.sub(row.sub).planned.pattern == pattern).collect();
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

    fn latencies(&self, pattern: Pattern, shown: &ShownLatency) -> Option<Table> {
        let (mut lines, payloads, count) = self.lines(pattern, shown.figure);
        if lines.is_empty() {
            return None;
        }
        let level = |line: &LoadLine| {
            let of = |payloads: &[u64]| self.level(*line, payloads, (shown.figure)(self.load(*line)), Statistic::P50);
            let kept: Vec<u64> = payloads.iter().copied().filter(|payload| !self.is_missed(*line, *payload)).collect();
            [of(&kept), of(&payloads)]
        };
        // Lines that missed every rate come last, the fastest first, too.
        lines.sort_by(|a, b| level(a).partial_cmp(&level(b)).expect("a level is a number"));
        let is_compared = pattern == Pattern::PingPong || lines.iter().any(|line| self.is_floor(*line));
        let distances: Vec<Option<f64>> =
            lines.iter().map(|line| self.distance(*line, &payloads, shown.figure).filter(|_| is_compared)).collect();
        let has_floor = distances.iter().any(Option::is_some) || lines.iter().any(|line| self.is_floor(*line));
        let farthest = distances.iter().flatten().fold(1.0, |most: f64, distance| most.max(*distance));
        let mut columns = vec![Column::words("transport", &format!("µs, {}", shown.title), "")];
        for &bytes in &payloads {
            // An experiment plays one recording, or none.
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
        let mut title = self.title(pattern, &lines, &payloads, count);
        let load = self.load(lines[0]);
        if load != OfferedLoad::Closed
            && pattern == Pattern::PingPong
            && lines.iter().all(|line| self.load(*line) == load)
        {
            title += &format!(", {}", load_text(load));
        }
        Some(Table::new(title, columns, rows.collect()).within(COLUMNS))
    }

    fn pair(&self, line: LoadLine, payload_bytes: u64, figure: Figure) -> [Cell; 2] {
        let get = |statistic| self.metrics.get(row(line, payload_bytes), &Stream::all(), figure, statistic);
        let merged = self.sub(line.0).payload(payload_bytes);
        let mark = if merged.star().is_empty() { merged.mark() } else { merged.star() };
        let missed = self.is_missed(line, payload_bytes) || self.sub(line.0).disqualified().is_some();
        let mut p50 = Cell::of(get(Statistic::P50)).marked(with_missed(mark, missed));
        if matches!(p50, Cell::Missing(_)) && merged.cells.iter().any(|cell| cell.is_all_lost()) {
            let are_calls = self.planned(line).workload.is_call();
            p50 = Cell::Missing(if are_calls { Missing::NoSamples } else { Missing::NothingCame });
        }
        let is_bounded = self.metrics.is_bounded(row(line, payload_bytes), &Stream::all(), figure, Statistic::P99);
        [p50, Cell::of(get(Statistic::P99)).marked(with_missed("", missed)).if_bounded(is_bounded)]
    }

    fn throughput(&self, stars: &BTreeSet<Row>) -> Option<Table> {
        let (mut lines, payloads, count) = self.lines(Pattern::Throughput, |_| Figure::ReceivedRate);
        if lines.is_empty() {
            return None;
        }
        let level = |line: &LoadLine| self.level(*line, &payloads, Figure::ReceivedRate, Statistic::Value);
        lines.sort_by(|a, b| level(b).total_cmp(&level(a)));
        let mut columns = vec![Column::words("transport", "received", "")];
        for payload in payloads.iter().map(|payload| display_size(*payload)) {
            let of = |what, title, divisor, help| {
                let id = format!("{payload}_{what}");
                let column = Column::numbers(&id, title, "", Digits::AllSignificant(3), help);
                Column { divisor, ..column.grouped(&payload) }
            };
            columns.push(of("k_per_s", "k/s", 1e3, "thousand messages per second that came intact"));
            columns.push(of("mb_per_s", "MB/s", 1e6, "million payload bytes per second that came intact"));
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
                    Cell::of(rounds).marked(with_missed(mark, missed))
                }));
            }
            (None, cells)
        });
        let title = self.title(Pattern::Throughput, &lines, &payloads, count);
        Some(Table::new(title, columns, rows.collect()).within(COLUMNS))
    }

    fn load(&self, line: LoadLine) -> OfferedLoad {
        self.metrics.load(row(line, 0))
    }

    /// Its figures are of another rate than was offered.
    fn is_missed(&self, line: LoadLine, payload_bytes: u64) -> bool {
        self.metrics.is_rate_missed(row(line, payload_bytes))
    }

    /// The geometric mean of a figure over payloads; infinite if there is none.
    fn level(&self, line: LoadLine, payloads: &[u64], figure: Figure, statistic: Statistic) -> f64 {
        let of = |payload_bytes: &u64| {
            Some(self.metrics.get(row(line, *payload_bytes), &Stream::all(), figure, statistic)?.folded())
        };
        geometric_mean(payloads.iter().filter_map(of)).unwrap_or(f64::INFINITY)
    }

    fn is_floor(&self, line: LoadLine) -> bool {
        self.floor(line).is_some_and(|floor| floor == line)
    }

    /// The floor of a line, with the same offered load.
    fn floor(&self, line: LoadLine) -> Option<LoadLine> {
        let floor = self.floors.find(self.subs, self.planned(line), |_| true)?;
        Some((floor, line.1))
    }

    /// Ratio to the floor: the median over rounds at each payload, then the geometric mean over payloads. Payloads at which
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

    /// The pattern, and what the figures of these lines are of: all `count` payloads, or those shown.
    fn title(&self, pattern: Pattern, lines: &[LoadLine], shown: &[u64], count: usize) -> String {
        let mut title = pattern.as_str().to_owned();
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

    fn distinctions(&self, lines: &[LoadLine]) -> Distinctions<'_> {
        Distinctions::of(lines.iter().map(|line| self.labelled(*line)))
    }

    fn labelled(&self, line: LoadLine) -> LabelledLine<'_> {
        LabelledLine { sub: self.sub(line.0), load: self.load(line) }
    }

    fn facts(&self) -> Option<Block> {
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

/// The parts, in lines of at most [`LABEL_COLUMNS`] where they can be broken.
fn broken(parts: &[String]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, add, put, result};
    use crate::render::Text;
    use tripmeter_model::Wait;
    use tripmeter_model::experiment::Mode;

    fn text(manifest: &Manifest) -> String {
        Text::default().render(&screen(manifest, false))
    }

    #[test]
    fn systems_are_rows_and_payloads_are_groups_and_the_fastest_is_first() {
        let mut manifest = fixture::manifest();
        let sizes = [1024, 65536, 1 << 20];
        add(&mut manifest, "iox2", "iceoryx2/publish-subscribe", &sizes);
        add(&mut manifest, "uds", "uds/stream", &sizes);
        add(&mut manifest, "shm", "shm/ring", &sizes).added_as_floor = true;
        result(&mut manifest, "iox2", 1, &sizes.map(|size| (size, 516.0)));
        let uds = result(&mut manifest, "uds", 1, &[(1024, 5157.0), (65536, 20_000.0)]);
        put(&mut uds.cells[1].trials[0], &[(Figure::Lost, 2.0)]);
        result(&mut manifest, "shm", 1, &[(1024, 65.0), (65536, 35.0), (1 << 20, 40.0)]);
        let expected = "\
pingpong

                                    1k         64k          1M
µs, half a round trip        p50   p99   p50   p99   p50   p99 floor
-------------------------------------------------------------------------------
shm/ring                   0.065 0.130 0.035 0.070 0.040 0.080 floor
iceoryx2/publish-subscribe 0.516  1.03 0.516  1.03 0.516  1.03 ×11.5 ▇▇▇▇▇
uds/stream                  5.16  10.3  20.0  40.0     -     -  ×213 ▇▇▇▇▇▇▇▇▇▇

without the floor, at 1k: iceoryx2/publish-subscribe was measured fastest: p50
  0.516 µs, next uds/stream ×9.99 (one round, no interval); at 64k:
  iceoryx2/publish-subscribe was measured fastest: p50 0.516 µs, next uds/stream
  ×38.8 (one round, no interval); for intervals: --rounds 6

path proofs: 3 ok

uds at 64k: 2 lost
";
        assert_eq!(text(&manifest), expected);
    }

    #[test]
    fn a_killed_run_tells_how_many_rounds_its_figures_are_of() {
        let mut manifest = fixture::manifest();
        (manifest.plan.rounds, manifest.status) = (3, RunStatus::Running);
        for name in ["uds", "mq"] {
            add(&mut manifest, name, &format!("{name}/x"), &[1024]);
            result(&mut manifest, name, 1, &[(1024, 1000.0)]);
        }
        let killed = |manifest: &mut Manifest, name: &str, round: u32, cells: &[(u64, f64)]| {
            result(manifest, name, round, cells).status = RunStatus::Running;
            text(manifest).lines().next().unwrap().to_owned()
        };
        let title = killed(&mut manifest, "uds", 2, &[]);
        assert_eq!(title, "pingpong, INCOMPLETE, median of 1 round (3 planned)");
        let title = killed(&mut manifest, "mq", 2, &[(1024, 1000.0)]);
        assert_eq!(title, "pingpong, INCOMPLETE, median of 1 to 2 rounds (3 planned)");
    }

    #[test]
    fn marked_lines_are_ordered_by_latency() {
        let mut manifest = fixture::manifest();
        let names = ["slow", "slower", "fast", "missed-slow", "missed-fast"];
        for (name, ns) in names.into_iter().zip([3000.0, 4000.0, 2000.0, 2500.0, 1000.0]) {
            add(&mut manifest, name, &format!("{name}/x"), &[1024]);
            let result = result(&mut manifest, name, 1, &[(1024, ns)]);
            match name.strip_prefix("missed") {
                Some(_) => result.cells[0].trials[0].rate_missed = true,
                None => result.path_proof.as_mut().unwrap().verdict = Verdict::Failed,
            }
        }
        let text = text(&manifest);
        let marked: Vec<&str> =
            text.lines().filter(|line| line.contains('!')).filter_map(|line| line.split('/').next()).collect();
        assert_eq!(marked, ["fast", "slow", "slower", "missed-fast", "missed-slow"], "{text}");
    }

    #[test]
    fn lines_tell_what_they_differ_in() {
        let mut manifest = fixture::manifest();
        for (name, wait) in [("poll", Wait::Poll), ("block", Wait::Block)] {
            add(&mut manifest, name, "fastdds/udp?mode=sync&history=16", &[1024]).wait = wait;
            result(&mut manifest, name, 1, &[(1024, 1000.0)]);
        }
        let text = text(&manifest);
        for line in ["fastdds/udp?history=16", "  &mode=sync, poll", "  &mode=sync, block"] {
            assert!(text.lines().any(|found| found.starts_with(line)), "{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn nothing_measured_is_said() {
        assert_eq!(text(&fixture::manifest()), "Nothing was measured.\n");
    }

    #[test]
    fn that_all_was_lost_is_said_once() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "udp", "udp/loopback", &[64]);
        let cell = &mut result(&mut manifest, "udp", 1, &[(64, 1000.0)]).cells[0];
        fixture::set_trips(cell, 0);
        put(&mut cell.trials[0], &[(Figure::Received, 0.0), (Figure::Sent, 200.0), (Figure::Lost, 200.0)]);
        let expected = "\
path proofs: 1 ok

* udp at 64: no message arrived intact and in time: 200 lost; the exit code is
  75 then (--allow-loss)
";
        assert_eq!(text(&manifest), expected);
    }

    #[test]
    fn intervals_do_not_widen_the_screen_and_a_floor_without_a_ratio_is_left_out() {
        let mut manifest = fixture::manifest();
        let sizes = [1024, 65536, 1 << 20];
        add(&mut manifest, "iox2", "iceoryx2/publish-subscribe", &sizes);
        let cells = &mut result(&mut manifest, "iox2", 1, &sizes.map(|size| (size, 51_600.0))).cells;
        for cell in cells {
            let within = [(Statistic::P50, 51_500.0, 51_700.0), (Statistic::P99, 103_000.0, 104_000.0)];
            fixture::put_within(&mut cell.trials[0], Figure::RttHalf, &within);
        }
        let text = Text { has_intervals: true, ..Text::default() }.render(&screen(&manifest, false));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("51.5..") && text.contains("51.7") && !text.contains("floor"), "{text}");
    }

    #[test]
    fn round_trips_at_a_rate_have_a_table_of_each_time_apart_from_the_others() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "plain", "uds/stream", &[1024]);
        result(&mut manifest, "plain", 1, &[(1024, 1000.0)]);
        crate::fixture::add_calls(&mut manifest, "paced", "uds/stream", Mode::FixedFreq, 1);
        manifest.plan.sub_experiments[1].pattern = Pattern::PingPong;
        let trial = fixture::trial_of(&mut manifest, 1);
        fixture::put_times(trial, &Stream::all(), Figure::OneWay, (1000, 10e3));
        let text = text(&manifest);
        let titles: Vec<&str> = text.lines().filter(|line| line.starts_with("pingpong")).collect();
        assert_eq!(titles, ["pingpong", "pingpong, 1000 /s", "pingpong, 1000 /s", "pingpong, 1000 /s"], "{text}");
        for what in ["half a round trip", "round trip, since due", "round trip, since sent", "one way, since sent"] {
            assert_eq!(text.matches(what).count(), 1, "{text}");
        }
        assert_eq!(text.matches("uds/stream").count(), 4, "{text}");
        let all = fixture::all(&manifest);
        let captions: Vec<&str> = all.lines().filter(|line| line.starts_with("All transports")).collect();
        assert_eq!(captions, ["All transports, pattern pingpong", "All transports, pattern pingpong, at a rate"]);
    }

    /// Round trips at 1 kHz of each of these, with their medians.
    fn paced(systems: &[(&str, &str, f64)]) -> Manifest {
        let mut manifest = fixture::manifest();
        for (index, (name, transport, median)) in systems.iter().enumerate() {
            crate::fixture::add_calls(&mut manifest, name, transport, Mode::FixedFreq, 1);
            manifest.plan.sub_experiments[index].pattern = Pattern::PingPong;
            let trial = fixture::trial_of(&mut manifest, index);
            fixture::put_times(trial, &Stream::all(), Figure::ServiceRtt, (1000, *median));
        }
        manifest
    }

    #[test]
    fn a_missed_rate_is_marked_last_and_not_compared_with_the_floor() {
        let systems = [("mq", "mq/queue", 5e3), ("uds", "uds/stream", 2e3), ("shm", "shm/ring", 1e3)];
        let mut manifest = paced(&systems);
        let table = |manifest: &Manifest| {
            let blocks = screen(manifest, false).blocks.into_iter();
            let mut tables =
                blocks.filter_map(|block| if let Block::Table(table) = block { Some(table) } else { None });
            tables.find(|table| table.columns[0].title.ends_with("since sent")).unwrap()
        };
        let rows = |manifest: &Manifest| {
            let document = Document { blocks: vec![Block::Table(table(manifest))] };
            let text = fixture::squeezed(&Text::default().render(&document));
            text.into_iter().filter(|line| line.contains('/') && !line.contains("1000 /s")).collect::<Vec<_>>()
        };
        let bars = |row: &String| row.trim_end_matches(['▇', ' ']).to_owned();
        let found: Vec<String> = rows(&manifest).iter().map(bars).collect();
        assert_eq!(
            found,
            ["shm/ring 1.00 2.00 floor", "uds/stream 2.00 4.00 ×2.00", "mq/queue 5.00 10.0 ×5.00"],
            "{found:?}"
        );
        fixture::trial_of(&mut manifest, 1).rate_missed = true;
        let found: Vec<String> = rows(&manifest).iter().map(bars).collect();
        assert_eq!(
            found,
            ["shm/ring 1.00 2.00 floor", "mq/queue 5.00 10.0 ×5.00", "uds/stream !2.00 !4.00 -"],
            "{found:?}"
        );
        let csv = crate::render::csv(&table(&manifest));
        let header = "transport,1k_p50,1k_p50_mark,1k_p99,1k_p99_mark,floor,distance";
        assert_eq!(csv.lines().next(), Some(header), "{csv}");
        assert!(csv.lines().last().unwrap().starts_with("uds/stream,2000,!,4000,!,,"), "{csv}");
        let missed = |manifest: &Manifest| {
            let text = fixture::squeezed(&text(manifest)).join(" ");
            assert_eq!(text.matches("RATE MISSED").count(), 1, "{text}");
            text
        };
        let one = missed(&manifest);
        assert!(
            one.contains(" ! uds at 1k, 1000 /s: RATE MISSED: 990 messages /s were sent, 0 of 1000 messages "),
            "{one}"
        );
        let trial = fixture::trial_of(&mut manifest, 0);
        (trial.rate_missed, trial.cut_short) = (true, Some("time cap".into()));
        let both = missed(&manifest);
        assert!(both.contains(" 2 × rate missed: ! mq at 1k, 1000 /s: RATE MISSED: "), "{both}");
        assert!(both.contains(" * mq at 1k, 1000 /s: time cap "), "{both}");
        fixture::trial_of(&mut manifest, 2).rate_missed = true;
        assert!(rows(&manifest).iter().all(|row| row.ends_with(" -") || row.ends_with(" floor")), "{manifest:?}");
    }

    #[test]
    fn calls_time_out_and_fail_and_are_not_lost() {
        let mut manifest = paced(&[("uds", "uds/stream", 2e3)]);
        let counts = tripmeter_model::manifest::Counts {
            sent: 1000,
            received: 989,
            lost: 10,
            late: 4,
            damaged: 1,
            ..Default::default()
        };
        let cell = &mut manifest.sub_experiments[0].cells[0];
        cell.trials[0].put_counts(&Stream::all(), &counts, true);
        (cell.samples, cell.samples_planned) = (989, 1000);
        let page = text(&manifest);
        assert!(page.contains("\nuds at 1k: 10 timed out, 1 failed, 4 answered late\n"), "{page}");
        assert!(page.contains("\nuds at 1k: some timed out or failed\n"), "{page}");
        let counts = tripmeter_model::manifest::Counts { sent: 10, lost: 10, ..Default::default() };
        let mut trial = tripmeter_model::trial::Trial::new(OfferedLoad::Rate { hz: 1000.0 });
        trial.put_counts(&Stream::all(), &counts, true);
        manifest.sub_experiments[0].cells[0].trials[0] = trial;
        let page = fixture::text(&screen(&manifest, true));
        assert!(page.contains("* uds at 1k: no call succeeded: 10 timed out; the exit code is 75"), "{page}");
        assert_eq!(page.matches("uds at 1k").count(), 1, "{page}");
        assert!(!page.contains(" lost") && !page.contains("damaged"), "{page}");
    }
}
