//! Plots as AimRT publishes them, for results of patterns `publish`, `call` and `log`: average latency over payloads, topics
//! or clients, and calls per second over payloads.
//!
//! Figures are as in the table `aimrt`. Each plot has one rate, mode, and number of topics or clients, unless that number
//! is its horizontal axis.
//!
//! # Source
//! AimRT, performance test.

use super::chart::{Chart, Line, Look, Stack, Stroke, X, Y};
use super::{samples_per_figure, subtitle};
use crate::document::{Block, Document};
use crate::measured::MeasuredSide;
use crate::number::count as rate;
use crate::results::NamedResults;
use crate::tables::row::TableRow;
use crate::values::capitalised;
use tripmeter_analysis::Rounds;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::group::alike;
use tripmeter_model::manifest::Verdict;
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_stats::ErrorBounds;
use tripmeter_stats::rounds::figure_over_rounds;

/// Every plot with figures: over at least two payloads, or two numbers of topics or clients. If a pattern has neither,
/// columns of its only payload.
pub fn charts(results: &[NamedResults<'_>]) -> Document {
    let mut figures: [Vec<PlottedValue>; 4] = Default::default();
    for (folder, one) in results.iter().enumerate() {
        let side = MeasuredSide::new(one);
        // A row belongs to the plots whose figures it has.
        for row in TableRow::rows(&side, |plan| !plan.are_round_trips()) {
            figures[0].extend(of_channel(folder, &row));
            figures[1].push(of_rpc(folder, &row));
            figures[2].extend(queries(folder, &row));
            figures[3].push(of_log(folder, &row));
        }
    }
    let [channel, rpc, queries, log] = figures.map(|figures| {
        figures.into_iter().filter(|figure| figure.values.iter().any(|value| value.is_finite())).collect::<Vec<_>>()
    });
    let names: Vec<&str> = results.iter().map(|one| one.name).collect();
    let plots = [
        CHANNEL.all(&channel, &[Over::Payloads, Over::Links], &names),
        RPC.all(&rpc, &[Over::Payloads, Over::Links], &names),
        QUERIES.all(&queries, &[Over::Payloads], &names),
        LOG.all(&log, &[Over::Payloads], &names),
    ];
    Document { blocks: plots.into_iter().flatten().map(Block::Chart).collect() }
}

/// Quantity on the horizontal axis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Payloads,
    Links,
}

/// One value with its address.
struct PlottedValue {
    /// Index of its results.
    folder: usize,
    sub_experiment: String,
    transport: String,
    /// Wait and touch.
    factors: String,
    payload_bytes: u64,
    links: u32,
    /// Way of measuring, as text and as part of a file name; empty if there is only one way.
    way: [String; 2],
    /// Values of each round.
    values: Vec<f64>,
    /// Error of two clocks.
    errors: ErrorBounds,
    /// Samples of a round.
    samples: Vec<u64>,
    rate_missed: bool,
    proof_failed: bool,
}

impl PlottedValue {
    /// Entry without values.
    fn new(folder: usize, row: &TableRow<'_>) -> Self {
        let planned = row.sub.planned;
        Self {
            folder,
            sub_experiment: planned.name.clone(),
            transport: planned.transport.to_string(),
            factors: format!("wait {}, touch {}", planned.wait, planned.touch),
            payload_bytes: row.row.payload_bytes,
            links: planned.workload.links(),
            way: Default::default(),
            values: Vec::new(),
            errors: ErrorBounds::NONE,
            samples: Vec::new(),
            rate_missed: row.metrics.is_rate_missed(row.row),
            proof_failed: row.sub.proof().is_some_and(|(_, proof)| proof.verdict == Verdict::Failed),
        }
    }

    /// Adds the average of a latency, in units of `unit_ns` nanoseconds.
    fn with_average(self, row: &TableRow<'_>, figure: Figure, unit_ns: f64) -> Self {
        let get = |statistic| row.get(&Stream::all(), figure, statistic);
        self.with(get(Statistic::Mean), get(Statistic::N), unit_ns)
    }

    fn with(mut self, values: Option<Rounds<'_>>, samples: Option<Rounds<'_>>, divisor: f64) -> Self {
        self.errors = values.map_or(ErrorBounds::NONE, |values| values.errors().scaled(divisor.recip()));
        let both = values.zip(samples).map_or(Vec::new(), |(values, samples)| values.paired(&samples));
        (self.values, self.samples) = both.into_iter().map(|(value, count)| (value / divisor, count as u64)).unzip();
        self
    }

    fn x(&self, over: Over) -> u64 {
        if over == Over::Payloads { self.payload_bytes } else { self.links.into() }
    }
}

fn of_channel(folder: usize, row: &TableRow<'_>) -> Option<PlottedValue> {
    let (planned, offered) = (row.sub.planned, rate(row.offered_hz()));
    let [at, load] = match row.load() {
        load if load.is_uneven() => [crate::labels::offered(load), load.suffix()],
        _ => [format!("at {offered} /s"), format!("_rate-{offered}")],
    };
    let [words, file] = match planned.workload.publishers() {
        1 => Default::default(),
        number => [format!("{number} publishers of each topic, "), format!("_publishers-{number}")],
    };
    let figure = PlottedValue {
        links: planned.workload.topology.topics,
        way: [words + &at, file + &load],
        ..PlottedValue::new(folder, row).with_average(row, Figure::Service, 1000.0)
    };
    (!planned.workload.is_recorded()).then_some(figure)
}

fn of_rpc(folder: usize, row: &TableRow<'_>) -> PlottedValue {
    let way = match row.load() {
        OfferedLoad::Closed => ["closed loop (bench)".to_owned(), "_bench".to_owned()],
        load if load.is_uneven() => [format!("{} each", crate::labels::offered(load)), load.suffix()],
        _ => {
            let offered = rate(row.offered_hz());
            [format!("at {offered} /s each (fixed-freq)"), format!("_fixed-freq_rate-{offered}")]
        }
    };
    PlottedValue { way, ..PlottedValue::new(folder, row).with_average(row, Figure::ServiceRtt, 1000.0) }
}

/// Calls per second, which only exist in a closed loop.
fn queries(folder: usize, row: &TableRow<'_>) -> Option<PlottedValue> {
    let figure = of_rpc(folder, row).with(row.value(Figure::Completed), row.value(Figure::Received), 1.0);
    (row.load() == OfferedLoad::Closed).then_some(figure)
}

fn of_log(folder: usize, row: &TableRow<'_>) -> PlottedValue {
    PlottedValue { factors: String::new(), ..PlottedValue::new(folder, row).with_average(row, Figure::Call, 1.0) }
}

struct Plot {
    /// Beginning of file names.
    file: &'static str,
    what: &'static str,
    /// Label of the vertical axis.
    label: &'static str,
    /// Part of the subtitle.
    explained: &'static str,
    /// Terms for one link and for several; empty if there is only one.
    links: [&'static str; 2],
    /// True if figures lie so far apart that a linear axis would hide most of them.
    spans: bool,
}

const CHANNEL: Plot = Plot {
    file: "channel_latency",
    what: "Average latency",
    label: "Average latency, one_way, service time [us]",
    explained: "one way, from the actual sending",
    links: ["topic", "topics"],
    spans: false,
};
const RPC: Plot = Plot {
    file: "rpc_latency",
    what: "Average round trip",
    label: "Average latency, rtt, service time [us]",
    explained: "whole round trips, from when a call was made",
    links: ["client", "clients"],
    spans: false,
};
const QUERIES: Plot = Plot {
    file: "rpc_qps",
    what: "QPS",
    label: "Calls that succeeded per second [1/s]",
    explained: "all clients together",
    links: ["client", "clients"],
    spans: false,
};
const LOG: Plot = Plot {
    file: "log_latency",
    what: "Average time of a call",
    label: "Average latency, call [ns]",
    explained: "from a call of the logger to its return",
    links: ["", ""],
    spans: true,
};

impl Plot {
    /// Pictures of a pattern, over parameters with several values; else columns.
    fn all(&self, figures: &[PlottedValue], over: &[Over], names: &[&str]) -> Vec<Chart> {
        let over_several: Vec<Chart> = over.iter().flat_map(|over| self.plots(figures, *over, 2, names)).collect();
        match over_several.is_empty() {
            true => {
                self.plots(figures, Over::Payloads, 1, names).into_iter().filter_map(|one| self.columns(one)).collect()
            }
            false => over_several,
        }
    }

    /// Columns instead of lines, for a chart with only one place.
    fn columns(&self, chart: Chart) -> Option<Chart> {
        let X::Categories { names: places, .. } = &chart.x else { return None };
        let lines: Vec<&Line> = chart.lines.iter().filter(|line| line.look.stroke != Stroke::None).collect();
        let interval = |line: &&Line| line.intervals.first().map(|interval| (interval.1, interval.2));
        let stack = Stack {
            name: self.what.to_owned(),
            values: lines.iter().map(|line| line.points[0].1).collect(),
            intervals: lines.iter().map(interval).collect(),
            color: None,
        };
        let names = lines.iter().map(|line| line.name.clone()).collect();
        // A single column has nothing to be compared with.
        (lines.len() > 1).then(|| Chart {
            title: format!("{} at {} bytes", self.what, places.join(", ")),
            x: X::Categories { label: "Transport".to_owned(), names },
            stacks: vec![stack],
            lines: Vec::new(),
            ..chart
        })
    }

    /// One plot per way of measuring, and per value of the parameter that is not on the axis.
    fn plots(&self, figures: &[PlottedValue], over: Over, least_places: usize, names: &[&str]) -> Vec<Chart> {
        let fixed = |figure: &PlottedValue| match over {
            Over::Payloads => u64::from(figure.links),
            Over::Links => figure.payload_bytes,
        };
        let groups = alike(figures, |first, figure| first.way == figure.way && fixed(first) == fixed(figure));
        let places = |group: &[&PlottedValue]| {
            let mut places: Vec<u64> = group.iter().map(|figure| figure.x(over)).collect();
            places.sort_unstable();
            places.dedup();
            places
        };
        let groups = groups.into_iter().map(|group| (places(&group), group));
        let groups = groups.filter(|(places, _)| places.len() >= least_places);
        groups.map(|(places, group)| self.chart(&group, &places, over, names)).collect()
    }

    fn chart(&self, group: &[&PlottedValue], places: &[u64], over: Over, names: &[&str]) -> Chart {
        let first = group[0];
        let [way, file_way] = &first.way;
        let [link, links] = self.links;
        let (against, fixed, file) = match over {
            Over::Links => {
                let bytes = first.payload_bytes;
                (format!("number of {links}"), format!("{bytes} bytes"), format!("by_{links}_{bytes}"))
            }
            Over::Payloads if link.is_empty() => ("payload size".to_owned(), String::new(), "by_size".to_owned()),
            Over::Payloads => {
                let number = first.links;
                let words = format!("{number} {}", if number == 1 { link } else { links });
                ("payload size".to_owned(), words, format!("by_size_{links}-{number}"))
            }
        };
        let label = match over {
            Over::Payloads => "Payload [bytes]".to_owned(),
            Over::Links => format!("{} [n]", capitalised(links)),
        };
        let lines = lines(group, places, over, names);
        // A single line has no legend.
        let only = if let [line] = &lines[..] { format!(": {}", line.name) } else { String::new() };
        Chart {
            name: format!("{}_{file}{file_way}", self.file),
            title: format!("{} against {against}{only}", self.what),
            subtitle: subtitle(&[
                &fixed,
                way,
                common_factors(group).unwrap_or_default(),
                self.explained,
                &samples_per_figure(group.iter().flat_map(|figure| figure.samples.iter().copied())),
                rounds(group),
            ]),
            x: X::Categories { label, names: places.iter().map(u64::to_string).collect() },
            y: Y { label: self.label.to_owned(), log: self.spans, ..Y::default() },
            lines,
            notes: notes(group, over),
            ..Chart::default()
        }
    }
}

/// One line per transport, in order of appearance, with rings around points that missed their rate.
fn lines(group: &[&PlottedValue], places: &[u64], over: Over, names: &[&str]) -> Vec<Line> {
    let plain =
        |figure: &PlottedValue| (figure.folder, figure.transport.clone(), figure.factors.clone(), String::new());
    let by_name = |figure: &PlottedValue| (figure.folder, String::new(), String::new(), figure.sub_experiment.clone());
    let is_twice = |(index, one): (usize, &&PlottedValue)| {
        group[..index].iter().any(|other| plain(other) == plain(one) && other.x(over) == one.x(over))
    };
    // If a transport has two figures at one place, its sub-experiments are distinguished.
    let told_apart = group.iter().enumerate().any(is_twice);
    let key = |figure: &PlottedValue| if told_apart { by_name(figure) } else { plain(figure) };
    let with_factors = common_factors(group).is_none();
    let mut lines: Vec<(LineKey, Line)> = Vec::new();
    let mut missed = Vec::new();
    for figure in group {
        let Some(x) = places.iter().position(|place| *place == figure.x(over)).map(|index| index as f64) else {
            continue;
        };
        let Some(figures) = figure_over_rounds(&figure.values, figure.errors) else { continue };
        let index = lines.iter().position(|(known, _)| *known == key(figure)).unwrap_or_else(|| {
            let mut name = if told_apart { figure.sub_experiment.clone() } else { figure.transport.clone() };
            if with_factors {
                name += &format!(", {}", figure.factors);
            }
            if names.len() > 1 {
                name += &format!(" · {}", names[figure.folder]);
            }
            let points = (0..places.len()).map(|index| (index as f64, f64::NAN)).collect();
            lines.push((key(figure), Line { name, points, ..Line::default() }));
            lines.len() - 1
        });
        let line = &mut lines[index].1;
        line.points[x as usize].1 = figures.median;
        line.intervals.extend(figures.interval.map(|interval| (x, interval.low, interval.high)));
        if figure.rate_missed {
            missed.push((x, figures.median));
        }
    }
    let (keys, mut lines): (Vec<LineKey>, Vec<Line>) = lines.into_iter().unzip();
    let kinds: Vec<_> =
        keys.iter().map(|(folder, transport, factors, sub)| ((transport, factors, sub), *folder)).collect();
    for (line, look) in lines.iter_mut().zip(Look::by_kind(&kinds).into_iter().flatten()) {
        line.look = look;
    }
    lines.extend(Line::missed_rates(missed));
    lines
}

/// Key of a line: index of its results, transport, factors and sub-experiment.
type LineKey = (usize, String, String, String);

/// Wait and touch, if all figures have the same.
fn common_factors<'a>(group: &[&'a PlottedValue]) -> Option<&'a str> {
    let first = group.first()?;
    group.iter().all(|figure| figure.factors == first.factors).then_some(&first.factors)
}

fn rounds(group: &[&PlottedValue]) -> &'static str {
    let has_several = group.iter().any(|figure| figure.values.len() > 1);
    let has_interval = group
        .iter()
        .any(|figure| figure_over_rounds(&figure.values, figure.errors).is_some_and(|over| over.interval.is_some()));
    match (has_several, has_interval) {
        (false, _) => "",
        (true, false) => "medians over rounds",
        (true, true) => "medians over rounds, bars: intervals at 95 %",
    }
}

/// Notes on single figures.
fn notes(group: &[&PlottedValue], over: Over) -> Vec<String> {
    let listed = |is_one: fn(&PlottedValue) -> bool| {
        let mut names: Vec<String> = group
            .iter()
            .filter(|figure| is_one(figure))
            .map(|figure| format!("{} at {}", figure.transport, figure.x(over)))
            .collect();
        names.dedup();
        names.join(", ")
    };
    let missed = listed(|figure| figure.rate_missed);
    let failed = listed(|figure| figure.proof_failed);
    let note = |names: String, text: &str| (!names.is_empty()).then(|| format!("{text}: {names}."));
    [
        note(missed, "The rate was missed, so these figures are for another rate"),
        note(failed, "The path proof failed, so these figures are not those of the transport"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests;
