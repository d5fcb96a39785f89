//! Tables as HTML.

use super::text::{escaped, escaped_lines, hint, words};
use crate::cell_text::{has_own_units, helps, is_same, texts};
use crate::document::{Cell, Column, Missing, Table};
use std::fmt::Write as _;

/// Longer tables scroll in a box as high as the window.
const TALL_ROWS: usize = 60;

/// Class of the scrolling box around a table with this many rows.
pub fn scroll(rows: usize) -> &'static str {
    if rows > TALL_ROWS { "scroll tall" } else { "scroll" }
}

/// Table in a scrolling box, and the legend of its columns.
pub fn html(table: &Table) -> String {
    let name = if table.title.is_empty() { "Table" } else { &table.title };
    let title = if table.title.is_empty() {
        String::new()
    } else {
        format!("<p class=\"title\" aria-hidden=\"true\">{}</p>\n", words(&table.title))
    };
    format!(
        "<div class=\"table\">\n{title}<div class=\"{}\" role=\"region\" aria-label=\"{}\" tabindex=\"0\">\n\
         <table>\n<caption class=\"hidden\">{}</caption>\n{}{}</table>\n</div>\n{}</div>\n",
        scroll(table.rows.len()),
        hint(name),
        words(name),
        head(table),
        body(table),
        legend(&table.columns)
    )
}

fn head(table: &Table) -> String {
    let columns = &table.columns;
    let has_groups = columns.iter().any(|column| column.group.is_some());
    let mut head = String::from("<thead>\n");
    if has_groups {
        head += "<tr class=\"groups\">";
        for group in columns.chunk_by(|one, next| one.group.is_some() && one.group == next.group) {
            let span = group.len();
            let _ = match &group[0].group {
                Some(name) => write!(head, "<th scope=\"colgroup\" colspan=\"{span}\">{}</th>", words(name)),
                None => write!(head, "<td></td>"),
            };
        }
        head += "</tr>\n";
    }
    head += "<tr>";
    for (index, column) in columns.iter().enumerate() {
        let unit = if column.unit.is_empty() || has_groups || has_own_units(table, index) {
            String::new()
        } else {
            format!("\n<span class=\"unit\">{}</span>", escaped(column.unit))
        };
        let right = if column.is_right { " class=\"right\"" } else { "" };
        let help = if column.help.is_empty() { String::new() } else { format!(" title=\"{}\"", escaped(column.help)) };
        let _ = write!(head, "<th scope=\"col\"{right}{help}>{}{unit}</th>", escaped_lines(&column.title));
    }
    head + "</tr>\n</thead>\n"
}

fn body(table: &Table) -> String {
    let mut body = String::from("<tbody>\n");
    // A left column of text names the rows.
    let has_names = table.columns.first().is_some_and(|column| !column.is_right);
    for (index, row) in table.rows.iter().enumerate() {
        let above = index.checked_sub(1).map(|above| &table.rows[above]);
        let is_same = above.is_some_and(|above| is_same(&table.columns, above, row));
        let both = above.and_then(|above| above.0).zip(row.0);
        let is_gap = both.is_some_and(|(above, row)| table.gaps.is_between(above, row));
        body += if is_gap { "<tr class=\"gap\">" } else { "<tr>" };
        for (place, (column, cell)) in table.columns.iter().zip(&row.1).enumerate() {
            let is_repeated = is_same && column.is_merged;
            let tag = if place == 0 && has_names { "th scope=\"row\"" } else { "td" };
            body += &self::cell(column, cell, tag, is_repeated);
        }
        body += "</tr>\n";
    }
    body + "</tbody>\n"
}

fn cell(column: &Column, cell: &Cell, tag: &str, is_repeated: bool) -> String {
    let mut classes = Vec::new();
    classes.extend(column.is_right.then_some("right"));
    classes.extend(is_repeated.then_some("repeated"));
    classes.extend(matches!(cell, Cell::Text(_) | Cell::Link { .. } | Cell::Marked(..)).then_some("words"));
    classes.extend((!cell.mark().is_empty()).then_some("marked"));
    let mut hints = Vec::new();
    let inner = match cell {
        Cell::Missing(missing) => {
            classes.push("missing");
            if *missing == Missing::NotOfThisRow {
                String::new()
            } else {
                hints.push(missing.to_string());
                format!("{}–", escaped(missing.mark()))
            }
        }
        Cell::Bar(share) => {
            format!("<span class=\"share\"><i style=\"width:{:.1}%\"></i></span>", share.clamp(0.0, 1.0) * 100.0)
        }
        Cell::Link { text, target } => format!("<a href=\"{}\">{}</a>", escaped(target), words(text)),
        Cell::Text(text) => text.lines().map(breakable).collect::<Vec<_>>().join("<br>"),
        cell => {
            let (number, interval) = texts(column, cell, 0);
            let interval = interval.map_or(String::new(), |interval| {
                let interval = escaped(&interval);
                hints.push(interval.clone());
                format!("<span class=\"interval\">{interval}</span>")
            });
            escaped(&number) + &interval
        }
    };
    let value = raw(cell).map_or(String::new(), |value| format!(" data-v=\"{value}\""));
    let hints = if hints.is_empty() { String::new() } else { format!(" title=\"{}\"", hints.join(", ")) };
    let class = if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) };
    let end = tag.split(' ').next().unwrap_or(tag);
    format!("<{tag}{class}{value}{hints}>{inner}</{end}>")
}

/// Text that may be broken after characters that join the parts of names.
fn breakable(line: &str) -> String {
    let mut text = words(line.trim());
    if text.starts_with("<span") {
        return text;
    }
    // `&` and `=` are skipped: they occur in escapes and attributes.
    for joint in ['_', '?'] {
        text = text.replace(joint, &format!("{joint}<wbr>"));
    }
    text
}

/// Sort key of a number, in the unit of its figure.
fn raw(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Number { value, .. } | Cell::Ratio { value, .. } | Cell::Bar(value) => Some(*value),
        Cell::Share { events, of, .. } => Some(*events as f64 / (*of).max(1) as f64),
        Cell::Pair(both) => raw(&both[0]),
        Cell::Floor => Some(1.0),
        Cell::InUnit(cell, _) => raw(cell),
        Cell::Range(interval) => Some(interval.low),
        Cell::Text(_) | Cell::Link { .. } | Cell::Marked(..) | Cell::Missing(_) => None,
    }
    .filter(|value| value.is_finite())
}

fn legend(columns: &[Column]) -> String {
    let pairs: String = helps(columns)
        .map(|(title, help)| format!("<dt>{}</dt><dd>{}</dd>\n", escaped(&title), escaped(help)))
        .collect();
    if pairs.is_empty() {
        return pairs;
    }
    format!("<details class=\"legend\"><summary>What the columns mean</summary>\n<dl>\n{pairs}</dl>\n</details>\n")
}
