//! The table of eCAL's page on performance: payloads in kB against sub-experiments, in µs.

use crate::interval::TOO_SMALL;
use crate::merged::{Merged, MergedCell, mean};
use crate::notes;
use crate::number::kilobytes;
use comfy_table::{CellAlignment, LineStyle, Table, presets};
use std::collections::BTreeSet;
use std::ops::Add;
use tripmeter_model::Pattern;
use tripmeter_model::manifest::{Counts, Environment, Figures, Manifest};
use tripmeter_model::payload::display_size;
use tripmeter_model::plan::SubExperiment;
use tripmeter_stats::rounds::figure_over_rounds;

/// A sub-experiment, and the number of its experiment if there are several.
struct Column<'a> {
    sub: Merged<'a>,
    mark: String,
}

/// eCAL's table, one column for each sub-experiment of all experiments given, which have a name each; then the message
/// frequency and throughput of each row, and whether every message came.
///
/// # Source
/// eCAL, `doc/rst/advanced/performance.rst`, and the sample `latency_rec_cb`, which prints frequency and throughput of
/// messages that follow each other without a pause: the inverse of the mean latency.
pub fn ecal(experiments: &[(&str, &Manifest)]) -> String {
    let several = experiments.len() > 1;
    let mark = |index: usize| if several { format!("[{}]", index + 1) } else { String::new() };
    let all = experiments.iter().enumerate().flat_map(|(index, (_, manifest))| {
        let subs = Merged::of(manifest).into_iter().filter(|sub| !sub.planned.added_as_floor);
        subs.map(move |sub| Column { sub, mark: mark(index) })
    });
    let (columns, one_way): (Vec<Column>, Vec<Column>) =
        all.partition(|column| column.sub.planned.measured_as() == Pattern::PingPong);
    let mut text: Vec<String> = platforms(experiments, mark);
    text.extend(match columns.is_empty() {
        true => vec!["Nothing of this table was to be measured.\n".to_owned()],
        false => tables(&columns),
    });
    let mut lines: Vec<String> = columns.iter().flat_map(remarks).collect();
    lines.extend(one_way.iter().map(|column| {
        let (name, pattern) = (&column.sub.planned.name, column.sub.planned.pattern);
        column.marked(&format!("{name}: pattern {pattern}, left out here; it is in the table `all`"))
    }));
    if !lines.is_empty() {
        text.push(lines.join("\n") + "\n");
    }
    if several {
        text.push(experiments.iter().enumerate().map(|(i, (name, _))| format!("{} {name}\n", mark(i))).collect());
    }
    if !columns.is_empty() {
        text.push(LEGEND.to_owned());
    }
    text.join("\n")
}

/// Latencies and rates of both kinds, and the count of messages.
fn tables(columns: &[Column<'_>]) -> Vec<String> {
    let payloads: BTreeSet<u64> =
        columns.iter().flat_map(|column| column.sub.planned.payloads.iter().copied()).collect();
    let mut text = Vec::new();
    for kind in [Kind::OneWay, Kind::RttHalf] {
        if kind == Kind::OneWay && !columns.iter().any(|column| column.sub.planned.one_way) {
            continue;
        }
        text.push(table(&format!("{}: mean [µs]", kind.heading()), columns, &payloads, |cell| kind.mean_text(cell)));
        let rate = |cell: &MergedCell| kind.mean_ns(cell).map(|ns| rate_of(cell.payload_bytes, ns));
        let heading = format!("{}: message frequency [1/s] and throughput [MB/s]", kind.word());
        text.push(table(&heading, columns, &payloads, rate));
    }
    text.push(columns.iter().map(|column| column.marked(&drops(&column.sub)) + "\n").collect());
    text
}

impl Column<'_> {
    /// A line about it.
    fn marked(&self, line: &str) -> String {
        if self.mark.is_empty() { line.to_owned() } else { format!("{} {line}", self.mark) }
    }

    fn heading(&self) -> String {
        let (title, touch) = (title(self.sub.planned), self.sub.planned.touch);
        let mark = if self.mark.is_empty() { String::new() } else { format!("\n{}", self.mark) };
        format!("{title}\ntouch {touch}{mark}")
    }
}

/// Its title; without one the transport as it is written, and not in capitals as iceperf has it.
fn title(sub: &SubExperiment) -> String {
    let written = sub.transport.to_string();
    if sub.title == written.to_uppercase() { written } else { sub.title.clone() }
}

const LEGEND: &str = "\
one_way: from sending until the follower has the message (with wait callback: in its callback), two readings of one
clock; what the published table shows. rtt_half: half of a round trip.
Frequency: 1 / mean, as eCAL's receiver computes it; throughput: payload times frequency.
Of several rounds the mean of their means; below it the interval of their median at 95 %, from 6 rounds on.
kB = 1024 bytes, MB = 1024 kB. touch: none = only our 16-byte header is written and read, full = every byte, verified.
";

/// What a latency is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    OneWay,
    RttHalf,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::OneWay => "one_way",
            Kind::RttHalf => "rtt_half",
        }
    }

    fn heading(self) -> &'static str {
        match self {
            Kind::OneWay => "one_way, as published",
            Kind::RttHalf => "rtt_half, half of a round trip",
        }
    }

    /// Of each round.
    fn means(self, cell: &MergedCell) -> Vec<f64> {
        let figure: fn(&Figures) -> f64 = |figures| figures.mean;
        match self {
            Kind::OneWay => cell.one_way(figure),
            Kind::RttHalf => cell.rtt_half(figure),
        }
    }

    fn mean_ns(self, cell: &MergedCell) -> Option<f64> {
        mean(&self.means(cell))
    }

    /// The mean, and of several rounds the interval of their median below it.
    fn mean_text(self, cell: &MergedCell) -> Option<String> {
        let (micros, means) = (|ns: f64| format!("{:.1}", ns / 1000.0), self.means(cell));
        let text = mean(&means).map(micros)?;
        if means.len() < 2 {
            return Some(text);
        }
        let interval =
            figure_over_rounds(&means)?.interval.map(|[low, high]| format!("{}..{}", micros(low), micros(high)));
        Some(format!("{text}\n{}", interval.unwrap_or_else(|| TOO_SMALL.to_owned())))
    }
}

fn rate_of(payload_bytes: u64, mean_ns: f64) -> String {
    let per_s = 1e9 / mean_ns;
    format!("{per_s:.0} / {:.1}", per_s * payload_bytes as f64 / f64::from(1 << 20))
}

/// The machine of each experiment, once for all that were made on the same.
fn platforms(experiments: &[(&str, &Manifest)], mark: impl Fn(usize) -> String) -> Vec<String> {
    let mut blocks: Vec<(String, Vec<String>)> = Vec::new();
    for (index, (_, manifest)) in experiments.iter().enumerate() {
        let block = platform(&manifest.environment);
        match blocks.iter_mut().find(|(other, _)| *other == block) {
            Some((_, marks)) => marks.push(mark(index)),
            None => blocks.push((block, vec![mark(index)])),
        }
    }
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

/// One row for each payload, one column for each sub-experiment.
fn table(
    heading: &str,
    columns: &[Column<'_>],
    payloads: &BTreeSet<u64>,
    value: impl Fn(&MergedCell) -> Option<String>,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING.header_separator(LineStyle::none().fill('-').junction('-')));
    let names = columns.iter().map(Column::heading);
    table.set_header(["Payload Size\n[kB]".to_owned()].into_iter().chain(names));
    for payload in payloads {
        let cells = columns.iter().map(|column| value(&column.sub.payload(*payload)).unwrap_or_else(|| "-".to_owned()));
        table.add_row([kilobytes(*payload)].into_iter().chain(cells));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
        column.set_cell_alignment(CellAlignment::Right);
    }
    let lines: String = table.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
    format!("{heading}\n\n{lines}")
}

/// Whether every message came, by count; what came late or damaged is no drop, and is told apart.
fn drops(sub: &Merged<'_>) -> String {
    let counts: Counts = sub.payloads().iter().map(|cell| cell.counts()).fold(Counts::default(), Add::add);
    let word = match counts.lost {
        0 => "zero drops".to_owned(),
        drops => format!("{drops} DROPS"),
    };
    let mut line = format!("{word}, {} of {} messages answered in time", counts.received, counts.sent);
    for (count, what) in [(counts.late, "late"), (counts.damaged, "damaged")] {
        if count > 0 {
            line += &format!(", {count} {what}");
        }
    }
    let SubExperiment { transport, wait, touch, .. } = sub.planned;
    let (title, proven) = (title(sub.planned), notes::proof(sub));
    format!("{title} ({transport}, wait {wait}, touch {touch}, path proof {proven}): {line}")
}

/// What must be said of a column besides.
fn remarks(column: &Column<'_>) -> Vec<String> {
    let sub = &column.sub;
    let mut lines: Vec<String> = notes::failed_proof(sub).into_iter().collect();
    if sub.planned.is_fan_out() {
        let (name, followers) = (&sub.planned.name, sub.planned.followers);
        lines.push(format!(
            "{name}: every message went to {followers} followers; rtt_half is until the last answer, and one_way to each \
             is in the table `all`"
        ));
    }
    lines.extend(notes::unfinished(sub));
    let cells = sub.payloads();
    let short = cells.iter().filter(|cell| cell.samples() < cell.samples_planned());
    lines.extend(short.map(|cell| {
        let (done, planned) = (cell.samples(), cell.samples_planned());
        let reasons = cell.shortfalls().join("; ");
        format!("{} at {}: {done} of {planned} samples ({reasons})", sub.planned.name, display_size(cell.payload_bytes))
    }));
    let with_mishaps = cells.iter().filter(|cell| !notes::mishaps(&cell.counts()).is_empty());
    lines.extend(with_mishaps.map(|cell| notes::mishap_line(sub, cell)));
    lines.iter().map(|line| column.marked(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, add, result};

    #[test]
    fn columns_of_several_experiments_stand_side_by_side() {
        let (mut first, mut second) = (fixture::manifest(), fixture::manifest());
        let sub = add(&mut first, "shm", "ecal/shm", &[1024, 2 << 20]);
        (sub.title, sub.one_way) = ("eCAL SHM".to_owned(), true);
        add(&mut first, "floor", "shm/ring", &[1024]).added_as_floor = true;
        add(&mut second, "iceoryx", "iceoryx/cpp", &[1024]).title = "Iceoryx SHM".to_owned();
        let cells = &mut result(&mut first, "shm", 1, &[(1024, 4000.0), (2 << 20, 400_000.0)]).cells;
        for cell in cells.iter_mut() {
            cell.one_way_ns = cell.rtt_half_ns.map(|figures| figures.scaled(0.5));
        }
        cells[1].counts.received -= 3;
        cells[1].counts.lost += 1;
        cells[1].counts.late += 2;
        result(&mut second, "iceoryx", 1, &[(1024, 500.0)]);
        let text = ecal(&[("results/monday", &first), ("results/tuesday", &second)]);
        let rows = |start: &str| -> Vec<String> {
            let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            text.lines().filter(|line| line.trim_start().starts_with(start)).map(words).collect()
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
        let text = ecal(&[("a", &first), ("b", &second), ("c", &first)]);
        assert!(text.contains("Platform of [1], [3]\n") && text.contains("Platform of [2]\n"), "{text}");
        assert!(ecal(&[("a", &first)]).starts_with("Platform\n"));
    }

    #[test]
    fn what_nobody_answers_is_left_out() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "load", "ecal/shm", &[1024]).pattern = Pattern::Throughput;
        result(&mut manifest, "load", 1, &[(1024, 1.0)]);
        let text = ecal(&[("a", &manifest)]);
        assert!(text.contains("load: pattern throughput, left out here") && !text.contains("drops"), "{text}");
        add(&mut manifest, "shm", "ecal/shm", &[1024]).title = "ECAL/SHM".to_owned();
        result(&mut manifest, "shm", 1, &[(1024, 1.0)]);
        let text = ecal(&[("a", &manifest)]);
        assert!(!text.contains("ECAL/SHM"), "{text}");
        assert_eq!(text.matches("zero drops").count(), 1, "{text}");
    }
}
