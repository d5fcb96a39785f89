//! Recordings, by the sources of the program itself: it is no library.

// What of them needs files is left out here.
#[allow(dead_code)]
#[path = "../../tripmeter/src/recording/scan.rs"]
mod scan;
#[allow(dead_code)]
#[path = "../../tripmeter/src/recording/schedule.rs"]
mod schedule;

use scan::ScanSizes;
use schedule::Writer;
use std::io;
use tripmeter_engine::clock::Timebase;
use tripmeter_engine::replay::Replay;
use tripmeter_model::recording::ScheduleEntry;

/// A recording that is read can be played: the schedule that was written of it is taken by the engine.
pub(crate) fn mcap(bytes: &[u8]) {
    const SIZES: ScanSizes = ScanSizes { read_bytes: 4096, record_bytes: 1 << 20 };
    let mut messages = Vec::new();
    let mut writer = Writer::new(&mut messages);
    if scan::scan(&mut &bytes[..], SIZES, &mut writer).is_err() {
        return;
    }
    let Ok(recording) = writer.finish(1.0) else { return };
    let entries =
        messages.as_chunks::<{ ScheduleEntry::BYTES }>().0.iter().map(|entry| Ok(ScheduleEntry::from_bytes(*entry)));
    let replay = Replay::of(recording, entries.collect::<Vec<io::Result<_>>>().into_iter(), &Timebase::NANOSECONDS);
    assert!(replay.is_ok(), "a schedule of our own is refused");
}
