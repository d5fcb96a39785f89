//! Table of pattern `publish`: one-way latencies at a fixed rate, from the intended and from the actual sending.

use super::columns;
use super::description::TableOf;
use super::row::{TableRow, TimedLine};
use crate::document::{Cell, Column, Digits, Table};
use crate::measured::MeasuredSide;
use tripmeter_model::figure::Figure;
use tripmeter_model::metric::Stream;
use tripmeter_model::workload::Workload;

const RATE_HELP: &str = "messages per second offered to each publisher on each topic";
const ACHIEVED_HELP: &str = "messages per second that each publisher sent on each topic; !: the rate was missed";
const TIME_HELP: &str = "one-way latency: response = from when a message was due, service = from when it was sent; a \
                         clock is read at both ends";
const BURSTS_HELP: &str = "messages per second offered to each publisher on each topic; n per t: bursts of n, one \
                           begun every t; achieved is their mean rate";
const ODD_HELP: &str = "messages that arrived after the loss time-out, and messages that arrived more than once";
const COST_HELP: &str = "user and system time, in per cent of one core; line response: the publishing process, line \
                         service: the sum of the subscribing ones";

pub fn table(title: String, _: &MeasuredSide<'_>, rows: &[TableRow<'_>]) -> Table {
    let lines: Vec<_> = rows.iter().flat_map(lines).collect();
    let [offered, achieved] =
        columns::rates(if TableRow::have_bursts(rows) { BURSTS_HELP } else { RATE_HELP }, ACHIEVED_HELP);
    let table = TableOf::new(title, &lines)
        .with(columns::naming(rows))
        .with([columns::payload().merged()])
        .with([
            columns::number("topics", "", Workload::follower_links),
            columns::number("publishers", "of each topic", Workload::publishers),
        ])
        .column(offered, |line| match (line.row.offered(), line.row.star()) {
            (Cell::Text(bursts), "*") => Cell::Marked("*", bursts),
            (rate, star) => rate.marked(star),
        })
        .column(achieved, |line| line.row.achieved())
        .column(Column::words("time", "time", TIME_HELP), |line| line.name())
        .with(columns::latencies(columns::LATENCIES))
        .with([columns::loss()])
        .column(Column::numbers("late_duplicated", "late/dup.", "n", Digits::Integer, ODD_HELP), |line| {
            line.if_first(|row| {
                let totals = row.totals();
                Cell::Pair(Box::new([totals.late, totals.duplicated].map(|count| Cell::number(count as f64))))
            })
        })
        .with(columns::cost(COST_HELP))
        .column(columns::damaged(), |line| line.if_first(|row| Cell::number(row.totals().damaged as f64)))
        .with([columns::path_proof().merged()]);
    table.table().grouped_by_payload()
}

/// Lines for response, for service, and for service to each of several followers.
fn lines<'a>(row: &TableRow<'a>) -> Vec<TimedLine<'a>> {
    let both = [("response", Some(Figure::Response)), ("service", Some(Figure::Service))];
    let of_all = both.into_iter().map(|(name, figure)| (name.to_owned(), figure, Stream::all()));
    row.timed(of_all.chain(row.services()), ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Block;
    use crate::fixture::{self, all, published, put, put_times, squeezed, trial_of};
    use crate::render;
    use serde_json::json;
    use tripmeter_model::figure::Statistic;
    use tripmeter_model::manifest::Counts;
    use tripmeter_model::pace::OfferedLoad;

    #[test]
    fn both_times_and_both_sides_of_each_rate() {
        let text = all(&published("uds/stream", &[1000.0, 50.0]));
        let lines = squeezed(&text);
        assert!(text.starts_with("All transports, pattern publish\n"), "{text}");
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
            "uds_channel at 1k, 1000 /s: 3 other followers also have such messages, but not more",
        ] {
            assert!(lines.iter().any(|found| found.starts_with(line)), "{line}\n{text}");
        }
        assert!(
            text.contains("transport: with several followers, response and service end when the last has the message"),
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
        (trial.rate_missed, trial.cut_short) = (true, Some("time cap".into()));
        fixture::remove_followers_cost(trial);
        manifest.plan.sub_experiments[0].workload.loads.push(OfferedLoad::Rate { hz: 9.0 });
        manifest.sub_experiments[0].cells[0].cut_short = Some("time cap: 1 of 2 rates".into());
        let text = all(&manifest);
        let lines = squeezed(&text);
        for line in [
            "! uds_channel at 1k, 1000 /s: RATE MISSED: the slowest topic sent 700 /s; 123 of 1000 messages were sent \
             more than a period late",
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
