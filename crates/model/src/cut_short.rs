//! Reason that a trial or a payload ended before its plan.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

const TIME_CAP: &str = "time cap";
const INTERRUPTED: &str = "interrupted";

/// Reason for fewer samples than planned; files contain its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CutShort {
    /// The user asked to stop.
    Interrupted,
    /// The planned time cap, with the text after the words `time cap`, such as ` of 2 s`.
    TimeCap(String),
    /// A failure, or a search that found nothing, as a sentence.
    Broken(String),
}

impl CutShort {
    /// Time cap of this length, if the length is known.
    pub fn at_cap(cap_ns: Option<u64>) -> Self {
        Self::TimeCap(cap_ns.map_or_else(String::new, |ns| format!(" of {} s", ns as f64 / 1e9)))
    }

    /// Time cap that ended the payload before all offered loads were measured.
    pub fn before_loads(measured: usize, planned: usize) -> Self {
        Self::TimeCap(format!(": {measured} of {planned} offered loads"))
    }

    /// Adds text to the reason; an interruption has none.
    #[must_use]
    pub fn and(self, more: &str) -> Self {
        match self {
            Self::Interrupted => self,
            Self::TimeCap(text) => Self::TimeCap(text + more),
            Self::Broken(text) => Self::Broken(text + more),
        }
    }

    /// True if a time cap was the reason.
    pub fn is_cap(&self) -> bool {
        matches!(self, Self::TimeCap(_))
    }
}

impl fmt::Display for CutShort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => formatter.write_str(INTERRUPTED),
            Self::TimeCap(more) => write!(formatter, "{TIME_CAP}{more}"),
            Self::Broken(why) => formatter.write_str(why),
        }
    }
}

impl From<&str> for CutShort {
    fn from(text: &str) -> Self {
        match text.strip_prefix(TIME_CAP) {
            Some(more) => Self::TimeCap(more.to_owned()),
            None if text == INTERRUPTED => Self::Interrupted,
            None => Self::Broken(text.to_owned()),
        }
    }
}

impl Serialize for CutShort {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CutShort {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from(&*Cow::<str>::deserialize(deserializer)?))
    }
}

impl JsonSchema for CutShort {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_read_as_it_is_written() {
        let capped = CutShort::at_cap(Some(2_000_000_000)).and("; no message of /late");
        let all = [
            (CutShort::Interrupted, "interrupted"),
            (CutShort::at_cap(None), "time cap"),
            (capped, "time cap of 2 s; no message of /late"),
            (CutShort::before_loads(1, 2), "time cap: 1 of 2 offered loads"),
            (CutShort::Broken("the follower ended".to_owned()), "the follower ended"),
        ];
        for (reason, text) in all {
            assert_eq!(reason.to_string(), text);
            assert_eq!(CutShort::from(text), reason);
            let json = serde_json::to_string(&reason).unwrap();
            assert_eq!((json.as_str(), serde_json::from_str(&json).unwrap()), (format!("\"{text}\"").as_str(), reason));
        }
    }
}
