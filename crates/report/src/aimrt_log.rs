//! The columns of AimRT's logger benchmark.

use crate::aimrt::over_rounds;
use crate::log::{self, Row};
use crate::merged::{Merged, largest};
use crate::notes;
use crate::throughput::share_interval;
use tripmeter_model::manifest::Manifest;
use tripmeter_stats::losses::sum;

const HEADER: &str = "\
| epoch num | log data size (bytes) | total duration (ns) | avg latency (ns) | Avg CPU Usage (%) | Max CPU Usage (%) | lost lines |
| :-------: | :-------------------: | :-----------------: | :--------------: | :---------------: | :---------------: | :--------: |
";

const LEGEND: &str = "\
AimRT's columns, its total duration by its true unit, and a last one of ours: the lines that were missing or damaged
afterwards, of all rounds and their warm-ups. Total duration: of all calls of one round. CPU: of the logging process until all was written out,
user and system, 100 = one core. In brackets: intervals at 95 %, over rounds (n too small = fewer than 6), of lost lines
in per cent of those logged from the least to the most of a round, of one round or without any by Clopper and Pearson as if
they were lost one by one.
";

/// AimRT's logger table, one for each logger; `None` if no logger was measured.
///
/// # Source
/// AimRT, performance test, table of its logger.
pub fn tables(manifest: &Manifest) -> Option<String> {
    let subs = Merged::of(manifest);
    let rows = log::rows(&subs);
    let mut text = String::new();
    for sub in subs.iter().filter(|sub| log::is_of(sub)) {
        let own: Vec<&Row<'_>> = rows.iter().filter(|row| std::ptr::eq(row.sub, sub)).collect();
        if own.is_empty() {
            continue;
        }
        text += &format!("{}, path proof: {}\n\n{HEADER}", sub.planned.transport, notes::proof(sub));
        own.iter().for_each(|row| text += &line(row));
        text += "\n";
    }
    (!text.is_empty()).then(|| text + LEGEND)
}

fn line(row: &Row<'_>) -> String {
    let one_decimal = |share: f64| format!("{share:.1}");
    let (means, cpu) = (row.of_calls(|calls| calls.mean), row.logs().map(|log| log.used.cpu_percent()));
    let calls = row.calls() / (row.logs().count().max(1) as u64);
    let whole = |ns: f64| format!("{ns:.0}");
    let totals: Vec<f64> = means.iter().map(|ns| ns * calls as f64).collect();
    let most = largest(&row.logs().filter_map(|log| log.cpu_max_percent).collect::<Vec<_>>());
    let lines = row.lines(|counts| counts.lost + counts.damaged);
    let lost = sum(&lines).0;
    let share = share_interval(&lines).map_or(String::new(), |interval| format!(" ({interval} %)"));
    format!(
        "| {calls} | {} | {} | {} | {} | {} | {lost}{share} |\n",
        row.payload_bytes(),
        over_rounds(&totals, whole),
        over_rounds(&means, whole),
        over_rounds(&cpu.collect::<Vec<_>>(), one_decimal),
        most.map_or("-".to_owned(), one_decimal),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{aimrt, fixture};

    #[test]
    fn each_logger_has_aimrt_s_table() {
        let mut manifest = fixture::manifest();
        log::tests::add(&mut manifest, "w", "write/file", &[(32, 500.0), (64, 1000.0)]);
        log::tests::add(&mut manifest, "s", "spdlog/sync-file", &[(32, 2000.0)]);
        manifest.sub_experiments[1].cells[0].counts.lost = 4;
        let expected = format!(
            "write/file, path proof: ok\n\n{HEADER}\
             | 10000 | 32 | 5500000 | 550 | 92.5 | 118.2 | 0 (0..0.034 %) |\n\
             | 10000 | 64 | 11000000 | 1100 | 92.5 | 118.2 | 0 (0..0.034 %) |\n\n\
             spdlog/sync-file, path proof: ok\n\n{HEADER}\
             | 10000 | 32 | 22000000 | 2200 | 92.5 | 118.2 | 4 (0.01..0.093 %) |\n\n{LEGEND}\
             DEVIATION: published are figures on 3 cores; here the thread that logs is bound to processor 0 of 2 processors (--cpus \
             confines both processes to a list).\n"
        );
        assert_eq!(aimrt(&manifest), expected);
        assert_eq!(tables(&fixture::manifest()), None);
    }
}
