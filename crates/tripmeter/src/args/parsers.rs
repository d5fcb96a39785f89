use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use std::path::PathBuf;
use std::str::FromStr;
use tripmeter_model::experiment::WrittenTopic;
use tripmeter_model::payload;

/// Parser of a path that must be UTF-8, because it is written to files and passed to other processes.
pub fn text_path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|path| match path.into_string() {
        Ok(path) if path.is_empty() => Err("it is empty"),
        Ok(path) => Ok(PathBuf::from(path)),
        Err(_) => Err("it is not UTF-8 text; use another path"),
    })
}

/// Parser of a `T` from one of these words.
pub fn words<T: FromStr + Clone + Send + Sync + 'static>(
    words: &'static [&'static str],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words)
        .map(|word| T::from_str(&word).unwrap_or_else(|_| unreachable!("'{word}' is a word of the type")))
}

pub fn words_of<T: Copy + Send + Sync + 'static>(
    pairs: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(pairs.iter().map(|(word, _)| *word)).map(|typed| {
        let pair = pairs.iter().find(|(word, _)| *word == typed);
        pair.expect("only these words are let through").1
    })
}

/// Parses a size, e.g. `64k`, to bytes.
pub fn size(text: &str) -> Result<u64, String> {
    payload::parse_size(text).map_err(|error| error.to_string())
}

/// Parses `NAME:SIZE:RATE`; the name may have colons.
pub fn topic(text: &str) -> Result<WrittenTopic, String> {
    let mut parts = text.rsplitn(3, ':').map(str::to_owned);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(rate), Some(size), Some(name)) => Ok(WrittenTopic { name, size, rate }),
        _ => Err("expected NAME:SIZE:RATE, e.g. /camera:2M:30".to_owned()),
    }
}
