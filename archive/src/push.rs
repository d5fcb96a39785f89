//! `tripmeter-archive push`: writes results folders to an archive.

use crate::error::{ArchiveError, Result};
use crate::layout::{self, PUSH, RunPlace, Table, partition};
use crate::output::print_line;
use crate::results::{self, hex};
use crate::samples;
use crate::store::Archive;
use datafusion::arrow::array::RecordBatch;
use object_store::ObjectStoreExt;
use object_store::buffered::BufWriter;
use parquet::arrow::AsyncArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tripmeter_model::exit;
use tripmeter_model::file::FileError;
use tripmeter_model::folder::MANIFEST;
use tripmeter_model::manifest::{Manifest, RunStatus, SubExperimentResult};

/// Rows of a Parquet row group, the unit of reading.
const ROWS_IN_A_GROUP: usize = 1 << 20;
/// Bytes of an upload part.
const PART_BYTES: usize = 8 << 20;
/// Age after which files of an incomplete run are removed: no push takes so long, so theirs was killed.
const LONGEST_PUSH: Duration = Duration::from_secs(24 * 60 * 60);

/// Arguments of `push`.
#[derive(Debug, clap::Args)]
pub struct PushArgs {
    /// Results folders, or folders that contain some; last the archive: a folder or s3://BUCKET/PREFIX
    #[arg(value_name = "DIR... DEST", num_args = 2.., required = true)]
    pub paths: Vec<String>,
    /// Name of the machine that they were measured on [default: its CPU model and number of CPUs]
    #[arg(long, value_name = "NAME")]
    pub machine: Option<String>,
}

/// Pushes every folder and prints a line for each.
///
/// # Errors
/// If a folder cannot be read, or the archive cannot be written; earlier folders stay archived.
pub async fn push(args: &PushArgs) -> Result<()> {
    let machine = args.machine.as_deref().map(layout::machine).transpose()?;
    let (dest, folders) = args.paths.split_last().expect("at least two are required");
    let folders = folders_in(folders)?;
    let archive = Archive::open_or_make(dest).await?;
    remove_left(&archive).await?;
    for folder in &folders {
        let name = folder.display();
        let line = match push_one(&archive, folder, machine.clone()).await? {
            Pushed::AlreadyThere(run) => format!("'{name}' is already archived as {run}"),
            Pushed::StillRunning => format!("'{name}' is skipped: it is still being measured, or was killed"),
            Pushed::New { run, samples, metrics, bytes } => {
                format!("'{name}' is archived as {run}: {samples} samples, {metrics} figures, {bytes} bytes")
            }
        };
        print_line(&line)?;
    }
    Ok(())
}

/// Results folders among `given`, and those inside other folders given, sorted by name.
fn folders_in(given: &[String]) -> Result<Vec<PathBuf>> {
    let is_results = |folder: &Path| folder.join(MANIFEST).symlink_metadata().is_ok();
    let mut found = Vec::new();
    for folder in given.iter().map(PathBuf::from) {
        if is_results(&folder) {
            found.push(folder);
            continue;
        }
        let failed = |error| {
            ArchiveError::new(exit::NO_INPUT, format!("the folder '{}' cannot be read: {error}", folder.display()))
        };
        let entries = std::fs::read_dir(&folder).map_err(failed)?;
        let entries: std::io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
        let mut inner = entries.map_err(failed)?;
        inner.retain(|folder| is_results(folder));
        if inner.is_empty() {
            let text = format!("'{}' is not a results folder, and contains none", folder.display());
            return Err(ArchiveError::new(exit::DATA, text));
        }
        inner.sort();
        found.extend(inner);
    }
    Ok(found)
}

enum Pushed {
    New { run: String, samples: usize, metrics: usize, bytes: u64 },
    AlreadyThere(String),
    StillRunning,
}

/// Removes files of killed pushes.
async fn remove_left(archive: &Archive) -> Result<()> {
    let mut files = archive.files(Table::Metrics.name()).await?;
    files.extend(archive.files(Table::Samples.name()).await?);
    files.retain(|file| {
        let changed = SystemTime::from(file.last_modified);
        changed.elapsed().is_ok_and(|age| age > LONGEST_PUSH)
    });
    let whole: BTreeSet<String> = archive.pushes(None).await?.into_iter().map(|(_, push)| push).collect();
    let is_whole = |path: &str| partition(path, PUSH).is_some_and(|push| whole.contains(push));
    for file in files.iter().filter(|file| !is_whole(file.location.as_ref())) {
        match archive.store.delete(&file.location).await {
            // Another push has removed it.
            Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(archive.unwritable(error)),
        }
    }
    Ok(())
}

async fn push_one(archive: &Archive, folder: &Path, machine: Option<String>) -> Result<Pushed> {
    let results = results::read(folder)?;
    let manifest = &results.manifest;
    if manifest.status == RunStatus::Running {
        return Ok(Pushed::StillRunning);
    }
    let date = Some(results.date.as_str());
    if archive.whole(date).await?.contains_key(&results.run) {
        return Ok(Pushed::AlreadyThere(results.run));
    }
    let sources: Vec<Source> =
        manifest.sub_experiments.iter().filter_map(|of| Source::from_result(folder, manifest, of)).collect();
    let environment = &manifest.environment;
    let machine = machine.unwrap_or_else(|| layout::machine_of(&environment.cpu_model, environment.cpus.len()));
    let push = push_of(&results.run, &machine, &sources)?;
    let place = RunPlace { date: results.date.clone(), machine, run: results.run.clone(), push };
    let mut sum = Written::default();
    for source in &sources {
        sum.add(push_samples(archive, &place, source).await?);
    }
    let samples = std::mem::take(&mut sum.rows);
    for (name, batch) in results::metrics(manifest) {
        let file = place.file(Table::Metrics, &name, "metrics");
        sum.add(write(archive, &file, std::iter::once(Ok(batch))).await?);
    }
    let metrics = std::mem::take(&mut sum.rows);
    if archive.whole(date).await?.get(&place.run).is_some_and(|push| *push != place.push) {
        // Another push has archived the run meanwhile; without a row in `runs`, the files of this one stay invisible.
        return Ok(Pushed::AlreadyThere(place.run));
    }
    // Written last: the row makes the run visible.
    let row = results.row(samples, metrics);
    sum.add(write(archive, &place.file(Table::Runs, "", "run"), std::iter::once(Ok(row))).await?);
    Ok(Pushed::New { run: place.run, samples, metrics, bytes: sum.bytes })
}

struct Source<'a> {
    result: &'a SubExperimentResult,
    file: PathBuf,
}

impl<'a> Source<'a> {
    /// Samples of a result; `None` if they were not kept.
    fn from_result(folder: &Path, manifest: &Manifest, result: &'a SubExperimentResult) -> Option<Self> {
        let round =
            if manifest.plan.has_round_folders() { format!("round-{:02}", result.round) } else { String::new() };
        Some(Self { result, file: samples::file_of(&folder.join(round), &result.name)? })
    }
}

/// Hash for [`RunPlace::push`].
fn push_of(run: &str, machine: &str, sources: &[Source]) -> Result<String> {
    let mut hash = Sha256::new();
    for text in [run, machine, env!("CARGO_PKG_VERSION")] {
        hash.update(format!("{text}\n"));
    }
    for Source { result, file } in sources {
        let about = tripmeter_model::file::open(file)?.metadata();
        let about = about.map_err(|error| FileError::reading(file, &error))?;
        let (seconds, nanoseconds) = (about.mtime(), about.mtime_nsec());
        hash.update(format!("{} {} {} {seconds} {nanoseconds}\n", result.name, result.round, about.len()));
    }
    Ok(hex(hash))
}

async fn push_samples(archive: &Archive, place: &RunPlace, source: &Source<'_>) -> Result<Written> {
    let result = source.result;
    let trials = result.cells.iter().flat_map(|cell| &cell.trials).map(|trial| i64::from(trial.number)).collect();
    let file = place.file(Table::Samples, &result.name, &format!("round-{:02}", result.round));
    write(archive, &file, samples::batches(&source.file, trials)?).await
}

/// Rows and bytes written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    rows: usize,
    bytes: u64,
}

impl Written {
    fn add(&mut self, other: Written) {
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}

/// Writes a file completely or not at all; without rows, writes none.
///
/// # Errors
/// If it cannot be written, or the source of a batch cannot be read.
pub async fn write(
    archive: &Archive,
    file: &str,
    batches: impl Iterator<Item = Result<RecordBatch>>,
) -> Result<Written> {
    let mut batches = batches.peekable();
    let schema = match batches.peek() {
        None => return Ok(Written::default()),
        Some(Ok(batch)) => batch.schema(),
        Some(Err(_)) => return Err(batches.next().expect("it was seen").expect_err("it is one")),
    };
    let mut sink = BufWriter::with_capacity(archive.store.clone(), archive.path(file), PART_BYTES);
    let options = ArrowWriterOptions::new().with_properties(properties(&schema)).with_skip_arrow_metadata(true);
    let mut is_ending = false;
    let written = async {
        let failed = |error| archive.unwritable(error);
        let mut writer = AsyncArrowWriter::try_new_with_options(&mut sink, schema, options).map_err(failed)?;
        let mut rows = 0;
        for batch in batches {
            let batch = batch?;
            rows += batch.num_rows();
            writer.write(&batch).await.map_err(failed)?;
        }
        is_ending = true;
        writer.finish().await.map_err(failed)?;
        Ok(Written { rows, bytes: writer.bytes_written() as u64 })
    };
    let written = written.await;
    if written.is_err() && !is_ending {
        // A partial upload is not visible, and the first error is the one to report.
        let _ = sink.abort().await;
    }
    written
}

/// Compression with zstd; integers delta-encoded, texts dictionary-encoded.
fn properties(schema: &datafusion::arrow::datatypes::Schema) -> WriterProperties {
    use datafusion::arrow::datatypes::DataType;
    let level = ZstdLevel::try_new(3).expect("zstd has it");
    let mut made = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(ROWS_IN_A_GROUP))
        .set_dictionary_enabled(true);
    for field in schema.fields().iter().filter(|field| *field.data_type() == DataType::Int64) {
        let column = ColumnPath::from(field.name().as_str());
        made = made.set_column_dictionary_enabled(column.clone(), false);
        made = made.set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    made.build()
}
