//! Comparisons of several runs with their verdicts.

use crate::grid::grid;
use crate::interval::TOO_SMALL;
use crate::number::micros;
use tripmeter_model::payload::display_size;
use tripmeter_stats::change::{Control, Verdict};
use tripmeter_stats::power::Layout;
use tripmeter_stats::runs::{Comparison, Question, runs_needed};

/// What figures are the duration of where both sides are measured by round trips.
pub const RTT_HALF: &str = "rtt_half, half of a round trip";

/// What the columns mean, for people. `latency` says what the figures are the duration of.
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
         seen from: the smallest increase that so many {unit} show with a probability of {};\n\
         - = too few to show any.\n",
        percent(question.power)
    )
}

/// A line for each comparison.
pub fn table(comparisons: &[Comparison], question: &Question, sides: [&str; 2]) -> String {
    let [reference, result] = sides.map(|side| format!("{side} [µs]"));
    let runs = if question.layout == Layout::Paired { "pairs" } else { "runs" };
    let header = [
        "payload",
        "figure",
        runs,
        reference.as_str(),
        result.as_str(),
        "ratio",
        "interval",
        "p",
        "seen from",
        "verdict",
    ];
    grid(header, &[0, 2, 3, 4, 5, 6, 7, 8], comparisons.iter().map(|one| row(one, question.layout)))
}

fn row(one: &Comparison, layout: Layout) -> [String; 10] {
    let judged = &one.judged;
    let interval = judged.interval.map(|interval| format!("{:.3}..{:.3}", interval.low, interval.high));
    let verdict = match judged.verdict {
        Verdict::Regressed => "REGRESSED",
        verdict => verdict.name(),
    };
    [
        display_size(one.payload_bytes),
        one.figure.name().to_owned(),
        match layout {
            Layout::Paired => one.runs[0].to_string(),
            Layout::Independent => format!("{}+{}", one.runs[0], one.runs[1]),
        },
        side(one, 0),
        side(one, 1),
        format!("{:.3}", judged.ratio),
        interval.unwrap_or_else(|| TOO_SMALL.to_owned()),
        p_value(judged.p_changed),
        one.detectable.map_or("-".to_owned(), |ratio| format!("{:+.1} %", (ratio - 1.0) * 100.0)),
        verdict.to_owned(),
    ]
}

/// The figure of a side, a time in microseconds or with its unit, and below it its interval.
fn side(one: &Comparison, side: usize) -> String {
    let figure = match one.figure.unit() {
        "ns" => micros(one.sides[side]),
        unit => format!("{:.3} {unit}", one.sides[side]),
    };
    let written = |value: f64| if one.figure.unit() == "ns" { micros(value) } else { format!("{value:.3}") };
    let interval = one.side_intervals[side].map(|[low, high]| format!("{}..{}", written(low), written(high)));
    format!("{figure}\n{}", interval.unwrap_or_else(|| TOO_SMALL.to_owned()))
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") }
}

/// What came of all, how wrong it may be, and what cannot be told.
pub fn summary(comparisons: &[Comparison], question: &Question, effect: f64) -> String {
    let count = |verdict| comparisons.iter().filter(|one| one.judged.verdict == verdict).count();
    let kinds = [Verdict::Regressed, Verdict::Improved, Verdict::Equivalent, Verdict::Inconclusive];
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
        "not enough for {:+.1} %: {} of {} comparisons show it with a probability of {};\n\
         all of them would with {needed} {runs} (most for {} at {})\n",
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
