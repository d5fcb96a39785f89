//! Reader of files below `/proc`, `/sys` and `/dev`, or below a prepared tree.

use super::parse;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Reason why a value is not visible, as shown in the finding.
pub(super) type Hidden = String;

/// Folder that contains `proc`, `sys` and `dev`.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    pub fn machine() -> Self {
        Self("/".into())
    }

    pub fn at(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }

    /// Text of a file, trimmed. Bytes that are not UTF-8 are replaced.
    pub(super) fn text(&self, file: &str) -> Result<String, Hidden> {
        // Processes choose their names, in any encoding.
        match std::fs::read(self.path(file)) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim().to_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(format!("/{file} is not there")),
            Err(error) => Err(format!("/{file} cannot be read: {error}")),
        }
    }

    pub(super) fn parsed<T>(&self, file: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Hidden> {
        let text = self.text(file)?;
        parse(&text).ok_or_else(|| format!("/{file} has an unknown form"))
    }

    pub(super) fn number(&self, file: &str) -> Result<u64, Hidden> {
        self.parsed(file, |text| text.parse().ok())
    }

    pub(super) fn list(&self, file: &str) -> Result<Vec<usize>, Hidden> {
        self.parsed(file, parse::cpu_list)
    }

    /// Sorted names in a folder; empty if it cannot be read.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }
}

pub(super) fn cpu_folder(cpu: usize) -> String {
    format!("sys/devices/system/cpu/cpu{cpu}")
}
