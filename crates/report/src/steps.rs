//! Steps in the history of figures.

use crate::grid::{counted, grid};
use tripmeter_stats::change_points::ChangePoint;

/// A step of one figure of one payload.
#[derive(Clone, Debug)]
pub struct Step {
    /// The sub-experiment.
    pub name: String,
    /// The payload in bytes, as its file has it.
    pub bytes: String,
    /// The figure, as a column of a summary.
    pub figure: &'static str,
    /// What the latency is the duration of, if that is known.
    pub kind: Option<&'static str>,
    /// The first experiment after the step.
    pub since: String,
    /// What changed; figures are in microseconds.
    pub point: ChangePoint,
}

/// A line for each step, and how many series were looked at.
pub fn steps(steps: &[Step], series: usize) -> String {
    let new = steps.iter().filter(|step| !step.point.is_known).count();
    let mut text = String::new();
    if !steps.is_empty() {
        let header = [
            "sub-experiment",
            "latency",
            "figure",
            "payload [bytes]",
            "since",
            "before [µs]",
            "after [µs]",
            "change",
            "p",
            "",
        ];
        text += &(grid(header, &[3, 5, 6, 7, 8], steps.iter().map(row)) + "\n");
    }
    text + &format!(
        "{} in {} over time, without those marked as known\n",
        counted(new, "step"),
        counted(series, "figure")
    )
}

fn row(step: &Step) -> [String; 10] {
    let ChangePoint { before, after, p, is_known, .. } = step.point;
    [
        step.name.clone(),
        step.kind.unwrap_or("-").to_owned(),
        step.figure.to_owned(),
        step.bytes.clone(),
        step.since.clone(),
        format!("{before:.3}"),
        format!("{after:.3}"),
        format!("{:+.1} %", (step.point.ratio() - 1.0) * 100.0),
        if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") },
        if is_known { "known".to_owned() } else { String::new() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_step() {
        let step = |is_known| Step {
            name: "uds".to_owned(),
            bytes: "1024".to_owned(),
            figure: "Median",
            kind: Some("rtt_half"),
            since: "2026-01-31".to_owned(),
            point: ChangePoint { index: 5, before: 2.0, after: 2.5, p: 1e-6, is_known },
        };
        let text = steps(&[step(true), step(false)], 4);
        let rows: Vec<String> =
            text.lines().skip(2).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(rows[0], "uds rtt_half Median 1024 2026-01-31 2.000 2.500 +25.0 % <0.001 known", "{text}");
        assert_eq!(rows[1], "uds rtt_half Median 1024 2026-01-31 2.000 2.500 +25.0 % <0.001");
        assert!(text.ends_with("\n1 step in 4 figures over time, without those marked as known\n"), "{text}");
        assert_eq!(steps(&[], 1), "0 steps in 1 figure over time, without those marked as known\n");
    }
}
