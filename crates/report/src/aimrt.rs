//! The columns of AimRT's benchmarks: channel and RPC back ends here, loggers in `aimrt_log`.

use crate::aimrt_log;
use crate::document::{Block, Cell, Column, Digits, Document, Missing, Note, Table};
use crate::merged::{Merged, incomplete};
use crate::number::count;
use crate::number::counted;
use crate::{hosts, notes, run_notes};
use tripmeter_analysis::derived::{cost, loss};
use tripmeter_analysis::{MetricTable, Rounds, Row};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::Manifest;
use tripmeter_model::metric::{Process, Stream};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::plan::SubExperiment;
use tripmeter_stats::ErrorBounds;

const CHANNEL_LEGEND: &str = "\
AimRT's columns, then four of ours; the systems are measured directly, without AimRT. Latency: one way, from the actual
sending (service time), as in AimRT; the table `all` also has times from when messages were due. Loss: share of the sent
messages that were lost, late or damaged. CPU: publisher/subscriber, user and system time, 100 = one core; without a
broker's. Offered: per topic. !: the rate was missed. In brackets: 95 % intervals over rounds (n too small = fewer than
6). For losses: the smallest to the largest share of a round; for one round, or without a loss, Clopper-Pearson as if
messages were lost independently.
";

const RPC_LEGEND: &str = "\
AimRT's columns, then four of ours; the systems are measured directly, without AimRT. Topic num: clients that call in
parallel. Latency: whole round trips (rtt), not halved, from when a call was made (service time), as in AimRT; the table
`all` also has times from when calls were due. QPS: calls that succeeded, per second, in mode bench; -: mode fixed-freq,
where the rate is given. Loss: share of the calls that timed out or failed. CPU: client/server, user and system time,
100 = one core; without a broker's. Offered: per client. !: the rate was missed. In brackets: 95 % intervals over rounds
(n too small = fewer than 6). For losses: the smallest to the largest share of a round; for one round, or without a loss,
Clopper-Pearson as if calls failed independently.
";

const BETWEEN_HOSTS: &str = "AimRT's tables between hosts have no CPU usage, so that column is ours too.\n";

/// AimRT's tables of the channel and RPC back ends that were measured. One row per system, size and number of topics or
/// clients, in the order of the plan.
///
/// # Source
/// AimRT, performance test, tables of its channel and RPC back ends.
pub fn aimrt(manifest: &Manifest) -> Document {
    let (subs, metrics) = (Merged::from_manifest(manifest), MetricTable::from_manifest(manifest));
    let page = AimrtPage { manifest, subs: &subs, metrics: &metrics };
    let mut blocks = Vec::new();
    for (table, legend) in [(page.channel(), CHANNEL_LEGEND), (page.calls(), RPC_LEGEND)] {
        if !table.rows.is_empty() {
            blocks.extend([Block::Table(table), Block::Text(legend.to_owned())]);
        }
    }
    if let Some(Block::Text(last)) = blocks.last_mut() {
        if !manifest.environment.hosts.is_empty() {
            last.push_str(BETWEEN_HOSTS);
        }
        last.push_str(&cores(manifest));
    }
    let loggers = aimrt_log::blocks(&subs, &metrics);
    if !loggers.is_empty() {
        blocks.extend(loggers);
        blocks.push(Block::Text(aimrt_log::LEGEND.to_owned() + &logging_cores(manifest)));
    }
    if blocks.is_empty() {
        blocks.push(Block::Text("Nothing in this table was measured.".to_owned()));
    } else if let Some(state) = incomplete(subs.iter().filter(is_shown)) {
        blocks.insert(0, Block::Text(state));
    }
    let mut notes = notes(&subs);
    notes.extend(run_notes::reservations(manifest, subs.iter().filter(is_shown)));
    notes.extend(hosts::notes(manifest, &metrics));
    blocks.extend(Block::notes(notes));
    Document { blocks }
}

fn is_shown(sub: &&Merged<'_>) -> bool {
    is_topic(sub.planned) || is_call(sub.planned) || aimrt_log::is_of(sub)
}

/// A line per reason why figures are doubtful or rows are missing.
fn notes(subs: &[Merged<'_>]) -> Vec<Note> {
    let outcomes = notes::outcomes(subs.iter().filter(is_shown)).into_iter();
    let others = subs.iter().filter(|sub| !is_shown(sub) && !sub.planned.added_as_floor);
    let left_out = others.map(|sub| notes::left_out(sub.planned, &why_left_out(sub.planned)));
    let failed = outcomes.map(|text| Note::error("failed or not run", text));
    failed.chain(left_out.map(|text| Note::info(notes::LEFT_OUT, text))).collect()
}

/// Property, besides the pattern, that keeps a workload out of AimRT's tables, e.g. ` to 3 followers`.
fn why_left_out(plan: &SubExperiment) -> String {
    match &plan.workload {
        workload if workload.is_recorded() => " on topics of several sizes".to_owned(),
        workload if !workload.is_publication() => notes::at_a_rate(plan).to_owned(),
        workload if workload.is_fan_out() => format!(" to {} followers", workload.followers()),
        workload => format!(" with {} publishers of one topic", workload.publishers()),
    }
}

/// Cores that AimRT's published figures were measured on.
const PUBLISHED_CORES: usize = 3;

/// Line on how the CPUs used here differ from the published ones.
fn cores(manifest: &Manifest) -> String {
    let plan = &manifest.plan;
    let listed = |cpus: &[usize]| cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let here = match (&plan.cpus[..], plan.leader_cpu, plan.follower_cpu) {
        ([], Some(leader), Some(follower)) => {
            format!(
                "the threads of each side are bound to one CPU, {leader} and {follower} (--cpus confines both to a list)"
            )
        }
        ([], ..) => format!("the kernel chooses among CPUs {}", listed(&manifest.environment.cpus)),
        (cpus, ..) => return confined(cpus),
    };
    format!("DEVIATION: the published figures are from {PUBLISHED_CORES} cores; here {here}.\n")
}

/// Line on how the CPUs differ from the published ones under `--cpus`.
fn confined(cpus: &[usize]) -> String {
    let listed = cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    if cpus.len() == PUBLISHED_CORES {
        return format!("Cores: both processes are confined to {PUBLISHED_CORES}, CPUs {listed}, as published.\n");
    }
    format!(
        "DEVIATION: the published figures are from {PUBLISHED_CORES} cores; here both processes are confined to CPUs \
         {listed}.\n"
    )
}

/// Line on how the CPUs of loggers differ from the published ones.
fn logging_cores(manifest: &Manifest) -> String {
    let cpus = manifest.environment.cpus.len();
    let here = counted(cpus, "CPU");
    let bound = match manifest.plan.leader_cpu {
        _ if !manifest.plan.cpus.is_empty() => return confined(&manifest.plan.cpus),
        None if cpus == PUBLISHED_CORES => {
            return format!("Cores: the kernel chooses among {PUBLISHED_CORES} CPUs, as published.\n");
        }
        Some(cpu) => format!("the thread that logs is bound to CPU {cpu}"),
        None => "the kernel chooses the CPUs".to_owned(),
    };
    format!(
        "DEVIATION: the published figures are from {PUBLISHED_CORES} cores; here {bound} of {here} (--cpus confines \
         both processes to a list).\n"
    )
}

/// True if AimRT's channel table has such a row: one publisher and one follower per topic, nothing recorded.
fn is_topic(plan: &SubExperiment) -> bool {
    let workload = &plan.workload;
    let is_plain = !workload.is_recorded() && workload.publishers() == 1 && !workload.is_fan_out();
    workload.is_publication() && is_plain
}

/// True if AimRT's RPC table has such a row: calls that are not round trips, nothing recorded.
fn is_call(plan: &SubExperiment) -> bool {
    plan.workload.is_call() && !plan.are_round_trips() && !plan.workload.is_recorded()
}

struct AimrtPage<'a> {
    manifest: &'a Manifest,
    subs: &'a [Merged<'a>],
    metrics: &'a MetricTable,
}

impl AimrtPage<'_> {
    fn sub(&self, row: Row) -> &Merged<'_> {
        &self.subs[row.sub as usize]
    }

    /// Rows in the order of the plan, grouped by mode, number of topics or clients, and size, so that systems are
    /// adjacent.
    fn rows(&self, is_of: fn(&SubExperiment) -> bool) -> Vec<Row> {
        let way = |sub: &SubExperiment| (sub.workload.is_closed(), sub.workload.links());
        let mut groups: Vec<((bool, u32), u64)> = Vec::new();
        for sub in self.manifest.plan.sub_experiments.iter().filter(|sub| is_of(sub)) {
            for group in sub.payloads.iter().map(|payload| (way(sub), *payload)) {
                if !groups.contains(&group) {
                    groups.push(group);
                }
            }
        }
        let group = |row: &Row| (way(self.sub(*row).planned), row.payload_bytes);
        let mut rows = self.metrics.rows(|key| is_of(self.sub(key.row).planned));
        rows.sort_by_key(|row| groups.iter().position(|known| *known == group(row)));
        rows
    }

    fn channel(&self) -> Table {
        let columns = columns(false);
        let cells = |row: &Row| {
            let lost = loss(self.metrics, *row, &Stream::all());
            let figures = self.figures(*row, Figure::Service);
            [figures, vec![Cell::lost(&lost)], self.others(*row)].concat()
        };
        numbered(columns, self.rows(is_topic).iter().map(cells))
    }

    fn calls(&self) -> Table {
        let columns = columns(true);
        let cells = |row: &Row| {
            let is_closed = self.metrics.load(*row) == OfferedLoad::Closed;
            let qps = self.metrics.get(*row, &Stream::all(), Figure::Completed, Statistic::Value);
            let lost = loss(self.metrics, *row, &Stream::all());
            let figures = self.figures(*row, Figure::ServiceRtt);
            [figures, vec![Cell::from_rounds(qps.filter(|_| is_closed)), Cell::lost(&lost)], self.others(*row)].concat()
        };
        numbered(columns, self.rows(is_call).iter().map(cells))
    }

    /// Cells of the columns up to the largest latency.
    fn figures(&self, row: Row, figure: Figure) -> Vec<Cell> {
        let (planned, missed) = (self.sub(row).planned, self.metrics.is_rate_missed(row));
        let get = |statistic| self.metrics.get(row, &Stream::all(), figure, statistic);
        let over = |rounds: Rounds<'_>| Cell::over(rounds.values, rounds.errors());
        let mean = get(Statistic::Mean).map_or(Cell::Missing(Missing::NotMeasured), over);
        let max = get(Statistic::Max).and_then(|rounds| rounds.values.iter().copied().reduce(f64::max));
        vec![
            Cell::text(planned.transport_text()),
            Cell::text(row.payload_bytes.to_string()),
            Cell::text(planned.workload.links().to_string()),
            mean.marked(if missed { "!" } else { "" }),
            max.map_or(Cell::Missing(Missing::NotMeasured), |max| Cell::over(&[max], ErrorBounds::NONE)),
        ]
    }

    /// Cells of the CPU usage of both processes, and of the columns that AimRT does not have.
    fn others(&self, row: Row) -> Vec<Cell> {
        let cpu = |process| {
            let percent = cost(self.metrics, row, process, Figure::CpuShare)
                .iter()
                .map(|share| share * 100.0)
                .collect::<Vec<_>>();
            Cell::over(&percent, ErrorBounds::NONE)
        };
        let (sub, load) = (self.sub(row), self.metrics.load(row));
        let offered = match load {
            OfferedLoad::Rate { hz } => count(hz),
            load if load.is_uneven() => crate::labels::offered(load),
            _ => "-".to_owned(),
        };
        vec![
            Cell::Pair(Box::new([cpu(Process::Leader), cpu(Process::Follower)])),
            Cell::text(sub.planned.wait.to_string()),
            Cell::text(sub.planned.touch.to_string()),
            Cell::text(offered),
            Cell::text(notes::proof(sub)),
        ]
    }
}

fn columns(has_qps: bool) -> Vec<Column> {
    let number = |id, title, unit, digits| Column::numbers(id, title, unit, digits, "");
    let micros = |id, title| Column { divisor: 1000.0, ..number(id, title, "us", Digits::Fixed(3)) };
    let right = |id, title, unit| Column { unit, is_right: true, ..Column::words(id, title, "") };
    let mut columns = vec![
        right("id", "ID", ""),
        Column::words("transport", "Backend Type", ""),
        right("payload_bytes", "Pkg Size", "bytes"),
        right("links", "Topic num", ""),
        micros("mean_ns", "Avg Latency"),
        micros("max_ns", "Max Latency"),
    ];
    columns.extend(has_qps.then(|| number("qps", "QPS", "", Digits::Fixed(3))));
    columns.extend([
        number("loss", "Loss Rate", "%", Digits::Percent),
        number("cpu_percent", "Avg CPU Usage", "%", Digits::Fixed(1)),
        Column::words("wait", "wait", ""),
        Column::words("touch", "touch", ""),
        right("offered_hz", "offered", "/s"),
        Column::words("path_proof", "path proof", ""),
    ]);
    columns
}

/// A table whose rows are numbered.
fn numbered(columns: Vec<Column>, rows: impl Iterator<Item = Vec<Cell>>) -> Table {
    let rows = rows.zip(1..).map(|(cells, id)| (None, [vec![Cell::text(id.to_string())], cells].concat()));
    Table::new(String::new(), columns, rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::fixture::published;
    use crate::render::markdown;
    use tripmeter_model::Pattern;
    use tripmeter_model::Wait;
    use tripmeter_model::experiment::Mode;
    use tripmeter_model::workload::Workload;

    const CHANNEL_HEADER: &str = "\
| ID | Backend Type | Pkg Size (bytes) | Topic num | Avg Latency (us) | Max Latency (us) | Loss Rate (%) | Avg CPU Usage (%) | wait | touch | offered (/s) | path proof |
| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- | ---: | --- |
";
    const RPC_HEADER: &str = "\
| ID | Backend Type | Pkg Size (bytes) | Topic num | Avg Latency (us) | Max Latency (us) | QPS | Loss Rate (%) | Avg CPU Usage (%) | wait | touch | offered (/s) | path proof |
| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- | ---: | --- |
";

    fn text(manifest: &Manifest) -> String {
        markdown(&aimrt(manifest))
    }
    use tripmeter_model::manifest::{RunStatus, Verdict};

    #[test]
    fn systems_stand_side_by_side_at_each_size_and_number_of_topics() {
        let mut manifest = published("iceoryx/shm", &[1000.0]);
        (manifest.plan.leader_cpu, manifest.plan.follower_cpu) = (Some(0), Some(1));
        let cell = manifest.sub_experiments[0].cells[0].clone();
        for (name, transport, topics) in [("more", "iceoryx/shm", 8), ("zenoh", "zenoh/tcp", 4)] {
            let plan = fixture::add(&mut manifest, name, transport, &[1024]);
            plan.pattern = Pattern::Publish;
            plan.workload = Workload::publications(vec![OfferedLoad::Rate { hz: 1000.0 }], topics, 1);
            fixture::result(&mut manifest, name, 1, &[(1024, 1000.0)]).cells = vec![cell.clone()];
        }
        let trial = fixture::trial_of(&mut manifest, 2);
        trial.rate_missed = true;
        fixture::put(trial, &[(Figure::Lost, 5.0)]);
        fixture::remove_followers_cost(trial);
        let result = &mut manifest.sub_experiments[2];
        result.path_proof.as_mut().unwrap().verdict = Verdict::Failed;
        (result.status, result.error) = (RunStatus::Failed, Some("the follower ended".to_owned()));
        let expected = "\
| 1 | iceoryx/shm | 1024 | 4 | 11.000 | 100.000 | 0 (0..0.368) | 3.1/1.2 | poll | none | 1000 | ok |
| 2 | zenoh/tcp | 1024 | 4 | !11.000 | 100.000 | 0.5 (0.163..1.163) | 3.1/- | poll | none | 1000 | FAILED |
| 3 | iceoryx/shm | 1024 | 8 | 11.000 | 100.000 | 0 (0..0.368) | 3.1/1.2 | poll | none | 1000 | ok |
";
        let cores = "DEVIATION: the published figures are from 3 cores; here the threads of each side are bound to one \
                     CPU, 0 and 1 (--cpus confines both to a list).\n";
        let notes = "- PATH PROOF FAILED: zenoh (zenoh/tcp): claimed unix-stream, seen: 20000 bytes went over \
                     unix-stream; its figures do not measure this transport\n\
                     - FAILED: zenoh: the follower ended\n";
        assert_eq!(
            text(&manifest),
            format!("INCOMPLETE\n\n{CHANNEL_HEADER}{expected}\n{CHANNEL_LEGEND}{cores}\n{notes}")
        );
        assert_eq!(text(&fixture::manifest()), "Nothing in this table was measured.\n");
    }

    #[test]
    fn calls_have_one_mode_per_row_and_queries_per_second_in_a_closed_loop_only() {
        let mut manifest = fixture::manifest();
        fixture::add_calls(&mut manifest, "grpc_sizes", "grpc/unary", Mode::Bench, 1);
        fixture::add_calls(&mut manifest, "grpc_1", "grpc/unary", Mode::FixedFreq, 1);
        fixture::add_calls(&mut manifest, "grpc_4", "grpc/unary", Mode::FixedFreq, 4);
        fixture::add_calls(&mut manifest, "http_sizes", "http/http1", Mode::Bench, 1);
        fixture::add_calls(&mut manifest, "http_4", "http/http1", Mode::FixedFreq, 4);
        let trial = fixture::trial_of(&mut manifest, 4);
        fixture::put(trial, &[(Figure::TimedOut, 4.0), (Figure::Failed, 1.0)]);
        trial.rate_missed = true;
        manifest.plan.sub_experiments.iter_mut().for_each(|sub| sub.wait = Wait::Block);
        let expected = "\
| 1 | grpc/unary | 1024 | 1 | 11.000 | 100.000 | 9876.543 | 0 (0..0.368) | 3.1/1.2 | block | none | - | ok |
| 2 | http/http1 | 1024 | 1 | 11.000 | 100.000 | 9876.543 | 0 (0..0.368) | 3.1/1.2 | block | none | - | ok |
| 3 | grpc/unary | 1024 | 1 | 11.000 | 100.000 | - | 0 (0..0.368) | 3.1/1.2 | block | none | 1000 | ok |
| 4 | grpc/unary | 1024 | 4 | 11.000 | 100.000 | - | 0 (0..0.368) | 3.1/1.2 | block | none | 1000 | ok |
| 5 | http/http1 | 1024 | 4 | !11.000 | 100.000 | - | 0.5 (0.163..1.163) | 3.1/1.2 | block | none | 1000 | ok |
";
        let ends_with = |manifest: &Manifest, cores: &str| {
            assert_eq!(text(manifest), format!("{RPC_HEADER}{expected}\n{RPC_LEGEND}{cores}\n"));
        };
        (manifest.plan.leader_cpu, manifest.plan.follower_cpu) = (None, None);
        ends_with(
            &manifest,
            "DEVIATION: the published figures are from 3 cores; here the kernel chooses among CPUs 0, 1.",
        );
        manifest.plan.cpus = vec![0, 1];
        let two = "DEVIATION: the published figures are from 3 cores; here both processes are confined to CPUs 0, 1.";
        ends_with(&manifest, two);
        manifest.plan.cpus = vec![0, 1, 2];
        ends_with(&manifest, "Cores: both processes are confined to 3, CPUs 0, 1, 2, as published.");
    }

    #[test]
    fn what_the_published_tables_have_no_place_for_is_named() {
        let mut manifest = published("shm/ring", &[1000.0]);
        manifest.plan.sub_experiments[0].workload.topology.followers = 3;
        let note = "- uds_channel: this table leaves out pattern publish to 3 followers; the table `all` has it\n";
        assert_eq!(text(&manifest), format!("Nothing in this table was measured.\n\n{note}"));
        manifest.plan.sub_experiments[0].workload.topology.followers = 1;
        fixture::add_calls(&mut manifest, "paced", "uds/stream", Mode::FixedFreq, 1);
        manifest.plan.sub_experiments[1].pattern = Pattern::Ping;
        fixture::add(&mut manifest, "plain", "uds/stream", &[1024]);
        fixture::add(&mut manifest, "floor", "shm/ring", &[1024]).added_as_floor = true;
        let several = fixture::add(&mut manifest, "several", "uds/stream", &[1024]);
        several.pattern = Pattern::Publish;
        several.workload = Workload::publications(vec![OfferedLoad::Rate { hz: 9.0 }], 1, 4);
        let text = text(&manifest);
        for line in [
            "- paced: this table leaves out pattern ping at a rate; the table `all` has it",
            "- plain: this table leaves out pattern ping; the table `all` has it",
            "- several: this table leaves out pattern publish with 4 publishers of one topic; the table `all` has it",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert_eq!(text.matches("leaves out").count(), 3, "{text}");
    }
}
