//! A document as one HTML file, which loads nothing from a server, works from disk, and is readable without scripts.
//!
//! Charts are drawn by ECharts, which is embedded in the file (`tools/echarts/build.sh`), from data next to them. Text
//! of the document is never markup, and the page's policy permits only its own scripts.

mod chart;
mod table;
mod text;

use self::text::{escaped, escaped_lines, sentence, words};
use crate::assets::ECHARTS;
use crate::document::{Block, Document, Facts, Heading, Note, Severity};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// Scripts of pages without charts, and of pages with charts.
const TABLES: &str = include_str!("../assets/tables.js");
const TABLES_AND_CHARTS: &str = concat!(
    include_str!("../assets/tables.js"),
    include_str!("../assets/scales.js"),
    include_str!("../assets/charts.js")
);
const STYLE: &str = include_str!("../assets/report.css");
/// Paragraphs with more bytes scroll.
const TALL: usize = 2000;

/// HTML page of a document; `title` is its first heading and the window's title.
pub fn html(document: &Document, title: &str) -> String {
    let (nav, main) = parts(document);
    // Heat maps are tables, so they need no ECharts.
    let is_drawn = document.charts().any(|chart| chart.heat.is_none());
    let scripts = if is_drawn { &[&ECHARTS, TABLES_AND_CHARTS][..] } else { &[TABLES] };
    let hashes: String = scripts.iter().map(|script| format!(" 'sha256-{}'", hash(script))).collect();
    let policy = format!(
        "default-src 'none'; script-src{hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
         form-action 'none'"
    );
    let scripts: String = scripts.iter().map(|script| format!("<script>{script}</script>\n")).collect();
    let (name, title, version) = (escaped(title), words(title), env!("CARGO_PKG_VERSION"));
    format!(
        r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="Tripmeter {version}">
<title>{name}</title>
<style>{STYLE}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the results</a>
<header class="top"><div><nav aria-label="Parts of this page"><ol>{nav}</ol></nav><div class="switches"></div></div></header>
<main id="main" tabindex="-1">
<h1>{title}</h1>
{main}</main>
<footer>Made by Tripmeter {version}. This page is one file and loads nothing from a server.{credit}</footer>
{scripts}</body>
</html>
"##,
        credit = if is_drawn { " Charts are drawn by Apache ECharts." } else { "" },
    )
}

/// Links to the parts of a page, and the parts.
fn parts(document: &Document) -> (String, String) {
    let (mut nav, mut main) = (String::new(), String::from("<section class=\"first\">\n"));
    let mut number = 0;
    for block in &document.blocks {
        if let Block::Heading(Heading { id, text }) = block {
            number += 1;
            // Parts with the same name get different identifiers.
            let id = if nav.contains(&format!("#{id}\"")) { format!("{id}-{number}") } else { (*id).to_owned() };
            let _ = write!(nav, "<li><a href=\"#{id}\">{}</a></li>", words(text));
            // Blocks before the first heading form a part of their own.
            let is_first = number == 1 && main.ends_with("first\">\n");
            main = if is_first { String::new() } else { main + "</section>\n" };
            let class = if is_first { " class=\"first\"" } else { "" };
            let _ = writeln!(main, "<section id=\"{id}\"{class} aria-labelledby=\"{id}-head\">");
            let _ = writeln!(main, "<h2 id=\"{id}-head\">{}</h2>", words(text));
            continue;
        }
        main += &part(block);
    }
    if document.blocks.is_empty() {
        main += "<p>There is nothing to show.</p>\n";
    }
    (nav, main + "</section>\n")
}

fn part(block: &Block) -> String {
    match block {
        // `parts` has written it.
        Block::Heading(_) => String::new(),
        Block::Table(table) => table::html(table),
        Block::Chart(chart) => chart::html(chart),
        Block::Charts(charts) => {
            format!("<div class=\"multiples\">\n{}</div>\n", charts.iter().map(chart::html).collect::<String>())
        }
        Block::Notes(notes) => format!("<ul class=\"notes\">\n{}</ul>\n", notes.iter().map(note).collect::<String>()),
        Block::Facts(facts) => self::facts(facts),
        Block::Text(text) => text.lines().map(paragraph).collect(),
        Block::Lines(lines) => format!("<pre tabindex=\"0\">{}</pre>\n", escaped_lines(lines)),
    }
}

fn paragraph(line: &str) -> String {
    // A paragraph that fills a page gets a box that scrolls.
    let tall = if line.len() > TALL { " class=\"tall\" tabindex=\"0\"" } else { "" };
    format!("<p{tall}>{}</p>\n", sentence(line))
}

fn note(note: &Note) -> String {
    let (class, word) = match note.severity {
        Severity::Error => ("note error", "<b>Error</b>"),
        Severity::Warning => ("note warning", "<b>Warning</b>"),
        Severity::Info => ("note", ""),
    };
    format!("<li class=\"{class}\">{word}{}</li>\n", sentence(&note.text))
}

fn facts(Facts { title, pairs }: &Facts) -> String {
    let title = if title.is_empty() { String::new() } else { format!("<h3>{}</h3>\n", escaped(title)) };
    let pair = |(name, value): &(String, String)| format!("<dt>{}</dt><dd>{}</dd>\n", words(name), words(value));
    format!("{title}<dl class=\"facts\">\n{}</dl>\n", pairs.iter().map(pair).collect::<String>())
}

/// Hash with which a policy permits a script.
///
/// # Source
/// W3C, Content Security Policy Level 3, 2.3.1: `hash-source`.
fn hash(script: &str) -> String {
    STANDARD.encode(Sha256::digest(script.as_bytes()))
}

#[cfg(test)]
mod tests;
