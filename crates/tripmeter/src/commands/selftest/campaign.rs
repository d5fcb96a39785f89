//! Comparisons with a known answer: a transport with itself, with and without an injected delay.
//!
//! Each comparison is a `tripmeter ab` with its own seed, and appends a line to `comparisons.jsonl` when it ends. After
//! a kill, the same command makes the missing comparisons.

pub mod outcome;
pub mod phase;

use super::bench::Bench;
use crate::args::{
    AbArgs, AbWorkloadArgs, ExperimentArgs, FiguresArgs, MeasuringArgs, OutputArgs, PluginArgs, Share, SidesArgs,
};
use crate::commands::ab::{judge, this_build};
use crate::error::CliError;
use crate::lock::lock;
use crate::many_runs::remove_unfinished;
use crate::measurement::Prepared;
use crate::results::is_results;
use indicatif::HumanDuration;
use outcome::{FIGURES, PhaseOutcome};
use phase::{Phase, ROUNDS};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tripmeter_analysis::pairs::half_trips;
use tripmeter_engine::Followers;
use tripmeter_engine::results::LOCK;
use tripmeter_model::folder::check_version_of;
use tripmeter_model::{exit, file};
use tripmeter_stats::median;

/// Round trips and warm-up of a run: few, because there are thousands of runs.
const SAMPLES: u64 = 1000;
const WARMUP: u64 = 100;
const PAYLOAD: &str = "1k";
/// Rounds that the time estimate assumes for a comparison that computes their number.
const GUESSED_ROUNDS: f64 = 24.0;
/// Maximum time of such a comparison, in seconds.
const BUDGET_S: f64 = 60.0;
/// Maximum time of such a comparison in the quick form, in seconds.
const QUICK_BUDGET_S: f64 = 20.0;
const LOG: &str = "comparisons.jsonl";
const MOST_LOG_BYTES: u64 = 64 << 20;

/// Schema version of `selftest.json` and `comparisons.jsonl`.
pub const SCHEMA_VERSION: &str = "1.0";

pub struct Campaign {
    seed: u64,
    phases: Vec<Phase>,
    log: File,
    lines: Vec<Value>,
    /// Median `rtt_half` of `uds` at the latest calibration, in nanoseconds.
    reference_ns: Option<f64>,
    budget_s: f64,
    /// Held until dropped; the kernel releases it after a kill.
    _lock: File,
}

/// Refuses a folder that is neither empty nor from a selftest. [`Campaign::open`] checks that it is from this one.
pub fn check_folder(folder: &Path) -> Result<(), CliError> {
    let has_log = fs::metadata(folder.join(LOG)).is_ok_and(|log| log.is_file() && log.len() > 0);
    let is_ours = |name: &std::ffi::OsStr| name == LOG || name == LOCK;
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    if !is_results(folder) && (has_log || entries.all(|entry| is_ours(&entry.file_name()))) {
        return Ok(());
    }
    let text = format!("'{}' has files, but no selftest; name another folder with -o", folder.display());
    Err(CliError::new(exit::DATA, text))
}

impl Campaign {
    /// Starts or continues the campaign in the folder.
    pub fn open(bench: &Bench, seed: u64, phases: &[Phase]) -> Result<Self, CliError> {
        let path = bench.folder.path().join(LOG);
        let failed = |error: std::io::Error| cannot_create(&path, &error);
        let lock = lock(&bench.folder, "selftest", "-o")?;
        let mut log = file::append(&bench.folder.at(LOG)?).map_err(failed)?;
        let wrong =
            |why: &str| CliError::new(exit::DATA, format!("'{}' {why}; name another folder with -o", path.display()));
        if log.metadata().map_err(failed)?.len() > MOST_LOG_BYTES {
            return Err(wrong(&format!("has more than {MOST_LOG_BYTES} bytes, so it is not the log of a selftest")));
        }
        let mut text = String::new();
        (&log).take(MOST_LOG_BYTES).read_to_string(&mut text).map_err(failed)?;
        // Ignores a line that a kill has cut off.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let lines: Result<Vec<Value>, _> = text[..whole].lines().map(serde_json::from_str).collect();
        let mut lines = lines.map_err(|error| wrong(&format!("is not the log of a selftest: {error}")))?;
        let header = json!({
            "schema_version": SCHEMA_VERSION,
            "tripmeter_version": env!("CARGO_PKG_VERSION"),
            "program": this_build()?,
            "kernel": tripmeter_abi::kernel_version(),
            "seed": seed,
            "samples": SAMPLES,
            "payload": PAYLOAD,
        });
        if lines.is_empty() {
            log.set_len(0).map_err(failed)?;
            append(&mut log, &header).map_err(failed)?;
        } else {
            let found = lines.remove(0);
            check_version_of(&found["schema_version"], SCHEMA_VERSION).map_err(|why| wrong(&why))?;
            // Fields of a newer minor version are ignored.
            let mut known = header.as_object().into_iter().flatten().filter(|(key, _)| *key != "schema_version");
            if known.any(|(key, value)| found[key] != *value) {
                return Err(wrong("belongs to a selftest with another seed, program or kernel"));
            }
            log.set_len(whole as u64).map_err(failed)?;
        }
        Ok(Self { seed, phases: phases.to_vec(), log, lines, reference_ns: None, budget_s: BUDGET_S, _lock: lock })
    }

    /// Makes the missing comparisons. A phase makes at least one, and starts no other after the time `most`.
    pub fn run(&mut self, bench: &Bench, most: Option<Duration>) -> Result<(), CliError> {
        if most.is_some() {
            self.budget_s = QUICK_BUDGET_S;
        }
        let phases = self.phases.clone();
        let mut left: u32 = phases.iter().map(|phase| phase.number - self.made(phase).count() as u32).sum();
        if left == 0 || bench.stopped() {
            return Ok(());
        }
        let mut each = self.calibrate(bench)?;
        let all: u32 = phases.iter().map(|phase| phase.number).sum();
        let bound = most.map_or(String::new(), |most| format!(", at most {} s for each kind", most.as_secs()));
        bench.say(&format!(
            "{left} of {all} comparisons left: about {:#} ({:.1} s for one with {ROUNDS} rounds{bound})",
            HumanDuration(self.time_left(each)),
            guess(&phases[0], each)
        ));
        for phase in &phases {
            let begin = Instant::now();
            let mut made = 0;
            for index in 1..=phase.number {
                if self.line(phase, index).is_some() {
                    continue;
                }
                if bench.stopped() || (made > 0 && most.is_some_and(|most| begin.elapsed() >= most)) {
                    break;
                }
                let line = self.compare(bench, phase, index)?;
                let Some(line) = line else { return Ok(()) };
                (made, left) = (made + 1, left - 1);
                let runs = 2.0 * line["rounds"].as_f64().unwrap_or(1.0);
                each = line["seconds"].as_f64().unwrap_or(0.0) / runs;
                let verdict = |figure: &str| line["verdicts"][figure]["verdict"].as_str().unwrap_or("none").to_owned();
                bench.say(&format!(
                    "{} {index}/{}: p50 {}, p99 {}; {:.1} s; about {:#} left",
                    phase.id,
                    phase.number,
                    verdict("median"),
                    verdict("p99"),
                    line["seconds"].as_f64().unwrap_or(0.0),
                    HumanDuration(self.time_left(each))
                ));
            }
        }
        Ok(())
    }

    /// Estimated time of the missing comparisons, from those of the same phase or else from [`guess`].
    fn time_left(&self, each: f64) -> Duration {
        let of_phase = |phase: &Phase| {
            let seconds: Vec<f64> = self.made(phase).filter_map(|line| line["seconds"].as_f64()).collect();
            let (sum, made) = (seconds.iter().sum::<f64>(), seconds.len() as f64);
            (f64::from(phase.number) - made) * if made > 0.0 { sum / made } else { guess(phase, each) }
        };
        Duration::from_secs_f64(self.phases.iter().map(of_phase).sum())
    }

    fn made<'a>(&'a self, phase: &Phase) -> impl Iterator<Item = &'a Value> {
        (1..=phase.number).filter_map(|index| self.line(phase, index))
    }

    fn line(&self, phase: &Phase, index: u32) -> Option<&Value> {
        self.lines.iter().find(|line| line["phase"] == phase.id && line["index"] == index)
    }

    /// Measures `uds` to set the delay; returns the duration of a run in seconds.
    fn calibrate(&mut self, bench: &Bench) -> Result<f64, CliError> {
        const CALIBRATING: u32 = 6;
        let mut args = ExperimentArgs { transports: vec!["uds".to_owned()], no_floor: true, ..Default::default() };
        (args.measuring, args.rounds) = (measuring(self.seed), Some(CALIBRATING));
        let name = "calibration.unfinished";
        let folder = bench.folder.path().join(name);
        remove_unfinished(&bench.folder, name)?;
        let begin = Instant::now();
        let manifest =
            Prepared::new(&args, &PluginArgs::default(), true)?.run(Some(&folder), Followers::Local, true)?;
        let each = begin.elapsed().as_secs_f64() / f64::from(CALIBRATING);
        remove_unfinished(&bench.folder, name)?;
        let cells = manifest.sub_experiments.iter().flat_map(|result| &result.cells);
        let medians: Vec<f64> = cells.filter_map(half_trips).map(|figures| figures.median).collect();
        self.reference_ns = median(&medians);
        if self.reference_ns.is_none() && !bench.stopped() {
            let why = manifest.sub_experiments.iter().find_map(|result| result.error.clone()).unwrap_or_default();
            return Err(CliError::new(exit::PARTIAL, format!("`uds` cannot be measured: {why}")));
        }
        Ok(each)
    }

    /// Makes one comparison and writes its line; `None` if the user stopped it.
    fn compare(&mut self, bench: &Bench, phase: &Phase, index: u32) -> Result<Option<Value>, CliError> {
        let name = format!("{}-{index:04}", phase.id);
        let unfinished = name.clone() + ".unfinished";
        let folder = bench.folder.path().join(&unfinished);
        remove_unfinished(&bench.folder, &unfinished)?;
        let seed = self.seed + phase.seeds + u64::from(index);
        let args = arguments(phase, seed, &folder, self.budget_s);
        // The follower delays each round trip once, and a round trip is twice `rtt_half`.
        let delay_ns = phase.injected.zip(self.reference_ns).map(|(share, ns)| (2.0 * share * ns).round() as u64);
        let begin = Instant::now();
        let judged = judge(&args, bench.stop.clone(), |plan| {
            plan.sub_experiments[1].answer_delay_ns = delay_ns.unwrap_or(0);
        })?;
        if bench.stopped() {
            return Ok(None);
        }
        let seconds = begin.elapsed().as_secs_f64();
        let of = |figure: &str| {
            let statistic = if figure == "median" { "p50" } else { figure };
            let all = judged.json["comparisons"].as_array()?;
            all.iter().find(|one| one["statistic"] == statistic)
        };
        let verdicts: serde_json::Map<String, Value> = FIGURES
            .iter()
            .filter_map(|figure| {
                let one = of(figure)?;
                let kept = [
                    ("verdict", "verdict"),
                    ("ratio", "ratio"),
                    ("interval", "interval"),
                    ("seen_from", "seen_from"),
                    ("reference_ns", "reference"),
                    ("result_ns", "result"),
                ];
                let kept = kept.map(|(key, of)| (key.to_owned(), one[of].clone()));
                Some(((*figure).to_owned(), Value::Object(kept.into_iter().collect())))
            })
            .collect();
        let reference_ns = verdicts.get("median").and_then(|one| one["reference_ns"].as_f64());
        let injected = delay_ns.zip(reference_ns).map(|(delay, ns)| delay as f64 / (2.0 * ns));
        if phase.transport == "uds" {
            self.reference_ns = reference_ns.or(self.reference_ns);
        }
        let line = json!({
            "phase": phase.id,
            "index": index,
            "seed": seed,
            "margin": phase.margin,
            "answer_delay_ns": delay_ns,
            "injected": injected,
            "rounds": judged.json["rounds"],
            "stopped": judged.json["stopped"],
            "failures": judged.json["failures"].as_array().map_or(0, Vec::len),
            "seconds": seconds,
            "verdicts": verdicts,
        });
        let kept = name + ".json";
        let renamed = fs::rename(judged.folder.at("ab.json")?, bench.folder.at(&kept)?);
        renamed.map_err(|error| cannot_create(&bench.folder.path().join(kept), &error))?;
        // The folder is removed before the line is written: later, nobody looks for the folder of a finished
        // comparison.
        remove_unfinished(&bench.folder, &unfinished)?;
        append(&mut self.log, &line).map_err(|error| cannot_create(&bench.folder.path().join(LOG), &error))?;
        self.lines.push(line.clone());
        Ok(Some(line))
    }

    /// Outcome of a phase so far; see [`PhaseOutcome::from_lines`].
    pub fn outcome(&self, phase: &Phase, full: bool) -> PhaseOutcome {
        PhaseOutcome::from_lines(phase, &self.made(phase).collect::<Vec<_>>(), full)
    }
}

pub fn cannot_create(path: &Path, error: &dyn std::fmt::Display) -> CliError {
    CliError::new(exit::CANNOT_CREATE, format!("'{}' cannot be written: {error}", path.display()))
}

/// Estimated seconds of a comparison, if a run takes `each`.
fn guess(phase: &Phase, each: f64) -> f64 {
    2.0 * each * if phase.injected.is_some() { GUESSED_ROUNDS } else { f64::from(ROUNDS) }
}

fn measuring(seed: u64) -> MeasuringArgs {
    MeasuringArgs {
        payloads: Some(PAYLOAD.to_owned()),
        samples: Some(SAMPLES),
        warmup: Some(WARMUP),
        seed: Some(seed),
        ..MeasuringArgs::default()
    }
}

fn arguments(phase: &Phase, seed: u64, folder: &Path, budget_s: f64) -> AbArgs {
    AbArgs {
        sides: SidesArgs { a: phase.transport.to_owned(), ..SidesArgs::default() },
        workload: AbWorkloadArgs::default(),
        figures: FiguresArgs::default(),
        measuring: measuring(seed),
        margin: Share(phase.margin),
        effect: Share(phase.effect()),
        power: Share(0.95),
        rounds: phase.injected.is_none().then_some(ROUNDS),
        budget: budget_s,
        output: OutputArgs {
            folder: Some(PathBuf::from(folder)),
            quiet: true,
            no_report: true,
            ..OutputArgs::default()
        },
        intervals: false,
        live: false,
    }
}

/// Appends one line in a single write, so that a kill leaves it whole or absent.
fn append(log: &mut File, line: &Value) -> std::io::Result<()> {
    log.write_all((line.to_string() + "\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_model::folder_handle::FolderHandle;

    #[test]
    fn a_campaign_goes_on_where_it_was_killed() {
        let place = tempfile::tempdir().unwrap();
        let stop = std::sync::Arc::default();
        let bench =
            Bench { program: PathBuf::new(), folder: FolderHandle::create(place.path()).unwrap(), stop, quiet: true };
        let phases = Phase::all(false, Some(2));
        let mut first = Campaign::open(&bench, 7, &phases).unwrap();
        assert!(Campaign::open(&bench, 7, &phases).is_err(), "it is locked");
        append(&mut first.log, &json!({ "phase": phases[0].id, "index": 1 })).unwrap();
        first.log.write_all(b"{\"phase\":\"aa-u").unwrap();
        drop(first);
        let again = Campaign::open(&bench, 7, &phases).unwrap();
        assert!(again.line(&phases[0], 1).is_some() && again.lines.len() == 1);
        drop(again);
        assert!(fs::read_to_string(place.path().join(LOG)).unwrap().ends_with("}\n"), "what was cut off is gone");
        let other = Campaign::open(&bench, 8, &phases).err().unwrap();
        assert_eq!(other.code, exit::DATA);
        let log = place.path().join(LOG);
        let text = fs::read_to_string(&log).unwrap();
        let ours = "\"schema_version\":\"1.0\"";
        assert!(text.starts_with(&format!("{{{ours}")), "{text}");
        fs::write(&log, text.replace(ours, "\"new\":1,\"schema_version\":\"1.7\"")).unwrap();
        assert!(Campaign::open(&bench, 7, &phases).is_ok(), "a newer minor version");
        fs::write(&log, text.replace(ours, "\"schema_version\":\"2.0\"")).unwrap();
        let newer = Campaign::open(&bench, 7, &phases).err().unwrap();
        assert!(newer.code == exit::DATA && newer.to_string().contains("schema version 2.0"), "{newer}");
    }
}
