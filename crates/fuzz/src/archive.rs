//! Archives of other hosts.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use tripmeter_engine::parsers;

const BLOCK: usize = 512;
const MOST_BYTES: u64 = 1 << 20;
const MOST_ENTRIES: u64 = 20;

thread_local! {
    static FOLDER: RefCell<Option<TempDir>> = const { RefCell::new(None) };
}

/// Whatever an archive holds, nothing is written outside of its folder, nor anything but files and folders.
pub(crate) fn archive(bytes: &[u8]) {
    FOLDER.with_borrow_mut(|folder| {
        let folder = folder.get_or_insert_with(created).path();
        let into = folder.join("in");
        let _ = parsers::archive(&with_sums(bytes), &into, MOST_BYTES, MOST_ENTRIES);
        let names: Vec<_> = fs::read_dir(folder).expect("the folder is there").flatten().collect();
        assert!(names.iter().all(|entry| entry.file_name() == "in"), "written outside: {names:?}");
        check(&into);
        let _ = fs::remove_dir_all(&into);
    });
}

fn created() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    folder.expect("a temporary folder can be created")
}

fn check(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let kind = entry.file_type().expect("an entry has a type");
        assert!(kind.is_dir() || kind.is_file(), "{entry:?} is neither a file nor a folder");
        if kind.is_dir() {
            check(&entry.path());
        }
    }
}

/// The archive with the sum of every block as a header should have it: a fuzzer does not find those.
fn with_sums(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for block in bytes.chunks_exact_mut(BLOCK).filter(|block| block[257..262] == *b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    bytes
}
