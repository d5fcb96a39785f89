//! Text of others in Markdown.

use tripmeter_model::printable;

/// The text on one line, as Markdown and HTML show it: nothing in it is markup, a mention or a cell of a table. An underscore
/// within a word is none either way and stays.
pub fn markdown_words(text: &str) -> String {
    let text = printable::line(text);
    let mut safe = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    let mut is_after_word = false;
    while let Some(c) = letters.next() {
        let is_before_word = letters.peek().is_some_and(|next| next.is_alphanumeric());
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '_' if is_after_word && is_before_word => safe.push(c),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '!' | '@' => safe.extend(['\\', c]),
            c => safe.push(c),
        }
        is_after_word = c.is_alphanumeric() || c == '_';
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_markup() {
        let hostile = "<script>a|b`\n[x](y)\u{202e}*c*";
        assert_eq!(markdown_words(hostile), "&lt;script&gt;a\\|b\\`\\\\n\\[x\\](y)\\\\u202e\\*c\\*");
        assert_eq!(markdown_words("rtt_half_ns a__b _c_ d_"), "rtt_half_ns a\\__b \\_c\\_ d\\_");
    }
}
