//! Topics of a recording: a row for each, and one for all with the total rate.

use super::lines::{COLUMNS, LATENCY_HELP, LoadLine, ScreenPage, broken, row, with_missed};
use crate::document::{Block, Cell, Column, Digits, Table};
use crate::number::counted;
use crate::tables::topics::total_rate;
use tripmeter_analysis::Row;
use tripmeter_analysis::derived::loss;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::Stream;
use tripmeter_model::pattern::{PatternFacts, ShownLatency};

/// Maximum number of topics that are shown for a line: the slowest.
const MOST_TOPICS: usize = 16;
/// Width beyond which names of topics are broken.
const TOPIC_COLUMNS: usize = 24;

const RATE_HELP: &str = "messages per second; (all): of all topics together";

/// Table and a line on topics that it leaves out; nothing unless a recording of several topics was played.
pub(super) fn blocks(page: &ScreenPage<'_>, facts: &PatternFacts, shown: &ShownLatency) -> Vec<Block> {
    let (lines, payloads, _) = page.lines(|sub| sub.facts() == facts, shown.figure);
    let several = |line: &LoadLine| {
        let workload = &page.planned(*line).workload;
        payloads.iter().copied().find(|_| workload.is_recorded() && workload.links() > 1)
    };
    let mut lines: Vec<(LoadLine, u64)> = lines.iter().filter_map(|line| Some((*line, several(line)?))).collect();
    if lines.is_empty() {
        return Vec::new();
    }
    let figure = |line: LoadLine| (shown.figure)(page.load(line));
    let level = |(line, bytes): &(LoadLine, u64)| page.level(*line, &[*bytes], figure(*line), Statistic::P50);
    lines.sort_by(|a, b| level(a).total_cmp(&level(b)));
    let distinctions = page.distinctions(&lines.iter().map(|line| line.0).collect::<Vec<_>>());
    let (mut rows, mut left_out) = (Vec::new(), 0);
    for &(line, bytes) in &lines {
        let row = row(line, bytes);
        let label = broken(&distinctions.parts(page.labelled(line)));
        let topics = slowest(page, row, figure(line));
        left_out = left_out.max(topics.len().saturating_sub(MOST_TOPICS));
        let mut cells = vec![Cell::text(&*label), Cell::text("(all)")];
        cells.extend(page.pair(line, bytes, figure(line)));
        cells.push(Cell::number(total_rate(page.metrics, row, Figure::AchievedRate)));
        rows.push((Some(row), cells));
        let begin = TopicRows {
            label: &label,
            figure: figure(line),
            is_disqualified: page.is_disqualified(line),
            is_cut_short: page.is_cut_short(line, bytes),
        };
        rows.extend(topics.iter().take(MOST_TOPICS).map(|topic| (Some(row), begin.cells(page, row, topic))));
    }
    let mut columns = vec![
        Column::words("transport", &format!("µs, {}", shown.title), "").merged(),
        Column::words("topic", "topic", "").at_most(TOPIC_COLUMNS),
    ];
    for (statistic, help) in [Statistic::P50, Statistic::P99].into_iter().zip(LATENCY_HELP) {
        columns.push(Column::numbers(statistic.id(), statistic.id(), "µs", Digits::Significant(3), help));
    }
    columns.push(Column::numbers("achieved_rate_hz", "/s", "/s", Digits::Significant(3), RATE_HELP));
    let title = format!("{}, topic by topic", facts.word());
    let table = Table::new(title, columns, rows).grouped_by_sub().within(COLUMNS);
    let note = (left_out > 0).then(|| {
        let topics = counted(left_out, "other topic");
        Block::Text(format!("only the slowest {MOST_TOPICS} topics of a transport are shown; --wide shows {topics}"))
    });
    [Block::Table(table)].into_iter().chain(note).collect()
}

/// Topics, the slowest first; those without messages last.
fn slowest<'a>(page: &ScreenPage<'a>, row: Row, figure: Figure) -> Vec<&'a Stream> {
    let metrics = page.metrics;
    let streams = metrics.streams(row, Figure::Sent).into_iter().filter(|stream| stream.topic.is_some());
    let median = |stream: &Stream| metrics.get(row, stream, figure, Statistic::P50).map(|rounds| rounds.folded());
    let mut topics: Vec<(&Stream, f64)> = streams.map(|one| (one, median(one).unwrap_or(f64::NEG_INFINITY))).collect();
    topics.sort_by(|a, b| b.1.total_cmp(&a.1));
    topics.into_iter().map(|one| one.0).collect()
}

/// Values that the topic rows of a transport share.
struct TopicRows<'a> {
    label: &'a str,
    figure: Figure,
    is_disqualified: bool,
    is_cut_short: bool,
}

impl TopicRows<'_> {
    fn cells(&self, page: &ScreenPage<'_>, row: Row, topic: &Stream) -> Vec<Cell> {
        let get = |figure, statistic| page.metrics.get(row, topic, figure, statistic);
        let is_missed = page.metrics.trials(row).iter().any(|(_, trial)| trial.missed.contains(topic));
        let is_bounded = page.metrics.is_bounded(row, topic, self.figure, Statistic::P99);
        let has_losses = loss(page.metrics, row, topic).iter().any(|lost| lost.events > 0);
        let star = if self.is_cut_short || has_losses { "*" } else { "" };
        let unfit = is_missed || self.is_disqualified;
        vec![
            Cell::text(self.label),
            Cell::text(topic.topic.as_deref().unwrap_or_default()),
            Cell::from_rounds(get(self.figure, Statistic::P50)).marked(with_missed(star, unfit)),
            Cell::from_rounds(get(self.figure, Statistic::P99)).marked(with_missed("", unfit)).if_bounded(is_bounded),
            Cell::from_rounds(get(Figure::AchievedRate, Statistic::Value)).marked(with_missed("", is_missed)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::{ExportInput, bencher, github_commands, github_summary, junit, openmetrics};
    use crate::fixture::played;
    use crate::fixture::{self, put_times, squeezed, trial_of};
    use crate::render::Text;
    use crate::results::NamedResults;
    use crate::{page, screen};
    use tripmeter_model::Wait;
    use tripmeter_model::manifest::{Counts, Manifest};
    use tripmeter_model::payload::display_size;

    fn text(manifest: &Manifest) -> String {
        Text::default().render(&screen(manifest, false))
    }

    #[test]
    fn each_topic_has_a_row_and_all_of_them_their_total_rate() {
        let manifest = played();
        let text = text(&manifest);
        let lines = squeezed(&text);
        for line in [
            "all topics",
            "µs, one way, since due p50 p99",
            "publish, topic by topic",
            "uds/stream (all) 60.0 120 800",
            "/imu 60.0 120 400",
            "/switch 60.0 120 400",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(!text.contains("left out"), "{text}");
    }

    #[test]
    fn topics_of_what_polled_on_a_shared_cpu_are_marked_too() {
        let mut manifest = played();
        (manifest.plan.leader_cpu, manifest.plan.follower_cpu) = (Some(1), Some(1));
        manifest.plan.sub_experiments[0].wait = Wait::Poll;
        let text = text(&manifest);
        for line in ["uds/stream (all) !60.0 !120 800", "/imu !60.0 !120 400"] {
            assert!(squeezed(&text).iter().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn topics_of_fewer_messages_than_planned_are_marked_too() {
        let mut manifest = played();
        let has = |manifest: &Manifest, lines: &[&str]| {
            let text = text(manifest);
            lines.iter().for_each(|line| assert!(squeezed(&text).iter().any(|found| found == line), "{line}\n{text}"));
        };
        let lost = Counts { sent: 1000, received: 999, lost: 1, ..Counts::default() };
        let late = Counts { late: 1, lost: 0, ..lost };
        for (counts, are_calls) in [(lost, false), (late, false), (lost, true)] {
            trial_of(&mut manifest, 0).put_counts(&Stream::topic("/imu"), &counts, are_calls);
            has(&manifest, &["/imu *60.0 120 400", "/switch 60.0 120 400"]);
        }
        let cell = &mut manifest.sub_experiments[0].cells[0];
        (cell.samples_planned, cell.cut_short) = (2 * cell.samples, Some("time cap of 1 s".into()));
        has(&manifest, &["uds/stream (all) *60.0 120 800", "/imu *60.0 120 400", "/switch *60.0 120 400"]);
    }

    #[test]
    fn a_topic_without_a_message_is_not_measured() {
        let mut manifest = played();
        let cell = &mut manifest.sub_experiments[0].cells[0];
        cell.cut_short = Some("time cap of 1 s; no message of /imu".into());
        cell.trials[0].put_counts(&Stream::topic("/imu"), &Counts::default(), false);
        let planned = &manifest.plan.sub_experiments[0];
        let found: Vec<String> = manifest.sub_experiments[0].unmeasured(planned).map(|one| one.to_string()).collect();
        assert_eq!(found, ["nothing was measured of topic '/imu': time cap of 1 s; no message of /imu"]);
        let results = [NamedResults { name: "r", manifest: &manifest }];
        let suites = junit(&ExportInput { results: &results, verdict: None });
        assert!(suites.contains("<skipped message=\"topic &apos;/imu&apos;: time cap of 1 s"), "{suites}");
    }

    #[test]
    fn of_many_topics_the_slowest_are_shown() {
        let mut manifest = played();
        let trial = trial_of(&mut manifest, 0);
        let counts = Counts { sent: 1000, received: 1000, ..Counts::default() };
        for index in 0..20_u32 {
            let topic = Stream::topic(&format!("/robot/{index}/a_rather_long_name_of_a_topic"));
            trial.put_counts(&topic, &counts, false);
            trial.put(&topic, Figure::AchievedRate, 10.0);
            put_times(trial, &topic, Figure::Response, (1000, 100e3 + 1e3 * f64::from(index)));
        }
        trial.missed.insert(Stream::topic("/robot/19/a_rather_long_name_of_a_topic"));
        let text = text(&manifest);
        let lines = squeezed(&text);
        assert!(lines.iter().any(|line| line.ends_with("(all) 60.0 120 1000")), "{text}");
        let rows = lines.iter().filter(|line| line.starts_with("/robot/")).count();
        assert_eq!((rows, lines.iter().any(|line| line.starts_with("/imu"))), (MOST_TOPICS, false), "{text}");
        assert!(lines.iter().any(|line| line.starts_with("/robot/19/") && line.contains("!119 !238 !10")), "{text}");
        let said = "only the slowest 16 topics of a transport are shown; --wide shows 6 other topics";
        assert!(lines.join(" ").contains(said), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    /// Neither texts nor keys of dashboards name a payload for messages of several sizes.
    #[test]
    fn no_view_and_no_export_shows_the_largest_payload_for_all_topics() {
        let mut measured = played();
        put_lost(&mut measured);
        let mut begun = measured.clone();
        for cell in begun.sub_experiments.iter_mut().flat_map(|result| &mut result.cells) {
            cell.trials.clear();
            (cell.samples, cell.cut_short) = (0, Some("time cap: 0 of 1 offered loads".into()));
        }
        for (view, text) in without_largest_payload(&measured) {
            assert!(view == "all" || text.contains("all topics") || text.contains("all_topics"), "{view}:\n{text}");
        }
        without_largest_payload(&begun);
    }

    fn without_largest_payload(manifest: &Manifest) -> [(&'static str, String); 9] {
        let bytes = manifest.plan.sub_experiments[0].payloads[0];
        let results = [NamedResults { name: "r", manifest }];
        let report = page(&results);
        let charts: String =
            report.charts().map(|chart| format!("{} {} {}\n", chart.name, chart.title, chart.reading)).collect();
        let input = ExportInput { results: &results, verdict: None };
        let shown = [
            ("screen", text(manifest)),
            ("all", fixture::all(manifest)),
            ("report", fixture::text(&report)),
            ("charts", charts),
            ("junit", junit(&input)),
            ("github", github_commands(&input)),
            ("summary", github_summary(&input)),
            ("bencher", bencher(&results).0.to_string()),
            ("openmetrics", openmetrics(&results).0),
        ];
        for (view, text) in &shown {
            for payload in [display_size(bytes), bytes.to_string()] {
                let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '.';
                let words: Vec<&str> = text.split(|letter| !is_word(letter)).collect();
                assert!(!words.contains(&payload.as_str()), "{view} shows {payload}:\n{text}");
            }
        }
        shown
    }

    fn put_lost(manifest: &mut Manifest) {
        let trial = trial_of(manifest, 0);
        fixture::put(trial, &[(Figure::Lost, 2.0), (Figure::Received, 1998.0)]);
    }
}
