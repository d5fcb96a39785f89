//! The columns of AimRT's benchmarks: those of its channel and RPC back ends here, those of loggers in `aimrt_log`.

use crate::aimrt_log;
use crate::grid::counted;
use crate::interval::TOO_SMALL;
use crate::lines::Row;
use crate::merged::{Merged, largest};
use crate::number::micros;
use crate::throughput::{count, percent, share_interval};
use crate::{channel, log, notes, rpc};
use tripmeter_model::channel::{Latency, Used};
use tripmeter_model::manifest::Manifest;
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::rpc::Mode;
use tripmeter_stats::losses::{Losses, sum};
use tripmeter_stats::rounds::figure_over_rounds;

const CHANNEL_HEADER: &str = "\
| ID  | Backend Type | Pkg Size (bytes) | Topic num | Avg Latency (us) | Max Latency (us) | Loss Rate (%) | Avg CPU Usage (%) | wait | touch | offered (/s) | path proof |
| --- | ------------ | :--------------: | :-------: | :--------------: | :--------------: | :-----------: | :---------------: | ---- | ----- | :----------: | ---------- |
";

const CHANNEL_LEGEND: &str = "\
AimRT's columns, and the last four of ours; the systems are measured by themselves, not below AimRT. Latency: one way,
from the actual sending (service time), as AimRT takes it; times from the intended sending are in the table `all`. Loss:
lost, late or damaged messages of those sent. CPU: publisher/subscriber, user and system, 100 = one core; a broker's is in
neither. Offered: by each topic. !: the rate was missed. In brackets: intervals at 95 %, over rounds (n too small = fewer
than 6); of the loss from the least to the most of a round, of one round or without a loss by Clopper and Pearson as if
messages were lost one by one.
";

const RPC_HEADER: &str = "\
| ID  | Backend Type | Pkg Size (bytes) | Topic num | Avg Latency (us) | Max Latency (us) |   QPS    | Loss Rate (%) | Avg CPU Usage (%) | wait | touch | offered (/s) | path proof |
| --- | ------------ | :--------------: | :-------: | :--------------: | :--------------: | :------: | :-----------: | :---------------: | ---- | ----- | :----------: | ---------- |
";

const RPC_LEGEND: &str = "\
AimRT's columns, and the last four of ours; the systems are measured by themselves, not below AimRT. Topic num: clients
that call beside each other. Latency: whole round trips (rtt), not halved, from when a call was made (service time), as
AimRT takes it; times from when it was to be made are in the table `all`. QPS: calls that succeeded, per second, of mode
bench; -: mode fixed-freq, where the rate is given. Loss: calls of those made that timed out or failed. CPU:
client/server, user and system, 100 = one core; a broker's is in neither. Offered: by each client. !: the rate was missed.
In brackets: intervals at 95 %, over rounds (n too small = fewer than 6); of the loss from the least to the most of a
round, of one round or without a loss by Clopper and Pearson as if calls failed one by one.
";

/// AimRT's tables of channel and RPC back ends, as far as they were measured: a row for each system, size and number of
/// topics or clients, in the order of the plan.
///
/// # Source
/// AimRT, performance test, tables of its channel and RPC back ends.
pub fn aimrt(manifest: &Manifest) -> String {
    let subs = Merged::of(manifest);
    let mut parts = Vec::new();
    // There, every topic has one publisher.
    let mut rows = channel::rows(&subs);
    rows.retain(|row| row.sub.planned.publishers() == 1);
    let rows = in_groups(manifest, rows, |sub| sub.channel.is_some());
    if !rows.is_empty() {
        parts.push(table(CHANNEL_HEADER, rows.iter().map(channel_line), CHANNEL_LEGEND));
    }
    let rows = in_groups(manifest, rpc::rows(&subs), |sub| sub.rpc.is_some());
    if !rows.is_empty() {
        parts.push(table(RPC_HEADER, rows.iter().map(rpc_line), RPC_LEGEND));
    }
    if let Some(last) = parts.last_mut() {
        last.push_str(&cores(manifest));
    }
    parts.extend(aimrt_log::tables(manifest).map(|tables| tables + &logging_cores(manifest)));
    if parts.is_empty() {
        parts.push("Nothing of this table was measured.\n".to_owned());
    }
    let notes = notes(&subs);
    if !notes.is_empty() {
        parts.push(notes);
    }
    parts.join("\n")
}

/// A line for whatever keeps figures from being good, or rows from being there.
fn notes(subs: &[Merged<'_>]) -> String {
    let is_of = |sub: &&Merged<'_>| {
        let plan = sub.planned;
        let is_topic = plan.channel.as_ref().is_some_and(|flow| flow.recorded.is_none()) && plan.publishers() == 1;
        is_topic || plan.rpc.is_some() || log::is_of(sub)
    };
    notes::outcomes(subs.iter().filter(is_of)).iter().map(|line| line.clone() + "\n").collect()
}

/// AimRT's page has figures of so many cores.
const PUBLISHED_CORES: usize = 3;

/// How this differs from the cores that the published figures were measured on.
fn cores(manifest: &Manifest) -> String {
    let plan = &manifest.plan;
    let listed = |cpus: &[usize]| cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let here = match (&plan.cpus[..], plan.leader_cpu, plan.follower_cpu) {
        ([], Some(leader), Some(follower)) => {
            format!(
                "the threads of each side are bound to one processor, {leader} and {follower} (--cpus confines both to a list)"
            )
        }
        ([], ..) => format!("the kernel chooses of processors {}", listed(&manifest.environment.cpus)),
        (cpus, ..) => return confined(cpus),
    };
    format!("DEVIATION: published are figures on {PUBLISHED_CORES} cores; here {here}.\n")
}

/// The same of `--cpus`.
fn confined(cpus: &[usize]) -> String {
    let listed = cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    if cpus.len() == PUBLISHED_CORES {
        return format!(
            "Cores: both processes are confined to {PUBLISHED_CORES}, processors {listed}, as published.\n"
        );
    }
    format!(
        "DEVIATION: published are figures on {PUBLISHED_CORES} cores; here both processes are confined to processors {listed}.\n"
    )
}

/// The same of loggers.
fn logging_cores(manifest: &Manifest) -> String {
    let processors = manifest.environment.cpus.len();
    let here = counted(processors, "processor");
    let bound = match manifest.plan.leader_cpu {
        _ if !manifest.plan.cpus.is_empty() => return confined(&manifest.plan.cpus),
        None if processors == PUBLISHED_CORES => {
            return format!("Cores: the kernel chooses of {PUBLISHED_CORES} processors, as published.\n");
        }
        Some(cpu) => format!("the thread that logs is bound to processor {cpu}"),
        None => "the kernel chooses the processors".to_owned(),
    };
    format!(
        "DEVIATION: published are figures on {PUBLISHED_CORES} cores; here {bound} of {here} (--cpus confines both processes \
         to a list).\n"
    )
}

/// Sorted by mode, number of topics or clients, and size, as they come in the plan: systems stand side by side in each.
fn in_groups<'a, T>(
    manifest: &Manifest,
    mut rows: Vec<Row<'a, T>>,
    is_of: fn(&SubExperiment) -> bool,
) -> Vec<Row<'a, T>> {
    let mode = |sub: &SubExperiment| sub.rpc.as_ref().map(|calls| calls.mode);
    let mut groups: Vec<(Option<Mode>, (u32, u64))> = Vec::new();
    for sub in manifest.plan.sub_experiments.iter().filter(|sub| is_of(sub)) {
        for group in sub.payloads.iter().map(|payload| (mode(sub), (sub.links(), *payload))) {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
    }
    rows.sort_by_key(|row| groups.iter().position(|group| *group == (mode(row.sub.planned), row.group())));
    rows
}

fn table(header: &str, lines: impl Iterator<Item = String>, legend: &str) -> String {
    let lines = lines.zip(1..).map(|(line, id)| format!("| {id} | {line} |\n"));
    lines.fold(header.to_owned(), |text, line| text + &line) + "\n" + legend
}

fn channel_line(row: &channel::Row<'_>) -> String {
    let latencies: Vec<Latency> = row.trials().filter_map(|trial| trial.service_ns).collect();
    let missed = row.mark(|trial| trial.rate_missed, "!");
    let cpu = cpu(row.trials().map(|trial| (trial.publisher, trial.subscriber)));
    let ours = ours(row, Some(row.of_trials(|trial| trial.offered_hz)));
    format!("{} | {} | {cpu} | {ours}", figures(row, missed, &latencies), loss(&row.lost()))
}

fn rpc_line(row: &rpc::Row<'_>) -> String {
    let latencies: Vec<Latency> = row.trials().filter_map(|trial| trial.service_rtt_ns).collect();
    let missed = row.mark(|trial| trial.pace.is_some_and(|pace| pace.rate_missed), "!");
    let qps = match row.mode() {
        Mode::Bench => {
            let each: Vec<f64> = row.trials().map(|trial| trial.qps).collect();
            over_rounds(&each, |qps| format!("{qps:.3}"))
        }
        Mode::FixedFreq => "-".to_owned(),
    };
    let cpu = cpu(row.trials().map(|trial| (trial.client, trial.server)));
    let lost = loss(&row.of_calls(|counts| counts.timed_out + counts.failed));
    let offered = row.trials().find_map(|trial| trial.pace).map(|pace| pace.offered_hz);
    format!("{} | {qps} | {lost} | {cpu} | {}", figures(row, missed, &latencies), ours(row, offered))
}

/// The columns that are not AimRT's.
fn ours<T>(row: &Row<'_, T>, offered_hz: Option<f64>) -> String {
    let plan = row.sub.planned;
    let offered = offered_hz.map_or("-".to_owned(), count);
    format!("{} | {} | {offered} | {}", plan.wait, plan.touch, notes::proof(row.sub))
}

/// The median over rounds, and of several its interval at 95 %.
pub fn over_rounds(values: &[f64], text: impl Fn(f64) -> String) -> String {
    let Some(over) = figure_over_rounds(values) else { return "-".to_owned() };
    let median = text(over.median);
    match over.interval {
        _ if values.len() == 1 => median,
        Some([low, high]) => format!("{median} ({}..{})", text(low), text(high)),
        None => format!("{median} ({TOO_SMALL})"),
    }
}

/// A share of losses in per cent, with its interval.
fn loss(rounds: &[Losses]) -> String {
    let interval = share_interval(rounds).map_or(String::new(), |interval| format!(" ({interval})"));
    let (lost, of) = sum(rounds);
    format!("{}{interval}", percent(lost as f64 / of.max(1) as f64))
}

/// The columns up to the largest latency.
fn figures<T>(row: &Row<'_, T>, missed: &str, latencies: &[Latency]) -> String {
    let each = |figure: fn(&Latency) -> f64| latencies.iter().map(figure).collect::<Vec<_>>();
    let (links, payload_bytes) = row.group();
    let mean = over_rounds(&each(|latency| latency.mean), micros);
    let max = largest(&each(|latency| latency.max)).map_or("-".to_owned(), micros);
    format!("{} | {payload_bytes} | {links} | {missed}{mean} | {max}", row.transport())
}

fn cpu(used: impl Iterator<Item = (Used, Option<Used>)>) -> String {
    let (own, other): (Vec<Used>, Vec<Option<Used>>) = used.unzip();
    let percent = |used: Vec<Used>| {
        let each: Vec<f64> = used.iter().map(Used::cpu_percent).collect();
        over_rounds(&each, |percent| format!("{percent:.1}"))
    };
    format!("{}/{}", percent(own), percent(other.into_iter().flatten().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::tests::measured;
    use crate::{fixture, rpc};
    use tripmeter_model::manifest::{Status, Verdict};

    #[test]
    fn systems_stand_side_by_side_at_each_size_and_number_of_topics() {
        let mut manifest = measured("iceoryx/shm", &[1000.0]);
        let cell = manifest.sub_experiments[0].cells[0].clone();
        for (name, transport, topics) in [("more", "iceoryx/shm", 8), ("zenoh", "zenoh/tcp", 4)] {
            let plan = fixture::add(&mut manifest, name, transport, &[1024]);
            plan.pattern = tripmeter_model::Pattern::Channel;
            plan.channel = Some(tripmeter_model::channel::Flow::of_topics(vec![1000.0], topics));
            fixture::result(&mut manifest, name, 1, &[(1024, 1000.0)]).cells = vec![cell.clone()];
        }
        let trial = &mut manifest.sub_experiments[2].cells[0].channel[0];
        (trial.rate_missed, trial.counts.lost, trial.subscriber) = (true, 5, None);
        let result = &mut manifest.sub_experiments[2];
        result.path_proof.as_mut().unwrap().verdict = Verdict::Failed;
        (result.status, result.error) = (Status::Failed, Some("the follower ended".to_owned()));
        let expected = "\
| 1 | iceoryx/shm | 1024 | 4 | 11.000 | 100.000 | 0 (0..0.368) | 3.1/1.2 | poll | none | 1000 | ok |
| 2 | zenoh/tcp | 1024 | 4 | !11.000 | 100.000 | 0.5 (0.163..1.163) | 3.1/- | poll | none | 1000 | FAILED |
| 3 | iceoryx/shm | 1024 | 8 | 11.000 | 100.000 | 0 (0..0.368) | 3.1/1.2 | poll | none | 1000 | ok |
";
        let cores = "DEVIATION: published are figures on 3 cores; here the threads of each side are bound to one processor, 0 and 1 \
                     (--cpus confines both to a list).\n";
        let notes = "PATH PROOF FAILED: zenoh (zenoh/tcp): claimed unix-stream, seen: 20000 bytes went over unix-stream; its \
                     figures are of something else\n\
                     FAILED: zenoh: the follower ended\n";
        assert_eq!(aimrt(&manifest), format!("{CHANNEL_HEADER}{expected}\n{CHANNEL_LEGEND}{cores}\n{notes}"));
        assert_eq!(aimrt(&fixture::manifest()), "Nothing of this table was measured.\n");
    }

    #[test]
    fn calls_have_one_mode_per_row_and_queries_per_second_in_a_closed_loop_only() {
        let mut manifest = fixture::manifest();
        rpc::tests::add(&mut manifest, "grpc_sizes", "grpc/unary", Mode::Bench, 1);
        rpc::tests::add(&mut manifest, "grpc_1", "grpc/unary", Mode::FixedFreq, 1);
        rpc::tests::add(&mut manifest, "grpc_4", "grpc/unary", Mode::FixedFreq, 4);
        rpc::tests::add(&mut manifest, "http_sizes", "http/http1", Mode::Bench, 1);
        rpc::tests::add(&mut manifest, "http_4", "http/http1", Mode::FixedFreq, 4);
        let trial = &mut manifest.sub_experiments[4].cells[0].rpc[0];
        (trial.counts.timed_out, trial.counts.failed) = (4, 1);
        trial.pace.as_mut().unwrap().rate_missed = true;
        let expected = "\
| 1 | grpc/unary | 1024 | 1 | 11.000 | 100.000 | 9876.543 | 0 (0..0.368) | 3.1/1.2 | poll | none | - | ok |
| 2 | http/http1 | 1024 | 1 | 11.000 | 100.000 | 9876.543 | 0 (0..0.368) | 3.1/1.2 | poll | none | - | ok |
| 3 | grpc/unary | 1024 | 1 | 11.000 | 100.000 | - | 0 (0..0.368) | 3.1/1.2 | poll | none | 1000 | ok |
| 4 | grpc/unary | 1024 | 4 | 11.000 | 100.000 | - | 0 (0..0.368) | 3.1/1.2 | poll | none | 1000 | ok |
| 5 | http/http1 | 1024 | 4 | !11.000 | 100.000 | - | 0.5 (0.163..1.163) | 3.1/1.2 | poll | none | 1000 | ok |
";
        let ends_with = |manifest: &Manifest, cores: &str| {
            assert_eq!(aimrt(manifest), format!("{RPC_HEADER}{expected}\n{RPC_LEGEND}{cores}\n"));
        };
        (manifest.plan.leader_cpu, manifest.plan.follower_cpu) = (None, None);
        ends_with(
            &manifest,
            "DEVIATION: published are figures on 3 cores; here the kernel chooses of processors 0, 1.",
        );
        manifest.plan.cpus = vec![0, 1];
        let two = "DEVIATION: published are figures on 3 cores; here both processes are confined to processors 0, 1.";
        ends_with(&manifest, two);
        manifest.plan.cpus = vec![0, 1, 2];
        ends_with(&manifest, "Cores: both processes are confined to 3, processors 0, 1, 2, as published.");
    }
}
