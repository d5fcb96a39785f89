//! Checks that files contain all rows of the finished payloads: a power failure may lose lines.

use super::rest::{histogram_of, measurement_of, whole_bytes};
use super::tag;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use tripmeter_eprosima::measurements::file_name;
use tripmeter_model::expected::{ExpectedRows, lacking, round_trips};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::file::{FileError, open};
use tripmeter_model::folder::HISTOGRAMS;
use tripmeter_model::manifest::PayloadResult;
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::samples::{SAMPLES, SampleReader};
use tripmeter_model::trial::Trial;

const PARQUET_MAGIC: [u8; 4] = *b"PAR1";

/// Checks that `samples/<name>.csv` has all rows that the figures need, undamaged.
pub fn check_samples(folder: &Path, name: &str, round: u32, kept: &[PayloadResult]) -> Result<(), FileError> {
    let mut expected = ExpectedRows::from_cells(round, kept);
    if expected.are_there() {
        return Ok(());
    }
    let file = folder.join(SAMPLES).join(format!("{name}.csv"));
    if is_there(&[folder, &folder.join(SAMPLES), &file])? {
        for row in SampleReader::open(&file)? {
            expected.add(&row?);
            if expected.are_there() {
                return Ok(());
            }
        }
    }
    expected.check(&file)
}

/// True if the samples of a complete sub-experiment exist as Parquet. Only the first and last bytes are checked. A
/// truncated file is an error, and so is a link in the path.
pub fn has_parquet(folder: &Path, name: &str) -> Result<bool, FileError> {
    let file = folder.join(SAMPLES).join(format!("{name}.parquet"));
    if !is_there(&[folder, &folder.join(SAMPLES), &file])? {
        return Ok(false);
    }
    let (mut opened, mut ends) = (open(&file)?, [[0; 4]; 2]);
    let mut read = || {
        opened.read_exact(&mut ends[0])?;
        opened.seek(SeekFrom::End(-4))?;
        opened.read_exact(&mut ends[1])
    };
    if read().is_err() || ends != [PARQUET_MAGIC; 2] {
        return Err(FileError::wrong(&file, "is not a whole Parquet file; it was cut off or damaged; restore it"));
    }
    Ok(true)
}

/// Checks that eProsima's file has as many rows of each payload as its figures need.
pub fn check_measurements(folder: &Path, name: &str, kept: &[PayloadResult]) -> Result<(), FileError> {
    let mut missing: BTreeMap<u64, u64> = kept.iter().map(|cell| (cell.payload_bytes, round_trips(cell))).collect();
    missing.retain(|_, rows| *rows > 0);
    if missing.is_empty() {
        return Ok(());
    }
    let file = folder.join(file_name(name));
    if is_there(&[folder, &file])? {
        each_line(&file, |row| {
            let payload = measurement_of(row, kept);
            if let Some(rows) = payload.and_then(|payload| missing.get_mut(&payload)) {
                *rows = rows.saturating_sub(1);
            }
            payload.is_some()
        })?;
    }
    let missing = missing.iter().filter(|(_, rows)| **rows > 0);
    let missing: Vec<String> = missing.map(|(payload, rows)| format!("{rows} of {payload} bytes")).collect();
    if missing.is_empty() { Ok(()) } else { Err(lacking(&file, "round trips", &missing)) }
}

/// Checks that each figure has its histogram.
pub fn check_histograms(folder: &Path, name: &str, kept: &[PayloadResult]) -> Result<(), FileError> {
    let tags = kept.iter().flat_map(|cell| cell.trials.iter().flat_map(|trial| tags_of(cell.payload_bytes, trial)));
    let mut missing: BTreeSet<String> = tags.collect();
    if missing.is_empty() {
        return Ok(());
    }
    let file = folder.join(HISTOGRAMS).join(format!("{name}.hlog"));
    if is_there(&[folder, &folder.join(HISTOGRAMS), &file])? {
        each_line(&file, |line| {
            let tag = histogram_of(line, kept);
            tag.is_some_and(|tag| {
                missing.remove(tag);
                true
            })
        })?;
    }
    let missing: Vec<String> = missing.into_iter().collect();
    if missing.is_empty() { Ok(()) } else { Err(lacking(&file, "histograms", &missing)) }
}

fn tags_of(payload_bytes: u64, trial: &Trial) -> Vec<String> {
    let (all, last) = (Stream::all(), Stream::last());
    let has = |stream: &Stream, figure: Figure| trial.get(stream, figure, Statistic::N).is_some();
    let of_load = match trial.load {
        OfferedLoad::Recorded => "recording".to_owned(),
        load => tag(payload_bytes, load),
    };
    let is_trips = has(&all, Figure::RttHalf);
    let wanted = [
        (is_trips || has(&all, Figure::Call), format!("payload_{payload_bytes}")),
        (has(&all, Figure::Response) || has(&all, Figure::ResponseRtt), format!("response_{of_load}")),
        (has(&all, Figure::Service) || has(&all, Figure::ServiceRtt), format!("service_{of_load}")),
        (is_trips && has(&all, Figure::OneWay), format!("one_way_{payload_bytes}")),
        (is_trips && has(&last, Figure::OneWay), format!("one_way_{payload_bytes}_last")),
    ];
    wanted.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, tag)| tag).collect()
}

/// Reads each line after the head, up to the first that is incomplete or fails `counts`.
fn each_line(file: &Path, counts: impl FnMut(&str) -> bool) -> Result<(), FileError> {
    let opened: File = open(file)?;
    whole_bytes(&opened, counts).map(|_| ()).map_err(|error| FileError::reading(file, &error))
}

/// True if all of these paths exist. A link is an error, as none is followed.
fn is_there(way: &[&Path]) -> Result<bool, FileError> {
    for inside in way {
        match inside.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(FileError::reading(inside, &error)),
            Ok(found) if found.is_symlink() => {
                return Err(FileError::wrong(inside, "is a link; links are not followed"));
            }
            Ok(_) => {}
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tripmeter_model::samples::HEADER;

    fn cell(payload_bytes: u64, number: u32) -> PayloadResult {
        let mut trial = Trial::new(OfferedLoad::Closed);
        trial.number = number;
        trial.put_statistic(&Stream::all(), Figure::RttHalf, Statistic::N, 2.0, None);
        PayloadResult { payload_bytes, trials: vec![trial], ..PayloadResult::default() }
    }

    #[test]
    fn samples_that_a_finished_payload_lacks_are_named() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path();
        fs::create_dir(folder.join(SAMPLES)).unwrap();
        let cells = [cell(16, 1), cell(64, 2)];
        let check = |rows: &str| {
            let text = HEADER.join(",") + "\n" + rows;
            fs::write(folder.join("samples/x.csv"), text).unwrap();
            check_samples(folder, "x", 1, &cells).err().map(|error| error.to_string())
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
        assert!(check_samples(folder, "x", 1, &cells).unwrap_err().to_string().contains("x.csv"));
        let without = PayloadResult { trials: vec![Trial::new(OfferedLoad::Closed)], ..cell(16, 1) };
        assert!(check_samples(folder, "x", 1, &[without]).is_ok(), "of a figure without samples there are no rows");
    }

    #[test]
    fn round_trips_and_histograms_that_a_finished_payload_lacks_are_named() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path();
        fs::create_dir(folder.join(HISTOGRAMS)).unwrap();
        let cells = [cell(16, 1), cell(64, 2)];
        let rows = |rows: &str| {
            fs::write(folder.join("measurements_x.csv"), format!("Sample,Payload [Bytes],Latency [us]\n{rows}"))
                .unwrap();
            check_measurements(folder, "x", &cells).err().map(|error| error.to_string())
        };
        let whole = "1,16,1.000\n2,16,1.000\n3,64,1.000\n4,64,1.000\n";
        assert_eq!(rows(whole), None);
        assert_eq!(rows(&format!("{whole}5,256,1.000\n6,25")), None, "what follows is cut off");
        for (text, what) in [
            ("1,16,1.000\n2,16,1.000\n3,64,1.000\n", "round trips of finished payloads: 1 of 64 bytes; it was cut off"),
            ("1,16,1.000\n2,16,1.000\n3,64,1.000\n4,64,1", ": 1 of 64 bytes;"),
            ("1,16,1.000\n\0\0\n3,64,1.000\n4,64,1.000\n", ": 1 of 16 bytes, 2 of 64 bytes;"),
            ("", ": 2 of 16 bytes, 2 of 64 bytes;"),
        ] {
            let error = rows(text).unwrap();
            assert!(error.contains("measurements_x.csv") && error.contains(what), "{text}: {error}");
        }
        fs::remove_file(folder.join("measurements_x.csv")).unwrap();
        let error = check_measurements(folder, "x", &cells).unwrap_err();
        assert!(error.exit_code() == 65 && error.to_string().contains("it is not there"), "{error}");

        let lines = |lines: &str| {
            fs::write(folder.join("histograms/x.hlog"), format!("#[Histogram log]\n{lines}")).unwrap();
            check_histograms(folder, "x", &cells).err().map(|error| error.to_string())
        };
        assert_eq!(lines("Tag=payload_16,0,1\nTag=payload_64,0,1\nTag=payload_256,0"), None);
        let error = lines("Tag=payload_16,0,1\n").unwrap();
        assert!(error.contains("x.hlog") && error.contains("histograms of finished payloads: payload_64;"), "{error}");
        fs::remove_file(folder.join("histograms/x.hlog")).unwrap();
        assert!(check_histograms(folder, "x", &cells).unwrap_err().to_string().contains("payload_16, payload_64;"));
    }

    #[test]
    fn parquet_that_was_cut_off_is_none() {
        let parent = tempfile::tempdir().unwrap();
        let samples = parent.path().join(SAMPLES);
        fs::create_dir(&samples).unwrap();
        assert!(!has_parquet(parent.path(), "x").unwrap());
        fs::write(samples.join("x.parquet"), "PAR1 rows PAR1").unwrap();
        assert!(has_parquet(parent.path(), "x").unwrap());
        for cut in ["PAR1 rows PAR", "PA", ""] {
            fs::write(samples.join("x.parquet"), cut).unwrap();
            assert!(has_parquet(parent.path(), "x").unwrap_err().to_string().contains("x.parquet"), "{cut}");
        }
    }

    #[test]
    fn nothing_is_checked_behind_a_link() {
        let parent = tempfile::tempdir().unwrap();
        let [victim, folder] = ["victim", "folder"].map(|name| parent.path().join(name));
        fs::create_dir_all(&victim).unwrap();
        fs::create_dir_all(&folder).unwrap();
        let link = |at: &str| std::os::unix::fs::symlink(&victim, folder.join(at)).unwrap();
        [SAMPLES, HISTOGRAMS, "measurements_x.csv"].into_iter().for_each(link);
        let cells = [cell(16, 1)];
        for found in [
            check_samples(&folder, "x", 1, &cells),
            has_parquet(&folder, "x").map(|_| ()),
            check_measurements(&folder, "x", &cells),
            check_histograms(&folder, "x", &cells),
        ] {
            let error = found.unwrap_err().to_string();
            assert!(error.contains("is a link"), "{error}");
        }
    }
}
