use super::*;
use crate::fixture::{self, add, result};
use crate::plots::Options;
use crate::plots::chart::{Level, Stroke, X};
use crate::plots::narrow_tests::assert_legible;
use crate::render::Text;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tripmeter_model::Pattern;
use tripmeter_model::audit::Audit;
use tripmeter_model::figure::Statistic;
use tripmeter_model::limits::{FigureLimits, Limit};
use tripmeter_model::manifest::{Counts, Manifest, PayloadResult, Verdict};
use tripmeter_model::metric::{Process, Stream};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::series::{Series, Trend, WarmUp};
use tripmeter_model::workload::Workload;

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

/// The paragraphs of the answer.
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

/// Sub-experiments at 1k and 64k with the median of each round in nanoseconds, at 64k twice as long.
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
9 sub-experiments (pingpong) at 3 payloads from 1k to 1M, in 1 round.
At 1k, shm/ring was measured fastest with 0.065 µs (rtt_half); the next is iceoryx2/publish-subscribe, ×7.94 (one round, no \
interval). At 1M, shm/ring was measured fastest with 0.040 µs (rtt_half); the next is iceoryx2/publish-subscribe, ×13.0 (one \
round, no interval).
It can be believed with care: all 9 path proofs hold; nothing was lost, late or damaged; there is one round, which does not \
show how much runs differ; no audit of the machine is kept.";
    assert_eq!(answer(&document), expected);
    let expected = "\
rtt_half_by_payload | How does latency grow with size? | mq/queue grows 440 times from 1k to 1M; shm/ring falls to 0.62 times \
(no intervals).
rtt_half_percentiles_1024 | How long is the tail at 1k? | p99 is 2.4 times the median of iceoryx/shm, and 1.1 times that of \
uds/datagram.
rtt_half_percentiles_65536 | How long is the tail at 64k? | p99 is 2.3 times the median of iceoryx/shm, and 1.3 times that of \
iceoryx2/publish-subscribe.
rtt_half_percentiles_1048576 | How long is the tail at 1M? | p99 is 1.6 times the median of tcp/loopback, and 1.2 times that of \
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
    let like =
        "At 1k, no difference is seen between tcp/nodelay and uds/stream, which are fastest: 1.00 µs (rtt_half).";
    assert!(said.contains(like), "{said}");
    assert!(said.contains("It can be believed with care: all 3 path proofs hold; nothing was lost"), "{said}");
    assert!(said.contains("intervals are over 8 rounds"), "{said}");
    let mut audited = manifest.clone();
    let (cpus, activity) = (vec![0, 1], tripmeter_model::audit::Activity::default());
    let audit = Audit { cpus, findings: Vec::new(), activity, hiccups: Vec::new(), processes: Vec::new() };
    audited.environment.audit_after = Some(audit);
    let said = answer(&page_of_one(&audited));
    assert!(said.contains("It can be believed: all") && said.contains("audit of the machine has no warning"), "{said}");
    let size = &chart(&document, "rtt_half_by_payload").reading;
    assert!(size.ends_with("grows 2.0 times."), "{size}");
    let agree = chart(&document, "rtt_half_rounds_1024");
    assert_eq!((agree.lines.len(), agree.lines[0].points.len()), (3, 8));
    assert!(
        agree.reading.starts_with("From the least to the greatest round, mq/queue differs by 1.0 %"),
        "{}",
        agree.reading
    );
    let apart = rounds(&[("uds", "uds/stream", &A), ("mq", "mq/queue", &SLOW)]);
    let said = answer(&page_of_one(&apart));
    assert!(
        said.contains("At 1k, uds/stream is fastest with 1.00 µs (rtt_half); the next is mq/queue, ×2.00 ("),
        "{said}"
    );
    let few = rounds(&[("uds", "uds/stream", &A[..3]), ("mq", "mq/queue", &SLOW[..3])]);
    let said = answer(&page_of_one(&few));
    assert!(said.contains("uds/stream was measured fastest") && said.contains("(3 rounds, too few for"), "{said}");
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
    assert!(said.contains("At 1k, mq/queue has 2.00 µs (rtt_half); there is nothing to compare it with."), "{said}");
    assert!(said.contains("Not all of it can be believed: of 2 path proofs, 1 FAILED (uds)"), "{said}");
    let text = Text { is_unwrapped: true, ..Text::default() }.render(&document);
    assert!(text.contains("PATH PROOF FAILED: uds") && text.contains("mq at 1k: 110 lost"), "{text}");
    let loss = chart(&document, "loss");
    assert!(loss.reading.starts_with("mq lost most: 0.125 % at 1k"), "{}", loss.reading);
}

#[test]
fn nothing_measured_has_no_chart() {
    let mut manifest = fixture::manifest();
    assert_eq!(answer(&page_of_one(&manifest)), "0 sub-experiments at no payload, in 1 round.\nNothing was measured.");
    add(&mut manifest, "mq", "mq/queue", &[1024]);
    let document = page_of_one(&manifest);
    assert_eq!(document.charts().count(), 0);
    assert_eq!(page(&[]).charts().count(), 0);
}

#[test]
fn a_single_payload_makes_columns() {
    let mut manifest = fixture::manifest();
    for (name, transport, median) in
        [("uds", "uds/stream", 1000.0), ("shm", "shm/ring", 50.0), ("mq", "mq/queue", 3000.0)]
    {
        add(&mut manifest, name, transport, &[1024]);
        let cell = &mut result(&mut manifest, name, 1, &[(1024, median)]).cells[0];
        fixture::put_within(&mut cell.trials[0], Figure::RttHalf, &[(Statistic::P50, 0.9 * median, 1.1 * median)]);
    }
    let document = page_of_one(&manifest);
    let columns = chart(&document, "rtt_half_1024");
    let X::Categories { names, .. } = &columns.x else { panic!("{columns:?}") };
    assert_eq!(names, &["shm/ring (floor)", "uds/stream", "mq/queue"]);
    assert_eq!(columns.stacks[0].values, [0.05, 1.0, 3.0]);
    assert!(columns.stacks[0].intervals.iter().all(Option::is_some) && columns.y.log, "{columns:?}");
    let said = answer(&document);
    assert!(
        said.contains("shm/ring is fastest in this run") && said.contains("mq/queue was slowest: 3.00 µs"),
        "{said}"
    );
}

#[test]
fn several_results_are_judged_against_the_first() {
    let old = rounds(&[("uds", "uds/stream", &A), ("mq", "mq/queue", &SLOW)]);
    let new = rounds(&[("uds", "uds/stream", &LIKE_A), ("mq", "mq/queue", &A)]);
    let document = page(&[NamedResults { name: "old", manifest: &old }, NamedResults { name: "new", manifest: &new }]);
    let map = chart(&document, "verdicts").heat.as_ref().unwrap();
    assert_eq!(map.rows, ["uds", "mq"]);
    let level =
        |row: usize, column: usize| map.cells.iter().find(|cell| (cell.row, cell.column) == (row, column)).unwrap();
    assert_eq!((level(0, 0).level, level(1, 1).level), (Level::Even, Level::Good));
    assert!(level(1, 1).text == "-50 %" && level(0, 0).text.starts_with("≈ "), "{}", level(0, 0).text);
    assert!(level(1, 1).detail.contains("rtt_half_ns.p50: ratio 0.5"), "{}", level(1, 1).detail);
    let said = answer(&document);
    assert!(said.contains("8 figures compared with old: 4 better and 4 not different."), "{said}");
    let ratio = chart(&document, "rtt_half_ratio_1024");
    assert!(
        ratio.reading.contains("p50 is less with mq/queue · new, shows no difference with uds/stream · new"),
        "{}",
        ratio.reading
    );
    // One round of either: by a threshold.
    let one = |median: f64| rounds(&[("uds", "uds/stream", &[median])]);
    let (old, new) = (one(1000.0), one(1300.0));
    let document = page(&[NamedResults { name: "old", manifest: &old }, NamedResults { name: "new", manifest: &new }]);
    let map = chart(&document, "verdicts");
    assert!(map.subtitle.starts_with("by a threshold of 10 %"), "{}", map.subtitle);
    assert_eq!(map.heat.as_ref().unwrap().cells[0].text, "! +30 %");
}

#[test]
fn sides_of_pairs_and_limits_are_judged_too() {
    let mut pairs = rounds(&[("a", "uds/stream", &A), ("b", "uds/stream?packet=4096", &SLOW)]);
    pairs.plan.source = "ab".to_owned();
    let document = page_of_one(&pairs);
    assert_eq!(chart(&document, "verdicts_ab").heat.as_ref().unwrap().cells[0].level, Level::Bad);
    let ratio = chart(&document, "rtt_half_ratio_1024");
    assert!(ratio.reading.starts_with("p50 is greater with b: uds/stream?packet=4096"), "{}", ratio.reading);
    let one = rounds(&[("uds", "uds/stream", &[1000.0])]);
    let results = tripmeter_analysis::JudgedResults { manifest: one.clone(), allows_damage: false };
    let selected = tripmeter_analysis::Selection::default().select(&results.table());
    let limit = |at: usize, limit: f64| Limit { address: selected[at].address.clone(), limit };
    let limits = FigureLimits { rows: vec![limit(0, 900.0), limit(1, 9000.0)] };
    let check = ResultsCheck::new(&limits, &results);
    let of = NamedResults { name: "", manifest: &one };
    let document = page_of(&PageInput { results: &[of], samples: &[], check: Some(&check) });
    let map = chart(&document, "verdicts_limits");
    assert_eq!(map.reading, "2 figures compared with their limits: 1 worse and 1 better.");
    assert_eq!(map.heat.as_ref().unwrap().cells[0].text, "! +11 %");
}

/// A channel at 1k at these rates, whose median response is so many nanoseconds.
fn channel(manifest: &mut Manifest, name: &str, transport: &str, rates: &[(f64, f64, bool)]) {
    let loads: Vec<OfferedLoad> = rates.iter().map(|rate| OfferedLoad::Rate { hz: rate.0 }).collect();
    let plan = add(manifest, name, transport, &[1024]);
    plan.pattern = Pattern::Channel;
    plan.workload = Workload::publications(loads.clone(), 1, 1);
    let trial = |(load, (hz, median, is_missed)): (&OfferedLoad, &(f64, f64, bool))| {
        let mut trial = fixture::trial(*load, 1000);
        fixture::put_times(&mut trial, &Stream::all(), Figure::Response, (1000, *median));
        fixture::put(
            &mut trial,
            &[(Figure::OfferedRate, *hz), (Figure::AchievedRate, if *is_missed { hz / 2.0 } else { *hz })],
        );
        fixture::put_costs(&mut trial);
        trial.rate_missed = *is_missed;
        trial
    };
    let trials = loads.iter().zip(rates).map(trial).collect();
    let cell =
        PayloadResult { payload_bytes: 1024, samples: 1000, samples_planned: 1000, trials, ..PayloadResult::default() };
    result(manifest, name, 1, &[]).cells = vec![cell];
}

#[test]
fn rates_that_were_missed_are_named_and_costs_are_of_a_message() {
    let mut manifest = fixture::manifest();
    channel(&mut manifest, "uds", "uds/stream", &[(1000.0, 2000.0, false), (10_000.0, 3000.0, false)]);
    channel(&mut manifest, "tcp", "tcp/nodelay", &[(1000.0, 4000.0, false), (10_000.0, 90_000.0, true)]);
    let document = page_of_one(&manifest);
    assert!(answer(&document).contains("; a rate was missed by tcp; "), "{}", answer(&document));
    let load = chart(&document, "response_by_rate_1024");
    assert_eq!(load.reading, "The lowest rate that was missed is 10000 /s, by tcp/nodelay.");
    assert_eq!(load.notes, ["tcp/nodelay: 5000 /s achieved of 10000 /s offered."]);
    let names: Vec<&str> = load.lines.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(
        names,
        ["uds/stream p50", "uds/stream p99", "tcp/nodelay p50", "tcp/nodelay p99", "the rate was missed"]
    );
    assert_eq!((load.lines[0].points[1], load.lines[1].look.stroke), ((10_000.0, 3.0), Stroke::Dashed));
    let cost = chart(&document, "response_cost_1024");
    // 31 and 12 ms of CPU time for 1,000 messages.
    assert_eq!(cost.lines[0].points, [(43.0, 2.0)]);
    assert!(!document.charts().any(|chart| chart.name == "response_1024"), "{}", readings(&document));
    // Without the follower's time there is no cost.
    for cell in manifest.sub_experiments.iter_mut().flat_map(|result| &mut result.cells) {
        for trial in &mut cell.trials {
            trial.remove(&Stream::process(Process::Follower), Figure::CpuTime);
        }
    }
    assert!(!readings(&page_of_one(&manifest)).contains("_cost_"));
}

#[test]
fn every_pattern_has_the_parts_that_its_figures_allow() {
    let played = crate::recording::tests::played();
    let said = readings(&page_of_one(&played));
    assert!(said.contains("response_percentiles_1024"), "{said}");
    // Of several followers, the one that lost most counts.
    let mut several = fixture::manifest();
    add(&mut several, "shm", "shm/ring", &[1024]).workload.topology.followers = 2;
    let trial = &mut result(&mut several, "shm", 1, &[(1024, 500.0)]).cells[0].trials[0];
    for (follower, lost) in [(0, 0), (1, 110)] {
        let counts = Counts { sent: 11_000, received: 11_000 - lost, lost, ..Counts::default() };
        trial.put_counts(&Stream::follower(follower), &counts, false);
    }
    let document = page_of_one(&several);
    assert!(answer(&document).contains("; shm lost 1 % of its messages; "), "{}", answer(&document));
    assert_eq!(chart(&document, "loss").reading, "shm lost most: 1 % at 1k.");
    // A stream as fast as it goes has a rate, and latencies of samples of it.
    let mut manifest = fixture::manifest();
    for (name, transport, rate) in [("uds", "uds/stream", 1e6), ("tcp", "tcp/nodelay", 5e5)] {
        let plan = add(&mut manifest, name, transport, &[1024]);
        plan.pattern = Pattern::Throughput;
        plan.workload = Workload::publications(vec![OfferedLoad::Max], 1, 1);
        let mut trial = fixture::trial(OfferedLoad::Max, 1000);
        fixture::put_times(&mut trial, &Stream::all(), Figure::OneWay, (1000, 1e12 / rate));
        fixture::put(&mut trial, &[(Figure::ReceivedRate, rate)]);
        let cell = PayloadResult { payload_bytes: 1024, trials: vec![trial], ..PayloadResult::default() };
        result(&mut manifest, name, 1, &[]).cells = vec![cell];
    }
    let document = page_of_one(&manifest);
    let rate = chart(&document, "received_rate_1024");
    let X::Categories { names, .. } = &rate.x else { panic!("{rate:?}") };
    assert_eq!((names[0].as_str(), rate.title.as_str()), ("uds/stream", "Which is the highest rate at 1k?"));
    assert!(answer(&document).contains("uds/stream was measured highest with 1000000 /s"), "{}", answer(&document));
    chart(&document, "one_way_1024");
    chart(&document, "one_way_percentiles_1024");
}

#[test]
fn samples_show_their_warm_up_and_drift() {
    let mut manifest = fixture::manifest();
    add(&mut manifest, "mq", "mq/queue", &[1024]);
    result(&mut manifest, "mq", 1, &[(1024, 1000.0)]);
    let warm_up = WarmUp {
        samples: 300,
        is_reliable: true,
        mean_ns: [1200.0, 1000.0],
        median_ns: [1000.0, 999.0],
        p99_ns: [9000.0, 2000.0],
    };
    let drift = Some(Trend { change: -0.12, p: 1e-6 });
    let series =
        Series { every: 1, samples: 10_000, warm_up: Some(warm_up), autocorrelation: None, drift, modes: None };
    fixture::trial_of(&mut manifest, 0).put_series(&Stream::all(), Figure::RttHalf, Some(series));
    let raw: Vec<f64> = (0..10_000).map(|at| if at == 5000 { 99.0 } else { 1.0 + f64::from(at % 7) }).collect();
    let sampled = SampledTrial {
        folder: 0,
        sub_experiment: "mq".to_owned(),
        round: 1,
        payload_bytes: 1024,
        figure: Figure::RttHalf,
        points: SampleSeries::of(&raw, true),
    };
    let results = [NamedResults { name: "", manifest: &manifest }];
    let document = page_of(&PageInput { results: &results, samples: &[sampled], check: None });
    let time = chart(&document, "rtt_half_time_mq_1024");
    let expected = "The first 300 samples are a warm-up; the median drifts by -12 % from begin to end.";
    assert_eq!((time.title.as_str(), time.reading.as_str()), ("Was mq/queue steady at 1k?", expected));
    assert_eq!(time.marks.len(), 1);
    let greatest = time.bands[0].points.iter().map(|point| point.2).fold(0.0, f64::max);
    assert_eq!((greatest, time.lines.len()), (99.0, 2));
    assert_legible(time, 600.0, 400.0);
}

#[test]
fn many_sub_experiments_are_drawn_in_part_and_tabled_whole() {
    let mut manifest = fixture::manifest();
    for index in 0..100 {
        let name = format!("uds{index}");
        add(&mut manifest, &name, &format!("uds/stream?packet={}", 4096 + index), &[1024, 2048]);
        result(&mut manifest, &name, 1, &[(1024, 1000.0 + f64::from(index)), (2048, 3000.0)]);
    }
    let document = page_of_one(&manifest);
    let size = chart(&document, "rtt_half_by_payload");
    assert_eq!(size.lines.len(), curves::MOST_LINES);
    assert_eq!(size.notes, ["The best 12 of 100 at 1k are drawn; the table has all."]);
    assert_legible(size, 600.0, 400.0);
    let looks: BTreeSet<String> = size.lines.iter().map(|line| format!("{:?}", line.look)).collect();
    assert_eq!(looks.len(), size.lines.len());
}

/// Leaves pages to be looked at: `TRIPMETER_PAGES=FROM:TO cargo test -p tripmeter-report pages_of_folders -- --ignored`.
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
