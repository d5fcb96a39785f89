//! Golden figures of scipy, numpy, statsmodels, diptest and Apache Otava, made by `golden/make.py`.

use serde_json::Value;
use tripmeter_stats::autocorrelation::{Autocorrelation, effective_size};
use tripmeter_stats::change_points::{StepOptions, change_points};
use tripmeter_stats::drift::drift;
use tripmeter_stats::modes::dip_test;
use tripmeter_stats::mser::mser5;
use tripmeter_stats::power::{Design, Layout};
use tripmeter_stats::shift::Shift;
use tripmeter_stats::{Interval, binomial, multiplicity, order};

fn golden(topic: &str) -> Value {
    let all: Value = serde_json::from_str(include_str!("golden/golden.json")).expect("make.py writes JSON");
    all[topic].clone()
}

fn cases(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn count(value: &Value) -> u64 {
    value.as_u64().expect("a count")
}

fn numbers(value: &Value) -> Vec<f64> {
    cases(value).iter().map(number).collect()
}

/// Compares to a relative 1e-9.
#[track_caller]
fn assert_near(found: f64, expected: f64, case: &Value) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} is not {expected}: {case}");
}

#[track_caller]
fn assert_all_near(found: &[f64], expected: &Value) {
    assert_eq!(found.len(), cases(expected).len());
    for (found, expected) in found.iter().zip(numbers(expected)) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs() + 1e-14, "{found} is not {expected}");
    }
}

/// Compares a shift with a case; `scale` converts the case's differences to the unit of the shift.
fn assert_is_shift(shift: &Shift, case: &Value, scale: fn(f64) -> f64) {
    assert_near(shift.hodges_lehmann(), scale(number(&case["estimate"])), &case["estimate"]);
    for expected in cases(&case["intervals"]) {
        match (shift.interval(number(&expected[0])), &expected[1]) {
            (None, Value::Null) => {}
            (Some(Interval { low, high }), ends) => {
                assert_near(low, scale(number(&ends[0])), expected);
                assert_near(high, scale(number(&ends[1])), expected);
            }
            (None, _) => panic!("no interval: {expected}"),
        }
    }
    for expected in cases(&case["p"]) {
        let bound = scale(number(&expected[0]));
        assert_near(shift.p_greater(bound), number(&expected[1]), expected);
        assert_near(shift.p_less(bound), number(&expected[2]), expected);
    }
}

#[test]
fn shifts_are_those_of_scipy() {
    let golden = golden("shifts");
    let exponentials = |values: &[f64]| values.iter().map(|value| value.exp()).collect::<Vec<_>>();
    for case in cases(&golden["two"]) {
        let (reference, result) = (numbers(&case["reference"]), numbers(&case["result"]));
        assert_is_shift(&Shift::difference(&reference, &result).unwrap(), case, |shift| shift);
        let ratio = Shift::ratio(&exponentials(&reference), &exponentials(&result)).unwrap();
        assert_is_shift(&ratio, case, f64::exp);
    }
    for case in cases(&golden["one"]) {
        let values = numbers(&case["values"]);
        assert_is_shift(&Shift::centre(&values).unwrap(), case, |shift| shift);
        let reference = vec![7.0; values.len()];
        let result: Vec<f64> = values.iter().map(|value| 7.0 * value.exp()).collect();
        assert_is_shift(&Shift::paired_ratio(&reference, &result).unwrap(), case, f64::exp);
    }
}

#[test]
fn with_ties_p_values_are_never_smaller_than_those_of_all_permutations() {
    for case in cases(&golden("ties")) {
        let (reference, result) = (numbers(&case["reference"]), numbers(&case["result"]));
        let unpaired = Shift::difference(&reference, &result).unwrap().p_greater(0.0);
        assert!(unpaired >= number(&case["unpaired"]) - 1e-12, "{unpaired} {case}");
        let differences: Vec<f64> =
            result.iter().zip(&reference).map(|(result, reference)| result - reference).collect();
        let paired = Shift::centre(&differences).unwrap().p_greater(0.0);
        assert!(paired >= number(&case["paired"]) - 1e-12, "{paired} {case}");
    }
}

#[test]
fn binomial_figures_are_those_of_scipy() {
    let golden = golden("binomial");
    for case in cases(&golden["tails"]) {
        let (k, n, p) = (count(&case[0]), count(&case[1]), number(&case[2]));
        assert_near(binomial::cdf(k, n, p), number(&case[3]), case);
        // The second source has P(B >= k).
        let upper = k.checked_sub(1).map_or(1.0, |k| binomial::sf(k, n, p));
        assert_near(upper, number(&case[4]), case);
    }
    for case in cases(&golden["rates"]) {
        let (events, n, alpha) = (count(&case[0]), count(&case[1]), number(&case[2]));
        let Interval { low, high } = binomial::clopper_pearson(events, n, alpha);
        assert_near(low, number(&case[3]), case);
        assert_near(high, number(&case[4]), case);
        assert_near(binomial::clopper_pearson_upper(events, n, alpha), number(&case[5]), case);
    }
    for case in cases(&golden["compatible"]) {
        assert_eq!(binomial::most_compatible(count(&case[0]), number(&case[1]), 0.05), count(&case[2]), "{case}");
    }
}

#[test]
fn places_of_quantile_bounds_are_those_of_all_counts() {
    for case in cases(&golden("quantile_places")) {
        let (n, p) = (count(&case[0]), number(&case[1]));
        assert_eq!(order::lower_place(n, p, 0.025), case[2].as_u64(), "{case}");
        assert_eq!(order::upper_place(n, p, 0.025), case[3].as_u64(), "{case}");
    }
}

#[test]
fn adjusted_p_values_are_those_of_scipy_and_statsmodels() {
    for case in cases(&golden("multiplicity")) {
        let p = numbers(&case["p"]);
        assert_all_near(&multiplicity::benjamini_hochberg(&p), &case["benjamini_hochberg"]);
        assert_all_near(&multiplicity::bonferroni(&p), &case["bonferroni"]);
        assert_eq!(multiplicity::discoveries(&p, 0.05) as u64, count(&case["discoveries"]));
    }
}

#[test]
fn numbers_of_runs_are_those_of_the_formula() {
    for case in cases(&golden("power")) {
        let design = Design {
            layout: if case[0].as_bool().unwrap() { Layout::Paired } else { Layout::Independent },
            log_sd: number(&case[1]),
            margin: number(&case[2]),
            alpha: number(&case[3]),
            comparisons: count(&case[4]),
            power: number(&case[5]),
        };
        let needed = design.runs_needed(number(&case[6])).unwrap();
        assert_eq!(needed, count(&case[7]), "{case}");
        assert_near(design.min_detectable_effect(needed + 3).unwrap(), number(&case[8]), case);
    }
}

#[test]
fn series_are_judged_as_by_numpy_and_scipy() {
    for case in cases(&golden("series")) {
        let values = numbers(&case["values"]);
        let truncation = mser5(values.iter().copied());
        assert_eq!(truncation.map(|found| found.samples as u64), case["mser5"].as_u64());
        let found = drift(&values).unwrap();
        assert_all_near(&[found.slope, found.p], &Value::from(vec![number(&case["slope"]), number(&case["p"])]));
        let lags = cases(&case["coefficients"]).len();
        if lags > 0 {
            let mut autocorrelation = Autocorrelation::new(lags);
            values.iter().for_each(|&value| autocorrelation.push(value));
            let coefficients = autocorrelation.coefficients().unwrap();
            assert_all_near(&coefficients, &case["coefficients"]);
            assert_near(
                effective_size(values.len(), &coefficients).samples,
                number(&case["effective"]),
                &case["effective"],
            );
        }
    }
}

/// The dip is exact; both p-values are simulated, from 2,000 and from many more sets.
#[test]
fn dips_are_those_of_diptest() {
    for case in cases(&golden("modes")) {
        let found = dip_test(&numbers(&case["values"])).unwrap();
        assert_near(found.dip, number(&case["dip"]), case);
        assert!((found.p - number(&case["p"])).abs() <= 0.05, "{found:?} {case}");
    }
}

/// Compares all figures of Otava with the correction in `make.py`; without it (see [`change_points`]) most places
/// agree.
#[test]
fn change_points_are_those_of_otava() {
    let (mut seen, mut as_without) = (0, 0);
    for case in cases(&golden("change_points")) {
        let options = StepOptions {
            window: count(&case["window"]) as usize,
            max_p: number(&case["max_p"]),
            max_local_p: 0.0,
            min_change: number(&case["min_change"]),
            guard: 1,
        };
        let found = change_points(&numbers(&case["values"]), &[], &[], &options).unwrap();
        let expected = cases(&case["points"]);
        let indices: Vec<u64> = found.iter().map(|point| point.index as u64).collect();
        assert_eq!(indices, expected.iter().map(|point| count(&point[0])).collect::<Vec<_>>(), "{case}");
        as_without += usize::from(indices == cases(&case["unchanged"]).iter().map(count).collect::<Vec<_>>());
        for (point, expected) in found.iter().zip(expected) {
            assert_near(point.before, number(&expected[1]), expected);
            assert_near(point.after, number(&expected[2]), expected);
            assert_near(point.p, number(&expected[3]), expected);
            seen += 1;
        }
    }
    assert!(seen > 100 && as_without >= 16, "{seen} {as_without}");
}
