//! Verdicts, rates, costs, samples and many lines.

use super::*;
use crate::pairs::AskedPairs;
use crate::plots::samples::SampleSeries;
use tripmeter_analysis::check::ResultsCheck;
use tripmeter_model::pace::Burst;

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
    assert!(said.contains("new compared with old: of 8 figures, 4 better, 4 not different."), "{said}");
    let ratio = chart(&document, "rtt_half_ratio_1024");
    assert!(
        ratio.reading.contains("p50 is less with mq/queue · new, shows no difference with uds/stream · new"),
        "{}",
        ratio.reading
    );
    // With one round on either side, a threshold decides.
    let one = |median: f64| rounds(&[("uds", "uds/stream", &[median])]);
    let (old, new) = (one(1000.0), one(1300.0));
    let document = page(&[NamedResults { name: "old", manifest: &old }, NamedResults { name: "new", manifest: &new }]);
    let map = chart(&document, "verdicts");
    assert!(map.subtitle.starts_with("by a threshold of 10 %"), "{}", map.subtitle);
    assert_eq!(map.heat.as_ref().unwrap().cells[0].text, "! +30 %");
    let expected = "new compared with old: of 6 figures, 4 worse, 2 not different (by a threshold of 10 %, as there \
                    are too few rounds for a test).\n";
    assert!(answer(&document).contains(expected), "{}", answer(&document));
}

/// A curve with too few samples for any percentile does not remove the sentence on the others.
#[test]
fn every_tail_has_a_sentence() {
    let mut manifest = rounds(&[("uds", "uds/stream", &[1000.0]), ("mq", "mq/queue", &[1000.0])]);
    fixture::set_trips(&mut manifest.sub_experiments[0].cells[1], 20);
    let tail = |manifest: &Manifest| chart(&page_of_one(manifest), "rtt_half_percentiles_65536").reading.clone();
    let few = "uds/stream has too few samples for p90.";
    assert_eq!(tail(&manifest), format!("p90 of mq/queue is 1.5 times its median; {few}"));
    fixture::set_trips(&mut manifest.sub_experiments[1].cells[1], 20);
    assert_eq!(tail(&manifest), "uds/stream and mq/queue have too few samples for p90.");
}

/// A figure that the last results lack is named but not worse, as in `compare`; among several results, each is named.
#[test]
fn what_is_missing_is_told() {
    let old = rounds(&[("uds", "uds/stream", &[1000.0]), ("mq", "mq/queue", &[1000.0]), ("tcp", "tcp/one", &[1000.0])]);
    let mut new = rounds(&[("uds", "uds/stream", &[1000.0]), ("tcp", "tcp/one", &[1300.0])]);
    new.sub_experiments[1].cells.truncate(1);
    let other = rounds(&[("other", "uds/stream", &A)]);
    let of = |name, manifest| NamedResults { name, manifest };
    let document = page(&[of("old", &old), of("new", &new), of("other", &other)]);
    let said = answer(&document);
    let expected = [
        "new compared with old: of 12 figures, 2 worse, 7 not different, 3 missing (by a threshold of 10 %, as there \
         are too few rounds for a test). Missing in new: mq and tcp at 64k.",
        "other compared with old: no figure in common. Missing in other: uds, mq and tcp.",
    ];
    assert!(expected.iter().all(|part| said.contains(part)), "{said}");
    let text = Text { is_unwrapped: true, ..Text::default() }.render(&document);
    assert!(text.contains("missing in other: uds, mq, tcp\n") && text.contains("only in other: other\n"), "{text}");
    // Likewise with a rank test.
    let old = rounds(&[("uds", "uds/stream", &A), ("mq", "mq/queue", &SLOW)]);
    let like = rounds(&[("uds", "uds/stream", &LIKE_A)]);
    let said = answer(&page(&[of("old", &old), of("new", &like)]));
    assert!(said.contains("of 4 figures, 4 not different. Missing in new: mq.\n"), "{said}");
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
    let checks = PageChecks { limits: vec![check], pairs: Vec::new() };
    let document = page_of(&PageInput { results: &[of], samples: &[], check: Some(&checks) });
    let map = chart(&document, "verdicts_limits");
    let expected = "1 of 2 limits met, 1 of 1 sub-experiment failed: uds. The worst is rtt_half_ns.p50 of uds at 1k, 11.1 % beyond \
                    its limit.";
    assert_eq!(map.reading, expected);
    assert!(answer(&document).contains(&map.reading), "{}", answer(&document));
    assert_eq!(map.heat.as_ref().unwrap().cells[0].text, "! +11 %");
    assert!(map.notes[0].starts_with("! beyond its limit"), "{:?}", map.notes);
    // Each of several folders has its own map.
    let both = [NamedResults { name: "old", manifest: &one }, NamedResults { name: "new", manifest: &one }];
    let checks = PageChecks { limits: vec![checks.limits[0].clone(); 2], pairs: Vec::new() };
    let document = page_of(&PageInput { results: &both, samples: &[], check: Some(&checks) });
    let titles: Vec<&str> = document.charts().map(|chart| chart.title.as_str()).collect();
    assert!(
        titles.contains(&"Are the limits met in old?") && titles.contains(&"Are the limits met in new?"),
        "{titles:?}"
    );
}

/// The page has the verdicts of `ab.json`: the requested figures, margin and error rate.
#[test]
fn an_ab_is_judged_by_what_it_was_asked() {
    use tripmeter_analysis::Selection;
    use tripmeter_stats::change::Control;
    use tripmeter_stats::runs::Question;

    let slower = A.map(|median| 1.25 * median);
    let mut pairs = rounds(&[("a", "uds/stream", &A), ("b", "tcp/nodelay", &slower)]);
    pairs.plan.source = "ab".to_owned();
    let of = [NamedResults { name: "", manifest: &pairs }];
    let with = |names: &[&str], margin: f64| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let question = Question { margin, control: Control::Fdr(0.01), ..AskedPairs::default().question };
        let asked = AskedPairs { selection: Selection::asked(&names).unwrap(), question, effect: 0.1 };
        let checks = PageChecks { limits: Vec::new(), pairs: vec![Some(asked)] };
        page_of(&PageInput { results: &of, samples: &[], check: Some(&checks) })
    };
    let document = with(&["rtt_half_ns.p99"], 0.05);
    let said = answer(&document);
    let expected = "b: tcp/nodelay compared with a: uds/stream, over 8 pairs of rounds: slower in 2 of 2 figures. At 1k, p99 of \
                    rtt_half is 2.00 µs with a and 2.50 µs with b, ×1.25 (";
    assert!(said.contains(expected) && !said.contains("fastest"), "{said}");
    let map = chart(&document, "verdicts_ab");
    assert!(map.subtitle.contains("ignoring changes up to 5 %, false discovery rate 1 %"), "{}", map.subtitle);
    assert!(!map.heat.as_ref().unwrap().cells[0].detail.contains("p50"), "{map:?}");
    // Changes within the margin are not slower, in charts too.
    let document = with(&[], 0.5);
    let all = answer(&document) + &readings(&document);
    assert!(all.contains("no change beyond 50 % in 4 of 4 figures"), "{all}");
    assert!(!all.contains(" is greater with ") && !all.contains("fastest"), "{all}");
    let text = Text { is_unwrapped: true, ..Text::default() }.render(&document);
    assert!(text.contains("8 pairs of runs"), "{text}");
    // With several folders, each map names its folder.
    let both = [NamedResults { name: "old", manifest: &pairs }, NamedResults { name: "new", manifest: &pairs }];
    let said = answer(&page(&both));
    let expected = ["In old, b compared with a, over 8 pairs", "In new. b: tcp/nodelay · new compared with a: uds"];
    assert!(expected.iter().all(|part| said.contains(part)), "{said}");
}

/// Six pairs cannot decide two figures, so nothing on the page calls a side fastest.
#[test]
fn too_few_pairs_have_one_answer() {
    let mut pairs = rounds(&[("a", "uds/stream", &A[..6]), ("b", "tcp/nodelay", &SLOW[..6])]);
    pairs.plan.source = "ab".to_owned();
    pairs.plan.sub_experiments.iter_mut().for_each(|sub| sub.payloads = vec![1024]);
    pairs.sub_experiments.iter_mut().for_each(|result| result.cells.truncate(1));
    // In one round, p99 has the opposite order.
    fixture::put_within(&mut pairs.sub_experiments[0].cells[0].trials[0], Figure::RttHalf, &[]);
    pairs.sub_experiments[0].cells[0].trials[0].put_statistic(
        &Stream::all(),
        Figure::RttHalf,
        Statistic::P99,
        1e6,
        None,
    );
    let document = page_of_one(&pairs);
    let all = answer(&document) + &readings(&document);
    assert!(all.contains("it is undecided which is faster in 2 of 2 figures"), "{all}");
    assert!(all.contains("(no interval: 6 pairs, too few for 2 figures judged together): undecided"), "{all}");
    assert!(!all.contains("fastest") && !all.contains("greater with"), "{all}");
}

/// Lines of one sub-experiment share a colour; lines of two folders differ in the stroke.
#[test]
fn lines_of_several_folders_are_told_apart() {
    let subs: [(&str, &str, &[f64]); 3] =
        [("uds", "uds/stream", &A), ("mq", "mq/queue", &SLOW), ("shm", "shm/ring", &LIKE_A)];
    let (old, new) = (rounds(&subs), rounds(&subs[1..]));
    let document = page(&[NamedResults { name: "old", manifest: &old }, NamedResults { name: "new", manifest: &new }]);
    let lines = &chart(&document, "rtt_half_by_payload").lines;
    let look = |name: &str| lines.iter().find(|line| line.name == name).unwrap_or_else(|| panic!("{lines:?}")).look;
    let (before, after) = (look("mq/queue · old"), look("mq/queue · new"));
    assert_eq!(before.color, after.color);
    assert!(before.stroke != after.stroke && before.marker != after.marker);
    assert_ne!(look("uds/stream · old").color, before.color);
    let floors = (look("shm/ring · old (floor)"), look("shm/ring · new (floor)"));
    assert_ne!(floors.0.stroke, floors.1.stroke);
    let all: BTreeSet<String> = lines.iter().map(|line| format!("{:?}", line.look)).collect();
    assert_eq!(all.len(), lines.len());
}

/// The memory copy is a dashed line where it was measured, no lower than the other lines. Its stroke is that of its
/// folder.
#[test]
fn a_copy_of_memory_is_drawn_where_it_was_measured() {
    use tripmeter_model::manifest::MemoryCopy;

    let subs: [(&str, &str, &[f64]); 2] = [("uds", "uds/stream", &A), ("mq", "mq/queue", &SLOW)];
    let mut plain = rounds(&subs);
    for sub in &mut plain.plan.sub_experiments {
        sub.payloads.push(262_144);
    }
    for result in &mut plain.sub_experiments {
        let largest = PayloadResult { payload_bytes: 262_144, ..result.cells[1].clone() };
        result.cells.push(largest);
    }
    let mut measured = plain.clone();
    let size = |document: &Document| chart(document, "rtt_half_by_payload").clone();
    assert!(!size(&page_of_one(&plain)).lines.iter().any(|line| line.name.contains("copy")));
    let copies = [(65_536, 4096.0), (262_144, 32_768.0)].map(|(bytes, copy_ns)| MemoryCopy { bytes, copy_ns });
    measured.environment.memory_copy = copies.to_vec();
    let drawn = size(&page_of_one(&measured));
    let line = drawn.lines.last().unwrap();
    assert_eq!((line.name.as_str(), line.look.stroke), ("memory copy", Stroke::Dashed));
    // The least of the other values is 1 µs: 16,000 bytes at 16 bytes per nanosecond, but the smallest copy measured
    // has 64k.
    assert_eq!(line.points, [(65_536.0, 4.096), (262_144.0, 32.768)]);
    assert_eq!(
        drawn.notes,
        ["Memory copy: the time to copy the payload once, in one thread, 16.0 GB/s at 64k, 8.00 GB/s at 256k; a \
          faster transport probably does not copy it."]
    );
    assert_legible(&drawn, 600.0, 400.0);
    let both = [NamedResults { name: "old", manifest: &plain }, NamedResults { name: "new", manifest: &measured }];
    let copies: Vec<String> =
        size(&page(&both)).lines.into_iter().map(|line| line.name).filter(|name| name.contains("copy")).collect();
    assert_eq!(copies, ["memory copy · new"]);
    let both = [NamedResults { name: "old", manifest: &measured }, NamedResults { name: "new", manifest: &measured }];
    let drawn_of_both = size(&page(&both)).lines;
    let strokes = |begin: &str| {
        let lines = drawn_of_both.iter().filter(|line| line.name.starts_with(begin));
        lines.map(|line| line.look.stroke).collect::<Vec<_>>()
    };
    assert_eq!(strokes("memory copy"), [Stroke::Solid, Stroke::Dashed]);
    assert_eq!(strokes("memory copy"), strokes("uds/stream"));
    // A file may contain invalid values, in any order.
    let odd = [(262_144, 32_768.0), (0, 1.0), (65_536, 4096.0), (1024, f64::NAN), (65_536, 1.0), (2048, -1.0)];
    measured.environment.memory_copy = odd.map(|(bytes, copy_ns)| MemoryCopy { bytes, copy_ns }).to_vec();
    assert_eq!(size(&page_of_one(&measured)).lines, drawn.lines);
    // If copying is faster than every transport, the line is useless.
    measured.environment.memory_copy.iter_mut().for_each(|copy| copy.copy_ns = 1.0);
    assert!(!size(&page_of_one(&measured)).lines.iter().any(|line| line.name.contains("copy")));
}

/// Tracing by `tripmeter explain` slows a sub-experiment down, so it is not listed among transports in any table or
/// export.
#[test]
fn what_was_disturbed_is_left_out_and_named() {
    use tripmeter_model::plan::Instrument;

    let subs: [(&str, &str, &[f64]); 4] = [
        ("uds_poll", "uds/stream", &A),
        ("uds_stamped", "uds/stream", &SLOW),
        ("mq_poll", "mq/queue", &SLOW),
        ("mq_calls", "mq/queue", &[500.0; 8]),
    ];
    let mut manifest = rounds(&subs);
    manifest.plan.sub_experiments[1].instrument = Some(Instrument::Stamps);
    manifest.plan.sub_experiments[3].instrument = Some(Instrument::SystemCalls);
    let document = page_of_one(&manifest);
    let said = answer(&document);
    assert!(said.starts_with("uds/stream and mq/queue (ping)"), "{said}");
    assert!(said.contains("At 1k, uds/stream is fastest") && !said.contains("slowest"), "{said}");
    let drawn = &chart(&document, "rtt_half_by_payload").lines;
    assert_eq!(drawn.len(), 2, "{drawn:?}");
    let notes =
        document.blocks.iter().find_map(|block| if let Block::Notes(notes) = block { Some(notes) } else { None });
    let named = "left out: 2 of 4 sub-experiments, which `tripmeter explain` slowed down by tracing: uds_stamped, \
                 mq_calls;";
    assert!(notes.is_some_and(|notes| notes[0].text.starts_with(named)), "{notes:?}");
    let all = [NamedResults { name: "", manifest: &manifest }];
    let exported = crate::export::bencher(&all).0.to_string() + &crate::export::openmetrics(&all).0;
    let shown = [crate::screen(&manifest, false), crate::iceperf(&manifest), crate::ecal(&[("", &manifest)])];
    let shown = shown.map(|document| fixture::text(&document)).concat();
    assert!(exported.contains("uds_poll") && exported.contains("mq_poll"), "{exported}");
    assert!(!exported.contains("uds_stamped") && !exported.contains("mq_calls"), "{exported}");
    assert_eq!((shown.matches("uds_stamped").count(), shown.matches("mq_calls").count()), (1, 1), "{shown}");
    let judged = tripmeter_analysis::JudgedResults { manifest, allows_damage: false };
    assert_eq!((judged.names(), judged.failures("side")), (vec!["uds_poll", "mq_poll"], Vec::new()));
}

/// The answer names only the transports that were requested.
#[test]
fn the_floor_that_was_added_is_named_apart() {
    let mut manifest = rounds(&[("uds", "uds/stream", &A), ("floor", "shm/ring", &LIKE_A)]);
    manifest.plan.sub_experiments[1].added_as_floor = true;
    let said = answer(&page_of_one(&manifest));
    assert!(said.starts_with("uds/stream and the floor (ping), 2 payloads"), "{said}");
    let twice = rounds(&[("poll", "uds/stream", &A), ("block", "uds/stream", &LIKE_A)]);
    let said = answer(&page_of_one(&twice));
    assert!(said.starts_with("2 sub-experiments (ping)"), "{said}");
}

/// Intervals are mentioned if there are any, and with several rounds the last point is explained.
#[test]
fn subtitles_say_what_is_drawn() {
    let subs = |count: usize| rounds(&[("uds", "uds/stream", &A[..count]), ("mq", "mq/queue", &SLOW[..count])]);
    let (one, few, many) = (page_of_one(&subs(1)), page_of_one(&subs(3)), page_of_one(&subs(8)));
    let size = |document| chart(document, "rtt_half_by_payload");
    for document in [&one, &few] {
        let drawn = size(document);
        assert!(!drawn.subtitle.contains("interval") && drawn.lines.iter().all(|line| line.intervals.is_empty()));
        assert!(!drawn.reading.contains("interval"), "{}", drawn.reading);
    }
    assert!(size(&one).reading.ends_with("(in one round)."), "{}", size(&one).reading);
    assert!(size(&few).reading.ends_with("(in 3 rounds)."), "{}", size(&few).reading);
    assert!(size(&many).subtitle.ends_with("8 rounds · 95 % intervals over rounds"), "{}", size(&many).subtitle);
    let tail = |document| chart(document, "rtt_half_percentiles_1024").subtitle.clone();
    assert!(tail(&one).contains("the last point is the maximum"), "{}", tail(&one));
    assert!(tail(&many).contains("the last point is the median of the maxima of rounds"), "{}", tail(&many));
    // A killed run has fewer rounds than planned.
    let mut killed = subs(8);
    killed.sub_experiments.retain(|result| result.round <= 2);
    killed.status = tripmeter_model::manifest::RunStatus::Running;
    let killed = page_of_one(&killed);
    let said = answer(&killed);
    assert!(said.starts_with("uds/stream and mq/queue (ping), 2 payloads"), "{said}");
    assert!(said.contains("the run did not finish: 12 rounds of sub-experiments failed"), "{said}");
    assert!(size(&killed).subtitle.contains(" · 2 rounds"), "{}", size(&killed).subtitle);
}

/// A channel at 1k at these rates: rate, median response in nanoseconds, and whether the rate was missed.
fn channel(manifest: &mut Manifest, name: &str, transport: &str, rates: &[(f64, f64, bool)]) {
    let loads: Vec<OfferedLoad> = rates.iter().map(|rate| OfferedLoad::Rate { hz: rate.0 }).collect();
    let plan = add(manifest, name, transport, &[1024]);
    plan.pattern = Pattern::Publish;
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
    assert!(answer(&document).contains(": rate missed by tcp; "), "{}", answer(&document));
    let load = chart(&document, "response_by_rate_1024");
    assert_eq!(load.reading, "The lowest rate that was missed is 10000 /s, by tcp/nodelay.");
    assert_eq!(load.notes, ["tcp/nodelay: 5000 /s of 10000 /s offered."]);
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
    // Bursts of the same mean rate are neither on an axis of rates nor ranked beside an even rate.
    let mut bursts = manifest.clone();
    let burst = OfferedLoad::Burst(Burst { size: 10, gap_ns: 10_000_000 });
    bursts.plan.sub_experiments.iter_mut().for_each(|plan| plan.workload.loads[1] = burst);
    for trial in bursts.sub_experiments.iter_mut().map(|result| &mut result.cells[0].trials[1]) {
        (trial.load, trial.rate_missed) = (burst, false);
    }
    let document = page_of_one(&bursts);
    assert!(!document.charts().any(|chart| chart.name == "response_by_rate_1024"), "{}", readings(&document));
    assert!(answer(&document).contains("the next is tcp/nodelay, 1000 /s, ×2.00"), "{}", answer(&document));
    // The cost needs the CPU time of the follower too.
    for cell in manifest.sub_experiments.iter_mut().flat_map(|result| &mut result.cells) {
        for trial in &mut cell.trials {
            trial.remove(&Stream::process(Process::Follower), Figure::CpuTime);
        }
    }
    assert!(!readings(&page_of_one(&manifest)).contains("_cost_"));
}

#[test]
fn every_pattern_has_the_parts_that_its_figures_allow() {
    let played = crate::fixture::played();
    let said = readings(&page_of_one(&played));
    assert!(said.contains("response_percentiles_all_topics"), "{said}");
    // With several followers, the one that lost most counts.
    let mut several = fixture::manifest();
    add(&mut several, "shm", "shm/ring", &[1024]).workload.topology.followers = 2;
    let trial = &mut result(&mut several, "shm", 1, &[(1024, 500.0)]).cells[0].trials[0];
    for (follower, lost) in [(0, 0), (1, 110)] {
        let counts = Counts { sent: 11_000, received: 11_000 - lost, lost, ..Counts::default() };
        trial.put_counts(&Stream::follower(follower), &counts, false);
    }
    let document = page_of_one(&several);
    assert!(answer(&document).contains(": shm lost 1 % of its messages; "), "{}", answer(&document));
    let loss = chart(&document, "loss");
    assert_eq!(loss.reading, "shm lost most: 1 % at 1k.");
    let has_intervals = loss.stacks[0].intervals.iter().any(Option::is_some);
    assert_eq!(loss.subtitle.contains("interval"), has_intervals, "{loss:?}");
    // A stream at full speed has a rate, and latencies of a sample of its messages.
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
    assert!(answer(&document).contains("uds/stream was highest with 1000000 /s"), "{}", answer(&document));
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
        stream: Stream::all(),
        figure: Figure::RttHalf,
        points: SampleSeries::from_samples(&raw, true),
    };
    let results = [NamedResults { name: "", manifest: &manifest }];
    let document = page_of(&PageInput { results: &results, samples: &[sampled], check: None });
    let time = chart(&document, "rtt_half_time_mq_1024");
    let expected = "The first 300 samples look like warm-up; the median fell 12 % from start to finish.";
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
    assert_eq!(size.lines.len(), crate::curves::MOST_LINES);
    assert_eq!(size.notes, ["The chart shows the best 12 of 100 at 1k; the table shows all."]);
    assert_legible(size, 600.0, 400.0);
    let both =
        page(&[NamedResults { name: "a", manifest: &manifest }, NamedResults { name: "b", manifest: &manifest }]);
    assert_eq!(chart(&both, "verdicts").heat.as_ref().unwrap().cells.len(), 1300);
    let looks: BTreeSet<String> = size.lines.iter().map(|line| format!("{:?}", line.look)).collect();
    assert_eq!(looks.len(), size.lines.len());
}
