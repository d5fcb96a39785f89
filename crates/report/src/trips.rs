//! The table of round trips, pattern `pingpong` with one follower, with their distance from the floor.

use crate::FLOOR;
use crate::fan_out;
use crate::interval::{self, TOO_SMALL};
use crate::lines::number;
use crate::merged::{Merged, MergedCell, largest};
use crate::notes::{self, proof};
use crate::number::{micros, ratio};
use comfy_table::{CellAlignment, LineStyle, Table, presets};
use tripmeter_model::Pattern;
use tripmeter_model::manifest::{Bounds, WithinRun};
use tripmeter_model::payload::display_size;
use tripmeter_model::plan::SubExperiment;
use tripmeter_stats::handover::one_way_ns;
use tripmeter_stats::losses::{Losses, sum};
use tripmeter_stats::median;
use tripmeter_stats::order::fewest_for_upper_bound;
use tripmeter_stats::rounds::ALPHA;

/// Names longer than this are broken before each setting.
const NAME_COLUMNS: usize = 20;

const HEADER: [&str; 12] = [
    "transport",
    "wait",
    "touch",
    "payload\n[bytes]",
    "n",
    "rtt_half\nmedian\n[µs]",
    "rtt_half\np99\n[µs]",
    "rtt_half\nmax\n[µs]",
    "rtt\nmedian\n[µs]",
    "from\nfloor\n[ratio]",
    "lost\n[n]",
    "path\nproof",
];

/// Stands before `from floor`, where there is a probe.
const OVER_HEADER: &str = "over\nhandover\n[µs]";

const OVER_LEGEND: &str = "\
over handover: rtt_half median less the time that one cache line takes from processor to processor, by the probes before
and after; ~: these were of different modes, or a processor was away.
";

/// Stands before the path proof, where there is any.
pub const DAMAGED_HEADER: &str = "damaged\n[n]";

pub const DAMAGED_LEGEND: &str = "\
damaged: messages that came, but were not what was sent; the exit code is 75 then (--allow-damage).
";

/// Stands before those, where it was measured.
const ONE_WAY_HEADER: &str = "one_way\nmedian\n[µs]";
const OPTIONAL_PLACE: usize = 9;

const ONE_WAY_LEGEND: &str = "\
one_way: from sending to the arrival at the follower, two readings of one clock.
";

const LEGEND: &str = "\
rtt_half: half of a round trip, what the published tables call latency; rtt: the whole of it. k = 1024 bytes.
wait: how both sides wait. touch: none = only our 16-byte header, header = the first cache line, full = every byte.
floor: shm at the same payload, wait and touch, compared by rtt_half median, round by round; - = not measured.
n: samples; lost: messages never answered, which are not among them.
";

const ROUNDS_LEGEND: &str = "\
below figures: the interval of the median over rounds, at 95 %; n too small = fewer than 6 rounds.
";

const WITHIN_LEGEND: &str = "\
below figures: their intervals at 95 % within this one run, by counting samples; runs differ by more (--rounds).
";

const LOSS_LEGEND: &str = "\
below lost: the interval of its share in per cent of those sent, at 95 %: from the least to the most of a round; of one
round, or without a loss, by Clopper and Pearson as if messages were lost one by one.
";

const TOO_SMALL_LEGEND: &str = "\
n too small: within this run, the quantile has no upper bound at 95 %.
";

/// One line of the table.
pub struct Row<'a> {
    pub sub: &'a Merged<'a>,
    pub cell: MergedCell<'a>,
}

/// True if a sub-experiment is of this table.
pub fn is_of(sub: &SubExperiment) -> bool {
    sub.measured_as() == Pattern::PingPong && !sub.is_fan_out()
}

/// Every line, by payload; in the order of the plan within one.
pub fn rows<'a>(subs: &'a [Merged<'a>]) -> Vec<Row<'a>> {
    let trips = subs.iter().filter(|sub| is_of(sub.planned));
    let mut rows: Vec<_> =
        trips.flat_map(|sub| sub.payloads().into_iter().map(move |cell| Row { sub, cell })).collect();
    rows.sort_by_key(|row| row.cell.payload_bytes);
    rows
}

impl Row<'_> {
    /// With its interval: over the rounds, or within the only one.
    fn figure(&self, values: &[f64], within: Option<Bounds>) -> String {
        interval::figure(values, self.sub.rounds, within, micros)
    }

    /// Intervals of `rtt_half` within the only round.
    fn within(&self) -> Option<WithinRun> {
        self.cell.cells.first().filter(|_| self.sub.rounds == 1)?.rtt_half_within_run_ns
    }

    fn has_within(&self) -> bool {
        self.within().is_some()
    }

    /// Of the only round, unless its samples are too few to bound it.
    fn p99(&self) -> String {
        let values = self.cell.rtt_half(|figures| figures.p99);
        let is_bound = self.cell.samples() >= fewest_for_upper_bound(0.99, ALPHA);
        if self.sub.rounds == 1 && !values.is_empty() && !is_bound {
            return TOO_SMALL.to_owned();
        }
        self.figure(&values, self.within().map(|within| within.p99))
    }

    fn has_loss_interval(&self) -> bool {
        self.has_within() || self.sub.rounds > 1 || self.cell.counts().lost > 0
    }

    fn over_handover(&self) -> Vec<f64> {
        self.cell.over_handover(|over| over.rtt_half)
    }

    fn over_column(&self) -> String {
        let shift = self.cell.cells.first().and_then(|cell| one_way_ns(&cell.handover_ns)).unwrap_or(0.0);
        let within = self.within().map(|within| within.median.map(|ns| ns - shift));
        self.cell.mark().to_owned() + &self.figure(&self.over_handover(), within)
    }

    fn one_way_column(&self) -> String {
        let within = self.cell.cells.first().and_then(|cell| cell.one_way_within_run_ns).map(|within| within.median);
        self.figure(&self.cell.one_way(|figures| figures.median), within)
    }

    fn one_way_median(&self) -> Option<f64> {
        median(&self.cell.one_way(|figures| figures.median))
    }
}

fn has_one_way(rows: &[Row<'_>]) -> bool {
    rows.iter().any(|row| row.one_way_median().is_some())
}

pub fn has_damage(rows: &[Row<'_>]) -> bool {
    rows.iter().any(|row| row.cell.counts().damaged > 0)
}

fn has_handover(rows: &[Row<'_>]) -> bool {
    rows.iter().any(|row| !row.over_handover().is_empty())
}

/// What the columns mean; intervals are also explained if another table has them, over rounds or within one.
pub fn legend(rows: &[Row<'_>], has_rounds: bool, has_within: bool) -> String {
    let parts = [
        (LEGEND, !rows.is_empty()),
        (ROUNDS_LEGEND, has_rounds || rows.iter().any(|row| row.sub.rounds > 1)),
        (WITHIN_LEGEND, has_within || rows.iter().any(Row::has_within)),
        (LOSS_LEGEND, rows.iter().any(Row::has_loss_interval)),
        (TOO_SMALL_LEGEND, rows.iter().any(|row| row.sub.rounds == 1 && row.p99().contains(TOO_SMALL))),
        (ONE_WAY_LEGEND, has_one_way(rows)),
    ];
    parts.into_iter().filter(|part| part.1).map(|part| part.0).collect()
}

/// What the excess over the hand-over means, if this table or another has it.
pub fn over_legend(rows: &[Row<'_>], has_over: bool) -> String {
    if has_over || has_handover(rows) { OVER_LEGEND.to_owned() } else { String::new() }
}

/// The table itself.
pub fn table(rows: &[Row<'_>], subs: &[Merged<'_>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING.header_separator(LineStyle::none().fill('-').junction('-')));
    let mut header = HEADER.to_vec();
    let one_way = has_one_way(rows);
    let over = has_handover(rows);
    let optional = [(ONE_WAY_HEADER, one_way), (OVER_HEADER, over)];
    let optional: Vec<&str> = optional.into_iter().filter(|column| column.1).map(|column| column.0).collect();
    header.splice(OPTIONAL_PLACE..OPTIONAL_PLACE, optional);
    let damaged = has_damage(rows);
    if damaged {
        header.insert(header.len() - 1, DAMAGED_HEADER);
    }
    let width = header.len();
    table.set_header(header);
    let grouped = rows.chunk_by(|a, b| a.cell.payload_bytes == b.cell.payload_bytes).any(|group| group.len() > 1);
    let mut last_payload = None;
    for row in rows {
        if grouped && last_payload.is_some_and(|last| last != row.cell.payload_bytes) {
            table.add_row(vec![""; width]);
        }
        last_payload = Some(row.cell.payload_bytes);
        let mut columns = columns(row, subs).to_vec();
        if over {
            columns.insert(OPTIONAL_PLACE, row.over_column());
        }
        if one_way {
            columns.insert(OPTIONAL_PLACE, row.one_way_column());
        }
        if damaged {
            columns.insert(columns.len() - 1, row.cell.counts().damaged.to_string());
        }
        table.add_row(columns);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index + 1 == width { 0 } else { 1 }));
        if (3..width - 1).contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn figure(ns: Option<f64>) -> String {
    ns.map_or("-".to_owned(), micros)
}

fn columns(row: &Row<'_>, subs: &[Merged<'_>]) -> [String; HEADER.len()] {
    let (sub, cell) = (row.sub, &row.cell);
    let within = row.within().map(|within| within.median);
    [
        label(sub, subs),
        sub.planned.wait.to_string(),
        sub.planned.touch.to_string(),
        display_size(cell.payload_bytes),
        format!("{}{}", cell.star(), cell.samples()),
        row.figure(&cell.rtt_half(|figures| figures.median), within),
        row.p99(),
        figure(largest(&cell.rtt_half(|figures| figures.max))),
        row.figure(&cell.rtt(|figures| figures.median), within.map(|within| within.map(|ns| 2.0 * ns))),
        distance(row, subs),
        lost_column(&cell.lost(), row.has_within() || sub.rounds > 1),
        proof(sub).to_owned(),
    ]
}

/// The losses of all rounds, with the interval of their share if any were lost, or if other figures have intervals.
pub fn lost_column(rounds: &[Losses], has_intervals: bool) -> String {
    let (lost, _) = sum(rounds);
    if lost > 0 || has_intervals { number(rounds) } else { lost.to_string() }
}

/// The transport, and below it what tells the row from others.
fn label(sub: &Merged<'_>, subs: &[Merged<'_>]) -> String {
    let mut text = sub.planned.transport.to_string();
    if text.chars().count() > NAME_COLUMNS {
        text = text.replace('?', "\n?").replace('&', "\n&");
    }
    let like = |other: &SubExperiment| {
        let is_like = other.measured_as() == sub.planned.measured_as() && same_factors(other, sub);
        other.transport == sub.planned.transport && is_like
    };
    if subs.iter().filter(|other| like(other.planned)).count() > 1 {
        text += &format!("\n({})", sub.planned.name);
    }
    if sub.same_process() {
        text += "\n(same process)";
    }
    text
}

fn same_factors(other: &SubExperiment, sub: &Merged<'_>) -> bool {
    (other.wait, other.touch) == (sub.planned.wait, sub.planned.touch)
}

/// The distance from the floor in each round that has both; `floor` for the floor itself, `-` where there is none.
fn distance(row: &Row<'_>, subs: &[Merged<'_>]) -> String {
    let Some(floor) = floor(row, subs) else { return "-".to_owned() };
    if floor.planned.name == row.sub.planned.name {
        return "floor".to_owned();
    }
    let bytes = row.cell.payload_bytes;
    let of_floor = floor.medians_by_round(bytes);
    let over =
        |(round, ns): (&u32, &f64)| of_floor.get(round).filter(|floor_ns| **floor_ns > 0.0).map(|floor| ns / floor);
    let ratios: Vec<f64> = row.sub.medians_by_round(bytes).iter().filter_map(over).collect();
    // If the errors of both are independent, the ratio of their ends holds at least as often as each.
    let ends = row.within().zip(Row { sub: floor, cell: floor.payload(bytes) }.within());
    let within = ends.map(|(ours, floors)| Bounds {
        low: ours.median.low.zip(floors.median.high).map(|(ours, floors)| ours / floors),
        high: ours.median.high.zip(floors.median.low).map(|(ours, floors)| ours / floors),
    });
    interval::figure(&ratios, row.sub.rounds, within, ratio)
}

/// The floor of a row; one with default settings is preferred, one whose path proof failed is none.
fn floor<'a>(row: &Row<'_>, subs: &'a [Merged<'a>]) -> Option<&'a Merged<'a>> {
    let fits = |sub: &&Merged<'_>| {
        sub.planned.transport.system == FLOOR
            && sub.planned.measured_as() == row.sub.planned.measured_as()
            && same_factors(sub.planned, row.sub)
            && !fan_out::is_of(sub.planned)
            && !sub.same_process()
            && notes::failed_proof(sub).is_none()
    };
    let has_median = |sub: &&Merged<'_>| !sub.medians_by_round(row.cell.payload_bytes).is_empty();
    subs.iter().filter(fits).filter(has_median).min_by_key(|sub| sub.planned.transport.given.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::all::PROOF_LEGEND;
    use crate::fixture::all;
    use crate::fixture::{self, add, result, rows_of};
    use tripmeter_model::manifest::{Handover, Handovers};
    use tripmeter_model::{Touch, Wait};

    #[test]
    fn a_complete_run_is_grouped_by_payload_and_compared_with_the_floor() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "uds_stream", "uds/stream", &[1024, 65536]);
        add(&mut manifest, "shm", "shm/chunks", &[1024, 65536]).added_as_floor = true;
        result(&mut manifest, "uds_stream", 1, &[(1024, 5000.0), (65536, 20_000.0)]);
        result(&mut manifest, "shm", 1, &[(1024, 200.0), (65536, 250.0)]);
        let expected = "\
All transports, pattern pingpong

transport   wait  touch  payload      n  rtt_half  rtt_half  rtt_half     rtt     from  lost  path
                         [bytes]           median       p99       max  median    floor   [n]  proof
                                             [µs]      [µs]      [µs]    [µs]  [ratio]
---------------------------------------------------------------------------------------------------
uds/stream  poll  none        1k  10000     5.000    10.000    50.000  10.000   x 25.0     0  ok
shm/chunks  poll  none        1k  10000     0.200     0.400     2.000   0.400    floor     0  ok

uds/stream  poll  none       64k  10000    20.000    40.000   200.000  40.000   x 80.0     0  ok
shm/chunks  poll  none       64k  10000     0.250     0.500     2.500   0.500    floor     0  ok

";
        assert_eq!(all(&manifest), expected.to_owned() + LEGEND + PROOF_LEGEND);
    }

    #[test]
    fn one_way_has_a_column_where_it_was_measured() {
        let mut manifest = fixture::manifest();
        for name in ["mq", "pipe"] {
            add(&mut manifest, name, &format!("{name}/one"), &[1024]).one_way = true;
        }
        let cell = &mut result(&mut manifest, "mq", 1, &[(1024, 1000.0)]).cells[0];
        cell.one_way_ns = cell.rtt_half_ns.map(|figures| figures.scaled(0.5));
        result(&mut manifest, "pipe", 1, &[(1024, 1000.0)]);
        let text = all(&manifest);
        assert_eq!(rows_of(&text, "mq"), ["mq/one poll none 1k 10000 1.000 2.000 10.000 2.000 0.500 - 0 ok"], "{text}");
        assert_eq!(rows_of(&text, "pipe"), ["pipe/one poll none 1k 10000 1.000 2.000 10.000 2.000 - - 0 ok"], "{text}");
        assert!(text.contains(ONE_WAY_LEGEND), "{text}");
    }

    #[test]
    fn the_hand_over_is_subtracted_and_its_change_is_marked() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "mq", "mq/queue", &[1024, 2048]);
        let probe = |min_ns: f64| Some(Handover { samples: 2000, min_ns, median_ns: min_ns + 20.0 });
        let cells = &mut result(&mut manifest, "mq", 1, &[(1024, 1000.0), (2048, 1000.0)]).cells;
        cells[0].handover_ns = Handovers { before: probe(60.0), after: probe(60.0) };
        let mut earlier = cells[1].clone();
        earlier.counts.lost = 3;
        cells[1].handover_ns = Handovers { before: probe(60.0), after: probe(200.0) };
        cells[1].earlier_attempts = vec![earlier.clone(), earlier];
        let text = all(&manifest);
        let rows = rows_of(&text, "mq/queue");
        assert_eq!(rows[0], "mq/queue poll none 1k 10000 1.000 2.000 10.000 2.000 0.960 - 0 ok", "{text}");
        assert_eq!(rows[1], "mq/queue poll none 2k 10000 1.000 2.000 10.000 2.000 ~0.925 - 0 ok", "{text}");
        let note = "~ mq at 2k: the hand-over changed from 0.080 to 0.220 µs (other cores, or siblings of one); measured \
                    again 2 times as the hand-over changed; the last attempt counts, the others, of which 6 lost are in \
                    the manifest\n";
        assert!(text.contains(note) && text.contains(OVER_LEGEND), "{text}");
    }

    #[test]
    fn the_floor_has_the_same_payload_wait_and_touch() {
        let mut manifest = fixture::manifest();
        for (name, system, wait, touch) in [
            ("mq_poll", "mq/queue", Wait::Poll, Touch::None),
            ("mq_full", "mq/queue", Wait::Poll, Touch::Full),
            ("shm_poll", "shm/chunks", Wait::Poll, Touch::None),
            ("shm_block", "shm/chunks", Wait::Block, Touch::Full),
        ] {
            let sub = add(&mut manifest, name, system, &[1024, 2048]);
            (sub.wait, sub.touch) = (wait, touch);
        }
        result(&mut manifest, "mq_poll", 1, &[(1024, 1000.0), (2048, 1000.0)]);
        result(&mut manifest, "mq_full", 1, &[(1024, 1000.0)]);
        result(&mut manifest, "shm_poll", 1, &[(1024, 500.0)]);
        result(&mut manifest, "shm_block", 1, &[(1024, 100.0)]);
        let text = all(&manifest);
        let distances = |transport| -> Vec<String> {
            rows_of(&text, transport)
                .iter()
                .map(|row| row.split(" 10.000 2.000 ").nth(1).unwrap_or(row).to_owned())
                .collect()
        };
        assert_eq!(distances("mq/queue"), ["x 2.0 0 ok", "- 0 ok", "- 0 ok"], "{text}");
        assert!(rows_of(&text, "shm").iter().all(|row| row.ends_with("floor 0 ok")), "{text}");
    }

    #[test]
    fn rounds_are_summed_up() {
        let mut manifest = fixture::manifest();
        manifest.plan.rounds = 3;
        add(&mut manifest, "uds_stream", "uds/stream", &[1024]);
        for (round, median) in [(1, 1000.0), (2, 9000.0), (3, 2000.0)] {
            result(&mut manifest, "uds_stream", round, &[(1024, median)]).cells[0].counts.lost = 2;
        }
        let text = all(&manifest);
        assert!(text.contains("; 3 rounds: median over rounds, max of all, n and lost are totals\n"), "{text}");
        let row = "uds/stream poll none 1k 30000 2.000 4.000 90.000 4.000 - 6 ok";
        assert_eq!(rows_of(&text, "uds/stream"), [row]);
        // Three figures, the losses, and the legend.
        assert_eq!(text.matches(TOO_SMALL).count(), 5, "{text}");
        for round in 4..=6 {
            result(&mut manifest, "uds_stream", round, &[(1024, 3000.0)]);
        }
        let text = all(&manifest);
        let below = text.lines().find(|line| line.trim_start().starts_with("1.000..9.000"));
        let expected = ["1.000..9.000", "2.000..18.000", "2.000..18.000", "0..0.018"];
        assert_eq!(below.unwrap().split_whitespace().collect::<Vec<_>>(), expected, "{text}");
        assert!(text.contains(ROUNDS_LEGEND) && text.contains(LOSS_LEGEND), "{text}");
    }

    #[test]
    fn a_quantile_without_a_bound_is_none() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "mq", "mq/queue", &[1024]);
        result(&mut manifest, "mq", 1, &[(1024, 1000.0)]).cells[0].samples = 298;
        let text = all(&manifest);
        assert_eq!(rows_of(&text, "mq"), ["mq/queue poll none 1k *298 1.000 n too small 10.000 2.000 - 0 ok"]);
        assert!(text.contains(TOO_SMALL_LEGEND), "{text}");
        manifest.sub_experiments[0].cells[0].samples = 299;
        assert!(!all(&manifest).contains(TOO_SMALL));
    }

    #[test]
    fn rows_are_told_apart() {
        let mut manifest = fixture::manifest();
        for name in ["first", "second"] {
            add(&mut manifest, name, "inmem/threads?capacity=16", &[1024]);
            result(&mut manifest, name, 1, &[(1024, 1000.0)]).same_process = true;
        }
        let text = all(&manifest);
        let labels: Vec<_> = text.lines().skip(6).take(8).map(|line| line.split("  ").next().unwrap()).collect();
        let each = |name| ["inmem/threads", "?capacity=16", name, "(same process)"];
        assert_eq!(labels, [each("(first)"), each("(second)")].concat(), "{text}");
    }

    #[test]
    fn a_cell_without_an_answer_has_dashes() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "udp", "udp/loopback", &[1024]);
        let sub = result(&mut manifest, "udp", 1, &[(1024, 1000.0)]);
        sub.path_proof = None;
        let cell = &mut sub.cells[0];
        (cell.samples, cell.counts.lost, cell.rtt_ns, cell.rtt_half_ns) = (0, 11_000, None, None);
        assert_eq!(rows_of(&all(&manifest), "udp"), ["udp/loopback poll none 1k *0 - - - - - 11000 -"]);
    }
}
