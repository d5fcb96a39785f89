use super::*;

#[test]
fn one_run_is_compared_in_all_its_figures() {
    let place = folder();
    let old = write(&place.path().join("a"), &with(10.0, 0, 1000.0));
    let same = compare(&[], &old, &old).with(0);
    has_begin(&same.stdout, "x 12/12 ", "passed");
    let told = "1 of 1 sub-experiments passed. Limit: +10 % (or -9.1 % for figures where higher is better)";
    has(&same.unwrapped(), told);
    let worse = write(&place.path().join("b"), &with(12.0, 1, 800.0));
    let done = compare(&["--all"], &old, &worse).with(1);
    for line in [
        "512 1000hz service_ns.p50 9.000 10.800 +20.0 % FAILED",
        "512 1000hz response_ns.p50 54.000 55.800 +3.3 % passed",
        "512 1000hz loss_share 0.000 % 5.000 % +inf % FAILED",
        "1k 1000hz achieved_rate_hz 1000.000 /s 800.000 /s -20.0 % FAILED",
    ] {
        has(&done.stdout, line);
    }
    let done = compare(&["--all", "--figures", "service_ns.p999,service_ns.mean"], &old, &worse).with(1);
    has(&done.stdout, "512 1000hz service_ns.p999 30.000 36.000 +20.0 % FAILED");
    has(&done.stdout, "1k 1000hz service_ns.mean 10.000 12.000 +20.0 % FAILED");
    assert!(!done.stdout.contains("loss_share"), "{}", done.stdout);
    compare(&["--figures", "service_ns.p98"], &old, &worse).with(64).one_line(&["'service_ns.p98'", "service_ns.p999"]);
    let value: Value = serde_json::from_str(&compare(&["--json"], &old, &worse).with(1).stdout).unwrap();
    let comparisons = value["sub_experiments"][0]["comparisons"].as_array().unwrap();
    let rate = comparisons.iter().find(|one| one["figure"] == "achieved_rate_hz").unwrap();
    let expected = json!({ "sub_experiment": "x", "payload_bytes": 512, "offered_load": "1000hz", "stream": "all",
        "figure": "achieved_rate_hz", "statistic": "value", "unit": "/s", "reference": 1000.0, "result": 800.0,
        "increase_share": -0.2, "outcome": "failed" });
    assert_eq!(*rate, expected);
    let plots = place.path().join("plots");
    tripmeter(&["compare", "--svg"], &[("", &old), ("", &worse), ("--plots", &plots)]).with(1);
    let svg = fs::read_to_string(plots.join("x/service_ns.p50_1000hz_comparison.svg")).unwrap();
    assert!(svg.contains("service_ns.p50 [us]") && svg.contains("reference"), "{svg}");
}

#[test]
fn only_what_is_beyond_the_threshold_fails() {
    let place = folder();
    let old = write(&place.path().join("a"), &trips_with(10.0));
    let new = |us: f64| write(&place.path().join("b"), &trips_with(us));
    compare(&["--threshold", "10%"], &old, &new(11.0)).with(0);
    compare(&["--threshold", "10%"], &old, &new(11.01)).with(1);
    compare(&["--threshold", "0"], &old, &new(1.0)).with(0);
    compare(&["--threshold", "1000%"], &old, &new(90.0)).with(0);
    for wrong in ["-0.1", "nan", "fast"] {
        compare(&["--threshold", wrong], &old, &old).with(64).one_line(&["--threshold"]);
    }
    compare(&["--margin", "5%"], &old, &old).with(64).one_line(&["--margin", "--threshold"]);
    compare(&["--method", "ranks"], &old, &old).with(65).one_line(&["too few rounds", "--method threshold"]);
}

#[test]
fn several_rounds_are_compared_in_all_their_figures() {
    let place = folder();
    let old = write(&place.path().join("a"), &in_rounds(&with(10.0, 0, 1000.0), 10));
    let same = compare(&[], &old, &old).with(0);
    assert!(same.stdout.contains("0 regressed, 0 improved"), "{}", same.stdout);
    let worse = write(&place.path().join("b"), &in_rounds(&with(12.0, 2, 800.0), 10));
    let done = compare(&["--method", "ranks"], &old, &worse).with(1);
    has_begin(&done.stdout, "512 1000hz service_ns.p50 10+10 9.050 10.859 1.200 ", "REGRESSED");
    has_begin(&done.stdout, "512 1000hz service_ns.p99 10+10 20.110 24.132 1.200 ", "REGRESSED");
    has_begin(&done.stdout, "512 1000hz loss_share 10+10 0.000 % 10.000 % inf inf..inf ", "REGRESSED");
    has_begin(&done.stdout, "512 1000hz achieved_rate_hz 10+10 1000.000 /s 800.000 /s 0.800 ", "REGRESSED");
    let value: Value = serde_json::from_str(&compare(&["--json"], &worse, &old).with(0).stdout).unwrap();
    let rate = value["comparisons"].as_array().unwrap().iter().find(|one| one["figure"] == "achieved_rate_hz").unwrap();
    assert_eq!(
        (&rate["verdict"], &rate["unit"], &rate["reference"]),
        (&json!("improved"), &json!("/s"), &json!(800.0))
    );
    let to_some = value["comparisons"].as_array().unwrap().iter().find(|one| one["figure"] == "loss_share").unwrap();
    assert_eq!((&to_some["verdict"], &to_some["ratio"]), (&json!("improved"), &json!(0.0)));
    has_begin(&compare(&["--figures", "lost"], &old, &worse).with(1).stdout, "512 1000hz lost 10+10 ", "REGRESSED");
    let zero = compare(&["--figures", "lost"], &old, &old).with(0);
    has(&zero.stdout, "0 in every run of both sides: 2 figures (lost)");
    compare(&["--threshold", "5%"], &old, &worse).with(64).one_line(&["--method threshold"]);
}

#[test]
fn a_total_loss_is_a_regression() {
    let place = folder();
    let with = |name: &str, rate: f64, lost: u64| {
        let counts = [("received_rate_hz", json!(rate)), ("sent", json!(200)), ("lost", json!(lost))];
        write(&place.path().join(name), &in_rounds(&changed(throughput(), &counts), 6))
    };
    let (old, new) = (with("a", 1e6, 0), with("b", 0.0, 200));
    let done = compare(&[], &old, &new).with(1);
    has_begin(&done.stdout, "1k max received_rate_hz 6+6 1000000.000 /s 0.000 /s 0.000 ", "REGRESSED");
    has_begin(&done.stdout, "1k max loss_share 6+6 0.000 % 100.000 % inf inf..inf ", "REGRESSED");
    compare(&[], &new, &old).with(0);
    compare(&[], &new, &new).with(0);
    compare(&["--method", "threshold"], &old, &new).with(1);
    compare(&["--method", "threshold"], &new, &old).with(0);
}

#[test]
fn calls_loggers_and_throughput_are_compared_too() {
    let place = folder();
    let write = |name: &str, manifest: &Value| write(&place.path().join(name), manifest);
    let [old, worse] = [("a", 9000.0), ("b", 8000.0)].map(|(name, qps)| write(name, &calls_with(100.0, qps)));
    let done = compare(&["--all"], &old, &worse).with(1);
    has(&done.stdout, "512 completed_rate_hz 9000.000 /s 8000.000 /s -11.1 % FAILED");
    has(&done.stdout, "512 service_rtt_ns.p50 90.000 90.000 +0.0 % passed");
    let rounds = [("c", 9000.0), ("d", 8000.0)].map(|(name, qps)| write(name, &in_rounds(&calls_with(100.0, qps), 10)));
    let done = compare(&[], &rounds[0], &rounds[1]).with(1);
    has_begin(&done.stdout, "512 completed_rate_hz 10+10 9000.000 /s 8000.000 /s 0.889 ", "REGRESSED");
    let lossy = changed(log(), &[("sent", json!(50)), ("lost", json!(5))]);
    let done = compare(&["--all"], &write("log_a", &log()), &write("log_b", &lossy)).with(1);
    has(&done.stdout, "32 loss_share 0.000 % 10.000 % +inf % FAILED");
    let rate = |hz: f64| changed(throughput(), &[("received_rate_hz", json!(hz))]);
    let done = compare(&["--all"], &write("max_a", &rate(1e6)), &write("max_b", &rate(5e5))).with(1);
    has(&done.stdout, "1k max received_rate_hz 1000000.000 /s 500000.000 /s -50.0 % FAILED");
}

#[test]
fn a_payload_that_was_not_answered_is_named_by_compare() {
    let place = folder();
    let [old, silent] = ["a", "b"].map(|name| {
        let mut manifest = in_rounds(&trips(), 10);
        for result in manifest["sub_experiments"].as_array_mut().unwrap().iter_mut().filter(|_| name == "b") {
            let cell = &mut result["cells"][1];
            (cell["samples"], cell["trials"][0]["series"]) = (json!(0), json!({}));
            figures(cell).as_object_mut().unwrap().remove("rtt_half_ns");
            figures(cell)["received"] = json!(0);
        }
        write(&place.path().join(name), &manifest)
    });
    let done = compare(&["--method", "ranks"], &old, &silent).with(exit::PARTIAL);
    let text = done.unwrapped();
    assert!(text.contains("x at 1k, ") && text.contains(": no message was answered"), "{text}");
    assert!(text.contains("missing in the results: x at 1k: rtt_half_ns.p50"), "{text}");
}

#[test]
fn rounds_of_a_channel_in_which_nothing_arrived_are_named_by_compare_and_not_averaged_away() {
    let place = folder();
    let [old, silent, short] = ["a", "b", "c"].map(|name| {
        let mut manifest = in_rounds(&with(10.0, 0, 1000.0), 10);
        let results = manifest["sub_experiments"].as_array_mut().unwrap();
        for result in results.iter_mut().take(3).filter(|_| name == "b") {
            for cell in result["cells"].as_array_mut().unwrap() {
                let figures = figures(cell).as_object_mut().unwrap();
                figures.retain(|name, _| !["service_ns", "response_ns"].contains(&name.as_str()));
                figures["lost"] = json!(19);
            }
        }
        results.truncate(if name == "c" { 8 } else { 10 });
        write(&place.path().join(name), &manifest)
    });
    let done = compare(&["--method", "ranks"], &old, &silent).with(exit::PARTIAL);
    for round in 1..=3 {
        let line = format!("round {round} of the results: no message was answered or arrived");
        assert!(done.unwrapped().contains(&line), "{}", done.stdout);
    }
    assert!(!done.unwrapped().contains("round 4 of the results"), "{}", done.stdout);
    let done = compare(&["--method", "ranks"], &old, &short).with(exit::PARTIAL);
    assert!(done.unwrapped().contains("x, round 9 of the results: it was not run"), "{}", done.stdout);
}

#[test]
fn kinds_are_never_mixed() {
    let place = folder();
    let write = |name: &str, manifest: &Value| write(&place.path().join(name), manifest);
    let (channel, rpc, log) = (write("channel", &channel()), write("rpc", &rpc()), write("log", &log()));
    // Each has an offered load or a payload that the other lacks.
    let done = compare(&[], &channel, &rpc).with(1).unwrapped();
    assert!(done.contains("FAILED: missing in the results: x at 512 1000hz, x at 1k 1000hz"), "{done}");
    assert!(done.contains("only in the results: x at 512, x at 1k"), "{done}");
    compare(&[], &log, &channel).with(1);
    let other = write("other", &named(&self::rpc(), "y"));
    compare(&[], &channel, &other).with(65).one_line(&["nothing to compare", "x", "y"]);
    // Round trips and calls are both in a closed loop, but only the loss has one kind.
    let done = compare(&["--all"], &write("trips", &trips()), &rpc).with(1).unwrapped();
    assert!(done.contains("missing in the results: x at 512: rtt_half_ns.p50"), "{done}");
    assert!(done.contains("only in the results: x at 512: service_rtt_ns.p50"), "{done}");
    let file = limits(place.path(), "x,512,closed,all,service_rtt_ns,p50,1e12\n");
    check(&[], &file, &rpc).with(0);
    check(&[], &file, &channel).with(1);
    let file = limits(place.path(), "x,512,100hz,all,service_ns,p50,1e12\n");
    check(&[], &file, &channel).with(1);
    // The number of followers is not part of an address.
    let mut several = trips();
    several["plan"]["sub_experiments"][0]["workload"]["followers"] = json!(2);
    let several = write("several", &several);
    let one = place.path().join("trips");
    compare(&[], &one, &several).says(&["x", "followers 1 in the reference, 2 in the results"]);
    let done = tripmeter(&["limits"], &[("", &one), ("", &several), ("-o", &place.path().join("l.csv"))]).with(65);
    done.one_line(&["'x' mixes runs", "with followers 1, 'several' with 2"]);
}

#[test]
fn latency_one_way_of_calls_has_verdicts_of_its_own() {
    let place = folder();
    let measured = renamed(&measured(&["call", "inmem", "--payloads", "512,1k", "-n", "20", "--one-way"]));
    let with = |name: &str, one_way_us: f64| {
        let figures = [("service_rtt_ns", latency(100.0)), ("one_way_ns", latency(one_way_us))];
        write(&place.path().join(name), &changed(measured.clone(), &figures))
    };
    let (old, slower) = (with("a", 40.0), with("b", 50.0));
    let done = compare(&["--all"], &old, &slower).with(1);
    has(&done.stdout, "512 one_way_ns.p50 36.000 45.000 +25.0 % FAILED");
    has(&done.stdout, "512 service_rtt_ns.p50 90.000 90.000 +0.0 % passed");
    compare(&[], &old, &old).with(0);
    // Calls without one-way latency lack it.
    let without = write(&place.path().join("c"), &calls_with(100.0, 9000.0));
    let done = compare(&[], &old, &without).with(1).unwrapped();
    assert!(done.contains("missing in the results: x at 512: one_way_ns.p50"), "{done}");
    let file = limits(place.path(), "x,512,closed,all,one_way_ns,p50,37000\n");
    check(&[], &file, &old).with(0);
    check(&[], &file, &slower).with(1);
}
