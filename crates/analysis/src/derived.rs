//! Figures that follow from others: they are not stored.

use crate::table::{MetricTable, Row};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::{Process, Stream};
use tripmeter_stats::losses::Losses;

/// Figures that are losses of messages.
pub const LOST_MESSAGES: [Figure; 3] = [Figure::Lost, Figure::Late, Figure::Damaged];
/// Figures that are losses of calls.
pub const LOST_CALLS: [Figure; 2] = [Figure::TimedOut, Figure::Failed];

/// Of each round, how many of `lost` there were, of those sent.
pub fn losses(table: &MetricTable, row: Row, stream: &Stream, lost: &[Figure]) -> Vec<Losses> {
    let get = |figure| table.get(row, stream, figure, Statistic::Value);
    let Some(sent) = get(Figure::Sent) else { return Vec::new() };
    let lost: Vec<_> = lost.iter().filter_map(|figure| get(*figure)).collect();
    let of_round = |(round, sent): (&u32, &f64)| {
        let at = |one: &crate::Rounds<'_>| one.rounds.binary_search(round).map_or(0.0, |place| one.values[place]);
        (lost.iter().map(at).sum::<f64>() as u64, *sent as u64)
    };
    sent.rounds.iter().zip(sent.values).map(of_round).collect()
}

/// Of each round, the CPU time of a process as a share of one CPU.
pub fn cpu_share(table: &MetricTable, row: Row, process: Process) -> Vec<f64> {
    let get = |figure| table.get(row, &Stream::process(process), figure, Statistic::Value);
    let (Some(time), Some(window)) = (get(Figure::CpuTime), get(Figure::Window)) else { return Vec::new() };
    time.paired(&window).into_iter().map(|(time, window)| time / window.max(1.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Builder;
    use tripmeter_model::pace::OfferedLoad;
    use tripmeter_model::trial::Trial;

    #[test]
    fn losses_and_shares_are_of_each_round() {
        let mut builder = Builder::new(Vec::new());
        for (round, lost, cpu) in [(1, 3.0, 50.0), (2, 0.0, 100.0)] {
            let mut trial = Trial::new(OfferedLoad::Max);
            let process = Stream::process(Process::Leader);
            for (stream, figure, value) in [
                (&Stream::all(), Figure::Sent, 10.0),
                (&Stream::all(), Figure::Lost, lost),
                (&Stream::all(), Figure::Damaged, 1.0),
                (&process, Figure::CpuTime, cpu),
                (&process, Figure::Window, 200.0),
            ] {
                trial.put(stream, figure, value);
            }
            builder.add("a", round, 16, &trial);
        }
        let (table, row) = (builder.build(), Row { sub: 0, payload_bytes: 16, load: 0 });
        assert_eq!(losses(&table, row, &Stream::all(), &LOST_MESSAGES), [(4, 10), (1, 10)]);
        assert!(losses(&table, row, &Stream::last(), &LOST_MESSAGES).is_empty());
        assert_eq!(cpu_share(&table, row, Process::Leader), [0.25, 0.5]);
        assert!(cpu_share(&table, row, Process::Follower).is_empty());
    }
}
