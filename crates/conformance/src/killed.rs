//! Killing a measuring worker: the run ends with an error that names the worker, and leaves nothing behind.

use crate::entry::{Faults, VariantHere};
use crate::suite::{Suite, SuiteError};
use crate::traces::{self, Workers};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};
use tripmeter_model::pattern::facts;
use tripmeter_model::{exit, folder};

/// Payload sizes: so many that the run is far from its end when the first is measured.
const PAYLOADS: std::ops::Range<u64> = 16..316;

/// Kills the follower of one run and the leader of another.
pub(crate) fn check(suite: &Suite, faults: &mut Faults, variant: &VariantHere<'_>) -> Result<(), SuiteError> {
    let name = variant.name();
    let measured = variant.declared.patterns.iter().find(|pattern| !facts(**pattern).is_log());
    let Some((pattern, wait)) = measured.zip(variant.declared.waits.first()) else {
        (suite.say)(&format!("conformance: {name}: no process is killed, as none receives messages from another"));
        return Ok(());
    };
    let sizes: Vec<u64> = PAYLOADS.collect();
    let payloads = variant.payloads(&sizes);
    // If both sides share a process, there is only a leader.
    let victims = [("follower", !variant.declared.same_process), ("leader", true)];
    for (victim, _) in victims.into_iter().filter(|(_, is_there)| *is_there) {
        let results = suite.folder()?;
        let output = results.path().display().to_string();
        let words = [pattern.as_str(), &name, "--no-spin", "-q", "--no-floor", "--wait", wait.as_str(), "-o", &output];
        let sizes = ["-n", "200", "--attempts", "1", "--payloads", &payloads];
        let mut run = suite.start(&[&words[..], &sizes].concat())?;
        let (begin, mut killed) = (Instant::now(), None);
        while killed.is_none() && !run.has_ended() && begin.elapsed() < suite.longest() {
            std::thread::sleep(Duration::from_millis(5));
            let has_payload = folder::read(results.path(), |text| text.into())
                .is_ok_and(|manifest| manifest.sub_experiments.iter().any(|result| !result.cells.is_empty()));
            let Workers { leader, follower } = traces::workers(run.pid());
            let pid = if victim == "leader" { leader } else { follower };
            let pid = pid.filter(|_| has_payload).and_then(|pid| Pid::from_raw(pid.cast_signed()));
            killed = pid.filter(|pid| kill_process(*pid, Signal::KILL).is_ok()).map(|_| Instant::now());
        }
        let finished = run.wait(suite.longest());
        let (code, stderr) = (finished.code(), &finished.stderr);
        let Some(killed) = killed else {
            faults
                .0
                .push(format!("{name}: it ended before its {victim} could be killed: exit code {code:?}\n{stderr}"));
            continue;
        };
        (suite.say)(&format!("conformance: {name} ends {:.1} s after its {victim}", killed.elapsed().as_secs_f64()));
        let is_named = [victim, "signal 9 (kill)"].iter().all(|part| stderr.contains(part));
        let good = code == Some(exit::PARTIAL.into()) && is_named && stderr.lines().count() == 1;
        faults.check(good, || format!("{name}: its {victim} was killed: exit code {code:?}\n{stderr}"));
        finished
            .left()
            .into_iter()
            .for_each(|left| faults.0.push(format!("{name}: its {victim} was killed: {left} is left")));
    }
    Ok(())
}
