//! Samples as Parquet, converted from CSV by a separate program after each sub-experiment.

use crate::spawn::{kill, wait_until};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tripmeter_model::exit;
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::samples::SAMPLES;

pub const PROGRAM: &str = "tripmeter_parquet";
const VERSION_FLAG: &str = "--version";
/// Timeout for a conversion; [`TIME_OF_MIB`] more for each MiB of CSV.
const LEAST_TIME: Duration = Duration::from_secs(60);
const TIME_OF_MIB: Duration = Duration::from_secs(2);
const MOST_TOLD_BYTES: u64 = 4096;
const LOOK: Duration = Duration::from_millis(5);

/// Converts samples in the folder of a round. Removes the CSV, unless `keeps_csv`. Stops once `stop` is set.
pub fn convert_in(
    folder: &FolderHandle,
    name: &str,
    program: &Path,
    keeps_csv: bool,
    stop: &AtomicBool,
) -> io::Result<()> {
    let samples = match folder.inside(SAMPLES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        samples => samples?,
    };
    let converted = convert(program, &samples.at_for_children(&format!("{name}.csv"))?, keeps_csv, stop);
    converted.map_err(|error| io::Error::new(error.kind(), samples.shown(&error.to_string())))
}

/// Converts `<name>.csv`, if there is one, to `<name>.parquet`, until `stop` is set. Then removes the CSV, unless
/// `keeps_csv`.
fn convert(program: &Path, csv: &Path, keeps_csv: bool, stop: &AtomicBool) -> io::Result<()> {
    let bytes = match fs::symlink_metadata(csv) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        there => there?.len(),
    };
    run(program, &[csv.as_os_str(), csv.with_extension("parquet").as_os_str()], bytes, stop)?;
    if keeps_csv { Ok(()) } else { fs::remove_file(csv) }
}

/// Version of the program; `None` if it is too old to report one.
pub fn version(program: &Path) -> io::Result<Option<String>> {
    let (status, said) = ended(program, &[OsStr::new(VERSION_FLAG)], 0, &AtomicBool::new(false))?;
    let version = said.lines().next().and_then(|line| line.strip_prefix(PROGRAM)).map(|rest| rest.trim().to_owned());
    Ok(version.filter(|version| status.success() && !version.is_empty()))
}

/// Runs the program on a CSV of `bytes` bytes; kills it once `stop` is set. The error is one line, and
/// [`io::ErrorKind::InvalidData`] if the CSV is malformed.
pub fn run(program: &Path, arguments: &[&OsStr], bytes: u64, stop: &AtomicBool) -> io::Result<()> {
    let (status, said) = ended(program, arguments, bytes, stop)?;
    if !status.success() {
        let why = said.lines().next().unwrap_or("it printed nothing");
        let is_wrong = status.code() == Some(exit::DATA.into());
        let kind = if is_wrong { io::ErrorKind::InvalidData } else { io::ErrorKind::Other };
        return Err(io::Error::new(kind, format!("{PROGRAM} ended with {status}: {why}")));
    }
    Ok(())
}

fn ended(program: &Path, arguments: &[&OsStr], bytes: u64, stop: &AtomicBool) -> io::Result<(ExitStatus, String)> {
    let mut command = Command::new(program);
    // The output goes to a file: a pipe would have to be read while the program runs.
    let mut told = tempfile::tempfile()?;
    command.args(arguments).stdin(Stdio::null()).stdout(told.try_clone()?).stderr(told.try_clone()?);
    let mut child = command.spawn()?;
    let most = LEAST_TIME + TIME_OF_MIB.saturating_mul(u32::try_from(bytes >> 20).unwrap_or(u32::MAX));
    let is_stopped = || stop.load(Relaxed);
    let look = || child.try_wait().transpose().map(Some).or_else(|| is_stopped().then_some(None));
    let Some(Some(status)) = wait_until(most, LOOK, look) else {
        kill(&mut child);
        let why = if is_stopped() { "interrupted".to_owned() } else { format!("no end within {} s", most.as_secs()) };
        return Err(io::Error::other(format!("{PROGRAM} was killed: {why}")));
    };
    let status = status?;
    told.rewind()?;
    let mut said = Vec::new();
    told.take(MOST_TOLD_BYTES).read_to_end(&mut said)?;
    Ok((status, String::from_utf8_lossy(&said).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn program(folder: &Path, script: &str) -> std::path::PathBuf {
        let path = folder.join(PROGRAM);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn the_csv_stays_if_it_is_asked_for_or_nothing_could_be_made_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (csv, going) = (folder.path().join("x.csv"), AtomicBool::new(false));
        let good = program(folder.path(), "cp \"$1\" \"$2\"");
        assert!(convert(&good, &csv, false, &going).is_ok(), "there is nothing to convert");
        for keeps_csv in [true, false] {
            fs::write(&csv, "rows").unwrap();
            convert(&good, &csv, keeps_csv, &going).unwrap();
            assert_eq!((csv.exists(), csv.with_extension("parquet").exists()), (keeps_csv, true));
        }
        fs::write(&csv, "rows").unwrap();
        let bad = program(folder.path(), "echo 'no row' >&2; exit 65");
        let error = convert(&bad, &csv, false, &going).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let error = error.to_string();
        assert!(csv.exists() && error.contains("65") && error.contains("no row"), "{error}");
        let full = program(folder.path(), "exit 73");
        assert_eq!(convert(&full, &csv, false, &going).unwrap_err().kind(), io::ErrorKind::Other);
    }

    #[test]
    fn a_program_tells_its_version_or_is_older() {
        let folder = tempfile::tempdir().unwrap();
        let of = |script: &str| version(&program(folder.path(), script)).unwrap();
        assert_eq!(of("[ \"$1\" = --version ] && echo tripmeter_parquet 0.9.1").as_deref(), Some("0.9.1"));
        assert_eq!(of("echo 'usage: tripmeter_parquet FILE.csv FILE.parquet' >&2; exit 64"), None);
        assert_eq!(of("echo something else 1.0"), None);
    }

    #[test]
    fn a_program_that_says_much_or_does_not_end_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let csv = folder.path().join("x.csv");
        fs::write(&csv, "rows").unwrap();
        // More output than a pipe holds.
        let loud = program(folder.path(), "head -c 1000000 /dev/zero >&2; cp \"$1\" \"$2\"");
        convert(&loud, &csv, true, &AtomicBool::new(false)).unwrap();
        let endless = program(folder.path(), "exec sleep 1000");
        let error = convert(&endless, &csv, false, &AtomicBool::new(true)).unwrap_err().to_string();
        assert!(csv.exists() && error.contains("interrupted"), "{error}");
    }
}
