//! Reading below `/proc` and `/sys`, or below a prepared tree.

use super::parse;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Why something is not visible; for people.
pub(super) type Hidden = String;

/// The folder that `proc`, `sys` and `dev` are in.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// This machine.
    pub fn machine() -> Self {
        Self("/".into())
    }

    /// A tree that was prepared.
    pub fn at(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Where a file of the machine is.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }

    /// A file's text without blanks around it.
    pub(super) fn text(&self, file: &str) -> Result<String, Hidden> {
        // Lossily: processes choose their names.
        match std::fs::read(self.path(file)) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim().to_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(format!("/{file} is not there")),
            Err(error) => Err(format!("/{file} cannot be read: {error}")),
        }
    }

    /// A file that `parse` understands.
    pub(super) fn parsed<T>(&self, file: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Hidden> {
        let text = self.text(file)?;
        parse(&text).ok_or_else(|| format!("/{file} is not understood"))
    }

    /// A file with one whole number.
    pub(super) fn number(&self, file: &str) -> Result<u64, Hidden> {
        self.parsed(file, |text| text.parse().ok())
    }

    /// A file with a list of CPUs.
    pub(super) fn list(&self, file: &str) -> Result<Vec<usize>, Hidden> {
        self.parsed(file, parse::cpu_list)
    }

    /// Names in a folder, sorted; none if it cannot be read.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }
}

/// The folder of a CPU.
pub(super) fn cpu_folder(cpu: usize) -> String {
    format!("sys/devices/system/cpu/cpu{cpu}")
}
