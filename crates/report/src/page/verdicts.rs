//! Verdicts as heat maps: results against the first, both sides of a pair, or limits.

use super::input::PageInput;
use crate::document::{Block, Note, Severity};
use crate::measured::MeasuredSide;
use crate::number::counted;
use crate::pairs::{MARGIN, RATE, SIDES};
use crate::plots::chart::{Chart, Heat, HeatCell, HeatLevel, X};
use crate::results::NamedResults;
use crate::values::listed;
use crate::verdicts::{legend, percent, summary, table_of_pairs};
use std::collections::BTreeMap;
use tripmeter_analysis::check::{CheckedLimit, CheckedSub, ResultsCheck};
use tripmeter_analysis::comparison::{ByRuns, ByThreshold, ComparedFigure, ComparedSub, JudgedFigure};
use tripmeter_analysis::{JudgedResults, Selection};
use tripmeter_model::address::FigureAddress;
use tripmeter_model::payload::size_text;
use tripmeter_model::verdict::FigureVerdict;
use tripmeter_stats::change::Control;
use tripmeter_stats::power::Layout;
use tripmeter_stats::runs::Question;
use tripmeter_stats::shift::fewest_runs;

/// Share by which a figure may be worse if there are too few rounds for a test.
const THRESHOLD: f64 = 0.1;
const QUESTION: Question =
    Question { layout: Layout::Independent, margin: MARGIN, control: Control::Fdr(RATE), power: 0.95 };

#[derive(Clone, Debug)]
struct MapFigure {
    address: FigureAddress,
    level: HeatLevel,
    /// Increase, as a share.
    change: Option<f64>,
    /// Full text of the cell.
    detail: String,
    /// Category in which it is counted, if not that of its level.
    word: Option<&'static str>,
}

pub struct Map {
    name: String,
    title: String,
    reading: String,
    /// True if the answer already says it, with the names of both sides.
    is_answered: bool,
    method: String,
    /// Legend of the cells, and sub-experiments that are not on the map.
    notes: Vec<String>,
    figures: Vec<MapFigure>,
    /// Figures that one of two results lacks.
    lacks: Vec<Note>,
}

const CHANGES: &str =
    "! worse or missing, ≈ no difference, ? undecided, no mark: better; each cell shows its worst figure";
const LIMITS: &str = "! beyond its limit or not measured, ≈ within it by less than 10 %, no mark: by more; each cell \
                      shows its worst figure";

/// Maps, and the table of each `ab`.
pub fn blocks(maps: &[Map], sides: &[MeasuredSide<'_>]) -> Vec<Block> {
    let of_map = |map: &Map| {
        let chart = (!map.figures.is_empty()).then(|| Block::Chart(chart(map)));
        chart.into_iter().chain(Block::notes(map.lacks.clone()))
    };
    let mut blocks: Vec<Block> = maps.iter().flat_map(of_map).collect();
    for side in sides {
        let Some(pairs) = side.pairs.as_ref().filter(|pairs| !pairs.figures.is_empty()) else { continue };
        let mut table = table_of_pairs(&pairs.figures, SIDES, true);
        if sides.len() > 1 {
            table.title = format!("{}: {}", side.name, table.title);
        }
        let asked = &pairs.asked;
        let text = summary(&pairs.figures, &asked.question, asked.effect);
        blocks.extend([Block::Table(table), Block::Text(text + &legend(&asked.question, SIDES, true))]);
    }
    blocks
}

pub fn sentence(maps: &[Map]) -> Option<String> {
    let told: Vec<&str> = maps.iter().filter(|map| !map.is_answered).map(|map| map.reading.as_str()).collect();
    (!told.is_empty()).then(|| told.join(" "))
}

/// Maps of the other results, of both sides of pairs, and of limits; without maps that have no figure.
pub fn maps(sides: &[MeasuredSide<'_>], input: &PageInput<'_>) -> Vec<Map> {
    let mut maps = Vec::new();
    if let Some((first, others)) = input.results.split_first() {
        maps.extend((2..).zip(others).map(|(place, other)| against(first, other, place)));
    }
    // With several folders, titles and file names contain that of the folder.
    let of = |place: usize, side: &MeasuredSide<'_>| match sides.len() {
        0 | 1 => MapPlace { suffix: String::new(), folder: String::new(), is_last: true },
        all => MapPlace { suffix: suffix(place + 1), folder: format!(" in {}", side.name), is_last: place + 1 == all },
    };
    maps.extend(sides.iter().enumerate().filter_map(|(place, side)| pairs(side, &of(place, side))));
    let checks = input.check.map(|check| check.limits.as_slice()).unwrap_or_default();
    maps.extend(sides.iter().zip(checks).enumerate().map(|(place, (side, check))| limits(check, &of(place, side))));
    maps.retain(|map| !map.figures.is_empty() || !map.lacks.is_empty());
    maps
}

/// Suffixes of the names and titles of maps, for one folder among several.
struct MapPlace {
    suffix: String,
    folder: String,
    /// True for the last results, which are ranked.
    is_last: bool,
}

/// Suffix of a name; the first of a kind has none.
fn suffix(place: usize) -> String {
    if place == 1 { String::new() } else { format!("_{place}") }
}

fn against(first: &NamedResults<'_>, other: &NamedResults<'_>, place: usize) -> Map {
    let judged = |one: &NamedResults<'_>| JudgedResults { manifest: one.manifest.clone(), allows_damage: false };
    let both = [&judged(first), &judged(other)];
    let selection = Selection::default();
    let is_enough = both.iter().all(|side| u64::from(side.manifest.plan.rounds) >= fewest_runs(RATE));
    let by_runs = is_enough.then(|| ByRuns::new(both, &selection, QUESTION).ok()).flatten();
    let against = format!("{} compared with {}", other.name, first.name);
    let (figures, method, reading, missing, new, distrusted) = match by_runs {
        Some(made) => {
            let figures: Vec<MapFigure> = made.judgements.iter().map(by_rounds).collect();
            let reading = reading(&figures, &against, "");
            (figures, by_test(&QUESTION), reading, made.missing, made.new, made.missed)
        }
        None => {
            let made = ByThreshold::new(both, &selection, THRESHOLD);
            let method = format!("by a threshold of {} %, as there are too few rounds for a test", THRESHOLD * 100.0);
            let figures = by_threshold(&made);
            let reading = reading(&figures, &against, &format!(" ({method})"));
            // Each figure already shows that it is not to be trusted.
            (figures, method, reading, made.missing, made.new, Vec::new())
        }
    };
    let lacks =
        [(missing, Severity::Error, "missing in"), (new, Severity::Info, "only in")].map(|(names, severity, kind)| {
            let text = format!("{kind} {}: {}", other.name, names.join(", "));
            (!names.is_empty()).then(|| (Note::new(severity, kind, None, text), names))
        });
    let distrusted = distrusted.into_iter().map(|why| Note::error("not to be trusted", why));
    let missing = lacks[0].as_ref().map(|(_, names)| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        format!(" Missing in {}: {}.", other.name, listed(&names))
    });
    Map {
        name: format!("verdicts{}", suffix(place - 1)),
        title: format!("What is different in {}?", other.name),
        reading: reading + &missing.unwrap_or_default(),
        is_answered: false,
        method,
        notes: vec![CHANGES.to_owned()],
        figures,
        lacks: lacks.into_iter().flatten().map(|one| one.0).chain(distrusted).collect(),
    }
}

fn by_test(question: &Question) -> String {
    let (margin, runs) = (percent(question.margin), if question.layout == Layout::Paired { "pairs of" } else { "" });
    let control = match question.control {
        Control::Fdr(rate) => format!("false discovery rate {}", percent(rate)),
        Control::Fwer(rate) => format!("family-wise error rate {}", percent(rate)),
    };
    format!("by a rank test over {runs} rounds, ignoring changes up to {margin}, {control}").replace("  ", " ")
}

fn level(verdict: FigureVerdict) -> HeatLevel {
    match verdict {
        bad if bad.is_bad() => HeatLevel::Bad,
        FigureVerdict::Inconclusive => HeatLevel::Unclear,
        FigureVerdict::Improved => HeatLevel::Good,
        _ => HeatLevel::Even,
    }
}

fn by_rounds(one: &JudgedFigure) -> MapFigure {
    let judged = &one.comparison.judged;
    let interval = judged.interval.map(|interval| format!(" ({:.3} to {:.3})", interval.low, interval.high));
    let (name, interval, verdict) = (one.address.name(), interval.unwrap_or_default(), one.verdict());
    let detail = format!("{name}: ratio {:.3}{interval}, {verdict}", judged.ratio);
    let (level, change) = (level(verdict), Some(judged.ratio - 1.0));
    MapFigure { address: one.address.clone(), level, change, detail, word: None }
}

fn by_threshold(made: &ByThreshold) -> Vec<MapFigure> {
    let figures = made.both.iter().flat_map(|sub| sub.compared.iter().map(move |one| (sub, one)));
    let judged = |(sub, one): (&ComparedSub, &ComparedFigure)| {
        // With the sides swapped, the comparison would fail.
        let is_better = || one.share_worse().is_some_and(|share| share < 1.0 / (1.0 + THRESHOLD) - 1.0);
        let level = match one.outcome {
            FigureVerdict::New => return None,
            _ if sub.distrust.is_some() => HeatLevel::Bad,
            FigureVerdict::Passed if is_better() => HeatLevel::Good,
            outcome => level(outcome),
        };
        let change = one.increase().filter(|change| change.is_finite());
        let change_text = change.map_or("not comparable".to_owned(), |change| format!("{:+.1} %", change * 100.0));
        let why = sub.distrust.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
        let detail = format!("{}: {change_text}, {}{why}", one.address.name(), one.outcome);
        let word = match (one.outcome, &sub.distrust) {
            (FigureVerdict::Missing, _) => Some("missing"),
            (_, Some(_)) => Some("not to be trusted"),
            _ => None,
        };
        Some(MapFigure { address: one.address.clone(), level, change, detail, word })
    };
    figures.filter_map(judged).collect()
}

/// Map of side `b` against side `a`, round by round, as in `ab.json`.
fn pairs(side: &MeasuredSide<'_>, place: &MapPlace) -> Option<Map> {
    let judged = side.pairs.as_ref()?;
    let figures = judged.figures.iter().map(|one| {
        let figure = by_rounds(one);
        MapFigure { address: FigureAddress { sub_experiment: SIDES[1].to_owned(), ..figure.address }, ..figure }
    });
    let figures: Vec<MapFigure> = figures.collect();
    let answer = judged.answer(SIDES);
    let reading = if place.folder.is_empty() { answer } else { format!("In {}, {answer}", side.name) };
    Some(Map {
        name: format!("verdicts_ab{}", place.suffix),
        title: format!("Is b slower than a{}?", place.folder),
        reading,
        is_answered: place.is_last,
        method: format!("{}; {}", judged.counts(), by_test(&judged.asked.question)),
        notes: vec![CHANGES.to_owned()],
        figures,
        lacks: Vec::new(),
    })
}

fn limits(check: &ResultsCheck, place: &MapPlace) -> Map {
    let rows = check.checked.iter().flat_map(|sub| sub.rows.iter().map(move |row| (sub.distrust.as_ref(), row)));
    let judged = |(distrust, row): (Option<&String>, &CheckedLimit)| {
        const NEAR: f64 = -0.1;
        let beyond = row.share_beyond();
        let level = match row.outcome() {
            _ if distrust.is_some() => HeatLevel::Bad,
            FigureVerdict::Passed if beyond.is_some_and(|share| share < NEAR) => HeatLevel::Good,
            outcome => level(outcome),
        };
        let value = row.value.map_or("not measured".to_owned(), |value| format!("{value}"));
        let why = distrust.map(|why| format!("; {why}")).unwrap_or_default();
        let unit = row.limit.address.unit().as_str();
        let detail = format!("{}: {value}, limit {} {unit}{why}", row.limit.address.name(), row.limit.limit);
        MapFigure {
            address: row.limit.address.clone(),
            level,
            change: beyond.filter(|share| share.is_finite()),
            detail,
            word: None,
        }
    };
    let others = [("without limits", &check.without_limits), ("with limits, but not measured", &check.not_measured)];
    let other = |(what, names): (&str, &Vec<String>)| {
        let named: Vec<&str> = names.iter().map(String::as_str).collect();
        (!names.is_empty()).then(|| format!("{} {what}: {}.", counted(names.len(), "sub-experiment"), listed(&named)))
    };
    Map {
        name: format!("verdicts_limits{}", place.suffix),
        title: format!("Are the limits met{}?", place.folder),
        reading: reading_of_limits(check, place),
        is_answered: false,
        method: "distance from the limit, as a share of it".to_owned(),
        notes: [LIMITS.to_owned()].into_iter().chain(others.into_iter().filter_map(other)).collect(),
        figures: rows.map(judged).collect(),
        lacks: Vec::new(),
    }
}

/// Sentence on how many limits are met, what fails, and which figure is farthest beyond its limit.
fn reading_of_limits(check: &ResultsCheck, place: &MapPlace) -> String {
    let (met, all) = check.counts();
    let limits = format!("{met} of {} met{}", counted(all, "limit"), place.folder);
    let failing: Vec<&CheckedSub> = check.checked.iter().filter(|sub| !sub.passed(false)).collect();
    let subs = counted(check.checked.len(), "sub-experiment");
    // Figures that were not measured or are not to be trusted count as farthest.
    let beyond =
        |sub: &CheckedSub| sub.worst().map_or(f64::INFINITY, |row| row.share_beyond().unwrap_or(f64::INFINITY));
    let Some(worst) = failing.iter().rev().max_by(|a, b| beyond(a).total_cmp(&beyond(b))) else {
        let verdict = if met == all { "all" } else { "none" };
        let passed = if met == all { "passed" } else { "failed, and the rest is inconclusive" };
        return format!("{limits}, {verdict} of {subs} {passed}.");
    };
    let name = &worst.name;
    let why = match (worst.worst().filter(|row| row.outcome() == FigureVerdict::Failed), &worst.distrust) {
        (Some(row), _) => {
            let address = &row.limit.address;
            let beyond = match (row.value, row.share_beyond()) {
                (None, _) => "which was not measured".to_owned(),
                (_, Some(share)) if share.is_finite() => {
                    format!("{} beyond its limit", percent((share * 1e3).round() / 1e3))
                }
                _ => "beyond its limit".to_owned(),
            };
            format!("{} of {name} {}, {beyond}", address.name(), address.at())
        }
        (None, why) => format!("{name}: {}", why.clone().unwrap_or_default()),
    };
    let names: Vec<&str> = failing.iter().map(|sub| sub.name.as_str()).collect();
    format!("{limits}, {} of {subs} failed: {}. The worst is {why}.", names.len(), listed(&names))
}

/// Rank of a level for sorting; 0 is the worst.
fn badness(level: HeatLevel) -> u8 {
    match level {
        HeatLevel::Bad => 0,
        HeatLevel::Unclear => 1,
        HeatLevel::Good => 2,
        HeatLevel::Even | HeatLevel::Scale(_) => 3,
    }
}

fn chart(map: &Map) -> Chart {
    let sizes: BTreeMap<u64, bool> =
        map.figures.iter().map(|one| (one.address.payload_bytes, one.address.has_several_sizes)).collect();
    let payloads: Vec<u64> = sizes.keys().copied().collect();
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
        reading: map.reading.clone(),
        subtitle: map.method.clone(),
        x: X::Categories {
            label: "Payload".to_owned(),
            names: sizes.into_iter().map(|(bytes, several)| size_text(bytes, several)).collect(),
        },
        heat: Some(Heat { rows, cells }),
        notes: map.notes.clone(),
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

/// Level, text and detail of a cell: those of its worst figure, or of the one with the gravest level.
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

/// Sentence on how many figures are worse or better, and by which method.
fn reading(figures: &[MapFigure], against: &str, method: &str) -> String {
    let count = |level: HeatLevel| figures.iter().filter(|one| one.level == level && one.word.is_none()).count();
    let of_word = |word: &'static str| (figures.iter().filter(|one| one.word == Some(word)).count(), word);
    let parts = [
        (count(HeatLevel::Bad), "worse"),
        (count(HeatLevel::Good), "better"),
        (count(HeatLevel::Even), "not different"),
        (count(HeatLevel::Unclear), "unclear"),
        of_word("not to be trusted"),
        of_word("missing"),
    ];
    let parts: Vec<String> =
        parts.into_iter().filter(|part| part.0 > 0).map(|(count, word)| format!("{count} {word}")).collect();
    if parts.is_empty() {
        return format!("{against}: no figure in common.");
    }
    format!("{against}: of {}, {}{method}.", counted(figures.len(), "figure"), parts.join(", "))
}
