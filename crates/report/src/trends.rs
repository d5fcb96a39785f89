//! Page of figures over time: small charts of every figure, with steps, limits and changes of the environment.

use crate::changes::{changes, unseen};
use crate::document::{Block, Cell, Column, Document, Heading, Table};
use crate::number::counted;
use crate::plots::Chart;
use crate::plots::chart::{AxisValue, BLACK, Line, Look, Mark, Marker, PURPLE, Stroke, VERMILLION, X, Y};
use crate::values::{listed, unit};
use tripmeter_analysis::history::{Change, History, HistorySeries, Reach};
use tripmeter_model::limits::FigureLimits;
use tripmeter_model::payload::{at_text, size_key};
use tripmeter_stats::median;

/// Input of the page of trends.
pub struct Trends<'a> {
    /// Experiments and their figures.
    pub history: &'a History,
    /// Limits to draw, if any.
    pub limits: Option<&'a FigureLimits>,
    /// Steps and drifts that were found.
    pub changes: &'a [Change],
    /// Number of figures that were searched for changes.
    pub series: usize,
    /// Number of experiments that each figure has for the search.
    pub reach: &'a Reach,
    /// Sub-experiments whose plan changed from some experiment on, a line each.
    pub other_plans: &'a [String],
    /// URL of the page of each experiment; empty if there is none.
    pub links: &'a [String],
}

/// Page of changes, every figure over the experiments, and the experiments.
pub fn trends(input: &Trends<'_>) -> Document {
    let heading = |id, text: &str| Block::Heading(Heading { id, text: text.to_owned() });
    let mut blocks = vec![heading("changes", "What changed"), Block::Text(answer(input))];
    match input.changes.is_empty() {
        true => blocks.extend((!unseen(input.reach).is_empty()).then(|| Block::Text(unseen(input.reach).join("\n")))),
        false => blocks.extend(changes(input.changes, input.series, input.reach).blocks),
    }
    let gaps = input.history.gaps();
    if !gaps.is_empty() {
        blocks.push(Block::Text(gaps.join("\n")));
    }
    let lines = input.history.lines();
    let charts: Vec<Chart> = lines.iter().flat_map(|group| apart(group)).map(|group| chart(input, group)).collect();
    blocks.extend([heading("trends", "Trends"), Block::Charts(charts)]);
    let mut breaks = input.history.changes_of_machine();
    breaks.extend(input.other_plans.iter().cloned());
    if !breaks.is_empty() {
        blocks.extend([heading("environment", "What was measured differently"), Block::Text(breaks.join("\n"))]);
    }
    blocks.extend([heading("runs", "Experiments"), Block::Table(runs(input))]);
    Document { blocks }
}

fn answer(input: &Trends<'_>) -> String {
    let new: Vec<&Change> = input.changes.iter().filter(|one| one.is_new()).collect();
    let experiments = counted(input.history.experiments.len(), "experiment");
    let looked = format!("{} over {experiments}", counted(input.series, "figure"));
    if new.is_empty() && input.reach.most() < input.reach.step {
        return format!("{looked}: too few to see a change.");
    }
    if new.is_empty() {
        return format!("No new step or slow drift is seen in {looked}.");
    }
    let mut names: Vec<&str> = new.iter().map(|one| one.address.sub_experiment.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let steps = new.iter().filter(|one| one.until.is_none()).count();
    let both = [(steps, "step"), (new.len() - steps, "slow drift")].map(|(count, noun)| counted(count, noun));
    format!("{} and {} in {looked}, of {}.", both[0], both[1], listed(&names))
}

/// Whole group if its lines can share an axis, else each line separately: next to a much greater one, no change is
/// visible.
fn apart<'a, 'b>(group: &'b [&'a HistorySeries]) -> Vec<&'b [&'a HistorySeries]> {
    const FAR_APART: f64 = 4.0;
    let middles =
        group.iter().filter_map(|one| median(&one.points.iter().map(|point| point.value).collect::<Vec<_>>()));
    let (least, most) = middles.fold((f64::INFINITY, 0.0), |(least, most), one| (one.min(least), one.max(most)));
    if most > FAR_APART * least { group.chunks(1).collect() } else { vec![group] }
}

/// Chart of one figure over the experiments, a line for each payload.
fn chart(input: &Trends<'_>, group: &[&HistorySeries]) -> Chart {
    let address = &group[0].address;
    let (factor, unit) = unit(address.figure);
    let (name, sub) = (address.name(), &address.sub_experiment);
    let (at, suffix) = match group {
        [one] => {
            let (bytes, several) = (one.address.payload_bytes, one.address.has_several_sizes);
            (format!(" {}", at_text(bytes, several)), format!("_{}", size_key(bytes, several)))
        }
        _ => (String::new(), String::new()),
    };
    let count = input.history.experiments.len();
    let line = |series: &&HistorySeries| Line {
        name: series.address.size(),
        points: series.points.iter().map(|point| (point.experiment as f64, factor * point.value)).collect(),
        ..Line::default()
    };
    let limit = |series: &&HistorySeries| {
        let at = factor * input.limits?.limit_for(&series.address)?.limit;
        let look = Look { color: Some(VERMILLION), marker: Marker::None, stroke: Stroke::Dashed, strong: false };
        let ends = vec![(0.0, at), (count.saturating_sub(1) as f64, at)];
        Some(Line { name: format!("limit of {}", series.address.size()), points: ends, look, ..Line::default() })
    };
    let is_shown = |change: &&Change| group.iter().any(|series| series.address == change.address);
    let place = |name: &str| input.history.experiments.iter().position(|one| one == name);
    let step = |change: &Change| {
        let what = format!(
            "{:+.1} % {}",
            (change.after / change.before - 1.0) * 100.0,
            at_text(change.address.payload_bytes, change.address.has_several_sizes)
        );
        let (until, known) = (change.until.as_deref(), change.word());
        let known = if known.is_empty() { String::new() } else { format!(", {known}") };
        let name = match until {
            Some(until) => format!("drift from {} to {until}: {what}{known}", change.since),
            None => format!("step at {}: {what}{known}", change.since),
        };
        let at = AxisValue::X(place(&change.since)? as f64);
        Some(Mark { name, at, color: if change.is_new() { VERMILLION } else { BLACK } })
    };
    let found: Vec<&Change> = input.changes.iter().filter(is_shown).collect();
    let breaks = input.history.breaks().into_iter().map(|(place, _)| Mark {
        name: format!("another environment since {}", input.history.experiments[place]),
        at: AxisValue::X(place as f64),
        color: PURPLE,
    });
    let new = found.iter().filter(|one| one.is_new()).count();
    let longest = input.history.series.iter().zip(&input.reach.longest);
    let longest = longest.filter(|(one, _)| group.iter().any(|series| series.address == one.address));
    let most = longest.map(|(_, most)| *most).max().unwrap_or(0);
    let reading = match new {
        0 if most < input.reach.step => {
            let (there, needed) = (counted(most, "experiment"), input.reach.step);
            format!("Too little history: {there} on one machine; detecting a step takes {needed}.")
        }
        0 => "No new change is seen.".to_owned(),
        _ => format!("{} that {} not known.", counted(new, "change"), if new == 1 { "is" } else { "are" }),
    };
    Chart {
        name: format!("history_{sub}_{name}{suffix}"),
        title: format!("How did {name} of {sub} develop{at}?"),
        subtitle: format!("offered load: {}", address.load),
        reading,
        x: X::Categories { label: "Experiment".to_owned(), names: input.history.experiments.clone() },
        y: Y { label: format!("{name} [{unit}]"), ..Y::default() },
        lines: group.iter().map(line).chain(group.iter().filter_map(limit)).collect(),
        marks: found.into_iter().filter_map(step).chain(breaks).collect(),
        ..Chart::default()
    }
}

fn runs(input: &Trends<'_>) -> Table {
    let columns = vec![
        Column::words("experiment", "experiment", ""),
        Column::words("machine", "another environment", "what differs from the experiment before"),
    ];
    let breaks = input.history.breaks();
    let row = |(place, name): (usize, &String)| {
        let text = name.clone();
        let cell = match input.links.get(place) {
            Some(target) if !target.is_empty() => Cell::Link { text, target: target.clone() },
            _ => Cell::Text(text),
        };
        let changed = breaks.iter().find(|(at, _)| *at == place).map(|(_, what)| what.clone());
        (None, vec![cell, Cell::Text(changed.unwrap_or_default())])
    };
    Table::new(String::new(), columns, input.history.experiments.iter().enumerate().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render;
    use tripmeter_analysis::history::HistoryPoint;
    use tripmeter_analysis::results::MachineFacts;
    use tripmeter_model::address::FigureAddress;
    use tripmeter_model::figure::{Figure, Statistic};
    use tripmeter_model::metric::Stream;
    use tripmeter_model::pace::OfferedLoad;

    fn address(payload_bytes: u64) -> FigureAddress {
        FigureAddress {
            sub_experiment: "uds <b>".to_owned(),
            payload_bytes,
            has_several_sizes: false,
            load: OfferedLoad::Closed,
            stream: Stream::all(),
            figure: Figure::RttHalf,
            statistic: Statistic::P50,
        }
    }

    fn history() -> History {
        let points = |values: [f64; 3]| -> Vec<HistoryPoint> {
            values
                .into_iter()
                .enumerate()
                .map(|(experiment, value)| HistoryPoint { experiment, value, error: 0.0 })
                .collect()
        };
        let series = |bytes, values| HistorySeries { address: address(bytes), points: points(values) };
        let machine = |cpu: &str| MachineFacts::from([("CPU".to_owned(), cpu.to_owned())]);
        let mut history = History::default();
        history.experiments = ["one", "two", "three"].map(str::to_owned).into();
        history.machines = vec![machine("a"), machine("a"), machine("b")];
        history.plans = vec![Vec::new(); 3];
        history.series = vec![series(2048, [2000.0, 2500.0, 2500.0]), series(1024, [1000.0, 1000.0, 1000.0])];
        history
    }

    #[test]
    fn a_chart_has_a_line_for_each_payload_with_steps_and_breaks() {
        let history = history();
        let step = Change {
            address: address(2048),
            since: "two".to_owned(),
            until: None,
            before: 2000.0,
            after: 2500.0,
            p: 1e-6,
            is_known: false,
            error: 0.0,
        };
        let links = ["a%20b/report.html".to_owned(), String::new(), String::new()];
        let page = trends(&Trends {
            history: &history,
            limits: None,
            changes: &[step],
            series: 2,
            reach: &Reach { step: 6, drift: 10, longest: vec![2, 2] },
            other_plans: &[],
            links: &links,
        });
        let charts: Vec<&Chart> = page.charts().collect();
        let [chart] = charts[..] else { panic!("{charts:?}") };
        let lines: Vec<(&str, f64)> = chart.lines.iter().map(|line| (line.name.as_str(), line.points[1].1)).collect();
        assert_eq!(lines, [("1k", 1.0), ("2k", 2.5)]);
        let marks: Vec<&str> = chart.marks.iter().map(|mark| mark.name.as_str()).collect();
        assert_eq!(marks, ["step at two: +25.0 % at 2k", "another environment since three"]);
        assert_eq!(chart.reading, "1 change that is not known.");
        let html = render::html(&page, "history");
        assert!(html.contains("<a href=\"a%20b/report.html\">one</a>"), "{html}");
        assert!(html.contains("class=\"multiples\"") && !html.contains("uds <b>"));
        assert!(html.contains("1 step and 0 slow drifts in 2 figures over 3 experiments, of uds &lt;b&gt;."));
    }

    #[test]
    fn too_few_experiments_are_told_and_not_that_nothing_is_seen() {
        let mut history = history();
        history.series[1].points.remove(0);
        history.series[1].address.sub_experiment = "tcp".to_owned();
        let reach = Reach { step: 6, drift: 10, longest: vec![2, 1] };
        let page = trends(&Trends {
            history: &history,
            limits: None,
            changes: &[],
            series: 2,
            reach: &reach,
            other_plans: &[],
            links: &[],
        });
        let text = crate::fixture::text(&page);
        assert!(text.contains("2 figures over 3 experiments: too few to see a change."), "{text}");
        assert!(text.contains("detecting a step takes 6 experiments") && text.contains("There are 2."), "{text}");
        assert!(text.contains("'tcp' has no figures in 1 of 3 experiments: 'one'"), "{text}");
        let readings: Vec<&str> = page.charts().map(|chart| chart.reading.as_str()).collect();
        let expected = ["2 experiments", "1 experiment"]
            .map(|there| format!("Too little history: {there} on one machine; detecting a step takes 6."));
        assert_eq!(readings, expected);
    }
}
