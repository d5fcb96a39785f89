//! The tables of an archive: their columns, and the folders that their files are in.

use crate::error::{ArchiveError, Result};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;
use tripmeter_model::exit;
use tripmeter_model::name::is_name;

/// Partition column that identifies a push; no table shows it.
pub const PUSH: &str = "push";

/// A table; its files are in a folder of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// A row for each run. Its file is written last: a push without one is not visible.
    Runs,
    /// A row for each figure of each trial.
    Metrics,
    /// A row for each message, call or round trip.
    Samples,
}

impl Table {
    /// All tables.
    pub const ALL: [Table; 3] = [Table::Runs, Table::Metrics, Table::Samples];

    /// Name in SQL, and of the folder.
    pub fn name(self) -> &'static str {
        match self {
            Table::Runs => "runs",
            Table::Metrics => "metrics",
            Table::Samples => "samples",
        }
    }

    /// Columns that are folders, from the outermost to the innermost.
    pub fn partitions(self) -> &'static [&'static str] {
        match self {
            Table::Runs => &["date", "machine", "run", PUSH],
            Table::Metrics | Table::Samples => &["date", "machine", "sub_experiment", "run", PUSH],
        }
    }

    /// Columns of its files.
    pub fn schema(self) -> SchemaRef {
        let text = |name: &str| Field::new(name, DataType::Utf8, false);
        let whole = |name: &str| Field::new(name, DataType::Int64, false);
        let time = |name: &str| Field::new(name, DataType::Timestamp(TimeUnit::Nanosecond, None), false);
        let optional = |field: Field| field.with_nullable(true);
        let fields = match self {
            Table::Runs => vec![
                text("folder"),
                time("started"),
                optional(time("ended")),
                text("status"),
                text("source"),
                whole("rounds"),
                text("tripmeter_version"),
                text("cpu_model"),
                whole("cpus"),
                text("kernel"),
                whole("samples"),
                whole("metrics"),
                text("manifest"),
            ],
            Table::Metrics => vec![
                whole("round"),
                whole("trial"),
                whole("payload_bytes"),
                text("offered_load"),
                text("stream"),
                text("figure"),
                text("statistic"),
                Field::new("value", DataType::Float64, false),
                Field::new("low", DataType::Float64, true),
                Field::new("high", DataType::Float64, true),
            ],
            Table::Samples => vec![
                whole("round"),
                whole("trial"),
                whole("payload_bytes"),
                text("stream"),
                whole("sequence"),
                text("status"),
                optional(whole("intended_ns")),
                optional(whole("sent_ns")),
                optional(whole("received_ns")),
                optional(whole("answered_ns")),
            ],
        };
        Arc::new(Schema::new(fields))
    }
}

/// Where a push writes a run: the values of its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPlace {
    /// Day of the start as `YYYY-mm-dd`, in local time.
    pub date: String,
    /// The name of the machine.
    pub machine: String,
    /// Identity of the run: its start time, and a hash of its results.
    pub run: String,
    /// Hash of all inputs of the files. Two pushes at the same time write either equal files or different paths.
    pub push: String,
}

impl RunPlace {
    /// Path of a file in the archive; the table of runs ignores `sub_experiment`.
    pub fn file(&self, table: Table, sub_experiment: &str, file: &str) -> String {
        let Self { date, machine, run, push } = self;
        let sub = match table {
            Table::Runs => String::new(),
            Table::Metrics | Table::Samples => format!("/sub_experiment={sub_experiment}"),
        };
        format!("{}/date={date}/machine={machine}{sub}/run={run}/push={push}/{file}.parquet", table.name())
    }
}

/// Value of partition `name` in the path of a file.
pub fn partition<'a>(path: &'a str, name: &str) -> Option<&'a str> {
    path.rsplit('/').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

/// Checks a machine's name, which becomes a part of paths.
///
/// # Errors
/// If the name has other characters, or is too long.
pub fn machine(name: &str) -> Result<String> {
    if is_name(name) {
        return Ok(name.to_owned());
    }
    let text = format!("'{name}' is not a machine name: 1 to 100 letters, digits and _.=-, not starting with . or -");
    Err(ArchiveError::new(exit::USAGE, text))
}

/// Default name of a machine: its CPU model and the number of CPUs used.
pub fn machine_of(cpu_model: &str, cpus: usize) -> String {
    let words = cpu_model.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = words.collect::<Vec<_>>().join("-").to_lowercase();
    name.truncate(80);
    let name = if name.is_empty() { "unknown".to_owned() } else { name };
    format!("{name}-{cpus}cpus")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_its_run_and_a_machine_is_a_name() {
        let place = RunPlace { date: "2026-01-02".into(), machine: "lab".into(), run: "r".into(), push: "p".into() };
        let file = place.file(Table::Samples, "tcp_nodelay=off_poll", "round-01");
        let expected =
            "samples/date=2026-01-02/machine=lab/sub_experiment=tcp_nodelay=off_poll/run=r/push=p/round-01.parquet";
        assert_eq!(file, expected);
        assert_eq!((partition(&file, "run"), partition(&file, "push")), (Some("r"), Some("p")));
        assert_eq!(partition(&place.file(Table::Runs, "", "run"), "sub_experiment"), None);
        assert_eq!(machine_of("Intel(R) Xeon(R) CPU @ 2.20GHz", 2), "intel-r-xeon-r-cpu-2-20ghz-2cpus");
        assert_eq!(machine(&machine_of("", 1)).unwrap(), "unknown-1cpus");
        assert!(machine("../x").is_err());
    }
}
