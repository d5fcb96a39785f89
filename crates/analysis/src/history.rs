//! Steps and slow drifts of figures over several experiments.

use crate::results::{JudgedResults, MachineFacts, differences, differences_of_plans, differences_of_workloads};
use crate::selection::{Selection, too_few_anywhere};
use std::collections::{BTreeMap, HashMap};
use tripmeter_model::address::FigureAddress;
use tripmeter_model::group::{alike, by_key};
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::verdict::FigureVerdict;
use tripmeter_stats::Error;
use tripmeter_stats::change_points::{StepOptions, change_points};
use tripmeter_stats::slow_drift;

const NAMES_SHOWN: usize = 5;

fn first_of(names: &[String]) -> String {
    let more = match names.len().saturating_sub(NAMES_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names[..names.len().min(NAMES_SHOWN)].join(", ") + &more
}

/// Value of a figure in one experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryPoint {
    /// Index of the experiment in its [`History`].
    pub experiment: usize,
    /// One value over all rounds: rounds share the conditions of their experiment, so they are not independent runs.
    pub value: f64,
    /// Largest error from the clocks of two hosts, as in [`Selected::error`](crate::Selected::error).
    pub error: f64,
}

/// Values of a figure, in every experiment that has it.
#[derive(Clone, Debug, PartialEq)]
pub struct HistorySeries {
    /// Address of the figure.
    pub address: FigureAddress,
    /// Points, oldest first.
    pub points: Vec<HistoryPoint>,
}

/// Experiments over time.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Names of the experiments, oldest first.
    pub experiments: Vec<String>,
    /// Machine of each experiment.
    pub machines: Vec<MachineFacts>,
    /// Plan of each experiment.
    pub plans: Vec<Vec<SubExperiment>>,
    /// Selected figures, in order of first appearance.
    pub series: Vec<HistorySeries>,
    places: HashMap<FigureAddress, usize>,
    /// Largest [`Selected::needs`](crate::Selected::needs) over all experiments, by index of the series.
    needs: BTreeMap<usize, u64>,
}

/// Step or slow drift of one figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Address of the figure.
    pub address: FigureAddress,
    /// First experiment after a step, or first experiment of a drift.
    pub since: String,
    /// Last experiment of a drift; `None` for a step.
    pub until: Option<String>,
    /// Level before a step or at the start of a drift, in the unit of the figure.
    pub before: f64,
    /// Level after a step or at the end of a drift.
    pub after: f64,
    /// P-value of "no change".
    pub p: f64,
    /// True if marked as known.
    pub is_known: bool,
    /// Largest error from the clocks of two hosts, over all experiments.
    pub error: f64,
}

impl Change {
    /// True if clock errors may account for the change.
    pub fn is_inconclusive(&self) -> bool {
        self.error > 0.0 && (self.after - self.before).abs() <= 2.0 * self.error
    }

    /// Verdict on the figure.
    pub fn verdict(&self) -> FigureVerdict {
        match self.until {
            _ if self.is_known => FigureVerdict::Known,
            _ if self.is_inconclusive() => FigureVerdict::Inconclusive,
            Some(_) => FigureVerdict::Drift,
            None => FigureVerdict::Step,
        }
    }

    /// True for a finding: neither known nor inconclusive.
    pub fn is_new(&self) -> bool {
        self.verdict().is_bad()
    }

    /// Reason that it is not a finding: `known` or `inconclusive`; empty for a finding.
    pub fn word(&self) -> &'static str {
        if self.is_new() { "" } else { self.verdict().into() }
    }
}

/// Numbers of experiments that figures have, and that the detection of changes needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Fewest experiments to detect a step, half of them after it.
    pub step: usize,
    /// Fewest experiments to detect a slow drift.
    pub drift: usize,
    /// For each figure, the longest sequence of experiments without a change of machine or workload, or a known step;
    /// in the order of [`History::series`].
    pub longest: Vec<usize>,
}

impl Reach {
    /// Number of figures with fewer experiments than this.
    pub fn below(&self, experiments: usize) -> usize {
        self.longest.iter().filter(|longest| **longest < experiments).count()
    }

    /// Largest number of experiments that a figure has.
    pub fn most(&self) -> usize {
        self.longest.iter().copied().max().unwrap_or(0)
    }
}

/// Mark of a known change: an experiment, with one of its sub-experiments or for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownMark {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the sub-experiment; `None` for all.
    pub sub_experiment: Option<String>,
}

impl KnownMark {
    /// Parses `NAME` or `NAME:SUB`.
    pub fn parse(text: &str) -> Self {
        let (experiment, sub) = text.split_once(':').map_or((text, None), |(one, sub)| (one, Some(sub.to_owned())));
        Self { experiment: experiment.to_owned(), sub_experiment: sub }
    }

    fn is_of(&self, series: &HistorySeries) -> bool {
        self.sub_experiment.as_ref().is_none_or(|name| *name == series.address.sub_experiment)
    }
}

impl History {
    /// Adds the trusted figures of the newest experiment. If the rate of a load was missed, only its rates count.
    pub fn add(&mut self, name: &str, results: &JudgedResults, selection: &Selection) {
        let experiment = self.experiments.len();
        self.experiments.push(name.to_owned());
        self.machines.push(results.machine());
        self.plans.push(results.manifest.plan.sub_experiments.clone());
        let table = results.trusted();
        let missed = table.misses();
        for one in selection.select(&table) {
            if missed.iter().any(|row| table.is_of_missed(*row, &one.address)) {
                continue;
            }
            let place = *self.places.entry(one.address.clone()).or_insert(self.series.len());
            if place == self.series.len() {
                self.series.push(HistorySeries { address: one.address, points: Vec::new() });
            }
            self.series[place].points.push(HistoryPoint { experiment, value: one.value, error: one.error });
            if let Some(needs) = one.needs {
                let most = self.needs.entry(place).or_default();
                *most = needs.max(*most);
            }
        }
    }

    /// Line about percentiles with too few samples in some experiment.
    pub fn too_few(&self) -> Option<String> {
        too_few_anywhere(self.needs.iter().map(|(place, needs)| (&self.series[*place].address, *needs)))
    }

    /// Figures grouped by address without payload, in order of first appearance; payloads ascending.
    pub fn lines(&self) -> Vec<Vec<&HistorySeries>> {
        let mut lines = alike(&self.series, |first, series| first.address.is_same_but_for_payload(&series.address));
        lines.iter_mut().for_each(|line| line.sort_by_key(|series| series.address.payload_bytes));
        lines
    }

    /// True if the marked experiment has a figure, in the marked sub-experiment if the mark names one.
    pub fn has(&self, mark: &KnownMark) -> bool {
        self.series.iter().any(|series| self.place(mark, series).is_some())
    }

    fn place(&self, mark: &KnownMark, series: &HistorySeries) -> Option<usize> {
        let is_marked = |point: &HistoryPoint| self.experiments[point.experiment] == mark.experiment;
        series.points.iter().position(is_marked).filter(|_| mark.is_of(series))
    }

    /// Steps and slow drifts of every figure, and the number of figures searched.
    ///
    /// A value of 0 has no logarithm. So a figure that is 0 in some experiments is searched twice: for steps to and
    /// from 0, and for other changes among the experiments where it is above 0.
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
        for series in &self.series {
            let those = |is_one: fn(&&HistoryPoint) -> bool| HistorySeries {
                address: series.address.clone(),
                points: series.points.iter().filter(is_one).cloned().collect(),
            };
            let all = those(|point| point.value >= 0.0 && point.value.is_finite());
            let above_zero = those(|point| point.value > 0.0 && point.value.is_finite());
            if all.points.is_empty() {
                continue;
            }
            count += 1;
            let told = |error: Error| format!("'{}': {error}", series.address);
            let mut of_one = Vec::new();
            if above_zero.points.len() < all.points.len() {
                of_one = self.steps_at_zero(&all, steps, options).map_err(told)?;
            }
            if !above_zero.points.is_empty() {
                let others = self.changes_of(&above_zero, steps, drifts, options).map_err(told)?;
                let is_new = |one: &Change| {
                    let is_same = |known: &Change| one.until.is_none() && known.since == one.since;
                    !of_one.iter().any(is_same)
                };
                let others: Vec<Change> = others.into_iter().filter(is_new).collect();
                of_one.extend(others);
            }
            found.extend(of_one);
        }
        Ok((found, count))
    }

    /// Numbers of experiments available to the search for changes, and required by it.
    pub fn reach(&self, steps: &[KnownMark], options: &StepOptions) -> Reach {
        let longest = |series: &HistorySeries| {
            let mut borders = self.borders(series, steps).concat();
            borders.extend([0, series.points.len()]);
            borders.sort_unstable();
            borders.windows(2).map(|two| two[1] - two[0]).max().unwrap_or(0)
        };
        Reach { step: options.fewest(), drift: slow_drift::FEWEST, longest: self.series.iter().map(longest).collect() }
    }

    /// Lines about missing figures: one for each group of sub-experiments that lack figures in the same experiments.
    pub fn gaps(&self) -> Vec<String> {
        let mut names: Vec<&str> = Vec::new();
        let mut lacks: HashMap<&str, Vec<bool>> = HashMap::new();
        for series in &self.series {
            let name = series.address.sub_experiment.as_str();
            let places = lacks.entry(name).or_insert_with(|| {
                names.push(name);
                vec![true; self.experiments.len()]
            });
            series.points.iter().for_each(|point| places[point.experiment] = false);
        }
        let lacking = names.into_iter().filter(|name| lacks[name].contains(&true));
        let lacking = lacking.map(|name| (lacks[name].as_slice(), format!("'{name}'")));
        let line = |(places, names): (&[bool], Vec<String>)| {
            let experiments = self.experiments.iter().zip(places).filter(|(_, lacks)| **lacks);
            let lacks: Vec<String> = experiments.map(|(name, _)| format!("'{name}'")).collect();
            let has = if names.len() == 1 { "has" } else { "have" };
            let (names, count, of) = (first_of(&names), lacks.len(), self.experiments.len());
            format!("{names} {has} no figures in {count} of {of} experiments: {}", first_of(&lacks))
        };
        by_key(lacking).into_iter().map(line).collect()
    }

    /// Indices of points at which the machine or the workload of a figure changed, and indices of known steps.
    fn borders(&self, series: &HistorySeries, steps: &[KnownMark]) -> [Vec<usize>; 2] {
        let points = &series.points;
        let places = |is_one: &dyn Fn(usize) -> bool| (1..points.len()).filter(|&at| is_one(at)).collect::<Vec<_>>();
        let machine = |at: usize| &self.machines[points[at].experiment];
        let plan = |at: usize| self.plan(points[at].experiment, &series.address.sub_experiment);
        let is_other_workload = |at: usize| match (plan(at - 1), plan(at)) {
            (Some(one), Some(other)) => !differences_of_workloads(one, other).is_empty(),
            _ => false,
        };
        let is_break = |at: usize| differences(machine(at - 1), machine(at)).next().is_some() || is_other_workload(at);
        [places(&is_break), places(&|at| steps.iter().any(|mark| self.place(mark, series) == Some(at)))]
    }

    fn plan(&self, experiment: usize, name: &str) -> Option<&SubExperiment> {
        self.plans[experiment].iter().find(|plan| plan.name == name)
    }

    fn change(
        &self,
        series: &HistorySeries,
        since: usize,
        until: Option<usize>,
        [before, after, p]: [f64; 3],
        is_known: bool,
    ) -> Change {
        let name = |at: usize| self.experiments[series.points[at].experiment].clone();
        Change {
            address: series.address.clone(),
            since: name(since),
            until: until.map(name),
            before,
            after,
            p,
            is_known,
            error: series.points.iter().map(|point| point.error).fold(0.0, f64::max),
        }
    }

    fn changes_of(
        &self,
        series: &HistorySeries,
        steps: &[KnownMark],
        drifts: &[KnownMark],
        options: &StepOptions,
    ) -> Result<Vec<Change>, Error> {
        let [breaks, known] = self.borders(series, steps);
        let values: Vec<f64> = series.points.iter().map(|point| point.value).collect();
        let changed = slow_drift::changes(&values, &breaks, &known, options)?;
        let mut found: Vec<Change> = Vec::new();
        found.extend(
            changed
                .steps
                .iter()
                .map(|one| self.change(series, one.index, None, [one.before, one.after, one.p], one.is_known)),
        );
        let known_up_to = drifts.iter().filter_map(|mark| self.place(mark, series)).max();
        found.extend(changed.drifts.iter().map(|one| {
            let is_known = known_up_to.is_some_and(|last| one.last <= last);
            self.change(series, one.first, Some(one.last), [one.begin, one.end, one.p], is_known)
        }));
        Ok(found)
    }

    /// Steps between 0 and other values of a figure, whatever their size. Levels are means of the values between steps.
    fn steps_at_zero(
        &self,
        series: &HistorySeries,
        steps: &[KnownMark],
        options: &StepOptions,
    ) -> Result<Vec<Change>, Error> {
        let [breaks, known] = self.borders(series, steps);
        let points = &series.points;
        // Any two different levels serve.
        let levels: Vec<f64> = points.iter().map(|point| if point.value == 0.0 { 1.0 } else { 2.0 }).collect();
        let found = change_points(&levels, &breaks, &known, &StepOptions { min_change: 0.0, ..*options })?;
        let borders: Vec<usize> = breaks.iter().copied().chain(found.iter().map(|step| step.index)).collect();
        let mean =
            |from: usize, to: usize| points[from..to].iter().map(|point| point.value).sum::<f64>() / (to - from) as f64;
        let step = |at: usize| {
            let from = borders.iter().copied().filter(|border| *border < at).max().unwrap_or(0);
            let to = borders.iter().copied().filter(|border| *border > at).min().unwrap_or(points.len());
            [mean(from, at), mean(at, to)]
        };
        let changes = found.iter().map(|one| {
            let [before, after] = step(one.index);
            self.change(series, one.index, None, [before, after, one.p], one.is_known)
        });
        Ok(changes.collect())
    }

    /// Indices of experiments at which the machine or its settings changed, with the differences.
    pub fn breaks(&self) -> Vec<(usize, String)> {
        let changed = |pair: &[MachineFacts]| -> Vec<String> {
            differences(&pair[0], &pair[1]).map(|[name, one, other]| format!("{name} {one} -> {other}")).collect()
        };
        let pairs = self.machines.windows(2).map(changed).zip(1..);
        pairs.filter(|(changed, _)| !changed.is_empty()).map(|(changed, place)| (place, changed.join("; "))).collect()
    }

    /// Lines about changes of the machine, one for each of the [`History::breaks`].
    pub fn changes_of_machine(&self) -> Vec<String> {
        let line = |(place, what): (usize, String)| {
            let since = &self.experiments[place];
            format!("another environment since '{since}': {what}; the history is split there")
        };
        self.breaks().into_iter().map(line).collect()
    }

    /// Lines about changes of plans, one for each sub-experiment and experiment.
    pub fn changes_of_plans(&self) -> Vec<String> {
        let mut latest: HashMap<&str, &SubExperiment> = HashMap::new();
        let mut told = Vec::new();
        for (plans, since) in self.plans.iter().zip(&self.experiments) {
            for plan in plans {
                let Some(before) = latest.insert(&plan.name, plan) else { continue };
                let changed = differences_of_plans(before, plan);
                if changed.is_empty() {
                    continue;
                }
                let is_break = !differences_of_workloads(before, plan).is_empty();
                let across = if is_break { "; the history is split there" } else { "" };
                let changed: Vec<String> =
                    changed.iter().map(|(what, one, other)| format!("{what} {one} -> {other}")).collect();
                let name = &plan.name;
                told.push(format!("'{name}' was measured differently since '{since}': {}{across}", changed.join("; ")));
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::limit;
    use tripmeter_model::figure::{Figure, Statistic};

    fn history(figure: Figure, values: &[f64]) -> History {
        let address = limit("x", 16, (figure, Statistic::Value), 0.0).address;
        let points =
            values.iter().enumerate().map(|(experiment, value)| HistoryPoint { experiment, value: *value, error: 0.0 });
        History {
            experiments: (0..values.len()).map(|day| day.to_string()).collect(),
            machines: vec![MachineFacts::new(); values.len()],
            plans: vec![Vec::new(); values.len()],
            series: vec![HistorySeries { address, points: points.collect() }],
            places: HashMap::new(),
            needs: BTreeMap::new(),
        }
    }

    /// First experiment, level before and after.
    fn steps(figure: Figure, values: &[f64], known: &[&str]) -> Vec<(String, f64, f64, bool)> {
        let marks: Vec<KnownMark> = known.iter().map(|name| KnownMark::parse(name)).collect();
        // A step to or from 0 exceeds any minimum change.
        let options = StepOptions { min_change: 9.0, ..StepOptions::default() };
        let (found, count) = history(figure, values).changes(&marks, &[], &options).unwrap();
        assert_eq!(count, 1);
        found.into_iter().map(|one| (one.since, one.before, one.after, one.is_known)).collect()
    }

    #[test]
    fn a_step_to_or_from_0_is_told() {
        let rate = [[1000.0; 10].as_slice(), &[0.0; 6]].concat();
        assert_eq!(steps(Figure::ReceivedRate, &rate, &[]), [("10".to_owned(), 1000.0, 0.0, false)]);
        assert_eq!(steps(Figure::ReceivedRate, &rate, &["10"]), [("10".to_owned(), 1000.0, 0.0, true)]);
        let loss = [[0.0; 10].as_slice(), &[0.5; 6], &[0.0; 5]].concat();
        let expected = [("10".to_owned(), 0.0, 0.5, false), ("16".to_owned(), 0.5, 0.0, false)];
        assert_eq!(steps(Figure::LossShare, &loss, &[]), expected);
    }

    #[test]
    fn too_few_experiments_and_missing_sub_experiments_are_told() {
        let mut history = history(Figure::RttHalf, &[5.0; 12]);
        let options = StepOptions::default();
        let reach = |history: &History, known: &[&str]| {
            let marks: Vec<KnownMark> = known.iter().map(|name| KnownMark::parse(name)).collect();
            history.reach(&marks, &options)
        };
        let expected = Reach { step: 6, drift: 10, longest: vec![12] };
        assert_eq!(reach(&history, &[]), expected);
        assert_eq!(reach(&history, &["5"]).longest, [7]);
        history.machines.fill(MachineFacts::from([("CPU".to_owned(), "one".to_owned())]));
        history.machines[8] = MachineFacts::from([("CPU".to_owned(), "other".to_owned())]);
        assert_eq!(reach(&history, &[]).longest, [8], "another machine at 8, and back at 9");
        let found = reach(&history, &["4"]);
        assert_eq!((found.below(6), found.below(4), found.most()), (1, 0, 4));
        assert_eq!(history.gaps(), Vec::<String>::new());
        history.series[0].points.drain(3..10);
        assert_eq!(history.gaps(), ["'x' has no figures in 7 of 12 experiments: '3', '4', '5', '6', '7' and 2 more"]);
    }

    #[test]
    fn a_step_that_two_clocks_may_have_made_is_inconclusive() {
        let values: Vec<f64> = (0..20).map(|day| if day < 10 { 1000.0 } else { 1300.0 } + f64::from(day % 3)).collect();
        let mut history = history(Figure::ReceivedRate, &values);
        let mut found = |error: f64| {
            history.series[0].points[3].error = error;
            history.changes(&[], &[], &StepOptions::default()).unwrap().0
        };
        for (error, is_inconclusive) in [(0.0, false), (100.0, false), (160.0, true)] {
            let found = found(error);
            assert_eq!((found.len(), found[0].is_inconclusive()), (1, is_inconclusive), "{error} {found:?}");
        }
    }

    #[test]
    fn other_steps_and_single_zeros_are_as_before() {
        let one_zero = [[1000.0; 10].as_slice(), &[0.0], &[1001.0; 10]].concat();
        assert_eq!(steps(Figure::ReceivedRate, &one_zero, &[]), []);
        assert_eq!(steps(Figure::LossShare, &[0.0; 20], &[]), []);
        let larger = [[0.001; 9].as_slice(), &[0.0], &[0.2; 9]].concat();
        let found = steps(Figure::LossShare, &larger, &[]);
        assert!(found.len() == 1 && found[0].0 == "10", "{found:?}");
    }
}
