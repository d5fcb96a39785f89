//! Two hosts side by side: their machines, settings that disturb measurements, interfaces, clocks and transports.

use crate::document::{Block, Cell, Column, Document, Note, Table};
use crate::number::{counted, significant};
use std::collections::BTreeSet;
use tripmeter_model::audit::{Audit, Level};
use tripmeter_model::host::{ClockOffset, HostLook, MachineLook, SystemLook};
use tripmeter_model::manifest::Network;

/// Maximum width of a line.
const COLUMNS: u16 = 118;
/// Text for an unknown value.
const NOTHING: &str = "-";

/// This machine and another one: a row for each fact, the offset of the clocks, and notes on facts that are not
/// visible.
pub fn side_by_side(own: &MachineLook, other: &HostLook) -> Document {
    let title = format!("This host and '{}'", other.to);
    let mut rows = machine(own, &other.machine);
    rows.extend(network(other));
    rows.extend(checks(&own.audit, &other.machine.audit));
    rows.extend(systems(own, &other.machine));
    let columns = vec![
        Column::words("differs", "", ""),
        Column::words("fact", "fact", ""),
        Column::words("here", "here", ""),
        Column::words("there", &other.to, ""),
    ];
    let differing = rows.iter().filter(|row| row.differs()).count();
    let row = |row: Fact| {
        let mark = if row.differs() { "≠" } else { "" };
        (None, [mark.to_owned(), row.name, row.here, row.there].map(Cell::text).to_vec())
    };
    let table = Table::new(title, columns, rows.into_iter().map(row).collect()).within(COLUMNS);
    let mut blocks = vec![Block::Table(table), Block::Text(format!("{} (≠)", counted(differing, "difference")))];
    blocks.push(Block::Text(clocks(other)));
    let mut hidden: Vec<String> = Vec::new();
    for what in &other.here.hidden {
        let both = if other.there.hidden.contains(what) { format!(" and on '{}'", other.to) } else { String::new() };
        hidden.push(format!("not visible here{both}: {what}"));
    }
    let only_there = other.there.hidden.iter().filter(|what| !other.here.hidden.contains(what));
    hidden.extend(only_there.map(|what| format!("not visible on '{}': {what}", other.to)));
    blocks.extend(Block::notes(hidden.into_iter().map(|text| Note::info("network", text)).collect()));
    Document { blocks }
}

struct Fact {
    name: String,
    here: String,
    there: String,
    /// True if it should be the same on both hosts.
    is_compared: bool,
}

impl Fact {
    fn differs(&self) -> bool {
        self.is_compared && self.here != self.there
    }
}

fn fact(name: impl Into<String>, [here, there]: [String; 2], is_compared: bool) -> Fact {
    Fact { name: name.into(), here, there, is_compared }
}

fn machine(own: &MachineLook, other: &MachineLook) -> Vec<Fact> {
    let both = |of: fn(&MachineLook) -> String| [of(own), of(other)];
    let memory = |look: &MachineLook| {
        format!("{} GiB", significant(look.environment.memory_bytes as f64 / (1u64 << 30) as f64, 3, 1))
    };
    vec![
        fact("name", both(|look| look.name.clone()), false),
        fact("machine", both(|look| look.environment.model.clone().unwrap_or_else(|| NOTHING.to_owned())), true),
        fact("kernel", both(|look| look.environment.kernel.clone()), true),
        fact("CPU", both(|look| look.environment.cpu_model.clone()), true),
        fact("CPUs", both(|look| look.environment.cpus.len().to_string()), true),
        fact("memory", [memory(own), memory(other)], true),
        fact("clock", both(|look| look.environment.clock.source.clone()), true),
    ]
}

/// Facts of both interfaces, and what they and the protocols have counted since they were started.
fn network(other: &HostLook) -> Vec<Fact> {
    let both = |of: fn(&Network) -> String| [of(&other.here), of(&other.there)];
    let mut facts = vec![
        fact("interface", both(|network| network.interface.clone()), false),
        fact("address", both(|network| network.address.clone()), false),
    ];
    let names: BTreeSet<&String> = other.here.facts.keys().chain(other.there.facts.keys()).collect();
    let of = |network: &Network, name: &str| network.facts.get(name).cloned().unwrap_or_else(|| NOTHING.to_owned());
    // Clock offsets always differ.
    let is_setting = |name: &str| !name.ends_with("_s") && !name.ends_with("_ns");
    facts.extend(
        names.into_iter().map(|name| fact(name, [of(&other.here, name), of(&other.there, name)], is_setting(name))),
    );
    let names: BTreeSet<&String> = other.here.before.keys().chain(other.there.before.keys()).collect();
    let count = |network: &Network, name: &str| {
        network.before.get(name).map_or_else(|| NOTHING.to_owned(), ToString::to_string)
    };
    let counted =
        |name: &String| fact(format!("{name} so far"), [count(&other.here, name), count(&other.there, name)], false);
    let is_any = |name: &&String| {
        [&other.here, &other.there].iter().any(|network| network.before.get(*name).is_some_and(|n| *n > 0))
    };
    facts.extend(names.into_iter().filter(is_any).map(counted));
    facts
}

/// Checks that warn or fail on either host.
fn checks(own: &Audit, other: &Audit) -> Vec<Fact> {
    let is_bad = |audit: &Audit, name: &str| {
        audit.findings.iter().any(|finding| finding.check == name && finding.visible && finding.level != Level::Info)
    };
    let written = |audit: &Audit, name: &str| {
        let found = audit.findings.iter().find(|finding| finding.check == name);
        found.map_or_else(|| NOTHING.to_owned(), |finding| format!("{}: {}", finding.level, finding.value))
    };
    let names = own.findings.iter().chain(&other.findings).map(|finding| finding.check.as_str());
    let mut bad: Vec<&str> = Vec::new();
    for name in names.filter(|name| is_bad(own, name) || is_bad(other, name)) {
        if !bad.contains(&name) {
            bad.push(name);
        }
    }
    bad.into_iter().map(|name| fact(name, [written(own, name), written(other, name)], false)).collect()
}

fn systems(own: &MachineLook, other: &MachineLook) -> Vec<Fact> {
    let written = |look: Option<&SystemLook>| {
        let Some(look) = look else { return "not there".to_owned() };
        match (&look.problem, &look.version, &look.system_version) {
            (Some(why), ..) => why.clone(),
            (None, Some(version), Some(drives)) if drives != version => format!("{version} ({drives})"),
            (None, version, _) => version.clone().unwrap_or_default(),
        }
    };
    let names: BTreeSet<&String> = own.systems.keys().chain(other.systems.keys()).collect();
    let row = |name: &String| fact(name, [own, other].map(|look| written(look.systems.get(name))), true);
    names.into_iter().map(row).collect()
}

/// Time in the largest unit that yields at least 1.
fn time(ns: u64) -> String {
    let (divisor, unit) = match ns {
        1_000_000_000.. => (1e9, "s"),
        1_000_000.. => (1e6, "ms"),
        _ => (1e3, "µs"),
    };
    format!("{} {unit}", significant(ns as f64 / divisor, 3, 3))
}

/// Sentence on the offset of the other host's time of day.
fn clocks(other: &HostLook) -> String {
    match (other.clock, &other.clock_problem) {
        (Some(ClockOffset { offset_ns, error_ns }), _) => {
            let way = if offset_ns < 0 { "behind" } else { "ahead of" };
            let (offset, error) = (time(offset_ns.unsigned_abs()), time(error_ns));
            format!(
                "The time of day of '{}' is {offset} {way} this one, ± {error} (half of the shortest round trip).",
                other.to
            )
        }
        (None, why) => {
            let why = why.as_deref().unwrap_or("it was not measured");
            format!("The time of day of '{}' is unknown: {why}.", other.to)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use std::collections::BTreeMap;
    use tripmeter_model::audit::{Activity, Finding};

    fn machine(name: &str, kernel: &str, level: Level) -> MachineLook {
        let mut environment = fixture::manifest().environment;
        environment.kernel = kernel.to_owned();
        let [check, value, limit] = ["governor", "powersave", "performance"].map(str::to_owned);
        let findings = vec![Finding { check, level, visible: true, value, limit, fix: None }];
        let audit =
            Audit { cpus: vec![0], findings, activity: Activity::default(), hiccups: vec![], processes: vec![] };
        let tcp = SystemLook { version: Some("0.1.0".to_owned()), ..SystemLook::default() };
        let systems = BTreeMap::from([("tcp".to_owned(), tcp)]);
        MachineLook { name: name.to_owned(), environment, audit, systems }
    }

    #[test]
    fn facts_stand_side_by_side_and_differences_are_marked() {
        let mtu = |mtu: &str| Network {
            interface: "eth0".to_owned(),
            facts: BTreeMap::from([("mtu".to_owned(), mtu.to_owned())]),
            before: BTreeMap::from([("rx_dropped".to_owned(), 3), ("rx_errors".to_owned(), 0)]),
            ..Network::default()
        };
        let mut other = HostLook {
            to: "lab2".to_owned(),
            machine: machine("b", "6.2", Level::Warn),
            here: mtu("1500"),
            there: mtu("9000"),
            clock: Some(ClockOffset { offset_ns: -1_234_000, error_ns: 20_500 }),
            clock_problem: None,
        };
        other.machine.systems.clear();
        let text = fixture::text(&side_by_side(&machine("a", "6.1", Level::Info), &other));
        let row = |fact: &str| {
            text.lines().find(|line| line.trim_start_matches("≠ ").trim_start().starts_with(fact)).unwrap()
        };
        assert!(row("kernel").starts_with('≠') && row("mtu").starts_with('≠') && row("tcp").starts_with('≠'), "{text}");
        assert!(!row("name").starts_with('≠') && row("governor").contains("info: powersave"), "{text}");
        assert!(row("governor").contains("warn: powersave") && row("tcp").contains("not there"), "{text}");
        assert!(row("rx_dropped so far").contains('3') && !text.contains("rx_errors"), "{text}");
        assert!(text.contains("of 'lab2' is 1.23 ms behind this one, ± 20.5 µs"), "{text}");
        assert!(text.contains("3 differences (≠)"), "{text}");
    }
}
