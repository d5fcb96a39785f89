//! `channel_<name>.csv` and `channel_<name>.hlog`: messages at a fixed rate; `rpc_<name>.csv` and `rpc_<name>.hlog`: calls.

use super::{HistogramLog, ROWS_AT_ONCE, length};
use crate::clock::Timebase;
use crate::delivery::{Delivery, Tally};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;
use tripmeter_model::delivery::DeliveryStatus;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::plan::SubExperiment;

/// Whose stamps they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampKind {
    /// Messages of topics.
    Channel,
    /// Messages of the publishers of one topic.
    Publishers,
    /// Calls of clients; those as fast as answers come have no rate.
    Rpc {
        /// Rows have the arrivals of the requests, too.
        one_way: bool,
    },
}

impl StampKind {
    /// Of a sub-experiment that has such files.
    pub fn of(plan: &SubExperiment) -> Option<Self> {
        let kind = if plan.workload.publishers() > 1 { StampKind::Publishers } else { StampKind::Channel };
        let channel = plan.workload.is_publication().then_some(kind);
        channel.or_else(|| plan.workload.is_call().then_some(StampKind::Rpc { one_way: plan.one_way }))
    }

    /// The first word of the files' names, what a link is called, and what the histograms are of.
    fn words(self) -> [&'static str; 3] {
        match self {
            StampKind::Channel => ["channel", "topic", "Latencies one way"],
            StampKind::Publishers => ["channel", "publisher", "Latencies one way"],
            StampKind::Rpc { .. } => ["rpc", "client", "Round trips (rtt) of the calls"],
        }
    }

    /// First line of the CSV.
    fn header(self) -> String {
        let [_, link, _] = self.words();
        let request = if self.has_requests() { ",request_recv_ns" } else { "" };
        format!("payload_bytes,rate_hz,{link},sequence,status,intended_send_ns,actual_send_ns,recv_ns{request}")
    }

    fn has_requests(self) -> bool {
        self == StampKind::Rpc { one_way: true }
    }

    fn status(self, status: DeliveryStatus) -> &'static str {
        match self {
            StampKind::Channel | StampKind::Publishers => status.as_str(),
            StampKind::Rpc { .. } => status.of_call(),
        }
    }
}

/// The files of a running sub-experiment.
pub struct StampFiles {
    kind: StampKind,
    /// Rows say what bursts they are of.
    has_bursts: bool,
    csv: Option<File>,
    histograms: HistogramLog,
}

/// Rows of one trial, in memory until there are many.
pub(crate) struct Rows<'a> {
    kind: StampKind,
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
    pub fn create(folder: &Path, name: &str, kind: StampKind, raw: bool, has_bursts: bool) -> io::Result<Self> {
        let [pattern, _, what] = kind.words();
        let create = |ending: &str| super::discarded::create(&folder.join(format!("{pattern}_{name}.{ending}")));
        let mut csv = if raw { Some(create("csv")?) } else { None };
        if let Some(csv) = &mut csv {
            writeln!(csv, "{}{}", kind.header(), if has_bursts { ",demand,recovery_ms" } else { "" })?;
        }
        let comment = format!(
            "{what} of {name} in ns; two lines per payload and rate, tagged response_<bytes>_<rate> and \
             service_<bytes>_<rate>; without a rate one, service_<bytes>{}",
            if kind.has_requests() { "; and latencies one way of the requests, tagged one_way_<bytes>..." } else { "" }
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
        self.append_times(true, name, tally, ns)
    }

    /// Appends the histograms of a finished trial.
    ///
    /// # Errors
    /// If they cannot be written, e.g. on a full disk.
    pub(crate) fn append(&mut self, payload_bytes: u64, load: OfferedLoad, tally: &Tally, ns: u64) -> io::Result<()> {
        let rate = load.suffix();
        let name = format!("{payload_bytes}{}", rate.trim_end_matches("hz"));
        self.append_times(load != OfferedLoad::Closed, &name, tally, ns)
    }

    fn append_times(&mut self, has_response: bool, name: &str, tally: &Tally, ns: u64) -> io::Result<()> {
        let of = [
            ("response", Some(&tally.response.histogram).filter(|_| has_response)),
            ("service", Some(&tally.service.histogram)),
            ("one_way", tally.one_way.histogram()),
        ];
        of.into_iter().filter_map(|(time, histogram)| Some((time, histogram?))).try_for_each(|(time, histogram)| {
            self.histograms.append(&format!("{time}_{name}"), histogram, Duration::from_nanos(ns))
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
        let Delivery { intended, actual, arrived, requested, status } = *delivery;
        let (payload, rate, sequence, burst) = (self.payload_bytes, &self.rate_hz, index + 1, &self.burst);
        let (intended, actual) = (ns(intended), ns(actual));
        let time = |ticks: Option<u64>| ticks.map_or_else(String::new, |ticks| ns(ticks).to_string());
        let received = time(arrived);
        let request = if self.kind.has_requests() { format!(",{}", time(requested)) } else { String::new() };
        let status = self.kind.status(status);
        let row = writeln!(
            self.text,
            "{payload},{rate},{link},{sequence},{status},{intended},{actual},{received}{request}{burst}"
        );
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
    use tripmeter_model::pace::Burst;

    fn delivery(intended: u64, actual: u64, arrived: Option<u64>, status: DeliveryStatus) -> Delivery {
        Delivery { intended, actual, arrived, requested: None, status }
    }

    #[test]
    fn rows_begin_with_the_trial_and_what_did_not_come_has_no_time() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = StampFiles::create(folder.path(), "x", StampKind::Channel, true, false).unwrap();
        let begun = files.lengths().unwrap();
        let mut rows = files.rows(Timebase::NANOSECONDS, 1024, OfferedLoad::Rate { hz: 1000.0 }, 5000);
        rows.add(0, 0, &delivery(5000, 5001, Some(5100), DeliveryStatus::Ok));
        rows.add(1, 7, &delivery(5500, 5600, None, DeliveryStatus::Lost));
        rows.finish().unwrap();
        let text = std::fs::read_to_string(folder.path().join("channel_x.csv")).unwrap();
        let header = StampKind::Channel.header();
        assert_eq!(text, format!("{header}\n1024,1000,0,1,ok,0,1,100\n1024,1000,1,8,lost,500,600,\n"));
        files.cut(begun);
        assert_eq!(files.lengths().unwrap(), begun);
        assert!(
            StampFiles::create(folder.path(), "x", StampKind::Channel, true, false).is_err(),
            "it is not overwritten"
        );
    }

    #[test]
    fn without_raw_samples_there_are_no_rows() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = StampFiles::create(folder.path(), "x", StampKind::Channel, false, false).unwrap();
        let mut rows = files.rows(Timebase::NANOSECONDS, 1024, OfferedLoad::Rate { hz: 1000.0 }, 0);
        rows.add(0, 0, &delivery(0, 1, None, DeliveryStatus::Lost));
        rows.finish().unwrap();
        assert!(!folder.path().join("channel_x.csv").exists());
    }

    #[test]
    fn calls_have_clients_and_words_of_their_own_and_may_have_no_rate() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = StampFiles::create(folder.path(), "x", StampKind::Rpc { one_way: false }, true, false).unwrap();
        let mut rows = files.rows(Timebase::NANOSECONDS, 1024, OfferedLoad::Closed, 5000);
        for (index, status) in
            [DeliveryStatus::Damaged, DeliveryStatus::Lost, DeliveryStatus::Late].into_iter().enumerate()
        {
            rows.add(1, index, &delivery(5001, 5001, None, status));
        }
        rows.finish().unwrap();
        let text = std::fs::read_to_string(folder.path().join("rpc_x.csv")).unwrap();
        let header = "payload_bytes,rate_hz,client,sequence,status,intended_send_ns,actual_send_ns,recv_ns";
        assert_eq!(
            text,
            format!("{header}\n1024,,1,1,failed,1,1,\n1024,,1,2,timed_out,1,1,\n1024,,1,3,timed_out,1,1,\n")
        );
    }

    #[test]
    fn requests_have_a_column_where_their_arrivals_are_noted_and_bursts_two_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = StampFiles::create(folder.path(), "x", StampKind::Rpc { one_way: true }, true, true).unwrap();
        let burst = OfferedLoad::Burst(Burst { size: 4, gap_ns: 2_500_000 });
        let mut rows = files.rows(Timebase::NANOSECONDS, 16, burst, 5000);
        let ok = Delivery { requested: Some(5040), ..delivery(5001, 5001, Some(5100), DeliveryStatus::Ok) };
        rows.add(0, 0, &ok);
        rows.add(0, 1, &delivery(5200, 5200, None, DeliveryStatus::Lost));
        rows.finish().unwrap();
        let text = std::fs::read_to_string(folder.path().join("rpc_x.csv")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with(",actual_send_ns,recv_ns,request_recv_ns,demand,recovery_ms"), "{text}");
        assert_eq!(lines[1..], ["16,1600,0,1,ok,1,1,100,40,4,2.5", "16,1600,0,2,timed_out,200,200,,,4,2.5"]);
    }
}
