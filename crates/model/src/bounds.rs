//! Bounds of results files. Writers keep them too, so that stored files can be read. Text from outside has smaller
//! bounds.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;

/// Most bytes of `manifest.json` and `audit.json`, and of a line of `trials.jsonl`.
pub const MOST_BYTES: u64 = 64 << 20;
/// Most bytes of `trials.jsonl`: [`MOST_TRIALS`](crate::plan::MOST_TRIALS) lines of 10 kB, including all attempts.
/// Lines in `docs/results` have 0.9 to 4.6 kB.
pub const MOST_TRIALS_BYTES: u64 = 1 << 30;
/// Most elements of all lists in a file, or in a line of `trials.jsonl`.
pub const MOST_ELEMENTS: usize = 250_000;
/// Most members of all JSON objects together, not counting the first member of each.
pub const MOST_MEMBERS: usize = 4_000_000;
/// Most bytes of a string in its JSON form.
pub const MOST_TEXT_BYTES: usize = 64 << 10;
/// Most bytes of a string from another host, plugin or process. Several, even escaped, fit into one string of a file.
pub const MOST_SAID_BYTES: usize = 4 << 10;
/// Most bytes of one stored message from another host or process, as JSON.
pub const MOST_SAID_IN_ALL: usize = 1 << 20;
/// Most elements of all lists in such a message.
pub const MOST_SAID_ELEMENTS: usize = 20_000;

/// Cuts a text of more than [`MOST_SAID_BYTES`] and appends the number of omitted bytes.
pub fn cut(text: &str) -> Cow<'_, str> {
    /// Room for that number, so that a cut text is not cut again.
    const WORDS: usize = 48;
    if text.len() <= MOST_SAID_BYTES {
        return Cow::Borrowed(text);
    }
    let end = (0..=MOST_SAID_BYTES - WORDS).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let kept = &text[..end];
    Cow::Owned(format!("{kept} … and {} bytes more", text.len() - kept.len()))
}

/// Value from another host, plugin or process, with each text [`cut`].
///
/// # Errors
/// Value and limit, if it still exceeds [`MOST_SAID_IN_ALL`] bytes or [`MOST_SAID_ELEMENTS`] elements.
pub fn said<T: Serialize + DeserializeOwned>(what: T) -> Result<T, String> {
    let mut value = serde_json::to_value(what).map_err(|error| error.to_string())?;
    cut_all(&mut value, MOST_SAID_BYTES, str::len);
    let text = value.to_string();
    if text.len() > MOST_SAID_IN_ALL {
        return Err(format!("{} bytes at once (limit {MOST_SAID_IN_ALL})", text.len()));
    }
    let elements = JsonCounts::count(&text).elements;
    if elements > MOST_SAID_ELEMENTS {
        return Err(format!("lists of {elements} elements (limit {MOST_SAID_ELEMENTS})"));
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// JSON of a results file, or of one of its lines, without a final line break. A text over [`MOST_TEXT_BYTES`] is
/// [`cut`].
///
/// # Errors
/// Value and limit, if readers would still refuse it.
pub fn to_json(what: &impl Serialize, is_pretty: bool) -> Result<String, String> {
    let written = if is_pretty { serde_json::to_string_pretty(what) } else { serde_json::to_string(what) };
    let mut text = written.map_err(|error| error.to_string())?;
    if too_long(&text).is_some() {
        let mut value = serde_json::to_value(what).map_err(|error| error.to_string())?;
        cut_all(&mut value, MOST_TEXT_BYTES, json_bytes);
        text = if is_pretty { format!("{value:#}") } else { value.to_string() };
    }
    match too_long(&text) {
        Some(what) => Err(what),
        // The caller adds a line break.
        None if text.len() as u64 >= MOST_BYTES => Err(format!("{} bytes (limit {MOST_BYTES})", text.len() + 1)),
        None => Ok(text),
    }
}

/// Length of a text in JSON, without its quotes, in bytes.
pub fn json_bytes(text: &str) -> usize {
    serde_json::to_string(text).map_or(usize::MAX, |text| text.len() - 2)
}

fn cut_all(value: &mut Value, most: usize, bytes: fn(&str) -> usize) {
    // A fast check first: most texts are short, and counting escapes takes longer.
    let is_long = |text: &str| 6 * text.len() > most && bytes(text) > most;
    match value {
        Value::String(text) if is_long(text) => *text = cut(text).into_owned(),
        Value::Array(values) => values.iter_mut().for_each(|value| cut_all(value, most, bytes)),
        Value::Object(values) => {
            let long: Vec<String> = values.keys().filter(|name| is_long(name)).cloned().collect();
            for name in long {
                let value = values.remove(&name).unwrap_or_default();
                values.insert(cut(&name).into_owned(), value);
            }
            values.values_mut().for_each(|value| cut_all(value, most, bytes));
        }
        _ => {}
    }
}

/// First bound that a JSON text exceeds, as value and limit: longest string, all members, or all list elements.
pub(crate) fn too_long(text: &str) -> Option<String> {
    let JsonCounts { longest, elements, members } = JsonCounts::count(text);
    if longest > MOST_TEXT_BYTES {
        return Some(format!("a text of {longest} bytes (limit {MOST_TEXT_BYTES})"));
    }
    if members > MOST_MEMBERS {
        return Some(format!("objects with {members} members in all (limit {MOST_MEMBERS})"));
    }
    (elements > MOST_ELEMENTS).then(|| format!("lists of {elements} elements in all (limit {MOST_ELEMENTS})"))
}

/// Sizes in a JSON text that [`too_long`] bounds.
struct JsonCounts {
    longest: usize,
    elements: usize,
    /// Members of all objects, not counting the first of each.
    members: usize,
}

impl JsonCounts {
    fn count(text: &str) -> Self {
        let mut counts = Self { longest: 0, elements: 0, members: 0 };
        let (mut begin, mut is_escaped) = (None, false);
        // One entry for each open bracket: true for a list.
        let mut open = Vec::new();
        for (at, byte) in text.bytes().enumerate() {
            match (byte, begin) {
                _ if is_escaped => is_escaped = false,
                (b'\\', _) => is_escaped = true,
                (b'"', None) => begin = Some(at + 1),
                (b'"', Some(from)) => {
                    counts.longest = counts.longest.max(at - from);
                    begin = None;
                }
                (b'[' | b'{', None) => {
                    open.push(byte == b'[');
                    counts.elements += usize::from(byte == b'[');
                }
                (b']' | b'}', None) => {
                    open.pop();
                }
                (b',', None) if open.last() == Some(&true) => counts.elements += 1,
                (b',', None) => counts.members += 1,
                _ => {}
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_letters_once_and_says_how_much_is_missing() {
        assert_eq!(cut("short"), "short");
        for long in ["é".repeat(70_000), "x".repeat(MOST_SAID_BYTES + 1), "\u{1b}".repeat(5_000_000)] {
            let once = cut(&long).into_owned();
            assert!(once.len() <= MOST_SAID_BYTES && json_bytes(&once) <= MOST_TEXT_BYTES, "{}", once.len());
            let (kept, rest) = once.split_once(" … and ").unwrap();
            assert_eq!(rest, format!("{} bytes more", long.len() - kept.len()));
            assert!(long.starts_with(kept) && cut(&once) == once);
        }
    }

    #[test]
    fn what_is_said_is_cut_in_its_texts_and_refused_in_its_lists() {
        let long = "x".repeat(70_000);
        let cut = said(serde_json::json!({ "a": [long], long.clone(): 1 })).unwrap().to_string();
        assert!(cut.len() < 3 * MOST_SAID_BYTES && cut.matches("bytes more").count() == 2, "{cut}");
        let of = |elements: usize| said(vec![1; elements]).map(|list| list.len());
        assert_eq!(of(MOST_SAID_ELEMENTS), Ok(MOST_SAID_ELEMENTS));
        assert!(of(MOST_SAID_ELEMENTS + 1).unwrap_err().contains("lists of 20001 elements (limit 20000)"));
        let why = said(vec!["x".repeat(1000); 2000]).unwrap_err();
        assert!(why.contains("2006001 bytes at once (limit 1048576)"), "{why}");
    }

    #[test]
    fn what_is_written_is_what_readers_take() {
        let at_most = "x".repeat(MOST_TEXT_BYTES);
        assert_eq!(to_json(&at_most, false).unwrap(), format!("\"{at_most}\""));
        for long in [at_most + "x", "\n".repeat(40_000)] {
            for is_pretty in [false, true] {
                let text = to_json(&serde_json::json!({ long.clone(): [long.clone()] }), is_pretty).unwrap();
                assert_eq!((too_long(&text), text.matches(" bytes more").count()), (None, 2));
            }
        }
        assert!(to_json(&vec![0; MOST_ELEMENTS + 1], false).unwrap_err().contains("250001 elements"));
        let texts = vec!["x".repeat(MOST_TEXT_BYTES); 1025];
        assert!(to_json(&texts, false).unwrap_err().contains("(limit 67108864)"));
    }

    #[test]
    fn the_longest_file_that_is_written_is_read_with_its_line_break() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("x");
        // With brackets, quotes and commas.
        let texts = |bytes: usize| {
            let (count, rest) = ((bytes - 2) / 60_003, (bytes - 2) % 60_003);
            let mut texts = vec!["x".repeat(60_000); count];
            texts.push("x".repeat(rest - 2));
            texts
        };
        let longest = to_json(&texts(MOST_BYTES as usize - 1), false).unwrap();
        assert_eq!(longest.len() as u64, MOST_BYTES - 1);
        std::fs::write(&file, longest + "\n").unwrap();
        assert_eq!(crate::file::read(&file, MOST_BYTES).unwrap().len() as u64, MOST_BYTES);
        assert!(to_json(&texts(MOST_BYTES as usize), false).unwrap_err().contains("67108865 bytes"));
    }

    #[test]
    fn a_text_that_is_too_long_is_found() {
        let with = |length: usize| format!("{{\"a\\\"\": 1, \"b\": \"{}\", \"c\": \"\"}}", "x".repeat(length));
        assert_eq!(too_long(&with(MOST_TEXT_BYTES)), None);
        assert!(too_long(&with(MOST_TEXT_BYTES + 1)).is_some_and(|what| what.contains("65537 bytes")));
    }

    #[test]
    fn elements_of_all_lists_are_counted_and_members_apart() {
        let most = MOST_ELEMENTS;
        let list = |elements: usize| format!("[{}]", vec!["\"\""; elements].join(","));
        let fields = vec!["\"a,[\\\"\": 1"; most + 1].join(", ");
        assert_eq!(too_long(&format!("{{\"b\": {}, {fields}}}", list(most))), None);
        assert!(too_long(&list(most + 1)).is_some());
        let members = |members: usize| format!("{{{}}}", vec!["\"\":1"; members].join(","));
        assert_eq!(too_long(&members(MOST_MEMBERS)), None);
        let told = too_long(&members(MOST_MEMBERS + 2));
        assert!(told.is_some_and(|what| what.contains("4000001 members")));
        let two = format!("{{\"a\": {}, \"b\": {{\"c\": {}}}}}", list(most / 2), list(most / 2 + 1));
        assert!(too_long(&two).is_some_and(|what| what.contains("(limit 250000)")));
    }
}
