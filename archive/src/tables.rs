//! The tables of an archive as DataFusion sees them.

use crate::error::{ArchiveError, Result};
use crate::layout::{PUSH, Table};
use crate::store::{Archive, Stores};
use datafusion::arrow::datatypes::DataType;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use tripmeter_model::exit;

/// Share of the memory that DataFusion accounts for; the rest is for decoded pages and the program itself.
const ACCOUNTED: f64 = 0.6;
/// Number of largest memory consumers that an error names.
const NAMED_CONSUMERS: NonZeroUsize = NonZeroUsize::new(3).expect("it is not 0");
/// Columns computed from the times of a sample.
const LATENCIES: &str = "answered_ns - sent_ns AS rtt_ns, received_ns - sent_ns AS one_way_ns, \
     received_ns - intended_ns AS response_ns, answered_ns - intended_ns AS response_rtt_ns, \
     sent_ns - intended_ns AS lateness_ns";

/// Memory and disk space that a query may use.
#[derive(Clone, Debug, clap::Args)]
pub struct ResourceArgs {
    /// Memory limit; a query that needs more spills to disk
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = size)]
    pub memory: usize,
    /// Folder for spilled data [default: the folder of temporary files]
    #[arg(long, value_name = "DIR")]
    pub spill: Option<PathBuf>,
}

/// Reads a size: bytes, or a number with `K`, `M` or `G`.
///
/// # Errors
/// If it is not a size, or below 64 MiB.
pub fn size(text: &str) -> std::result::Result<usize, String> {
    const FEWEST: usize = 64 << 20;
    let digits = text.trim_end_matches(['K', 'M', 'G', 'k', 'm', 'g']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        _ => return Err("not a size such as 512M or 2G".to_owned()),
    };
    let number: usize = digits.parse().map_err(|_| "not a size such as 512M or 2G".to_owned())?;
    let bytes = number.checked_shl(shift).filter(|bytes| bytes >> shift == number).ok_or("it is too large")?;
    if bytes < FEWEST { Err("the minimum is 64M".to_owned()) } else { Ok(bytes) }
}

/// Runtime of a process: its stores, memory limit and spill folder.
///
/// # Errors
/// If the folder for spilled files cannot be made.
pub fn runtime(resources: &ResourceArgs) -> Result<Arc<RuntimeEnv>> {
    let pool = FairSpillPool::new((resources.memory as f64 * ACCOUNTED) as usize);
    let mode = resources
        .spill
        .clone()
        .map_or(DiskManagerMode::OsTmpDirectory, |folder| DiskManagerMode::Directories(vec![folder]));
    let built = RuntimeEnvBuilder::new()
        .with_object_store_registry(Arc::new(Stores::default()))
        .with_memory_pool(Arc::new(TrackConsumersPool::new(pool, NAMED_CONSUMERS)))
        .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(mode))
        .build_arc();
    built.map_err(|error| {
        let folder = resources.spill.clone().unwrap_or_else(std::env::temp_dir);
        let what = format!("the folder '{}' cannot be used, name another with --spill", folder.display());
        ArchiveError::new(exit::CANNOT_CREATE, format!("{what}: {}", error.strip_backtrace()))
    })
}

/// A context that runs queries in this process.
///
/// # Errors
/// As [`runtime`].
pub fn local(resources: &ResourceArgs) -> Result<SessionContext> {
    let state = SessionStateBuilder::new()
        .with_config(config(SessionConfig::new()))
        .with_runtime_env(runtime(resources)?)
        .with_default_features()
        .build();
    Ok(SessionContext::new_with_state(state))
}

/// Adds the settings common to all engines.
pub fn config(config: SessionConfig) -> SessionConfig {
    config.with_information_schema(true).set_bool("datafusion.execution.parquet.schema_force_view_types", false)
}

/// Registers the tables `runs`, `metrics` and `samples` with the runs that are complete now; later ones do not appear.
///
/// # Errors
/// If the archive cannot be read.
pub async fn register(context: &SessionContext, archive: &Archive) -> Result<()> {
    context.sql("CREATE SCHEMA files").await?.collect().await?;
    // Pushes are parts of paths, so a filter by them costs nothing per row. DataFusion rebuilds the filter for each
    // file, which took 1.3 ms for IN with 1000 literals.
    let whole: String = archive.whole(None).await?.values().map(|push| format!("{push},")).collect();
    let filter = format!("contains({}, ',' || {PUSH} || ',')", literal(&format!(",{whole}")));
    for table in Table::ALL {
        let name = table.name();
        context.register_table(format!("files.{name}"), Arc::new(listing(archive, table)?))?;
        let partitions = table.partitions().iter().filter(|column| **column != PUSH);
        let mut columns: Vec<String> = partitions.map(|column| (*column).to_owned()).collect();
        columns.extend(table.schema().fields().iter().map(|field| field.name().clone()));
        columns.extend((table == Table::Samples).then(|| LATENCIES.to_owned()));
        let columns = columns.join(", ");
        let view = format!("CREATE VIEW {name} AS SELECT {columns} FROM files.{name} WHERE {filter}");
        context.sql(&view).await?.collect().await?;
    }
    Ok(())
}

/// SQL literal of a text.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn listing(archive: &Archive, table: Table) -> Result<ListingTable> {
    let partitions = table.partitions().iter().map(|name| {
        let kind = if *name == "date" { DataType::Date32 } else { DataType::Utf8 };
        ((*name).to_owned(), kind)
    });
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
        .with_file_extension(".parquet")
        .with_table_partition_cols(partitions.collect())
        .with_collect_stat(false);
    let url = archive.url.join(&format!("{}/", table.name())).map_err(|error| archive.unreadable(error))?;
    let url = ListingTableUrl::parse(url)?;
    let config = ListingTableConfig::new(url).with_listing_options(options).with_schema(table.schema());
    Ok(ListingTable::try_new(config)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::RunPlace;
    use datafusion::arrow::array::{
        ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
    };
    use datafusion::arrow::datatypes::{Field, Int64Type};

    #[test]
    fn sizes_are_read_and_wrong_ones_are_refused() {
        assert_eq!((size("2G"), size("512m"), size("67108864")), (Ok(2 << 30), Ok(512 << 20), Ok(64 << 20)));
        for wrong in ["", "G", "2T", "1.5G", "-1G", "2GG", "63M", "99999999999999999999G", "18014398509481984G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        assert_eq!(literal("it's"), "'it''s'");
    }

    /// Row for a table, with arbitrary values: its message was received before it was sent, as two clocks may show.
    fn row(table: Table) -> RecordBatch {
        let column = |field: &Arc<Field>| -> ArrayRef {
            match field.data_type() {
                DataType::Utf8 => Arc::new(StringArray::from(vec!["x"])),
                DataType::Float64 => Arc::new(Float64Array::from(vec![1.5])),
                DataType::Int64 => Arc::new(Int64Array::from(vec![if field.name() == "received_ns" { -4 } else { 1 }])),
                _ => Arc::new(TimestampNanosecondArray::from(vec![1])),
            }
        };
        RecordBatch::try_new(table.schema(), table.schema().fields().iter().map(column).collect()).unwrap()
    }

    async fn write(archive: &Archive, run: &str, push: &str, machine: &str, tables: &[Table]) {
        let [run, push, machine] = [run, push, machine].map(str::to_owned);
        let place = RunPlace { date: "2026-01-02".into(), machine, run, push };
        for table in tables {
            crate::push::write(archive, &place.file(*table, "sub", "file"), [Ok(row(*table))].into_iter())
                .await
                .unwrap();
        }
    }

    async fn tables_of(archive: &Archive) -> SessionContext {
        let context = local(&ResourceArgs { memory: 64 << 20, spill: None }).unwrap();
        register(&context, archive).await.unwrap();
        context
    }

    /// Row counts of runs, metrics and samples.
    async fn rows(context: &SessionContext) -> [usize; 3] {
        let mut counts = [0; 3];
        for (count, table) in counts.iter_mut().zip(Table::ALL) {
            let frame = context.sql(&format!("SELECT * FROM {}", table.name())).await.unwrap();
            *count = frame.count().await.unwrap();
        }
        counts
    }

    #[tokio::test]
    async fn runs_are_there_that_were_whole_when_a_query_began_and_each_once() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open_or_make(&folder.path().display().to_string()).await.unwrap();
        assert_eq!(rows(&tables_of(&archive).await).await, [0, 0, 0]);
        write(&archive, "a", "1", "lab", &Table::ALL).await;
        write(&archive, "b", "2", "lab", &[Table::Samples]).await;
        let before = tables_of(&archive).await;
        let latency = before.sql("SELECT one_way_ns FROM samples").await.unwrap().collect().await.unwrap();
        assert_eq!(latency[0].column(0).as_primitive::<Int64Type>().values(), &[-5]);
        // The push ends, and another one begins and ends.
        write(&archive, "b", "2", "lab", &[Table::Metrics, Table::Runs]).await;
        write(&archive, "c", "3", "lab", &Table::ALL).await;
        assert_eq!(rows(&before).await, [1, 1, 1]);
        let after = tables_of(&archive).await;
        assert_eq!(rows(&after).await, [3, 3, 3]);
        // Two finished pushes of one run, under different machine names.
        write(&archive, "c", "0", "lab2", &Table::ALL).await;
        assert_eq!(rows(&after).await, [3, 3, 3]);
        assert_eq!(rows(&tables_of(&archive).await).await, [3, 3, 3]);
    }
}
