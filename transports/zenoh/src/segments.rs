//! The shared memory that zenoh makes for us, which has random names: noted, so that the host can remove it after a kill.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;

/// Adds what this process maps of zenoh's to the file `shared-memory` in the scratch folder, as lines `INODE NAME`.
///
/// It is connected to its peer only, so all that it maps is its own or its peer's. What is noted twice does no harm.
pub(crate) fn note(scratch: &Path) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let found: BTreeSet<String> = maps.lines().filter_map(entry).collect();
    let text: String = found.iter().map(|line| format!("{line}\n")).collect();
    if let Ok(mut file) = fs::File::options().create(true).append(true).open(scratch.join("shared-memory")) {
        // Without the note nothing is lost but tidiness after a kill.
        let _ = file.write_all(text.as_bytes());
    }
}

/// `INODE NAME` of a line of maps that is a segment of zenoh's.
fn entry(line: &str) -> Option<String> {
    let (front, name) = line.split_once("/dev/shm/")?;
    let inode = front.split_whitespace().nth(4)?;
    name.ends_with(".zenoh").then(|| format!("{inode} {name}"))
}
