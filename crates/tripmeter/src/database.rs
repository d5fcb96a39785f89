//! Folders that contain results folders, in order of time.

use crate::error::CliError;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use tripmeter_model::{exit, printable};

/// Start time of an experiment from its folder's name: `2026-01-31_12-00-00`, with a suffix `-2`, `-3`, … if several
/// began in one second.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Began {
    second: String,
    /// Number in the suffix; 1 without one.
    number: u32,
}

impl Began {
    /// Parses the name of a folder; `None` if it is not a date and time.
    pub fn of_name(name: &str) -> Option<Self> {
        const SHAPE: &[u8] = b"dddd-dd-dd_dd-dd-dd";
        let (second, suffix) = name.split_at_checked(SHAPE.len())?;
        let fits = |(byte, shape): (u8, &u8)| if *shape == b'd' { byte.is_ascii_digit() } else { byte == *shape };
        if !second.bytes().zip(SHAPE).all(fits) {
            return None;
        }
        let field = |from: usize| second.get(from..from + 2).and_then(|digits| digits.parse::<u32>().ok());
        let below = |from: usize, limit: u32| field(from).is_some_and(|value| value < limit);
        let is_date = field(5).is_some_and(|month| (1..=12).contains(&month))
            && field(8).is_some_and(|day| (1..=31).contains(&day))
            && below(11, 24)
            && below(14, 60)
            && below(17, 61);
        let number = match suffix.strip_prefix('-') {
            None if suffix.is_empty() => 1,
            Some(digits) if !digits.starts_with(['0', '+']) => digits.parse().ok().filter(|number| *number > 1)?,
            _ => return None,
        };
        is_date.then(|| Self { second: second.to_owned(), number })
    }
}

/// Order of folder names: first those that are a date and time, oldest first, then the others by name.
pub fn by_time(a: &str, b: &str) -> Ordering {
    match (Began::of_name(a), Began::of_name(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

pub struct Contents {
    /// Names of subfolders, oldest first.
    pub folders: Vec<String>,
    /// Names of files, links and the like.
    pub others: Vec<String>,
}

impl Contents {
    /// Reads a folder. Links to folders are `others`, because they may lead anywhere.
    pub fn read(folder: &Path) -> Result<Self, CliError> {
        let failed =
            |error| CliError::new(exit::NO_INPUT, format!("folder '{}' cannot be read: {error}", folder.display()));
        let mut contents = Self { folders: Vec::new(), others: Vec::new() };
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_folder = entry.file_type().map_err(failed)?.is_dir();
            if is_folder { contents.folders.push(name) } else { contents.others.push(name) }
        }
        contents.folders.sort_by(|a, b| by_time(a, b));
        contents.others.sort();
        Ok(contents)
    }
}

/// Printable last part of a path as written; for paths such as `.`, the real name of the folder.
pub fn last_part(path: &Path) -> String {
    let named = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let meant = || path.canonicalize().ok().as_deref().and_then(named);
    let part = named(path).or_else(meant).unwrap_or_else(|| PathBuf::from(path).display().to_string());
    printable::line(&part).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_distinguished_from_other_names() {
        for name in ["2026-01-31_12-00-00", "2026-01-31_12-00-00-2", "2026-12-01_23-59-60-11"] {
            assert!(Began::of_name(name).is_some(), "{name}");
        }
        for name in ["", "plots", "2026-01-31", "2026-13-31_12-00-00", "2026-01-32_12-00-00", "2026-01-31_24-00-00"] {
            assert_eq!(Began::of_name(name), None, "{name}");
        }
        for suffix in ["-", "-1", "-0", "-02", "-+2", "-2-2", ".bak", "x", "ä"] {
            assert_eq!(Began::of_name(&format!("2026-01-31_12-00-00{suffix}")), None, "{suffix}");
        }
    }

    #[test]
    fn experiments_of_one_second_are_in_order_and_other_names_come_last() {
        let mut names =
            ["v2", "2026-01-31_12-00-00-10", "2026-01-31_12-00-00", "2025-02-01_00-00-00", "2026-01-31_12-00-00-9"];
        names.sort_by(|a, b| by_time(a, b));
        let sorted =
            ["2025-02-01_00-00-00", "2026-01-31_12-00-00", "2026-01-31_12-00-00-9", "2026-01-31_12-00-00-10", "v2"];
        assert_eq!(names, sorted);
    }

    #[test]
    fn a_label_is_the_last_part_of_a_path() {
        assert_eq!(last_part(Path::new("a/b/")), "b");
        assert_eq!(last_part(Path::new("a/b/.")), "b");
        let here = std::env::current_dir().unwrap();
        assert_eq!(last_part(Path::new(".")), here.file_name().unwrap().to_string_lossy());
    }
}
