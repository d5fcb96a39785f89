//! Page of a run, and `report`.

use crate::common::{Finished, Tripmeter, alone, folder, repository};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;
use tripmeter_model::exit;

fn run(place: &Path, words: &str) -> Finished {
    Tripmeter::new(words.split(' ')).at(place).run()
}

/// Page written by a run, which must be complete and load nothing.
fn page(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.starts_with("<!doctype html>") && text.ends_with("</html>\n"), "{}", file.display());
    assert!(text.contains("default-src 'none'"), "{}", file.display());
    let (scripts, allowed) = (text.matches("<script>").count(), text.matches("'sha256-").count());
    assert!((1..=2).contains(&scripts) && scripts == allowed, "{}: {scripts} of {allowed}", file.display());
    text
}

/// Committed results, copied to a separate folder.
fn kept(name: &str) -> TempDir {
    let place = folder();
    fs::create_dir(place.path().join(name)).unwrap();
    for file in ["manifest.json", "trials.jsonl"] {
        let from = repository().join("docs/results").join(name).join(file);
        fs::copy(from, place.path().join(name).join(file)).unwrap();
    }
    place
}

#[test]
fn a_run_ends_with_its_page_unless_it_is_not_wanted() {
    let _alone = alone();
    let place = folder();
    let words = "ping shm uds/stream -n 100 --payloads 1k,4k --rounds 2 -o one";
    let done = run(place.path(), words).with(exit::GOOD).says(&["report: /", "/one/report.html"]);
    assert_eq!(done.stderr.lines().filter(|line| line.starts_with("report: ")).count(), 1, "{}", done.stderr);
    let text = page(&place.path().join("one/report.html"));
    assert!(text.contains("uds/stream") && text.contains("<figure class=\"chart\">"));
    // A second page is identical: it does not depend on the time.
    let done = run(place.path(), "report one").with(exit::GOOD);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("one/report.html\n", ""));
    assert_eq!(page(&place.path().join("one/report.html")), text);
    let done = run(place.path(), "ping -q shm -n 100 --payloads 1k --no-report -o two").with(exit::GOOD);
    assert!(!done.stderr.contains("report") && !place.path().join("two/report.html").exists(), "{}", done.stderr);
    let done = run(place.path(), "ping -q shm -n 100 --payloads 1k,64k -o three").with(exit::GOOD);
    assert!(!done.stderr.contains("report") && place.path().join("three/report.html").exists(), "{}", done.stderr);
    // Memory copies are measured up to the largest payload.
    let copies = |name: &str| {
        let text = fs::read(place.path().join(name).join("manifest.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&text).unwrap();
        manifest["environment"]["memory_copy"].as_array().unwrap().iter().map(|one| one["bytes"].as_u64()).collect()
    };
    assert_eq!((copies("one"), copies("three")), (Vec::new(), vec![Some(65_536)]));
    let judged = run(place.path(), "ab shm shm -n 100 --payloads 1k --rounds 6 -o four").with(exit::GOOD);
    page(&place.path().join("four/report.html"));
    judged.says(&["report: /", "/four/report.html"]);
    // Commands that judge or list results ignore the page.
    fs::copy(place.path().join("one/report.html"), place.path().join("report.html")).unwrap();
    for words in ["history .", "compare one two", "eprosima process one"] {
        let done = run(place.path(), words);
        assert!(!done.stderr.contains("report.html"), "{words}: {}", done.stderr);
    }
}

#[test]
fn several_folders_need_a_file_and_links_are_replaced() {
    let place = kept("quick");
    fs::create_dir(place.path().join("copy")).unwrap();
    for file in ["manifest.json", "trials.jsonl"] {
        fs::copy(place.path().join("quick").join(file), place.path().join("copy").join(file)).unwrap();
    }
    run(place.path(), "report quick copy").with(exit::USAGE).one_line(&["2 folders", "-o FILE"]);
    run(place.path(), "report missing").with(exit::NO_INPUT).one_line(&["missing"]);
    run(place.path(), "report quick -o none/r.html").with(exit::CANNOT_CREATE).one_line(&["none/r.html"]);
    let done = run(place.path(), "report quick copy -o both.html").with(exit::GOOD);
    assert_eq!(done.stdout, "both.html\n");
    let text = page(&place.path().join("both.html"));
    assert!(text.contains("<title>quick · copy</title>"), "{}", &text[..1000]);
    let private = place.path().join("private");
    fs::write(&private, "private").unwrap();
    symlink(&private, place.path().join("quick/report.html")).unwrap();
    run(place.path(), "report quick").with(exit::GOOD);
    page(&place.path().join("quick/report.html"));
    assert_eq!(fs::read_to_string(&private).unwrap(), "private");
    assert!(run(place.path(), "report quick -o /dev/stdout").with(exit::GOOD).stdout.contains("</html>"));
}

#[test]
fn a_folder_is_named_once_and_a_failure_names_the_file_asked_for() {
    let place = kept("quick");
    for twice in ["report quick quick", "report quick ./quick/ -o r.html"] {
        run(place.path(), twice).with(exit::USAGE).one_line(&["quick", "is given twice"]);
    }
    let done = run(place.path(), "report quick -o none/r.html").with(exit::CANNOT_CREATE);
    assert!(done.stderr.contains("'none/r.html'") && !done.stderr.contains(".tripmeter-"), "{}", done.stderr);
    let done = run(place.path(), "report quick -o -").with(exit::GOOD);
    assert!(done.stdout.starts_with("<!doctype html>") && done.stdout.ends_with("</html>\n"));
    assert!(!place.path().join("-").exists());
    // Folders with equal names are shown with their parents.
    for name in ["x", "y"] {
        fs::create_dir_all(place.path().join(name).join("quick")).unwrap();
        for file in ["manifest.json", "trials.jsonl"] {
            fs::copy(place.path().join("quick").join(file), place.path().join(name).join("quick").join(file)).unwrap();
        }
    }
    run(place.path(), "report x/quick y/quick -o both.html").with(exit::GOOD);
    assert!(page(&place.path().join("both.html")).contains("<title>x/quick · y/quick</title>"));
}

#[test]
fn limits_are_shown_with_their_verdicts() {
    let place = kept("quick");
    run(place.path(), "limits quick -q -o limits.csv").with(exit::GOOD);
    run(place.path(), "report quick --limits limits.csv").with(exit::GOOD);
    let text = page(&place.path().join("quick/report.html"));
    assert!(text.contains("Are the limits met?") && text.contains(", all of 9 sub-experiments passed."));
    let limits = fs::read_to_string(place.path().join("limits.csv")).unwrap();
    let tight: String = limits
        .lines()
        .map(|line| {
            let is_it = line.starts_with("mq_queue_poll,1024,") && line.contains(",p50,");
            if is_it { format!("{},1\n", line.rsplit_once(',').unwrap().0) } else { format!("{line}\n") }
        })
        .collect();
    fs::write(place.path().join("tight.csv"), tight).unwrap();
    run(place.path(), "report quick --limits tight.csv").with(exit::GOOD);
    let text = page(&place.path().join("quick/report.html"));
    assert!(
        text.contains("failed: mq_queue_poll. The worst is rtt_half_ns.p50 of mq_queue_poll at 1k, "),
        "{}",
        text.split("<h2").nth(1).unwrap_or_default()
    );
    run(place.path(), "report quick --limits none.csv").with(exit::NO_INPUT).one_line(&["none.csv"]);
    let other = limits
        .replace("\nmq_queue_poll,", "\nother,")
        .lines()
        .filter(|line| line.starts_with("sub_") || line.starts_with("other,"))
        .map(|line| format!("{line}\n"))
        .collect::<String>();
    fs::write(place.path().join("other.csv"), other).unwrap();
    run(place.path(), "report quick --limits other.csv").with(exit::DATA).one_line(&["nothing to check", "other.csv"]);
}

/// The page of an `ab` judges the question asked, with the verdicts of `ab.json`.
#[test]
fn the_page_of_an_ab_has_the_verdicts_of_ab_json() {
    let _alone = alone();
    let place = folder();
    let words = "ab -q uds shm -n 100 --payloads 1k,4k --rounds 6 --figures rtt_half_ns.min --margin 7% -o one";
    run(place.path(), words).with(exit::GOOD);
    let json: serde_json::Value = serde_json::from_slice(&fs::read(place.path().join("one/ab.json")).unwrap()).unwrap();
    let counts = &json["counts"];
    let told = |text: &str| {
        assert!(text.contains("ignoring changes up to 7 %") && text.contains("rtt_half_ns.min"), "{counts}");
        for (kind, words) in [("improved", "faster in "), ("inconclusive", "it is undecided which is faster in ")] {
            if let Some(count) = counts[kind].as_u64().filter(|count| *count > 0) {
                assert!(text.contains(&format!("{words}{count} of 2 figures")), "{kind}: {counts}");
            }
        }
    };
    let of_run = page(&place.path().join("one/report.html"));
    told(&of_run);
    run(place.path(), "report one").with(exit::GOOD);
    assert_eq!(page(&place.path().join("one/report.html")), of_run);
    fs::write(place.path().join("one/ab.json"), "{").unwrap();
    let done = run(place.path(), "report one").with(exit::GOOD);
    assert!(done.stderr.contains("ab.json") && done.stderr.contains("the usual figures are judged"), "{}", done.stderr);
}

/// Every kind of results has a page of limited size.
#[test]
fn all_results_of_the_documents_have_a_page() {
    for name in ["quick", "iceperf", "ecal", "fastrtps", "aimrt-channel", "aimrt-rpc", "aimrt-log"] {
        let place = kept(name);
        run(place.path(), &format!("report {name}")).with(exit::GOOD);
        let text = page(&place.path().join(name).join("report.html"));
        assert!(text.len() < 3_000_000, "{name}: {} bytes", text.len());
        assert!(text.contains("<h2") && text.contains("<caption"), "{name}");
    }
}
