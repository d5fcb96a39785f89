//! Manifests made by hand, for tests.

use crate::document::Document;
use crate::render::Text;
use std::collections::BTreeMap;
use tripmeter_model::experiment::Mode;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::{
    Counts, Manifest, PathProof, PayloadResult, RunStatus, SCHEMA_VERSION, SubExperimentResult, Verdict,
};
use tripmeter_model::metric::{Interval, Process, Stream};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::plan::{Daemons, Plan, Raw, SubExperiment};
use tripmeter_model::recording::{RecordedTopic, Recording};
use tripmeter_model::transport::{Selector, Transport};
use tripmeter_model::trial::Trial;
use tripmeter_model::used::Used;
use tripmeter_model::workload::{Recorded, Workload};
use tripmeter_model::{Path, Pattern, Touch, Wait};

/// A complete manifest of one round without a sub-experiment.
pub fn manifest() -> Manifest {
    let plan = Plan {
        source: "flags".to_owned(),
        sub_experiments: Vec::new(),
        rounds: 1,
        round_folders: false,
        seed: 1,
        for_ns: None,
        raw: Raw::SAMPLES,
        keep_samples: None,
        streams: Default::default(),
        daemons: Daemons::Start,
        attempts: 3,
        loss_timeout_ns: 1_000_000_000,
        leader_cpu: Some(0),
        follower_cpu: Some(1),
        cpus: Vec::new(),
        allowed_cpus: 64,
        hosts: Vec::new(),
        push: false,
        interface: None,
        max_clock_error_ns: 0,
        recording: None,
        tables: Vec::new(),
        left_out: Vec::new(),
        not_installed: Vec::new(),
        missing: Vec::new(),
    };
    let environment = serde_json::json!({
        "kernel": "6.1.0", "cpu_model": "a CPU", "cpus": [0, 1], "virtual_machine": false,
        "memory_bytes": 1_u64 << 33,
        "clock": { "source": "tsc", "frequency_hz": 2.8e9, "read_cost_ns": 9.0, "granularity_ns": 1.0 },
        "before": { "load_1min": 0.0, "steal_ns": 0 },
    });
    Manifest {
        schema_version: SCHEMA_VERSION.to_owned(),
        tripmeter_version: "0.1.0".to_owned(),
        started: "2025-01-01T00:00:00+00:00".to_owned(),
        ended: Some("2025-01-01T00:01:00+00:00".to_owned()),
        status: RunStatus::Complete,
        plan,
        environment: serde_json::from_value(environment).unwrap(),
        results: 0,
        sub_experiments: Vec::new(),
        resumptions: Vec::new(),
        written_names: Default::default(),
    }
}

/// Adds a sub-experiment that polls, touches nothing and measures 10,000 round trips; returns its plan.
pub fn add<'a>(manifest: &'a mut Manifest, name: &str, transport: &str, payloads: &[u64]) -> &'a mut SubExperiment {
    let selector: Selector = transport.parse().unwrap();
    let transport = Transport {
        system: selector.system,
        variant: selector.variant.unwrap(),
        given: selector.settings.clone(),
        settings: selector.settings,
    };
    manifest.plan.sub_experiments.push(SubExperiment {
        name: name.to_owned(),
        title: transport.to_string(),
        transport,
        pattern: Pattern::Ping,
        workload: Workload::default(),
        wait: Wait::Poll,
        touch: Touch::None,
        sched: Default::default(),
        background: Default::default(),
        payloads: payloads.to_vec(),
        samples: 10_000,
        samples_above: Vec::new(),
        one_way: false,
        follower_cpus: Vec::new(),
        warmup: 1000,
        time_cap_ns: None,
        environment: BTreeMap::new(),
        answer_delay_ns: 0,
        instrument: None,
        added_as_floor: false,
    });
    manifest.plan.sub_experiments.last_mut().unwrap()
}

/// Adds the result of a round: complete, proven, with a cell for each payload and median of `rtt_half` in nanoseconds.
pub fn result<'a>(
    manifest: &'a mut Manifest,
    name: &str,
    round: u32,
    cells: &[(u64, f64)],
) -> &'a mut SubExperimentResult {
    manifest.sub_experiments.push(SubExperimentResult {
        name: name.to_owned(),
        round,
        payloads: 0,
        status: RunStatus::Complete,
        error: None,
        unreliable: false,
        transport_version: "0.1.0".to_owned(),
        system_version: "1.0".to_owned(),
        same_process: false,
        path_proof: Some(PathProof::new(
            Path::UnixStream,
            Verdict::Proven,
            "20000 bytes went over unix-stream".to_owned(),
        )),
        memory_lock: None,
        queues: Vec::new(),
        cells: cells.iter().map(|&(payload, median)| cell(payload, median)).collect(),
        processes: Vec::new(),
    });
    manifest.sub_experiments.last_mut().unwrap()
}

/// The complete cell of 10,000 round trips whose figures follow from the median of `rtt_half`.
fn cell(payload_bytes: u64, median: f64) -> PayloadResult {
    let mut trips = trial(OfferedLoad::Closed, 11_000);
    put_times(&mut trips, &Stream::all(), Figure::RttHalf, (10_000, median));
    put(&mut trips, &[(Figure::Duration, 1e6)]);
    PayloadResult {
        payload_bytes,
        samples: 10_000,
        samples_planned: 10_000,
        warmup: 1000,
        duration_ns: 1_000_000,
        trials: vec![trips],
        ..PayloadResult::default()
    }
}

/// Manifest with one sub-experiment: messages of 1 kB on four topics.
pub fn published(transport: &str, rates_hz: &[f64]) -> Manifest {
    let mut manifest = manifest();
    // With all threads of a side on one CPU, they would be marked.
    (manifest.plan.leader_cpu, manifest.plan.follower_cpu) = (None, None);
    let plan = add(&mut manifest, "uds_channel", transport, &[1024]);
    plan.pattern = Pattern::Publish;
    plan.workload = Workload::publications(rates_hz.iter().map(|hz| OfferedLoad::Rate { hz: *hz }).collect(), 4, 1);
    let result = result(&mut manifest, "uds_channel", 1, &[(1024, 1000.0)]);
    let trial = |&hz: &f64| {
        let mut trial = trial(OfferedLoad::Rate { hz }, 1000);
        let rates = [Figure::OfferedRate, Figure::AchievedRate, Figure::SlowestRate];
        put(&mut trial, &rates.map(|figure| (figure, hz)));
        for (figure, median) in [(Figure::Response, 60e3), (Figure::Service, 10e3), (Figure::Lateness, 50e3)] {
            put_times(&mut trial, &Stream::all(), figure, (1000, median));
        }
        put_costs(&mut trial);
        trial
    };
    result.cells[0].trials = rates_hz.iter().map(trial).collect();
    manifest
}

/// Adds a sub-experiment of calls of 1 kB.
pub fn add_calls(manifest: &mut Manifest, name: &str, transport: &str, mode: Mode, clients: u32) {
    let load = if mode == Mode::Bench { OfferedLoad::Closed } else { OfferedLoad::Rate { hz: 1000.0 } };
    // With all threads of a side on one CPU, they would be marked.
    (manifest.plan.leader_cpu, manifest.plan.follower_cpu) = (None, None);
    let plan = add(manifest, name, transport, &[1024]);
    plan.pattern = Pattern::Call;
    plan.workload = Workload::calls(vec![load], clients, 3_000_000_000);
    let is_paced = mode == Mode::FixedFreq;
    let mut trial = Trial::new(load);
    let counts = Counts { sent: 1000, received: 1000, ..Counts::default() };
    trial.put_counts(&Stream::all(), &counts, true);
    put(&mut trial, &[(Figure::Completed, 9876.5432)]);
    put_times(&mut trial, &Stream::all(), Figure::ServiceRtt, (1000, 10e3));
    if is_paced {
        let rates = [(Figure::OfferedRate, 1000.0), (Figure::AchievedRate, 1000.0), (Figure::SlowestRate, 990.0)];
        put(&mut trial, &rates);
        put_times(&mut trial, &Stream::all(), Figure::ResponseRtt, (1000, 60e3));
        put_times(&mut trial, &Stream::all(), Figure::Lateness, (1000, 50e3));
    }
    put_costs(&mut trial);
    result(manifest, name, 1, &[(1024, 1000.0)]).cells[0].trials = vec![trial];
}

/// Adds a logger with these payloads; medians of calls in nanoseconds.
pub fn add_logger(manifest: &mut Manifest, name: &str, transport: &str, payloads: &[(u64, f64)]) {
    let sizes: Vec<u64> = payloads.iter().map(|payload| payload.0).collect();
    let plan = add(manifest, name, transport, &sizes);
    (plan.pattern, plan.workload, plan.samples) = (Pattern::Log, Workload::lines(), 10_000);
    let result = result(manifest, name, 1, payloads);
    for (cell, (_, median)) in result.cells.iter_mut().zip(payloads) {
        let mut trial = trial(OfferedLoad::Closed, 11_000);
        put_times(&mut trial, &Stream::all(), Figure::Call, (10_000, *median));
        put(&mut trial, &[(Figure::LinesWritten, 11_000.0), (Figure::Flush, 1.5e6)]);
        for (figure, value) in [(Figure::Window, 1e9), (Figure::CpuTime, 0.925e9), (Figure::CpuPeak, 1.1825)] {
            trial.put(&Stream::process(Process::Leader), figure, value);
        }
        cell.trials = vec![trial];
    }
}

/// Turns a trial into one of two topics at 400 Hz each, with these response and service times.
pub fn play(trial: &mut Trial, counts: &Counts, times: [Figure; 2], are_calls: bool) {
    trial.load = OfferedLoad::Recorded;
    for (name, mean_bytes) in [("/imu", 324.0), ("/switch", 16.0)] {
        let stream = Stream::topic(name);
        trial.put_counts(&stream, counts, are_calls);
        for (statistic, bytes) in [(Statistic::Mean, mean_bytes), (Statistic::Max, 400.0)] {
            trial.put_statistic(&stream, Figure::MessageBytes, statistic, bytes, None);
        }
        for figure in [Figure::OfferedRate, Figure::AchievedRate] {
            trial.put(&stream, figure, 400.0);
        }
        for (figure, median) in times.into_iter().zip([60e3, 10e3]) {
            put_times(trial, &stream, figure, (1000, median));
        }
    }
}

/// Two topics, played over one transport.
pub fn played() -> Manifest {
    let mut manifest = published("uds/stream", &[1000.0]);
    let topic = |name: &str, padded| RecordedTopic {
        name: name.to_owned(),
        padded,
        last_ns: 1_000_000,
        ..RecordedTopic::default()
    };
    manifest.plan.recording = Some(Recording {
        file: "drive.mcap".to_owned(),
        sha256: "0123456789abcdef0123".to_owned(),
        speed: 2.0,
        duration_ns: 1_500_000_000,
        messages: 2000,
        topics: vec![topic("/imu", 0), topic("/switch", 7)],
        ..Recording::default()
    });
    let workload = &mut manifest.plan.sub_experiments[0].workload;
    *workload = workload.clone().playing(Recorded { messages: 2000, duration_ns: 750_000_000 }, 2);
    let trial = trial_of(&mut manifest, 0);
    let counts = trial.counts(&Stream::all());
    play(trial, &counts, [Figure::Response, Figure::Service], false);
    put(trial, &[(Figure::Sent, 2000.0), (Figure::Received, 2000.0)]);
    manifest
}

/// Trial of `messages` messages, all of which arrived.
pub fn trial(load: OfferedLoad, messages: u64) -> Trial {
    let mut trial = Trial::new(load);
    trial.put_counts(&Stream::all(), &Counts { sent: messages, received: messages, ..Counts::default() }, false);
    trial
}

/// Only trial of the first measured payload of a sub-experiment.
pub fn trial_of(manifest: &mut Manifest, sub_experiment: usize) -> &mut Trial {
    &mut manifest.sub_experiments[sub_experiment].cells[0].trials[0]
}

/// Sets figures that have one value for all messages.
pub fn put(trial: &mut Trial, figures: &[(Figure, f64)]) {
    figures.iter().for_each(|(figure, value)| trial.put(&Stream::all(), *figure, *value));
}

/// Sets a latency with this number of samples, whose figures follow from its median in nanoseconds.
pub fn put_times(trial: &mut Trial, stream: &Stream, figure: Figure, (samples, median): (u64, f64)) {
    trial.put_statistic(stream, figure, Statistic::N, samples as f64, None);
    for (statistic, factor) in [
        (Statistic::Min, 0.5),
        (Statistic::Mean, 1.1),
        (Statistic::Stdev, 0.1),
        (Statistic::P50, 1.0),
        (Statistic::P90, 1.5),
        (Statistic::P99, 2.0),
        (Statistic::P999, 3.0),
        (Statistic::P9999, 5.0),
        (Statistic::Max, 10.0),
    ] {
        trial.put_statistic(stream, figure, statistic, median * factor, None);
    }
}

/// Gives statistics of a latency of all messages their intervals within the trial.
pub fn put_within(trial: &mut Trial, figure: Figure, intervals: &[(Statistic, f64, f64)]) {
    for &(statistic, low, high) in intervals {
        let value = trial.of_all(figure, statistic).unwrap();
        trial.put_statistic(&Stream::all(), figure, statistic, value, Some(Interval { low, high }));
    }
}

/// Sets the cost of both processes.
pub fn put_costs(trial: &mut Trial) {
    for (process, cpu_time_ns, peak_memory_bytes) in
        [(Process::Leader, 31_000_000, 12_345_678), (Process::Follower, 12_000_000, 9_000_000)]
    {
        let used = Used {
            window_ns: 1_000_000_000,
            cpu_time_ns,
            kernel_time_ns: Some(cpu_time_ns / 2),
            voluntary_switches: 4000,
            involuntary_switches: 2,
            minor_faults: 25,
            major_faults: 0,
            peak_memory_bytes,
            ..Used::default()
        };
        used.figures().for_each(|(figure, value)| trial.put(&Stream::process(process), figure, value));
    }
}

/// Removes the cost of the followers.
pub fn remove_followers_cost(trial: &mut Trial) {
    let nothing = Used::default();
    nothing.figures().for_each(|(figure, _)| trial.remove(&Stream::process(Process::Follower), figure));
}

/// Sets the number of round trips of a cell; without any it has no latency.
pub fn set_trips(cell: &mut PayloadResult, samples: u64) {
    cell.samples = samples;
    match samples {
        0 => cell.trials[0].remove(&Stream::all(), Figure::RttHalf),
        _ => cell.trials[0].put_statistic(&Stream::all(), Figure::RttHalf, Statistic::N, samples as f64, None),
    }
}

/// The lines of a text, single-spaced.
pub fn squeezed(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The table's lines of `transport`, without header and legend, single-spaced.
pub fn rows_of(text: &str, transport: &str) -> Vec<String> {
    squeezed(text).into_iter().filter(|line| line.starts_with(transport)).collect()
}

/// Page of all figures, as [`text()`].
pub fn all(manifest: &Manifest) -> String {
    text(&crate::all::all(manifest))
}

/// Document as printed, except that notes and paragraphs are not wrapped.
pub fn text(document: &Document) -> String {
    Text { has_intervals: true, has_help: true, is_coloured: false, is_unwrapped: true }.render(document)
}
