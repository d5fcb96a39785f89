//! Notes made from the rows of tables: reasons why their figures are not good.

use super::row::{TableRow, TimedLine};
use crate::document::{Note, Severity};
use crate::labels::offered;
use crate::notes::{self, ALL_FAILED, ALL_LOST, odd};
use crate::number::count;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::Counts;
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::payload::{HEADER_BYTES, display_size};
use tripmeter_model::recording::{RecordedTopic, Recording};
use tripmeter_model::trial::SHOWN_FOLLOWERS;

impl<'a> TableRow<'a> {
    /// Text of [`notes::mishaps`] for the row's workload.
    fn mishaps(&self, counts: &Counts) -> String {
        notes::mishaps(counts, &self.sub.planned.workload)
    }

    /// Name in notes: `uds_channel at 1k, 1000 /s`.
    fn name(&self) -> String {
        format!("{} {}, {}", self.sub.planned.name, self.at_size(), offered(self.load()))
    }

    /// Notes on rows: for each payload why it has fewer trials than planned, then the notes of each row.
    pub fn notes(rows: &[Self], of_row: impl Fn(&Self) -> Vec<Note>) -> Vec<Note> {
        let of_payload = |rows: &[Self]| {
            let (first, at) = (rows[0], rows[0].at_size());
            let short = |why: String| first.warning(format!("* {} {at}: {why}", first.sub.planned.name));
            let of_rows = rows.iter().flat_map(&of_row).chain(first.warm_up());
            Self::shortfalls(rows).into_iter().map(short).chain(of_rows).collect::<Vec<_>>()
        };
        rows.chunk_by(Self::is_same_payload).flat_map(of_payload).collect()
    }

    /// Reasons why rounds have fewer trials of this payload than planned.
    fn shortfalls(rows: &[Self]) -> Vec<String> {
        let Some(Self { sub, row, .. }) = rows.first() else { return Vec::new() };
        let planned = sub.planned.workload.loads.len();
        let is_measured = |one: &&Self, round: u32| one.trials().any(|trial| trial.0 == round);
        let measured = |round| rows.iter().filter(|one| is_measured(one, round)).count();
        let short = sub.results.iter().filter(|result| measured(result.round) < planned);
        let cells = short.flat_map(|result| &result.cells).filter(|cell| cell.payload_bytes == row.payload_bytes);
        cells.filter_map(|cell| cell.cut_short.as_ref()).map(ToString::to_string).collect()
    }

    /// Note on damage in the warm-up of its payload, which no trial counts.
    pub fn warm_up(&self) -> Option<Note> {
        let damaged = self.sub.payload(self.row.payload_bytes).warmup_damaged();
        let what = notes::words(&self.sub.planned.workload).damaged;
        let (name, at) = (&self.sub.planned.name, self.at_size());
        (damaged > 0).then(|| self.info(format!("{name} {at}: {damaged} {what} in the warm-up")))
    }

    /// Note that no message of a trial arrived.
    pub fn nothing_arrived(&self, text: String) -> Note {
        Note { kind: notes::NOTHING_ARRIVED, ..self.warning(text) }
    }

    pub fn warning(&self, text: String) -> Note {
        Note::new(Severity::Warning, notes::TRIALS, Some(self.row), text)
    }

    /// Warning that this row missed its rate.
    pub fn rate_missed(&self, text: String) -> Note {
        Note { kind: notes::RATE_MISSED, ..self.warning(text) }
    }

    /// Informational note on this row.
    pub fn info(&self, text: String) -> Note {
        Note { severity: Severity::Info, ..self.warning(text) }
    }
}

/// Notes on refused messages, and on messages that arrived before they were sent, in a round.
fn refused(row: &TableRow<'_>, round: u32, place: &str) -> Vec<Note> {
    let (refused, early) = (row.at(round, Figure::Refused), row.at(round, Figure::BeforeSent));
    let refused = (refused > 0.0).then(|| format!("{place}: the transport was full {refused} times"));
    let by = if row.at(round, Figure::ClockError) > 0.0 {
        "the clocks of two hosts; they are kept"
    } else {
        "the clock; they are left out"
    };
    let early = (early > 0.0).then(|| format!("{place}: {early} messages came before being sent, according to {by}"));
    refused.into_iter().chain(early).map(|text| row.info(text)).collect()
}

fn is_odd(counts: &Counts) -> bool {
    odd(counts) || counts.lost > 0
}

/// Streams with lost, late, damaged, duplicated or reordered messages, and their counts, per round.
fn odd_streams<T: Clone>(row: &TableRow<'_>, streams: &[(T, Stream)]) -> Vec<Vec<(T, Counts)>> {
    let counted: Vec<_> = streams.iter().map(|(name, stream)| (name, row.counts(stream))).collect();
    let of_round = |round: u32| {
        let of_stream = |(name, counts): &(&T, Vec<(u32, Counts)>)| {
            let (_, counts) = counts[counts.binary_search_by_key(&round, |(known, _)| *known).ok()?];
            is_odd(&counts).then(|| ((*name).clone(), counts))
        };
        counted.iter().filter_map(of_stream).collect()
    };
    row.trials().map(|(round, _)| of_round(*round)).collect()
}

/// Notes on followers with lost, late, damaged, duplicated or reordered messages, per round, the worst first.
fn at_followers(row: &TableRow<'_>, place: &str) -> Vec<Vec<Note>> {
    let of_round = |mut odd: Vec<(u32, Counts)>| {
        odd.sort_by_key(|(_, counts)| Reverse(counts.lost + counts.late + counts.damaged));
        let line = |(follower, counts): &(u32, Counts)| {
            row.info(format!("{place}, to follower {follower}: {}", row.mishaps(counts)))
        };
        let mut notes: Vec<Note> = odd.iter().take(SHOWN_FOLLOWERS).map(line).collect();
        if odd.len() > SHOWN_FOLLOWERS {
            let others = odd.len() - SHOWN_FOLLOWERS;
            let text = format!("{place}: {others} other followers also have such messages, but not more");
            notes.push(row.info(text));
        }
        notes
    };
    odd_streams(row, &row.followers()).into_iter().map(of_round).collect()
}

/// Notes on payloads of round trips, with one or several followers: reasons for too few samples, losses, and samples
/// without a one-way latency.
pub fn of_trips(rows: &[TableRow<'_>]) -> Vec<Note> {
    let cells: Vec<_> = rows.iter().map(|row| (row, row.sub.payload(row.row.payload_bytes))).collect();
    let mut reasons: Vec<String> = Vec::new();
    for reason in cells.iter().flat_map(|(_, cell)| cell.shortfalls()) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    let short = |reason| {
        let text = format!("* {}: {reason}", notes::TOO_FEW);
        Note::warning(notes::TOO_FEW, text)
    };
    let mut all: Vec<Note> = reasons.into_iter().map(short).collect();
    for (row, cell) in cells.iter().filter(|(_, cell)| odd(&cell.counts()) || cell.warmup_damaged() > 0) {
        let line = notes::mishap_line(row.sub, cell);
        all.extend(line.map(|text| Note { kind: notes::MISHAPS[1], ..row.warning(text) }));
    }
    for row in rows {
        let missing = row.total(Figure::OneWayMissing);
        if missing > 0.0 {
            let (name, size) = (&row.sub.planned.name, display_size(row.row.payload_bytes));
            let samples = row.samples(Figure::RttHalf);
            let text = format!("{name} at {size}: {missing} of {samples} samples have no one-way latency");
            all.push(Note { kind: "no one-way latency", ..row.info(text) });
        }
    }
    all
}

pub fn of_publications(row: &TableRow<'_>) -> Vec<Note> {
    let (planned, place, late) = (row.sub.planned, row.name(), row.too_late());
    let mut notes = Vec::new();
    for (round, trial) in row.trials() {
        notes.extend(trial.cut_short.iter().map(|why| row.warning(format!("* {place}: {why}"))));
        if trial.rate_missed {
            let what = if planned.workload.publishers() > 1 { "publisher" } else { "topic" };
            let [behind, sent, slowest] =
                [Figure::Behind, Figure::Sent, Figure::SlowestRate].map(|figure| row.at(*round, figure));
            let slowest = count(slowest);
            notes.push(row.rate_missed(format!(
                "! {place}: RATE MISSED: the slowest {what} sent {slowest} /s; {behind} of {sent} messages were sent \
                 more than {late} late"
            )));
        }
        notes.extend(refused(row, *round, &place));
    }
    let publishers = row.streams(|stream| stream.publisher);
    for (publisher, counts) in odd_streams(row, &publishers).concat() {
        notes.push(row.info(format!("{place}, publisher {publisher}: {}", row.mishaps(&counts))));
    }
    notes.extend(at_followers(row, &place).concat());
    let totals = row.totals();
    if totals.is_all_lost() {
        notes.push(row.nothing_arrived(format!("* {place}: {ALL_LOST}")));
    }
    if is_odd(&totals) {
        notes.push(row.info(format!("{place}: {}", row.mishaps(&totals))));
    }
    notes
}

pub fn of_calls(row: &TableRow<'_>) -> Vec<Note> {
    // Round trips at a rate are calls of one client, but notes call them messages.
    let is_round_trips = row.sub.planned.are_round_trips();
    let place = match row.load() {
        OfferedLoad::Closed => format!("{} {}", row.sub.planned.name, row.at_size()),
        _ => row.name(),
    };
    let mut notes = Vec::new();
    for (round, trial) in row.trials() {
        notes.extend(trial.cut_short.iter().map(|why| row.warning(format!("* {place}: {why}"))));
        let [made, succeeded] = [Figure::Sent, Figure::Received].map(|figure| row.at(*round, figure));
        if made > 0.0 && succeeded == 0.0 {
            notes.push(row.nothing_arrived(format!("* {place}: {ALL_FAILED}")));
        }
        if trial.rate_missed {
            let late = row.too_late();
            let (behind, slowest) = (row.at(*round, Figure::Behind), count(row.at(*round, Figure::SlowestRate)));
            let what = match is_round_trips {
                true if row.sub.planned.workload.links() > 1 => {
                    format!("the slowest client sent {slowest} messages /s; {behind} of {made} messages were sent")
                }
                true => format!("{slowest} messages /s were sent; {behind} of {made} messages were sent"),
                false => format!("the slowest client made {slowest} calls /s; {behind} of {made} calls were made"),
            };
            notes.push(row.rate_missed(format!("! {place}: RATE MISSED: {what} more than {late} late")));
        }
    }
    let (missing, succeeded) = (row.total(Figure::OneWayMissing), row.total(Figure::Received));
    if missing > 0.0 {
        let those = if is_round_trips { "messages that were answered" } else { "calls that succeeded" };
        let text = format!("{place}: {missing} of {succeeded} {those} have no one-way latency");
        notes.push(row.info(text));
    }
    let happened = row.mishaps(&row.totals());
    if !happened.is_empty() {
        let what = if is_round_trips { "messages" } else { "calls" };
        notes.push(row.info(format!("{place}: {what} {happened}")));
    }
    notes
}

/// Notes on loads at full speed: on trials, then on mishaps of messages.
pub fn of_streams(lines: &[TimedLine<'_>]) -> Vec<Note> {
    let kinds: [fn(&TimedLine<'_>) -> Vec<Note>; 5] = [
        |line| if line.follower() == 0 { shortfalls(line) } else { Vec::new() },
        |line| Vec::from_iter(timed(line).filter(|_| line.follower() == 0)),
        |line| {
            let text = || format!("* {} {}: {ALL_LOST}", line.row.sub.planned.name, line.row.at_size());
            Vec::from_iter(line.is_all_lost().then(|| line.row.nothing_arrived(text())))
        },
        |line| {
            let counts = line.counts().into_iter().map(|(_, counts)| Counts { lost: 0, ..counts }).filter(odd);
            counts.map(|counts| line.row.info(format!("{}: {}", line.row.name(), line.row.mishaps(&counts)))).collect()
        },
        |line| Vec::from_iter(line.row.warm_up().filter(|_| line.place == 0)),
    ];
    kinds.iter().flat_map(|kind| lines.iter().flat_map(kind)).collect()
}

/// Notes on trials that ended early or missed their rate.
fn shortfalls(line: &TimedLine<'_>) -> Vec<Note> {
    let (row, place, mut all) = (line.row, line.row.name(), Vec::new());
    let sent = row.get(&line.stream, Figure::Sent, Statistic::Value);
    for (round, trial) in row.trials() {
        all.extend(trial.cut_short.iter().map(|why| row.warning(format!("* {place}: {why}"))));
        let (behind, sent) = (row.at(*round, Figure::Behind), sent.and_then(|sent| sent.at(*round)).unwrap_or(0.0));
        let late = format!("{behind} of {sent} messages were sent late");
        let published = count(row.at(*round, Figure::PublishedRate));
        match trial.rate_missed {
            true => {
                all.push(row.rate_missed(format!("! {place}: RATE MISSED: {published} messages /s were sent; {late}")))
            }
            false if behind > 0.0 => {
                all.push(Note { kind: notes::SENT_LATE, ..row.info(format!("{place}: {late}")) });
            }
            false => {}
        }
    }
    all
}

/// Note on messages whose one-way latency was measured, if there are any.
fn timed(line: &TimedLine<'_>) -> Option<Note> {
    let (row, timed) = (line.row, line.row.value(Figure::OneWayTimed)?.folded());
    let streams = row.receivers();
    let samples = streams.iter().filter_map(|stream| row.get(stream, Figure::OneWay, Statistic::N));
    let samples = samples.flat_map(|rounds| rounds.values).fold(0.0, |sum, of_round| sum + of_round);
    let of_each = if streams.len() > 1 { format!(" to each of {} followers", streams.len()) } else { String::new() };
    let text = format!(
        "{}: one-way latency was measured, so rates include a clock reading per message on both sides; one_way has \
         {samples} samples of {timed} timed messages{of_each}",
        row.name()
    );
    Some(Note { kind: "one-way latency measured", ..row.info(text) })
}

pub fn of_logger(row: &TableRow<'_>) -> Vec<Note> {
    let bytes = row.row.payload_bytes;
    let place = format!("{} at {}", row.sub.planned.name, display_size(bytes));
    let short = |why: &String| row.warning(format!("* {place}: fewer calls than planned: {why}"));
    let mut notes: Vec<Note> = row.sub.payload(bytes).shortfalls().iter().map(short).collect();
    let counts = row.totals();
    if odd(&counts) || counts.lost > 0 {
        let mishaps = row.mishaps(&counts).replace("lost", "missing");
        notes.push(row.info(format!("{place}: {mishaps} of {} lines", counts.sent)));
    }
    let refused = row.total(Figure::Refused);
    if refused > 0.0 {
        notes.push(row.info(format!("{place}: the logger was full {refused} times")));
    }
    notes
}

/// Notes on trials, topics and padded messages of a recording.
pub fn of_recording(recording: &Recording, plays: &[TableRow<'_>]) -> Vec<Note> {
    let notes = plays.iter().flat_map(|play| of_play(play, &recording.topics));
    let padded = padded(recording).map(|text| Note::info("recording", text));
    notes.chain(padded).collect()
}

/// Note on padded messages: `recording: 2 messages are smaller than our header and were sent with 16 bytes: '/switch'`.
fn padded(recording: &Recording) -> Option<String> {
    const NAMED: usize = 5;
    let topics: Vec<&RecordedTopic> = recording.topics.iter().filter(|topic| topic.padded > 0).collect();
    let messages: u64 = topics.iter().map(|topic| topic.padded).sum();
    let mut names: Vec<String> = topics.iter().take(NAMED).map(|topic| format!("'{}'", topic.name)).collect();
    if topics.len() > NAMED {
        names.push(format!("{} more", topics.len() - NAMED));
    }
    (messages > 0).then(|| {
        format!(
            "recording: {} smaller than our header, and {} sent with {HEADER_BYTES} bytes: {}",
            if messages == 1 { "1 message is".to_owned() } else { format!("{messages} messages are") },
            if messages == 1 { "was" } else { "were" },
            names.join(", ")
        )
    })
}

fn of_play(play: &TableRow<'_>, recorded: &[RecordedTopic]) -> Vec<Note> {
    let (name, mut notes) = (&play.sub.planned.name, Vec::new());
    let topics: Vec<(&str, Stream)> =
        recorded.iter().map(|topic| (topic.name.as_str(), Stream::topic(&topic.name))).collect();
    let odd = at_followers(play, name).into_iter().zip(odd_streams(play, &topics));
    for ((round, trial), (followers, odd_topics)) in play.trials().zip(odd) {
        notes.extend(trial.cut_short.iter().map(|why| play.warning(format!("* {name}: {why}"))));
        notes.extend(missed(play, *round, &trial.missed, &topics).map(|text| play.rate_missed(text)));
        notes.extend(followers);
        notes.extend(refused(play, *round, name));
        let odd = |(topic, counts)| play.info(format!("{name}, topic '{topic}': {}", play.mishaps(&counts)));
        notes.extend(odd_topics.into_iter().map(odd));
    }
    notes
}

/// Number of topics that missed their rate in a round, and the worst of them.
fn missed<'a>(
    play: &TableRow<'_>,
    round: u32,
    missed: &BTreeSet<Stream>,
    topics: &'a [(&str, Stream)],
) -> Option<String> {
    let rates = |topic: &'a (&str, Stream)| {
        let (name, stream) = topic;
        let rate = |figure| play.get(stream, figure, Statistic::Value)?.at(round);
        Some((*name, rate(Figure::OfferedRate)?, rate(Figure::AchievedRate)?, missed.contains(stream)))
    };
    let all: Vec<_> = topics.iter().filter_map(rates).collect();
    let slowness = |topic: &(&str, f64, f64, bool)| topic.1 / topic.2.max(f64::MIN_POSITIVE);
    let late = || all.iter().filter(|topic| topic.3);
    let (topic, offered, achieved, _) = late().max_by(|a, b| slowness(a).total_cmp(&slowness(b)))?;
    let (name, count_of, all) = (&play.sub.planned.name, late().count(), all.len());
    let (achieved, offered) = (count(*achieved), count(*offered));
    Some(format!(
        "! {name}: RATE MISSED on {count_of} of {all} topics; the worst is '{topic}': {achieved} of {offered} /s"
    ))
}
