//! Verdicts, rates, costs, samples and many lines.

use super::*;

#[test]
fn several_results_are_judged_against_the_first() {
    let old = rounds(&[("uds", "uds/stream", &A), ("mq", "mq/queue", &SLOW)]);
    let new = rounds(&[("uds", "uds/stream", &LIKE_A), ("mq", "mq/queue", &A)]);
    let document = page(&[NamedResults { name: "old", manifest: &old }, NamedResults { name: "new", manifest: &new }]);
    let map = chart(&document, "verdicts").heat.as_ref().unwrap();
    assert_eq!(map.rows, ["uds", "mq"]);
    let level =
        |row: usize, column: usize| map.cells.iter().find(|cell| (cell.row, cell.column) == (row, column)).unwrap();
    assert_eq!((level(0, 0).level, level(1, 1).level), (HeatLevel::Even, HeatLevel::Good));
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
    assert_eq!(chart(&document, "verdicts_ab").heat.as_ref().unwrap().cells[0].level, HeatLevel::Bad);
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
    let payloads: Vec<u64> = (10..23).map(|power| 1 << power).collect();
    for index in 0..100 {
        let name = format!("uds{index}");
        add(&mut manifest, &name, &format!("uds/stream?packet={}", 4096 + index), &payloads);
        let median = |payload: &u64| (*payload, 1000.0 + f64::from(index));
        result(&mut manifest, &name, 1, &payloads.iter().map(median).collect::<Vec<_>>());
    }
    let document = page_of_one(&manifest);
    let size = chart(&document, "rtt_half_by_payload");
    assert_eq!(size.lines.len(), curves::MOST_LINES);
    assert_eq!(size.notes, ["The best 12 of 100 at 1k are drawn; the table has all."]);
    assert_legible(size, 600.0, 400.0);
    let both =
        page(&[NamedResults { name: "a", manifest: &manifest }, NamedResults { name: "b", manifest: &manifest }]);
    assert_eq!(chart(&both, "verdicts").heat.as_ref().unwrap().cells.len(), 1300);
    let looks: BTreeSet<String> = size.lines.iter().map(|line| format!("{:?}", line.look)).collect();
    assert_eq!(looks.len(), size.lines.len());
}
