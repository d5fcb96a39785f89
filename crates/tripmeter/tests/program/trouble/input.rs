//! Input that is refused before anything starts.

use crate::common::{Finished, Tripmeter, folder, plugin, transports};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tripmeter_model::exit;

/// Runs a command in an empty folder, which must stay empty.
#[track_caller]
fn refused<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>, code: u8, parts: &[&str]) -> Finished {
    let folder = folder();
    let finished = Tripmeter::new(arguments).at(folder.path()).run().with(code).one_line(parts).clean();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something was started");
    finished
}

#[track_caller]
fn wrong(line: &str, parts: &[&str]) {
    refused(line.split(' '), exit::USAGE, parts);
}

#[test]
fn unknown_names_are_refused_with_what_may_be_meant() {
    wrong("ping usd", &["unknown transport 'usd'", "did you mean 'uds'?", "`tripmeter list`"]);
    wrong("ping uds/strem", &["'uds/strem'", "no variant 'strem'", "did you mean 'stream'?", "datagram, stream"]);
    wrong("ping uds?pakcet=64", &["'pakcet'", "did you mean 'packet'?", "packet, buffer"]);
    wrong("ping Uds", &["transport 'Uds'", "uds/stream"]);
    wrong("run icepref", &["unknown preset 'icepref'", "did you mean 'iceperf'?", "`tripmeter list presets`"]);
    wrong("list usd", &["unknown transport 'usd'", "did you mean 'uds'?"]);
    wrong("run --paylods 1k", &["'--paylods'", "--payloads", "--help"]);
    wrong("run --wait often", &["'often'", "--wait", "poll, block, callback"]);
    wrong("run --touch some", &["'some'", "--touch", "none, header, full"]);
    wrong("rnu", &["'rnu'", "--help"]);
    wrong("log uds", &["'log'", "ping"]);
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    wrong("ping uds --payloads 0", &["payload of 0 bytes", "16 bytes", "use 16 or more"]);
    wrong("ping uds --payloads 1k,15", &["payload of 15 bytes", "header of 16 bytes", "use 16 or more"]);
    wrong("ping uds --payloads 2G", &["payload of 2147483648 bytes", "1073741824 bytes"]);
    wrong("ping uds --payloads 4k..1k", &["'4k..1k' runs backwards", "smaller size first"]);
    wrong("ping uds --payloads 1k,1k", &["payload of 1024 bytes is listed twice"]);
    wrong("ping uds --payloads many", &["'many' is not a size", "1k,64k,4M"]);
    wrong("ping uds -n 0", &["0 samples", "1 or more", "-n"]);
    wrong("ping uds -n -1", &["-1", "--help"]);
    wrong("ping uds -n 1000000000", &["1000000000 samples", "100000000", "--raw none"]);
    wrong("ping uds --rounds 0", &["0 rounds", "1 to 10080"]);
    wrong("ping uds --for -5s", &["-5 s", "--for"]);
    wrong("ping uds --time-cap 0", &["time cap of 0 s", "--time-cap"]);
    wrong("ping uds --loss-timeout 0", &["loss time-out of 0 s", "0.001 to 600 s"]);
    wrong("ping uds --leader-cpu 4095", &["CPU 4095 for the leader", "does not exist", "choose one of"]);
    wrong("ping uds --follower-cpu 4095", &["CPU 4095 for the follower", "choose one of"]);
    wrong("call uds --cpus x", &["'x'", "0-2", "--cpus"]);
    wrong("call uds --cpus 0,4095", &["CPU 4095", "choose from", "--cpus"]);
    wrong("call uds --cpus 0 --leader-cpu 0", &["--cpus", "--leader-cpu"]);
    wrong("ping uds --leader-cpu first", &["'first'", "--leader-cpu", "CPU number"]);
    wrong("ping uds --followers 0", &["0 followers", "1 to 64", "--followers"]);
    wrong("ping shm --followers 65", &["65 followers", "1 to 64", "--followers"]);
    wrong(
        "ping uds --followers 3",
        &["'uds'", "it delivers each message to one follower only", "3 were requested", "fan-out"],
    );
    wrong("ping tcp --followers 2", &["'tcp'", "it delivers each message to one follower only", "2 were requested"]);
    wrong("publish shm --followers 513", &["513 followers", "1 to 512", "--followers"]);
    wrong("throughput shm --followers 65", &["65 followers", "1 to 64", "--followers"]);
    wrong("throughput shm --followers 17 --one-way", &["17 exceed the limit of 16", "--one-way"]);
    wrong("throughput uds --topics 17 --one-way", &["17 exceed the limit of 16", "--topics"]);
    wrong("throughput uds --followers 2 --publishers 2", &["2 followers and 2 publishers", "leave"]);
    wrong("publish uds --followers 2 --publishers 2", &["2 followers and 2 publishers", "leave"]);
    wrong("publish uds --topics 0", &["0 topics", "--topics"]);
    wrong("publish uds --rate max", &["'max'", "messages or calls per second", "--rate"]);
    wrong("publish uds --rate 10,10", &["--rate"]);
    wrong("publish uds --demand 10,10", &["trial 2", "--demand and --recovery"]);
    wrong("ping uds --demand 0", &["'0'", "messages per burst", "--demand"]);
    wrong("call uds --recovery 5", &["recovery time", "--demand"]);
    wrong("publish uds --demand 10 --recovery 0", &["'0'", "0.001 to 60000", "--recovery"]);
    wrong("ping shm --demand 10 --followers 2", &["in bursts or with several clients have one follower", "--demand"]);
    wrong("publish uds --topics 4096 -n 100000", &["100000 samples", "24414", "--raw none"]);
    wrong("call uds --clients 0", &["'0'", "1 to 256", "--clients"]);
    wrong("call uds --clients 1,1", &["--clients"]);
    wrong("call uds --rate max", &["'max'", "--rate"]);
    wrong("call uds --clients 200 -n 600000", &["600000 samples", "500000", "--raw none"]);
    wrong("ping shm --followers 2 --raw none", &["2 followers", "--raw none"]);
    wrong("call uds --raw samples,eprosima", &["`--raw eprosima`", "none are measured", "--raw samples"]);
    wrong("ping inmem?damage=3 --followers 2", &["one follower, or side=follower"]);
    wrong("publish inmem?damage=3 --followers 2", &["take one follower"]);
    wrong("publish inmem?at=7&lose=3 --followers 3", &["'at=7'", "has index 2"]);
    wrong("ping inmem?at=1&lose=3", &["'at=1'", "has index 0"]);
    wrong("ping shm --followers 2 --rendezvous", &["'shm/ring'", "only 1 can be started by hand", "--rendezvous"]);
    wrong("ping uds?packet=7", &["'uds?packet=7'", "packet=7", "64"]);
    wrong("ping mq?depth=0", &["'mq?depth=0'", "depth=0", "1"]);
    wrong("ping inmem?lose=x", &["'inmem?lose=x'", "lose=x", "message number"]);
    wrong("ping udp --payloads 1G", &["udp", "1073741824", "bytes"]);
    wrong("follow --rendezvous a/b", &["rendezvous 'a/b'", "letters, digits"]);
}

#[test]
fn flags_of_other_commands_are_refused() {
    for (command, flags) in [
        ("ping uds", &["--topics 2", "--publishers 2", "--duration 2"][..]),
        ("publish uds", &["--one-way", "--clients 2", "--loss-bound 0"]),
        ("call uds", &["--topics 2", "--duration 2", "--followers 2"]),
        ("throughput uds", &["--clients 2", "--mode bench"]),
        ("log write", &["--rate 1000", "--demand 10", "--followers 2", "--one-way", "--topics 2"]),
    ] {
        for flag in flags {
            let name = flag.split(' ').next().expect("it has a name");
            wrong(&format!("{command} {flag}"), &["unexpected argument", name, "--help"]);
        }
    }
}

#[test]
fn keys_of_other_patterns_are_refused() {
    let folder = folder();
    let file = folder.path().join("keys.toml").display().to_string();
    for (pattern, key, part) in [
        ("ping", "topics = 2", "'publish' and 'throughput'"),
        ("publish", "clients = \"2\"", "'ping' and 'call'"),
        ("log", "rate = \"10\"", "set one of these"),
        ("log", "demand = \"10\"", "set one of these"),
        ("log", "one_way = true", "leave it out"),
        ("log", "followers = 2", "leave it out"),
        ("publish", "mode = \"bench\"", "\"call\""),
        ("publish", "one_way = true", "leave 'one_way' out"),
        ("call", "mode = \"bench\"\nrate = \"10\"", "fixed-freq"),
        ("call", "mode = \"bench\"\ndemand = \"10\"", "fixed-freq"),
        ("call", "mode = \"fast\"", "fixed-freq"),
        ("call", "topics = 2", "'publish' and 'throughput'"),
        ("call", "duration_s = 2", "\"throughput\""),
        ("call", "followers = 2", "'call' has one follower"),
    ] {
        let transport = if pattern == "log" { "write/file" } else { "shm" };
        let text = format!("pattern = \"{pattern}\"\n{key}\n[[sub_experiment]]\ntransport = \"{transport}\"\n");
        std::fs::write(&file, text).unwrap();
        refused(["run", &file], exit::DATA, &["keys.toml", part]);
    }
    std::fs::write(&file, "cpus = \"0\"\n[[sub_experiment]]\ntransport = \"shm\"\n").unwrap();
    refused(["run", &file], exit::DATA, &["--cpus", "'ping'", "'call'"]);
}

#[test]
fn files_that_are_no_experiments_are_refused_with_the_place() {
    let folder = folder();
    let file = |name: &str, text: &[u8]| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).display().to_string()
    };
    let bad = |name: &str, text: &str, parts: &[&str]| {
        let file = file(name, text.as_bytes());
        refused(["run", &file], exit::DATA, &[&[file.as_str()], parts].concat());
    };
    bad("word.toml", "samples = 1\nwait = \"often\"\n", &["line 2, column 8", "often"]);
    bad("field.toml", "samples = 1\n\nsample = 2\n", &["line 3, column 1", "sample"]);
    bad("syntax.toml", "samples = = 1\n", &["line 1, column 11"]);
    bad("type.toml", "samples = \"many\"\n", &["line 1, column 11"]);
    bad("open.toml", "[[sub_experiment\ntransport = \"uds\"\n", &["line 1, column"]);
    let binary = file("binary.toml", &[0xff, 0xfe, 0]);
    refused(["run", &binary], exit::DATA, &[&binary, "UTF-8"]);
    refused(["run", "nowhere.toml"], exit::NO_INPUT, &["'nowhere.toml'", "cannot be read"]);
    refused(["run", "/dev/zero"], exit::NO_INPUT, &["'/dev/zero'", "a pipe, a device or the like"]);
    refused(["show", "nowhere"], exit::NO_INPUT, &["'nowhere'", "not a results folder"]);
    let empty = file("empty.toml", b"samples = 1\n");
    refused(["run", &empty], exit::DATA, &["has nothing to measure", "[[sub_experiment]]"]);
    let inside = file("inside.toml", b"[[sub_experiment]]\ntransport = \"uds\"\npayloads = \"15\"\n");
    refused(["run", &inside], exit::DATA, &["'uds'", "payload of 15 bytes"]);
    let twice = "[[sub_experiment]]\ntransport = \"uds\"\nname = \"x\"\n";
    let same = file("same.toml", format!("{twice}{}", twice.replace("uds", "tcp")).as_bytes());
    refused(["run", &same], exit::DATA, &["'tcp/loopback'", "name 'x' is taken by 'uds/datagram'"]);
}

#[test]
fn an_output_folder_that_cannot_be_used_is_refused_and_not_touched() {
    let folder = folder();
    let kept = folder.path().join("kept");
    std::fs::write(&kept, "kept").unwrap();
    let run = |output: &Path| {
        let output = output.display().to_string();
        Tripmeter::new(["ping", "-q", "uds", "-n", "10", "--payloads", "16", "-o", &output]).run()
    };
    let place = folder.path().display().to_string();
    run(folder.path()).with(exit::CANNOT_CREATE).one_line(&[&place, "is not empty", "-o"]).clean();
    run(&kept.join("below")).with(exit::CANNOT_CREATE).one_line(&[&place, "cannot be written", "-o"]).clean();
    run(Path::new("/proc/tripmeter")).with(exit::CANNOT_CREATE).one_line(&["'/proc/tripmeter'", "-o"]).clean();
    let words = ["ping", "-q", "uds", "-n", "10", "--payloads", "16", "-o"].map(OsStr::new);
    let named = folder.path().join(OsStr::from_bytes(b"not-\xff"));
    refused(words.into_iter().chain([named.as_os_str()]), exit::USAGE, &["--output", "not UTF-8"]);
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "kept");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn plugins_that_are_none_are_refused() {
    let refuse = |name: &str, code: u8, parts: &[&str]| {
        let file = plugin(name).display().to_string();
        refused(["ping", "--plugin", &file, "trouble"], code, &[&[file.as_str()], parts].concat());
    };
    refuse("text", exit::DATA, &["cannot be loaded"]);
    refuse("no_entry", exit::DATA, &["tripmeter_transport"]);
    refuse("other_abi", exit::DATA, &["version 2", "1"]);
    refuse("null_table", exit::DATA, &["NULL"]);
    refuse("null_function", exit::DATA, &["entry 'take'", "NULL"]);
    refuse("short_table", exit::DATA, &["bytes"]);
    refuse("no_variant", exit::DATA, &["variant"]);
    refuse("bad_name", exit::DATA, &["names of system and variants"]);
    refused(
        ["ping", "--plugin", "/nowhere.so"],
        exit::NO_INPUT,
        &["'/nowhere.so'", "cannot be read", "shared library"],
    );
    refused(["list", "--plugin", "/dev/null"], exit::DATA, &["/dev/null"]);
    let taken = plugin("trouble").display().to_string();
    let twice = ["ping", "--plugin", &taken, "--plugin", &taken, "trouble"];
    refused(twice, exit::DATA, &[&taken, "'trouble'", "exists already"]);
}

#[test]
fn a_system_that_is_not_here_is_refused_with_its_remedy() {
    let known = transports();
    for row in known.iter().filter(|row| !row.available) {
        refused(["ping", &row.system], exit::UNAVAILABLE, &[&format!("'{}'", row.system), "not available"]);
    }
}
