//! Names of transports, as users write them: `system/variant?key=value&key=value`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Transport as written: variant and settings may be missing, `*` stands for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// System, or `*` for every system that crosses processes.
    pub system: String,
    /// Variant; `None` for the system's default, `*` for all variants.
    pub variant: Option<String>,
    /// Settings, as given.
    pub settings: BTreeMap<String, String>,
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed =
            |why: &str| format!("transport '{text}' {why}; write system/variant?key=value, e.g. uds/stream");
        let (name, query) = text.split_once('?').map_or((text, None), |(name, query)| (name, Some(query)));
        let (system, variant) = name.split_once('/').map_or((name, None), |(system, variant)| (system, Some(variant)));
        let plain = |word: &str| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        if !(plain(system) || system == "*") || variant.is_some_and(|variant| !(plain(variant) || variant == "*")) {
            return Err(malformed("has a name that is not of a-z, 0-9 and '-'"));
        }
        let mut settings = BTreeMap::new();
        for pair in query.into_iter().flat_map(|query| query.split('&')) {
            let (key, value) = pair.split_once('=').ok_or_else(|| malformed("has a setting without '='"))?;
            if key.is_empty() {
                return Err(malformed("has a setting without a name"));
            }
            if settings.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(malformed(&format!("has the setting '{key}' twice")));
            }
        }
        Ok(Self { system: system.to_owned(), variant: variant.map(str::to_owned), settings })
    }
}

/// Variant of a system, with all its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Transport {
    /// Name of the system.
    pub system: String,
    /// Name of the variant.
    pub variant: String,
    /// Settings that differ from their defaults; shown with the name.
    pub given: BTreeMap<String, String>,
    /// All settings, including those with default values.
    pub settings: BTreeMap<String, String>,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.system.clone();
        if !self.variant.is_empty() {
            text += &format!("/{}", self.variant);
        }
        for (index, (key, value)) in self.given.iter().enumerate() {
            text += &format!("{}{key}={value}", if index == 0 { '?' } else { '&' });
        }
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_transport_are_distinguished() {
        let selector: Selector = "fastdds/udp?reliability=reliable&security=on".parse().unwrap();
        assert_eq!((selector.system.as_str(), selector.variant.as_deref()), ("fastdds", Some("udp")));
        assert_eq!(selector.settings["security"], "on");
        assert_eq!("uds".parse::<Selector>().unwrap().variant, None);
        assert_eq!("uds/*".parse::<Selector>().unwrap().variant.as_deref(), Some("*"));
        assert_eq!("*".parse::<Selector>().unwrap().system, "*");
    }

    #[test]
    fn what_is_no_transport_is_refused() {
        for text in ["", "/", "uds/", "Uds", "a b", "uds?x", "uds?=1", "uds?a=1&a=2", "uds/a/b", "../x"] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }
}
