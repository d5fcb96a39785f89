use super::*;

#[test]
fn limits_are_made_and_checked() {
    let place = folder();
    let runs = place.path().join("runs");
    for run in 1..=5_u32 {
        let run_us = 10.0 + f64::from(run);
        write(&runs.join(format!("run-{run:04}")), &with(run_us, 0, 1000.0 - f64::from(run)));
    }
    let file = place.path().join("limits.csv");
    let made = tripmeter(&["limits", "--percentile", "100"], &[("", &runs), ("-o", &file)]).with(0);
    has(&made.stdout, "x 512 1000hz response_ns.p50 at most 58.500");
    let sorted = |flags: &[&str]| tripmeter(&[&["limits"], flags].concat(), &[("", &runs), ("-o", &file)]).with(0);
    let text = sorted(&["--percentile", "100", "--sort", "figure:desc"]).stdout;
    assert!(text.find("service_ns.p99").unwrap() < text.find("response_ns.p50").unwrap(), "{text}");
    let golden = |bytes: u64| {
        let row = |rest: &str| format!("x,{bytes},1000hz,all,{rest}\n");
        [
            "response_ns,p50,58500",
            "response_ns,p99,130000",
            "service_ns,p50,13500",
            "service_ns,p99,30000",
            "loss_share,value,0",
            "achieved_rate_hz,value,995",
        ]
        .map(row)
        .concat()
    };
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("{LIMITS}{}{}", golden(512), golden(1024)));
    let good = write(&place.path().join("good"), &with(12.0, 0, 999.0));
    check(&["--strict"], &file, &good).with(0);
    let bad = write(&place.path().join("bad"), &with(12.0, 1, 900.0));
    let done = check(&["--all"], &file, &bad).with(1);
    has(&done.stdout, "512 1000hz loss_share 0.000 % 5.000 % +inf % FAILED");
    has(&done.stdout, "512 1000hz achieved_rate_hz 995.000 /s 900.000 /s +9.5 % FAILED");
    let sorted = check(&["--all", "--sort", "figure:desc"], &file, &bad).with(1).stdout;
    assert!(sorted.find("service_ns.p99").unwrap() < sorted.find("response_ns.p50").unwrap(), "{sorted}");
    check(&["--sort", "nope"], &file, &bad).with(64).one_line(&["'nope'", "sub_experiment ('sub-experiment')"]);
    has(&done.stdout, "8 of 12 limits met; 1 of 1 sub-experiment failed");
    let value: Value = serde_json::from_str(&check(&["--json"], &file, &bad).with(1).stdout).unwrap();
    let rows = value["sub_experiments"][0]["limits"].as_array().unwrap();
    let rate = rows.iter().find(|row| row["figure"] == "achieved_rate_hz").unwrap();
    assert_eq!((&rate["limit"], &rate["value"], &rate["passed"]), (&json!(995.0), &json!(900.0), &json!(false)));
    // Each of several rounds is a run, and the median is checked; a round's folder is that round alone.
    let rounds = write(&place.path().join("rounds"), &in_rounds(&with(10.0, 0, 1000.0), 4));
    fs::create_dir(rounds.join("round-04")).unwrap();
    let made =
        tripmeter(&["limits", "--percentile", "50", "--figures", "service_ns.p50"], &[("", &rounds), ("-o", &file)]);
    made.with(0).says(&["from only 4 runs"]);
    assert!(fs::read_to_string(&file).unwrap().contains("x,512,1000hz,all,service_ns,p50,9022.5"));
    check(&[], &file, &rounds).with(0);
    check(&[], &file, &rounds.join("round-04")).with(1);
}

#[test]
fn what_is_on_one_side_only_is_named_and_fails_if_strict() {
    let place = folder();
    let results = write(&place.path().join("a"), &trips_with(10.0));
    let row = |name: &str, bytes: u64, limit: f64| format!("{name},{bytes},closed,all,rtt_half_ns,p50,{limit}\n");
    let file = limits(place.path(), &[row("x", 512, 9000.0), row("gone", 512, 1.0)].concat());
    let done = check(&[], &file, &results).with(0);
    has(&done.unwrapped(), "not checked: 1 sub-experiment with limits, but not measured: gone");
    check(&["--strict"], &file, &results).with(1);
    let done = check(&["--all"], &limits(place.path(), &row("x", 4096, 9000.0)), &results).with(1);
    has(&done.stdout, "4k rtt_half_ns.p50 9.000 not measured not measured FAILED");
    let other = limits(place.path(), &row("y", 512, 1.0));
    check(&[], &other, &results).with(65).one_line(&["nothing to check", "limits.csv", "x"]);
    check(&[], &limits(place.path(), ""), &results).with(65).one_line(&["no limits"]);
    check(&[], &limits(place.path(), "x,1,closed,all,rtt_half_ns,p50,fast\n"), &results)
        .with(65)
        .one_line(&["line 2", "'fast'"]);
    check(&[], &place.path().join("none.csv"), &results).with(66).one_line(&["none.csv"]);
    let some = limits(place.path(), &row("y", 512, 1.0));
    check(&[], &some, place.path()).with(66).one_line(&["not a results folder"]);
    let mut less = trips_with(10.0);
    less["sub_experiments"][0]["cells"].as_array_mut().unwrap().truncate(1);
    less["sub_experiments"][0]["payloads"] = json!(1);
    let less = write(&place.path().join("b"), &less);
    let done = compare(&[], &results, &less).with(1);
    has(&done.unwrapped(), "FAILED: missing in the results: x at 1k");
    let done = compare(&[], &less, &results).with(0);
    has(&done.unwrapped(), "not compared: only in the results: x at 1k");
    compare(&["--strict"], &less, &results).with(1);
}

#[test]
fn the_exit_code_is_the_number_of_failing_sub_experiments_and_63_at_most() {
    let place = folder();
    for count in [1, 5, 63, 64, 70] {
        let mut manifest = trips_with(10.0);
        for part in ["plan", ""] {
            let list =
                if part.is_empty() { &mut manifest["sub_experiments"] } else { &mut manifest[part]["sub_experiments"] };
            let first = list[0].clone();
            let named = |number: usize| {
                let mut one = first.clone();
                one["name"] = json!(format!("s{number}"));
                one
            };
            *list = (0..count).map(named).collect();
        }
        let results = write(&place.path().join("a"), &manifest);
        let rows = (0..count).map(|number| format!("s{number},512,closed,all,rtt_half_ns,p50,1\n"));
        let file = limits(place.path(), &rows.collect::<String>());
        check(&[], &file, &results).with(count.min(63) as u8);
    }
}

/// Limits from measured values, with all decimals.
#[test]
fn a_run_meets_limits_that_are_made_of_it_alone() {
    let lossy = {
        static ONCE: OnceLock<Value> = OnceLock::new();
        // Lost after path proof and warm-up.
        let words = "publish inmem?lose=530 --payloads 512 --warmup 2 -n 30";
        ONCE.get_or_init(|| measured(&words.split(' ').collect::<Vec<_>>()))
    };
    let all = [("channel", &channel()), ("rpc", &rpc()), ("log", &log()), ("lossy", lossy), ("max", &throughput())];
    for (kind, manifest) in all {
        let place = folder();
        let run = write(&place.path().join("runs/run-0001"), manifest);
        let file = place.path().join("limits.csv");
        for percentile in ["0", "99", "100"] {
            let made =
                tripmeter(&["limits", "--percentile", percentile], &[("", &place.path().join("runs")), ("-o", &file)]);
            assert!(!made.with(0).stderr.contains("fail"), "{kind}");
            let done = check(&["--strict"], &file, &run);
            assert!(done.code == Some(0), "{kind}, percentile {percentile}: {}", done.stdout);
        }
    }
}

/// Includes counts and maxima, which differ between rounds.
#[test]
fn rounds_meet_limits_that_are_made_of_them() {
    let place = folder();
    let mut manifest = in_rounds(&with(10.0, 0, 1000.0), 5);
    for (lost, result) in (1..).zip(manifest["sub_experiments"].as_array_mut().unwrap()) {
        for cell in result["cells"].as_array_mut().unwrap() {
            figures(cell)["lost"] = json!(lost);
            cell["trials"][0]["streams"]["process=leader"]["peak_memory_bytes"] = json!(1000 * lost);
        }
    }
    let rounds = write(&place.path().join("runs/run-0001"), &manifest);
    let file = place.path().join("limits.csv");
    let every = compare(&["--figures", "none"], &rounds, &rounds).with(64).stderr;
    let every = every.split_once("they have ").unwrap().1.trim().trim_end_matches(" (--figures)").replace(", ", ",");
    assert!(every.contains("lost,") && every.contains("peak_memory_bytes") && every.contains("loss_share"), "{every}");
    let made = ["limits", "--percentile", "100", "--figures", &every];
    tripmeter(&made, &[("", &place.path().join("runs")), ("-o", &file)]).with(0);
    check(&["--strict"], &file, &rounds).with(0);
    // Half of the rounds lost more than this.
    let limited = limits(place.path(), "x,512,1000hz,all,lost,value,2\n");
    has(&check(&["--all"], &limited, &rounds).with(1).stdout, "512 1000hz lost 2 n 3 n +50.0 % FAILED");
}

#[test]
fn limits_are_loosened_for_all_of_them_together() {
    let place = folder();
    let runs = place.path().join("runs");
    for run in 1..=19_u32 {
        write(&runs.join(format!("run-{run:04}")), &trips_with(10.0 + 0.1 * f64::from(run)));
    }
    let row = |bytes: u64| format!("x,{bytes},closed,all,rtt_half_ns,p50,9900\n");
    let file = limits(place.path(), &[row(512), row(1024)].concat());
    let measured = |us: f64| write(&place.path().join("a"), &trips_with(us));
    let loosened = ["--family-wise", &runs.display().to_string()].map(str::to_owned);
    let loosened = [loosened[0].as_str(), loosened[1].as_str()];
    check(&[], &file, &measured(11.8)).with(1);
    check(&loosened, &file, &measured(11.8)).with(0).says(&["limits loosened: times 1.082 (rtt_half_ns.p50)", "19"]);
    check(&loosened, &file, &measured(12.0)).with(1);
    let counts = limits(place.path(), "x,512,closed,all,lost,value,0\n");
    let lossy = write(&place.path().join("b"), &changed(trips(), &[("lost", json!(1))]));
    check(&loosened, &counts, &measured(11.8)).with(0).says(&["limits loosened: plus 0.000 (lost.value)"]);
    check(&loosened, &counts, &lossy).with(1);
    let file = limits(place.path(), &[row(512), row(1024)].concat());
    fs::remove_dir_all(runs.join("run-0001")).unwrap();
    check(&loosened, &file, &measured(1.0)).with(65).one_line(&["18 complete runs", "needs 19"]);
}

#[test]
fn runs_of_an_experiment_with_rounds_have_one_each() {
    let _alone = alone();
    let place = folder();
    let text = "pattern = \"ping\"\npayloads = \"64\"\nsamples = 20\nrounds = 6\n\n[[sub_experiment]]\ntransport = \"inmem\"\n";
    fs::write(place.path().join("some.toml"), text).unwrap();
    let words = ["limits", "--runs", "2", "--of", "some.toml", "-q", "-o", "limits.csv"];
    let done = Tripmeter::new(words).at(place.path()).run().with(0);
    assert!(done.stderr.contains("each run has one round; the 6 of the experiment are ignored"), "{done:?}");
    assert!(!place.path().join("limits_runs/run-0001/round-02").exists());
    Tripmeter::new(words).at(place.path()).run().with(0);
}
