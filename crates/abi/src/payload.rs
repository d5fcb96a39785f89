//! What the touched bytes of a payload hold: words made of the sequence number, so that the receiver needs no copy to
//! compare with.
//!
//! These loops over every byte are here because the development profile optimises this crate: tests verify large payloads.
#![expect(unsafe_code, reason = "vectors")]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m128i, _mm_add_epi64, _mm_cvtsi128_si64, _mm_loadu_si128, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi64x,
    _mm_setzero_si128, _mm_storeu_si128, _mm_unpackhi_epi64, _mm_xor_si128,
};

/// Bytes that are written or compared at once: with loops in vectors by hand, they are as fast in a program that is
/// compiled for size, where LLVM makes no vectors of loops (a message of 1 MB would take a fifth longer).
const BLOCK: usize = 64;
/// Words in these.
const WORDS: u64 = BLOCK as u64 / 8;

/// Fills with words that differ from message to message and from place to place.
pub fn fill(bytes: &mut [u8], sequence: u64) {
    let (blocks, rest) = bytes.as_chunks_mut::<BLOCK>();
    fill_blocks(blocks, word(sequence, 0));
    let mut index = blocks.len() as u64 * WORDS;
    let mut chunks = rest.chunks_exact_mut(8);
    for chunk in &mut chunks {
        chunk.copy_from_slice(&word(sequence, index).to_le_bytes());
        index += 1;
    }
    let rest = chunks.into_remainder();
    let length = rest.len();
    rest.copy_from_slice(&word(sequence, index).to_le_bytes()[..length]);
}

/// True if these are the bytes that [`fill`] writes for this sequence number.
pub fn verify(bytes: &[u8], sequence: u64) -> bool {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let mut difference = blocks_differ(blocks, word(sequence, 0));
    let mut index = blocks.len() as u64 * WORDS;
    let mut chunks = rest.chunks_exact(8);
    for chunk in &mut chunks {
        let found = u64::from_le_bytes(chunk.try_into().expect("the chunks have 8 bytes"));
        difference |= found ^ word(sequence, index);
        index += 1;
    }
    let rest = chunks.remainder();
    difference == 0 && *rest == word(sequence, index).to_le_bytes()[..rest.len()]
}

/// The first words of a block as vectors, and what leads to the next block.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
fn vectors(first: u64) -> ([__m128i; BLOCK / 16], __m128i) {
    let at = |index: u64| {
        let word = |index| first.wrapping_add(index).cast_signed();
        _mm_set_epi64x(word(index + 1), word(index))
    };
    ([at(0), at(2), at(4), at(6)], _mm_set1_epi64x(WORDS.cast_signed()))
}

// Written out, as compilers for size do not unroll.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
fn fill_blocks_by_vectors(blocks: &mut [[u8; BLOCK]], first: u64) {
    let ([mut a, mut b, mut c, mut d], step) = vectors(first);
    for block in blocks {
        let place: *mut __m128i = block.as_mut_ptr().cast();
        // SAFETY: a block has the bytes of four vectors; alignment is not assumed.
        unsafe {
            _mm_storeu_si128(place, a);
            _mm_storeu_si128(place.add(1), b);
            _mm_storeu_si128(place.add(2), c);
            _mm_storeu_si128(place.add(3), d);
        }
        (a, b) = (_mm_add_epi64(a, step), _mm_add_epi64(b, step));
        (c, d) = (_mm_add_epi64(c, step), _mm_add_epi64(d, step));
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
fn blocks_differ_by_vectors(blocks: &[[u8; BLOCK]], first: u64) -> u64 {
    let ([mut a, mut b, mut c, mut d], step) = vectors(first);
    let (mut even, mut odd) = (_mm_setzero_si128(), _mm_setzero_si128());
    for block in blocks {
        let place: *const __m128i = block.as_ptr().cast();
        // SAFETY: a block has the bytes of four vectors; alignment is not assumed.
        let [e, f, g, h] = unsafe {
            [
                _mm_loadu_si128(place),
                _mm_loadu_si128(place.add(1)),
                _mm_loadu_si128(place.add(2)),
                _mm_loadu_si128(place.add(3)),
            ]
        };
        even = _mm_or_si128(even, _mm_or_si128(_mm_xor_si128(e, a), _mm_xor_si128(g, c)));
        odd = _mm_or_si128(odd, _mm_or_si128(_mm_xor_si128(f, b), _mm_xor_si128(h, d)));
        (a, b) = (_mm_add_epi64(a, step), _mm_add_epi64(b, step));
        (c, d) = (_mm_add_epi64(c, step), _mm_add_epi64(d, step));
    }
    let all = _mm_or_si128(even, odd);
    (_mm_cvtsi128_si64(all) | _mm_cvtsi128_si64(_mm_unpackhi_epi64(all, all))).cast_unsigned()
}

#[cfg(target_arch = "x86_64")]
fn fill_blocks(blocks: &mut [[u8; BLOCK]], first: u64) {
    // SAFETY: every x86_64 has SSE2.
    unsafe { fill_blocks_by_vectors(blocks, first) };
}

#[cfg(target_arch = "x86_64")]
fn blocks_differ(blocks: &[[u8; BLOCK]], first: u64) -> u64 {
    // SAFETY: every x86_64 has SSE2.
    unsafe { blocks_differ_by_vectors(blocks, first) }
}

#[cfg(not(target_arch = "x86_64"))]
fn fill_blocks(blocks: &mut [[u8; BLOCK]], first: u64) {
    let places = blocks.as_flattened_mut().as_chunks_mut::<8>().0;
    (0..).zip(places).for_each(|(index, place)| *place = first.wrapping_add(index).to_le_bytes());
}

#[cfg(not(target_arch = "x86_64"))]
fn blocks_differ(blocks: &[[u8; BLOCK]], first: u64) -> u64 {
    let places = (0..).zip(blocks.as_flattened().as_chunks::<8>().0);
    places.fold(0, |all, (index, place)| all | (u64::from_le_bytes(*place) ^ first.wrapping_add(index)))
}

#[inline(always)]
fn word(sequence: u64, index: u64) -> u64 {
    sequence.wrapping_mul(0xD6E8_FEB8_6659_FD93).wrapping_add(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_follow_each_other_over_blocks_and_rests_and_each_byte_counts() {
        for length in (0..=200).chain([1000, 4096 + 13]) {
            let mut bytes = vec![0; length];
            fill(&mut bytes, 7);
            let expected: Vec<u8> = (0..).flat_map(|index| word(7, index).to_le_bytes()).take(length).collect();
            assert_eq!(bytes, expected);
            assert!(verify(&bytes, 7) && (length == 0 || !verify(&bytes, 8)));
            for at in 0..length {
                bytes[at] ^= 0x10;
                assert!(!verify(&bytes, 7), "byte {at} of {length}");
                bytes[at] ^= 0x10;
            }
        }
    }
}
