//! Page of `explain`: parts of a message's time as stacked bars, the figures behind them, and what was not measured.

use crate::document::{Block, Cell, Column, Digits, Document, Note, Table};
use crate::merged::{MISSED, POLLS_HELP};
use crate::notes::NO_KERNEL_TIME;
use crate::number::{signed, significant};
use crate::plots::Chart;
use crate::plots::chart::{Stack, X, Y};
use tripmeter_analysis::Row;
use tripmeter_model::Wait;
use tripmeter_model::explain::{ExplainedTransport, ExplainedWait, Explanation, MessageCost, Parts, SystemCall};
use tripmeter_model::payload::display_size;

/// Width of a bar in characters.
const BAR: f64 = 48.0;
/// Maximum width of a row's name; longer ones are broken.
const NAME: usize = 24;
/// Clock readings per message.
const STAMPS: f64 = 5.0;
/// Difference between the sum of the parts and the undisturbed median, as a share, above which a warning appears.
const DISTURBED: f64 = 0.25;

/// Part of the time: column, name, letter in bars, value, and meaning.
type PartKind = (&'static str, &'static str, char, fn(&Parts) -> f64, &'static str);

const PARTS: [PartKind; 6] = [
    ("prepare_ns", "prepare", 'p', |parts| parts.prepare_ns, "a side gets a buffer and writes the header"),
    ("send_ns", "send", 'S', |parts| parts.send_ns, "a side is in the send call"),
    (
        "way_ns",
        "transit",
        '.',
        |parts| parts.way_ns,
        "the message is on its way, and neither side is in a call that sends or returns it",
    ),
    ("receive_ns", "receive", 'R', |parts| parts.receive_ns, "a side is in the receive call that returns the message"),
    (
        "wakeup_rest_ns",
        "wake-up",
        'w',
        |parts| parts.wakeup_ns,
        "extra time of transit and receive when blocking instead of polling (at most block-poll)",
    ),
    (
        "own_ns",
        "own",
        'o',
        |parts| parts.own_ns,
        "Tripmeter checks the message, the transport takes it back, and Tripmeter turns around",
    ),
];

/// Page on where the time of a message goes.
pub fn explain(explanation: &Explanation) -> Document {
    let size = display_size(explanation.payload_bytes);
    let mut blocks = vec![Block::Text(format!(
        "Where the time of a message of {size} goes: half of a round trip, in µs. Each bar shows shares of its own sum."
    ))];
    let rows: Vec<BarRow<'_>> = rows(explanation);
    if !rows.is_empty() {
        blocks.push(Block::Lines(bars(&rows)));
        blocks.push(Block::Text(answers(&rows)));
        blocks.push(Block::Chart(chart(&rows, &size)));
        blocks.push(Block::Table(parts_table(&rows)));
    }
    blocks.push(Block::Table(calls_table(explanation)));
    blocks.push(Block::Table(cost_table(explanation)));
    let system_calls = system_calls_table(explanation);
    if !system_calls.rows.is_empty() {
        blocks.push(Block::Table(system_calls));
    }
    blocks.push(Block::Notes(notes(explanation, &rows)));
    Document { blocks }
}

/// Bar of a transport in one wait mode.
struct BarRow<'a> {
    transport: &'a ExplainedTransport,
    wait: &'a ExplainedWait,
    parts: &'a Parts,
}

impl BarRow<'_> {
    fn name(&self) -> String {
        name(self.transport, self.wait)
    }

    /// True if the wake-up time was measured, or is 0 because nothing sleeps.
    fn is_wakeup_known(&self) -> bool {
        match self.wait.wait {
            Wait::Poll => true,
            Wait::Block => self.transport.block_over_poll_ns.is_some(),
            Wait::Callback => false,
        }
    }
}

fn name(transport: &ExplainedTransport, wait: &ExplainedWait) -> String {
    let floor = if transport.is_floor { "floor: " } else { "" };
    let mark = if wait.polls_on_shared_cpu { MISSED } else { "" };
    format!("{floor}{} {}{mark}", transport.transport, wait.wait)
}

/// Name of a transport in tables of figures that were counted only in its first wait mode.
fn first(transport: &ExplainedTransport) -> String {
    let polls = transport.waits.first().is_some_and(|wait| wait.polls_on_shared_cpu);
    format!("{}{}", transport.transport, if polls { MISSED } else { "" })
}

fn rows(explanation: &Explanation) -> Vec<BarRow<'_>> {
    let mut rows = Vec::new();
    for transport in &explanation.transports {
        let with_parts = transport.waits.iter().filter_map(|wait| Some((wait, wait.parts.as_ref()?)));
        rows.extend(with_parts.map(|(wait, parts)| BarRow { transport, wait, parts }));
    }
    rows
}

fn us(ns: f64) -> String {
    significant(ns / 1000.0, 3, 3)
}

/// Stacked bars of letters, all of the same length: shares of the sum.
fn bars(rows: &[BarRow<'_>]) -> String {
    let mut lines = String::new();
    for row in rows {
        // Parts end at the rounded running sum, so that rounding errors do not add up.
        let (mut bar, mut sum) = (String::new(), 0.0);
        for (.., letter, value, _) in PARTS {
            sum += value(row.parts);
            let end = if row.parts.total_ns > 0.0 {
                (sum / row.parts.total_ns * BAR).round().clamp(0.0, BAR) as usize
            } else {
                0
            };
            bar.extend(std::iter::repeat_n(letter, end.saturating_sub(bar.len())));
        }
        let mut name = row.name();
        if name.chars().count() > NAME - 2 {
            lines += &format!("{name}\n");
            name.clear();
        }
        lines += &format!("{name:<22}  {bar:<48} {:>6}\n", us(row.parts.total_ns));
    }
    let legend: Vec<String> = PARTS.iter().map(|(_, name, letter, ..)| format!("{letter} {name}")).collect();
    format!("{lines}{:22}{}\n", "", legend.join("  "))
}

/// Sentence for each bar: the part that takes most of the time.
fn answers(rows: &[BarRow<'_>]) -> String {
    let sentence = |row: &BarRow<'_>| {
        let (_, name, _, value, _) =
            PARTS.into_iter().max_by(|one, other| one.3(row.parts).total_cmp(&other.3(row.parts)))?;
        let share = value(row.parts) / row.parts.total_ns * 100.0;
        Some(format!(
            "{}: '{name}' takes the largest share, {share:.0} % of {} µs.",
            row.name(),
            us(row.parts.total_ns)
        ))
    };
    let of_transports = rows.iter().filter(|row| !row.wait.polls_on_shared_cpu);
    of_transports.filter_map(sentence).collect::<Vec<_>>().join("\n")
}

fn chart(rows: &[BarRow<'_>], size: &str) -> Chart {
    let stack = |(_, name, _, value, _): PartKind| Stack {
        name: name.to_owned(),
        values: rows.iter().map(|row| value(row.parts) / 1000.0).collect(),
        ..Stack::default()
    };
    Chart {
        name: "explain".to_owned(),
        title: "Where does the time of a message go?".to_owned(),
        subtitle: format!("{size}, half of a round trip, mean of the middle fifth of the traced round trips"),
        reading: answers(rows).replace('\n', " "),
        x: X::Categories { label: String::new(), names: rows.iter().map(BarRow::name).collect() },
        y: Y { label: "time per message [µs]".to_owned(), from_zero: true, ..Y::default() },
        stacks: PARTS.into_iter().map(stack).collect(),
        ..Chart::default()
    }
}

fn times(id: &str, title: &str, help: &'static str) -> Column {
    Column { divisor: 1000.0, ..Column::numbers(id, title, "", Digits::Significant(3), help) }
}

/// Row of a table that has no address in the results.
fn line(name: &str, values: impl IntoIterator<Item = Option<f64>>) -> (Option<Row>, Vec<Cell>) {
    (None, [Cell::text(name)].into_iter().chain(values.into_iter().map(Cell::maybe)).collect())
}

fn parts_table(rows: &[BarRow<'_>]) -> Table {
    let mut columns = vec![Column::words("transport", "µs per message", "").at_most(NAME)];
    columns.extend(PARTS.into_iter().map(|(id, title, _, _, help)| times(id, title, help)));
    columns.push(times("total_ns", "sum", "mean of the middle fifth of the traced round trips"));
    let row = |row: &BarRow<'_>| {
        let is_known = |id: &str| id != "wakeup_ns" || row.is_wakeup_known();
        let values = PARTS.iter().map(|(id, .., value, _)| is_known(id).then(|| value(row.parts)));
        line(&row.name(), values.chain([Some(row.parts.total_ns)]))
    };
    Table::new(String::new(), columns, rows.iter().map(row).collect()).within(80)
}

fn calls_table(explanation: &Explanation) -> Table {
    let columns = vec![
        Column::words("transport", "µs per message", "").at_most(NAME),
        times("undisturbed_ns", "median", "median of half a round trip in a pass without time stamps"),
        times("difference_ns", "sum-median", "sum less that median: the cost of tracing, and noise"),
        times("send_call_ns", "send call", "median duration of the send call"),
        times(
            "sent_to_received_ns",
            "to arrival",
            "median from the return of the send call to that of the receive call; negative if the latter returned \
             first",
        ),
        times(
            "receive_call_ns",
            "receive call",
            "median of the receive call that returned the message, counted from the sending",
        ),
    ];
    let row = |transport: &ExplainedTransport, wait: &ExplainedWait| {
        let difference = wait.parts.zip(wait.undisturbed_ns).map(|(parts, median)| parts.total_ns - median);
        let values =
            [wait.undisturbed_ns, difference, wait.send_call_ns, wait.sent_to_received_ns, wait.receive_call_ns];
        line(&name(transport, wait), values)
    };
    let all = explanation.transports.iter().flat_map(|one| one.waits.iter().map(move |wait| row(one, wait)));
    Table::new(String::new(), columns, all.collect()).within(80)
}

fn cost_table(explanation: &Explanation) -> Table {
    let count = |id, title, help| Column::numbers(id, title, "", Digits::Significant(3), help);
    let columns = vec![
        Column::words("transport", "per message", "").at_most(NAME),
        times("touch_ns", "touching", "extra µs if every byte is written and verified"),
        times(
            "block_over_poll_ns",
            "block-poll",
            "extra µs when blocking instead of polling, by the medians without time stamps: the whole wake-up",
        ),
        times("cpu_ns", "CPU", "µs of CPU time of both sides"),
        times("kernel_ns", "kernel", "µs of that CPU time in the kernel"),
        count("switches", "switches", "context switches of both sides"),
        count("page_faults", "faults", "page faults of both sides"),
        count("copies", "copies", "how often system calls copied the payload into or out of the kernel"),
        Column { divisor: 1000.0, ..count("cycles", "kcycles", "thousand CPU cycles of both sides") }.if_any(),
        Column { divisor: 1000.0, ..count("instructions", "kinstr", "thousand CPU instructions of both sides") }
            .if_any(),
    ];
    let row = |one: &ExplainedTransport| {
        let cost = one.cost;
        let of = |value: fn(&MessageCost) -> f64| cost.as_ref().map(value);
        let values = [
            one.touch_ns,
            one.block_over_poll_ns,
            of(|cost| cost.cpu_ns),
            cost.and_then(|cost| cost.kernel_ns),
            of(|cost| cost.voluntary_switches + cost.involuntary_switches),
            of(|cost| cost.page_faults),
            one.system_calls.as_ref().map(|calls| copies(calls, explanation.payload_bytes)),
            cost.and_then(|cost| cost.cycles),
            cost.and_then(|cost| cost.instructions),
        ];
        line(&first(one), values)
    };
    let measured = explanation.transports.iter().filter(|one| !one.is_floor);
    Table::new(String::new(), columns, measured.map(row).collect()).within(80)
}

fn copies(calls: &[SystemCall], payload_bytes: u64) -> f64 {
    calls.iter().map(|call| call.bytes).fold(0.0, |sum, bytes| sum + bytes) / payload_bytes.max(1) as f64
}

fn system_calls_table(explanation: &Explanation) -> Table {
    let columns = vec![
        Column::words("transport", "system calls per message", "").at_most(NAME),
        Column::words("name", "call", ""),
        Column::numbers("calls", "calls", "", Digits::Fixed(2), "calls of both sides that succeeded"),
        Column::numbers("in_vain", "empty", "", Digits::Fixed(2), "calls that failed or found no message"),
        Column::numbers(
            "bytes",
            "bytes",
            "",
            Digits::Significant(3),
            "bytes that these calls copied into or out of the kernel",
        ),
    ];
    let mut rows = Vec::new();
    for one in &explanation.transports {
        let Some(calls) = &one.system_calls else { continue };
        let row = |name: &str, calls: f64, in_vain: f64, bytes: f64| {
            let numbers = [calls, in_vain, bytes].map(Cell::number);
            let cells = [Cell::NOTHING, Cell::text(name)].into_iter().chain(numbers);
            (None, cells.collect::<Vec<_>>())
        };
        let begin = rows.len();
        rows.extend(calls.iter().map(|call| row(&call.name, call.calls, call.in_vain, call.bytes)));
        if calls.len() != 1 {
            let sum = |of: fn(&SystemCall) -> f64| calls.iter().map(of).fold(0.0, |sum, one| sum + one);
            let name = if calls.is_empty() { "none" } else { "all" };
            rows.push(row(name, sum(|call| call.calls), sum(|call| call.in_vain), sum(|call| call.bytes)));
        }
        rows[begin].1[0] = Cell::text(first(one));
    }
    Table::new(String::new(), columns, rows).within(80)
}

fn notes(explanation: &Explanation, rows: &[BarRow<'_>]) -> Vec<Note> {
    let mut notes = Vec::new();
    if explanation.transports.iter().flat_map(|one| &one.waits).any(|wait| wait.polls_on_shared_cpu) {
        notes.push(Note::warning("shared CPU", POLLS_HELP));
    }
    for one in &explanation.transports {
        notes.extend(one.missing.iter().map(|why| Note::error("missing", format!("not measured: {why}"))));
        notes.extend(one.notes.iter().map(|what| Note::warning("to be known", what.clone())));
    }
    for row in rows {
        let Some(median) = row.wait.undisturbed_ns else { continue };
        let difference = row.parts.total_ns - median;
        let share = difference / median;
        if share.abs() > DISTURBED {
            let text = format!(
                "{}: the parts add up to {} µs, but the median without time stamps is {} µs ({} %); use the parts only \
                 as shares",
                row.name(),
                us(row.parts.total_ns),
                us(median),
                signed(share * 100.0, 0)
            );
            notes.push(Note::warning("disturbed", text));
        }
    }
    if let Some(why) = &explanation.no_system_calls {
        notes.push(Note::warning("system calls", format!("no system calls: {why}")));
    }
    if let Some(why) = &explanation.no_counters {
        notes.push(Note::warning("counters", format!("no cycles and instructions: {why}")));
    }
    if explanation.are_counters_without_kernel {
        let text = "cycles and instructions in the kernel are not counted; `sudo sysctl kernel.perf_event_paranoid=1` \
                    allows it";
        notes.push(Note::warning("counters", text));
    }
    let costs = || explanation.transports.iter().filter_map(|one| one.cost);
    if costs().any(|cost| cost.kernel_ns.is_none()) {
        notes.push(Note::warning("kernel time", format!("no kernel time: {NO_KERNEL_TIME}")));
    } else if explanation.schema_version == "1.0" && costs().next().is_some() {
        let text = "in this older file, kernel time may be sampled by timer ticks, which is inexact";
        notes.push(Note::warning("kernel time", text));
    }
    let clock = explanation.clock_read_ns;
    let text = format!(
        "reading the clock takes {} ns; the {STAMPS} time stamps add {} µs per message, and unsuccessful polls add \
         more",
        significant(clock, 2, 1),
        us(clock * STAMPS)
    );
    notes.push(Note::info("clock", text));
    if explanation.transports.iter().any(|one| one.touch_ns.is_some() || one.block_over_poll_ns.is_some()) {
        let text = "touching and block-poll each compare two passes, without intervals, so noise is part of them";
        notes.push(Note::info("differences", text));
    }
    let text = format!(
        "touching writes and reads each byte once: {} of memory traffic per message",
        display_size(explanation.payload_bytes.saturating_mul(2))
    );
    notes.push(Note::info("touching", text));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::Text;

    fn waiting(wait: Wait, scale: f64) -> ExplainedWait {
        let parts = Parts {
            prepare_ns: 100.0,
            send_ns: 500.0 * scale,
            way_ns: 0.0,
            receive_ns: 300.0,
            wakeup_ns: if wait == Wait::Block { 2000.0 } else { 0.0 },
            own_ns: 100.0,
            total_ns: 500.0 + 500.0 * scale + if wait == Wait::Block { 2000.0 } else { 0.0 },
        };
        ExplainedWait {
            wait,
            polls_on_shared_cpu: false,
            undisturbed_ns: Some(900.0),
            parts: Some(parts),
            send_call_ns: Some(510.0),
            sent_to_received_ns: Some(-20.0),
            receive_call_ns: None,
        }
    }

    fn explanation() -> Explanation {
        let call = |name: &str, calls, in_vain| SystemCall { name: name.to_owned(), calls, in_vain, bytes: 1024.0 };
        let uds = ExplainedTransport {
            transport: "uds/datagram?a=1234567890&b=1234567890".to_owned(),
            waits: vec![waiting(Wait::Poll, 1.0), waiting(Wait::Block, 1.0)],
            touch_ns: Some(50.0),
            system_calls: Some(vec![call("sendto", 1.0, 0.0), call("recvfrom", 1.0, 3.25)]),
            missing: vec!["uds counted: it has gone".to_owned()],
            ..ExplainedTransport::default()
        };
        let floor = ExplainedTransport {
            transport: "shm/ring".to_owned(),
            is_floor: true,
            waits: vec![waiting(Wait::Poll, 0.1)],
            ..ExplainedTransport::default()
        };
        Explanation {
            schema_version: "1.0".to_owned(),
            payload_bytes: 1024,
            clock_read_ns: 24.0,
            transports: vec![uds, floor],
            no_system_calls: None,
            no_counters: Some("there are none".to_owned()),
            are_counters_without_kernel: true,
        }
    }

    #[test]
    fn bars_stand_beside_the_floor_and_all_fits_a_screen() {
        let document = explain(&explanation());
        let text = Text { has_help: true, ..Text::default() }.render(&document);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for part in
            ["floor: shm/ring poll", "'wake-up' takes the largest share,", "not measured: uds counted", "-0.020"]
        {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        let bar = |letter: char| text.lines().filter(|line| line.contains(&letter.to_string().repeat(4))).count();
        assert!(bar('w') == 1 && bar('S') >= 2, "{text}");
        let chart = document.charts().next().unwrap();
        assert_eq!((chart.stacks.len(), chart.stacks[1].values.len()), (6, 3));
        assert!(text.contains("2.00"), "copies:\n{text}");
    }

    #[test]
    fn what_polled_on_a_shared_cpu_is_marked_in_every_table() {
        let mut shared = explanation();
        shared.transports[0] = ExplainedTransport {
            transport: "uds/datagram".to_owned(),
            cost: Some(MessageCost::default()),
            ..shared.transports[0].clone()
        };
        shared.transports[0].waits[0].polls_on_shared_cpu = true;
        let text = Text::default().render(&explain(&shared));
        let marked = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
        assert_eq!((marked("uds/datagram poll!"), marked("uds/datagram poll")), (3, 3), "{text}");
        assert_eq!((marked("uds/datagram! "), marked("uds/datagram: ")), (2, 0), "{text}");
    }

    #[test]
    fn without_any_pass_that_worked_the_reasons_are_left() {
        let nothing = ExplainedTransport { missing: vec!["uds: no".to_owned()], ..ExplainedTransport::default() };
        let document = explain(&Explanation { transports: vec![nothing], ..explanation() });
        assert!(document.charts().next().is_none());
        assert!(Text::default().render(&document).contains("not measured: uds: no"));
    }
}
