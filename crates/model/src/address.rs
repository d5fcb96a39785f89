//! Address of a figure over the rounds of an experiment. It consists of names, so that it is valid in every experiment.

use crate::figure::{Figure, Statistic, Unit};
use crate::metric::Stream;
use crate::pace::OfferedLoad;
use crate::payload::size_text;
use serde::{Serialize, Serializer};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

/// Address of a figure in any experiment.
#[derive(Clone, Debug, Eq, Serialize)]
pub struct FigureAddress {
    /// Name of the sub-experiment.
    pub sub_experiment: String,
    /// Bytes per message; of the largest if sizes differ.
    pub payload_bytes: u64,
    /// True if messages have several sizes: changes how the address is shown, not equality.
    #[serde(skip)]
    pub has_several_sizes: bool,
    /// Offered load.
    #[serde(rename = "offered_load", serialize_with = "as_text")]
    pub load: OfferedLoad,
    /// Messages or process that the figure belongs to.
    pub stream: Stream,
    /// The figure.
    pub figure: Figure,
    /// Statistic of its samples.
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
        // Without the load, which is a float: few addresses differ in the load alone.
        (&self.sub_experiment, self.payload_bytes, &self.stream, self.figure, self.statistic).hash(state);
    }
}

impl FigureAddress {
    /// Unit of the figure.
    pub fn unit(&self) -> Unit {
        self.figure.unit()
    }

    /// Figure and statistic, e.g. `rtt_half_ns.p50` or `loss_share`, after the stream unless that is `all`.
    pub fn name(&self) -> String {
        let name = FigureName { figure: self.figure, statistic: Some(self.statistic) };
        if self.stream == Stream::all() { name.to_string() } else { format!("{} {name}", self.stream) }
    }

    /// True if the addresses are equal, or differ only in the payload.
    pub fn is_same_but_for_payload(&self, other: &Self) -> bool {
        Self { payload_bytes: self.payload_bytes, ..other.clone() } == *self
    }

    /// Payload, or its stand-in where messages have several sizes: `1k`, `all topics`, `one topic`.
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

    /// Sub-experiment and place: `uds at 1k 1000hz`, `uds on all topics`.
    pub fn located(&self) -> String {
        self.located_as(&self.sub_experiment)
    }

    /// [`Self::located`] with another name of the sub-experiment.
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

/// Name of a figure, as users write it: `FIGURE[.STATISTIC]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FigureName {
    /// The figure.
    pub figure: Figure,
    /// Statistic of its samples; `None` means any.
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

/// Parses the name of a statistic as in files, or `median` for p50.
///
/// # Errors
/// If no statistic has this name.
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
        // As read from a file of limits.
        assert_eq!(recorded, FigureAddress { has_several_sizes: false, ..recorded.clone() });
        let json = serde_json::to_value(&closed).unwrap();
        assert_eq!((&json["offered_load"], &json["stream"]), (&"closed".into(), &"all".into()));
    }
}
