//! The results folder and its manifest.

use crate::files::is_folder;
use crate::os::lock_file;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use tripmeter_model::file::{self, FileError};
use tripmeter_model::folder::{AUDIT, Audits, LOGS, MANIFEST, TRIALS, TrialsLine, payload_lines};
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
    #[error("results '{}' cannot be changed: {}; {}", .0.display(), .1, full_advice(.1).unwrap_or("make them writable, or copy the folder and resume the copy"))]
    NotChangeable(PathBuf, io::Error),
    /// It cannot be created or written.
    #[error("output '{}' cannot be written: {}; {}", .0.display(), .1, full_advice(.1).unwrap_or("name another folder with -o"))]
    NotWritable(PathBuf, io::Error),
}

/// What to do if that error says that there is no room.
pub(crate) fn full_advice(error: &io::Error) -> Option<&'static str> {
    let is_full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    is_full.then_some(
        "make room there, then measure what is missing: `tripmeter run --resume DIR`, or the same `tripmeter ab` again",
    )
}

/// A results folder that one process writes to.
#[derive(Debug)]
pub struct Results {
    folder: PathBuf,
    has_rounds: bool,
    is_resumed: bool,
    /// What is locked, so that nobody else resumes the run meanwhile.
    lock: Option<Arc<File>>,
}

/// A results folder that no other process resumes or measures into, as long as this or a copy lives.
#[derive(Clone, Debug)]
pub struct LockedFolder {
    folder: PathBuf,
    lock: Arc<File>,
}

impl LockedFolder {
    /// Locks a folder.
    ///
    /// # Errors
    /// If another process has locked it, or it cannot be written.
    pub fn take(folder: PathBuf) -> Result<Self, ResultsError> {
        let lock = lock(&folder).map_err(|error| match error {
            ResultsError::NotWritable(file, error) => ResultsError::NotChangeable(file, error),
            error => error,
        })?;
        Ok(Self { folder, lock: Arc::new(lock) })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

fn lock(folder: &Path) -> Result<File, ResultsError> {
    let failed = |error| ResultsError::NotWritable(folder.to_path_buf(), error);
    let file = file::to_lock(&folder.join(MEASURING)).map_err(failed)?;
    if lock_file(&file, true).map_err(failed)? { Ok(file) } else { Err(ResultsError::InUse(folder.to_path_buf())) }
}

impl Results {
    /// Creates the folder: `output`, or one named after the time below [`RESULTS`], with a suffix if it is taken. With
    /// `rounds`, each has a folder of its own in it.
    ///
    /// # Errors
    /// If `output` is not empty, or the folder cannot be created.
    pub fn create(output: Option<&Path>, has_rounds: bool) -> Result<Self, ResultsError> {
        let folder = match output {
            Some(folder) => named(folder)?,
            None => dated(Path::new(RESULTS))?,
        };
        Ok(Self { folder, has_rounds, is_resumed: false, lock: None })
    }

    /// Opens one in which anything is whole, without the beginnings of files that a killed process left.
    pub fn resume(locked: &LockedFolder, has_rounds: bool) -> Self {
        remove_beginnings(&locked.folder);
        Self { folder: locked.folder.clone(), has_rounds, is_resumed: true, lock: Some(locked.lock.clone()) }
    }

    /// Locks the folder, in which trials have been begun.
    ///
    /// # Errors
    /// As [`LockedFolder::take`].
    pub fn take_lock(&mut self) -> Result<(), ResultsError> {
        if self.lock.is_none() {
            self.lock = Some(Arc::new(lock(&self.folder)?));
        }
        Ok(())
    }

    /// Opens one in which so many rounds are whole; removes what later ones have written.
    ///
    /// # Errors
    /// If that cannot be removed.
    pub fn reopen(locked: &LockedFolder, rounds: u32) -> Result<Self, ResultsError> {
        let results = Self::resume(locked, true);
        for later in (rounds + 1..).map(|round| results.round(round)) {
            match fs::remove_dir_all(&later) {
                Err(error) if error.kind() == ErrorKind::NotFound => break,
                removed => removed.map_err(|error| results.not_writable(later, error))?,
            }
        }
        Ok(results)
    }

    /// Creates what a round writes to.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn begin_round(&self, round: u32) -> Result<(), ResultsError> {
        let folder = self.round(round);
        let made = || {
            for folder in [folder.clone(), folder.join(LOGS)] {
                match fs::create_dir(&folder) {
                    Err(_) if is_folder(&folder) => {}
                    made => made?,
                }
            }
            Ok(())
        };
        made().map_err(|error| self.not_writable(folder.clone(), error))
    }

    /// The error of a file in the folder: a run that is resumed has no other folder.
    fn not_writable(&self, file: PathBuf, error: io::Error) -> ResultsError {
        let class = if self.is_resumed { ResultsError::NotChangeable } else { ResultsError::NotWritable };
        class(file, error)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of a round: the folder itself if there are none.
    pub fn round(&self, round: u32) -> PathBuf {
        if self.has_rounds { self.folder.join(format!("round-{round:02}")) } else { self.folder.clone() }
    }

    /// Writes the manifest, whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, manifest: &Manifest) -> Result<(), ResultsError> {
        self.replace(MANIFEST, &pretty(manifest))
    }

    /// Writes the audits, whole or not at all.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write_audits(&self, manifest: &Manifest) -> Result<(), ResultsError> {
        self.replace(AUDIT, &pretty(&Audits::of(&manifest.environment)))
    }

    fn replace(&self, name: &str, text: &[u8]) -> Result<(), ResultsError> {
        let failed = |error| {
            // Before the first file there is nothing to resume.
            let is_begun = self.folder.join(MANIFEST).exists();
            let kind = if let FileError::NotWritable { kind, .. } = error { kind } else { ErrorKind::Other };
            let kind = if is_begun { kind } else { ErrorKind::Other };
            self.not_writable(self.folder.clone(), io::Error::new(kind, error))
        };
        file::write_synced(&self.folder.join(name), text).map_err(failed)
    }

    /// Begins the files of trials and figures with what the manifest holds, each whole or not at all.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn begin_trials(&self, manifest: &Manifest) -> Result<(), ResultsError> {
        let failed = |error| self.not_writable(self.folder.clone(), error);
        let (mut lines, mut rows) = (Vec::new(), metrics_file::header().map_err(failed)?);
        for result in &manifest.sub_experiments {
            lines.extend(line(&TrialsLine::SubExperiment(result.clone())));
            for cell in &result.cells {
                rows.extend(metrics_file::rows(result, cell).map_err(failed)?);
                lines.extend(payload_lines(result, cell).iter().flat_map(line));
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
        self.append(TRIALS, &line(&TrialsLine::SubExperiment(of.clone())))
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
        let metrics_bytes = self.length(METRICS)?;
        if is_final {
            let rows = metrics_file::rows(of, cell);
            self.append(METRICS, &rows.map_err(|error| self.not_writable(self.folder.join(METRICS), error))?)?;
        }
        let lines: Vec<u8> = payload_lines(of, cell).iter().flat_map(line).collect();
        // That the rows cannot be cut off is the lesser error.
        self.append(TRIALS, &lines).inspect_err(|_| drop(self.cut(METRICS, metrics_bytes)))
    }

    fn append(&self, name: &str, lines: &[u8]) -> Result<(), ResultsError> {
        let path = self.folder.join(name);
        file::append_whole(&path, lines).map_err(|error| self.not_writable(path, error))
    }

    /// Bytes of the trials so far.
    ///
    /// # Errors
    /// If the file is not there.
    pub fn trials_bytes(&self) -> Result<u64, ResultsError> {
        self.length(TRIALS)
    }

    fn length(&self, name: &str) -> Result<u64, ResultsError> {
        let path = self.folder.join(name);
        let length = fs::symlink_metadata(&path).map(|there| there.len());
        length.map_err(|error| self.not_writable(path, error))
    }

    /// Takes back all trials but the first `bytes`.
    ///
    /// # Errors
    /// If the file cannot be cut.
    pub fn cut_trials(&self, bytes: u64) -> Result<(), ResultsError> {
        self.cut(TRIALS, bytes)
    }

    fn cut(&self, name: &str, bytes: u64) -> Result<(), ResultsError> {
        let path = self.folder.join(name);
        let cut = file::append(&path).and_then(|file| file.set_len(bytes));
        cut.map_err(|error| self.not_writable(path, error))
    }

    /// Waits until the trials are on the disk.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn sync_trials(&self) -> Result<(), ResultsError> {
        let path = self.folder.join(TRIALS);
        file::append(&path).and_then(|file| file.sync_all()).map_err(|error| self.not_writable(path, error))
    }

    /// Waits until all files are on the disk: a manifest that says that all is there comes after them.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn sync(&self) -> Result<(), ResultsError> {
        sync_folder(&self.folder).map_err(|error| self.not_writable(self.folder.clone(), error))
    }

    /// Removes log files of the first `rounds` rounds that nothing was written to.
    pub fn remove_empty_logs(&self, rounds: u32) {
        for round in 1..=rounds {
            let folder = self.round(round).join(LOGS);
            if [self.round(round), folder.clone()].iter().any(|folder| !is_folder(folder)) {
                continue;
            }
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if entry.metadata().is_ok_and(|metadata| metadata.len() == 0) {
                    let _ = fs::remove_file(entry.path());
                }
            }
            // Stays if a log is left in it.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// JSON for people, too, with a line break at its end.
fn pretty(what: &impl serde::Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(what).expect("results are plain data");
    text.push(b'\n');
    text
}

/// A line of `trials.jsonl`, with its end.
fn line(line: &TrialsLine) -> Vec<u8> {
    let mut text = serde_json::to_vec(line).expect("results are plain data");
    text.push(b'\n');
    text
}

fn named(folder: &Path) -> Result<PathBuf, ResultsError> {
    let not_writable = |error| ResultsError::NotWritable(folder.to_path_buf(), error);
    fs::create_dir_all(folder).map_err(not_writable)?;
    let absolute = folder.canonicalize().map_err(not_writable)?;
    if !holds_nothing(&absolute).map_err(not_writable)? {
        return Err(ResultsError::NotEmpty(folder.to_path_buf()));
    }
    Ok(absolute)
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

/// Creates a folder below `parent` named after the time, with a suffix if that is taken.
///
/// # Errors
/// If it cannot be created.
pub fn dated(parent: &Path) -> Result<PathBuf, ResultsError> {
    let not_writable = |error| ResultsError::NotWritable(parent.to_path_buf(), error);
    fs::create_dir_all(parent).map_err(not_writable)?;
    let parent = parent.canonicalize().map_err(not_writable)?;
    let name = jiff::Zoned::now().strftime("%Y-%m-%d_%H-%M-%S").to_string();
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
mod tests {
    use super::*;

    #[test]
    fn logs_that_a_link_leads_to_are_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let (folder, theirs) = (parent.path().join("results"), parent.path().join("theirs"));
        fs::create_dir_all(theirs.join("logs")).unwrap();
        fs::write(theirs.join("logs/empty"), "").unwrap();
        let results = Results::create(Some(&folder), true).unwrap();
        std::os::unix::fs::symlink(&theirs, folder.join("round-01")).unwrap();
        fs::create_dir(folder.join("round-02")).unwrap();
        std::os::unix::fs::symlink(theirs.join("logs"), folder.join("round-02/logs")).unwrap();
        results.remove_empty_logs(2);
        assert!(theirs.join("logs/empty").exists());
        assert!(results.begin_round(1).is_err() && results.begin_round(2).is_err());
    }

    #[test]
    fn a_folder_with_something_in_it_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("a/b");
        let results = Results::create(Some(&folder), false).unwrap();
        results.begin_round(1).unwrap();
        results.remove_empty_logs(1);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        assert!(Results::create(Some(&folder), false).is_ok());
        fs::write(folder.join(LOCK), "").unwrap();
        fs::write(folder.join(BEING_WRITTEN.to_owned() + "a1b2c3"), "{").unwrap();
        assert!(Results::create(Some(&folder), false).is_ok(), "killed while the first manifest was written");
        fs::write(folder.join("x"), "").unwrap();
        assert!(matches!(Results::create(Some(&folder), false), Err(ResultsError::NotEmpty(_))));
        let file = folder.join("x/y");
        assert!(matches!(Results::create(Some(&file), false), Err(ResultsError::NotWritable(..))));
    }

    #[test]
    fn beginnings_of_files_are_removed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let (beginning, elsewhere) = (BEING_WRITTEN.to_owned() + "a1B2c3", place.path().join("elsewhere"));
        let folder = place.path().join("results");
        let of = |name: &str| folder.join(BEING_WRITTEN.to_owned() + name);
        fs::create_dir_all(of("folder")).unwrap();
        for file in [&folder.join(&beginning), &of("longer7"), &of("a.2c3d"), &folder.join("x"), &elsewhere] {
            fs::write(file, "{").unwrap();
        }
        std::os::unix::fs::symlink(&elsewhere, of("linked")).unwrap();
        Results::resume(&LockedFolder::take(folder.clone()).unwrap(), false);
        assert!(!folder.join(beginning).exists());
        let others = [of("folder"), of("longer7"), of("a.2c3d"), of("linked"), folder.join("x"), elsewhere];
        assert!(others.iter().all(|file| file.exists()), "{others:?}");
    }

    #[test]
    fn a_manifest_is_replaced_whole_under_whoever_reads_it() {
        let parent = tempfile::tempdir().unwrap();
        let results = Results::create(Some(parent.path()), false).unwrap();
        let environment = crate::environment::environment(&crate::clock::Calibration::new());
        let mut manifest: Manifest = serde_json::from_value(serde_json::json!({
            "schema_version": "2.0", "tripmeter_version": "", "started": "first", "ended": null, "status": "running",
            "environment": environment, "plan": {
                "source": "", "sub_experiments": [], "rounds": 1, "seed": 1, "raw": ["samples"], "daemons": "start",
                "loss_timeout_ns": 1, "leader_cpu": null, "follower_cpu": null, "left_out": [],
            },
        }))
        .unwrap();
        results.write(&manifest).unwrap();
        let mut reader = fs::File::open(parent.path().join(MANIFEST)).unwrap();
        manifest.started = "second".to_owned();
        results.write(&manifest).unwrap();
        let first: Manifest = serde_json::from_reader(&mut reader).unwrap();
        let second: Manifest = serde_json::from_slice(&fs::read(parent.path().join(MANIFEST)).unwrap()).unwrap();
        assert_eq!((first.started.as_str(), second.started.as_str()), ("first", "second"));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "a temporary file was left");
    }

    #[test]
    fn what_is_written_grows_with_what_is_measured() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tripmeter/tests/golden/results-2.0");
        let read = tripmeter_model::folder::read(&golden, |text| text.into()).unwrap();
        let written = |sub_experiments: usize| {
            let parent = tempfile::tempdir().unwrap();
            let results = Results::create(Some(parent.path()), false).unwrap();
            let mut manifest = Manifest { sub_experiments: Vec::new(), ..read.clone() };
            results.write(&manifest).unwrap();
            results.begin_trials(&manifest).unwrap();
            for number in 0..sub_experiments {
                let cells = std::mem::take(&mut read.sub_experiments[0].clone().cells);
                let name = format!("sub-experiment-{number:04}");
                let result = SubExperimentResult { name, cells: Vec::new(), ..read.sub_experiments[0].clone() };
                manifest.sub_experiments.push(result.clone());
                (0..3).for_each(|_| results.append_state(&result).unwrap());
                (0..13).for_each(|_| results.append_payload(&result, &cells[0], true).unwrap());
            }
            results.write(&manifest).unwrap();
            let length = |name: &str| fs::metadata(parent.path().join(name)).unwrap().len();
            // The manifest was written twice.
            let bytes = 2 * length(MANIFEST) + length(TRIALS) + length(METRICS);
            println!("{sub_experiments} sub-experiments with 13 payloads: {bytes} bytes");
            bytes
        };
        let (few, many) = (written(4), written(40));
        assert!(many < 10 * few, "{few} {many}");
    }

    #[test]
    fn a_payload_that_cannot_be_appended_leaves_no_figures() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tripmeter/tests/golden/results-2.0");
        let read = tripmeter_model::folder::read(&golden, |text| text.into()).unwrap();
        let parent = tempfile::tempdir().unwrap();
        let results = Results::create(Some(parent.path()), false).unwrap();
        results.begin_trials(&Manifest { sub_experiments: Vec::new(), ..read.clone() }).unwrap();
        let of = &read.sub_experiments[0];
        let written = || fs::read(parent.path().join(METRICS)).unwrap();
        results.append_payload(of, &of.cells[0], true).unwrap();
        let before = written();
        let trials = parent.path().join(TRIALS);
        fs::remove_file(&trials).unwrap();
        std::os::unix::fs::symlink("/dev/full", &trials).unwrap();
        assert!(results.append_payload(of, &of.cells[1], true).is_err());
        assert_eq!(written(), before);
    }

    #[test]
    fn rounds_have_folders_of_their_own() {
        let parent = tempfile::tempdir().unwrap();
        let results = Results::create(Some(parent.path()), true).unwrap();
        results.begin_round(2).unwrap();
        assert!(results.round(2).ends_with("round-02") && results.round(2).is_dir());
        let locked = LockedFolder::take(parent.path().to_path_buf()).unwrap();
        assert!(matches!(LockedFolder::take(parent.path().to_path_buf()), Err(ResultsError::InUse(_))));
        let again = Results::reopen(&locked, 2).unwrap();
        assert!(again.round(2).is_dir());
        assert!(!Results::reopen(&locked, 1).unwrap().round(2).exists());
    }
}
