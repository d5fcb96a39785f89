//! Rows that answer a question: messages published at an even rate on one topic.

use super::wish::Wish;
use crate::document::Note;
use crate::labels::load_text;
use crate::measured::MeasuredSide;
use crate::number::counted;
use std::collections::BTreeSet;
use tripmeter_analysis::Row;
use tripmeter_model::figure::Figure;
use tripmeter_model::group::by_key;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::payload::display_size;
use tripmeter_model::plan::SubExperiment;

/// Latency that is ranked: from the time at which a message was due.
pub const LATENCY: Figure = Figure::Response;
/// Rate and payload of a proposed command if neither the question nor the results have one.
const USUAL_RATE_HZ: f64 = 1000.0;
const USUAL_BYTES: u64 = 1024;
/// Most transports that a proposed command names; without names it takes all.
const MOST_NAMED: usize = 6;

/// Rows that answer the question: one payload, one rate, one number of subscribers. Empty if nothing was measured.
///
/// # Errors
/// If no row does, with the workloads measured and the command for the missing one; or if there are several workloads.
pub fn rows(side: &MeasuredSide<'_>, wish: &Wish) -> Result<Vec<Row>, String> {
    let is_publishing = |sub: &SubExperiment| sub.workload.is_publication() && !sub.workload.is_recorded();
    if side.metrics.all_rows().next().is_none() && side.subs.iter().any(|sub| is_publishing(sub.planned)) {
        // Every measurement failed; notes say why.
        return Ok(Vec::new());
    }
    let published: Vec<Row> = side.metrics.all_rows().filter(|row| other_workload(side, *row).is_none()).collect();
    let is_meant = |row: &Row| {
        wish.payload_bytes.is_none_or(|bytes| bytes == row.payload_bytes)
            && wish.rate_hz.is_none_or(|rate| side.metrics.load(*row).hz() == Some(rate))
            && wish.followers.is_none_or(|number| number == followers(side, *row))
    };
    let rows: Vec<Row> = published.iter().copied().filter(is_meant).collect();
    if rows.is_empty() {
        return Err(nothing(side, wish, &published));
    }
    let several = |what: &str, flag: &str, mut all: Vec<String>| {
        all.sort();
        all.dedup();
        if all.len() > 1 {
            Err(format!("the results have several {what}: {}; choose one ({flag})", all.join(", ")))
        } else {
            Ok(())
        }
    };
    several("payloads", "--payload", rows.iter().map(|row| display_size(row.payload_bytes)).collect())?;
    several("rates", "--rate", rows.iter().map(|row| load_text(side.metrics.load(*row))).collect())?;
    let numbers = rows.iter().map(|row| followers(side, *row).to_string()).collect();
    several("numbers of subscribers", "--subscribers", numbers)?;
    Ok(rows)
}

/// Notes on workloads that answer another question, and on transports that were measured only as the floor.
pub fn notes(side: &MeasuredSide<'_>, rows: &[Row]) -> Vec<Note> {
    let note = |names: Vec<String>, why: &str| {
        let text = format!("not ranked: {}: {why}", names.join(", "));
        Note::info("not ranked", text)
    };
    let others = others(side).into_iter();
    let mut notes: Vec<Note> =
        others.map(|(what, names)| note(names, &format!("{what}, not messages published at a rate"))).collect();
    let planned = rows.iter().map(|row| planned(side, *row));
    let floors: Vec<String> = planned.filter(|sub| sub.added_as_floor).map(|sub| sub.name.clone()).collect();
    notes.extend(
        (!floors.is_empty()).then(|| note(floors, "it was measured only as the floor; name its transport to rank it")),
    );
    notes
}

fn followers(side: &MeasuredSide<'_>, row: Row) -> u32 {
    planned(side, row).workload.followers()
}

fn planned<'a>(side: &'a MeasuredSide<'_>, row: Row) -> &'a SubExperiment {
    side.subs[row.sub as usize].planned
}

/// Reason why a row answers another question, e.g. `4 topics`; `None` if it shows messages at a rate on one topic.
fn other_workload(side: &MeasuredSide<'_>, row: Row) -> Option<String> {
    let planned = planned(side, row);
    let topology = planned.workload.topology;
    Some(match side.metrics.load(row) {
        _ if !planned.workload.is_publication() => planned.facts().what.to_owned(),
        OfferedLoad::Recorded => "topics of several sizes (`replay`, --topic)".to_owned(),
        OfferedLoad::Burst(_) => "bursts (--demand)".to_owned(),
        _ if topology.topics > 1 => format!("{} topics", topology.topics),
        _ if topology.publishers > 1 => format!("{} publishers", topology.publishers),
        _ => return None,
    })
}

/// Other workloads, each with its sub-experiments; those added only as the floor are left out.
fn others(side: &MeasuredSide<'_>) -> Vec<(String, Vec<String>)> {
    let rows = side.metrics.all_rows().filter(|row| !planned(side, *row).added_as_floor);
    let other = |row: Row| Some((other_workload(side, row)?, planned(side, row).name.clone()));
    let mut kinds = by_key(rows.filter_map(other));
    // Rows of a sub-experiment follow each other.
    kinds.iter_mut().for_each(|(_, names)| names.dedup());
    kinds
}

/// Error: nothing answers; the workloads measured, and the command that measures what is missing.
fn nothing(side: &MeasuredSide<'_>, wish: &Wish, published: &[Row]) -> String {
    let command = command(side, wish, published);
    if published.is_empty() {
        let kind =
            |(what, names): &(String, Vec<String>)| format!("{what} of {}", counted(names.len(), "sub-experiment"));
        let kinds: Vec<String> = others(side).iter().map(kind).collect();
        let there = if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") };
        return format!(
            "only messages published at a rate are ranked, but the results have {there}; {command} measures what is \
             missing"
        );
    }
    let place = |row: &Row| {
        let to = counted(followers(side, *row) as usize, "subscriber");
        (
            row.payload_bytes,
            format!("{} at {} to {to}", display_size(row.payload_bytes), load_text(side.metrics.load(*row))),
        )
    };
    let there: BTreeSet<(u64, String)> = published.iter().map(place).collect();
    let there: Vec<String> = there.into_iter().map(|(_, text)| text).collect();
    let asked = [
        wish.payload_bytes.map(|bytes| format!("--payload {}", display_size(bytes))),
        wish.rate_hz.map(|hz| format!("--rate {hz}")),
        wish.followers.map(|number| format!("--subscribers {number}")),
    ];
    let asked: Vec<String> = asked.into_iter().flatten().collect();
    format!("{} was not measured; the results have {}; {command} measures it", asked.join(" "), there.join(", "))
}

/// Command that measures the requested workload, or else the measured one, with the same transports.
fn command(side: &MeasuredSide<'_>, wish: &Wish, published: &[Row]) -> String {
    let first = published.first().copied().or_else(|| side.metrics.all_rows().next());
    // Rows with several sizes are skipped, because their payload is only the largest.
    let measured_bytes = first.filter(|row| !side.metrics.has_several_sizes(*row)).map(|row| row.payload_bytes);
    let payload = wish.payload_bytes.or(measured_bytes).unwrap_or(USUAL_BYTES);
    let measured_hz = first.filter(|_| !published.is_empty()).and_then(|row| side.metrics.load(row).hz());
    let rate = wish.rate_hz.or(measured_hz).unwrap_or(USUAL_RATE_HZ);
    let number = wish.followers.or(first.map(|row| followers(side, row))).unwrap_or(1);
    let subscribers = if number > 1 { format!(" --subscribers {number}") } else { String::new() };
    let is_meant = |sub: &&SubExperiment| !sub.added_as_floor && !sub.workload.is_log();
    let meant = side.subs.iter().map(|sub| sub.planned).filter(is_meant);
    let transports: BTreeSet<String> = meant.map(|sub| sub.transport.to_string()).collect();
    let word = |name: &String| if name.contains(['?', '&', '*']) { format!(" '{name}'") } else { format!(" {name}") };
    let names = if transports.len() > MOST_NAMED { String::new() } else { transports.iter().map(word).collect() };
    format!("`tripmeter choose --payload {} --rate {rate}{subscribers}{names}`", display_size(payload))
}
