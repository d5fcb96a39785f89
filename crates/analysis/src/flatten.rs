//! Trials of a manifest: every figure of a cell, by its address.

use tripmeter_model::channel::{ChannelTrial, Latency, LatencyBounds, Used};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::log::LogCalls;
use tripmeter_model::manifest::{Bounds, Cell, Counts, Figures, Handover, WithinRun};
use tripmeter_model::metric::{Interval, Probe, Process, Stream};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::rpc::{CallCounts, Pace, RpcTrial};
use tripmeter_model::throughput::{self, Arrival};
use tripmeter_model::trial::Trial;
use tripmeter_model::workload::Reply;

/// Trials of a cell, one for each offered load. Each has the figures of the payload too, such as its probes.
pub fn trials(plan: &SubExperiment, cell: &Cell) -> Vec<Trial> {
    let mut trials: Vec<Trial> = match plan.workload.reply {
        Reply::Answer => vec![of_trips(cell)],
        Reply::Lines => cell.log.iter().map(|log| of_log(cell, log)).collect(),
        _ => Vec::new(),
    };
    trials.extend(cell.trials.iter().map(of_throughput));
    trials.extend(cell.channel.iter().map(of_channel));
    trials.extend(cell.rpc.iter().map(of_calls));
    for trial in &mut trials {
        for (figure, is) in [(Figure::RateMissed, trial.rate_missed), (Figure::CutShort, trial.cut_short.is_some())] {
            is.then(|| trial.put(&Stream::all(), figure, 1.0));
        }
        for (probe, found) in [(Probe::Before, cell.handover_ns.before), (Probe::After, cell.handover_ns.after)] {
            found.iter().for_each(|handover| of_probe(trial, probe, handover));
        }
    }
    trials
}

fn of_probe(trial: &mut Trial, probe: Probe, handover: &Handover) {
    let Handover { samples, min_ns, median_ns } = *handover;
    for (statistic, value) in [(Statistic::N, samples as f64), (Statistic::Min, min_ns), (Statistic::P50, median_ns)] {
        trial.put_statistic(&Stream::probe(probe), Figure::CoreToCore, statistic, value, None);
    }
}

fn of_trips(cell: &Cell) -> Trial {
    let mut trial = Trial::new(OfferedLoad::Closed);
    trial.cut_short.clone_from(&cell.cut_short);
    let all = Stream::all();
    of_figures(&mut trial, &all, Figure::RttHalf, cell.rtt_half_ns, cell.rtt_half_within_run_ns);
    trial.put_statistic(&all, Figure::RttHalf, Statistic::N, cell.samples as f64, None);
    of_figures(&mut trial, &all, Figure::OneWay, cell.one_way_ns, cell.one_way_within_run_ns);
    of_figures(&mut trial, &Stream::last(), Figure::OneWay, cell.one_way_last_ns, cell.one_way_last_within_run_ns);
    trial.put(&all, Figure::OneWayMissing, cell.one_way_missing as f64);
    of_counts(&mut trial, &all, &cell.counts);
    for at in &cell.followers {
        let stream = Stream::follower(at.follower);
        of_figures(&mut trial, &stream, Figure::OneWay, at.one_way_ns, at.one_way_within_run_ns);
        of_counts(&mut trial, &stream, &at.counts);
    }
    trial.put(&all, Figure::Duration, cell.duration_ns as f64);
    trial.series.extend(cell.series.clone().map(|series| (all, Figure::RttHalf, series)));
    trial
}

fn of_log(cell: &Cell, log: &LogCalls) -> Trial {
    let mut trial = Trial::new(OfferedLoad::Closed);
    trial.cut_short.clone_from(&cell.cut_short);
    let all = Stream::all();
    of_figures(&mut trial, &all, Figure::Call, log.call_ns, log.call_within_run_ns);
    trial.put_statistic(&all, Figure::Call, Statistic::N, cell.samples as f64, None);
    of_counts(&mut trial, &all, &cell.counts);
    let lines = &log.lines;
    for (figure, value) in [
        (Figure::Refused, log.refused),
        (Figure::LinesWritten, lines.written),
        (Figure::LinesBytes, lines.bytes),
        (Figure::ShortestPrefix, lines.shortest_prefix_bytes),
        (Figure::LongestPrefix, lines.longest_prefix_bytes),
        (Figure::Flush, log.flush_ns),
        (Figure::Duration, cell.duration_ns),
    ] {
        trial.put(&all, figure, value as f64);
    }
    trial.series.extend(cell.series.clone().map(|series| (all, Figure::Call, series)));
    of_process(&mut trial, Process::Leader, &log.used);
    if let Some(percent) = log.cpu_max_percent {
        trial.put(&Stream::process(Process::Leader), Figure::CpuPeak, percent / 100.0);
    }
    trial
}

fn of_throughput(measured: &throughput::Trial) -> Trial {
    let mut trial = Trial::new(measured.offer);
    trial.cut_short.clone_from(&measured.cut_short);
    trial.steps.clone_from(&measured.searched);
    let all = Stream::all();
    for (figure, value) in [
        (Figure::PublishedRate, measured.published_hz),
        (Figure::Publication, measured.publication_ns as f64),
        (Figure::Refused, measured.refused as f64),
        (Figure::Behind, measured.behind as f64),
    ] {
        trial.put(&all, figure, value);
    }
    if let Some(hz) = measured.offered_hz {
        trial.put(&all, Figure::OfferedRate, hz);
    }
    if let Some(samples) = measured.one_way_samples {
        trial.put(&all, Figure::OneWayTimed, samples.messages as f64);
    }
    for arrival in &measured.followers {
        let only = measured.followers.len() == 1;
        let stream = if only { all.clone() } else { Stream::follower(arrival.follower) };
        of_arrival(&mut trial, &stream, measured.sent, arrival);
    }
    trial
}

fn of_arrival(trial: &mut Trial, stream: &Stream, sent: u64, arrival: &Arrival) {
    let Arrival { received, lost, duplicated, reordered, damaged, .. } = *arrival;
    of_counts(trial, stream, &Counts { sent, received, lost, late: 0, duplicated, reordered, damaged });
    for (figure, value) in [
        (Figure::ReceivedRate, arrival.received_hz),
        (Figure::ReceivedBytes, arrival.received_bytes_per_s),
        (Figure::Subscription, arrival.subscription_ns as f64),
    ] {
        trial.put(stream, figure, value);
    }
    of_latency(trial, stream, Figure::OneWay, arrival.one_way_ns, None);
}

fn of_channel(measured: &ChannelTrial) -> Trial {
    let mut trial = Trial::new(measured.load());
    trial.rate_missed = measured.rate_missed;
    trial.cut_short.clone_from(&measured.cut_short);
    let all = Stream::all();
    for (figure, value) in [
        (Figure::OfferedRate, measured.offered_hz),
        (Figure::AchievedRate, measured.achieved_hz),
        (Figure::SlowestRate, measured.slowest_hz),
        (Figure::Behind, measured.behind as f64),
        (Figure::Refused, measured.refused as f64),
        (Figure::BeforeSent, measured.before_sent as f64),
        (Figure::Duration, measured.duration_ns as f64),
    ] {
        trial.put(&all, figure, value);
    }
    of_counts(&mut trial, &all, &measured.counts);
    for (figure, latency, within, series) in [
        (Figure::Response, measured.response_ns, measured.response_within_run_ns, &measured.response_series),
        (Figure::Service, measured.service_ns, measured.service_within_run_ns, &measured.service_series),
        (Figure::Lateness, measured.lateness_ns, measured.lateness_within_run_ns, &None),
    ] {
        of_latency(&mut trial, &all, figure, latency, within);
        trial.series.extend(series.clone().map(|series| (all.clone(), figure, series)));
    }
    for one in &measured.topics {
        let stream = Stream::topic(&one.name);
        trial.missed.extend(one.rate_missed.then(|| stream.clone()));
        of_sizes(&mut trial, &stream, one.mean_bytes, one.largest_bytes);
        for (figure, value) in [
            (Figure::OfferedRate, one.offered_hz),
            (Figure::AchievedRate, one.achieved_hz),
            (Figure::Behind, one.behind as f64),
            (Figure::BeforeSent, one.before_sent as f64),
        ] {
            trial.put(&stream, figure, value);
        }
        of_counts(&mut trial, &stream, &one.counts);
        for (figure, latency, within, series) in [
            (Figure::Response, one.response_ns, one.response_within_run_ns, &one.response_series),
            (Figure::Service, one.service_ns, one.service_within_run_ns, &one.service_series),
            (Figure::Lateness, one.lateness_ns, one.lateness_within_run_ns, &None),
        ] {
            of_latency(&mut trial, &stream, figure, latency, within);
            trial.series.extend(series.clone().map(|series| (stream.clone(), figure, series)));
        }
    }
    for one in &measured.publishers {
        let stream = Stream::publisher(one.publisher);
        trial.missed.extend(one.rate_missed.then(|| stream.clone()));
        trial.put(&stream, Figure::AchievedRate, one.achieved_hz);
        of_counts(&mut trial, &stream, &one.counts);
    }
    for one in &measured.followers {
        let stream = Stream::follower(one.follower);
        of_counts(&mut trial, &stream, &one.counts);
        of_latency(&mut trial, &stream, Figure::Response, one.response_ns, None);
        of_latency(&mut trial, &stream, Figure::Service, one.service_ns, None);
    }
    of_process(&mut trial, Process::Leader, &measured.publisher);
    measured.subscriber.iter().for_each(|used| of_process(&mut trial, Process::Follower, used));
    trial
}

fn of_calls(measured: &RpcTrial) -> Trial {
    let mut trial = Trial::new(measured.load());
    trial.cut_short.clone_from(&measured.cut_short);
    let all = Stream::all();
    if let Some(pace) = measured.pace {
        trial.rate_missed = pace.rate_missed;
        of_pace(&mut trial, &all, &pace);
    }
    of_call_counts(&mut trial, &all, &measured.counts);
    trial.put(&all, Figure::Completed, measured.qps);
    trial.put(&all, Figure::Duration, measured.duration_ns as f64);
    for (figure, latency, within) in [
        (Figure::ResponseRtt, measured.response_rtt_ns, measured.response_rtt_within_run_ns),
        (Figure::ServiceRtt, measured.service_rtt_ns, measured.service_rtt_within_run_ns),
        (Figure::Lateness, measured.lateness_ns, measured.lateness_within_run_ns),
        (Figure::OneWay, measured.one_way_ns, measured.one_way_within_run_ns),
    ] {
        of_latency(&mut trial, &all, figure, latency, within);
    }
    if measured.one_way_ns.is_some() || measured.one_way_missing > 0 {
        trial.put(&all, Figure::OneWayMissing, measured.one_way_missing as f64);
    }
    for one in &measured.topics {
        let stream = Stream::topic(&one.name);
        trial.missed.extend(one.pace.rate_missed.then(|| stream.clone()));
        of_sizes(&mut trial, &stream, one.mean_bytes, one.largest_bytes);
        of_pace(&mut trial, &stream, &one.pace);
        of_call_counts(&mut trial, &stream, &one.counts);
        for (figure, latency, within) in [
            (Figure::ResponseRtt, one.response_rtt_ns, one.response_rtt_within_run_ns),
            (Figure::ServiceRtt, one.service_rtt_ns, one.service_rtt_within_run_ns),
            (Figure::Lateness, one.lateness_ns, one.lateness_within_run_ns),
        ] {
            of_latency(&mut trial, &stream, figure, latency, within);
        }
    }
    for client in &measured.clients {
        let stream = Stream::client(client.client);
        let series = [(Figure::ResponseRtt, &client.response_series), (Figure::ServiceRtt, &client.service_series)];
        for (figure, series) in series {
            trial.series.extend(series.clone().map(|series| (stream.clone(), figure, series)));
        }
    }
    of_process(&mut trial, Process::Leader, &measured.client);
    measured.server.iter().for_each(|used| of_process(&mut trial, Process::Follower, used));
    trial
}

fn of_sizes(trial: &mut Trial, stream: &Stream, mean_bytes: f64, largest_bytes: u64) {
    for (statistic, bytes) in [(Statistic::Mean, mean_bytes), (Statistic::Max, largest_bytes as f64)] {
        trial.put_statistic(stream, Figure::MessageBytes, statistic, bytes, None);
    }
}

fn of_pace(trial: &mut Trial, stream: &Stream, pace: &Pace) {
    for (figure, value) in [
        (Figure::OfferedRate, pace.offered_hz),
        (Figure::AchievedRate, pace.achieved_hz),
        (Figure::SlowestRate, pace.slowest_hz),
        (Figure::Behind, pace.behind as f64),
    ] {
        trial.put(stream, figure, value);
    }
}

fn of_call_counts(trial: &mut Trial, stream: &Stream, counts: &CallCounts) {
    for (figure, count) in [
        (Figure::Sent, counts.made),
        (Figure::Received, counts.succeeded),
        (Figure::TimedOut, counts.timed_out),
        (Figure::Failed, counts.failed),
        (Figure::Late, counts.late),
        (Figure::Duplicated, counts.duplicated),
    ] {
        trial.put(stream, figure, count as f64);
    }
}

fn of_counts(trial: &mut Trial, stream: &Stream, counts: &Counts) {
    let Counts { sent, received, lost, late, duplicated, reordered, damaged } = *counts;
    for (figure, count) in [
        (Figure::Sent, sent),
        (Figure::Received, received),
        (Figure::Lost, lost),
        (Figure::Late, late),
        (Figure::Duplicated, duplicated),
        (Figure::Reordered, reordered),
        (Figure::Damaged, damaged),
    ] {
        trial.put(stream, figure, count as f64);
    }
}

fn of_process(trial: &mut Trial, process: Process, used: &Used) {
    let stream = Stream::process(process);
    used.figures().for_each(|(figure, value)| trial.put(&stream, figure, value));
}

fn interval(bounds: Bounds) -> Interval {
    Interval { low: bounds.low.unwrap_or(f64::NEG_INFINITY), high: bounds.high.unwrap_or(f64::INFINITY) }
}

fn of_figures(trial: &mut Trial, stream: &Stream, figure: Figure, figures: Option<Figures>, within: Option<WithinRun>) {
    let Some(figures) = figures else { return };
    let within = |of: fn(&WithinRun) -> Bounds| within.as_ref().map(|within| interval(of(within)));
    for (statistic, value, within) in [
        (Statistic::Min, figures.min, None),
        (Statistic::Mean, figures.mean, None),
        (Statistic::Stdev, figures.stdev, None),
        (Statistic::P50, figures.median, within(|within| within.median)),
        (Statistic::P90, figures.p90, within(|within| within.p90)),
        (Statistic::P99, figures.p99, within(|within| within.p99)),
        (Statistic::P9999, figures.p9999, within(|within| within.p9999)),
        (Statistic::Max, figures.max, None),
    ] {
        trial.put_statistic(stream, figure, statistic, value, within);
    }
}

fn of_latency(
    trial: &mut Trial,
    stream: &Stream,
    figure: Figure,
    latency: Option<Latency>,
    within: Option<LatencyBounds>,
) {
    let Some(latency) = latency else { return };
    let within = |of: fn(&LatencyBounds) -> Bounds| within.as_ref().map(|within| interval(of(within)));
    for (statistic, value, within) in [
        (Statistic::N, latency.samples as f64, None),
        (Statistic::Min, latency.min, None),
        (Statistic::Mean, latency.mean, None),
        (Statistic::P50, latency.median, within(|within| within.median)),
        (Statistic::P90, latency.p90, within(|within| within.p90)),
        (Statistic::P99, latency.p99, within(|within| within.p99)),
        (Statistic::P999, latency.p999, within(|within| within.p999)),
        (Statistic::Max, latency.max, None),
    ] {
        trial.put_statistic(stream, figure, statistic, value, within);
    }
}
