//! Verdict document: the `--json` output of `ab`, `check`, `compare` and `history`.

use crate::address::FigureAddress;
use crate::manifest::Manifest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use strum::{Display, IntoStaticStr};
use tripmeter_stats::change::ChangeVerdict;

/// Version of the document, `major.minor`. Readers ignore unknown fields, and refuse another major version.
pub const VERDICT_VERSION: &str = "1.1";

/// Verdict of a command. Each command adds fields of its own, which docs/formats.md lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Tripmeter verdict")]
pub struct VerdictDocument {
    /// [`VERDICT_VERSION`] of the writer.
    pub verdict_version: String,
    /// Command that judged.
    pub command: JudgingCommand,
    /// Results that were judged; all under `history`; empty in documents before 1.1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judged: Vec<JudgedFolder>,
    /// Overall result.
    pub result: OverallResult,
    /// Exit code of the command.
    pub exit_code: u8,
    /// Number of figures judged. Under `history` each series counts, but only changes have a row.
    pub figures_judged: u64,
    /// Number of figures by verdict.
    pub counts: BTreeMap<FigureVerdict, u64>,
    /// Largest expected share of false alarms among the reported changes; null if the method does not bound it.
    pub false_discovery_rate: Option<f64>,
    /// Failures and omissions that are not verdicts on figures.
    pub troubles: Vec<VerdictTrouble>,
    /// Verdicts on figures.
    pub figures: Vec<VerdictRow>,
}

/// Results that were judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JudgedFolder {
    /// Folder of the results, by its name at that time; null for the folder of this document.
    pub folder: Option<String>,
    /// Start time, from the manifest.
    pub started: String,
    /// Seed of the plan.
    pub seed: u64,
}

impl JudgedFolder {
    /// Entry for the results of a manifest, in `folder` if known.
    pub fn new(folder: Option<String>, manifest: &Manifest) -> Self {
        Self { folder, started: manifest.started.clone(), seed: manifest.plan.seed }
    }

    /// True if these are the results of `manifest`, in any folder.
    pub fn is_of(&self, manifest: &Manifest) -> bool {
        self.started == manifest.started && self.seed == manifest.plan.seed
    }
}

/// Command that judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "lowercase")]
pub enum JudgingCommand {
    /// Two sides, measured in pairs.
    Ab,
    /// Results against limits.
    Check,
    /// Results against a reference.
    Compare,
    /// Results over time.
    History,
}

/// Overall result: the first of these that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "lowercase")]
pub enum OverallResult {
    /// `ab` is still running, or was killed.
    Running,
    /// Ended by the user.
    Interrupted,
    /// A figure is worse than the reference.
    Regressed,
    /// A figure is beyond its limit, something is missing, or a sub-experiment failed.
    Failed,
    /// Some rounds failed; the verdicts use the others.
    Incomplete,
    /// There is a step or a drift that is not marked as known.
    Changed,
    /// Nothing failed, but some figures have too few rounds or too much noise for a verdict.
    Inconclusive,
    /// Nothing failed.
    Passed,
}

/// Verdict on a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(Display, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum FigureVerdict {
    /// Worse than the reference.
    Regressed,
    /// Beyond its limit.
    Failed,
    /// Not measured.
    Missing,
    /// A step in its history.
    Step,
    /// A slow drift in its history.
    Drift,
    /// Too few rounds or too much noise.
    Inconclusive,
    /// Better than the reference.
    Improved,
    /// Without a limit, or not in the reference.
    New,
    /// A step or drift that is marked as known.
    Known,
    /// No change larger than the margin.
    Equivalent,
    /// Within its limit or threshold, or without a change over time.
    Passed,
}

impl From<ChangeVerdict> for FigureVerdict {
    fn from(verdict: ChangeVerdict) -> Self {
        match verdict {
            ChangeVerdict::Regressed => Self::Regressed,
            ChangeVerdict::Improved => Self::Improved,
            ChangeVerdict::Equivalent => Self::Equivalent,
            ChangeVerdict::Inconclusive => Self::Inconclusive,
        }
    }
}

impl FigureVerdict {
    /// True for a verdict that counts as a finding.
    pub fn is_bad(self) -> bool {
        use FigureVerdict::{Drift, Failed, Missing, Regressed, Step};
        matches!(self, Regressed | Failed | Missing | Step | Drift)
    }
}

/// Figure that was judged. Values are in its unit; null if there is none, or if it is not finite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictRow {
    /// Name of the sub-experiment; under `ab` it is `b`, the judged side.
    pub sub_experiment: String,
    /// Bytes per message; of the largest if sizes differ.
    pub payload_bytes: u64,
    /// True if messages have several sizes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_several_sizes: bool,
    /// Offered load, as in `metrics.csv`.
    pub offered_load: String,
    /// Stream, as in `metrics.csv`.
    pub stream: String,
    /// Figure, as in `metrics.csv`.
    pub figure: String,
    /// Statistic of its samples; `value` if it has one value.
    pub statistic: String,
    /// Unit of its values.
    pub unit: String,
    /// Value of the reference, or level before a change.
    pub old: Option<f64>,
    /// Value judged, or level after a change.
    pub new: Option<f64>,
    /// Limit of the figure.
    pub limit: Option<f64>,
    /// `new / old`, the median for paired rounds; under `check` it is `new / limit`.
    pub ratio: Option<f64>,
    /// Confidence interval of the ratio; null stands for an infinite end.
    pub interval: Option<[Option<f64>; 2]>,
    /// First experiment after a step, or first experiment of a drift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Last experiment of a drift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Verdict on the figure.
    pub verdict: FigureVerdict,
}

impl VerdictRow {
    /// Row without values.
    pub fn new(address: &FigureAddress, verdict: FigureVerdict) -> Self {
        Self {
            sub_experiment: address.sub_experiment.clone(),
            payload_bytes: address.payload_bytes,
            has_several_sizes: address.has_several_sizes,
            offered_load: address.load.to_string(),
            stream: address.stream.to_string(),
            figure: address.figure.to_string(),
            statistic: address.statistic.to_string(),
            unit: address.unit().as_str().to_owned(),
            old: None,
            new: None,
            limit: None,
            ratio: None,
            interval: None,
            since: None,
            until: None,
            verdict,
        }
    }
}

/// Failure or omission that is not a verdict on a figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictTrouble {
    /// Name of the sub-experiment, if it concerns one.
    pub sub_experiment: Option<String>,
    /// Description, in one line.
    pub what: String,
    /// True if the command fails because of it.
    pub fails: bool,
}

impl VerdictDocument {
    /// Document with counts of these rows, and of `passed` figures without a row.
    pub fn new(command: JudgingCommand, exit_code: u8, figures: Vec<VerdictRow>, passed: u64) -> Self {
        let mut counts = BTreeMap::new();
        figures.iter().for_each(|row| *counts.entry(row.verdict).or_default() += 1);
        if passed > 0 {
            *counts.entry(FigureVerdict::Passed).or_default() += passed;
        }
        let mut made = Self {
            verdict_version: VERDICT_VERSION.to_owned(),
            command,
            judged: Vec::new(),
            result: OverallResult::Passed,
            exit_code,
            figures_judged: figures.len() as u64 + passed,
            counts,
            false_discovery_rate: None,
            troubles: Vec::new(),
            figures,
        };
        made.result = made.usual_result();
        made
    }

    /// Adds troubles, and sets the result that follows.
    #[must_use]
    pub fn with_troubles(mut self, troubles: Vec<VerdictTrouble>) -> Self {
        self.troubles = troubles;
        self.result = self.usual_result();
        self
    }

    /// Sets the results that were judged.
    #[must_use]
    pub fn with_judged(self, judged: Vec<JudgedFolder>) -> Self {
        Self { judged, ..self }
    }

    fn usual_result(&self) -> OverallResult {
        use FigureVerdict::{Drift, Failed, Inconclusive, Missing, Regressed, Step};
        let has = |verdict: FigureVerdict| self.counts.contains_key(&verdict);
        match self.exit_code {
            crate::exit::INTERRUPTED => OverallResult::Interrupted,
            _ if has(Regressed) => OverallResult::Regressed,
            _ if has(Failed) || has(Missing) || self.troubles.iter().any(|trouble| trouble.fails) => {
                OverallResult::Failed
            }
            crate::exit::PARTIAL => OverallResult::Incomplete,
            _ if has(Step) || has(Drift) => OverallResult::Changed,
            crate::exit::GOOD if has(Inconclusive) => OverallResult::Inconclusive,
            crate::exit::GOOD => OverallResult::Passed,
            _ => OverallResult::Failed,
        }
    }

    /// Parses a document.
    ///
    /// # Errors
    /// If it is not a verdict document, or of another major version; in one line.
    pub fn read(text: &str) -> Result<Self, String> {
        let made: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let major = |version: &str| version.split('.').next().map(str::to_owned);
        if major(&made.verdict_version) == major(VERDICT_VERSION) {
            return Ok(made);
        }
        Err(format!("verdict_version is {}, but this program reads {VERDICT_VERSION}", made.verdict_version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit;
    use crate::figure::{Figure, Statistic};
    use crate::metric::Stream;
    use crate::pace::OfferedLoad;

    fn row(verdict: FigureVerdict) -> VerdictRow {
        let address = FigureAddress {
            sub_experiment: "uds".to_owned(),
            payload_bytes: 1024,
            has_several_sizes: false,
            load: OfferedLoad::Closed,
            stream: Stream::all(),
            figure: Figure::RttHalf,
            statistic: Statistic::P99,
        };
        VerdictRow::new(&address, verdict)
    }

    fn overall_result(code: u8, verdicts: &[FigureVerdict]) -> OverallResult {
        VerdictDocument::new(JudgingCommand::Compare, code, verdicts.iter().copied().map(row).collect(), 0).result
    }

    #[test]
    fn verdicts_have_the_names_of_tables_and_files() {
        let all =
            [ChangeVerdict::Regressed, ChangeVerdict::Improved, ChangeVerdict::Equivalent, ChangeVerdict::Inconclusive];
        let names = all.map(|verdict| FigureVerdict::from(verdict).to_string());
        assert_eq!(names, ["regressed", "improved", "equivalent", "inconclusive"]);
    }

    #[test]
    fn the_gravest_figure_names_the_result() {
        use FigureVerdict::{Equivalent, Failed, Improved, Inconclusive, Regressed, Step};
        assert_eq!(overall_result(exit::GOOD, &[Equivalent, Improved]), OverallResult::Passed);
        assert_eq!(overall_result(exit::GOOD, &[Equivalent, Inconclusive]), OverallResult::Inconclusive);
        assert_eq!(overall_result(exit::FINDING, &[Inconclusive, Regressed, Failed]), OverallResult::Regressed);
        assert_eq!(overall_result(exit::FINDING, &[Failed]), OverallResult::Failed);
        assert_eq!(overall_result(exit::FINDING, &[Equivalent]), OverallResult::Failed, "something else failed");
        assert_eq!(overall_result(exit::PARTIAL, &[Equivalent]), OverallResult::Incomplete);
        assert_eq!(overall_result(exit::PARTIAL, &[Regressed]), OverallResult::Regressed);
        assert_eq!(overall_result(exit::INTERRUPTED, &[Regressed]), OverallResult::Interrupted);
        assert_eq!(overall_result(exit::GOOD, &[Step]), OverallResult::Changed);
    }

    #[test]
    fn what_is_written_is_read_and_another_major_version_is_refused() {
        let rows = vec![row(FigureVerdict::Failed), row(FigureVerdict::Passed)];
        let trouble = VerdictTrouble { sub_experiment: None, what: "a\n\"b\"".to_owned(), fails: true };
        let made = VerdictDocument::new(JudgingCommand::Check, 1, rows, 3).with_troubles(vec![trouble]);
        assert_eq!((made.figures_judged, made.counts[&FigureVerdict::Passed]), (5, 4));
        let text = serde_json::to_string(&made).unwrap();
        assert_eq!(VerdictDocument::read(&text), Ok(made));
        let other = VerdictDocument::read(&text.replace("\"1.1\"", "\"2.0\"")).unwrap_err();
        assert!(other.contains("2.0"), "{other}");
        assert!(VerdictDocument::read("{}").is_err());
    }
}
