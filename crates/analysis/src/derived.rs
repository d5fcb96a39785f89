//! Figures that follow from others: they are not stored.

use crate::table::{MetricTable, Rounds, Row};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::Counts;
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
        let at = |one: &Rounds<'_>| one.at(*round).unwrap_or(0.0);
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

/// Of each round, context switches of a process per second, of either kind.
pub fn switches_hz(table: &MetricTable, row: Row, process: Process) -> Vec<f64> {
    let stream = Stream::process(process);
    let get = |figure| table.get(row, &stream, figure, Statistic::Value);
    let parts = [Figure::VoluntarySwitches, Figure::InvoluntarySwitches, Figure::Window].map(get);
    of_rounds(parts, |[voluntary, involuntary, window]| (voluntary + involuntary) * 1e9 / window.max(1.0))
}

/// Of each round, page faults of a process per message that was sent, or call that was made.
pub fn faults_per_message(table: &MetricTable, row: Row, process: Process) -> Vec<f64> {
    let get = |stream, figure| table.get(row, &stream, figure, Statistic::Value);
    let parts = [get(Stream::process(process), Figure::PageFaults), get(Stream::all(), Figure::Sent)];
    of_rounds(parts, |[faults, sent]| faults / sent.max(1.0))
}

/// A figure of each round that has all its parts.
fn of_rounds<const N: usize>(parts: [Option<Rounds<'_>>; N], of: impl Fn([f64; N]) -> f64) -> Vec<f64> {
    let Some(rounds) = parts.iter().flatten().map(|part| part.rounds).next() else { return Vec::new() };
    let all = |round: &u32| {
        let values = parts.each_ref().map(|part| part.as_ref().and_then(|part| part.at(*round)));
        values.iter().all(Option::is_some).then(|| of(values.map(|value| value.unwrap_or(f64::NAN))))
    };
    rounds.iter().filter_map(all).collect()
}

/// What happened to the messages of a stream, of each round that counts them.
pub fn counts(table: &MetricTable, row: Row, stream: &Stream) -> Vec<(u32, Counts)> {
    let get = |figure| table.get(row, stream, figure, Statistic::Value);
    let Some(sent) = get(Figure::Sent) else { return Vec::new() };
    let [received, lost, late, duplicated, reordered, damaged] =
        [Figure::Received, Figure::Lost, Figure::Late, Figure::Duplicated, Figure::Reordered, Figure::Damaged].map(get);
    let of_round = |(round, sent): (&u32, &f64)| {
        let at = |one: &Option<Rounds<'_>>| one.as_ref().and_then(|one| one.at(*round)).unwrap_or(0.0) as u64;
        let counts = Counts {
            sent: *sent as u64,
            received: at(&received),
            lost: at(&lost),
            late: at(&late),
            duplicated: at(&duplicated),
            reordered: at(&reordered),
            damaged: at(&damaged),
        };
        (*round, counts)
    };
    sent.rounds.iter().zip(sent.values).map(of_round).collect()
}

/// Whether nothing came, in any round, of what was sent, or of what one of its streams sent or was to get.
pub fn is_all_lost(table: &MetricTable, row: Row) -> bool {
    let is_lost = |stream: &&Stream| counts(table, row, stream).iter().any(|(_, counts)| counts.is_all_lost());
    table.streams(row, Figure::Sent).iter().any(is_lost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Builder;
    use tripmeter_model::metric::OfferedLoad;
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
            if round == 2 {
                let figures = [Figure::VoluntarySwitches, Figure::InvoluntarySwitches, Figure::PageFaults];
                figures.into_iter().zip([4.0, 2.0, 5.0]).for_each(|(figure, value)| trial.put(&process, figure, value));
            }
            builder.add("a", round, 16, trial);
        }
        let (table, row) = (builder.build(), Row { sub: 0, payload_bytes: 16, load: 0 });
        assert_eq!(losses(&table, row, &Stream::all(), &LOST_MESSAGES), [(4, 10), (1, 10)]);
        assert!(losses(&table, row, &Stream::last(), &LOST_MESSAGES).is_empty());
        assert_eq!(cpu_share(&table, row, Process::Leader), [0.25, 0.5]);
        assert!(cpu_share(&table, row, Process::Follower).is_empty());
        let counted = |lost| Counts { sent: 10, lost, damaged: 1, ..Counts::default() };
        assert_eq!(counts(&table, row, &Stream::all()), [(1, counted(3)), (2, counted(0))]);
        assert!(counts(&table, row, &Stream::last()).is_empty() && is_all_lost(&table, row));
        // A round without all the parts has no figure.
        assert_eq!(faults_per_message(&table, row, Process::Leader), [0.5]);
        assert_eq!(switches_hz(&table, row, Process::Leader), [3e7]);
    }
}
