use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};

/// Part of a payload that both sides write and verify on every trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[derive(Display, EnumString)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = no_touch)]
pub enum Touch {
    /// Only Tripmeter's header of 16 bytes is written and read.
    #[default]
    None,
    /// The first cache line, 64 bytes including the header, is written, read and verified.
    Header,
    /// Every byte is written, read and verified.
    Full,
}

fn no_touch(text: &str) -> String {
    format!("'{text}' is not one of none, header, full")
}
