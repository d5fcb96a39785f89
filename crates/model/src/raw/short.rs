//! Usual rows with a latency of at most eight characters, by AVX2: found in several places at once, then checked and
//! converted together. So nothing depends on a single row but where the next one begins.

use super::fast::{ONES, Place, STRIDE, ZEROS, u64_at};
use std::arch::x86_64::*;

/// Places where rows are found at the same time.
const PLACES: usize = 6;
/// Rows that are found in each place before they are checked.
const ROUND: usize = 32;
/// More rows than there can be in a place.
const ROWS: usize = (STRIDE / 6).next_multiple_of(LANES) + 2 * LANES;
/// Numbers that are converted together.
const LANES: usize = 4;
/// Bytes of a latency that are looked at.
const WIDTH: usize = 8;
/// Of the characters of a number and a line break, those of the line break alone have this bit not.
const NUMBER: u64 = ONES << 5;
/// 2^52 as floating point: an integer below it in the low bits adds to its value.
const TWO_52: i64 = 0x4330_0000_0000_0000;

/// What consecutive rows have in common.
#[derive(Clone, Debug)]
pub struct Short {
    /// Mask and value of what comes before the latency, from the line break of the row before on, 8 bytes by 8.
    begin: [(u64, u64); 4],
    /// Where the latency begins.
    before: usize,
    /// The line break.
    line_break: &'static [u8],
}

impl Short {
    /// `begin` is of the `before` bytes that come before the latency, with the line break before them; `None` if they
    /// are too many.
    pub fn new(begin: [(u64, u64); 4], before: usize, line_break: &'static [u8]) -> Option<Self> {
        (before < 32).then_some(Self { begin, before, line_break })
    }

    /// Appends the latencies of rows of `text` from the one that begins at `at` on; a row must stand before it.
    /// Returns where the first one begins that is left: behind it there is another row, or too little.
    pub fn rows(&self, text: &[u8], at: usize, latencies_us: &mut Vec<f64>) -> usize {
        if Place::next::<PLACES>(text, at).is_none() || !supported() {
            return at;
        }
        // SAFETY: the processor has AVX2 and BMI1.
        unsafe { self.by_avx2(text, at, latencies_us) }
    }

    #[target_feature(enable = "avx2,bmi1")]
    fn by_avx2(&self, text: &[u8], mut at: usize, latencies_us: &mut Vec<f64>) -> usize {
        let mut found = [[0; ROWS]; PLACES];
        while let Some(mut places) = Place::next(text, at) {
            let before = latencies_us.len();
            let converted = self.find(text, &mut places, &mut found).is_some()
                && places.iter().zip(&mut found).all(|(place, found)| self.convert(found, place.rows, latencies_us));
            if !converted {
                latencies_us.truncate(before);
                break;
            }
            at = places[PLACES - 1].end;
        }
        at
    }

    /// Finds the latencies in all places; `None` if something there is no such row.
    #[target_feature(enable = "avx2,bmi1")]
    fn find(&self, text: &[u8], places: &mut [Place; PLACES], found: &mut [[u64; ROWS]; PLACES]) -> Option<()> {
        let mut at = places.map(|place| place.at - self.line_break.len());
        let ends = places.map(|place| place.end - self.line_break.len());
        let begin = [wide(self.begin.map(|(mask, _)| mask)), wide(self.begin.map(|(_, value)| value))];
        let (mut wrong, mut length) = (_mm256_setzero_si256(), 0);
        loop {
            let left = (0..PLACES).map(|place| ends[place].saturating_sub(at[place])).min()?;
            let round = (left / (self.before + WIDTH)).min(ROUND);
            if round == 0 {
                break;
            }
            for row in length..length + round {
                for place in 0..PLACES {
                    *found[place].get_mut(row)? = self.next(text, &mut at[place], begin, &mut wrong)?;
                }
            }
            length += round;
            if !is_zero(wrong) {
                return None;
            }
        }
        for place in 0..PLACES {
            places[place].rows = length;
            while at[place] < ends[place] {
                *found[place].get_mut(places[place].rows)? = self.next(text, &mut at[place], begin, &mut wrong)?;
                places[place].rows += 1;
            }
            if text.get(at[place]..places[place].end) != Some(self.line_break) {
                return None;
            }
        }
        is_zero(wrong).then_some(())
    }

    /// The latency of the row behind the line break at `at`, which is moved to the next one. Sets bits in `wrong` if
    /// there is no such row: one that begins with what `begin` has, mask and value.
    #[inline]
    #[target_feature(enable = "avx2,bmi1")]
    fn next(&self, text: &[u8], at: &mut usize, begin: [__m256i; 2], wrong: &mut __m256i) -> Option<u64> {
        let row: &[u8; 64] = text.get(*at..)?.first_chunk()?;
        let [mask, value] = begin;
        let words = wide([0, 8, 16, 24].map(|at| u64_at(row, at)));
        *wrong = _mm256_or_si256(*wrong, _mm256_and_si256(_mm256_xor_si256(words, value), mask));
        // The mask changes nothing; it spares checks.
        let number = u64_at(row, self.before & 31);
        // Where the line break is not within the number, it must stand behind it: that is checked with the next row.
        *at += self.before + (!number & NUMBER).trailing_zeros() as usize / 8;
        Some(number)
    }

    /// Appends the first `count` of the numbers, whose texts are overwritten; false if one of them is none.
    #[target_feature(enable = "avx2,bmi1")]
    fn convert(&self, texts: &mut [u64; ROWS], count: usize, numbers: &mut Vec<f64>) -> bool {
        let padded = count.next_multiple_of(LANES);
        texts[count..padded].fill(u64::from_le_bytes(*b"0.000000"));
        let line_break = _mm256_set1_epi8(self.line_break[0].cast_signed());
        let mut check = (_mm256_setzero_si256(), _mm256_set1_epi8(-1));
        let (fours, _) = texts[..padded].as_chunks_mut();
        for four in fours {
            *four = together(four, line_break, &mut check);
        }
        // With the bits of the numbers in place of the texts, memory of `numbers` is written once only.
        numbers.extend(texts[..count].iter().map(|bits| f64::from_bits(*bits)));
        let (largest, first) = check;
        let digits = _mm256_cmpeq_epi8(_mm256_max_epu8(largest, _mm256_set1_epi8(9)), _mm256_set1_epi8(9));
        _mm256_movemask_epi8(digits) == -1 && _mm256_movemask_epi8(first) & 0x0101_0101 == 0x0101_0101
    }
}

fn supported() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1")
}

/// Converts numbers, into their bits. Keeps in `check` the largest byte that should be a digit, and of which bytes all are
/// before a point.
#[inline]
#[target_feature(enable = "avx2,bmi1")]
fn together(texts: &[u64; LANES], line_break: __m256i, check: &mut (__m256i, __m256i)) -> [u64; LANES] {
    let text = wide(*texts);
    let ends = _mm256_cmpeq_epi8(text, line_break);
    let points = _mm256_cmpeq_epi8(text, _mm256_set1_epi8(b'.'.cast_signed()));
    // A number without a point ends where its point would be.
    let before_point = below(_mm256_or_si256(ends, points));
    let values = _mm256_and_si256(_mm256_xor_si256(text, _mm256_set1_epi64x(ZEROS.cast_signed())), below(ends));
    // Eight digits without the point; with zeros behind, where there are fewer.
    let digits = _mm256_blendv_epi8(_mm256_srli_epi64::<8>(values), values, before_point);
    check.0 = _mm256_max_epu8(check.0, digits);
    check.1 = _mm256_and_si256(check.1, before_point);
    let pairs = _mm256_maddubs_epi16(digits, _mm256_set1_epi16(10 | 1 << 8));
    let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi32(100 | 1 << 16));
    let high = _mm256_mul_epu32(fours, _mm256_set1_epi64x(10_000));
    let eight = _mm256_add_epi64(high, _mm256_srli_epi64::<32>(fours));
    // So much too large as there are fewer digits than eight before the point.
    let before = _mm256_sad_epu8(_mm256_and_si256(before_point, _mm256_set1_epi8(1)), _mm256_setzero_si256());
    let powers = _mm256_set_epi32(10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 1);
    let power = _mm256_permutevar8x32_epi32(powers, before);
    let two_52 = _mm256_set1_epi64x(TWO_52);
    let power = _mm256_blend_epi32::<0b1010_1010>(power, two_52);
    let numbers = _mm256_div_pd(float(_mm256_or_si256(eight, two_52)), float(power));
    let numbers = _mm256_castpd_si256(numbers);
    [
        _mm256_extract_epi64::<0>(numbers),
        _mm256_extract_epi64::<1>(numbers),
        _mm256_extract_epi64::<2>(numbers),
        _mm256_extract_epi64::<3>(numbers),
    ]
    .map(i64::cast_unsigned)
}

#[inline]
#[target_feature(enable = "avx2,bmi1")]
fn wide(words: [u64; LANES]) -> __m256i {
    let [first, second, third, fourth] = words.map(u64::cast_signed);
    _mm256_set_epi64x(fourth, third, second, first)
}

#[inline]
#[target_feature(enable = "avx2,bmi1")]
fn is_zero(bits: __m256i) -> bool {
    _mm256_testz_si256(bits, bits) == 1
}

/// All bits of each 64 that are below the lowest one that is set.
#[inline]
#[target_feature(enable = "avx2,bmi1")]
fn below(bits: __m256i) -> __m256i {
    _mm256_andnot_si256(bits, _mm256_add_epi64(bits, _mm256_set1_epi64x(-1)))
}

/// Integers in the low bits of 2^52 as floating point.
#[inline]
#[target_feature(enable = "avx2,bmi1")]
fn float(bits: __m256i) -> __m256d {
    _mm256_sub_pd(_mm256_castsi256_pd(bits), _mm256_castsi256_pd(_mm256_set1_epi64x(TWO_52)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts the first eight characters of texts.
    fn converted(texts: &[String]) -> Option<Vec<f64>> {
        let mut words = [0; ROWS];
        for (word, text) in words.iter_mut().zip(texts) {
            *word = u64::from_le_bytes(*text.as_bytes().first_chunk().unwrap());
        }
        let mut found = vec![7.5];
        let short = Short::new([(0, 0); 4], 0, b"\n").unwrap();
        // SAFETY: the callers looked whether the processor has AVX2 and BMI1.
        let good = unsafe { short.convert(&mut words, texts.len(), &mut found) };
        assert_eq!(found.remove(0), 7.5);
        good.then_some(found)
    }

    #[test]
    fn numbers_are_those_nearest_to_their_text() {
        if !supported() {
            return eprintln!("skipped: the processor has no AVX2");
        }
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..20_000 {
            let mut number: String = (0..random.usize(1..9)).map(|_| random.char('0'..='9')).collect();
            let point = random.usize(1..9);
            if point < number.len() {
                number.replace_range(point..=point, ".");
            }
            let count = random.usize(1..10);
            let expected = vec![number.parse::<f64>().unwrap(); count];
            assert_eq!(converted(&vec![format!("{number}\n1.5\n....."); count]), Some(expected), "{number}");
        }
    }

    #[test]
    fn what_is_no_plain_number_is_refused() {
        if !supported() {
            return eprintln!("skipped: the processor has no AVX2");
        }
        for wrong in [
            "", ".", ".5", "-1.5", "+1.5", " 1.5", "1.5 ", "1,5", "1.2.3", "1e3", "1.5e1", "nan", "1:2", "1/2",
            "\u{e9}", "1234567,", "1.5\r",
        ] {
            for place in 0..9 {
                let mut texts = vec!["1.5\n1.5\n".to_owned(); 9];
                texts[place] = format!("{wrong}\n1.5\n.....");
                assert_eq!(converted(&texts), None, "{wrong}");
            }
        }
    }
}
