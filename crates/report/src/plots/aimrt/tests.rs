use super::*;
use crate::fixture;
use crate::plots::{Format, Options};
use tripmeter_model::Pattern;
use tripmeter_model::experiment::Mode;
use tripmeter_model::manifest::{Manifest, PayloadResult};
use tripmeter_model::workload::Workload;

fn named<'a>(name: &'a str, manifest: &'a Manifest) -> NamedResults<'a> {
    NamedResults { name, manifest }
}

fn charts_of(results: &[NamedResults<'_>]) -> Vec<Chart> {
    charts(results).charts().cloned().collect()
}

fn charts_for(manifest: &Manifest) -> Vec<Chart> {
    charts_of(&[named("", manifest)])
}

fn chart_bytes(chart: &Chart, options: Options) -> Vec<u8> {
    chart.picture(&options).unwrap().bytes
}

fn names(charts: &[Chart]) -> Vec<&str> {
    charts.iter().map(|chart| chart.name.as_str()).collect()
}

/// Charts of a manifest, also written to disk for inspection if requested.
fn kept(manifest: &Manifest, kind: &str) -> Vec<Chart> {
    let made = charts_for(manifest);
    for chart in &made {
        super::super::tests::keep(&chart.picture(&Options::default()).unwrap(), kind);
    }
    made
}

/// Adds a channel at these payloads, with averages in microseconds.
fn add(manifest: &mut Manifest, name: &str, transport: &str, topics: u32, payloads: &[(u64, f64)]) {
    let template: PayloadResult = crate::fixture::published(transport, &[1000.0]).sub_experiments[0].cells[0].clone();
    let sizes: Vec<u64> = payloads.iter().map(|payload| payload.0).collect();
    let plan = fixture::add(manifest, name, transport, &sizes);
    plan.pattern = Pattern::Publish;
    plan.workload = Workload::publications(vec![OfferedLoad::Rate { hz: 1000.0 }], topics, 1);
    let cell = |(bytes, us): &(u64, f64)| {
        let mut cell = PayloadResult { payload_bytes: *bytes, ..template.clone() };
        let trial = &mut cell.trials[0];
        trial.put_statistic(&Stream::all(), Figure::Service, Statistic::Mean, us * 1000.0, None);
        cell
    };
    fixture::result(manifest, name, 1, &[]).cells = payloads.iter().map(cell).collect();
}

fn channels() -> Manifest {
    let mut manifest = fixture::manifest();
    add(&mut manifest, "uds_1", "uds/stream", 1, &[(512, 30.0), (2048, 31.0), (1024, 32.0)]);
    add(&mut manifest, "tcp_1", "tcp/nodelay", 1, &[(512, 50.0), (2048, 51.0)]);
    add(&mut manifest, "uds_4", "uds/stream", 4, &[(1024, 40.0)]);
    add(&mut manifest, "uds_8", "uds/stream", 8, &[(1024, 45.0)]);
    manifest
}

#[test]
fn averages_of_channels_are_over_sizes_and_over_topics() {
    let made = kept(&channels(), "channels");
    assert_eq!(
        names(&made),
        ["channel_latency_by_size_topics-1_rate-1000", "channel_latency_by_topics_1024_rate-1000"]
    );
    let [sizes, topics] = &made[..] else { panic!("{made:?}") };
    let X::Categories { label, names } = &sizes.x else { panic!("{sizes:?}") };
    assert_eq!((label.as_str(), &names[..]), ("Payload [bytes]", &["512", "1024", "2048"].map(str::to_owned)[..]));
    assert_eq!(sizes.y.label, "Average latency, one_way, service time [us]");
    assert_eq!(sizes.title, "Average latency against payload size");
    assert_eq!(
        sizes.subtitle,
        "1 topic · at 1000 /s · wait poll, touch none · one way, from the actual sending · n = 1000 per figure"
    );
    let lines: Vec<(&str, &[(f64, f64)])> =
        sizes.lines.iter().map(|line| (line.name.as_str(), &line.points[..])).collect();
    assert_eq!(lines[0], ("uds/stream", &[(0.0, 30.0), (1.0, 32.0), (2.0, 31.0)][..]));
    assert_eq!((lines.len(), lines[1].0, lines[1].1[0]), (2, "tcp/nodelay", (0.0, 50.0)));
    assert!(lines[1].1[1].1.is_nan(), "what was not measured is a gap");
    let X::Categories { label, names } = &topics.x else { panic!("{topics:?}") };
    assert_eq!((label.as_str(), &names[..]), ("Topics [n]", &["1", "4", "8"].map(str::to_owned)[..]));
    assert_eq!(topics.title, "Average latency against number of topics: uds/stream");
    assert_eq!(topics.lines.len(), 1);
    assert_eq!(topics.lines[0].points, [(0.0, 32.0), (1.0, 40.0), (2.0, 45.0)]);
}

#[test]
fn rounds_have_intervals_and_a_missed_rate_a_ring() {
    let mut manifest = channels();
    manifest.plan.rounds = 6;
    let first = manifest.sub_experiments[0].clone();
    for round in 2..=6 {
        let mut result = first.clone();
        result.round = round;
        for cell in &mut result.cells {
            let trial = &mut cell.trials[0];
            let mean = trial.of_all(Figure::Service, Statistic::Mean).unwrap() + f64::from(round) * 1000.0;
            trial.put_statistic(&Stream::all(), Figure::Service, Statistic::Mean, mean, None);
        }
        manifest.sub_experiments.push(result);
    }
    fixture::trial_of(&mut manifest, 1).rate_missed = true;
    let made = kept(&manifest, "rounds");
    let chart = &made[0];
    assert_eq!(chart.lines[0].intervals[0], (0.0, 30.0, 36.0));
    assert!(chart.subtitle.ends_with("medians over rounds, bars: intervals at 95 %"), "{}", chart.subtitle);
    let ring = chart.lines.last().unwrap();
    assert_eq!((ring.name.as_str(), &ring.points[..]), ("the rate was missed", &[(0.0, 50.0)][..]));
    assert_eq!(chart.notes, ["The rate was missed, so these figures are for another rate: tcp/nodelay at 512."]);
}

#[test]
fn several_publishers_are_pictures_of_their_own() {
    let mut manifest = channels();
    for plan in &mut manifest.plan.sub_experiments[..2] {
        plan.workload.topology.publishers = 4;
    }
    let made = charts_for(&manifest);
    assert_eq!(
        names(&made),
        ["channel_latency_by_size_topics-1_publishers-4_rate-1000", "channel_latency_by_topics_1024_rate-1000"]
    );
    assert!(made[0].subtitle.starts_with("1 topic · 4 publishers of each topic, at 1000 /s · "));
}

#[test]
fn lines_say_folder_and_wait_where_these_differ() {
    let (monday, mut tuesday) = (channels(), channels());
    tuesday.plan.sub_experiments[0].wait = tripmeter_model::Wait::Block;
    let made = charts_of(&[named("monday", &monday), named("tuesday", &tuesday)]);
    let lines: Vec<&str> = made[0].lines.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(
        lines,
        [
            "uds/stream, wait poll, touch none · monday",
            "tcp/nodelay, wait poll, touch none · monday",
            "uds/stream, wait block, touch none · tuesday",
            "tcp/nodelay, wait poll, touch none · tuesday"
        ]
    );
    // One transport twice at the same place: names distinguish the sub-experiments.
    let mut twice = channels();
    add(&mut twice, "uds_again", "uds/stream", 1, &[(512, 33.0)]);
    let lines: Vec<String> = charts_for(&twice)[0].lines.iter().map(|line| line.name.clone()).collect();
    assert_eq!(lines, ["uds_1", "tcp_1", "uds_again"]);
}

#[test]
fn calls_have_their_modes_apart_and_loggers_nanoseconds() {
    let mut manifest = fixture::manifest();
    for (name, mode, clients, payload) in
        [("sizes", Mode::Bench, 1, 512), ("one", Mode::FixedFreq, 1, 1024), ("four", Mode::FixedFreq, 4, 1024)]
    {
        crate::fixture::add_calls(&mut manifest, name, "uds/stream", mode, clients);
        let cells = &mut manifest.sub_experiments.last_mut().unwrap().cells;
        cells[0].payload_bytes = payload;
        manifest.plan.sub_experiments.last_mut().unwrap().payloads = vec![payload];
    }
    let second = PayloadResult { payload_bytes: 2048, ..manifest.sub_experiments[0].cells[0].clone() };
    manifest.sub_experiments[0].cells.push(second);
    manifest.plan.sub_experiments[0].payloads.push(2048);
    crate::fixture::add_logger(&mut manifest, "w", "write/file", &[(32, 500.0), (64, 1000.0)]);
    let made = kept(&manifest, "calls");
    let expected = [
        "rpc_latency_by_size_clients-1_bench",
        "rpc_latency_by_clients_1024_fixed-freq_rate-1000",
        "rpc_qps_by_size_clients-1_bench",
        "log_latency_by_size",
    ];
    assert_eq!(names(&made), expected);
    assert_eq!(made[2].lines[0].points, [(0.0, 9876.5432), (1.0, 9876.5432)]);
    assert_eq!(made[2].y.label, "Calls that succeeded per second [1/s]");
    let log = &made[3];
    assert_eq!(
        (log.y.label.as_str(), &log.lines[0].points[..]),
        ("Average latency, call [ns]", &[(0.0, 550.0), (1.0, 1100.0)][..])
    );
    for chart in &made {
        let picture = chart.picture(&Options::default()).unwrap();
        assert!(picture.bytes.starts_with(b"\x89PNG") && picture.path.ends_with(".png"), "{}", picture.path);
    }
    let json = crate::render::json(&charts(&[named("", &manifest)]));
    assert_eq!(json["blocks"][3]["chart"]["lines"][0]["points"][1][1], 1100.0);
    let as_svg = |log| chart_bytes(&made[0], Options { log, format: Format::Svg, ..Options::default() });
    assert_ne!(as_svg(true), as_svg(false));
}

#[test]
fn one_payload_makes_columns_with_intervals() {
    let mut manifest = fixture::manifest();
    add(&mut manifest, "uds_1", "uds/stream", 1, &[(512, 30.0)]);
    add(&mut manifest, "tcp_1", "tcp/nodelay", 1, &[(512, 50.0)]);
    manifest.plan.rounds = 6;
    let first = manifest.sub_experiments[0].clone();
    for round in 2..=6 {
        let mut result = first.clone();
        result.round = round;
        let trial = &mut result.cells[0].trials[0];
        trial.put_statistic(
            &Stream::all(),
            Figure::Service,
            Statistic::Mean,
            30_000.0 + f64::from(round) * 1000.0,
            None,
        );
        manifest.sub_experiments.push(result);
    }
    let made = kept(&manifest, "one_payload");
    let [chart] = &made[..] else { panic!("{made:?}") };
    assert_eq!(chart.name, "channel_latency_by_size_topics-1_rate-1000");
    assert_eq!(chart.title, "Average latency at 512 bytes");
    let X::Categories { names, .. } = &chart.x else { panic!("{chart:?}") };
    assert_eq!(names, &["uds/stream", "tcp/nodelay"]);
    assert_eq!(chart.stacks[0].values, [33.5, 50.0]);
    assert_eq!(chart.stacks[0].intervals, [Some((30.0, 36.0)), None]);
    assert!(chart.lines.is_empty());
}

#[test]
fn one_value_makes_no_plot() {
    assert_eq!(names(&charts_for(&fixture::manifest())), Vec::<&str>::new());
    assert_eq!(names(&charts_for(&crate::fixture::published("uds/stream", &[1000.0]))), Vec::<&str>::new());
}

/// Lines of two folders in one plot differ in the stroke; lines of one transport share a colour.
#[test]
fn folders_are_told_apart() {
    let kept = |name: &str| {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results").join(name);
        tripmeter_model::folder::read(&folder, |text| text.into()).unwrap()
    };
    let (rpc, log) = (kept("aimrt-rpc"), kept("aimrt-log"));
    let named = |name, manifest| NamedResults { name, manifest };
    let both = charts(&[named("old", &rpc), named("new", &rpc), named("log", &log)]);
    let chart = both.charts().find(|chart| chart.name.starts_with("rpc_qps")).unwrap();
    let of = |name: &str| chart.lines.iter().filter(|line| line.name.ends_with(name)).collect::<Vec<_>>();
    let (old, new) = (of(" · old"), of(" · new"));
    assert!(!old.is_empty() && old.len() == new.len());
    for (old, new) in old.iter().zip(&new) {
        assert!(old.look.color == new.look.color && old.look.stroke != new.look.stroke, "{old:?} {new:?}");
    }
    // A plot with one folder looks the same as without the other folder.
    let of_log = both.charts().find(|chart| chart.name.starts_with("log_")).unwrap();
    assert!(of_log.lines.iter().all(|line| line.look == Look::default()), "{of_log:?}");
}
