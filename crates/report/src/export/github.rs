//! Workflow commands of GitHub Actions, and a summary of a job in Markdown.
//!
//! # Source
//! The escaping is that of `@actions/core`, `command.ts`.

use super::exported::{ExportInput, ExportedPayload, ExportedSub, PayloadState, cut, measured, row_name, row_story};
use crate::document::Missing;
use crate::markup::markdown_words;
use std::fmt::Write;
use tripmeter_analysis::Selected;
use tripmeter_model::figure::{Statistic, Unit};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::verdict::{FigureVerdict, VerdictDocument, VerdictRow};

/// GitHub shows at most ten annotations of a kind for each step.
const MOST_OF_A_KIND: usize = 10;
/// Maximum number of rows of a summary, which GitHub limits to 1 MiB.
const MOST_ROWS: usize = 300;
/// Maximum characters of a title; below, of a message or cell.
const MOST_TITLE: usize = 200;
const MOST_TEXT: usize = 2000;

/// An annotation.
struct Annotation {
    title: String,
    text: String,
}

#[derive(Default)]
struct Annotations {
    errors: Vec<Annotation>,
    warnings: Vec<Annotation>,
    notices: Vec<Annotation>,
}

/// Annotations for regressions, failures, losses and improvements, a line each, at most ten of a kind.
pub fn github_commands(input: &ExportInput<'_>) -> String {
    let subs = measured(input.results);
    let all = match input.verdict {
        Some(verdict) => of_verdict(verdict),
        None => of_results(&subs),
    };
    let mut text = String::new();
    for (kind, list) in [("error", &all.errors), ("warning", &all.warnings), ("notice", &all.notices)] {
        let shown = if list.len() > MOST_OF_A_KIND { MOST_OF_A_KIND - 1 } else { list.len() };
        for Annotation { title, text: message } in &list[..shown] {
            text += &command(kind, title, message);
        }
        if shown < list.len() {
            text += &command(kind, "tripmeter", &format!("{} more; see the summary of the job", list.len() - shown));
        }
    }
    text
}

fn command(kind: &str, title: &str, message: &str) -> String {
    format!("::{kind} title={}::{}\n", property(&cut(title, MOST_TITLE)), data(&cut(message, MOST_TEXT)))
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

fn row_title(row: &VerdictRow) -> String {
    format!("{} {}: {}", row.sub_experiment, row.verdict, row_name(row))
}

fn of_verdict(verdict: &VerdictDocument) -> Annotations {
    let mut all = Annotations::default();
    for row in &verdict.figures {
        let annotation = Annotation { title: row_title(row), text: row_story(row) };
        match row.verdict {
            bad if bad.is_bad() => all.errors.push(annotation),
            FigureVerdict::Improved => all.notices.push(annotation),
            _ => {}
        }
    }
    for trouble in &verdict.troubles {
        let title = trouble.sub_experiment.clone().unwrap_or_else(|| verdict.command.to_string());
        let list = if trouble.fails { &mut all.errors } else { &mut all.warnings };
        list.push(Annotation { title, text: trouble.what.clone() });
    }
    all.notices.insert(0, Annotation { title: "tripmeter".to_owned(), text: sentence(verdict) });
    all
}

fn of_results(subs: &[ExportedSub]) -> Annotations {
    let mut all = Annotations::default();
    for sub in subs {
        if let Some(why) = &sub.trouble {
            all.errors.push(Annotation { title: sub.name.clone(), text: why.clone() });
            continue;
        }
        all.warnings.extend(sub.notes.iter().map(|why| Annotation { title: sub.name.clone(), text: why.clone() }));
        for payload in &sub.payloads {
            let (list, text) = match &payload.state {
                PayloadState::Passed => continue,
                PayloadState::Lossy(why) => (&mut all.warnings, why.clone()),
                PayloadState::Failed(why) => (&mut all.errors, why.clone()),
                PayloadState::Skipped(why) => (&mut all.errors, incomplete(why)),
            };
            list.push(Annotation { title: format!("{} {}", sub.name, payload.at), text });
        }
    }
    all
}

fn incomplete(why: &str) -> String {
    format!("incomplete: {why}")
}

/// The verdict in one sentence.
fn sentence(verdict: &VerdictDocument) -> String {
    let counts: Vec<String> = verdict.counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
    let counts = if counts.is_empty() { "none".to_owned() } else { counts.join(", ") };
    format!("`{}`: {}. Figures judged: {counts}.", verdict.command, verdict.result)
}

/// Summary of a job: the verdict and a table of findings, or the state of each sub-experiment.
pub fn github_summary(input: &ExportInput<'_>) -> String {
    match input.verdict {
        Some(verdict) => summary_of_verdict(verdict),
        None => summary_of_results(&measured(input.results)),
    }
}

fn summary_of_verdict(verdict: &VerdictDocument) -> String {
    let mut text = format!("## Tripmeter: {}\n\n{}\n", verdict.result, sentence(verdict));
    if let Some(rate) = verdict.false_discovery_rate {
        let percent = crate::percent(rate);
        let _ = writeln!(text, "Of the changes reported, at most {percent} are expected to be false alarms.");
    }
    if !verdict.troubles.is_empty() {
        text.push('\n');
    }
    for trouble in verdict.troubles.iter().take(MOST_ROWS) {
        let place = trouble.sub_experiment.as_ref().map_or(String::new(), |name| format!("{}: ", cell(name)));
        let _ = writeln!(text, "- {place}{}", cell(&trouble.what));
    }
    let mut rows: Vec<&VerdictRow> = verdict.figures.iter().collect();
    // Findings first; the sort is stable.
    rows.sort_by_key(|row| row.verdict);
    if !rows.is_empty() {
        text += "\n| sub-experiment | figure | verdict |\n| --- | --- | --- |\n";
    }
    for row in rows.iter().take(MOST_ROWS) {
        let (name, figure, story) = (cell(&row.sub_experiment), cell(&row_name(row)), cell(&row_story(row)));
        let _ = writeln!(text, "| {name} | {figure} | {story} |");
    }
    if rows.len() > MOST_ROWS {
        let _ = writeln!(text, "\n{} more figures are not shown.", rows.len() - MOST_ROWS);
    }
    text
}

/// A row for each payload and offered load, with its first latency or else its first rate.
fn summary_of_results(subs: &[ExportedSub]) -> String {
    let mut text = "## Tripmeter\n\n| sub-experiment | payload | p50 | p99 | rate | state |\n".to_owned();
    text += "| --- | ---: | ---: | ---: | ---: | --- |\n";
    let rows = subs.iter().flat_map(|sub| sub.payloads.iter().map(move |payload| (sub, payload)));
    let rows = rows.flat_map(|(sub, payload)| payload.loads().into_iter().map(move |load| (sub, payload, load)));
    let (shown, hidden): (Vec<_>, Vec<_>) = rows.enumerate().partition(|row| row.0 < MOST_ROWS);
    for (_, (sub, payload, load)) in shown {
        let state = match (&payload.state, &sub.trouble) {
            (PayloadState::Passed, _) => "passed".to_owned(),
            (PayloadState::Lossy(why) | PayloadState::Failed(why), _) => why.clone(),
            (PayloadState::Skipped(_), Some(why)) => why.clone(),
            (PayloadState::Skipped(why), None) => incomplete(why),
        };
        let of = |statistic| payload.written(load, |one| one.address.statistic == statistic);
        let rate = payload.written(load, |one| matches!(one.address.unit(), Unit::Hz | Unit::BytesPerS));
        let is_told = |load: &OfferedLoad| matches!(load, OfferedLoad::Closed | OfferedLoad::Recorded);
        let load = load.filter(|load| !is_told(load)).map_or(String::new(), |load| format!(" {load}"));
        let (name, place) = (cell(&sub.name), payload.size.clone() + &load);
        let (p50, p99, state) = (of(Statistic::P50), of(Statistic::P99), cell(&state));
        let _ = writeln!(text, "| {name} | {place} | {p50} | {p99} | {rate} | {state} |");
    }
    if !hidden.is_empty() {
        let _ = writeln!(text, "\n{} more rows are not shown.", hidden.len());
    }
    let notes = subs.iter().flat_map(|sub| sub.notes.iter().map(move |why| (sub, why)));
    for (place, (sub, why)) in notes.take(MOST_ROWS).enumerate() {
        let begin = if place == 0 { "\n" } else { "" };
        let _ = writeln!(text, "{begin}- {}: {}", cell(&sub.name), cell(why));
    }
    text
}

impl ExportedPayload {
    /// Offered loads with figures; a single `None` if there are no figures.
    fn loads(&self) -> Vec<Option<OfferedLoad>> {
        let mut loads = Vec::new();
        for load in self.figures.iter().chain(&self.unbounded).map(|one| Some(one.address.load)) {
            if !loads.contains(&load) {
                loads.push(load);
            }
        }
        if loads.is_empty() { vec![None] } else { loads }
    }

    /// First wanted figure of a load, or a note that there are too few samples for it.
    fn written(&self, load: Option<OfferedLoad>, is_wanted: impl Fn(&Selected) -> bool) -> String {
        let is_it = |one: &&Selected| Some(one.address.load) == load && is_wanted(one);
        match self.figures.iter().find(is_it) {
            Some(one) => super::exported::with_unit(one.value, one.address.unit().as_str()),
            None if self.unbounded.iter().any(|one| is_it(&one)) => Missing::TooFewSamples.to_string(),
            None => String::new(),
        }
    }
}

/// Text that Markdown and HTML show as it stands, on one line.
fn cell(text: &str) -> String {
    markdown_words(&cut(text, MOST_TEXT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_escaped_as_actions_core_does() {
        let made = command("error", "a,b:c\n%", "x::y,z\r\n::error::w%0A");
        assert_eq!(made, "::error title=a%2Cb%3Ac%0A%25::x::y,z%0D%0A::error::w%250A\n");
    }

    #[test]
    fn cells_are_no_markup() {
        assert_eq!(cell("<script>a|b`\n[x](y)"), "&lt;script&gt;a\\|b\\`\\\\n\\[x\\](y)");
        assert_eq!(cell(&"é".repeat(10_000)).chars().count(), MOST_TEXT);
    }
}
