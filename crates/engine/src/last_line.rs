//! The last line that a process wrote.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// No line is looked for farther from the end, in bytes.
const MOST_BYTES: u64 = 1 << 16;
/// What is quoted of a line, in characters.
const MOST_CHARACTERS: usize = 200;

/// Last line of `file` behind byte `from` that is neither empty nor in `skipped`, without control characters and cut to 200 characters.
///
/// # Errors
/// If the file cannot be read.
pub fn last_line(file: &mut File, from: u64, skipped: &[String]) -> io::Result<Option<String>> {
    let end = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(from.max(end.saturating_sub(MOST_BYTES))))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let last = text
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty() && !skipped.iter().any(|skipped| skipped.trim() == *line));
    Ok(last.map(|line| line.chars().filter(|letter| !letter.is_control()).take(MOST_CHARACTERS).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn of(text: &[u8], from: u64) -> Option<String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        last_line(&mut file, from, &["told already".to_owned()]).unwrap()
    }

    #[test]
    fn the_last_line_is_one_of_text_and_short() {
        assert_eq!(of(b"first\n  what():  no room\n\n \n", 0).as_deref(), Some("what():  no room"));
        assert_eq!(of(b"of before\n\n", 10), None);
        assert_eq!(of(b"", 0), None);
        assert_eq!(of(b"abort\n told already\n", 0).as_deref(), Some("abort"));
        assert_eq!(of(b"a\x1b[31mred\x07", 0).as_deref(), Some("a[31mred"));
        let long = [vec![b'y'; 1 << 17], b"\nlast\n".to_vec()].concat();
        assert_eq!(of(&long, 0).as_deref(), Some("last"));
        assert_eq!(of(&long[..1 << 17], 0).unwrap().len(), MOST_CHARACTERS);
    }
}
