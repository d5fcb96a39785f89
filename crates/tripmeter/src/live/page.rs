//! What the view shows: progress, the machine, the first screen of the results so far, and what was said last.

use super::machine::{Machine, bars};
use crate::output;
use indicatif::{HumanDuration, ProgressBar};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Wrap};
use std::time::Instant;
use tripmeter_model::manifest::Manifest;
use tripmeter_model::printable;
use tripmeter_report::document::{Block, Document, Note, Severity};
use tripmeter_report::render;

/// Columns of the bar of progress.
const BAR_COLUMNS: usize = 30;
/// Rates that are remembered.
const MOST_RATES: usize = 30;
/// Lines of what was said last.
const MOST_SAID: usize = 3;
/// Columns that text is made for; tables are wrapped on a narrower terminal.
const USUAL_COLUMNS: u16 = 80;
/// Notes on what is still to come: that is no failure yet.
const STILL_TO_COME: [&str; 2] = ["NOT RUN: ", "NOT ENDED: "];

/// The view's content.
pub struct Page {
    bar: ProgressBar,
    machine: Machine,
    place: String,
    running: Running,
    document: Document,
    /// The document as text, for so many columns.
    text: Option<(u16, Text<'static>)>,
    scroll: u16,
    has_colours: bool,
}

/// The payload that runs.
#[derive(Default)]
struct Running {
    seen: Option<(Instant, u64)>,
    done: u64,
    planned: u64,
    /// Samples per second between heartbeats, the latest last.
    rates: Vec<f64>,
}

impl Page {
    /// A page without results.
    pub fn new(bar: ProgressBar, machine: Machine) -> Self {
        let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let (place, running, document) = ("starting".to_owned(), Running::default(), Document::default());
        Self { bar, machine, place, running, document, text: None, scroll: 0, has_colours }
    }

    /// Takes the results so far.
    pub fn show(&mut self, manifest: &Manifest) {
        self.document = so_far(manifest);
        self.text = None;
    }

    /// Another sub-experiment or payload begins.
    pub fn begin(&mut self, place: String) {
        (self.place, self.running) = (place, Running::default());
    }

    /// So many samples of the payload are there.
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

    /// Looks at the machine.
    pub fn look_around(&mut self) {
        self.machine.look();
    }

    /// Moves the results by so many lines.
    pub fn scroll(&mut self, lines: i16) {
        self.scroll = self.scroll.saturating_add_signed(lines);
    }

    /// Draws everything.
    pub fn draw(&mut self, frame: &mut Frame<'_>, is_ending: bool) {
        let said = output::last_held(MOST_SAID);
        let rows = [4, 1, 0, said.len() as u16].map(Constraint::Length);
        let rows = [rows[0], rows[1], Constraint::Fill(1), rows[3]];
        let [head, _, body, foot] = Layout::vertical(rows).areas(frame.area());
        frame.render_widget(self.head(head.width, is_ending), head);
        frame.render_widget(Text::from_iter(said).dim(), foot);
        let text = self.text(body.width);
        let last = text.lines.len().saturating_sub(usize::from(body.height)) as u16;
        let results = Paragraph::new(text).wrap(Wrap { trim: false });
        self.scroll = self.scroll.min(last);
        frame.render_widget(results.scroll((self.scroll, 0)), body);
    }

    fn head(&self, columns: u16, is_ending: bool) -> Text<'static> {
        let what = if is_ending { "ending, results are kept" } else { "q ends the run, results are kept" };
        let (columns, place) = (usize::from(columns), printable::line(&self.place).into_owned());
        let gap = columns.saturating_sub(place.chars().count() + what.chars().count());
        let first = match gap {
            0 => Line::from(place.bold()),
            _ => Line::from(vec![place.bold(), " ".repeat(gap).into(), what.dim()]),
        };
        Text::from(vec![first, self.coloured(self.progress(), Color::Cyan), self.rate(), self.machine.line(columns).into()])
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
        let left = if done == 0 { "?".to_owned() } else { format!("{:#}", HumanDuration(self.bar.eta())) };
        format!("[{bar:BAR_COLUMNS$}] {:>3.0}%  {left} left", (share * 100.0).floor())
    }

    fn rate(&self) -> Line<'static> {
        let Running { done, planned, rates, .. } = &self.running;
        let Some(latest) = rates.last() else { return Line::default() };
        let most = rates.iter().fold(1.0, |most: f64, rate| most.max(*rate));
        let bars = bars(rates.iter().map(|rate| rate / most));
        format!("{done} of {planned} samples, {latest:.0} /s {bars}").into()
    }

    /// The results as text for so many columns.
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

/// The first screen of the results so far.
fn so_far(manifest: &Manifest) -> Document {
    let mut document = tripmeter_report::screen(manifest, false);
    for block in &mut document.blocks {
        if let Block::Notes(notes) = block {
            notes.retain(|note| !STILL_TO_COME.iter().any(|begin| note.text.starts_with(begin)));
        }
    }
    document.blocks.retain(|block| !matches!(block, Block::Notes(notes) if notes.is_empty()));
    document
}

/// A block as lines of at most so many columns, but for paragraphs, which are wrapped when they are drawn.
fn block_lines(block: Block, columns: u16) -> Vec<String> {
    let is_narrow = columns < USUAL_COLUMNS;
    let block = match block {
        Block::Table(table) if is_narrow => Block::Table(table.within(columns)),
        block => block,
    };
    let text = render::Text { is_unwrapped: is_narrow, ..render::Text::default() };
    let text = text.render(&Document { blocks: vec![block] });
    printable::lines(&text).lines().map(str::to_owned).collect()
}
