//! Files of a sub-experiment that was interrupted: what was written of payloads that do not count is cut off, so that the
//! rest is written behind the payloads that do.

use super::has_folder;
use super::head::is_head;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use tripmeter_eprosima::measurements::file_name;
use tripmeter_model::delivery::DeliveryStatus;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::file::{FileError, append};
use tripmeter_model::folder::{ATTEMPTS, HISTOGRAMS};
use tripmeter_model::manifest::PayloadResult;
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::samples::{SAMPLES, SampleReader};
use tripmeter_model::trial::Trial;

/// Kinds of time that tags of histograms begin with, before the payload.
const KINDS: [&str; 4] = ["payload_", "one_way_", "response_", "service_"];

/// Figures of which each sample has a row.
const OF_ROWS: [Figure; 7] = [
    Figure::RttHalf,
    Figure::Call,
    Figure::Response,
    Figure::Service,
    Figure::ResponseRtt,
    Figure::ServiceRtt,
    Figure::OneWay,
];

/// Most bytes of a line: a histogram in base64 has some 100 kB. One that is longer is none of ours.
const MOST_LINE_BYTES: u64 = 16 << 20;

/// Number of the last trial of these payloads, with attempts that were set aside.
pub fn last_trial(kept: &[PayloadResult]) -> u32 {
    let attempts = kept.iter().flat_map(|cell| cell.earlier_attempts.iter().chain([cell]));
    attempts.flat_map(|cell| cell.trials.iter().map(|trial| trial.number)).max().unwrap_or(0)
}

/// Checks that the file of samples, if it was written, has the samples of the payloads in `kept`: a disk that lost power may
/// have lost rows.
///
/// # Errors
/// If it is not there, a row before their last one is damaged, or there are fewer than their figures are of.
pub fn check_samples(folder: &Path, name: &str, kept: &[PayloadResult]) -> Result<(), FileError> {
    let trials = kept.iter().flat_map(|cell| &cell.trials);
    let mut missing: BTreeMap<u32, u64> = trials.map(|trial| (trial.number, rows(trial))).collect();
    missing.retain(|_, rows| *rows > 0);
    if missing.is_empty() {
        return Ok(());
    }
    let file = folder.join(SAMPLES).join(format!("{name}.csv"));
    for inside in [folder, &folder.join(SAMPLES), &file] {
        if inside.is_symlink() {
            return Err(FileError::wrong(inside, "is a link, and none is followed"));
        }
    }
    for row in SampleReader::open(&file)? {
        let row = row?;
        let is_in_figures = DeliveryStatus::RECEIVED.iter().any(|status| row.status == status.as_str());
        let has_come = is_in_figures && (row.received_ns.is_some() || row.answered_ns.is_some());
        if let Some(rows) = missing.get_mut(&row.trial).filter(|_| has_come) {
            *rows -= 1;
            if *rows == 0 {
                missing.remove(&row.trial);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
    }
    let missing = missing.iter().map(|(trial, rows)| format!("{rows} of trial {trial}")).collect::<Vec<_>>().join(", ");
    Err(FileError::wrong(
        &file,
        format!(
            "lacks samples of finished payloads: {missing}; it was cut off or damaged; bring it back, or measure anew in another folder"
        ),
    ))
}

/// How many rows with times a trial has at least.
fn rows(trial: &Trial) -> u64 {
    if matches!(trial.load, OfferedLoad::Search { .. }) {
        return 0;
    }
    let streams = [Stream::all(), Stream::last()];
    let count = |figure: &Figure| {
        streams
            .iter()
            .filter_map(|stream| trial.get(stream, *figure, Statistic::N))
            .map(|found| found.value as u64)
            .max()
    };
    OF_ROWS.iter().filter_map(count).max().unwrap_or(0)
}

/// Leaves in the files of a sub-experiment what is of the payloads in `kept`; without any, its files are removed. `folder` is
/// that of the results, or of its round.
///
/// # Errors
/// If a file cannot be read, cut or removed, or a link is where a folder should be.
pub fn keep(folder: &Path, name: &str, kept: &[PayloadResult]) -> io::Result<()> {
    let last = last_trial(kept);
    let has =
        |payload: Option<u64>| payload.is_some_and(|payload| kept.iter().any(|cell| cell.payload_bytes == payload));
    let (samples, histograms) = (folder.join(SAMPLES), folder.join(HISTOGRAMS));
    let is_sample = |row: &str| number(row.split(',').nth(1)).is_some_and(|trial| trial <= u64::from(last));
    let is_measurement = |row: &str| has(number(row.split(',').nth(1)));
    let is_histogram = |line: &str| match tagged(line) {
        // Of all payloads of a recording, which is measured as a whole.
        Some("topic" | "recording") => !kept.is_empty(),
        payload => has(number(payload)),
    };
    if !has_folder(folder)? {
        return Ok(());
    }
    if has_folder(&samples)? {
        // Made anew of the CSV, which stays as long as the sub-experiment is not whole.
        remove(&samples.join(format!("{name}.parquet")))?;
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

/// What follows the kind of time in the tag of a line of a histogram log: the payload, or a word.
fn tagged(line: &str) -> Option<&str> {
    let tag = line.strip_prefix("Tag=")?.split(',').next()?;
    KINDS.into_iter().find_map(|kind| tag.strip_prefix(kind))?.split('_').next()
}

/// Files of attempts that were set aside, beside the files of this name.
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

/// Cuts a file before its first line, after the head, that is not whole or does not count; removes it if nothing counts.
fn cut(file: &Path, is_all: bool, counts: impl Fn(&str) -> bool) -> io::Result<()> {
    match file.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        _ if is_all => return remove(file),
        there => there.map(|_| ())?,
    }
    let opened = append(file)?;
    let mut reader = BufReader::new(&opened);
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
    opened.set_len(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_model::samples::HEADER;

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
    fn samples_that_a_finished_payload_lacks_are_named() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path();
        fs::create_dir(folder.join(SAMPLES)).unwrap();
        let mut cells = [cell(16, 1), cell(64, 2)];
        for cell in &mut cells {
            cell.trials[0].put_statistic(&Stream::all(), Figure::RttHalf, Statistic::N, 2.0, None);
        }
        let check = |rows: &str| {
            let text = HEADER.join(",") + "\n" + rows;
            fs::write(folder.join("samples/x.csv"), text).unwrap();
            check_samples(folder, "x", &cells).err().map(|error| error.to_string())
        };
        let row = |trial: u32| format!("1,{trial},16,all,1,ok,,5,,9\n");
        let lost = "1,1,16,all,1,lost,,5,,\n";
        let whole = row(1) + lost + &row(1) + &row(2) + &row(2);
        assert_eq!(check(&whole), None);
        assert_eq!(check(&(whole.clone() + &row(3) + "1,3,\0\0\0\n")), None, "what follows is cut off");
        for (rows, what) in [
            (row(1) + lost + &row(2) + &row(2), "lacks samples of finished payloads: 1 of trial 1;"),
            (row(1) + &row(1) + &row(2), ": 1 of trial 2;"),
            (row(1) + &row(1) + &row(2) + "1,2,16,all", ": 1 of trial 2;"),
            (row(1) + "\0\0\0\n" + &row(1), "line 3"),
            (String::new(), ": 2 of trial 1, 2 of trial 2;"),
        ] {
            let error = check(&rows).unwrap();
            assert!(error.contains("samples/x.csv") && error.contains(what), "{rows}: {error}");
        }
        fs::remove_file(folder.join("samples/x.csv")).unwrap();
        assert!(check_samples(folder, "x", &cells).unwrap_err().to_string().contains("x.csv"));
        assert!(check_samples(folder, "x", &[cell(16, 1)]).is_ok(), "of a figure without samples there are no rows");
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
            let mut counted = cell(16, 1);
            counted.trials[0].put_statistic(&Stream::all(), Figure::Call, Statistic::N, 1.0, None);
            if link.is_empty() || link == SAMPLES {
                let error = check_samples(&folder, "x", &[counted]).unwrap_err().to_string();
                assert!(error.contains("is a link"), "{link}: {error}");
            }
            for kept in [&[][..], &[cell(16, 1)]] {
                let error = keep(&folder, "x", kept).unwrap_err().to_string();
                assert!(error.contains("is a link") && error.contains(link), "{link}: {error}");
            }
        }
        assert!(files.iter().all(|name| fs::read_to_string(victim.join(name)).unwrap() == "precious"));
    }
}
