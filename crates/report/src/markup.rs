//! Documents as Markdown; text from elsewhere is never markup.

use crate::cell_text::{BAR_COLUMNS, has_own_units, texts};
use crate::document::{Block, Cell, Column, Digits, Document, Facts, Table};
use crate::plots::Chart;
use tripmeter_model::printable;

/// Zero-width space.
const APART: char = '\u{200b}';

/// Text on one line for Markdown and HTML: nothing in it is markup, a mention or a table cell. An underscore within a
/// word needs no escape.
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
            // GitHub turns even escaped text into mentions and links, so an invisible character separates it.
            '#' | '@' => safe.extend(['\\', c, APART]),
            ':' if letters.peek() == Some(&'/') => safe.extend([c, APART]),
            '.' if is_after_word && safe.to_ascii_lowercase().ends_with("www") => safe.extend([APART, c]),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => safe.extend(['\\', c]),
            c => safe.push(c),
        }
        is_after_word = c.is_alphanumeric() || c == '_';
    }
    safe
}

fn image(chart: &Chart) -> String {
    format!("![{}]({}.svg)\n", markdown_words(&chart.title), chart.name)
}

/// Line that may contain names. Text between two backticks stays code, where nothing is markup.
fn markdown_sentence(line: &str) -> String {
    let line = printable::line(line.trim());
    let pieces: Vec<&str> = line.split('`').collect();
    let mut safe = String::with_capacity(line.len());
    let mut place = 0;
    while let Some(piece) = pieces.get(place) {
        safe += &markdown_words(piece);
        // Two adjacent backticks would begin a different code span.
        let is_apart = place == 0 || !piece.is_empty();
        let code = pieces.get(place + 1).filter(|code| is_apart && place + 2 < pieces.len() && is_code(code));
        match code {
            Some(code) => safe.extend(["`", code, "`"]),
            None if place + 1 < pieces.len() => safe += "\\`",
            None => {}
        }
        place += if code.is_some() { 2 } else { 1 };
    }
    // The line must not begin a list, or underline a heading or table head.
    let digits = safe.bytes().take_while(u8::is_ascii_digit).count();
    let mut begin = safe[digits..].chars();
    let is_begin = match (digits, begin.next()) {
        (0, sign) => matches!(sign, Some('-' | '+' | '=' | ':')),
        (_, sign) => matches!(sign, Some('.' | ')')) && begin.next().is_none_or(char::is_whitespace),
    };
    if is_begin {
        safe.insert(digits, '\\');
    }
    safe
}

/// True if a text can be a code span, in which a backslash escapes no backtick.
fn is_code(text: &str) -> bool {
    !text.is_empty() && !text.contains('\\') && text.trim() == text
}

/// Fence that is longer than any in the lines.
fn fenced(lines: &str) -> String {
    let longest = lines.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if lines.is_empty() || lines.ends_with('\n') { "" } else { "\n" };
    format!("{fence}text\n{lines}{end}{fence}\n")
}

/// Markdown of a document: tables have units in their heads, and names are never markup.
pub fn markdown(document: &Document) -> String {
    let mut text = String::new();
    for block in &document.blocks {
        if !text.is_empty() {
            text.push('\n');
        }
        match block {
            Block::Heading(heading) => text += &format!("## {}\n", markdown_words(&heading.text)),
            Block::Table(table) => text += &markdown_table(table),
            Block::Notes(notes) => {
                text.extend(notes.iter().map(|note| format!("- {}\n", markdown_sentence(&note.text))))
            }
            Block::Facts(Facts { title, pairs }) => {
                text += &if title.is_empty() { String::new() } else { format!("{}\n\n", markdown_words(title)) };
                let line = |(word, value): &(String, String)| {
                    format!("- {}: {}\n", markdown_sentence(word), markdown_words(value))
                };
                text.extend(pairs.iter().map(line));
            }
            Block::Text(paragraph) => {
                text.extend(paragraph.trim_end().lines().map(|line| markdown_sentence(line) + "\n"));
            }
            Block::Lines(lines) => text += &fenced(lines),
            Block::Chart(chart) => text += &image(chart),
            Block::Charts(charts) => text.extend(charts.iter().map(image)),
        }
    }
    text
}

fn markdown_table(table: &Table) -> String {
    let escaped = |text: &str| markdown_words(&text.replace('\n', " "));
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let head = |(index, column): (usize, &Column)| {
        let group = column.group.as_ref().map_or(String::new(), |group| format!("{group} "));
        let has_none = column.unit.is_empty() || has_own_units(table, index);
        let unit = if has_none { String::new() } else { format!(" ({})", column.unit) };
        escaped(&format!("{group}{}{unit}", column.title))
    };
    let mut text = if table.title.is_empty() { String::new() } else { format!("{}\n\n", markdown_words(&table.title)) };
    text += &line(table.columns.iter().enumerate().map(head).collect());
    text += &line(table.columns.iter().map(|column| if column.is_right { "---:" } else { "---" }.to_owned()).collect());
    for (_, cells) in &table.rows {
        let cells = table.columns.iter().zip(cells).map(|(column, cell)| {
            if let Cell::Text(words) | Cell::Link { text: words, .. } = cell {
                return escaped(words);
            }
            let (number, interval) = texts(column, cell, BAR_COLUMNS);
            let unit = if column.digits == Digits::Events { " %" } else { "" };
            // Marks before numbers need no escape, because they are ours.
            let text = interval.map_or(number.clone(), |interval| format!("{number} ({interval}{unit})"));
            text.replace('|', "\\|").replace('\n', " ")
        });
        text += &line(cells.collect());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Note;
    use crate::fixture;
    use tripmeter_model::manifest::RunStatus;

    #[test]
    fn nothing_is_markup() {
        let hostile = "<script>a|b`\n[x](y)\u{202e}*c*";
        assert_eq!(markdown_words(hostile), "&lt;script&gt;a\\|b\\`\\\\n\\[x\\](y)\\\\u202e\\*c\\*");
        assert_eq!(markdown_words("rtt_half_ns a__b _c_ d_"), "rtt_half_ns a\\__b \\_c\\_ d\\_");
    }

    #[test]
    fn commands_in_sentences_stay_code() {
        assert_eq!(markdown_sentence("a_b: `tripmeter list` lists *all*"), "a_b: `tripmeter list` lists \\*all\\*");
        assert_eq!(markdown_sentence("`a` and `[x](y)"), "`a` and \\`\\[x\\](y)");
        assert_eq!(markdown_sentence("`a``b` ``*c*``"), "`a`\\`b\\` \\`\\`\\*c\\*\\`\\`");
        assert_eq!(markdown_sentence(" - a\\`"), "\\- a\\\\\\`");
        assert_eq!(["1. a", "1.5 a", "==="].map(markdown_sentence), ["1\\. a", "1.5 a", "\\==="]);
    }

    #[test]
    fn no_name_in_a_document_is_markup() {
        const HOSTILE: &str = "[click](http://e.vil) ![i](http://e.vil/p.png) @bob **b** <b> | ```";
        let mut manifest = fixture::manifest();
        fixture::add(&mut manifest, "uds", "uds/stream", &[1024]);
        let result = fixture::result(&mut manifest, "uds", 1, &[]);
        (result.status, result.error) = (RunStatus::Failed, Some(HOSTILE.to_owned()));
        let mut document = crate::screen(&manifest, true);
        let note = Note::warning("kind", HOSTILE.to_owned());
        document.blocks.extend([
            Block::Text(format!("first\n- {HOSTILE}")),
            Block::Notes(vec![note]),
            Block::Facts(Facts { title: HOSTILE.to_owned(), pairs: vec![(HOSTILE.to_owned(), HOSTILE.to_owned())] }),
            Block::Table(Table::new(String::new(), vec![Column::words("id", HOSTILE, "")], Vec::new())),
        ]);
        let page = markdown(&document);
        assert_eq!(page.matches("click").count(), 7, "{page}");
        for sign in ["[", "*", "@", "<", "`"] {
            let is_live = |(at, _): (usize, &str)| !page[..at].ends_with('\\');
            assert!(!page.match_indices(sign).any(is_live), "{sign}: {page}");
        }
        assert!(page.contains("\n\\- \\[click"), "{page}");
        let lines = Block::Lines(format!("a\n```\n{HOSTILE}\n````\n*b*"));
        let page = markdown(&Document { blocks: vec![lines] });
        assert!(page.starts_with("`````text\na\n```\n") && page.ends_with("\n*b*\n`````\n"), "{page}");
    }
}
