//! `channel_<name>.csv` and `channel_<name>.hlog`: messages at a fixed rate; `rpc_<name>.csv` and `rpc_<name>.hlog`: calls.

use super::{HistogramLog, ROWS_AT_ONCE, length};
use crate::clock::Timebase;
use crate::delivery::{Delivery, Tally};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;
use tripmeter_model::channel::DeliveryStatus;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::plan::SubExperiment;

/// Whose stamps they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Messages of topics.
    Channel,
    /// Messages of the publishers of one topic.
    Publishers,
    /// Calls of clients; those as fast as answers come have no rate.
    Rpc,
}

impl Kind {
    /// Of a sub-experiment that has such files.
    pub fn of(plan: &SubExperiment) -> Option<Self> {
        let kind = if plan.publishers() > 1 { Kind::Publishers } else { Kind::Channel };
        let channel = plan.channel.as_ref().map(|_| kind);
        channel.or_else(|| plan.rpc.as_ref().map(|_| Kind::Rpc))
    }

    /// The first word of the files' names, what a link is called, and what the histograms are of.
    fn words(self) -> [&'static str; 3] {
        match self {
            Kind::Channel => ["channel", "topic", "Latencies one way"],
            Kind::Publishers => ["channel", "publisher", "Latencies one way"],
            Kind::Rpc => ["rpc", "client", "Round trips (rtt) of the calls"],
        }
    }

    /// First line of the CSV.
    fn header(self) -> String {
        let [_, link, _] = self.words();
        format!("payload_bytes,rate_hz,{link},sequence,status,intended_send_ns,actual_send_ns,recv_ns")
    }

    fn status(self, status: DeliveryStatus) -> &'static str {
        match self {
            Kind::Channel | Kind::Publishers => status.as_str(),
            Kind::Rpc => status.of_call(),
        }
    }
}

/// The files of a running sub-experiment.
pub struct StampFiles {
    kind: Kind,
    /// Rows say what bursts they are of.
    has_bursts: bool,
    csv: Option<File>,
    histograms: HistogramLog,
}

/// Rows of one trial, in memory until there are many.
pub(crate) struct Rows<'a> {
    kind: Kind,
    csv: Option<&'a mut File>,
    timebase: Timebase,
    /// Of the rows that are added from now on.
    pub payload_bytes: u64,
    /// As the rows have it: empty without a rate.
    rate_hz: String,
    /// What ends the rows: the burst, if there are any in the file.
    burst: String,
    /// Beginning of the trial, in ticks.
    begin: u64,
    text: Vec<u8>,
    count: usize,
    written: io::Result<()>,
}

impl StampFiles {
    /// Creates both; the CSV only where raw samples are kept.
    ///
    /// # Errors
    /// If a file exists or cannot be written.
    pub fn create(folder: &Path, name: &str, kind: Kind, raw: bool, has_bursts: bool) -> io::Result<Self> {
        let [pattern, _, what] = kind.words();
        let create = |ending: &str| super::discarded::create(&folder.join(format!("{pattern}_{name}.{ending}")));
        let mut csv = if raw { Some(create("csv")?) } else { None };
        if let Some(csv) = &mut csv {
            writeln!(csv, "{}{}", kind.header(), if has_bursts { ",demand,recovery_ms" } else { "" })?;
        }
        let comment = format!(
            "{what} of {name} in ns; two lines per payload and rate, tagged response_<bytes>_<rate> and \
             service_<bytes>_<rate>; without a rate one, service_<bytes>"
        );
        Ok(Self { kind, has_bursts, csv, histograms: HistogramLog::begin(create("hlog")?, &comment)? })
    }

    /// How long both files are, for [`StampFiles::cut`].
    ///
    /// # Errors
    /// If that cannot be found out.
    pub(crate) fn lengths(&self) -> io::Result<[u64; 2]> {
        Ok([self.csv.as_ref().map_or(Ok(0), length)?, length(&self.histograms.file)?])
    }

    /// Takes back what was written since: half a trial is worse than none.
    pub(crate) fn cut(&self, lengths: [u64; 2]) {
        // That it cannot be cut off is the lesser error.
        let _ = self.csv.as_ref().map_or(Ok(()), |csv| csv.set_len(lengths[0]));
        let _ = self.histograms.file.set_len(lengths[1]);
    }

    /// For the rows of a trial that began at that tick.
    pub(crate) fn rows(&mut self, timebase: Timebase, payload_bytes: u64, load: OfferedLoad, begin: u64) -> Rows<'_> {
        let (text, count, written) = (Vec::new(), 0, Ok(()));
        let rate_hz = load.hz().map_or_else(String::new, |rate_hz| rate_hz.to_string());
        let (size, gap_ms) = (load.burst().map_or(1, |burst| burst.size), load.gap_ns() / 1e6);
        let burst = if self.has_bursts { format!(",{size},{gap_ms}") } else { String::new() };
        let (kind, csv) = (self.kind, self.csv.as_mut());
        Rows { kind, csv, timebase, payload_bytes, rate_hz, burst, begin, text, count, written }
    }

    /// Appends the histograms of a part of a recording, or of all of it.
    ///
    /// # Errors
    /// As [`StampFiles::append`].
    pub(crate) fn append_as(&mut self, name: &str, tally: &Tally, ns: u64) -> io::Result<()> {
        let of = [("response", &tally.response), ("service", &tally.service)];
        of.into_iter().try_for_each(|(time, distribution)| {
            let tag = format!("{time}_{name}");
            self.histograms.append(&tag, &distribution.histogram, Duration::from_nanos(ns))
        })
    }

    /// Appends the histograms of a finished trial.
    ///
    /// # Errors
    /// If they cannot be written, e.g. on a full disk.
    pub(crate) fn append(&mut self, payload_bytes: u64, load: OfferedLoad, tally: &Tally, ns: u64) -> io::Result<()> {
        let response = (load != OfferedLoad::Closed).then_some(("response", &tally.response));
        let rate = load.suffix();
        let rate = rate.trim_end_matches("hz");
        response.into_iter().chain([("service", &tally.service)]).try_for_each(|(time, distribution)| {
            let tag = format!("{time}_{payload_bytes}{rate}");
            self.histograms.append(&tag, &distribution.histogram, Duration::from_nanos(ns))
        })
    }
}

impl Rows<'_> {
    /// Adds a row; `link` and `index` are counted from 0.
    pub(crate) fn add(&mut self, link: usize, index: usize, delivery: &Delivery) {
        if self.csv.is_none() {
            return;
        }
        let ns = |ticks: u64| self.timebase.to_ns(ticks.saturating_sub(self.begin));
        let Delivery { intended, actual, arrived, status } = *delivery;
        let (payload, rate, sequence, burst) = (self.payload_bytes, &self.rate_hz, index + 1, &self.burst);
        let (intended, actual) = (ns(intended), ns(actual));
        let received = arrived.map_or_else(String::new, |arrived| ns(arrived).to_string());
        let status = self.kind.status(status);
        let row =
            writeln!(self.text, "{payload},{rate},{link},{sequence},{status},{intended},{actual},{received}{burst}");
        self.count += 1;
        if row.is_err() || self.count.is_multiple_of(ROWS_AT_ONCE) {
            self.write();
        }
    }

    /// Whole rows in one system call, so that a killed process leaves no row cut off.
    fn write(&mut self) {
        if let Some(csv) = &mut self.csv
            && self.written.is_ok()
        {
            self.written = csv.write_all(&self.text);
        }
        self.text.clear();
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// If any of it could not be written.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.write();
        self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_begin_with_the_trial_and_what_did_not_come_has_no_time() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = StampFiles::create(folder.path(), "x", Kind::Channel, true, false).unwrap();
        let begun = files.lengths().unwrap();
        let mut rows = files.rows(Timebase::NANOSECONDS, 1024, OfferedLoad::Rate { hz: 1000.0 }, 5000);
        rows.add(0, 0, &Delivery { intended: 5000, actual: 5001, arrived: Some(5100), status: DeliveryStatus::Ok });
        rows.add(1, 7, &Delivery { intended: 5500, actual: 5600, arrived: None, status: DeliveryStatus::Lost });
        rows.finish().unwrap();
        let text = std::fs::read_to_string(folder.path().join("channel_x.csv")).unwrap();
        let header = Kind::Channel.header();
        assert_eq!(text, format!("{header}\n1024,1000,0,1,ok,0,1,100\n1024,1000,1,8,lost,500,600,\n"));
        files.cut(begun);
        assert_eq!(files.lengths().unwrap(), begun);
        assert!(StampFiles::create(folder.path(), "x", Kind::Channel, true, false).is_err(), "it is not overwritten");
    }

    #[test]
    fn without_raw_samples_there_are_no_rows() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = StampFiles::create(folder.path(), "x", Kind::Channel, false, false).unwrap();
        let mut rows = files.rows(Timebase::NANOSECONDS, 1024, OfferedLoad::Rate { hz: 1000.0 }, 0);
        rows.add(0, 0, &Delivery { intended: 0, actual: 1, arrived: None, status: DeliveryStatus::Lost });
        rows.finish().unwrap();
        assert!(!folder.path().join("channel_x.csv").exists());
    }

    #[test]
    fn calls_have_clients_and_words_of_their_own_and_may_have_no_rate() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = StampFiles::create(folder.path(), "x", Kind::Rpc, true, false).unwrap();
        let mut rows = files.rows(Timebase::NANOSECONDS, 1024, OfferedLoad::Closed, 5000);
        for (index, status) in
            [DeliveryStatus::Damaged, DeliveryStatus::Lost, DeliveryStatus::Late].into_iter().enumerate()
        {
            rows.add(1, index, &Delivery { intended: 5001, actual: 5001, arrived: None, status });
        }
        rows.finish().unwrap();
        let text = std::fs::read_to_string(folder.path().join("rpc_x.csv")).unwrap();
        let header = "payload_bytes,rate_hz,client,sequence,status,intended_send_ns,actual_send_ns,recv_ns";
        assert_eq!(
            text,
            format!("{header}\n1024,,1,1,failed,1,1,\n1024,,1,2,timed_out,1,1,\n1024,,1,3,timed_out,1,1,\n")
        );
    }
}
