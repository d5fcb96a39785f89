//! Conformance suite for all transports, built in or plugins, through the running program. It measures all variants,
//! waits and patterns in one experiment; runs two experiments in parallel; asks for what is not declared; kills
//! workers. The program's tests run it for every system, `tripmeter plugin-check` for a third-party plugin.

#![forbid(unsafe_code)]

mod calls;
mod channel;
pub mod figures;
mod killed;
mod log;
mod one_way;
mod refusals;
mod round_trips;
pub mod samples;
mod suite;
pub mod traces;

pub use suite::{Known, KnownVariant, Suite, SuiteError};

use std::ffi::OsStr;
use std::path::Path;
use tripmeter_abi::{Path as Claim, Pattern, Wait};
use tripmeter_model::exit;
use tripmeter_model::figure::Figure;
use tripmeter_model::folder;
use tripmeter_model::manifest::{PayloadResult, RunStatus, SubExperimentResult, Verdict};
use tripmeter_model::metric::{Process, Stream};
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::trial::Trial;

const SAMPLES: u64 = 200;
const WARMUP: u64 = 20;
const ONE_WAY: [&str; 3] = ["throughput", "channel", "publishers"];

/// The only variant that may lose messages at any rate, round trips included, while its threads get no CPU.
const LOSES_WHEN_STARVED: &str = "zenoh/shm";

fn loses_when_starved(transport: &str) -> bool {
    transport.starts_with(LOSES_WHEN_STARVED)
}

struct VariantHere<'a> {
    system: &'a str,
    here: &'a KnownVariant,
    declared: &'a tripmeter_abi::Variant,
    has_packet: bool,
    is_thorough: bool,
}

impl VariantHere<'_> {
    fn name(&self) -> String {
        format!("{}/{}", self.system, self.here.variant)
    }

    fn can(&self, pattern: Pattern) -> bool {
        self.declared.patterns.contains(&pattern)
    }

    fn carries(&self, payload: u64) -> bool {
        self.here.max_payload_bytes.is_none_or(|most| payload <= most)
    }

    /// Payloads that it carries, in the form of an experiment file.
    fn payloads(&self, of: &[u64]) -> String {
        let carried = of.iter().filter(|payload| self.carries(**payload));
        carried.map(u64::to_string).collect::<Vec<_>>().join(",")
    }

    /// All waits, or only the last of the enumeration if the others would show nothing else.
    fn waits(&self, all: bool) -> &[Wait] {
        let waits = &self.declared.waits;
        match waits.iter().position(|wait| Some(wait) == waits.iter().max()) {
            Some(last) if !all && !self.is_thorough => &waits[last..=last],
            _ => waits,
        }
    }
}

fn variants_here(known: &Known, is_thorough: bool) -> Vec<VariantHere<'_>> {
    let Some(description) = known.description.as_ref().filter(|_| known.available) else { return Vec::new() };
    let has_packet = description.settings.iter().any(|setting| setting.name == "packet");
    let here = known.variants.iter().filter(|variant| variant.available);
    here.filter_map(|here| {
        let declared = description.variant(&here.variant)?;
        Some(VariantHere { system: &known.system, here, declared, has_packet, is_thorough })
    })
    .collect()
}

/// Faults found, one line each.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }

    /// Returns the value; an error is recorded, and the default returned.
    fn value<T: Default>(&mut self, read: Result<T, String>) -> T {
        read.unwrap_or_else(|error| {
            self.0.push(error);
            T::default()
        })
    }
}

struct PartOutcome<'a> {
    result: &'a SubExperimentResult,
    plan: &'a SubExperiment,
    results: &'a Path,
    may_lose: bool,
}

impl PartOutcome<'_> {
    fn loses_when_starved(&self) -> bool {
        loses_when_starved(&self.plan.transport.to_string())
    }

    /// True if a trial has the cost of the leader, and that of the follower exactly if it is another process.
    fn has_cost(&self, trial: &Trial) -> bool {
        let [leader, follower] = [Process::Leader, Process::Follower].map(Stream::process);
        let is_used = |side: &Stream| {
            [Figure::Window, Figure::CpuTime, Figure::PeakMemory].iter().all(|of| trial.count(side, *of) > 0)
        };
        let is_other = trial.value(&follower, Figure::CpuTime).is_some();
        is_used(&leader) && is_other != self.result.same_process && (!is_other || is_used(&follower))
    }

    fn place(&self, cell: &PayloadResult) -> String {
        format!("{} ({} bytes)", self.result.name, cell.payload_bytes)
    }
}

type Check = fn(&mut Faults, &PartOutcome<'_>);

/// A sub-experiment of the suite's experiment.
struct PlannedPart {
    kind: &'static str,
    name: String,
    text: String,
    may_lose: bool,
    check: Check,
}

impl PlannedPart {
    /// Entry of a variant; `keys` are lines of TOML.
    fn new(variant: &VariantHere<'_>, kind: &'static str, wait: Wait, keys: &str, check: Check) -> Self {
        let name = format!("{kind}_{}_{wait}", variant.here.variant);
        let transport = variant.name();
        let text = format!(
            "[[sub_experiment]]\nname = \"{name}\"\ntransport = \"{transport}\"\nwait = \"{wait}\"\n{}\n",
            keys.trim()
        );
        Self { kind, name, text, may_lose: variant.declared.lossy, check }
    }
}

/// Checks that apply to every pattern.
fn check_outcome(faults: &mut Faults, outcome: &PartOutcome<'_>) {
    let PartOutcome { result, plan, .. } = outcome;
    let name = &result.name;
    let complete = result.status == RunStatus::Complete && result.error.is_none();
    faults.check(complete, || {
        let log = outcome.results.join(format!("logs/{name}.log"));
        let log = std::fs::read_to_string(log).unwrap_or_default();
        format!("{name}: {:?}, {:?}\n{log}", result.status, result.error)
    });
    let good = result.path_proof.as_ref().is_some_and(|proof| match proof.verdict {
        Verdict::Proven => true,
        Verdict::NotVisible => proof.claim == Claim::Other,
        Verdict::Failed => false,
    });
    faults.check(good, || format!("{name}: proof of the path: {:?}", result.path_proof));
    let found: Vec<u64> = result.cells.iter().map(|cell| cell.payload_bytes).collect();
    faults.check(found == plan.payloads && !found.is_empty(), || {
        format!("{name}: payloads {found:?}, planned {:?}", plan.payloads)
    });
}

/// Entries for everything that a variant declares.
fn entries(variant: &VariantHere<'_>) -> Vec<PlannedPart> {
    let of_patterns = [round_trips::entries, one_way::entries, channel::entries, calls::entries, log::entries];
    of_patterns.iter().flat_map(|of_pattern| of_pattern(variant)).collect()
}

/// True for one-way messages that may be lost: the end of a trial waits for the last of them.
fn waits_for_lost(entry: &PlannedPart) -> bool {
    entry.may_lose && ONE_WAY.contains(&entry.kind)
}

impl Suite {
    /// Measures everything that the system declares; returns the faults, one line each. Fails if the program cannot be
    /// run.
    pub fn contract(&self, known: &Known) -> Result<Vec<String>, SuiteError> {
        let all: Vec<PlannedPart> = variants_here(known, self.is_thorough).iter().flat_map(entries).collect();
        // Entries that may not lose messages get a longer time-out, so that nothing is given up too early.
        let (lossy, safe): (Vec<_>, Vec<_>) = all.into_iter().partition(waits_for_lost);
        let mut faults = Faults::default();
        self.hold_to(&mut faults, &known.system, &safe, 30)?;
        self.hold_to(&mut faults, &known.system, &lossy, 5)?;
        Ok(faults.0)
    }

    /// Runs two experiments in parallel, for the first variant and the first over shared memory; for all if thorough.
    /// Fails like [`contract`](Self::contract).
    pub fn two_at_once(&self, known: &Known) -> Result<Vec<String>, SuiteError> {
        let mut faults = Faults::default();
        let mut variants = variants_here(known, self.is_thorough);
        variants.retain(|variant| variant.can(Pattern::PingPong));
        for variant in self.few_of(&variants) {
            round_trips::both(self, &mut faults, variant)?;
        }
        Ok(faults.0)
    }

    /// Kills a measuring worker, for the first variant and the first over shared memory; for all if thorough. Fails
    /// like [`contract`](Self::contract).
    pub fn killed(&self, known: &Known) -> Result<Vec<String>, SuiteError> {
        let mut faults = Faults::default();
        let variants = variants_here(known, self.is_thorough);
        for variant in self.few_of(&variants) {
            killed::check(self, &mut faults, variant)?;
        }
        Ok(faults.0)
    }

    /// The first variant, and the first over shared memory; all if thorough.
    fn few_of<'v, 'k>(&self, variants: &'v [VariantHere<'k>]) -> impl Iterator<Item = &'v VariantHere<'k>> {
        let shared = variants.iter().position(|variant| variant.declared.path == Claim::SharedMemory);
        let is_meant = move |index| index == 0 || Some(index) == shared || self.is_thorough;
        variants.iter().enumerate().filter(move |(index, _)| is_meant(*index)).map(|(_, variant)| variant)
    }

    /// Asks for what the system does not declare, and checks the declarations of its settings. Fails like
    /// [`contract`](Self::contract).
    pub fn refusals(&self, known: &Known) -> Result<Vec<String>, SuiteError> {
        let mut faults = Faults::default();
        known.description.iter().for_each(|description| refusals::check_settings(&mut faults, description));
        for variant in &variants_here(known, self.is_thorough) {
            refusals::check(self, &mut faults, variant)?;
        }
        Ok(faults.0)
    }

    fn hold_to(
        &self,
        faults: &mut Faults,
        system: &str,
        entries: &[PlannedPart],
        loss_timeout_s: u32,
    ) -> Result<(), SuiteError> {
        if entries.is_empty() {
            return Ok(());
        }
        let folder = self.folder()?;
        let (file, results) = (folder.path().join("experiment.toml"), folder.path().join("results"));
        let texts: String = entries.iter().map(|entry| entry.text.as_str()).collect();
        let common = format!("floor = false\nattempts = 1\ntouch = \"full\"\nloss_timeout_s = {loss_timeout_s}.0\n");
        let unwritten = |reason| SuiteError::Folder { folder: folder.path().to_path_buf(), reason };
        std::fs::write(&file, common + &texts).map_err(unwritten)?;
        let mut arguments = ["run", "--no-spin"].map(OsStr::new).to_vec();
        arguments.extend([file.as_os_str(), "-q".as_ref(), "-o".as_ref(), results.as_os_str()]);
        if entries.iter().any(waits_for_lost) {
            // A burst may be lost as a whole; each entry checks what must arrive.
            arguments.push("--allow-loss".as_ref());
        }
        let finished = self.start(&arguments)?.wait(self.longest());
        let good = finished.code() == Some(exit::GOOD.into()) && finished.stderr.is_empty();
        faults.check(good, || format!("{system}: exit code {:?}\n{}", finished.code(), finished.stderr));
        finished.left().into_iter().for_each(|name| faults.0.push(format!("{system} left {name}")));
        let cells = if results.exists() { check_results(faults, &results, entries) } else { 0 };
        let took = finished.took.as_secs_f64();
        (self.say)(&format!("conformance: {system}: {} sub-experiments, {cells} payloads, {took:.1} s", entries.len()));
        Ok(())
    }
}

/// Checks the entries in a results folder; returns the number of payloads.
fn check_results(faults: &mut Faults, results: &Path, entries: &[PlannedPart]) -> usize {
    let mut cells = 0;
    let manifest = match folder::read(results, |text| text.into()) {
        Ok(manifest) => manifest,
        Err(error) => {
            faults.0.push(error.to_string());
            return cells;
        }
    };
    for entry in entries {
        let index = manifest.sub_experiments.iter().position(|result| result.name == entry.name);
        let planned = manifest.plan.sub_experiments.iter().find(|plan| plan.name == entry.name);
        let Some((index, plan)) = index.zip(planned) else {
            faults.0.push(format!("{}: not measured", entry.name));
            continue;
        };
        let result = &manifest.sub_experiments[index];
        let outcome = PartOutcome { result, plan, results, may_lose: entry.may_lose };
        check_outcome(faults, &outcome);
        (entry.check)(faults, &outcome);
        cells += result.cells.len();
    }
    cells
}
