//! Rewords messages of serde: value found, value expected.

const MOST_CHARS: usize = 60;

/// Count with its noun: `1 sub-experiment`, `2 sub-experiments`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Text cut after 60 characters.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Rewords a message of serde, given without its position. `object` is the name of a map in the format. `found` is the
/// value as written, which serde does not always quote.
pub fn in_plain_words(message: &str, object: &str, found: Option<&str>) -> String {
    let kind = |text: &str| text.replace("an object", object);
    let not = |found: &str, expected: &str| kind(&format!("found {found}, expected {}", expected_words(expected)));
    if let Some((what, expected)) = message.rsplit_once(", expected ") {
        let after = |kind: &str| what.strip_prefix(kind);
        if let Some(found) = after("invalid type: ").or_else(|| after("invalid value: ")) {
            return not(&found_words(found), expected);
        }
        if let Some(length) = after("invalid length ") {
            return not(&format!("a list of {length}"), expected);
        }
        let known = |expected: &str| expected.trim_start_matches("one of ").replace('`', "'");
        if let Some(name) = after("unknown variant ") {
            return format!("found {}, expected {}", quoted(name), known(expected));
        }
        if let Some(name) = after("unknown field ") {
            return format!("there is no key {}; known are {}", quoted(name), known(expected));
        }
    }
    if let Some(name) = message.strip_prefix("missing field ") {
        return format!("the key {} is missing", quoted(name));
    }
    if let Some(name) = message.strip_prefix("duplicate field ") {
        return format!("the key {} occurs twice", quoted(name));
    }
    match found.map(shortened) {
        Some(found) if message == "expected value" => format!("found {found}, expected a word"),
        Some(found) if message.starts_with("data did not match any variant") => {
            format!("found {found}, which has no known form")
        }
        _ => message.to_owned(),
    }
}

/// Text after its key, unless there is no key or the text contains it.
pub fn with_key(key: &str, what: String) -> String {
    if key == "." || what.contains(&format!("'{key}'")) { what } else { format!("'{key}': {what}") }
}

fn quoted(name: &str) -> String {
    format!("'{}'", shortened(name.trim_matches('`')))
}

/// Plain text for a found value: `string "x"`, ``integer `-1` ``, `sequence`.
fn found_words(found: &str) -> String {
    let value = found.split_once('`').map(|(_, value)| value.trim_end_matches('`'));
    match found.split(' ').next() {
        Some("string") => shortened(found.trim_start_matches("string ")),
        Some("integer" | "floating" | "boolean" | "character") => shortened(value.unwrap_or(found)),
        Some("sequence") => "a list".to_owned(),
        Some("map") => "an object".to_owned(),
        Some("unit" | "null" | "Option") => "null".to_owned(),
        _ => shortened(found),
    }
}

/// Plain text for an expected Rust type.
fn expected_words(expected: &str) -> String {
    let number = |prefix: &str| expected.strip_prefix(prefix).is_some_and(|rest| rest.parse::<u8>().is_ok());
    let is_object = ["struct ", "internally tagged enum ", "adjacently tagged enum "];
    if is_object.iter().any(|prefix| expected.starts_with(prefix)) {
        return "an object".to_owned();
    }
    if let Some(count) =
        ["an array of length ", "a tuple of size "].iter().find_map(|prefix| expected.strip_prefix(prefix))
    {
        return format!("a list of {count}");
    }
    match expected {
        "usize" => "a whole number of 0 or more".to_owned(),
        _ if number("u") => "a whole number of 0 or more".to_owned(),
        "isize" => "a whole number".to_owned(),
        _ if number("i") => "a whole number".to_owned(),
        _ if number("f") => "a number".to_owned(),
        "a string" | "a borrowed string" => "a text".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        "string or map" | "variant identifier" => "a word".to_owned(),
        _ => expected.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_in_the_words_of_rust() {
        for (message, plain) in [
            ("invalid value: integer `-1`, expected u64", "found -1, expected a whole number of 0 or more"),
            ("invalid type: string \"x\", expected f64", "found \"x\", expected a number"),
            ("invalid length 0, expected struct Environment with 12 elements", "found a list of 0, expected an object"),
            ("invalid type: sequence, expected internally tagged enum OfferedLoad", "found a list, expected an object"),
            ("invalid type: map, expected a string", "found an object, expected a text"),
            (
                "invalid type: null, expected a whole number that is not negative",
                "found null, expected a whole number that is not negative",
            ),
            ("unknown variant `x`, expected `a` or `b`", "found 'x', expected 'a' or 'b'"),
            ("unknown variant `x`, expected one of `a`, `b`, `c`", "found 'x', expected 'a', 'b', 'c'"),
            ("unknown field `speed`, expected one of `a`, `b`", "there is no key 'speed'; known are 'a', 'b'"),
            ("missing field `kind`", "the key 'kind' is missing"),
            ("expected value", "found 4, expected a word"),
            ("invalid length 3, expected an array of length 2", "found a list of 3, expected a list of 2"),
        ] {
            assert_eq!(in_plain_words(message, "an object", Some("4")), plain);
        }
        let table = in_plain_words("invalid type: string \"x\", expected struct X", "a table", None);
        assert_eq!(table, "found \"x\", expected a table");
        let long = format!("invalid type: string \"{}\", expected u8", "x".repeat(3000));
        assert!(in_plain_words(&long, "an object", None).chars().count() < 120);
    }
}
