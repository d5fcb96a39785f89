//! Comparisons whose right answer is known: of a transport with itself, and with itself and an injected delay.
//!
//! Each is a `tripmeter ab` of its own, with a seed of its own. A line of `comparisons.jsonl` is written when it is over, so
//! that nothing of it is lost by a kill; the same command makes what is missing.

use super::{Bench, cannot_create};
use crate::args::{AbArgs, ExperimentArgs, MeasuringArgs, PluginArgs, Share};
use crate::commands::ab::judge;
use crate::commands::run::Prepared;
use crate::error::CliError;
use crate::many_runs::remove_unfinished;
use indicatif::HumanDuration;
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tripmeter_engine::Followers;
use tripmeter_engine::os::lock_file;
use tripmeter_model::exit;
use tripmeter_stats::binomial::{at_most, most_compatible, rate_interval};
use tripmeter_stats::median;

/// Round trips of a run, and those before: few, as there are thousands of runs.
const SAMPLES: u64 = 1000;
const WARMUP: u64 = 100;
const PAYLOAD: &str = "1k";
/// Rounds of a comparison with itself.
const ROUNDS: u32 = 10;
/// Rounds that are guessed, for the estimate, where they are computed.
const GUESSED_ROUNDS: f64 = 24.0;
/// Longest time of a comparison whose rounds are computed, in seconds.
const BUDGET_S: f64 = 60.0;
/// Wrong verdicts that are allowed, and the certainty with which more of them are called too many.
const FALSE_RATE: f64 = 0.05;
const ALPHA: f64 = 0.05;
const LOG: &str = "comparisons.jsonl";
const FIGURES: [&str; 2] = ["median", "p99"];

/// Comparisons of one kind.
#[derive(Clone, Debug)]
pub struct Phase {
    pub id: &'static str,
    transport: &'static str,
    /// Share of the median that the follower of B is delayed by; none compares a transport with itself.
    pub injected: Option<f64>,
    margin: f64,
    /// Comparisons.
    pub number: u32,
    /// Share of them that must be called, where there is something to call.
    required: f64,
    /// Seeds of its comparisons begin so far behind the campaign's.
    seeds: u64,
}

impl Phase {
    /// All of them, with the numbers of the form chosen.
    pub fn all(full: bool, number: Option<u32>) -> [Phase; 4] {
        let number = |of_campaign| number.unwrap_or(if full { of_campaign } else { super::QUICK_COMPARISONS });
        let same = |id, transport, seeds| Phase {
            id,
            transport,
            injected: None,
            margin: 0.0,
            number: number(100),
            required: 0.0,
            seeds,
        };
        let more = |id, share, margin, of_campaign, required, seeds| {
            let number = number(of_campaign);
            Phase { id, transport: "uds", injected: Some(share), margin, number, required, seeds }
        };
        [
            same("aa-uds", "uds", 0),
            same("aa-shm", "shm", 10_000),
            more("uds-plus-10", 0.10, 0.02, 100, 0.95, 20_000),
            more("uds-plus-5", 0.05, 0.01, 50, 0.80, 30_000),
        ]
    }

    fn effect(&self) -> f64 {
        self.injected.unwrap_or(0.10)
    }

    /// For people.
    fn what(&self) -> String {
        let margin = tripmeter_report::percent(self.margin);
        match self.injected {
            None => format!("`{}` with itself, margin {margin}, {ROUNDS} rounds", self.transport),
            Some(share) => {
                let share = tripmeter_report::percent(share);
                format!("`{}` with answers delayed by {share} of the median, margin {margin}", self.transport)
            }
        }
    }
}

/// What came of a phase.
pub struct Outcome {
    phase: Phase,
    made: u32,
    /// Comparisons of which a side failed in some rounds.
    pub failed: u32,
    /// Called changed (of itself), or called regressed by the median (with a delay), of each figure.
    called: [u32; 2],
    /// What is allowed at most, or required at least.
    limit: u32,
    pub good: bool,
    /// Medians over the comparisons.
    seen_from: Option<f64>,
    rounds: Option<f64>,
    seconds: Option<f64>,
    injected: Option<f64>,
    estimated: Option<f64>,
}

impl Outcome {
    pub fn json(&self) -> Value {
        let rate = |called: u32| {
            (self.made > 0).then(|| {
                let interval = rate_interval(called.into(), self.made.into(), ALPHA);
                [interval.low, interval.high]
            })
        };
        let is_same = self.phase.injected.is_none();
        json!({
            "phase": self.phase.id,
            "what": self.phase.what(),
            "comparisons": self.made,
            "planned": self.phase.number,
            "failed": self.failed,
            "called": { "median": self.called[0], "p99": self.called[1] },
            "rate_interval": { "median": rate(self.called[0]), "p99": rate(self.called[1]) },
            "at_most": is_same.then_some(self.limit),
            "at_least": (!is_same).then_some(self.limit),
            "margin": self.phase.margin,
            "injected": self.injected,
            "estimated": self.estimated,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "seen_from": self.seen_from,
            "good": self.good,
        })
    }
}

/// Comparisons in a folder.
pub struct Campaign {
    seed: u64,
    phases: Vec<Phase>,
    log: File,
    /// One for each comparison that is over.
    lines: Vec<Value>,
    /// `rtt_half` of `uds` when it was measured last, in nanoseconds.
    reference_ns: Option<f64>,
    /// Held until it is dropped; a kill gives it back, too.
    _lock: File,
}

/// Removes what a killed run left.
pub fn remove(folder: &Path) -> Result<(), CliError> {
    remove_unfinished(folder)
}

impl Campaign {
    /// Begins or continues the one in the folder.
    pub fn open(bench: &Bench, seed: u64, phases: &[Phase]) -> Result<Self, CliError> {
        let path = bench.folder.join(LOG);
        let failed = |error: std::io::Error| cannot_create(&path, &error);
        let lock = File::create(bench.folder.join(".lock")).map_err(failed)?;
        if !lock_file(&lock, true).map_err(failed)? {
            let text =
                format!("another selftest uses '{}'; wait for it, or name another with -o", bench.folder.display());
            return Err(CliError::new(exit::CANNOT_CREATE, text));
        }
        let mut log = OpenOptions::new().create(true).append(true).read(true).open(&path).map_err(failed)?;
        let text = fs::read_to_string(&path).map_err(failed)?;
        // A line that a kill has cut off is no line.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        log.set_len(whole as u64).map_err(failed)?;
        let wrong =
            |why: &str| CliError::new(exit::DATA, format!("'{}' {why}; name another folder with -o", path.display()));
        let lines: Result<Vec<Value>, _> = text[..whole].lines().map(serde_json::from_str).collect();
        let mut lines = lines.map_err(|error| wrong(&format!("is no log of a selftest: {error}")))?;
        let header = json!({
            "schema_version": super::SCHEMA_VERSION,
            "tripmeter_version": env!("CARGO_PKG_VERSION"),
            "seed": seed,
            "samples": SAMPLES,
            "payload": PAYLOAD,
        });
        if lines.is_empty() {
            append(&mut log, &header).map_err(failed)?;
        } else if lines.remove(0) != header {
            return Err(wrong("is of a selftest with another seed or version"));
        }
        Ok(Self { seed, phases: phases.to_vec(), log, lines, reference_ns: None, _lock: lock })
    }

    /// Makes what is missing; of each phase no more than begin in that time, but one.
    pub fn run(&mut self, bench: &Bench, most: Option<Duration>) -> Result<(), CliError> {
        let phases = self.phases.clone();
        let missing = |campaign: &Self, phase: &Phase| {
            (1..=phase.number).filter(|index| campaign.line(phase, *index).is_none()).count() as u32
        };
        let mut left: u32 = phases.iter().map(|phase| missing(self, phase)).sum();
        if left == 0 || bench.stopped() {
            return Ok(());
        }
        let mut each = self.calibrate(bench)?;
        let all: u32 = phases.iter().map(|phase| phase.number).sum();
        let seconds: f64 = phases.iter().map(|phase| f64::from(missing(self, phase)) * guess(phase, each)).sum();
        let bound = most.map_or(String::new(), |most| format!(", {} s for each kind at most", most.as_secs()));
        bench.say(&format!(
            "{left} of {all} comparisons to be made: about {:#} ({:.1} s for one with {ROUNDS} rounds{bound})",
            HumanDuration(Duration::from_secs_f64(seconds)),
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
                let rest: f64 = phases.iter().map(|phase| f64::from(missing(self, phase)) * guess(phase, each)).sum();
                let verdict = |figure: &str| line["verdicts"][figure]["verdict"].as_str().unwrap_or("none").to_owned();
                bench.say(&format!(
                    "{} {index}/{}: median {}, p99 {}; {:.1} s; about {:#} left",
                    phase.id,
                    phase.number,
                    verdict("median"),
                    verdict("p99"),
                    line["seconds"].as_f64().unwrap_or(0.0),
                    HumanDuration(Duration::from_secs_f64(rest))
                ));
            }
        }
        Ok(())
    }

    fn line(&self, phase: &Phase, index: u32) -> Option<&Value> {
        self.lines.iter().find(|line| line["phase"] == phase.id && line["index"] == index)
    }

    /// Measures `uds` for the delay, and returns how long a run takes, in seconds.
    fn calibrate(&mut self, bench: &Bench) -> Result<f64, CliError> {
        const CALIBRATING: u32 = 6;
        let mut args = ExperimentArgs { transports: vec!["uds".to_owned()], no_floor: true, ..Default::default() };
        (args.measuring, args.rounds) = (measuring(self.seed), Some(CALIBRATING));
        let folder = bench.folder.join("calibration.unfinished");
        remove(&folder)?;
        let begin = Instant::now();
        let manifest =
            Prepared::new(&args, &PluginArgs::default(), true)?.run(Some(&folder), Followers::Local, true)?;
        let each = begin.elapsed().as_secs_f64() / f64::from(CALIBRATING);
        remove(&folder)?;
        let cells = manifest.sub_experiments.iter().flat_map(|result| &result.cells);
        let medians: Vec<f64> = cells.filter_map(|cell| cell.rtt_half_ns).map(|figures| figures.median).collect();
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
        let folder = bench.folder.join(name.clone() + ".unfinished");
        remove(&folder)?;
        let seed = self.seed + phase.seeds + u64::from(index);
        let args = arguments(phase, seed, &folder);
        // A whole round trip is delayed once, and is twice the latency.
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
            let all = judged.json["comparisons"].as_array()?;
            all.iter().find(|one| one["figure"] == figure)
        };
        let verdicts: serde_json::Map<String, Value> = FIGURES
            .iter()
            .filter_map(|figure| {
                let one = of(figure)?;
                let kept = ["verdict", "ratio", "interval", "seen_from", "reference_ns", "result_ns"];
                let kept = kept.map(|key| (key.to_owned(), one[key].clone()));
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
        let kept = bench.folder.join(name + ".json");
        fs::rename(folder.join("ab.json"), &kept).map_err(|error| cannot_create(&kept, &error))?;
        append(&mut self.log, &line).map_err(|error| cannot_create(&bench.folder.join(LOG), &error))?;
        remove(&folder)?;
        self.lines.push(line.clone());
        Ok(Some(line))
    }

    /// What came of a phase, by all of its lines; the campaign's numbers are required as they are, others as far as so
    /// few comparisons can tell.
    pub fn outcome(&self, phase: &Phase, full: bool) -> Outcome {
        let lines: Vec<&Value> = (1..=phase.number).filter_map(|index| self.line(phase, index)).collect();
        let verdict = |line: &Value, figure: &str| line["verdicts"][figure]["verdict"].as_str().map(str::to_owned);
        let called = FIGURES.map(|figure| {
            let is_called = |line: &&&Value| {
                let verdict = verdict(line, figure);
                matches!((verdict.as_deref(), phase.injected), (Some("regressed"), _) | (Some("improved"), None))
            };
            lines.iter().filter(is_called).count() as u32
        });
        let made = lines.len() as u32;
        let (limit, good) = match phase.injected {
            None => {
                let limit = most_compatible(made.into(), FALSE_RATE, ALPHA) as u32;
                (limit, called.iter().all(|called| *called <= limit))
            }
            Some(_) if full => {
                let limit = (phase.required * f64::from(made)).ceil() as u32;
                (limit, called[0] >= limit)
            }
            Some(_) => {
                let is_too_few = |called: u32| at_most(called.into(), made.into(), phase.required) <= ALPHA;
                let limit = (0..=made).find(|called| !is_too_few(*called)).unwrap_or(made);
                (limit, called[0] >= limit)
            }
        };
        let numbers = |of: &dyn Fn(&Value) -> Option<f64>| {
            let numbers: Vec<f64> = lines.iter().filter_map(|line| of(line)).collect();
            median(&numbers)
        };
        Outcome {
            phase: phase.clone(),
            made,
            failed: lines.iter().filter(|line| line["failures"] != json!(0)).count() as u32,
            called,
            limit,
            good: good && made > 0,
            seen_from: numbers(&|line| line["verdicts"]["median"]["seen_from"].as_f64()),
            rounds: numbers(&|line| line["rounds"].as_f64()),
            seconds: numbers(&|line| line["seconds"].as_f64()),
            injected: numbers(&|line| line["injected"].as_f64()),
            estimated: numbers(&|line| line["verdicts"]["median"]["ratio"].as_f64()).map(|ratio| ratio - 1.0),
        }
    }
}

/// Seconds that a comparison takes, if a run takes `each`.
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

fn arguments(phase: &Phase, seed: u64, folder: &Path) -> AbArgs {
    AbArgs {
        a: phase.transport.to_owned(),
        b: None,
        transports_a: None,
        transports_b: None,
        env_a: Vec::new(),
        env_b: Vec::new(),
        measuring: measuring(seed),
        margin: Share(phase.margin),
        effect: Share(phase.effect()),
        power: Share(0.95),
        rounds: phase.injected.is_none().then_some(ROUNDS),
        budget: BUDGET_S,
        output: Some(PathBuf::from(folder)),
        json: false,
        quiet: true,
        plugins: PluginArgs::default(),
    }
}

/// One line, whole or not at all as far as a kill is concerned.
fn append(log: &mut File, line: &Value) -> std::io::Result<()> {
    log.write_all((line.to_string() + "\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(phase: &Phase, index: u32, median: &str, p99: &str) -> Value {
        json!({
            "phase": phase.id, "index": index, "rounds": 10, "seconds": 2.0, "failures": 0,
            "verdicts": { "median": { "verdict": median, "seen_from": 1.1 }, "p99": { "verdict": p99 } },
        })
    }

    fn campaign(lines: Vec<Value>) -> Campaign {
        let file = || tempfile::tempfile().unwrap();
        let phases = Phase::all(true, None).to_vec();
        Campaign { seed: 1, phases, log: file(), lines, reference_ns: None, _lock: file() }
    }

    #[test]
    fn nine_false_alarms_of_a_hundred_are_allowed_and_ten_are_not() {
        let phase = &Phase::all(true, None)[0];
        for (wrong, good) in [(9, true), (10, false)] {
            let verdict = |index| if index <= wrong { "improved" } else { "inconclusive" };
            let lines = (1..=100).map(|index| line(phase, index, "equivalent", verdict(index))).collect();
            let found = campaign(lines).outcome(phase, true);
            assert_eq!((found.made, found.limit, found.called, found.good), (100, 9, [0, wrong], good));
        }
        assert!(!campaign(Vec::new()).outcome(phase, true).good, "nothing made is not good");
    }

    #[test]
    fn ninety_five_of_a_hundred_and_forty_of_fifty_are_required() {
        for (phase, required) in [(2, 95), (3, 40)] {
            let phase = &Phase::all(true, None)[phase];
            for (called, good) in [(required, true), (required - 1, false)] {
                let verdict = |index| if index <= called { "regressed" } else { "inconclusive" };
                let lines = (1..=phase.number).map(|index| line(phase, index, verdict(index), "improved")).collect();
                let found = campaign(lines).outcome(phase, true);
                assert_eq!((found.limit, found.called[0], found.good), (required, called, good));
            }
        }
        // Two of three are not less than chance allows.
        let phase = &Phase::all(false, Some(3))[2];
        let lines =
            (1..=3).map(|index| line(phase, index, if index < 3 { "regressed" } else { "equivalent" }, "")).collect();
        assert!(campaign(lines).outcome(phase, false).good);
    }

    #[test]
    fn a_campaign_goes_on_where_it_was_killed() {
        let place = tempfile::tempdir().unwrap();
        let stop = std::sync::Arc::default();
        let bench = Bench { program: PathBuf::new(), folder: place.path().to_owned(), stop, quiet: true };
        let phases = Phase::all(false, Some(2));
        let mut first = Campaign::open(&bench, 7, &phases).unwrap();
        assert!(Campaign::open(&bench, 7, &phases).is_err(), "it is locked");
        append(&mut first.log, &line(&phases[0], 1, "equivalent", "equivalent")).unwrap();
        first.log.write_all(b"{\"phase\":\"aa-u").unwrap();
        drop(first);
        let again = Campaign::open(&bench, 7, &phases).unwrap();
        assert!(again.line(&phases[0], 1).is_some() && again.lines.len() == 1);
        drop(again);
        assert!(fs::read_to_string(place.path().join(LOG)).unwrap().ends_with("}\n"), "what was cut off is gone");
        let other = Campaign::open(&bench, 8, &phases).err().unwrap();
        assert_eq!(other.code, exit::DATA);
    }
}
