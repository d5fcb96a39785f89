//! What the touched bytes of a payload hold: words made of the sequence number, so that the receiver needs no copy to
//! compare with.
//!
//! These loops over every byte are here because the development profile optimises this crate: tests verify large payloads.

/// Fills with words that differ from message to message and from place to place.
pub fn fill(bytes: &mut [u8], sequence: u64) {
    let mut chunks = bytes.chunks_exact_mut(8);
    let mut index = 0;
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
    let mut chunks = bytes.chunks_exact(8);
    let mut difference = 0;
    let mut index = 0;
    for chunk in &mut chunks {
        let found = u64::from_le_bytes(chunk.try_into().expect("the chunks have 8 bytes"));
        difference |= found ^ word(sequence, index);
        index += 1;
    }
    let rest = chunks.remainder();
    difference == 0 && *rest == word(sequence, index).to_le_bytes()[..rest.len()]
}

#[inline(always)]
fn word(sequence: u64, index: u64) -> u64 {
    sequence.wrapping_mul(0xD6E8_FEB8_6659_FD93).wrapping_add(index)
}
