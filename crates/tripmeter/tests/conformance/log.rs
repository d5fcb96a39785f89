//! Calls of loggers.

use crate::common::{alone, csv_payloads, transports};
use crate::{Faults, Here, SAMPLES, WARMUP, carrying, check_outcome, hold_to, sort_out};
use std::fmt::Write;
use std::path::Path;
use tripmeter_abi::Pattern;
use tripmeter_model::manifest::{Cell, Counts, Manifest};

/// Calls of loggers.
fn log_experiment(variants: &[&Here<'_>]) -> String {
    let mut text = format!("pattern = \"log\"\nsamples = {SAMPLES}\nwarmup = {WARMUP}\npayloads = \"16,33,8192\"\n");
    for variant in variants {
        for wait in &variant.declared.waits {
            writeln!(text, "[[sub_experiment]]\ntransport = \"{}\"\nwait = \"{wait}\"", variant.name()).unwrap();
        }
    }
    text
}

/// Checks every cell; returns their number.
fn check_log(faults: &mut Faults, manifest: &Manifest, results: &Path, lossy: &[&str]) -> usize {
    for (result, plan) in manifest.sub_experiments.iter().zip(&manifest.plan.sub_experiments) {
        let name = check_outcome(faults, result, plan);
        let rows = csv_payloads(&results.join(format!("measurements_{name}.csv"))).len();
        let expected = plan.payloads.len() * SAMPLES as usize;
        faults.check(rows == expected, || format!("{name}: {rows} rows of the CSV, not {expected}"));
        let table = std::fs::read_to_string(results.join(format!("log_{name}.csv"))).unwrap_or_default();
        let lines = table.lines().count();
        faults.check(lines == 1 + plan.payloads.len(), || format!("{name}: {lines} lines of figures"));
        let may_lose = lossy.contains(&plan.transport.variant.as_str());
        result.cells.iter().for_each(|cell| check_lines(faults, name, cell, may_lose));
    }
    manifest.sub_experiments.iter().map(|result| result.cells.len()).sum()
}

fn check_lines(faults: &mut Faults, name: &str, cell: &Cell, may_lose: bool) {
    let place = format!("{name}, {} bytes", cell.payload_bytes);
    let Counts { sent, received, lost, late, duplicated, reordered, damaged } = cell.counts;
    let whole = sent == SAMPLES + WARMUP && received + lost == sent && (lost == 0 || may_lose);
    faults.check(whole && late + duplicated + reordered + damaged == 0, || format!("{place}: {:?}", cell.counts));
    let Some((log, call)) = cell.log.as_ref().and_then(|log| Some((log, log.call_ns?))) else {
        return faults.check(false, || format!("{place}: no figures"));
    };
    let rising = 0.0 < call.min && call.min <= call.median && call.median <= call.p99 && call.p99 <= call.max;
    faults.check(rising && cell.samples == SAMPLES && cell.rtt_ns.is_none(), || format!("{place}: {call:?}"));
    let lines = log.lines;
    let prefixes = lines.bytes - received * (cell.payload_bytes + 1);
    let fits = lines.shortest_prefix_bytes * received <= prefixes && prefixes <= lines.longest_prefix_bytes * received;
    faults.check(lines.written == received && fits, || format!("{place}: {lines:?}"));
    let used = log.used.cpu_time_ns > 0 && log.cpu_max_percent >= Some(log.used.cpu_percent());
    faults.check(used && log.used.window_ns >= cell.duration_ns, || format!("{place}: {log:?}"));
}

#[test]
fn every_logger_writes_its_lines() {
    let _alone = alone();
    let known = transports();
    let variants = carrying(sort_out(&known).0, Pattern::Log);
    hold_to("loggers", &variants, log_experiment, check_log);
}
