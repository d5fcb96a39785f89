//! Table of round trips, pattern `ping` with one follower, with the distance from the floor.

use super::columns::{self, TRIP_CHARS};
use super::description::TableOf;
use super::row::{TableRow, TimedLine};
use crate::document::{Cell, Column, Digits, Missing, Table};
use crate::floors::Floors;
use crate::labels::transports;
use crate::measured::MeasuredSide;
use tripmeter_analysis::Row;
use tripmeter_analysis::derived::ratio;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::Stream;
use tripmeter_model::plan::SubExperiment;

const HALF_HELP: &str = "half of a round trip, which published tables call latency";
const ONE_WAY_HELP: &str = "from sending to the arrival at the follower, a clock read at both ends";
const FLOOR_HELP: &str =
    "rtt_half median divided by that of shm at the same payload, wait and touch, round by round; -: not measured";
const LOST_HELP: &str = "messages never answered; they are not among the samples";

pub fn table(title: String, side: &MeasuredSide<'_>, rows: &[TableRow<'_>]) -> Table {
    let (floors, labels) = (Floors::from_subs(&side.subs, is_alike), transports(&side.subs));
    let has_median = |row| side.metrics.get(row, &Stream::all(), Figure::RttHalf, Statistic::P50).is_some();
    let lines = rows.iter().flat_map(|row| {
        let at = |sub| Row { sub, ..row.row };
        let floor = floors.find(&side.subs, row.sub.planned, |sub| has_median(at(sub))).map(at);
        let label = labels[row.row.sub as usize].clone();
        row.timed([(label, Some(Figure::RttHalf), Stream::all())], floor)
    });
    let lines: Vec<_> = lines.collect();
    let micros = |id, title, help| Column::numbers(id, title, "µs", Digits::Fixed(3), help);
    let transport = Column::words("transport", "transport", "").at_most(TRIP_CHARS).merged();
    let table = TableOf::new(title, &lines)
        .column(transport, |line| line.name())
        .with(columns::trips())
        .column(micros("rtt_half_p50_ns", "rtt_half\nmedian", HALF_HELP), |line| line.latency(Statistic::P50))
        .column(micros("rtt_half_p99_ns", "rtt_half\np99", ""), |line| {
            let row = &line.row;
            let p99 = line.latency(Statistic::P99);
            p99.if_bounded(row.metrics.is_bounded(row.row, &Stream::all(), Figure::RttHalf, Statistic::P99))
        })
        .column(micros("rtt_half_max_ns", "rtt_half\nmax", ""), |line| line.latency(Statistic::Max))
        .column(micros("rtt_p50_ns", "rtt\nmedian", "the whole of a round trip"), |line| {
            line.row.latency(&Stream::all(), Figure::RttHalf, Statistic::P50, 2.0)
        })
        .column(micros("one_way_p50_ns", "one_way\nmedian", ONE_WAY_HELP).if_any(), |line| {
            line.row.latency(&Stream::all(), Figure::OneWay, Statistic::P50, 1.0)
        })
        .column(columns::over_core_to_core("rtt_half_over_core_to_core_ns").if_any(), |line| {
            line.row.over_core_to_core(&Stream::all(), Figure::RttHalf, 1.0)
        })
        .column(Column::numbers("floor_ratio", "from\nfloor", "ratio", Digits::Fixed(1), FLOOR_HELP), distance)
        .column(Column::numbers("lost", "lost", "n", Digits::Events, LOST_HELP), |line| line.row.lost(&Stream::all()))
        .with(columns::costs_of_both(columns::COST_HELP))
        .column(columns::damaged(), |line| Cell::number(line.row.total(Figure::Damaged)))
        .with([columns::path_proof().merged()]);
    table.table().grouped_by_payload()
}

/// Ratio to the floor, in each round that has both.
fn distance(line: &TimedLine<'_, Option<Row>>) -> Cell {
    let (row, median) = (line.row, |row| line.row.metrics.get(row, &Stream::all(), Figure::RttHalf, Statistic::P50));
    match line.part {
        None => Cell::Missing(Missing::NotMeasured),
        Some(floor) if floor == row.row => Cell::Floor,
        Some(floor) => {
            let ratios = median(row.row).zip(median(floor)).map(|(ours, floor)| ratio(&ours, &floor));
            Cell::ratio_of_each(&ratios.unwrap_or_default(), row.sub.rounds)
        }
    }
}

/// True if two sub-experiments differ only in their transport.
fn is_alike(one: &SubExperiment, other: &SubExperiment) -> bool {
    one.workload.reply == other.workload.reply && one.background == other.background && one.has_conditions_of(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::all::INTERVALS;
    use crate::document::{Block, Document};
    use crate::fixture::all;
    use crate::fixture::{self, add, put, result, rows_of, set_trips};
    use crate::notes::PROOF_HELP;
    use crate::number::TOO_SMALL;
    use crate::render::{csv, json, markdown};
    use crate::results::NamedResults;
    use crate::tables::columns::{OVER_HELP, SAMPLES_HELP, TOUCH_HELP, WAIT_HELP};
    use serde_json::json;
    use tripmeter_model::manifest::{CoreToCoreProbe, CoreToCoreProbes};
    use tripmeter_model::{Touch, Wait};

    #[test]
    fn a_complete_run_is_grouped_by_payload_and_compared_with_the_floor() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "uds_stream", "uds/stream", &[1024, 65536]);
        add(&mut manifest, "shm", "shm/chunks", &[1024, 65536]).added_as_floor = true;
        result(&mut manifest, "uds_stream", 1, &[(1024, 5000.0), (65536, 20_000.0)]);
        result(&mut manifest, "shm", 1, &[(1024, 200.0), (65536, 250.0)]);
        let expected = "\
All transports, pattern ping

transport  wait touch payload     n rtt_half rtt_half rtt_half    rtt    from lost path
                      [bytes]         median      p99      max median   floor  [n] proof
                                        [µs]     [µs]     [µs]   [µs] [ratio]
----------------------------------------------------------------------------------------
uds/stream poll none       1k 10000    5.000   10.000   50.000 10.000   ×25.0    0 ok
shm/chunks poll none       1k 10000    0.200    0.400    2.000  0.400   floor    0 ok

uds/stream poll none      64k 10000   20.000   40.000  200.000 40.000   ×80.0    0 ok
shm/chunks poll none      64k 10000    0.250    0.500    2.500  0.500   floor    0 ok

";
        let help = format!(
            "wait: {WAIT_HELP}\ntouch: {TOUCH_HELP}\npayload: k = 1024 bytes\nn: {SAMPLES_HELP}\nrtt_half median: {HALF_HELP}\n\
             rtt median: the whole of a round trip\nfrom floor: {FLOOR_HELP}\nlost: {LOST_HELP}\npath proof: {PROOF_HELP}\n"
        );
        assert_eq!(all(&manifest), expected.to_owned() + &help);
    }

    #[test]
    fn one_way_has_a_column_where_it_was_measured() {
        let mut manifest = fixture::manifest();
        for name in ["mq", "pipe"] {
            add(&mut manifest, name, &format!("{name}/one"), &[1024]).one_way = true;
        }
        let trial = &mut result(&mut manifest, "mq", 1, &[(1024, 1000.0)]).cells[0].trials[0];
        fixture::put_times(trial, &Stream::all(), Figure::OneWay, (10_000, 500.0));
        result(&mut manifest, "pipe", 1, &[(1024, 1000.0)]);
        let text = all(&manifest);
        assert_eq!(
            rows_of(&text, "mq")[0],
            "mq/one poll none 1k 10000 1.000 2.000 10.000 2.000 0.500 - 0 ok",
            "{text}"
        );
        assert_eq!(rows_of(&text, "pipe"), ["pipe/one poll none 1k 10000 1.000 2.000 10.000 2.000 - - 0 ok"], "{text}");
        assert!(text.contains(ONE_WAY_HELP), "{text}");
    }

    #[test]
    fn the_core_to_core_latency_is_subtracted_and_its_change_is_marked() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "mq", "mq/queue", &[1024, 2048]);
        let probe = |min_ns: f64| Some(CoreToCoreProbe { samples: 2000, min_ns, median_ns: min_ns + 20.0 });
        let cells = &mut result(&mut manifest, "mq", 1, &[(1024, 1000.0), (2048, 1000.0)]).cells;
        cells[0].core_to_core_ns = CoreToCoreProbes { before: probe(60.0), after: probe(60.0) };
        let mut earlier = cells[1].clone();
        put(&mut earlier.trials[0], &[(Figure::Lost, 3.0)]);
        cells[1].core_to_core_ns = CoreToCoreProbes { before: probe(60.0), after: probe(200.0) };
        cells[1].earlier_attempts = vec![earlier.clone(), earlier];
        let text = all(&manifest);
        let rows = rows_of(&text, "mq/queue");
        assert_eq!(rows[0], "mq/queue poll none 1k 10000 1.000 2.000 10.000 2.000 0.960 - 0 ok", "{text}");
        assert_eq!(rows[1], "mq/queue poll none 2k 10000 1.000 2.000 10.000 2.000 ~0.925 - 0 ok", "{text}");
        let note = "~ mq at 2k: the core-to-core latency changed from 0.080 to 0.220 µs (other cores, or siblings of one); \
                    measured again 2 times, as the core-to-core latency changed; only the last attempt counts, and \
                    trials.jsonl has the others (6 lost)\n";
        assert!(text.contains(note) && text.contains(OVER_HELP), "{text}");
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
        assert_eq!(distances("mq/queue"), ["×2.00 0 ok", "- 0 ok", "- 0 ok"], "{text}");
        assert!(rows_of(&text, "shm").iter().all(|row| row.ends_with("floor 0 ok")), "{text}");
    }

    #[test]
    fn rounds_are_summed_up() {
        let mut manifest = fixture::manifest();
        manifest.plan.rounds = 3;
        add(&mut manifest, "uds_stream", "uds/stream", &[1024]);
        for (round, median) in [(1, 1000.0), (2, 9000.0), (3, 2000.0)] {
            let trial = &mut result(&mut manifest, "uds_stream", round, &[(1024, median)]).cells[0].trials[0];
            put(trial, &[(Figure::Lost, 2.0)]);
        }
        let text = all(&manifest);
        assert!(text.contains("; 3 rounds: medians over rounds; max, n and lost are over all rounds\n"), "{text}");
        let row = "uds/stream poll none 1k 30000 2.000 4.000 90.000 4.000 - 6 ok";
        assert_eq!(rows_of(&text, "uds/stream"), [row]);
        // Three figures, the losses, and the legend have it.
        assert_eq!(text.matches(TOO_SMALL).count(), 5, "{text}");
        for round in 4..=6 {
            result(&mut manifest, "uds_stream", round, &[(1024, 3000.0)]);
        }
        let text = all(&manifest);
        let below = text.lines().find(|line| line.trim_start().starts_with("1.000..9.000"));
        let expected = ["1.000..9.000", "2.000..18.000", "2.000..18.000", "0..0.018"];
        assert_eq!(below.unwrap().split_whitespace().collect::<Vec<_>>(), expected, "{text}");
        assert!(text.contains(INTERVALS), "{text}");
    }

    #[test]
    fn a_quantile_without_a_bound_is_none() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "mq", "mq/queue", &[1024]);
        set_trips(&mut result(&mut manifest, "mq", 1, &[(1024, 1000.0)]).cells[0], 298);
        let text = all(&manifest);
        assert_eq!(rows_of(&text, "mq"), ["mq/queue poll none 1k *298 1.000 n too small 10.000 2.000 - 0 ok"]);
        assert!(text.contains(INTERVALS), "{text}");
        set_trips(&mut manifest.sub_experiments[0].cells[0], 299);
        assert!(!all(&manifest).contains(TOO_SMALL));
    }

    #[test]
    fn rows_are_distinguished() {
        let mut manifest = fixture::manifest();
        for name in ["first", "second"] {
            add(&mut manifest, name, "inmem/threads?capacity=16", &[1024]);
            result(&mut manifest, name, 1, &[(1024, 1000.0)]).same_process = true;
        }
        let text = all(&manifest);
        let labels: Vec<_> =
            text.lines().skip(6).take(8).map(|line| line.split(" poll").next().unwrap().trim_end()).collect();
        let each = |name| ["inmem/threads", "?capacity=16", name, "(same process)"];
        assert_eq!(labels, [each("(first)"), each("(second)")].concat(), "{text}");
    }

    #[test]
    fn a_cell_without_an_answer_has_dashes() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "udp", "udp/loopback", &[1024]);
        let sub = result(&mut manifest, "udp", 1, &[(1024, 1000.0)]);
        sub.path_proof = None;
        set_trips(&mut sub.cells[0], 0);
        put(&mut sub.cells[0].trials[0], &[(Figure::Lost, 11_000.0)]);
        assert_eq!(rows_of(&all(&manifest), "udp"), ["udp/loopback poll none 1k *0 - - - - - 11000 -"]);
    }

    #[test]
    fn machines_get_nanoseconds_bytes_ratios_and_shares_with_their_intervals() {
        let mut manifest = fixture::manifest();
        manifest.plan.rounds = 6;
        add(&mut manifest, "udp", "udp/loopback?packet=4096", &[1024]);
        add(&mut manifest, "shm", "shm/chunks", &[1024]);
        for round in 1..=6 {
            let cells = &mut result(&mut manifest, "udp", round, &[(1024, 1000.0 * f64::from(round))]).cells;
            put(&mut cells[0].trials[0], &[(Figure::Lost, round.into())]);
            result(&mut manifest, "shm", round, &[(1024, 500.0)]);
        }
        let side = MeasuredSide::new(&NamedResults { name: "", manifest: &manifest });
        let table = table("Trips".to_owned(), &side, &TableRow::rows(&side, |_| true));
        let expected = "\
transport,wait,touch,payload_bytes,n,rtt_half_p50_ns,rtt_half_p50_ns_low,rtt_half_p50_ns_high,rtt_half_p99_ns,\
rtt_half_p99_ns_low,rtt_half_p99_ns_high,rtt_half_max_ns,rtt_p50_ns,rtt_p50_ns_low,rtt_p50_ns_high,floor_ratio,\
floor_ratio_low,floor_ratio_high,lost,lost_of,lost_low,lost_high,path_proof
udp/loopback?packet=4096,poll,none,1024,60000,3500,1000,6000,7000,2000,12000,60000,7000,2000,12000,7,2,12,21,66000,\
0.0000909090909090909,0.0005454545454545455,ok
shm/chunks,poll,none,1024,60000,500,500,500,1000,1000,1000,5000,1000,1000,1000,1,,,0,66000,";
        let written = csv(&table);
        assert!(written.starts_with(expected) && written.ends_with(",ok\n"), "{written}");
        let document = Document { blocks: vec![Block::Table(table)] };
        let row = "| shm/chunks | poll | none | 1k | 60000 | 0.500 (0.500..0.500) | 1.000 (1.000..1.000) | 5.000 | \
                   1.000 (1.000..1.000) | floor | 0 (0..0.006 %) | ok |\n";
        let written = markdown(&document);
        assert!(written.ends_with(row), "{written}");
        let value = json(&document);
        let row = &value["blocks"][0]["table"]["rows"][0];
        assert_eq!(row["rtt_half_p50_ns"], json!({ "value": 3500.0, "low": 1000.0, "high": 6000.0 }));
        assert_eq!(row["floor_ratio"], json!({ "value": 7.0, "low": 2.0, "high": 12.0 }));
        assert_eq!((&row["lost"]["events"], &row["lost"]["of"]), (&json!(21), &json!(66_000)));
        assert_eq!((&row["payload_bytes"], &row["n"]), (&json!(1024.0), &json!(60_000.0)));
    }
}
