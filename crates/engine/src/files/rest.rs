//! Repair of the files of an interrupted sub-experiment: rows of unfinished payloads are cut off, so that the missing
//! payloads can be appended.

use super::has_folder;
use super::head::is_head;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use tripmeter_eprosima::measurements::file_name;
use tripmeter_model::file::append;
use tripmeter_model::folder::{ATTEMPTS, HISTOGRAMS};
use tripmeter_model::manifest::PayloadResult;
use tripmeter_model::samples::SAMPLES;

/// Prefixes of tags of histograms, before the payload.
const KINDS: [&str; 4] = ["payload_", "one_way_", "response_", "service_"];

/// Longest line in bytes. A histogram in base64 has about 100 kB, so a longer line is not ours.
const MOST_LINE_BYTES: u64 = 16 << 20;

/// Number of the last trial of these payloads, including discarded attempts.
pub fn last_trial(kept: &[PayloadResult]) -> u32 {
    let attempts = kept.iter().flat_map(|cell| cell.earlier_attempts.iter().chain([cell]));
    attempts.flat_map(|cell| cell.trials.iter().map(|trial| trial.number)).max().unwrap_or(0)
}

/// Keeps only the rows of the payloads in `kept`; if there are none, removes the files. `folder` is that of the
/// results, or of a round. A link in place of a folder is an error.
pub fn keep(folder: &Path, name: &str, kept: &[PayloadResult]) -> io::Result<()> {
    let last = last_trial(kept);
    let (samples, histograms) = (folder.join(SAMPLES), folder.join(HISTOGRAMS));
    let is_sample = |row: &str| number(row.split(',').nth(1)).is_some_and(|trial| trial <= u64::from(last));
    let is_measurement = |row: &str| measurement_of(row, kept).is_some();
    let is_histogram = |line: &str| histogram_of(line, kept).is_some();
    if !has_folder(folder)? {
        return Ok(());
    }
    if has_folder(&samples)? {
        // Parquet is written again from the CSV, which is kept until the sub-experiment is complete.
        let parquet = samples.join(format!("{name}.parquet"));
        remove(&parquet).map_err(|error| naming(&parquet, &error))?;
        cut(&samples.join(format!("{name}.csv")), kept.is_empty(), is_sample)?;
    }
    let csv = file_name(name);
    for file in [&[folder.join(&csv)][..], &attempts_at(folder, &csv)?].concat() {
        cut(&file, kept.is_empty(), is_measurement)?;
    }
    if !has_folder(&histograms)? {
        return Ok(());
    }
    let log = format!("{name}.hlog");
    for file in [&[histograms.join(&log)][..], &attempts_at(&histograms, &log)?].concat() {
        cut(&file, kept.is_empty(), is_histogram)?;
    }
    Ok(())
}

fn number(field: Option<&str>) -> Option<u64> {
    field?.parse().ok()
}

/// Payload of a row in eProsima's file, if it is kept.
pub(super) fn measurement_of(row: &str, kept: &[PayloadResult]) -> Option<u64> {
    number(row.split(',').nth(1)).filter(|payload| has(kept, *payload))
}

/// Tag of a line in a histogram log, if its payload is kept.
pub(super) fn histogram_of<'a>(line: &'a str, kept: &[PayloadResult]) -> Option<&'a str> {
    let tag = line.strip_prefix("Tag=")?.split(',').next()?;
    let counts = match KINDS.into_iter().find_map(|kind| tag.strip_prefix(kind))?.split('_').next() {
        // A recording is measured as a whole, with all its payloads.
        Some("topic" | "recording") => !kept.is_empty(),
        payload => number(payload).is_some_and(|payload| has(kept, payload)),
    };
    counts.then_some(tag)
}

fn has(kept: &[PayloadResult], payload: u64) -> bool {
    kept.iter().any(|cell| cell.payload_bytes == payload)
}

/// Files of discarded attempts that belong to the file `name`.
pub(super) fn attempts_at(folder: &Path, name: &str) -> io::Result<Vec<PathBuf>> {
    let folder = folder.join(ATTEMPTS);
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    if !has_folder(&folder)? {
        return Ok(Vec::new());
    }
    let is_of = |file: &str| {
        let attempt = file.strip_prefix(stem).and_then(|rest| rest.strip_prefix("_attempt-"));
        attempt.and_then(|rest| rest.strip_suffix(ending)?.strip_suffix('.')?.parse::<u32>().ok()).is_some()
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let name = entry?.file_name();
        if name.to_str().is_some_and(is_of) {
            files.push(folder.join(name));
        }
    }
    Ok(files)
}

pub(super) fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Cuts a file before the first line after the head that is incomplete or fails `counts`. Removes it if `is_all`.
fn cut(file: &Path, is_all: bool, counts: impl Fn(&str) -> bool) -> io::Result<()> {
    let cut = match file.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        _ if is_all => remove(file),
        _ => append(file).and_then(|opened| opened.set_len(whole_bytes(&opened, counts)?)),
    };
    cut.map_err(|error| naming(file, &error))
}

fn naming(file: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("its file '{}': {error}", file.display()))
}

/// Length of a file up to the first line after the head that is incomplete or fails `counts`.
pub(super) fn whole_bytes(file: &File, mut counts: impl FnMut(&str) -> bool) -> io::Result<u64> {
    let mut reader = BufReader::new(file);
    let (mut bytes, mut line, mut is_in_head) = (0_u64, Vec::new(), true);
    loop {
        line.clear();
        let length = reader.by_ref().take(MOST_LINE_BYTES).read_until(b'\n', &mut line)?;
        let Some(text) = line.strip_suffix(b"\n").and_then(|text| str::from_utf8(text).ok()) else { break };
        is_in_head = is_in_head && is_head(text);
        if !is_in_head && !counts(text) {
            break;
        }
        bytes += length as u64;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_model::pace::OfferedLoad;
    use tripmeter_model::trial::Trial;

    fn cell(payload_bytes: u64, number: u32) -> PayloadResult {
        let mut trial = Trial::new(OfferedLoad::Closed);
        trial.number = number;
        PayloadResult { payload_bytes, trials: vec![trial], ..PayloadResult::default() }
    }

    #[test]
    fn rows_of_payloads_that_count_stay_and_what_follows_goes() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path();
        for inside in ["samples", "histograms/attempts", "attempts"] {
            fs::create_dir_all(folder.join(inside)).unwrap();
        }
        let head = "#[Histogram log]\n#[StartTime: 12.500 (seconds)]\n\"StartTimestamp\"\n";
        let files = [
            ("samples/x.csv", "round,trial\n", "1,1,16\n1,2,16\n", "1,3,64\n1,3,"),
            ("samples/xy.csv", "round,trial\n", "1,9,64\n", ""),
            ("measurements_x.csv", "Sample,Payload\n", "1,16,2.0\n", "2,64,2.0\n3,6"),
            ("attempts/measurements_x_attempt-1.csv", "Sample,Payload\n", "1,16,2.0\n", "1,64,1.0\n"),
            ("histograms/x.hlog", head, "Tag=payload_16,0,1\nTag=one_way_16_last,0,1\n", "Tag=payload_64,0,1\n"),
            ("histograms/attempts/x_attempt-1.hlog", head, "Tag=response_16_1000,0,1\n", "Tag=service_64,0"),
        ];
        let write = || {
            files.iter().for_each(|(name, head, kept, rest)| {
                fs::write(folder.join(name), format!("{head}{kept}{rest}")).unwrap()
            })
        };
        write();
        let one = PayloadResult { earlier_attempts: vec![cell(16, 1)], ..cell(16, 2) };
        keep(folder, "x", &[one]).unwrap();
        for (name, head, kept, _) in &files {
            assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), format!("{head}{kept}"), "{name}");
        }
        assert_eq!(super::super::head::head_bytes(&folder.join("histograms/x.hlog")).unwrap(), head.len() as u64);
        write();
        fs::write(folder.join("samples/x.parquet"), "rows").unwrap();
        keep(folder, "x", &[]).unwrap();
        keep(&folder.join("round-02"), "x", &[]).unwrap();
        let left: Vec<&str> = files.iter().map(|file| file.0).filter(|name| folder.join(name).exists()).collect();
        assert_eq!(left, ["samples/xy.csv"]);
        assert!(!folder.join("samples/x.parquet").exists());
    }

    #[test]
    fn what_is_no_file_is_named() {
        let parent = tempfile::tempdir().unwrap();
        let csv = parent.path().join("measurements_x.csv");
        fs::create_dir(&csv).unwrap();
        for kept in [&[][..], &[cell(16, 1)]] {
            let error = keep(parent.path(), "x", kept).unwrap_err().to_string();
            assert!(error.contains(csv.to_str().unwrap()), "{error}");
        }
    }

    #[test]
    fn nothing_is_cut_or_removed_behind_a_link() {
        let parent = tempfile::tempdir().unwrap();
        let victim = parent.path().join("victim");
        let files = ["x.csv", "x.parquet", "x.hlog", "x_attempt-1.hlog", "measurements_x_attempt-1.csv"];
        fs::create_dir_all(&victim).unwrap();
        files.iter().for_each(|name| fs::write(victim.join(name), "precious").unwrap());
        for (at, link) in ["samples", "histograms", "attempts", "histograms/attempts", ""].into_iter().enumerate() {
            let folder = parent.path().join(at.to_string());
            fs::create_dir_all(folder.join(link).parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(&victim, parent.path().join(format!("{at}/{link}").trim_end_matches('/')))
                .unwrap();
            for kept in [&[][..], &[cell(16, 1)]] {
                let error = keep(&folder, "x", kept).unwrap_err().to_string();
                assert!(error.contains("is a link") && error.contains(link), "{link}: {error}");
            }
        }
        assert!(files.iter().all(|name| fs::read_to_string(victim.join(name)).unwrap() == "precious"));
    }
}
