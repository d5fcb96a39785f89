use crate::entry::{Faults, PartOutcome, PlannedPart, SAMPLES, VariantHere, WARMUP};
use crate::figures::{count, times};
use crate::samples::sample_rows;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::{Counts, PayloadResult};
use tripmeter_model::metric::{Process, Stream};

pub(super) fn entries(variant: &VariantHere<'_>) -> Vec<PlannedPart> {
    // A logger does not read its payloads back, so none can be verified.
    let keys = format!("samples = {SAMPLES}\nwarmup = {WARMUP}\npayloads = \"16,33,8192\"\ntouch = \"none\"");
    variant.parts("log", variant.waits(true), &keys, check).collect()
}

fn check(faults: &mut Faults, outcome: &PartOutcome<'_>) {
    let (name, plan) = (&outcome.result.name, outcome.plan);
    let rows = faults.value(sample_rows(outcome.results, name)).len();
    let expected = plan.payloads.len() * SAMPLES as usize;
    faults.check(rows == expected, || format!("{name}: {rows} rows of the CSV, not {expected}"));
    outcome.result.cells.iter().for_each(|cell| check_lines(faults, outcome, cell));
}

fn check_lines(faults: &mut Faults, outcome: &PartOutcome<'_>, cell: &PayloadResult) {
    let place = outcome.place(cell);
    let Counts { sent, received, lost, late, duplicated, reordered, damaged } = cell.counts();
    let whole = sent == SAMPLES + WARMUP && received + lost == sent && (lost == 0 || outcome.may_lose);
    faults.check(whole && late + duplicated + reordered + damaged == 0, || format!("{place}: {:?}", cell.counts()));
    let [trial] = &cell.trials[..] else {
        return faults.check(false, || format!("{place}: {} trials", cell.trials.len()));
    };
    let Some(call) = times(trial, Figure::Call) else {
        return faults.check(false, || format!("{place}: no figures"));
    };
    let samples = [call.samples, cell.samples];
    let only = samples == [SAMPLES; 2] && times(trial, Figure::RttHalf).is_none();
    faults.check(call.is_rising() && only, || format!("{place}: {call:?}"));
    let [written, bytes, shortest, longest] =
        [Figure::LinesWritten, Figure::LinesBytes, Figure::ShortestPrefix, Figure::LongestPrefix]
            .map(|of| count(trial, of));
    let prefixes = bytes - received * (cell.payload_bytes + 1);
    let fits = shortest * received <= prefixes && prefixes <= longest * received;
    faults.check(written == received && fits, || format!("{place}: {trial:?}"));
    let used = |figure| trial.value(&Stream::process(Process::Leader), figure).unwrap_or(0.0);
    let (cpu_ns, window_ns) = (used(Figure::CpuTime), used(Figure::Window));
    let is_used = cpu_ns > 0.0 && used(Figure::CpuPeak) >= cpu_ns / window_ns;
    faults.check(is_used && window_ns >= cell.duration_ns as f64, || format!("{place}: {trial:?}"));
}
