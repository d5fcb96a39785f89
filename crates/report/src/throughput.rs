//! The table of pattern `throughput`: messages offered and received.

use crate::document::{Cell, Column, Digits, Note, Severity, Table};
use crate::labels::offered;
use crate::merged::MISSED;
use crate::notes;
use crate::number::count;
use crate::page::measured::MeasuredSide;
use crate::tables::columns;
use crate::tables::row::TableRow;
use std::collections::BTreeSet;
use tripmeter_analysis::{MetricTable, Row};
use tripmeter_model::Pattern;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::Counts;
use tripmeter_model::metric::{At, Stream};
use tripmeter_model::trial::SHOWN_FOLLOWERS;
use tripmeter_model::trial::Trial;

/// A load at one follower.
struct FollowerLine<'a> {
    row: TableRow<'a>,
    stream: &'a Stream,
    is_first_stream: bool,
}

/// Every line, by payload.
fn lines<'a>(side: &'a MeasuredSide<'a>) -> Vec<FollowerLine<'a>> {
    let rows = TableRow::rows(side, |plan| plan.pattern == Pattern::Throughput).into_iter();
    let of_row = |row: TableRow<'a>| {
        let streams = followers(&side.metrics, row.row).into_iter().enumerate();
        streams.map(move |(place, stream)| FollowerLine { row, stream, is_first_stream: place == 0 })
    };
    rows.flat_map(of_row).collect()
}

/// Each of several followers up to the last that is shown, or the only one.
fn followers(metrics: &MetricTable, row: Row) -> Vec<&Stream> {
    let mut streams = metrics.streams(row, Figure::ReceivedRate);
    if streams.len() > 1 {
        streams.retain(|stream| stream.at.is_some());
        streams.truncate(SHOWN_FOLLOWERS);
    }
    streams
}

impl FollowerLine<'_> {
    fn follower(&self) -> u32 {
        if let Some(At::Follower(index)) = self.stream.at { index } else { 0 }
    }

    /// Counts of messages, per round.
    fn counts(&self) -> Vec<(u32, Counts)> {
        self.row.counts(self.stream)
    }

    fn damaged(&self) -> u64 {
        self.counts().iter().map(|(_, counts)| counts.damaged).fold(0, u64::saturating_add)
    }

    fn is_all_lost(&self) -> bool {
        self.counts().iter().any(|(_, counts)| counts.is_all_lost())
    }

    /// `*` if it is not good.
    fn star(&self) -> &'static str {
        let is_cut_short = self.row.trials().any(|(_, trial)| trial.cut_short.is_some());
        let beside = if self.is_first_stream { self.row.damaged_beside() } else { 0 };
        if is_cut_short || self.damaged().max(beside) > 0 || self.is_all_lost() { "*" } else { "" }
    }

    fn offered(&self) -> String {
        offered(self.row.load())
    }

    fn cells(&self) -> Vec<Cell> {
        let row = self.row;
        let arrived = |figure| row.of(row.get(self.stream, figure, Statistic::Value));
        let offered = self.offered();
        let planned = row.sub.planned;
        let names = [planned.transport_text(), row.sub.wait_text(), planned.touch.to_string()];
        let mut cells = names.map(Cell::text).to_vec();
        cells.extend([
            Cell::number(row.row.payload_bytes as f64),
            if self.star().is_empty() { Cell::Text(offered) } else { Cell::Marked(self.star(), offered) },
            Cell::number(self.follower().into()),
            arrived(Figure::ReceivedRate).marked(row.mark(|trial| trial.rate_missed, MISSED)),
            arrived(Figure::ReceivedBytes),
            row.loss(self.stream),
        ]);
        cells.extend(row.latencies(self.stream, Figure::OneWay, &ONE_WAY));
        cells.extend([
            row.of(row.value(Figure::PublishedRate)),
            Cell::number(row.total(Figure::Refused)),
            Cell::number(self.damaged() as f64),
            row.proof(),
        ]);
        cells
    }

    /// A note that messages were timed one way, if they were.
    fn timed(&self) -> Option<Note> {
        let timed = self.row.value(Figure::OneWayTimed)?.folded();
        let streams = followers(self.row.metrics, self.row.row);
        let samples = |stream| self.row.get(stream, Figure::OneWay, Statistic::N);
        let samples = streams.iter().filter_map(|stream| samples(stream)).flat_map(|rounds| rounds.values);
        let samples = samples.fold(0.0, |sum, of_round| sum + of_round);
        let of_each =
            if streams.len() > 1 { format!(" to each of {} followers", streams.len()) } else { String::new() };
        let text = format!(
            "{}, {}: timed one way, which costs a clock reading per message at both sides: rates include it; one_way has \
             {samples} samples of {timed} timed messages{of_each}",
            self.place(),
            self.offered()
        );
        Some(Note::new(Severity::Info, "timed one way", Some(self.row.row), text))
    }

    fn place(&self) -> String {
        format!("{} {}", self.row.sub.planned.name, self.row.at_size())
    }

    /// Notes of trials that ended early or missed their rate.
    fn shortfalls(&self) -> Vec<Note> {
        let place = format!("{}, {}", self.place(), self.offered());
        let sent = self.row.get(self.stream, Figure::Sent, Statistic::Value);
        let of_trial = |(round, trial): &(u32, Trial)| {
            let cut_short = trial.cut_short.iter().map(|why| self.row.warning(format!("* {place}: {why}")));
            let behind = self.row.at(*round, Figure::Behind);
            let late =
                format!("{behind} of {} messages were sent late", sent.and_then(|sent| sent.at(*round)).unwrap_or(0.0));
            let published = count(self.row.at(*round, Figure::PublishedRate));
            let late = match trial.rate_missed {
                true => Some(
                    self.row.rate_missed(format!("! {place}: RATE MISSED: {published} messages /s were sent, {late}")),
                ),
                false => {
                    (behind > 0.0).then(|| Note { kind: notes::SENT_LATE, ..self.row.info(format!("{place}: {late}")) })
                }
            };
            cut_short.chain(late).collect::<Vec<_>>()
        };
        self.row.trials().flat_map(of_trial).collect()
    }

    /// Notes on late, damaged, duplicated and reordered messages.
    fn mishaps(&self) -> Vec<Note> {
        let of_round = |(_, counts): &(u32, Counts)| Counts { lost: 0, ..*counts };
        let odd = self.counts().iter().map(of_round).filter(notes::odd).collect::<Vec<_>>();
        let text = |counts| format!("{}, {}: {}", self.place(), self.offered(), notes::mishaps(counts, false));
        odd.iter().map(|counts| self.row.info(text(counts))).collect()
    }
}

/// The table; without a row if nothing was measured under this pattern.
pub fn table(title: String, side: &MeasuredSide<'_>) -> Table {
    let lines = lines(side);
    let has_missed = lines.iter().any(|line| side.metrics.is_rate_missed(line.row.row));
    let rows: Vec<_> = lines.iter().map(|line| (Some(line.row.row), line.cells())).collect();
    Table::new(title, columns(has_missed), rows).grouped_by_payload()
}

fn columns(has_missed: bool) -> Vec<Column> {
    let words = |id, title| Column::words(id, title, "");
    let rate = |figure: Figure, title, unit, help| Column::numbers(figure.id(), title, unit, Digits::Rate, help);
    let one_way = |statistic: Statistic, help| {
        let (id, title) = (format!("one_way_{statistic}_ns"), format!("one_way\n{statistic}"));
        Column::numbers(&id, &title, "µs", Digits::Fixed(3), help).if_any()
    };
    let bytes = "payload bytes that arrived intact, per second; MB = 1000000 bytes";
    vec![
        words("transport", "transport"),
        words("wait", "wait"),
        words("touch", "touch"),
        columns::payload_head(),
        Column {
            is_right: true,
            ..Column::words(
                "offered",
                "offered",
                "max = as fast as it goes; n /s = evenly; search = the highest rate found with no more loss; n per t = \
                 bursts of n messages, t from begin to begin",
            )
        },
        Column::numbers("follower", "follower", "", Digits::Integer, ""),
        rate(Figure::ReceivedRate, "received", "msg/s", if has_missed { MISSED_HELP } else { RECEIVED_HELP }),
        Column { divisor: 1e6, ..rate(Figure::ReceivedBytes, "received", "MB/s", bytes) },
        Column::numbers("loss", "loss", "%", Digits::Percent, "messages lost or damaged, of those sent"),
        one_way(ONE_WAY[0], ONE_WAY_HELP),
        one_way(ONE_WAY[1], ""),
        one_way(ONE_WAY[2], ""),
        rate(Figure::PublishedRate, "published", "msg/s", "messages sent per second, which is no throughput"),
        Column::numbers(
            Figure::Refused.id(),
            "refused",
            "n",
            Digits::Integer,
            "how often the transport was full (back-pressure)",
        ),
        columns::damaged(),
        columns::path_proof_head(),
    ]
}

const RECEIVED_HELP: &str = "intact messages that arrived, each counted once, per second from the first sending to the last \
                             arrival: the throughput";
const MISSED_HELP: &str = "intact messages that arrived, each counted once, per second from the first sending to the last \
                           arrival: the throughput; !: the rate was missed";

/// Statistics shown of latencies one way.
const ONE_WAY: [Statistic; 3] = [Statistic::P50, Statistic::P99, Statistic::Max];
const ONE_WAY_HELP: &str =
    "from before a message was sent to its arrival, a clock read at both ends, of messages that arrived";

/// Of each row that is not good, at any follower, the mark `*`.
pub fn stars(side: &MeasuredSide<'_>) -> BTreeSet<Row> {
    lines(side).iter().filter(|line| !line.star().is_empty()).map(|line| line.row.row).collect()
}

/// Notes on trials and messages of these loads.
pub fn notes(side: &MeasuredSide<'_>) -> Vec<Note> {
    let lines = lines(side);
    let all_lost = lines.iter().filter(|line| line.is_all_lost());
    let warm_up = lines.iter().filter(|line| line.is_first_stream).filter_map(|line| line.row.warm_up());
    let all_lost = all_lost.map(|line| line.row.nothing_arrived(format!("* {}: {}", line.place(), notes::ALL_LOST)));
    let trials = || lines.iter().filter(|line| line.follower() == 0);
    let of_trials = trials().flat_map(FollowerLine::shortfalls).chain(trials().filter_map(FollowerLine::timed));
    of_trials.chain(all_lost).chain(lines.iter().flat_map(FollowerLine::mishaps)).chain(warm_up).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, all, put, trial_of};
    use crate::render::json;
    use tripmeter_model::manifest::Manifest;
    use tripmeter_model::pace::{Burst, OfferedLoad};
    use tripmeter_model::workload::Workload;

    /// A trial of each load; so many of 1000 messages come to each follower.
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
        assert!(text.starts_with("All transports, pattern throughput\n") && text.contains("which is no throughput"));
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
        let note = "udp_throughput at 1k, max: timed one way, which costs a clock reading per message at both sides: rates \
                    include it; one_way has 498 samples of 500 timed messages";
        assert!(rows.iter().any(|row| row == note), "{text}");
        let first = crate::render::Text::default().render(&crate::screen::screen(&manifest, false));
        assert!(first.contains("µs, one way, since sent") && first.contains("2.00 4.00"), "{first}");
        assert!(first.contains("timed one way, which costs"), "{first}");
        let without = all(&measured(&[OfferedLoad::Max], &[1000]));
        assert!(!without.contains("one_way p50") && !without.contains("timed one way"), "{without}");
    }

    #[test]
    fn what_went_wrong_is_noted() {
        let mut manifest = measured(&[OfferedLoad::Max], &[900]);
        let trial = trial_of(&mut manifest, 0);
        trial.cut_short = Some("interrupted".to_owned());
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
        let missed = "! udp_throughput at 1k, 2500 /s: RATE MISSED: 111111 messages /s were sent, 17 of 1000 messages were \
                      sent late";
        assert!(text.lines().any(|line| line == missed) && text.contains("!: the rate was missed"), "{text}");
        assert_eq!(text.matches("sent late").count(), 1, "{text}");
        let text = first(&manifest, false);
        assert!(fixture::rows_of(&text, "udp/loopback")[0].ends_with(" !100 !102"), "{text}");
        assert!(text.contains("RATE MISSED"), "{text}");
        trial_of(&mut manifest, 0).cut_short = Some("interrupted".to_owned());
        let text = first(&manifest, false);
        assert!(fixture::rows_of(&text, "udp/loopback")[0].ends_with(" *!100 !102"), "{text}");
        trial_of(&mut manifest, 0).rate_missed = false;
        let text = first(&manifest, false);
        assert!(fixture::rows_of(&text, "udp/loopback")[0].ends_with(" *100 102"), "{text}");
    }
}
