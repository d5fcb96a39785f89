//! CSV, TOML and the words of the command line.

use std::fmt::{Debug, Display};
use std::path::Path;
use std::str::FromStr;
use tripmeter_abi::{Pattern, Wait};
use tripmeter_eprosima::bytes::Bytes;
use tripmeter_eprosima::requirements::Requirements;
use tripmeter_eprosima::summary::Summary;
use tripmeter_eprosima::table::CsvTable;
use tripmeter_model::Touch;
use tripmeter_model::address::FigureName;
use tripmeter_model::experiment::Experiment;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::fleet::HostsFile;
use tripmeter_model::limits::FigureLimits;
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::payload::{display_size, parse_list, parse_size};
use tripmeter_model::samples::{SampleReader, SampleRow};
use tripmeter_model::sidecar::Sidecar;
use tripmeter_model::toml_text::one_line;
use tripmeter_model::transport::Selector;

/// Rows come out the same whether the file comes whole or byte by byte.
pub(crate) fn samples(bytes: &[u8]) {
    let whole = read_samples(bytes);
    let by_pieces = read_samples(Pieces(bytes));
    assert_eq!(whole, by_pieces, "rows depend on the pieces in which a file is read");
}

/// The rows before the first error, and whether there was one.
fn read_samples(source: impl std::io::Read) -> (Vec<SampleRow>, bool) {
    let Ok(reader) = SampleReader::new(source, "x.csv") else { return (Vec::new(), true) };
    let mut rows = Vec::new();
    for row in reader {
        match row {
            Ok(row) => rows.push(row),
            Err(error) => {
                is_one_line(&error.to_string());
                return (rows, true);
            }
        }
    }
    (rows, false)
}

/// A file of which each read brings a few bytes.
struct Pieces<'a>(&'a [u8]);

impl std::io::Read for Pieces<'_> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        const PIECE_BYTES: usize = 61;
        let room = &mut room[..PIECE_BYTES.min(self.0.len())];
        room.copy_from_slice(&self.0[..room.len()]);
        self.0 = &self.0[room.len()..];
        Ok(room.len())
    }
}

/// What is read and written is read again, as the same.
pub(crate) fn tables(bytes: &[u8]) {
    let path = Path::new("x.csv");
    match FigureLimits::parse(path, bytes) {
        Ok(limits) => {
            let again = FigureLimits::parse(path, &limits.to_csv());
            assert_eq!(again.map_err(|error| error.to_string()), Ok(limits));
        }
        Err(error) => is_one_line(&error.to_string()),
    }
    let table = match CsvTable::parse(path, bytes) {
        Ok(table) => table,
        Err(error) => return is_one_line(&error.to_string()),
    };
    let parsed = |text: Vec<u8>| CsvTable::parse(path, &text).expect("a table that was written is read");
    match Requirements::of_table(&table) {
        Ok(made) => {
            let text = made.to_csv();
            let again = Requirements::of_table(&parsed(text.clone())).expect("requirements that were written are read");
            assert_eq!(text, again.to_csv());
        }
        Err(error) => is_one_line(&error.to_string()),
    }
    match Summary::of_table(&table) {
        Ok(made) => {
            let text = made.to_csv();
            let again = Summary::of_table(&parsed(text.clone())).expect("a summary that was written is read");
            assert_eq!(text, again.to_csv());
        }
        Err(error) => is_one_line(&error.to_string()),
    }
}

/// Errors of files are one line, and nothing that a terminal acts on.
pub(crate) fn is_one_line(text: &str) {
    assert!(!text.chars().any(char::is_control), "a terminal would act on {text:?}");
}

pub(crate) fn toml(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match Experiment::parse(text) {
        Ok(made) => {
            for one in &made.sub_experiments {
                let _ = one.common().or(&made.common());
            }
        }
        Err(error) => drop(one_line(&error)),
    }
    let _ = HostsFile::parse(text);
    let _ = Sidecar::parse(text);
}

/// A word that is read is written so that it is read as the same.
pub(crate) fn words(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    comes_back::<OfferedLoad>(text);
    comes_back::<Stream>(text);
    if let Ok(name) = text.parse::<FigureName>() {
        // The value of a figure that has no samples is not written.
        let written = name.to_string();
        assert_eq!(written.parse::<FigureName>().map(|again| again.to_string()).as_ref(), Ok(&written));
    }
    comes_back::<Figure>(text);
    comes_back::<Statistic>(text);
    comes_back::<Wait>(text);
    comes_back::<Pattern>(text);
    let _ = (text.parse::<Touch>(), text.parse::<Selector>());
    if let Ok(size) = parse_size(text) {
        assert_eq!(parse_size(&display_size(size)).ok(), Some(size));
    }
    if let Ok(sizes) = parse_list(text) {
        let written = sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        assert_eq!(parse_list(&written).ok(), Some(sizes));
    }
    if let Some(size) = Bytes::parse(text) {
        assert_eq!(Bytes::parse(size.as_float().text()), Some(size));
    }
}

fn comes_back<T: FromStr + Display + PartialEq + Debug>(text: &str)
where
    T::Err: Debug,
{
    if let Ok(value) = text.parse::<T>() {
        let written = value.to_string();
        assert_eq!(written.parse::<T>().ok(), Some(value), "'{text}' is written as '{written}'");
    }
}
