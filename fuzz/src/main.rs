//! One program for all targets; `TRIPMETER_FUZZ_TARGET` names the one that libFuzzer runs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::OnceLock;
use tripmeter_fuzz_targets::{FuzzTarget, TARGETS, target};

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

fn chosen() -> FuzzTarget {
    let name = std::env::var("TRIPMETER_FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("fuzz: TRIPMETER_FUZZ_TARGET is '{name}'; take one of {}", names.join(", "));
        std::process::exit(64);
    })
}

static CHOSEN: OnceLock<FuzzTarget> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| (CHOSEN.get_or_init(chosen).run)(bytes));
