//! Time to copy memory in one thread. A transport that takes less time probably does not copy messages.

use crate::memory::reserved;
use std::hint::black_box;
use std::time::{Duration, Instant};
use tripmeter_model::manifest::MemoryCopy;

/// Sizes of copies, in bytes: from a message that fits into a cache to one in main memory.
const SIZES: [u64; 5] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];
/// Time after which no further size is started; the largest takes some tens of milliseconds.
const BUDGET: Duration = Duration::from_millis(25);
/// Time for one size. After it, copying stops as soon as there are [`FEWEST`] copies.
const OF_A_SIZE: Duration = Duration::from_millis(3);
const FEWEST: usize = 3;
const MOST: usize = 200;

/// Median time of a copy between two buffers, for each size up to the largest payload. Sizes without enough memory or
/// time are left out.
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

/// Buffer with every page written, so that no page fault is measured. Writing by pages is fast in debug builds too.
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
        // Half of the copies of a size may be interrupted on a busy machine, but not in every attempt.
        let grows = |copies: &[MemoryCopy]| match copies {
            [small, .., large] => large.copy_ns > 2.0 * small.copy_ns,
            // A stalled machine may run out of time before 1 MB.
            _ => true,
        };
        assert!(grows(&copies) || (0..100).any(|_| grows(&memory_copy(1 << 20))), "{copies:?}");
    }
}
