//! The table of figures: a row each, values as DOUBLE, text by dictionary.

use crate::{Result, temporary_beside};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::path::Path;
use std::sync::Arc;

const SCHEMA: &str = "message figures {
    optional binary folder (UTF8);
    required binary sub_experiment (UTF8);
    required int64 payload_bytes;
    required binary offered_load (UTF8);
    required binary stream (UTF8);
    required binary figure (UTF8);
    required binary statistic (UTF8);
    required int64 rounds;
    optional double value;
    optional double value_low;
    optional double value_high;
    required binary unit (UTF8);
}";
const COLUMNS: [(&str, Kind); 12] = [
    ("folder", Kind::Text { is_optional: true }),
    ("sub_experiment", Kind::Text { is_optional: false }),
    ("payload_bytes", Kind::Whole),
    ("offered_load", Kind::Text { is_optional: false }),
    ("stream", Kind::Text { is_optional: false }),
    ("figure", Kind::Text { is_optional: false }),
    ("statistic", Kind::Text { is_optional: false }),
    ("rounds", Kind::Whole),
    ("value", Kind::Number),
    ("value_low", Kind::Number),
    ("value_high", Kind::Number),
    ("unit", Kind::Text { is_optional: false }),
];

#[derive(Clone, Copy)]
enum Kind {
    Text {
        is_optional: bool,
    },
    Whole,
    /// Empty: none.
    Number,
}

/// Columns that the CSV lacks are null.
pub fn convert(figures: &Path, output: &Path) -> Result<()> {
    let mut reader = csv::Reader::from_path(figures)?;
    let header = reader.headers()?.clone();
    let rows = reader.records().collect::<std::result::Result<Vec<_>, _>>()?;
    let temporary = temporary_beside(output)?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?)).build();
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut writer = SerializedFileWriter::new(temporary.as_file().try_clone()?, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (name, kind) in COLUMNS {
        let place = header.iter().position(|column| column == name);
        let fields = || rows.iter().map(|row| place.and_then(|place| row.get(place)));
        let present = || fields().flatten().filter(|text| !text.is_empty());
        let levels: Vec<i16> = fields().map(|text| text.is_some_and(|text| !text.is_empty()).into()).collect();
        let mut column = group.next_column()?.ok_or("the schema has fewer columns")?;
        match kind {
            Kind::Text { is_optional: true } => {
                let values: Vec<ByteArray> = present().map(ByteArray::from).collect();
                column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
            }
            Kind::Text { is_optional: false } => {
                let values: Vec<ByteArray> = fields().map(|text| ByteArray::from(text.unwrap_or(""))).collect();
                column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
            Kind::Whole => {
                let whole = |text: Option<&str>| text.unwrap_or("").parse::<i64>();
                let values: Vec<i64> = fields().map(whole).collect::<std::result::Result<_, _>>()?;
                column.typed::<Int64Type>().write_batch(&values, None, None)?;
            }
            Kind::Number => {
                let values: Vec<f64> = present().map(str::parse).collect::<std::result::Result<_, _>>()?;
                column.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
            }
        }
        column.close()?;
    }
    group.close()?;
    writer.close()?;
    temporary.as_file().sync_all()?;
    temporary.persist(output)?;
    Ok(())
}
