//! Results together with their figures.

use crate::merged::Merged;
use crate::pairs::{AskedPairs, JudgedPairs, SIDES};
use crate::results::NamedResults;
use tripmeter_analysis::{MetricTable, Row, derived};
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::Manifest;
use tripmeter_model::metric::Stream;
use tripmeter_stats::proportion::{self, Proportion};

/// Results of one experiment with its figures.
pub struct MeasuredSide<'a> {
    pub name: &'a str,
    pub manifest: &'a Manifest,
    pub subs: Vec<Merged<'a>>,
    pub metrics: MetricTable,
    /// Verdicts on its pairs, if a page shows them.
    pub pairs: Option<JudgedPairs>,
}

impl<'a> MeasuredSide<'a> {
    pub fn new(results: &NamedResults<'a>) -> Self {
        let NamedResults { name, manifest } = *results;
        Self {
            name,
            manifest,
            subs: Merged::from_manifest(manifest),
            metrics: MetricTable::from_manifest(manifest),
            pairs: None,
        }
    }

    /// Sub-experiments without those disturbed by tracing, whose figures are not shown here.
    pub fn undisturbed(&self) -> impl Iterator<Item = &Merged<'a>> {
        self.subs.iter().filter(|sub| !sub.planned.is_disturbed())
    }

    /// Results with the verdicts on their pairs, if their two sides were measured in pairs.
    pub fn judged(results: &NamedResults<'a>, asked: Option<&AskedPairs>) -> Self {
        let side = Self::new(results);
        let asked = || asked.cloned().unwrap_or_default();
        let pairs = side.is_of_pairs().then(|| JudgedPairs::from_manifest(side.manifest, &asked()));
        Self { pairs, ..side }
    }

    /// True if its two sides were measured in pairs.
    pub fn is_of_pairs(&self) -> bool {
        let names = self.subs.iter().map(|sub| sub.planned.name.as_str());
        self.manifest.plan.source == "ab" && names.eq(SIDES)
    }

    /// Losses of a row with their intervals: of all messages, or of the follower that lost most. `None` if they were
    /// not counted.
    pub fn losses(&self, row: Row) -> Option<Vec<Proportion>> {
        let streams = derived::streams(&self.metrics, row, Figure::LossShare);
        let all = streams.iter().filter(|stream| ***stream == Stream::all());
        let counted: Vec<&&Stream> =
            if all.clone().next().is_some() { all.collect() } else { streams.iter().collect() };
        let rounds = counted.into_iter().map(|stream| derived::loss(&self.metrics, row, stream));
        let rounds = rounds.filter(|rounds| proportion::sum(rounds).of > 0);
        rounds.max_by(|a, b| proportion::sum(a).share().total_cmp(&proportion::sum(b).share()))
    }
}
