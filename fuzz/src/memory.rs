//! Memory of a fuzz target, also where it runs as a test.
#![expect(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};

/// Most bytes of one allocation: what a small input says must not cost more.
const MOST_BYTES: usize = 64 << 20;

/// The system's memory, within a bound.
struct Bounded;

#[global_allocator]
static MEMORY: Bounded = Bounded;

// SAFETY: it is the system's allocator, which is given up where too much is asked for.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        // SAFETY: the caller's contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        check(size);
        // SAFETY: the caller's contract.
        unsafe { System.realloc(memory, layout, size) }
    }
}

fn check(bytes: usize) {
    if bytes > MOST_BYTES {
        eprintln!("an allocation of {bytes} bytes, {MOST_BYTES} at most");
        std::process::abort();
    }
}
