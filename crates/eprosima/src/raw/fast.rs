//! Parser for usual rows, `1234,16384,12.479`, by arithmetic on eight bytes at a time.
//!
//! A row that differs or is wrong is left to [`super::row`], so this code decides only about speed. The end of a row is
//! known late. Therefore the next row is assumed to be as long as the one before, which is then checked.

/// Bytes that must follow the beginning of a row for it to be read here.
const MARGIN: usize = 64;
const ZEROS: u64 = ONES * b'0' as u64;
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = ONES << 7;
/// Integers up to here are exact as floating point, so their quotient by a power of ten in [`POWERS`] is rounded once.
const EXACT: u64 = 1 << 53;
const POWERS: [f64; 16] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// Common form of consecutive rows: the length of the sample number, the payload, and the line break.
pub struct RowShape {
    /// Mask and value of the bytes before the latency, 8 at a time. Only the high halves of the digits of the sample
    /// number are compared, because its value is not used.
    begin: [(u64, u64); 4],
    /// Offset of the latency.
    before: usize,
    /// First byte of the line break.
    end: u8,
    end_length: usize,
}

/// Format of a number of at most eight characters. Masks apply to the eight bytes that end with the number.
struct NumberMask {
    length: usize,
    /// Offset of those eight bytes in the row.
    at: usize,
    /// Mask that selects the bytes of the number.
    mask: u64,
    /// Expected characters: `0` for each digit, and the point.
    form: u64,
    /// Added to the bytes after XOR with `form`; 16 or more marks a byte that is not a digit, or not the point.
    slack: u64,
    /// Digits before the point.
    before_point: u64,
    power: f64,
}

impl RowShape {
    /// Shape of a line; `None` if the line is left to [`super::row`].
    pub fn from_line(line: &[u8]) -> Option<Self> {
        let sample = line.iter().position(|byte| !byte.is_ascii_digit())?;
        let before = sample + line.get(sample + 1..)?.iter().position(|byte| *byte == b',')? + 2;
        let plain = line[before..].trim_ascii_end().iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
        if sample == 0 || before >= 32 || !plain {
            return None;
        }
        let line_break: &[u8] = if line.ends_with(b"\r\n") { b"\r\n" } else { b"\n" };
        let (mut mask, mut value) = ([0; 32], [0; 32]);
        mask[..before].fill(0xff);
        value[..before].copy_from_slice(&line[..before]);
        mask[..sample].fill(0xf0);
        value[..sample].fill(b'0');
        let begin = [0, 8, 16, 24].map(|at| (u64_at(&mask, at), u64_at(&value, at)));
        Some(Self { begin, before, end: line_break[0], end_length: line_break.len() })
    }

    /// Appends the latencies of the rows at the beginning of `text` that have this shape. Returns how many bytes and
    /// rows were read.
    pub fn rows(&self, text: &[u8], latencies_us: &mut Vec<f64>) -> (usize, u64) {
        let before = latencies_us.len();
        let (mut at, mut number) = (0, None);
        loop {
            let from = at;
            if let Some(number) = &number {
                at = self.rows_alike(text, at, number, latencies_us);
            }
            let Some((latency_us, next)) = self.row(text, at) else { break };
            latencies_us.push(latency_us);
            // One row with a longer or shorter number does not change the expected format.
            if at == from {
                number = self.number(&text[at..next]);
            }
            at = next;
        }
        (at, (latencies_us.len() - before) as u64)
    }

    /// Appends the latencies of consecutive rows from `at` on with this number format. Returns the offset of the first
    /// row not read.
    // Not inlined: as a separate function, the loop has enough registers.
    #[inline(never)]
    fn rows_alike(&self, text: &[u8], mut at: usize, number: &NumberMask, latencies_us: &mut Vec<f64>) -> usize {
        while let Some(row) = text.get(at..).and_then(<[u8]>::first_chunk)
            && self.begins(row)
            && let Some(latency_us) = self.alike(row, number)
        {
            latencies_us.push(latency_us);
            at += number.length;
        }
        at
    }

    /// Latency of a row whose beginning was checked; `None` if its number has another format.
    #[inline(always)]
    fn alike(&self, row: &[u8; MARGIN], number: &NumberMask) -> Option<f64> {
        // The masks change no value; they avoid bounds checks.
        let at = number.at & 31;
        let values = (u64_at(row, at) ^ number.form) & number.mask;
        let is_plain = (values.wrapping_add(number.slack) | values) & (ONES * 0xf0) == 0;
        let ends = row[at + 8] == self.end && row[number.length.wrapping_sub(1) & 63] == b'\n';
        let digits = (values & number.before_point) << 8 | (values & !number.before_point);
        (is_plain && ends).then(|| eight_digits(digits) as i64 as f64 / number.power)
    }

    /// Number format of a row of this shape; `None` if the number is too long.
    fn number(&self, row: &[u8]) -> Option<NumberMask> {
        let end = row.len() - self.end_length;
        let width = end - self.before;
        let at = end.checked_sub(8).filter(|_| width <= 8)?;
        let mask = u64::MAX << (8 * (8 - width));
        let point = equal(u64_at(row, at) & mask, b'.') >> 7;
        let decimals = (point.leading_zeros() / 8) as usize;
        Some(NumberMask {
            length: row.len(),
            at,
            mask,
            form: ZEROS ^ (point * u64::from(b'0' ^ b'.')),
            slack: ONES * 6 + point * 9,
            before_point: point.wrapping_sub(1),
            power: POWERS[decimals & 15],
        })
    }

    /// Latency of the row at `at`, and the offset of the next row.
    #[inline(always)]
    fn row(&self, text: &[u8], at: usize) -> Option<(f64, usize)> {
        let row: &[u8; MARGIN] = text.get(at..)?.first_chunk()?;
        if !self.begins(row) {
            return None;
        }
        // The mask changes no value; it avoids bounds checks.
        let before = self.before & 31;
        let (low, high) = (u64_at(row, before), u64_at(row, before + 8));
        let ends = equal(low, self.end);
        let (latency_us, length) = if ends != 0 {
            let length = (ends.trailing_zeros() / 8) as usize;
            (few(low, length)?, length)
        } else {
            let length = 8 + (equal(high, self.end).trailing_zeros() / 8) as usize;
            (many(u128::from(high) << 64 | u128::from(low), length)?, length)
        };
        let next = before + length + self.end_length;
        (row[next - 1] == b'\n').then_some((latency_us, at + next))
    }

    /// True if the row has the sample number and the payload of this shape.
    #[inline(always)]
    fn begins(&self, row: &[u8; MARGIN]) -> bool {
        let is = |word: usize| u64_at(row, 8 * word) & self.begin[word].0 == self.begin[word].1;
        is(0) && is(1) && (self.before <= 16 || is(2) && is(3))
    }
}

#[inline(always)]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// High bit of every byte that is not a digit; valid up to the first of them.
#[inline(always)]
fn not_digits(text: u64) -> u64 {
    let values = text ^ ZEROS;
    (values.wrapping_add(0x7676_7676_7676_7676) | values) & HIGHS
}

/// High bit of every byte equal to `byte`; valid up to the first of them.
#[inline(always)]
fn equal(text: u64, byte: u8) -> u64 {
    let values = text ^ (ONES * u64::from(byte));
    values.wrapping_sub(ONES) & !values & HIGHS
}

/// Value of eight digits, one per byte, the first in the lowest.
#[inline(always)]
fn eight_digits(digits: u64) -> u64 {
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let even = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(100 + (1_000_000 << 32));
    let odd = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(1 + (10_000 << 32));
    even.wrapping_add(odd) >> 32
}

/// Number in the first `length` bytes, at most 7: digits and one point.
#[inline(always)]
fn few(text: u64, length: usize) -> Option<f64> {
    let point = (equal(text, b'.').trailing_zeros() / 8) as usize;
    if point >= length || length < 2 {
        return None;
    }
    let before = (1_u64 << (8 * point)) - 1;
    let digits = (text & before) | ((text >> 8) & !before);
    let aligned = (digits ^ ZEROS) << (8 * (9 - length));
    (not_digits(aligned ^ ZEROS) == 0).then(|| eight_digits(aligned) as i64 as f64 / POWERS[(length - 1 - point) & 15])
}

/// Number in the first `length` bytes, 8 to 15: digits and one point.
#[inline(always)]
fn many(text: u128, length: usize) -> Option<f64> {
    const ZEROS_16: u128 = (ZEROS as u128) << 64 | ZEROS as u128;
    let points = [equal(text as u64, b'.'), equal((text >> 64) as u64, b'.')];
    let point = match points {
        [0, high] => 8 + (high.trailing_zeros() / 8) as usize,
        [low, _] => (low.trailing_zeros() / 8) as usize,
    };
    if point >= length || length > 15 {
        return None;
    }
    let before = (1_u128 << (8 * point)) - 1;
    let digits = (text & before) | ((text >> 8) & !before);
    let aligned = (digits ^ ZEROS_16) << (8 * (17 - length));
    let (high, low) = (aligned as u64, (aligned >> 64) as u64);
    let mantissa = eight_digits(high) * 100_000_000 + eight_digits(low);
    let plain = not_digits(high ^ ZEROS) | not_digits(low ^ ZEROS) == 0;
    (plain && mantissa <= EXACT).then(|| mantissa as i64 as f64 / POWERS[(length - 1 - point) & 15])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Latencies of whole lines, which must all be rows of payload 16384.
    fn plainly(text: &[u8]) -> Vec<f64> {
        let latency_us = |line: &str| {
            let fields: Vec<&str> = line.trim_ascii_end().split(',').collect();
            assert_eq!((fields.len(), fields[1]), (3, "16384"), "{line}");
            fields[2].parse().unwrap()
        };
        str::from_utf8(text).unwrap().split_inclusive('\n').map(latency_us).collect()
    }

    /// Latencies of rows `1,16,<number>`, up to the first row that is not read here.
    fn latencies_us(numbers: &[&str]) -> Vec<f64> {
        let rows: String = numbers.iter().map(|number| format!("1,16,{number}\n")).collect();
        let mut latencies_us = Vec::new();
        RowShape::from_line(b"1,16,1.5\n")
            .unwrap()
            .rows(format!("{rows}{}", "-".repeat(MARGIN)).as_bytes(), &mut latencies_us);
        latencies_us
    }

    #[test]
    fn numbers_are_those_nearest_to_their_text() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..20_000 {
            let length = random.usize(2..16);
            let point = random.usize(0..length);
            let mut number =
                || -> String { (0..length).map(|at| if at == point { '.' } else { random.char('0'..='9') }).collect() };
            let numbers = [number(), number(), number()];
            let expected = numbers.each_ref().map(|number| number.parse::<f64>().unwrap());
            assert_eq!(latencies_us(&numbers.each_ref().map(String::as_str)), expected, "{numbers:?}");
        }
    }

    #[test]
    fn what_is_no_plain_number_is_refused() {
        for wrong in [
            "",
            ".",
            "-1.5",
            "+1.5",
            " 1.5",
            "1.5 ",
            "1,5",
            "1.2.3",
            "1e3",
            "1.5e1",
            "nan",
            "1:2",
            "1/2",
            "1.5\r",
            "\u{e9}",
            "1234567,",
            "12345678901234.5",
            "1.234567.9",
            "12345.67.8912",
            "1.23456789.",
            "1234567..9",
            "12345678x9",
            "1x345678.9",
        ] {
            assert!(latencies_us(&[wrong]).is_empty(), "{wrong}");
            // Tested also after rows of the same length, which set the expected format.
            let plain = format!("{:.*}", wrong.len().clamp(3, 15) - 2, 1.5);
            assert_eq!(latencies_us(&[&plain, &plain, wrong]), [1.5; 2], "{wrong}");
        }
    }

    #[test]
    fn rows_are_read_up_to_one_that_looks_different() {
        const LETTERS: &[u8] = b"0123456789.,\n\n -+e\r\x00\x80";
        let mut random = fastrand::Rng::with_seed(13);
        let mut read = 0;
        for round in 0..400 {
            let (scale, decimals) = (10_f64.powi(random.i32(0..9)), random.usize(0..7));
            let (first, end) = (10_u64.pow(random.u32(0..9)), ["\n", "\n", "\r\n"][round % 3]);
            let row = |row: u64, number: f64| format!("{},16384,{number:.decimals$}{end}", first + row);
            let rows = random.u64(1..9000);
            let mut text: Vec<u8> = (0..rows).flat_map(|at| row(at, random.f64() * scale).into_bytes()).collect();
            for _ in 0..round % 4 {
                let at = random.usize(text.len() / 2..text.len());
                text[at] = LETTERS[random.usize(..LETTERS.len())];
            }
            let shape = RowShape::from_line(row(1, 1.5).as_bytes()).unwrap();
            let mut latencies_us = Vec::new();
            let (bytes, rows) = shape.rows(&text, &mut latencies_us);
            assert_eq!(latencies_us, plainly(&text[..bytes]), "round {round}");
            assert_eq!(latencies_us.len() as u64, rows);
            read += rows;
        }
        assert!(read > 500_000, "{read}");
    }
}
