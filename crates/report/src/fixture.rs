//! Manifests made by hand, for tests.

use crate::document::Document;
use crate::render::Text;
use std::collections::BTreeMap;
use tripmeter_model::manifest::{
    Cell, Counts, Figures, Manifest, PathProof, SCHEMA_VERSION, Status, SubExperimentResult, Verdict,
};
use tripmeter_model::plan::{Daemons, Plan, Raw, SubExperiment};
use tripmeter_model::transport::{Selector, Transport};
use tripmeter_model::workload::Workload;
use tripmeter_model::{Path, Pattern, Touch, Wait};

/// A complete manifest of one round without a sub-experiment.
pub fn manifest() -> Manifest {
    let plan = Plan {
        source: "flags".to_owned(),
        sub_experiments: Vec::new(),
        rounds: 1,
        seed: 1,
        raw: Raw::Csv,
        daemons: Daemons::Start,
        attempts: 3,
        loss_timeout_ns: 1_000_000_000,
        leader_cpu: Some(0),
        follower_cpu: Some(1),
        cpus: Vec::new(),
        recording: None,
        tables: Vec::new(),
        left_out: Vec::new(),
        missing: Vec::new(),
    };
    let environment = serde_json::json!({
        "kernel": "6.1.0", "cpu_model": "a processor", "cpus": [0, 1], "virtual_machine": false,
        "memory_bytes": 1_u64 << 33,
        "clock": { "source": "tsc", "frequency_hz": 2.8e9, "read_cost_ns": 9.0, "granularity_ns": 1.0 },
        "before": { "load_1min": 0.0, "steal_ns": 0 },
    });
    Manifest {
        schema_version: SCHEMA_VERSION.to_owned(),
        tripmeter_version: "0.1.0".to_owned(),
        started: "2025-01-01T00:00:00+00:00".to_owned(),
        ended: Some("2025-01-01T00:01:00+00:00".to_owned()),
        status: Status::Complete,
        plan,
        environment: serde_json::from_value(environment).unwrap(),
        sub_experiments: Vec::new(),
        resumptions: Vec::new(),
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
        pattern: Pattern::PingPong,
        workload: Workload::default(),
        wait: Wait::Poll,
        touch: Touch::None,
        payloads: payloads.to_vec(),
        samples: 10_000,
        samples_above: Vec::new(),
        one_way: false,
        follower_cpus: Vec::new(),
        warmup: 1000,
        time_cap_ns: None,
        environment: BTreeMap::new(),
        answer_delay_ns: 0,
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
        status: Status::Complete,
        error: None,
        transport_version: "0.1.0".to_owned(),
        system_version: "1.0".to_owned(),
        same_process: false,
        path_proof: Some(PathProof::new(
            Path::UnixStream,
            Verdict::Proven,
            "20000 bytes went over unix-stream".to_owned(),
        )),
        memory_lock: None,
        cells: cells.iter().map(|&(payload, median)| cell(payload, median)).collect(),
        processes: Vec::new(),
    });
    manifest.sub_experiments.last_mut().unwrap()
}

/// The complete cell of 10,000 samples whose figures follow from the median of `rtt_half`.
fn cell(payload_bytes: u64, median: f64) -> Cell {
    let rtt_half = Figures {
        min: median * 0.9,
        mean: median * 1.1,
        stdev: 10.0,
        median,
        p90: median * 1.5,
        p99: median * 2.0,
        p9999: median * 5.0,
        max: median * 10.0,
    };
    Cell {
        payload_bytes,
        samples: 10_000,
        samples_planned: 10_000,
        warmup: 1000,
        counts: Counts { sent: 11_000, received: 11_000, ..Counts::default() },
        rtt_ns: Some(rtt_half.scaled(2.0)),
        rtt_half_ns: Some(rtt_half),
        duration_ns: 1_000_000,
        ..Cell::default()
    }
}

/// The table's lines of `transport`, without header and legend, single-spaced.
pub fn rows_of(text: &str, transport: &str) -> Vec<String> {
    let rows = text.lines().filter(|line| line.starts_with(transport));
    rows.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The table of everything as [`text()`] has it.
pub fn all(manifest: &Manifest) -> String {
    text(&crate::all::all(manifest))
}

/// A document as it is printed, but that notes and paragraphs are not wrapped.
pub fn text(document: &Document) -> String {
    Text { has_intervals: true, has_help: true, is_coloured: false, is_unwrapped: true }.render(document)
}
