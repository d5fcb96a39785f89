//! Audit of a run, in its manifest and below its table.

use crate::common::{Tripmeter, folder, manifest};
use std::path::Path;
use tripmeter_model::audit::{Audit, Finding};
use tripmeter_model::exit;

fn names(audit: &Audit) -> Vec<&str> {
    audit.findings.iter().map(|finding| finding.check.as_str()).collect()
}

#[test]
fn a_run_is_audited_before_and_after_and_its_processes_are_accounted_for() {
    let folder = folder();
    let output = folder.path().display().to_string();
    let words = ["ping", "-q", "uds", "-n", "200", "--payloads", "1k", "--no-floor", "-o", &output];
    let finished = Tripmeter::with_spin(words).run().with(exit::GOOD).clean();
    let manifest = self::manifest(folder.path());
    let (before, after) = (manifest.environment.audit_before.unwrap(), manifest.environment.audit_after.unwrap());
    let (leader, follower) = (manifest.plan.leader_cpu.unwrap(), manifest.plan.follower_cpu.unwrap());
    assert!(before.cpus.contains(&leader) && before.cpus.contains(&follower), "{:?}", before.cpus);
    assert_eq!(before.hiccups.len(), before.cpus.len());
    let without_spin: Vec<&str> = names(&before).into_iter().filter(|name| *name != "hiccups").collect();
    assert_eq!(names(&after), without_spin);
    assert!(after.activity.duration_ns > 0);
    let processes = &manifest.sub_experiments[0].processes;
    assert_eq!(processes.iter().map(|process| process.who.as_str()).collect::<Vec<_>>(), ["leader", "follower"]);
    for (process, cpu) in processes.iter().zip([leader, follower]) {
        assert!(process.cpus.as_ref().is_none_or(|cpus| *cpus == [cpu]), "{process:?}");
        assert!(process.minor_faults > 0 && process.cpu_time_ns > 0, "{process:?}");
    }
    let output = folder.path().join("without").display().to_string();
    Tripmeter::new(words.iter().take(words.len() - 1).chain(&[output.as_str()])).run().with(exit::GOOD).clean();
    let without = self::manifest(Path::new(&output)).environment.audit_before.unwrap();
    assert!(without.hiccups.is_empty() && names(&without) == without_spin, "{without:?}");
    let is_waited_for = |finding: &Finding| !finding.value.contains("nothing was waited for between two readings");
    assert!(before.findings.iter().chain(&after.findings).all(is_waited_for));
    for check in ["steal", "pressure", "interrupts", "load", "thermal-throttling"] {
        let found = without.findings.iter().find(|finding| finding.check == check).unwrap();
        assert!(!found.visible && !is_waited_for(found), "{found:?}");
    }
    let is_noted = finished.stdout.lines().any(|line| line.starts_with("environment: "));
    assert_eq!(is_noted, !(before.refused().is_empty() && after.refused().is_empty()), "{}", finished.stdout);
}

#[test]
fn a_strict_run_starts_nothing_where_the_audit_warns() {
    let folder = folder();
    let output = folder.path().join("results");
    let words = ["ping", "-q", "--strict", "uds", "-n", "10", "--payloads", "1k", "--no-floor", "-o"];
    let words = words.into_iter().map(str::to_owned).chain([output.display().to_string()]);
    let finished = Tripmeter::with_spin(words).run().clean();
    if finished.code == Some(i32::from(exit::FINDING)) {
        finished.one_line(&["refused by --strict: ", "tripmeter doctor"]);
        assert!(!output.exists());
    } else {
        let manifest = manifest(&output);
        assert!(finished.with(exit::GOOD).stderr.is_empty());
        assert!(manifest.environment.audit_before.unwrap().refused().is_empty());
    }
}
