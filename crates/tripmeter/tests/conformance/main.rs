//! One suite for all transports: whatever `tripmeter transports` finds, built in or as plugin, is held to the contract by
//! the running program. Nothing is registered here.
//!
//! With `TRIPMETER_REQUIRE_ALL=1` a transport that is missing is a failure; without, it is skipped aloud.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod calls;
mod channel;
mod log;
mod one_way;
mod round_trips;

use common::{Finished, Known, KnownVariant, Tripmeter, aloud, folder, manifest, transports};
use std::collections::BTreeMap;
use std::path::Path;
use tripmeter_abi::{Path as Claim, Pattern, Wait};
use tripmeter_model::exit;
use tripmeter_model::manifest::{Manifest, Status, SubExperimentResult, Verdict};
use tripmeter_model::payload::LARGEST_BYTES;
use tripmeter_model::plan::SubExperiment;

const SAMPLES: u64 = 200;
const WARMUP: u64 = 20;

/// A variant that can run here.
struct Here<'a> {
    system: &'a str,
    here: &'a KnownVariant,
    declared: &'a tripmeter_abi::Variant,
    has_packet: bool,
}

impl Here<'_> {
    fn name(&self) -> String {
        format!("{}/{}", self.system, self.here.variant)
    }

    fn carries(&self, payload: u64) -> bool {
        self.here.max_payload_bytes.is_none_or(|most| payload <= most)
    }

    /// Those of the payloads that it carries, as an experiment has them.
    fn payloads(&self, of: &[u64]) -> String {
        let carried = of.iter().filter(|payload| self.carries(**payload));
        carried.map(u64::to_string).collect::<Vec<_>>().join(",")
    }
}

/// Every variant that can run here, and the names of those that cannot, with the reason.
fn sort_out(known: &[Known]) -> (Vec<Here<'_>>, Vec<String>) {
    let (mut here, mut missing) = (Vec::new(), Vec::new());
    for row in known {
        let Some(description) = row.description.as_ref().filter(|_| row.available) else {
            missing.push(format!("{}: {}", row.system, row.reason.as_deref().unwrap_or("no reason is given")));
            continue;
        };
        let has_packet = description.settings.iter().any(|setting| setting.name == "packet");
        for variant in &row.variants {
            let declared = description.variant(&variant.variant).unwrap();
            if variant.available {
                here.push(Here { system: &row.system, here: variant, declared, has_packet });
            } else {
                let reason = variant.reason.as_deref().unwrap_or("no reason is given");
                missing.push(format!("{}/{}: {reason}", row.system, variant.variant));
            }
        }
    }
    (here, missing)
}

/// Those that declare the pattern.
fn carrying(mut variants: Vec<Here<'_>>, pattern: Pattern) -> Vec<Here<'_>> {
    variants.retain(|variant| variant.declared.patterns.contains(&pattern));
    variants
}

fn by_system<'a, 'b>(variants: &'b [Here<'a>]) -> BTreeMap<&'a str, Vec<&'b Here<'a>>> {
    let mut systems: BTreeMap<&str, Vec<&Here>> = BTreeMap::new();
    for variant in variants {
        systems.entry(variant.system).or_default().push(variant);
    }
    systems
}

/// What is wrong with a result, one line each.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }

    fn left(&mut self, finished: &Finished, place: &str) {
        for name in finished.left() {
            self.0.push(format!("{place}: left {name}"));
        }
    }
}

/// Checks what every sub-experiment must be, whatever its pattern; returns its name.
fn check_outcome<'a>(faults: &mut Faults, result: &'a SubExperimentResult, plan: &SubExperiment) -> &'a str {
    let name = &result.name;
    let complete = result.status == Status::Complete && result.error.is_none();
    faults.check(complete, || format!("{name}: {:?}, {:?}", result.status, result.error));
    let good = result.path_proof.as_ref().is_some_and(|proof| match proof.verdict {
        Verdict::Proven => true,
        Verdict::NotVisible => proof.claim == Claim::Other,
        Verdict::Failed => false,
    });
    faults.check(good, || format!("{name}: proof of the path: {:?}", result.path_proof));
    let found: Vec<u64> = result.cells.iter().map(|cell| cell.payload_bytes).collect();
    faults.check(found == plan.payloads, || format!("{name}: payloads {found:?}, planned {:?}", plan.payloads));
    name
}

fn skip_aloud(missing: &[String]) {
    for reason in missing {
        aloud(&format!("SKIPPED: {reason}"));
    }
    let required = std::env::var("TRIPMETER_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(missing.is_empty() || !required, "TRIPMETER_REQUIRE_ALL=1, and missing are {missing:#?}");
}

/// Checks the results of one system, of which the named variants may lose messages; returns the number of cells.
type Check = fn(&mut Faults, &Manifest, &Path, lossy: &[&str]) -> usize;

/// Runs an experiment with the variants of each system, and checks what comes of it.
fn hold_to(part: &str, variants: &[Here<'_>], experiment: fn(&[&Here<'_>]) -> String, check: Check) {
    let mut faults = Faults::default();
    let mut cells = 0;
    for (system, variants) in by_system(variants) {
        let folder = folder();
        let (file, results) = (folder.path().join("experiment.toml"), folder.path().join("results"));
        std::fs::write(&file, experiment(&variants)).unwrap();
        let arguments = ["run".as_ref(), file.as_os_str(), "-q".as_ref(), "-o".as_ref(), results.as_os_str()];
        let finished = Tripmeter::new(arguments).run();
        let good = finished.code == Some(exit::GOOD.into()) && finished.stderr.is_empty();
        faults.check(good, || format!("{system}: exit code {:?}\n{}", finished.code, finished.stderr));
        if results.exists() {
            let may_lose = variants.iter().filter(|variant| variant.declared.lossy);
            let lossy: Vec<&str> = may_lose.map(|variant| variant.here.variant.as_str()).collect();
            cells += check(&mut faults, &manifest(&results), &results, &lossy);
        }
        faults.left(&finished, system);
        let took = finished.took.as_secs_f64();
        aloud(&format!("conformance, {part}: {system}: {} variants, {took:.1} s", variants.len()));
    }
    let (variants, found) = (variants.len(), faults.0.len());
    aloud(&format!("conformance, {part}: {variants} variants, {cells} cells, {found} faults"));
    assert!(cells > 0, "the built-in transports have it");
    assert!(faults.0.is_empty(), "{:#?}", faults.0);
}

#[test]
fn what_a_transport_does_not_declare_is_refused_by_the_plan() {
    let known = transports();
    let (variants, _) = sort_out(&known);
    for variant in &variants {
        let (name, folder) = (variant.name(), folder());
        let results = folder.path().join("results");
        let is_logger = variant.declared.patterns.contains(&Pattern::Log);
        let refused = |flag: &str, value: &str, parts: &[&str]| {
            let output = results.display().to_string();
            let words = ["run", "-t", &name, "-n", "10", "-o", &output, flag, value];
            let pattern: &[&str] = if is_logger && flag != "--pattern" { &["--pattern", "log"] } else { &[] };
            Tripmeter::new(words.iter().chain(pattern)).run().with(exit::USAGE).one_line(parts).clean();
            assert!(!results.exists(), "{name}: something was started");
        };
        for wait in Wait::ALL.iter().filter(|wait| !variant.declared.waits.contains(wait)) {
            let cannot = format!("cannot wait by '{wait}'");
            refused("--wait", wait.as_str(), &[&name, &cannot, variant.declared.waits[0].as_str(), "--wait"]);
        }
        for pattern in Pattern::ALL.iter().filter(|pattern| !variant.declared.patterns.contains(pattern)) {
            let can = variant.declared.patterns[0].as_str();
            refused("--pattern", pattern.as_str(), &[&format!("'{pattern}'"), can, "--pattern"]);
        }
        if is_logger {
            refused("--followers", "2", &["'--followers'", "'log'"]);
        } else if !variant.declared.fan_out {
            refused("--followers", "2", &[&name, "it reaches 1 follower", "2 were asked for", "--followers"]);
        }
        if variant.declared.patterns.contains(&Pattern::Channel) && !variant.declared.publishers {
            let output = results.display().to_string();
            let words = ["run", "-t", &name, "--pattern", "channel", "--publishers", "2", "-o", &output];
            let parts = [name.as_str(), "1 publisher", "2 were asked for", "uds/datagram", "--publishers"];
            Tripmeter::new(words).run().with(exit::USAGE).one_line(&parts).clean();
        }
        if let Some(most) = variant.here.max_payload_bytes.filter(|most| *most < LARGEST_BYTES) {
            refused("--payloads", &LARGEST_BYTES.to_string(), &[&name, &LARGEST_BYTES.to_string(), "bytes"]);
            aloud(&format!("conformance: {name} refuses more than {most} bytes"));
        }
    }
}
