//! Processes that try to get into a secured transport.

use super::Run;
use crate::channel::{Heard, Incoming};
use crate::spawn::Worker;
use crate::wire::{Intrusion, ToWorker};
use crate::worker::intruder;
use std::collections::BTreeMap;
use std::fs::File;
use std::time::{Duration, Instant};
use tripmeter_model::manifest::IntruderTrial;

/// How long an intruder may take to end after its last word.
const ENDING_TIME: Duration = Duration::from_secs(2);

/// Lets one process try; one that crashes or hangs has not tried.
pub(super) fn attempt(
    run: &Run<'_>,
    intrusion: &Intrusion,
    environment: &BTreeMap<String, String>,
    log: &File,
) -> IntruderTrial {
    let begin = Instant::now();
    observe(run, intrusion, environment, log).unwrap_or_else(|why| IntruderTrial {
        kind: intrusion.kind,
        refused: None,
        waited_ns: begin.elapsed().as_nanos() as u64,
        why,
    })
}

fn observe(
    run: &Run<'_>,
    intrusion: &Intrusion,
    environment: &BTreeMap<String, String>,
    log: &File,
) -> Result<IntruderTrial, String> {
    let failed = |error: std::io::Error| format!("the intruder cannot be started: {error}");
    let mut worker = Worker::spawn(&run.options.tripmeter, environment, Some(log)).map_err(failed)?;
    worker.send(&ToWorker::Intrude(Box::new(intrusion.clone()))).map_err(failed)?;
    let (begin, limit) = (Instant::now(), intruder::longest(intrusion));
    let mut said = Incoming::new(worker.stream.try_clone().map_err(failed)?);
    let said = loop {
        match said.next::<IntruderTrial>(Duration::from_millis(200)) {
            Ok(Heard::Message(trial)) => break Some(trial),
            Ok(Heard::Nothing) => {}
            Ok(Heard::End) | Err(_) => break None,
        }
        if run.stopped() {
            return Err("interrupted".to_owned());
        }
        if begin.elapsed() > limit {
            return Err(format!("the intruder hung for {} s and was killed", limit.as_secs()));
        }
    };
    worker.end(ENDING_TIME);
    said.ok_or_else(|| {
        let how = worker.crash().unwrap_or_else(|| "ended without a word".to_owned());
        format!("the intruder process {how}")
    })
}
