//! What two sides measured, round by round: from a manifest to pairs.
//!
//! A side that failed in a round has no figures of it: what it measured before it failed is not taken either, as a failure
//! may have to do with how long things take. The failure is reported instead.

use crate::comparison::JudgedFigure;
use tripmeter_model::address::FigureAddress;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::{Manifest, PayloadResult, RunStatus, SubExperimentResult};
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_stats::runs::Question;
use tripmeter_stats::{Error, Figures};

/// Statistics of half round trips that are judged.
pub const JUDGED: [Statistic; 2] = [Statistic::P50, Statistic::P99];

/// One payload that both sides measured in one round.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// 1-based.
    pub round: u32,
    /// Which side was measured first, 0 or 1.
    pub first: usize,
    /// What was measured.
    pub cells: [&'a PayloadResult; 2],
    /// The latencies of both, in nanoseconds.
    pub figures: [Figures; 2],
}

/// A side that has no figures in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedSide {
    /// 1-based.
    pub round: u32,
    /// Which side, 0 or 1.
    pub side: usize,
    /// The payload, if it is that alone.
    pub payload_bytes: Option<u64>,
    /// Why.
    pub why: String,
}

/// All pairs of a manifest, and what keeps others from being some.
#[derive(Clone, Debug, Default)]
pub struct Pairs<'a> {
    /// By round and payload.
    pub pairs: Vec<Pair<'a>>,
    /// By round.
    pub failures: Vec<FailedSide>,
}

impl<'a> Pairs<'a> {
    /// The pairs of the sub-experiments with these names. A round that one side has not begun has none.
    pub fn of(manifest: &'a Manifest, sides: [&str; 2]) -> Self {
        let mut found = Self::default();
        let rounds = manifest.sub_experiments.iter().map(|result| result.round).max().unwrap_or(0);
        for round in 1..=rounds {
            let place =
                |name: &str| manifest.sub_experiments.iter().position(|one| one.round == round && one.name == name);
            let places = sides.map(place);
            let results = places.map(|place| place.map(|place| &manifest.sub_experiments[place]));
            for (side, result) in results.iter().enumerate() {
                let failed = result.filter(|result| result.status != RunStatus::Interrupted);
                let why = failed.and_then(SubExperimentResult::trouble);
                found.failures.extend(why.map(|why| FailedSide { round, side, payload_bytes: None, why }));
            }
            let [Some(a), Some(b)] = results else { continue };
            if [a, b].into_iter().all(|result| result.trouble().is_none()) {
                found.add(round, usize::from(places[1] < places[0]), [a, b]);
            }
        }
        found
    }

    fn add(&mut self, round: u32, first: usize, results: [&'a SubExperimentResult; 2]) {
        for a in &results[0].cells {
            let Some(b) = results[1].cells.iter().find(|cell| cell.payload_bytes == a.payload_bytes) else { continue };
            let cells = [a, b];
            // A system that damages messages while its path is proven does so at any payload.
            let damaged = [0, 1].map(|side: usize| {
                let proof = results[side].path_proof.as_ref().map_or(0, |proof| proof.damaged);
                cells[side].damaged().saturating_add(proof)
            });
            let figures = cells.map(half_trips);
            let whys = [0, 1].map(|side: usize| match (figures[side], damaged[side]) {
                (None, _) => Some("no message was answered".to_owned()),
                (Some(_), 0) => None,
                (Some(_), damaged) => Some(format!("{damaged} messages came damaged")),
            });
            if let ([None, None], [Some(of_a), Some(of_b)]) = (&whys, figures) {
                self.pairs.push(Pair { round, first, cells, figures: [of_a, of_b] });
            }
            for (side, why) in whys.into_iter().enumerate() {
                let payload_bytes = Some(a.payload_bytes);
                self.failures.extend(why.map(|why| FailedSide { round, side, payload_bytes, why }));
            }
        }
    }

    /// Judges half round trips at each of these payloads that has a pair.
    ///
    /// # Errors
    /// As [`tripmeter_stats::runs::compare`].
    ///
    /// # Panics
    /// If the question has a number outside its range.
    pub fn judged(
        &self,
        sub_experiment: &str,
        payloads: &[u64],
        question: &Question,
    ) -> Result<Vec<JudgedFigure>, Error> {
        let mut cells = Vec::new();
        for &payload_bytes in payloads {
            let of_payload = || self.pairs.iter().filter(|pair| pair.cells[0].payload_bytes == payload_bytes);
            if of_payload().next().is_none() {
                continue;
            }
            for statistic in JUDGED {
                let values =
                    [0, 1].map(|side| of_payload().map(|pair| judged(&pair.figures[side], statistic)).collect());
                let (load, stream, figure) = (OfferedLoad::Closed, Stream::all(), Figure::RttHalf);
                let sub_experiment = sub_experiment.to_owned();
                cells.push((FigureAddress { sub_experiment, payload_bytes, load, stream, figure, statistic }, values));
            }
        }
        JudgedFigure::all(cells, question)
    }
}

/// One of [`JUDGED`].
pub fn judged(figures: &Figures, statistic: Statistic) -> f64 {
    if statistic == Statistic::P50 { figures.median } else { figures.p99 }
}

/// The statistics of half round trips of a cell, in nanoseconds; `None` if it has none.
pub fn half_trips(cell: &PayloadResult) -> Option<Figures> {
    figures_of(cell, Figure::RttHalf)
}

/// The statistics of a figure of the first trial of a cell, in its unit; `None` if it has none.
pub fn figures_of(cell: &PayloadResult, figure: Figure) -> Option<Figures> {
    let trial = cell.trials.first()?;
    let of = |statistic| trial.of_all(figure, statistic);
    Some(Figures {
        min: of(Statistic::Min)?,
        mean: of(Statistic::Mean)?,
        stdev: of(Statistic::Stdev)?,
        median: of(Statistic::P50)?,
        p90: of(Statistic::P90)?,
        p99: of(Statistic::P99)?,
        p999: of(Statistic::P999).unwrap_or(f64::NAN),
        p9999: of(Statistic::P9999)?,
        max: of(Statistic::Max)?,
    })
}
