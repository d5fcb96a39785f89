//! What files of a sub-experiment begin with, before their first row.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Most bytes of a line, and of the whole.
const MOST_LINE_BYTES: u64 = 1 << 16;
const MOST_BYTES: usize = 1 << 20;

/// Whether a line is before the first row: of CSV files, or of histogram logs.
pub(super) fn is_head(line: &str) -> bool {
    ["#", "\"", "Sample,", "round,"].iter().any(|begin| line.starts_with(begin))
}

/// What a file begins with, before its first row, to its most bytes.
///
/// # Errors
/// If it cannot be read.
pub(super) fn head(file: &Path) -> io::Result<String> {
    let (mut reader, mut head) = (BufReader::new(File::open(file)?), String::new());
    loop {
        let mut line = Vec::new();
        reader.by_ref().take(MOST_LINE_BYTES).read_until(b'\n', &mut line)?;
        match str::from_utf8(&line) {
            Ok(line) if line.ends_with('\n') && is_head(line) && head.len() + line.len() <= MOST_BYTES => {
                head.push_str(line)
            }
            _ => return Ok(head),
        }
    }
}

/// Its length.
///
/// # Errors
/// As [`head`].
pub(super) fn head_bytes(file: &Path) -> io::Result<u64> {
    head(file).map(|head| head.len() as u64)
}
