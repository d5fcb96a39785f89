//! Memory does not grow with what is measured, where histograms only are kept.

use crate::common::{Tripmeter, alone, folder, manifest};
use tripmeter_model::figure::Figure;
use tripmeter_model::metric::{Process, Stream};

/// Samples go into a histogram long before a sign of life is due, for longer than the supervisor waits for one.
#[test]
#[ignore = "takes 25 s of two CPUs"]
fn a_payload_that_takes_long_shows_signs_of_life() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("results");
    let words = ["ping", "shm", "--wait", "poll", "--payloads", "64", "--raw", "none", "-n", "1000000000000"];
    let words =
        words.iter().copied().chain(["--time-cap", "25", "--attempts", "1", "-q", "-o", results.to_str().unwrap()]);
    Tripmeter::new(words).run().with(0).clean();
    let cell = manifest(&results).sub_experiments.remove(0).cells.remove(0);
    assert!(cell.samples > 1 << 20, "{} samples", cell.samples);
}

#[test]
fn calls_without_raw_samples_need_the_same_memory_however_many_they_are() {
    let _alone = alone();
    let peak_bytes = |calls: &str| {
        let folder = folder();
        let results = folder.path().join("results");
        let words = ["call", "shm", "--payloads", "64", "--raw", "none", "--attempts", "1", "--loss-timeout", "15"];
        let words = words.iter().copied().chain(["-q", "-n", calls, "-o", results.to_str().unwrap()]);
        Tripmeter::new(words).run().with(0).clean();
        let cell = manifest(&results).sub_experiments.remove(0).cells.remove(0);
        assert_eq!(cell.samples.to_string(), calls);
        [Process::Leader, Process::Follower]
            .map(|process| cell.trials[0].value(&Stream::process(process), Figure::PeakMemory).unwrap())
    };
    let (few, many) = (peak_bytes("50000"), peak_bytes("250000"));
    for (few, many) in few.into_iter().zip(many) {
        assert!(many <= 1.05 * few, "{few} bytes of 50,000 calls, {many} of 250,000");
    }
}
