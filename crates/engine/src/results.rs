//! The results folder and its manifest.

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

/// Name of a file in a results folder that whoever writes there has locked; it is empty.
pub const LOCK: &str = ".lock";
/// The same of whoever measures: a command that has [`LOCK`] may measure into the same folder.
const MEASURING: &str = ".measuring";
/// How the name of a file begins that is being written, see [`file::write_whole`].
const BEING_WRITTEN: &str = ".tripmeter-";
/// Folder below the working directory where results go if no other is named.
pub const RESULTS: &str = "results";

/// Why there is no results folder.
#[derive(Debug, Error)]
pub enum ResultsError {
    /// It holds something already.
    #[error("output folder '{}' is not empty; name another with -o, or leave -o out", .0.display())]
    NotEmpty(PathBuf),
    /// Another process writes into it.
    #[error("results in '{}' are still being measured; wait for that run, or stop it", .0.display())]
    InUse(PathBuf),
    /// It is to be resumed, and cannot be written.
    #[error("results '{}' cannot be changed: {}; {}", .0.display(), .1, to_change(.1))]
    NotChangeable(PathBuf, io::Error),
    /// It cannot be created or written, and nothing was measured.
    #[error("output '{}' cannot be written: {}; name another folder with -o", .0.display(), .1)]
    NotWritable(PathBuf, io::Error),
    /// It cannot be written any more.
    #[error("results '{}' cannot be written any more: {}; {}", .0.display(), .1, to_go_on(.1))]
    Unfinished(PathBuf, io::Error),
    /// It has lost its name.
    #[error(transparent)]
    Gone(#[from] FolderGone),
    /// Readers would refuse what it would hold.
    #[error("'{}' would hold {what}, so it stays as it is; measure less at once", .file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// Value and limit.
        what: String,
    },
}

/// What to do where a run that has begun cannot be written.
pub(crate) fn to_go_on(error: &io::Error) -> String {
    let first = if is_full(error) { "make room there" } else { "make the folder writable" };
    format!("{first}, then measure what is missing: `tripmeter run --resume DIR`, or the same `tripmeter ab` again")
}

/// The same where one cannot be resumed.
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
    /// The error of a file of a run that has begun: it is resumed when the cause is gone.
    pub(crate) fn unfinished(file: PathBuf, error: io::Error) -> Self {
        Self::of(error, |error| Self::Unfinished(file, error))
    }

    /// An error of its own class if the folder has gone, or else of this `class`.
    fn of(error: io::Error, class: impl FnOnce(io::Error) -> Self) -> Self {
        match error.downcast() {
            Ok(gone) => Self::Gone(gone),
            Err(error) => class(error),
        }
    }
}

/// A results folder that one process writes to.
#[derive(Debug)]
pub struct Results {
    folder: FolderHandle,
    has_rounds: bool,
    /// The folder of the round that was begun last.
    round: Option<(u32, FolderHandle)>,
    is_resumed: bool,
    /// What is locked, so that nobody else resumes the run meanwhile.
    lock: Option<Arc<File>>,
}

/// A results folder that no other process resumes or measures into, as long as this or a copy lives.
#[derive(Clone, Debug)]
pub struct LockedFolder {
    folder: FolderHandle,
    lock: Arc<File>,
}

impl LockedFolder {
    /// Locks a folder.
    ///
    /// # Errors
    /// If another process has locked it, or it cannot be written.
    pub fn take(folder: &Path) -> Result<Self, ResultsError> {
        let failed = |error| ResultsError::of(error, |error| ResultsError::NotChangeable(folder.to_path_buf(), error));
        let folder = FolderHandle::open(folder).map_err(failed)?;
        let lock = lock(&folder).map_err(failed)?.ok_or_else(|| ResultsError::InUse(folder.path().to_path_buf()))?;
        Ok(Self { folder, lock: Arc::new(lock) })
    }

    /// The folder.
    pub fn folder(&self) -> &FolderHandle {
        &self.folder
    }
}

/// A lock on a folder; `None` if another process has it.
fn lock(folder: &FolderHandle) -> io::Result<Option<File>> {
    let file = file::to_lock(&folder.at(MEASURING)?)?;
    Ok(lock_file(&file, true)?.then_some(file))
}

impl Results {
    /// Creates the folder: `output`, or one named after the time below [`RESULTS`], with a suffix if it is taken. With
    /// `rounds`, each has a folder of its own in it.
    ///
    /// # Errors
    /// If `output` is not empty, or the folder cannot be created.
    pub fn create(output: Option<&Path>, has_rounds: bool) -> Result<Self, ResultsError> {
        let path = output.map_or_else(|| dated(Path::new(RESULTS)), |output| Ok(output.to_owned()))?;
        Self::create_as(&path, FolderHandle::create(&path), has_rounds)
    }

    /// [`Results::create`] of a folder in one that is open.
    ///
    /// # Errors
    /// The same, or if that one has gone.
    pub fn create_within(parent: &FolderHandle, name: &str, has_rounds: bool) -> Result<Self, ResultsError> {
        Self::create_as(&parent.path().join(name), parent.enter(name), has_rounds)
    }

    fn create_as(path: &Path, folder: io::Result<FolderHandle>, has_rounds: bool) -> Result<Self, ResultsError> {
        let not_writable =
            |error| ResultsError::of(error, |error| ResultsError::NotWritable(path.to_path_buf(), error));
        let folder = folder.map_err(not_writable)?;
        let is_empty = folder.at("").map_err(io::Error::from).and_then(|inside| holds_nothing(&inside));
        if !is_empty.map_err(not_writable)? {
            return Err(ResultsError::NotEmpty(path.to_path_buf()));
        }
        Ok(Self { folder, has_rounds, round: None, is_resumed: false, lock: None })
    }

    /// Opens one in which anything is whole, without the beginnings of files that a killed process left.
    pub fn resume(locked: &LockedFolder, has_rounds: bool) -> Self {
        locked.folder.at("").iter().for_each(|folder| remove_beginnings(folder));
        let (folder, lock) = (locked.folder.clone(), Some(locked.lock.clone()));
        Self { folder, has_rounds, round: None, is_resumed: true, lock }
    }

    /// Locks the folder, in which trials have been begun.
    ///
    /// # Errors
    /// As [`LockedFolder::take`].
    pub fn take_lock(&mut self) -> Result<(), ResultsError> {
        if self.lock.is_none() {
            let failed = |error| self.not_writable(self.folder.path().to_path_buf(), error);
            let in_use = || ResultsError::InUse(self.folder.path().to_path_buf());
            self.lock = Some(Arc::new(lock(&self.folder).map_err(failed)?.ok_or_else(in_use)?));
        }
        Ok(())
    }

    /// Opens one in which so many rounds are whole; removes what later ones have written.
    ///
    /// # Errors
    /// If that cannot be removed.
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

    /// Creates what a round writes to.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn begin_round(&mut self, round: u32) -> Result<(), ResultsError> {
        let folder = if self.has_rounds { self.folder.enter(&round_folder(round)) } else { Ok(self.folder.clone()) };
        let made = folder.and_then(|folder| folder.enter(LOGS).map(|_| folder));
        let made = made.map_err(|error| self.not_writable(self.round_path(round), error))?;
        self.round = Some((round, made));
        Ok(())
    }

    /// Leaves in the files of a sub-experiment what is of the payloads in `kept`, see [`rest::keep`].
    ///
    /// # Errors
    /// If a file cannot be changed.
    pub fn keep_rest(&self, name: &str, round: u32, kept: &[PayloadResult]) -> Result<(), ResultsError> {
        let keep = |folder: &Path| rest::keep(folder, name, kept);
        self.in_round(round, keep).map_err(|error| self.not_writable(self.round_path(round), error))
    }

    /// Removes the files of samples of a round.
    ///
    /// # Errors
    /// If one cannot be removed.
    pub fn remove_samples<'a>(&self, round: u32, names: impl Iterator<Item = &'a str>) -> io::Result<()> {
        self.in_round(round, |folder| rotate::remove_samples(folder, names))
    }

    /// Does something with the files of a round, if there are any.
    fn in_round(&self, round: u32, change: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let folder = match self.round(round) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            folder => folder?,
        };
        change(&folder.at("")?).map_err(|error| io::Error::new(error.kind(), folder.shown(&error.to_string())))
    }

    /// The error of a file in the folder.
    fn not_writable(&self, file: PathBuf, error: io::Error) -> ResultsError {
        ResultsError::of(error, |error| match self.lock {
            _ if self.is_resumed => ResultsError::NotChangeable(file, error),
            // Before the first file there is nothing to resume.
            None if !self.is_begun() => ResultsError::NotWritable(file, error),
            _ => ResultsError::Unfinished(file, error),
        })
    }

    fn is_begun(&self) -> bool {
        self.folder.at(MANIFEST).is_ok_and(|file| file.symlink_metadata().is_ok())
    }

    /// The folder.
    pub fn folder(&self) -> &FolderHandle {
        &self.folder
    }

    /// The folder of a round: the folder itself if there are none.
    ///
    /// # Errors
    /// If it is not there.
    pub fn round(&self, round: u32) -> io::Result<FolderHandle> {
        match &self.round {
            Some((begun, folder)) if *begun == round => Ok(folder.clone()),
            _ if self.has_rounds => self.folder.inside(&round_folder(round)),
            _ => Ok(self.folder.clone()),
        }
    }

    /// Its path, for people.
    pub fn round_path(&self, round: u32) -> PathBuf {
        let folder = self.folder.path();
        if self.has_rounds { folder.join(round_folder(round)) } else { folder.to_path_buf() }
    }

    /// Writes the manifest, whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, manifest: &Manifest) -> Result<(), ResultsError> {
        self.replace(MANIFEST, &self.pretty(MANIFEST, manifest)?)
    }

    /// Writes the audits, whole or not at all.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write_audits(&self, manifest: &Manifest) -> Result<(), ResultsError> {
        self.replace(AUDIT, &self.pretty(AUDIT, &Audits::of(&manifest.environment))?)
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

    /// Begins the files of trials and figures with what the manifest holds, each whole or not at all.
    ///
    /// # Errors
    /// If they cannot be written.
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

    /// Adds the state of a sub-experiment, in the place of an earlier one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append_state(&self, of: &SubExperimentResult) -> Result<(), ResultsError> {
        self.append_trials(&self.line(&TrialsLine::SubExperiment(of.clone()))?)
    }

    /// Adds what was measured at a payload; before it its figures, if it `is_final` and will not be measured again.
    ///
    /// # Errors
    /// If it cannot be written; then nothing of it is left.
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
        // That the rows cannot be cut off is the lesser error.
        self.append_trials(&lines).inspect_err(|_| drop(self.cut(METRICS, metrics_bytes)))
    }

    fn append_trials(&self, lines: &[u8]) -> Result<(), ResultsError> {
        let bytes = self.length(TRIALS)?.saturating_add(lines.len() as u64);
        if bytes > MOST_TRIALS_BYTES {
            return Err(self.too_large(TRIALS, format!("{bytes} bytes, and the most are {MOST_TRIALS_BYTES}")));
        }
        self.append(TRIALS, lines)
    }

    fn too_large(&self, name: &str, what: String) -> ResultsError {
        ResultsError::TooLarge { file: self.folder.path().join(name), what }
    }

    /// JSON for people, too, with a line break at its end.
    fn pretty(&self, name: &str, what: &impl serde::Serialize) -> Result<Vec<u8>, ResultsError> {
        let text = to_json(what, true).map_err(|what| self.too_large(name, what))?;
        Ok((text + "\n").into_bytes())
    }

    /// A line of `trials.jsonl`, with its end.
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

    /// Bytes of the trials so far.
    ///
    /// # Errors
    /// If the file is not there.
    pub fn trials_bytes(&self) -> Result<u64, ResultsError> {
        self.length(TRIALS)
    }

    fn length(&self, name: &str) -> Result<u64, ResultsError> {
        let length = fs::symlink_metadata(self.folder.at(name)?).map(|there| there.len());
        self.written(name, length)
    }

    /// Takes back all trials but the first `bytes`.
    ///
    /// # Errors
    /// If the file cannot be cut.
    pub fn cut_trials(&self, bytes: u64) -> Result<(), ResultsError> {
        self.cut(TRIALS, bytes)
    }

    fn cut(&self, name: &str, bytes: u64) -> Result<(), ResultsError> {
        self.written(name, file::append(&self.folder.at(name)?).and_then(|file| file.set_len(bytes)))
    }

    /// Waits until the trials are on the disk.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn sync_trials(&self) -> Result<(), ResultsError> {
        self.written(TRIALS, file::append(&self.folder.at(TRIALS)?).and_then(|file| file.sync_all()))
    }

    /// Waits until all files are on the disk: a manifest that says that all is there comes after them.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn sync(&self) -> Result<(), ResultsError> {
        sync_folder(&self.folder.at("")?).map_err(|error| self.not_writable(self.folder.path().to_path_buf(), error))
    }

    /// Removes log files of the first `rounds` rounds that nothing was written to.
    pub fn remove_empty_logs(&self, rounds: u32) {
        for round in (1..=rounds).filter_map(|round| self.round(round).ok()) {
            let Ok(logs) = round.inside(LOGS) else { continue };
            for entry in logs.at("").into_iter().flat_map(fs::read_dir).flatten().flatten() {
                if entry.metadata().is_ok_and(|metadata| metadata.len() == 0) {
                    let _ = fs::remove_file(entry.path());
                }
            }
            // Stays if a log is left in it.
            let _ = round.at(LOGS).map(fs::remove_dir);
        }
    }
}

/// Name of the folder of a round.
fn round_folder(round: u32) -> String {
    format!("round-{round:02}")
}

/// Whether nothing is in a folder but what a run that was killed at once leaves: a lock, the beginning of a manifest.
///
/// # Errors
/// If it cannot be read.
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

/// Removes files in a locked folder that nobody writes any more. One that stays disturbs nothing.
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

/// Waits until the files in a folder, and in folders in it, are on the disk; links are not followed. What cannot be opened, or
/// has gone meanwhile, is not the run's.
fn sync_folder(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => sync_folder(&entry.path())?,
            Ok(kind) if kind.is_file() => File::open(entry.path()).map_or(Ok(()), |file| file.sync_all())?,
            _ => {}
        }
    }
    // Not every file system can do this with folders.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

/// Checks a manifest before there is a folder for it.
///
/// # Errors
/// What readers would refuse: value and limit.
pub(crate) fn check_size(manifest: &Manifest) -> Result<(), String> {
    to_json(manifest, true)?;
    to_json(&Audits::of(&manifest.environment), true).map(drop)
}

/// Leaves out what was seen at the end, here and on every host, where no reader would take the files with it; returns the
/// value and the limit. Each host keeps to its bounds; many together may not, and figures need none of it.
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

/// Local time of now; of a clock that is out of the years of results the first or last that they have.
pub(crate) fn local_time() -> jiff::Zoned {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    within_years(since_1970.as_secs()).to_zoned(jiff::tz::TimeZone::system())
}

fn within_years(seconds: u64) -> jiff::Timestamp {
    // In the west the first hours of 1970 are of the year before.
    let first = 24 * 60 * 60;
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX).clamp(first, LAST_SECOND);
    jiff::Timestamp::from_second(seconds).unwrap_or_default()
}

/// Creates a folder below `parent` named after the time, with a suffix if that is taken.
///
/// # Errors
/// If it cannot be created.
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
