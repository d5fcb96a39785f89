//! Figures by address in tables, and comparisons of several runs with their verdicts.

use crate::document::{Block, Cell, Column, Digits, Document, Note, PairFormat, Severity, Table};
use crate::number::{counted, per_cent, significant};
use tripmeter_analysis::comparison::JudgedFigure;
use tripmeter_model::address::FigureAddress;
use tripmeter_model::figure::{Figure, Unit};
use tripmeter_model::metric::Interval;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::verdict::FigureVerdict;
use tripmeter_stats::change::Control;
use tripmeter_stats::power::Layout;
use tripmeter_stats::runs::Question;

/// Columns of a figure's address within its sub-experiment; without the load if all rows are of closed loops.
pub fn address_columns() -> [Column; 3] {
    [
        Column::numbers("payload_bytes", "payload", "", Digits::Size, ""),
        Column::words("offered_load", "load", "").if_any(),
        Column::words("figure", "figure", ""),
    ]
}

/// Cells of [`address_columns`].
pub fn address_cells(address: &FigureAddress) -> [Cell; 3] {
    let load = if address.load == OfferedLoad::Closed { String::new() } else { address.load.to_string() };
    let size = match address.has_several_sizes {
        true => Cell::text(address.size()),
        false => Cell::number(address.payload_bytes as f64),
    };
    [size, Cell::text(load), Cell::text(address.name())]
}

/// Column of values of any figure, times in microseconds.
pub fn value_column(id: &str, title: &str) -> Column {
    Column::numbers(id, title, "µs", Digits::Fixed(3), "")
}

/// Value in a [`value_column`], with its unit unless it is a time; missing if there is none.
pub fn value_cell(figure: Figure, value: Option<f64>) -> Cell {
    with_interval(figure, value, None)
}

fn with_interval(figure: Figure, value: Option<f64>, interval: Option<Interval>) -> Cell {
    let (factor, unit) = match figure.unit() {
        Unit::Ns => (1.0, ""),
        Unit::Share => (100.0, "%"),
        Unit::Hz => (1.0, "/s"),
        Unit::Bytes => (1.0, "bytes"),
        Unit::BytesPerS => (1.0, "bytes/s"),
        Unit::Count => (1.0, "n"),
    };
    let Some(value) = value else { return Cell::maybe(None) };
    let interval = interval.map(|Interval { low, high }| Interval { low: factor * low, high: factor * high });
    let number = Cell::Number { value: factor * value, interval, mark: "" };
    if unit.is_empty() { number } else { Cell::InUnit(Box::new(number), unit) }
}

/// Share as a change in per cent, with its sign; missing if it is not a number.
pub fn change_cell(share: Option<f64>) -> Cell {
    // Without the noise of binary fractions, and never -0.
    Cell::maybe(share.filter(|share| !share.is_nan()).map(|share| per_cent(share) + 0.0))
}

/// Beginning of notes on figures without a limit or measurement.
pub const NOT_CHECKED: &str = "not checked";
/// Beginning of notes on figures that only one of two results has.
pub const NOT_COMPARED: &str = "not compared";

/// Note on something that only one side has; it begins with `FAILED` if that fails, else with `kind`.
pub fn of_one_side(text: &str, kind: &str, fails: bool) -> Note {
    let (severity, begin) = if fails { (Severity::Error, "FAILED") } else { (Severity::Info, kind) };
    Note::new(severity, "of one side only", None, format!("{begin}: {text}"))
}

/// Note on sub-experiments, if there are any.
pub fn lacking(names: &[String], what: &str, kind: &str, fails: bool) -> Option<Note> {
    let text = || format!("{} {what}: {}", counted(names.len(), "sub-experiment"), names.join(", "));
    (!names.is_empty()).then(|| of_one_side(&text(), kind, fails))
}

/// Text for figures that have limits, but were not measured.
pub const NOT_MEASURED: &str = "not measured";

/// Note that fails a sub-experiment although its figures pass, if there is a reason.
pub fn distrusted(name: &str, why: &Option<String>) -> Option<Note> {
    let text = format!("FAILED: {name}: {}", why.as_ref()?);
    Some(Note::error("not trusted", text))
}

/// Notes on transports that could not run; failures if `strict`.
pub fn could_not_run(lines: &[String], strict: bool) -> impl Iterator<Item = Note> {
    lines.iter().map(move |line| match strict {
        true => Note::error("could not run", format!("FAILED: {line}")),
        false => Note::warning("could not run", format!("note: {line}")),
    })
}

/// Further notes on a sub-experiment.
pub fn known<'a>(name: &'a str, notes: &'a [String]) -> impl Iterator<Item = Note> + 'a {
    notes.iter().map(move |why| Note::warning("to be known", format!("note: {name}: {why}")))
}

pub struct JudgedRow<'a> {
    pub name: &'a str,
    /// Number of its figures that passed, and of all its figures.
    pub passed: [usize; 2],
    /// Worst figure, and by how much it is worse.
    pub worst: Option<(String, Cell)>,
    /// True if none of its figures failed.
    pub is_good: bool,
}

/// Page of judged sub-experiments: tables of all figures, a row for each sub-experiment, notes and the verdict. `worst`
/// and `change` have id and title of the two columns of the worst figure.
pub fn page<'a>(
    details: impl Iterator<Item = Table>,
    [worst, change]: [[&str; 2]; 2],
    rows: impl Iterator<Item = JudgedRow<'a>>,
    notes: Vec<Note>,
    verdict: String,
) -> Document {
    let columns = vec![
        Column::words("sub_experiment", "sub-experiment", ""),
        Column { is_right: true, ..Column::words("passed", "passed", "") },
        Column::words(worst[0], worst[1], ""),
        Column::numbers(change[0], change[1], "", Digits::Change, ""),
        Column::words("verdict", "verdict", ""),
    ];
    let row = |JudgedRow { name, passed: [passed, of], worst, is_good }: JudgedRow<'_>| {
        let (figure, change) = worst.unwrap_or_else(|| (String::new(), Cell::text("")));
        let verdict = Cell::text(match is_good {
            false => "FAILED",
            // The remaining figures neither passed nor failed.
            true if passed < of => "inconclusive",
            true => "passed",
        });
        (None, vec![Cell::text(name), Cell::text(format!("{passed}/{of}")), Cell::text(figure), change, verdict])
    };
    let rows: Vec<_> = rows.map(row).collect();
    let mut blocks: Vec<Block> = details.map(Block::Table).collect();
    if !rows.is_empty() {
        blocks.push(Block::Table(Table::new(String::new(), columns, rows)));
    }
    blocks.extend(Block::notes(notes));
    blocks.push(Block::Text(verdict));
    Document { blocks }
}

/// Legend of the columns, a line each; `has_intervals` if the sides have intervals.
pub fn legend(question: &Question, sides: [&str; 2], has_intervals: bool) -> String {
    let [reference, result] = sides;
    let (estimate, interval, unit) = match question.layout {
        Layout::Paired => ("pairs of runs", "below the ratio", "pairs"),
        Layout::Independent => ("all pairs of runs", "interval", "runs"),
    };
    let and_interval = if has_intervals { ", with its 95 % confidence interval" } else { "" };
    format!(
        "{reference}, {result}: median of the figure over runs, times in µs{and_interval}. k = 1024 bytes.\n\
         ratio: {result} / {reference}, the Hodges-Lehmann estimate over {estimate}, not the quotient of the medians.\n\
         {interval}: exact confidence interval of the ratio, from ranks, widened for the number of comparisons.\n\
         p: p-value of the test that the change is within the margin, corrected for multiple comparisons.\n\
         detectable: the smallest slowdown that this many {unit} would detect {} of the time; - = too few {unit}, or 0 in a run.\n",
        percent(question.power)
    )
}

/// Table of runs that are not in pairs, a row for each figure.
pub fn table(title: &str, all: &[JudgedFigure], sides: [&str; 2]) -> Table {
    let side = |side: &str| value_column(&format!("{}_ns", side.to_lowercase()), side);
    let columns = address_columns().into_iter().chain([
        Column {
            pair: PairFormat { joint: "+", second: None },
            ..Column::numbers("runs", "runs", "", Digits::Integer, "")
        },
        side(sides[0]),
        side(sides[1]),
        Column::numbers("ratio", "ratio", "", Digits::Fixed(3), ""),
        Column { is_ratio: true, ..Column::numbers("interval", "interval", "", Digits::Fixed(3), "") },
    ]);
    let seen_from = Column::numbers("seen_from_percent", "detectable", "", Digits::Change, "");
    let row = |one: &JudgedFigure| {
        let runs = one.comparison.runs;
        let cells = address_cells(&one.address).into_iter().chain([
            Cell::Pair(Box::new(runs.map(|runs| Cell::number(runs as f64)))),
            side_cell(one, 0, true),
            side_cell(one, 1, true),
            Cell::number(one.comparison.judged.ratio),
            Cell::Range(bounded(one.comparison.judged.interval)),
        ]);
        (None, cells.chain(verdict_cells(one, Cell::maybe(seen_from_percent(one)))).collect())
    };
    Table::new(title.to_owned(), columns.chain(verdict_columns(seen_from)).collect(), all.iter().map(row).collect())
}

/// Table of pairs of runs in 80 columns, a row for each figure: the ratio has its interval below, the sides only if
/// requested.
pub fn table_of_pairs(all: &[JudgedFigure], sides: [&str; 2], has_intervals: bool) -> Table {
    let pairs = all.first().map_or(0, |one| one.comparison.runs[0]);
    let is_same = all.iter().all(|one| one.comparison.runs[0] == pairs);
    let side = |side: &str| Column {
        narrow_head: Some(side.to_owned()),
        ..value_column(&format!("{}_ns", side.to_lowercase()), side)
    };
    let ratio = Column {
        narrow_head: Some("ratio\nby pair".to_owned()),
        ..Column::numbers("ratio", "ratio by pair", "", Digits::Fixed(3), "")
    };
    let columns = address_columns().into_iter().chain([
        Column::numbers("runs", "pairs", "", Digits::Integer, "").if_any(),
        side(sides[0]),
        side(sides[1]),
        Column { is_ratio: true, has_intervals: true, ..ratio },
    ]);
    let seen_from = Column {
        narrow_head: Some("detect-\nable %".to_owned()),
        ..Column::numbers("seen_from_percent", "detectable", "%", Digits::Signed, "")
    };
    let row = |one: &JudgedFigure| {
        let judged = &one.comparison.judged;
        let (runs, interval) = (one.comparison.runs[0] as f64, Some(bounded(judged.interval)));
        let cells = address_cells(&one.address).into_iter().chain([
            if is_same { Cell::NOTHING } else { Cell::number(runs) },
            side_cell(one, 0, has_intervals),
            side_cell(one, 1, has_intervals),
            Cell::Number { value: judged.ratio, interval, mark: "" },
        ]);
        (None, cells.chain(verdict_cells(one, Cell::maybe(seen_from_percent(one)))).collect())
    };
    let title =
        if is_same { format!("{} of runs, times in µs", counted(pairs, "pair")) } else { "times in µs".to_owned() };
    Table::new(title, columns.chain(verdict_columns(seen_from)).collect(), all.iter().map(row).collect())
}

fn verdict_columns(seen_from: Column) -> [Column; 3] {
    [Column::numbers("p", "p", "", Digits::PValue, ""), seen_from, Column::words("verdict", "verdict", "")]
}

fn verdict_cells(one: &JudgedFigure, seen_from: Cell) -> [Cell; 3] {
    [Cell::number(one.comparison.judged.p_changed), seen_from, verdict_cell(one.verdict())]
}

/// Verdict as text, loud if a figure is worse than its limit or reference.
pub fn verdict_cell(verdict: FigureVerdict) -> Cell {
    let text = verdict.to_string();
    let is_loud = matches!(verdict, FigureVerdict::Regressed | FigureVerdict::Failed);
    Cell::text(if is_loud { text.to_uppercase() } else { text })
}

/// Smallest increase that would be detected, in per cent.
fn seen_from_percent(one: &JudgedFigure) -> Option<f64> {
    one.comparison.min_detectable_effect.map(|ratio| (ratio - 1.0) * 100.0)
}

/// Interval; unbounded if there are too few runs for one.
fn bounded(interval: Option<Interval>) -> Interval {
    interval.unwrap_or(Interval::UNBOUNDED)
}

fn side_cell(one: &JudgedFigure, side: usize, has_interval: bool) -> Cell {
    let interval = has_interval.then(|| bounded(one.comparison.side_intervals[side]));
    with_interval(one.address.figure, Some(one.comparison.sides[side]), interval)
}

/// Verdict counts, false discovery rate, minimum detectable effect.
pub fn summary(all: &[JudgedFigure], question: &Question, effect: f64) -> String {
    use FigureVerdict::{Equivalent, Improved, Inconclusive, Regressed};
    let count = |verdict| all.iter().filter(|one| one.verdict() == verdict).count();
    let kinds = [Regressed, Improved, Equivalent, Inconclusive];
    let counts: Vec<String> = kinds.map(|kind| format!("{} {kind}", count(kind))).into();
    let wrong = match question.control {
        Control::Fdr(rate) => {
            format!("Of the changes reported, at most {} are expected to be false alarms", percent(rate))
        }
        Control::Fwer(rate) => format!("The probability of even one false alarm is at most {}", percent(rate)),
    };
    let margin = percent(question.margin);
    format!("{}; margin {margin}. {wrong}.\n", counts.join(", ")) + &blindness(all, question, effect) + &clocks(all)
}

/// Quotient of two medians, if it is outside the interval of their ratio: runs fall into modes, and the medians are
/// from different ones.
pub fn quotient_outside([reference, result]: [f64; 2], interval: Option<Interval>) -> Option<f64> {
    let (quotient, interval) = (result / reference, interval?);
    (quotient.is_finite() && (quotient < interval.low || quotient > interval.high)).then_some(quotient)
}

/// Notes on figures whose ratio differs from the quotient of the medians.
pub fn modes(all: &[JudgedFigure], sides: [&str; 2]) -> Vec<Note> {
    let note = |one: &JudgedFigure| {
        let quotient = quotient_outside(one.comparison.sides, one.comparison.judged.interval)?;
        let ([reference, result], place, name) = (sides, one.address.place(), one.address.name());
        let (quotient, ratio) = (significant(quotient, 3, 3), significant(one.comparison.judged.ratio, 3, 3));
        let text = format!(
            "{name} at {place}: {result} / {reference} is {quotient} by the medians, but {ratio} by the runs, because \
             runs fall into two groups; the verdict uses the latter"
        );
        Some(Note::warning("medians and ratio differ", text))
    };
    all.iter().filter_map(note).collect()
}

/// Note that the clocks of two hosts add an error to latencies.
fn clocks(all: &[JudgedFigure]) -> String {
    let latencies = all.iter().filter(|one| one.address.figure.unit() == Unit::Ns);
    let most_ns = latencies.flat_map(|one| one.comparison.errors).fold(0.0, f64::max);
    if most_ns == 0.0 {
        return String::new();
    }
    let most = significant(most_ns / 1e3, 3, 3);
    format!("two clocks add an error of up to {most} µs to latencies; intervals and verdicts include it\n")
}

/// Note that a change of this size may have been missed.
fn blindness(all: &[JudgedFigure], question: &Question, effect: f64) -> String {
    let is_seen = |one: &&JudgedFigure| {
        one.comparison.min_detectable_effect.is_some_and(|ratio| ratio.max(ratio.recip()) <= 1.0 + effect)
    };
    // A figure that is 0 in a run has no detectable effect.
    let able = || all.iter().filter(|one| one.comparison.log_sd.is_some() && one.is_bounded);
    let seen = able().filter(is_seen).count();
    if seen == able().count() {
        return String::new();
    }
    let Some((hardest, needed)) = JudgedFigure::hardest(all, question, effect) else { return String::new() };
    let runs = if question.layout == Layout::Paired { "pairs" } else { "runs of each side" };
    let needed = needed.map_or("more than a million".to_owned(), |needed| format!("about {needed}"));
    let able = able().count();
    format!(
        "Too noisy to detect a {} slowdown in {} of {}. To detect it in all with {} probability, {needed} {runs} are \
         needed (for {} {}).\n",
        percent(effect),
        able - seen,
        counted(able, "figure"),
        percent(question.power),
        hardest.address.name(),
        hardest.address.at()
    )
}

/// Share as `2 %`, without the noise of binary fractions.
pub fn percent(share: f64) -> String {
    format!("{} %", per_cent(share))
}
