//! `tripmeter eprosima process` on the running program: summaries, plots, and invalid files.

use crate::common::{Tripmeter, folder};
use std::fs;
use std::path::{Path, PathBuf};
use tripmeter_model::exit;

const HEADER: &str = "Sample,Payload [Bytes],Latency [us]\n";
const SUMMARY_HEADER: &str = "Bytes,Samples,Max,Min,Mean,Median,Stdev,Mean jitter,Max jitter,90%,99%,99.99%\n";
const ONE: &str = "16,1,2.500,2.500,2.500,2.500,0.000,nan,nan,2.500,2.500,2.500\n";

fn golden(name: &str) -> PathBuf {
    crate::common::repository().join("crates/tripmeter/tests/golden/process").join(name)
}

fn process(folder: &Path, arguments: &str) -> Tripmeter {
    Tripmeter::new(["eprosima", "process"].into_iter().chain(arguments.split(' '))).at(folder)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            names.extend(self::names(&path).into_iter().map(|inner| format!("{name}/{inner}")));
        } else {
            names.push(name);
        }
    }
    names.sort();
    names
}

#[test]
fn a_summary_is_that_of_numpy_to_the_byte() {
    let place = folder();
    fs::copy(golden("raw.csv"), place.path().join("raw.csv")).unwrap();
    process(place.path(), "--raw_csv raw.csv --output_csv x.csv --plots_directory p --log").run().with(exit::GOOD);
    let read = |path: PathBuf| fs::read_to_string(path).unwrap();
    assert_eq!(read(place.path().join("x.csv")), read(golden("summary.csv")));
    let drawn =
        ["16", "32", "64", "1048576"].map(|bytes| [format!("histogram_{bytes}.png"), format!("series_{bytes}.png")]);
    let mut drawn = drawn.concat();
    drawn.sort();
    assert_eq!(names(&place.path().join("p")), drawn);
}

#[test]
fn an_experiment_is_processed_with_its_rounds_and_what_is_wrong_in_it_is_reported() {
    let place = folder();
    fs::create_dir(place.path().join("round-01")).unwrap();
    let write = |name: &str, rows: &str| fs::write(place.path().join(name), format!("{HEADER}{rows}")).unwrap();
    write("measurements_a.csv", "1,16,2.5\n");
    write("measurements_b.csv", "");
    write("measurements_c.csv", "1,16,2.5\n2,16,soon\n");
    write("measurements_b_summary.csv", "old");
    write("round-01/measurements_a.csv", "1,16,2.5\n");
    write("other.csv", "");
    let finished = process(place.path(), ". --svg -p plots").run().with(exit::DATA);
    for part in ["measurements_b.csv' has no samples", "measurements_c.csv' line 3", "'soon'", "1 of 4 files"] {
        assert!(finished.stderr.contains(part), "{}", finished.stderr);
    }
    let summary = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    assert_eq!(summary("measurements_a_summary.csv"), format!("{SUMMARY_HEADER}{ONE}"));
    assert_eq!(summary("round-01/measurements_a_summary.csv"), format!("{SUMMARY_HEADER}{ONE}"));
    assert_eq!(summary("measurements_b_summary.csv"), SUMMARY_HEADER);
    let expected = ["measurements_a/", "round-01/measurements_a/"]
        .map(|folder| ["histogram", "series"].map(|kind| format!("{folder}{kind}_16.svg")));
    assert_eq!(names(&place.path().join("plots")), expected.concat());
    assert!(!names(place.path()).iter().any(|name| name.contains("_c_summary") || name.contains(".tripmeter")));
}

#[test]
fn an_error_leaves_what_was_there() {
    let place = folder();
    let write = |name: &str, text: &str| fs::write(place.path().join(name), text).unwrap();
    write("x.csv", "old");
    for (text, code, parts) in [
        ("", exit::DATA, ["'raw.csv'", "the file is empty"]),
        ("a,b\n", exit::DATA, ["'raw.csv' line 1", "no column 'Payload [Bytes]'"]),
        (&format!("{HEADER}1,16,1.5\n2,16,NaN\n"), exit::DATA, ["'raw.csv' line 3", "column 'Latency [us]': 'NaN'"]),
        (&format!("{HEADER}1,16,1.5\n2,16,1."), exit::DATA, ["'raw.csv' line 3", "no line break"]),
    ] {
        write("raw.csv", text);
        process(place.path(), "-c raw.csv -o x.csv").run().with(code).one_line(&parts);
        assert_eq!(names(place.path()), ["raw.csv", "x.csv"]);
        assert_eq!(fs::read_to_string(place.path().join("x.csv")).unwrap(), "old");
    }
    write("raw.csv", &format!("{HEADER}1,16,2.5\n"));
    let refused = |arguments: &str, code: u8, parts: &[&str]| {
        process(place.path(), arguments).run().with(code).one_line(parts);
    };
    refused("-c . -o x.csv", exit::NO_INPUT, &["'.'", "folder"]);
    refused("-c none.csv -o x.csv", exit::NO_INPUT, &["'none.csv'"]);
    refused("-c raw.csv -o no/x.csv", exit::CANNOT_CREATE, &["'no/x.csv' cannot be written"]);
    refused("-c raw.csv -o y.csv -p x.csv", exit::CANNOT_CREATE, &["'x.csv' cannot be created"]);
    refused("-c raw.csv -o y.csv -p x.csv/plots", exit::CANNOT_CREATE, &["'x.csv/plots' cannot be created"]);
    assert_eq!(names(place.path()), ["raw.csv", "x.csv"]);
    refused("-c raw.csv -o ./raw.csv", exit::USAGE, &["overwrite the samples", "-o"]);
    refused("-c raw.csv", exit::USAGE, &["--output_csv"]);
    refused(". -c raw.csv -o x.csv", exit::USAGE, &["cannot be used with"]);
    refused(".", exit::NO_INPUT, &["'.' has no measurements_*.csv"]);
    refused("none", exit::NO_INPUT, &["'none'"]);
}

#[test]
fn stray_files_are_named_in_one_note_with_and_without_plots() {
    let place = folder();
    fs::write(place.path().join("measurements_a.csv"), format!("{HEADER}1,16,2.5\n")).unwrap();
    ["notes.txt", "other.csv"].iter().for_each(|name| fs::write(place.path().join(name), "").unwrap());
    for arguments in [".", ". -p plots"] {
        let done = process(place.path(), arguments).run().with(exit::GOOD);
        assert_eq!(done.stderr, "note: ignored in '.': 'notes.txt', 'other.csv'\n");
    }
}
