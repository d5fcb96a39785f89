//! Deliberate background load, and scheduling of the measuring processes against it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Highest real-time priority that can be requested: one below 99, because [`Sched::above`] adds one.
pub const MOST_PRIORITY: u8 = 98;
/// Largest number of busy threads in a load.
pub const MOST_BUSY: u32 = 1024;

/// Scheduling of leader and follower while they measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Sched {
    /// `SCHED_OTHER`, as for any other program.
    #[default]
    Other,
    /// `SCHED_FIFO` with this priority, 1 to [`MOST_PRIORITY`].
    Fifo(u8),
}

impl Sched {
    /// True for `SCHED_OTHER`.
    pub fn is_other(&self) -> bool {
        *self == Sched::Other
    }

    /// Scheduling of a thread that threads with `self` cannot keep from running: one priority higher.
    #[must_use]
    pub fn above(self) -> Self {
        match self {
            Sched::Other => Sched::Other,
            Sched::Fifo(priority) => Sched::Fifo(priority + 1),
        }
    }
}

impl fmt::Display for Sched {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sched::Other => formatter.pad("other"),
            Sched::Fifo(priority) => formatter.pad(&format!("fifo:{priority}")),
        }
    }
}

impl FromStr for Sched {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not one of other, fifo:1 to fifo:{MOST_PRIORITY}");
        match text.strip_prefix("fifo:") {
            Some(priority) => {
                let priority = priority.parse().ok().filter(|priority| (1..=MOST_PRIORITY).contains(priority));
                priority.map(Sched::Fifo).ok_or_else(wrong)
            }
            None if text == "other" => Ok(Sched::Other),
            None => Err(wrong()),
        }
    }
}

impl TryFrom<String> for Sched {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Sched> for String {
    fn from(sched: Sched) -> Self {
        sched.to_string()
    }
}

/// Background load that a process of Tripmeter creates during a measurement; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BackgroundLoad {
    /// Number of busy threads.
    pub cpu: u32,
    /// True for a thread that copies more memory than the last-level cache holds.
    pub memory: bool,
    /// True for two threads with a TCP stream between them over the loopback interface.
    pub network: bool,
}

impl BackgroundLoad {
    /// True if there is no load.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for BackgroundLoad {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            (self.cpu > 0).then(|| format!("cpu:{}", self.cpu)),
            self.memory.then(|| "memory".to_owned()),
            self.network.then(|| "network".to_owned()),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        formatter.pad(&if words.is_empty() { "none".to_owned() } else { words.join(",") })
    }
}

impl FromStr for BackgroundLoad {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("'{text}' is neither none nor a list of cpu:N, memory and network, each once; N up to {MOST_BUSY}")
        };
        let mut load = Self::default();
        if text == "none" {
            return Ok(load);
        }
        for word in text.split(',') {
            let is_new = match word.split_once(':') {
                Some(("cpu", threads)) => {
                    let threads = threads.parse().ok().filter(|threads| (1..=MOST_BUSY).contains(threads));
                    std::mem::replace(&mut load.cpu, threads.ok_or_else(wrong)?) == 0
                }
                None if word == "memory" => !std::mem::replace(&mut load.memory, true),
                None if word == "network" => !std::mem::replace(&mut load.network, true),
                _ => false,
            };
            is_new.then_some(()).ok_or_else(wrong)?;
        }
        Ok(load)
    }
}

impl TryFrom<String> for BackgroundLoad {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<BackgroundLoad> for String {
    fn from(load: BackgroundLoad) -> Self {
        load.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_and_schedulers_are_read_as_they_are_written() {
        for text in ["none", "cpu:1", "cpu:16,memory", "memory,network", "cpu:2,memory,network"] {
            assert_eq!(text.parse::<BackgroundLoad>().unwrap().to_string(), text);
        }
        for wrong in ["", "cpu", "cpu:0", "cpu:1025", "cpu:1,cpu:1", "memory,memory", "disk", "none,memory", "cpu:-1"] {
            assert!(wrong.parse::<BackgroundLoad>().unwrap_err().contains(wrong), "{wrong}");
        }
        for text in ["other", "fifo:1", "fifo:98"] {
            assert_eq!(text.parse::<Sched>().unwrap().to_string(), text);
        }
        for wrong in ["", "fifo", "fifo:0", "fifo:99", "rr:1", "fifo:x"] {
            assert!(wrong.parse::<Sched>().unwrap_err().contains("fifo:98"), "{wrong}");
        }
    }
}
