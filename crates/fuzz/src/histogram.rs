//! Histogram logs: written by the engine, read by the library that others read them with.

use crate::input::Input;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use std::time::Duration;
use tripmeter_engine::parsers::histogram_log;

const MOST_VALUE: u64 = 1 << 20;

/// Whatever a sub-experiment is called, its log is read back with the histogram and the tag that were written.
pub(crate) fn log(bytes: &[u8]) {
    IntervalLogIterator::new(bytes).take_while(Result::is_ok).for_each(drop);
    let mut input = Input(bytes);
    let (words, begin) = (input.u8() as usize, Duration::from_millis(input.u32().into()));
    let words = String::from_utf8_lossy(input.bytes(words)).into_owned();
    let (comment, tag) = words.split_once('|').unwrap_or((&words, "response_64"));
    let mut histogram = Histogram::<u64>::new_with_bounds(1, MOST_VALUE, 1).expect("the bounds are good");
    while !input.is_empty() {
        histogram.saturating_record(input.u32().into());
    }
    let Ok(text) = histogram_log(comment, tag, &histogram, begin) else { return };
    let entries: Vec<_> = IntervalLogIterator::new(&text).collect();
    let mut found = entries.into_iter().filter_map(|entry| match entry.expect("a log that was written is read") {
        LogEntry::Interval(interval) => Some(interval),
        _ => None,
    });
    let interval = found.next().expect("the histogram is there");
    assert!(found.next().is_none(), "there is another histogram");
    let is_tag = !tag.contains([',', ' ', '\r', '\n']);
    assert_eq!(interval.tag().map(|tag| tag.as_str()), is_tag.then_some(tag));
    let packed = BASE64_STANDARD.decode(interval.encoded_histogram()).expect("it is base64");
    let again: Histogram<u64> = Deserializer::new().deserialize(&mut packed.as_slice()).expect("it is a histogram");
    assert_eq!(again, histogram);
}
