//! What the audit of samples found, said beside the row and the figure that it concerns; thresholds are those of
//! [`tripmeter_stats::series`].

use crate::merged::{Merged, MergedCell};
use crate::number::micros;
use crate::throughput::offer;
use std::collections::BTreeSet;
use tripmeter_model::channel::{ChannelTrial, Latency, TopicTrial};
use tripmeter_model::manifest::Cell;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::payload::display_size;
use tripmeter_model::rpc::{ClientSeries, RpcTrial};
use tripmeter_model::series::Series;
use tripmeter_stats::rounds::{drift_of_rounds, modes_of_rounds};
use tripmeter_stats::series::{drifts, has_modes, is_correlated, warm_up_changes};

/// Figures that dropping a warm-up may change.
const FIGURES: [&str; 3] = ["mean", "median", "p99"];

/// A line for each payload of which there is something to say.
pub fn notes(sub: &Merged<'_>) -> Vec<String> {
    sub.payloads().iter().flat_map(|cell| of_payload(sub, cell)).collect()
}

/// One series of a figure.
struct Audited<'a> {
    round: usize,
    /// Whose calls they are of; 0 where there are no clients.
    client: u32,
    series: &'a Series,
}

/// Of what is audited, one kind of time.
type Of<T> = fn(&T) -> Option<&Series>;

fn of_payload(sub: &Merged<'_>, cell: &MergedCell<'_>) -> Vec<String> {
    let place = format!("{} at {}", sub.planned.name, display_size(cell.payload_bytes));
    let rounds = cell.cells.iter().enumerate();
    let whole = rounds.filter_map(|(round, cell)| Some(Audited { round, client: 0, series: cell.series.as_ref()? }));
    let lines = line(sub, &place, whole.collect()).into_iter();
    lines
        .chain(of_rounds(cell, &place))
        .chain(of_topics(sub, cell, &place))
        .chain(of_recorded(sub, cell))
        .chain(of_clients(sub, cell, &place))
        .collect()
}

/// What the medians of the rounds show besides their middle.
fn of_rounds(cell: &MergedCell<'_>, place: &str) -> Vec<String> {
    type Medians<'a> = (&'static str, Vec<f64>);
    let calls = |of: fn(&RpcTrial) -> Option<Latency>| medians(cell, |cell| &cell.rpc, of);
    let topics = |of: fn(&ChannelTrial) -> Option<Latency>| medians(cell, |cell| &cell.channel, of);
    let all: [Medians<'_>; 6] = [
        ("rtt_half", cell.rtt_half(|figures| figures.median)),
        ("one_way", cell.one_way(|figures| figures.median)),
        ("response time", topics(|trial| trial.response_ns)),
        ("service time", topics(|trial| trial.service_ns)),
        ("response time of calls", calls(|trial| trial.response_rtt_ns)),
        ("service time of calls", calls(|trial| trial.service_rtt_ns)),
    ];
    let mut lines = Vec::new();
    for (kind, medians) in all {
        if let Some(groups) = modes_of_rounds(&medians) {
            let (low, high) = (micros(groups.lower_median), micros(groups.upper_median));
            let (lower, upper) = (groups.lower_count, groups.upper_count);
            lines.push(format!(
                "{place}: the rounds have two modes, {low} µs in {lower} and {high} µs in {upper} of them: the median of \
                 {kind} over rounds is of either"
            ));
        }
        if let Some(change) = drift_of_rounds(&medians) {
            let change = change * 100.0;
            lines.push(format!(
                "{place}: the median of {kind} drifted by {change:+.0} % from the first round to the last"
            ));
        }
    }
    lines
}

/// Of each round, the median of a payload that has one trial; of several trials nothing is said.
fn medians<T>(cell: &MergedCell<'_>, trials: fn(&Cell) -> &Vec<T>, of: fn(&T) -> Option<Latency>) -> Vec<f64> {
    let only = cell.cells.iter().map(|cell| trials(cell)).filter(|trials| trials.len() == 1);
    only.filter_map(|trials| Some(of(&trials[0])?.median)).collect()
}

fn of_topics(sub: &Merged<'_>, cell: &MergedCell<'_>, place: &str) -> Vec<String> {
    const TIMES: [(&str, Of<ChannelTrial>); 2] =
        [("response", |trial| trial.response_series.as_ref()), ("service", |trial| trial.service_series.as_ref())];
    let mut lines = Vec::new();
    for trial in 0..cell.cells.iter().map(|cell| cell.channel.len()).max().unwrap_or(0) {
        let Some(load) = cell.cells.iter().find_map(|cell| Some(cell.channel.get(trial)?.load())) else { continue };
        for (time, of) in TIMES {
            let trials =
                cell.cells.iter().enumerate().filter_map(|(round, cell)| Some((round, cell.channel.get(trial)?)));
            let found = trials.filter_map(|(round, trial)| Some(Audited { round, client: 0, series: of(trial)? }));
            lines.extend(line(sub, &format!("{place}, {}, {time} time", offer(&load)), found.collect()));
        }
    }
    lines
}

/// Each topic of a recording.
fn of_recorded(sub: &Merged<'_>, cell: &MergedCell<'_>) -> Vec<String> {
    const TIMES: [(&str, Of<TopicTrial>); 2] =
        [("response", |topic| topic.response_series.as_ref()), ("service", |topic| topic.service_series.as_ref())];
    let trials = || cell.cells.iter().enumerate().filter_map(|(round, cell)| Some((round, cell.channel.first()?)));
    let mut lines = Vec::new();
    for index in 0..trials().map(|(_, trial)| trial.topics.len()).max().unwrap_or(0) {
        let topics = || trials().filter_map(|(round, trial)| Some((round, trial.topics.get(index)?)));
        let Some((_, TopicTrial { name, .. })) = topics().next() else { continue };
        for (time, of) in TIMES {
            let found = topics().filter_map(|(round, topic)| Some(Audited { round, client: 0, series: of(topic)? }));
            lines.extend(line(sub, &format!("{}, topic '{name}', {time} time", sub.planned.name), found.collect()));
        }
    }
    lines
}

fn of_clients(sub: &Merged<'_>, cell: &MergedCell<'_>, place: &str) -> Vec<String> {
    const TIMES: [(&str, Of<ClientSeries>); 2] =
        [("response", |client| client.response_series.as_ref()), ("service", |client| client.service_series.as_ref())];
    let mut lines = Vec::new();
    for trial in 0..cell.cells.iter().map(|cell| cell.rpc.len()).max().unwrap_or(0) {
        let load = cell.cells.iter().find_map(|cell| Some(cell.rpc.get(trial)?.load()));
        let load = load.filter(|load| *load != OfferedLoad::Closed);
        let load = load.map_or(String::new(), |load| format!(", {}", offer(&load)));
        for (time, of) in TIMES {
            let trials = cell.cells.iter().enumerate().filter_map(|(round, cell)| Some((round, cell.rpc.get(trial)?)));
            let clients = trials.flat_map(|(round, trial)| trial.clients.iter().map(move |client| (round, client)));
            let found = clients
                .filter_map(|(round, client)| Some(Audited { round, client: client.client, series: of(client)? }));
            lines.extend(line(sub, &format!("{place}{load}, {time} time"), found.collect()));
        }
    }
    lines
}

/// Everything about one row; of several rounds or clients the first that something is said of, and how many there are.
fn line(sub: &Merged<'_>, place: &str, audited: Vec<Audited<'_>>) -> Option<String> {
    let clients = sub.planned.rpc.as_ref().map_or(1, |calls| calls.clients);
    let parts = [modes, drift, warm_up, correlation].iter().filter_map(|say| {
        let said: Vec<(&Audited<'_>, String)> =
            audited.iter().filter_map(|one| Some((one, say(one.series)?))).collect();
        let (first, text) = said.first()?;
        let mut extent = Vec::new();
        if clients > 1 {
            let those: BTreeSet<u32> = said.iter().map(|(one, _)| one.client).collect();
            extent.push(format!("client {}, {} of {clients} clients", first.client, those.len()));
        }
        if sub.rounds > 1 {
            let those: BTreeSet<usize> = said.iter().map(|(one, _)| one.round).collect();
            extent.push(format!("in {} of {} rounds", those.len(), sub.rounds));
        }
        Some(if extent.is_empty() { text.clone() } else { format!("{text} ({})", extent.join(", ")) })
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| format!("{place}: {}", parts.join("; ")))
}

fn modes(series: &Series) -> Option<String> {
    let found = has_modes(series)?;
    let (low, high, share) = (micros(found.lower_ns), micros(found.upper_ns), found.upper_share * 100.0);
    Some(format!(
        "two modes, {low} and {high} µs, {share:.0} % of the samples in the upper one: the median is of either"
    ))
}

fn drift(series: &Series) -> Option<String> {
    let found = drifts(series)?;
    Some(format!("the median drifted by {:+.0} % from begin to end", found.change * 100.0))
}

fn warm_up(series: &Series) -> Option<String> {
    let (changes, warm_up) = (warm_up_changes(series), series.warm_up?);
    let figures = [warm_up.mean_ns, warm_up.median_ns, warm_up.p99_ns];
    let changed = FIGURES.iter().zip(figures).zip(changes).filter(|(_, changes)| *changes);
    let changed: Vec<String> =
        changed.map(|((name, [all, rest]), _)| format!("{name} {} -> {} µs", micros(all), micros(rest))).collect();
    let (samples, changed_text) = (warm_up.samples, changed.join(", "));
    (!changed.is_empty()).then(|| format!("without its first {samples} samples (warm-up by MSER-5) {changed_text}"))
}

fn correlation(series: &Series) -> Option<String> {
    let found = is_correlated(series)?;
    let (worth, samples) = (found.effective_samples, series.samples * series.every);
    let bound = if found.is_complete { "" } else { "at most " };
    let wider = (samples as f64 / worth).sqrt();
    Some(format!(
        "autocorrelated: {samples} samples are worth {bound}{worth:.0}, so intervals within the run should be {wider:.1} \
         times as wide"
    ))
}

#[cfg(test)]
mod tests {
    use crate::fixture::all;
    use crate::fixture::{self, add, result};
    use crate::render::Text;
    use crate::{iceperf, log, recording, rpc};
    use tripmeter_model::rpc::{ClientSeries, Mode};
    use tripmeter_model::series::{Correlation, Modes, Series, Trend, WarmUp};

    fn series() -> Series {
        Series {
            every: 1,
            samples: 10_000,
            warm_up: Some(WarmUp {
                samples: 300,
                is_reliable: true,
                mean_ns: [1200.0, 1000.0],
                median_ns: [1000.0, 999.0],
                p99_ns: [9000.0, 2000.0],
            }),
            autocorrelation: Some(Correlation { lag_1: 0.9, effective_samples: 400.0, is_complete: true }),
            drift: Some(Trend { change: -0.12, p: 1e-6 }),
            modes: Some(Modes { dip: 0.1, dip_limit: 0.03, upper_share: 0.3, lower_ns: 900.0, upper_ns: 1800.0 }),
        }
    }

    #[test]
    fn each_finding_names_its_figure() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "mq", "mq/queue", &[1024]);
        result(&mut manifest, "mq", 1, &[(1024, 1000.0)]).cells[0].series = Some(series());
        let line = "mq at 1k: two modes, 0.900 and 1.800 µs, 30 % of the samples in the upper one: the median is of either; \
                    the median drifted by -12 % from begin to end; without its first 300 samples (warm-up by MSER-5) mean \
                    1.200 -> 1.000 µs, p99 9.000 -> 2.000 µs; autocorrelated: 10000 samples are worth 400, so intervals \
                    within the run should be 5.0 times as wide\n";
        assert!(all(&manifest).contains(line), "{}", all(&manifest));
        let text = Text { is_unwrapped: true, ..Text::default() }.render(&iceperf(&manifest));
        assert!(text.contains(line), "{text}");
        manifest.plan.rounds = 2;
        let steady = Series { warm_up: None, autocorrelation: None, modes: None, ..series() };
        result(&mut manifest, "mq", 2, &[(1024, 1000.0)]).cells[0].series = Some(steady);
        let text = all(&manifest);
        assert!(text.contains("begin to end (in 2 of 2 rounds); without its first 300"), "{text}");
    }

    #[test]
    fn rounds_of_two_modes_are_told() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "mq", "mq/queue", &[1024]);
        manifest.plan.rounds = 10;
        for round in 1..=10 {
            result(
                &mut manifest,
                "mq",
                round,
                &[(1024, if round % 2 == 0 { 1000.0 } else { 2000.0 } + f64::from(round))],
            );
        }
        let line = "mq at 1k: the rounds have two modes, 1.006 µs in 5 and 2.005 µs in 5 of them: the median of rtt_half \
                    over rounds is of either\n";
        assert!(all(&manifest).contains(line), "{}", all(&manifest));
    }

    #[test]
    fn calls_are_audited_client_by_client() {
        let mut manifest = fixture::manifest();
        rpc::tests::add(&mut manifest, "grpc", "grpc/unary", Mode::FixedFreq, 4);
        let drifting = Series { warm_up: None, autocorrelation: None, modes: None, ..series() };
        let client = |client: u32, service_series| ClientSeries { client, response_series: None, service_series };
        let steady = Series { drift: None, ..drifting.clone() };
        let of = [Some(steady.clone()), Some(drifting.clone()), Some(steady), Some(drifting)];
        let clients = of.into_iter().zip(0..).map(|(series, number)| client(number, series));
        manifest.sub_experiments[0].cells[0].rpc[0].clients = clients.collect();
        let line = "grpc at 1k, 1000 /s, service time: the median drifted by -12 % from begin to end (client 1, 2 of 4 \
                    clients)\n";
        assert!(all(&manifest).contains(line), "{}", all(&manifest));
    }

    #[test]
    fn topics_of_a_recording_are_audited_one_by_one() {
        let mut manifest = recording::tests::played();
        let topic = &mut manifest.sub_experiments[0].cells[0].channel[0].topics[1];
        topic.service_series = Some(Series { warm_up: None, autocorrelation: None, modes: None, ..series() });
        let line = "uds_channel, topic '/switch', service time: the median drifted by -12 % from begin to end\n";
        assert!(all(&manifest).contains(line), "{}", all(&manifest));
    }

    #[test]
    fn calls_of_a_logger_are_audited() {
        let mut manifest = fixture::manifest();
        log::tests::add(&mut manifest, "w", "write/file", &[(32, 500.0)]);
        manifest.sub_experiments[0].cells[0].series = Some(series());
        assert!(all(&manifest).contains("w at 32: two modes, 0.900 and 1.800 µs"), "{}", all(&manifest));
    }
}
