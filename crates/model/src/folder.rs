//! Results folder: plan in `manifest.json`, measurements as lines of `trials.jsonl`, audits in `audit.json`.

use crate::audit::Audit;
use crate::bounds::{MOST_BYTES, MOST_TRIALS_BYTES, too_long};
use crate::explain;
use crate::file::{self, FileError};
use crate::json::{JsonError, from_json, is_object};
use crate::manifest::{
    Environment, HostEnvironment, Manifest, Network, PayloadResult, RunStatus, SCHEMA_VERSION, SubExperimentResult,
};
use crate::metrics_file::METRICS;
use crate::plain_words::shortened;
use crate::samples::SAMPLES;
use crate::trial::Trial;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use std::borrow::Cow;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// File of plan, environment and overall state.
pub const MANIFEST: &str = "manifest.json";
/// File of measurements: a [`TrialsLine`] for each trial, each finished payload, and each state of a sub-experiment.
pub const TRIALS: &str = "trials.jsonl";
/// File of audits of the machine: [`Audits`].
pub const AUDIT: &str = "audit.json";
/// File of results of `tripmeter ab`.
pub const AB: &str = "ab.json";
/// Page that shows the results; never read.
pub const REPORT: &str = "report.html";
/// Folder of histogram logs, in the results folder or in the folder of a round.
pub const HISTOGRAMS: &str = "histograms";
/// Folder of files from discarded attempts, beside the files that count.
pub const ATTEMPTS: &str = "attempts";
/// Folder of the output of workers and daemons, in the results folder or in the folder of a round.
pub const LOGS: &str = "logs";

const FETCHED: [&str; 6] = ["csv", "gz", "parquet", "hlog", "log", "strace"];

/// A line of `trials.jsonl`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(title = "A line of trials.jsonl")]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TrialsLine {
    /// A trial.
    Trial(TrialLine),
    /// End of a payload: the trials before this line count.
    Payload(PayloadLine),
    /// State of a sub-experiment; replaces an earlier one.
    SubExperiment(SubExperimentResult),
}

/// Trial with its address. It counts once the line of its payload follows.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TrialLine {
    /// The name of the sub-experiment.
    pub sub_experiment: String,
    /// Round, from 1.
    pub round: u32,
    /// Bytes of every message.
    pub payload_bytes: u64,
    /// Attempt at the payload, from 1. Only the last one counts.
    pub attempt: u32,
    /// Trial as measured.
    #[serde(flatten)]
    pub trial: Trial,
}

/// Facts of an attempt at a payload, which hold for all its trials; the line follows them. A later line of the same
/// attempt replaces it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PayloadLine {
    /// The name of the sub-experiment.
    pub sub_experiment: String,
    /// Round, from 1.
    pub round: u32,
    /// Attempt, as in [`TrialLine::attempt`].
    pub attempt: u32,
    /// The payload, without its trials.
    #[serde(flatten)]
    pub payload: PayloadResult,
}

impl TrialLine {
    /// Reads address and trial separately: with flattened fields, errors would not name the wrong key.
    fn from_json(text: &str) -> Result<Self, JsonError> {
        #[derive(Deserialize)]
        struct TrialAddress {
            sub_experiment: String,
            round: u32,
            payload_bytes: u64,
            attempt: u32,
        }
        let TrialAddress { sub_experiment, round, payload_bytes, attempt } = from_json(text)?;
        Ok(Self { sub_experiment, round, payload_bytes, attempt, trial: from_json(text)? })
    }
}

impl PayloadLine {
    /// Reads address and payload separately, as [`TrialLine::from_json`] does.
    fn from_json(text: &str) -> Result<Self, JsonError> {
        #[derive(Deserialize)]
        struct PayloadAddress {
            sub_experiment: String,
            round: u32,
            attempt: u32,
        }
        let PayloadAddress { sub_experiment, round, attempt } = from_json(text)?;
        Ok(Self { sub_experiment, round, attempt, payload: from_json(text)? })
    }
}

/// Lines of all attempts at a payload.
pub fn payload_lines(of: &SubExperimentResult, cell: &PayloadResult) -> Vec<TrialsLine> {
    let attempts = cell.earlier_attempts.iter().chain([cell]);
    let lines = (1..).zip(attempts).flat_map(|(attempt, one)| {
        let (sub_experiment, round, payload_bytes) = (of.name.clone(), of.round, one.payload_bytes);
        let mut payload = one.clone();
        payload.earlier_attempts.clear();
        let trials = std::mem::take(&mut payload.trials).into_iter().map({
            let sub_experiment = sub_experiment.clone();
            move |trial| {
                TrialsLine::Trial(TrialLine {
                    sub_experiment: sub_experiment.clone(),
                    round,
                    payload_bytes,
                    attempt,
                    trial,
                })
            }
        });
        trials.chain([TrialsLine::Payload(PayloadLine { sub_experiment, round, attempt, payload })])
    });
    lines.collect()
}

/// Contents of `audit.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Audits of a Tripmeter run")]
pub struct Audits {
    /// Audit before the first sub-experiment.
    #[serde(default)]
    pub before: Option<Audit>,
    /// Audit after the last sub-experiment, with the activity since the first audit.
    #[serde(default)]
    pub after: Option<Audit>,
    /// Audits of other hosts, in the order of the manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostAudits>,
}

/// Audits of another host, and the interfaces of both hosts.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct HostAudits {
    /// Audit before the first sub-experiment.
    pub before: Option<Audit>,
    /// Audit after the last sub-experiment.
    pub after: Option<Audit>,
    /// Interface of the leader's host that messages used.
    #[serde(default)]
    pub here: Network,
    /// Interface of the other host.
    #[serde(default)]
    pub there: Network,
}

impl Audits {
    /// Audits of an environment.
    pub fn from_environment(environment: &Environment) -> Self {
        let Environment { audit_before, audit_after, hosts, .. } = environment;
        let of = |host: &HostEnvironment| HostAudits {
            before: host.environment.audit_before.clone(),
            after: host.environment.audit_after.clone(),
            here: host.here.clone(),
            there: host.there.clone(),
        };
        let hosts = hosts.iter().map(of).collect();
        Self { before: audit_before.clone(), after: audit_after.clone(), hosts }
    }

    fn put(self, environment: &mut Environment) {
        (environment.audit_before, environment.audit_after) = (self.before, self.after);
        for (host, audits) in environment.hosts.iter_mut().zip(self.hosts) {
            (host.environment.audit_before, host.environment.audit_after) = (audits.before, audits.after);
            (host.here, host.there) = (audits.here, audits.there);
        }
    }
}

/// Error while reading a results folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder has no manifest.
    #[error("'{}' is not a results folder: {error}", .folder.display())]
    NotThere {
        /// The folder.
        folder: PathBuf,
        /// Cause of the error.
        error: FileError,
    },
    /// The folder was replaced while it was read.
    #[error("'{}' was renamed or replaced while it was read; run the command again with the folder's current \
             name", .0.display())]
    Replaced(PathBuf),
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The contents of a file are wrong.
    #[error("'{}' {what}", .file.display())]
    Wrong {
        /// The file.
        file: PathBuf,
        /// Error in it.
        what: String,
    },
}

/// Reads a results folder; first applies `escape` to the text of each file. Ignores the last line of `trials.jsonl` if
/// a kill cut it off.
///
/// # Errors
/// If a file is missing, too large or wrong, or if the folder was replaced meanwhile.
pub fn read(folder: &Path, escape: impl Fn(&str) -> Cow<'_, str>) -> Result<Manifest, FolderError> {
    let identity = || folder.metadata().map(|folder| (folder.dev(), folder.ino())).ok();
    let opened = identity();
    let manifest = read_files(folder, escape);
    if opened.is_some() && identity() != opened {
        return Err(FolderError::Replaced(folder.to_path_buf()));
    }
    manifest
}

fn read_files(folder: &Path, escape: impl Fn(&str) -> Cow<'_, str>) -> Result<Manifest, FolderError> {
    refuse_links(folder, is_of_results)?;
    let bytes = |name: &str| file::read(&folder.join(name), MOST_BYTES);
    let contents = bytes(MANIFEST).map_err(|error| match error {
        error @ FileError::Unreadable { .. } => FolderError::NotThere { folder: folder.to_path_buf(), error },
        error => FolderError::File(error),
    })?;
    let mut reading = FolderReading::begin(folder, contents, escape)?;
    let is_there = |name: &str| folder.join(name).symlink_metadata().is_ok();
    if is_there(TRIALS) {
        let path = folder.join(TRIALS);
        file::each_line(&path, MOST_TRIALS_BYTES, MOST_BYTES, |number, line| reading.add_line(number, line))?;
    }
    reading.check_results()?;
    if is_there(AUDIT) {
        reading.add_audits(bytes(AUDIT)?)?;
    }
    Ok(reading.manifest)
}

/// True for entries that commands read, append to, cut or remove, and that may not be links. All others, such as
/// `metrics.csv` and eProsima's summaries, are only replaced whole, never written through a link.
fn is_of_results(name: &str) -> bool {
    let is_measurements = name.starts_with("measurements_") && !name.ends_with("_summary.csv");
    let names = [MANIFEST, TRIALS, AUDIT, SAMPLES, HISTOGRAMS, ATTEMPTS, LOGS];
    names.contains(&name) || is_measurements || name.starts_with("round-")
}

/// True if this path in another host's results folder is copied; pages and pictures are created here instead.
pub fn is_fetched(path: &Path, is_folder: bool) -> bool {
    let whole = [MANIFEST, TRIALS, AUDIT, METRICS, explain::FILE, AB];
    let ending = path.extension().is_some_and(|ending| FETCHED.iter().any(|known| ending == *known));
    let mut names = path.components().filter_map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    match (names.next(), names.next()) {
        (None, _) => is_folder,
        (Some(name), None) if whole.contains(&name) => !is_folder,
        (Some(first), _) => is_of_results(first) && !whole.contains(&first) && (is_folder || ending),
    }
}

/// Refuses links among entries that count, at any depth. Ignores a folder that cannot be listed.
fn refuse_links(folder: &Path, counts: fn(&str) -> bool) -> Result<(), FolderError> {
    let Ok(entries) = folder.read_dir() else { return Ok(()) };
    for entry in entries.flatten().filter(|entry| counts(&entry.file_name().to_string_lossy())) {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_symlink() {
            let what = "is a link, which is not followed; replace it by what it points to".to_owned();
            return Err(FolderError::Wrong { file: entry.path(), what });
        }
        if kind.is_dir() {
            refuse_links(&entry.path(), |_| true)?;
        }
    }
    Ok(())
}

/// [`read`] for the contents of the files; trials and audits may be missing.
///
/// # Errors
/// As [`read`], except for missing or too large files.
pub fn read_contents(
    manifest: &[u8],
    trials: Option<&[u8]>,
    audit: Option<&[u8]>,
    escape: impl Fn(&str) -> Cow<'_, str>,
) -> Result<Manifest, FolderError> {
    let mut reading = FolderReading::begin(Path::new(""), manifest.to_vec(), escape)?;
    for (number, line) in (1..).zip(trials.unwrap_or_default().split_inclusive(|byte| *byte == b'\n')) {
        let Some(whole) = line.strip_suffix(b"\n") else { break };
        reading.add_line(number, whole)?;
    }
    reading.check_results()?;
    audit.map_or(Ok(()), |audit| reading.add_audits(audit.to_vec()))?;
    Ok(reading.manifest)
}

struct FolderReading<'a, E> {
    folder: &'a Path,
    escape: E,
    manifest: Manifest,
    places: ResultPlaces,
}

impl<'a, E: Fn(&str) -> Cow<'_, str>> FolderReading<'a, E> {
    fn begin(folder: &'a Path, contents: Vec<u8>, escape: E) -> Result<Self, FolderError> {
        let path = folder.join(MANIFEST);
        let wrong = |what| FolderError::Wrong { file: path.clone(), what };
        let text = checked_text(&path, contents, &escape)?;
        let manifest = parse_manifest(&text).map_err(wrong)?;
        manifest.check().map_err(wrong)?;
        let places = ResultPlaces::from_manifest(&manifest);
        Ok(Self { folder, escape, manifest, places })
    }

    fn add_line(&mut self, number: u64, line: &[u8]) -> Result<(), FolderError> {
        let wrong = |what| FolderError::Wrong { file: self.folder.join(TRIALS), what };
        let line = str::from_utf8(line).map_err(|error| wrong(format!("is not UTF-8 text: line {number}: {error}")))?;
        match too_long(line) {
            Some(what) => Err(wrong(format!("has {what} in line {number}; it is damaged, or not from tripmeter"))),
            None if line.is_empty() => Ok(()),
            None => self
                .places
                .add(&mut self.manifest, &(self.escape)(line))
                .map_err(|error| wrong(format!("cannot be read: {}", JsonError { line: number as usize, ..error }))),
        }
    }

    fn check_results(&self) -> Result<(), FolderError> {
        let checked = self.manifest.check().and_then(|()| check_whole(&self.manifest));
        checked.map_err(|what| FolderError::Wrong { file: self.folder.join(TRIALS), what })
    }

    fn add_audits(&mut self, contents: Vec<u8>) -> Result<(), FolderError> {
        let path = self.folder.join(AUDIT);
        let text = checked_text(&path, contents, &self.escape)?;
        let audits: Audits = from_json(&text).map_err(|error| {
            let what = format!("cannot be read: {error}; remove it to see the figures, which do not need it");
            FolderError::Wrong { file: path, what }
        })?;
        audits.put(&mut self.manifest.environment);
        Ok(())
    }
}

fn checked_text(path: &Path, bytes: Vec<u8>, escape: impl Fn(&str) -> Cow<'_, str>) -> Result<String, FolderError> {
    let wrong = |what| FolderError::Wrong { file: path.to_path_buf(), what };
    let text = String::from_utf8(bytes).map_err(|error| wrong(format!("is not UTF-8 text: {error}")))?;
    match too_long(&text) {
        Some(what) => Err(wrong(format!("has {what}; it is damaged, or not from tripmeter"))),
        None => Ok(escape(&text).into_owned()),
    }
}

fn parse_manifest(text: &str) -> Result<Manifest, String> {
    #[derive(Deserialize)]
    struct Versioned {
        schema_version: serde_json::Value,
    }
    let versioned: Result<Versioned, _> = serde_json::from_str(text);
    let none = || "has no schema version, so it is not from tripmeter".to_owned();
    let Versioned { schema_version } = versioned.map_err(|error| match error.classify() {
        Category::Data => none(),
        _ => format!("is not JSON: {error}; it may be cut off"),
    })?;
    if !is_object(text) {
        return Err(none());
    }
    check_version(&schema_version)?;
    from_json(text).map_err(|error| format!("cannot be read: {error}"))
}

/// Checks the `schema_version` of a results file.
///
/// # Errors
/// If its major version is neither 2 nor that of [`SCHEMA_VERSION`].
pub fn check_version(schema_version: &serde_json::Value) -> Result<(), String> {
    check_version_of(schema_version, "2").or_else(|_| check_version_of(schema_version, SCHEMA_VERSION))
}

/// Checks the `schema_version` of a file whose current version is `ours`.
///
/// # Errors
/// If the major versions differ.
pub fn check_version_of(schema_version: &serde_json::Value, ours: &str) -> Result<(), String> {
    let version = schema_version.as_str().map_or_else(|| schema_version.to_string(), str::to_owned);
    if version.split('.').next() == ours.split('.').next() {
        return Ok(());
    }
    Err(format!(
        "has schema version {}, this tripmeter reads {ours}; read it with the tripmeter that wrote it, or measure again",
        shortened(&version)
    ))
}

/// Indices of results and payloads in a manifest, to which lines are added.
#[derive(Default)]
struct ResultPlaces {
    results: HashMap<(u32, String), usize>,
    /// Number of planned offered loads, by sub-experiment.
    loads: HashMap<String, usize>,
    /// Indices of cells, by result and payload.
    cells: HashMap<(usize, u64), usize>,
    /// Trials of payloads that are not finished yet, by result.
    pending: HashMap<usize, Vec<TrialLine>>,
}

impl ResultPlaces {
    fn from_manifest(manifest: &Manifest) -> Self {
        let results = manifest.sub_experiments.iter().enumerate();
        let results = results.map(|(place, result)| ((result.round, result.name.clone()), place)).collect();
        let planned = manifest.plan.sub_experiments.iter();
        let loads = planned.map(|planned| (planned.name.clone(), planned.workload.loads.len())).collect();
        Self { results, loads, ..Self::default() }
    }

    /// Adds a line; ignores unknown kinds, and sub-experiments without a state.
    fn add(&mut self, manifest: &mut Manifest, line: &str) -> Result<(), JsonError> {
        #[derive(Deserialize)]
        struct LineKind<'a> {
            #[serde(borrow)]
            kind: Cow<'a, str>,
        }
        match &*from_json::<LineKind<'_>>(line)?.kind {
            "trial" => {
                let line = TrialLine::from_json(line)?;
                if let Some(place) = self.results.get(&(line.round, line.sub_experiment.clone())) {
                    self.pending.entry(*place).or_default().push(line);
                }
            }
            "payload" => self.add_payload(manifest, PayloadLine::from_json(line)?)?,
            "sub-experiment" => {
                let result: SubExperimentResult = from_json(line)?;
                let results = &mut manifest.sub_experiments;
                match self.results.get(&(result.round, result.name.clone())).and_then(|place| results.get_mut(*place)) {
                    Some(before) => {
                        let cells = std::mem::take(&mut before.cells);
                        *before = SubExperimentResult { cells, ..result };
                    }
                    None => {
                        self.results.insert((result.round, result.name.clone()), results.len());
                        results.push(result);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add_payload(&mut self, manifest: &mut Manifest, line: PayloadLine) -> Result<(), JsonError> {
        let PayloadLine { sub_experiment, round, attempt, mut payload } = line;
        let Some(&place) = self.results.get(&(round, sub_experiment)) else { return Ok(()) };
        let is_of = |one: &TrialLine| one.attempt == attempt && one.payload_bytes == payload.payload_bytes;
        let trials = self.pending.remove(&place).unwrap_or_default().into_iter().filter(is_of);
        payload.trials = trials.map(|one| one.trial).collect();
        let result = &mut manifest.sub_experiments[place];
        let planned = self.loads.get(&result.name).copied().unwrap_or(1);
        check_trials(&payload, planned).map_err(|why| {
            let (name, bytes) = (&result.name, payload.payload_bytes);
            let what =
                format!("'{name}' at {bytes} bytes, round {round}, attempt {attempt}, {why}: the file is damaged");
            JsonError { line: 0, column: 1, what }
        })?;
        let cells = &mut result.cells;
        let index = *self.cells.entry((place, payload.payload_bytes)).or_insert(cells.len());
        let Some(before) = cells.get_mut(index) else {
            cells.push(payload);
            return Ok(());
        };
        let mut earlier = std::mem::take(&mut before.earlier_attempts);
        earlier.push(std::mem::take(before));
        earlier.truncate(attempt.saturating_sub(1) as usize);
        payload.earlier_attempts = earlier;
        *before = payload;
        Ok(())
    }
}

/// Fails if a finished payload has fewer trials than planned, or a trial has no figures.
fn check_trials(payload: &PayloadResult, planned: usize) -> Result<(), String> {
    let there = payload.trials.len();
    let is_short = there < planned && payload.cut_short.is_none() || there == 0 && payload.samples > 0;
    if is_short {
        return Err(format!("has only {there} of {planned} trials before its line"));
    }
    match payload.trials.iter().position(|trial| trial.figures().next().is_none()) {
        Some(place) => Err(format!("has no figures in trial {} of {there}", place + 1)),
        None => Ok(()),
    }
}

/// Fails if results of a finished run or sub-experiment are missing.
fn check_whole(manifest: &Manifest) -> Result<(), String> {
    let results = &manifest.sub_experiments;
    if results.len() < manifest.results as usize {
        let (there, all) = (results.len(), manifest.results);
        return Err(format!(
            "has only {there} of the {all} sub-experiments that were measured: it is damaged, or not the one that \
             belongs to the manifest"
        ));
    }
    let has_ended = manifest.ended.is_some() && manifest.results > 0;
    if let Some(result) = results.iter().find(|result| has_ended && result.status == RunStatus::Running) {
        let (name, round) = (&result.name, result.round);
        return Err(format!(
            "does not say how '{name}' ended in round {round}: it is damaged, or only a part of it was copied"
        ));
    }
    let is_short = |result: &&SubExperimentResult| {
        result.status != RunStatus::Running && result.cells.len() < result.payloads as usize
    };
    results.iter().find(is_short).map_or(Ok(()), |result| {
        let (name, round, there, all) = (&result.name, result.round, result.cells.len(), result.payloads);
        Err(format!(
            "has only {there} of the {all} payloads measured of '{name}', round {round}: it is damaged, or not the one \
             that belongs to the manifest"
        ))
    })
}

#[cfg(test)]
mod tests;
