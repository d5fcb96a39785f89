//! One suite for all transports: whatever `tripmeter transports` finds, built in or as plugin, is held to the contract by
//! the running program. Nothing is registered here.
//!
//! With `TRIPMETER_REQUIRE_ALL=1` a transport that is missing is a failure; without, it is skipped aloud.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Finished, Known, KnownVariant, Tripmeter, alone, aloud, csv_payloads, folder, manifest, transports};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use tripmeter_abi::{Path as Claim, Pattern, Wait};
use tripmeter_model::exit;
use tripmeter_model::manifest::{Cell, Counts, Figures, Manifest, Status, SubExperimentResult, Verdict};
use tripmeter_model::payload::LARGEST_BYTES;

const SAMPLES: u64 = 200;
const WARMUP: u64 = 20;
/// Round sizes, and odd ones next to the borders of packets and pages.
const PAYLOADS: [u64; 8] = [16, 17, 1 << 10, 4095, 4097, 64 << 10, 65_537, 1 << 20];
const BYTES_OF_LARGEST: u64 = PAYLOADS[PAYLOADS.len() - 1];

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

    fn payloads(&self) -> Vec<u64> {
        let most = self.here.max_payload_bytes.unwrap_or(BYTES_OF_LARGEST);
        PAYLOADS.into_iter().filter(|payload| *payload <= most).collect()
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

/// An experiment of these variants: every wait that they declare, nothing and everything touched, whole and in packets.
fn experiment(variants: &[&Here<'_>]) -> String {
    let mut text = format!("floor = false\nsamples = {SAMPLES}\nwarmup = {WARMUP}\nloss_timeout_s = 15.0\n");
    for variant in variants {
        let payloads = variant.payloads().iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let mut add = |transport: &str, wait: &Wait, touch: &str| {
            writeln!(
                text,
                "[[sub_experiment]]\ntransport = \"{transport}\"\nwait = \"{wait}\"\ntouch = \"{touch}\"\npayloads = \"{payloads}\""
            )
            .unwrap();
        };
        for wait in &variant.declared.waits {
            add(&variant.name(), wait, "none");
            add(&variant.name(), wait, "full");
            if variant.has_packet {
                add(&format!("{}?packet=4096", variant.name()), wait, "full");
            }
        }
    }
    text
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

fn check_results(faults: &mut Faults, manifest: &Manifest, results: &Path) -> usize {
    faults.check(manifest.status == Status::Complete, || format!("the experiment is {:?}", manifest.status));
    for (result, plan) in manifest.sub_experiments.iter().zip(&manifest.plan.sub_experiments) {
        let name = &result.name;
        let complete = result.status == Status::Complete && result.error.is_none();
        faults.check(complete, || format!("{name}: {:?}, {:?}", result.status, result.error));
        check_proof(faults, result);
        let found: Vec<u64> = result.cells.iter().map(|cell| cell.payload_bytes).collect();
        faults.check(found == plan.payloads, || format!("{name}: payloads {found:?}, planned {:?}", plan.payloads));
        result.cells.iter().for_each(|cell| check_cell(faults, name, cell));
        let rows = csv_payloads(&results.join(format!("measurements_{name}.csv")));
        let expected: Vec<u64> = found.iter().flat_map(|payload| vec![*payload; SAMPLES as usize]).collect();
        faults.check(rows == expected, || format!("{name}: {} rows of the CSV are not the samples", rows.len()));
        let histograms = std::fs::read_to_string(results.join(format!("measurements_{name}.hlog"))).unwrap();
        for payload in found {
            let lines = histograms.lines().filter(|line| line.starts_with(&format!("Tag=payload_{payload},")));
            faults.check(lines.count() == 1, || format!("{name}: not one histogram of {payload} bytes"));
        }
    }
    manifest.sub_experiments.iter().map(|result| result.cells.len()).sum()
}

fn check_proof(faults: &mut Faults, result: &SubExperimentResult) {
    let good = result.path_proof.as_ref().is_some_and(|proof| match proof.verdict {
        Verdict::Proven => true,
        Verdict::NotVisible => proof.claim == Claim::Other,
        Verdict::Failed => false,
    });
    faults.check(good, || format!("{}: proof of the path: {:?}", result.name, result.path_proof));
}

fn check_cell(faults: &mut Faults, name: &str, cell: &Cell) {
    let place = format!("{name}, {} bytes", cell.payload_bytes);
    let expected = Counts { sent: SAMPLES + WARMUP, received: SAMPLES + WARMUP, ..Counts::default() };
    faults.check(cell.counts == expected, || format!("{place}: {:?}", cell.counts));
    let samples = (cell.samples, cell.samples_planned, cell.warmup, &cell.cut_short);
    faults.check(samples == (SAMPLES, SAMPLES, WARMUP, &None), || format!("{place}: samples {samples:?}"));
    let (Some(rtt), Some(half)) = (cell.rtt_ns, cell.rtt_half_ns) else {
        return faults.check(false, || format!("{place}: no figures"));
    };
    faults.check(is_near(half, rtt.scaled(0.5)), || format!("{place}: {half:?} is not half of {rtt:?}"));
    let Figures { min, mean, stdev, median, p90, p99, p9999, max } = rtt;
    let rising = 0.0 < min && min <= median && median <= p90 && p90 <= p99 && p99 <= p9999 && p9999 <= max;
    faults.check(rising && min <= mean && mean <= max && stdev >= 0.0, || format!("{place}: {rtt:?}"));
    let sum_ns = mean * cell.samples as f64;
    faults.check(sum_ns <= cell.duration_ns as f64 * 1.01, || {
        format!("{place}: samples of {sum_ns} ns in {} ns", cell.duration_ns)
    });
}

/// Equal, but for what reading and writing a number may change in its last digit.
fn is_near(a: Figures, b: Figures) -> bool {
    let all = |f: Figures| [f.min, f.mean, f.stdev, f.median, f.p90, f.p99, f.p9999, f.max];
    all(a).iter().zip(all(b)).all(|(a, b)| (a - b).abs() <= b.abs() * 1e-12)
}

fn skip_aloud(missing: &[String]) {
    for reason in missing {
        aloud(&format!("SKIPPED: {reason}"));
    }
    let required = std::env::var("TRIPMETER_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(missing.is_empty() || !required, "TRIPMETER_REQUIRE_ALL=1, and missing are {missing:#?}");
}

#[test]
fn every_transport_keeps_the_contract() {
    let _alone = alone();
    let known = transports();
    let (variants, missing) = sort_out(&known);
    let mut faults = Faults::default();
    let mut cells = 0;
    for (system, variants) in by_system(&variants) {
        let folder = folder();
        let (file, results) = (folder.path().join("all.toml"), folder.path().join("results"));
        std::fs::write(&file, experiment(&variants)).unwrap();
        let arguments = ["run".as_ref(), file.as_os_str(), "-q".as_ref(), "-o".as_ref(), results.as_os_str()];
        let finished = Tripmeter::new(arguments).run();
        let good = finished.code == Some(exit::GOOD.into()) && finished.stderr.is_empty();
        faults.check(good, || format!("{system}: exit code {:?}\n{}", finished.code, finished.stderr));
        if results.exists() {
            cells += check_results(&mut faults, &manifest(&results), &results);
        }
        faults.left(&finished, system);
        aloud(&format!("conformance: {system}: {} variants, {:.1} s", variants.len(), finished.took.as_secs_f64()));
    }
    let systems = by_system(&variants).len();
    aloud(&format!(
        "conformance: {systems} transports, {} variants, {cells} cells, {} skipped, {} faults",
        variants.len(),
        missing.len(),
        faults.0.len()
    ));
    skip_aloud(&missing);
    assert!(faults.0.is_empty(), "{:#?}", faults.0);
}

#[test]
fn two_experiments_at_once_do_not_disturb_each_other() {
    let _alone = alone();
    let known = transports();
    let (variants, _) = sort_out(&known);
    let mut faults = Faults::default();
    for variant in &variants {
        let name = variant.name();
        // Four threads that poll would take turns on two processors.
        let wait = if variant.declared.waits.contains(&Wait::Block) { Wait::Block } else { variant.declared.waits[0] };
        let wait = wait.as_str();
        let folders = [folder(), folder()];
        let start = |results: &Path| {
            let output = results.display().to_string();
            let words = ["run", "-q", "--no-floor", "-t", &name, "--wait", wait, "-o", &output];
            let sizes = ["-n", "200", "--payloads", "16,64k", "--touch", "full", "--loss-timeout", "15"];
            Tripmeter::new(words.iter().chain(&sizes)).start()
        };
        let runs = folders.each_ref().map(|folder| start(folder.path()));
        for (run, results) in runs.into_iter().zip(&folders) {
            let finished = run.wait(common::LONGEST);
            let good = finished.code == Some(exit::GOOD.into());
            faults.check(good, || format!("{name}: exit code {:?}\n{}", finished.code, finished.stderr));
            if good {
                let manifest = manifest(results.path());
                manifest.sub_experiments[0].cells.iter().for_each(|cell| check_cell(&mut faults, &name, cell));
            }
            faults.left(&finished, &name);
        }
    }
    assert!(faults.0.is_empty(), "{:#?}", faults.0);
}

#[test]
fn what_a_transport_does_not_declare_is_refused_by_the_plan() {
    let known = transports();
    let (variants, _) = sort_out(&known);
    for variant in &variants {
        let (name, folder) = (variant.name(), folder());
        let results = folder.path().join("results");
        let refused = |flag: &str, value: &str, parts: &[&str]| {
            let output = results.display().to_string();
            let words = ["run", "-t", &name, "-n", "10", "-o", &output, flag, value];
            Tripmeter::new(words).run().with(exit::USAGE).one_line(parts).clean();
            assert!(!results.exists(), "{name}: something was started");
        };
        for wait in Wait::ALL.iter().filter(|wait| !variant.declared.waits.contains(wait)) {
            let cannot = format!("cannot wait by '{wait}'");
            refused("--wait", wait.as_str(), &[&name, &cannot, variant.declared.waits[0].as_str(), "--wait"]);
        }
        for pattern in Pattern::ALL.iter().filter(|pattern| !variant.declared.patterns.contains(pattern)) {
            refused("--pattern", pattern.as_str(), &[&format!("'{pattern}'"), "pingpong", "--pattern"]);
        }
        if let Some(most) = variant.here.max_payload_bytes.filter(|most| *most < LARGEST_BYTES) {
            refused("--payloads", &LARGEST_BYTES.to_string(), &[&name, &LARGEST_BYTES.to_string(), "bytes"]);
            aloud(&format!("conformance: {name} refuses more than {most} bytes"));
        }
    }
}
