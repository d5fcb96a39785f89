//! `tripmeter_parquet SAMPLES.csv SAMPLES.parquet`: writes samples as Parquet, whole or not at all; with `--figures` before
//! them the table of figures that `tripmeter export --format csv` makes. `--version` alone prints the version of Tripmeter
//! that it is of, which must be that of the program that starts it.
//!
//! Tripmeter starts it when a sub-experiment ends. It is a program of its own so that the default build needs neither the
//! library nor a C compiler for zstd.

mod figures;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::error::Error;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use tempfile::{NamedTempFile, PersistError};
use tripmeter_model::exit;
use tripmeter_model::file::FileError;
use tripmeter_model::samples::{SampleReader, SampleRow};

/// As the CSV has it: times may be missing.
const SCHEMA: &str = "message samples {
    required int64 round;
    required int64 trial;
    required int64 payload_bytes;
    required binary stream (UTF8);
    required int64 sequence;
    required binary status (UTF8);
    optional int64 intended_ns;
    optional int64 sent_ns;
    optional int64 received_ns;
    optional int64 answered_ns;
}";
/// Rows that are held in memory.
const ROWS_IN_A_GROUP: usize = 1 << 19;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let done = match &arguments[..] {
        [flag] if flag == "--version" => {
            println!("tripmeter_parquet {}", tripmeter_model::VERSION);
            return ExitCode::SUCCESS;
        }
        [flag, figures, output] if flag == "--figures" => figures::convert(Path::new(figures), Path::new(output)),
        [samples, output] => convert(Path::new(samples), Path::new(output)),
        _ => {
            eprintln!("usage: tripmeter_parquet [--figures] FILE.csv FILE.parquet, or --version");
            return ExitCode::from(64);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tripmeter_parquet: {error}");
            ExitCode::from(code(&*error))
        }
    }
}

/// The exit code of its class: of the input, or of what could not be written.
fn code(error: &(dyn Error + 'static)) -> u8 {
    if let Some(error) = error.downcast_ref::<FileError>() {
        return error.exit_code();
    }
    let is_of_output = error.is::<io::Error>() || error.is::<PersistError>() || error.is::<ParquetError>();
    if is_of_output { exit::CANNOT_CREATE } else { exit::DATA }
}

fn convert(samples: &Path, output: &Path) -> Result<()> {
    let rows = SampleReader::open(samples)?;
    let temporary = temporary_beside(output)?;
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_dictionary_enabled(false);
    for text in ["stream", "status"] {
        properties = properties.set_column_dictionary_enabled(ColumnPath::from(text), true);
    }
    for column in tripmeter_model::samples::HEADER.iter().filter(|column| !["stream", "status"].contains(*column)) {
        // Numbers and times rise by little.
        properties = properties.set_column_encoding(ColumnPath::from(*column), Encoding::DELTA_BINARY_PACKED);
    }
    let mut writer = SerializedFileWriter::new(temporary.as_file().try_clone()?, schema, Arc::new(properties.build()))?;
    let mut group = Vec::new();
    for row in rows {
        group.push(row?);
        if group.len() == ROWS_IN_A_GROUP {
            write(&mut writer, &group)?;
            group.clear();
        }
    }
    if !group.is_empty() {
        write(&mut writer, &group)?;
    }
    writer.close()?;
    temporary.as_file().sync_all()?;
    temporary.persist(output)?;
    Ok(())
}

/// A file that takes the place of the output once it is whole.
fn temporary_beside(output: &Path) -> Result<NamedTempFile> {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::Builder::new();
    temporary.prefix(".tripmeter-").permissions(Permissions::from_mode(0o666));
    Ok(temporary.tempfile_in(folder)?)
}

fn write(writer: &mut SerializedFileWriter<File>, rows: &[SampleRow]) -> Result<()> {
    let mut group = writer.next_row_group()?;
    numbers(&mut group, rows, |row| Some(row.round.into()))?;
    numbers(&mut group, rows, |row| Some(row.trial.into()))?;
    numbers(&mut group, rows, |row| Some(row.payload_bytes))?;
    texts(&mut group, rows, |row| &row.stream)?;
    numbers(&mut group, rows, |row| Some(row.sequence))?;
    texts(&mut group, rows, |row| &row.status)?;
    times(&mut group, rows, |row| row.intended_ns)?;
    times(&mut group, rows, |row| row.sent_ns)?;
    times(&mut group, rows, |row| row.received_ns)?;
    times(&mut group, rows, |row| row.answered_ns)?;
    group.close()?;
    Ok(())
}

fn numbers(
    group: &mut SerializedRowGroupWriter<'_, File>,
    rows: &[SampleRow],
    number: impl Fn(&SampleRow) -> Option<u64>,
) -> Result<()> {
    column(group, rows, number, false)
}

/// Numbers that may be missing.
fn times<N>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    rows: &[SampleRow],
    time: impl Fn(&SampleRow) -> Option<N>,
) -> Result<()>
where
    i64: TryFrom<N, Error: Error + 'static>,
{
    column(group, rows, time, true)
}

fn column<N>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    rows: &[SampleRow],
    value: impl Fn(&SampleRow) -> Option<N>,
    is_optional: bool,
) -> Result<()>
where
    i64: TryFrom<N, Error: Error + 'static>,
{
    let values: Vec<i64> = rows.iter().filter_map(&value).map(i64::try_from).collect::<std::result::Result<_, _>>()?;
    let levels: Vec<i16> = rows.iter().map(|row| value(row).is_some().into()).collect();
    let mut column = group.next_column()?.ok_or("the schema has fewer columns")?;
    column.typed::<Int64Type>().write_batch(&values, is_optional.then_some(&levels[..]), None)?;
    column.close()?;
    Ok(())
}

fn texts(
    group: &mut SerializedRowGroupWriter<'_, File>,
    rows: &[SampleRow],
    text: impl Fn(&SampleRow) -> &String,
) -> Result<()> {
    let values: Vec<ByteArray> = rows.iter().map(|row| ByteArray::from(text(row).as_str())).collect();
    let mut column = group.next_column()?.ok_or("the schema has fewer columns")?;
    column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
    column.close()?;
    Ok(())
}
