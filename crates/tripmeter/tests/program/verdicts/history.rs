//! `history`, and the plots of `export`.

use super::*;

/// Database of one experiment per day, with the given mean latency.
fn database(place: &Path, days: usize, us: impl Fn(usize) -> f64) -> PathBuf {
    let database = place.join("db");
    for day in 0..days {
        write(&database.join(day_name(day)), &trips_with(us(day)));
    }
    database
}

fn day_name(day: usize) -> String {
    format!("2026-{:02}-{:02}_12-00-00", 1 + day / 28, 1 + day % 28)
}

#[test]
fn a_step_in_the_history_fails_until_it_is_known() {
    let place = folder();
    let database = database(place.path(), 16, |day| if day < 8 { 10.0 } else { 12.0 } + 0.05 * (day % 3) as f64);
    let readme = database.join("readme.txt");
    fs::write(&readme, "").unwrap();
    let done = history(&["--fail-on-change"], &database).with(1).says(&["note: ignored", "'readme.txt'"]);
    fs::remove_file(readme).unwrap();
    has_begin(&done.stdout, "x 512 rtt_half_ns.p50 step 2026-01-09_12-00-00 - 9.0", " <0.001");
    // Two payloads with three figures each, including the loss.
    assert!(done.stdout.contains("4 steps and 0 slow drifts in 6 figures"), "{}", done.stdout);
    history(&[], &database).with(0);
    let done = history(&["--fail-on-change", "--known", "2026-01-09_12-00-00"], &database).with(0);
    assert!(done.stdout.contains(" known\n") && done.stdout.contains("0 steps and 0 slow drifts"), "{}", done.stdout);
    history(&["--fail-on-change", "--known", "2026-01-09_12-00-00:x"], &database).with(0);
    history(&["--fail-on-change", "--min-change", "50%"], &database).with(0);
    for wrong in ["2025", "2026-01-09_12-00-00:tcp"] {
        history(&["--known", wrong], &database).with(64).one_line(&[&format!("'{wrong}'"), "--known"]);
    }
    history(&[], &database.join("2026-01-09_12-00-00/none")).with(66).one_line(&["cannot be read"]);
}

#[test]
fn too_few_experiments_for_a_change_are_told_with_how_many_are_needed() {
    let place = folder();
    let database = database(place.path(), 3, |_| 10.0);
    write(&database.join(day_name(3)), &named(&trips_with(10.0), "y"));
    let done = history(&["--fail-on-change"], &database).with(0);
    for part in [
        "Too little history: detecting a step takes 6",
        "a slow drift 10. There are 3.",
        "'y' has no figures in 3 of 4",
    ] {
        assert!(done.stdout.contains(part), "{part}: {}", done.stdout);
    }
    assert!(!done.stdout.contains("0 steps"), "{}", done.stdout);
    let page = place.path().join("history.html");
    let json = tripmeter(&["history", "--json"], &[("", &database), ("--html", &page)]).with(0);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["experiments_needed"], json!({ "step": 6, "drift": 10 }));
    assert_eq!((&json["figures_too_short"]["step"], json["missing"].as_array().unwrap().len()), (&json!(12), 2));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains(": too few to see a change.") && !page.contains("No new step"), "{}", &page[..2000]);
}

#[test]
fn a_folder_that_cannot_be_read_is_left_out_of_its_database_and_refused_by_name() {
    let place = folder();
    let database = database(place.path(), 8, |_| 10.0);
    let broken = database.join(day_name(3));
    fs::write(broken.join("manifest.json"), "[]").unwrap();
    history(&[], &database).with(0).says(&["note: left out", &day_name(3), "no schema version", "move it away"]);
    history(&[], &broken).with(65).one_line(&["no schema version"]);
}

#[test]
fn a_slow_drift_in_the_history_is_no_flight_of_steps_and_fails_until_it_is_known() {
    let place = folder();
    // Up to the 40th day, and constant from there on.
    let database =
        database(place.path(), 50, |day| 10.0 * 1.01_f64.powi(day.min(40) as i32) * (1.0 + 0.003 * (day % 3) as f64));
    let fails = |flags: &[&str]| history(&[&["--fail-on-change"], flags].concat(), &database);
    let done = fails(&[]).with(1);
    has_begin(&done.stdout, &format!("x 512 rtt_half_ns.p50 drift {} ", day_name(0)), "<0.001");
    assert!(done.stdout.contains("0 steps and 4 slow drifts in 6 figures"), "{}", done.stdout);
    let known = fails(&["--known-drift", &day_name(49)]).with(0);
    assert!(known.stdout.lines().any(|line| line.contains(" drift ") && line.ends_with(" known")), "{}", known.stdout);
    fails(&["--known-drift", &format!("{}:x", day_name(49))]).with(0);
    // The drift continues after the known one; and a known step does not excuse a drift before it.
    fails(&["--known-drift", &day_name(20)]).with(1);
    fails(&["--known", &day_name(40)]).with(1);
}

#[test]
fn histories_are_drawn_with_their_limits() {
    let place = folder();
    let database = place.path().join("db");
    for day in 1..=4_u32 {
        write(&database.join(format!("2026-01-{day:02}_12-00-00")), &with(10.0 + f64::from(day), 0, 1000.0));
    }
    let plots = place.path().join("plots");
    let file = limits(place.path(), "x,512,1000hz,all,service_ns,p50,15000\n");
    let done = tripmeter(&["history", "--svg"], &[("", &database), ("--limits", &file), ("--plots", &plots)]).with(0);
    assert!(done.stdout.contains("12 plots of 4 experiments"), "{}", done.stdout);
    let svg = |name: &str| fs::read_to_string(plots.join("x").join(name)).unwrap();
    let by_run = svg("service_ns.p50_1000hz_by_run.svg");
    assert!(by_run.contains("limit of 512") && by_run.contains("service_ns.p50 [us]"), "{by_run}");
    let by_payload = svg("service_ns.p50_1000hz_by_payload.svg");
    assert!(by_payload.contains("limit") && by_payload.contains("2026-01-04_12-00-00"), "{by_payload}");
    assert!(svg("loss_share_1000hz_by_run.svg").contains("loss_share [%]"));
    assert!(!svg("response_ns.p99_1000hz_by_run.svg").contains("limit"));
}

/// Database of sixteen experiments of six rounds, with the given mean service time.
fn sixteen(place: &Path, service_us: impl Fn(usize) -> f64, change: impl Fn(usize, &mut Value)) -> PathBuf {
    for day in 0..16 {
        let mut manifest = in_rounds(&with(service_us(day), 0, 1000.0), 6);
        change(day, &mut manifest);
        write(&place.join(day_name(day)), &manifest);
    }
    place.to_owned()
}

/// Folder names contain the local time: sorted by name, the second is the latest.
#[test]
fn experiments_of_several_time_zones_are_in_the_order_of_their_start() {
    let place = folder();
    let database = place.path().join("db");
    for (name, started) in [
        ("2026-01-01_21-00-00", "2026-01-01T21:00:00+09:00"),
        ("2026-01-01_12-30-00", "2026-01-01T12:30:00+00:00"),
        ("2026-01-01_08-00-00", "2026-01-01T08:00:00-05:00"),
    ] {
        let mut manifest = trips_with(10.0);
        manifest["started"] = json!(started);
        write(&database.join(name), &manifest);
    }
    let done = history(&["--json"], &database).with(0);
    let found: Value = serde_json::from_str(&done.stdout).unwrap();
    let order = json!(["2026-01-01_21-00-00", "2026-01-01_12-30-00", "2026-01-01_08-00-00"]);
    assert_eq!(found["experiments"], order);
}

fn stepped(day: usize) -> f64 {
    let level = if day < 8 { 10.0 } else { 14.0 };
    level + 0.01 * (day % 3) as f64
}

#[test]
fn rounds_of_one_experiment_are_one_value_of_its_history() {
    let place = folder();
    // All rounds of a day share the difference between days: treated as runs, they would show steps.
    let days = [10.0, 10.9, 9.6, 10.2, 10.8, 9.5, 10.3, 9.9, 10.7, 9.7, 10.4, 10.0, 9.6, 10.6, 10.1, 10.5];
    let database = sixteen(&place.path().join("db"), |day| days[day], |_, _| ());
    let done = history(&["--fail-on-change"], &database).with(0);
    assert!(done.stdout.starts_with("0 steps and 0 slow drifts in "), "{}", done.stdout);
}

#[test]
fn a_change_of_environment_parts_a_history_and_is_reported() {
    let place = folder();
    let database = sixteen(&place.path().join("db"), stepped, |day, manifest| {
        manifest["environment"]["kernel"] = json!(if day < 8 { "Linux 1" } else { "Linux 2" })
    });
    let done = history(&["--fail-on-change"], &database).with(0);
    let line = done.stdout.lines().find(|line| line.starts_with("another environment since '2026-01-09_12-00-00'"));
    assert!(line.is_some_and(|line| line.contains("Linux 1") && line.contains("Linux 2")), "{}", done.stdout);
}

#[test]
fn a_history_tells_that_nothing_comes_any_more() {
    let place = folder();
    let database = place.path().join("db");
    for day in 0..16 {
        let (rate, lost) = if day < 10 { (1e6 + f64::from(day), 0) } else { (0.0, 200) };
        let counts = [("received_rate_hz", json!(rate)), ("sent", json!(200)), ("lost", json!(lost))];
        write(&database.join(day_name(day as usize)), &changed(throughput(), &counts));
    }
    let done = history(&["--fail-on-change", "--figures", "received_rate_hz,loss_share"], &database).with(1);
    let since = day_name(10);
    has_begin(&done.stdout, &format!("x 1k max received_rate_hz step {since} - 1000004.500 /s 0.000 /s -100.0 % "), "");
    has_begin(&done.stdout, &format!("x 1k max loss_share step {since} - 0.000 % 100.000 % +inf % "), "");
    history(&["--fail-on-change", "--known", &since], &database).with(0);
}

#[test]
fn another_workload_parts_a_history_and_is_told() {
    let place = folder();
    let database = sixteen(&place.path().join("db"), stepped, |day, manifest| {
        manifest["plan"]["sub_experiments"][0]["workload"]["publishers"] = json!(if day < 8 { 1 } else { 2 });
    });
    let done = history(&["--fail-on-change"], &database).with(0);
    let line = "'x' was measured differently since '2026-01-09_12-00-00': publishers 1 -> 2; the history is split \
                there";
    has(&done.stdout, line);
}

#[test]
fn failed_sub_experiments_are_no_part_of_a_history() {
    let place = folder();
    let database = sixteen(&place.path().join("db"), stepped, |day, manifest| {
        for result in manifest["sub_experiments"].as_array_mut().unwrap().iter_mut().filter(|_| day >= 8) {
            (result["status"], result["error"]) = (json!("failed"), json!("the follower ended"));
        }
    });
    let done = history(&["--fail-on-change"], &database).with(0);
    assert!(done.stderr.contains("it failed: the follower ended"), "{}", done.stderr);
}

#[test]
fn plots_are_drawn_of_folders_and_after_a_run() {
    let place = folder();
    let output = place.path().join("run");
    {
        let _alone = alone();
        let words = ["run", "aimrt-rpc", "--only", "inmem", "--payloads", "512,1k", "-n", "10", "-q", "-o"];
        Tripmeter::new(words.iter().map(|word| (*word).to_owned()).chain([output.display().to_string()]))
            .run()
            .with(exit::GOOD);
    }
    let drawn = |folder: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    // The transport is measured with the default flags: in a closed loop, at the usual payloads.
    assert!(drawn(&output.join("plots")).iter().all(|name| name.ends_with(".png")), "{:?}", drawn(&output));
    let (one, two) = (write(&place.path().join("a"), &channel()), write(&place.path().join("b"), &channel()));
    let done = tripmeter(&["export", "--format", "svg"], &[("", &one)]).with(0);
    let file = one.join("plots/channel_latency_by_size_topics-1_rate-1000.svg");
    assert!(done.stdout.starts_with(&format!("{}\n", file.display())), "{}", done.stdout);
    assert!(fs::read_to_string(&file).unwrap().contains("Average latency, one_way, service time [us]"));
    let paths = [two.display().to_string(), place.path().join("together").display().to_string()];
    let words = ["export", &one.display().to_string(), &paths[0], "--format", "svg", "--log", "-o", &paths[1]]
        .map(str::to_owned);
    Tripmeter::new(words).run().with(0);
    let svg = fs::read_to_string(place.path().join("together/channel_latency_by_size_topics-1_rate-1000.svg")).unwrap();
    assert!(svg.contains(" · a") && svg.contains(" · b"), "{svg}");
    tripmeter(&["export", "--format", "png"], &[("--log", &one), ("--", &two)])
        .with(64)
        .one_line(&["2 folders", "-o DIR"]);
    let log = write(&place.path().join("one"), &{
        let mut log = log();
        log["sub_experiments"][0]["cells"].as_array_mut().unwrap().truncate(0);
        log["sub_experiments"][0]["payloads"] = json!(0);
        log
    });
    tripmeter(&["export", "--format", "svg"], &[("--", &log)]).with(65).one_line(&["nothing to plot", "no figures"]);
    tripmeter(&["export", "--format", "svg"], &[("--", place.path())]).with(66).one_line(&["not a results folder"]);
}
