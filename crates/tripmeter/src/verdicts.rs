//! What commands that compare several runs have in common.

use serde_json::{Value, json};
use tripmeter_analysis::comparison::JudgedFigure;
use tripmeter_model::address::FigureAddress;
use tripmeter_stats::Interval;
use tripmeter_stats::change::Control;
use tripmeter_stats::power::Layout;
use tripmeter_stats::runs::Question;

/// The share of wrong ones that is expected among the changes called, at most.
pub const RATE: f64 = 0.05;
pub const CONTROL: Control = Control::Fdr(RATE);

/// What was asked, for programs.
pub fn question_json(question: &Question) -> Value {
    let (control, rate) = match question.control {
        Control::Fdr(rate) => ("false-discovery-rate", rate),
        Control::Fwer(rate) => ("family-wise", rate),
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

/// An address with the unit of its figure, for programs.
pub fn address_json(address: &FigureAddress) -> Value {
    let mut value = json!(address);
    value["unit"] = json!(address.unit().as_str());
    value
}

/// Whether two addresses are of one line in a plot over payloads: they differ in nothing else.
pub fn is_same_line(one: &FigureAddress, other: &FigureAddress) -> bool {
    FigureAddress { payload_bytes: one.payload_bytes, ..other.clone() } == *one
}

/// The ends of an interval; JSON has no infinity, so an unbounded one is null.
fn ends(interval: Interval) -> [f64; 2] {
    [interval.low, interval.high]
}

/// A judged figure, for programs.
pub fn judgement_json(one: &JudgedFigure) -> Value {
    let (comparison, judged) = (&one.comparison, &one.comparison.judged);
    let mut value = address_json(&one.address);
    for (name, of_one) in [
        ("runs", json!(comparison.runs)),
        ("ratio", json!(judged.ratio)),
        ("interval", json!(judged.interval.map(ends))),
        ("confidence", json!(1.0 - judged.alpha)),
        ("p_changed", json!(judged.p_changed)),
        ("p_equivalent", json!(judged.p_equivalent)),
        ("deviation", json!(comparison.log_sd)),
        ("seen_from", json!(comparison.min_detectable_effect)),
        ("verdict", json!(judged.verdict.name())),
        ("reference", json!(comparison.sides[0])),
        ("result", json!(comparison.sides[1])),
        ("reference_interval", json!(comparison.side_intervals[0].map(ends))),
        ("result_interval", json!(comparison.side_intervals[1].map(ends))),
    ] {
        value[name] = of_one;
    }
    value
}
