//! Writes the seed inputs of every target into a folder, from kept results and from output of the libraries.

use mcap::records::{MessageHeader, Metadata};
use mcap::{Compression, WriteOptions};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

struct Seeds {
    folder: PathBuf,
    count: usize,
}

impl Seeds {
    fn add(&mut self, target: &str, bytes: impl AsRef<[u8]>) -> Outcome<()> {
        let folder = self.folder.join(target);
        fs::create_dir_all(&folder)?;
        self.count += 1;
        Ok(fs::write(folder.join(format!("seed-{}", self.count)), bytes)?)
    }
}

fn main() -> Outcome<()> {
    let folder = std::env::args_os().nth(1).ok_or("usage: seeds FOLDER")?;
    let mut seeds = Seeds { folder: folder.into(), count: 0 };
    results(&mut seeds)?;
    files(&mut seeds)?;
    words(&mut seeds)?;
    binaries(&mut seeds)?;
    messages(&mut seeds)?;
    println!("{} seeds", seeds.count);
    Ok(())
}

/// Adds every line of kept results, and the manifests.
fn results(seeds: &mut Seeds) -> Outcome<()> {
    let small = fs::read_to_string(Path::new(ROOT).join("crates/fuzz/src/manifest.json"))?;
    seeds.add("manifest", &small)?;
    let mut lines: Vec<String> = Vec::new();
    for entry in fs::read_dir(Path::new(ROOT).join("docs/results"))? {
        let folder = entry?.path();
        let Ok(text) = fs::read_to_string(folder.join("manifest.json")) else { continue };
        seeds.add("manifest", serde_json::to_string(&serde_json::from_str::<serde_json::Value>(&text)?)?)?;
        let text = fs::read_to_string(folder.join("trials.jsonl"))?;
        let names = text.lines().filter(|line| line.len() < 3000).step_by(7);
        lines.extend(names.map(str::to_owned));
    }
    let quick = fs::read_to_string(Path::new(ROOT).join("docs/results/quick/trials.jsonl"))?;
    let first: Vec<&str> = quick.lines().filter(|line| line.contains("shm_ring_poll")).take(7).collect();
    for count in [1, 2, 3, 5, 7] {
        let text = first[..count.min(first.len())].join("\n") + "\n";
        seeds.add("trials", &text)?;
        seeds.add("results", format!("{small}--\n{text}--\n{{\"before\":null}}\n"))?;
    }
    for line in lines {
        seeds.add("trials", line + "\n")?;
    }
    let verdict = r#"{"verdict_version":"1.1","command":"check","exit_code":0,"result":"passed","figures_judged":1,"counts":{"passed":1},"rows":[{"sub_experiment":"uds","payload_bytes":64,"offered_load":"closed","stream":"all","figure":"rtt_half_ns","statistic":"p99","verdict":"passed"}],"troubles":[]}"#;
    seeds.add("manifest", verdict)?;
    let fleet = r#"{"schema_version":"1.0","mode":"pairs","command":["ping","uds"],"hosts":[{"name":"a"},{"name":"b","ssh":"u@b"}],"jobs":[{"from":"a","to":"b","state":"failed","exit_code":3,"problem":"x"}]}"#;
    seeds.add("manifest", fleet)?;
    seeds.add("manifest", r#"{"before":{"findings":[]},"after":null,"hosts":[{"before":null,"after":null}]}"#)
}

fn files(seeds: &mut Seeds) -> Outcome<()> {
    let header = tripmeter_model::samples::HEADER.join(",");
    seeds.add(
        "samples",
        format!("{header}\n1,1,64,all,1,ok,,10,14,20\n1,2,64,\"topic=/a,\"\"b\"\"\",2,lost,5,10,-7,\n"),
    )?;
    seeds.add("samples", format!("{header}\r\n1,1,64,\"a\nb\",1,ok,,1,2,3\r\n1,1"))?;
    let columns = tripmeter_eprosima::raw::COLUMNS.join(",");
    seeds.add("eprosima", format!("{columns}\n1,16,2.05575\n2,16,1.5\n1,1024,3e1\n"))?;
    seeds.add("eprosima", "\u{feff}Latency [us],x,Payload [Bytes]\r\n2.5,\"a,b\",16.0\r\n\r\n1,,\"32\"\r\n")?;
    let rows: String = (0..60).map(|row| format!("{row},{},{}.5\n", 16 << (row / 20), row)).collect();
    seeds.add("eprosima", format!("{columns}\n{rows}"))?;
    let limits = tripmeter_model::limits::HEADER.join(",");
    seeds.add(
        "tables",
        format!("{limits}\nuds,1024,closed,all,rtt_half_ns,p99,2500.5\ntcp,64,max,all,received_rate_hz,value,1000\n"),
    )?;
    let requirements = tripmeter_eprosima::requirements::COLUMNS.join(",");
    seeds.add("tables", format!("{requirements}\nudp,16,1.0,2.5,30\n\"a,b\",32.0,1,2,3\n"))?;
    let summary = tripmeter_eprosima::summary::COLUMNS.join(",");
    seeds.add("tables", format!("{summary}\n16,100,9.0,1.0,2.0,2.0,0.5,nan,nan,3.0,4.0,5.0\n"))?;
    for folder in ["presets", "transports", "examples"] {
        tomls(seeds, &Path::new(ROOT).join(folder))?;
    }
    seeds.add(
        "toml",
        "[[hosts]]\nname = \"a\"\nssh = \"u@a\"\nto = \"10.0.0.1\"\ninterface = \"eth0\"\n[[hosts]]\nname = \"b\"\n",
    )
}

fn tomls(seeds: &mut Seeds, folder: &Path) -> Outcome<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && path.ancestors().count() < 12 {
            tomls(seeds, &path)?;
        } else if path.extension().is_some_and(|end| end == "toml") && !path.ends_with("Cargo.toml") {
            seeds.add("toml", fs::read(&path)?)?;
        }
    }
    Ok(())
}

fn words(seeds: &mut Seeds) -> Outcome<()> {
    for word in [
        "16,1k..4M",
        "1G",
        "closed",
        "max",
        "recorded",
        "1000hz",
        "0.5hz",
        "burst:100/5000000ns",
        "search:0.005",
        "all",
        "follower=last topic=/a b",
        "client=3 publisher=2 process=leader probe=before",
        "follower=3",
        "rtt_half_ns.p99",
        "rtt_half_ns.median",
        "cpu_share",
        "p999",
        "poll",
        "ping",
        "uds/datagram:packet=64",
        "16.0",
        "1e3",
    ] {
        seeds.add("words", word)?;
    }
    Ok(())
}

fn binaries(seeds: &mut Seeds) -> Outcome<()> {
    for compression in [None, Some(Compression::Lz4), Some(Compression::Zstd)] {
        for chunk in [Some(200), None] {
            let options = WriteOptions::new().compression(compression).compression_threads(0).chunk_size(chunk);
            seeds.add("recording", recording(options)?)?;
        }
    }
    let bare = WriteOptions::new().compression(None).use_chunks(false).emit_summary_records(false);
    seeds.add("recording", recording(bare.emit_summary_offsets(false))?)?;
    let plain = recording(WriteOptions::new().compression(None).compression_threads(0))?;
    seeds.add("recording", zstd::stream::encode_all(&plain[..], 1)?)?;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain)?;
    seeds.add("recording", gzip.finish()?)?;
    seeds.add("recording", "  relative_file_paths:\n    - drive_0.mcap\n  compression_mode: \"\"\n")?;
    for paths in
        [&["manifest.json"][..], &["samples/", "samples/x.csv", "trials.jsonl"], &["../x", "/etc/x", "a/../../b"]]
    {
        let mut bytes = Vec::new();
        for path in paths {
            let mut header = tar::Header::new_gnu();
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            let is_folder = path.ends_with('/');
            header.set_entry_type(if is_folder { tar::EntryType::Directory } else { tar::EntryType::Regular });
            header.set_mode(0o644);
            header.set_size(if is_folder { 0 } else { 5 });
            header.set_cksum();
            bytes.extend_from_slice(header.as_bytes());
            if !is_folder {
                bytes.extend_from_slice(b"hello");
                bytes.resize(bytes.len().next_multiple_of(512), 0);
            }
        }
        bytes.resize(bytes.len() + 1024, 0);
        seeds.add("archive", bytes)?;
    }
    let long = {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(2);
        builder.append_data(&mut header, format!("{}/x", "long".repeat(30)), &b"ab"[..])?;
        let mut link = tar::Header::new_gnu();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        builder.append_link(&mut link, "link", "/etc")?;
        builder.into_inner()?
    };
    seeds.add("archive", long)?;
    for kind in 0..5 {
        seeds.add("packets", [&[kind, 3, 10, 20, 30, 2][..], &[7; 60]].concat())?;
    }
    seeds.add("packets", [&[2, 80][..], &[0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[1; 64]].concat())?;
    seeds.add("packets", [&[3, 80][..], &[0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[1; 64]].concat())?;
    let plugin = [&[1, 1, 4][..], b"ring", &[3], b"abc", &[3], &[0xff; 4], &[0xff; 4], &[0x55; 4]].concat();
    seeds.add(
        "plugin",
        [&plugin[..], &[1], b"a", &[1], b"b", &[1], b"c", &[1], b"d", &[3], b"sys", &[0; 100]].concat(),
    )?;
    seeds.add("histogram", [&[12, 0, 0, 0, 0][..], b"hello|rtt_64", &[1, 0, 0, 0, 9, 9, 0, 0]].concat())?;
    seeds.add("histogram", [&[9, 0, 0, 0, 0][..], b"a\n,b|t,ag", &[1, 0, 0, 0]].concat())
}

fn recording(options: WriteOptions) -> Outcome<Vec<u8>> {
    let mut file = Cursor::new(Vec::new());
    let mut writer = options.create(&mut file)?;
    let yaml = "compression_format: zstd\ncompression_mode: MESSAGE\n".to_owned();
    let metadata = BTreeMap::from([("serialized_metadata".to_owned(), yaml)]);
    writer.write_metadata(&Metadata { name: "rosbag2".to_owned(), metadata })?;
    let packed = zstd::bulk::compress(&[7; 60], 1)?;
    let channels =
        [writer.add_channel(0, "/a", "cdr", &BTreeMap::new())?, writer.add_channel(0, "/b", "", &BTreeMap::new())?];
    for sequence in 0..4 {
        let channel_id = channels[sequence as usize % 2];
        let header = MessageHeader { channel_id, sequence, log_time: 1000 + u64::from(sequence), publish_time: 7 };
        let body = if sequence < 2 { &[7; 60][..] } else { &packed };
        writer.write_to_known_channel(&header, body)?;
    }
    writer.finish()?;
    drop(writer);
    Ok(file.into_inner())
}

/// Adds control messages without contents, and beginnings of others, which have no simple examples.
fn messages(seeds: &mut Seeds) -> Outcome<()> {
    for line in [
        r#""Continue""#,
        r#""Stop""#,
        r#""Done""#,
        r#""Alive""#,
        r#"{"Phase":"open"}"#,
        r#"{"Failed":"x"}"#,
        r#"{"Progress":{"samples":3,"moves":4}}"#,
        r#"{"CellStarted":{"payload_bytes":64}}"#,
        r#"{"Connect":[[1,2],[3]]}"#,
        r#"{"Logged":{"begin_ns":1,"end_ns":2}}"#,
        r#"{"Agreed":{"a":"YWJj"}}"#,
        r#"{"Control":"\"Stop\""}"#,
        r#"{"Setup":{"protocol":19,"tripmeter":"0.1.0"}}"#,
        r#"{"Start":{"address":"127.0.0.1","cpu":3}}"#,
        r#""List""#,
        r#"{"Clock":{"at":"127.0.0.1:99","token":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}}"#,
        r#"{"Clock":{"address":"::1","epoch_ns":5}}"#,
        r#"{"Ended":null}"#,
        r#"{"Systems":{"uds":{"Err":"x"}}}"#,
        r#"{"versions":{"protocol":19,"tripmeter":null},"name":"h","connection":null,"interfaces":[["lo","127.0.0.1"]]}"#,
        r#"{"Opened":{"transport_version":"1","system_version":"2","same_process":false,"memory_lock":"locked"}}"#,
        r#"{"Follow":{"control":"/x","plugins":{},"place":{"scratch_dir":"/y","address":"10.0.0.1","cpu":null}}}"#,
        r#"{"Relay":{"control":"/x","to":"h","pushed":"none","address":"10.0.0.1","cpu":1}}"#,
    ] {
        seeds.add("control", format!("{line}\n"))?;
    }
    for file in [
        "self/maps",
        "self/smaps",
        "self/stat",
        "self/limits",
        "stat",
        "interrupts",
        "pressure/cpu",
        "sysvipc/msg",
        "net/netstat",
    ] {
        if let Ok(text) = fs::read(Path::new("/proc").join(file)) {
            seeds.add("system", &text[..text.len().min(1500)])?;
        }
    }
    for text in [
        "0-3,5\n",
        "always [madvise] never\n",
        "nr_throttled 3\nthrottled_usec 4\n",
        "10.0.0.1 22 10.0.0.2 33",
        "12 sendto(0x3, \"\", 3) = 0x400\n13 <... recvfrom resumed>) = -1 EAGAIN (x)\n",
        "tripmeter-1f-12-345-rest",
        "key       shmid msqid perms cbytes qnum lspid lrpid\n 0 1 2 600 5 1 7 8\n",
        "[{\"ifname\":\"lo\",\"mtu\":1500}]",
        "0A000001,host,2,1.5,0.1,0.2\n",
        "master_offset  5\n",
        "Tcp: a RetransSegs\nTcp: 1 2\n",
        "\tSpeed: 1000Mb/s\n",
    ] {
        seeds.add("system", text)?;
    }
    Ok(())
}
