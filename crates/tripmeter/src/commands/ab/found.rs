//! Findings on both sides so far, as text and as `ab.json`.

use super::asked::Asked;
use crate::error::CliError;
use crate::{output, verdicts};
use serde_json::{Value, json};
use std::time::Duration;
use tripmeter_analysis::JudgedResults;
use tripmeter_analysis::comparison::JudgedFigure;
use tripmeter_analysis::pairs::{FailedSide, Pair, PairedFigure, Pairs, judged, too_few_samples};
use tripmeter_model::address::FigureAddress;
use tripmeter_model::exit;
use tripmeter_model::folder::AB;
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::manifest::{Manifest, RunStatus, SCHEMA_VERSION};
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::verdict::{JudgedFolder, OverallResult};
use tripmeter_report::Ab;
use tripmeter_stats::runs::Question;

pub const SIDES: [&str; 2] = ["a", "b"];

pub struct RoundsSoFar {
    /// Estimated number of pairs that detects the effect in every figure.
    pub needed: Option<u64>,
    /// Reason why there are no more rounds; empty if as many were requested.
    pub stopped: &'static str,
    pub spent: Duration,
}

pub struct Found<'a> {
    pub manifest: &'a Manifest,
    pairs: Pairs<'a>,
    figures: Vec<PairedFigure>,
    pub comparisons: Vec<JudgedFigure>,
}

impl<'a> Found<'a> {
    pub fn from_manifest(manifest: &'a Manifest, asked: &Asked<'_>) -> Result<Self, CliError> {
        let pairs = Pairs::from_manifest(manifest, SIDES);
        let figures = pairs.figures(&asked.selection);
        let comparisons = judged(&figures, &asked.question)
            .map_err(|error| CliError::new(exit::DATA, format!("the pairs cannot be compared: {error}")))?;
        Ok(Self { manifest, pairs, figures, comparisons })
    }

    pub fn rounds(&self) -> u32 {
        self.manifest.sub_experiments.iter().map(|result| result.round).max().unwrap_or(0)
    }

    pub fn fewest_pairs(&self) -> u64 {
        self.comparisons.iter().map(|one| one.comparison.runs[0] as u64).min().unwrap_or(0)
    }

    /// Figures without a ratio in their pairs.
    fn not_compared(&self) -> Vec<FigureAddress> {
        self.figures.iter().filter(|one| !one.has_ratios()).map(|one| one.address.clone()).collect()
    }

    pub fn needed(&self, question: &Question, effect: f64) -> Option<u64> {
        JudgedFigure::hardest(&self.comparisons, question, effect)?.1
    }

    pub fn write(&self, folder: &FolderHandle, made: &Value) -> Result<(), CliError> {
        Ok(folder.write_json(AB, made)?)
    }

    pub fn text(&self, asked: &Asked<'_>, stopped: &str) -> String {
        let plugins = asked.plugins.each_ref().map(|plugin| plugin.as_ref().and_then(|plugin| plugin.file.to_str()));
        let mut document = tripmeter_report::ab(&Ab {
            manifest: &self.manifest.clone().named_for_people(),
            plugins,
            pairs: &self.pairs,
            question: &asked.question,
            effect: asked.args.effect.0,
            comparisons: &self.comparisons,
            not_compared: &self.not_compared(),
            has_intervals: asked.args.intervals,
            stopped,
            too_few: too_few_samples(&self.figures),
        });
        asked.args.output.sorting.apply_or_say([&mut document]);
        output::text(&document)
    }

    pub fn exit_code(&self) -> u8 {
        let regressed = self.comparisons.iter().any(JudgedFigure::is_regressed);
        match self.manifest.status {
            RunStatus::Interrupted => exit::INTERRUPTED,
            _ if !self.pairs.failures.is_empty() => exit::PARTIAL,
            _ if regressed || !self.missed_rates().is_empty() => exit::FINDING,
            _ => exit::GOOD,
        }
    }

    /// Lines on rates that a side did not reach, except if the rate itself is compared.
    pub fn missed_rates(&self) -> Vec<String> {
        let (table, compared) = (self.pairs.table(), self.comparisons.iter().map(|one| &one.address));
        let missed = |side: &'static str| {
            let judged: Vec<FigureAddress> = compared
                .clone()
                .map(|address| FigureAddress { sub_experiment: side.to_owned(), ..address.clone() })
                .collect();
            let [missed, _] = table.missed_rates(side, &judged.iter().collect::<Vec<_>>());
            missed.into_iter().map(move |(_, why)| format!("side {side}: {why}"))
        };
        SIDES.into_iter().flat_map(missed).collect()
    }

    /// Contents of `ab.json`, as described in docs/formats.md.
    pub fn json(&self, asked: &Asked<'_>, so_far: &RoundsSoFar) -> Value {
        let (manifest, plan) = (self.manifest, &self.manifest.plan);
        let sides: Vec<Value> = plan.sub_experiments.iter().map(|side| self.side(side)).collect();
        let mut made = json!({
            "schema_version": SCHEMA_VERSION,
            "tripmeter_version": env!("CARGO_PKG_VERSION"),
            "status": manifest.status,
            "pattern": plan.sub_experiments[0].facts().word(),
            "a": sides[0],
            "b": sides[1],
            "seed": plan.seed,
            "rounds": self.rounds(),
            "rounds_planned": plan.rounds,
            "rounds_needed": so_far.needed,
            "stopped": so_far.stopped,
            "spent_s": so_far.spent.as_secs_f64(),
            "resumptions": manifest.resumptions,
            "comparisons": self.comparisons.iter().map(comparison_json).collect::<Vec<_>>(),
            "not_compared": self.not_compared().iter().map(named).collect::<Vec<_>>(),
            "failures": self.pairs.failures.iter().map(failure_json).collect::<Vec<_>>(),
            "pairs": self.pairs.pairs.iter().map(|pair| pair_json(pair, &self.figures)).collect::<Vec<_>>(),
        });
        for (place, part) in asked.parts() {
            let names: Vec<&str> = place.trim_start_matches('/').split('/').collect();
            *names.iter().fold(&mut made, |inside, name| &mut inside[*name]) = part;
        }
        let failures = self.pairs.failures.iter().map(|failure| (failure_line(failure), false));
        let results = JudgedResults { manifest: manifest.clone(), allows_damage: false };
        let notes_of = |side: &str| {
            results.notes(side).into_iter().map(move |why| (format!("side {side}: {why}"), false)).collect::<Vec<_>>()
        };
        let too_few = too_few_samples(&self.figures).map(|why| (why, false));
        let missed = self.missed_rates().into_iter().map(|why| (why, true));
        let troubles = failures.chain(missed).chain(too_few).chain(SIDES.into_iter().flat_map(notes_of)).collect();
        let mut verdict = verdicts::of_pairs(SIDES[1], &self.comparisons, &asked.question, troubles, self.exit_code())
            .with_judged(vec![JudgedFolder::new(None, manifest)]);
        if manifest.status == RunStatus::Running {
            verdict.result = OverallResult::Running;
        }
        verdicts::with_fields(&verdict, made)
    }

    fn side(&self, side: &SubExperiment) -> Value {
        let mut results = self.manifest.sub_experiments.iter();
        let opened = results.find(|one| one.name == side.name && !one.system_version.is_empty());
        json!({
            "transport": side.transport.to_string(),
            "wait": side.wait.as_str(),
            "touch": side.touch.to_string(),
            "sched": side.sched.to_string(),
            "background": side.background.to_string(),
            "transport_version": opened.map(|one| &one.transport_version),
            "system_version": opened.map(|one| &one.system_version),
            "environment": side.environment,
        })
    }
}

/// JSON of a comparison, without the name of the sub-experiment, because each side has only one.
fn comparison_json(one: &JudgedFigure) -> Value {
    without_name(verdicts::judgement_json(one))
}

fn named(address: &FigureAddress) -> Value {
    without_name(verdicts::address_json(address))
}

fn without_name(mut value: Value) -> Value {
    value.as_object_mut().map(|object| object.remove("sub_experiment"));
    value
}

fn pair_json(pair: &Pair<'_>, figures: &[PairedFigure]) -> Value {
    let payload_bytes = pair.cells[0].payload_bytes;
    let side = |side: usize| {
        let cell = pair.cells[side];
        json!({ "samples": cell.samples, "lost": cell.counts().lost })
    };
    let figure = |one: &PairedFigure| {
        let place = one.rounds.binary_search(&pair.round).ok()?;
        let [a, b] = one.values.each_ref().map(|values| values[place]);
        let mut value = named(&one.address);
        value.as_object_mut().map(|object| object.remove("payload_bytes"));
        (value["a"], value["b"], value["log_ratio"]) = (json!(a), json!(b), json!((b / a).ln()));
        Some(value)
    };
    let here = figures.iter().filter(|one| one.address.payload_bytes == payload_bytes);
    json!({
        "round": pair.round,
        "first": SIDES[pair.first],
        "payload_bytes": payload_bytes,
        "a": side(0),
        "b": side(1),
        "figures": here.filter_map(figure).collect::<Vec<_>>(),
    })
}

fn failure_line(failure: &FailedSide) -> String {
    format!("round {} of side {}: {}", failure.round, SIDES[failure.side], failure.why)
}

fn failure_json(failure: &FailedSide) -> Value {
    json!({
        "round": failure.round,
        "side": SIDES[failure.side],
        "payload_bytes": failure.payload_bytes,
        "why": failure.why,
    })
}
