use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Part of a payload that both sides write and verify on every trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Touch {
    /// Only Tripmeter's header of 16 bytes is written and read.
    #[default]
    None,
    /// The first cache line, 64 bytes including the header, is written, read and verified.
    Header,
    /// Every byte is written, read and verified.
    Full,
}

impl Touch {
    /// Name in files, flags and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Touch::None => "none",
            Touch::Header => "header",
            Touch::Full => "full",
        }
    }
}

impl fmt::Display for Touch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Touch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Touch::None),
            "header" => Ok(Touch::Header),
            "full" => Ok(Touch::Full),
            _ => Err(format!("'{text}' is not one of none, header, full")),
        }
    }
}
