//! Text as HTML.

use tripmeter_model::printable;

/// Words of more characters are cut to three lines, and shown whole where they are pointed at.
const LONG: usize = 100;
/// No script that runs from right to left is before Hebrew.
const FIRST_FROM_RIGHT: char = '\u{590}';
/// Most characters of what is shown where something is pointed at.
pub(super) const LONGEST_TITLE: usize = 500;

/// The text on one line, as text of HTML or the value of an attribute.
pub(super) fn escaped(text: &str) -> String {
    escape(&printable::line(text))
}

/// Escaped text with its line breaks.
pub(super) fn escaped_lines(text: &str) -> String {
    escape(&printable::lines(text))
}

fn escape(text: &str) -> String {
    let mut done = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => done += "&amp;",
            '<' => done += "&lt;",
            '>' => done += "&gt;",
            '"' => done += "&quot;",
            '\'' => done += "&#39;",
            letter => done.push(letter),
        }
    }
    done
}

/// The text of an attribute `title`, which is shown whole or not at all.
pub(super) fn hint(text: &str) -> String {
    escaped(&text.chars().take(LONGEST_TITLE).collect::<String>())
}

/// A name or a value: set apart where it may run from right to left, and cut where it is long.
pub(super) fn words(text: &str) -> String {
    let is_apart = text.chars().any(|letter| letter >= FIRST_FROM_RIGHT);
    let inner = if is_apart { format!("<bdi>{}</bdi>", escaped(text)) } else { escaped(text) };
    cut(text, inner)
}

/// Text, cut where it is long.
pub(super) fn cut(text: &str, inner: String) -> String {
    match text.chars().count() > LONG {
        true => format!("<span class=\"long\" title=\"{}\">{inner}</span>", hint(text)),
        false => inner,
    }
}

/// Words with names in them: each name that runs from right to left is set apart, so that no figure beside it moves.
pub(super) fn sentence(text: &str) -> String {
    let is_letter = |letter: char| letter >= FIRST_FROM_RIGHT && letter.is_alphabetic();
    let text = printable::line(text);
    if !text.contains(is_letter) {
        return escape(&text);
    }
    let words: Vec<&str> = text.split(' ').collect();
    let parts = words.chunk_by(|one, next| one.contains(is_letter) && next.contains(is_letter));
    let part = |words: &[&str]| {
        let words = words.join(" ");
        let name = words.trim_matches(|letter: char| letter.is_ascii_punctuation());
        match name.contains(is_letter) {
            true => escape(&words).replacen(&escape(name), &format!("<bdi>{}</bdi>", escape(name)), 1),
            false => escape(&words),
        }
    };
    parts.map(part).collect::<Vec<_>>().join(" ")
}
