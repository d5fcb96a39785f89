//! Results folder and its manifest.

use crate::files::{rest, rotate};
use crate::os::lock_file;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use thiserror::Error;
use tripmeter_model::bounds::{MOST_TRIALS_BYTES, to_json};
use tripmeter_model::date::LAST_SECOND;
use tripmeter_model::file::{self, FileError, FolderGone};
use tripmeter_model::folder::{AUDIT, Audits, LOGS, MANIFEST, TRIALS, TrialsLine, payload_lines};
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::manifest::{Manifest, PayloadResult, SubExperimentResult};
use tripmeter_model::metrics_file::{self, METRICS};

/// Name of the empty file that the writer of a results folder locks.
pub const LOCK: &str = ".lock";
/// Name of the file that a measuring process locks. The holder of [`LOCK`] may itself measure into the folder.
const MEASURING: &str = ".measuring";
/// Prefix of names of unfinished files; see [`file::write_whole`].
const BEING_WRITTEN: &str = ".tripmeter-";
/// Default parent of results folders, below the working directory.
pub const RESULTS: &str = "results";

#[derive(Debug, Error)]
pub enum ResultsError {
    #[error("output folder '{}' is not empty; name another with -o, or leave -o out", .0.display())]
    NotEmpty(PathBuf),
    #[error("results in '{}' are still being measured; wait for that run, or stop it", .0.display())]
    InUse(PathBuf),
    /// A folder to be resumed cannot be written.
    #[error("results '{}' cannot be changed: {}; {}", .0.display(), .1, to_change(.1))]
    NotChangeable(PathBuf, io::Error),
    /// The output folder cannot be created or written, and nothing was measured.
    #[error("output '{}' cannot be written: {}; name another folder with -o", .0.display(), .1)]
    NotWritable(PathBuf, io::Error),
    #[error("results '{}' can no longer be written: {}; {}", .0.display(), .1, to_go_on(.1))]
    Unfinished(PathBuf, io::Error),
    /// The results folder was moved or removed.
    #[error(transparent)]
    Gone(#[from] FolderGone),
    #[error("'{}' was not changed, because it would have {what}; measure less at once", .file.display())]
    TooLarge {
        file: PathBuf,
        /// Value and limit.
        what: String,
    },
}

/// Advice for a run that has begun, but can no longer be written.
pub(crate) fn to_go_on(error: &io::Error) -> String {
    let first = if is_full(error) { "free some space there" } else { "make the folder writable" };
    format!("{first}, then measure what is missing: `tripmeter run --resume DIR`, or the same `tripmeter ab` again")
}

/// Advice for a run that cannot be resumed.
fn to_change(error: &io::Error) -> String {
    match is_full(error) {
        true => to_go_on(error),
        false => "make the folder writable, or copy the folder and resume the copy".to_owned(),
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

impl ResultsError {
    /// Error for a file of a run that has begun and can be resumed later.
    pub(crate) fn unfinished(file: PathBuf, error: io::Error) -> Self {
        Self::classify(error, |error| Self::Unfinished(file, error))
    }

    /// [`Self::Gone`] if the folder has gone, else an error of this `class`.
    fn classify(error: io::Error, class: impl FnOnce(io::Error) -> Self) -> Self {
        match error.downcast() {
            Ok(gone) => Self::Gone(gone),
            Err(error) => class(error),
        }
    }
}

#[derive(Debug)]
pub struct Results {
    folder: FolderHandle,
    has_rounds: bool,
    round: Option<(u32, FolderHandle)>,
    is_resumed: bool,
    /// Lock that keeps others from resuming the run.
    lock: Option<Arc<File>>,
}

/// Results folder that no other process can resume or measure into while this or a clone lives.
#[derive(Clone, Debug)]
pub struct LockedFolder {
    folder: FolderHandle,
    lock: Arc<File>,
}

impl LockedFolder {
    /// Locks a folder; fails if another process has locked it.
    pub fn take(folder: &Path) -> Result<Self, ResultsError> {
        let failed =
            |error| ResultsError::classify(error, |error| ResultsError::NotChangeable(folder.to_path_buf(), error));
        let folder = FolderHandle::open(folder).map_err(failed)?;
        let lock = lock(&folder).map_err(failed)?.ok_or_else(|| ResultsError::InUse(folder.path().to_path_buf()))?;
        Ok(Self { folder, lock: Arc::new(lock) })
    }

    pub fn folder(&self) -> &FolderHandle {
        &self.folder
    }
}

fn lock(folder: &FolderHandle) -> io::Result<Option<File>> {
    let file = file::to_lock(&folder.at(MEASURING)?)?;
    Ok(lock_file(&file, true)?.then_some(file))
}

impl Results {
    /// Creates the folder `output`, or one below [`RESULTS`] named after the time. With `has_rounds`, each round has a
    /// subfolder.
    ///
    /// # Errors
    /// If `output` is not empty, or the folder cannot be created.
    pub fn create(output: Option<&Path>, has_rounds: bool) -> Result<Self, ResultsError> {
        let path = output.map_or_else(|| dated(Path::new(RESULTS)), |output| Ok(output.to_owned()))?;
        Self::create_as(&path, FolderHandle::create(&path), has_rounds)
    }

    /// Creates a results folder in an open folder, as [`Results::create`] does.
    pub fn create_within(parent: &FolderHandle, name: &str, has_rounds: bool) -> Result<Self, ResultsError> {
        Self::create_as(&parent.path().join(name), parent.enter(name), has_rounds)
    }

    fn create_as(path: &Path, folder: io::Result<FolderHandle>, has_rounds: bool) -> Result<Self, ResultsError> {
        let not_writable =
            |error| ResultsError::classify(error, |error| ResultsError::NotWritable(path.to_path_buf(), error));
        let folder = folder.map_err(not_writable)?;
        let is_empty = folder.at("").map_err(io::Error::from).and_then(|inside| holds_nothing(&inside));
        if !is_empty.map_err(not_writable)? {
            return Err(ResultsError::NotEmpty(path.to_path_buf()));
        }
        Ok(Self { folder, has_rounds, round: None, is_resumed: false, lock: None })
    }

    /// Opens a folder with finished payloads, and removes unfinished files left by a killed process.
    pub fn resume(locked: &LockedFolder, has_rounds: bool) -> Self {
        locked.folder.at("").iter().for_each(|folder| remove_beginnings(folder));
        let (folder, lock) = (locked.folder.clone(), Some(locked.lock.clone()));
        Self { folder, has_rounds, round: None, is_resumed: true, lock }
    }

    /// Locks the folder, like [`LockedFolder::take`], once trials have begun.
    pub fn take_lock(&mut self) -> Result<(), ResultsError> {
        if self.lock.is_none() {
            let failed = |error| self.not_writable(self.folder.path().to_path_buf(), error);
            let in_use = || ResultsError::InUse(self.folder.path().to_path_buf());
            self.lock = Some(Arc::new(lock(&self.folder).map_err(failed)?.ok_or_else(in_use)?));
        }
        Ok(())
    }

    /// Opens a folder with `rounds` finished rounds; removes files of later ones.
    pub fn reopen(locked: &LockedFolder, rounds: u32) -> Result<Self, ResultsError> {
        let results = Self::resume(locked, true);
        for later in (rounds + 1..).map(round_folder) {
            match fs::remove_dir_all(results.folder.at(&later)?) {
                Err(error) if error.kind() == ErrorKind::NotFound => break,
                removed => removed.map_err(|error| results.not_writable(results.folder.path().join(later), error))?,
            }
        }
        Ok(results)
    }

    pub fn begin_round(&mut self, round: u32) -> Result<(), ResultsError> {
        let folder = if self.has_rounds { self.folder.enter(&round_folder(round)) } else { Ok(self.folder.clone()) };
        let made = folder.and_then(|folder| folder.enter(LOGS).map(|_| folder));
        let made = made.map_err(|error| self.not_writable(self.round_path(round), error))?;
        self.round = Some((round, made));
        Ok(())
    }

    /// Keeps only the payloads in `kept` in the files of a sub-experiment; see [`rest::keep`].
    pub fn keep_rest(&self, name: &str, round: u32, kept: &[PayloadResult]) -> Result<(), ResultsError> {
        let keep = |folder: &Path| rest::keep(folder, name, kept);
        self.in_round(round, keep).map_err(|error| self.not_writable(self.round_path(round), error))
    }

    pub fn remove_samples<'a>(&self, round: u32, names: impl Iterator<Item = &'a str>) -> io::Result<()> {
        self.in_round(round, |folder| rotate::remove_samples(folder, names))
    }

    fn in_round(&self, round: u32, change: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let folder = match self.round(round) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            folder => folder?,
        };
        change(&folder.at("")?).map_err(|error| io::Error::new(error.kind(), folder.shown(&error.to_string())))
    }

    fn not_writable(&self, file: PathBuf, error: io::Error) -> ResultsError {
        ResultsError::classify(error, |error| match self.lock {
            _ if self.is_resumed => ResultsError::NotChangeable(file, error),
            // Before the first file, there is nothing to resume.
            None if !self.is_begun() => ResultsError::NotWritable(file, error),
            _ => ResultsError::Unfinished(file, error),
        })
    }

    fn is_begun(&self) -> bool {
        self.folder.at(MANIFEST).is_ok_and(|file| file.symlink_metadata().is_ok())
    }

    pub fn folder(&self) -> &FolderHandle {
        &self.folder
    }

    /// Folder of a round, or the results folder if there are no rounds.
    pub fn round(&self, round: u32) -> io::Result<FolderHandle> {
        match &self.round {
            Some((begun, folder)) if *begun == round => Ok(folder.clone()),
            _ if self.has_rounds => self.folder.inside(&round_folder(round)),
            _ => Ok(self.folder.clone()),
        }
    }

    pub fn round_path(&self, round: u32) -> PathBuf {
        let folder = self.folder.path();
        if self.has_rounds { folder.join(round_folder(round)) } else { folder.to_path_buf() }
    }

    pub fn write(&self, manifest: &Manifest) -> Result<(), ResultsError> {
        self.replace(MANIFEST, &self.pretty(MANIFEST, manifest)?)
    }

    pub fn write_audits(&self, manifest: &Manifest) -> Result<(), ResultsError> {
        self.replace(AUDIT, &self.pretty(AUDIT, &Audits::from_environment(&manifest.environment))?)
    }

    fn replace(&self, name: &str, text: &[u8]) -> Result<(), ResultsError> {
        self.folder.write_synced(name, text).map_err(|error| match error {
            FileError::Gone(gone) => gone.into(),
            FileError::NotWritable { why, kind, .. } => {
                self.not_writable(self.folder.path().join(name), io::Error::new(kind, why))
            }
            error => self.not_writable(self.folder.path().join(name), io::Error::other(error)),
        })
    }

    /// Creates the files of trials and figures from the manifest, each atomically.
    pub fn begin_trials(&self, manifest: &Manifest) -> Result<(), ResultsError> {
        let failed = |error| self.not_writable(self.folder.path().to_path_buf(), error);
        let (mut lines, mut rows) = (Vec::new(), metrics_file::header().map_err(failed)?);
        for result in &manifest.sub_experiments {
            lines.extend(self.line(&TrialsLine::SubExperiment(result.clone()))?);
            for cell in &result.cells {
                rows.extend(metrics_file::rows(result, cell).map_err(failed)?);
                lines.extend(self.lines(result, cell)?);
            }
        }
        self.replace(METRICS, &rows)?;
        self.replace(TRIALS, &lines)
    }

    /// Appends the state of a sub-experiment, which replaces an earlier one.
    pub fn append_state(&self, of: &SubExperimentResult) -> Result<(), ResultsError> {
        self.append_trials(&self.line(&TrialsLine::SubExperiment(of.clone()))?)
    }

    /// Appends the figures of a payload if `is_final`, then its trials. After an error, nothing of the payload is left.
    pub fn append_payload(
        &self,
        of: &SubExperimentResult,
        cell: &PayloadResult,
        is_final: bool,
    ) -> Result<(), ResultsError> {
        let (metrics_bytes, lines) = (self.length(METRICS)?, self.lines(of, cell)?);
        if is_final {
            let rows = metrics_file::rows(of, cell);
            self.append(METRICS, &rows.map_err(|error| self.not_writable(self.folder.path().join(METRICS), error))?)?;
        }
        // The error that led here matters more than a failed cut.
        self.append_trials(&lines).inspect_err(|_| drop(self.cut(METRICS, metrics_bytes)))
    }

    fn append_trials(&self, lines: &[u8]) -> Result<(), ResultsError> {
        let bytes = self.length(TRIALS)?.saturating_add(lines.len() as u64);
        if bytes > MOST_TRIALS_BYTES {
            return Err(self.too_large(TRIALS, format!("{bytes} bytes (limit {MOST_TRIALS_BYTES})")));
        }
        self.append(TRIALS, lines)
    }

    fn too_large(&self, name: &str, what: String) -> ResultsError {
        ResultsError::TooLarge { file: self.folder.path().join(name), what }
    }

    /// Formats indented JSON with a final line break.
    fn pretty(&self, name: &str, what: &impl serde::Serialize) -> Result<Vec<u8>, ResultsError> {
        let text = to_json(what, true).map_err(|what| self.too_large(name, what))?;
        Ok((text + "\n").into_bytes())
    }

    fn line(&self, line: &TrialsLine) -> Result<Vec<u8>, ResultsError> {
        let text = to_json(line, false).map_err(|what| self.too_large(TRIALS, what))?;
        Ok((text + "\n").into_bytes())
    }

    fn lines(&self, of: &SubExperimentResult, cell: &PayloadResult) -> Result<Vec<u8>, ResultsError> {
        let lines: Result<Vec<_>, _> = payload_lines(of, cell).iter().map(|line| self.line(line)).collect();
        Ok(lines?.concat())
    }

    fn append(&self, name: &str, lines: &[u8]) -> Result<(), ResultsError> {
        self.written(name, file::append_whole(&self.folder.at(name)?, lines))
    }

    fn written<T>(&self, name: &str, written: io::Result<T>) -> Result<T, ResultsError> {
        written.map_err(|error| self.not_writable(self.folder.path().join(name), error))
    }

    pub fn trials_bytes(&self) -> Result<u64, ResultsError> {
        self.length(TRIALS)
    }

    fn length(&self, name: &str) -> Result<u64, ResultsError> {
        let length = fs::symlink_metadata(self.folder.at(name)?).map(|there| there.len());
        self.written(name, length)
    }

    pub fn cut_trials(&self, bytes: u64) -> Result<(), ResultsError> {
        self.cut(TRIALS, bytes)
    }

    fn cut(&self, name: &str, bytes: u64) -> Result<(), ResultsError> {
        self.written(name, file::append(&self.folder.at(name)?).and_then(|file| file.set_len(bytes)))
    }

    pub fn sync_trials(&self) -> Result<(), ResultsError> {
        self.written(TRIALS, file::append(&self.folder.at(TRIALS)?).and_then(|file| file.sync_all()))
    }

    /// Waits until all files are on the disk, before the manifest says that they are complete.
    pub fn sync(&self) -> Result<(), ResultsError> {
        sync_folder(&self.folder.at("")?).map_err(|error| self.not_writable(self.folder.path().to_path_buf(), error))
    }

    pub fn remove_empty_logs(&self, rounds: u32) {
        for round in (1..=rounds).filter_map(|round| self.round(round).ok()) {
            let Ok(logs) = round.inside(LOGS) else { continue };
            for entry in logs.at("").into_iter().flat_map(fs::read_dir).flatten().flatten() {
                if entry.metadata().is_ok_and(|metadata| metadata.len() == 0) {
                    let _ = fs::remove_file(entry.path());
                }
            }
            // The call fails, as intended, if a log is left.
            let _ = round.at(LOGS).map(fs::remove_dir);
        }
    }
}

fn round_folder(round: u32) -> String {
    format!("round-{round:02}")
}

/// True if a folder has nothing but leftovers of a run that was killed at its start: locks, an unfinished manifest.
pub fn holds_nothing(folder: &Path) -> io::Result<bool> {
    let is_beginning = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(BEING_WRITTEN.as_bytes());
    let is_ours = |name: &std::ffi::OsStr| name == LOCK || name == MEASURING || is_beginning(name);
    for entry in fs::read_dir(folder)? {
        if !is_ours(&entry?.file_name()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes unfinished files from a locked folder. A file that cannot be removed does no harm.
fn remove_beginnings(folder: &Path) {
    let is_beginning = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let random = name.to_str().and_then(|name| name.strip_prefix(BEING_WRITTEN));
        let is_named =
            random.is_some_and(|random| random.len() == 6 && random.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        is_named && entry.file_type().is_ok_and(|kind| kind.is_file())
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(is_beginning) {
        let _ = fs::remove_file(entry.path());
    }
}

/// Waits until the files in a folder and its subfolders are on the disk, without following links. Files that cannot be
/// opened, or have gone, are skipped: they are not ours.
fn sync_folder(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => sync_folder(&entry.path())?,
            Ok(kind) if kind.is_file() => File::open(entry.path()).map_or(Ok(()), |file| file.sync_all())?,
            _ => {}
        }
    }
    // Not every file system can sync folders.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

/// Checks that a manifest is small enough for readers, before its folder is created; the error has value and limit.
pub(crate) fn check_size(manifest: &Manifest) -> Result<(), String> {
    to_json(manifest, true)?;
    to_json(&Audits::from_environment(&manifest.environment), true).map(drop)
}

/// Removes the final audits of all hosts if the files would be too large for readers; returns value and limit. Each
/// host keeps its limits, but many together may exceed them; figures do not need the audits.
pub(crate) fn leave_out_after(manifest: &mut Manifest) -> Option<String> {
    let what = check_size(manifest).err()?;
    let environment = &mut manifest.environment;
    (environment.after, environment.audit_after) = (None, None);
    for host in &mut environment.hosts {
        (host.environment.after, host.environment.audit_after) = (None, None);
        host.here.after.clear();
        host.there.after.clear();
    }
    Some(what)
}

/// Current local time, limited to the years that results can have.
pub(crate) fn local_time() -> jiff::Zoned {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    within_years(since_1970.as_secs()).to_zoned(jiff::tz::TimeZone::system())
}

fn within_years(seconds: u64) -> jiff::Timestamp {
    // In time zones west of UTC, the first hours of 1970 are in 1969.
    let first = 24 * 60 * 60;
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX).clamp(first, LAST_SECOND);
    jiff::Timestamp::from_second(seconds).unwrap_or_default()
}

/// Creates a folder below `parent` named after the time, with a suffix if the name is taken.
pub fn dated(parent: &Path) -> Result<PathBuf, ResultsError> {
    let not_writable = |error| ResultsError::NotWritable(parent.to_path_buf(), error);
    fs::create_dir_all(parent).map_err(not_writable)?;
    let parent = parent.canonicalize().map_err(not_writable)?;
    let name = local_time().strftime("%Y-%m-%d_%H-%M-%S").to_string();
    for suffix in 1.. {
        let folder = parent.join(if suffix == 1 { name.clone() } else { format!("{name}-{suffix}") });
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(not_writable(error)),
        }
    }
    unreachable!("the numbers do not end")
}

#[cfg(test)]
mod longest;
#[cfg(test)]
mod tests;
