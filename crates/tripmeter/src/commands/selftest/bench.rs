//! State that all parts of a selftest share.

use crate::output;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use tripmeter_model::folder_handle::FolderHandle;

pub struct Bench {
    pub program: PathBuf,
    pub folder: FolderHandle,
    pub stop: Arc<AtomicBool>,
    pub quiet: bool,
}

impl Bench {
    pub fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    pub fn say(&self, line: &str) {
        if !self.quiet {
            output::say(line);
        }
    }
}
