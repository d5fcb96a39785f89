//! Reads maps to which newer versions may add keys: ignores unknown keys and their values.

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// Reader of a map; the function returns the reader for the value of a key.
pub(crate) struct KnownKeys<K, F>(F, PhantomData<K>);

pub(crate) fn known_keys<K, S>(value_of: impl Fn(&K) -> S) -> KnownKeys<K, impl Fn(&K) -> S> {
    KnownKeys(value_of, PhantomData)
}

impl<'de, K, S, F> DeserializeSeed<'de> for KnownKeys<K, F>
where
    K: FromStr + Ord,
    S: DeserializeSeed<'de>,
    F: Fn(&K) -> S,
{
    type Value = BTreeMap<K, S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, K, S, F> Visitor<'de> for KnownKeys<K, F>
where
    K: FromStr + Ord,
    S: DeserializeSeed<'de>,
    F: Fn(&K) -> S,
{
    type Value = BTreeMap<K, S::Value>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut known = BTreeMap::new();
        while let Some(name) = map.next_key::<Cow<'_, str>>()? {
            match name.parse::<K>() {
                Ok(key) => {
                    let value = map.next_value_seed((self.0)(&key))?;
                    known.insert(key, value);
                }
                Err(_) => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(known)
    }
}
