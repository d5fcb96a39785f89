//! The columns of AimRT's channel benchmark.

use crate::channel;
use crate::interval::TOO_SMALL;
use crate::merged::{Merged, largest};
use crate::number::micros;
use crate::throughput::percent;
use tripmeter_model::channel::{ChannelTrial, Latency, Used};
use tripmeter_model::manifest::Manifest;
use tripmeter_stats::median;
use tripmeter_stats::rounds::figure_over_rounds;

const HEADER: &str = "\
| ID  | Backend Type | Pkg Size (bytes) | Topic num | Avg Latency (us) | Max Latency (us) | Loss Rate (%) | Avg CPU Usage (%) |
| --- | ------------ | :--------------: | :-------: | :--------------: | :--------------: | :-----------: | :---------------: |
";

const LEGEND: &str = "\
AimRT's columns; the systems are measured by themselves, not below AimRT. Latency: one way, from the actual sending (service
time), as AimRT takes it; times from the intended sending are in the table `all`. Loss: lost, late or damaged messages of
those sent. CPU: publisher/subscriber, user and system, 100 = one core. !: the rate was missed.
";

/// AimRT's channel table: a row for each system, size and number of topics, in the order of the plan.
///
/// # Source
/// AimRT, performance test, table of its channel back ends.
pub fn aimrt(manifest: &Manifest) -> String {
    let subs = Merged::of(manifest);
    let mut rows: Vec<_> = channel::rows(&subs);
    if rows.is_empty() {
        return "Nothing of this table was measured.\n".to_owned();
    }
    // A group for each number of topics and size, as they come in the plan; systems side by side in it.
    let mut groups: Vec<(u32, u64)> = Vec::new();
    for sub in manifest.plan.sub_experiments.iter().filter(|sub| sub.channel.is_some()) {
        for group in sub.payloads.iter().map(|payload| (sub.links(), *payload)) {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
    }
    rows.sort_by_key(|row| groups.iter().position(|group| *group == row.group()));
    let lines = rows.iter().zip(1..).map(|(row, id)| line(row, id));
    lines.fold(HEADER.to_owned(), |text, line| text + &line) + "\n" + LEGEND
}

/// The median over rounds, and of several its interval at 95 %.
fn over_rounds(means: &[f64]) -> String {
    let Some(over) = figure_over_rounds(means) else { return "-".to_owned() };
    let text = micros(over.median);
    match over.interval {
        _ if means.len() == 1 => text,
        Some([low, high]) => format!("{text} ({}..{})", micros(low), micros(high)),
        None => format!("{text} ({TOO_SMALL})"),
    }
}

fn line(row: &channel::Row<'_>, id: u32) -> String {
    let latency = |figure: fn(&Latency) -> f64| -> Vec<f64> {
        row.trials().filter_map(|trial| trial.service_ns.as_ref()).map(figure).collect()
    };
    let cpu = |used: fn(&ChannelTrial) -> Option<Used>| {
        let each: Vec<f64> = row.trials().filter_map(used).map(|used| used.cpu_percent()).collect();
        median(&each).map_or("-".to_owned(), |percent| format!("{percent:.1}"))
    };
    let (topics, payload_bytes) = row.group();
    format!(
        "| {id} | {} | {payload_bytes} | {topics} | {}{} | {} | {} | {}/{} |\n",
        row.transport(),
        if row.trials().any(|trial| trial.rate_missed) { "!" } else { "" },
        over_rounds(&latency(|latency| latency.mean)),
        largest(&latency(|latency| latency.max)).map_or("-".to_owned(), micros),
        percent(row.loss()),
        cpu(|trial| Some(trial.publisher)),
        cpu(|trial| trial.subscriber),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::tests::measured;
    use crate::fixture;

    #[test]
    fn systems_stand_side_by_side_at_each_size_and_number_of_topics() {
        let mut manifest = measured("iceoryx/shm", &[1000.0]);
        let cell = manifest.sub_experiments[0].cells[0].clone();
        for (name, transport, topics) in [("more", "iceoryx/shm", 8), ("zenoh", "zenoh/tcp", 4)] {
            let plan = fixture::add(&mut manifest, name, transport, &[1024]);
            plan.pattern = tripmeter_model::Pattern::Channel;
            plan.channel = Some(tripmeter_model::channel::Flow { rates_hz: vec![1000.0], topics });
            fixture::result(&mut manifest, name, 1, &[(1024, 1000.0)]).cells = vec![cell.clone()];
        }
        let trial = &mut manifest.sub_experiments[2].cells[0].channel[0];
        (trial.rate_missed, trial.counts.lost, trial.subscriber) = (true, 5, None);
        let expected = "\
| 1 | iceoryx/shm | 1024 | 4 | 11.000 | 100.000 | 0 | 3.1/1.2 |
| 2 | zenoh/tcp | 1024 | 4 | !11.000 | 100.000 | 0.5 | 3.1/- |
| 3 | iceoryx/shm | 1024 | 8 | 11.000 | 100.000 | 0 | 3.1/1.2 |
";
        assert_eq!(aimrt(&manifest), format!("{HEADER}{expected}\n{LEGEND}"));
        assert_eq!(aimrt(&fixture::manifest()), "Nothing of this table was measured.\n");
    }
}
