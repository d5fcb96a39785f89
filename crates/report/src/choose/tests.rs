//! Rankings of results made by hand.

use super::*;
use crate::fixture::{self, add, put_costs, put_times, result};
use tripmeter_model::Pattern;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::workload::Workload;

const WISH: Wish = Wish {
    by: Statistic::P99,
    max_latency_ns: None,
    max_cpu: None,
    max_loss: 0.0,
    payload_bytes: None,
    rate_hz: None,
    followers: None,
};
const LOAD: OfferedLoad = OfferedLoad::Rate { hz: 30.0 };

/// Eight rounds of messages at 30 Hz: systems with their medians, which differ a little from round to round.
fn manifest(systems: &[(&str, f64)]) -> Manifest {
    rounds(8, systems, |place, round| 1.0 + 0.01 * f64::from((round + place) % 3))
}

/// Rounds of messages at 30 Hz: systems with their medians, each times `factor(place, round)`.
fn rounds(rounds: u32, systems: &[(&str, f64)], mut factor: impl FnMut(u32, u32) -> f64) -> Manifest {
    let mut manifest = fixture::manifest();
    manifest.plan.rounds = rounds;
    for (name, _) in systems {
        let plan = add(&mut manifest, name, &format!("{name}/one"), &[1024]);
        (plan.pattern, plan.workload) = (Pattern::Publish, Workload::publications(vec![LOAD], 1, 1));
    }
    for round in 1..=rounds {
        for (place, (name, median)) in (0..).zip(systems) {
            let cell = &mut result(&mut manifest, name, round, &[(1024, 1000.0)]).cells[0];
            let mut trial = fixture::trial(LOAD, 1000);
            put_times(&mut trial, &Stream::all(), Figure::Response, (1000, median * factor(place, round)));
            put_costs(&mut trial);
            cell.trials = vec![trial];
        }
    }
    manifest
}

/// Ranks of a choice, in the order of its table; 0 means no rank.
fn ranks(choice: &Choice) -> Vec<usize> {
    let Block::Table(table) = &choice.document.blocks[1] else { panic!() };
    let rank = |cell: &Cell| if let Cell::Text(rank) = cell { rank.parse().unwrap() } else { 0 };
    table.rows.iter().map(|(_, cells)| rank(&cells[0])).collect()
}

/// Nine systems, `slower` of which are 4, 7, 10 … times as slow as the others.
fn nine(slower: usize) -> Vec<(&'static str, f64)> {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let median = |place: usize| 1e6 * (1 + 3 * (place + slower).saturating_sub(8)) as f64;
    (0..).zip(names).map(|(place, name)| (name, median(place))).collect()
}

fn page(choice: &Choice) -> String {
    fixture::text(&choice.document).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_fastest_leads_and_ties_have_one_rank() {
    let choice = choose(&manifest(&[("mq", 3e6), ("uds", 1e6), ("tcp", 1e6)]), &WISH).unwrap();
    let text = page(&choice);
    assert!(
        choice.has_answer && text.starts_with("Which transport for 1k at 30 /s to 1 subscriber? (8 rounds"),
        "{text}"
    );
    assert!(
        text.contains("No measurable difference between ") && text.contains("; the next is mq/one, ×2.9"),
        "{text}"
    );
    let Block::Table(table) = &choice.document.blocks[1] else { panic!() };
    let ranks: Vec<&Cell> = table.rows.iter().map(|(_, cells)| &cells[0]).collect();
    assert_eq!(ranks, [&Cell::text("1"), &Cell::text("1"), &Cell::text("3")]);
    let choice = choose(&manifest(&[("mq", 3e6), ("uds", 1e6)]), &WISH).unwrap();
    let text = page(&choice);
    assert!(text.contains("uds/one: p99 2.02 ms (2.00 ms to 2.04 ms); no other is within ×2.9"), "{text}");
}

#[test]
fn what_fails_a_limit_is_named_with_value_and_limit() {
    let mut measured = manifest(&[("mq", 3e6), ("uds", 1e6)]);
    let wish = Wish { max_latency_ns: Some(5e6), ..WISH };
    let text = page(&choose(&measured, &wish).unwrap());
    assert!(text.contains("FAILED: mq/one: p99 6.06 ms (6.00 ms to 6.12 ms), limit 5.00 ms (--max-latency)"), "{text}");
    assert!(text.ends_with("; no other transport meets the limits."), "{text}");
    let choice = choose(&measured, &Wish { max_cpu: Some(0.02), ..WISH }).unwrap();
    assert!(!choice.has_answer, "{choice:?}");
    let text = page(&choice);
    assert!(text.contains("FAILED: uds/one: CPU ") && text.contains(" limit 2 % (--max-cpu)"), "{text}");
    assert!(text.contains("No transport meets the limits; uds/one has the lowest latency"), "{text}");
    let trial = fixture::trial_of(&mut measured, 1);
    fixture::put(trial, &[(Figure::Lost, 1.0)]);
    let text = page(&choose(&measured, &WISH).unwrap());
    assert!(text.contains("FAILED: uds/one: loss 0.01") && text.contains(" (1 of 8000), limit 0 %"), "{text}");
    fixture::trial_of(&mut measured, 3).rate_missed = true;
    let text = page(&choose(&measured, &Wish { max_loss: 0.1, ..WISH }).unwrap());
    assert!(text.contains("it missed the rate") && text.contains("mq/one: p99"), "{text}");
}

/// 1,000 messages per round bound p99, but not p99.9.
#[test]
fn a_limit_is_not_met_by_a_percentile_of_too_few_messages_or_by_what_was_cut_off() {
    let mut measured = manifest(&[("uds", 1e6)]);
    let limited = |by| Wish { by, max_latency_ns: Some(9e9), ..WISH };
    assert!(choose(&measured, &limited(Statistic::P99)).unwrap().has_answer);
    assert!(choose(&measured, &Wish { by: Statistic::P999, ..WISH }).unwrap().has_answer, "there is no limit");
    let choice = choose(&measured, &limited(Statistic::P999)).unwrap();
    let text = page(&choice);
    assert!(!choice.has_answer && text.contains("UNDECIDED: uds/one: p999"), "{text}");
    assert!(text.contains("it needs 2995 messages per round"), "{text}");

    let cell = &mut measured.sub_experiments[2].cells[0];
    (cell.samples, cell.samples_planned, cell.cut_short) = (78, 1000, Some("time cap of 1 s".into()));
    let choice = choose(&measured, &WISH).unwrap();
    let text = page(&choice);
    assert!(choice.has_answer && text.contains("uds/one: fewer samples than planned: 1k: time cap of 1 s"), "{text}");

    measured.sub_experiments[2].cells[0].cut_short = Some("interrupted".into());
    let choice = choose(&measured, &WISH).unwrap();
    let text = page(&choice);
    assert!(!choice.has_answer && text.contains("FAILED: uds/one: 1k: interrupted, 78 of 1000 samples"), "{text}");
}

#[test]
fn what_is_not_here_or_cannot_do_it_is_named_once_for_each_reason() {
    let mut measured = manifest(&[("uds", 1e6)]);
    let why = |name: &str| format!("transport '{name}': it delivers each message to one follower only");
    measured.plan.left_out = vec![why("mq"), why("pipe"), "shm as the floor".to_owned()];
    measured.plan.not_installed = vec!["ecal".to_owned()];
    let text = page(&choose(&measured, &WISH).unwrap());
    assert!(
        text.contains("cannot carry this workload: mq, pipe: it delivers each message to one follower only"),
        "{text}"
    );
    assert!(
        text.contains("cannot carry this workload: shm as the floor")
            && text.contains("not installed: ecal; install them with `tripmeter"),
        "{text}"
    );
}

#[test]
fn one_workload_is_ranked_and_another_is_refused() {
    let measured = manifest(&[("uds", 1e6)]);
    let other = Wish { payload_bytes: Some(64), ..WISH };
    let refused = choose(&measured, &other).unwrap_err();
    let expected = "--payload 64 was not measured; the results have 1k at 30 /s to 1 subscriber; \
                    `tripmeter choose --payload 64 --rate 30 uds/one` measures it";
    assert_eq!(refused, expected);
    let mut several = measured.clone();
    let cells = &mut several.sub_experiments[0].cells;
    let large = tripmeter_model::manifest::PayloadResult { payload_bytes: 2048, ..cells[0].clone() };
    cells.push(large);
    assert!(choose(&several, &WISH).unwrap_err().contains("several payloads: 1k, 2k; choose one (--payload)"));
    assert!(choose(&several, &Wish { payload_bytes: Some(1024), ..WISH }).is_ok());
}

#[test]
fn results_that_are_no_publishing_are_named_and_not_ranked() {
    let mut trips = fixture::manifest();
    for name in ["uds", "tcp"] {
        add(&mut trips, name, &format!("{name}/one"), &[1024]);
        result(&mut trips, name, 1, &[(1024, 1000.0)]);
    }
    let asked = Wish { rate_hz: Some(30.0), followers: Some(3), ..WISH };
    let expected = "only messages published at a rate are ranked, but the results have round trips (`ping`) of 2 \
                    sub-experiments; `tripmeter choose --payload 1k --rate 30 --subscribers 3 tcp/one uds/one` \
                    measures what is missing";
    assert_eq!(choose(&trips, &asked).unwrap_err(), expected);
    let mut stream = manifest(&[("uds", 1e6)]);
    (stream.plan.sub_experiments[0].pattern, stream.plan.rounds) = (Pattern::Throughput, 1);
    stream.plan.sub_experiments[0].workload.duration_ns = Some(1);
    assert!(choose(&stream, &WISH).unwrap_err().contains("have throughput of 1 sub-experiment; `tripmeter choose"));
    let mut topics = manifest(&[("uds", 1e6)]);
    topics.plan.sub_experiments[0].workload.topology.topics = 4;
    assert!(choose(&topics, &WISH).unwrap_err().contains("have 4 topics of 1 sub-experiment"));
    // The largest payload of a recording is not a size to choose for.
    let mut recorded = fixture::played();
    recorded.sub_experiments[0].cells[0].payload_bytes = 2 << 20;
    recorded.plan.sub_experiments[0].payloads = vec![2 << 20];
    let refused = choose(&recorded, &WISH).unwrap_err();
    assert!(refused.contains("`tripmeter choose --payload 1k --rate 1000 uds/stream`"), "{refused}");

    let mut both = manifest(&[("uds", 1e6), ("mq", 3e6)]);
    add(&mut both, "trips", "tcp/one", &[1024]);
    for round in 1..=8 {
        result(&mut both, "trips", round, &[(1024, 10.0)]);
    }
    let text = page(&choose(&both, &WISH).unwrap());
    assert!(text.contains("not ranked: trips: round trips (`ping`), not messages published at a rate"), "{text}");
    assert!(text.contains("uds/one: p99 ") && !text.contains("tcp/one"), "{text}");
    both.plan.sub_experiments[1].added_as_floor = true;
    let text = page(&choose(&both, &WISH).unwrap());
    assert!(text.contains("not ranked: mq: it was measured only as the floor") && !text.contains("mq/one"), "{text}");
}

#[test]
fn a_limit_hides_no_tie() {
    let mut measured = manifest(&[("uds", 1e6), ("tcp", 1e6)]);
    fixture::put(fixture::trial_of(&mut measured, 0), &[(Figure::Lost, 1.0)]);
    let text = page(&choose(&measured, &WISH).unwrap());
    assert!(text.contains("FAILED: uds/one: loss 0.01"), "{text}");
    let end = "; no other transport meets the limits. uds/one fails a limit, without a measurable difference in p99.";
    assert!(text.ends_with(end), "{text}");
    fixture::put(fixture::trial_of(&mut measured, 1), &[(Figure::Lost, 1.0)]);
    let text = page(&choose(&measured, &WISH).unwrap());
    assert!(text.contains("No transport meets the limits; no measurable difference between "), "{text}");
}

#[test]
fn a_limit_within_an_interval_cannot_be_told() {
    let measured = manifest(&[("uds", 1e6), ("tcp", 1e6), ("mq", 3e6)]);
    let wish = Wish { max_latency_ns: Some(2.025e6), ..WISH };
    let choice = choose(&measured, &wish).unwrap();
    let text = page(&choice);
    assert!(!choice.has_answer && text.contains("UNDECIDED: uds/one: p99 2.02 ms (2.00 ms to 2.04 ms), limit"));
    assert!(text.contains("FAILED: mq/one: p99 6.06 ms (6.00 ms to 6.12 ms), limit 2.03 ms"), "{text}");
    assert!(text.contains("Undecided: uds/one and tcp/one may or may not"), "{text}");
    assert!(text.contains("Of these, no measurable difference between "), "{text}");
    let text =
        page(&choose(&manifest(&[("uds", 1e6), ("mq", 3e6)]), &Wish { max_latency_ns: Some(6.05e6), ..WISH }).unwrap());
    let end = "no other transport meets the limits. Undecided: mq/one may or may not meet the limits.";
    assert!(text.contains("uds/one: p99 ") && text.ends_with(end), "{text}");
}

#[test]
fn without_intervals_there_are_no_ranks() {
    let mut measured = manifest(&[("uds", 1e6), ("mq", 3e6)]);
    measured.plan.rounds = 3;
    measured.sub_experiments.retain(|result| result.round <= 3);
    let choice = choose(&measured, &WISH).unwrap();
    let Block::Table(table) = &choice.document.blocks[1] else { panic!() };
    assert!(table.rows.iter().all(|(_, cells)| matches!(cells[0], Cell::Missing(Missing::NotMeasured))));
    let text = page(&choice);
    assert!(text.contains("3 rounds: too few for confidence intervals"), "{text}");
    assert!(text.contains("uds/one was fastest: p99 ") && text.contains("too few for an interval"), "{text}");
}

#[test]
fn one_round_has_no_intervals_and_no_ranks() {
    let mut measured = manifest(&[("uds", 1e6), ("tcp", 1e6)]);
    measured.plan.rounds = 1;
    measured.sub_experiments.retain(|result| result.round == 1);
    for place in 0..2 {
        let trial = fixture::trial_of(&mut measured, place);
        fixture::put_within(trial, Figure::Response, &[(Statistic::P99, 1e6, 3e6)]);
        fixture::put(trial, &[(Figure::Lost, 8.0)]);
    }
    let wish = Wish { max_latency_ns: Some(2.1e6), max_loss: 0.01, ..WISH };
    let choice = choose(&measured, &wish).unwrap();
    let Block::Table(table) = &choice.document.blocks[1] else { panic!() };
    let is_without = |cells: &[Cell]| matches!(cells[0], Cell::Missing(Missing::NotMeasured));
    assert!(table.rows.iter().all(|(_, cells)| is_without(cells) && cells.last() == Some(&Cell::text("met"))));
    let text = page(&choice);
    assert!(choice.has_answer && !text.contains("UNDECIDED") && !text.contains("No measurable difference"), "{text}");
    assert!(text.contains("1 round: too few for confidence intervals") && text.contains(" was fastest"), "{text}");
}

#[test]
fn of_many_alike_hardly_any_differs_from_the_first_and_what_does_is_found() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut wrong = 0;
    for _ in 0..100 {
        let noise = |_, _| 1.0 + 0.2 * random.f64();
        let ranks = ranks(&choose(&rounds(12, &nine(1), noise), &WISH).unwrap());
        assert_eq!((ranks.len(), ranks[8] > 1), (9, true), "{ranks:?}");
        wrong += u32::from(ranks[..8].iter().any(|rank| *rank != 1));
    }
    // Judged one by one at 95 %, ratios would be wrong in a third of the cases.
    assert!(wrong <= 12, "{wrong}");
}

#[test]
fn few_that_differ_among_many_need_more_rounds() {
    let wobble = |place, round| 1.0 + 0.01 * f64::from((round + place) % 3);
    let few = choose(&rounds(6, &nine(1), wobble), &WISH).unwrap();
    let text = page(&few);
    assert_eq!(ranks(&few), [0; 9], "{text}");
    assert!(text.contains("6 rounds: too few to rank 9 transports") && text.contains("; use --rounds 9"), "{text}");
    assert_eq!(ranks(&choose(&rounds(9, &nine(1), wobble), &WISH).unwrap()), [1, 1, 1, 1, 1, 1, 1, 1, 9]);
    let many = choose(&rounds(6, &nine(5), wobble), &WISH).unwrap();
    assert_eq!(ranks(&many), [1, 1, 1, 1, 5, 6, 7, 8, 9]);
    assert!(!page(&many).contains("too few to rank"), "{many:?}");
}

/// Rounds with two modes: the medians over rounds do not predict the ratio by round.
#[test]
fn rows_stand_in_the_order_of_the_ratio_that_ranks_them() {
    let measured = rounds(9, &[("a", 1e6), ("b", 1e6), ("c", 1e6)], |place, round| {
        let pace = if round <= 4 { 1.0 } else { 10.0 };
        let wobble = 1.0 + 0.001 * f64::from(round);
        wobble * [pace, 1.7 * pace, if round <= 4 { 2.1 } else { 2.1 + 0.1 * f64::from(round) }][place as usize]
    });
    let choice = choose(&measured, &WISH).unwrap();
    let Block::Table(table) = &choice.document.blocks[1] else { panic!() };
    let ratios: Vec<f64> = table
        .rows
        .iter()
        .skip(1)
        .filter_map(|(_, cells)| match &cells[3] {
            Cell::Ratio { value, .. } => Some(*value),
            _ => None,
        })
        .collect();
    assert!(ratios.len() == 2 && ratios.is_sorted(), "{ratios:?}");
    let ranks = ranks(&choice);
    assert!(ranks.is_sorted(), "{ranks:?}");
}

/// With too few rounds for an interval, the ratio is the quotient of the two columns.
#[test]
fn few_rounds_of_two_groups_are_ranked_by_what_the_table_shows() {
    let uds = [1.0, 1.0, 1.0, 1.0, 10.0];
    let pipe = [3.0, 3.0, 0.1, 0.1, 3.0];
    let manifest =
        rounds(5, &[("uds", 1e5), ("pipe", 1e5)], |place, round| [uds, pipe][place as usize][round as usize - 1]);
    let said = page(&choose(&manifest, &WISH).unwrap());
    assert!(said.contains("uds/one was fastest") && said.contains("×3.00"), "{said}");
}
