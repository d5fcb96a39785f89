//! What is refused before anything starts.

use crate::common::{Finished, Tripmeter, folder, plugin, transports};
use std::ffi::OsStr;
use std::path::Path;
use tripmeter_model::exit;

/// Runs it in an empty folder, which must stay empty.
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
    wrong("run -t usd", &["unknown transport 'usd'", "did you mean 'uds'?", "`tripmeter transports`"]);
    wrong("run -t uds/strem", &["'uds/strem'", "no variant 'strem'", "did you mean 'stream'?", "datagram, stream"]);
    wrong("run -t uds?pakcet=64", &["'pakcet'", "did you mean 'packet'?", "packet, buffer"]);
    wrong("run -t Uds", &["transport 'Uds'", "uds/stream"]);
    wrong("run --preset icepref", &["unknown preset 'icepref'", "did you mean 'iceperf'?", "`tripmeter presets`"]);
    wrong("presets icepref", &["unknown preset 'icepref'", "`tripmeter presets`"]);
    wrong("transports usd", &["unknown transport 'usd'", "did you mean 'uds'?"]);
    wrong("run --paylods 1k", &["'--paylods'", "--payloads", "--help"]);
    wrong("run --wait often", &["'often'", "--wait", "poll, block, callback"]);
    wrong("run --touch some", &["'some'", "--touch", "none, header, full"]);
    wrong("rnu", &["'rnu'", "--help"]);
    wrong("run -t uds --pattern log", &["'log'", "pingpong", "--pattern"]);
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    wrong("run -t uds --payloads 0", &["payload of 0 bytes", "16 bytes", "ask for 16 or more"]);
    wrong("run -t uds --payloads 1k,15", &["payload of 15 bytes", "header of 16 bytes", "ask for 16 or more"]);
    wrong("run -t uds --payloads 2G", &["payload of 2147483648 bytes", "1073741824 bytes"]);
    wrong("run -t uds --payloads 4k..1k", &["'4k..1k' runs backwards", "smaller size first"]);
    wrong("run -t uds --payloads 1k,1k", &["payload of 1024 bytes is listed twice"]);
    wrong("run -t uds --payloads many", &["'many' is not a size", "1k,64k,4M"]);
    wrong("run -t uds -n 0", &["0 samples", "1 or more", "-n"]);
    wrong("run -t uds -n -1", &["-1", "--help"]);
    wrong("run -t uds -n 1000000000", &["1000000000 samples", "100000000", "--raw none"]);
    wrong("run -t uds --rounds 0", &["0 rounds", "1 to 1000"]);
    wrong("run -t uds --time-cap 0", &["time cap of 0 s", "--time-cap"]);
    wrong("run -t uds --loss-timeout 0", &["loss time-out of 0 s", "0.001 to 600 s"]);
    wrong("run -t uds --leader-cpu 4095", &["processor 4095 for the leader", "does not exist", "choose one of"]);
    wrong("run -t uds --follower-cpu 4095", &["processor 4095 for the follower", "choose one of"]);
    wrong("run -t uds --pattern rpc --cpus x", &["'x'", "0-2", "--cpus"]);
    wrong("run -t uds --pattern rpc --cpus 0,4095", &["processor 4095", "choose of", "--cpus"]);
    wrong("run -t uds --pattern rpc --cpus 0 --leader-cpu 0", &["--cpus", "--leader-cpu"]);
    wrong("run -t uds --cpus 0", &["--cpus", "'pingpong'", "'rpc'"]);
    wrong("run -t uds --leader-cpu first", &["'first'", "--leader-cpu", "number of a processor"]);
    wrong("run -t uds --followers 0", &["0 followers", "1 to 64", "--followers"]);
    wrong("run -t shm --followers 65", &["65 followers", "1 to 64", "--followers"]);
    wrong("run -t uds --followers 3", &["'uds'", "it reaches 1 follower", "3 were asked for", "fan-out"]);
    wrong("run -t shm,tcp --followers 2", &["'tcp'", "it reaches 1 follower", "2 were asked for"]);
    wrong("run -t shm --followers 2 --pattern rpc", &["'rpc' has 1 follower", "2 were asked for"]);
    wrong("run -t shm --followers 513 --pattern channel", &["513 followers", "1 to 512", "--followers"]);
    wrong("run -t shm --followers 65 --pattern throughput", &["65 followers", "1 to 64", "--followers"]);
    wrong("run -t shm --followers 17 --pattern throughput --one-way", &["17 followers", "at most 16", "--one-way"]);
    wrong("run -t uds --followers 2 --publishers 2 --pattern channel", &["2 followers and 2 publishers", "leave"]);
    wrong("run -t uds --pattern channel --topics 0", &["0 topics", "--topics"]);
    wrong("run -t uds --topics 2", &["'--topics'", "'pingpong'", "--pattern channel"]);
    let with_rate =
        ["'--rate'", "'log'", "--pattern pingpong", "--pattern throughput", "--pattern channel", "--pattern rpc"];
    wrong("run -t write --pattern log --rate 1000", &with_rate);
    wrong("run -t uds --pattern channel --rate max", &["'max'", "messages per second", "--rate"]);
    wrong("run -t uds --pattern channel --rate 10,10", &["--rate"]);
    wrong("run -t write --pattern log --demand 10", &["'--demand'", "'log'", "--pattern rpc"]);
    wrong("run -t uds --pattern channel --demand 10,10", &["trial 2", "--demand and --recovery"]);
    wrong("run -t uds --demand 0", &["'0'", "messages per burst", "--demand"]);
    wrong("run -t uds --pattern rpc --recovery 5", &["recovery time", "--demand"]);
    wrong("run -t uds --pattern channel --demand 10 --recovery 0", &["'0'", "0.001 to 60000", "--recovery"]);
    wrong("run -t shm --demand 10 --followers 2", &["in bursts have 1 follower", "--demand"]);
    wrong("run -t uds --pattern channel --one-way", &["--one-way"]);
    wrong("run -t uds --pattern channel --topics 4096 -n 100000", &["100000 samples", "24414", "--raw none"]);
    wrong("run -t shm --followers 2 --pattern rpc", &["'rpc' has 1 follower", "2 were asked for"]);
    wrong("run -t uds --pattern rpc --clients 0", &["'0'", "1 to 256", "--clients"]);
    wrong("run -t uds --pattern rpc --clients 1,1", &["--clients"]);
    wrong("run -t uds --clients 2", &["'--clients'", "'pingpong'", "--pattern rpc"]);
    wrong("run -t uds --pattern channel --mode bench", &["'--mode'", "'channel'", "--pattern rpc"]);
    wrong("run -t uds --pattern rpc --mode bench --rate 10", &["'--rate'", "fixed-freq", "--mode"]);
    wrong("run -t uds --pattern rpc --mode bench --demand 10", &["'--demand'", "fixed-freq", "--mode"]);
    wrong("run -t uds --pattern rpc --mode fixed-freq --rate max", &["'max'", "--rate"]);
    wrong("run -t uds --pattern rpc --mode fast", &["'fast'", "bench", "fixed-freq", "--mode"]);
    wrong("run -t uds --pattern rpc --topics 2", &["'--topics'", "'rpc'", "--pattern channel"]);
    wrong("run -t uds --pattern rpc --duration 2", &["'--duration'", "'throughput'", "'rpc'"]);
    wrong("run -t uds --pattern rpc --clients 200 -n 600000", &["600000 samples", "500000", "--raw none"]);
    wrong("run -t shm --followers 2 --raw none", &["2 followers", "--raw none"]);
    wrong(
        "run -t uds --pattern rpc --raw samples,eprosima",
        &["`--raw eprosima`", "none are measured", "--raw samples"],
    );
    wrong("run -t inmem?damage=3 --followers 2", &["one follower, or side=follower"]);
    wrong("run -t inmem?damage=3 --followers 2 --pattern channel", &["take one follower"]);
    wrong("run -t inmem?at=7&lose=3 --followers 3 --pattern channel", &["'at=7'", "has index 2"]);
    wrong("run -t inmem?at=1&lose=3", &["'at=1'", "has index 0"]);
    wrong("leader -t shm --followers 2", &["'shm/ring'", "only 1 can be started by hand", "`tripmeter run`"]);
    wrong("run -t uds?packet=7", &["'uds?packet=7'", "packet=7", "64"]);
    wrong("run -t mq?depth=0", &["'mq?depth=0'", "depth=0", "1"]);
    wrong("run -t inmem?lose=x", &["'inmem?lose=x'", "lose=x", "message number"]);
    wrong("run -t udp --payloads 1G", &["udp", "1073741824", "bytes"]);
    wrong("follower --rendezvous a/b", &["rendezvous 'a/b'", "letters, digits"]);
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
    refused(["table", "nowhere"], exit::NO_INPUT, &["'nowhere'", "no results folder"]);
    let empty = file("empty.toml", b"samples = 1\n");
    refused(["run", &empty], exit::DATA, &["nothing is to be measured", "-t", "[[sub_experiment]]"]);
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
        Tripmeter::new(["run", "-q", "-t", "uds", "-n", "10", "--payloads", "16", "-o", &output]).run()
    };
    let place = folder.path().display().to_string();
    run(folder.path()).with(exit::CANNOT_CREATE).one_line(&[&place, "is not empty", "-o"]).clean();
    run(&kept.join("below")).with(exit::CANNOT_CREATE).one_line(&[&place, "cannot be written", "-o"]).clean();
    run(Path::new("/proc/tripmeter")).with(exit::CANNOT_CREATE).one_line(&["'/proc/tripmeter'", "-o"]).clean();
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "kept");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn plugins_that_are_none_are_refused() {
    let refuse = |name: &str, code: u8, parts: &[&str]| {
        let file = plugin(name).display().to_string();
        refused(["run", "--plugin", &file, "-t", "trouble"], code, &[&[file.as_str()], parts].concat());
    };
    refuse("text", exit::DATA, &["cannot be loaded"]);
    refuse("no_entry", exit::DATA, &["tripmeter_transport"]);
    refuse("other_abi", exit::DATA, &["version 2", "1"]);
    refuse("null_table", exit::DATA, &["NULL"]);
    refuse("null_function", exit::DATA, &["entry 'take'", "NULL"]);
    refuse("short_table", exit::DATA, &["bytes"]);
    refuse("no_variant", exit::DATA, &["variant"]);
    refuse("bad_name", exit::DATA, &["names of system and variants"]);
    refused(["run", "--plugin", "/nowhere.so"], exit::NO_INPUT, &["'/nowhere.so'", "cannot be read", "shared library"]);
    refused(["transports", "--plugin", "/dev/null"], exit::DATA, &["/dev/null"]);
    let taken = plugin("trouble").display().to_string();
    let twice = ["run", "--plugin", &taken, "--plugin", &taken, "-t", "trouble"];
    refused(twice, exit::DATA, &[&taken, "'trouble'", "there already"]);
}

#[test]
fn a_system_that_is_not_here_is_refused_with_its_remedy() {
    let known = transports();
    for row in known.iter().filter(|row| !row.available) {
        refused(["run", "-t", &row.system], exit::UNAVAILABLE, &[&format!("'{}'", row.system), "not available"]);
    }
}
