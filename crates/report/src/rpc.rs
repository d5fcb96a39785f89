//! The table of pattern `rpc`: round trips of calls, and how many succeeded per second.

use crate::lines::{self, Lines, latency_columns, number, used_columns};
use crate::merged::Merged;
use crate::notes::{ALL_LOST, proof};
use crate::throughput::{count, offer, offered, too_late};
use tripmeter_model::channel::{Latency, LatencyBounds, Used};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::payload::display_size;
use tripmeter_model::rpc::{CallCounts, Mode, Pace, RpcTrial};
use tripmeter_stats::losses::Losses;

const HEADER: [&str; 23] = [
    "transport",
    "wait",
    "touch",
    "payload\n[bytes]",
    "clients\n[n]",
    "mode",
    "offered\n[/s]",
    "achieved\n[/s]",
    "QPS\n[/s]",
    "rtt",
    "average\n[µs]",
    "p50\n[µs]",
    "p90\n[µs]",
    "p99\n[µs]",
    "p99.9\n[µs]",
    "max\n[µs]",
    "timed out\n[n]",
    "failed\n[n]",
    "CPU\n[%]",
    "switches\n[/s]",
    "faults\n[/msg]",
    "memory\n[MB]",
    "path\nproof",
];
/// The columns of mode and rtt, which are words.
const WORDS: [usize; 2] = [5, 9];
/// Columns that name the row and its rate.
const NAMING: usize = WORDS[1];

/// What the columns mean.
pub const LEGEND: &str = "\
rtt: whole round trips of calls that succeeded, not halved; response = from when a call was to be made, service = from
when it was made; in mode bench each is made when the one before has ended, and there is no response time. one_way, where
it was asked for: from when a call was made until the request had come to the server, two readings of one clock. offered,
achieved: calls per second of each client, to be made and made; !: the rate was missed. QPS: calls that succeeded, per
second, of all clients. timed out: not answered in time; failed: ended by an error, or damaged. CPU: user and system, in
per cent of one core; switches: context switches; faults: page faults per call; memory: the most that was resident, our
buffers of samples included, MB = 1000000 bytes. These four are of the clients' process in the first line, and of the server's in the second.
below figures: intervals at 95 %, over rounds, or of quantiles within this one run; n too small = fewer than 6 rounds, or
calls too few; of timed out and failed in per cent of the calls, from the least to the most of a round, of one round or
without any by Clopper and Pearson as if calls failed one by one.
";

/// The lines of one trial.
pub type Row<'a> = lines::Row<'a, RpcTrial>;

/// Every trial, by payload.
pub fn rows<'a>(subs: &'a [Merged<'a>]) -> Vec<Row<'a>> {
    lines::rows(
        subs,
        |cell| &cell.rpc,
        |plan| {
            plan.rpc
                .as_ref()
                .map(|calls| &calls.offers)
                .filter(|offers| offers.recorded.is_none())
                .map(|offers| offers.loads().len())
        },
    )
}

/// Whether calls were made and none succeeded.
fn is_all_lost(counts: &CallCounts) -> bool {
    counts.made > 0 && counts.succeeded == 0
}

impl Row<'_> {
    /// When a client made its next call.
    pub fn mode(&self) -> Mode {
        self.sub.planned.rpc.as_ref().map_or(Mode::Bench, |calls| calls.mode)
    }

    /// What came of the calls of all rounds.
    pub fn counts(&self) -> CallCounts {
        self.trials().fold(CallCounts::default(), |sum, trial| sum + trial.counts)
    }

    /// What became of calls in each round, and how many were made.
    pub fn of_calls(&self, what: fn(&CallCounts) -> u64) -> Vec<Losses> {
        self.trials().map(|trial| (what(&trial.counts), trial.counts.made)).collect()
    }

    fn of_pace(&self, figure: fn(&Pace) -> f64) -> Option<String> {
        self.trials()
            .all(|trial| trial.pace.is_some())
            .then(|| self.rate(|trial| trial.pace.as_ref().map_or(0.0, figure)))
    }

    /// How its calls were offered.
    pub fn load(&self) -> OfferedLoad {
        self.trials.first().map_or(OfferedLoad::Closed, |trial| trial.load())
    }

    fn lines(&self) -> Vec<[String; HEADER.len()]> {
        let planned = self.sub.planned;
        let same_process = if self.sub.same_process() { " (same process)" } else { "" };
        let is_bad =
            |trial: &RpcTrial| trial.cut_short.is_some() || trial.counts.failed > 0 || is_all_lost(&trial.counts);
        let cut_short = if self.damaged_beside > 0 { "*" } else { self.mark(is_bad, "*") };
        let missed = self.mark(|trial| trial.pace.is_some_and(|pace| pace.rate_missed), "!");
        let dash = || "-".to_owned();
        let naming: [String; NAMING] = [
            format!("{}{same_process}", planned.transport),
            planned.wait.to_string(),
            planned.touch.to_string(),
            display_size(self.payload_bytes),
            planned.links().to_string(),
            format!("{cut_short}{}", if self.load().burst().is_some() { "bursts" } else { self.mode().as_str() }),
            offered(&self.load()),
            self.of_pace(|pace| pace.achieved_hz).map_or_else(dash, |achieved| format!("{missed}{achieved}")),
            self.rate(|trial| trial.qps),
        ];
        let named = |line: [String; HEADER.len()]| {
            let mut line = line;
            line[..NAMING].clone_from_slice(&naming);
            line[HEADER.len() - 7] = number(&self.of_calls(|counts| counts.timed_out));
            line[HEADER.len() - 6] = number(&self.of_calls(|counts| counts.failed));
            line[HEADER.len() - 1] = proof(self.sub).to_owned();
            line
        };
        let service =
            |used| self.line("service", |trial| trial.service_rtt_ns, |trial| trial.service_rtt_within_run_ns, used);
        let one_way = |used| {
            let time = if self.has_one_way() { "one_way" } else { "" };
            self.line(time, |trial| trial.one_way_ns, |trial| trial.one_way_within_run_ns, used)
        };
        match self.mode() {
            // There is one kind of round trips: the second line is of the server, and of the requests' way to it.
            Mode::Bench => vec![named(service(|trial| Some(trial.client))), one_way(|trial| trial.server)],
            Mode::FixedFreq => {
                let response = self.line(
                    "response",
                    |trial| trial.response_rtt_ns,
                    |trial| trial.response_rtt_within_run_ns,
                    |trial| Some(trial.client),
                );
                let mut lines = vec![named(response), service(|trial| trial.server)];
                if self.has_one_way() {
                    lines.push(one_way(|_| None));
                }
                lines
            }
        }
    }

    fn has_one_way(&self) -> bool {
        self.trials().any(|trial| trial.one_way_ns.is_some())
    }

    fn line(
        &self,
        time: &str,
        latency: fn(&RpcTrial) -> Option<Latency>,
        within: fn(&RpcTrial) -> Option<LatencyBounds>,
        used: fn(&RpcTrial) -> Option<Used>,
    ) -> [String; HEADER.len()] {
        let latencies: Vec<Latency> = self.trials().filter_map(latency).collect();
        let used: Vec<(Used, u64)> =
            self.trials().filter_map(|trial| Some((used(trial)?, trial.counts.made))).collect();
        let mut line = [const { String::new() }; HEADER.len()];
        line[NAMING] = time.to_owned();
        if !time.is_empty() {
            let within = self.trials().next().and_then(within);
            line[NAMING + 1..NAMING + 7].clone_from_slice(&latency_columns(&latencies, self.sub.rounds, within));
        }
        line[HEADER.len() - 5..HEADER.len() - 1].clone_from_slice(&used_columns(&used, self.sub.rounds));
        line
    }

    fn notes(&self) -> Vec<String> {
        let (name, size) = (&self.sub.planned.name, display_size(self.payload_bytes));
        let late = too_late(&self.load());
        let load = Some(self.load()).filter(|load| *load != OfferedLoad::Closed);
        let place = format!("{name} at {size}{}", load.map_or_else(String::new, |load| format!(", {}", offer(&load))));
        let mut lines: Vec<String> = self.shortfalls.iter().map(|why| format!("* {name} at {size}: {why}")).collect();
        for trial in self.trials() {
            if let Some(why) = &trial.cut_short {
                lines.push(format!("* {place}: {why}"));
            }
            if is_all_lost(&trial.counts) {
                lines.push(format!("* {place}: {ALL_LOST}"));
            }
            if let Some(pace) = trial.pace.filter(|pace| pace.rate_missed) {
                let (behind, made, slowest) = (pace.behind, trial.counts.made, count(pace.slowest_hz));
                lines.push(format!(
                    "! {place}: RATE MISSED: the slowest client made {slowest} calls /s, {behind} of {made} calls were made \
                     more than {late} late"
                ));
            }
        }
        let missing: u64 = self.trials().map(|trial| trial.one_way_missing).sum();
        if missing > 0 {
            let succeeded = self.counts().succeeded;
            lines.push(format!("{place}: {missing} of {succeeded} calls that succeeded have no latency one way"));
        }
        let CallCounts { timed_out, failed, late, duplicated, .. } = self.counts();
        let kinds = [
            (timed_out, "timed out"),
            (failed, "failed"),
            (late, "answered after the time-out or failure"),
            (duplicated, "answered again"),
        ];
        let happened: Vec<String> =
            kinds.iter().filter(|kind| kind.0 > 0).map(|(number, kind)| format!("{number} {kind}")).collect();
        if !happened.is_empty() {
            lines.push(format!("{place}: calls {}", happened.join(", ")));
        }
        lines
    }
}

/// The table itself.
pub fn table(rows: &[Row<'_>]) -> String {
    let lines = |row: &Row<'_>| Lines { payload_bytes: row.payload_bytes, damaged: 0, lines: row.lines() };
    lines::draw(HEADER, &WORDS, &rows.iter().map(lines).collect::<Vec<_>>())
}

/// Lines for what keeps these figures from being good.
pub fn notes(rows: &[Row<'_>]) -> Vec<String> {
    rows.iter().flat_map(Row::notes).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::fixture::{self, all};
    use tripmeter_model::Pattern;
    use tripmeter_model::manifest::Manifest;
    use tripmeter_model::pace::Offers;
    use tripmeter_model::rpc::Calls;

    fn latency(us: f64) -> Latency {
        let [min, median, mean, p90, p99, p999, max] = [0.5, 1.0, 1.1, 1.5, 2.0, 3.0, 10.0].map(|f| f * us * 1000.0);
        Latency { samples: 1000, min, mean, median, p90, p99, p999, max }
    }

    /// Adds a sub-experiment at 1 kB.
    pub fn add(manifest: &mut Manifest, name: &str, transport: &str, mode: Mode, clients: u32) {
        let offers = Offers::rates(if mode == Mode::Bench { Vec::new() } else { vec![1000.0] });
        let plan = fixture::add(manifest, name, transport, &[1024]);
        plan.pattern = Pattern::Rpc;
        plan.rpc = Some(Calls { mode, clients, offers, timeout_ns: 3_000_000_000 });
        let used = |cpu_time_ns, peak_memory_bytes| Used {
            window_ns: 1_000_000_000,
            cpu_time_ns,
            voluntary_switches: 4000,
            involuntary_switches: 2,
            page_faults: 25,
            peak_memory_bytes,
        };
        let is_paced = mode == Mode::FixedFreq;
        let (achieved_hz, slowest_hz, rate_missed, behind) = (1000.0, 990.0, false, 0);
        let pace =
            is_paced.then_some(Pace { offered_hz: 1000.0, burst: None, achieved_hz, slowest_hz, rate_missed, behind });
        let trial = RpcTrial {
            pace,
            counts: CallCounts { made: 1000, succeeded: 1000, ..CallCounts::default() },
            qps: 9876.5432,
            response_rtt_ns: is_paced.then(|| latency(60.0)),
            service_rtt_ns: Some(latency(10.0)),
            lateness_ns: is_paced.then(|| latency(50.0)),
            response_rtt_within_run_ns: None,
            service_rtt_within_run_ns: None,
            lateness_within_run_ns: None,
            one_way_ns: None,
            one_way_within_run_ns: None,
            one_way_missing: 0,
            clients: Vec::new(),
            topics: Vec::new(),
            duration_ns: 1_000_000_000,
            cut_short: None,
            client: used(31_000_000, 12_345_678),
            server: Some(used(12_000_000, 9_000_000)),
        };
        let cell = &mut fixture::result(manifest, name, 1, &[(1024, 1000.0)]).cells[0];
        (cell.rtt_ns, cell.rtt_half_ns, cell.rpc) = (None, None, vec![trial]);
    }

    fn squeezed(text: &str) -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn both_modes_and_both_sides_are_shown() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "bench", "uds/stream", Mode::Bench, 1);
        add(&mut manifest, "fixed", "uds/stream", Mode::FixedFreq, 4);
        let text = all(&manifest);
        let lines = squeezed(&text);
        assert!(text.starts_with("All transports, pattern rpc\n"), "{text}");
        for line in [
            "uds/stream poll none 1k 1 bench - - 9877 service 11.000 10.000 15.000 20.000 30.000 100.000 0 0 3.1 4002 0.025 12.3 ok",
            "1.2 4002 0.025 9.0",
            "uds/stream poll none 1k 4 fixed-freq 1000 1000 9877 response 66.000 60.000 90.000 120.000 180.000 600.000 0 0 3.1 \
             4002 0.025 12.3 ok",
            "service 11.000 10.000 15.000 20.000 30.000 100.000 1.2 4002 0.025 9.0",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.contains(LEGEND) && !text.contains("rtt_half"), "{text}");
    }

    #[test]
    fn bursts_are_named_where_rates_are() {
        use tripmeter_model::pace::Burst;
        let mut manifest = fixture::manifest();
        add(&mut manifest, "fixed", "uds/stream", Mode::FixedFreq, 4);
        let pace = manifest.sub_experiments[0].cells[0].rpc[0].pace.as_mut().unwrap();
        (pace.burst, pace.offered_hz) = (Some(Burst { size: 4, gap_ns: 4_000_000 }), 1000.0);
        (pace.achieved_hz, pace.slowest_hz, pace.rate_missed, pace.behind) = (800.0, 700.0, true, 12);
        let text = all(&manifest);
        let lines = squeezed(&text);
        for line in [
            "uds/stream poll none 1k 4 bursts 4 per 4 ms !800 9877 response",
            "! fixed at 1k, 4 per 4 ms: RATE MISSED: the slowest client made 700 calls /s, 12 of 1000 calls were made more \
             than a gap between bursts late",
        ] {
            assert!(lines.iter().any(|found| found.starts_with(line)), "{line}\n{text}");
        }
        assert!(text.contains(crate::throughput::BURSTS_LEGEND), "{text}");
        manifest.sub_experiments[0].cells[0].rpc[0].pace.as_mut().unwrap().burst = None;
        assert!(!all(&manifest).contains(crate::throughput::BURSTS_LEGEND));
    }

    #[test]
    fn one_way_has_a_line_where_it_was_measured() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "bench", "uds/stream", Mode::Bench, 1);
        add(&mut manifest, "fixed", "uds/stream", Mode::FixedFreq, 4);
        for result in &mut manifest.sub_experiments {
            let trial = &mut result.cells[0].rpc[0];
            (trial.one_way_ns, trial.one_way_missing) = (Some(latency(4.0)), 3);
        }
        let text = all(&manifest);
        let lines = squeezed(&text);
        let one_way = "one_way 4.400 4.000 6.000 8.000 12.000 40.000";
        assert!(lines.contains(&format!("{one_way} 1.2 4002 0.025 9.0")), "{text}");
        assert!(lines.contains(&format!("{one_way} - - - -")), "{text}");
        let missing = "fixed at 1k, 1000 /s: 3 of 1000 calls that succeeded have no latency one way";
        assert!(lines.contains(&missing.to_owned()), "{text}");
    }

    #[test]
    fn round_trips_have_their_intervals_within_a_run_and_over_rounds() {
        use tripmeter_model::manifest::Bounds;
        let mut manifest = fixture::manifest();
        add(&mut manifest, "bench", "uds/stream", Mode::Bench, 1);
        let bounds = |low, high| Bounds { low: Some(low), high };
        let (near, none) = (bounds(9_900.0, Some(10_100.0)), bounds(19_000.0, None));
        let within = LatencyBounds { median: near, p90: near, p99: near, p999: none };
        manifest.sub_experiments[0].cells[0].rpc[0].service_rtt_within_run_ns = Some(within);
        let text = all(&manifest);
        let below = "9.900..10.100 9.900..10.100 9.900..10.100 n too small 0..0.368 0..0.368";
        assert!(squeezed(&text).contains(&below.to_owned()), "{text}");
        manifest.plan.rounds = 6;
        for round in 2..=6 {
            let mut result = manifest.sub_experiments[0].clone();
            (result.round, result.cells[0].rpc[0].qps) = (round, 1000.0 * f64::from(round));
            manifest.sub_experiments.push(result);
        }
        let text = all(&manifest);
        assert!(squeezed(&text).iter().any(|line| line.starts_with("2000..9877 11.000..11.000 ")), "{text}");
    }

    #[test]
    fn calls_that_failed_or_were_all_lost_are_marked() {
        for (counts, is_lost) in [
            (CallCounts { made: 1000, succeeded: 999, failed: 1, ..CallCounts::default() }, false),
            (CallCounts { made: 1000, timed_out: 1000, ..CallCounts::default() }, true),
        ] {
            let mut manifest = fixture::manifest();
            add(&mut manifest, "bench", "udp/loopback", Mode::Bench, 4);
            manifest.sub_experiments[0].cells[0].rpc[0].counts = counts;
            let lines = squeezed(&all(&manifest));
            assert!(lines.iter().any(|line| line.contains(" 4 *bench ")), "{lines:?}");
            assert_eq!(lines.iter().any(|line| line.starts_with("* bench at 1k: nothing came")), is_lost, "{lines:?}");
        }
    }

    #[test]
    fn a_rate_that_was_missed_and_calls_that_did_not_succeed_are_said() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "fixed", "udp/loopback", Mode::FixedFreq, 4);
        let trial = &mut manifest.sub_experiments[0].cells[0].rpc[0];
        trial.counts = CallCounts { made: 1000, succeeded: 990, timed_out: 7, failed: 3, late: 2, duplicated: 1 };
        let pace = trial.pace.as_mut().unwrap();
        (pace.achieved_hz, pace.slowest_hz, pace.rate_missed, pace.behind) = (800.0, 700.0, true, 123);
        trial.cut_short = Some("time cap".to_owned());
        let text = all(&manifest);
        let lines = squeezed(&text);
        for line in [
            "! fixed at 1k, 1000 /s: RATE MISSED: the slowest client made 700 calls /s, 123 of 1000 calls were made more than \
             a period late",
            "* fixed at 1k, 1000 /s: time cap",
            "fixed at 1k, 1000 /s: calls 7 timed out, 3 failed, 2 answered after the time-out or failure, 1 answered again",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line}\n{text}");
        }
        assert!(
            lines.iter().any(|line| line.contains(" 4 *fixed-freq 1000 !800 ") && line.contains(" 7 3 ")),
            "{text}"
        );
    }
}
