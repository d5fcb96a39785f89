//! Check of an experiment against limits.

use crate::results::{JudgedResults, SubStanding};
use crate::selection::{Selected, Selection, too_few};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use tripmeter_model::address::FigureAddress;
use tripmeter_model::figure::{Figure, Statistic, Unit};
use tripmeter_model::limits::{FigureLimits, Limit};
use tripmeter_model::verdict::FigureVerdict;
use tripmeter_stats::conformal;

/// Figure with its limit, and the measured value.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedLimit {
    /// Limit, with its address.
    pub limit: Limit,
    /// Measured value, from [`crate::Selected::value`]; `None` if not measured.
    pub value: Option<f64>,
    /// Largest error from the clocks of two hosts, from [`Selected::error`].
    pub error: f64,
    /// Samples that each round needs, if there are too few, from [`Selected::needs`].
    pub needs: Option<u64>,
}

impl CheckedLimit {
    /// Outcome: `Passed` if not beyond the limit; `Failed` if beyond it, not a number, or not measured; else
    /// `Inconclusive`, because of clock errors or too few samples.
    pub fn outcome(&self) -> FigureVerdict {
        let room = |value: f64| if self.limit.is_lower() { value - self.limit.limit } else { self.limit.limit - value };
        let room = self.value.map_or(f64::NAN, room);
        match [room - self.error, room + self.error].map(|room| room >= 0.0) {
            [true, true] if self.needs.is_none() => FigureVerdict::Passed,
            [_, true] => FigureVerdict::Inconclusive,
            _ => FigureVerdict::Failed,
        }
    }

    /// True if it was measured and is not beyond the limit, whatever the clock errors.
    pub fn passed(&self) -> bool {
        self.outcome() == FigureVerdict::Passed
    }

    /// Distance beyond the limit, as a share of the limit. Negative within the limit, NaN if both are 0, `None` if not
    /// measured.
    pub fn share_beyond(&self) -> Option<f64> {
        let more = (self.value? - self.limit.limit) / self.limit.limit;
        Some(if self.limit.is_lower() { -more } else { more })
    }
}

/// Sub-experiment with its limits.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedSub {
    /// Name.
    pub name: String,
    /// Limits, in file order.
    pub rows: Vec<CheckedLimit>,
    /// Reason to fail even if all limits are met.
    pub distrust: Option<String>,
    /// Other notes, a line each.
    pub notes: Vec<String>,
}

impl CheckedSub {
    /// True if no limit is exceeded; if `strict`, only if no limit is inconclusive either.
    pub fn passed(&self, strict: bool) -> bool {
        let is_bad = |outcome| outcome == FigureVerdict::Failed || strict && outcome == FigureVerdict::Inconclusive;
        self.distrust.is_none() && !self.rows.iter().any(|row| is_bad(row.outcome()))
    }

    /// Numbers of inconclusive limits, due to clock errors and due to too few samples.
    pub fn inconclusive_rows(&self) -> [usize; 2] {
        let unclear = self.rows.iter().filter(|row| row.outcome() == FigureVerdict::Inconclusive);
        let (few, clocks): (Vec<_>, Vec<_>) = unclear.partition(|row| row.needs.is_some());
        [clocks.len(), few.len()]
    }

    /// Number of limits that are met.
    pub fn passed_rows(&self) -> usize {
        self.rows.iter().filter(|row| row.passed()).count()
    }

    /// Worst figure: one that fails, else one that is inconclusive, else the nearest to its limit. Among several: one
    /// that was not measured, else the farthest beyond its limit.
    pub fn worst(&self) -> Option<&CheckedLimit> {
        let badness = |row: &CheckedLimit| {
            let share = row.share_beyond().filter(|share| !share.is_nan()).unwrap_or(f64::NEG_INFINITY);
            ((Reverse(row.outcome()), row.value.is_none()), share)
        };
        let order = |a: &&CheckedLimit, b: &&CheckedLimit| {
            let (a, b) = (badness(a), badness(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        };
        // For ties, the first one.
        self.rows.iter().rev().max_by(order)
    }
}

/// Result of a check against limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultsCheck {
    /// Sub-experiments with limits, in the order of the plan.
    pub checked: Vec<CheckedSub>,
    /// Names of sub-experiments without limits.
    pub without_limits: Vec<String>,
    /// Names of sub-experiments that have limits but are not in the plan.
    pub not_measured: Vec<String>,
    /// Lines about transports that were requested by name and could not run.
    pub could_not_run: Vec<String>,
}

impl ResultsCheck {
    /// Checks every figure that has a limit.
    pub fn new(limits: &FigureLimits, results: &JudgedResults) -> Self {
        let limits = &limits.clone().named_as_today(&results.names());
        let table = results.table();
        let measured = Selection::every(&kinds(limits), &table);
        let measured: HashMap<&FigureAddress, &Selected> = measured.iter().map(|one| (&one.address, one)).collect();
        let limited = limits.sub_experiments();
        let mut check = Self::default();
        for name in results.names() {
            if !limited.contains(&name) {
                check.without_limits.push(name.to_owned());
                continue;
            }
            let rows = limits.rows.iter().filter(|limit| limit.address.sub_experiment == name);
            let checked = |limit: &Limit| {
                let found = measured.get(&limit.address);
                let (value, error) = (found.map(|one| one.value), found.map_or(0.0, |one| one.error));
                CheckedLimit { limit: limit.clone(), value, error, needs: found.and_then(|one| one.needs) }
            };
            let rows: Vec<CheckedLimit> = rows.map(checked).collect();
            let judged: Vec<&FigureAddress> = rows.iter().map(|row| &row.limit.address).collect();
            let SubStanding { distrust, mut notes } = results.standing(name, &table, &judged);
            let unclear = rows.iter().filter(|row| row.outcome() == FigureVerdict::Inconclusive);
            notes.extend(too_few(unclear.filter_map(|row| Some((&row.limit.address, row.needs?)))));
            check.checked.push(CheckedSub { name: name.to_owned(), rows, distrust, notes });
        }
        let planned = results.names();
        check.could_not_run = results.not_measured();
        check.not_measured = limited.into_iter().filter(|name| !planned.contains(name)).map(str::to_owned).collect();
        check
    }

    /// Number of failing sub-experiments; if `strict`, inconclusive ones and those without limits or results fail, too.
    pub fn failing(&self, strict: bool) -> usize {
        let failing = self.checked.iter().filter(|one| !one.passed(strict)).count();
        failing + self.failing_on_one_side(strict)
    }

    /// Number of failing sub-experiments without limits or without results.
    pub fn failing_on_one_side(&self, strict: bool) -> usize {
        let without_limits = if strict { self.without_limits.len() + self.could_not_run.len() } else { 0 };
        without_limits + if self.needs_all(strict) { self.not_measured.len() } else { 0 }
    }

    /// True if sub-experiments with limits and without results fail: if `strict`, or if some transports could not run.
    pub fn needs_all(&self, strict: bool) -> bool {
        strict || !self.could_not_run.is_empty()
    }

    /// Number of limits that are met, and number of all limits.
    pub fn counts(&self) -> (usize, usize) {
        let passed = self.checked.iter().map(CheckedSub::passed_rows).sum();
        (passed, self.checked.iter().map(|one| one.rows.len()).sum())
    }

    /// True if every figure with a limit was measured.
    pub fn is_whole(&self) -> bool {
        self.not_measured.is_empty() && self.checked.iter().flat_map(|one| &one.rows).all(|row| row.value.is_some())
    }
}

/// Factors that loosen the limits of each kind, so that a clean run exceeds any of them only with a bounded
/// probability.
///
/// Each limit is a high percentile of a figure over many runs. With hundreds of limits, most clean runs exceed one. So
/// all limits of a kind (a figure and a statistic) are loosened equally, computed from other runs than the limits. Only
/// the worst figure of each kind in a run counts. Each kind has an equal share of the rate.
///
/// Upper limits are multiplied by a factor, lower limits divided by it. For the kinds of [`is_added`], whose limits may
/// be 0, an amount is added or subtracted instead.
///
/// # Source
/// Module [`conformal`].
#[derive(Clone, Debug, PartialEq)]
pub struct Factors(pub Vec<(LimitKind, f64)>);

/// Figure and statistic of a limit.
pub type LimitKind = (Figure, Statistic);

/// Kinds that have limits.
pub fn kinds(limits: &FigureLimits) -> Vec<LimitKind> {
    let kinds: BTreeSet<LimitKind> = limits.rows.iter().map(kind).collect();
    kinds.into_iter().collect()
}

fn kind(limit: &Limit) -> LimitKind {
    (limit.address.figure, limit.address.statistic)
}

/// True if limits of a kind are loosened by addition: counts, shares, and any kind with an upper limit of 0.
pub fn is_added(of: LimitKind, limits: &FigureLimits) -> bool {
    let is_zero = |limit: &Limit| kind(limit) == of && limit.limit == 0.0 && !limit.is_lower();
    matches!(of.0.unit(), Unit::Count | Unit::Share) || limits.rows.iter().any(is_zero)
}

impl Factors {
    /// Factors at which a run like `runs` exceeds any limit with at most the probability `rate`; `runs` are results of
    /// checks against the limits. `None` with fewer runs than [`conformal::fewest_runs`] for the [`kinds`] of limits.
    ///
    /// # Panics
    /// If `rate` is not between 0 and 1.
    pub fn from_runs(runs: &[ResultsCheck], limits: &FigureLimits, rate: f64) -> Option<Self> {
        let kinds = kinds(limits);
        let factor = |&kind: &LimitKind| {
            let is_added = is_added(kind, limits);
            let worst: Vec<f64> = runs.iter().map(|run| largest_excess(run, kind, is_added)).collect();
            let bound = conformal::upper_bound(&worst, rate, kinds.len())?;
            Some((kind, bound.max(if is_added { 0.0 } else { 1.0 })))
        };
        kinds.iter().map(factor).collect::<Option<_>>().map(Self)
    }

    /// Loosened limits.
    pub fn applied(&self, limits: &FigureLimits) -> FigureLimits {
        let loosened = |limit: &Limit| {
            let factor = self.0.iter().find(|(known, _)| *known == kind(limit)).map(|(_, factor)| *factor);
            let loose = match factor {
                Some(more) if is_added(kind(limit), limits) && limit.is_lower() => limit.limit - more,
                Some(more) if is_added(kind(limit), limits) => limit.limit + more,
                Some(factor) if limit.is_lower() => limit.limit / factor,
                Some(factor) => limit.limit * factor,
                None => limit.limit,
            };
            Limit { limit: loose, ..limit.clone() }
        };
        FigureLimits { rows: limits.rows.iter().map(loosened).collect() }
    }
}

/// Factor or amount by which limits of a kind must be loosened so that a run passes; 0 without such limits.
fn largest_excess(run: &ResultsCheck, of: LimitKind, is_added: bool) -> f64 {
    let rows = run.checked.iter().flat_map(|one| &one.rows).filter(|row| kind(&row.limit) == of);
    let excess = |row: &CheckedLimit| {
        let (value, limit) = (row.value?, row.limit.limit);
        let excess = match (is_added, row.limit.is_lower()) {
            (true, false) => value - limit,
            (true, true) => limit - value,
            (false, true) => limit / value,
            (false, false) => value / limit,
        };
        (!excess.is_nan()).then_some(excess)
    };
    rows.filter_map(excess).fold(0.0, f64::max)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tripmeter_model::address::FigureAddress;
    use tripmeter_model::metric::Stream;
    use tripmeter_model::pace::OfferedLoad;

    pub(crate) fn limit(name: &str, bytes: u64, (figure, statistic): LimitKind, limit: f64) -> Limit {
        let address = FigureAddress {
            sub_experiment: name.to_owned(),
            payload_bytes: bytes,
            has_several_sizes: false,
            load: OfferedLoad::Closed,
            stream: Stream::all(),
            figure,
            statistic,
        };
        Limit { address, limit }
    }

    const MEDIAN: LimitKind = (Figure::RttHalf, Statistic::P50);
    const P99: LimitKind = (Figure::RttHalf, Statistic::P99);
    const LOSS: LimitKind = (Figure::LossShare, Statistic::Value);
    const RATE: LimitKind = (Figure::ReceivedRate, Statistic::Value);

    fn run(limits: &FigureLimits, values: &[f64]) -> ResultsCheck {
        let rows = limits.rows.iter().zip(values);
        let rows = rows.map(|(limit, value)| CheckedLimit {
            limit: limit.clone(),
            value: Some(*value),
            error: 0.0,
            needs: None,
        });
        let rows = rows.collect();
        let checked = vec![CheckedSub { name: "uds".to_owned(), rows, distrust: None, notes: Vec::new() }];
        ResultsCheck { checked, ..ResultsCheck::default() }
    }

    fn limits(kinds: &[LimitKind], value: f64) -> FigureLimits {
        FigureLimits { rows: (1..).zip(kinds).map(|(bytes, kind)| limit("uds", bytes, *kind, value)).collect() }
    }

    #[test]
    fn the_limit_itself_passes_and_rates_have_lower_ones() {
        let one = |kind, value| CheckedLimit { limit: limit("a", 1, kind, 2.0), value, error: 0.0, needs: None };
        assert!(one(MEDIAN, Some(2.0)).passed() && one(RATE, Some(2.0)).passed());
        assert!(!one(MEDIAN, Some(2.1)).passed() && !one(RATE, Some(1.9)).passed());
        assert!(!one(MEDIAN, None).passed() && !one(MEDIAN, Some(f64::NAN)).passed());
        assert_eq!(
            (one(MEDIAN, Some(2.5)).share_beyond(), one(RATE, Some(1.5)).share_beyond()),
            (Some(0.25), Some(0.25))
        );
    }

    #[test]
    fn what_two_clocks_do_not_tell_is_inconclusive_and_fails_nothing() {
        use FigureVerdict::{Failed, Inconclusive, Passed};
        let one =
            |kind, value| CheckedLimit { limit: limit("a", 1, kind, 2.0), value: Some(value), error: 0.2, needs: None };
        assert_eq!(
            [1.7, 1.9, 2.1, 2.3].map(|value| one(MEDIAN, value).outcome()),
            [Passed, Inconclusive, Inconclusive, Failed]
        );
        assert_eq!(
            [2.3, 2.1, 1.9, 1.7].map(|value| one(RATE, value).outcome()),
            [Passed, Inconclusive, Inconclusive, Failed]
        );
        assert_eq!(CheckedLimit { value: None, ..one(MEDIAN, 1.0) }.outcome(), Failed, "not measured");
        let sub = |row| {
            let (name, rows, notes) = ("a".to_owned(), vec![row], Vec::new());
            CheckedSub { name, rows, distrust: None, notes }
        };
        let of = |sub: CheckedSub| ([false, true].map(|strict| sub.passed(strict)), sub.inconclusive_rows());
        assert_eq!(
            [1.7, 2.1, 2.3].map(|value| of(sub(one(MEDIAN, value)))),
            [([true; 2], [0; 2]), ([true, false], [1, 0]), ([false; 2], [0; 2])]
        );
        let few = |value| sub(CheckedLimit { error: 0.0, needs: Some(299), ..one(P99, value) });
        assert_eq!([1.7, 2.1].map(|value| of(few(value))), [([true, false], [0, 1]), ([false; 2], [0; 2])]);
    }

    #[test]
    fn the_worst_is_by_outcome_then_by_distance() {
        let limits = limits(&[MEDIAN, P99, RATE], 2.0);
        let worst = |values: [Option<f64>; 3]| {
            let mut sub = run(&limits, &[0.0; 3]).checked.remove(0);
            sub.rows.iter_mut().zip(values).for_each(|(row, value)| row.value = value);
            sub.worst().map(|row| row.limit.address.payload_bytes)
        };
        assert_eq!(worst([Some(1.0), Some(1.9), Some(9.0)]), Some(2));
        assert_eq!(worst([Some(1.0), Some(2.5), Some(1.0)]), Some(3));
        assert_eq!(worst([None, Some(99.0), Some(1.0)]), Some(1));
        let mut sub = run(&limits, &[1.9, 1.0, 9.0]).checked.remove(0);
        sub.rows[1].needs = Some(299);
        assert_eq!(sub.worst(), Some(&sub.rows[1]), "those that pass are nearer to their limits");
    }

    #[test]
    fn factors_are_ranks_of_the_largest_shares() {
        let limits = limits(&[MEDIAN, MEDIAN, P99, P99, LOSS], 1.0);
        assert_eq!(kinds(&limits), [MEDIAN, P99, LOSS]);
        let of = |index: u32| f64::from(index) / 10.0;
        let runs: Vec<ResultsCheck> =
            (1..=59).map(|index| run(&limits, &[0.5, of(index), 0.5, of(index), 0.0])).collect();
        let factors = |runs: &[ResultsCheck], rate| Factors::from_runs(runs, &limits, rate);
        let alike = |factor: f64| Some(Factors(vec![(MEDIAN, factor), (P99, factor), (LOSS, 0.0)]));
        assert_eq!((conformal::fewest_runs(0.05, 3), factors(&runs[..58], 0.05)), (59, None));
        assert_eq!(
            (factors(&runs, 0.05), factors(&runs, 0.5), factors(&runs, 0.999)),
            (alike(5.9), alike(5.0), alike(4.1))
        );
        let larger = Factors(vec![(MEDIAN, 2.0), (P99, 3.0)]).applied(&limits);
        assert_eq!(larger.rows.iter().map(|row| row.limit).collect::<Vec<_>>(), [2.0, 2.0, 3.0, 3.0, 1.0]);
    }

    #[test]
    fn losses_are_loosened_by_a_sum_and_rates_downwards() {
        let limits = FigureLimits { rows: vec![limit("uds", 1, LOSS, 0.0), limit("uds", 1, RATE, 1000.0)] };
        let runs: Vec<ResultsCheck> = (1..=99).map(|index| run(&limits, &[f64::from(index) / 1000.0, 800.0])).collect();
        let factors = Factors::from_runs(&runs, &limits, 0.05).unwrap();
        let loose: Vec<f64> = factors.applied(&limits).rows.iter().map(|row| row.limit).collect();
        assert_eq!(loose, [0.098, 800.0]);
    }

    #[test]
    fn limits_of_0_are_loosened_too() {
        let value = Statistic::Value;
        let rows = [
            (Figure::Lost, value, 0.0),
            (Figure::Lost, value, 4.0),
            (Figure::DeliveredShare, value, 1.0),
            (Figure::SwitchesRate, value, 0.0),
            (Figure::ReceivedRate, value, 0.0),
            (Figure::RttHalf, Statistic::Stdev, 0.0),
        ];
        let limits = FigureLimits {
            rows: rows.iter().map(|&(figure, of, value)| limit("uds", 1, (figure, of), value)).collect(),
        };
        let runs: Vec<ResultsCheck> = (0..99).map(|_| run(&limits, &[2.0, 5.0, 0.5, 7.0, 0.0, 3.0])).collect();
        let loose = Factors::from_runs(&runs, &limits, 0.05).unwrap().applied(&limits);
        assert_eq!(loose.rows.iter().map(|row| row.limit).collect::<Vec<_>>(), [2.0, 6.0, 0.5, 7.0, 0.0, 3.0]);
        assert_eq!(run(&loose, &[2.0, 6.0, 0.5, 7.0, 0.0, 3.0]).failing(false), 0);
    }

    /// With 100 limits at the 99th percentile, most clean runs exceed one limit; with factors, at most 5 % do.
    #[test]
    fn a_clean_run_breaks_a_limit_as_seldom_as_asked_for() {
        let mut random = fastrand::Rng::with_seed(11);
        let (mut alone, mut together) = (0, 0);
        let trials = 300;
        for _ in 0..trials {
            let mut figures = || {
                let pace = 1.0 + 0.05 * random.f64();
                (0..100).map(|_| pace * (1.0 + 0.1 * random.f64().powi(3))).collect::<Vec<f64>>()
            };
            let base: Vec<Vec<f64>> = (0..100).map(|_| figures()).collect();
            let limit_of = |payload: usize| {
                let mut values: Vec<f64> = base.iter().map(|run| run[payload]).collect();
                values.sort_unstable_by(f64::total_cmp);
                values[98]
            };
            let rows = (0..100).map(|payload| limit("uds", payload as u64 + 1, MEDIAN, limit_of(payload))).collect();
            let limits = FigureLimits { rows };
            let runs: Vec<ResultsCheck> = (0..100).map(|_| run(&limits, &figures())).collect();
            let factors = Factors::from_runs(&runs, &limits, 0.05).unwrap();
            let new = figures();
            alone += run(&limits, &new).failing(false);
            together += run(&factors.applied(&limits), &new).failing(false);
        }
        assert!(alone > trials / 3, "{alone}");
        // 5 % of 300, plus three standard deviations.
        assert!(together <= 15 + 12, "{together}");
    }
}
