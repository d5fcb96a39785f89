//! Contents of touched payloads: words computed from the sequence number, so that the receiver can verify them without
//! a copy.
//!
//! These loops over every byte are in this crate because the development profile optimises it: tests verify large
//! payloads. They use a vector library, because the compiler does not vectorise a program compiled for size.

use wide::u64x8;

const BLOCK: usize = size_of::<[u64; 8]>();

/// Fills with words that differ between messages and between positions.
pub fn fill(bytes: &mut [u8], sequence: u64) {
    let (blocks, rest) = bytes.as_chunks_mut::<BLOCK>();
    let mut words = first(sequence);
    for block in blocks {
        *block = bytemuck::cast(words.to_array());
        words += STEP;
    }
    rest.copy_from_slice(&bytemuck::cast::<_, [u8; BLOCK]>(words.to_array())[..rest.len()]);
}

/// True if these are the bytes that [`fill`] writes for this sequence number.
pub fn verify(bytes: &[u8], sequence: u64) -> bool {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let (mut words, mut difference) = (first(sequence), u64x8::ZERO);
    for block in blocks {
        difference |= u64x8::new(bytemuck::pod_read_unaligned(block)) ^ words;
        words += STEP;
    }
    let expected: [u8; BLOCK] = bytemuck::cast(words.to_array());
    difference == u64x8::ZERO && *rest == expected[..rest.len()]
}

/// Difference between the words of one block and of the next.
const STEP: u64x8 = u64x8::new([8; 8]);

fn first(sequence: u64) -> u64x8 {
    let first = sequence.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    u64x8::new(std::array::from_fn(|index| first.wrapping_add(index as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_follow_each_other_over_blocks_and_rests_and_each_byte_counts() {
        let word = |index: u64| 7_u64.wrapping_mul(0xD6E8_FEB8_6659_FD93).wrapping_add(index);
        for length in (0..=200).chain([1000, 4096 + 13]) {
            let mut bytes = vec![0; length];
            fill(&mut bytes, 7);
            let expected: Vec<u8> = (0..).flat_map(|index| word(index).to_le_bytes()).take(length).collect();
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
