//! `compare-subexperiments`: names, formats and refusals. Unit tests of the plots check their contents.

use crate::common::{Finished, Tripmeter, folder};
use std::fs;
use std::path::{Path, PathBuf};

const HEADER: &str = "Bytes,Samples,Max,Min,Mean,Median,Stdev,Mean jitter,Max jitter,90%,99%,99.99%\n";
const ROWS: &str = "16,10000,12.577,0.590,0.767,0.610,0.502,0.018,10.968,1.608,2.962,9.983\n\
    32,9998,12.225,1.152,1.500,1.497,0.279,0.027,10.757,1.521,2.785,8.335\n";

fn compare(flags: &[&str], plots: &Path, files: &[&Path]) -> Finished {
    let files = files.iter().map(|file| file.display().to_string());
    let mut arguments =
        vec!["eprosima".to_owned(), "compare-subexperiments".to_owned(), "-p".to_owned(), plots.display().to_string()];
    arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
    arguments.push("-e".to_owned());
    Tripmeter::new(arguments.into_iter().chain(files)).run()
}

fn summary(folder: &Path, name: &str, rows: &str) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let file = folder.join(format!("measurements_{name}_summary.csv"));
    fs::write(&file, format!("{HEADER}{rows}")).unwrap();
    file
}

#[test]
fn four_plots_are_written_and_named() {
    let place = folder();
    let (one, two) = (summary(place.path(), "one", ROWS), summary(place.path(), "two_tcp", ROWS));
    let plots = place.path().join("new/plots");
    for (flags, extension, magic) in [(&[][..], "png", &b"\x89PNG\r\n"[..]), (&["--svg", "--log"], "svg", b"<svg")] {
        let done = compare(flags, &plots, &[&one, &two]).with(0);
        let expected = ["min", "median", "max", "99"].map(|word| plots.join(format!("comparison_{word}.{extension}")));
        assert_eq!(done.stdout.lines().map(PathBuf::from).collect::<Vec<_>>(), expected);
        assert!(expected.iter().all(|file| fs::read(file).unwrap().starts_with(magic)));
    }
    let svg = fs::read_to_string(plots.join("comparison_max.svg")).unwrap();
    for part in ["two_tcp", "Latency, rtt_half [us]", "Payload [bytes]", "n = 9998 to 10,000 per figure"] {
        assert!(svg.contains(part), "no '{part}' in {svg}");
    }
    assert_eq!(fs::read_dir(&plots).unwrap().count(), 8, "something else was left there");
}

#[test]
fn a_summary_without_rows_is_left_out_with_a_note() {
    let place = folder();
    let (one, empty) = (summary(place.path(), "one", ROWS), summary(place.path(), "empty", ""));
    compare(&["--svg"], place.path(), &[&one, &empty]).with(0).says(&["measurements_empty_summary.csv' has no rows"]);
    compare(&[], place.path(), &[&empty]).with(65).says(&["nothing to plot"]);
}

#[test]
fn wrong_files_are_refused_with_their_class() {
    let place = folder();
    let one = summary(place.path(), "one", ROWS);
    let wrong = summary(place.path(), "wrong", "16,fast,1,1,1,1,1,1,1,1,1,1\n");
    compare(&[], place.path(), &[&one, &wrong]).with(65).one_line(&["line 2", "'fast'"]);
    compare(&[], place.path(), &[&place.path().join("none.csv")]).with(66).one_line(&["none.csv"]);
    compare(&[], place.path(), &[place.path()]).with(66).one_line(&["folder"]);
    compare(&[], &one, &[&one]).with(73).one_line(&["cannot be created"]);
}

#[test]
fn samples_of_a_results_folder_are_drawn_by_payload() {
    let _alone = crate::common::alone();
    let place = folder();
    let output = place.path().join("run").display().to_string();
    let words = [
        "ping",
        "-q",
        "uds",
        "--no-floor",
        "--payloads",
        "64,128",
        "-n",
        "50",
        "--rounds",
        "2",
        "--wait",
        "block",
        "-o",
        &output,
    ];
    Tripmeter::new(words).run().with(0);
    let printed = Tripmeter::new(["export", "--format", "svg", &output]).run().with(0).stdout;
    let mut wanted = Vec::new();
    for round in ["round-01", "round-02"] {
        for payload in [64, 128] {
            for kind in ["histogram", "series"] {
                wanted.push(format!("{output}/plots/{round}/uds_datagram_block/{kind}_{payload}.svg"));
            }
        }
    }
    for chart in
        ["by_payload", "percentiles_64", "percentiles_128", "rounds_64", "rounds_128", "time_uds_datagram_block_64"]
    {
        wanted.push(format!("{output}/plots/rtt_half_{chart}.svg"));
    }
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(lines, wanted);
    let text = fs::read_to_string(format!("{output}/plots/rtt_half_time_uds_datagram_block_64.svg")).unwrap();
    assert!(text.contains("Was uds/datagram steady at 64?"), "{text}");
    let text = fs::read_to_string(&wanted[0]).unwrap();
    assert!(text.contains("<svg"), "{text}");
    let samples = Path::new(&output).join("round-01/samples/uds_datagram_block.csv");
    let text = fs::read_to_string(&samples).unwrap();
    fs::write(&samples, text.replacen("\n1,", "\nx,", 1)).unwrap();
    Tripmeter::new(["export", "--format", "svg", &output]).run().with(65).one_line(&[
        "uds_datagram_block.csv",
        "line 2",
        "'round'",
    ]);
    let svg = || Tripmeter::new(["export", "--format", "svg", &output]).run();
    fs::remove_file(&samples).unwrap();
    svg().with(65).one_line(&["uds_datagram_block.csv", "it is not there"]);
    assert!(std::process::Command::new("mkfifo").arg(&samples).status().unwrap().success());
    svg().with(66).one_line(&["uds_datagram_block.csv", "a pipe"]);
    Tripmeter::new(["report", &output]).run().with(66).one_line(&["uds_datagram_block.csv", "a pipe"]);
}
