//! Documents as Markdown, in which no text of others is markup.

use crate::document::{Block, Cell, Column, Digits, Document, Facts, Table};
use crate::plots::Chart;
use crate::render::{BAR_COLUMNS, has_own_units, texts};
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

fn image(chart: &Chart) -> String {
    format!("![{}]({}.svg)\n", markdown_words(&chart.title), chart.name)
}

/// Sentences in which names of others may stand, and words of ours between backticks.
fn markdown_sentence(text: &str) -> String {
    text.trim_end().replace('<', "&lt;")
}

/// Markdown: tables with the units in their heads. No name in it is markup.
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
                let line = |(word, value): &(String, String)| format!("- {word}: {}\n", markdown_words(value));
                text.extend(pairs.iter().map(line));
            }
            Block::Text(paragraph) => text += &format!("{}\n", markdown_sentence(paragraph)),
            Block::Lines(lines) => text += &format!("```text\n{lines}```\n"),
            Block::Chart(chart) => text += &image(chart),
            Block::Charts(charts) => text.extend(charts.iter().map(image)),
        }
    }
    text
}

fn markdown_table(table: &Table) -> String {
    let escaped = |text: &str| text.replace('|', "\\|").replace('\n', " ");
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
                return markdown_words(&words.replace('\n', " "));
            }
            let (number, interval) = texts(column, cell, BAR_COLUMNS);
            let unit = if column.digits == Digits::Events { " %" } else { "" };
            escaped(&interval.map_or(number.clone(), |interval| format!("{number} ({interval}{unit})")))
        });
        text += &line(cells.collect());
    }
    text
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
