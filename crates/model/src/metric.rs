//! Parts of the address of a figure: follower, process, probe and stream.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use strum::{Display, EnumString};
pub use tripmeter_stats::Interval;

/// Follower whose messages a figure counts, among several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    /// Follower with this index.
    Follower(u32),
    /// Last follower that each message reached.
    Last,
}

/// Process whose cost a figure gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display, EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum Process {
    /// The sending process.
    Leader,
    /// The receiving process.
    Follower,
}

/// Time of a core-to-core probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display, EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum Probe {
    /// Before the warm-up.
    Before,
    /// After the last sample.
    After,
}

/// Messages or process of a trial that a figure belongs to: a set of dimensions, `all` if empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream {
    /// Topic of a recording, by name.
    pub topic: Option<String>,
    /// Client, by index, if there are several.
    pub client: Option<u32>,
    /// Publisher, by index, if there are several.
    pub publisher: Option<u32>,
    /// Follower, if there are several.
    pub at: Option<At>,
    /// Process.
    pub process: Option<Process>,
    /// Core-to-core probe.
    pub probe: Option<Probe>,
}

impl Stream {
    /// All messages of the trial.
    pub fn all() -> Self {
        Self::default()
    }

    /// Messages of a topic.
    pub fn topic(name: &str) -> Self {
        Self { topic: Some(name.to_owned()), ..Self::default() }
    }

    /// Messages of a client.
    pub fn client(index: u32) -> Self {
        Self { client: Some(index), ..Self::default() }
    }

    /// Messages of a publisher.
    pub fn publisher(index: u32) -> Self {
        Self { publisher: Some(index), ..Self::default() }
    }

    /// Messages at a follower.
    pub fn follower(index: u32) -> Self {
        Self { at: Some(At::Follower(index)), ..Self::default() }
    }

    /// All messages, each at the last follower that it reached.
    pub fn last() -> Self {
        Self { at: Some(At::Last), ..Self::default() }
    }

    /// Cost of a process.
    pub fn process(process: Process) -> Self {
        Self { process: Some(process), ..Self::default() }
    }

    /// Results of a core-to-core probe.
    pub fn probe(probe: Probe) -> Self {
        Self { probe: Some(probe), ..Self::default() }
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.map(|at| match at {
            At::Follower(index) => index.to_string(),
            At::Last => "last".to_owned(),
        });
        let dimensions = [
            ("client", self.client.map(|index| index.to_string())),
            ("publisher", self.publisher.map(|index| index.to_string())),
            ("follower", at),
            ("process", self.process.map(|process| process.to_string())),
            ("probe", self.probe.map(|probe| probe.to_string())),
            // The last dimension, because a topic name may contain any character.
            ("topic", self.topic.clone()),
        ];
        let given: Vec<String> =
            dimensions.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?))).collect();
        formatter.write_str(if given.is_empty() { "all".to_owned() } else { given.join(" ") }.as_str())
    }
}

impl FromStr for Stream {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut stream = Self::default();
        if text == "all" {
            return Ok(stream);
        }
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(name) = rest.strip_prefix("topic=") {
                stream.topic = Some(name.to_owned());
                break;
            }
            let (dimension, others) = rest.split_once(' ').unwrap_or((rest, ""));
            stream
                .set(dimension)
                .ok_or_else(|| format!("'{text}' is not a stream: '{dimension}' is not a dimension"))?;
            rest = others;
        }
        if stream == Self::default() { Err(format!("'{text}' is not a stream")) } else { Ok(stream) }
    }
}

impl Serialize for Stream {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Stream {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Stream {
    fn set(&mut self, dimension: &str) -> Option<()> {
        match dimension.split_once('=')? {
            ("client", index) => self.client = Some(index.parse().ok()?),
            ("publisher", index) => self.publisher = Some(index.parse().ok()?),
            ("follower", "last") => self.at = Some(At::Last),
            ("follower", index) => self.at = Some(At::Follower(index.parse().ok()?)),
            ("process", process) => self.process = Some(process.parse().ok()?),
            ("probe", probe) => self.probe = Some(probe.parse().ok()?),
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_read_as_they_are_written() {
        let both = Stream { publisher: Some(3), at: Some(At::Follower(1)), ..Stream::default() };
        for (stream, text) in [
            (Stream::all(), "all"),
            (Stream::topic("/camera front=1"), "topic=/camera front=1"),
            (Stream::client(7), "client=7"),
            (Stream::last(), "follower=last"),
            (Stream::process(Process::Leader), "process=leader"),
            (Stream::probe(Probe::After), "probe=after"),
            (both, "publisher=3 follower=1"),
        ] {
            assert_eq!((stream.to_string().as_str(), text.parse()), (text, Ok(stream)));
        }
        for wrong in ["", "follower", "follower=x", "robot=1", "all client=1", "client=1  client=2"] {
            assert!(wrong.parse::<Stream>().is_err(), "{wrong}");
        }
    }
}
