//! Renderers of a document: text, Markdown, CSV, JSON and HTML.

pub use crate::html::html;
pub use crate::markup::markdown;

use crate::cell_text::{BAR_COLUMNS, has_own_units, helps, is_same, texts};
use crate::document::{Block, Cell, Column, Document, Facts, Missing, Note, Severity, Table};
use crate::number::TOO_SMALL;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, presets};
use serde_json::{Value, json};
use tripmeter_analysis::Row;

/// Width of a line, up to which bars fill it.
const COLUMNS: usize = 80;
/// Text for a terminal or a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Text {
    /// True if intervals are below their numbers.
    pub has_intervals: bool,
    /// True if the meanings of columns are below their table.
    pub has_help: bool,
    /// True if marks and grave notes are coloured by escape sequences.
    pub is_coloured: bool,
    /// True if notes and paragraphs are not wrapped.
    pub is_unwrapped: bool,
}

impl Text {
    /// Text of the document; ends with a line break unless it is empty.
    pub fn render(self, document: &Document) -> String {
        let blocks = document.blocks.iter().map(|block| match block {
            Block::Heading(heading) => format!("{}\n", self.wrapped(&heading.text)),
            Block::Table(table) => self.table(table),
            Block::Notes(notes) => notes.iter().map(|note| self.note(note)).collect(),
            Block::Facts(pairs) => pairs_text(pairs),
            Block::Text(text) => text.lines().map(|line| self.wrapped(line) + "\n").collect(),
            Block::Lines(lines) => lines.clone(),
            Block::Chart(_) | Block::Charts(_) => String::new(),
        });
        blocks.filter(|block| !block.is_empty()).collect::<Vec<_>>().join("\n")
    }

    fn note(self, note: &Note) -> String {
        let text = self.wrapped(&note.text);
        match note.severity {
            Severity::Error if self.is_coloured => format!("\x1b[31m{text}\x1b[0m\n"),
            Severity::Warning if self.is_coloured => format!("\x1b[33m{text}\x1b[0m\n"),
            _ => text + "\n",
        }
    }

    /// Text wrapped at blanks to lines of at most [`COLUMNS`].
    fn wrapped(self, text: &str) -> String {
        if self.is_unwrapped {
            return text.to_owned();
        }
        let options = textwrap::Options::new(COLUMNS).subsequent_indent("  ").break_words(false);
        // Names must not be broken at hyphens.
        textwrap::fill(text, options.word_splitter(textwrap::WordSplitter::NoHyphenation))
    }

    fn table(self, table: &Table) -> String {
        let widest = |lines: Vec<String>| lines.iter().map(|line| line.trim_end().chars().count()).max().unwrap_or(0);
        let unwrapped = Table { most_columns: None, ..table.clone() };
        let is_narrow = table.most_columns.is_some_and(|most| widest(self.lines(&unwrapped, 0, false)) > most.into());
        let bar = COLUMNS.saturating_sub(widest(self.lines(table, 0, is_narrow))).min(BAR_COLUMNS);
        let lines = self.lines(table, bar, is_narrow);
        let mut text: String = lines.iter().map(|line| line.trim_end().to_owned() + "\n").collect();
        if !table.title.is_empty() {
            text.insert_str(0, &format!("{}\n\n", table.title));
        }
        let helps = helps(&table.columns).filter(|_| self.has_help);
        let helps: String = helps.map(|(title, help)| self.wrapped(&format!("{title}: {help}")) + "\n").collect();
        if !helps.is_empty() {
            text += &format!("\n{helps}");
        }
        text
    }

    /// Lines of a table whose bars are at most `bar` characters wide; in a narrow table, intervals take two lines.
    fn lines(self, table: &Table, bar: usize, is_narrow: bool) -> Vec<String> {
        if table.has_bars {
            return self.barred(table);
        }
        let mut drawn = comfy_table::Table::new();
        drawn.load_style(presets::NOTHING.header_separator(LineStyle::none().fill('-').junction('-')));
        drawn.set_header(heads(table));
        if let Some(most) = table.most_columns {
            drawn.set_content_arrangement(ContentArrangement::Dynamic).set_width(most);
        }
        let mut above: Option<&(Option<Row>, Vec<Cell>)> = None;
        for row in &table.rows {
            let is_same = above.is_some_and(|above| is_same(&table.columns, above, row));
            let both = above.and_then(|above| above.0).zip(row.0);
            if both.is_some_and(|(above, row)| table.gaps.is_between(above, row)) {
                drawn.add_row(vec![""; table.columns.len()]);
            }
            drawn.add_row(table.columns.iter().zip(&row.1).map(|(column, cell)| {
                if is_same && column.is_merged { String::new() } else { self.cell(column, cell, bar, is_narrow) }
            }));
            above = Some(row);
        }
        for (drawn, column) in drawn.column_iter_mut().zip(&table.columns) {
            drawn.set_padding((0, 0));
            if column.is_right {
                drawn.set_cell_alignment(CellAlignment::Right);
            }
        }
        drawn.lines().collect()
    }

    /// Lines of a table with bars between its columns, which are as wide as their widest cell.
    fn barred(self, table: &Table) -> Vec<String> {
        let unit = |column: &Column| if column.unit.is_empty() { String::new() } else { format!(" [{}]", column.unit) };
        let head = |column: &Column| format!("{}{}", column.title, unit(column));
        let cells = |(_, cells): &(_, Vec<Cell>)| -> Vec<String> {
            table.columns.iter().zip(cells).map(|(column, cell)| self.cell(column, cell, 0, false)).collect()
        };
        let mut lines: Vec<Vec<String>> = vec![table.columns.iter().map(head).collect()];
        lines.extend(table.rows.iter().map(cells));
        let width = |index: usize| lines.iter().map(|line| line[index].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
        let columns = || table.columns.iter().zip(&widths);
        let line = |cells: &Vec<String>| -> String {
            let padded = cells.iter().zip(columns()).map(|(cell, (column, &width))| {
                if column.is_right { format!(" {cell:>width$} |") } else { format!(" {cell:<width$} |") }
            });
            std::iter::once("|".to_owned()).chain(padded).collect()
        };
        let rule = columns().map(|(column, width)| {
            let (dashes, end) = if column.is_right { (width + 1, ":") } else { (width + 2, "") };
            format!("{}{end}|", "-".repeat(dashes))
        });
        let rule = format!("|{}", rule.collect::<String>());
        let mut lines: Vec<String> = lines.iter().map(line).collect();
        lines.insert(1, rule);
        lines
    }

    fn cell(self, column: &Column, cell: &Cell, bar: usize, is_narrow: bool) -> String {
        match (cell, column.most_chars) {
            (Cell::Missing(Missing::TooFewSamples), _) if !self.has_intervals => return "-".to_owned(),
            (Cell::Text(text), Some(most)) => return broken(text, most),
            _ => {}
        }
        let narrow = |text: String| match (is_narrow, &*text) {
            (false, _) => text,
            (true, TOO_SMALL) => "n too\nsmall".to_owned(),
            (true, ends) => ends.replace("..", "..\n"),
        };
        let (number, interval) = texts(column, cell, bar);
        let number = if matches!(cell, Cell::Missing(_)) { narrow(number) } else { number };
        let interval = interval.filter(|_| self.has_intervals || column.has_intervals).map(narrow);
        interval.map_or(number.clone(), |interval| format!("{number}\n{interval}"))
    }
}

/// Text that is broken before settings and brackets if it has more than `most` characters.
fn broken(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.replace('?', "\n?").replace('&', "\n&").replace(" (", "\n(")
}

/// Heads: groups, then titles, then units if any column has one. Columns whose cells all have their own units show
/// none.
fn heads(table: &Table) -> Vec<String> {
    let columns = &table.columns;
    let has_groups = columns.iter().any(|column| column.group.is_some());
    let head = |(index, column): (usize, &Column)| {
        let next = columns.get(index + 1).and_then(|next| next.group.as_ref());
        // The group is above its last column.
        let group = column.group.as_ref().filter(|group| next != Some(*group)).map_or("", String::as_str);
        let above = if has_groups { format!("{group}\n") } else { String::new() };
        let has_none = column.unit.is_empty() || has_groups || has_own_units(table, index);
        let unit = if has_none { String::new() } else { format!("\n[{}]", column.unit) };
        let head = column.narrow_head.clone().unwrap_or_else(|| format!("{}{unit}", column.title));
        format!("{above}{head}")
    };
    columns.iter().enumerate().map(head).collect()
}

fn pairs_text(Facts { title, pairs }: &Facts) -> String {
    let width = pairs.iter().map(|(word, _)| word.chars().count() + 1).max().unwrap_or(0);
    let (title, indent) = if title.is_empty() { (String::new(), "") } else { (format!("{title}\n"), "  ") };
    let line = |(word, value): &(String, String)| format!("{indent}{:width$} {value}\n", format!("{word}:"));
    title + &pairs.iter().map(line).collect::<String>()
}

/// CSV of a table: numbers in the units of their figures. Totals of shares, ends of intervals, and marks have their own
/// columns if any cell has one; a cell that is only an interval has nothing else. Unbounded ends are `inf` and `-inf`.
pub fn csv(table: &Table) -> String {
    let has = |is: fn(&Cell) -> bool| -> Vec<bool> {
        (0..table.columns.len()).map(|index| table.rows.iter().any(|(_, cells)| is(&cells[index]))).collect()
    };
    let has_share = has(|cell| matches!(cell, Cell::Share { .. }));
    let has_interval = has(|cell| cell.interval().is_some());
    let has_mark = has(|cell| !cell.mark().is_empty());
    let has_value: Vec<bool> = has(|cell| !matches!(cell, Cell::Range(_)))
        .into_iter()
        .zip(&has_interval)
        .map(|(has_others, has_ends)| has_others || !has_ends)
        .collect();
    let kinds = || {
        let kinds = |index| (has_value[index], has_share[index], has_interval[index], has_mark[index]);
        (0..table.columns.len()).map(kinds)
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    let heads =
        table.columns.iter().zip(kinds()).flat_map(|(column, (has_value, has_share, has_interval, has_mark))| {
            let of = has_share.then(|| format!("{}_of", column.id));
            let ends = has_interval.then(|| [format!("{}_low", column.id), format!("{}_high", column.id)]);
            let mark = has_mark.then(|| format!("{}_mark", column.id));
            has_value.then(|| column.id.clone()).into_iter().chain(of).chain(ends.into_iter().flatten()).chain(mark)
        });
    // Writing to memory does not fail.
    let _ = writer.write_record(heads);
    for (_, cells) in &table.rows {
        let fields = cells.iter().zip(kinds()).flat_map(|(cell, (has_value, has_share, has_interval, has_mark))| {
            let end = |end: Option<f64>| end.map_or(String::new(), |end| end.to_string());
            let interval = cell.interval();
            let of = has_share.then(|| if let Cell::Share { of, .. } = cell { of.to_string() } else { String::new() });
            let ends = has_interval
                .then(|| [end(interval.map(|interval| interval.low)), end(interval.map(|interval| interval.high))]);
            let mark = has_mark.then(|| cell.mark().to_owned());
            has_value.then(|| plain(cell)).into_iter().chain(of).chain(ends.into_iter().flatten()).chain(mark)
        });
        let _ = writer.write_record(fields);
    }
    writer.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

/// Cell without format and mark.
fn plain(cell: &Cell) -> String {
    match cell {
        Cell::Number { value, .. } | Cell::Ratio { value, .. } | Cell::Bar(value) => value.to_string(),
        Cell::Share { events, .. } => events.to_string(),
        Cell::Pair(both) => both.each_ref().map(plain).join("/"),
        Cell::Floor => "1".to_owned(),
        Cell::InUnit(cell, unit) => format!("{} {unit}", plain(cell)),
        Cell::Text(text) | Cell::Link { text, .. } | Cell::Marked(_, text) => text.clone(),
        // Ends of intervals have their own columns.
        Cell::Range(_) | Cell::Missing(_) => String::new(),
    }
}

/// JSON of a document: a list of blocks; numbers in the units of their figures, unbounded ends of intervals as null.
pub fn json(document: &Document) -> Value {
    let block = |block: &Block| match block {
        Block::Heading(heading) => json!({ "heading": heading.text }),
        Block::Table(table) => json!({ "table": json_table(table) }),
        Block::Notes(notes) => json!({ "notes": notes.iter().map(json_note).collect::<Vec<_>>() }),
        Block::Facts(Facts { title, pairs }) => {
            let pairs = pairs.iter().map(|(name, value)| json!({ "name": name, "value": value }));
            json!({ "title": title, "facts": pairs.collect::<Vec<_>>() })
        }
        Block::Text(text) | Block::Lines(text) => json!({ "text": text }),
        Block::Chart(chart) => json!({ "chart": chart }),
        Block::Charts(charts) => json!({ "charts": charts }),
    };
    json!({ "blocks": document.blocks.iter().map(block).collect::<Vec<_>>() })
}

fn json_note(note: &Note) -> Value {
    json!({ "severity": note.severity.to_string(), "kind": note.kind, "text": note.text })
}

fn json_table(table: &Table) -> Value {
    let column = |column: &Column| {
        let title = column.title.replace('\n', " ");
        json!({ "id": column.id, "title": title, "group": column.group, "help": column.help })
    };
    let row = |(_, cells): &(_, Vec<Cell>)| {
        let cells = table.columns.iter().zip(cells).map(|(column, cell)| (column.id.clone(), json_cell(cell)));
        Value::Object(cells.collect())
    };
    json!({
        "title": table.title,
        "columns": table.columns.iter().map(column).collect::<Vec<_>>(),
        "rows": table.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

/// Cell with its mark, as an object.
fn json_cell(cell: &Cell) -> Value {
    let mut value = unmarked(cell);
    if !cell.mark().is_empty() {
        if !value.is_object() {
            value = json!({ "value": value });
        }
        value["mark"] = json!(cell.mark());
    }
    value
}

fn unmarked(cell: &Cell) -> Value {
    let end = |end: f64| if end.is_finite() { json!(end) } else { Value::Null };
    match cell {
        Cell::Number { value, interval: Some(interval), .. } | Cell::Ratio { value, interval: Some(interval) } => {
            json!({ "value": value, "low": end(interval.low), "high": end(interval.high) })
        }
        Cell::Number { value, .. } | Cell::Ratio { value, .. } | Cell::Bar(value) => json!(value),
        Cell::Share { events, of, interval } => {
            let interval = interval.map(|interval| [end(interval.low), end(interval.high)]);
            json!({ "events": events, "of": of, "interval": interval })
        }
        Cell::Pair(both) => Value::Array(both.each_ref().map(json_cell).to_vec()),
        Cell::Floor => json!("floor"),
        Cell::InUnit(cell, unit) => match unmarked(cell) {
            Value::Object(mut object) => {
                object.insert("unit".to_owned(), json!(unit));
                Value::Object(object)
            }
            value => json!({ "value": value, "unit": unit }),
        },
        Cell::Range(interval) => json!({ "low": end(interval.low), "high": end(interval.high) }),
        Cell::Text(text) | Cell::Marked(_, text) => json!(text),
        Cell::Link { text, target } => json!({ "text": text, "target": target }),
        Cell::Missing(missing) => json!({ "missing": missing.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Digits;
    use tripmeter_model::metric::Interval;

    fn document() -> Document {
        let number = |value, interval| Cell::Number { value, interval, mark: "" };
        let interval = |low, high| Some(Interval { low, high });
        let of = |id: &str, title: &str| Column::numbers(id, title, "µs", Digits::Significant(3), "what it is");
        let columns = vec![
            Column::words("transport", "transport", ""),
            of("p50", "p50").grouped("1k"),
            of("p99", "p99").grouped("1k"),
            Column::words("floor", "floor", "how many times the floor"),
            Column::words("bar", "", ""),
        ];
        let first = vec![
            Cell::text("shm"),
            number(65.0, interval(60.0, 70.0)),
            Cell::Number { value: 951.0, interval: interval(1.0, f64::INFINITY), mark: "*" },
            Cell::Floor,
            Cell::Bar(0.0),
        ];
        let ratio = Cell::Ratio { value: 11.64, interval: None };
        let second =
            vec![Cell::text("a|b"), number(5157.0, None), Cell::Missing(Missing::NotMeasured), ratio, Cell::Bar(0.25)];
        let rows = vec![(None, first), (None, second)];
        let note =
            Note { severity: Severity::Error, kind: "proof", anchor: None, text: "PATH PROOF FAILED: x".to_owned() };
        let table = Table::new("Times".to_owned(), columns, rows);
        let pairs = vec![("results".to_owned(), "results/1".to_owned()), ("n".to_owned(), "3".to_owned())];
        let pairs = Facts { title: "Facts".to_owned(), pairs };
        Document { blocks: vec![Block::Table(table), Block::Notes(vec![note]), Block::Facts(pairs)] }
    }

    #[test]
    fn text_has_groups_above_and_intervals_and_help_below() {
        let expected = "\
Times

                    1k
transport   p50    p99 floor
--------------------------------
shm       0.065 *0.951 floor
a|b        5.16      - ×11.6 ▇▇▇

PATH PROOF FAILED: x

Facts
  results: results/1
  n:       3
";
        assert_eq!(Text::default().render(&document()), expected);
        let text = Text { has_intervals: true, has_help: true, is_coloured: true, is_unwrapped: false };
        let text = text.render(&document());
        assert!(text.contains("0.060..0.070") && text.contains("n too small"), "{text}");
        assert!(text.contains("\n\np50: what it is\np99: what it is\nfloor: how many times the floor\n"), "{text}");
        assert!(text.contains("\x1b[31mPATH PROOF FAILED: x\x1b[0m"), "{text}");
    }

    #[test]
    fn what_names_several_rows_stands_in_the_first_of_them() {
        let row = |sub| Some(Row { sub, payload_bytes: 1024, load: 0 });
        let columns = vec![
            Column::words("transport", "transport", "").merged(),
            Column::words("topic", "topic", "").merged(),
            Column::words("time", "time", ""),
            Column::numbers("n", "n", "", Digits::Rate, ""),
        ];
        let cells = |transport, topic, time, n| vec![Cell::text(transport), Cell::text(topic), Cell::text(time), n];
        let rows = vec![
            (row(0), cells("uds", "/a", "response", Cell::number(1.0))),
            (row(0), cells("uds", "/a", "service", Cell::Missing(Missing::NotOfThisRow))),
            (row(0), cells("uds", "/b", "response", Cell::number(1000.0))),
            (row(1), cells("tcp", "/b", "response", Cell::number(10.0))),
        ];
        let table = Table::new(String::new(), columns, rows).grouped_by_sub();
        let expected = "\
transport topic time        n
-----------------------------
uds       /a    response 1.00
                service
uds       /b    response 1000

tcp       /b    response 10.0
";
        assert_eq!(Text::default().render(&Document { blocks: vec![Block::Table(table.clone())] }), expected);
        assert_eq!(csv(&table).lines().nth(2), Some("uds,/a,service,"));
    }

    #[test]
    fn cells_with_a_unit_a_mark_or_an_interval_of_their_own() {
        let interval = Interval { low: 1500.0, high: 2500.0 };
        let number = Cell::Number { value: 2000.0, interval: Some(interval), mark: "" };
        let column = |digits| Column::numbers("x", "x", "µs", digits, "");
        let of = |cell: &Cell, digits| texts(&column(digits), cell, 0);
        let own = Cell::InUnit(Box::new(number), "/s");
        assert_eq!(of(&own, Digits::Fixed(1)), ("2000.0 /s".to_owned(), Some("1500.0..2500.0".to_owned())));
        assert_eq!(json_cell(&own), json!({ "value": 2000.0, "low": 1500.0, "high": 2500.0, "unit": "/s" }));
        let range = Cell::Range(interval);
        assert_eq!((of(&range, Digits::Rate).0.as_str(), plain(&range).as_str()), ("1.50..2.50", ""));
        let marked = Cell::Marked("*", "max".to_owned());
        assert_eq!(
            (of(&marked, Digits::Rate).0.as_str(), json_cell(&marked)),
            ("*max", json!({ "value": "max", "mark": "*" }))
        );
        let lost = Cell::Share { events: 3, of: 1000, interval: None };
        let plainly = |cell: &Cell, digits| texts(&Column { divisor: 1.0, ..column(digits) }, cell, 0).0;
        assert_eq!([Digits::Events, Digits::Percent].map(|digits| plainly(&lost, digits)), ["3", "0.3"]);
        assert_eq!(plainly(&Cell::number(65536.0), Digits::Size), "64k");
    }

    #[test]
    fn markdown_keeps_units_and_escapes_bars() {
        let text = markdown(&document());
        assert!(
            text.contains("| transport | 1k p50 (µs) | 1k p99 (µs) | floor |  |\n| --- | ---: | ---: | --- | --- |\n"),
            "{text}"
        );
        assert!(text.contains("| a\\|b | 5.16 | - | ×11.6 | ▇▇▇ |\n"), "{text}");
        assert!(text.contains("| shm | 0.065 (0.060..0.070) | *0.951 (n too small) | floor |  |\n"), "{text}");
    }

    #[test]
    fn machines_get_plain_numbers_in_the_units_of_the_figures() {
        let document = document();
        let Block::Table(table) = &document.blocks[0] else { panic!() };
        let expected = "\
transport,p50,p50_low,p50_high,p99,p99_low,p99_high,p99_mark,floor,bar
shm,65,60,70,951,1,inf,*,1,0
a|b,5157,,,,,,,11.64,0.25
";
        assert_eq!(csv(table), expected);
        let value = json(&document);
        let rows = &value["blocks"][0]["table"]["rows"];
        assert_eq!(rows[0]["p99"], json!({ "value": 951.0, "low": 1.0, "high": null, "mark": "*" }));
        assert_eq!((&rows[1]["p50"], &rows[1]["p99"]), (&json!(5157.0), &json!({ "missing": "not measured" })));
        assert_eq!(value["blocks"][1]["notes"][0]["severity"], "error");
    }
}
