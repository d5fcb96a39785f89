//! Background load of a sub-experiment: its process, and its work while a payload was measured.

use crate::audit::OWN_LOAD;
use crate::channel::{Heard, Incoming};
use crate::os;
use crate::spawn::{ROOT, Worker};
use crate::wire::{BackgroundPart, BackgroundReading, ToWorker};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use tripmeter_model::audit::ProcessActivity;
use tripmeter_model::figure::Figure;
use tripmeter_model::interference::BackgroundLoad;
use tripmeter_model::manifest::PayloadResult;
use tripmeter_model::metric::Stream;

/// Longest time for a load to start or to answer: it competes for the CPUs that it keeps busy.
const LONGEST_ANSWER: Duration = Duration::from_secs(30);
/// Longest time that the load's process takes to end.
const LONGEST_END: Duration = Duration::from_secs(2);
/// Time after which a load ends by itself, even if the plan takes longer.
const LONGEST_LOAD: Duration = Duration::from_secs(48 * 3600);

/// Running load. It ends when dropped.
pub(super) struct RunningBackground {
    load: BackgroundLoad,
    worker: Worker,
    incoming: Incoming,
    begin: BackgroundReading,
    end: BackgroundReading,
}

impl RunningBackground {
    /// Starts the load; it ends by itself after `limit`. The error is the cause, in one line.
    pub(super) fn start(tripmeter: &Path, load: BackgroundLoad, limit: Duration, log: &File) -> Result<Self, String> {
        let failed = |error: io::Error| format!("the load '{load}' cannot be started: {error}");
        let mut worker =
            Worker::spawn(tripmeter, Path::new(ROOT), &BTreeMap::new(), Some(log), None).map_err(failed)?;
        let limit_ns = limit.min(LONGEST_LOAD).as_nanos() as u64;
        worker.send(&ToWorker::Background(BackgroundPart { load, limit_ns })).map_err(failed)?;
        let incoming = Incoming::new(worker.stream.try_clone().map_err(failed)?);
        Ok(Self { load, worker, incoming, begin: BackgroundReading::default(), end: BackgroundReading::default() })
    }

    /// Takes the reading at the start of a payload. Fails if the load has ended or does not answer.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        self.begin = self.read()?;
        Ok(())
    }

    /// Takes the reading at the end of a payload, with the errors of [`RunningBackground::begin`].
    pub(super) fn end(&mut self) -> Result<(), String> {
        self.end = self.read()?;
        Ok(())
    }

    fn read(&mut self) -> Result<BackgroundReading, String> {
        if self.worker.send(&ToWorker::Continue).is_err() {
            return Err(self.gone());
        }
        let begin = Instant::now();
        while let Some(left) = LONGEST_ANSWER.checked_sub(begin.elapsed()) {
            match self.incoming.next::<BackgroundReading>(left) {
                Ok(Heard::Message(BackgroundReading { failed: Some(why), .. })) => return Err(why),
                Ok(Heard::Message(reading)) => return Ok(reading),
                Ok(Heard::Nothing) => {}
                Ok(Heard::End) | Err(_) => return Err(self.gone()),
            }
        }
        let stopped = if os::is_stopped(self.worker.pid()) { "; its process was stopped by a signal" } else { "" };
        Err(format!("the load '{}' does not answer (limit {} s){stopped}", self.load, LONGEST_ANSWER.as_secs()))
    }

    /// Ends the process, and describes its end.
    fn gone(&mut self) -> String {
        let was_killed = self.worker.end(LONGEST_END);
        let how = self.worker.failure().filter(|_| !was_killed);
        let how = how.map_or_else(String::new, |how| format!("; its process {how}"));
        format!("the load '{}' ended during the measurement{how}", self.load)
    }

    /// Ends the load, and returns its total activity for the audit.
    pub(super) fn finish(mut self) -> ProcessActivity {
        let cpu_time_ns = self.read().map_or(self.end.cpu_time_ns, |reading| reading.cpu_time_ns);
        ProcessActivity { who: format!("{OWN_LOAD}{}", self.load), cpu_time_ns, ..ProcessActivity::default() }
    }

    /// Adds the load's work between the two readings to every trial of the payload.
    pub(super) fn put(&self, cell: &mut PayloadResult) {
        let seconds = self.end.at_ns.saturating_sub(self.begin.at_ns) as f64 / 1e9;
        if seconds <= 0.0 {
            return;
        }
        let between =
            |of: fn(&BackgroundReading) -> u64| of(&self.end).saturating_sub(of(&self.begin)) as f64 / seconds;
        let figures = [
            (Figure::LoadCpu, true, between(|reading| reading.cpu_time_ns) / 1e9),
            (Figure::LoadMemory, self.load.memory, between(|reading| reading.memory_bytes)),
            (Figure::LoadNetwork, self.load.network, between(|reading| reading.network_bytes)),
        ];
        for trial in &mut cell.trials {
            for (figure, _, value) in figures.iter().filter(|(_, is_asked, _)| *is_asked) {
                trial.put(&Stream::all(), *figure, *value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_model::pace::OfferedLoad;
    use tripmeter_model::trial::Trial;

    #[test]
    fn what_a_load_did_is_what_it_did_between_both_readings() {
        let reading = |at_ns, cpu_time_ns, memory_bytes| BackgroundReading {
            at_ns,
            cpu_time_ns,
            memory_bytes,
            ..BackgroundReading::default()
        };
        let load = RunningBackground {
            load: "cpu:1,memory".parse().unwrap(),
            worker: Worker::spawn(Path::new("true"), Path::new(ROOT), &BTreeMap::new(), None, None).unwrap(),
            incoming: Incoming::new(std::os::unix::net::UnixStream::pair().unwrap().0),
            begin: reading(1_000_000_000, 500_000_000, 100),
            end: reading(3_000_000_000, 3_500_000_000, 4100),
        };
        let mut cell = PayloadResult { trials: vec![Trial::new(OfferedLoad::Closed)], ..PayloadResult::default() };
        load.put(&mut cell);
        let value = |figure| cell.trials[0].value(&Stream::all(), figure);
        assert_eq!((value(Figure::LoadCpu), value(Figure::LoadMemory)), (Some(1.5), Some(2000.0)));
        assert_eq!(value(Figure::LoadNetwork), None, "what was not asked for is no figure");
    }
}
