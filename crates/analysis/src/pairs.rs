//! Results of two sides, paired round by round.
//!
//! A side that failed in a round has no figures in this round, not even from before the failure, because failures may
//! depend on speed. The failure is reported instead.

use crate::comparison::JudgedFigure;
use crate::selection::{Selection, too_few};
use crate::table::{Builder, MetricTable};
use tripmeter_model::address::FigureAddress;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::{Manifest, PayloadResult, RunStatus, SubExperimentResult};
use tripmeter_model::trouble::UnmeasuredPayload;
use tripmeter_stats::runs::Question;
use tripmeter_stats::{Error, Figures};

/// One payload that both sides measured in one round.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// Round, from 1.
    pub round: u32,
    /// Side that was measured first, 0 or 1.
    pub first: usize,
    /// Results of both sides.
    pub cells: [&'a PayloadResult; 2],
}

/// A side without figures in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedSide {
    /// Round, from 1.
    pub round: u32,
    /// Side, 0 or 1.
    pub side: usize,
    /// Payload, if only one failed.
    pub payload_bytes: Option<u64>,
    /// Reason.
    pub why: String,
}

/// Pairs of a manifest, and failures that prevented other pairs.
#[derive(Clone, Debug, Default)]
pub struct Pairs<'a> {
    /// Pairs, by round and payload.
    pub pairs: Vec<Pair<'a>>,
    /// Failures, by round.
    pub failures: Vec<FailedSide>,
    names: [String; 2],
}

/// Values of a figure, in the pairs that have it.
#[derive(Clone, Debug, PartialEq)]
pub struct PairedFigure {
    /// Address, with the name of the first side.
    pub address: FigureAddress,
    /// Rounds whose pairs have the figure, ascending.
    pub rounds: Vec<u32>,
    /// Values of both sides in these rounds.
    pub values: [Vec<f64>; 2],
    /// Largest errors of both sides, from [`Selected::error`](crate::Selected::error).
    pub errors: [f64; 2],
    /// Samples needed per round, from [`Selected::needs`](crate::Selected::needs).
    pub needs: Option<u64>,
}

impl PairedFigure {
    /// True if all values are above 0, as ratios require.
    pub fn has_ratios(&self) -> bool {
        self.values.iter().flatten().all(|value| *value > 0.0)
    }
}

impl<'a> Pairs<'a> {
    /// Pairs of the two sub-experiments with these names. A round that one side has not begun has no pairs.
    pub fn from_manifest(manifest: &'a Manifest, sides: [&str; 2]) -> Self {
        let mut found = Self { names: sides.map(str::to_owned), ..Self::default() };
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
                let unmeasured = [a, b].map(|result| {
                    let plan = manifest.plan.sub_experiments.iter().find(|plan| plan.name == result.name);
                    plan.into_iter().flat_map(|plan| result.unmeasured(plan)).collect::<Vec<_>>()
                });
                found.add(round, usize::from(places[1] < places[0]), [a, b], &unmeasured);
            }
        }
        found
    }

    fn add(
        &mut self,
        round: u32,
        first: usize,
        results: [&'a SubExperimentResult; 2],
        unmeasured: &[Vec<UnmeasuredPayload>; 2],
    ) {
        for a in &results[0].cells {
            let Some(b) = results[1].cells.iter().find(|cell| cell.payload_bytes == a.payload_bytes) else { continue };
            let cells = [a, b];
            // Damage during the path proof may affect any payload.
            let damaged = [0, 1].map(|side: usize| {
                let proof = results[side].path_proof.as_ref().map_or(0, |proof| proof.damaged);
                cells[side].damaged().saturating_add(proof)
            });
            let whys = [0, 1].map(|side: usize| {
                let part = unmeasured[side].iter().find(|part| part.payload_bytes == a.payload_bytes);
                match (is_silent(cells[side]), part.filter(|part| part.is_partial), damaged[side]) {
                    (true, _, _) => Some(cells[side].why_silent().to_owned()),
                    (false, Some(part), _) => Some(part.to_string()),
                    (false, None, 0) => None,
                    (false, None, damaged) => Some(format!("{damaged} messages came damaged")),
                }
            });
            if whys == [None, None] {
                self.pairs.push(Pair { round, first, cells });
            }
            for (side, why) in whys.into_iter().enumerate() {
                let payload_bytes = Some(a.payload_bytes);
                self.failures.extend(why.map(|why| FailedSide { round, side, payload_bytes, why }));
            }
        }
    }

    /// Figures of all pairs.
    pub fn table(&self) -> MetricTable {
        let mut builder = Builder::new(self.names.to_vec());
        for Pair { round, cells, .. } in &self.pairs {
            for (name, cell) in self.names.iter().zip(cells) {
                cell.flat_trials().for_each(|trial| builder.add(name, *round, cell.payload_bytes, trial));
            }
        }
        builder.build()
    }

    /// Selected figures that both sides have in the same round; the headline of the table if the user named none.
    pub fn figures(&self, selection: &Selection) -> Vec<PairedFigure> {
        let table = self.table();
        let all = selection.or_headline(&table).select(&table);
        let paired = all.iter().filter(|one| one.address.sub_experiment == self.names[0]).filter_map(|a| {
            let other = FigureAddress { sub_experiment: self.names[1].clone(), ..a.address.clone() };
            let b = all.iter().find(|one| one.address == other)?;
            let at = |round: u32| b.rounds.iter().find(|one| one.0 == round).map(|one| one.1);
            let both = a.rounds.iter().filter_map(|(round, value)| Some((*round, (*value, at(*round)?))));
            let (rounds, values): (Vec<u32>, (Vec<f64>, Vec<f64>)) = both.unzip();
            Some(PairedFigure {
                address: a.address.clone(),
                rounds,
                values: values.into(),
                errors: [a.error, b.error],
                needs: a.needs.max(b.needs),
            })
        });
        paired.filter(|one| !one.rounds.is_empty()).collect()
    }
}

/// Line about percentiles with too few samples in a round of either side.
pub fn too_few_samples(figures: &[PairedFigure]) -> Option<String> {
    too_few(figures.iter().filter_map(|one| Some((&one.address, one.needs?))))
}

/// Judges all figures that have ratios, together.
///
/// # Errors
/// As [`tripmeter_stats::runs::compare`].
///
/// # Panics
/// If a number in the question is out of range.
pub fn judged(figures: &[PairedFigure], question: &Question) -> Result<Vec<JudgedFigure>, Error> {
    let with_ratios = || figures.iter().filter(|one| one.has_ratios());
    let cells = with_ratios().map(|one| (one.address.clone(), one.values.clone(), one.errors));
    let judged = JudgedFigure::all(cells.collect(), question)?.into_iter().zip(with_ratios());
    Ok(judged.map(|(one, of)| one.if_bounded(of.needs.is_none())).collect())
}

/// True if a cell has no headline figure, or if no message arrived.
fn is_silent(cell: &PayloadResult) -> bool {
    let has = |figure: &Figure| {
        let of = |trial: &tripmeter_model::trial::Trial, statistic| {
            trial.figures().any(|one| (one.figure, one.statistic) == (*figure, statistic))
        };
        cell.trials.iter().any(|trial| of(trial, Statistic::P50) || of(trial, Statistic::Value))
    };
    cell.is_all_lost() || !Figure::HEADLINES.iter().any(has)
}

/// Statistics of half round trips in a cell, in nanoseconds; `None` if it has none.
pub fn half_trips(cell: &PayloadResult) -> Option<Figures> {
    figures_of(cell, Figure::RttHalf)
}

/// Statistics of a figure in the first trial of a cell, in the unit of the figure; `None` if it has none.
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
