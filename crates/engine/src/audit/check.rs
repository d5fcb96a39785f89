//! Check of the machine, its reading, and the observations that it reads from.

use super::root::{Hidden, Root};
use crate::os;
use tripmeter_model::audit::{Activity, CheckInfo, Hiccups, Level, ProcessActivity};
use tripmeter_model::manifest::ClockInfo;
use tripmeter_model::number::fixed;

pub(super) struct MachineCheck {
    pub info: CheckInfo,
    pub read: fn(&MachineObservations<'_>) -> Result<Reading, Hidden>,
}

pub(super) struct MachineObservations<'a> {
    pub root: &'a Root,
    pub cpus: &'a [usize],
    pub clock: &'a ClockInfo,
    /// `None` unless counters were read twice.
    pub activity: Option<&'a Activity>,
    pub hiccups: Option<&'a [Hiccups]>,
    pub processes: &'a [ProcessActivity],
    /// Loads that Tripmeter itself ran during sub-experiments.
    pub loads: &'a [ProcessActivity],
    /// True if processes of this experiment are not children of this one: the audit cannot tell them from others.
    pub by_hand: bool,
}

impl MachineObservations<'_> {
    pub(super) fn activity(&self) -> Result<&Activity, Hidden> {
        self.activity.ok_or_else(|| "nothing was waited for between two readings".to_owned())
    }

    pub(super) fn online(&self) -> Vec<usize> {
        self.root.list("sys/devices/system/cpu/online").unwrap_or_else(|_| (0..os::online_cpus()).collect())
    }
}

#[derive(Debug, PartialEq)]
pub(super) struct Reading {
    pub level: Level,
    pub value: String,
    pub fix: Fix,
}

#[derive(Debug, PartialEq)]
pub(super) enum Fix {
    None,
    /// The fix of the check's [`CheckInfo`].
    Usual,
    This(String),
}

impl Reading {
    pub(super) fn good(value: impl Into<String>) -> Self {
        Self { level: Level::Info, value: value.into(), fix: Fix::None }
    }

    /// Information with a fix: something may disturb, or could be better.
    pub(super) fn note(value: impl Into<String>) -> Self {
        Self { fix: Fix::Usual, ..Self::good(value) }
    }

    pub(super) fn warn(value: impl Into<String>) -> Self {
        Self { level: Level::Warn, ..Self::note(value) }
    }

    pub(super) fn fail(value: impl Into<String>) -> Self {
        Self { level: Level::Fail, ..Self::note(value) }
    }

    pub(super) fn good_if(is_good: bool, value: impl Into<String>) -> Self {
        if is_good { Self::good(value) } else { Self::warn(value) }
    }

    /// Good up to `warn_above`, a failure beyond `fail_above`.
    pub(super) fn by_limits(figure: f64, warn_above: f64, fail_above: f64, value: impl Into<String>) -> Self {
        match figure {
            _ if figure > fail_above => Self::fail(value),
            _ if figure > warn_above => Self::warn(value),
            _ => Self::good(value),
        }
    }

    pub(super) fn fixed_by(self, fix: String) -> Self {
        Self { fix: Fix::This(fix), ..self }
    }
}

pub(super) fn percent(part_ns: u64, whole_ns: u64) -> String {
    format!("{} %", fixed(share(part_ns, whole_ns) * 100.0, 1))
}

pub(super) fn share(part_ns: u64, whole_ns: u64) -> f64 {
    part_ns as f64 / whole_ns.max(1) as f64
}

/// Values of the CPUs and their text: `0: this, 1: that`, or one text if all are equal. Fails if any CPU has no value.
pub(super) fn of_each<T: PartialEq>(
    cpus: &[usize],
    read: impl Fn(usize) -> Result<T, Hidden>,
    write: impl Fn(&T) -> String,
) -> Result<(Vec<T>, String), Hidden> {
    let values = cpus.iter().map(|&cpu| read(cpu)).collect::<Result<Vec<T>, Hidden>>()?;
    let text = match values.first() {
        Some(first) if values.iter().all(|value| value == first) => write(first),
        _ => {
            let each = cpus.iter().zip(&values).map(|(cpu, value)| format!("{cpu}: {}", write(value)));
            each.collect::<Vec<_>>().join(", ")
        }
    };
    Ok((values, text))
}

#[cfg(test)]
pub(super) fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in files {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().expect("it is in the folder")).expect("folders");
        std::fs::write(file, text).expect("a file");
    }
    let root = Root::at(folder.path());
    (folder, root)
}
