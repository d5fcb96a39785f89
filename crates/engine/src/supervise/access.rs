//! Unauthorized peers that try to join a secured transport.

use super::state::Run;
use crate::channel::{Heard, Incoming};
use crate::spawn::Worker;
use crate::wire::{AccessAttempt, ToWorker};
use crate::worker::access;
use std::collections::BTreeMap;
use std::fs::File;
use std::time::{Duration, Instant};
use tripmeter_model::manifest::RefusalTrial;

/// Longest time that an unauthorized peer takes to end after its report.
const ENDING_TIME: Duration = Duration::from_secs(2);

/// Lets one unauthorized process try to join. After a crash or a hang, it is unknown if it was refused.
pub(super) fn attempt(
    run: &Run<'_>,
    attempt: &AccessAttempt,
    environment: &BTreeMap<String, String>,
    log: &File,
) -> RefusalTrial {
    let begin = Instant::now();
    observe(run, attempt, environment, log).unwrap_or_else(|why| RefusalTrial {
        kind: attempt.kind,
        refused: None,
        waited_ns: begin.elapsed().as_nanos() as u64,
        why,
    })
}

fn observe(
    run: &Run<'_>,
    attempt: &AccessAttempt,
    environment: &BTreeMap<String, String>,
    log: &File,
) -> Result<RefusalTrial, String> {
    let failed = |error: std::io::Error| format!("the unauthorized peer cannot be started: {error}");
    let mut worker = Worker::spawn(&run.options.tripmeter, &attempt.options.scratch_dir, environment, Some(log), None)
        .map_err(failed)?;
    worker.send(&ToWorker::AttemptAccess(Box::new(attempt.clone()))).map_err(failed)?;
    let (begin, limit) = (Instant::now(), access::longest(attempt));
    let mut said = Incoming::new(worker.stream.try_clone().map_err(failed)?);
    let said = loop {
        match said.next::<RefusalTrial>(Duration::from_millis(200)) {
            Ok(Heard::Message(trial)) => break Some(trial),
            Ok(Heard::Nothing) => {}
            Ok(Heard::End) | Err(_) => break None,
        }
        if run.stopped() {
            return Err("interrupted".to_owned());
        }
        if begin.elapsed() > limit {
            return Err(format!("the unauthorized peer hung for {} s and was killed", limit.as_secs()));
        }
    };
    worker.end(ENDING_TIME);
    said.ok_or_else(|| {
        let how = worker.crash().unwrap_or_else(|| "ended without a report".to_owned());
        format!("the unauthorized peer process {how}")
    })
}
