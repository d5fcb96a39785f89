//! Changes in the history of figures.

use crate::grid::{counted, grid};

/// A step or a slow drift of one figure of one payload.
#[derive(Clone, Debug)]
pub struct Change {
    /// The sub-experiment.
    pub name: String,
    /// The payload in bytes, as its file has it.
    pub bytes: String,
    /// The figure and its unit.
    pub figure: String,
    /// What the latency is the duration of, if that is known.
    pub kind: Option<&'static str>,
    /// The first experiment after a step, or of a drift.
    pub since: String,
    /// The last experiment of a drift; `None`: it is a step.
    pub until: Option<String>,
    /// The level before it or at its begin, in the unit of the figure.
    pub before: f64,
    /// The level after it or at its end.
    pub after: f64,
    /// The p-value of "no change".
    pub p: f64,
    /// Whether it was marked as known.
    pub is_known: bool,
}

/// A line for each change, and how many series were looked at.
pub fn changes(changes: &[Change], series: usize) -> String {
    let new = |drifts: bool| changes.iter().filter(|one| !one.is_known && one.until.is_some() == drifts).count();
    let mut text = String::new();
    if !changes.is_empty() {
        let header = [
            "sub-experiment",
            "latency",
            "figure",
            "payload [bytes]",
            "what",
            "since",
            "until",
            "before",
            "after",
            "change",
            "p",
            "",
        ];
        text += &(grid(header, &[3, 7, 8, 9, 10], changes.iter().map(row)) + "\n");
    }
    text + &format!(
        "{} and {} in {} over time, without those marked as known\n",
        counted(new(false), "step"),
        counted(new(true), "slow drift"),
        counted(series, "figure")
    )
}

fn row(change: &Change) -> [String; 12] {
    let Change { before, after, p, .. } = *change;
    [
        change.name.clone(),
        change.kind.unwrap_or("-").to_owned(),
        change.figure.clone(),
        change.bytes.clone(),
        if change.until.is_some() { "drift" } else { "step" }.to_owned(),
        change.since.clone(),
        change.until.clone().unwrap_or_else(|| "-".to_owned()),
        format!("{before:.3}"),
        format!("{after:.3}"),
        format!("{:+.1} %", (after / before - 1.0) * 100.0),
        if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") },
        if change.is_known { "known".to_owned() } else { String::new() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_change() {
        let change = |until: Option<&str>, is_known| Change {
            name: "uds".to_owned(),
            bytes: "1024".to_owned(),
            figure: "Median [µs]".to_owned(),
            kind: Some("rtt_half"),
            since: "2026-01-31".to_owned(),
            until: until.map(str::to_owned),
            before: 2.0,
            after: 2.5,
            p: 1e-6,
            is_known,
        };
        let text = changes(&[change(None, true), change(None, false), change(Some("2026-02-01"), false)], 4);
        let rows: Vec<String> =
            text.lines().skip(2).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            rows[0], "uds rtt_half Median [µs] 1024 step 2026-01-31 - 2.000 2.500 +25.0 % <0.001 known",
            "{text}"
        );
        assert_eq!(rows[1], "uds rtt_half Median [µs] 1024 step 2026-01-31 - 2.000 2.500 +25.0 % <0.001");
        assert_eq!(rows[2], "uds rtt_half Median [µs] 1024 drift 2026-01-31 2026-02-01 2.000 2.500 +25.0 % <0.001");
        let end = "\n1 step and 1 slow drift in 4 figures over time, without those marked as known\n";
        assert!(text.ends_with(end), "{text}");
        let none = "0 steps and 0 slow drifts in 1 figure over time, without those marked as known\n";
        assert_eq!(changes(&[], 1), none);
    }
}
