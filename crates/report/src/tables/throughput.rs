//! Table of pattern `throughput`: messages offered and received.

use super::columns;
use super::description::TableOf;
use super::row::{TableRow, TimedLine};
use crate::document::{Cell, Column, Digits, Table};
use crate::labels::offered;
use crate::measured::MeasuredSide;
use crate::merged::MISSED;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::workload::Workload;

const OFFERED_HELP: &str = "max = as fast as possible; n /s = evenly, on each topic or of each publisher; search = the highest rate found within the loss \
                            limit; n per t = bursts of n messages, one begun every t";
const RECEIVED_HELP: &str = "throughput: intact messages that arrived, each counted once, per second from the first \
                             sending to the last arrival";
const MISSED_HELP: &str = "throughput: intact messages that arrived, each counted once, per second from the first \
                           sending to the last arrival; !: the rate was missed";
const BYTES_HELP: &str = "payload bytes that arrived intact, per second; MB = 1000000 bytes";
const ONE_WAY_HELP: &str = "one-way latency of messages that arrived, a clock read at both ends";
const PUBLISHED_HELP: &str = "messages sent per second (not a throughput)";
const REFUSED_HELP: &str = "how often the transport was full (back-pressure)";

pub fn table(title: String, side: &MeasuredSide<'_>, rows: &[TableRow<'_>]) -> Table {
    let lines = lines(rows);
    let has_missed = lines.iter().any(|line| side.metrics.is_rate_missed(line.row.row));
    let received_help = if has_missed { MISSED_HELP } else { RECEIVED_HELP };
    let rate = |figure: Figure, title, unit, help| Column::numbers(figure.id(), title, unit, Digits::Rate, help);
    let one_way = |(statistic, help): (Statistic, &'static str)| {
        let (id, title) = (format!("one_way_{statistic}_ns"), format!("one_way\n{statistic}"));
        let head = Column::numbers(&id, &title, "µs", Digits::Fixed(3), help).if_any();
        head.shows(move |line: &TimedLine<'_>| line.latency(statistic))
    };
    let table = TableOf::new(title, &lines)
        .column(Column::words("transport", "transport", ""), |line| Cell::text(line.row.sub.planned.transport_text()))
        .with([columns::wait(""), columns::touch(""), columns::payload()])
        .with([columns::several("topics", "", |workload| workload.topology.topics)])
        .with([columns::several("publishers", "of the one topic", Workload::publishers)])
        .column(Column { is_right: true, ..Column::words("offered", "offered", OFFERED_HELP) }, |line| {
            Cell::starred(line.star(), offered(line.row.load()))
        })
        .column(Column::numbers("follower", "follower", "", Digits::Integer, ""), |line| {
            Cell::number(line.follower().into())
        })
        .column(rate(Figure::ReceivedRate, "received", "msg/s", received_help), |line| {
            line.value(Figure::ReceivedRate).marked(line.row.mark(|trial| trial.rate_missed, MISSED))
        })
        .column(Column { divisor: 1e6, ..rate(Figure::ReceivedBytes, "received", "MB/s", BYTES_HELP) }, |line| {
            line.value(Figure::ReceivedBytes)
        })
        .column(
            Column::numbers("loss", "loss", "%", Digits::Percent, "messages lost or damaged, of those sent"),
            |line| line.row.loss(&line.stream),
        )
        .with([(Statistic::P50, ONE_WAY_HELP), (Statistic::P99, ""), (Statistic::Max, "")].map(one_way))
        .with([columns::rate(Figure::PublishedRate, "published", "msg/s", PUBLISHED_HELP)])
        .column(Column::numbers(Figure::Refused.id(), "refused", "n", Digits::Integer, REFUSED_HELP), |line| {
            Cell::number(line.row.total(Figure::Refused))
        })
        .with(columns::costs_of_both(columns::COST_HELP))
        .column(columns::damaged(), |line| Cell::number(line.damaged() as f64))
        .with([columns::path_proof()]);
    table.table().grouped_by_payload()
}

/// A line for each shown follower of several, or for the only one.
pub fn lines<'a>(rows: &[TableRow<'a>]) -> Vec<TimedLine<'a>> {
    let of_row = |row: &TableRow<'a>| {
        let streams = row.receivers().into_iter();
        row.timed(streams.map(|stream| (String::new(), Some(Figure::OneWay), stream.clone())), ())
    };
    rows.iter().flat_map(of_row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, all, put, trial_of};
    use crate::render::json;
    use tripmeter_model::Pattern;
    use tripmeter_model::manifest::{Counts, Manifest};
    use tripmeter_model::metric::Stream;
    use tripmeter_model::pace::{Burst, OfferedLoad};
    use tripmeter_model::trial::Trial;

    /// A trial of each load; of 1000 messages, each follower receives the number in `received`.
    fn measured(offers: &[OfferedLoad], received: &[u64]) -> Manifest {
        let mut manifest = fixture::manifest();
        let plan = fixture::add(&mut manifest, "udp_throughput", "udp/loopback", &[1024]);
        plan.pattern = Pattern::Throughput;
        plan.workload = Workload::saturating(offers.to_vec(), None, Some(1_000_000_000));
        let result = fixture::result(&mut manifest, "udp_throughput", 1, &[(1024, 1000.0)]);
        let trial = |offer: &OfferedLoad| {
            let mut trial = Trial::new(*offer);
            put(&mut trial, &[(Figure::PublishedRate, 111_111.1), (Figure::Refused, 3.0)]);
            for (follower, came) in (0..).zip(received.iter().copied()) {
                let stream = if received.len() == 1 { Stream::all() } else { Stream::follower(follower) };
                let counts = Counts { sent: 1000, received: came, lost: 1000 - came, ..Counts::default() };
                trial.put_counts(&stream, &counts, false);
                trial.put(&stream, Figure::ReceivedRate, came as f64 * 100.0);
                trial.put(&stream, Figure::ReceivedBytes, came as f64 * 102_400.0);
            }
            trial
        };
        result.cells[0].trials = offers.iter().map(trial).collect();
        manifest
    }

    #[test]
    fn a_line_for_each_trial_and_follower() {
        let offers = [
            OfferedLoad::Max,
            OfferedLoad::Rate { hz: 2500.0 },
            OfferedLoad::Search { loss_bound: 0.005 },
            OfferedLoad::Burst(Burst { size: 10, gap_ns: 2_500_000 }),
        ];
        let manifest = measured(&offers, &[1000, 999]);
        let text = all(&manifest);
        let rows = fixture::rows_of(&text, "udp/loopback");
        assert_eq!(rows.len(), 8, "{text}");
        assert_eq!(rows[0], "udp/loopback poll none 1k max 0 100000 102 0 111111 3 ok");
        assert_eq!(rows[1], "udp/loopback poll none 1k max 1 99900 102 0.1 111111 3 ok");
        for (row, label) in [(2, "2500 /s"), (4, "search 0.5 %"), (6, "10 per 2.5 ms")] {
            assert!(rows[row].contains(&format!(" 1k {label} 0 ")), "{}", rows[row]);
        }
        assert!(text.starts_with("All transports, pattern throughput\n") && text.contains("(not a throughput)"));
        assert!(!text.contains("rtt_half"), "no table of round trips: {text}");
        let machines = json(&crate::all::all(&manifest));
        let row = &machines["blocks"][0]["table"]["rows"][1];
        let figures = ["payload_bytes", "follower", "received_rate_hz", "received_bytes_per_s", "refused"];
        assert_eq!(figures.map(|id| row[id].as_f64()), [1024.0, 1.0, 99_900.0, 99_900.0 * 1024.0, 3.0].map(Some));
        assert_eq!(
            (&row["offered"], &row["loss"]["events"], &row["loss"]["of"]),
            (&"max".into(), &1.into(), &1000.into())
        );
    }

    #[test]
    fn one_way_has_columns_and_a_note_where_it_was_measured() {
        let mut manifest = measured(&[OfferedLoad::Max], &[998]);
        let trial = trial_of(&mut manifest, 0);
        put(trial, &[(Figure::Damaged, 2.0), (Figure::OneWayTimed, 500.0)]);
        fixture::put_times(trial, &Stream::all(), Figure::OneWay, (498, 2000.0));
        trial.put_statistic(&Stream::all(), Figure::OneWay, Statistic::Max, 6000.0, None);
        let text = all(&manifest);
        let rows = fixture::squeezed(&text);
        assert!(rows.iter().any(|row| row.contains(" 2.000 4.000 6.000 111111 3 2 ok")), "{text}");
        let note = "udp_throughput at 1k, max: one-way latency was measured, so rates include a clock reading per \
                    message on both sides; one_way has 498 samples of 500 timed messages";
        assert!(rows.iter().any(|row| row == note), "{text}");
        let first = crate::render::Text::default().render(&crate::screen::screen(&manifest, false));
        assert!(first.contains("µs, one way, since sent") && first.contains("2.00 4.00"), "{first}");
        assert!(first.contains("one-way latency was measured, so rates"), "{first}");
        let without = all(&measured(&[OfferedLoad::Max], &[1000]));
        assert!(!without.contains("one_way p50") && !without.contains("one-way latency measured"), "{without}");
    }

    #[test]
    fn what_went_wrong_is_noted() {
        let mut manifest = measured(&[OfferedLoad::Max], &[900]);
        let trial = trial_of(&mut manifest, 0);
        trial.cut_short = Some("interrupted".into());
        put(trial, &[(Figure::Behind, 17.0), (Figure::Duplicated, 2.0), (Figure::Reordered, 1.0)]);
        let text = all(&manifest);
        let row = &fixture::rows_of(&text, "udp/loopback")[0];
        assert!(row.starts_with("udp/loopback poll none 1k *max 0 90000 "), "{text}");
        let machines = json(&crate::all::all(&manifest));
        assert_eq!(
            machines["blocks"][0]["table"]["rows"][0]["offered"],
            serde_json::json!({ "value": "max", "mark": "*" })
        );
        for line in [
            "* udp_throughput at 1k, max: interrupted",
            "udp_throughput at 1k, max: 17 of 1000 messages were sent late",
            "udp_throughput at 1k, max: 2 duplicated, 1 reordered",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_rate_that_was_missed_and_a_trial_that_ended_early_are_marked_on_both_pages() {
        let first = |manifest: &Manifest, all| crate::render::Text::default().render(&crate::screen(manifest, all));
        let late = "udp_throughput at 1k, 2500 /s: 17 of 1000 messages were sent late";
        let mut manifest = measured(&[OfferedLoad::Rate { hz: 2500.0 }], &[1000]);
        put(trial_of(&mut manifest, 0), &[(Figure::Behind, 17.0)]);
        let text = all(&manifest);
        assert!(text.lines().any(|line| line == late) && !text.contains("!:"), "{text}");
        assert!(!first(&manifest, false).contains(late) && first(&manifest, true).contains(late));
        trial_of(&mut manifest, 0).rate_missed = true;
        let text = all(&manifest);
        let row = &fixture::rows_of(&text, "udp/loopback")[0];
        assert!(row.starts_with("udp/loopback poll none 1k 2500 /s 0 !100000 102 "), "{text}");
        let missed = "! udp_throughput at 1k, 2500 /s: RATE MISSED: 111111 messages /s were sent; 17 of 1000 messages \
                      were sent late";
        assert!(text.lines().any(|line| line == missed) && text.contains("!: the rate was missed"), "{text}");
        assert_eq!(text.matches("sent late").count(), 1, "{text}");
        let text = first(&manifest, false);
        assert!(fixture::rows_of(&text, "udp/loopback")[0].ends_with(" !100 !102"), "{text}");
        assert!(text.contains("RATE MISSED"), "{text}");
        trial_of(&mut manifest, 0).cut_short = Some("interrupted".into());
        let text = first(&manifest, false);
        assert!(fixture::rows_of(&text, "udp/loopback")[0].ends_with(" *!100 !102"), "{text}");
        trial_of(&mut manifest, 0).rate_missed = false;
        let text = first(&manifest, false);
        assert!(fixture::rows_of(&text, "udp/loopback")[0].ends_with(" *100 102"), "{text}");
    }
}
