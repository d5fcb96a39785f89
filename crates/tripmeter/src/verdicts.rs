//! What commands that compare several runs have in common.

use serde_json::{Value, json};
use tripmeter_stats::change::Control;
use tripmeter_stats::power::Layout;
use tripmeter_stats::runs::{Comparison, Question};

/// The share of wrong ones that is expected among the changes called, at most.
pub const RATE: f64 = 0.05;
pub const CONTROL: Control = Control::FalseDiscoveries(RATE);

/// What was asked, for programs.
pub fn question_json(question: &Question) -> Value {
    let (control, rate) = match question.control {
        Control::FalseDiscoveries(rate) => ("false-discovery-rate", rate),
        Control::AnyError(rate) => ("family-wise", rate),
    };
    let layout = if question.layout == Layout::Paired { "pairs" } else { "independent" };
    json!({
        "runs": layout,
        "margin": question.margin,
        "control": control,
        "rate": rate,
        "power": question.power,
    })
}

/// A comparison, for programs.
pub fn comparison_json(one: &Comparison) -> Value {
    let judged = &one.judged;
    let names = if one.figure.unit() == "ns" { ["reference_ns", "result_ns"] } else { ["reference", "result"] };
    let mut value = json!({
        "payload_bytes": one.payload_bytes,
        "figure": one.figure.name(),
        "runs": one.runs,
        "unit": one.figure.unit(),
        "ratio": judged.ratio,
        "interval": judged.interval.map(|interval| [interval.low, interval.high]),
        "confidence": 1.0 - judged.alpha,
        "p_changed": judged.p_changed,
        "p_equivalent": judged.p_equivalent,
        "deviation": one.deviation,
        "seen_from": one.detectable,
        "verdict": judged.verdict.name(),
    });
    // What is no time has no unit in its names, but beside them.
    for ((name, side), interval) in names.into_iter().zip(one.sides).zip(one.side_intervals) {
        value[name] = json!(side);
        let (of, unit) = name.split_once('_').unwrap_or((name, ""));
        value[[of, "interval", unit].join("_").trim_end_matches('_')] = json!(interval);
    }
    value
}
