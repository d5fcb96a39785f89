//! The address of a figure over the rounds of an experiment: by names, so that it is the same in every experiment.

use crate::figure::{Figure, Statistic, Unit};
use crate::metric::Stream;
use crate::pace::OfferedLoad;
use crate::payload::size_text;
use serde::{Serialize, Serializer};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

/// Where a figure is found.
#[derive(Clone, Debug, Eq, Serialize)]
pub struct FigureAddress {
    /// The name of the sub-experiment.
    pub sub_experiment: String,
    /// Bytes of every message, or of the largest.
    pub payload_bytes: u64,
    /// Messages have several sizes. It says how the address is shown, and is no part of it.
    #[serde(skip)]
    pub has_several_sizes: bool,
    /// How messages were offered.
    #[serde(rename = "offered_load", serialize_with = "as_text")]
    pub load: OfferedLoad,
    /// Which messages, or which process.
    pub stream: Stream,
    /// What it is.
    pub figure: Figure,
    /// The statistic of its samples.
    #[serde(serialize_with = "as_text")]
    pub statistic: Statistic,
}

fn as_text<T: fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

impl PartialEq for FigureAddress {
    fn eq(&self, other: &Self) -> bool {
        let Self { sub_experiment, payload_bytes, has_several_sizes: _, load, stream, figure, statistic } = self;
        (*payload_bytes, *figure, *statistic) == (other.payload_bytes, other.figure, other.statistic)
            && (sub_experiment, load, stream) == (&other.sub_experiment, &other.load, &other.stream)
    }
}

impl Hash for FigureAddress {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Without the load, which has fractions: few addresses differ in it alone.
        (&self.sub_experiment, self.payload_bytes, &self.stream, self.figure, self.statistic).hash(state);
    }
}

impl FigureAddress {
    /// Its unit.
    pub fn unit(&self) -> Unit {
        self.figure.unit()
    }

    /// Figure and statistic: `rtt_half_ns.p50`, `loss_share`; before them the stream if it is not `all`.
    pub fn name(&self) -> String {
        let name = FigureName { figure: self.figure, statistic: Some(self.statistic) };
        if self.stream == Stream::all() { name.to_string() } else { format!("{} {name}", self.stream) }
    }

    /// Whether both are of one figure over payloads.
    pub fn is_same_but_for_payload(&self, other: &Self) -> bool {
        Self { payload_bytes: self.payload_bytes, ..other.clone() } == *self
    }

    /// The payload that it stands under, which is none where messages have several sizes: `1k`, `all topics`, `one topic`.
    pub fn size(&self) -> String {
        match self.stream.topic {
            Some(_) if self.has_several_sizes => "one topic".to_owned(),
            _ => size_text(self.payload_bytes, self.has_several_sizes),
        }
    }

    /// Payload and offered load: `1k`, `1k 1000hz`, `all topics`.
    pub fn place(&self) -> String {
        match self.load {
            OfferedLoad::Closed => self.size(),
            OfferedLoad::Recorded if self.has_several_sizes => self.size(),
            load => format!("{} {load}", self.size()),
        }
    }

    /// The sub-experiment with that place: `uds at 1k 1000hz`, `uds on all topics`.
    pub fn located(&self) -> String {
        self.located_as(&self.sub_experiment)
    }

    /// As [`Self::located`], by another name of the sub-experiment.
    pub fn located_as(&self, name: &str) -> String {
        format!("{name} {}", self.at())
    }

    /// Payload and offered load within a sentence: `at 1k 1000hz`, `on all topics`.
    pub fn at(&self) -> String {
        let word = if self.has_several_sizes { "on" } else { "at" };
        format!("{word} {}", self.place())
    }
}

impl fmt::Display for FigureAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.located(), self.name())
    }
}

/// A figure as people name it: `FIGURE[.STATISTIC]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FigureName {
    /// What it is.
    pub figure: Figure,
    /// The statistic of its samples; `None` means any.
    pub statistic: Option<Statistic>,
}

impl fmt::Display for FigureName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.statistic.filter(|statistic| *statistic != Statistic::Value) {
            Some(statistic) => write!(formatter, "{}.{statistic}", self.figure),
            None => write!(formatter, "{}", self.figure),
        }
    }
}

impl FromStr for FigureName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (figure, statistic) = text.split_once('.').map_or((text, None), |(figure, of)| (figure, Some(of)));
        Ok(Self { figure: figure.parse()?, statistic: statistic.map(statistic_named).transpose()? })
    }
}

/// The statistic of a name that people give: as in files, or `median`.
///
/// # Errors
/// If there is none of that name.
pub fn statistic_named(text: &str) -> Result<Statistic, String> {
    if text == "median" { Ok(Statistic::P50) } else { text.parse() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in ["rtt_half_ns.p999", "cpu_share", "service_ns"] {
            assert_eq!(text.parse::<FigureName>().map(|name| name.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("rtt_half_ns.median".parse::<FigureName>(), "rtt_half_ns.p50".parse());
        for wrong in ["rtt_half", "rtt_half_ns.p98", "rtt_half_ns."] {
            assert!(wrong.parse::<FigureName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_is_written_from_coarse_to_fine() {
        let address = FigureAddress {
            sub_experiment: "uds".to_owned(),
            payload_bytes: 65536,
            has_several_sizes: false,
            load: OfferedLoad::Rate { hz: 1000.0 },
            stream: Stream::last(),
            figure: Figure::OneWay,
            statistic: Statistic::P99,
        };
        assert_eq!(address.to_string(), "uds at 64k 1000hz: follower=last one_way_ns.p99");
        let closed = FigureAddress { load: OfferedLoad::Closed, stream: Stream::all(), ..address };
        assert_eq!(closed.to_string(), "uds at 64k: one_way_ns.p99");
        let load = OfferedLoad::Recorded;
        let recorded = FigureAddress { has_several_sizes: true, load, stream: Stream::all(), ..closed.clone() };
        assert_eq!(recorded.to_string(), "uds on all topics: one_way_ns.p99");
        let topic = FigureAddress { stream: Stream::topic("/a"), ..recorded.clone() };
        assert_eq!(topic.to_string(), "uds on one topic: topic=/a one_way_ns.p99");
        // As a file of limits has it.
        assert_eq!(recorded, FigureAddress { has_several_sizes: false, ..recorded.clone() });
        let json = serde_json::to_value(&closed).unwrap();
        assert_eq!((&json["offered_load"], &json["stream"]), (&"closed".into(), &"all".into()));
    }
}
