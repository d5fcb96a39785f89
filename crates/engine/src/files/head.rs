//! Heads of files of a sub-experiment: all lines before the first row.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Longest line, and longest head, in bytes.
const MOST_LINE_BYTES: u64 = 1 << 16;
const MOST_BYTES: usize = 1 << 20;

/// True if a line is part of the head of a CSV file or a histogram log.
pub(super) fn is_head(line: &str) -> bool {
    ["#", "\"", "Sample,", "round,"].iter().any(|begin| line.starts_with(begin))
}

/// Head of a file, up to [`MOST_BYTES`].
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

pub(super) fn head_bytes(file: &Path) -> io::Result<u64> {
    head(file).map(|head| head.len() as u64)
}
