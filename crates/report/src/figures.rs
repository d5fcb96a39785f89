//! Every figure with its address, over all rounds, for use by programs.

use crate::document::{Block, Cell, Column, Digits, Document, Table};
use tripmeter_analysis::derived::{self, by_round, over_core_to_core};
use tripmeter_analysis::{MetricTable, Row};
use tripmeter_model::figure::{Figure, Statistic, Unit};
use tripmeter_model::manifest::Manifest;
use tripmeter_model::metric::Stream;
use tripmeter_stats::ErrorBounds;
use tripmeter_stats::proportion::Proportion;

/// One row per figure of each experiment: address, value over the rounds, and interval over the rounds or within the only
/// one. Values are in the figure's unit. A column `folder` names the experiments if there are several.
pub fn figures(experiments: &[(&str, &Manifest)]) -> Document {
    let tables: Vec<(&str, MetricTable)> =
        experiments.iter().map(|(name, manifest)| (*name, MetricTable::from_manifest(manifest))).collect();
    let has_several = tables.iter().any(|(_, metrics)| metrics.all_rows().any(|row| metrics.has_several_sizes(row)));
    let folder = (experiments.len() > 1).then(|| Column::words("folder", "folder", "").merged());
    let rows = tables.iter().flat_map(|(name, metrics)| {
        let name = folder.is_some().then(|| Cell::text(*name));
        rows(metrics).into_iter().map(move |(row, cells)| (row, name.iter().cloned().chain(cells).collect()))
    });
    let table = Table::new(String::new(), folder.iter().cloned().chain(columns(has_several)).collect(), rows.collect());
    Document { blocks: vec![Block::Table(table)] }
}

fn rows(metrics: &MetricTable) -> Vec<(Option<Row>, Vec<Cell>)> {
    let stored = metrics.select(|_| true).map(|rounds| {
        let (key, count) = (rounds.key, rounds.values.len());
        let unit = if key.statistic == Statistic::N { Unit::Count } else { key.figure.unit() };
        let what = [metrics.stream(key).to_string(), key.figure.id().to_owned(), key.statistic.id().to_owned()];
        FigureLine { row: key.row, what, unit, rounds: count, value: Cell::from_rounds(Some(rounds)) }
    });
    let mut lines: Vec<FigureLine> = stored.chain(metrics.all_rows().flat_map(|row| derived(metrics, row))).collect();
    // Derived figures follow stored ones.
    lines.sort_by_key(|line| line.row);
    lines.into_iter().map(|line| (Some(line.row), line.cells(metrics))).collect()
}

fn columns(has_several_sizes: bool) -> [Column; 9] {
    let sizes = if has_several_sizes { "where a row is of topics of several sizes, the largest" } else { "" };
    let number = |id, digits, help| Column::numbers(id, id, "", digits, help);
    [
        Column::words("sub_experiment", "sub-experiment", "").merged(),
        Column::words("payload_bytes", "payload", sizes).merged(),
        Column::words("offered_load", "load", "").merged(),
        Column::words("stream", "stream", ""),
        Column::words("figure", "figure", ""),
        Column::words("statistic", "statistic", ""),
        number("rounds", Digits::Integer, "rounds that have it"),
        number("value", Digits::Significant(6), "median over rounds, or their sum or maximum, depending on the figure"),
        Column::words("unit", "unit", ""),
    ]
}

struct FigureLine {
    row: Row,
    /// Stream, figure and statistic.
    what: [String; 3],
    unit: Unit,
    rounds: usize,
    value: Cell,
}

impl FigureLine {
    fn cells(self, metrics: &MetricTable) -> Vec<Cell> {
        let Self { row, what, unit, rounds, value } = self;
        let mut cells = vec![metrics.sub(row).to_owned(), row.payload_bytes.to_string(), metrics.load(row).to_string()];
        cells.extend(what);
        let mut cells: Vec<Cell> = cells.into_iter().map(Cell::Text).collect();
        let rounds = Cell::Number { value: rounds as f64, interval: None, mark: "" };
        cells.extend([rounds, value, Cell::text(unit.as_str())]);
        cells
    }
}

/// Latencies that are compared with the core-to-core latency, and the number of times that it is subtracted from each.
const HANDED_OVER: [(Figure, &str, f64); 6] = [
    (Figure::RttHalf, "rtt_half_over_core_to_core_ns", 1.0),
    (Figure::OneWay, "one_way_over_core_to_core_ns", 1.0),
    (Figure::Response, "response_over_core_to_core_ns", 1.0),
    (Figure::Service, "service_over_core_to_core_ns", 1.0),
    (Figure::ResponseRtt, "response_rtt_over_core_to_core_ns", 2.0),
    (Figure::ServiceRtt, "service_rtt_over_core_to_core_ns", 2.0),
];

/// Losses as a share of the messages sent, CPU time as a share of one CPU, and latencies less the core-to-core latency.
fn derived(metrics: &MetricTable, row: Row) -> Vec<FigureLine> {
    let value_of = |stream: &Stream, figure: Figure, rounds: usize, value: Cell| {
        let what = [stream.to_string(), figure.to_string(), Statistic::Value.id().to_owned()];
        FigureLine { row, what, unit: figure.unit(), rounds, value }
    };
    let all = Stream::all();
    let mut lines = Vec::new();
    for stream in derived::streams(metrics, row, Figure::LossShare) {
        let rounds = derived::loss(metrics, row, stream);
        lines.push(value_of(stream, Figure::LossShare, rounds.len(), loss(&rounds)));
    }
    // Losses are added over rounds, as counts are; the delivered share is the rest, so it is omitted.
    let others = Figure::ALL.iter().filter(|one| !matches!(one, Figure::LossShare | Figure::DeliveredShare));
    for figure in others.filter(|figure| figure.is_derived()) {
        for stream in derived::streams(metrics, row, *figure) {
            let rounds = by_round(metrics, row, stream, *figure);
            let values: Vec<f64> = rounds.into_iter().map(|(_, value)| value).collect();
            lines.push(value_of(stream, *figure, values.len(), Cell::over(&values, ErrorBounds::NONE)));
        }
    }
    lines.extend(HANDED_OVER.iter().filter_map(|(figure, name, ways)| {
        let over = over_core_to_core(metrics, row, &all, *figure, *ways);
        let what = [all.to_string(), (*name).to_owned(), Statistic::P50.id().to_owned()];
        let (unit, rounds) = (Unit::Ns, over.values.len());
        (rounds > 0).then(|| FigureLine { row, what, unit, rounds, value: Cell::of_each(&over, rounds as u32) })
    }));
    lines
}

/// Loss as a plain number, because the other values of the column are not shares.
fn loss(rounds: &[Proportion]) -> Cell {
    match Cell::lost(rounds) {
        Cell::Share { events, of, interval } => {
            Cell::Number { value: events as f64 / of.max(1) as f64, interval, mark: "" }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, add, put, result};
    use crate::render::csv;
    use tripmeter_model::manifest::{CoreToCoreProbe, Counts};

    fn printed(experiments: &[(&str, &Manifest)]) -> String {
        let document = figures(experiments);
        let [Block::Table(table)] = &document.blocks[..] else { panic!("{document:?}") };
        csv(table)
    }

    #[test]
    fn every_figure_is_a_row_with_its_rounds_and_shares_are_computed() {
        let mut manifest = fixture::manifest();
        manifest.plan.rounds = 6;
        add(&mut manifest, "udp", "udp/loopback", &[1024]);
        for (round, median) in (1..).zip([3000.0, 1000.0, 2000.0, 6000.0, 5000.0, 4000.0]) {
            let trial = &mut result(&mut manifest, "udp", round, &[(1024, median)]).cells[0].trials[0];
            put(trial, &[(Figure::Sent, 100.0), (Figure::Lost, round.into())]);
            let cell = &mut manifest.sub_experiments.last_mut().unwrap().cells[0];
            cell.core_to_core_ns.before = Some(CoreToCoreProbe { samples: 2000, min_ns: 90.0, median_ns: 200.0 });
        }
        let text = printed(&[("", &manifest)]);
        for row in [
            "udp,1024,closed,all,rtt_half_ns,p50,6,3500,1000,6000,ns",
            "udp,1024,closed,all,sent,value,6,600,,,n",
            "udp,1024,closed,all,loss_share,value,6,0.035,0.01,0.06,share",
            "udp,1024,closed,all,rtt_half_over_core_to_core_ns,p50,6,3400,900,5900,ns",
        ] {
            assert!(text.lines().any(|line| line == row), "{row}\n{text}");
        }
    }

    #[test]
    fn totals_of_several_followers_have_no_share_but_each_follower_has() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "shm", "shm/ring", &[1024]).workload.topology.followers = 2;
        let trial = &mut result(&mut manifest, "shm", 1, &[(1024, 500.0)]).cells[0].trials[0];
        for (stream, lost) in [(Stream::all(), 16), (Stream::follower(0), 8), (Stream::follower(1), 8)] {
            trial.put_counts(&stream, &Counts { sent: 10, received: 2, lost, ..Counts::default() }, false);
        }
        let text = printed(&[("", &manifest)]);
        assert!(text.lines().any(|line| line.starts_with("shm,1024,closed,all,lost,value,1,16,")), "{text}");
        let shares: Vec<&str> = text.lines().filter(|line| line.contains("loss_share")).collect();
        let [first, second] = shares[..] else { panic!("{shares:?}") };
        assert!(first.starts_with("shm,1024,closed,follower=0,loss_share,value,1,0.8,"), "{first}");
        assert!(second.starts_with("shm,1024,closed,follower=1,loss_share,value,1,0.8,"), "{second}");
    }

    #[test]
    fn trials_that_ended_early_are_counted() {
        let mut manifest = fixture::manifest();
        manifest.plan.rounds = 2;
        add(&mut manifest, "udp", "udp/loopback", &[1024]);
        for round in [1, 2] {
            let trial = &mut result(&mut manifest, "udp", round, &[(1024, 1000.0)]).cells[0].trials[0];
            trial.cut_short = (round == 2).then(|| "time cap".into());
        }
        let text = printed(&[("", &manifest)]);
        assert!(text.lines().any(|line| line.starts_with("udp,1024,closed,all,cut_short,value,1,1,")), "{text}");
        assert!(!text.contains("rate_missed"), "{text}");
        let both = printed(&[("a", &manifest), ("b", &manifest)]);
        assert!(both.starts_with("folder,sub_experiment,"), "{both}");
        for folder in ["a", "b"] {
            assert!(both.contains(&format!("\n{folder},udp,1024,closed,all,sent,value,2,")), "{both}");
        }
    }
}
