//! Measurement truth: a stall and a loss injected into `inmem` must show up in exactly the right number.

use super::bench::Bench;
use crate::args::{ExperimentArgs, PluginArgs};
use crate::error::CliError;
use crate::many_runs::remove_unfinished;
use crate::measurement::Prepared;
use serde_json::{Value, json};
use std::path::Path;
use tripmeter_analysis::pairs::half_trips;
use tripmeter_engine::Followers;
use tripmeter_model::exit;
use tripmeter_model::manifest::PayloadResult;
use tripmeter_model::samples::{SAMPLES as SAMPLES_FOLDER, SampleReader};

const SAMPLES: u64 = 1000;
const WARMUP: u64 = 100;
const PAYLOAD_BYTES: u64 = 1024;
/// Messages of the preceding path proof: 256 KiB each way.
const PROOF: u64 = 256 * 1024 / PAYLOAD_BYTES;
/// Position of the stalled sample, counted from 1.
const HIT: u64 = 400;
const STALL_NS: u64 = 50_000_000;
/// Maximum time of its round trip as a multiple of the stall, on a busy machine.
const MOST_OF_STALL: f64 = 1.5;
/// Positions of the lost samples, counted from 1.
const LOST: [u64; 3] = [100, 500, 900];

pub fn truth(bench: &Bench) -> Result<Value, CliError> {
    bench.say("truth: a stall and a loss injected into `inmem`");
    let first = PROOF + WARMUP;
    let lost: Vec<String> = LOST.iter().map(|number| (first + number).to_string()).collect();
    let checks = [
        ("stall", format!("inmem?stall={}:{}ms", first + HIT, STALL_NS / 1_000_000)),
        ("loss", format!("inmem?lose={}", lost.join(","))),
    ];
    let mut found = Vec::new();
    for (what, transport) in checks {
        if bench.stopped() {
            break;
        }
        found.push(check(bench, what, &transport)?);
    }
    Ok(found.into())
}

fn check(bench: &Bench, what: &str, transport: &str) -> Result<Value, CliError> {
    let name = format!("truth-{what}.unfinished");
    let folder = bench.folder.path().join(&name);
    remove_unfinished(&bench.folder, &name)?;
    let mut args = ExperimentArgs { transports: vec![transport.to_owned()], no_floor: true, ..Default::default() };
    args.measuring.payloads = Some(PAYLOAD_BYTES.to_string());
    args.measuring.samples = Some(SAMPLES);
    args.measuring.warmup = Some(WARMUP);
    args.measuring.loss_timeout = Some(0.5);
    args.measuring.no_spin = true;
    // Faults are injected into the first attempt only.
    args.measuring.attempts = Some(1);
    let manifest = Prepared::new(&args, &PluginArgs::default(), true)?.run(Some(&folder), Followers::Local, true)?;
    let failed = |why: &str| CliError::new(exit::PARTIAL, format!("truth of a {what} in `{transport}`: {why}"));
    let Some(result) = manifest.sub_experiments.first() else { return Err(failed("nothing was run")) };
    let Some(cell) = result.cells.first() else {
        return if bench.stopped() {
            Ok(json!({ "what": what, "good": false }))
        } else {
            Err(failed(result.error.as_deref().unwrap_or("nothing was measured")))
        };
    };
    let rtt_ns = sample_ns(&folder.join(SAMPLES_FOLDER).join(format!("{}.csv", result.name)), HIT);
    let told = match what {
        "stall" => of_stall(cell, rtt_ns),
        _ => of_loss(cell),
    };
    remove_unfinished(&bench.folder, &name)?;
    Ok(told)
}

/// Checks that the stalled sample lasts as long as the stall, and that no message is missing.
fn of_stall(cell: &PayloadResult, rtt_ns: Option<f64>) -> Value {
    let is_whole = cell.samples == SAMPLES && cell.counts().lost + cell.counts().late == 0;
    json!({
        "what": "stall",
        "injected_ns": STALL_NS,
        "sample": HIT,
        "rtt_ns": rtt_ns,
        "median_ns": half_trips(cell).map(|half| 2.0 * half.median),
        "good": is_whole && rtt_ns.is_some_and(|ns| (1.0..MOST_OF_STALL).contains(&(ns / STALL_NS as f64))),
    })
}

/// Checks that exactly the injected losses occurred.
fn of_loss(cell: &PayloadResult) -> Value {
    let (lost, received) = (cell.counts().lost, cell.counts().received);
    json!({
        "what": "loss",
        "injected": LOST.len(),
        "lost": lost,
        "received": received,
        "good": lost == LOST.len() as u64 && cell.samples == SAMPLES && received == SAMPLES + WARMUP,
    })
}

fn sample_ns(file: &Path, number: u64) -> Option<f64> {
    let mut rows = SampleReader::open(file).ok()?.filter_map(Result::ok);
    let row = rows.find(|row| row.sequence == number)?;
    Some(row.answered_ns?.checked_sub(row.sent_ns?)? as f64)
}
