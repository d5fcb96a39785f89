//! Checks of a system's contract: everything that it declares works, and everything else is refused.

use crate::entry::{Faults, PartOutcome, PlannedPart, VariantHere, variants_here};
use crate::suite::{Known, Suite, SuiteError};
use crate::{calls, killed, log, one_way, publish, refusals, round_trips};
use std::ffi::OsStr;
use std::path::Path;
use tripmeter_abi::{Path as Claim, Pattern};
use tripmeter_model::exit;
use tripmeter_model::folder;
use tripmeter_model::manifest::{RunStatus, Verdict};

type MakeParts = fn(&VariantHere<'_>) -> Vec<PlannedPart>;

/// Parts of the suite's experiment, each with the pattern that it needs and measures.
const PARTS: [(Pattern, MakeParts); 6] = [
    (Pattern::Ping, round_trips::entries),
    (Pattern::Throughput, one_way::entries),
    (Pattern::Publish, publish::entries),
    (Pattern::Ping, calls::round_trips),
    (Pattern::Call, calls::entries),
    (Pattern::Log, log::entries),
];

/// Kinds of parts whose messages go one way.
const ONE_WAY: [&str; 3] = ["throughput", "publish", "publishers"];

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
    faults.check(good, || format!("{name}: path proof: {:?}", result.path_proof));
    let found: Vec<u64> = result.cells.iter().map(|cell| cell.payload_bytes).collect();
    faults.check(found == plan.payloads && !found.is_empty(), || {
        format!("{name}: payloads {found:?}, but {:?} were planned", plan.payloads)
    });
}

/// Parts for everything that a variant declares.
fn entries(variant: &VariantHere<'_>) -> Vec<PlannedPart> {
    let mut all = Vec::new();
    for (pattern, parts) in PARTS.iter().filter(|(pattern, _)| variant.can(*pattern)) {
        let under = |part: PlannedPart| PlannedPart { text: part.text + &format!("pattern = \"{pattern}\"\n"), ..part };
        all.extend(parts(variant).into_iter().map(under));
    }
    all
}

/// True if a part sends one-way messages that may be lost. Its trials wait for lost messages until the time-out.
fn waits_for_lost(entry: &PlannedPart) -> bool {
    entry.may_lose && ONE_WAY.contains(&entry.kind)
}

impl Suite {
    /// Measures everything that the system declares; returns the faults, one line each. Fails if the program cannot be
    /// run.
    pub fn contract(&self, known: &Known) -> Result<Vec<String>, SuiteError> {
        let all: Vec<PlannedPart> = variants_here(known, self.is_thorough).iter().flat_map(entries).collect();
        // Parts that must not lose messages get a longer time-out, so that a slow message does not count as lost.
        let (lossy, safe): (Vec<_>, Vec<_>) = all.into_iter().partition(waits_for_lost);
        let mut faults = Faults::default();
        self.hold_to(&mut faults, &known.system, &safe, 30)?;
        self.hold_to(&mut faults, &known.system, &lossy, 5)?;
        Ok(faults.0)
    }

    /// Runs two experiments in parallel, for the first variant and the first over shared memory, or all if thorough.
    /// Fails like [`contract`](Self::contract).
    pub fn two_at_once(&self, known: &Known) -> Result<Vec<String>, SuiteError> {
        let mut faults = Faults::default();
        let mut variants = variants_here(known, self.is_thorough);
        variants.retain(|variant| variant.can(Pattern::Ping));
        for variant in self.few_of(&variants) {
            round_trips::both(self, &mut faults, variant)?;
        }
        Ok(faults.0)
    }

    /// Kills measuring workers, for the first variant and the first over shared memory, or all if thorough. Fails like
    /// [`contract`](Self::contract).
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

    /// Requests everything that the system does not declare, and checks the declarations of its settings. Fails like
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
            // A whole burst may be lost; the check of each part knows which messages must arrive.
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

/// Checks the parts in a results folder; returns the number of payloads.
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
