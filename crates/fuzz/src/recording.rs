//! Recordings, by the sources of the program itself: it is no library.

// What of them needs files is left out here.
#[allow(dead_code)]
#[path = "../../tripmeter/src/recording/compression.rs"]
mod compression;
#[allow(dead_code)]
#[path = "../../tripmeter/src/recording/error.rs"]
mod error;
#[allow(dead_code)]
#[path = "../../tripmeter/src/recording/scan.rs"]
mod scan;
#[allow(dead_code)]
#[path = "../../tripmeter/src/recording/schedule.rs"]
mod schedule;
#[path = "../../tripmeter/src/recording/yaml.rs"]
mod yaml;

use compression::Unpacked;
use error::RecordingError;
use scan::ScanSizes;
use schedule::Writer;
use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::rc::Rc;
use tripmeter_engine::clock::Timebase;
use tripmeter_engine::replay::Replay;
use tripmeter_model::recording::{RecordedPart, Recording, ScheduleEntry};

/// A recording that is read can be played, as a whole and in part: the schedule that was written of it is taken by the engine.
pub(crate) fn mcap(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (_, _) = (yaml::scalar(&text, "compression_mode"), yaml::list(&text, "relative_file_paths"));
    let part = RecordedPart { topics: vec!["/a".to_owned()], from_s: Some(1e-9), until_s: Some(3e-9) };
    for part in [RecordedPart::default(), part] {
        let Ok((recording, messages)) = played(bytes, &part) else { return };
        let replay = Replay::from_entries(recording, entries(&messages), &Timebase::NANOSECONDS);
        assert!(replay.is_ok(), "a schedule of our own is refused");
    }
}

/// A part of a recording, with its schedule.
fn played(bytes: &[u8], part: &RecordedPart) -> Result<(Recording, Vec<u8>), RecordingError> {
    const SIZES: ScanSizes = ScanSizes { read_bytes: 4096, record_bytes: 1 << 20 };
    let (read, all, mut chosen) = (Cell::new(bytes.len() as u64), SharedBytes::default(), Vec::new());
    let mut writer = Writer::new(all.clone(), part);
    scan::scan(&mut Unpacked::detect(bytes, &read)?, SIZES, &mut writer)?;
    let recording = writer.within(entries(&all.0.borrow()), &mut chosen)?.finish(1.0)?;
    Ok((recording, chosen))
}

/// A file of messages that is read while its writer is still there.
#[derive(Clone, Default)]
struct SharedBytes(Rc<RefCell<Vec<u8>>>);

impl Write for SharedBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn entries(messages: &[u8]) -> impl Iterator<Item = io::Result<ScheduleEntry>> {
    messages.as_chunks::<{ ScheduleEntry::BYTES }>().0.iter().map(|entry| Ok(ScheduleEntry::from_bytes(*entry)))
}
