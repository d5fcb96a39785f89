//! Results checked against limits, and limits, as text.

use crate::document::{Block, Cell, Column, Digits, Document, Table};
use crate::number::counted;
use crate::verdicts::{
    JudgedRow, NOT_CHECKED, NOT_MEASURED, address_cells, address_columns, change_cell, could_not_run, distrusted,
    known, lacking, page, value_cell, value_column, verdict_cell,
};
use tripmeter_analysis::check::{CheckedLimit, CheckedSub, ResultsCheck};
use tripmeter_model::limits::{FigureLimits, Limit};

/// One row per sub-experiment with its worst figure, then sub-experiments that were not checked, and the verdict. If
/// `detailed`, tables of all limits come first.
pub fn limit_checks(check: &ResultsCheck, detailed: bool, strict: bool) -> Document {
    let distrusted = check.checked.iter().filter_map(|one| distrusted(&one.name, &one.distrust));
    let known = check.checked.iter().flat_map(|one| known(&one.name, &one.notes));
    page(
        check.checked.iter().filter(|_| detailed).map(details),
        [["worst", "worst figure"], ["from_limit_percent", "from limit"]],
        check.checked.iter().map(|one| row(one, strict)),
        distrusted
            .chain(known)
            .chain(could_not_run(&check.could_not_run, strict))
            .chain(lacking(&check.without_limits, "without limits", NOT_CHECKED, strict))
            .chain(lacking(&check.not_measured, "with limits, but not measured", NOT_CHECKED, check.needs_all(strict)))
            .collect(),
        verdict(check, strict),
    )
}

/// Table with a row for each limit.
pub fn limits(limits: &FigureLimits) -> Document {
    let columns = [Column::words("sub_experiment", "sub-experiment", "").merged()].into_iter().chain(address_columns());
    let columns = columns.chain([Column::words("bound", "", ""), value_column("limit", "limit")]);
    let row = |limit: &Limit| {
        let Limit { address, limit: value } = limit;
        let bound = if limit.is_lower() { "at least" } else { "at most" };
        let cells = [Cell::text(&address.sub_experiment)].into_iter().chain(address_cells(address));
        (None, cells.chain([Cell::text(bound), value_cell(address.figure, Some(*value))]).collect())
    };
    let table = Table::new(String::new(), columns.collect(), limits.rows.iter().map(row).collect());
    Document { blocks: vec![Block::Table(table)] }
}

fn details(check: &CheckedSub) -> Table {
    let columns = address_columns().into_iter().chain([
        value_column("limit", "limit"),
        value_column("value", "measured"),
        Column::numbers("from_limit_percent", "from limit", "", Digits::Change, ""),
        Column::words("status", "status", ""),
    ]);
    let row = |row: &CheckedLimit| {
        let Limit { address, limit } = &row.limit;
        let measured = || value_cell(address.figure, row.value);
        let cells = address_cells(address).into_iter().chain([
            value_cell(address.figure, Some(*limit)),
            if row.value.is_none() { Cell::text(NOT_MEASURED) } else { measured() },
            distance(row),
            verdict_cell(row.outcome()),
        ]);
        (None, cells.collect())
    };
    Table::new(check.name.clone(), columns.collect(), check.rows.iter().map(row).collect())
}

fn row(check: &CheckedSub, strict: bool) -> JudgedRow<'_> {
    let name = |row: &CheckedLimit| format!("{} at {}", row.limit.address.name(), row.limit.address.place());
    JudgedRow {
        name: &check.name,
        passed: [check.passed_rows(), check.rows.len()],
        worst: check.worst().map(|row| (name(row), distance(row))),
        is_good: check.passed(strict),
    }
}

fn distance(row: &CheckedLimit) -> Cell {
    if row.value.is_none() { Cell::text(NOT_MEASURED) } else { change_cell(row.share_beyond()) }
}

fn verdict(check: &ResultsCheck, strict: bool) -> String {
    let (passed, all) = check.counts();
    let judged = counted(check.checked.len() + check.failing_on_one_side(strict), "sub-experiment");
    let unclear = check.checked.iter().map(CheckedSub::inconclusive_rows);
    let [clocks, few] = unclear.fold([0, 0], |[clocks, few], one| [clocks + one[0], few + one[1]]);
    let unclear = [(clocks, "because of the clocks of two hosts"), (few, "because of too few samples")]
        .map(|(count, why)| if count > 0 { format!(", {count} inconclusive {why}") } else { String::new() });
    let unclear = unclear.concat();
    let limits = format!("{passed} of {} met{unclear}", counted(all, "limit"));
    match check.failing(strict) {
        0 if passed == all => format!("{limits}; all of {judged} passed\n"),
        0 => format!("{limits}; none of {judged} failed\n"),
        failing => format!("{limits}; {failing} of {judged} failed\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use tripmeter_analysis::comparison::{ByRuns, ByThreshold};
    use tripmeter_analysis::{JudgedResults, Selection};
    use tripmeter_model::address::FigureAddress;
    use tripmeter_model::figure::{Figure, Statistic};
    use tripmeter_model::manifest::{Manifest, RunStatus};
    use tripmeter_model::metric::Stream;
    use tripmeter_model::pace::OfferedLoad;
    use tripmeter_model::verdict::FigureVerdict;
    use tripmeter_stats::change::Control;
    use tripmeter_stats::power::Layout;
    use tripmeter_stats::runs::Question;

    fn limit(figure: Figure, statistic: Statistic, limit: f64) -> Limit {
        let address = FigureAddress {
            sub_experiment: "uds".to_owned(),
            payload_bytes: 1024,
            has_several_sizes: false,
            load: OfferedLoad::Closed,
            stream: Stream::all(),
            figure,
            statistic,
        };
        Limit { address, limit }
    }

    fn one(name: &str, rows: &[(Limit, Option<f64>)]) -> CheckedSub {
        let row = |(limit, value): &(Limit, Option<f64>)| CheckedLimit {
            limit: limit.clone(),
            value: *value,
            error: 0.0,
            needs: None,
        };
        let rows = rows.iter().map(row).collect();
        CheckedSub { name: name.to_owned(), rows, distrust: None, notes: Vec::new() }
    }

    #[test]
    fn a_line_for_each_sub_experiment_and_what_was_not_checked() {
        let median = limit(Figure::RttHalf, Statistic::P50, 2000.0);
        let loss = limit(Figure::LossShare, Statistic::Value, 0.0);
        let p99 = limit(Figure::RttHalf, Statistic::P99, 2000.0);
        let good =
            one("uds", &[(median.clone(), Some(1500.0)), (p99.clone(), Some(2000.0)), (loss.clone(), Some(0.0))]);
        let bad = one("tcp", &[(median, Some(2500.0)), (loss, Some(0.05)), (p99, None)]);
        let check = ResultsCheck {
            checked: vec![good, bad],
            without_limits: vec!["new".to_owned()],
            ..ResultsCheck::default()
        };
        let of = |detailed, strict| crate::fixture::text(&limit_checks(&check, detailed, strict));
        let golden = "\
sub-experiment passed worst figure            from limit verdict
----------------------------------------------------------------
uds               3/3 rtt_half_ns.p99 at 1k       +0.0 % passed
tcp               0/3 rtt_half_ns.p99 at 1k not measured FAILED

not checked: 1 sub-experiment without limits: new

3 of 6 limits met; 1 of 2 sub-experiments failed
";
        assert_eq!(of(false, false), golden);
        let details = crate::fixture::rows_of(&of(true, false), "1k");
        for row in [
            "1k rtt_half_ns.p50 2.000 2.500 +25.0 % FAILED",
            "1k loss_share 0.000 % 5.000 % +inf % FAILED",
            "1k rtt_half_ns.p99 2.000 not measured not measured FAILED",
            "1k loss_share 0.000 % 0.000 % - passed",
        ] {
            assert!(details.contains(&row.to_owned()), "{row} {details:?}");
        }
        assert!(of(false, true).contains("FAILED: 1 sub-experiment without limits: new\n"));
        assert!(of(false, true).ends_with("2 of 3 sub-experiments failed\n"));
    }

    #[test]
    fn limits_are_upper_or_lower_ones() {
        let rows =
            vec![limit(Figure::RttHalf, Statistic::P50, 2000.0), limit(Figure::ReceivedRate, Statistic::Value, 5.0)];
        let text = crate::fixture::text(&limits(&FigureLimits { rows }));
        let rows = crate::fixture::squeezed(&text);
        assert_eq!(
            rows[rows.len() - 2..],
            ["uds 1k rtt_half_ns.p50 at most 2.000", "uds 1k received_rate_hz at least 5.000 /s"]
        );
    }

    /// Check of a limit of p99 that 10,000 round trips of a fixture meet, after `change` is applied to the results.
    fn checked(limited: &[(Figure, Statistic)], change: impl FnOnce(&mut Manifest)) -> (ResultsCheck, ByThreshold) {
        let mut manifest = fixture::manifest();
        fixture::add(&mut manifest, "uds", "uds/datagram", &[1024]);
        fixture::result(&mut manifest, "uds", 1, &[(1024, 1000.0)]);
        fixture::put(fixture::trial_of(&mut manifest, 0), &[(Figure::AchievedRate, 5.0)]);
        let reference = JudgedResults { manifest: manifest.clone(), allows_damage: false };
        change(&mut manifest);
        let results = JudgedResults { manifest, allows_damage: false };
        let bound = |figure: Figure| if figure == Figure::AchievedRate { 1.0 } else { 1e9 };
        let rows = limited.iter().map(|&(figure, statistic)| limit(figure, statistic, bound(figure))).collect();
        let names: Vec<String> = limited.iter().map(|(figure, statistic)| format!("{figure}.{statistic}")).collect();
        let selection = Selection::named(&names, &[&reference.table()]).unwrap();
        let compared = ByThreshold::new([&reference, &results], &selection, 0.1);
        (ResultsCheck::new(&FigureLimits { rows }, &results), compared)
    }

    /// Failures of a rank test, and the figures that a history leaves out.
    fn by_runs(change: impl Fn(&mut Manifest)) -> (String, String) {
        let mut manifest = fixture::manifest();
        manifest.plan.rounds = 8;
        fixture::add(&mut manifest, "uds", "uds/datagram", &[1024]);
        for round in 1..=8 {
            fixture::result(&mut manifest, "uds", round, &[(1024, 1000.0)]);
        }
        let reference = JudgedResults { manifest: manifest.clone(), allows_damage: false };
        change(&mut manifest);
        let results = JudgedResults { manifest, allows_damage: false };
        let question = Question { layout: Layout::Independent, margin: 0.1, control: Control::Fdr(0.05), power: 0.8 };
        let made = ByRuns::new([&reference, &results], &Selection::default(), question).unwrap();
        assert_eq!(made.passed(false), made.missed.is_empty());
        (made.missed.join("; "), results.left_out().join("; "))
    }

    const P99: (Figure, Statistic) = (Figure::RttHalf, Statistic::P99);
    const RATE: (Figure, Statistic) = (Figure::AchievedRate, Statistic::Value);

    #[test]
    fn what_was_interrupted_not_measured_or_missed_its_rate_fails_and_what_was_capped_is_named() {
        let (check, compared) = checked(&[P99], |_| ());
        assert!(check.failing(true) == 0 && compared.passed(true) && check.checked[0].notes.is_empty());
        let fails = |limited: &[_], change: fn(&mut Manifest), why: &str| {
            let (check, compared) = checked(limited, change);
            let whys = [&check.checked[0].distrust, &compared.both[0].distrust];
            assert!(whys.iter().all(|found| found.as_ref().is_some_and(|found| found.contains(why))), "{whys:?}");
            assert!(check.failing(false) == 1 && !compared.passed(false));
        };
        let interrupt = |manifest: &mut Manifest| {
            let result = &mut manifest.sub_experiments[0];
            result.status = RunStatus::Interrupted;
            (result.cells[0].samples, result.cells[0].cut_short) = (932, Some("interrupted".into()));
        };
        fails(&[P99], interrupt, "0 of 1 payloads; 1k: interrupted, 932 of 10000 samples");
        fails(&[P99], |manifest| manifest.plan.rounds = 2, "it did not finish: 1 of 2 rounds");
        let empty = |manifest: &mut Manifest| {
            manifest.sub_experiments[0].cells[0].cut_short = Some("time cap: 0 of 1 offered loads".into());
            manifest.sub_experiments[0].cells[0].trials.clear();
        };
        fails(&[P99], empty, "nothing was measured at 1k: time cap: 0 of 1 offered loads");
        let partial = |manifest: &mut Manifest| {
            let loads = [100.0, 200.0].map(|hz| OfferedLoad::Rate { hz }).to_vec();
            manifest.plan.sub_experiments[0].workload.loads = loads;
            manifest.sub_experiments[0].cells[0].cut_short = Some("time cap: 1 of 2 offered loads".into());
        };
        fails(&[P99], partial, "not every offered load was measured at 1k: time cap: 1 of 2 offered loads");
        let (missed, left_out) = by_runs(partial);
        let whys = [&missed, &left_out];
        assert!(whys.iter().all(|why| why.contains("not every offered load was measured at 1k")), "{whys:?}");
        // Figures that a note declares as left out are left out.
        let mut manifest = fixture::manifest();
        fixture::add(&mut manifest, "uds", "uds/datagram", &[1024]);
        fixture::result(&mut manifest, "uds", 1, &[(1024, 1000.0)]);
        partial(&mut manifest);
        let results = JudgedResults { manifest, allows_damage: false };
        assert_eq!((results.trusted().all_rows().count(), results.left_out().len()), (0, 1));
        let miss = |manifest: &mut Manifest| fixture::trial_of(manifest, 0).rate_missed = true;
        fails(&[P99], miss, "RATE MISSED at 1k closed");
        let named = |limited: &[_], change: fn(&mut Manifest), why: &str| {
            let (check, compared) = checked(limited, change);
            let notes = [&check.checked[0].notes, &compared.both[0].notes];
            assert!(notes.iter().all(|notes| notes.len() == 1 && notes[0].contains(why)), "{notes:?}");
            assert!(check.failing(true) == 0 && compared.passed(true));
        };
        named(&[P99, RATE], miss, "RATE MISSED at 1k closed");
        let cap = |manifest: &mut Manifest| {
            let cell = &mut manifest.sub_experiments[0].cells[0];
            (cell.samples, cell.cut_short) = (500, Some("time cap of 2 s".into()));
        };
        named(&[P99], cap, "fewer samples than planned: 1k: time cap of 2 s, 500 of 10000 samples");
    }

    #[test]
    fn what_could_not_run_has_no_limits_that_pass() {
        let elsewhere = |missing: &[&str]| {
            let mut manifest = fixture::manifest();
            fixture::add(&mut manifest, "uds", "uds/datagram", &[1024]);
            fixture::result(&mut manifest, "uds", 1, &[(1024, 1000.0)]);
            manifest.plan.missing = missing.iter().map(|line| (*line).to_owned()).collect();
            let (mut limits, results) = (FigureLimits::default(), JudgedResults { manifest, allows_damage: false });
            for name in ["uds", "mq"] {
                let mut limit = limit(Figure::RttHalf, Statistic::P50, 1e9);
                limit.address.sub_experiment = name.to_owned();
                limits.rows.push(limit);
            }
            ResultsCheck::new(&limits, &results)
        };
        assert_eq!([false, true].map(|strict| elsewhere(&[]).failing(strict)), [0, 1], "it was not asked for");
        let check = elsewhere(&["transport 'mq': no queue can be opened"]);
        assert_eq!([false, true].map(|strict| check.failing(strict)), [1, 2]);
        let texts = [false, true].map(|strict| fixture::text(&limit_checks(&check, false, strict)));
        assert!(texts[0].contains("note: not measured: transport 'mq'"), "{texts:?}");
        assert!(texts[1].contains("FAILED: not measured: transport 'mq'"), "{texts:?}");
        let text = fixture::text(&limit_checks(&check, false, false));
        assert!(text.contains("FAILED: 1 sub-experiment with limits, but not measured: mq\n"), "{text}");
    }

    #[test]
    fn a_history_has_only_the_rates_of_a_load_that_was_missed() {
        let mut manifest = fixture::manifest();
        fixture::add(&mut manifest, "uds", "uds/datagram", &[1024]);
        fixture::result(&mut manifest, "uds", 1, &[(1024, 1000.0)]);
        fixture::put(fixture::trial_of(&mut manifest, 0), &[(Figure::AchievedRate, 5.0)]);
        let figures = |manifest: &Manifest| {
            let results = JudgedResults { manifest: manifest.clone(), allows_damage: false };
            let mut history = tripmeter_analysis::history::History::default();
            history.add("one", &results, &Selection::default());
            let figures: Vec<Figure> = history.series.iter().map(|series| series.address.figure).collect();
            (figures.contains(&Figure::RttHalf), figures.contains(&Figure::AchievedRate), results.left_out())
        };
        assert_eq!(figures(&manifest), (true, true, Vec::new()));
        fixture::trial_of(&mut manifest, 0).rate_missed = true;
        let (has_latency, has_rate, left_out) = figures(&manifest);
        assert_eq!((has_latency, has_rate, left_out.len()), (false, true, 1));
        assert!(left_out[0].starts_with("'uds': RATE MISSED at 1k closed"), "{left_out:?}");
    }

    #[test]
    fn a_percentile_of_too_few_samples_is_inconclusive_with_the_number_it_needs() {
        let few = |samples| {
            move |manifest: &mut Manifest| fixture::set_trips(&mut manifest.sub_experiments[0].cells[0], samples)
        };
        let (check, compared) = checked(&[P99], few(298));
        let notes = [&check.checked[0].notes, &compared.both[0].notes];
        let needs = "too few samples per round for a one-sided upper bound: 1k rtt_half_ns.p99 needs 299; use -n";
        assert!(notes.iter().all(|notes| **notes == [needs]), "{notes:?}");
        assert_eq!([false, true].map(|strict| check.failing(strict)), [0, 1]);
        assert_eq!(compared.both[0].count(FigureVerdict::Inconclusive), 1);
        assert_eq!([false, true].map(|strict| compared.passed(strict)), [true, false]);
        for page in [limit_checks(&check, false, false), crate::compared::by_threshold(&compared, 0.1, false, false)] {
            let text = fixture::text(&page);
            let is_row = |line: &&str| line.starts_with("uds ") && line.trim_end().ends_with("inconclusive");
            assert!(text.lines().filter(is_row).count() == 1 && text.contains(", 1 inconclusive"), "{text}");
        }
        let (check, compared) = checked(&[P99], few(299));
        assert!(check.failing(true) == 0 && compared.both[0].count(FigureVerdict::Passed) == 1);
    }
}
