//! Samples in eProsima's form, which are read from files.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tempfile::NamedTempFile;
use tripmeter_eprosima::raw::Reader;

thread_local! {
    /// In memory, where there is such a file system.
    static FILE: RefCell<Option<NamedTempFile>> = const { RefCell::new(None) };
}

/// Longer than many lines, and shorter than many files.
const WINDOW_BYTES: u64 = 192;

/// Samples come out the same from a file as a whole and in the pieces that threads take of it.
pub(crate) fn samples(bytes: &[u8]) {
    FILE.with_borrow_mut(|file| {
        let file = file.get_or_insert_with(created);
        write(file.as_file(), bytes);
        let whole = read(&Reader::new(1), file.path());
        let in_windows = read(&Reader::new(1).in_windows(WINDOW_BYTES), file.path());
        assert_eq!(whole, in_windows, "samples depend on the pieces in which a file is read");
    });
}

fn created() -> NamedTempFile {
    let folder = Path::new("/dev/shm");
    let file = if folder.is_dir() { NamedTempFile::new_in(folder) } else { NamedTempFile::new() };
    file.expect("a temporary file can be created")
}

fn write(file: &File, bytes: &[u8]) {
    file.set_len(0).and_then(|()| file.write_all_at(bytes, 0)).expect("a temporary file can be written");
}

/// Of each payload, the bits of its samples; or the error.
fn read(reader: &Reader, file: &Path) -> Result<Vec<(String, Vec<u64>)>, String> {
    let bits = |samples: &mut [f64]| samples.iter().map(|sample| sample.to_bits()).collect::<Vec<_>>();
    let read = reader.read(file, 1, |_| true, |_, samples| bits(samples));
    let payloads = read.map_err(|error| error.to_string())?;
    Ok(payloads.into_iter().map(|(bytes, samples)| (bytes.to_string(), samples)).collect())
}
