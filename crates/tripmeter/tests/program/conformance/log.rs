//! Calls of loggers.

use crate::common::csv_payloads;
use crate::conformance::{Entry, Faults, Here, Outcome, SAMPLES, WARMUP};
use tripmeter_abi::Pattern;
use tripmeter_model::manifest::{Cell, Counts};

pub(super) fn entries(variant: &Here<'_>) -> Vec<Entry> {
    if !variant.can(Pattern::Log) {
        return Vec::new();
    }
    let keys = format!("pattern = \"log\"\nsamples = {SAMPLES}\nwarmup = {WARMUP}\npayloads = \"16,33,8192\"");
    // A logger does not verify what it is given.
    let keys = keys + "\ntouch = \"none\"";
    variant.waits(true).iter().map(|wait| Entry::new(variant, "log", *wait, &keys, check)).collect()
}

fn check(faults: &mut Faults, outcome: &Outcome<'_>) {
    let (name, plan) = (&outcome.result.name, outcome.plan);
    let rows = csv_payloads(&outcome.results.join(format!("measurements_{name}.csv"))).len();
    let expected = plan.payloads.len() * SAMPLES as usize;
    faults.check(rows == expected, || format!("{name}: {rows} rows of the CSV, not {expected}"));
    let lines = outcome.file("log").lines().count();
    faults.check(lines == 1 + plan.payloads.len(), || format!("{name}: {lines} lines of figures"));
    outcome.result.cells.iter().for_each(|cell| check_lines(faults, outcome, cell));
}

fn check_lines(faults: &mut Faults, outcome: &Outcome<'_>, cell: &Cell) {
    let place = outcome.place(cell);
    let Counts { sent, received, lost, late, duplicated, reordered, damaged } = cell.counts;
    let whole = sent == SAMPLES + WARMUP && received + lost == sent && (lost == 0 || outcome.may_lose);
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
