//! Charts: their data for the page's script, and as a table. A heat map is a table with colours.

use super::table;
use super::text::{cut, escaped, hint, sentence, words};
use crate::document::{Cell, Column, Digits, Missing, Table};
use crate::plots::Chart;
use crate::plots::chart::{Heat, HeatLevel, Line, X};
use std::fmt::Write as _;
use tripmeter_model::metric::Interval;
use tripmeter_model::payload::display_size;
use tripmeter_model::printable;

/// Maximum number of different x values with which lines are columns of a table.
const MOST_COLUMNS: usize = 16;
/// Maximum number of lines that are columns of a table.
const MOST_LINES: usize = 8;
/// Maximum number of rows of a chart's table; lines with more points are summarised.
const MOST_ROWS: usize = 200;

/// Chart with its texts, and its numbers as a table.
pub fn html(chart: &Chart) -> String {
    let line = |class: &str, text: &str| match text.is_empty() {
        true => String::new(),
        false => format!("<p class=\"{class}\">{}</p>\n", cut(text, sentence(text))),
    };
    let caption = format!(
        "<figcaption>\n<h3>{}</h3>\n{}{}</figcaption>\n",
        words(&chart.title),
        line("reading", &chart.reading),
        line("subtitle", &chart.subtitle)
    );
    let remark = |text: &String| format!("<li>{}</li>\n", words(text));
    let remarks = |lines: &mut dyn Iterator<Item = &String>| match lines.map(remark).collect::<String>() {
        lines if lines.is_empty() => lines,
        lines => format!("<ul class=\"remarks\">\n{lines}</ul>\n"),
    };
    let notes = remarks(&mut chart.notes.iter());
    if let (Some(heat), X::Categories { label, names }) = (&chart.heat, &chart.x) {
        return format!("<figure>\n{caption}{}{notes}</figure>\n", self::heat(heat, [&chart.y.label, label], names));
    }
    let marks = remarks(&mut chart.marks.iter().map(|mark| &mark.name));
    format!(
        "<figure class=\"chart\">\n{caption}<p class=\"axis y\">{}</p>\n<div class=\"canvas\" role=\"img\"></div>\n\
         <p class=\"axis x\">{}</p>\n{notes}<details class=\"values\"><summary>The numbers of this chart</summary>\n\
         {}{marks}</details>\n<script type=\"application/json\">{}</script>\n</figure>\n",
        escaped(&chart.y.label),
        escaped(chart.x.label()),
        tables(chart).iter().map(table::html).collect::<String>(),
        data(chart)
    )
}

/// The chart as JSON that is safe within a script.
fn data(chart: &Chart) -> String {
    // Non-finite numbers become null.
    let text = serde_json::to_string(chart).expect("a chart has no map whose keys are no words");
    printable::json(&text).replace('<', "\\u003c").replace('&', "\\u0026")
}

/// Heat map as a table whose cells have a colour and a text.
fn heat(heat: &Heat, labels: [&str; 2], columns: &[String]) -> String {
    let [rows, above] = labels;
    let name = hint(&format!("{rows} by {above}"));
    let mut html = format!(
        "<div class=\"{} heat\" role=\"region\" aria-label=\"{name}\" tabindex=\"0\">\n<table>\n\
         <caption class=\"hidden\">{name}</caption>\n<thead>\n<tr><th scope=\"col\">{}</th>",
        table::scroll(heat.rows.len()),
        words(rows)
    );
    html.extend(columns.iter().map(|column| format!("<th scope=\"col\">{}</th>", words(column))));
    html += "</tr>\n</thead>\n<tbody>\n";
    let mut grid = vec![vec![None; columns.len()]; heat.rows.len()];
    for cell in &heat.cells {
        if let Some(place) = grid.get_mut(cell.row).and_then(|row| row.get_mut(cell.column)) {
            *place = Some(cell);
        }
    }
    for (name, cells) in heat.rows.iter().zip(grid) {
        let _ = write!(html, "<tr><th scope=\"row\" class=\"words\">{}</th>", words(name));
        for cell in cells {
            let Some(cell) = cell else {
                html += "<td></td>";
                continue;
            };
            let class = match cell.level {
                HeatLevel::Scale(at) => format!("class=\"Scale\" style=\"--at:{:.2}\"", at.clamp(0.0, 1.0)),
                level => format!("class=\"{level:?}\""),
            };
            let _ = write!(html, "<td {class} title=\"{}\">{}</td>", hint(&cell.detail), words(&cell.text));
        }
        html += "</tr>\n";
    }
    html + "</tbody>\n</table>\n</div>\n"
}

/// Numbers of a chart as tables.
fn tables(chart: &Chart) -> Vec<Table> {
    let mut tables = Vec::new();
    if !chart.stacks.is_empty() {
        tables.push(stacks(chart));
    }
    if !chart.lines.is_empty() {
        tables.push(lines(chart));
    }
    if !chart.bands.is_empty() {
        let bands = chart.bands.iter().map(|band| (band.name.as_str(), band.points.clone()));
        tables.push(summary(bands, &chart.y.label));
    }
    if !chart.bars.is_empty() {
        let ends = ["from", "to"].map(|end| format!("{}, {end}", chart.x.label()));
        let columns = [&ends[0], &ends[1], &chart.y.label].map(|title| number(title));
        // Bars that are not empty, at most as many as a table may have.
        let bars = chart.bars.iter().filter(|bar| bar.count > 0.0).take(MOST_ROWS);
        let rows = bars.map(|bar| (None, [bar.from, bar.to, bar.count].map(Cell::number).to_vec()));
        tables.push(Table::new(String::new(), columns.to_vec(), rows.collect()));
    }
    tables
}

fn number(title: &str) -> Column {
    Column::numbers(title, title, "", Digits::Significant(4), "")
}

fn stacks(chart: &Chart) -> Table {
    let mut columns = vec![Column::words("x", chart.x.label(), "")];
    columns.extend(chart.stacks.iter().map(|stack| {
        let name = if stack.name.is_empty() { &chart.y.label } else { &stack.name };
        number(name).if_any()
    }));
    let count = chart.stacks.iter().map(|stack| stack.values.len()).max().unwrap_or(0);
    let row = |at: usize| {
        let cells = chart.stacks.iter().map(|stack| {
            let interval = stack.intervals.get(at).copied().flatten();
            value(stack.values.get(at).copied(), interval)
        });
        (None, std::iter::once(Cell::text(x_text(&chart.x, at as f64))).chain(cells).collect())
    };
    Table::new(String::new(), columns, (0..count).map(row).collect())
}

fn value(value: Option<f64>, interval: Option<(f64, f64)>) -> Cell {
    match value.filter(|value| value.is_finite()) {
        Some(value) => {
            let interval = interval.map(|(low, high)| Interval { low, high });
            Cell::Number { value, interval, mark: "" }
        }
        None => Cell::Missing(Missing::NotMeasured),
    }
}

/// Text of an x value, as on the axis.
fn x_text(x: &X, at: f64) -> String {
    match x {
        X::Categories { names, .. } => names.get(at as usize).cloned().unwrap_or_default(),
        X::Percentiles { .. } => {
            let share = format!("{:.6}", 100.0 - 100.0 / at);
            format!("{} %", share.trim_end_matches('0').trim_end_matches('.'))
        }
        X::Numbers { log: true, .. } if at.fract() == 0.0 && at >= 1.0 => display_size(at as u64),
        X::Numbers { .. } => Digits::Significant(4).write(at),
    }
}

/// Table of the lines of a chart: a column for each x if there are few, else a column for each line, else a summary.
fn lines(chart: &Chart) -> Table {
    let mut all: Vec<f64> = chart.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0)).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    let at = |line: &Line, x: f64| {
        let value = line.points.iter().find(|point| point.0 == x).map(|point| point.1);
        let interval = line.intervals.iter().find(|ends| ends.0 == x).map(|ends| (ends.1, ends.2));
        self::value(value, interval)
    };
    let is_plain = chart.lines.iter().all(|line| line.points.windows(2).all(|two| two[0].0 != two[1].0));
    let name = |line: &Line| if line.name.is_empty() { chart.y.label.clone() } else { line.name.clone() };
    if is_plain && all.len() <= MOST_COLUMNS && chart.lines.len() > 1 {
        let mut columns = vec![Column::words("line", &chart.y.label, "")];
        columns.extend(all.iter().map(|x| number(&x_text(&chart.x, *x)).grouped(chart.x.label())));
        let rows = chart.lines.iter().map(|line| {
            let cells = all.iter().map(|x| at(line, *x));
            (None, std::iter::once(Cell::text(name(line))).chain(cells).collect())
        });
        return Table::new(String::new(), columns, rows.collect());
    }
    if is_plain && all.len() <= MOST_ROWS && chart.lines.len() <= MOST_LINES {
        let mut columns = vec![Column::words("x", chart.x.label(), "")];
        columns.extend(chart.lines.iter().map(|line| number(&name(line))));
        let rows = all.iter().map(|x| {
            let cells = chart.lines.iter().map(|line| at(line, *x));
            (None, std::iter::once(Cell::text(x_text(&chart.x, *x))).chain(cells).collect())
        });
        return Table::new(String::new(), columns, rows.collect());
    }
    let points = |line: &Line| line.points.iter().map(|&(x, y)| (x, y, y)).collect();
    summary(chart.lines.iter().map(|line| (line.name.as_str(), points(line))), &chart.y.label)
}

/// Summary of lines with many points: their number, least and greatest value, and where these are.
fn summary<'a>(lines: impl Iterator<Item = (&'a str, Vec<(f64, f64, f64)>)>, y: &str) -> Table {
    let mut columns = vec![Column::words("line", y, ""), Column::numbers("n", "points", "", Digits::Integer, "")];
    columns.extend(["least", "at", "greatest", "at"].map(number));
    let rows = lines.map(|(name, points)| {
        let points: Vec<_> = points.into_iter().filter(|point| point.1.is_finite() && point.2.is_finite()).collect();
        let least = points.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|point| (point.1, point.0));
        let greatest = points.iter().max_by(|a, b| a.2.total_cmp(&b.2)).map(|point| (point.2, point.0));
        let both = [least, greatest].into_iter().flat_map(|end| [end.map(|end| end.0), end.map(|end| end.1)]);
        let start = [Cell::text(name), Cell::number(points.len() as f64)];
        (None, start.into_iter().chain(both.map(Cell::maybe)).collect())
    });
    Table::new(String::new(), columns, rows.take(MOST_ROWS).collect())
}
