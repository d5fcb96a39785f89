use super::*;
use crate::fixture::{self, add, result};
use crate::plots::Options;
use crate::plots::chart::{HeatLevel, Line, Stroke, X};
use crate::plots::narrow_tests::assert_legible;
use crate::render::Text;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tripmeter_model::audit::Audit;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::limits::{FigureLimits, Limit};
use tripmeter_model::manifest::{Counts, Manifest, PayloadResult, Verdict};
use tripmeter_model::metric::{Process, Stream};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::series::{Series, Trend, WarmUp};
use tripmeter_model::workload::Workload;
use tripmeter_model::{Pattern, Wait};

mod parts;

const KEPT: [&str; 7] = ["quick", "iceperf", "aimrt-channel", "aimrt-rpc", "aimrt-log", "ecal", "fastrtps"];

fn read(folder: &Path) -> Manifest {
    tripmeter_model::folder::read(folder, |text| text.into()).unwrap()
}

fn kept(name: &str) -> Manifest {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results").join(name))
}

fn page_of_one(manifest: &Manifest) -> Document {
    page(&[NamedResults { name: "", manifest }])
}

fn answer(document: &Document) -> String {
    let is_in = |block: &&Block| !matches!(block, Block::Heading(heading) if heading.id != "answer");
    let blocks = document.blocks.iter().take_while(is_in);
    let texts = blocks.filter_map(|block| if let Block::Text(text) = block { Some(text.as_str()) } else { None });
    texts.collect::<Vec<_>>().join("\n")
}

fn readings(document: &Document) -> String {
    let of = |chart: &Chart| format!("{} | {} | {}\n", chart.name, chart.title, chart.reading);
    document.charts().map(of).collect()
}

fn chart<'a>(document: &'a Document, name: &str) -> &'a Chart {
    document.charts().find(|chart| chart.name == name).unwrap_or_else(|| panic!("{}", readings(document)))
}

/// Sub-experiments at 1k and 64k with the median of each round in nanoseconds, doubled at 64k.
fn rounds(subs: &[(&str, &str, &[f64])]) -> Manifest {
    let mut manifest = fixture::manifest();
    for (name, transport, medians) in subs {
        add(&mut manifest, name, transport, &[1024, 65_536]);
        manifest.plan.rounds = medians.len() as u32;
        for (round, median) in (1..).zip(*medians) {
            result(&mut manifest, name, round, &[(1024, *median), (65_536, 2.0 * median)]);
        }
    }
    manifest
}

const A: [f64; 8] = [1000.0, 1010.0, 990.0, 1005.0, 995.0, 1002.0, 1001.0, 1003.0];
const LIKE_A: [f64; 8] = [1001.0, 1005.0, 1000.0, 1000.0, 1003.0, 999.0, 990.0, 1010.0];
const SLOW: [f64; 8] = [2000.0, 2010.0, 1990.0, 2005.0, 1995.0, 2002.0, 2001.0, 2003.0];

#[test]
fn the_page_of_a_quick_run_answers_on_its_first_lines() {
    let document = page_of_one(&kept("quick"));
    let expected = "\
9 sub-experiments (ping), 3 payloads from 1k to 1M, 1 round. rtt_half: half of a round trip, which published tables \
call latency.
The floor is not counted. At 1k, iceoryx2/publish-subscribe was fastest with a median of 0.516 µs (rtt_half); the next is iceoryx/shm, \
×1.53 (one round, no interval). At 1M, iceoryx2/publish-subscribe was fastest with a median of 0.521 µs (rtt_half); the next is \
iceoryx/shm, ×1.45 (one round, no interval).
Use with caution. Good: paths verified (9 path proofs); no messages lost, late or damaged. Not good: fewer samples than \
planned in 5 of 27 measurements; one round does not show how much runs differ; the machine was not audited. The payload \
was not read (touch none).";
    assert_eq!(answer(&document), expected);
    let expected = "\
rtt_half_by_payload | How does latency grow with size? | The floor is not counted. mq/queue grows 440 times from 1k to 1M; \
iceoryx/shm falls to 0.96 times (in one round).
rtt_half_percentiles_1024 | How long is the tail at 1k? | The floor is not counted. p99 is 2.4 times the median for iceoryx/shm, and 1.1 times for \
uds/datagram.
rtt_half_percentiles_65536 | How long is the tail at 64k? | The floor is not counted. p99 is 2.3 times the median for iceoryx/shm, and 1.3 times for \
iceoryx2/publish-subscribe.
rtt_half_percentiles_1048576 | How long is the tail at 1M? | The floor is not counted. p99 is 1.6 times the median for tcp/loopback, and 1.2 times for \
iceoryx2/publish-subscribe.
";
    assert_eq!(readings(&document), expected);
    let headings: Vec<&str> = document
        .blocks
        .iter()
        .filter_map(|block| if let Block::Heading(heading) = block { Some(heading.id) } else { None })
        .collect();
    assert_eq!(headings, ["answer", "results", "size", "tail", "background"]);
}

#[test]
fn every_chart_has_a_name_of_its_own_a_question_and_legible_labels() {
    for name in KEPT {
        let manifest = kept(name);
        let document = page_of_one(&manifest);
        let names: BTreeSet<&str> = document.charts().map(|chart| chart.name.as_str()).collect();
        assert_eq!(names.len(), document.charts().count(), "{name}: {}", readings(&document));
        for chart in document.charts() {
            assert!(chart.title.ends_with('?') && chart.reading.ends_with('.'), "{name}: {}", readings(&document));
            assert_legible(chart, 600.0, 400.0);
        }
    }
}

#[test]
fn rounds_that_overlap_show_no_difference() {
    let manifest = rounds(&[("uds", "uds/stream", &A), ("tcp", "tcp/nodelay", &LIKE_A), ("mq", "mq/queue", &SLOW)]);
    let document = page_of_one(&manifest);
    let said = answer(&document);
    let like = "At 1k, tcp/nodelay and uds/stream are fastest without a measurable difference, with a median of 1.00 \
                µs (rtt_half).";
    assert!(said.contains(like), "{said}");
    assert!(said.contains("Use with caution. Good: paths verified (3 path proofs); no messages lost"), "{said}");
    assert!(said.contains("; 8 rounds."), "{said}");
    let mut audited = manifest.clone();
    let (cpus, activity) = (vec![0, 1], tripmeter_model::audit::Activity::default());
    let audit = Audit { cpus, findings: Vec::new(), activity, hiccups: Vec::new(), processes: Vec::new() };
    audited.environment.audit_after = Some(audit);
    let said = answer(&page_of_one(&audited));
    assert!(said.contains("Reliable. Good: paths") && said.contains("no warnings in the machine audit"), "{said}");
    let size = &chart(&document, "rtt_half_by_payload").reading;
    assert!(size.ends_with("grows 2.0 times."), "{size}");
    let agree = chart(&document, "rtt_half_rounds_1024");
    assert_eq!((agree.lines.len(), agree.lines[0].points.len()), (3, 8));
    assert!(
        agree.reading.starts_with("Between its best and worst round, mq/queue varies by 1.0 %"),
        "{}",
        agree.reading
    );
    let apart = rounds(&[("uds", "uds/stream", &A), ("mq", "mq/queue", &SLOW)]);
    let said = answer(&page_of_one(&apart));
    assert!(
        said.contains(
            "At 1k, uds/stream is fastest with a median of 1.00 µs (rtt_half); the next is mq/queue, ×2.00 ("
        ),
        "{said}"
    );
    let few = rounds(&[("uds", "uds/stream", &A[..3]), ("mq", "mq/queue", &SLOW[..3])]);
    let said = answer(&page_of_one(&few));
    assert!(said.contains("uds/stream was fastest") && said.contains("(3 rounds, too few for"), "{said}");
}

#[test]
fn what_failed_is_no_answer_and_not_believed() {
    let mut manifest = rounds(&[("uds", "uds/stream", &A), ("mq", "mq/queue", &SLOW)]);
    for result in manifest.sub_experiments.iter_mut().filter(|result| result.name == "uds") {
        result.path_proof.as_mut().unwrap().verdict = Verdict::Failed;
    }
    fixture::put(fixture::trial_of(&mut manifest, 8), &[(Figure::Lost, 110.0)]);
    let document = page_of_one(&manifest);
    let said = answer(&document);
    assert!(
        said.contains(
            "At 1k, mq/queue has a median of 2.00 µs (rtt_half); nothing else was measured to compare it with."
        ),
        "{said}"
    );
    assert!(said.contains("Not good: 1 of 2 path proofs FAILED (uds)"), "{said}");
    let text = Text { is_unwrapped: true, ..Text::default() }.render(&document);
    assert!(text.contains("PATH PROOF FAILED: uds") && text.contains("mq at 1k: 110 lost"), "{text}");
    let loss = chart(&document, "loss");
    assert!(loss.reading.starts_with("mq lost most: 0.125 % at 1k"), "{}", loss.reading);
}

/// Sentences compare only usable figures, whatever the charts draw.
#[test]
fn what_is_not_ranked_is_marked_and_compared_by_no_sentence() {
    let measured = || {
        let subs = [("uds", "uds/stream", &A[..]), ("mq", "mq/queue", &SLOW), ("tcp", "tcp/nodelay", &LIKE_A)];
        let mut manifest = rounds(&subs);
        for result in &mut manifest.sub_experiments {
            fixture::put_costs(&mut result.cells[0].trials[0]);
        }
        manifest
    };
    /// Change of the results of a sub-experiment.
    type Change = fn(&mut Manifest, &str);
    let unfit: [(&str, Change); 3] = [
        ("failed the path proof", |manifest, name| {
            let results = manifest.sub_experiments.iter_mut().filter(|result| result.name == name);
            results.for_each(|result| result.path_proof.as_mut().unwrap().verdict = Verdict::Failed);
        }),
        ("missed the rate", |manifest, name| {
            let results = manifest.sub_experiments.iter_mut().filter(|result| result.name == name);
            let cells = results.flat_map(|result| &mut result.cells);
            cells.flat_map(|cell| &mut cell.trials).for_each(|trial| trial.rate_missed = true);
        }),
        ("polled on a shared CPU", |manifest, name| {
            manifest.plan.follower_cpu = manifest.plan.leader_cpu;
            for sub in manifest.plan.sub_experiments.iter_mut().filter(|sub| sub.name != name) {
                sub.wait = Wait::Block;
            }
        }),
    ];
    for (why, make_unfit) in unfit {
        let mut manifest = measured();
        make_unfit(&mut manifest, "uds");
        let document = page_of_one(&manifest);
        assert!(!answer(&document).contains("Reliable."), "{why}");
        let names: Vec<&str> = document.charts().map(|chart| chart.name.as_str()).collect();
        for kind in ["by_payload", "percentiles", "rounds", "cost"] {
            assert!(names.iter().any(|name| name.contains(kind)), "{names:?}");
        }
        for chart in document.charts() {
            assert!(!chart.reading.contains("uds/stream") && !chart.reading.is_empty(), "{why}: {}", chart.reading);
            let is_marked = |line: &Line| line.name.starts_with("uds/stream") && line.name.ends_with('!');
            assert!(chart.lines.iter().any(is_marked), "{why}: {}", chart.name);
            let note = format!("! {why}, not compared: uds/stream");
            assert!(chart.notes.iter().any(|one| one.starts_with(&note)), "{:?}", chart.notes);
        }
        for name in ["mq", "tcp"] {
            make_unfit(&mut manifest, name);
        }
        if why == "polled on a shared CPU" {
            manifest.plan.sub_experiments.iter_mut().for_each(|sub| sub.wait = Wait::Poll);
        }
        let document = page_of_one(&manifest);
        let still: Vec<&str> = document.charts().map(|chart| chart.name.as_str()).collect();
        assert_eq!(still, names, "{why}: nothing to compare, but all is drawn");
        assert!(document.charts().all(|chart| chart.reading.is_empty()), "{}", readings(&document));
        let results = [NamedResults { name: "r", manifest: &manifest }];
        let gauges = crate::export::openmetrics(&results).0;
        assert!(!gauges.contains("sub_experiment=") && gauges.contains("tripmeter_run_info"), "{why}: {gauges}");
    }
}

/// Marks in the table also appear in the sentence on how far the results can be trusted.
#[test]
fn few_samples_and_untouched_payloads_are_told() {
    let mut manifest = rounds(&[("uds", "uds/stream", &A), ("mq", "mq/queue", &SLOW)]);
    let said = answer(&page_of_one(&manifest));
    assert!(!said.contains("fewer") && said.contains(" The payload was not read (touch none)."), "{said}");
    manifest.plan.sub_experiments[0].touch = tripmeter_model::Touch::Full;
    for result in &mut manifest.sub_experiments {
        fixture::set_trips(&mut result.cells[1], 20);
    }
    let said = answer(&page_of_one(&manifest));
    let expected = ": fewer samples than planned in 2 of 4 measurements; too few samples for p99 (under 299 in a \
                    round) in 2 of 4 latencies; the machine was not audited. In 1 of 2 sub-experiments the payload was \
                    not read (touch none).";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn nothing_measured_has_no_chart() {
    let mut manifest = fixture::manifest();
    assert_eq!(answer(&page_of_one(&manifest)), "0 sub-experiments, no payload, 1 round.\nNothing was measured.");
    add(&mut manifest, "mq", "mq/queue", &[1024]);
    let document = page_of_one(&manifest);
    assert_eq!(document.charts().count(), 0);
    add(&mut manifest, "uds", "uds/stream", &[1024]);
    result(&mut manifest, "mq", 1, &[]).status = tripmeter_model::manifest::RunStatus::Failed;
    let said = answer(&page_of_one(&manifest));
    assert!(said.ends_with("Nothing was measured: 1 of 2 sub-experiments failed."), "{said}");
    assert_eq!(page(&[]).charts().count(), 0);
}

#[test]
fn a_single_payload_makes_columns() {
    let mut manifest = fixture::manifest();
    for (name, transport, median) in [
        ("uds", "uds/stream", 1000.0),
        ("shm", "shm/ring", 50.0),
        ("mq", "mq/queue", 3000.0),
        ("tcp", "tcp/loopback", 2000.0),
    ] {
        add(&mut manifest, name, transport, &[1024]);
        let cell = &mut result(&mut manifest, name, 1, &[(1024, median)]).cells[0];
        fixture::put_within(&mut cell.trials[0], Figure::RttHalf, &[(Statistic::P50, 0.9 * median, 1.1 * median)]);
    }
    let document = page_of_one(&manifest);
    let columns = chart(&document, "rtt_half_1024");
    let X::Categories { names, .. } = &columns.x else { panic!("{columns:?}") };
    assert_eq!(names, &["shm/ring (floor)", "uds/stream", "tcp/loopback", "mq/queue"]);
    assert_eq!(columns.stacks[0].values, [0.05, 1.0, 2.0, 3.0]);
    assert!(columns.stacks[0].intervals.iter().all(Option::is_some) && columns.y.log, "{columns:?}");
    // The chart draws the bar of the floor, and the sentence below it says that the floor is not counted.
    let best = "The floor is not counted. At 1k, uds/stream was fastest with a median of 1.00 µs (rtt_half); the next \
                is tcp/loopback, ×2.00 (one round, no interval).";
    assert_eq!(columns.reading, best);
    let said = answer(&document);
    assert!(said.contains(best) && !said.contains("slowest"), "{said}");
    // If the floor is alone, it is the answer.
    manifest.plan.sub_experiments.retain(|sub| sub.name == "shm");
    manifest.sub_experiments.retain(|result| result.name == "shm");
    let said = answer(&page_of_one(&manifest));
    assert!(said.contains("At 1k, shm/ring has a median of 0.050 µs") && !said.contains("Without"), "{said}");
}

/// Writes pages for inspection: `TRIPMETER_PAGES=FROM:TO cargo test -p tripmeter-report pages_of_folders -- --ignored`.
#[test]
#[ignore = "draws what is asked for"]
fn pages_of_folders() {
    let Ok(asked) = std::env::var("TRIPMETER_PAGES") else { return };
    let paths: Vec<PathBuf> = asked.split(':').map(PathBuf::from).collect();
    let (to, from) = paths.split_last().unwrap();
    let manifests: Vec<Manifest> = from.iter().map(|folder| read(folder)).collect();
    let names: Vec<String> = from.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    let results: Vec<NamedResults<'_>> =
        names.iter().zip(&manifests).map(|(name, manifest)| NamedResults { name, manifest }).collect();
    let document = page(&results);
    std::fs::create_dir_all(to).unwrap();
    std::fs::write(to.join("page.txt"), Text { is_unwrapped: true, ..Text::default() }.render(&document)).unwrap();
    std::fs::write(to.join("readings.txt"), readings(&document)).unwrap();
    for chart in document.charts() {
        let picture = chart.picture(&Options { width: 600, height: 400, ..Options::default() }).unwrap();
        std::fs::write(to.join(&picture.path), &picture.bytes).unwrap();
    }
}
