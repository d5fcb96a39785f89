//! The table of pattern `throughput`: what was offered, and what arrived of it.

use crate::interval::{self, TOO_SMALL};
use crate::lines::latency_columns;
use crate::merged::{Merged, MergedCell};
use crate::notes::{self, proof};
use crate::trips::DAMAGED_HEADER;
use comfy_table::{CellAlignment, LineStyle, Table, presets};
use tripmeter_model::Pattern;
use tripmeter_model::channel::Latency;
use tripmeter_model::pace::{Burst, OfferedLoad};
use tripmeter_model::payload::display_size;
use tripmeter_model::throughput::{Arrival, Trial};
use tripmeter_stats::losses::{Losses, interval as interval_of, sum};

const HEADER: [&str; 12] = [
    "transport",
    "wait",
    "touch",
    "payload\n[bytes]",
    "offered",
    "follower",
    "received\n[msg/s]",
    "received\n[MB/s]",
    "loss\n[%]",
    "published\n[msg/s]",
    "refused\n[n]",
    "path\nproof",
];

/// Where columns are inserted: behind the loss.
const ONE_WAY_PLACE: usize = 9;
/// The columns where messages were timed one way.
const ONE_WAY_HEADER: [&str; 3] = ["one_way\np50 [µs]", "one_way\np99 [µs]", "one_way\nmax [µs]"];

/// What the columns mean.
pub const LEGEND: &str = "\
received: intact messages that arrived, counted by their numbers, per second from the first sending until the last
arrival: the throughput. MB = 1000000 bytes of payload. loss: messages lost or damaged, of those sent.
published: messages sent per second, which is no throughput. refused: how often the transport was full (back-pressure).
offered: max = as fast as it goes; n /s = evenly; search = the highest rate found with no more loss than that;
n per t = bursts of n messages, t from the begin of one to the begin of the next. one_way, where it was asked for: from before
a message was sent to its arrival, two readings of one clock, of messages that arrived.
below figures: intervals at 95 %; of rates over rounds (n too small = fewer than 6; one round has none); of the loss from
the least to the most of a round, of one round or without a loss by Clopper and Pearson as if messages were lost one by one.
";

/// What bursts mean where streams have them.
pub const BURSTS_LEGEND: &str = "\
n per t: bursts of n on each topic, or of each publisher or client, t from the begin of one to the begin of the next; all
messages of a burst are due when it begins. achieved: their mean rate.
";

/// One line: a trial, at one follower.
pub struct Row<'a> {
    sub: &'a Merged<'a>,
    payload_bytes: u64,
    follower: usize,
    /// The same trial of each round.
    trials: Vec<&'a Trial>,
    /// At the first trial: messages that came damaged beside all trials, in a warm-up for instance.
    damaged_beside: u64,
}

/// True if a sub-experiment is of this table.
pub fn is_of(sub: &Merged<'_>) -> bool {
    sub.planned.pattern == Pattern::Throughput
}

/// Every line, by payload.
pub fn rows<'a>(subs: &'a [Merged<'a>]) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for sub in subs.iter().filter(|sub| is_of(sub)) {
        for MergedCell { payload_bytes, cells } in sub.payloads() {
            let most = cells.iter().map(|cell| cell.trials.len()).max().unwrap_or(0);
            let mut damaged_beside = cells.iter().map(|cell| cell.damaged_beside()).sum();
            for index in 0..most {
                let trials: Vec<&Trial> = cells.iter().filter_map(|cell| cell.trials.get(index)).collect();
                let followers = trials.iter().map(|trial| trial.followers.len()).max().unwrap_or(0);
                rows.extend((0..followers).map(|follower| Row {
                    sub,
                    payload_bytes,
                    follower,
                    trials: trials.clone(),
                    damaged_beside: std::mem::take(&mut damaged_beside),
                }));
            }
        }
    }
    rows.sort_by_key(|row| row.payload_bytes);
    rows
}

impl Row<'_> {
    fn arrivals(&self) -> impl Iterator<Item = &Arrival> {
        self.trials.iter().filter_map(|trial| trial.followers.get(self.follower))
    }

    /// With its interval over rounds; that of one round has none.
    fn of_arrivals(&self, figure: fn(&Arrival) -> f64) -> String {
        interval::figure(&self.arrivals().map(figure).collect::<Vec<_>>(), self.sub.rounds, None, count)
    }

    fn of_trials(&self, figure: fn(&Trial) -> f64) -> String {
        let each: Vec<f64> = self.trials.iter().map(|trial| figure(trial)).collect();
        interval::figure(&each, self.sub.rounds, None, count)
    }

    /// Lost and damaged of all rounds, of what was sent.
    fn loss(&self) -> String {
        let of_round = |arrival: &Arrival| {
            let gone = arrival.lost + arrival.damaged;
            (gone, gone + arrival.received)
        };
        share(&self.arrivals().map(of_round).collect::<Vec<_>>())
    }

    /// Median, 99th percentile and maximum of all rounds.
    fn one_way(&self) -> [String; 3] {
        let latencies: Vec<Latency> = self.arrivals().filter_map(|arrival| arrival.one_way_ns).collect();
        let [_, p50, _, p99, _, max] = latency_columns(&latencies, self.sub.rounds, None);
        [p50, p99, max]
    }

    fn has_one_way(&self) -> bool {
        self.trials.iter().any(|trial| trial.one_way_samples.is_some())
    }

    fn is_cut_short(&self) -> bool {
        self.trials.iter().any(|trial| trial.cut_short.is_some())
    }

    fn damaged(&self) -> u64 {
        self.arrivals().map(|arrival| arrival.damaged).sum::<u64>() + self.damaged_beside
    }

    fn is_all_lost(&self) -> bool {
        self.arrivals().zip(&self.trials).any(|(arrival, trial)| trial.sent > 0 && arrival.received == 0)
    }

    fn columns(&self) -> Vec<String> {
        let planned = self.sub.planned;
        let short = if self.is_cut_short() || self.damaged() > 0 || self.is_all_lost() { "*" } else { "" };
        vec![
            planned.transport.to_string(),
            planned.wait.to_string(),
            planned.touch.to_string(),
            display_size(self.payload_bytes),
            format!("{short}{}", self.trials.first().map_or(String::new(), |trial| offer(&trial.offer))),
            self.follower.to_string(),
            self.of_arrivals(|arrival| arrival.received_hz),
            self.of_arrivals(|arrival| arrival.received_bytes_per_s / 1e6),
            self.loss(),
            self.of_trials(|trial| trial.published_hz),
            self.trials.iter().map(|trial| trial.refused).sum::<u64>().to_string(),
            proof(self.sub).to_owned(),
        ]
    }
}

pub fn has_damage(rows: &[Row<'_>]) -> bool {
    rows.iter().any(|row| row.damaged() > 0)
}

/// The table itself.
pub fn table(rows: &[Row<'_>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING.header_separator(LineStyle::none().fill('-').junction('-')));
    let mut header = HEADER.to_vec();
    let (damaged, one_way) = (has_damage(rows), rows.iter().any(Row::has_one_way));
    if one_way {
        header.splice(ONE_WAY_PLACE..ONE_WAY_PLACE, ONE_WAY_HEADER);
    }
    if damaged {
        header.insert(header.len() - 1, DAMAGED_HEADER);
    }
    let width = header.len();
    table.set_header(header);
    let mut last_payload = None;
    for row in rows {
        if last_payload.is_some_and(|last| last != row.payload_bytes) {
            table.add_row(vec![""; width]);
        }
        last_payload = Some(row.payload_bytes);
        let mut columns = row.columns();
        if one_way {
            columns.splice(ONE_WAY_PLACE..ONE_WAY_PLACE, row.one_way());
        }
        if damaged {
            columns.insert(columns.len() - 1, row.damaged().to_string());
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

/// Lines for what keeps these figures from being good.
pub fn notes(rows: &[Row<'_>]) -> Vec<String> {
    let mut lines = Vec::new();
    for row in rows.iter().filter(|row| row.follower == 0) {
        let place = || format!("{} at {}", row.sub.planned.name, display_size(row.payload_bytes));
        for trial in &row.trials {
            let offer = offer(&trial.offer);
            if let Some(why) = &trial.cut_short {
                lines.push(format!("* {}, {offer}: {why}", place()));
            }
            if trial.behind > 0 {
                let (behind, sent) = (trial.behind, trial.sent);
                lines.push(format!("{}, {offer}: {behind} of {sent} messages were sent late", place()));
            }
        }
    }
    lines.extend(timed(rows));
    for row in rows.iter().filter(|row| row.is_all_lost()) {
        lines.push(format!("* {} at {}: {}", row.sub.planned.name, display_size(row.payload_bytes), notes::ALL_LOST));
    }
    for row in rows {
        for (arrival, trial) in row.arrivals().zip(&row.trials) {
            let Arrival { duplicated, reordered, damaged, .. } = *arrival;
            let counts = tripmeter_model::manifest::Counts { duplicated, reordered, damaged, ..Default::default() };
            if notes::odd(&counts) {
                let (name, size) = (&row.sub.planned.name, display_size(row.payload_bytes));
                lines.push(format!("{name} at {size}, {}: {}", offer(&trial.offer), notes::mishaps(&counts)));
            }
        }
    }
    lines
}

/// A line for each trial whose messages were timed: its rates are not those of others.
pub fn timed(rows: &[Row<'_>]) -> Vec<String> {
    let line = |row: &Row<'_>| {
        let sent: u64 = row.trials.iter().map(|trial| trial.sent).sum();
        let samples = row.trials.iter().filter_map(|trial| trial.one_way_samples);
        let samples: u64 = samples.map(|samples| samples.messages).sum();
        let offer = row.trials.first().map_or(String::new(), |trial| offer(&trial.offer));
        format!(
            "{} at {}, {offer}: timed one way, which costs a clock reading a message at both sides: rates are of such a run; \
             one_way is of {samples} of {sent} messages",
            row.sub.planned.name,
            display_size(row.payload_bytes)
        )
    };
    rows.iter().filter(|row| row.follower == 0 && row.has_one_way()).map(line).collect()
}

/// An offer for people.
pub fn offer(offer: &OfferedLoad) -> String {
    match offer {
        OfferedLoad::Closed => "closed loop".to_owned(),
        OfferedLoad::Max => "max".to_owned(),
        OfferedLoad::Recorded => "recorded".to_owned(),
        OfferedLoad::Rate { hz } => format!("{} /s", count(*hz)),
        OfferedLoad::Search { loss_bound } => format!("search {} %", percent(*loss_bound)),
        OfferedLoad::Burst(Burst { size, gap_ns }) => format!("{size} per {} ms", *gap_ns as f64 / 1e6),
    }
}

/// The same in a column of messages per second.
pub fn offered(load: &OfferedLoad) -> String {
    match load {
        OfferedLoad::Closed => "-".to_owned(),
        OfferedLoad::Rate { hz } => count(*hz),
        load => offer(load),
    }
}

/// A sentence for what is behind: more than this late.
pub fn too_late(load: &OfferedLoad) -> &'static str {
    if load.burst().is_some() { "a gap between bursts" } else { "a period" }
}

/// At least three digits, and no decimals that nobody reads.
pub fn count(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v if v >= 0.9995 => format!("{v:.2}"),
        v => format!("{v:.4}"),
    }
}

/// A share of what was lost in all rounds, in per cent, and below it its interval.
pub fn share(rounds: &[Losses]) -> String {
    let (lost, of) = sum(rounds);
    let interval = share_interval(rounds);
    interval.map_or("-".to_owned(), |interval| format!("{}\n{interval}", percent(lost as f64 / of as f64)))
}

/// The interval of that share in per cent; `None` of nothing.
pub fn share_interval(rounds: &[Losses]) -> Option<String> {
    let ends = interval_of(rounds)?.interval.map(|ends| ends.map(percent));
    Some(ends.map_or(TOO_SMALL.to_owned(), |[low, high]| format!("{low}..{high}")))
}

/// A share in per cent: 0 only if it is nothing at all.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0".to_owned(),
        p if p < 0.001 => "<0.001".to_owned(),
        p => format!("{}", (p * 1000.0).round() / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, all};
    use tripmeter_model::manifest::Manifest;
    use tripmeter_model::throughput::OneWaySamples;

    fn arrival(follower: u32, received: u64) -> Arrival {
        let received_hz = received as f64 * 100.0;
        Arrival {
            follower,
            received,
            lost: 1000 - received,
            duplicated: 0,
            reordered: 0,
            damaged: 0,
            subscription_ns: 10_000_000,
            received_hz,
            received_bytes_per_s: received_hz * 1024.0,
            one_way_ns: None,
        }
    }

    fn measured(offers: &[OfferedLoad], followers: Vec<Arrival>) -> Manifest {
        let mut manifest = fixture::manifest();
        fixture::add(&mut manifest, "udp_throughput", "udp/loopback", &[1024]).pattern = Pattern::Throughput;
        let result = fixture::result(&mut manifest, "udp_throughput", 1, &[(1024, 1000.0)]);
        let trial = |offer: &OfferedLoad| Trial {
            offer: *offer,
            offered_hz: None,
            sent: 1000,
            publication_ns: 9_000_000,
            published_hz: 111_111.1,
            refused: 3,
            behind: 0,
            cut_short: None,
            followers: followers.clone(),
            one_way_samples: None,
            searched: Vec::new(),
        };
        let cell = &mut result.cells[0];
        (cell.rtt_ns, cell.rtt_half_ns) = (None, None);
        cell.trials = offers.iter().map(trial).collect();
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
        let text = all(&measured(&offers, vec![arrival(0, 1000), arrival(1, 999)]));
        let rows: Vec<String> = text
            .lines()
            .filter(|line| line.starts_with("udp/loopback"))
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(rows.len(), 8, "{text}");
        assert_eq!(rows[0], "udp/loopback poll none 1k max 0 100000 102 0 111111 3 ok");
        assert_eq!(rows[1], "udp/loopback poll none 1k max 1 99900 102 0.1 111111 3 ok");
        for (row, label) in [(2, "2500 /s"), (4, "search 0.5 %"), (6, "10 per 2.5 ms")] {
            assert!(rows[row].contains(&format!(" 1k {label} 0 ")), "{}", rows[row]);
        }
        assert!(text.starts_with("All transports, pattern throughput\n") && text.contains("which is no throughput"));
        assert!(!text.contains("rtt_half"), "no table of round trips: {text}");
    }

    #[test]
    fn one_way_has_columns_and_a_note_where_it_was_measured() {
        let [min, median, mean, p90, p99, p999, max] = [1.0, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0].map(|us| us * 1000.0);
        let latency = Latency { samples: 498, min, median, mean, p90, p99, p999, max };
        let timed = Arrival { one_way_ns: Some(latency), damaged: 2, ..arrival(0, 998) };
        let mut manifest = measured(&[OfferedLoad::Max], vec![timed]);
        let samples = OneWaySamples { every: 2, messages: 500 };
        manifest.sub_experiments[0].cells[0].trials[0].one_way_samples = Some(samples);
        let text = all(&manifest);
        let rows: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert!(rows.iter().any(|row| row.contains(" 2.000 4.000 6.000 111111 3 2 ok")), "{text}");
        let note = "udp_throughput at 1k, max: timed one way, which costs a clock reading a message at both sides: rates are \
                    of such a run; one_way is of 500 of 1000 messages";
        assert!(rows.iter().any(|row| row == note), "{text}");
        let first = crate::render::Text::default().render(&crate::screen::screen(&manifest, false));
        assert!(first.contains("µs, one way, since sent") && first.contains("2.00 4.00"), "{first}");
        assert!(first.contains("timed one way, which costs"), "{first}");
        let without = all(&measured(&[OfferedLoad::Max], vec![arrival(0, 1000)]));
        assert!(!without.contains("p50 [µs]") && !without.contains("timed one way"), "{without}");
    }

    #[test]
    fn what_went_wrong_is_noted() {
        let mut manifest = measured(&[OfferedLoad::Max], vec![arrival(0, 900)]);
        let trial = &mut manifest.sub_experiments[0].cells[0].trials[0];
        (trial.cut_short, trial.behind) = (Some("interrupted".to_owned()), 17);
        (trial.followers[0].duplicated, trial.followers[0].reordered) = (2, 1);
        let text = all(&manifest);
        for line in [
            "* udp_throughput at 1k, max: interrupted",
            "udp_throughput at 1k, max: 17 of 1000 messages were sent late",
            "udp_throughput at 1k, max: 2 duplicated, 1 reordered",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn numbers_have_the_digits_that_one_reads() {
        let texts = [0.0, 0.1234, 1.234, 12.34, 99.96, 1_234_567.8].map(count);
        assert_eq!(texts, ["0", "0.1234", "1.23", "12.3", "100", "1234568"]);
        assert_eq!([0.0, 1e-7, 0.005, 0.123_456_7, 1.0].map(percent), ["0", "<0.001", "0.5", "12.346", "100"]);
    }
}
