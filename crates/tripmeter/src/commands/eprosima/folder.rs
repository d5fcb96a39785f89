//! Folder of an experiment. Summaries that are missing or older than the samples are written again.

use crate::commands::show;
use crate::database::Contents;
use crate::error::CliError;
use crate::output;
use crate::results::{NamedFolder, UNFINISHED, is_results, listed, note_ignored, opened, round_of, with_manifest};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tripmeter_eprosima::bytes::Bytes;
use tripmeter_eprosima::measurements::file_name;
use tripmeter_eprosima::raw::Reader;
use tripmeter_eprosima::summary::{Summary, SummaryRow};
use tripmeter_eprosima::verdict::Measured;
use tripmeter_model::expected::{lacking, round_trips};
use tripmeter_model::folder::{ATTEMPTS, REPORT};
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::manifest::{Manifest, PayloadResult, RunStatus, SubExperimentResult, Verdict};
use tripmeter_model::payload::finished_text;
use tripmeter_model::{exit, printable};

#[derive(Clone, Debug)]
pub struct Source {
    pub name: String,
    origin: Origin,
    /// Payloads that the manifest lists as finished, if it plans the sub-experiment; others do not count.
    finished: Option<Vec<FinishedPayload>>,
}

#[derive(Clone, Copy, Debug)]
pub struct FinishedPayload {
    payload_bytes: u64,
    /// Round trips that its figures include.
    round_trips: u64,
}

#[derive(Clone, Debug)]
enum Origin {
    Summary(PathBuf),
    Samples(PathBuf),
    /// Planned and not measured.
    Nothing,
}

impl Source {
    /// True if the summary is missing, or older than the samples.
    pub fn is_samples(&self) -> bool {
        matches!(self.origin, Origin::Samples(_))
    }

    /// File of figures or samples; `None` if nothing was measured.
    pub fn file(&self) -> Option<&Path> {
        match &self.origin {
            Origin::Summary(file) | Origin::Samples(file) => Some(file),
            Origin::Nothing => None,
        }
    }

    /// Reads the figures, or computes them from samples with `threads`.
    pub fn read(&self, reader: &Reader, threads: usize) -> Result<Summary, CliError> {
        let mut summary = match &self.origin {
            Origin::Summary(file) => Summary::read(file)?,
            Origin::Nothing => Summary::default(),
            Origin::Samples(file) => {
                let is_counted = |bytes: &Bytes| counts(self.finished.as_deref(), bytes);
                let rows = reader.read(file, threads, is_counted, tripmeter_eprosima::summary_row)?.into_iter();
                let rows: Vec<SummaryRow> =
                    rows.filter_map(|(bytes, row)| Some(SummaryRow { bytes, ..row? })).collect();
                check_rows(file, self.finished.as_deref(), &rows)?;
                Summary { rows }
            }
        };
        let rows = std::mem::take(&mut summary.rows).into_iter();
        let (rows, others) = rows.partition::<Vec<_>, _>(|row| counts(self.finished.as_deref(), &row.bytes));
        note_unfinished(&self.name, others.iter().map(|row| &row.bytes));
        Ok(Summary { rows })
    }
}

/// Folder with the files of an experiment, or of one of its rounds.
#[derive(Debug)]
pub struct ExperimentFolder {
    path: PathBuf,
    pub handle: FolderHandle,
    /// Sub-experiments with files, by name; then those planned that have none.
    pub sources: Vec<Source>,
    manifest: Option<Manifest>,
    round: u32,
}

impl ExperimentFolder {
    /// Reads a folder. One note names all files that belong to no experiment. Fails if it is not a folder, holds rounds
    /// or no results, or has a manifest that cannot be read.
    pub fn open(path: &Path) -> Result<Self, CliError> {
        let contents = Contents::read(path)?;
        Self::with(path, contents, opened(path)?)
    }

    pub fn from_handle(handle: &FolderHandle) -> Result<Self, CliError> {
        Self::with(handle.path(), Contents::read(handle.path())?, handle.clone())
    }

    fn with(path: &Path, contents: Contents, handle: FolderHandle) -> Result<Self, CliError> {
        let mut sources = sources(path, &contents);
        if sources.is_empty() {
            if let Some(round) = contents.folders.iter().find(|name| round_of(name).is_some()) {
                let text = format!("'{0}' holds rounds; name one of them, e.g. '{0}/{round}'", path.display());
                return Err(CliError::new(exit::USAGE, text));
            }
            let text = format!(
                "'{}' has no results (neither measurements_<name>_summary.csv nor measurements_<name>.csv); measure \
                 round trips with `tripmeter run --raw eprosima`",
                path.display()
            );
            return Err(CliError::new(exit::DATA, text));
        }
        let (manifest, round) = manifest_of(path)?;
        for plan in manifest.iter().flat_map(|manifest| &manifest.plan.sub_experiments) {
            if !plan.workload.is_round_trips() {
                sources.retain(|source| source.name != plan.name);
            } else if !sources.iter().any(|source| source.name == plan.name) {
                sources.push(Source { name: plan.name.clone(), origin: Origin::Nothing, finished: None });
            }
        }
        if manifest.is_none() {
            note_ignored(path, contents.others.into_iter().filter(|name| !is_of_an_experiment(name)));
        }
        let mut found = Self { path: path.to_owned(), handle, sources, manifest, round };
        let finished: Vec<_> = found.sources.iter().map(|source| found.finished(&source.name)).collect();
        found.sources.iter_mut().zip(finished).for_each(|(source, finished)| source.finished = finished);
        Ok(found)
    }

    /// Writes summaries that are missing or older than the samples. While the experiment is running none is written,
    /// and figures come from the samples so far. Fails if samples are invalid, or a file cannot be written.
    pub fn summarise(&mut self) -> Result<(), CliError> {
        if self.is_running() {
            output::say(&format!(
                "note: the run in '{}' is in progress or was killed; only its finished payloads are used, and no \
                 summary is written",
                self.path.display()
            ));
            return Ok(());
        }
        let reader = Reader::new(threads());
        let (mut missing, mut old) = (0, 0);
        for source in self.sources.iter_mut().filter(|source| source.is_samples()) {
            let summary = source.read(&reader, threads())?;
            let name = format!("measurements_{}_summary.csv", source.name);
            let file = self.path.join(&name);
            *if file.exists() { &mut old } else { &mut missing } += 1;
            self.handle.write(&name, &summary.to_csv())?;
            source.origin = Origin::Summary(file);
        }
        for (made, what) in [(missing, "missing"), (old, "outdated")].into_iter().filter(|(made, _)| *made > 0) {
            let summaries = if made == 1 { "summary was" } else { "summaries were" };
            output::say(&format!("note: {made} {what} {summaries} made from the samples in '{}'", self.path.display()));
        }
        Ok(())
    }

    /// True while the experiment is measured, and after its run was killed.
    pub fn is_running(&self) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| manifest.status == RunStatus::Running)
    }

    /// Summaries of all sub-experiments, empty for those not measured.
    pub fn measured(&self) -> Result<Vec<Measured>, CliError> {
        let reader = Reader::new(threads());
        let measured = self.sources.iter().map(|source| {
            let summary = source.read(&reader, threads())?;
            Ok(Measured { name: source.name.clone(), summary, distrust: self.distrust(&source.name) })
        });
        measured.collect()
    }

    /// Payloads that the manifest lists as finished; `None` if the sub-experiment is not planned. Files of a killed run
    /// may have a part of one more.
    pub fn finished(&self, name: &str) -> Option<Vec<FinishedPayload>> {
        self.manifest.as_ref()?.plan.sub_experiments.iter().find(|sub| sub.name == name)?;
        let cells = self.result(name).map_or(&[][..], |result| &result.cells);
        let finished = |cell: &PayloadResult| FinishedPayload {
            payload_bytes: cell.payload_bytes,
            round_trips: if cell.unfinished { 0 } else { round_trips(cell) },
        };
        Some(cells.iter().map(finished).collect())
    }

    /// Checks that every sub-experiment whose round trips were kept has a file.
    pub fn check_files(&self) -> Result<(), CliError> {
        let are_kept =
            |manifest: &Manifest| manifest.plan.raw.eprosima && self.round >= manifest.first_round_with_samples();
        if !self.manifest.as_ref().is_some_and(are_kept) {
            return Ok(());
        }
        let mut without = self.sources.iter().filter(|source| source.file().is_none());
        without.try_for_each(|source| {
            check_rows(&self.path.join(file_name(&source.name)), source.finished.as_deref(), &[])
        })
    }

    /// Message if a sub-experiment lacks payloads because its run was killed or interrupted.
    pub fn unfinished(&self, name: &str) -> Option<String> {
        let plan = self.manifest.as_ref()?.plan.sub_experiments.iter().find(|sub| sub.name == name)?;
        let result = self.result(name);
        let is_ended = |result: &SubExperimentResult| matches!(result.status, RunStatus::Complete | RunStatus::Failed);
        let finished: Vec<u64> = self.finished(name)?.iter().map(|one| one.payload_bytes).collect();
        let is_short = !result.is_some_and(is_ended) && finished.len() < plan.payloads.len();
        is_short.then(|| format!("it did not finish: {}", finished_text(&plan.payloads, &finished, None)))
    }

    /// Reason why the figures of a sub-experiment do not count: failed path proof, failed run, or damaged messages.
    pub fn distrust(&self, name: &str) -> Option<String> {
        let result = self.result(name)?;
        if let Some(proof) = result.path_proof.as_ref().filter(|proof| proof.verdict == Verdict::Failed) {
            let (claim, seen) = (&proof.claim, &proof.evidence);
            return Some(format!(
                "its path proof failed: claimed {claim}, seen: {seen}; its figures do not measure this transport"
            ));
        }
        if result.status == RunStatus::Failed {
            return Some(format!("it failed: {}", result.error.as_deref().unwrap_or("no reason was recorded")));
        }
        let damaged = result.damaged();
        (damaged > 0).then(|| format!("{damaged} messages were damaged"))
    }

    fn result(&self, name: &str) -> Option<&SubExperimentResult> {
        let results = &self.manifest.as_ref()?.sub_experiments;
        results.iter().find(|result| result.name == name && result.round == self.round)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Manifest of a folder, or of its parent for a round, and the number of the round.
fn manifest_of(path: &Path) -> Result<(Option<Manifest>, u32), CliError> {
    let (folder, round) = with_manifest(path);
    let manifest = if is_results(&folder) { Some(show::read_as_written(&folder)?) } else { None };
    Ok((manifest, round.unwrap_or(1)))
}

/// True if a payload counts: with a manifest, only those listed as finished do.
pub fn counts(finished: Option<&[FinishedPayload]>, bytes: &Bytes) -> bool {
    finished.is_none_or(|finished| finished.iter().any(|one| Bytes::from(one.payload_bytes) == *bytes))
}

/// Fails if a sample file has fewer round trips of a finished payload than its figures include.
pub fn check_rows(file: &Path, finished: Option<&[FinishedPayload]>, rows: &[SummaryRow]) -> Result<(), CliError> {
    let missing = |one: &FinishedPayload| {
        let bytes = Bytes::from(one.payload_bytes);
        let found = rows.iter().filter(|row| row.bytes == bytes).map(|row| row.samples).sum();
        let missing = one.round_trips.saturating_sub(found);
        (missing > 0).then(|| format!("{missing} of {bytes} bytes"))
    };
    let missing: Vec<String> = finished.unwrap_or_default().iter().filter_map(missing).collect();
    if missing.is_empty() { Ok(()) } else { Err(lacking(file, "round trips", &missing).into()) }
}

/// Prints one note on all payloads that do not count.
pub fn note_unfinished<'a>(name: &str, payloads: impl Iterator<Item = &'a Bytes>) {
    let payloads: Vec<String> = payloads.map(|bytes| format!("{bytes} bytes")).collect();
    if !payloads.is_empty() {
        let listed = listed(&payloads);
        output::say(&format!("note: '{name}': {listed} left out, as the manifest does not list it as finished"));
    }
}

pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Sources by name: the summary, or the samples if the summary is missing or older.
fn sources(path: &Path, contents: &Contents) -> Vec<Source> {
    let mut found: BTreeMap<String, [Option<PathBuf>; 2]> = BTreeMap::new();
    // A folder with the name of a file fails when it is read. If a file has a compressed copy, the first of both is
    // used.
    for name in contents.others.iter().chain(&contents.folders) {
        if let Some((sub_experiment, is_summary)) = sub_experiment(name) {
            let files = found.entry(sub_experiment.to_owned()).or_default();
            files[usize::from(is_summary)].get_or_insert_with(|| path.join(name));
        }
    }
    let origin = |files: [Option<PathBuf>; 2]| match files {
        [Some(samples), Some(summary)] if is_newer(&samples, &summary) => Some(Origin::Samples(samples)),
        [_, Some(summary)] => Some(Origin::Summary(summary)),
        [samples, None] => samples.map(Origin::Samples),
    };
    let source = |(name, files)| Some(Source { name, origin: origin(files)?, finished: None });
    found.into_iter().filter_map(source).collect()
}

fn is_newer(file: &Path, other: &Path) -> bool {
    let changed = |file: &Path| file.metadata().and_then(|metadata| metadata.modified()).ok();
    changed(file) > changed(other)
}

/// Sub-experiment of a file, and true if the file is its summary.
pub fn sub_experiment(file: &str) -> Option<(&str, bool)> {
    let stem = file.strip_suffix(".gz").unwrap_or(file).strip_suffix(".csv")?.strip_prefix("measurements_")?;
    let found = stem.strip_suffix("_summary").map_or((stem, false), |name| (name, true));
    // Names that a terminal would not print as a single line are ignored.
    (!found.0.is_empty() && printable::line(found.0) == found.0).then_some(found)
}

/// True if a file belongs to an experiment or its plots, or is hidden.
fn is_of_an_experiment(file: &str) -> bool {
    let is_csv = ["measurements_", "checks_"].iter().any(|beginning| file.starts_with(beginning))
        && [".csv", ".csv.gz", ".hlog"].iter().any(|ending| file.ends_with(ending))
        && printable::line(file) == file;
    is_csv || file == REPORT || [".png", ".svg"].iter().any(|ending| file.ends_with(ending)) || file.starts_with('.')
}

/// Experiments in a folder, oldest first, with each round of those that have rounds. One note names folders without
/// results and stray files, except folders of discarded attempts. Fails if it is not a folder, or contains no
/// experiment.
pub fn runs(folder: &Path) -> Result<Vec<NamedFolder>, CliError> {
    let contents = Contents::read(folder)?;
    let mut runs = Vec::new();
    let mut strays: Vec<String> = contents.others.into_iter().filter(|name| !is_of_an_experiment(name)).collect();
    for name in contents.folders {
        let path = folder.join(&name);
        let inside = Contents::read(&path)?;
        let rounds: Vec<_> = inside.folders.iter().filter(|inner| round_of(inner).is_some()).collect();
        let is_aside = name == ATTEMPTS && !is_results(&path);
        if name.starts_with('.') || name.ends_with(UNFINISHED) || is_aside {
            continue;
        } else if !sources(&path, &inside).is_empty() {
            runs.push(NamedFolder { name: printable::line(&name).into_owned(), path, is_named: false });
        } else if rounds.is_empty() {
            strays.push(name);
        } else {
            let shown = printable::line(&name);
            let run = |round: &&String| NamedFolder {
                name: format!("{shown}/{round}"),
                path: path.join(round),
                is_named: false,
            };
            runs.extend(rounds.iter().map(run));
        }
    }
    if runs.is_empty() {
        let text = format!("'{}' has no folder with the results of an experiment", folder.display());
        return Err(CliError::new(exit::DATA, text));
    }
    note_ignored(folder, strays.into_iter());
    Ok(runs)
}
