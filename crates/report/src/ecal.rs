//! The table of eCAL's page on performance: payloads in kB against sub-experiments, in µs.

use crate::document::{Block, Cell, Column, Digits, Document, Note, PairFormat, Severity, Table};
use crate::merged::{Merged, incomplete};
use crate::notes;
use std::collections::BTreeSet;
use strum::Display;
use tripmeter_analysis::{MetricTable, Rounds};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::group::by_key;
use tripmeter_model::manifest::{Environment, Manifest};
use tripmeter_model::metric::Stream;
use tripmeter_model::payload::display_size;
use tripmeter_model::plan::{Plan, SubExperiment};

/// Column of the table: a sub-experiment, marked with the number of its experiment if there are several.
struct EcalSubExperiment<'a> {
    sub: Merged<'a>,
    plan: &'a Plan,
    /// Index in the plan.
    index: u32,
    metrics: &'a MetricTable,
    mark: String,
}

/// eCAL's table with one column per sub-experiment of all named experiments. Then message frequency and throughput per row,
/// and whether all messages arrived.
///
/// # Source
/// eCAL, `doc/rst/advanced/performance.rst`, and the sample `latency_rec_cb`. Its frequency and throughput are of messages
/// without a pause between them: the inverse of the mean latency.
pub fn ecal(experiments: &[(&str, &Manifest)]) -> Document {
    let several = experiments.len() > 1;
    let mark = |index: usize| if several { format!("[{}]", index + 1) } else { String::new() };
    let metrics: Vec<MetricTable> =
        experiments.iter().map(|(_, manifest)| MetricTable::from_manifest(manifest)).collect();
    let all = experiments.iter().zip(&metrics).enumerate().flat_map(|(place, ((_, manifest), metrics))| {
        let subs = (0..)
            .zip(Merged::from_manifest(manifest))
            .filter(|(_, sub)| !sub.planned.added_as_floor && !sub.planned.is_disturbed());
        subs.map(move |(index, sub)| EcalSubExperiment { sub, plan: &manifest.plan, index, metrics, mark: mark(place) })
    });
    let (columns, others): (Vec<EcalSubExperiment>, Vec<EcalSubExperiment>) =
        all.partition(|column| notes::left_out_of_trips(column.sub.planned).is_none());
    let mut blocks: Vec<Block> = platforms(experiments, mark).into_iter().map(Block::Lines).collect();
    if columns.is_empty() {
        blocks.push(Block::Text("The plan had nothing for this table.".to_owned()));
    } else {
        blocks.extend(tables(&columns).into_iter().map(Block::Table));
        blocks.push(Block::Notes(columns.iter().map(drops).collect()));
    }
    let mut notes: Vec<Note> = columns.iter().flat_map(remarks).collect();
    notes.extend(others.iter().filter_map(|column| {
        Some(column.note(Severity::Info, notes::LEFT_OUT, &notes::left_out_of_trips(column.sub.planned)?))
    }));
    blocks.extend(Block::notes(notes));
    if several {
        let named = experiments.iter().enumerate().map(|(index, (name, _))| format!("{} {name}\n", mark(index)));
        blocks.push(Block::Lines(named.collect()));
    }
    if !columns.is_empty() {
        blocks.push(Block::Text(LEGEND.to_owned()));
    }
    Document { blocks }
}

/// Tables of latencies and rates, for both kinds of latency.
fn tables(columns: &[EcalSubExperiment<'_>]) -> Vec<Table> {
    let payloads: BTreeSet<u64> =
        columns.iter().flat_map(|column| column.sub.planned.payloads.iter().copied()).collect();
    let state = incomplete(columns.iter().map(|column| &column.sub));
    let state = state.map_or(String::new(), |state| format!(", {state}"));
    let mut tables = Vec::new();
    for kind in [EcalLatency::OneWay, EcalLatency::RttHalf] {
        if kind == EcalLatency::OneWay && !columns.iter().any(|column| column.sub.planned.one_way) {
            continue;
        }
        let mean = |column: &EcalSubExperiment<'_>, payload| Cell::mean_over(column.means(kind, payload));
        let means = Column { divisor: 1e3, ..Column::numbers("mean_ns", "", "", Digits::Fixed(1), "") };
        tables.push(table(format!("{}: mean [µs]{state}", kind.heading()), &means, columns, &payloads, mean));
        let rate = |column: &EcalSubExperiment<'_>, payload| match mean(column, payload) {
            Cell::Number { value, .. } => {
                let hz = 1e9 / value;
                Cell::Pair(Box::new([hz, hz * payload as f64].map(Cell::number)))
            }
            missing => missing,
        };
        let title = format!("{kind}: message frequency [1/s] and throughput [MB/s]{state}");
        let megabytes = Some((f64::from(1 << 20), Digits::Fixed(1)));
        let rates = Column {
            pair: PairFormat { joint: "/", second: megabytes },
            ..Column::numbers("hz_and_bytes_per_s", "", "", Digits::Integer, "")
        };
        tables.push(table(title, &rates, columns, &payloads, rate));
    }
    tables
}

/// Table with a row for each payload and a column like `column` for each sub-experiment.
fn table(
    title: String,
    column: &Column,
    measured: &[EcalSubExperiment<'_>],
    payloads: &BTreeSet<u64>,
    cell: impl Fn(&EcalSubExperiment<'_>, u64) -> Cell,
) -> Table {
    let payload = Column::numbers("payload_bytes", "Payload Size", "kB", Digits::WholeOr(3), "");
    let of_sub = |one: &EcalSubExperiment<'_>| Column {
        id: format!("{}{}_{}", one.mark, one.sub.planned.name, column.id),
        title: one.heading(),
        ..column.clone()
    };
    let columns = std::iter::once(Column { divisor: 1024.0, ..payload }).chain(measured.iter().map(of_sub));
    let rows = payloads.iter().map(|&payload| {
        let cells = measured.iter().map(|one| cell(one, payload));
        (None, std::iter::once(Cell::number(payload as f64)).chain(cells).collect())
    });
    Table::new(title, columns.collect(), rows.collect())
}

impl<'a> EcalSubExperiment<'a> {
    fn note(&self, severity: Severity, kind: &'static str, text: &str) -> Note {
        let text = if self.mark.is_empty() { text.to_owned() } else { format!("{} {text}", self.mark) };
        Note { severity, kind, anchor: None, text }
    }

    fn heading(&self) -> String {
        let (title, touch) = (title(self.sub.planned), self.sub.planned.touch);
        let mark = if self.mark.is_empty() { String::new() } else { format!("\n{}", self.mark) };
        format!("{title}\ntouch {touch}{mark}")
    }

    fn get(&self, payload_bytes: u64, figure: Figure, statistic: Statistic) -> Option<Rounds<'a>> {
        self.metrics.get(self.metrics.only_row(self.index, payload_bytes)?, &Stream::all(), figure, statistic)
    }

    /// Mean of each round.
    fn means(&self, kind: EcalLatency, payload_bytes: u64) -> Option<Rounds<'a>> {
        self.get(payload_bytes, kind.figure(), Statistic::Mean)
    }

    fn count(&self, figure: Figure) -> u64 {
        let of_payload =
            |payload: &u64| self.get(*payload, figure, Statistic::Value).map_or(0.0, |count| count.folded());
        self.sub.planned.payloads.iter().map(of_payload).sum::<f64>() as u64
    }
}

/// Title of a sub-experiment; the transport as written if its title is only that in iceperf's capitals.
fn title(sub: &SubExperiment) -> String {
    let written = sub.transport.to_string();
    if sub.title == written.to_uppercase() { written } else { sub.title.clone() }
}

const LEGEND: &str = "\
one_way: from sending until the follower has the message (with wait callback: in its callback), two readings of one
clock, as in the published table. rtt_half: half of a round trip.
Frequency: 1 / mean, as eCAL's receiver computes it; throughput: payload times frequency.
For several rounds, the mean of their means; below it, from 6 rounds on, the 95 % interval of their median.
kB = 1024 bytes, MB = 1024 kB. touch: none = only our 16-byte header is written and read, full = every byte, verified.
";

/// Way that a latency covers.
#[derive(Clone, Copy, PartialEq, Eq, Display)]
#[strum(serialize_all = "snake_case")]
enum EcalLatency {
    OneWay,
    RttHalf,
}

impl EcalLatency {
    fn heading(self) -> &'static str {
        match self {
            EcalLatency::OneWay => "one_way, as published",
            EcalLatency::RttHalf => "rtt_half, half of a round trip",
        }
    }

    fn figure(self) -> Figure {
        match self {
            EcalLatency::OneWay => Figure::OneWay,
            EcalLatency::RttHalf => Figure::RttHalf,
        }
    }
}

/// Machine of each experiment; experiments on the same machine share an entry.
fn platforms(experiments: &[(&str, &Manifest)], mark: impl Fn(usize) -> String) -> Vec<String> {
    let blocks = by_key((0..).zip(experiments).map(|(index, one)| (platform(&one.1.environment), mark(index))));
    let of = |marks: &[String]| if experiments.len() > 1 { format!(" of {}", marks.join(", ")) } else { String::new() };
    blocks.iter().map(|(block, marks)| format!("Platform{}\n{block}", of(marks))).collect()
}

fn platform(environment: &Environment) -> String {
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "not visible here".to_owned());
    let memory_gb = environment.memory_bytes as f64 / f64::from(1 << 30);
    let virtual_machine = if environment.virtual_machine { ", virtual machine" } else { "" };
    format!(
        "  System Manufacturer:    {}\n  System Model:           {}{virtual_machine}\n  \
         Processor:              {}, {} used\n  Total Physical Memory:  {memory_gb:.1} GB\n  \
         Operating System:       {}\n",
        or_unknown(&environment.manufacturer),
        or_unknown(&environment.model),
        environment.cpu_model,
        environment.cpus.len(),
        environment.kernel
    )
}

/// Note on dropped messages; late and damaged ones are no drops and are counted apart.
fn drops(column: &EcalSubExperiment<'_>) -> Note {
    let lost = column.count(Figure::Lost);
    let (severity, word) = match lost {
        0 => (Severity::Info, "zero drops".to_owned()),
        drops => (Severity::Warning, format!("{drops} DROPS")),
    };
    let (received, sent) = (column.count(Figure::Received), column.count(Figure::Sent));
    let mut line = format!("{word}, {received} of {sent} messages answered in time");
    for (figure, what) in [(Figure::Late, "late"), (Figure::Damaged, "damaged")] {
        let count = column.count(figure);
        if count > 0 {
            line += &format!(", {count} {what}");
        }
    }
    let SubExperiment { transport, wait, touch, .. } = column.sub.planned;
    let (title, proven) = (title(column.sub.planned), notes::proof(&column.sub));
    let text = format!("{title} ({transport}, wait {wait}, touch {touch}, path proof {proven}): {line}");
    column.note(severity, "drops", &text)
}

/// Further notes on a column.
fn remarks(column: &EcalSubExperiment<'_>) -> Vec<Note> {
    let sub = &column.sub;
    let (name, followers, cells) = (&sub.planned.name, sub.planned.workload.followers(), sub.payloads());
    let to_all = format!(
        "{name}: every message went to {followers} followers; rtt_half lasts until the last answer, and the table \
         `all` has one_way to each"
    );
    let short = cells.iter().filter(|cell| cell.samples() < cell.samples_planned());
    let short = short.map(|cell| {
        let (done, planned) = (cell.samples(), cell.samples_planned());
        let reasons = cell.shortfalls().join("; ");
        format!("{name} at {}: {done} of {planned} samples ({reasons})", display_size(cell.payload_bytes))
    });
    let shared = column.plan.shared_cpus(sub.planned).map(|why| format!("{name}: {why}"));
    let kinds: [(Severity, &'static str, Vec<String>); 6] = [
        (Severity::Error, "failed or not run", notes::failed_proof(sub).into_iter().collect()),
        (Severity::Info, "several followers", if sub.planned.workload.is_fan_out() { vec![to_all] } else { vec![] }),
        (Severity::Error, "failed or not run", notes::unfinished(sub)),
        (Severity::Warning, "shared CPUs", shared.into_iter().collect()),
        (Severity::Warning, "fewer samples than planned", short.collect()),
        (
            Severity::Warning,
            "lost or out of order",
            cells.iter().filter_map(|cell| notes::mishap_line(sub, cell)).collect(),
        ),
    ];
    let note = |severity, kind| move |text: String| column.note(severity, kind, &text);
    kinds.into_iter().flat_map(|(severity, kind, lines)| lines.into_iter().map(note(severity, kind))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, add, result};
    use crate::render::{Text, json};
    use serde_json::json;
    use tripmeter_model::Pattern;
    use tripmeter_model::pace::OfferedLoad;
    use tripmeter_model::workload::Workload;

    fn written(experiments: &[(&str, &Manifest)]) -> String {
        Text { has_intervals: true, is_unwrapped: true, ..Text::default() }.render(&ecal(experiments))
    }

    #[test]
    fn an_unfinished_run_counts_the_rounds_that_are_there() {
        let mut manifest = fixture::manifest();
        manifest.plan.rounds = 3;
        add(&mut manifest, "mq", "mq/queue", &[1024, 2048]);
        result(&mut manifest, "mq", 1, &[(1024, 1000.0), (2048, 1000.0)]);
        result(&mut manifest, "mq", 2, &[(1024, 1000.0)]);
        let text = written(&[("", &manifest)]);
        assert!(text.contains("mean [µs], INCOMPLETE, 1 to 2 rounds (3 planned)\n"), "{text}");
        result(&mut manifest, "mq", 3, &[(1024, 1000.0)]);
        assert!(!written(&[("", &manifest)]).contains("INCOMPLETE"));
    }

    #[test]
    fn columns_of_several_experiments_stand_side_by_side() {
        let (mut first, mut second) = (fixture::manifest(), fixture::manifest());
        let sub = add(&mut first, "shm", "ecal/shm", &[1024, 2 << 20]);
        (sub.title, sub.one_way) = ("eCAL SHM".to_owned(), true);
        add(&mut first, "floor", "shm/ring", &[1024]).added_as_floor = true;
        add(&mut second, "iceoryx", "iceoryx/cpp", &[1024]).title = "Iceoryx SHM".to_owned();
        let cells = &mut result(&mut first, "shm", 1, &[(1024, 4000.0), (2 << 20, 400_000.0)]).cells;
        for (cell, one_way) in cells.iter_mut().zip([2000.0, 200_000.0]) {
            fixture::put_times(&mut cell.trials[0], &Stream::all(), Figure::OneWay, (10_000, one_way));
        }
        let figures = [(Figure::Received, 10_997.0), (Figure::Lost, 1.0), (Figure::Late, 2.0)];
        fixture::put(&mut cells[1].trials[0], &figures);
        result(&mut second, "iceoryx", 1, &[(1024, 500.0)]);
        let text = written(&[("results/monday", &first), ("results/tuesday", &second)]);
        let rows = |start: &str| -> Vec<String> {
            fixture::squeezed(&text).into_iter().filter(|line| line.starts_with(start)).collect()
        };
        assert_eq!(text.matches("Platform of [1], [2]\n").count(), 1, "{text}");
        assert_eq!(rows("[1] ")[..4], ["[1] [2]"; 4], "{text}");
        assert!(text.contains("\n[1] results/monday\n[2] results/tuesday\n"), "{text}");
        assert_eq!(
            rows("1 "),
            ["1 2.2 -", "1 454545 / 443.9 -", "1 4.4 0.6", "1 227273 / 221.9 1818182 / 1775.6"],
            "{text}"
        );
        assert_eq!(
            rows("2048 "),
            ["2048 220.0 -", "2048 4545 / 9090.9 -", "2048 440.0 -", "2048 2273 / 4545.5 -"],
            "{text}"
        );
        assert!(
            text.contains(
                "\n[1] eCAL SHM (ecal/shm, wait poll, touch none, path proof ok): 1 DROPS, 21997 of 22000 messages answered in time, 2 late\n"
            ),
            "{text}"
        );
        assert!(
            text.contains(
                "(iceoryx/cpp, wait poll, touch none, path proof ok): zero drops, 11000 of 11000 messages answered in time\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn each_machine_says_whose_it_is() {
        let (first, mut second) = (fixture::manifest(), fixture::manifest());
        second.environment.cpu_model = "another".to_owned();
        let text = written(&[("a", &first), ("b", &second), ("c", &first)]);
        assert!(text.contains("Platform of [1], [3]\n") && text.contains("Platform of [2]\n"), "{text}");
        assert!(written(&[("a", &first)]).starts_with("Platform\n"));
    }

    #[test]
    fn what_nobody_answers_is_left_out() {
        let mut manifest = fixture::manifest();
        let load = add(&mut manifest, "load", "ecal/shm", &[1024]);
        load.pattern = Pattern::Throughput;
        load.workload = Workload::saturating(vec![OfferedLoad::Max], None, Some(1_000_000_000));
        result(&mut manifest, "load", 1, &[(1024, 1.0)]);
        let text = written(&[("a", &manifest)]);
        assert!(text.contains("load: this table leaves out pattern throughput;") && !text.contains("drops"), "{text}");
        add(&mut manifest, "shm", "ecal/shm", &[1024]).title = "ECAL/SHM".to_owned();
        result(&mut manifest, "shm", 1, &[(1024, 1.0)]);
        let text = written(&[("a", &manifest)]);
        assert!(!text.contains("ECAL/SHM"), "{text}");
        assert_eq!(text.matches("zero drops").count(), 1, "{text}");
    }

    #[test]
    fn machines_get_means_in_nanoseconds_and_both_rates() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "shm", "ecal/shm", &[1024]);
        for (round, median) in [(1, 1000.0), (2, 3000.0)] {
            result(&mut manifest, "shm", round, &[(1024, median)]);
        }
        let value = json(&ecal(&[("a", &manifest)]));
        let row = |block: usize| value["blocks"][block]["table"]["rows"][0].clone();
        let mean = json!({ "value": 2200.0, "low": null, "high": null });
        assert_eq!(row(1), json!({ "payload_bytes": 1024.0, "shm_mean_ns": mean }));
        let hz = 1e9 / 2200.0;
        assert_eq!(row(2)["shm_hz_and_bytes_per_s"], json!([hz, hz * 1024.0]));
        assert_eq!(value["blocks"][3]["notes"][0]["kind"], "drops");
    }
}
