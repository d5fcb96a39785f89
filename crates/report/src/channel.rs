//! The table of pattern `channel`: latencies one way at a fixed rate, from the intended and from the actual sending.

use crate::document::{Cell, Column, Digits, Missing, Note, Table};
use crate::labels::offered;
use crate::merged::MISSED;
use crate::notes::{ALL_LOST, mishaps, odd};
use crate::number::count;
use crate::page::measured::MeasuredSide;
use crate::tables::columns;
use crate::tables::row::{self as table_row, LATENCIES, TableRow};
use std::cmp::Reverse;
use tripmeter_analysis::Row;
use tripmeter_analysis::derived::is_all_lost;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::Counts;
use tripmeter_model::metric::{Process, Stream};
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::trial::SHOWN_FOLLOWERS;

const TIME_HELP: &str = "\
response = one way from when a message was to be sent, service = from when it was sent; a clock is read at both ends";
const BURSTS_HELP: &str = "\
messages per second that each publisher was to send on each topic; n per t: bursts of n, t from the begin of one to the begin of \
the next, achieved at their mean rate";
const COST_HELP: &str = "\
user and system, of one core; the line of response has the publishing process, that of service the sum of the subscribing ones";

/// Every rate, by payload.
pub fn rows<'a>(side: &'a MeasuredSide<'a>) -> Vec<TableRow<'a>> {
    TableRow::rows(side, is_of)
}

fn is_of(plan: &SubExperiment) -> bool {
    plan.workload.is_publication() && !plan.workload.is_recorded()
}

/// The table; without a row if nothing was measured under this pattern.
pub fn table(title: String, side: &MeasuredSide<'_>) -> Table {
    let rows = rows(side);
    let number = |id, title, help| Column::numbers(id, title, "n", Digits::Integer, help);
    let odd = "messages that came after the loss time-out, and messages that came more than once";
    let mut columns = table_row::naming_columns(&rows);
    columns.extend([
        columns::payload_head().merged(),
        number("topics", "topics", "").merged(),
        number("publishers", "publishers", "of each topic").merged(),
    ]);
    columns.extend(table_row::rate_columns([
        if TableRow::have_bursts(&rows) {
            BURSTS_HELP
        } else {
            "messages per second that each publisher was to send on each topic"
        },
        "messages per second that each publisher sent on each topic; !: the rate was missed",
    ]));
    columns.push(Column::words("time", "time", TIME_HELP));
    columns.extend(table_row::latency_columns(&LATENCIES));
    columns.extend([table_row::loss_column(), number("late_duplicated", "late/dup.", odd)]);
    columns.extend(table_row::cost_columns(COST_HELP));
    columns.extend([columns::damaged(), columns::path_proof_head().merged()]);
    Table::new(title, columns, rows.iter().flat_map(lines).collect()).grouped_by_payload()
}

/// Lines of response, of service, and of service to each of several followers.
fn lines(row: &TableRow<'_>) -> Vec<(Option<Row>, Vec<Cell>)> {
    const NOTHING: Cell = Cell::Missing(Missing::NotOfThisRow);
    let (all, naming, proof) = (Stream::all(), naming(row), row.proof());
    let line = |time: String, stream: &Stream, figure, [loss, odd, damaged]: [Cell; 3], cost: Vec<Cell>| {
        let latencies = row.latencies(stream, figure, &LATENCIES);
        let others = [vec![loss, odd], cost, vec![damaged, proof.clone()]].concat();
        (Some(row.row), [naming.clone(), vec![Cell::text(time)], latencies, others].concat())
    };
    let totals = row.totals();
    let odd = Cell::Pair(Box::new([totals.late, totals.duplicated].map(|count| Cell::number(count as f64))));
    let counted = [row.loss(&all), odd, Cell::number(row.totals().damaged as f64)];
    let mut lines = vec![
        line("response".to_owned(), &all, Figure::Response, counted, row.cost(Process::Leader)),
        line("service".to_owned(), &all, Figure::Service, [NOTHING; 3], row.cost(Process::Follower)),
    ];
    lines.extend(row.followers().iter().take(SHOWN_FOLLOWERS).map(|(index, stream)| {
        let counted = [row.loss(stream), NOTHING, NOTHING];
        line(format!("service to {index}"), stream, Figure::Service, counted, TableRow::no_cost())
    }));
    lines
}

/// The columns up to the rate that was achieved.
fn naming(row: &TableRow<'_>) -> Vec<Cell> {
    let planned = row.sub.planned;
    let is_bad = row.trials().any(|(_, trial)| trial.cut_short.is_some())
        || row.totals().damaged.max(row.damaged_beside()) > 0
        || is_all_lost(row.metrics, row.row);
    let achieved = row.of(row.value(Figure::AchievedRate));
    let numbers =
        [row.row.payload_bytes as f64, planned.workload.follower_links().into(), planned.workload.publishers().into()];
    let mut cells = row.naming();
    cells.extend(numbers.map(Cell::number));
    cells.push(match row.offered() {
        Cell::Text(bursts) if is_bad => Cell::Marked("*", bursts),
        rate => rate.marked(if is_bad { "*" } else { "" }),
    });
    cells.push(achieved.marked(row.mark(|trial| trial.rate_missed, MISSED)));
    cells
}

/// Notes on trials and messages of these rates.
pub fn notes(side: &MeasuredSide<'_>) -> Vec<Note> {
    TableRow::notes(&rows(side), of_rate)
}

fn of_rate(row: &TableRow<'_>) -> Vec<Note> {
    let (planned, at) = (row.sub.planned, row.at_size());
    let (place, late) = (format!("{} {at}, {}", planned.name, offered(row.load())), row.too_late());
    let mut notes = Vec::new();
    for (round, trial) in row.trials() {
        notes.extend(trial.cut_short.iter().map(|why| row.warning(format!("* {place}: {why}"))));
        if trial.rate_missed {
            let what = if planned.workload.publishers() > 1 { "publisher" } else { "topic" };
            let [behind, sent, slowest] =
                [Figure::Behind, Figure::Sent, Figure::SlowestRate].map(|figure| row.at(*round, figure));
            let slowest = count(slowest);
            notes.push(row.rate_missed(format!(
                "! {place}: RATE MISSED: the slowest {what} sent {slowest} /s, {behind} of {sent} messages were sent \
                 more than {late} late"
            )));
        }
        notes.extend(refused(row, *round, &place));
    }
    let publishers = row.streams(|stream| stream.publisher);
    for (publisher, counts) in odd_streams(row, &publishers).concat() {
        notes.push(row.info(format!("{place}, publisher {publisher}: {}", mishaps(&counts, false))));
    }
    notes.extend(at_followers(row, &place).concat());
    let totals = row.totals();
    if totals.is_all_lost() {
        notes.push(row.nothing_arrived(format!("* {place}: {ALL_LOST}")));
    }
    if is_odd(&totals) {
        notes.push(row.info(format!("{place}: {}", mishaps(&totals, false))));
    }
    notes
}

/// Notes on messages refused, or left out, in a round.
pub fn refused(row: &TableRow<'_>, round: u32, place: &str) -> Vec<Note> {
    let (refused, early) = (row.at(round, Figure::Refused), row.at(round, Figure::BeforeSent));
    let refused = (refused > 0.0).then(|| format!("{place}: the transport was full {refused} times"));
    let by = if row.at(round, Figure::ClockError) > 0.0 { "the clocks: kept" } else { "the clock: left out" };
    let early = (early > 0.0).then(|| format!("{place}: {early} messages came before they were sent, by {by}"));
    refused.into_iter().chain(early).map(|text| row.info(text)).collect()
}

fn is_odd(counts: &Counts) -> bool {
    odd(counts) || counts.lost > 0
}

/// Streams with lost, late, damaged, duplicated or reordered messages, and their counts, per round.
pub fn odd_streams<T: Clone>(row: &TableRow<'_>, streams: &[(T, Stream)]) -> Vec<Vec<(T, Counts)>> {
    let counted: Vec<_> = streams.iter().map(|(name, stream)| (name, row.counts(stream))).collect();
    let of_round = |round: u32| {
        let of_stream = |(name, counts): &(&T, Vec<(u32, Counts)>)| {
            let (_, counts) = counts[counts.binary_search_by_key(&round, |(known, _)| *known).ok()?];
            is_odd(&counts).then(|| ((*name).clone(), counts))
        };
        counted.iter().filter_map(of_stream).collect()
    };
    row.trials().map(|(round, _)| of_round(*round)).collect()
}

/// Notes on followers with lost, late, damaged, duplicated or reordered messages, per round, the worst first.
pub fn at_followers(row: &TableRow<'_>, place: &str) -> Vec<Vec<Note>> {
    let of_round = |mut odd: Vec<(u32, Counts)>| {
        odd.sort_by_key(|(_, counts)| Reverse(counts.lost + counts.late + counts.damaged));
        let line = |(follower, counts): &(u32, Counts)| {
            row.info(format!("{place}, to follower {follower}: {}", mishaps(counts, false)))
        };
        let mut notes: Vec<Note> = odd.iter().take(SHOWN_FOLLOWERS).map(line).collect();
        if odd.len() > SHOWN_FOLLOWERS {
            let others = odd.len() - SHOWN_FOLLOWERS;
            let text = format!("{place}: {others} more followers have such messages, none more than these");
            notes.push(row.info(text));
        }
        notes
    };
    odd_streams(row, &row.followers()).into_iter().map(of_round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Block;
    use crate::fixture::{self, all, published, put, put_times, squeezed, trial_of};
    use crate::render;
    use serde_json::json;
    use tripmeter_model::figure::Statistic;
    use tripmeter_model::pace::OfferedLoad;

    #[test]
    fn both_times_and_both_sides_of_each_rate() {
        let text = all(&published("uds/stream", &[1000.0, 50.0]));
        let lines = squeezed(&text);
        assert!(text.starts_with("All transports, pattern channel\n"), "{text}");
        for line in [
            "uds/stream poll none 1k 4 1 1000 1000 response 66.000 60.000 90.000 120.000 180.000 600.000 0 0/0 ",
            "uds/stream poll none 1k 4 1 50.0 50.0 response 66.000 60.000 90.000 120.000 180.000 600.000 0 0/0 ",
            "service 11.000 10.000 15.000 20.000 30.000 100.000 ",
        ] {
            assert!(lines.iter().any(|found| found.starts_with(line)), "{line}\n{text}");
        }
        let all_in_one = lines.join(" ");
        for help in [
            TIME_HELP,
            COST_HELP,
            "below figures: 95 % intervals",
            "loss: messages lost, late or damaged, in per cent of the messages sent",
        ] {
            assert!(all_in_one.contains(help), "{help}\n{text}");
        }
        assert!(!text.contains("rtt_half"), "{text}");
    }

    #[test]
    fn machines_get_every_row_with_its_name_and_figures_in_their_units() {
        let mut manifest = published("uds/stream", &[1000.0]);
        let trial = trial_of(&mut manifest, 0);
        let within = [(Statistic::P50, 55e3, 110e3), (Statistic::P999, 150e3, f64::INFINITY)];
        fixture::put_within(trial, Figure::Response, &within);
        trial.rate_missed = true;
        let document = crate::all(&manifest);
        let Some(Block::Table(table)) = document.blocks.first() else { panic!("{document:?}") };
        let document = render::json(&document);
        let rows = &document["blocks"][0]["table"]["rows"];
        let [response, service] = [&rows[0], &rows[1]];
        for (id, cell) in [
            ("payload_bytes", json!(1024.0)),
            ("offered_rate_hz", json!(1000.0)),
            ("p50_ns", json!({ "value": 60e3, "low": 55e3, "high": 110e3 })),
            ("p999_ns", json!({ "value": 180e3, "low": 150e3, "high": null })),
            ("max_ns", json!(600e3)),
            ("cpu_share", json!(0.031)),
            ("peak_memory_bytes", json!(12_345_678.0)),
        ] {
            assert_eq!(response[id], cell, "{id}");
        }
        assert_eq!((&response["loss"]["events"], &response["loss"]["of"]), (&json!(0), &json!(1000)));
        assert_eq!((&service["transport"], &service["time"]), (&json!("uds/stream"), &json!("service")));
        assert_eq!(service["loss"], json!({ "missing": "not of this row" }));
        let csv = render::csv(table);
        let service = csv.lines().nth(2).unwrap();
        assert!(service.starts_with("uds/stream,poll,none,1024,4,1,1000,1000,!,service,11000,10000,,,15000,"), "{csv}");
    }

    #[test]
    fn each_of_several_followers_has_a_line_up_to_the_sixteenth() {
        let mut manifest = published("zenoh/tcp", &[1000.0]);
        manifest.plan.sub_experiments[0].workload.topology.followers = 20;
        let trial = trial_of(&mut manifest, 0);
        let counts = |lost| Counts { sent: 1000, received: 1000 - lost, lost, ..Counts::default() };
        trial.put_counts(&Stream::all(), &counts(19), false);
        for follower in 0..20 {
            let stream = Stream::follower(follower);
            trial.put_counts(&stream, &counts(follower.into()), false);
            put_times(trial, &stream, Figure::Response, (1000, 60e3));
            put_times(trial, &stream, Figure::Service, (1000, 1000.0 * f64::from(follower + 1)));
        }
        let text = all(&manifest);
        let lines = squeezed(&text);
        for line in [
            "zenoh/tcp to 20 followers poll none 1k 4 1 1000 1000 response",
            "service to 0 1.100 1.000 1.500 2.000 3.000 10.000 0",
            "service to 15 17.600 16.000 24.000 32.000 48.000 160.000 1.5",
            "uds_channel at 1k, 1000 /s, to follower 19: 19 lost",
            "uds_channel at 1k, 1000 /s: 3 more followers have such messages, none more than these",
        ] {
            assert!(lines.iter().any(|found| found.starts_with(line)), "{line}\n{text}");
        }
        assert!(
            text.contains(
                "transport: with several followers, response and service end when the last of them has the message"
            ),
            "{text}"
        );
        assert!(!text.contains("service to 16") && !text.contains("rtt of last"), "{text}");
    }

    #[test]
    fn a_rate_that_was_missed_and_messages_gone_astray_are_said() {
        let mut manifest = published("udp/loopback", &[1000.0]);
        let trial = trial_of(&mut manifest, 0);
        put(trial, &[(Figure::AchievedRate, 800.0), (Figure::SlowestRate, 700.0), (Figure::Behind, 123.0)]);
        put(trial, &[(Figure::Received, 996.0), (Figure::Lost, 4.0), (Figure::Duplicated, 2.0)]);
        (trial.rate_missed, trial.cut_short) = (true, Some("time cap".to_owned()));
        fixture::remove_followers_cost(trial);
        manifest.plan.sub_experiments[0].workload.loads.push(OfferedLoad::Rate { hz: 9.0 });
        manifest.sub_experiments[0].cells[0].cut_short = Some("time cap: 1 of 2 rates".to_owned());
        let text = all(&manifest);
        let lines = squeezed(&text);
        for line in [
            "! uds_channel at 1k, 1000 /s: RATE MISSED: the slowest topic sent 700 /s, 123 of 1000 messages were sent more \
             than a period late",
            "* uds_channel at 1k, 1000 /s: time cap",
            "* uds_channel at 1k: time cap: 1 of 2 rates",
            "uds_channel at 1k, 1000 /s: 4 lost, 2 duplicated",
            "service 11.000 10.000 15.000 20.000 30.000 100.000 - ",
        ] {
            assert!(lines.iter().any(|found| found.starts_with(line)), "{line}\n{text}");
        }
        assert!(
            lines.iter().any(|line| line.contains(" 4 1 *1000 !800 response ") && line.contains(" 0.4 0/2 ")),
            "{text}"
        );
        let figures = crate::figures(&[("", &manifest)]);
        let Some(Block::Table(figures)) = figures.blocks.first() else { panic!("{figures:?}") };
        let csv = render::csv(figures);
        for figure in ["rate_missed", "cut_short"] {
            let row = format!("uds_channel,1024,1000hz,all,{figure},value,1,1,");
            assert!(csv.lines().any(|line| line.starts_with(&row)), "{row}\n{csv}");
        }
    }
}
