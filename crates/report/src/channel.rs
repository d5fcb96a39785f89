//! The table of pattern `channel`: latencies one way at a fixed rate, from the intended and from the actual sending.

use crate::lines::{self, Lines, latency_columns, used_columns};
use crate::merged::Merged;
use crate::notes::{self, proof};
use crate::throughput::{count, offer, offered, share, too_late};
use std::cmp::Reverse;
use tripmeter_model::channel::{ChannelTrial, FollowerTrial, Latency, LatencyBounds, SHOWN_FOLLOWERS, Used};
use tripmeter_model::manifest::Counts;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::payload::display_size;
use tripmeter_model::plan::SubExperiment;
use tripmeter_stats::losses::{Losses, gone};

const HEADER: [&str; 22] = [
    "transport",
    "wait",
    "touch",
    "payload\n[bytes]",
    "topics\n[n]",
    "publishers\n[n]",
    "offered\n[/s]",
    "achieved\n[/s]",
    "time",
    "average\n[µs]",
    "p50\n[µs]",
    "p90\n[µs]",
    "p99\n[µs]",
    "p99.9\n[µs]",
    "max\n[µs]",
    "loss\n[%]",
    "late/dup.\n[n]",
    "CPU\n[%]",
    "switches\n[/s]",
    "faults\n[/msg]",
    "memory\n[MB]",
    "path\nproof",
];
/// Columns that name the row.
const NAMING: usize = 8;

/// What the columns mean.
pub const LEGEND: &str = "\
time: response = from when a message was to be sent until it came, service = from when it was sent; one way, two
readings of one clock. publishers: of each topic. offered, achieved: messages per second of each of them, to be sent and
sent; !: the rate was missed. With several followers, response and service end when the last of them has the message;
service to i ends at follower i. The first 16 followers have lines.
loss: messages lost, late or damaged, in per cent of the messages sent; late/dup.: messages that came after the loss
time-out, and messages that came more than once. CPU: user and system, in per cent of one core; switches: context switches; faults: page faults per message;
memory: the most that was resident, our buffers of samples included, MB = 1000000 bytes. The line of response has these
four of the publishing process, the line of service of the subscribing one; with several followers, their sum, and the
memory of the largest.
below figures: intervals at 95 %, over rounds, or of quantiles within this one run; of the loss from the least to the most of
a round, of one round or without a loss by Clopper and Pearson as if messages were lost one by one.
";

/// The lines of one rate.
pub type Row<'a> = lines::Row<'a, ChannelTrial>;

/// Every rate, by payload.
pub fn rows<'a>(subs: &'a [Merged<'a>]) -> Vec<Row<'a>> {
    lines::rows(
        subs,
        |cell| &cell.channel,
        |plan| {
            plan.channel
                .as_ref()
                .map(|flow| &flow.offers)
                .filter(|offers| offers.recorded.is_none())
                .map(|offers| offers.loads().len())
        },
    )
}

/// Whether it did not end as planned: messages came damaged, for instance, or none at all.
fn is_bad(trial: &ChannelTrial) -> bool {
    trial.cut_short.is_some() || trial.counts.damaged > 0 || trial.is_all_lost()
}

impl Row<'_> {
    /// How its messages were offered.
    pub fn load(&self) -> OfferedLoad {
        self.trials.first().map_or(OfferedLoad::Closed, |trial| trial.load())
    }

    fn damaged(&self) -> u64 {
        self.counts().damaged + self.damaged_beside
    }

    fn counts(&self) -> Counts {
        self.trials.iter().fold(Counts::default(), |sum, trial| sum + trial.counts)
    }

    /// Per round: messages that did not come in time and intact, and messages sent.
    pub fn lost(&self) -> Vec<Losses> {
        self.trials().map(|trial| gone(&trial.counts)).collect()
    }

    fn lines(&self) -> Vec<[String; HEADER.len()]> {
        let planned = self.sub.planned;
        let same_process = if self.sub.same_process() { " (same process)" } else { "" };
        let mut response = self.line(
            "response",
            |trial| trial.response_ns,
            |trial| trial.response_within_run_ns,
            |trial| Some(trial.publisher),
        );
        let naming: [String; NAMING] = [
            format!("{}{same_process}{}", planned.transport, to_several(planned)),
            planned.wait.to_string(),
            planned.touch.to_string(),
            display_size(self.payload_bytes),
            planned.follower_links().to_string(),
            planned.publishers().to_string(),
            format!("{}{}", if self.damaged_beside > 0 { "*" } else { self.mark(is_bad, "*") }, offered(&self.load())),
            format!("{}{}", self.mark(|trial| trial.rate_missed, "!"), self.rate(|trial| trial.achieved_hz)),
        ];
        response[..NAMING].clone_from_slice(&naming);
        let counts = self.counts();
        response[HEADER.len() - 7] = share(&self.lost());
        response[HEADER.len() - 6] = format!("{}/{}", counts.late, counts.duplicated);
        response[HEADER.len() - 1] = proof(self.sub).to_owned();
        let service = self.line(
            "service",
            |trial| trial.service_ns,
            |trial| trial.service_within_run_ns,
            |trial| trial.subscriber,
        );
        let followers = self.trials.first().map_or(0, |trial| trial.followers.len());
        let to = |follower: usize| {
            let latency = |trial: &ChannelTrial| trial.followers.get(follower)?.service_ns;
            let mut line = self.line(&format!("service to {follower}"), latency, |_| None, |_| None);
            line[HEADER.len() - 7] = share(&self.lost_to(follower));
            line[HEADER.len() - 5..HEADER.len() - 1].fill(String::new());
            line
        };
        [response, service].into_iter().chain((0..followers.min(SHOWN_FOLLOWERS)).map(to)).collect()
    }

    /// Per round: messages that did not come to that follower in time and intact, and messages sent.
    fn lost_to(&self, follower: usize) -> Vec<Losses> {
        self.trials().filter_map(|trial| Some(gone(&trial.followers.get(follower)?.counts))).collect()
    }

    fn line(
        &self,
        time: &str,
        latency: impl Fn(&ChannelTrial) -> Option<Latency>,
        within: fn(&ChannelTrial) -> Option<LatencyBounds>,
        used: fn(&ChannelTrial) -> Option<Used>,
    ) -> [String; HEADER.len()] {
        let latencies: Vec<Latency> = self.trials.iter().filter_map(|trial| latency(trial)).collect();
        let used: Vec<(Used, u64)> =
            self.trials.iter().filter_map(|trial| Some((used(trial)?, trial.counts.sent))).collect();
        let [mean, p50, p90, p99, p999, max] =
            latency_columns(&latencies, self.sub.rounds, self.trials.first().and_then(|trial| within(trial)));
        let [cpu, switches, faults, memory] = used_columns(&used, self.sub.rounds);
        let (loss, odd) = (String::new(), String::new());
        let figures = [time.to_owned(), mean, p50, p90, p99, p999, max, loss, odd, cpu, switches, faults, memory];
        let mut line = [const { String::new() }; HEADER.len()];
        line[NAMING..HEADER.len() - 1].clone_from_slice(&figures);
        line
    }
}

pub fn has_damage(rows: &[Row<'_>]) -> bool {
    rows.iter().any(|row| row.damaged() > 0)
}

/// The table itself.
pub fn table(rows: &[Row<'_>]) -> String {
    let lines = |row: &Row<'_>| Lines { payload_bytes: row.payload_bytes, damaged: row.damaged(), lines: row.lines() };
    lines::draw(HEADER, &[NAMING], &rows.iter().map(lines).collect::<Vec<_>>())
}

/// Lines for what keeps these figures from being good.
pub fn notes(rows: &[Row<'_>]) -> Vec<String> {
    rows.iter().flat_map(Row::notes).collect()
}

impl Row<'_> {
    fn notes(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let (name, size) = (&self.sub.planned.name, display_size(self.payload_bytes));
        let (load, late) = (offer(&self.load()), too_late(&self.load()));
        let place = format!("{name} at {size}, {load}");
        lines.extend(self.shortfalls.iter().map(|why| format!("* {name} at {size}: {why}")));
        for trial in &self.trials {
            if let Some(why) = &trial.cut_short {
                lines.push(format!("* {place}: {why}"));
            }
            if trial.rate_missed {
                let what = if self.sub.planned.publishers() > 1 { "publisher" } else { "topic" };
                let (behind, sent, slowest) = (trial.behind, trial.counts.sent, count(trial.slowest_hz));
                lines.push(format!(
                    "! {place}: RATE MISSED: the slowest {what} sent {slowest} /s, {behind} of {sent} messages were sent \
                     more than {late} late"
                ));
            }
            if trial.refused > 0 {
                lines.push(format!("{place}: the transport was full {} times", trial.refused));
            }
            if trial.before_sent > 0 {
                let count = trial.before_sent;
                lines.push(format!("{place}: {count} messages came before they were sent, by the clock: left out"));
            }
        }
        for trial in &self.trials {
            for one in &trial.publishers {
                if notes::odd(&one.counts) || one.counts.lost > 0 {
                    lines.push(format!("{place}, publisher {}: {}", one.publisher, notes::mishaps(&one.counts)));
                }
            }
        }
        lines.extend(self.trials.iter().flat_map(|trial| at_followers(&place, trial)));
        let counts = self.counts();
        if counts.sent > 0 && counts.received == 0 {
            lines.push(format!("* {place}: {}", notes::ALL_LOST));
        }
        if notes::odd(&counts) || counts.lost > 0 {
            lines.push(format!("{place}: {}", notes::mishaps(&counts)));
        }
        lines
    }
}

/// ` to 3 followers`.
pub fn to_several(planned: &SubExperiment) -> String {
    if planned.is_fan_out() { format!(" to {} followers", planned.followers) } else { String::new() }
}

/// A note for each follower with lost, late, damaged, duplicated or reordered messages, worst first.
pub fn at_followers(place: &str, trial: &ChannelTrial) -> Vec<String> {
    let is_odd = |one: &&FollowerTrial| notes::odd(&one.counts) || one.counts.lost > 0;
    let mut odd: Vec<&FollowerTrial> = trial.followers.iter().filter(is_odd).collect();
    odd.sort_by_key(|one| Reverse(gone(&one.counts).0));
    let line = |one: &&FollowerTrial| format!("{place}, to follower {}: {}", one.follower, notes::mishaps(&one.counts));
    let mut lines: Vec<String> = odd.iter().take(SHOWN_FOLLOWERS).map(line).collect();
    if odd.len() > SHOWN_FOLLOWERS {
        lines.push(format!(
            "{place}: {} more followers have such messages, none of which lacks more",
            odd.len() - SHOWN_FOLLOWERS
        ));
    }
    lines
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::fixture::{self, all};
    use tripmeter_model::Pattern;
    use tripmeter_model::manifest::Manifest;
    use tripmeter_model::pace::Offers;

    fn latency(us: f64) -> Latency {
        let [min, median, mean, p90, p99, p999, max] = [0.5, 1.0, 1.1, 1.5, 2.0, 3.0, 10.0].map(|f| f * us * 1000.0);
        Latency { samples: 1000, min, mean, median, p90, p99, p999, max }
    }

    /// One sub-experiment at 1 kB on four topics.
    pub fn measured(transport: &str, rates_hz: &[f64]) -> Manifest {
        let mut manifest = fixture::manifest();
        let plan = fixture::add(&mut manifest, "uds_channel", transport, &[1024]);
        plan.pattern = Pattern::Channel;
        plan.channel = Some(tripmeter_model::channel::Flow::of_topics(Offers::rates(rates_hz.to_vec()), 4));
        let used = |cpu_time_ns, peak_memory_bytes| Used {
            window_ns: 1_000_000_000,
            cpu_time_ns,
            voluntary_switches: 4000,
            involuntary_switches: 2,
            page_faults: 25,
            peak_memory_bytes,
        };
        let trial = |offered_hz: &f64| ChannelTrial {
            offered_hz: *offered_hz,
            burst: None,
            achieved_hz: *offered_hz,
            slowest_hz: *offered_hz,
            rate_missed: false,
            behind: 0,
            refused: 0,
            counts: Counts { sent: 1000, received: 1000, ..Counts::default() },
            before_sent: 0,
            response_ns: Some(latency(60.0)),
            service_ns: Some(latency(10.0)),
            lateness_ns: Some(latency(50.0)),
            response_within_run_ns: None,
            service_within_run_ns: None,
            lateness_within_run_ns: None,
            response_series: None,
            service_series: None,
            duration_ns: 1_000_000_000,
            cut_short: None,
            publisher: used(31_000_000, 12_345_678),
            subscriber: Some(used(12_000_000, 9_000_000)),
            topics: Vec::new(),
            publishers: Vec::new(),
            followers: Vec::new(),
        };
        let result = fixture::result(&mut manifest, "uds_channel", 1, &[(1024, 1000.0)]);
        let cell = &mut result.cells[0];
        (cell.rtt_ns, cell.rtt_half_ns) = (None, None);
        cell.channel = rates_hz.iter().map(trial).collect();
        manifest
    }

    fn squeezed(text: &str) -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn both_times_and_both_sides_of_each_rate() {
        let text = all(&measured("uds/stream", &[1000.0, 50.0]));
        let lines = squeezed(&text);
        assert!(text.starts_with("All transports, pattern channel\n"), "{text}");
        for line in [
            "uds/stream poll none 1k 4 1 1000 1000 response 66.000 60.000 90.000 120.000 180.000 600.000 0 0/0 3.1 4002 0.025 12.3 ok",
            "uds/stream poll none 1k 4 1 50.0 50.0 response 66.000 60.000 90.000 120.000 180.000 600.000 0 0/0 3.1 4002 0.025 12.3 ok",
            "service 11.000 10.000 15.000 20.000 30.000 100.000 1.2 4002 0.025 9.0",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.contains(LEGEND) && !text.contains("rtt_half"), "{text}");
    }

    #[test]
    fn each_of_several_followers_has_a_line_up_to_the_sixteenth() {
        let mut manifest = measured("zenoh/tcp", &[1000.0]);
        manifest.plan.sub_experiments[0].followers = 20;
        let trial = &mut manifest.sub_experiments[0].cells[0].channel[0];
        let counts = |follower| Counts { sent: 1000, received: 1000 - follower, lost: follower, ..Counts::default() };
        let at = |follower: u32| FollowerTrial {
            follower,
            counts: counts(follower.into()),
            response_ns: Some(latency(60.0)),
            service_ns: Some(latency(f64::from(follower) + 1.0)),
        };
        (trial.counts, trial.followers) = (counts(19), (0..20).map(at).collect());
        let text = all(&manifest);
        let lines = squeezed(&text);
        for line in [
            "zenoh/tcp to 20 followers poll none 1k 4 1 1000 1000 response",
            "service to 0 1.100 1.000 1.500 2.000 3.000 10.000 0",
            "service to 15 17.600 16.000 24.000 32.000 48.000 160.000 1.5",
            "uds_channel at 1k, 1000 /s, to follower 19: 19 lost",
            "uds_channel at 1k, 1000 /s: 3 more followers have such messages, none of which lacks more",
        ] {
            assert!(lines.iter().any(|found| found.starts_with(line)), "{line}\n{text}");
        }
        assert!(!text.contains("service to 16") && !text.contains("rtt of last"), "{text}");
    }

    #[test]
    fn a_rate_that_was_missed_and_messages_gone_astray_are_said() {
        let mut manifest = measured("udp/loopback", &[1000.0]);
        let trial = &mut manifest.sub_experiments[0].cells[0].channel[0];
        (trial.achieved_hz, trial.slowest_hz, trial.rate_missed, trial.behind) = (800.0, 700.0, true, 123);
        (trial.counts.received, trial.counts.lost, trial.counts.duplicated) = (996, 4, 2);
        (trial.cut_short, trial.subscriber) = (Some("time cap".to_owned()), None);
        manifest.plan.sub_experiments[0].channel.as_mut().unwrap().offers.rates_hz.push(9.0);
        manifest.sub_experiments[0].cells[0].cut_short = Some("time cap: 1 of 2 rates".to_owned());
        let text = all(&manifest);
        let lines = squeezed(&text);
        for line in [
            "! uds_channel at 1k, 1000 /s: RATE MISSED: the slowest topic sent 700 /s, 123 of 1000 messages were sent more \
             than a period late",
            "* uds_channel at 1k, 1000 /s: time cap",
            "* uds_channel at 1k: time cap: 1 of 2 rates",
            "uds_channel at 1k, 1000 /s: 4 lost, 2 duplicated",
            "service 11.000 10.000 15.000 20.000 30.000 100.000 - - - -",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line}\n{text}");
        }
        assert!(
            lines.iter().any(|line| line.contains(" 4 1 *1000 !800 response ") && line.contains(" 0.4 0/2 ")),
            "{text}"
        );
    }
}
