use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;
use tripmeter_engine::audit::{CpuTime, stat};

#[derive(Debug)]
pub struct MachineLoad {
    measured: Vec<usize>,
    load: String,
    /// Time and result of the last reading.
    seen: Option<(Instant, BTreeMap<usize, CpuTime>)>,
    /// Busy share of each CPU between the last two readings, from 0 to 1.
    busy: BTreeMap<usize, f64>,
}

impl MachineLoad {
    pub fn new(measured: Vec<usize>) -> Self {
        Self { measured, load: "?".to_owned(), seen: None, busy: BTreeMap::new() }
    }

    pub fn look(&mut self) {
        let load = fs::read_to_string("/proc/loadavg").ok();
        self.load = load.as_deref().and_then(|text| text.split(' ').next()).unwrap_or("?").to_owned();
        if let Some(times) = fs::read_to_string("/proc/stat").ok().as_deref().and_then(stat) {
            self.take(Instant::now(), times);
        }
    }

    fn take(&mut self, now: Instant, times: BTreeMap<usize, CpuTime>) {
        if let Some((then, before)) = &self.seen {
            let elapsed_ns = now.duration_since(*then).as_nanos().max(1) as f64;
            let share = |(cpu, time): (&usize, &CpuTime)| {
                let used_ns = time.busy_ns.saturating_sub(before.get(cpu)?.busy_ns);
                Some((*cpu, (used_ns as f64 / elapsed_ns).min(1.0)))
            };
            self.busy = times.iter().filter_map(share).collect();
        }
        self.seen = Some((now, times));
    }

    /// Line of at most `columns`: each CPU in percent if there is room, else a bar per CPU.
    pub fn line(&self, columns: usize) -> String {
        let load = format!("load {}", self.load);
        let mark = |cpu: &usize| if self.measured.contains(cpu) { "*" } else { "" };
        let each = self.busy.iter().map(|(cpu, share)| format!("{cpu}{} {:.0} %", mark(cpu), share * 100.0));
        let each = format!("{load}, CPU {} (* measured)", each.collect::<Vec<_>>().join(", "));
        if self.busy.is_empty() {
            load
        } else if each.chars().count() <= columns {
            each
        } else {
            format!("{load}, CPUs {}", bars(self.busy.values().copied()))
        }
    }
}

pub fn bars(shares: impl Iterator<Item = f64>) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    shares.map(|share| BARS[((share.clamp(0.0, 1.0) * 7.0).round()) as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn cpus_are_busy_by_their_share_of_the_time_between_two_looks() {
        let mut machine = MachineLoad::new(vec![1]);
        machine.load = "0.50".to_owned();
        let times =
            |busy: [u64; 2]| busy.into_iter().map(|busy_ns| CpuTime { busy_ns, steal_ns: 0 }).enumerate().collect();
        let begin = Instant::now();
        machine.take(begin, times([0, 1_000]));
        assert_eq!(machine.line(80), "load 0.50");
        machine.take(begin + Duration::from_secs(1), times([250_000_000, 2_000_001_000]));
        assert_eq!(machine.line(80), "load 0.50, CPU 0 25 %, 1* 100 % (* measured)");
        assert_eq!(machine.line(20), "load 0.50, CPUs ▃█");
    }
}
