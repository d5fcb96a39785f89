//! One suite for all transports: whatever `tripmeter transports` finds, built in or as plugin, is held to the contract by
//! the running program: one experiment per system, with all its variants, waits and patterns. Nothing is registered here.
//!
//! With `TRIPMETER_REQUIRE_ALL=1` a transport that is missing is a failure; without, its test says `SKIPPED:`. With
//! `TRIPMETER_NIGHTLY=1` what differs only in ways that others show too is measured as well.

mod calls;
mod channel;
mod log;
mod one_way;
mod round_trips;

use crate::common::{
    Known, KnownVariant, Tripmeter, alone, folder, is_nightly, is_required, manifest, say, transports,
};
use std::path::Path;
use std::time::Duration;
use tripmeter_abi::{Path as Claim, Pattern, Wait};
use tripmeter_model::exit;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::{PayloadResult, RunStatus, SubExperimentResult, Verdict};
use tripmeter_model::metric::{Process, Stream};
use tripmeter_model::payload::LARGEST_BYTES;
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::trial::Trial;

const SAMPLES: u64 = 200;
const WARMUP: u64 = 20;
/// Kinds of entries whose messages go one way.
const ONE_WAY: [&str; 3] = ["throughput", "channel", "publishers"];

/// The longest that an experiment with everything of one system takes, on a busy machine. A test makes two at most, and
/// the limits in .config/nextest.toml leave room for both.
fn longest() -> Duration {
    Duration::from_secs(if is_nightly() { 3000 } else { 850 })
}

/// The only variant that has handed messages over again, and late, when it was overrun and lost others.
const REPEATS_WHEN_OVERRUN: &str = "fastdds/data-sharing";

/// The only variant that loses messages at any pace, round trips, too, while the machine is too busy for its own threads.
const LOSES_WHEN_STARVED: &str = "zenoh/shm";

/// Whether messages of any pattern may be lost.
fn loses_when_starved(transport: &str) -> bool {
    transport.starts_with(LOSES_WHEN_STARVED)
}

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

    fn can(&self, pattern: Pattern) -> bool {
        self.declared.patterns.contains(&pattern)
    }

    fn carries(&self, payload: u64) -> bool {
        self.here.max_payload_bytes.is_none_or(|most| payload <= most)
    }

    /// The payloads that it carries, as an experiment has them.
    fn payloads(&self, of: &[u64]) -> String {
        let carried = of.iter().filter(|payload| self.carries(**payload));
        carried.map(u64::to_string).collect::<Vec<_>>().join(",")
    }

    /// All its waits, or the last of the enumeration where the others show nothing else.
    fn waits(&self, all: bool) -> &[Wait] {
        let waits = &self.declared.waits;
        let last = waits.iter().position(|wait| Some(wait) == waits.iter().max()).expect("every variant can wait");
        if all || is_nightly() { waits } else { &waits[last..=last] }
    }
}

/// The variants of a system that can run here, and those that cannot, with the reason.
fn sort_out(known: &Known) -> (Vec<Here<'_>>, Vec<String>) {
    let (mut here, mut missing) = (Vec::new(), Vec::new());
    let Some(description) = known.description.as_ref().filter(|_| known.available) else {
        return (here, vec![format!("{}: {}", known.system, known.reason.as_deref().unwrap_or("no reason is given"))]);
    };
    let has_packet = description.settings.iter().any(|setting| setting.name == "packet");
    for variant in &known.variants {
        let declared = description.variant(&variant.variant).unwrap();
        if variant.available {
            here.push(Here { system: &known.system, here: variant, declared, has_packet });
        } else {
            let reason = variant.reason.as_deref().unwrap_or("no reason is given");
            missing.push(format!("{}/{}: {reason}", known.system, variant.variant));
        }
    }
    (here, missing)
}

/// What is wrong, one line each.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }
}

/// One sub-experiment as it ended.
struct Outcome<'a> {
    result: &'a SubExperimentResult,
    plan: &'a SubExperiment,
    results: &'a Path,
    may_lose: bool,
}

impl Outcome<'_> {
    /// Whether round trips may be lost, too.
    fn loses_when_starved(&self) -> bool {
        loses_when_starved(&self.plan.transport.to_string())
    }

    /// Whether messages may have come again, where so many were lost.
    fn repeats(&self, lost: u64) -> bool {
        lost > 0 && self.plan.transport.to_string().starts_with(REPEATS_WHEN_OVERRUN)
    }

    /// Whether a trial has the cost of the leader, and of the follower if that is another process.
    fn has_cost(&self, trial: &Trial) -> bool {
        let [leader, follower] = [Process::Leader, Process::Follower].map(Stream::process);
        let is_used = [Figure::CpuTime, Figure::PeakMemory].iter().all(|of| trial.count(&leader, *of) > 0);
        is_used && trial.value(&follower, Figure::CpuTime).is_none() == self.result.same_process
    }

    fn place(&self, cell: &PayloadResult) -> String {
        format!("{} ({} bytes)", self.result.name, cell.payload_bytes)
    }
}

/// What must hold of the outcome.
type Check = fn(&mut Faults, &Outcome<'_>);

/// One sub-experiment that is to be measured.
struct Entry {
    kind: &'static str,
    name: String,
    text: String,
    may_lose: bool,
    check: Check,
}

impl Entry {
    /// Of this variant; `keys` are lines of TOML.
    fn new(variant: &Here<'_>, kind: &'static str, wait: Wait, keys: &str, check: Check) -> Self {
        let name = format!("{kind}_{}_{wait}", variant.here.variant);
        let transport = variant.name();
        let text = format!(
            "[[sub_experiment]]\nname = \"{name}\"\ntransport = \"{transport}\"\nwait = \"{wait}\"\n{}\n",
            keys.trim()
        );
        Self { kind, name, text, may_lose: variant.declared.lossy, check }
    }
}

/// What every sub-experiment must be, whatever its pattern.
fn check_outcome(faults: &mut Faults, outcome: &Outcome<'_>) {
    let Outcome { result, plan, .. } = outcome;
    let name = &result.name;
    let complete = result.status == RunStatus::Complete && result.error.is_none();
    faults.check(complete, || {
        let log = outcome.results.join(format!("logs/{name}.log"));
        let log = std::fs::read_to_string(log).unwrap_or_default();
        format!("{name}: {:?}, {:?}\n{log}", result.status, result.error)
    });
    let good = result.path_proof.as_ref().is_some_and(|proof| match proof.verdict {
        Verdict::Proven => true,
        Verdict::NotVisible => proof.claim == Claim::Other,
        Verdict::Failed => false,
    });
    faults.check(good, || format!("{name}: proof of the path: {:?}", result.path_proof));
    let found: Vec<u64> = result.cells.iter().map(|cell| cell.payload_bytes).collect();
    faults.check(found == plan.payloads && !found.is_empty(), || {
        format!("{name}: payloads {found:?}, planned {:?}", plan.payloads)
    });
}

/// Everything that a variant declares.
fn entries(variant: &Here<'_>) -> Vec<Entry> {
    let of_patterns = [round_trips::entries, one_way::entries, channel::entries, calls::entries, log::entries];
    of_patterns.iter().flat_map(|of_pattern| of_pattern(variant)).collect()
}

/// Messages one way that may be lost: the last are waited for.
fn waits_for_lost(entry: &Entry) -> bool {
    entry.may_lose && ONE_WAY.contains(&entry.kind)
}

/// Runs these in one experiment, and checks each.
fn hold_to(faults: &mut Faults, system: &str, entries: &[Entry], loss_timeout_s: u32) {
    if entries.is_empty() {
        return;
    }
    let folder = folder();
    let (file, results) = (folder.path().join("experiment.toml"), folder.path().join("results"));
    let texts: String = entries.iter().map(|entry| entry.text.as_str()).collect();
    let common = format!("floor = false\nattempts = 1\ntouch = \"full\"\nloss_timeout_s = {loss_timeout_s}.0\n");
    std::fs::write(&file, common + &texts).unwrap();
    let mut arguments = vec!["run".as_ref(), file.as_os_str(), "-q".as_ref(), "-o".as_ref(), results.as_os_str()];
    if entries.iter().any(waits_for_lost) {
        // A burst may be lost as a whole; each entry checks what must arrive.
        arguments.push("--allow-loss".as_ref());
    }
    if entries.iter().any(waits_for_lost) && REPEATS_WHEN_OVERRUN.starts_with(system) {
        // What may be damaged of which variant is checked below.
        arguments.push("--allow-damage".as_ref());
    }
    let finished = Tripmeter::new(arguments).start().wait(longest());
    let good = finished.code == Some(exit::GOOD.into()) && finished.stderr.is_empty();
    faults.check(good, || format!("{system}: exit code {:?}\n{}", finished.code, finished.stderr));
    finished.left().into_iter().for_each(|name| faults.0.push(format!("{system} left {name}")));
    let mut cells = 0;
    if results.exists() {
        let manifest = manifest(&results);
        for entry in entries {
            let index = manifest.sub_experiments.iter().position(|result| result.name == entry.name);
            let planned = manifest.plan.sub_experiments.iter().find(|plan| plan.name == entry.name);
            let Some((index, plan)) = index.zip(planned) else {
                faults.0.push(format!("{}: not measured", entry.name));
                continue;
            };
            let result = &manifest.sub_experiments[index];
            let outcome = Outcome { result, plan, results: &results, may_lose: entry.may_lose };
            check_outcome(faults, &outcome);
            (entry.check)(faults, &outcome);
            cells += result.cells.len();
        }
    }
    let took = finished.took.as_secs_f64();
    say(&format!("conformance: {system}: {} sub-experiments, {cells} payloads, {took:.1} s", entries.len()));
}

/// The system, if it is here; `None` says that it was skipped.
fn known(system: &str) -> Option<Known> {
    let row = transports().into_iter().find(|row| row.system == system).expect("its sidecar is in the program");
    let (_, missing) = sort_out(&row);
    missing.iter().for_each(|reason| say(&format!("SKIPPED: {reason}")));
    assert!(missing.is_empty() || !is_required(), "TRIPMETER_REQUIRE_ALL=1, and missing are {missing:#?}");
    row.available.then_some(row)
}

fn keeps_the_contract(system: &str) {
    let _alone = alone();
    let Some(known) = known(system) else { return };
    let all: Vec<Entry> = sort_out(&known).0.iter().flat_map(entries).collect();
    // Of the others, nothing may be given up too early.
    let (lossy, safe): (Vec<_>, Vec<_>) = all.into_iter().partition(waits_for_lost);
    let mut faults = Faults::default();
    hold_to(&mut faults, system, &safe, 30);
    hold_to(&mut faults, system, &lossy, 5);
    assert!(faults.0.is_empty(), "{:#?}", faults.0);
}

fn refuses_what_it_does_not_declare(system: &str) {
    let Some(known) = known(system) else { return };
    for variant in &sort_out(&known).0 {
        let (name, folder) = (variant.name(), folder());
        let results = folder.path().join("results");
        let is_logger = variant.can(Pattern::Log);
        let refused = |flag: &str, value: &str, parts: &[&str]| {
            let output = results.display().to_string();
            let words = ["ping", &name, "-n", "10", "-o", &output, flag, value];
            let pattern: &[&str] = if is_logger && flag != "--pattern" { &["--pattern", "log"] } else { &[] };
            Tripmeter::new(words.iter().chain(pattern)).run().with(exit::USAGE).one_line(parts).clean();
            assert!(!results.exists(), "{name}: something was started");
        };
        for wait in Wait::ALL.iter().filter(|wait| !variant.declared.waits.contains(wait)) {
            let cannot = format!("cannot wait by '{wait}'");
            refused("--wait", wait.as_str(), &[&name, &cannot, variant.declared.waits[0].as_str(), "--wait"]);
        }
        for pattern in Pattern::ALL.iter().filter(|pattern| !variant.can(**pattern)) {
            let can = variant.declared.patterns[0].as_str();
            refused("--pattern", pattern.as_str(), &[&format!("'{pattern}'"), can]);
        }
        if !is_logger && !variant.declared.fan_out {
            refused("--followers", "2", &[&name, "it reaches 1 follower", "2 were asked for", "--followers"]);
        }
        if variant.can(Pattern::Channel) && !variant.declared.publishers {
            let output = results.display().to_string();
            let words = ["publish", &name, "--publishers", "2", "-o", &output];
            let parts = [name.as_str(), "1 publisher", "2 were asked for", "uds/datagram", "--publishers"];
            Tripmeter::new(words).run().with(exit::USAGE).one_line(&parts).clean();
        }
        if let Some(most) = variant.here.max_payload_bytes.filter(|most| *most < LARGEST_BYTES) {
            refused("--payloads", &LARGEST_BYTES.to_string(), &[&name, &LARGEST_BYTES.to_string(), "bytes"]);
            say(&format!("conformance: {name} refuses more than {most} bytes"));
        }
    }
}

/// Makes the tests of these systems.
macro_rules! systems {
    ($($test:ident $system:literal)*) => {
        mod contract {
            $(#[test] fn $test() { crate::conformance::keeps_the_contract($system) })*
        }
        mod two_at_once {
            $(#[test] fn $test() { crate::conformance::round_trips::two_experiments_at_once_do_not_disturb_each_other($system) })*
        }
        mod refusals {
            $(#[test] fn $test() { crate::conformance::refuses_what_it_does_not_declare($system) })*
        }
    };
}

// Calls it with the folders of `transports/`.
include!(concat!(env!("OUT_DIR"), "/systems.rs"));
