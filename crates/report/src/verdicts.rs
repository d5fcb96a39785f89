//! Figures by address in tables, and comparisons of several runs with their verdicts.

use crate::document::{Cell, Column, Digits, Note, Severity, Table};
use crate::number::fixed;
use tripmeter_analysis::comparison::JudgedFigure;
use tripmeter_model::address::FigureAddress;
use tripmeter_model::figure::{Figure, Unit};
use tripmeter_model::metric::Interval;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_stats::change::{ChangeVerdict, Control};
use tripmeter_stats::power::Layout;
use tripmeter_stats::runs::Question;

/// Where a figure is, within its sub-experiment. The load is shown only where it is not a closed loop everywhere.
pub fn address_columns() -> [Column; 3] {
    [
        Column::numbers("payload_bytes", "payload", "", Digits::Size, ""),
        Column::words("offered_load", "load", "").if_any(),
        Column::words("figure", "figure", ""),
    ]
}

/// A cell for each of [`address_columns`].
pub fn address_cells(address: &FigureAddress) -> [Cell; 3] {
    let load = if address.load == OfferedLoad::Closed { String::new() } else { address.load.to_string() };
    [Cell::number(address.payload_bytes as f64), Cell::text(load), Cell::text(address.name())]
}

/// A column of values of any figure, times in microseconds.
pub fn value_column(id: &str, title: &str) -> Column {
    Column::numbers(id, title, "µs", Digits::Fixed(3), "")
}

/// A value in a [`value_column`], with its unit unless it is a time; missing if there is none.
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

/// A share as a change in per cent, with its sign; missing if it is no number.
pub fn change_cell(share: Option<f64>) -> Cell {
    // Without the noise of binary fractions, and never -0.
    Cell::maybe(share.filter(|share| !share.is_nan()).map(|share| (share * 1e8).round() / 1e6 + 0.0))
}

/// A note of what only one side has.
pub fn one_sided(names: &[String], what: &str, fails: bool) -> Option<Note> {
    let (severity, begin) = if fails { (Severity::Error, "FAILED") } else { (Severity::Info, "not compared") };
    let text = || format!("{begin}: {what}: {}", names.join(", "));
    (!names.is_empty()).then(|| Note::new(severity, "of one side only", None, text()))
}

/// What the columns mean, a line each.
pub fn legend(question: &Question, sides: [&str; 2]) -> String {
    let [reference, result] = sides;
    let (estimate, unit) = match question.layout {
        Layout::Paired => ("of pairs of runs", "pairs"),
        Layout::Independent => ("of all pairs of runs", "runs of either side"),
    };
    format!(
        "{reference}, {result}: median over runs of the figure, times in µs, and its interval at 95 %. k = 1024 bytes.\n\
         ratio: {result} / {reference}, the Hodges-Lehmann estimate {estimate}.\n\
         interval: exact, of ranks, as wide as the number of comparisons asks for.\n\
         p: of no change beyond the margin, adjusted for the number of comparisons.\n\
         seen from: the smallest increase that so many {unit} show with a probability of {}; - = too few to show any, or 0 in a run.\n",
        percent(question.power)
    )
}

/// A row for each figure.
pub fn table(title: &str, all: &[JudgedFigure], question: &Question, sides: [&str; 2]) -> Table {
    let side = |side: &str| value_column(&format!("{}_ns", side.to_lowercase()), side);
    let number = |id, title, digits| Column::numbers(id, title, "", digits, "");
    let right = |id, title| Column { is_right: true, ..Column::words(id, title, "") };
    let runs = if question.layout == Layout::Paired { "pairs" } else { "runs" };
    let columns = address_columns().into_iter().chain([
        right("runs", runs),
        side(sides[0]),
        side(sides[1]),
        number("ratio", "ratio", Digits::Fixed(3)),
        number("interval", "interval", Digits::Fixed(3)),
        number("p", "p", Digits::PValue),
        number("seen_from_percent", "seen from", Digits::Change),
        Column::words("verdict", "verdict", ""),
    ]);
    let rows = all.iter().map(|one| (None, row(one, question.layout)));
    Table::new(title.to_owned(), columns.collect(), rows.collect())
}

fn row(one: &JudgedFigure, layout: Layout) -> Vec<Cell> {
    let (comparison, judged) = (&one.comparison, &one.comparison.judged);
    let verdict = if one.is_regressed() { "REGRESSED" } else { judged.verdict.name() };
    let cells = address_cells(&one.address).into_iter().chain([
        match layout {
            Layout::Paired => Cell::text(comparison.runs[0].to_string()),
            Layout::Independent => Cell::text(format!("{}+{}", comparison.runs[0], comparison.runs[1])),
        },
        side(one, 0),
        side(one, 1),
        Cell::number(judged.ratio),
        match judged.interval {
            // From 0 to something, in some or all pairs of runs.
            Some(Interval { low, high }) if high.is_infinite() => Cell::text(format!("{}..{high}", fixed(low, 3))),
            interval => Cell::Range(bounded(interval)),
        },
        Cell::number(judged.p_changed),
        Cell::maybe(comparison.min_detectable_effect.map(|ratio| (ratio - 1.0) * 100.0)),
        Cell::text(verdict),
    ]);
    cells.collect()
}

/// An interval; without bounds if there are too few runs for one.
fn bounded(interval: Option<Interval>) -> Interval {
    interval.unwrap_or(Interval::UNBOUNDED)
}

/// The figure of a side with its interval.
fn side(one: &JudgedFigure, side: usize) -> Cell {
    let interval = bounded(one.comparison.side_intervals[side]);
    with_interval(one.address.figure, Some(one.comparison.sides[side]), Some(interval))
}

/// Verdict counts, false discovery rate, minimum detectable effect.
pub fn summary(all: &[JudgedFigure], question: &Question, effect: f64) -> String {
    let count = |verdict| all.iter().filter(|one| one.comparison.judged.verdict == verdict).count();
    let kinds =
        [ChangeVerdict::Regressed, ChangeVerdict::Improved, ChangeVerdict::Equivalent, ChangeVerdict::Inconclusive];
    let counts: Vec<String> = kinds.map(|kind| format!("{} {}", count(kind), kind.name())).into();
    let wrong = match question.control {
        Control::Fdr(rate) => {
            format!("at most {} of changes called are expected to be wrong", percent(rate))
        }
        Control::Fwer(rate) => format!("a single wrong verdict has a probability of at most {}", percent(rate)),
    };
    let margin = percent(question.margin);
    format!("{}; margin {margin}; {wrong}\n", counts.join(", ")) + &blindness(all, question, effect)
}

/// A line if a change of that size may have been missed.
fn blindness(all: &[JudgedFigure], question: &Question, effect: f64) -> String {
    let is_seen = |one: &&JudgedFigure| {
        one.comparison.min_detectable_effect.is_some_and(|ratio| ratio.max(ratio.recip()) <= 1.0 + effect)
    };
    // Of a figure that is 0 in a run there is nothing to say.
    let able = || all.iter().filter(|one| one.comparison.log_sd.is_some());
    let seen = able().filter(is_seen).count();
    if seen == able().count() {
        return String::new();
    }
    let Some((hardest, needed)) = JudgedFigure::hardest(all, question, effect) else { return String::new() };
    let runs = if question.layout == Layout::Paired { "pairs" } else { "runs of either side" };
    let needed = needed.map_or("more than a million".to_owned(), |needed| needed.to_string());
    format!(
        "not enough for {:+.1} %: {} of {} comparisons show it with a probability of {}; all of them would with {needed} {runs} (most for {} at {})\n",
        effect * 100.0,
        seen,
        able().count(),
        percent(question.power),
        hardest.address.name(),
        hardest.address.place()
    )
}

/// A share as `2 %`, without the noise of binary fractions.
pub fn percent(share: f64) -> String {
    format!("{} %", (share * 1e8).round() / 1e6)
}
