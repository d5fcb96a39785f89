//! The fastest transport, and its distance to the next.

use crate::curves::{Curve, Panel};
use crate::document::{Block, Digits};
use crate::labels::load_text;
use crate::measured::MeasuredSide;
use crate::number::percent;
use crate::values::{Seen, Value, capitalised, listed};
use crate::verdicts::quotient_outside;
use std::collections::BTreeSet;
use tripmeter_analysis::Row;
use tripmeter_model::figure::{Better, Figure};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::plan::SubExperiment;
use tripmeter_stats::proportion;
use tripmeter_stats::rounds::ALPHA;
use tripmeter_stats::shift::fewest_pairs;

pub struct Fastest<'a> {
    pub label: &'a str,
    pub value: Value,
    /// Distance to the others.
    pub lead: Lead<'a>,
    /// Losses of the fastest, or of transports without a measurable difference: `udp/loopback lost 3.67 %`.
    pub losses: Vec<String>,
}

/// Lead of the best.
pub enum Lead<'a> {
    /// Nothing else was measured to compare with.
    Alone,
    /// Names without a measurable difference, including the best.
    Alike(Vec<&'a str>),
    /// Name of the next, how many times worse it is by round, and by the medians if those disagree.
    Ahead(&'a str, Value, Option<f64>),
}

impl<'a> Fastest<'a> {
    /// Best of a panel at a payload; `None` if nothing can be ranked there.
    pub fn find(panel: &'a Panel<'_>, payload: u64) -> Option<Self> {
        let ranking = panel.ranking(payload);
        let (first, value) = *ranking.first()?;
        let lead = match ranking.get(1) {
            None => Lead::Alone,
            Some((next, other)) => match panel.distance(first, next, payload)? {
                ratio if ratio.seen() == Seen::NoDifference => {
                    let is_like = |one: &&(&Curve<'_>, Value)| {
                        panel.distance(first, one.0, payload).is_some_and(|ratio| ratio.seen() == Seen::NoDifference)
                    };
                    let alike = ranking[1..].iter().take_while(is_like).map(|(curve, _)| curve.label.as_str());
                    Lead::Alike([first.label.as_str()].into_iter().chain(alike).collect())
                }
                ratio => {
                    let medians =
                        if panel.figure.better() == Better::Higher { [*other, value] } else { [value, *other] };
                    let by_medians = quotient_outside(medians.map(|one| one.value), ratio.interval);
                    Lead::Ahead(&next.label, ratio, by_medians)
                }
            },
        };
        let like = match &lead {
            Lead::Alike(names) => names.len(),
            Lead::Alone | Lead::Ahead(..) => 1,
        };
        let lost = |(curve, _): &(&Curve<'_>, Value)| {
            let lost = proportion::sum(&curve.side.losses(curve.row(payload))?);
            (lost.events > 0).then(|| format!("{} lost {} %", curve.label, percent(lost.share())))
        };
        let losses = ranking[..like].iter().filter_map(lost).collect();
        Some(Self { label: &first.label, value, lead, losses })
    }

    /// `shm/ring is fastest, p50 0.065 µs; iceoryx2/publish-subscribe is 7.9 times slower (7.2 to 8.4)`; `None` if it is
    /// alone.
    fn text(&self, panel: &Panel<'_>) -> Option<String> {
        let name = if panel.has_samples() { format!("{} ", panel.statistic()) } else { String::new() };
        let value = format!("{name}{}", panel.written(self.value.value));
        let told = match &self.lead {
            Lead::Alone => return None,
            Lead::Alike(names) => format!("no measurable difference between {}: {value}", listed(names)),
            Lead::Ahead(next, ratio, by_medians) => {
                let claim = ratio.claim("fastest");
                format!("{} {claim}, {value}; {next} is {}{}", self.label, ratio.as_slower(), differing(*by_medians))
            }
        };
        Some([told].iter().chain(&self.losses).cloned().collect::<Vec<_>>().join("; "))
    }
}

/// End of a sentence if the medians disagree with the ratio by round.
pub fn differing(by_medians: Option<f64>) -> String {
    by_medians.map_or_else(String::new, |ratio| {
        let ratio = Digits::Significant(3).write(ratio);
        format!(" round by round; by the medians it is ×{ratio}, because rounds fall into two groups")
    })
}

impl Value {
    /// Says that something is `word`, or only was: a ratio without an interval says nothing about other rounds.
    pub fn claim(self, word: &str) -> String {
        match self.seen() {
            Seen::Unknown => format!("was {word}"),
            _ => format!("is {word}"),
        }
    }
}

/// Suffix for an `ab`, whose fastest side may have no verdict.
const OF_PAIRS: &str =
    ". This compares one figure without a margin; ab.json and the report have the verdicts on all figures.";

/// Last line of a table: the fastest and its distance to the next, at the first payload and at the last that two lines
/// have. With several loads, at the lowest; without transports that were added only as the floor.
pub fn line(
    side: &MeasuredSide<'_>,
    is_of: impl Fn(&SubExperiment) -> bool,
    figure: impl Fn(OfferedLoad) -> Figure,
) -> Option<Block> {
    // Only sub-experiments without a background load, if there are any.
    let is_all_loaded = side.manifest.plan.sub_experiments.iter().all(|sub| !sub.background.is_none());
    let has = |row: &Row| {
        let figure = figure(side.metrics.load(*row));
        let planned = side.subs[row.sub as usize].planned;
        is_of(planned)
            && (is_all_loaded || planned.background.is_none())
            && !side.metrics.streams(*row, figure).is_empty()
    };
    let rows: Vec<Row> = side.metrics.all_rows().filter(has).collect();
    let loads: BTreeSet<u32> = rows.iter().map(|row| row.load).collect();
    let hz = |row: &Row| side.metrics.load(*row).hz().unwrap_or(0.0);
    let lowest = rows.iter().min_by(|a, b| hz(a).total_cmp(&hz(b)))?.load;
    let rows: Vec<Row> = rows.into_iter().filter(|row| row.load == lowest).collect();
    let load = side.metrics.load(*rows.first()?);
    let panel = Panel::of_rows(side, figure(load), &rows);
    // Where nothing is ranked, more rounds would not help.
    let mut is_ranked = false;
    let mut at = |payload: &u64| {
        let fastest = Fastest::find(&panel, *payload).and_then(|one| one.text(&panel));
        is_ranked |= fastest.is_some();
        let told: Vec<String> = fastest.into_iter().chain(panel.unranked(*payload)).collect();
        (!told.is_empty()).then(|| (*payload, told.join("; ")))
    };
    let first = panel.payloads.iter().find_map(&mut at);
    let last = panel.payloads.iter().rev().find_map(&mut at).filter(|last| first.as_ref() != Some(last));
    let has_several = panel.payloads.len() > 1 || rows.iter().any(|row| side.metrics.has_several_sizes(*row));
    let places =
        [panel.leaves_out_floor().then(|| "floor aside".to_owned()), (loads.len() > 1).then(|| load_text(load))];
    let mut places: Vec<String> = places.into_iter().flatten().collect();
    let part = |(payload, text): (u64, String)| {
        places.extend(has_several.then(|| panel.at(payload)));
        let place = std::mem::take(&mut places).join(", ");
        if place.is_empty() { text } else { capitalised(&place) + ": " + &text }
    };
    let parts: Vec<String> = first.into_iter().chain(last).map(part).collect();
    let (rounds, needed) = (u64::from(side.manifest.plan.rounds), fewest_pairs(ALPHA));
    let end = match side.is_of_pairs() {
        true => OF_PAIRS.to_owned(),
        false if is_ranked && rounds < needed => format!(". Use --rounds {needed} for confidence intervals."),
        false => ".".to_owned(),
    };
    (!parts.is_empty()).then(|| Block::Text(parts.join(". ") + &end))
}

#[cfg(test)]
mod tests {
    use super::Figure;
    use crate::fixture::{self, add, result};
    use crate::{FLOOR, all, screen};
    use tripmeter_model::Wait;
    use tripmeter_model::figure::Statistic;
    use tripmeter_model::manifest::Manifest;

    /// Rounds of round trips: the medians of each system at 1k, each a little more than the round before.
    fn manifest(rounds: u32, systems: &[(&str, f64)]) -> Manifest {
        let mut manifest = fixture::manifest();
        manifest.plan.rounds = rounds;
        for (name, _) in systems {
            add(&mut manifest, name, &format!("{name}/one"), &[1024]);
        }
        for round in 1..=rounds {
            for (place, (name, median)) in (0..).zip(systems) {
                let wobble = 1.0 + 0.01 * f64::from((round + place) % 3);
                result(&mut manifest, name, round, &[(1024, median * wobble)]);
            }
        }
        manifest
    }

    fn lines(manifest: &Manifest) -> [String; 2] {
        [screen(manifest, false), all(manifest)].map(|document| {
            let text = fixture::text(&document).split_whitespace().collect::<Vec<_>>().join(" ");
            let begin = text.find("no measurable difference").or_else(|| text.find("tcp/one is")).unwrap_or(0);
            text[begin..].chars().take(60).collect()
        })
    }

    #[test]
    fn the_fastest_is_named_with_its_distance_or_that_no_difference_is_seen() {
        let [screen, all] = lines(&manifest(8, &[("uds", 2000.0), ("tcp", 1000.0), ("mq", 3000.0)]));
        assert!(screen.starts_with("tcp/one is fastest, p50 1.01 µs; uds/one is 1.9"), "{screen}");
        assert_eq!(screen, all);
        let [screen, all] = lines(&manifest(8, &[("uds", 1000.0), ("tcp", 1000.0), ("mq", 3000.0)]));
        assert!(screen.starts_with("no measurable difference between ") && screen.contains("uds/one"), "{screen}");
        assert!(!screen.contains("mq/one") && screen == all, "{screen}");
    }

    /// An interval within a round does not say what other rounds will be, so one round claims no more than three.
    #[test]
    fn a_round_has_no_interval_of_a_ratio() {
        let mut one = manifest(1, &[("uds", 1000.0), ("tcp", 3000.0)]);
        for (result, median) in one.sub_experiments.iter_mut().zip([1000.0, 3000.0]) {
            let within = [(Statistic::P50, median - 1.0, median + 1.0)];
            fixture::put_within(&mut result.cells[0].trials[0], Figure::RttHalf, &within);
        }
        let said = |manifest: &Manifest| fixture::text(&screen(manifest, false));
        let text = said(&one);
        let expected = "uds/one was fastest, p50 1.01 µs; tcp/one is 3.03 times slower (one round, no interval). Use \
                        --rounds 6 for confidence intervals.\n";
        assert!(text.contains(expected), "{text}");
        let text = said(&manifest(3, &[("uds", 1000.0), ("tcp", 3000.0)]));
        assert!(text.contains("(3 rounds, too few for an interval). Use --rounds 6"), "{text}");
        assert!(!said(&manifest(6, &[("uds", 1000.0), ("tcp", 3000.0)])).contains("--rounds"));
    }

    /// The floor is not ranked, because others are measured against it. If it was requested with only one other, it is
    /// ranked; so is a side of an `ab`.
    #[test]
    fn the_floor_is_not_the_fastest() {
        let said = |manifest: &Manifest| fixture::text(&screen(manifest, false));
        let systems = [("uds", 1000.0), ("shm", 50.0), ("tcp", 3000.0)];
        let text = said(&manifest(6, &systems));
        assert!(text.contains("Floor aside: uds/one is fastest, p50 "), "{text}");
        let mut two = manifest(6, &systems[..2]);
        let text = said(&two);
        assert!(text.contains("shm/one is fastest, p50 ") && text.contains("; uds/one is"), "{text}");
        two.plan.sub_experiments[1].added_as_floor = true;
        assert!(!said(&two).contains("fastest"), "{}", said(&two));
        let mut pairs = manifest(6, &[("a", 1000.0), ("b", 50.0)]);
        pairs.plan.source = "ab".to_owned();
        pairs.plan.sub_experiments[1].transport.system = FLOOR.to_owned();
        let text = said(&pairs);
        assert!(text.contains("b: shm/one is fastest") && !text.contains("Floor aside"), "{text}");
    }

    /// Rounds vary by more than the sides differ; only their ratios show the difference.
    #[test]
    fn what_is_ahead_round_by_round_is_the_fastest() {
        let mut wander = manifest(0, &[("uds", 0.0), ("tcp", 0.0)]);
        wander.plan.rounds = 10;
        let common = [5000.0, 5500.0, 5010.0, 5600.0, 5020.0, 5700.0, 5030.0, 5800.0, 5040.0, 5900.0];
        for (round, median) in (1..).zip(common) {
            // In one round tcp is far behind, so that its median over rounds is larger.
            let share = if round == 9 { 1.2 } else { 0.98 };
            result(&mut wander, "uds", round, &[(1024, median)]);
            result(&mut wander, "tcp", round, &[(1024, median * share)]);
        }
        let text = fixture::text(&screen(&wander, false));
        assert!(text.contains("tcp/one is fastest"), "{text}");
    }

    #[test]
    fn of_an_ab_it_says_what_the_verdicts_are_of() {
        let mut manifest = manifest(6, &[("a", 1000.0), ("b", 2000.0)]);
        let said = |manifest: &Manifest| fixture::text(&screen(manifest, false)).replace("\n  ", " ");
        assert!(!said(&manifest).contains("verdicts"), "{}", said(&manifest));
        manifest.plan.source = "ab".to_owned();
        let said = said(&manifest);
        assert!(
            said.contains("b: b/one is 2.02 times slower") && said.contains("This compares one figure without"),
            "{said}"
        );
    }

    /// Rounds fall into two groups: the ratio by round differs from the quotient of the medians.
    #[test]
    fn where_rounds_and_medians_differ_both_are_named() {
        let mut manifest = manifest(0, &[("uds", 0.0), ("pipe", 0.0)]);
        manifest.plan.rounds = 20;
        for round in 1..=20 {
            let uds = if round <= 11 { 10.0 } else { 100.0 };
            let pipe = [1000.0, 9.0, 90.0][usize::from(round > 5) + usize::from(round > 11)];
            for (name, micros) in [("uds", uds), ("pipe", pipe)] {
                result(&mut manifest, name, round, &[(1024, micros * 1e3)]);
            }
        }
        let said = fixture::text(&screen(&manifest, false)).split_whitespace().collect::<Vec<_>>().join(" ");
        let sentence =
            "times slower (1.11 to 1.11) round by round; by the medians it is ×0.111, because rounds fall into two";
        assert!(said.contains(sentence), "{said}");
    }

    /// Both sides on one CPU: transports that poll are marked and not ranked, and a note has the cause; those that
    /// block are ranked.
    #[test]
    fn what_polls_on_a_shared_cpu_is_marked_and_not_ranked() {
        let mut shared = manifest(6, &[("uds", 1000.0), ("tcp", 3000.0), ("mq", 4000.0)]);
        shared.plan.follower_cpu = shared.plan.leader_cpu;
        for sub in shared.plan.sub_experiments.iter_mut().skip(1) {
            sub.wait = Wait::Block;
        }
        let said = |document| fixture::text(&document).split_whitespace().collect::<Vec<_>>().join(" ");
        for (text, mark) in [(said(screen(&shared, false)), "!1.01"), (said(all(&shared)), "poll!")] {
            assert!(text.contains(mark), "{text}");
            assert!(text.contains("tcp/one, block is fastest"), "{text}");
            assert!(text.contains("not ranked: uds/one, poll, which polled on a shared CPU"), "{text}");
            assert!(
                text.contains(
                    "uds: leader and follower share CPU 0 and poll, so its times and rates are of scheduler time slices"
                ),
                "{text}"
            );
            assert_eq!(text.matches("share CPU").count(), 1, "{text}");
        }
        for sub in &mut shared.plan.sub_experiments {
            sub.wait = Wait::Poll;
        }
        let results = [crate::NamedResults { name: "r", manifest: &shared }];
        let gauges = crate::export::openmetrics(&results).0;
        assert!(!gauges.contains("sub_experiment=") && gauges.contains("tripmeter_run_info"), "{gauges}");
        shared.plan.rounds = 1;
        let text = said(screen(&shared, false));
        assert!(!text.contains("fastest") && !text.contains("--rounds"), "more rounds would not help: {text}");
    }

    #[test]
    fn one_transport_is_not_compared() {
        let page = fixture::text(&screen(&manifest(8, &[("tcp", 1000.0)]), false));
        assert!(!page.contains("fastest") && !page.contains("no difference"), "{page}");
    }
}
