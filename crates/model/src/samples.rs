//! `samples/<name>.csv`: a row for each message, call or round trip of any pattern.

use crate::file::FileError;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

/// Folder of these files, in the results folder or in that of a round.
pub const SAMPLES: &str = "samples";

/// Columns. Times are whole nanoseconds since the start of the trial, or empty. Only `received_ns` may be negative.
pub const HEADER: [&str; 10] = [
    "round",
    "trial",
    "payload_bytes",
    "stream",
    "sequence",
    "status",
    "intended_ns",
    "sent_ns",
    "received_ns",
    "answered_ns",
];

/// Longest row that is read, in bytes, including line breaks within quotes: it bounds the names of topics.
const MOST_ROW_BYTES: u64 = 128 << 10;

/// Row of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleRow {
    /// Round, from 1.
    pub round: u32,
    /// Trial in the sub-experiment and round, from 1: [`crate::trial::Trial::number`].
    pub trial: u32,
    /// Bytes of the message.
    pub payload_bytes: u64,
    /// Stream, as [`crate::metric::Stream`] is written.
    pub stream: String,
    /// Sequence number in its stream and trial, from 1.
    pub sequence: u64,
    /// Name of a [`crate::delivery::DeliveryStatus`], e.g. `ok`.
    pub status: String,
    /// Due time, if the load has due times.
    pub intended_ns: Option<u64>,
    /// Send time.
    pub sent_ns: Option<u64>,
    /// Arrival at the follower, or at the last of several; negative if the clocks of two hosts differ.
    pub received_ns: Option<i64>,
    /// Arrival of the answer.
    pub answered_ns: Option<u64>,
}

/// Iterator over the rows of a file, in bounded memory.
pub struct SampleReader<R> {
    rows: csv::Reader<Bounded<R>>,
    row: csv::StringRecord,
    name: String,
    /// Line, trial and text of the last row, if it is cut off after the column `trial`.
    cut_off: Option<(u64, u32, String)>,
}

impl SampleReader<BufReader<File>> {
    /// Opens a regular file.
    ///
    /// # Errors
    /// If it is not regular, or its columns differ from [`HEADER`].
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let file = crate::file::open(path)?;
        Self::new(BufReader::new(file), &path.display().to_string())
    }
}

impl<R: Read> SampleReader<R> {
    /// Reads from `source`, called `name` in errors.
    ///
    /// # Errors
    /// If its columns differ from [`HEADER`].
    pub fn new(source: R, name: &str) -> Result<Self, FileError> {
        let mut rows =
            csv::Reader::from_reader(Bounded { source, read: 0, row_begin: 0, is_in_line: false, is_at_end: false });
        let wrong = |what: String| FileError::wrong(Path::new(name), what);
        let header = rows.headers().map_err(|error| wrong(error.to_string()))?;
        if header != HEADER.as_slice() {
            return Err(wrong(format!("the columns are not {}", HEADER.join(","))));
        }
        Ok(Self { rows, row: csv::StringRecord::new(), name: name.to_owned(), cut_off: None })
    }

    /// Checks the end of the file, after the last row.
    ///
    /// # Errors
    /// If the last row is cut off, and belongs to a trial that counts.
    pub fn check_end(&self, does_count: impl Fn(u32) -> bool) -> Result<(), FileError> {
        let cut_off = self.cut_off.as_ref().filter(|(_, trial, _)| does_count(*trial));
        cut_off.map_or(Ok(()), |(line, trial, text)| {
            let what = format!("is cut off, and its trial {trial} counts");
            Err(FileError::wrong_line(Path::new(&self.name), *line, text, what))
        })
    }

    fn next_row(&mut self) -> Result<Option<SampleRow>, FileError> {
        let (line, row_begin) = (self.rows.position().line(), self.rows.position().byte());
        self.rows.get_mut().row_begin = row_begin;
        let file = Path::new(&self.name);
        let read = self.rows.read_record(&mut self.row);
        // A row without a line break was cut off by a kill.
        let is_cut_off = self.rows.get_ref().is_cut_off();
        match read {
            Err(error) if !is_cut_off || error.is_io_error() => {
                Err(FileError::wrong_line(file, line, "", error.to_string()))
            }
            Ok(true) if !is_cut_off => self.row().map(Some).map_err(|(column, what)| {
                FileError::wrong_value(file, line, HEADER[column], self.row.get(column).unwrap_or_default(), what)
            }),
            _ => {
                let trial = self.row.get(1).filter(|_| is_cut_off && self.row.len() > 2);
                if let Some(trial) = trial.and_then(|trial| trial.parse().ok()) {
                    self.cut_off = Some((line, trial, self.row.iter().collect::<Vec<_>>().join(",")));
                }
                Ok(None)
            }
        }
    }

    fn row(&self) -> Result<SampleRow, (usize, &'static str)> {
        let text = |at: usize| self.row.get(at).unwrap_or_default();
        let wrong = |at: usize| (at, "is not a whole number");
        let number = |at: usize| text(at).parse::<u64>().map_err(|_| wrong(at));
        let small = |at: usize| text(at).parse::<u32>().map_err(|_| wrong(at));
        let time = |at: usize| if text(at).is_empty() { Ok(None) } else { number(at).map(Some) };
        let signed = |at: usize| text(at).parse::<i64>().map(Some).map_err(|_| wrong(at));
        Ok(SampleRow {
            round: small(0)?,
            trial: small(1)?,
            payload_bytes: number(2)?,
            stream: text(3).to_owned(),
            sequence: number(4)?,
            status: text(5).to_owned(),
            intended_ns: time(6)?,
            sent_ns: time(7)?,
            received_ns: if text(8).is_empty() { None } else { signed(8)? },
            answered_ns: time(9)?,
        })
    }
}

impl<R: Read> Iterator for SampleReader<R> {
    type Item = Result<SampleRow, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_row().transpose()
    }
}

/// Overwrites the existing file `target` with the header, and with the rows of `source` for which `counts` is true.
///
/// # Errors
/// If a row is damaged, or `target` cannot be written.
pub fn copy_rows(source: &Path, target: &Path, mut counts: impl FnMut(&SampleRow) -> bool) -> Result<(), FileError> {
    let cannot = |error: io::Error| {
        let (file, why, kind) = (target.to_owned(), error.to_string(), error.kind());
        FileError::NotWritable { file, why, kind }
    };
    let mut rows = SampleReader::open(source)?;
    let mut copy = csv::Writer::from_writer(File::options().write(true).truncate(true).open(target).map_err(cannot)?);
    copy.write_record(HEADER).map_err(|error| cannot(error.into()))?;
    while let Some(row) = rows.next_row()? {
        if counts(&row) {
            copy.write_record(&rows.row).map_err(|error| cannot(error.into()))?;
        }
    }
    copy.flush().map_err(cannot)
}

/// Reader that fails at an endless row, e.g. after an unclosed quote: it would fill the memory.
struct Bounded<R> {
    source: R,
    read: u64,
    row_begin: u64,
    is_in_line: bool,
    is_at_end: bool,
}

impl<R> Bounded<R> {
    /// True if all is read and the last line has no line break.
    fn is_cut_off(&self) -> bool {
        self.is_at_end && self.is_in_line
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The caller reads more only if all earlier bytes belong to the row.
        if self.read - self.row_begin > MOST_ROW_BYTES {
            let what = format!("a row of more than {MOST_ROW_BYTES} bytes; a quote may be unclosed");
            return Err(io::Error::new(ErrorKind::InvalidData, what));
        }
        let count = self.source.read(buffer)?;
        self.read += count as u64;
        self.is_at_end = count == 0 && !buffer.is_empty();
        if let Some(last) = buffer[..count].last() {
            self.is_in_line = *last != b'\n';
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// File on a failing disk.
    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("gone"))
        }
    }

    fn read(rows: &str) -> Result<Vec<SampleRow>, FileError> {
        let text = format!("{}\n{rows}", HEADER.join(","));
        SampleReader::new(text.as_bytes(), "x.csv")?.collect()
    }

    #[test]
    fn rows_are_read_with_what_is_missing() {
        let rows = read("1,3,64,\"topic=/a,\"\"b\",7,lost,5,9,,\n2,4,64,all,1,ok,,0,,18446744073709551615\n").unwrap();
        assert_eq!(
            (rows[0].stream.as_str(), rows[0].intended_ns, rows[0].received_ns),
            ("topic=/a,\"b", Some(5), None)
        );
        assert_eq!(read("1,1,64,all,1,ok,,3,-9,\n").unwrap()[0].received_ns, Some(-9), "by two clocks");
        assert_eq!((rows[1].round, rows[1].intended_ns, rows[1].answered_ns), (2, None, Some(u64::MAX)));
    }

    struct Counted<'a>(&'a [u8], &'a std::cell::Cell<usize>);

    impl Read for Counted<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.read(buffer)?;
            self.1.set(self.1.get() + count);
            Ok(count)
        }
    }

    #[test]
    fn a_quote_that_is_not_closed_is_an_error_before_much_is_read() {
        let good = "1,1,64,all,1,ok,,0,,5\n";
        let text = HEADER.join(",") + "\n" + good + "1,1,64,\"all,2,ok,,0,,5\n" + &good.repeat(100_000);
        let count = std::cell::Cell::new(0);
        let mut rows = SampleReader::new(Counted(text.as_bytes(), &count), "x.csv").unwrap();
        assert!(rows.next().unwrap().is_ok());
        let told = rows.next().unwrap().unwrap_err().to_string();
        assert!(told.contains("line 3") && told.contains("a row of more than"), "{told}");
        assert!(count.get() as u64 <= MOST_ROW_BYTES + (64 << 10), "{}", count.get());
        // Many short rows.
        let text = HEADER.join(",") + "\n" + &good.repeat(20_000);
        assert_eq!(SampleReader::new(text.as_bytes(), "x.csv").unwrap().filter(Result::is_ok).count(), 20_000);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let told = |rows: &str| read(rows).unwrap_err().to_string();
        let good = "1,1,64,all,1,ok,,0,,5\n";
        for (row, why) in [
            ("1,1,64,all,2,ok,,0,,5.5\n", "'answered_ns': '5.5' is not a whole number"),
            ("1,1,64,all,2,ok,,-1,,5\n", "'sent_ns': '-1'"),
            ("1,4294967296,64,all,2,ok,,0,,5\n", "'trial': '4294967296'"),
            ("1,1,64,all\n", "line 3: CSV error: "),
        ] {
            let told = told(&format!("{good}{row}"));
            assert!(told.contains("x.csv") && told.contains("line 3") && told.contains(why), "{told}");
        }
        for cut in ["1,1,64", "1,1,64,all,2,ok,,0,,5"] {
            assert_eq!(read(&format!("{good}{cut}")).unwrap().len(), 1, "a kill has cut it off: {cut}");
        }
        let cut_in = |cut: &str| {
            let text = HEADER.join(",") + "\n" + good + cut;
            let mut rows = SampleReader::new(text.as_bytes(), "x.csv").unwrap();
            assert_eq!((rows.by_ref().count(), rows.by_ref().count()), (1, 0));
            [1, 2].map(|of| rows.check_end(|trial| trial == of).err().map(|error| error.to_string()))
        };
        for cut in ["1,2,64", "1,2,64,all,2,ok,,0,,5", "1,2,"] {
            let [other, own] = cut_in(cut);
            let own = own.unwrap();
            assert!(
                other.is_none() && own.contains("x.csv") && own.contains(&format!("line 3: '{cut}'")),
                "{cut}: {own}"
            );
        }
        for whole in ["", "1,2", "1"] {
            assert_eq!(cut_in(whole), [None, None], "of which trial it is cannot be seen: {whole}");
        }
        let broken = HEADER.join(",") + "\n" + good;
        let broken = broken.as_bytes().chain(Broken);
        let mut rows = SampleReader::new(broken, "x.csv").unwrap();
        assert!(rows.next().unwrap().is_ok());
        assert!(rows.next().unwrap().is_err_and(|error| error.to_string().contains("gone")), "no end of the file");
        assert!(told(&"x".repeat(1 << 20)).contains("a row of more than"));
        assert!(SampleReader::new("a,b\n".as_bytes(), "x").is_err_and(|error| error.to_string().contains("columns")));
    }
}
