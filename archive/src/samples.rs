//! Samples of a results folder in batches, from CSV or Parquet files, without the rows that do not count.

use crate::error::{ArchiveError, Result};
use crate::layout::Table;
use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Int64Array, Int64Builder, RecordBatch, StringDictionaryBuilder,
};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tripmeter_model::exit;
use tripmeter_model::file::{self, FileError};
use tripmeter_model::samples::{HEADER, SAMPLES, SampleReader, SampleRow};

/// Rows of a batch.
const ROWS: usize = 1 << 16;
/// Index of the column with the trial number.
const TRIAL: usize = 1;

/// Rows of a file in batches.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch>>>;

/// File with the samples of a sub-experiment in its round's folder, CSV or Parquet; `None` if they were not kept.
pub fn file_of(folder: &Path, sub_experiment: &str) -> Option<PathBuf> {
    let file = |ending| folder.join(SAMPLES).join(format!("{sub_experiment}.{ending}"));
    ["csv", "parquet"].map(file).into_iter().find(|file| file.symlink_metadata().is_ok())
}

/// Columns in memory: those of the table, with dictionary-encoded texts.
pub fn schema() -> SchemaRef {
    let in_memory = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8 => {
            let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            Field::new(field.name(), dictionary, field.is_nullable())
        }
        _ => field.as_ref().clone(),
    };
    Arc::new(Schema::new(Table::Samples.schema().fields().iter().map(in_memory).collect::<Vec<_>>()))
}

/// Reads the rows of these trials.
///
/// # Errors
/// If the file cannot be opened, or has other columns. An item is an error if a row is wrong, or the last one cut off.
pub fn batches(file: &Path, trials: BTreeSet<i64>) -> Result<Batches> {
    let all: Batches = match file.extension().is_some_and(|ending| ending == "parquet") {
        true => of_parquet(file)?,
        false => {
            Box::new(CsvBatches { rows: SampleReader::open(file)?, file: file.to_owned(), trials: trials.clone() })
        }
    };
    Ok(Box::new(all.map(move |batch| counted(batch?, &trials)).filter(|batch| !is_empty(batch))))
}

fn is_empty(batch: &Result<RecordBatch>) -> bool {
    batch.as_ref().is_ok_and(|batch| batch.num_rows() == 0)
}

/// Drops rows of other trials, which a killed run leaves behind.
fn counted(batch: RecordBatch, trials: &BTreeSet<i64>) -> Result<RecordBatch> {
    let numbers = batch.column(TRIAL).as_any().downcast_ref::<Int64Array>().expect("the schema says so").values();
    let mut known = (0, false);
    let counts = numbers.iter().map(|number| {
        if known.0 != *number {
            known = (*number, trials.contains(number));
        }
        known.1
    });
    let counts: BooleanArray = counts.map(Some).collect();
    if counts.true_count() == batch.num_rows() {
        return Ok(batch);
    }
    filter_record_batch(&batch, &counts).map_err(|error| ArchiveError::new(exit::SOFTWARE, error.to_string()))
}

fn of_parquet(path: &Path) -> Result<Batches> {
    let name = path.to_owned();
    let wrong = move |error: &dyn std::fmt::Display| ArchiveError::from(FileError::wrong(&name, error.to_string()));
    let columns = |error: &dyn std::fmt::Display| format!("the columns are not {}: {error}", HEADER.join(","));
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true).with_schema(schema());
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file::open(path)?, options);
    let builder = builder.map_err(|error| wrong(&columns(&error)))?;
    let reader = builder.with_batch_size(ROWS).build().map_err(|error| wrong(&error))?;
    Ok(Box::new(reader.map(move |batch| batch.map_err(|error| wrong(&error)))))
}

struct CsvBatches<R> {
    rows: SampleReader<R>,
    file: PathBuf,
    trials: BTreeSet<i64>,
}

impl<R: std::io::Read> Iterator for CsvBatches<R> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut columns = Columns::default();
        for row in self.rows.by_ref().take(ROWS) {
            let added = row.map_err(ArchiveError::from).and_then(|row| {
                columns.add(&row).map_err(|what| {
                    let text = format!("sample {} of trial {}: {what}", row.sequence, row.trial);
                    FileError::wrong(&self.file, text).into()
                })
            });
            if let Err(error) = added {
                return Some(Err(error));
            }
        }
        let batch = columns.finish();
        if batch.num_rows() > 0 {
            return Some(Ok(batch));
        }
        // Taken, so that the error is reported once.
        let trials = std::mem::take(&mut self.trials);
        self.rows.check_end(|trial| trials.contains(&i64::from(trial))).err().map(|error| Err(error.into()))
    }
}

#[derive(Default)]
struct Columns {
    numbers: [Int64Builder; 8],
    texts: [StringDictionaryBuilder<Int32Type>; 2],
}

impl Columns {
    fn add(&mut self, row: &SampleRow) -> std::result::Result<(), String> {
        let signed = |number: u64| i64::try_from(number).map_err(|_| format!("{number} is more than {}", i64::MAX));
        let time = |ns: Option<u64>| ns.map(signed).transpose();
        let numbers = [
            Some(i64::from(row.round)),
            Some(i64::from(row.trial)),
            Some(signed(row.payload_bytes)?),
            Some(signed(row.sequence)?),
            time(row.intended_ns)?,
            time(row.sent_ns)?,
            row.received_ns,
            time(row.answered_ns)?,
        ];
        for (column, number) in self.numbers.iter_mut().zip(numbers) {
            column.append_option(number);
        }
        self.texts[0].append_value(&row.stream);
        self.texts[1].append_value(&row.status);
        Ok(())
    }

    fn finish(mut self) -> RecordBatch {
        let [round, trial, payload, sequence, intended, sent, received, answered] =
            self.numbers.each_mut().map(|column| Arc::new(column.finish()) as ArrayRef);
        let [stream, status] = self.texts.each_mut().map(|column| Arc::new(column.finish()) as ArrayRef);
        let columns = vec![round, trial, payload, stream, sequence, status, intended, sent, received, answered];
        RecordBatch::try_new(schema(), columns).expect("all columns have all rows")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    fn numbers(batch: &RecordBatch, name: &str) -> Vec<Option<i64>> {
        let column = batch.column_by_name(name).unwrap().as_any().downcast_ref::<Int64Array>().unwrap();
        column.iter().collect()
    }

    #[test]
    fn rows_of_trials_that_count_are_kept_with_what_they_lack() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.csv");
        let mut text = HEADER.join(",") + "\n";
        for (trial, sent, received) in [(1, 5, ""), (2, 6, "8"), (3, 7, "-4")] {
            writeln!(text, "1,{trial},64,all,{sent},ok,,{sent},{received},9").unwrap();
        }
        std::fs::write(&file, text).unwrap();
        let all: Vec<RecordBatch> = batches(&file, BTreeSet::from([1, 3])).unwrap().collect::<Result<_>>().unwrap();
        assert_eq!(numbers(&all[0], "sent_ns"), [Some(5), Some(7)]);
        assert_eq!(numbers(&all[0], "received_ns"), [None, Some(-4)]);
        assert_eq!(batches(&file, BTreeSet::new()).unwrap().count(), 0);
        let mut cut_off = std::fs::OpenOptions::new().append(true).open(&file).unwrap();
        std::io::Write::write_all(&mut cut_off, b"1,4,64,all,1").unwrap();
        let last = |trials| batches(&file, BTreeSet::from(trials)).unwrap().last().unwrap();
        assert_eq!(last([1, 3]).unwrap().num_rows(), 2);
        assert!(last([1, 4]).unwrap_err().to_string().contains("is cut off, and its trial 4 counts"));
    }

    #[test]
    fn a_number_that_is_too_large_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.csv");
        std::fs::write(&file, HEADER.join(",") + "\n1,1,64,all,7,ok,,9223372036854775808,,9\n").unwrap();
        let error = batches(&file, BTreeSet::from([1])).unwrap().next().unwrap().unwrap_err().to_string();
        assert!(error.contains("sample 7 of trial 1: 9223372036854775808 is more than"), "{error}");
    }
    #[test]
    fn a_parquet_file_keeps_what_was_received_before_it_was_sent() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.parquet");
        let whole = |number: i64| Arc::new(Int64Array::from(vec![number])) as ArrayRef;
        let text = |text: &str| Arc::new(datafusion::arrow::array::StringArray::from(vec![text])) as ArrayRef;
        let columns = [whole(1), whole(1), whole(64), text("all"), whole(1), text("ok")];
        let columns = columns.into_iter().chain([5, 3, -9, 8].map(whole)).collect();
        let batch = RecordBatch::try_new(Table::Samples.schema(), columns).unwrap();
        let file_to_write = std::fs::File::create(&file).unwrap();
        let mut writer = parquet::arrow::ArrowWriter::try_new(file_to_write, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let all: Vec<RecordBatch> = batches(&file, BTreeSet::from([1])).unwrap().collect::<Result<_>>().unwrap();
        assert_eq!((numbers(&all[0], "sent_ns"), numbers(&all[0], "received_ns")), (vec![Some(3)], vec![Some(-9)]));
    }
}
