//! Pace of a workload: the times at which messages are offered.

use schemars::JsonSchema;
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::str::FromStr;
use strum::EnumDiscriminants;

/// Schedule of the messages of a trial, as planned; part of the address of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema, EnumDiscriminants)]
#[strum_discriminants(name(LoadKind), doc = "Kind of an [`OfferedLoad`].")]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum OfferedLoad {
    /// The next message is sent when the previous one was answered.
    Closed,
    /// At an even rate; a message that cannot be sent at its due time is sent as soon as possible.
    Rate {
        /// Messages per second of each stream.
        #[serde(rename = "rate_hz", deserialize_with = "not_negative")]
        hz: f64,
    },
    /// As fast as possible.
    Max,
    /// In bursts.
    Burst(Burst),
    /// At the highest even rate whose loss is within a bound.
    Search {
        /// Share of the messages that may be lost: 0 is none, 0.005 is 0.5 %.
        #[serde(deserialize_with = "not_negative")]
        loss_bound: f64,
    },
    /// As recorded.
    Recorded,
}

impl Eq for OfferedLoad {}

/// Reads a number, and refuses one below 0, as [`OfferedLoad::from_str`] does.
fn not_negative<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = f64::deserialize(deserializer)?;
    let is_wrong = !number.is_finite() || number < 0.0;
    if is_wrong {
        Err(D::Error::invalid_value(Unexpected::Float(number), &"a number of 0 or more"))
    } else {
        Ok(number)
    }
}

/// Messages one after the other, then a pause until the next burst starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Burst {
    /// Messages per burst.
    #[serde(rename = "demand")]
    pub size: u64,
    /// Time from the start of one burst to the start of the next, in nanoseconds.
    #[serde(rename = "recovery_ns")]
    pub gap_ns: u64,
}

impl OfferedLoad {
    /// Messages per second of each stream, the mean for bursts; `None` if the load has no fixed rate.
    pub fn hz(&self) -> Option<f64> {
        match self {
            OfferedLoad::Rate { hz } => Some(*hz),
            OfferedLoad::Burst(Burst { size, gap_ns }) => Some(*size as f64 * 1e9 / *gap_ns as f64),
            _ => None,
        }
    }

    /// True if messages have a rate that does not describe the load, like the mean of bursts.
    pub fn is_uneven(&self) -> bool {
        self.hz().is_some() && !matches!(self, OfferedLoad::Rate { .. })
    }

    /// Burst, if the load consists of bursts.
    pub fn burst(&self) -> Option<Burst> {
        if let OfferedLoad::Burst(burst) = self { Some(*burst) } else { None }
    }

    /// Period of messages, or of bursts, in nanoseconds; 0 if the load has no fixed rate.
    pub fn gap_ns(&self) -> f64 {
        match self {
            OfferedLoad::Rate { hz } => 1e9 / hz,
            OfferedLoad::Burst(Burst { gap_ns, .. }) => *gap_ns as f64,
            _ => 0.0,
        }
    }

    /// Suffix of names: `_1000hz`, `_burst-4-5ms`, `_recording`; empty for a closed loop.
    pub fn suffix(&self) -> String {
        match self {
            OfferedLoad::Closed => String::new(),
            OfferedLoad::Burst(Burst { size, gap_ns }) => format!("_burst-{size}-{}ms", *gap_ns as f64 / 1e6),
            OfferedLoad::Recorded => "_recording".to_owned(),
            load => format!("_{load}"),
        }
    }
}

impl fmt::Display for OfferedLoad {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OfferedLoad::Closed => formatter.write_str("closed"),
            OfferedLoad::Rate { hz } => write!(formatter, "{hz}hz"),
            OfferedLoad::Max => formatter.write_str("max"),
            OfferedLoad::Burst(Burst { size, gap_ns }) => write!(formatter, "burst:{size}/{gap_ns}ns"),
            OfferedLoad::Search { loss_bound } => write!(formatter, "search:{loss_bound}"),
            OfferedLoad::Recorded => formatter.write_str("recorded"),
        }
    }
}

impl FromStr for OfferedLoad {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("'{text}' is not an offered load such as closed, max, recorded, 1000hz or burst:100/5000000ns");
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        match text {
            "closed" => return Ok(OfferedLoad::Closed),
            "max" => return Ok(OfferedLoad::Max),
            "recorded" => return Ok(OfferedLoad::Recorded),
            _ => {}
        }
        if let Some(hz) = text.strip_suffix("hz") {
            return number(hz).map(|hz| OfferedLoad::Rate { hz }).ok_or_else(wrong);
        }
        if let Some(bound) = text.strip_prefix("search:") {
            return number(bound).map(|loss_bound| OfferedLoad::Search { loss_bound }).ok_or_else(wrong);
        }
        let burst = text.strip_prefix("burst:").and_then(|burst| burst.strip_suffix("ns")?.split_once('/'));
        let burst = burst.and_then(|(size, gap)| Some(Burst { size: size.parse().ok()?, gap_ns: gap.parse().ok()? }));
        burst.map(OfferedLoad::Burst).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read_as_they_are_written() {
        for load in [
            OfferedLoad::Closed,
            OfferedLoad::Max,
            OfferedLoad::Recorded,
            OfferedLoad::Rate { hz: 1000.0 },
            OfferedLoad::Rate { hz: 0.1 },
            OfferedLoad::Burst(Burst { size: 100, gap_ns: 5_000_000 }),
            OfferedLoad::Search { loss_bound: 0.005 },
        ] {
            assert_eq!(load.to_string().parse(), Ok(load));
        }
        assert_eq!(OfferedLoad::Rate { hz: 1000.0 }.to_string(), "1000hz");
        for wrong in ["", "hz", "-1hz", "NaNhz", "burst:1", "burst:1/2", "burst:/5ns", "search:", "open"] {
            assert!(wrong.parse::<OfferedLoad>().is_err(), "{wrong}");
        }
    }
}
