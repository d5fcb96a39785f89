//! How long copying memory takes in one thread: a transport that is faster may not copy a message.

use crate::memory::reserved;
use std::hint::black_box;
use std::time::{Duration, Instant};
use tripmeter_model::manifest::MemoryCopy;

/// Sizes that are copied, in bytes: of a message in a cache, and of one in memory.
const SIZES: [u64; 5] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];
/// No size but the first is begun after this time; the largest takes some tens of milliseconds.
const BUDGET: Duration = Duration::from_millis(25);
/// After this time no copy of a size is begun but the [`FEWEST`].
const OF_A_SIZE: Duration = Duration::from_millis(3);
const FEWEST: usize = 3;
const MOST: usize = 200;

/// The median time of a copy between the same two buffers, in one thread, at each size up to the largest payload. What there
/// is too little memory for is left out, and the larger ones if time runs out.
pub fn memory_copy(largest_payload: u64) -> Vec<MemoryCopy> {
    let begin = Instant::now();
    let sizes = SIZES.into_iter().filter(|bytes| *bytes <= largest_payload);
    let has_time = |(place, _): &(usize, u64)| *place == 0 || begin.elapsed() < BUDGET;
    sizes.enumerate().take_while(has_time).map_while(|(_, bytes)| of_size(bytes)).collect()
}

fn of_size(bytes: u64) -> Option<MemoryCopy> {
    let (from, mut to) = (written(bytes)?, written(bytes)?);
    let begin = Instant::now();
    let mut times = Vec::with_capacity(MOST);
    to.copy_from_slice(black_box(&from));
    while times.len() < FEWEST || (times.len() < MOST && begin.elapsed() < OF_A_SIZE) {
        let start = Instant::now();
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
        times.push(start.elapsed().as_nanos() as f64);
    }
    Some(MemoryCopy { bytes, copy_ns: tripmeter_stats::median(&times)?.max(1.0) })
}

/// A buffer that is written, so that no page fault is measured. Page by page, which is fast without optimisation too.
fn written(bytes: u64) -> Option<Vec<u8>> {
    let mut buffer = reserved(bytes, "a copy").ok()?;
    (0..bytes >> 12).for_each(|_| buffer.extend_from_slice(&[1; 4096]));
    Some(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_up_to_the_largest_payload_are_copied_and_larger_ones_take_longer() {
        assert_eq!(memory_copy(65_535), []);
        let sizes = |largest| memory_copy(largest).iter().map(|one| one.bytes).collect::<Vec<_>>();
        assert_eq!(sizes(65_536), [65_536]);
        let copies = memory_copy(1 << 20);
        assert!(copies.iter().all(|one| one.copy_ns >= 1.0), "{copies:?}");
        // Half of the copies of a size may be interrupted where others work: of some attempts, one is not.
        let grows = |copies: &[MemoryCopy]| match copies {
            [small, .., large] => large.copy_ns > 2.0 * small.copy_ns,
            // On a machine that stands still there is none of 1 MB.
            _ => true,
        };
        assert!(grows(&copies) || (0..100).any(|_| grows(&memory_copy(1 << 20))), "{copies:?}");
    }
}
