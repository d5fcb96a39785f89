//! Text page of the results.

use serde_json::Value;
use std::path::Path;
use tripmeter_model::number::{fixed, signed};

pub fn page(made: &Value, folder: Option<&Path>) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let form = text(&made["form"]);
    let mut page = format!("Selftest, {form} form, seed {}, {} s", made["seed"], fixed(number(&made["duration_s"]), 0));
    if made["status"] == "interrupted" {
        page += ", INTERRUPTED";
    }
    page += "\n\nTruth: stalls and losses injected into `inmem` are counted exactly\n";
    for one in all(&made["truth"]) {
        page += &match text(&one["what"]).as_str() {
            "stall" => format!(
                "  {} stall of {} ms in sample {}: its round trip took {} ms (p50 {} ms)\n",
                mark(one),
                number(&one["injected_ns"]) / 1e6,
                one["sample"],
                fixed(number(&one["rtt_ns"]) / 1e6, 3),
                fixed(number(&one["median_ns"]) / 1e6, 3)
            ),
            what => format!("  {} {what} of {} messages: {} lost\n", mark(one), one["injected"], one["lost"]),
        };
    }
    page += "\nOwn overhead: round trip minus that of a bare loop on the same CPUs, median of pairs\n";
    for one in all(&made["overhead"]) {
        if let Some(why) = one["left_out"].as_str() {
            page += &format!("  -  {}: left out: {why}\n", text(&one["transport"]));
            continue;
        }
        let interval = pair(&one["more_interval_ns"]).map(|ns| fixed(ns, 0));
        page += &format!(
            "  {} {}: p50 {} µs, bare {} µs: {} ns ({}; limit {} ns, {} pairs)\n",
            mark(one),
            text(&one["transport"]),
            fixed(number(&one["rtt_median_ns"]) / 1e3, 3),
            fixed(number(&one["bare_rtt_median_ns"]) / 1e3, 3),
            signed(number(&one["more_ns"]), 0),
            interval.join(".."),
            fixed(number(&one["limit_ns"]), 0),
            one["pairs"]
        );
    }
    page += "\nComparisons with known answers\n";
    for one in all(&made["comparisons"]) {
        page += &comparison(one);
    }
    page += "\nSmallest change of the p50 that is detected 95 % of the time\n";
    for one in all(&made["comparisons"]).filter(|one| !one["at_most"].is_null()) {
        let from = one["seen_from"].as_f64().map_or("none".to_owned(), |ratio| format!("+{}", percent(ratio - 1.0)));
        page += &format!(
            "  {}: {from}, in {} rounds of both sides, {} s (margin 0)\n",
            text(&one["phase"]).trim_start_matches("aa-"),
            one["rounds"],
            fixed(number(&one["seconds"]), 1)
        );
    }
    if let Some(folder) = folder {
        page += &format!("\nAll verdicts and their seeds are in '{}'.\n", folder.join("comparisons.jsonl").display());
    }
    page
}

fn comparison(one: &Value) -> String {
    let rate = |figure: &str| {
        let [low, high] = pair(&one["clopper_pearson"][figure]);
        format!("{} ({}..{})", one["called"][figure], percent(low), percent(high))
    };
    let made = match (one["comparisons"].as_u64(), one["planned"].as_u64()) {
        (Some(made), Some(planned)) if made < planned => format!("{made} of {planned}"),
        (made, _) => made.unwrap_or(0).to_string(),
    };
    let failed = match one["failed"].as_u64() {
        Some(failed) if failed > 0 => format!("; {failed} had rounds in which a side failed"),
        _ => String::new(),
    };
    let what = one["what"].as_str().unwrap_or("-");
    if one["comparisons"] == 0 {
        return format!("  NOT MADE {what}\n");
    }
    if one["at_least"].is_null() {
        return format!(
            "  {} {what}: {made} comparisons; false alarms: p50 {}, p99 {}; at most {} allowed for each{failed}\n",
            mark(one),
            rate("median"),
            rate("p99"),
            one["at_most"]
        );
    }
    let required = match one["at_least"].as_u64() {
        Some(0) => "too few to require any".to_owned(),
        _ => format!("{} required", one["at_least"]),
    };
    let share =
        |value: &Value| value.as_f64().map_or("-".to_owned(), |share| format!("{} %", signed(share * 100.0, 1)));
    format!(
        "  {} {what}: {made} comparisons; detected: p50 {}; {required}; injected {}, estimated {}, {} rounds{failed}\n",
        mark(one),
        rate("median"),
        share(&one["injected"]),
        share(&one["estimated"]),
        one["rounds"]
    )
}

/// Share in percent with one decimal.
fn percent(share: f64) -> String {
    format!("{} %", fixed(share * 100.0, 1))
}

fn mark(one: &Value) -> &'static str {
    if one["good"] == Value::Bool(true) { "good" } else { "BAD " }
}

fn all(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn pair(value: &Value) -> [f64; 2] {
    [number(&value[0]), number(&value[1])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_part_is_on_the_page_with_its_verdict() {
        let made = json!({
            "form": "quick", "seed": 1, "duration_s": 61.2, "status": "complete",
            "truth": [
                { "what": "stall", "injected_ns": 50_000_000, "sample": 400, "rtt_ns": 50_100_000.0, "median_ns": 900.0,
                  "good": true },
                { "what": "loss", "injected": 3, "lost": 2, "good": false },
            ],
            "overhead": [{
                "transport": "uds", "pairs": 7, "rtt_median_ns": 4100.0, "bare_rtt_median_ns": 4000.0, "more_ns": 100.0,
                "more_interval_ns": [50.0, 150.0], "limit_ns": 400.0, "good": true,
            }],
            "comparisons": [
                { "phase": "aa-uds", "what": "uds with itself", "comparisons": 5, "planned": 5, "failed": 1,
                  "called": { "median": 0, "p99": 1 }, "clopper_pearson": { "median": [0.0, 0.5], "p99": [0.01, 0.7] },
                  "at_most": 1, "at_least": null, "rounds": 10.0, "seconds": 2.0, "seen_from": 1.12, "good": true },
                { "phase": "uds-plus-10", "what": "uds delayed", "comparisons": 3, "planned": 5, "failed": 0,
                  "called": { "median": 3, "p99": 0 }, "clopper_pearson": { "median": [0.3, 1.0], "p99": [0.0, 0.7] },
                  "at_most": null, "at_least": 2, "injected": 0.1, "estimated": 0.11, "rounds": 20.0, "good": true },
                { "phase": "uds-plus-5", "what": "uds delayed less", "comparisons": 1, "planned": 5, "failed": 0,
                  "called": { "median": 0, "p99": 0 }, "clopper_pearson": { "median": [0.0, 0.9], "p99": [0.0, 0.9] },
                  "at_most": null, "at_least": 0, "injected": 0.05, "estimated": 0.04, "rounds": 9.0, "good": true },
                { "phase": "uds-plus-1", "what": "uds hardly delayed", "comparisons": 0, "planned": 5, "at_least": 0 },
            ],
        });
        let text = page(&made, Some(Path::new("r")));
        for line in [
            "Selftest, quick form, seed 1, 61 s",
            "  good stall of 50 ms in sample 400: its round trip took 50.100 ms (p50 0.001 ms)",
            "  BAD  loss of 3 messages: 2 lost",
            "Own overhead: round trip minus that of a bare loop on the same CPUs, median of pairs",
            "  good uds: p50 4.100 µs, bare 4.000 µs: +100 ns (50..150; limit 400 ns, 7 pairs)",
            "  uds: +12.0 %, in 10.0 rounds of both sides, 2.0 s (margin 0)",
            "All verdicts and their seeds are in 'r/comparisons.jsonl'.",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(
            text.contains("3 of 5 comparisons; detected: p50 3 (30.0 %..100.0 %); 2 required; injected +10.0 %"),
            "{text}"
        );
        assert!(text.contains("1 of 5 comparisons; detected: p50 0 (0.0 %..90.0 %); too few to require"), "{text}");
        assert!(text.contains("  NOT MADE uds hardly delayed\n"), "{text}");
        assert!(text.contains("at most 1 allowed for each; 1 had rounds in which a side failed\n"), "{text}");
    }
}
