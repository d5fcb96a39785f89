//! Every parser of what comes from outside, as a function of bytes that must not panic. `fuzz/` runs them under libFuzzer;
//! `tests/corpus.rs` runs each once over all that was found.

mod archive;
mod eprosima;
mod escape;
mod histogram;
mod input;
mod messages;
mod packets;
mod plugin;
mod recording;
mod results;
mod texts;

use escape::escaped;

/// A parser, or several that read the same kind of file.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// Name of the target and of its corpus.
    pub name: &'static str,
    /// What it reads.
    pub reads: &'static str,
    /// Its source file, below the repository.
    pub source: &'static str,
    /// Most bytes of an input.
    pub most_bytes: usize,
    /// Panics on a fault of the program.
    pub run: fn(&[u8]),
}

macro_rules! target {
    ($name:literal, $reads:literal, $source:literal, $most:literal, $run:path) => {
        FuzzTarget {
            name: $name,
            reads: $reads,
            source: concat!("crates/fuzz/src/", $source),
            most_bytes: $most,
            run: $run,
        }
    };
}

/// All of them.
pub const TARGETS: [FuzzTarget; 15] = [
    target!("archive", "tar archives of other hosts", "archive.rs", 6144, archive::archive),
    target!(
        "control",
        "control messages between supervisor, leader, follower, hosts",
        "messages.rs",
        2048,
        messages::control
    ),
    target!("eprosima", "`measurements_*.csv` of eProsima", "eprosima.rs", 1024, eprosima::samples),
    target!("histogram", "histogram logs (`.hlog`) as written and read back", "histogram.rs", 256, histogram::log),
    target!("manifest", "`manifest.json`, `audit.json`, verdicts, `fleet.json`", "results.rs", 4096, results::manifest),
    target!("packets", "packets and byte streams of sockets, headers of messages", "packets.rs", 512, packets::packets),
    target!("plugin", "tables, descriptions and answers of plugins", "plugin.rs", 512, plugin::table),
    target!("recording", "MCAP recordings and their schedules", "recording.rs", 4096, recording::mcap),
    target!("results", "results folders as a whole, to the table of figures", "results.rs", 8192, results::folder),
    target!("samples", "`samples/*.csv` of ours", "texts.rs", 1024, texts::samples),
    target!("system", "texts of the kernel and of system programs", "messages.rs", 2048, messages::system),
    target!("tables", "limits in CSV, eProsima's summaries and requirements", "texts.rs", 1024, texts::tables),
    target!("toml", "experiments, hosts, `transport.toml`", "texts.rs", 2048, texts::toml),
    target!("trials", "`trials.jsonl`", "results.rs", 4096, results::trials),
    target!("words", "sizes, loads, streams, figures and other words", "texts.rs", 128, texts::words),
];

/// The target of that name.
pub fn target(name: &str) -> Option<FuzzTarget> {
    TARGETS.into_iter().find(|target| target.name == name)
}
