//! One program for all targets; `TRIPMETER_FUZZ_TARGET` names the one that libFuzzer runs.
#![no_main]

mod memory;

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;
use tripmeter_fuzz_targets::{FuzzTarget, TARGETS, target};

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
