//! An audit of the machine, as text.

use crate::document::{Block, Cell, Column, Document, Facts, Table};
use crate::number::counted;
use std::collections::BTreeMap;
use tripmeter_model::audit::{Audit, CheckInfo, Finding, Level};
use tripmeter_model::manifest::Manifest;

const COLUMNS: u16 = 118;

/// One row per finding, the worst first. Then the commands that fix them, counts per level, and what other users can
/// reach of each system during the measurement.
pub fn audit(audit: &Audit, open_to_others: &BTreeMap<&str, &[String]>) -> Document {
    let mut findings: Vec<&Finding> = audit.findings.iter().collect();
    // The sort is stable: within a level, checks keep their order, and invisible settings come last.
    findings.sort_by_key(|finding| (std::cmp::Reverse(finding.level), !finding.visible));
    let row = |finding: &&Finding| {
        let Finding { level, check, value, limit, .. } = finding;
        (None, vec![Cell::text(level.to_string()), Cell::text(check), Cell::text(value), Cell::text(limit)])
    };
    let columns = ["level", "check", "value", "limit"].map(|name| Column::words(name, name, ""));
    let table = Table::new(String::new(), columns.into(), findings.iter().map(row).collect()).within(COLUMNS);
    let fixes = findings.iter().filter_map(|finding| Some((finding.check.clone(), finding.fix.clone()?)));
    let open = open_to_others.iter();
    let open = open.flat_map(|(system, what)| what.iter().map(|what| ((*system).to_owned(), what.clone())));
    let pairs = |title: &str, pairs: Vec<(String, String)>| {
        (!pairs.is_empty()).then(|| Block::Facts(Facts { title: title.to_owned(), pairs }))
    };
    let blocks = [
        Some(Block::Table(table)),
        pairs("What would fix it:", fixes.collect()),
        Some(Block::Text(summary(audit))),
        pairs("What other users can reach during the measurement:", open.collect()),
    ];
    Document { blocks: blocks.into_iter().flatten().collect() }
}

fn summary(audit: &Audit) -> String {
    let of = |level| audit.at(level).filter(|finding| finding.visible).count();
    let hidden = audit.findings.iter().filter(|finding| !finding.visible).count();
    let levels = [Level::Fail, Level::Warn, Level::Info].map(|level| format!("{} {level}", of(level)));
    format!("{}, {hidden} not visible here (not assumed to be good)", levels.join(", "))
}

/// Checks with their sources, limits and fixes.
pub fn audit_checks(checks: &[CheckInfo]) -> Document {
    let one = |check: &CheckInfo| {
        let CheckInfo { name, source, limit, fix } = *check;
        let facts =
            [("reads", source), ("limit", limit), ("fix", fix)].into_iter().filter(|(_, fact)| !fact.is_empty());
        let pairs = facts.map(|(word, fact)| (word.to_owned(), fact.to_owned())).collect();
        Block::Facts(Facts { title: name.to_owned(), pairs })
    };
    Document { blocks: checks.iter().map(one).collect() }
}

/// Note on the audits before and after: `environment: 1 failure (steal), 2 warnings (load, turbo); see tripmeter
/// doctor`.
pub(crate) fn note(manifest: &Manifest) -> Option<String> {
    let environment = &manifest.environment;
    let audits = environment.audit_before.iter().chain(&environment.audit_after);
    let findings: Vec<&Finding> = audits.flat_map(|audit| &audit.findings).collect();
    let worst =
        |check: &str| findings.iter().filter(|finding| finding.check == check).map(|finding| finding.level).max();
    let named = |level: Level, noun: &str| {
        let mut names: Vec<&str> = Vec::new();
        for finding in &findings {
            if worst(&finding.check) == Some(level) && !names.contains(&finding.check.as_str()) {
                names.push(&finding.check);
            }
        }
        (!names.is_empty()).then(|| format!("{} ({})", counted(names.len(), noun), names.join(", ")))
    };
    let parts: Vec<String> =
        [named(Level::Fail, "failure"), named(Level::Warn, "warning")].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("environment: {}; see tripmeter doctor", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use tripmeter_model::audit::Activity;

    fn finding(check: &str, level: Level, value: &str, fix: Option<&str>) -> Finding {
        Finding {
            check: check.to_owned(),
            level,
            visible: !value.starts_with("not visible"),
            value: value.to_owned(),
            limit: "warn above 1 %, fail above 10 %".to_owned(),
            fix: fix.map(str::to_owned),
        }
    }

    fn example() -> Audit {
        let findings = vec![
            finding("turbo", Level::Info, "not visible here: /sys/x is not there", None),
            finding("clock-cost", Level::Info, "20 ns", None),
            finding("load", Level::Warn, "others used 20.0 % of a CPU: cc (7) 20.0 %", Some("stop it")),
            finding("steal", Level::Fail, "12.0 % of the time", Some("measure elsewhere")),
        ];
        let (cpus, activity) = (vec![0, 1], Activity::default());
        Audit { cpus, findings, activity, hiccups: Vec::new(), processes: Vec::new() }
    }

    #[test]
    fn the_worst_comes_first_and_commands_are_whole_lines() {
        let golden = "\
level check      value                                      limit
-------------------------------------------------------------------------------------------
fail  steal      12.0 % of the time                         warn above 1 %, fail above 10 %
warn  load       others used 20.0 % of a CPU: cc (7) 20.0 % warn above 1 %, fail above 10 %
info  clock-cost 20 ns                                      warn above 1 %, fail above 10 %
info  turbo      not visible here: /sys/x is not there      warn above 1 %, fail above 10 %

What would fix it:
  steal: measure elsewhere
  load:  stop it

1 fail, 1 warn, 1 info, 1 not visible here (not assumed to be good)

What other users can reach during the measurement:
  udp: its port
";
        let (open, none) = (["its port".to_owned()], BTreeMap::new());
        let text = |open: &BTreeMap<&str, &[String]>| fixture::text(&audit(&example(), open));
        assert_eq!(text(&BTreeMap::from([("udp", &open[..])])), golden);
        assert!(golden.starts_with(&text(&none)));
    }

    #[test]
    fn long_values_are_wrapped_and_long_commands_are_not() {
        let mut long = example();
        long.findings[2].value = "gaps ".repeat(60);
        long.findings[2].fix = Some("tee ".repeat(60).trim().to_owned());
        let text = fixture::text(&audit(&long, &BTreeMap::new()));
        let (table, fixes) = text.split_once("\nWhat").unwrap();
        assert!(table.lines().all(|line| line.chars().count() <= usize::from(COLUMNS)), "{table}");
        assert!(fixes.contains(long.findings[2].fix.as_ref().unwrap()));
    }

    #[test]
    fn warnings_before_and_after_a_run_are_one_line() {
        let mut manifest = fixture::manifest();
        assert_eq!(note(&manifest), None);
        manifest.environment.audit_before = Some(example());
        let mut after = example();
        after.findings[2].level = Level::Fail;
        after.findings[1].level = Level::Warn;
        manifest.environment.audit_after = Some(after);
        let line = "environment: 2 failures (load, steal), 1 warning (clock-cost); see tripmeter doctor";
        assert_eq!(note(&manifest).as_deref(), Some(line));
        assert!(fixture::all(&manifest).contains(line));
    }

    #[test]
    fn checks_are_listed() {
        let one = CheckInfo { name: "a", source: "/b", limit: "warn if c", fix: "d" };
        let text = fixture::text(&audit_checks(&[one, CheckInfo { fix: "", ..one }]));
        assert_eq!(text, "a\n  reads: /b\n  limit: warn if c\n  fix:   d\n\na\n  reads: /b\n  limit: warn if c\n");
    }
}
