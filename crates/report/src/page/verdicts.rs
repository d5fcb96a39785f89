//! Verdicts as heat maps: results against the first, both sides of a pair, or limits.

use super::PageInput;
use super::measured::MeasuredSide;
use super::values::listed;
use crate::number::counted;
use crate::plots::aimrt::NamedResults;
use crate::plots::chart::{Chart, Heat, HeatCell, HeatLevel, X};
use std::collections::{BTreeMap, BTreeSet};
use tripmeter_analysis::check::{CheckedLimit, ResultsCheck};
use tripmeter_analysis::comparison::{ByRuns, ByThreshold, JudgedFigure, ThresholdOutcome};
use tripmeter_analysis::{JudgedResults, Selection};
use tripmeter_model::address::FigureAddress;
use tripmeter_model::payload::display_size;
use tripmeter_stats::change::{ChangeVerdict, Control};
use tripmeter_stats::power::Layout;
use tripmeter_stats::runs::Question;
use tripmeter_stats::shift::fewest_runs;

/// Changes up to this share are none, of several rounds.
const MARGIN: f64 = 0.02;
/// The share that a figure may be worse by, where there are too few rounds for a test.
const THRESHOLD: f64 = 0.1;
const RATE: f64 = 0.05;
const POWER: f64 = 0.95;

/// One figure that is judged.
#[derive(Clone, Debug)]
struct MapFigure {
    address: FigureAddress,
    level: HeatLevel,
    /// How much more it is, as a share.
    change: Option<f64>,
    /// The whole of it.
    detail: String,
}

/// The figures of one map.
pub struct Map {
    name: String,
    title: String,
    against: String,
    method: String,
    figures: Vec<MapFigure>,
}

/// The charts of maps.
pub fn charts(maps: &[Map]) -> Vec<Chart> {
    maps.iter().map(chart).collect()
}

/// How many figures are worse and better.
pub fn sentence(maps: &[Map]) -> Option<String> {
    let told: Vec<String> = maps.iter().map(reading).collect();
    (!told.is_empty()).then(|| told.join(" "))
}

/// A map for each of the other results, for both sides of pairs, and for limits, if it has a figure.
pub fn maps(sides: &[MeasuredSide<'_>], input: &PageInput<'_>) -> Vec<Map> {
    let mut maps = Vec::new();
    if let Some((first, others)) = input.results.split_first() {
        maps.extend((2..).zip(others).map(|(place, other)| against(first, other, place)));
    }
    maps.extend(sides.iter().filter(|side| side.is_of_pairs()).map(pairs));
    maps.extend(input.check.map(limits));
    maps.retain(|map| !map.figures.is_empty());
    maps
}

fn question(layout: Layout) -> Question {
    Question { layout, margin: MARGIN, control: Control::Fdr(RATE), power: POWER }
}

fn against(first: &NamedResults<'_>, other: &NamedResults<'_>, place: usize) -> Map {
    let judged = |one: &NamedResults<'_>| JudgedResults { manifest: one.manifest.clone(), allows_damage: false };
    let both = [&judged(first), &judged(other)];
    let selection = Selection::default();
    let is_enough = both.iter().all(|side| u64::from(side.manifest.plan.rounds) >= fewest_runs(RATE));
    let by_runs = is_enough.then(|| ByRuns::new(both, &selection, question(Layout::Independent)).ok()).flatten();
    let (figures, method) = match by_runs {
        Some(made) => (made.judgements.iter().map(by_rounds).collect(), by_test()),
        None => {
            let made = ByThreshold::new(both, &selection, THRESHOLD);
            (by_threshold(&made), format!("by a threshold of {} %: too few rounds for a test", THRESHOLD * 100.0))
        }
    };
    Map {
        name: if place == 2 { "verdicts".to_owned() } else { format!("verdicts_{place}") },
        title: format!("What is different in {}?", other.name),
        against: format!("compared with {}", first.name),
        method,
        figures,
    }
}

fn by_test() -> String {
    format!(
        "by a rank test over rounds, changes up to {} % are none, false discovery rate {} %",
        MARGIN * 100.0,
        RATE * 100.0
    )
}

fn by_rounds(one: &JudgedFigure) -> MapFigure {
    let judged = &one.comparison.judged;
    let level = match judged.verdict {
        ChangeVerdict::Regressed => HeatLevel::Bad,
        ChangeVerdict::Improved => HeatLevel::Good,
        ChangeVerdict::Equivalent => HeatLevel::Even,
        ChangeVerdict::Inconclusive => HeatLevel::Unclear,
    };
    let interval = judged.interval.map(|interval| format!(" ({:.3} to {:.3})", interval.low, interval.high));
    let detail = format!(
        "{}: ratio {:.3}{}, {}",
        one.address.name(),
        judged.ratio,
        interval.unwrap_or_default(),
        judged.verdict.name()
    );
    MapFigure { address: one.address.clone(), level, change: Some(judged.ratio - 1.0), detail }
}

fn by_threshold(made: &ByThreshold) -> Vec<MapFigure> {
    let figures = made.both.iter().flat_map(|sub| sub.compared.iter().map(move |one| (sub, one)));
    let judged = |(sub, one): (
        &tripmeter_analysis::comparison::ComparedSub,
        &tripmeter_analysis::comparison::ComparedFigure,
    )| {
        let level = match (one.outcome, &sub.distrust) {
            (ThresholdOutcome::New, _) => return None,
            (_, Some(_)) | (ThresholdOutcome::Failed | ThresholdOutcome::Missing, _) => HeatLevel::Bad,
            // Better by more than the threshold as the reference would fail against it.
            _ if one.share_worse().is_some_and(|share| share < 1.0 / (1.0 + THRESHOLD) - 1.0) => HeatLevel::Good,
            _ => HeatLevel::Even,
        };
        let change = one.increase().filter(|change| change.is_finite());
        let change_text = change.map_or("not comparable".to_owned(), |change| format!("{:+.1} %", change * 100.0));
        let why = sub.distrust.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
        let detail = format!("{}: {change_text}, {}{why}", one.address.name(), one.outcome.name());
        Some(MapFigure { address: one.address.clone(), level, change, detail })
    };
    figures.filter_map(judged).collect()
}

/// MeasuredSide `b` against side `a`, round by round.
fn pairs(side: &MeasuredSide<'_>) -> Map {
    let whole = JudgedResults { manifest: side.manifest.clone(), allows_damage: false }.whole();
    let all = Selection::default().select(&whole);
    let of_side = |name: &'static str| all.iter().filter(move |one| one.address.sub_experiment == name);
    let cells = of_side("a").filter_map(|a| {
        let address = FigureAddress { sub_experiment: "b".to_owned(), ..a.address.clone() };
        let b = of_side("b").find(|b| b.address == address)?;
        let at = |round: &u32| b.rounds.iter().find(|one| one.0 == *round).map(|one| one.1);
        let both: Vec<(f64, f64)> = a.rounds.iter().filter_map(|(round, value)| Some((*value, at(round)?))).collect();
        let values: (Vec<f64>, Vec<f64>) = both.into_iter().unzip();
        // A ratio of 0 is none.
        let is_positive = values.0.iter().chain(&values.1).all(|value| *value > 0.0);
        (is_positive && !values.0.is_empty()).then_some((address, [values.0, values.1]))
    });
    let judged = JudgedFigure::all(cells.collect(), &question(Layout::Paired)).unwrap_or_default();
    Map {
        name: "verdicts_ab".to_owned(),
        title: "Is b slower than a?".to_owned(),
        against: "of b compared with a".to_owned(),
        method: by_test(),
        figures: judged.iter().map(by_rounds).collect(),
    }
}

fn limits(check: &ResultsCheck) -> Map {
    let rows = check.checked.iter().flat_map(|sub| sub.rows.iter().map(move |row| (sub.distrust.as_ref(), row)));
    let judged = |(distrust, row): (Option<&String>, &CheckedLimit)| {
        const NEAR: f64 = -0.1;
        let beyond = row.share_beyond();
        let level = match (row.passed() && distrust.is_none(), beyond) {
            (false, _) => HeatLevel::Bad,
            (true, Some(share)) if share < NEAR => HeatLevel::Good,
            (true, _) => HeatLevel::Even,
        };
        let value = row.value.map_or("not measured".to_owned(), |value| format!("{value}"));
        let why = distrust.map(|why| format!("; {why}")).unwrap_or_default();
        let detail = format!("{}: {value}, limit {}{why}", row.limit.address.name(), row.limit.limit);
        MapFigure {
            address: row.limit.address.clone(),
            level,
            change: beyond.filter(|share| share.is_finite()),
            detail,
        }
    };
    Map {
        name: "verdicts_limits".to_owned(),
        title: "Are the limits met?".to_owned(),
        against: "compared with their limits".to_owned(),
        method: "distance from the nearest limit, or from that it is farthest beyond".to_owned(),
        figures: rows.map(judged).collect(),
    }
}

/// The gravest first.
fn badness(level: HeatLevel) -> u8 {
    match level {
        HeatLevel::Bad => 0,
        HeatLevel::Unclear => 1,
        HeatLevel::Good => 2,
        HeatLevel::Even | HeatLevel::Scale(_) => 3,
    }
}

fn chart(map: &Map) -> Chart {
    let payloads: BTreeSet<u64> = map.figures.iter().map(|one| one.address.payload_bytes).collect();
    let payloads: Vec<u64> = payloads.into_iter().collect();
    let mut rows: Vec<String> = Vec::new();
    let mut places: BTreeMap<(usize, u64), Vec<&MapFigure>> = BTreeMap::new();
    for one in &map.figures {
        let name = row_name(one);
        let row = rows.iter().position(|known| *known == name).unwrap_or(rows.len());
        if row == rows.len() {
            rows.push(name);
        }
        places.entry((row, one.address.payload_bytes)).or_default().push(one);
    }
    let cell = |((row, payload), here): ((usize, u64), Vec<&MapFigure>)| {
        let (level, text, detail) = cell(&here)?;
        let column = payloads.iter().position(|known| *known == payload)?;
        Some(HeatCell { column, row, level, text, detail })
    };
    let cells = places.into_iter().filter_map(cell).collect();
    Chart {
        name: map.name.clone(),
        title: map.title.clone(),
        reading: reading(map),
        subtitle: map.method.clone(),
        x: X::Categories { label: "Payload".to_owned(), names: payloads.into_iter().map(display_size).collect() },
        heat: Some(Heat { rows, cells }),
        notes: vec![
            "! worse, ≈ not different or within its limit, ? cannot be told, without a mark better; each cell has its gravest figure"
                .to_owned(),
        ],
        ..Chart::default()
    }
}

fn row_name(one: &MapFigure) -> String {
    let load = one.address.load;
    match load.hz() {
        Some(_) => format!("{}, {}", one.address.sub_experiment, crate::labels::load_text(load)),
        None => one.address.sub_experiment.clone(),
    }
}

/// The gravest of the figures of a cell: what is worse first, then what its first figure says.
fn cell(figures: &[&MapFigure]) -> Option<(HeatLevel, String, String)> {
    let worst = |one: &&&MapFigure| one.level == HeatLevel::Bad;
    let change = |one: &MapFigure| one.change.map_or(f64::NEG_INFINITY, f64::abs);
    let bad = figures.iter().filter(worst).max_by(|a, b| change(a).total_cmp(&change(b)));
    let shown = bad.or_else(|| figures.iter().min_by_key(|one| badness(one.level)))?;
    let percent = shown.change.map_or("-".to_owned(), |change| format!("{:+.0} %", change * 100.0));
    let text = match shown.level {
        HeatLevel::Bad => format!("! {percent}"),
        HeatLevel::Good => percent,
        HeatLevel::Even | HeatLevel::Scale(_) => format!("≈ {percent}"),
        HeatLevel::Unclear => format!("? {percent}"),
    };
    let detail = figures.iter().map(|one| one.detail.as_str()).collect::<Vec<_>>().join("\n");
    Some((shown.level, text, detail))
}

fn reading(map: &Map) -> String {
    let count = |level: HeatLevel| map.figures.iter().filter(|one| one.level == level).count();
    let of = counted(map.figures.len(), "figure");
    let parts = [
        (count(HeatLevel::Bad), "worse"),
        (count(HeatLevel::Good), "better"),
        (count(HeatLevel::Even), "not different"),
        (count(HeatLevel::Unclear), "unclear"),
    ];
    let parts: Vec<String> =
        parts.into_iter().filter(|part| part.0 > 0).map(|(count, word)| format!("{count} {word}")).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    format!("{of} {}: {}.", map.against, listed(&parts))
}
