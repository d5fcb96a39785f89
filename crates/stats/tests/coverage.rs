//! Coverage of intervals and error rates of verdicts on realistic runs: dependent samples, two modes or a heavy
//! tail, and runs that differ.
//!
//! With many more trials, as in the table of docs/accuracy.md:
//! `cargo test --release -p tripmeter-stats --test coverage -- --ignored --nocapture | grep '^|' > docs/results/coverage.md`

use fastrand::Rng;
use std::f64::consts::TAU;
use tripmeter_stats::autocorrelation::{Autocorrelation, effective_size};
use tripmeter_stats::change::{ChangeVerdict, Control, Judged, judge_all};
use tripmeter_stats::change_points::StepOptions;
use tripmeter_stats::drift::drift;
use tripmeter_stats::modes::dip_test;
use tripmeter_stats::power::{Design, Layout};
use tripmeter_stats::rounds::figure_over_rounds;
use tripmeter_stats::shift::Shift;
use tripmeter_stats::slow_drift::{Changes, changes};
use tripmeter_stats::{ErrorBounds, binomial, order};

const SAMPLES: usize = 101;

/// Bound of a share, apart from chance.
enum Limit {
    AtLeast(f64),
    AtMost(f64),
    /// Reported only.
    None,
}

struct Row {
    what: String,
    mean: f64,
    error: f64,
    limit: Limit,
}

fn row(what: impl Into<String>, limit: Limit, outcomes: impl Iterator<Item = f64>) -> Row {
    let outcomes: Vec<f64> = outcomes.collect();
    let (count, mean) = (outcomes.len() as f64, outcomes.iter().sum::<f64>() / outcomes.len() as f64);
    let variance = outcomes.iter().map(|outcome| (outcome - mean).powi(2)).sum::<f64>() / count;
    // If all outcomes are equal, the error is that of the limit itself.
    let at_limit = match limit {
        Limit::AtLeast(p) | Limit::AtMost(p) => p * (1.0 - p),
        Limit::None => 0.0,
    };
    Row { what: what.into(), mean, error: (variance.max(at_limit) / count).sqrt(), limit }
}

fn share(outcome: bool) -> f64 {
    f64::from(u8::from(outcome))
}

fn normal(random: &mut Rng) -> f64 {
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (TAU * random.f64()).cos()
}

#[derive(Clone, Copy)]
enum Kind {
    Autoregressive,
    TwoModes,
    HeavyTail,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Autoregressive, Kind::TwoModes, Kind::HeavyTail];

    fn name(self) -> &'static str {
        match self {
            Kind::Autoregressive => "AR(1), 0.9",
            Kind::TwoModes => "two modes",
            Kind::HeavyTail => "Pareto, 1.5",
        }
    }

    /// Samples of one run; runs differ by some percent, or are in one mode or the other.
    fn run(self, random: &mut Rng) -> Vec<f64> {
        let mut state = normal(random);
        let of_run = 5.0 + 0.05 * normal(random);
        let slow = random.f64() < 0.4;
        let sample = |_| match self {
            Kind::Autoregressive => {
                state = 0.9 * state + (1.0_f64 - 0.81).sqrt() * normal(random);
                (of_run + 0.2 * state).exp()
            }
            Kind::TwoModes => {
                let in_other = slow != (random.f64() < 0.1);
                (of_run + 0.03 * normal(random) + if in_other { 0.4 } else { 0.0 }).exp()
            }
            Kind::HeavyTail => of_run.exp() * (1.0 - random.f64()).powf(-1.0 / 1.5),
        };
        (0..SAMPLES).map(sample).collect()
    }
}

const STATISTICS: [(&str, f64); 2] = [("median", 0.5), ("p99", 0.99)];

fn statistic(mut samples: Vec<f64>, p: f64) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    samples[(p * (samples.len() - 1) as f64).round() as usize]
}

fn runs(kind: Kind, p: f64, count: usize, random: &mut Rng) -> Vec<f64> {
    (0..count).map(|_| statistic(kind.run(random), p)).collect()
}

/// Intervals of ratios and of medians over runs.
fn intervals(trials: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for (kind, (name, p)) in Kind::ALL.into_iter().flat_map(|kind| STATISTICS.map(|statistic| (kind, statistic))) {
        let mut random = Rng::with_seed(7);
        let truth = statistic(runs(kind, p, 40 * trials.min(1000) + 1, &mut random), 0.5);
        let outcomes = [6, 10, 20].map(|n| {
            let mut outcomes = [const { Vec::new() }; 3];
            for _ in 0..trials {
                let (reference, result) = (runs(kind, p, n, &mut random), runs(kind, p, n, &mut random));
                let result: Vec<f64> = result.iter().map(|value| 1.1 * value).collect();
                let median = order::median_interval(&reference, 0.05);
                outcomes[0].push(share(is_covered(Shift::ratio(&reference, &result))));
                outcomes[1].push(share(is_covered(Shift::paired_ratio(&reference, &result))));
                outcomes[2].push(share(median.is_some_and(|interval| interval.contains(truth))));
            }
            outcomes
        });
        for (of, what) in ["ratio of independent runs", "ratio of pairs", "median over runs"].iter().enumerate() {
            for outcomes in &outcomes {
                let what = format!("{what}, {name}, {}; 6, 10, 20 runs", kind.name());
                rows.push(row(what, Limit::AtLeast(0.95), outcomes[of].iter().copied()));
            }
        }
    }
    rows
}

fn is_covered(ratio: Result<Shift, tripmeter_stats::Error>) -> bool {
    ratio.ok().and_then(|ratio| ratio.interval(0.05)).is_some_and(|interval| interval.contains(1.1))
}

/// Latencies of runs with clock errors up to 20 % of them, equal within a side, in the worst direction.
fn clocks(trials: usize) -> Vec<Row> {
    const ERROR: f64 = 20.0;
    let mut random = Rng::with_seed(12);
    let mut rows = Vec::new();
    for sign in [-1.0, 1.0] {
        let outcomes = [6, 10, 20].map(|n| {
            let mut outcomes = [const { Vec::new() }; 4];
            for _ in 0..trials {
                let mut values = |level: f64, off: f64| -> Vec<f64> {
                    (0..n).map(|_| level * (0.02 * normal(&mut random)).exp() + off).collect()
                };
                let (reference, result) = (values(100.0, sign * ERROR), values(110.0, -sign * ERROR));
                let over = figure_over_rounds(&reference, ErrorBounds::both(ERROR)).and_then(|over| over.interval);
                let errors = [ERROR; 2];
                outcomes[0].push(share(is_covered(Shift::ratio_within(&reference, &result, errors))));
                outcomes[1].push(share(is_covered(Shift::paired_ratio_within(&reference, &result, errors))));
                outcomes[2].push(share(over.is_some_and(|interval| interval.contains(100.0))));
                outcomes[3].push(share(is_covered(Shift::ratio(&reference, &result))));
            }
            outcomes
        });
        let what =
            ["ratio of independent runs", "ratio of pairs", "median over runs", "ratio without the error of clocks"];
        for (of, what) in what.iter().enumerate() {
            let limit = || if of < 3 { Limit::AtLeast(0.95) } else { Limit::AtMost(0.05) };
            let what =
                format!("{what}, two clocks off by {:+} % and {:+} %; 6, 10, 20 runs", sign * 20.0, -sign * 20.0);
            rows.extend(outcomes.iter().map(|outcomes| row(what.clone(), limit(), outcomes[of].iter().copied())));
        }
    }
    rows
}

/// Cases in which the assumptions of an interval do not hold.
fn assumptions(trials: usize) -> Vec<Row> {
    let mut random = Rng::with_seed(8);
    let mut rows = Vec::new();
    for (spread, n, m) in [(3.0, 10, 10), (3.0, 20, 10)] {
        let outcomes = (0..trials).map(|_| {
            let reference: Vec<f64> = (0..n).map(|_| (0.05 * normal(&mut random)).exp()).collect();
            let result: Vec<f64> = (0..m).map(|_| 1.1 * (0.05 * spread * normal(&mut random)).exp()).collect();
            share(is_covered(Shift::ratio(&reference, &result)))
        });
        let what = format!("ratio of independent runs, result spread {spread} times as wide, n = {n} and {m}");
        rows.push(row(what, Limit::None, outcomes));
    }
    for (memory, p) in [(0.0, 0.5), (0.0, 0.99), (0.9, 0.5), (0.9, 0.99)] {
        let truth = if p == 0.5 { 0.0 } else { 2.326_347_874_040_841 };
        let limit = if memory == 0.0 { Limit::AtLeast(0.95) } else { Limit::None };
        let outcomes = (0..trials).map(|_| {
            let mut samples = autoregressive(1000, memory, &mut random);
            samples.sort_unstable_by(f64::total_cmp);
            let (low, high) = order::quantile_bounds(&samples, p, 0.05);
            share(low.is_some_and(|low| low <= truth) && high.is_some_and(|high| high >= truth))
        });
        rows.push(row(format!("quantile {p} within a run, AR(1), {memory}, 1000 samples"), limit, outcomes));
    }
    let outcomes = (0..trials).map(|_| {
        let events = (0..2000).filter(|_| random.f64() < 0.002).count();
        share(binomial::clopper_pearson(events as u64, 2000, 0.05).contains(0.002))
    });
    rows.push(row("rate 0.002 of 2000 samples", Limit::AtLeast(0.95), outcomes));
    rows
}

fn autoregressive(count: usize, memory: f64, random: &mut Rng) -> Vec<f64> {
    let mut state = normal(random);
    let next = |_| {
        state = memory * state + (1.0 - memory * memory).sqrt() * normal(random);
        state
    };
    (0..count).map(next).collect()
}

/// Pairs of runs of many comparisons with the given true ratios; they share the part `common` of the variance of a
/// pair.
fn matrix(ratios: &[f64], pairs: usize, common: f64, random: &mut Rng) -> Vec<Shift> {
    let shared: Vec<f64> = (0..pairs).map(|_| normal(random)).collect();
    let comparison = |&ratio: &f64| {
        let noise = shared.iter().map(|shared| common.sqrt() * shared + (1.0 - common).sqrt() * normal(random));
        let results: Vec<f64> = noise.map(|noise| ratio * (0.05 * noise).exp()).collect();
        Shift::paired_ratio(&vec![1.0; pairs], &results).expect("values are above 0")
    };
    ratios.iter().map(comparison).collect()
}

/// Wrong verdicts on 40 comparisons, and right ones found.
fn verdicts(trials: usize) -> Vec<Row> {
    let mut random = Rng::with_seed(9);
    let ratios = |changed: f64, rest: f64| [vec![changed; 10], vec![rest; 30]].concat();
    let is_changed = |judged: &&Judged| matches!(judged.verdict, ChangeVerdict::Regressed | ChangeVerdict::Improved);
    let mut rows = Vec::new();
    for (what, margin, common, ratios) in [
        ("nothing changed, margin 0", 0.0, 0.0, vec![1.0; 40]),
        ("10 of 40 by 10 %, margin 0", 0.0, 0.0, ratios(1.1, 1.0)),
        ("the same, half of the noise in common", 0.0, 0.5, ratios(1.1, 1.0)),
        ("10 of 40 by 15 %, 30 by just the margin of 5 %", 0.05, 0.0, ratios(1.15, 1.05)),
    ] {
        let mut found = Vec::new();
        let wrong = (0..trials).map(|_| {
            let judged = judge_all(&matrix(&ratios, 14, common, &mut random), margin, Control::Fdr(0.05));
            let truly = ratios.iter().filter(|&&ratio| ratio > 1.0 + margin).count();
            let all = judged.iter().filter(is_changed).count();
            let right = judged[..truly].iter().filter(|judged| judged.verdict == ChangeVerdict::Regressed).count();
            found.push(right as f64 / truly.max(1) as f64);
            (all - right) as f64 / all.max(1) as f64
        });
        rows.push(row(format!("wrong among changes: {what}"), Limit::AtMost(0.05), wrong));
        rows.push(row(format!("found: {what}"), Limit::None, found.into_iter()));
    }
    let ratios = ratios(1.0, 1.05);
    let mut found = Vec::new();
    let wrong = (0..trials).map(|_| {
        let judged = judge_all(&matrix(&ratios, 20, 0.0, &mut random), 0.05, Control::Fdr(0.05));
        let of =
            |range: &[Judged]| range.iter().filter(|judged| judged.verdict == ChangeVerdict::Equivalent).count() as f64;
        found.push(of(&judged[..10]) / 10.0);
        of(&judged[10..]) / of(&judged).max(1.0)
    });
    rows.push(row("wrong among equivalent: 10 of 40 equal, 30 by just the margin of 5 %", Limit::AtMost(0.05), wrong));
    rows.push(row("found: 10 of 40 equal, 30 by just the margin of 5 %, 20 pairs", Limit::None, found.into_iter()));
    let any = (0..trials).map(|_| {
        let judged = judge_all(&matrix(&[1.0; 40], 14, 0.0, &mut random), 0.0, Control::Fwer(0.05));
        share(judged.iter().any(|judged| is_changed(&judged)))
    });
    rows.push(row("any change: nothing changed, family-wise", Limit::AtMost(0.05), any));
    rows
}

/// Share of detected changes with the number of runs that was requested.
fn power(trials: usize) -> Vec<Row> {
    let mut random = Rng::with_seed(10);
    let mut rows = Vec::new();
    for (layout, comparisons, margin, ratio) in [
        (Layout::Paired, 1, 0.0, 1.05),
        (Layout::Paired, 1, 0.05, 1.1),
        (Layout::Paired, 40, 0.0, 1.05),
        (Layout::Paired, 300, 0.0, 1.1),
        (Layout::Independent, 1, 0.0, 1.05),
        (Layout::Independent, 1, 0.0, 1.1),
        (Layout::Independent, 40, 0.0, 1.1),
    ] {
        for power in [0.8, 0.95] {
            let design = Design { layout, log_sd: 0.05, margin, alpha: 0.05, comparisons, power };
            let n = design.runs_needed(ratio).expect("a million runs suffice") as usize;
            let outcomes = (0..trials).map(|_| {
                let mut values =
                    |level: f64| (0..n).map(|_| level * (0.05 * normal(&mut random)).exp()).collect::<Vec<_>>();
                let shift = match layout {
                    Layout::Paired => Shift::paired_ratio(&vec![1.0; n], &values(ratio)),
                    Layout::Independent => Shift::ratio(&values(1.0), &values(ratio)),
                };
                let interval = shift.ok().and_then(|shift| shift.interval(0.05 / comparisons as f64));
                share(interval.is_some_and(|interval| interval.low > 1.0 + margin))
            });
            let what = format!(
                "power {power}, {layout:?}, 5 % noise, margin {margin}, ratio {ratio}, 1 of {comparisons}, n = {n}"
            );
            rows.push(row(what, Limit::AtLeast(power - 0.03), outcomes));
        }
    }
    rows
}

/// Histories, drift and modes without anything to find, and histories with a change.
fn histories(trials: usize) -> Vec<Row> {
    let mut random = Rng::with_seed(11);
    let mut rows = Vec::new();
    for (min_change, noise) in [(0.0, 0.05), (0.05, 0.02), (0.05, 0.05), (0.05, 0.1)] {
        let options = StepOptions { min_change, ..StepOptions::default() };
        let outcomes = (0..trials).map(|_| {
            let values: Vec<f64> = (0..300).map(|_| (noise * normal(&mut random)).exp()).collect();
            share(changes(&values, &[], &[], &options).is_ok_and(|found| found != Changes::default()))
        });
        let what = format!("history: false step or drift in 300 values, noise {noise}, smallest step {min_change}");
        rows.push(row(what, Limit::None, outcomes));
    }
    for after in [5, 10, 20] {
        let outcomes = (0..trials).map(|_| {
            let level = |index| if index < 60 { 1.0 } else { 1.1 };
            let values: Vec<f64> =
                (0..60 + after).map(|index| level(index) * (0.03 * normal(&mut random)).exp()).collect();
            let found = changes(&values, &[], &[], &StepOptions::default()).unwrap_or_default();
            share(found.steps.iter().any(|step| step.index.abs_diff(60) <= 2))
        });
        rows.push(row(format!("history: step of 10 % found {after} values later, noise 0.03"), Limit::None, outcomes));
    }
    for count in [20, 60, 120] {
        let found: Vec<Changes> = (0..trials)
            .map(|_| {
                let level = |index| 1.0 + 0.2 * f64::from(index) / f64::from(count - 1);
                let values: Vec<f64> =
                    (0..count).map(|index| level(index) * (0.03 * normal(&mut random)).exp()).collect();
                changes(&values, &[], &[], &StepOptions::default()).unwrap_or_default()
            })
            .collect();
        let what = format!("history: drift by 20 % over {count} values, noise 0.03");
        let drifts = found.iter().map(|found| share(!found.drifts.is_empty()));
        rows.push(row(format!("{what}, told as drift"), Limit::None, drifts));
        let steps = found.iter().map(|found| share(!found.steps.is_empty()));
        rows.push(row(format!("{what}, told as steps"), Limit::None, steps));
    }
    for memory in [0.0, 0.5, 0.9] {
        let outcomes = (0..trials).map(|_| {
            let found = drift(&autoregressive(2000, memory, &mut random));
            share(found.is_some_and(|found| found.p <= 0.05))
        });
        let limit = if memory == 0.0 { Limit::AtMost(0.05) } else { Limit::None };
        rows.push(row(format!("drift: false at p = 0.05, AR(1), {memory}, 2000 samples"), limit, outcomes));
    }
    let outcomes = (0..trials.min(1000)).map(|_| {
        let values: Vec<f64> = (0..40).map(|_| random.f64()).collect();
        share(dip_test(&values).is_some_and(|found| found.p <= 0.05))
    });
    rows.push(row("modes: false at p = 0.05, 40 uniform values", Limit::AtMost(0.05), outcomes));
    let outcomes = (0..trials.div_ceil(10)).map(|_| {
        let mut found = Autocorrelation::new(100);
        autoregressive(20_000, 0.9, &mut random).into_iter().for_each(|sample| found.push(sample));
        // In theory n (1 - r) / (1 + r).
        effective_size(20_000, &found.coefficients().unwrap_or_default()).samples / 20_000.0
    });
    rows.push(row("effective share of samples, AR(1), 0.9 (theory 0.0526)", Limit::None, outcomes));
    rows
}

/// Four standard errors: one of 10,000 correct rows fails.
fn assert_keeps_its_limit(row: &Row) {
    let Row { what, mean, error, limit } = row;
    match limit {
        Limit::AtLeast(least) => assert!(*mean >= least - 4.0 * error, "{what}: {mean} is below {least}"),
        Limit::AtMost(most) => assert!(*mean <= most + 4.0 * error, "{what}: {mean} is above {most}"),
        Limit::None => {}
    }
}

#[test]
fn intervals_cover() {
    intervals(80).iter().chain(&clocks(200)).for_each(assert_keeps_its_limit);
}

#[test]
fn verdicts_are_seldom_wrong() {
    [verdicts(40), power(100), assumptions(60), histories(30)].iter().flatten().for_each(assert_keeps_its_limit);
}

/// Table of docs/results/coverage.md; minutes in a release build.
#[test]
#[ignore = "the full number of trials: add --ignored, in a release build"]
fn full_table() {
    println!("| what | measured | must be |\n| --- | --- | --- |");
    for rows in
        [intervals(10_000), assumptions(10_000), verdicts(4_000), power(10_000), histories(2_000), clocks(10_000)]
    {
        for same in rows.chunk_by(|a, b| a.what == b.what) {
            let limit = match same[0].limit {
                Limit::AtLeast(least) => format!("at least {:.0} %", 100.0 * least),
                Limit::AtMost(most) => format!("at most {:.0} %", 100.0 * most),
                Limit::None => String::new(),
            };
            let measured: Vec<String> = same.iter().map(|row| format!("{:.1} %", 100.0 * row.mean)).collect();
            println!("| {} | {} | {limit} |", same[0].what, measured.join(", "));
        }
        rows.iter().for_each(assert_keeps_its_limit);
    }
}
