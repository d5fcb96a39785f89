//! Conformance suite for every transport in `transports/`, built in or plugin, without registration here.
//!
//! With `TRIPMETER_REQUIRE_ALL=1` a missing transport is a failure; otherwise its test prints `SKIPPED:`. With
//! `TRIPMETER_NIGHTLY=1`, combinations that add little coverage are measured as well.

use crate::common::{is_nightly, is_required, plugin_folders, say};
use tripmeter_conformance::{Known, Suite, SuiteError};

type Part = fn(&Suite, &Known) -> Result<Vec<String>, SuiteError>;

/// Runs a part of the suite for a system, if it is available.
#[track_caller]
fn holds(system: &str, part: Part) {
    let environment =
        [("XDG_RUNTIME_DIR".to_owned(), "".into()), ("TRIPMETER_TRANSPORTS".to_owned(), plugin_folders())];
    let suite = Suite {
        program: env!("CARGO_BIN_EXE_tripmeter").into(),
        plugin: None,
        environment: environment.into(),
        prefix: "conformance-".to_owned(),
        is_thorough: is_nightly(),
        say,
    };
    let known = suite.known(system).expect("its sidecar is in the program");
    let missing = known.missing();
    missing.iter().for_each(|reason| say(&format!("SKIPPED: {reason}")));
    assert!(missing.is_empty() || !is_required(), "TRIPMETER_REQUIRE_ALL=1, and missing are {missing:#?}");
    let faults = part(&suite, &known).expect("the program can be run");
    assert!(faults.is_empty(), "{faults:#?}");
}

macro_rules! systems {
    ($($test:ident $system:literal)*) => {
        mod contract {
            $(#[test] fn $test() {
                let _alone = crate::common::alone();
                crate::conformance::holds($system, tripmeter_conformance::Suite::contract);
            })*
        }
        mod two_at_once {
            $(#[test] fn $test() {
                let _alone = crate::common::alone();
                crate::conformance::holds($system, tripmeter_conformance::Suite::two_at_once);
            })*
        }
        mod refusals {
            $(#[test] fn $test() { crate::conformance::holds($system, tripmeter_conformance::Suite::refusals); })*
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/systems.rs"));
