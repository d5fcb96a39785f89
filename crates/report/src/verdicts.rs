//! Comparisons of several runs with their verdicts.

use crate::document::{Cell, Column, Digits, Table};
use tripmeter_model::metric::Interval;
use tripmeter_model::payload::display_size;
use tripmeter_stats::change::{ChangeVerdict, Control};
use tripmeter_stats::power::Layout;
use tripmeter_stats::runs::{Comparison, Question, runs_needed};

/// What figures are the duration of where both sides are measured by round trips.
pub const RTT_HALF: &str = "rtt_half, half of a round trip";

/// What the columns mean, a line each. `latency` says what the figures are the duration of.
pub fn legend(question: &Question, sides: [&str; 2], latency: &str) -> String {
    let [reference, result] = sides;
    let (estimate, unit) = match question.layout {
        Layout::Paired => ("of pairs of runs", "pairs"),
        Layout::Independent => ("of all pairs of runs", "runs of either side"),
    };
    format!(
        "{reference}, {result}: median over runs of {latency}, and its interval at 95 %. k = 1024 bytes.\n\
         ratio: {result} / {reference}, the Hodges-Lehmann estimate {estimate}.\n\
         interval: exact, of ranks, as wide as the number of comparisons asks for.\n\
         p: of no change beyond the margin, adjusted for the number of comparisons.\n\
         seen from: the smallest increase that so many {unit} show with a probability of {}; - = too few to show any.\n",
        percent(question.power)
    )
}

/// A row for each comparison.
pub fn table(title: &str, comparisons: &[Comparison], question: &Question, sides: [&str; 2]) -> Table {
    let side = |side: &str| {
        let id = format!("{}_ns", side.to_lowercase());
        Column::numbers(&id, side, "µs", Digits::Fixed(3), "")
    };
    let number = |id, title, digits| Column::numbers(id, title, "", digits, "");
    let right = |id, title| Column { is_right: true, ..Column::words(id, title, "") };
    let runs = if question.layout == Layout::Paired { "pairs" } else { "runs" };
    let columns = vec![
        number("payload_bytes", "payload", Digits::Size),
        Column::words("figure", "figure", ""),
        right("runs", runs),
        side(sides[0]),
        side(sides[1]),
        number("ratio", "ratio", Digits::Fixed(3)),
        number("interval", "interval", Digits::Fixed(3)),
        number("p", "p", Digits::PValue),
        number("seen_from_percent", "seen from", Digits::Change),
        Column::words("verdict", "verdict", ""),
    ];
    let rows = comparisons.iter().map(|one| (None, row(one, question.layout)));
    Table::new(title.to_owned(), columns, rows.collect())
}

fn row(one: &Comparison, layout: Layout) -> Vec<Cell> {
    let judged = &one.judged;
    let verdict = match judged.verdict {
        ChangeVerdict::Regressed => "REGRESSED",
        verdict => verdict.name(),
    };
    vec![
        Cell::number(one.payload_bytes as f64),
        Cell::text(one.figure.name()),
        match layout {
            Layout::Paired => Cell::text(one.runs[0].to_string()),
            Layout::Independent => Cell::text(format!("{}+{}", one.runs[0], one.runs[1])),
        },
        side(one, 0),
        side(one, 1),
        Cell::number(judged.ratio),
        Cell::Range(bounded(judged.interval.map(|interval| [interval.low, interval.high]))),
        Cell::number(judged.p_changed),
        Cell::maybe(one.detectable.map(|ratio| (ratio - 1.0) * 100.0)),
        Cell::text(verdict),
    ]
}

/// An interval; without bounds if there are too few runs for one.
fn bounded(ends: Option<[f64; 2]>) -> Interval {
    let [low, high] = ends.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
    Interval { low, high }
}

/// The figure of a side with its interval: a time, or in its unit.
fn side(one: &Comparison, side: usize) -> Cell {
    let (value, interval) = (one.sides[side], Some(bounded(one.side_intervals[side])));
    let figure = Cell::Number { value, interval, mark: "" };
    match one.figure.unit() {
        "ns" => figure,
        unit => Cell::InUnit(Box::new(figure), unit),
    }
}

/// Verdict counts, false discovery rate, minimum detectable effect.
pub fn summary(comparisons: &[Comparison], question: &Question, effect: f64) -> String {
    let count = |verdict| comparisons.iter().filter(|one| one.judged.verdict == verdict).count();
    let kinds =
        [ChangeVerdict::Regressed, ChangeVerdict::Improved, ChangeVerdict::Equivalent, ChangeVerdict::Inconclusive];
    let counts: Vec<String> = kinds.map(|kind| format!("{} {}", count(kind), kind.name())).into();
    let wrong = match question.control {
        Control::FalseDiscoveries(rate) => {
            format!("at most {} of changes called are expected to be wrong", percent(rate))
        }
        Control::AnyError(rate) => format!("a single wrong verdict has a probability of at most {}", percent(rate)),
    };
    let margin = percent(question.margin);
    format!("{}; margin {margin}; {wrong}\n", counts.join(", ")) + &blindness(comparisons, question, effect)
}

/// A line if a change of that size may have been missed.
fn blindness(comparisons: &[Comparison], question: &Question, effect: f64) -> String {
    let is_seen = |one: &&Comparison| one.detectable.is_some_and(|ratio| ratio.max(ratio.recip()) <= 1.0 + effect);
    let seen = comparisons.iter().filter(is_seen).count();
    if seen == comparisons.len() {
        return String::new();
    }
    let Some((hardest, needed)) = runs_needed(comparisons, question, effect) else { return String::new() };
    let runs = if question.layout == Layout::Paired { "pairs" } else { "runs of either side" };
    let needed = needed.map_or("more than a million".to_owned(), |needed| needed.to_string());
    format!(
        "not enough for {:+.1} %: {} of {} comparisons show it with a probability of {}; all of them would with {needed} {runs} (most for {} at {})\n",
        effect * 100.0,
        seen,
        comparisons.len(),
        percent(question.power),
        hardest.figure.name(),
        display_size(hardest.payload_bytes)
    )
}

/// A share as `2 %`, without the noise of binary fractions.
pub fn percent(share: f64) -> String {
    format!("{} %", (share * 1e8).round() / 1e6)
}
