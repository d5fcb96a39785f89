//! Last line that a process wrote.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Largest distance of the line from the end of the file, in bytes.
const MOST_BYTES: u64 = 1 << 16;
/// Longest quote of a line, in characters.
const MOST_CHARACTERS: usize = 200;

/// System errors for exhausted resources.
const REFUSALS: [&str; 4] =
    ["Cannot allocate memory", "No space left on device", "Too many open files", "Resource temporarily unavailable"];

/// Last line of a process in `file` after byte `from`, as `: "LINE"`. The message of the first panic and a system error
/// before it are appended, if there are any. Empty if there is no line, or it cannot be read.
pub fn last_words(file: &mut File, from: u64, skipped: &[String]) -> String {
    let Ok(text) = tail(file, from) else { return String::new() };
    let Some(line) = last_line(&text, skipped) else { return String::new() };
    let panic = first_panic(&text).filter(|panic| *panic != line);
    let is_said = |refusal: &str| line.contains(refusal) || panic.as_ref().is_some_and(|panic| panic.contains(refusal));
    let refused = REFUSALS.into_iter().find(|refusal| text.contains(refusal) && !is_said(refusal));
    let refused = refused.map_or_else(String::new, |refusal| format!(", after '{refusal}'"));
    let panic = panic.as_ref().map_or_else(String::new, |panic| format!(", after the panic \"{panic}\""));
    format!(": \"{line}\"{panic}{refused}")
}

fn tail(file: &mut File, from: u64) -> io::Result<String> {
    let end = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(from.max(end.saturating_sub(MOST_BYTES))))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Last line that is neither empty, nor in `skipped`, nor a backtrace hint from Rust. Control characters are removed,
/// and the line is cut to 200 characters.
fn last_line(text: &str, skipped: &[String]) -> Option<String> {
    let mut lines = text.lines().rev().map(str::trim);
    let is_hint = |line: &str| line.is_empty() || line.starts_with("note: run with `RUST_BACKTRACE=");
    let last = lines.find(|line| !is_hint(line) && !skipped.iter().any(|skipped| skipped.trim() == *line));
    last.map(short)
}

/// Message of the first panic, which Rust prints on the line after the location.
fn first_panic(text: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| line.starts_with("thread '") && line.contains(" panicked at "))?;
    lines.next().map(short)
}

fn short(line: &str) -> String {
    line.chars().filter(|letter| !letter.is_control()).take(MOST_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read_last_line(text: &[u8], from: u64) -> Option<String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        last_line(&tail(&mut file, from).unwrap(), &["told already".to_owned()])
    }

    #[test]
    fn the_last_line_is_one_of_text_and_short() {
        assert_eq!(read_last_line(b"first\n  what():  no room\n\n \n", 0).as_deref(), Some("what():  no room"));
        assert_eq!(read_last_line(b"of before\n\n", 10), None);
        assert_eq!(read_last_line(b"", 0), None);
        assert_eq!(read_last_line(b"abort\n told already\n", 0).as_deref(), Some("abort"));
        assert_eq!(read_last_line(b"a\x1b[31mred\x07", 0).as_deref(), Some("a[31mred"));
        let long = [vec![b'y'; 1 << 17], b"\nlast\n".to_vec()].concat();
        assert_eq!(read_last_line(&long, 0).as_deref(), Some("last"));
        assert_eq!(read_last_line(&long[..1 << 17], 0).unwrap().len(), MOST_CHARACTERS);
    }

    #[test]
    fn what_the_system_refused_and_panics_before_are_named() {
        let words = |text: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text).unwrap();
            last_words(&mut file, 0, &[])
        };
        assert_eq!(
            words(b"mmap: Cannot allocate memory\nassertion\n"),
            ": \"assertion\", after 'Cannot allocate memory'"
        );
        assert_eq!(words(b"mmap: Cannot allocate memory\n"), ": \"mmap: Cannot allocate memory\"");
        assert_eq!(words(b"\n"), "");
        let panic = b"thread 'main' (7) panicked at a.rs:1:2:\nno thread: Resource temporarily unavailable\n\
            \nthread 'main' (7) panicked at b.rs:1:2:\nof a destructor\nthread caused non-unwinding panic. aborting.\n";
        let quoted = "after the panic \"no thread: Resource temporarily unavailable\"";
        assert_eq!(words(panic), format!(": \"thread caused non-unwinding panic. aborting.\", {quoted}"));
        assert_eq!(words(b"thread 'a' panicked at b.rs:1:2:\nhere\n"), ": \"here\"");
        let hint =
            b"thread 'a' panicked at b.rs:1:2:\nhere\nnote: run with `RUST_BACKTRACE=1` to display a backtrace\n";
        assert_eq!(words(hint), ": \"here\"");
    }
}
