//! Files of samples to keep, and streams that have their own figures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use strum::{Display, EnumString, VariantArray};

/// Files of samples to keep, by name. `["none"]` keeps only histograms, which bounds the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<RawFormat>", into = "Vec<RawFormat>")]
#[schemars(with = "Vec<RawFormat>")]
pub struct Raw {
    /// `samples/<name>.csv`, see [`crate::samples`].
    pub samples: bool,
    /// `measurements_<name>.csv` of round trips, as eProsima's tests write them.
    pub eprosima: bool,
    /// `samples/<name>.parquet`, made of the CSV when the sub-experiment ends.
    pub parquet: bool,
}

/// A file of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Display, EnumString, VariantArray)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum RawFormat {
    /// Rows of samples, [`Raw::samples`].
    Samples,
    /// eProsima's file, [`Raw::eprosima`].
    Eprosima,
    /// Rows of samples as Parquet, [`Raw::parquet`].
    Parquet,
    /// No file.
    None,
}

impl Raw {
    /// Keeps only histograms.
    pub const NONE: Self = Self { samples: false, eprosima: false, parquet: false };
    /// Keeps rows of samples: the default.
    pub const SAMPLES: Self = Self { samples: true, ..Self::NONE };

    /// True if only histograms are kept.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// True if rows of samples are written: to keep them, or to convert them to Parquet.
    pub fn has_rows(self) -> bool {
        self.samples || self.parquet
    }
}

impl Default for Raw {
    fn default() -> Self {
        Self::SAMPLES
    }
}

impl TryFrom<Vec<RawFormat>> for Raw {
    type Error = String;

    fn try_from(formats: Vec<RawFormat>) -> Result<Self, String> {
        let has = |format| formats.contains(&format);
        let raw = Self {
            samples: has(RawFormat::Samples),
            eprosima: has(RawFormat::Eprosima),
            parquet: has(RawFormat::Parquet),
        };
        match raw.is_none() == has(RawFormat::None) {
            true => Ok(raw),
            false if raw.is_none() => Err("names no file of samples; use 'none' to keep none".to_owned()),
            false => Err("contains 'none' beside files of samples; remove one of them".to_owned()),
        }
    }
}

impl From<Raw> for Vec<RawFormat> {
    fn from(raw: Raw) -> Self {
        let is_asked = |format: &RawFormat| match format {
            RawFormat::Samples => raw.samples,
            RawFormat::Eprosima => raw.eprosima,
            RawFormat::Parquet => raw.parquet,
            RawFormat::None => raw.is_none(),
        };
        RawFormat::VARIANTS.iter().copied().filter(is_asked).collect()
    }
}

impl FromStr for Raw {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let format = |word: &str| {
            let unknown = |_| format!("'{word}' is not one of samples, eprosima, parquet and none");
            word.trim().parse::<RawFormat>().map_err(unknown)
        };
        let formats = text.split(',').map(format).collect::<Result<Vec<_>, _>>()?;
        formats.try_into().map_err(|error| format!("'{text}' {error}"))
    }
}

impl fmt::Display for Raw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = Vec::from(*self).iter().map(RawFormat::to_string).collect();
        formatter.write_str(&words.join(","))
    }
}

/// Streams that have their own figures if there are many topics or clients; the topics of a recording always do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Streams {
    /// The first 16 streams and the slowest.
    #[default]
    Few,
    /// Each stream.
    All,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_and_none_stands_alone() {
        for text in ["samples", "eprosima", "samples,eprosima", "samples,eprosima,parquet", "parquet", "none"] {
            let raw: Raw = text.parse().unwrap();
            assert_eq!(raw.to_string(), text);
            assert_eq!(serde_json::from_str::<Raw>(&serde_json::to_string(&raw).unwrap()).unwrap(), raw);
        }
        assert_eq!("parquet, samples".parse(), Ok(Raw { parquet: true, ..Raw::SAMPLES }));
        for (text, why) in [("none,samples", "beside files"), ("csv", "'csv' is not one of"), ("", "'' is not one of")]
        {
            assert!(text.parse::<Raw>().is_err_and(|error| error.contains(why)), "{text}");
        }
        assert!(serde_json::from_str::<Raw>("[]").is_err_and(|error| error.to_string().contains("use 'none'")));
    }
}
