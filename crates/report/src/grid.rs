//! Aligned columns without frames.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, presets};

/// Rows under a header; the columns named are aligned to the right. Ends with a line break.
pub fn grid<const N: usize>(header: [&str; N], right: &[usize], rows: impl IntoIterator<Item = [String; N]>) -> String {
    text(filled(header, rows), right)
}

/// The same, aligned to the left, with cells wrapped where lines would be longer than that many columns.
pub fn grid_within<const N: usize>(
    columns: u16,
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = filled(header, rows);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
    text(table, &[])
}

fn filled<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING.header_separator(LineStyle::none().fill('-')));
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    table
}

fn text(mut table: Table, right: &[usize]) -> String {
    let columns = table.column_count();
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index + 1 == columns { 0 } else { 2 }));
        if right.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// `1 sub-experiment`, `2 sub-experiments`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
