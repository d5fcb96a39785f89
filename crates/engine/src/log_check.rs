//! Texts for loggers, and the check of the lines that a logger wrote.
//!
//! A text is a number in 16 hexadecimal digits, then printable letters that depend on the number and their position. A
//! logger may put a prefix before it, such as time and level. A line ends with the text and a line break.

use crate::numbers::{Numbers, Place};
use std::collections::BTreeSet;
use tripmeter_model::log::Lines;
use tripmeter_model::manifest::Counts;

const DIGITS: usize = 16;
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Longest prefix before the text, in bytes.
const MOST_PREFIX: usize = 512;

#[derive(Debug)]
pub struct LogText {
    /// Repeated letters; a text is a slice of them that may begin at any of the 64.
    letters: Vec<u8>,
}

impl LogText {
    /// Prepares for texts of 16 to `longest` bytes.
    pub fn new(longest: usize) -> Self {
        let letters = LETTERS.iter().copied().cycle().take(longest + LETTERS.len()).collect();
        Self { letters }
    }

    /// Writes the text of a number; the length of `out` sets the length of the text.
    #[inline]
    pub fn write(&self, number: u64, out: &mut [u8]) {
        let (digits, rest) = out.split_at_mut(DIGITS);
        for (at, digit) in digits.iter_mut().enumerate() {
            let nibble = (number >> (4 * (DIGITS - 1 - at))) & 0xf;
            *digit = b"0123456789abcdef"[nibble as usize];
        }
        rest.copy_from_slice(self.rest(number, rest.len()));
    }

    #[inline]
    fn rest(&self, number: u64, length: usize) -> &[u8] {
        let first = (number % LETTERS.len() as u64) as usize;
        &self.letters[first..first + length]
    }

    /// Parses the digits; ignores what follows them.
    fn number(text: &[u8]) -> Option<u64> {
        let digits = text.get(..DIGITS)?;
        digits.iter().try_fold(0, |number, digit| match digit {
            b'0'..=b'9' => Some(number << 4 | u64::from(digit - b'0')),
            b'a'..=b'f' => Some(number << 4 | u64::from(digit - b'a' + 10)),
            _ => None,
        })
    }
}

/// Checker of log lines, which come in pieces of any size. Numbers begin with 1.
#[derive(Debug)]
pub struct LineCheck {
    text: LogText,
    length: usize,
    most: u64,
    /// Beginning of an incomplete line.
    begun: Vec<u8>,
    /// True if the incomplete line is too long to be kept.
    overlong: bool,
    intact: Numbers,
    /// Numbers that were readable in damaged lines, and have not arrived intact.
    spoiled: BTreeSet<u64>,
    counts: Counts,
    lines: Lines,
}

impl LineCheck {
    /// Checks lines with texts of `length` bytes and numbers up to `most`.
    pub fn new(length: usize, most: u64) -> Self {
        let lines = Lines { shortest_prefix_bytes: u64::MAX, ..Lines::default() };
        Self {
            text: LogText::new(length),
            length,
            most,
            begun: Vec::new(),
            overlong: false,
            intact: Numbers::new(1),
            spoiled: BTreeSet::new(),
            counts: Counts::default(),
            lines,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.lines.bytes
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.lines.bytes += bytes.len() as u64;
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, behind) = (&rest[..end], &rest[end + 1..]);
            rest = behind;
            if self.begun.is_empty() && !self.overlong {
                self.line(line);
                continue;
            }
            self.keep(line);
            let begun = std::mem::take(&mut self.begun);
            if std::mem::take(&mut self.overlong) {
                self.damaged()
            } else {
                self.line(&begun)
            }
            self.begun = begun;
            self.begun.clear();
        }
        self.keep(rest);
    }

    /// Counts for `calls` log calls, and statistics of the lines. An incomplete last line counts as damaged.
    pub fn finish(mut self, calls: u64) -> (Counts, Lines) {
        if !self.begun.is_empty() || self.overlong {
            self.damaged();
        }
        let found = self.counts.received + self.spoiled.len() as u64;
        if self.counts.received == 0 {
            self.lines.shortest_prefix_bytes = 0;
        }
        (Counts { sent: calls, lost: calls.saturating_sub(found), ..self.counts }, self.lines)
    }

    fn keep(&mut self, piece: &[u8]) {
        if self.begun.len() + piece.len() > self.length + MOST_PREFIX {
            self.overlong = true;
            self.begun.clear();
        } else if !self.overlong {
            self.begun.extend_from_slice(piece);
        }
    }

    fn damaged(&mut self) {
        self.lines.written += 1;
        self.counts.damaged += 1;
    }

    fn line(&mut self, line: &[u8]) {
        let text = line.len().checked_sub(self.length).filter(|prefix| *prefix <= MOST_PREFIX);
        let text = text.map(|prefix| &line[prefix..]);
        let number = text.and_then(LogText::number).filter(|number| (1..=self.most).contains(number));
        let (Some(text), Some(number)) = (text, number) else { return self.damaged() };
        if text[DIGITS..] != *self.text.rest(number, self.length - DIGITS) {
            if !self.intact.contains(number) {
                self.spoiled.insert(number);
            }
            return self.damaged();
        }
        self.lines.written += 1;
        let place = self.intact.add(number);
        if place == Place::Again {
            self.counts.duplicated += 1;
            return;
        }
        self.spoiled.remove(&number);
        let prefix = (line.len() - self.length) as u64;
        self.lines.shortest_prefix_bytes = self.lines.shortest_prefix_bytes.min(prefix);
        self.lines.longest_prefix_bytes = self.lines.longest_prefix_bytes.max(prefix);
        self.counts.received += 1;
        self.counts.reordered += u64::from(place == Place::Overtaken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: usize = 40;

    fn line(prefix: &str, number: u64) -> Vec<u8> {
        let mut text = vec![0; LENGTH];
        LogText::new(LENGTH).write(number, &mut text);
        [prefix.as_bytes(), &text, b"\n"].concat()
    }

    fn check(calls: u64, lines: &[Vec<u8>], piece: usize) -> (Counts, Lines) {
        let mut check = LineCheck::new(LENGTH, calls);
        lines.concat().chunks(piece).for_each(|piece| check.feed(piece));
        check.finish(calls)
    }

    #[test]
    fn a_text_is_printable_and_differs_from_number_to_number() {
        assert_eq!(
            line("", 0x2a),
            b"000000000000002aqrstuvwxyz0123456789-_ABC"[..LENGTH].iter().chain(b"\n").copied().collect::<Vec<_>>()
        );
        assert!(line("", 7).iter().all(|byte| byte.is_ascii_graphic() || *byte == b'\n'));
        assert_ne!(line("", 7)[DIGITS..], line("", 8)[DIGITS..]);
    }

    #[test]
    fn all_lines_are_found_however_they_come_in_pieces() {
        let lines: Vec<_> =
            (1..=300).map(|number| line(if number % 2 == 0 { "I " } else { "[info] " }, number)).collect();
        let bytes = lines.concat().len() as u64;
        for piece in [1, 7, 41, 48, 4096, 1 << 20] {
            let (counts, found) = check(300, &lines, piece);
            assert_eq!(counts, Counts { sent: 300, received: 300, ..Counts::default() }, "{piece}");
            let expected = Lines { written: 300, bytes, shortest_prefix_bytes: 2, longest_prefix_bytes: 7 };
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn the_longest_prefix_is_still_one_however_the_line_comes() {
        for piece in [1, 13, MOST_PREFIX, 1 << 20] {
            let (counts, found) = check(1, &[line(&"p".repeat(MOST_PREFIX), 1)], piece);
            assert_eq!((counts.received, counts.damaged), (1, 0), "{piece}");
            assert_eq!(found.longest_prefix_bytes, MOST_PREFIX as u64);
            let (counts, found) = check(1, &[line(&"p".repeat(MOST_PREFIX + 1), 1)], piece);
            assert_eq!((counts.received, counts.damaged, counts.lost), (0, 1, 1), "{piece}");
            assert_eq!((found.shortest_prefix_bytes, found.longest_prefix_bytes), (0, 0));
        }
    }

    #[test]
    fn bytes_are_counted_while_they_come() {
        let mut check = LineCheck::new(LENGTH, 3);
        check.feed(&line("", 1));
        check.feed(b"xyz");
        assert_eq!(check.bytes(), LENGTH as u64 + 4);
    }

    #[test]
    fn a_line_that_is_missing_or_came_again_or_late_is_exactly_one() {
        let numbers = |numbers: &[u64]| numbers.iter().map(|number| line("x ", *number)).collect::<Vec<_>>();
        let of = |list: &[u64]| check(5, &numbers(list), 13).0;
        let all = Counts { sent: 5, received: 5, ..Counts::default() };
        assert_eq!(of(&[1, 2, 4, 5]), Counts { received: 4, lost: 1, ..all });
        assert_eq!(of(&[1, 2, 3, 4]), Counts { received: 4, lost: 1, ..all });
        assert_eq!(of(&[1, 2, 2, 3, 4, 5]), Counts { duplicated: 1, ..all });
        assert_eq!(of(&[1, 3, 2, 4, 5]), Counts { reordered: 1, ..all });
        assert_eq!(of(&[]), Counts { received: 0, lost: 5, ..all });
    }

    #[test]
    fn damage_is_counted_once_and_its_number_is_not_missing_where_it_can_be_read() {
        let mut lines: Vec<_> = (1..=5).map(|number| line("x ", number)).collect();
        let all = Counts { sent: 5, received: 4, damaged: 1, ..Counts::default() };
        lines[2][30] ^= 1;
        let (counts, found) = check(5, &lines, 9);
        assert_eq!((counts, found.written), (all, 5));
        // Without a readable number, the line is lost, too.
        lines[2] = b"x\n".to_vec();
        assert_eq!(check(5, &lines, 9).0, Counts { lost: 1, ..all });
        // A line that was repeated intact has arrived.
        lines[2] = [line("x ", 3), b"no line of ours\n".to_vec()].concat();
        assert_eq!(check(5, &lines, 9).0, Counts { received: 5, ..all });
        // A line that is cut off, and one that is too long.
        lines[2] = line("x ", 3);
        lines[4].truncate(20);
        assert_eq!(check(5, &lines, 9).0, Counts { lost: 1, ..all });
        lines[4] = vec![b'y'; 10_000];
        assert_eq!(check(5, &lines, 100).0, Counts { lost: 1, ..all });
        // A number that was never logged.
        lines[4] = line("x ", 6);
        assert_eq!(check(5, &lines, 100).0, Counts { lost: 1, ..all });
        // A line with too long a prefix.
        lines[4] = [vec![b'z'; MOST_PREFIX + 1], line("", 5)].concat();
        assert_eq!(check(5, &lines, 100).0, Counts { lost: 1, ..all });
    }
}
