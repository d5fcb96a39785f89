//! Usual rows with a latency of at most 15 characters, by AVX-512: line breaks are listed first, so that where a row begins
//! depends on no other; then eight rows at a time are checked and converted.

use super::fast::{HIGHS, ONES, ZEROS};
use crate::wide::avx512;
use std::arch::x86_64::*;

/// Rows that are converted together.
const LANES: usize = 8;
/// Bytes that are looked at together for line breaks.
const BLOCK: usize = 64;
/// Most line breaks in a block: of rows of eight bytes.
const BREAKS: usize = 8;
/// Line breaks that are listed before rows are converted.
const LIST: usize = 256;
/// So far before they are needed, lines of the cache are fetched: the processor does it by itself only within a page. It is
/// more than what [`LIST`] rows take.
const AHEAD: usize = 12 << 10;
/// Bytes in a line of the cache, and how many lines eight usual rows are in at most.
const LINE: usize = 64;
const LINES: usize = 3;
/// Bytes that must be there before the line break of the row before, and behind it, for all that is read of a row.
const BEFORE: usize = 8;
const BEHIND: usize = 64;

/// Bytes of a row that are loaded together, and how many of a latency are to be among them.
const ROW: usize = 32;
const WIDTH: usize = 8;

/// Eight points, less [`ZEROS`].
const POINTS: u64 = ONES * (b'.' ^ b'0') as u64;

/// What consecutive rows have in common.
#[derive(Clone, Debug)]
pub struct Eights {
    /// Mask and value of what comes before the latency and of its first digit, from the line break of the row before on.
    begin: [[u64; 4]; 2],
    /// Where the latency begins.
    before: usize,
    /// Where the first eight characters of the latencies of two rows are, of which 32 bytes each are there; four times.
    picked: [[u8; 16]; 4],
}

impl Eights {
    /// `begin` is of the `before` bytes that come before the latency, with the line break before them; `None` if they
    /// are too many, or the processor has no such instructions.
    pub fn new(mut begin: [(u64, u64); 4], before: usize) -> Option<Self> {
        if before > ROW - WIDTH || !avx512() {
            return None;
        }
        let (mask, value) = begin.get_mut(before / 8)?;
        let shift = before % 8 * 8;
        (*mask, *value) = (*mask | 0xf0 << shift, *value | u64::from(b'0') << shift);
        let picked = std::array::from_fn(|index| (index / WIDTH * ROW + before + index % WIDTH) as u8);
        Some(Self { begin: [begin.map(|(mask, _)| mask), begin.map(|(_, value)| value)], before, picked: [picked; 4] })
    }

    /// Appends the latencies of rows of `text` from the one that begins at `at` on; a row must stand before it.
    /// Returns where the first one begins that is left: among it and the seven behind there is another row, or too little
    /// is left.
    pub fn rows(&self, text: &[u8], at: usize, latencies_us: &mut Vec<f64>) -> usize {
        if at == 0 || text.len() < at + BEHIND || i32::try_from(text.len()).is_err() || !avx512() {
            return at;
        }
        // SAFETY: the processor has these parts of AVX-512.
        unsafe { self.by_avx512(text, at, latencies_us) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vbmi,avx512vbmi2,bmi1,popcnt")]
    fn by_avx512(&self, text: &[u8], at: usize, latencies_us: &mut Vec<f64>) -> usize {
        let mut breaks = [0; LIST + BREAKS];
        // Line breaks that are listed, and where the next ones are looked for.
        let (mut count, mut next) = (1, at);
        breaks[0] = at as i32 - 1;
        loop {
            // Where the block stands, in every lane.
            let mut place = _mm256_set1_epi32(next as i32);
            for block in text[next..].as_chunks().0 {
                if count > LIST - BREAKS {
                    break;
                }
                let Some(found) = list(block, place, &mut breaks[count..]) else { break };
                place = _mm256_add_epi32(place, _mm256_set1_epi32(BLOCK as i32));
                (count, next) = (count + found, next + BLOCK);
            }
            let mut done = 0;
            while let Some(nine) = breaks[done..count].first_chunk()
                && nine[0] as usize >= BEFORE
                && nine[LANES] as usize + BEHIND <= text.len()
            {
                let ahead = text.as_ptr().wrapping_add(nine[0] as usize + AHEAD);
                for line in 0..LINES {
                    _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(line * LINE).cast());
                }
                // SAFETY: line breaks are listed in ascending order, and the first and the last one are far enough.
                let Some(eight) = (unsafe { self.convert(text, nine) }) else { return nine[0] as usize + 1 };
                latencies_us.extend_from_slice(&eight);
                done += LANES;
            }
            if done == 0 {
                return breaks[0] as usize + 1;
            }
            breaks.copy_within(done..count, 0);
            count -= done;
        }
    }

    /// The latencies of the rows between nine line breaks; `None` if something there is no such row.
    ///
    /// # Safety
    /// [`BEFORE`] and [`BEHIND`] each of the places there is text.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vbmi,avx512vbmi2,bmi1,popcnt")]
    unsafe fn convert(&self, text: &[u8], breaks: &[i32; LANES + 1]) -> Option<[f64; LANES]> {
        let places = |from: &[i32; LANES]| {
            // SAFETY: there are eight numbers.
            unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
        };
        // Once more apart, or else the compiler takes each place out of these vectors, which is slower.
        let same = std::hint::black_box(breaks);
        let (starts, ends) = (places(same.first_chunk()?), places(same.last_chunk()?));
        let [mask, value] = [0, 1].map(|index| {
            // SAFETY: there are 32 bytes.
            _mm512_broadcast_i64x4(unsafe { _mm256_loadu_si256(self.begin[index].as_ptr().cast()) })
        });
        // SAFETY: there are 64 bytes.
        let picked = unsafe { _mm512_loadu_si512(self.picked.as_ptr().cast()) };
        let row = |index: usize| {
            // SAFETY: so many bytes behind the places are in the text.
            unsafe { _mm256_loadu_si256(text.as_ptr().wrapping_offset(breaks[index] as isize).cast()) }
        };
        let (mut wrong, mut first) = (every(0), every(0));
        for pair in 0..LANES / 2 {
            let two = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(row(2 * pair)), row(2 * pair + 1));
            wrong = _mm512_or_si512(wrong, _mm512_and_si512(_mm512_xor_si512(two, value), mask));
            first = _mm512_mask_permutexvar_epi8(first, 0xffff << (16 * pair), picked, two);
        }
        let lengths = _mm256_sub_epi32(ends, starts);
        let longer =
            |length: usize| _mm256_cmpgt_epu32_mask(lengths, _mm256_set1_epi32((self.before + length) as i32)) != 0;
        let first = _mm512_xor_si512(first, every(ZEROS));
        // Bits of the first eight characters that are behind the number.
        let behind = _mm512_slli_epi64::<3>(_mm512_cvtepu32_epi64(lengths));
        let behind = _mm512_sub_epi64(every(64 + 8 * self.before as u64), behind);
        let number = match Number::usual(_mm512_sllv_epi64(first, behind)) {
            Some(number) if !longer(8) => number,
            _ if longer(15) => return None,
            _ => {
                // SAFETY: so many bytes before the places are in the text.
                let last = unsafe { _mm512_i32gather_epi64::<1>(ends, text.as_ptr().wrapping_sub(8).cast()) };
                Number::any(first, _mm512_xor_si512(last, every(ZEROS)), behind)
            }
        };
        let wrong = _mm512_or_si512(wrong, number.wrong);
        (_mm512_test_epi64_mask(wrong, wrong) == 0).then(|| number.latencies())
    }
}

/// Eight numbers: digits with at most one point.
struct Number {
    /// All digits as an integer.
    value: __m512i,
    /// Digits behind the point, modulo 16.
    decimals: __m512i,
    /// Not zero if it is no number.
    wrong: __m512i,
}

impl Number {
    /// The numbers in `digits`, of which the last one is the highest byte, and before the first one there are zeros. `None`
    /// if one of them has not one point.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vbmi,avx512vbmi2,bmi1,popcnt")]
    fn usual(digits: __m512i) -> Option<Self> {
        // A bit for each character, a byte for each number: no vector instructions, which are scarce here.
        let points = _mm512_cmpeq_epi8_mask(digits, every(POINTS));
        let before = points.wrapping_sub(ONES);
        if before & points != 0 || before & !points & HIGHS != 0 {
            return None;
        }
        // What is before the point moves on by one.
        let digits = _mm512_mask_blend_epi8(before ^ points, digits, _mm512_slli_epi64::<8>(digits));
        let point = _mm512_movm_epi8(points);
        Some(Self { value: eight_digits(digits), decimals: behind(point), wrong: no_digits(digits) })
    }

    /// The numbers of at most 15 characters that begin with `first` and end with `last`, less [`ZEROS`]; the first eight
    /// characters have so many bits behind the number.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vbmi,avx512vbmi2,bmi1,popcnt")]
    fn any(first: __m512i, last: __m512i, behind_number: __m512i) -> Self {
        let high = _mm512_sllv_epi64(first, _mm512_add_epi64(behind_number, every(64)));
        let none = _mm512_max_epi64(behind_number, every(0));
        let low = _mm512_and_si512(last, _mm512_sllv_epi64(every(u64::MAX), none));
        let (high_point, low_point) = (point(high), point(low));
        let in_low = _mm512_test_epi64_mask(low_point, low_point);
        // What is before the point moves on by one, from the high eight into the low ones.
        let carried = _mm512_or_si512(_mm512_slli_epi64::<8>(low), _mm512_srli_epi64::<56>(high));
        let low = either(through(low_point), carried, low);
        let moved = _mm512_mask_blend_epi64(in_low, through(high_point), every(u64::MAX));
        let high = either(moved, _mm512_slli_epi64::<8>(high), high);
        let more = _mm512_maskz_mov_epi64(!in_low, behind(high_point));
        let value = _mm512_mul_epu32(eight_digits(high), every(100_000_000));
        Self {
            value: _mm512_add_epi64(value, eight_digits(low)),
            // Without a point there are none instead of sixteen.
            decimals: _mm512_add_epi64(behind(low_point), more),
            wrong: _mm512_or_si512(no_digits(low), no_digits(high)),
        }
    }

    /// The numbers nearest to the text: integers below 2^53 are divided by powers of ten, and rounded once.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vbmi,avx512vbmi2,bmi1,popcnt")]
    fn latencies(&self) -> [f64; LANES] {
        let few = _mm512_set_pd(1e7, 1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1e0);
        let many = _mm512_set_pd(1e15, 1e14, 1e13, 1e12, 1e11, 1e10, 1e9, 1e8);
        let powers = _mm512_permutex2var_pd(few, self.decimals, many);
        let quotients = _mm512_div_pd(_mm512_cvtepu64_pd(self.value), powers);
        let mut latencies = [0.0; LANES];
        // SAFETY: there is room for eight numbers.
        unsafe { _mm512_storeu_pd(latencies.as_mut_ptr(), quotients) };
        latencies
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vbmi,avx512vbmi2,bmi1,popcnt")]
fn every(word: u64) -> __m512i {
    _mm512_set1_epi64(word.cast_signed())
}

/// All bits of every byte that is a point, less [`ZEROS`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vbmi,avx512vbmi2,bmi1,popcnt")]
fn point(text: __m512i) -> __m512i {
    _mm512_movm_epi8(_mm512_cmpeq_epi8_mask(text, every(POINTS)))
}

/// All bits up to and with the first point; none where there is no point.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vbmi,avx512vbmi2,bmi1,popcnt")]
fn through(point: __m512i) -> __m512i {
    let ends = _mm512_and_si512(point, every(HIGHS));
    _mm512_maskz_xor_epi64(_mm512_test_epi64_mask(ends, ends), ends, _mm512_sub_epi64(ends, every(1)))
}

/// Bytes behind the last point; eight where there is no point.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vbmi,avx512vbmi2,bmi1,popcnt")]
fn behind(point: __m512i) -> __m512i {
    _mm512_srli_epi64::<3>(_mm512_lzcnt_epi64(point))
}

/// The bits of `one` where `mask` has them, and else of `other`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vbmi,avx512vbmi2,bmi1,popcnt")]
fn either(mask: __m512i, one: __m512i, other: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0b1100_1010>(mask, one, other)
}

/// Not zero where a byte is no digit, less [`ZEROS`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vbmi,avx512vbmi2,bmi1,popcnt")]
fn no_digits(digits: __m512i) -> __m512i {
    _mm512_subs_epu8(digits, _mm512_set1_epi8(9))
}

/// The value of eight digits, the first in the lowest byte.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vbmi,avx512vbmi2,bmi1,popcnt")]
fn eight_digits(digits: __m512i) -> __m512i {
    let pairs = _mm512_maddubs_epi16(digits, _mm512_set1_epi16(10 | 1 << 8));
    let fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(100 | 1 << 16));
    _mm512_add_epi64(_mm512_mul_epu32(fours, every(10_000)), _mm512_srli_epi64::<32>(fours))
}

/// Lists the line breaks of a block that stands at `at` in all lanes; returns how many there are, or `None` if they are too many.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vbmi,avx512vbmi2,bmi1,popcnt")]
fn list(block: &[u8; BLOCK], at: __m256i, breaks: &mut [i32]) -> Option<usize> {
    const PLACES: [i8; BLOCK] = {
        let mut places = [0; BLOCK];
        let mut place = 0;
        while place < BLOCK {
            places[place] = place as i8;
            place += 1;
        }
        places
    };
    let free: &mut [i32; BREAKS] = breaks.first_chunk_mut()?;
    // SAFETY: there are 64 bytes each.
    let (bytes, places) =
        unsafe { (_mm512_loadu_si512(block.as_ptr().cast()), _mm512_loadu_si512(PLACES.as_ptr().cast())) };
    let found = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(b'\n'.cast_signed()));
    let count = found.count_ones() as usize;
    let places = _mm512_castsi512_si128(_mm512_maskz_compress_epi8(found, places));
    let places = _mm256_add_epi32(_mm256_cvtepu8_epi32(places), at);
    // SAFETY: there is room for eight numbers.
    unsafe { _mm256_storeu_si256(free.as_mut_ptr().cast(), places) };
    (count <= BREAKS).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::fast::u64_at;

    /// The latencies of rows `1,16,<number>`, seven of which say 2.5; `None` if they are refused.
    fn converted(number: &str, lane: usize) -> Option<Vec<f64>> {
        let (mut mask, mut value) = ([0xff; 32], *b"\n1,16,..........................");
        (mask[1], value[1]) = (0xf0, b'0');
        mask[6..].fill(0);
        value[6..].fill(0);
        let words = [0, 8, 16, 24].map(|at| (u64_at(&mask, at), u64_at(&value, at)));
        let rows: String =
            (0..LANES).map(|row| format!("{},16,{}\n", row + 1, if row == lane { number } else { "2.5" })).collect();
        let (before, behind) = ("0,16,1.5\n", "9,16,3.5\n".repeat(20));
        let mut found = Vec::new();
        let text = format!("{before}{rows}{behind}");
        let end = Eights::new(words, 6).unwrap().rows(text.as_bytes(), before.len(), &mut found);
        assert_eq!(found.len() % LANES, 0);
        found.truncate(LANES);
        (end > before.len()).then_some(found)
    }

    #[test]
    fn numbers_are_those_nearest_to_their_text() {
        if !avx512() {
            return eprintln!("skipped: the processor has no AVX-512");
        }
        let mut random = fastrand::Rng::with_seed(5);
        for round in 0..20_000 {
            let mut number: String = (0..random.usize(1..16)).map(|_| random.char('0'..='9')).collect();
            let point = random.usize(1..16);
            if point < number.len() {
                number.replace_range(point..=point, ".");
            }
            let mut expected = vec![2.5; LANES];
            expected[round % LANES] = number.parse().unwrap();
            assert_eq!(converted(&number, round % LANES), Some(expected), "{number}");
        }
    }

    #[test]
    fn what_is_no_plain_number_is_refused() {
        if !avx512() {
            return eprintln!("skipped: the processor has no AVX-512");
        }
        for wrong in [
            "",
            ".",
            ".5",
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
            for lane in 0..LANES {
                assert_eq!(converted(wrong, lane), None, "{wrong}");
            }
        }
    }
}
