//! Writer of `measurements_<name>.csv`: half of each round trip of a sub-experiment. [`crate::raw`] reads it.

use crate::raw::COLUMNS;
use memchr::memchr_iter;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, Write};

/// Rows per system call.
const ROWS_AT_ONCE: usize = 1 << 20;

pub fn file_name(sub_experiment: &str) -> String {
    format!("measurements_{sub_experiment}.csv")
}

pub struct MeasurementsWriter {
    /// The file, open for appending.
    pub csv: File,
    rows: u64,
    latest: u64,
}

impl MeasurementsWriter {
    pub fn begin(mut csv: File) -> io::Result<Self> {
        writeln!(csv, "{}", COLUMNS.join(","))?;
        Ok(Self { csv, rows: 0, latest: 0 })
    }

    /// Continues a file that ends with a whole row.
    pub fn resume(mut csv: File) -> io::Result<Self> {
        csv.rewind()?;
        let (mut reader, mut lines) = (BufReader::new(&csv), 0_u64);
        // Lines can have any length, so the file is read in pieces.
        while let piece = reader.fill_buf()?
            && !piece.is_empty()
        {
            lines += memchr_iter(b'\n', piece).count() as u64;
            let bytes = piece.len();
            reader.consume(bytes);
        }
        Ok(Self { csv, rows: lines.saturating_sub(1), latest: 0 })
    }

    /// Appends the round trips of a payload, in nanoseconds. Once it returns, killing the process loses none of them.
    /// Fails if the file cannot be written, e.g. on a full disk.
    pub fn append(&mut self, payload_bytes: u64, rtt_ns: impl Iterator<Item = u64>) -> io::Result<()> {
        self.latest = 0;
        let (mut text, mut rtt_ns) = (Vec::new(), rtt_ns.peekable());
        // Whole rows per system call, so that a killed process leaves no partial row.
        while rtt_ns.peek().is_some() {
            for rtt_ns in rtt_ns.by_ref().take(ROWS_AT_ONCE) {
                (self.rows, self.latest) = (self.rows + 1, self.latest + 1);
                // Half the round trip in whole nanoseconds, rounded half up.
                let ns = rtt_ns.div_ceil(2);
                writeln!(text, "{},{payload_bytes},{}.{:03}", self.rows, ns / 1000, ns % 1000)?;
            }
            self.csv.write_all(&text)?;
            text.clear();
        }
        Ok(())
    }

    /// Lets the next rows reuse the row numbers of the latest payload, which was discarded.
    pub fn forget_latest(&mut self) {
        self.rows -= std::mem::take(&mut self.latest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_count_over_the_whole_file_and_latency_is_half_the_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file_name("uds_stream"));
        let csv = File::options().append(true).create_new(true).open(&path).unwrap();
        let mut writer = MeasurementsWriter::begin(csv).unwrap();
        writer.append(16, [2000, 4001].into_iter()).unwrap();
        writer.append(32, [24_690_000].into_iter()).unwrap();
        writer.forget_latest();
        writer.append(32, [2].into_iter()).unwrap();
        let expected = "Sample,Payload [Bytes],Latency [us]\n1,16,1.000\n2,16,2.001\n3,32,12345.000\n3,32,0.001\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        let csv = File::options().read(true).append(true).open(&path).unwrap();
        MeasurementsWriter::resume(csv).unwrap().append(64, [4].into_iter()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{expected}5,64,0.002\n"));
    }
}
