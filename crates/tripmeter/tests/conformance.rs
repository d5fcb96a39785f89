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
use tripmeter_model::rpc::{CallCounts, Mode};

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

/// Those that declare the pattern.
fn carrying(mut variants: Vec<Here<'_>>, pattern: Pattern) -> Vec<Here<'_>> {
    variants.retain(|variant| variant.declared.patterns.contains(&pattern));
    variants
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
fn every_transport_keeps_the_contract() {
    let _alone = alone();
    let known = transports();
    let (variants, missing) = sort_out(&known);
    let variants = carrying(variants, Pattern::PingPong);
    hold_to("round trips", &variants, experiment, |faults, manifest, results, _| {
        check_results(faults, manifest, results)
    });
    skip_aloud(&missing);
}

/// One-way messages: every wait, everything touched; at a moderate rate where the transport may lose some.
fn one_way_experiment(variants: &[&Here<'_>]) -> String {
    let mut text = format!("floor = false\npattern = \"throughput\"\nsamples = {SAMPLES}\ntouch = \"full\"\n");
    // Where messages get lost, the last ones are waited for; where they do not, the other side may be kept waiting.
    let may_lose = variants.iter().any(|variant| variant.declared.lossy);
    writeln!(text, "loss_timeout_s = {}", if may_lose { "2.0" } else { "15.0" }).unwrap();
    for variant in variants {
        let payloads = variant.payloads().into_iter().filter(|payload| [16, 4097, 65_537, 1 << 20].contains(payload));
        let payloads = payloads.map(|payload| payload.to_string()).collect::<Vec<_>>().join(",");
        let rate = if variant.declared.lossy { "500" } else { "max" };
        for wait in &variant.declared.waits {
            let name = variant.name();
            writeln!(
                text,
                "[[sub_experiment]]\ntransport = \"{name}\"\nwait = \"{wait}\"\nrate = \"{rate}\"\npayloads = \"{payloads}\""
            )
            .unwrap();
        }
    }
    text
}

/// Checks every cell, which has one trial; returns their number.
fn check_trials(faults: &mut Faults, manifest: &Manifest, results: &Path, lossy: &[&str]) -> usize {
    for (result, plan) in manifest.sub_experiments.iter().zip(&manifest.plan.sub_experiments) {
        let name = &result.name;
        let complete = result.status == Status::Complete && result.error.is_none();
        faults.check(complete, || format!("{name}: {:?}, {:?}", result.status, result.error));
        check_proof(faults, result);
        let csv = std::fs::read_to_string(results.join(format!("throughput_{name}.csv"))).unwrap_or_default();
        let rows = csv.lines().count();
        faults.check(rows == 1 + plan.payloads.len(), || format!("{name}: {rows} lines of CSV"));
        faults.check(result.cells.len() == plan.payloads.len(), || format!("{name}: {} payloads", result.cells.len()));
        let may_lose = lossy.contains(&plan.transport.variant.as_str());
        result.cells.iter().for_each(|cell| check_trial(faults, name, cell, may_lose));
    }
    manifest.sub_experiments.iter().map(|result| result.cells.len()).sum()
}

fn check_trial(faults: &mut Faults, name: &str, cell: &Cell, may_lose: bool) {
    let place = format!("{name}, {} bytes", cell.payload_bytes);
    let [trial] = &cell.trials[..] else {
        return faults.check(false, || format!("{place}: {} trials", cell.trials.len()));
    };
    let arrival = &trial.followers[0];
    let whole = arrival.received + arrival.lost + arrival.damaged == SAMPLES && trial.sent == SAMPLES;
    faults.check(whole, || format!("{place}: the counts do not add up: {trial:?}"));
    faults.check(arrival.lost == 0 || may_lose, || format!("{place}: {} lost", arrival.lost));
    let odd = arrival.duplicated + arrival.reordered + arrival.damaged;
    faults.check(odd == 0 && (arrival.received > 0 || may_lose), || format!("{place}: {arrival:?}"));
    let slower = arrival.received_hz <= trial.published_hz * 1.001;
    faults.check(slower, || format!("{place}: received faster than sent: {trial:?}"));
}

#[test]
fn every_transport_counts_what_arrives_one_way() {
    let _alone = alone();
    let known = transports();
    let variants = carrying(sort_out(&known).0, Pattern::Throughput);
    hold_to("one way", &variants, one_way_experiment, check_trials);
}

/// Messages in a row that are many for every queue, window and acknowledgement.
const MANY: u64 = 2000;

/// The way to wait that is farthest from a loop of ours: the system's own threads, where it calls back.
fn many_experiment(variants: &[&Here<'_>]) -> String {
    let mut text = format!("floor = false\nsamples = {MANY}\nloss_timeout_s = 15.0\n");
    for variant in variants {
        let (name, wait) = (variant.name(), variant.declared.waits.iter().max().unwrap());
        let largest = variant.payloads().into_iter().filter(|payload| *payload <= 64 << 10).max().unwrap();
        writeln!(text, "[[sub_experiment]]\ntransport = \"{name}\"\nwait = \"{wait}\"\npayloads = \"{largest}\"")
            .unwrap();
    }
    text
}

/// Checks that all were answered; returns the number of cells.
fn check_many(faults: &mut Faults, manifest: &Manifest) -> usize {
    for result in &manifest.sub_experiments {
        faults.check(result.cells.len() == 1, || format!("{}: {} payloads", result.name, result.cells.len()));
        for cell in &result.cells {
            let all = (cell.samples, cell.counts.received, cell.counts.lost);
            faults.check(all == (MANY, MANY + cell.warmup, 0), || format!("{}: {:?}", result.name, cell.counts));
        }
    }
    manifest.sub_experiments.iter().map(|result| result.cells.len()).sum()
}

#[test]
fn every_transport_answers_many_messages_in_a_row() {
    let _alone = alone();
    let known = transports();
    let variants = carrying(sort_out(&known).0, Pattern::PingPong);
    hold_to("many in a row", &variants, many_experiment, |faults, manifest, _, _| check_many(faults, manifest));
}

/// Topics in the part for messages at a fixed rate.
const TOPICS: u64 = 3;
/// Messages of each.
const PUBLISHED: u64 = 40;

/// Publishers in the part for several of one topic.
const PUBLISHERS: u64 = 2;

/// Messages at a fixed rate over several topics: every wait, everything touched.
fn channel_experiment(variants: &[&Here<'_>]) -> String {
    flow_experiment(variants, &format!("topics = {TOPICS}"))
}

/// The same with several publishers of one topic.
fn publishers_experiment(variants: &[&Here<'_>]) -> String {
    flow_experiment(variants, &format!("publishers = {PUBLISHERS}"))
}

fn flow_experiment(variants: &[&Here<'_>], links: &str) -> String {
    let mut text = format!("floor = false\npattern = \"channel\"\n{links}\nsamples = {PUBLISHED}\nwarmup = 5\n");
    // Where messages get lost, the last ones are waited for.
    let may_lose = variants.iter().any(|variant| variant.declared.lossy);
    let loss_timeout = if may_lose { "2.0" } else { "15.0" };
    writeln!(text, "rate = \"200\"\ntouch = \"full\"\nloss_timeout_s = {loss_timeout}").unwrap();
    for variant in variants {
        let payloads = variant.payloads().into_iter().filter(|payload| [16, 4097].contains(payload));
        let payloads = payloads.map(|payload| payload.to_string()).collect::<Vec<_>>().join(",");
        for wait in &variant.declared.waits {
            let name = variant.name();
            writeln!(text, "[[sub_experiment]]\ntransport = \"{name}\"\nwait = \"{wait}\"\npayloads = \"{payloads}\"")
                .unwrap();
        }
    }
    text
}

/// Checks every cell, which has one trial; returns their number.
fn check_channel(faults: &mut Faults, manifest: &Manifest, results: &Path, lossy: &[&str]) -> usize {
    for (result, plan) in manifest.sub_experiments.iter().zip(&manifest.plan.sub_experiments) {
        let name = &result.name;
        let complete = result.status == Status::Complete && result.error.is_none();
        faults.check(complete, || format!("{name}: {:?}, {:?}", result.status, result.error));
        check_proof(faults, result);
        let csv = std::fs::read_to_string(results.join(format!("channel_{name}.csv"))).unwrap_or_default();
        let rows = csv.lines().count() as u64;
        let expected = 1 + plan.payloads.len() as u64 * u64::from(plan.links()) * PUBLISHED;
        faults.check(rows == expected, || format!("{name}: {rows} lines of CSV, not {expected}"));
        faults.check(result.cells.len() == plan.payloads.len(), || format!("{name}: {} payloads", result.cells.len()));
        let may_lose = lossy.contains(&plan.transport.variant.as_str());
        let sent = u64::from(plan.links()) * PUBLISHED;
        result.cells.iter().for_each(|cell| check_flow(faults, name, cell, sent, may_lose, result.same_process));
    }
    manifest.sub_experiments.iter().map(|result| result.cells.len()).sum()
}

fn check_flow(faults: &mut Faults, name: &str, cell: &Cell, published: u64, may_lose: bool, same_process: bool) {
    let place = format!("{name}, {} bytes", cell.payload_bytes);
    let [trial] = &cell.channel[..] else {
        return faults.check(false, || format!("{place}: {} trials", cell.channel.len()));
    };
    let Counts { sent, received, lost, late, duplicated, reordered, damaged } = trial.counts;
    let whole = sent == published && received + lost + late + damaged == sent;
    faults.check(whole, || format!("{place}: the counts do not add up: {trial:?}"));
    let odd = late + duplicated + reordered + damaged + trial.before_sent;
    faults.check(odd == 0 && (lost == 0 || may_lose), || format!("{place}: {trial:?}"));
    let (Some(response), Some(service), Some(lateness)) = (trial.response_ns, trial.service_ns, trial.lateness_ns)
    else {
        return faults.check(may_lose, || format!("{place}: no figures"));
    };
    let counted = (response.samples, service.samples, lateness.samples) == (received, received, sent);
    faults.check(counted, || format!("{place}: samples of {trial:?}"));
    for one in [response, service] {
        let rising = 0.0 < one.min && one.min <= one.median && one.median <= one.p90 && one.p90 <= one.p99;
        let rising = rising && one.p99 <= one.p999 && one.p999 <= one.max && one.min <= one.mean && one.mean <= one.max;
        faults.check(rising, || format!("{place}: {one:?}"));
    }
    faults.check(response.mean >= service.mean, || format!("{place}: {response:?}, {service:?}"));
    let used = trial.publisher.cpu_time_ns > 0 && trial.publisher.peak_memory_bytes > 0;
    faults.check(used && trial.subscriber.is_none() == same_process, || format!("{place}: {trial:?}"));
}

#[test]
fn every_transport_publishes_at_a_fixed_rate_on_several_topics() {
    let _alone = alone();
    let known = transports();
    let variants = carrying(sort_out(&known).0, Pattern::Channel);
    hold_to("several topics", &variants, channel_experiment, check_channel);
}

/// As [`check_channel`], and what came of each publisher adds up to what came of all.
fn check_publishers(faults: &mut Faults, manifest: &Manifest, results: &Path, lossy: &[&str]) -> usize {
    for result in &manifest.sub_experiments {
        for trial in result.cells.iter().flat_map(|cell| &cell.channel) {
            let sum = trial.publishers.iter().map(|one| one.counts).fold(Counts::default(), |sum, one| sum + one);
            let each = trial.publishers.iter().all(|one| one.counts.sent == PUBLISHED && one.achieved_hz > 0.0);
            let whole = trial.publishers.len() as u64 == PUBLISHERS && each && sum == trial.counts;
            faults.check(whole, || format!("{}: {:?} of {:?}", result.name, trial.publishers, trial.counts));
        }
    }
    check_channel(faults, manifest, results, lossy)
}

#[test]
fn every_transport_that_says_so_takes_from_several_publishers_of_one_topic() {
    let _alone = alone();
    let known = transports();
    let mut variants = carrying(sort_out(&known).0, Pattern::Channel);
    variants.retain(|variant| variant.declared.publishers);
    hold_to("several publishers", &variants, publishers_experiment, check_publishers);
}

/// Calls of loggers.
fn log_experiment(variants: &[&Here<'_>]) -> String {
    let mut text = format!("pattern = \"log\"\nsamples = {SAMPLES}\nwarmup = {WARMUP}\npayloads = \"16,33,8192\"\n");
    for variant in variants {
        for wait in &variant.declared.waits {
            writeln!(text, "[[sub_experiment]]\ntransport = \"{}\"\nwait = \"{wait}\"", variant.name()).unwrap();
        }
    }
    text
}

/// Checks every cell; returns their number.
fn check_log(faults: &mut Faults, manifest: &Manifest, results: &Path, lossy: &[&str]) -> usize {
    for (result, plan) in manifest.sub_experiments.iter().zip(&manifest.plan.sub_experiments) {
        let name = &result.name;
        let complete = result.status == Status::Complete && result.error.is_none();
        faults.check(complete, || format!("{name}: {:?}, {:?}", result.status, result.error));
        check_proof(faults, result);
        faults.check(result.cells.len() == plan.payloads.len(), || format!("{name}: {} payloads", result.cells.len()));
        let rows = csv_payloads(&results.join(format!("measurements_{name}.csv"))).len();
        let expected = plan.payloads.len() * SAMPLES as usize;
        faults.check(rows == expected, || format!("{name}: {rows} rows of the CSV, not {expected}"));
        let table = std::fs::read_to_string(results.join(format!("log_{name}.csv"))).unwrap_or_default();
        let lines = table.lines().count();
        faults.check(lines == 1 + plan.payloads.len(), || format!("{name}: {lines} lines of figures"));
        let may_lose = lossy.contains(&plan.transport.variant.as_str());
        result.cells.iter().for_each(|cell| check_lines(faults, name, cell, may_lose));
    }
    manifest.sub_experiments.iter().map(|result| result.cells.len()).sum()
}

fn check_lines(faults: &mut Faults, name: &str, cell: &Cell, may_lose: bool) {
    let place = format!("{name}, {} bytes", cell.payload_bytes);
    let Counts { sent, received, lost, late, duplicated, reordered, damaged } = cell.counts;
    let whole = sent == SAMPLES + WARMUP && received + lost == sent && (lost == 0 || may_lose);
    faults.check(whole && late + duplicated + reordered + damaged == 0, || format!("{place}: {:?}", cell.counts));
    let Some((log, call)) = cell.log.as_ref().and_then(|log| Some((log, log.call_ns?))) else {
        return faults.check(false, || format!("{place}: no figures"));
    };
    let rising = 0.0 < call.min && call.min <= call.median && call.median <= call.p99 && call.p99 <= call.max;
    faults.check(rising && cell.samples == SAMPLES && cell.rtt_ns.is_none(), || format!("{place}: {call:?}"));
    let lines = log.lines;
    let prefixes = lines.bytes - received * (cell.payload_bytes + 1);
    let fits = lines.shortest_prefix_bytes * received <= prefixes && prefixes <= lines.longest_prefix_bytes * received;
    faults.check(lines.written == received && fits, || format!("{place}: {lines:?}"));
    let used = log.used.cpu_time_ns > 0 && log.cpu_max_percent >= Some(log.used.cpu_percent());
    faults.check(used && log.used.window_ns >= cell.duration_ns, || format!("{place}: {log:?}"));
}

#[test]
fn every_logger_writes_its_lines() {
    let _alone = alone();
    let known = transports();
    let variants = carrying(sort_out(&known).0, Pattern::Log);
    hold_to("loggers", &variants, log_experiment, check_log);
}

/// Clients in the part for calls.
const CLIENTS: u64 = 3;
/// Calls of each.
const CALLS: u64 = 40;

/// Calls by several clients: every wait and both modes, everything touched.
fn rpc_experiment(variants: &[&Here<'_>]) -> String {
    let mut text =
        format!("floor = false\npattern = \"rpc\"\nclients = \"{CLIENTS}\"\nsamples = {CALLS}\nwarmup = 5\n");
    text += "touch = \"full\"\nloss_timeout_s = 15.0\n";
    for variant in variants {
        let payloads = variant.payloads().into_iter().filter(|payload| [16, 4097].contains(payload));
        let payloads = payloads.map(|payload| payload.to_string()).collect::<Vec<_>>().join(",");
        let name = variant.name();
        for wait in &variant.declared.waits {
            let entry =
                format!("[[sub_experiment]]\ntransport = \"{name}\"\nwait = \"{wait}\"\npayloads = \"{payloads}\"\n");
            writeln!(text, "{entry}{entry}mode = \"fixed-freq\"\nrate = \"200\"").unwrap();
        }
    }
    text
}

/// Checks every cell, which has one trial; returns their number.
fn check_rpc(faults: &mut Faults, manifest: &Manifest, results: &Path) -> usize {
    for (result, plan) in manifest.sub_experiments.iter().zip(&manifest.plan.sub_experiments) {
        let name = &result.name;
        let complete = result.status == Status::Complete && result.error.is_none();
        faults.check(complete, || format!("{name}: {:?}, {:?}", result.status, result.error));
        check_proof(faults, result);
        let csv = std::fs::read_to_string(results.join(format!("rpc_{name}.csv"))).unwrap_or_default();
        let rows = csv.lines().count() as u64;
        let expected = 1 + plan.payloads.len() as u64 * CLIENTS * CALLS;
        faults.check(rows == expected, || format!("{name}: {rows} lines of CSV, not {expected}"));
        faults.check(result.cells.len() == plan.payloads.len(), || format!("{name}: {} payloads", result.cells.len()));
        let is_paced = plan.rpc.as_ref().is_some_and(|calls| calls.mode == Mode::FixedFreq);
        result.cells.iter().for_each(|cell| check_calls(faults, name, cell, is_paced, result.same_process));
    }
    manifest.sub_experiments.iter().map(|result| result.cells.len()).sum()
}

fn check_calls(faults: &mut Faults, name: &str, cell: &Cell, is_paced: bool, same_process: bool) {
    let place = format!("{name}, {} bytes", cell.payload_bytes);
    let [trial] = &cell.rpc[..] else {
        return faults.check(false, || format!("{place}: {} trials", cell.rpc.len()));
    };
    let all = CLIENTS * CALLS;
    let good = CallCounts { made: all, succeeded: all, ..CallCounts::default() };
    faults.check(trial.counts == good, || format!("{place}: {trial:?}"));
    let paced = [trial.pace.is_some(), trial.response_rtt_ns.is_some(), trial.lateness_ns.is_some()];
    faults.check(paced == [is_paced; 3], || format!("{place}: {trial:?}"));
    let Some(service) = trial.service_rtt_ns else { return faults.check(false, || format!("{place}: no figures")) };
    for one in trial.response_rtt_ns.into_iter().chain([service]) {
        let rising = 0.0 < one.min && one.min <= one.median && one.median <= one.p90 && one.p90 <= one.p99;
        let rising = rising && one.p99 <= one.p999 && one.p999 <= one.max && one.min <= one.mean && one.mean <= one.max;
        faults.check(rising && one.samples == all, || format!("{place}: {one:?}"));
    }
    let longer = trial.response_rtt_ns.is_none_or(|response| response.mean >= service.mean);
    faults.check(longer, || format!("{place}: {trial:?}"));
    // No client makes a call before the one before has ended.
    let calling_ns = service.mean * all as f64;
    faults.check(calling_ns <= (trial.duration_ns * CLIENTS) as f64 * 1.01, || format!("{place}: {trial:?}"));
    let used = trial.client.cpu_time_ns > 0 && trial.client.peak_memory_bytes > 0;
    faults.check(used && trial.server.is_none() == same_process, || format!("{place}: {trial:?}"));
}

#[test]
fn every_transport_answers_the_calls_of_several_clients() {
    let _alone = alone();
    let known = transports();
    let variants = carrying(sort_out(&known).0, Pattern::Rpc);
    hold_to("calls", &variants, rpc_experiment, |faults, manifest, results, _| check_rpc(faults, manifest, results));
}

/// Followers in the part for transports that reach several.
const FOLLOWERS: u32 = 3;

/// Several followers, everything touched. They share processors: none of them polls where it can do without.
fn several_experiment(variants: &[&Here<'_>]) -> String {
    let mut text = format!("floor = false\nfollowers = {FOLLOWERS}\nsamples = {SAMPLES}\nwarmup = {WARMUP}\n");
    text += "touch = \"full\"\nloss_timeout_s = 15.0\n";
    for variant in variants {
        let payloads = variant.payloads().into_iter().filter(|payload| [1024, 65_537].contains(payload));
        let payloads = payloads.map(|payload| payload.to_string()).collect::<Vec<_>>().join(",");
        let sleeps = variant.declared.waits.iter().filter(|wait| **wait != Wait::Poll);
        let waits: Vec<&Wait> = if sleeps.clone().count() > 0 { sleeps.collect() } else { vec![&Wait::Poll] };
        for wait in waits {
            let name = variant.name();
            writeln!(text, "[[sub_experiment]]\ntransport = \"{name}\"\nwait = \"{wait}\"\npayloads = \"{payloads}\"")
                .unwrap();
        }
    }
    text
}

/// Checks every cell; returns their number.
fn check_several(faults: &mut Faults, manifest: &Manifest) -> usize {
    for (result, plan) in manifest.sub_experiments.iter().zip(&manifest.plan.sub_experiments) {
        let name = &result.name;
        let complete = result.status == Status::Complete && result.error.is_none();
        faults.check(complete, || format!("{name}: {:?}, {:?}", result.status, result.error));
        check_proof(faults, result);
        faults.check(result.cells.len() == plan.payloads.len(), || format!("{name}: {} payloads", result.cells.len()));
        result.cells.iter().for_each(|cell| check_cell_of_several(faults, name, cell));
    }
    manifest.sub_experiments.iter().map(|result| result.cells.len()).sum()
}

fn check_cell_of_several(faults: &mut Faults, name: &str, cell: &Cell) {
    check_cell(faults, name, cell);
    let place = format!("{name}, {} bytes", cell.payload_bytes);
    let indices: Vec<u32> = cell.followers.iter().map(|at| at.follower).collect();
    faults.check(indices == [0, 1, 2], || format!("{place}: followers {indices:?}"));
    let (Some(rtt), Some(last)) = (cell.rtt_ns, cell.one_way_last_ns) else {
        return faults.check(false, || format!("{place}: no latency to the last"));
    };
    faults.check(last.mean < rtt.mean && last.max <= rtt.max, || format!("{place}: {last:?} is not within {rtt:?}"));
    for at in &cell.followers {
        faults.check(at.counts == cell.counts, || format!("{place}, follower {}: {:?}", at.follower, at.counts));
        let within = at.one_way_ns.is_some_and(|to| 0.0 < to.min && to.mean <= last.mean && to.max <= last.max);
        faults.check(within, || format!("{place}, follower {}: {:?}, last {last:?}", at.follower, at.one_way_ns));
    }
}

#[test]
fn every_transport_with_fan_out_reaches_several_followers() {
    let _alone = alone();
    let known = transports();
    let (mut variants, missing) = sort_out(&known);
    variants.retain(|variant| variant.declared.fan_out);
    hold_to("several followers", &variants, several_experiment, |faults, manifest, _, _| {
        check_several(faults, manifest)
    });
    skip_aloud(&missing);
}

#[test]
fn two_experiments_at_once_do_not_disturb_each_other() {
    let _alone = alone();
    let known = transports();
    let variants = carrying(sort_out(&known).0, Pattern::PingPong);
    let mut faults = Faults::default();
    for variant in &variants {
        let name = variant.name();
        // Four threads that poll would take turns on two processors.
        let wait = if variant.declared.waits.contains(&Wait::Block) { Wait::Block } else { variant.declared.waits[0] };
        let wait = wait.as_str();
        let folders = [folder(), folder()];
        let most = variant.here.max_payload_bytes.map_or(64 << 10, |most| most.min(64 << 10));
        let payloads = format!("16,{most}");
        let start = |results: &Path| {
            let output = results.display().to_string();
            let words = ["run", "-q", "--no-floor", "-t", &name, "--wait", wait, "-o", &output];
            let sizes = ["-n", "200", "--payloads", &payloads, "--touch", "full", "--loss-timeout", "15"];
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
