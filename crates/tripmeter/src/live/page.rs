//! Content of the view: progress, machine load, the first screen of the results so far, and the last messages.

use super::machine::{MachineLoad, bars};
use crate::deadline::until;
use crate::output;
use indicatif::{HumanDuration, ProgressBar};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;
use std::time::Instant;
use tripmeter_model::manifest::Manifest;
use tripmeter_model::printable;
use tripmeter_report::document::{Block, Document, Note, Severity};
use tripmeter_report::render;

const BAR_COLUMNS: usize = 30;
const MOST_RATES: usize = 30;
const MOST_SAID: usize = 3;
/// Width in columns for which text is laid out.
const USUAL_COLUMNS: u16 = 80;
/// Beginnings of notes on results still to come, which are not failures yet.
const STILL_TO_COME: [&str; 2] = ["NOT RUN: ", "NOT ENDED: "];

pub struct LivePage {
    bar: ProgressBar,
    /// End of a run with `--for`.
    end: Option<Instant>,
    machine: MachineLoad,
    place: String,
    running: PayloadProgress,
    document: Document,
    /// Document as text, for the given width.
    text: Option<(u16, Text<'static>)>,
    /// Lines above and columns left of the visible part.
    scroll: (u16, u16),
    has_colours: bool,
}

#[derive(Default)]
struct PayloadProgress {
    seen: Option<(Instant, u64)>,
    done: u64,
    planned: u64,
    /// Samples per second between heartbeats, the latest last.
    rates: Vec<f64>,
}

impl LivePage {
    /// Empty page; a run with `--for` has an `end`.
    pub fn new(bar: ProgressBar, end: Option<Instant>, machine: MachineLoad) -> Self {
        let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let (place, running, document) = ("starting".to_owned(), PayloadProgress::default(), Document::default());
        Self { bar, end, machine, place, running, document, text: None, scroll: (0, 0), has_colours }
    }

    pub fn show(&mut self, manifest: &Manifest) {
        self.document = so_far(manifest);
        self.text = None;
    }

    pub fn begin(&mut self, place: String) {
        (self.place, self.running) = (place, PayloadProgress::default());
    }

    pub fn advance(&mut self, done: u64, planned: u64) {
        let (now, running) = (Instant::now(), &mut self.running);
        if let Some((then, before)) = running.seen {
            let seconds = now.duration_since(then).as_secs_f64();
            running.rates.push(done.saturating_sub(before) as f64 / seconds.max(1e-9));
            let most = running.rates.len().saturating_sub(MOST_RATES);
            running.rates.drain(..most);
        }
        (running.seen, running.done, running.planned) = (Some((now, done)), done, planned);
    }

    pub fn look_around(&mut self) {
        self.machine.look();
    }

    pub fn scroll(&mut self, lines: i16, columns: i16) {
        let (above, left) = self.scroll;
        self.scroll = (above.saturating_add_signed(lines), left.saturating_add_signed(columns));
    }

    pub fn draw(&mut self, frame: &mut Frame<'_>, is_ending: bool) {
        let said = output::last_held(MOST_SAID);
        let rows = [Constraint::Length(5), Constraint::Fill(1), Constraint::Length(said.len() as u16)];
        let [head, body, foot] = Layout::vertical(rows).areas(frame.area());
        frame.render_widget(self.head(head.width, is_ending), head);
        frame.render_widget(Text::from_iter(said).dim(), foot);
        let text = self.text(body.width);
        let hidden = |all: usize, seen: u16| all.saturating_sub(usize::from(seen)) as u16;
        let most = (hidden(text.lines.len(), body.height), hidden(text.width(), body.width));
        self.scroll = (self.scroll.0.min(most.0), self.scroll.1.min(most.1));
        frame.render_widget(Paragraph::new(text).scroll(self.scroll), body);
    }

    fn head(&self, columns: u16, is_ending: bool) -> Text<'static> {
        let what = if is_ending { "ending, results are kept" } else { "q ends the run, results are kept" };
        let (columns, place) = (usize::from(columns), printable::line(&self.place).into_owned());
        let gap = columns.saturating_sub(place.chars().count() + what.chars().count());
        let first = match gap {
            0 => Line::from(place.bold()),
            _ => Line::from(vec![place.bold(), " ".repeat(gap).into(), what.dim()]),
        };
        Text::from(vec![
            first,
            self.coloured(self.progress(), Color::Cyan),
            self.rate(),
            self.machine.line(columns).into(),
        ])
    }

    fn coloured(&self, line: impl Into<Line<'static>>, colour: Color) -> Line<'static> {
        let line = line.into();
        if self.has_colours { line.style(Style::new().fg(colour)) } else { line }
    }

    fn progress(&self) -> String {
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0).max(1));
        let share = (done as f64 / all as f64).clamp(0.0, 1.0);
        let filled = (share * BAR_COLUMNS as f64) as usize;
        let bar = format!("{}{}", "=".repeat(filled), if filled < BAR_COLUMNS { ">" } else { "" });
        let left = match (until(self.end), done) {
            (Some(left), _) => format!("{left:#}", left = HumanDuration(left)),
            (None, 0) => "?".to_owned(),
            (None, _) => format!("{:#}", HumanDuration(self.bar.eta())),
        };
        format!("[{bar:BAR_COLUMNS$}] {:>3.0}%  {left} left", (share * 100.0).floor())
    }

    fn rate(&self) -> Line<'static> {
        let PayloadProgress { done, planned, rates, .. } = &self.running;
        let Some(latest) = rates.last() else { return Line::default() };
        let most = rates.iter().fold(1.0, |most: f64, rate| most.max(*rate));
        let bars = bars(rates.iter().map(|rate| rate / most));
        format!("{done} of {planned} samples, {latest:.0} /s {bars}").into()
    }

    fn text(&mut self, columns: u16) -> Text<'static> {
        match &self.text {
            Some((made_for, text)) if *made_for == columns => text.clone(),
            _ => {
                let text = self.text_of(columns);
                self.text.insert((columns, text)).1.clone()
            }
        }
    }

    fn text_of(&self, columns: u16) -> Text<'static> {
        let mut lines: Vec<Line<'static>> = Vec::new();
        for block in &self.document.blocks {
            if !lines.is_empty() {
                lines.push(Line::default());
            }
            match block {
                Block::Notes(notes) => {
                    lines.extend(notes.iter().flat_map(|note| self.note(note, columns)));
                }
                block => lines.extend(block_lines(block.clone(), columns).into_iter().map(Line::from)),
            }
        }
        Text::from(lines)
    }

    fn note(&self, note: &Note, columns: u16) -> Vec<Line<'static>> {
        let lines = block_lines(Block::Notes(vec![note.clone()]), columns).into_iter();
        match note.severity {
            Severity::Error => lines.map(|line| self.coloured(line, Color::Red)).collect(),
            Severity::Warning => lines.map(|line| self.coloured(line, Color::Yellow)).collect(),
            Severity::Info => lines.map(Line::from).collect(),
        }
    }
}

fn so_far(manifest: &Manifest) -> Document {
    let mut document = tripmeter_report::screen(&manifest.clone().named_for_people(), false);
    for block in &mut document.blocks {
        if let Block::Notes(notes) = block {
            notes.retain(|note| !STILL_TO_COME.iter().any(|begin| note.text.starts_with(begin)));
        }
    }
    document.blocks.retain(|block| !matches!(block, Block::Notes(notes) if notes.is_empty()));
    document
}

/// Lines of a block. Tables keep their width; other text has at most `columns`.
fn block_lines(block: Block, columns: u16) -> Vec<String> {
    let is_table = matches!(block, Block::Table(_));
    let is_narrow = columns < USUAL_COLUMNS && !is_table;
    let text = render::Text { is_unwrapped: is_narrow, ..render::Text::default() };
    let text = text.render(&Document { blocks: vec![block] });
    let text = printable::lines(&text);
    let lines = text.lines();
    if is_narrow {
        lines.flat_map(|line| wrapped(line, columns.into())).collect()
    } else {
        lines.map(str::to_owned).collect()
    }
}

/// Lines of at most `columns`, broken at blanks only.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is a line");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= columns {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(format!("  {word}"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use tripmeter_report::document::{Cell, Column, Digits, Table};

    fn page() -> LivePage {
        let mut page = LivePage::new(ProgressBar::hidden(), None, MachineLoad::new(vec![0, 1]));
        let columns =
            vec![Column::words("transport", "", ""), Column::numbers("p50", "p50", "µs", Digits::Integer, "")];
        let rows = vec![(None, vec![Cell::text("uds/stream"), Cell::number(5000.0)])];
        let note = |severity, text: &str| Note::new(severity, "kind", None, text.to_owned());
        let notes =
            vec![note(Severity::Error, "FAILED: a: its follower ended"), note(Severity::Info, "left out: \x1b[2J")];
        let table = Table::new("ping".to_owned(), columns, rows);
        page.document = Document { blocks: vec![Block::Table(table), Block::Notes(notes)] };
        page.begin("1/2 uds".to_owned());
        page
    }

    fn drawn(page: &mut LivePage, columns: u16, rows: u16) -> (String, Vec<Color>) {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| page.draw(frame, false)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |row: u16| (0..columns).map(|column| buffer[(column, row)].symbol()).collect::<String>();
        let text = (0..rows).map(row).map(|line| line.trim_end().to_owned() + "\n").collect();
        (text, buffer.content.iter().map(|cell| cell.fg).collect())
    }

    #[test]
    fn the_page_has_progress_and_the_document_at_any_size() {
        let mut page = page();
        let (text, _) = drawn(&mut page, 80, 24);
        let parts =
            ["1/2 uds", "[>", "? left", "ping", "uds/stream    5", "FAILED: a: its follower ended", "\\u001b[2J"];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        let (text, _) = drawn(&mut page, 16, 24);
        assert!(text.contains("FAILED: a: its\n  follower ended\n"), "{text}");
        for size in [(1, 1), (5, 2), (80, 3), (300, 100)] {
            drawn(&mut page, size.0, size.1);
        }
    }

    #[test]
    fn what_does_not_fit_is_reached_by_keys() {
        let mut page = page();
        assert!(!drawn(&mut page, 12, 8).0.contains("5\n"));
        page.scroll(4, 20);
        let (text, _) = drawn(&mut page, 12, 8);
        assert!(text.lines().any(|line| line.ends_with(" 5")), "{text}");
        page.scroll(-100, -100);
        assert!(drawn(&mut page, 12, 8).0.contains("ping"));
    }

    #[test]
    fn colours_are_left_out_where_they_are_not_wanted() {
        for has_colours in [true, false] {
            let mut page = page();
            page.has_colours = has_colours;
            let (_, colours) = drawn(&mut page, 80, 24);
            assert_eq!(colours.contains(&Color::Red), has_colours);
            assert_eq!(colours.iter().any(|colour| *colour != Color::Reset), has_colours);
        }
    }
}
