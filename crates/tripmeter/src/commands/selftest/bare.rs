//! Overhead of the program: bare loops in pairs with measured runs, on the same CPUs.

use super::bench::Bench;
use crate::args::{BareArgs, ExperimentArgs, PluginArgs};
use crate::error::CliError;
use crate::many_runs::remove_unfinished;
use crate::measurement::Prepared;
use crate::output;
use serde_json::{Value, json};
use std::process::Command;
use tripmeter_analysis::pairs::half_trips;
use tripmeter_engine::Followers;
use tripmeter_engine::bare::{BarePath, BareTask, follow, lead};
use tripmeter_engine::resolve::usual_cpus;
use tripmeter_model::exit;
use tripmeter_stats::ErrorBounds;
use tripmeter_stats::median;
use tripmeter_stats::rounds::figure_over_rounds;

const SAMPLES: u64 = 5000;
const WARMUP: u64 = 500;
const PAYLOAD_BYTES: u64 = 1024;
/// Pairs of a bare and a measured run.
const PAIRS: usize = 7;
/// Maximum overhead, as a share of the bare round trip; [`MOST_NS`] applies if that is more.
const MOST_SHARE: f64 = 0.10;
const MOST_NS: f64 = 150.0;

/// Prints median and 99th percentile of the bare round trips as one line of JSON.
pub fn bare(args: &BareArgs) -> Result<u8, CliError> {
    let failed = |error: std::io::Error| CliError::new(exit::SOFTWARE, format!("bare loop: {error}"));
    let cpu = args.cpus.get(usize::from(args.follow)).copied();
    let task = BareTask { kind: args.kind.into(), trips: args.trips, payload_bytes: args.payload_bytes as usize, cpu };
    if args.follow {
        follow(&task).map_err(failed)?;
        return Ok(exit::GOOD);
    }
    let mut follower = Command::new(crate::experiment::program()?);
    follower.args(std::env::args_os().skip(1)).arg("--follow");
    let mut samples = lead(&task, &mut follower).map_err(failed)?;
    let mut counted = samples.split_off(samples.len().min(WARMUP as usize));
    let figures = tripmeter_stats::figures(&mut counted).map(|of| json!({ "median": of.median, "p99": of.p99 }));
    output::print(&(json!({ "samples": counted.len(), "rtt_ns": figures }).to_string() + "\n"))?;
    Ok(exit::GOOD)
}

/// Medians of bare and measured round trips for each kind, and their difference; or the reason why there is none.
pub fn overhead(bench: &Bench) -> Result<Value, CliError> {
    let kinds = [BarePath::Uds, BarePath::Shm];
    if let [cpu] = usual_cpus()[..] {
        let why =
            format!("both sides poll and share CPU {cpu}, so scheduler time slices would be measured; allow two CPUs");
        bench.say(&format!("overhead left out: {why}"));
        return Ok(kinds.map(|kind| json!({ "transport": kind.to_string(), "left_out": why })).to_vec().into());
    }
    let mut found = Vec::new();
    for kind in kinds {
        if bench.stopped() {
            break;
        }
        bench.say(&format!("overhead: {PAIRS} pairs of a bare loop and `{kind}`"));
        found.push(of_kind(bench, kind)?);
    }
    Ok(found.into())
}

fn of_kind(bench: &Bench, kind: BarePath) -> Result<Value, CliError> {
    let prepared = prepared(kind)?;
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for pair in 0..PAIRS {
        if bench.stopped() {
            break;
        }
        let name = format!("overhead-{kind}-{pair}.unfinished");
        let folder = bench.folder.path().join(&name);
        remove_unfinished(&bench.folder, &name)?;
        // The order alternates, so that neither benefits from being first.
        if pair % 2 == 0 {
            bare.push(bare_median(bench, kind)?);
        }
        let manifest = prepared.run(Some(&folder), Followers::Local, true)?;
        if pair % 2 == 1 {
            bare.push(bare_median(bench, kind)?);
        }
        remove_unfinished(&bench.folder, &name)?;
        let cells = manifest.sub_experiments.iter().flat_map(|result| &result.cells);
        let found = cells.filter_map(half_trips).map(|half| 2.0 * half.median).next();
        if found.is_none() && !bench.stopped() {
            let why = manifest.sub_experiments.iter().find_map(|result| result.error.clone()).unwrap_or_default();
            return Err(CliError::new(exit::PARTIAL, format!("overhead of `{kind}`: {why}")));
        }
        ours.extend(found);
    }
    let more: Vec<f64> = ours.iter().zip(&bare).map(|(ours, bare)| ours - bare).collect();
    let over = figure_over_rounds(&more, ErrorBounds::NONE);
    let bare_ns = median(&bare);
    let limit_ns = bare_ns.map(|ns| MOST_NS.max(MOST_SHARE * ns));
    // Only the lower end of the interval must meet the limit: seven pairs on a busy machine are few.
    let least = over.map(|over| over.interval.map_or(over.median, |interval| interval.low));
    Ok(json!({
        "transport": kind.to_string(),
        "payload_bytes": PAYLOAD_BYTES,
        "samples": SAMPLES,
        "pairs": more.len(),
        "bare_rtt_median_ns": bare_ns,
        "rtt_median_ns": median(&ours),
        "more_ns": over.map(|over| over.median),
        "more_interval_ns": over.and_then(|over| over.interval).map(|interval| [interval.low, interval.high]),
        "limit_ns": limit_ns,
        "good": least.zip(limit_ns).is_some_and(|(least, limit)| least <= limit),
    }))
}

fn prepared(kind: BarePath) -> Result<Prepared, CliError> {
    let mut args = ExperimentArgs { transports: vec![kind.to_string()], no_floor: true, ..Default::default() };
    args.measuring.payloads = Some(PAYLOAD_BYTES.to_string());
    args.measuring.samples = Some(SAMPLES);
    args.measuring.warmup = Some(WARMUP);
    args.measuring.no_spin = true;
    args.measuring.wait = Some(tripmeter_model::Wait::Poll);
    Prepared::new(&args, &PluginArgs::default(), true)
}

/// Median round trip of a bare loop between two processes, in nanoseconds.
fn bare_median(bench: &Bench, kind: BarePath) -> Result<f64, CliError> {
    let mut command = Command::new(&bench.program);
    command.args(["bare", &kind.to_string(), &(SAMPLES + WARMUP).to_string(), &PAYLOAD_BYTES.to_string()]);
    command.args(usual_cpus().iter().map(usize::to_string));
    let output = command.output();
    let output =
        output.map_err(|error| CliError::new(exit::SOFTWARE, format!("bare loop cannot be started: {error}")))?;
    let told: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    let median = told.and_then(|told| told["rtt_ns"]["median"].as_f64());
    median.ok_or_else(|| {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        CliError::new(exit::SOFTWARE, format!("bare loop of `{kind}` failed: {why}"))
    })
}
