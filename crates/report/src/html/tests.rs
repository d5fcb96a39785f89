//! Properties that a page has for any document. `tests/browser` opens pages in a browser.

use super::text::LONGEST_TITLE;
use super::*;
use crate::document::{Cell, Column, Digits, Missing, Table};
use crate::plots::Chart;
use crate::plots::chart::{Heat, HeatCell, HeatLevel, Line, Stack, X, Y};
use tripmeter_model::metric::Interval;

const HOSTILE: [&str; 6] = [
    "<script>alert(1)</script>",
    "\" onclick='alert(1)'",
    "</script><!--",
    "a\u{2028}b\u{202e}c\u{0}d",
    "שלום",
    "&lt;b&gt;",
];

fn number(value: f64, interval: Option<(f64, f64)>, mark: &'static str) -> Cell {
    Cell::Number { value, interval: interval.map(|(low, high)| Interval { low, high }), mark }
}

fn table() -> Table {
    let help = "median & \"more\"";
    let columns = vec![
        Column::words("transport", "transport", "").merged(),
        Column::numbers("p50", "p50", "µs", Digits::Significant(3), help),
        Column::words("bar", "", ""),
    ];
    let row = |name: &str, cell| (None, vec![Cell::text(name), cell, Cell::Bar(0.5)]);
    let rows = vec![
        row("uds_stream?a=1\n  &b=2", number(5157.0, Some((5000.0, 5300.0)), "*")),
        row("tcp", Cell::Missing(Missing::NotMeasured)),
    ];
    Table::new("Times".to_owned(), columns, rows)
}

fn chart() -> Chart {
    Chart {
        title: "How?".to_owned(),
        x: X::Numbers { label: "payload [bytes]".to_owned(), log: true, whole: true },
        y: Y { label: "µs".to_owned(), ..Y::default() },
        lines: vec![Line {
            name: HOSTILE[0].to_owned(),
            points: vec![(1024.0, 1.5), (65536.0, f64::NAN)],
            intervals: vec![(1024.0, 1.0, 2.0)],
            ..Line::default()
        }],
        ..Chart::default()
    }
}

/// Body of a page with these blocks, without style and scripts.
fn body(blocks: Vec<Block>) -> String {
    let page = html(&Document { blocks }, "title");
    let body = page.split_once("<main").unwrap().1;
    body.split_once("</main>").unwrap().0.to_owned()
}

/// The page has the scripts of the policy, and no others.
#[test]
fn only_the_two_scripts_of_the_page_may_run() {
    let hostile = HOSTILE.map(|text| Block::Text(text.to_owned())).to_vec();
    let page = html(&Document { blocks: [hostile, vec![Block::Chart(chart())]].concat() }, HOSTILE[0]);
    assert_eq!(page.matches("<script>").count(), 2);
    assert_eq!(page.matches("<script type=\"application/json\">").count(), 1);
    let policy = page.split_once("Content-Security-Policy").unwrap().1.split_once('>').unwrap().0;
    for script in [&*ECHARTS, TABLES_AND_CHARTS] {
        assert!(policy.contains(&hash(script)) && page.contains(script));
    }
    assert!(policy.contains("default-src 'none'") && !policy.contains("script-src 'unsafe"), "{policy}");
    // Neither script can end early.
    assert!(
        [&*ECHARTS, TABLES_AND_CHARTS].iter().all(|script| !script.contains("</script") && !script.contains("<!--"))
    );
    // The only addresses are in the notices of ECharts.
    let own = page.replace(&*ECHARTS, "").replace("http://www.w3.org/2000/svg", "");
    assert!(!own.contains("http:") && !own.contains("https:") && !own.contains(" src="));
    // A page without a chart does not contain ECharts.
    let plain = html(&Document { blocks: vec![Block::Table(table())] }, "plain");
    assert_eq!(plain.matches("<script>").count(), 1);
    assert!(plain.len() < 100_000, "{}", plain.len());
}

#[test]
fn text_is_text() {
    let facts = Facts { title: HOSTILE[0].to_owned(), pairs: vec![(HOSTILE[1].to_owned(), HOSTILE[2].to_owned())] };
    let text = body(vec![
        Block::Text(HOSTILE.join(" ")),
        Block::Notes(vec![Note::error("x", HOSTILE[0].to_owned())]),
        Block::Facts(facts),
        Block::Lines(HOSTILE.join("\n")),
    ]);
    assert!(!text.contains("<script") && !text.contains("<!--") && !text.contains("onclick='"), "{text}");
    assert!(text.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && text.contains("&amp;lt;b&amp;gt;"), "{text}");
    assert!(text.contains("a\\u2028b\\u202ec\\u0000d"), "{text}");
    assert_eq!(words("שלום"), "<bdi>שלום</bdi>");
    let said = "In <bdi>שלום עולם</bdi>: 3 of 4 (<bdi>שלום</bdi>), &lt;b&gt; ×1.5 µs";
    assert_eq!(sentence("In שלום עולם: 3 of 4 (שלום), <b> ×1.5 µs"), said);
    let document = Document { blocks: vec![Block::Text("שלום: 12 figures".to_owned())] };
    assert!(html(&document, "title").contains("<p><bdi>שלום</bdi>: 12 figures</p>"));
    let long = "x".repeat(10_000);
    let cut = words(&long);
    assert!(cut.contains(&long) && cut.len() < long.len() + LONGEST_TITLE + 100, "{}", cut.len());
}

#[test]
fn the_data_of_a_chart_are_json_that_cannot_end_its_script() {
    let hostile = Chart { title: HOSTILE[2].to_owned(), subtitle: HOSTILE[3].to_owned(), ..chart() };
    let text = body(vec![Block::Chart(hostile)]);
    let data = text.split_once("<script type=\"application/json\">").unwrap().1.split_once("</script>").unwrap().0;
    assert!(!data.contains('<') && !data.contains('\u{2028}'), "{data}");
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!((data["title"].as_str(), data["lines"][0]["name"].as_str()), (Some(HOSTILE[2]), Some(HOSTILE[0])));
    assert_eq!(data["lines"][0]["points"][1][1], serde_json::Value::Null);
}

#[test]
fn tables_have_names_values_and_intervals() {
    let text = body(vec![Block::Table(table())]);
    let expected = [
        "<caption class=\"hidden\">Times</caption>",
        "<th scope=\"col\" class=\"right\" title=\"median &amp; &quot;more&quot;\">p50\n<span class=\"unit\">µs</span></th>",
        "<th scope=\"row\" class=\"words\">uds_<wbr>stream?<wbr>a=1<br>&amp;b=2</th>",
        "<td class=\"right marked\" data-v=\"5157\" title=\"5.00..5.30\">*5.16<span class=\"interval\">5.00..5.30</span></td>",
        "<td class=\"right missing\" title=\"not measured\">–</td>",
        "<td data-v=\"0.5\"><span class=\"share\"><i style=\"width:50.0%\"></i></span></td>",
        "<details class=\"legend\"><summary>What the columns mean</summary>\n<dl>\n<dt>p50</dt>",
    ];
    for part in expected {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn a_column_whose_cells_have_units_has_none_in_its_head() {
    let share = Cell::InUnit(Box::new(number(5.0, None, "")), "%");
    let mut table = table();
    for (_, cells) in &mut table.rows {
        cells[1] = share.clone();
    }
    let page = body(vec![Block::Table(table.clone())]);
    assert!(page.contains("5.00 %") && !page.contains("µs"), "{page}");
    assert!(!crate::render::markdown(&Document { blocks: vec![Block::Table(table.clone())] }).contains("µs"));
    table.rows[0].1[1] = number(5157.0, None, "");
    assert!(body(vec![Block::Table(table)]).contains("<span class=\"unit\">µs</span>"));
}

#[test]
fn every_chart_has_its_numbers_beside_it() {
    let text = body(vec![Block::Chart(chart())]);
    assert!(text.contains("<td class=\"right\" data-v=\"1.5\" title=\"1.000..2.000\">1.500"), "{text}");
    let many = Line { points: (0..5000).map(|x| (f64::from(x), f64::from(x % 7))).collect(), ..Line::default() };
    let x = X::Numbers { label: "n".to_owned(), log: false, whole: true };
    let text = body(vec![Block::Chart(Chart { x, lines: vec![many], ..chart() })]);
    assert!(text.contains("data-v=\"5000\">5000<") && text.matches("<tr>").count() == 2, "{text}");
    let x = X::Categories { label: "transport".to_owned(), names: vec!["a".to_owned(), "b".to_owned()] };
    let stack = Stack {
        name: "send".to_owned(),
        values: vec![1.0, f64::NAN],
        intervals: vec![Some((0.5, 1.5)), None],
        ..Stack::default()
    };
    let stacks = Chart { x: x.clone(), lines: Vec::new(), stacks: vec![stack], ..chart() };
    let text = body(vec![Block::Chart(stacks)]);
    assert!(text.contains("0.5000..1.500") && text.contains("not measured"), "{text}");
    let cell = |column, row, level, text: &str| HeatCell {
        column,
        row,
        level,
        text: text.to_owned(),
        detail: HOSTILE[1].to_owned(),
    };
    let cells = vec![
        cell(0, 0, HeatLevel::Bad, "+12 %"),
        cell(1, 0, HeatLevel::Scale(0.5), "×2"),
        cell(7, 7, HeatLevel::Even, ""),
    ];
    let heat = Heat { rows: vec!["uds".to_owned()], cells };
    let text = body(vec![Block::Chart(Chart { x, lines: Vec::new(), heat: Some(heat), ..chart() })]);
    assert!(text.contains("<td class=\"Bad\" title=\"&quot; onclick=&#39;alert(1)&#39;\">+12 %</td>"), "{text}");
    assert!(text.contains("style=\"--at:0.50\"") && !text.contains("<canvas") && !text.contains("<script"), "{text}");
}

#[test]
fn parts_of_one_name_are_two_places() {
    let heading = |text: &str| Block::Heading(Heading { id: "part", text: text.to_owned() });
    let document = Document { blocks: vec![heading("One"), Block::Text("a".to_owned()), heading("Two")] };
    let page = html(&document, "title");
    assert!(page.contains("<li><a href=\"#part\">One</a></li><li><a href=\"#part-2\">Two</a></li>"));
    assert!(page.contains("<section id=\"part\" class=\"first\"") && page.contains("<section id=\"part-2\""));
    let before = html(&Document { blocks: vec![Block::Text("a".to_owned()), heading("One")] }, "title");
    assert!(before.contains("<section class=\"first\">\n<p>a</p>\n</section>\n<section id=\"part\" aria"));
    assert!(html(&Document::default(), "title").contains("There is nothing to show."));
}
