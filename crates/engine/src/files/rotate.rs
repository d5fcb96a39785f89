//! Removal of the samples of earlier rounds. Figures and histograms stay.

use super::is_folder;
use super::rest::{attempts_at, remove};
use std::fs;
use std::io;
use std::path::Path;
use tripmeter_eprosima::measurements::file_name;
use tripmeter_model::folder::ATTEMPTS;
use tripmeter_model::samples::SAMPLES;

/// Removes the samples of these sub-experiments from the folder of a round, and folders that are then empty.
pub fn remove_samples<'a>(folder: &Path, names: impl Iterator<Item = &'a str>) -> io::Result<()> {
    if !is_folder(folder) {
        return Ok(());
    }
    let [samples, attempts] = [SAMPLES, ATTEMPTS].map(|name| folder.join(name));
    let (has_samples, has_attempts) = (is_folder(&samples), is_folder(&attempts));
    for name in names {
        let csv = file_name(name);
        remove(&folder.join(&csv))?;
        for ending in ["csv", "parquet"].into_iter().filter(|_| has_samples) {
            remove(&samples.join(format!("{name}.{ending}")))?;
        }
        if has_attempts {
            attempts_at(folder, &csv)?.iter().try_for_each(|file| remove(file))?;
        }
    }
    for folder in [samples, attempts] {
        // The call fails, as intended, if the folder is not empty.
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_round_go_and_all_else_stays() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("round-01");
        for inside in ["samples", "histograms/attempts", "attempts", "logs"] {
            fs::create_dir_all(folder.join(inside)).unwrap();
        }
        let gone =
            ["samples/a.csv", "samples/b.parquet", "measurements_a.csv", "attempts/measurements_a_attempt-1.csv"];
        let stays =
            ["histograms/a.hlog", "histograms/attempts/a_attempt-1.hlog", "measurements_a_summary.csv", "logs/a.log"];
        gone.iter().chain(&stays).for_each(|name| fs::write(folder.join(name), "rows").unwrap());
        remove_samples(&folder, ["a", "b"].into_iter()).unwrap();
        assert!(gone.iter().all(|name| !folder.join(name).exists()));
        assert!(stays.iter().all(|name| folder.join(name).exists()));
        assert!(!folder.join("samples").exists() && !folder.join("attempts").exists());
        remove_samples(&folder, ["a", "b"].into_iter()).unwrap();
        remove_samples(&parent.path().join("round-02"), ["a"].into_iter()).unwrap();
    }

    #[test]
    fn nothing_is_removed_behind_a_link_or_of_others() {
        let parent = tempfile::tempdir().unwrap();
        let [round, theirs] = ["round-01", "theirs"].map(|name| parent.path().join(name));
        fs::create_dir_all(theirs.join("samples")).unwrap();
        fs::write(theirs.join("samples/a.csv"), "rows").unwrap();
        std::os::unix::fs::symlink(&theirs, &round).unwrap();
        remove_samples(&round, ["a"].into_iter()).unwrap();
        fs::remove_file(&round).unwrap();
        fs::create_dir_all(&round).unwrap();
        std::os::unix::fs::symlink(theirs.join("samples"), round.join("samples")).unwrap();
        remove_samples(&round, ["a"].into_iter()).unwrap();
        assert!(theirs.join("samples/a.csv").exists());
        remove_samples(&theirs, ["b"].into_iter()).unwrap();
        assert!(theirs.join("samples/a.csv").exists(), "it is of another sub-experiment");
    }
}
