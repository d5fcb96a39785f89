//! Pushes and queries at once.

use crate::common::*;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

/// The rows that there are, and those that the table of runs says that there are.
const ROWS: &str = "SELECT (SELECT count(*) FROM samples) AS samples, (SELECT coalesce(sum(samples), 0) FROM runs) AS of_runs, \
     (SELECT count(*) FROM metrics) AS metrics, (SELECT coalesce(sum(metrics), 0) FROM runs) AS metrics_of_runs, \
     (SELECT count(*) FROM runs) AS runs, (SELECT count(DISTINCT run) FROM runs) AS names";

#[test]
fn pushes_at_once_give_each_run_once_and_queries_see_whole_runs() {
    let (_server, endpoint) = store();
    let folder = tempfile::tempdir().unwrap();
    let days = folder.path().join("days").display().to_string();
    let in_folder = folder.path().join("archive").display().to_string();
    history_of(&measured().join("pings"), Path::new(&days));
    for (dest, endpoint) in [(in_folder.as_str(), None), ("s3://lab/at/once", Some(endpoint.as_str()))] {
        let pushes = ["lab", "lab", "lab2"].map(|machine| {
            let mut push = archive(&["push", &days, dest, "--machine", machine], endpoint);
            Server(push.stdout(Stdio::null()).spawn().unwrap())
        });
        let marker =
            || archive(&["query", dest, "SELECT 1"], endpoint).output().unwrap().status.success().then_some(());
        wait("archive", marker);
        let mut queries = 0;
        for mut push in pushes {
            while push.0.try_wait().unwrap().is_none() {
                let row = rows(dest, ROWS, endpoint).remove(0);
                assert!(row[0] == row[1] && row[2] == row[3] && row[4] == row[5], "{row:?}");
                queries += 1;
            }
            assert!(push.0.wait().unwrap().success());
        }
        assert!(queries > 0, "no query ran beside the pushes");
        let row = rows(dest, ROWS, endpoint).remove(0);
        assert_eq!(row[..2], ["288000", "288000"]);
        assert_eq!((row[2] == row[3], row[4].as_str(), row[5].as_str()), (true, "12", "12"), "{row:?}");
        let told = good(&["push", &days, dest, "--machine", "lab2"], endpoint);
        assert_eq!(told.matches("is already archived").count(), 12, "{told}");
    }
}

#[test]
fn equal_results_become_equal_files() {
    let folder = tempfile::tempdir().unwrap();
    let source = measured().display().to_string();
    let [first, second] = ["a", "b"].map(|name| {
        let dest = folder.path().join(name);
        good(&["push", &source, &dest.display().to_string(), "--machine", "lab"], None);
        files(&dest)
            .into_iter()
            .map(|(path, (bytes, _))| (path.strip_prefix(&dest).unwrap().to_owned(), bytes))
            .collect::<Vec<_>>()
    });
    assert!(first == second && first.len() > 8);
}

#[test]
fn what_a_killed_push_left_is_removed_a_day_later() {
    let folder = tempfile::tempdir().unwrap();
    let dest = folder.path().join("archive");
    let source = measured().join("pings").display().to_string();
    good(&["push", &source, &dest.display().to_string(), "--machine", "lab"], None);
    // As a push that was killed before it wrote its row.
    let runs = files(&dest.join("runs"));
    runs.keys().for_each(|file| fs::remove_file(file).unwrap());
    let left = files(&dest.join("samples"));
    let mut names = left.keys();
    let (old, new) = (names.next().unwrap(), names.next().unwrap());
    let before = SystemTime::now() - Duration::from_secs(25 * 60 * 60);
    fs::File::options().write(true).open(old).unwrap().set_modified(before).unwrap();
    good(&["push", &measured().join("messages").display().to_string(), &dest.display().to_string()], None);
    assert!(!old.exists() && new.exists());
    assert_eq!(cell(&dest.display().to_string(), "SELECT count(*) FROM samples", None), "2000");
    good(&["push", &source, &dest.display().to_string(), "--machine", "lab"], None);
    assert_eq!(files(&dest.join("samples")).len(), left.len() + 1);
    assert_eq!(cell(&dest.display().to_string(), "SELECT count(*) FROM samples", None), "26000");
}
