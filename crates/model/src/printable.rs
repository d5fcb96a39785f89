//! Makes text from outside safe for a terminal: escapes characters that move the cursor, change colours or reorder
//! text.

use std::borrow::Cow;

/// True for control characters and for those that reorder text.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, is_kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|c| is_hidden(c) && !is_kept(c)) {
        return Cow::Borrowed(text);
    }
    let push = |mut done: String, c: char| {
        if is_hidden(c) && !is_kept(c) {
            done += &escape(c)
        } else {
            done.push(c)
        }
        done
    };
    Cow::Owned(text.chars().fold(String::with_capacity(text.len()), push))
}

/// Escapes as in JSON, so that JSON stays valid where text is escaped.
fn escape(c: char) -> String {
    match c {
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        c => format!("\\u{:04x}", c as u32),
    }
}

/// Text on one line: `\n` and `\u001b` in place of a line break and an escape.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// Text with its line breaks and tabs; all other control characters are escaped.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

/// JSON with its strings escaped as by [`line()`]. Invalid JSON stays invalid.
pub fn json(text: &str) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            // Outside strings, white space contains the only valid control characters.
            '\\' => escape_of_json(rest.next(), &mut rest, &mut done),
            c if is_hidden(c) && !c.is_ascii_whitespace() => done.extend(["\\", &escape(c)]),
            c => done.push(c),
        }
    }
    done
}

/// Appends the rest of an escape sequence, after its backslash.
fn escape_of_json(kind: Option<char>, rest: &mut std::str::Chars<'_>, done: &mut String) {
    match kind {
        Some(c @ ('b' | 'f' | 'n' | 'r' | 't')) => done.extend(['\\', '\\', c]),
        Some('u') => {
            let digits: String = rest.by_ref().take(4).collect();
            let hidden = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32).filter(|c| is_hidden(*c));
            done.extend([if hidden.is_some() { "\\\\u" } else { "\\u" }, &digits]);
        }
        Some(c) => done.extend(['\\', c]),
        None => done.push('\\'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_acts_on_is_escaped() {
        assert_eq!(line("a\u{1b}[31mb\r\nc\u{9b}d\u{202e}e µ ✓"), "a\\u001b[31mb\\r\\nc\\u009bd\\u202ee µ ✓");
        assert_eq!(lines("a\n\tb\u{7f}"), "a\n\tb\\u007f");
        assert_eq!(line("a\u{61c}b\u{200f}"), "a\\u061cb\\u200f");
        assert!(matches!(line("plain \\ text"), Cow::Borrowed(_)));
    }

    #[test]
    fn strings_of_json_are_escaped_and_nothing_else_changes() {
        let text = "{\n \"a\\n\": \"\\u001b[31m \\\"x\\\\n\\\" \u{9b} \\u00e4\\ud83d\\ude00\",\n \"b\": 1.5 }";
        let plain = "{\n \"a\\\\n\": \"\\\\u001b[31m \\\"x\\\\n\\\" \\\\u009b \\u00e4\\ud83d\\ude00\",\n \"b\": 1.5 }";
        assert_eq!(json(text), plain);
        assert_eq!(json("\"\\"), "\"\\");
    }
}
