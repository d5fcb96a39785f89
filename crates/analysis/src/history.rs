//! Figures over time: their steps and slow drifts.

use crate::results::{JudgedResults, MachineFacts, differences};
use crate::selection::Selection;
use std::collections::HashMap;
use tripmeter_model::address::FigureAddress;
use tripmeter_model::figure::Figure;
use tripmeter_stats::Error;
use tripmeter_stats::change_points::StepOptions;
use tripmeter_stats::slow_drift;

/// A figure of one experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryPoint {
    /// The place of the experiment in its [`History`].
    pub experiment: usize,
    /// Of several rounds put together: what differs from one experiment to the next is the same for all rounds of one, so
    /// that they are no runs of their own.
    pub value: f64,
}

/// One figure in every experiment that has it.
#[derive(Clone, Debug, PartialEq)]
pub struct HistorySeries {
    /// What it is.
    pub address: FigureAddress,
    /// Oldest first.
    pub points: Vec<HistoryPoint>,
}

/// Experiments over time.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Their names, oldest first.
    pub experiments: Vec<String>,
    /// What each was measured on.
    pub machines: Vec<MachineFacts>,
    /// Every selected figure, in the order of first appearance.
    pub series: Vec<HistorySeries>,
    places: HashMap<FigureAddress, usize>,
}

/// A step or a slow drift of one figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The figure.
    pub address: FigureAddress,
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

/// What people have marked as known: an experiment, of all sub-experiments or of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownMark {
    /// The name of the experiment.
    pub experiment: String,
    /// The sub-experiment, if it is of one.
    pub sub_experiment: Option<String>,
}

impl KnownMark {
    /// Reads `NAME` or `NAME:SUB`.
    pub fn of(text: &str) -> Self {
        let (experiment, sub) = text.split_once(':').map_or((text, None), |(one, sub)| (one, Some(sub.to_owned())));
        Self { experiment: experiment.to_owned(), sub_experiment: sub }
    }

    fn is_of(&self, series: &HistorySeries) -> bool {
        self.sub_experiment.as_ref().is_none_or(|name| *name == series.address.sub_experiment)
    }
}

impl History {
    /// Adds the newest experiment: its trusted figures.
    pub fn add(&mut self, name: &str, results: &JudgedResults, selection: &Selection) {
        let experiment = self.experiments.len();
        self.experiments.push(name.to_owned());
        self.machines.push(results.machine());
        for one in selection.select(&results.trusted()) {
            let place = *self.places.entry(one.address.clone()).or_insert(self.series.len());
            if place == self.series.len() {
                self.series.push(HistorySeries { address: one.address, points: Vec::new() });
            }
            self.series[place].points.push(HistoryPoint { experiment, value: one.value });
        }
    }

    /// Whether an experiment of that name has a figure, of that sub-experiment if it is of one.
    pub fn has(&self, mark: &KnownMark) -> bool {
        self.series.iter().any(|series| self.place(mark, series).is_some())
    }

    /// The place of a mark among the points of a figure.
    fn place(&self, mark: &KnownMark, series: &HistorySeries) -> Option<usize> {
        let is_marked = |point: &HistoryPoint| self.experiments[point.experiment] == mark.experiment;
        series.points.iter().position(is_marked).filter(|_| mark.is_of(series))
    }

    /// The steps and slow drifts of every figure but losses, which are mostly 0 and have no ratio then, and in how many
    /// figures they were looked for.
    ///
    /// # Errors
    /// As [`slow_drift::changes`], in one line with the address.
    pub fn changes(
        &self,
        steps: &[KnownMark],
        drifts: &[KnownMark],
        options: &StepOptions,
    ) -> Result<(Vec<Change>, usize), String> {
        let (mut found, mut count) = (Vec::new(), 0);
        for series in self.series.iter().filter(|series| series.address.figure != Figure::LossShare) {
            let points = series.points.iter().filter(|point| point.value > 0.0 && point.value.is_finite());
            let series = HistorySeries { address: series.address.clone(), points: points.cloned().collect() };
            if !series.points.is_empty() {
                let of_one = self.changes_of(&series, steps, drifts, options);
                found.extend(of_one.map_err(|error| format!("'{}': {error}", series.address))?);
                count += 1;
            }
        }
        Ok((found, count))
    }

    fn changes_of(
        &self,
        series: &HistorySeries,
        steps: &[KnownMark],
        drifts: &[KnownMark],
        options: &StepOptions,
    ) -> Result<Vec<Change>, Error> {
        let points = &series.points;
        let places = |is_one: &dyn Fn(usize) -> bool| (1..points.len()).filter(|&at| is_one(at)).collect::<Vec<_>>();
        let machine = |at: usize| &self.machines[points[at].experiment];
        let breaks = places(&|at| differences(machine(at - 1), machine(at)).next().is_some());
        let known = places(&|at| steps.iter().any(|mark| self.place(mark, series) == Some(at)));
        let values: Vec<f64> = points.iter().map(|point| point.value).collect();
        let changed = slow_drift::changes(&values, &breaks, &known, options)?;
        let name = |at: usize| self.experiments[points[at].experiment].clone();
        let change = |since: usize, until: Option<usize>, [before, after, p]: [f64; 3], is_known| Change {
            address: series.address.clone(),
            since: name(since),
            until: until.map(name),
            before,
            after,
            p,
            is_known,
        };
        let mut found: Vec<Change> = Vec::new();
        found.extend(
            changed.steps.iter().map(|one| change(one.index, None, [one.before, one.after, one.p], one.is_known)),
        );
        let known_up_to = drifts.iter().filter_map(|mark| self.place(mark, series)).max();
        found.extend(changed.drifts.iter().map(|one| {
            let is_known = known_up_to.is_some_and(|last| one.last <= last);
            change(one.first, Some(one.last), [one.begin, one.end, one.p], is_known)
        }));
        Ok(found)
    }

    /// A line for each experiment from which on another machine, or one that is set otherwise, was measured on.
    pub fn changes_of_machine(&self) -> Vec<String> {
        let pairs = self.machines.windows(2).zip(self.experiments.iter().skip(1));
        let told = pairs.filter_map(|(pair, since)| {
            let changed: Vec<String> =
                differences(&pair[0], &pair[1]).map(|[name, one, other]| format!("{name} {one} -> {other}")).collect();
            (!changed.is_empty()).then(|| {
                let what = changed.join("; ");
                format!("another environment since '{since}', across which no changes are looked for: {what}")
            })
        });
        told.collect()
    }
}
