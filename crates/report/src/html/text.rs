//! Text as HTML.

use tripmeter_model::printable;

/// Maximum number of characters of a text; longer ones are cut to three lines, and shown whole on hover.
const LONG: usize = 100;
/// First code point of scripts that run from right to left: the block of Hebrew.
const FIRST_FROM_RIGHT: char = '\u{590}';
/// Maximum number of characters of a text that is shown on hover.
pub(super) const LONGEST_TITLE: usize = 500;

/// Text on one line, escaped for HTML text or an attribute.
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

/// Text of an attribute `title`, cut to [`LONGEST_TITLE`] because browsers show it whole.
pub(super) fn hint(text: &str) -> String {
    escaped(&text.chars().take(LONGEST_TITLE).collect::<String>())
}

/// Name or value: isolated if it may run from right to left, and cut if it is long.
pub(super) fn words(text: &str) -> String {
    let is_apart = text.chars().any(|letter| letter >= FIRST_FROM_RIGHT);
    let inner = if is_apart { format!("<bdi>{}</bdi>", escaped(text)) } else { escaped(text) };
    cut(text, inner)
}

/// Inner HTML of a text, cut if the text is long.
pub(super) fn cut(text: &str, inner: String) -> String {
    match text.chars().count() > LONG {
        true => format!("<span class=\"long\" title=\"{}\">{inner}</span>", hint(text)),
        false => inner,
    }
}

/// Sentence that contains names: each name that runs from right to left is isolated, so that no figure next to it
/// moves.
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
