//! `throughput_<name>.csv`: the columns of eProsima's throughput test.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use tripmeter_model::figure::Figure;
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::{Burst, OfferedLoad};
use tripmeter_model::search::per_second;
use tripmeter_model::trial::Trial;

/// First line of `throughput_<name>.csv`.
///
/// # Source
/// `--export_csv` of the throughput test of eProsima's Fast DDS.
pub const TRIALS_HEADER: &str = "Payload [Bytes],Demand [sample/burst],Recovery time [ms],Sent [samples],\
Publication time [us],Publication sample rate [Sample/s],Publication throughput [Mb/s],Received [samples],\
Lost [samples],Subscription time [us],Subscription sample rate [Sample/s],Subscription throughput [Mb/s]";

/// The file of a running sub-experiment.
pub struct TrialFile(File);

impl TrialFile {
    /// Creates it, with its header.
    ///
    /// # Errors
    /// If it exists or cannot be written.
    pub fn create(folder: &Path, name: &str) -> io::Result<Self> {
        let mut file = super::discarded::create(&folder.join(format!("throughput_{name}.csv")))?;
        writeln!(file, "{TRIALS_HEADER}")?;
        Ok(Self(file))
    }

    /// Appends the trials of a payload: a row for each follower of each.
    ///
    /// # Errors
    /// If it cannot be written, e.g. on a full disk; nothing of the payload is in it then.
    pub fn append(&mut self, payload_bytes: u64, trials: &[Trial]) -> io::Result<()> {
        let of_trial = |trial: &Trial| {
            let followers = trial.streams().filter(|stream| stream.at.is_some());
            let rows: String = followers.map(|stream| row(payload_bytes, trial, stream)).collect();
            if rows.is_empty() { row(payload_bytes, trial, &Stream::all()) } else { rows }
        };
        let rows: String = trials.iter().map(of_trial).collect();
        let length = self.0.metadata()?.len();
        self.0.write_all(rows.as_bytes()).inspect_err(|_| {
            // That it cannot be cut off is the lesser error.
            let _ = self.0.set_len(length);
        })
    }
}

/// What came to a follower, or to the only one.
fn row(payload_bytes: u64, trial: &Trial, stream: &Stream) -> String {
    let all = Stream::all();
    let (demand, recovery_ms) = match trial.load {
        OfferedLoad::Burst(Burst { size, gap_ns }) => (size, gap_ns as f64 / 1e6),
        _ => (1, trial.value(&all, Figure::OfferedRate).map_or(0.0, |rate_hz| 1e3 / rate_hz)),
    };
    let counts = trial.counts(stream);
    // Lost is all that did not arrive intact, as in the original, which knows no damage.
    let lost = counts.lost + counts.damaged;
    format!(
        "{payload_bytes},{demand},{},{},{},{},{lost},{}\n",
        milliseconds(recovery_ms),
        counts.sent,
        rates(payload_bytes, counts.sent, trial.count(&all, Figure::Publication)),
        counts.received,
        rates(payload_bytes, counts.received, trial.count(stream, Figure::Subscription))
    )
}

/// Whole, as in the original, if it is.
fn milliseconds(ms: f64) -> String {
    if ms.fract() == 0.0 { format!("{ms}") } else { format!("{ms:.3}") }
}

/// Time in microseconds, samples per second, megabits per second.
fn rates(payload_bytes: u64, samples: u64, ns: u64) -> String {
    let per_second = per_second(samples, ns);
    format!("{:.3},{per_second:.3},{:.3}", ns as f64 / 1e3, per_second * payload_bytes as f64 * 8.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_model::manifest::Counts;

    fn trial(load: OfferedLoad, received: u64, damaged: u64) -> Trial {
        let (mut trial, all) = (Trial::new(load), Stream::all());
        let counts = Counts { sent: 1000, received, lost: 1000 - received - damaged, damaged, ..Counts::default() };
        trial.put_counts(&all, &counts, false);
        trial.put(&all, Figure::Publication, 1_000_500.0);
        trial.put(&all, Figure::Subscription, if received > 0 { 2_000_000.0 } else { 0.0 });
        load.hz().into_iter().for_each(|hz| trial.put(&all, Figure::OfferedRate, hz));
        trial
    }

    /// Golden rows by the original's formulas: samples * 1000000 / us, samples * bytes * 8 / us, three decimals.
    #[test]
    fn rows_are_those_of_the_original() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = TrialFile::create(folder.path(), "x").unwrap();
        let bursts = OfferedLoad::Burst(Burst { size: 100, gap_ns: 5_000_000 });
        file.append(1024, &[trial(bursts, 1000, 0), trial(bursts, 900, 4)]).unwrap();
        file.append(16, &[trial(OfferedLoad::Max, 1000, 0), trial(OfferedLoad::Rate { hz: 3000.0 }, 1000, 0)]).unwrap();
        let text = std::fs::read_to_string(folder.path().join("throughput_x.csv")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], TRIALS_HEADER);
        assert_eq!(
            lines[1..4],
            [
                "1024,100,5,1000,1000.500,999500.250,8187.906,1000,0,2000.000,500000.000,4096.000",
                "1024,100,5,1000,1000.500,999500.250,8187.906,900,100,2000.000,450000.000,3686.400",
                "16,1,0,1000,1000.500,999500.250,127.936,1000,0,2000.000,500000.000,64.000",
            ]
        );
        assert!(lines[4].starts_with("16,1,0.333,1000,") && lines.len() == 5, "{text}");
        assert!(TrialFile::create(folder.path(), "x").is_err(), "it is not overwritten");
    }

    #[test]
    fn nothing_received_is_zeros() {
        let nothing = trial(OfferedLoad::Max, 0, 0);
        assert!(row(16, &nothing, &Stream::all()).ends_with(",0,1000,0.000,0.000,0.000\n"));
    }
}
