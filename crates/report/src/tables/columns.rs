//! Columns that several tables share.

use super::description::CellColumn;
use super::row::{TableLine, TableRow, TimedLine};
use crate::document::{Cell, Column, Digits, Missing};
use crate::merged::POLLS_HELP;
use crate::notes::{PROOF_HELP, proof};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::Process;
use tripmeter_model::payload::ALL_TOPICS;
use tripmeter_model::workload::Workload;

/// Statistics of latencies that are shown.
pub const LATENCIES: [Statistic; 6] =
    [Statistic::Mean, Statistic::P50, Statistic::P90, Statistic::P99, Statistic::P999, Statistic::Max];

/// Width beyond which names of transports are broken in tables of round trips.
pub const TRIP_CHARS: usize = 20;

const SEVERAL_HELP: &str = "with several followers, response and service end when the last has the message; service to \
                            i ends at follower i (the first 16)";
pub const WAIT_HELP: &str = "how both sides wait";
pub const TOUCH_HELP: &str = "none = only our 16-byte header, header = the first cache line, full = every byte";
pub const SAMPLES_HELP: &str = "samples; *: fewer than planned, or messages came damaged";
pub const OVER_HELP: &str = "median less the core-to-core latency of one cache line, by the probes before and after; \
                             ~: these differ, or a CPU was taken away";
const LOSS_HELP: &str = "messages lost, late or damaged, in per cent of the messages sent";
const DAMAGED_HELP: &str = "messages that arrived damaged; exit code 75, unless --allow-damage is given";
const KERNEL_HELP: &str = "part of CPU spent in the kernel; - where the kernel splits CPU time by timer ticks, ~ where \
                           it may in older results";
const MEMORY_HELP: &str =
    "peak resident memory, including our buffers of samples, MB = 1000000 bytes; of several processes that of one";

pub fn naming<L: TableLine>(rows: &[TableRow<'_>]) -> [CellColumn<L>; 3] {
    let is_fan_out = rows.iter().any(|row| row.sub.planned.workload.is_fan_out());
    let polls = rows.iter().any(|row| row.sub.polls_on_shared_cpu);
    let transport = Column::words("transport", "transport", if is_fan_out { SEVERAL_HELP } else { "" });
    [
        transport.shows(|line: &L| Cell::text(line.row().transport())).merged(),
        wait(if polls { POLLS_HELP } else { "" }).merged(),
        touch("").merged(),
    ]
}

pub fn wait<L: TableLine>(help: &'static str) -> CellColumn<L> {
    Column::words("wait", "wait", help).shows(|line: &L| Cell::text(line.row().sub.wait_text()))
}

/// Column with the part of a message that is touched.
pub fn touch<L: TableLine>(help: &'static str) -> CellColumn<L> {
    Column::words("touch", "touch", help).shows(|line: &L| Cell::text(line.row().sub.planned.touch.to_string()))
}

/// Column of payloads; `all topics` if messages have several sizes.
pub fn payload<L: TableLine>() -> CellColumn<L> {
    let head = Column::numbers("payload_bytes", "payload", "bytes", Digits::Size, "k = 1024 bytes");
    head.shows(|line: &L| match line.row() {
        row if row.metrics.has_several_sizes(row.row) => Cell::text(ALL_TOPICS),
        row => Cell::number(row.row.payload_bytes as f64),
    })
}

/// Column of a number of the workload.
pub fn number<L: TableLine>(title: &str, help: &'static str, number: fn(&Workload) -> u32) -> CellColumn<L> {
    let head = Column::numbers(title, title, "n", Digits::Integer, help).merged();
    head.shows(move |line: &L| Cell::number(number(&line.row().sub.planned.workload).into()))
}

/// Column like [`number`], shown only if some row has a value other than 1.
pub fn several<L: TableLine>(title: &str, help: &'static str, number: fn(&Workload) -> u32) -> CellColumn<L> {
    let head = Column::numbers(title, title, "n", Digits::Integer, help).if_any();
    head.shows(move |line: &L| match number(&line.row().sub.planned.workload) {
        1 => Cell::Missing(Missing::NotMeasured),
        number => Cell::number(number.into()),
    })
}

/// Column of a rate of all messages.
pub fn rate<L: TableLine>(figure: Figure, title: &str, unit: &'static str, help: &'static str) -> CellColumn<L> {
    let head = Column::numbers(figure.id(), title, unit, Digits::Rate, help);
    head.shows(move |line: &L| line.row().median(line.row().value(figure)))
}

/// Columns of round trips: wait, touch, payload and samples.
pub fn trips<L: TableLine>() -> [CellColumn<L>; 4] {
    let samples = Column::numbers("n", "n", "", Digits::Integer, SAMPLES_HELP).shows(|line: &L| {
        let row = line.row();
        Cell::number(row.samples(Figure::RttHalf)).marked(row.sub.payload(row.row.payload_bytes).star())
    });
    [wait(WAIT_HELP), touch(TOUCH_HELP), payload(), samples].map(CellColumn::merged)
}

/// Column of the excess of a latency over the core-to-core probe.
pub fn over_core_to_core(id: &str) -> Column {
    Column::numbers(id, "over\ncores", "µs", Digits::Fixed(3), OVER_HELP)
}

/// Columns of the offered and the achieved rate, with their help texts.
pub fn rates(offered: &'static str, achieved: &'static str) -> [Column; 2] {
    let column = |id, title, help| Column::numbers(id, title, "/s", Digits::Rate, help).merged();
    [column("offered_rate_hz", "offered", offered), column("achieved_rate_hz", "achieved", achieved)]
}

/// Columns of these statistics of a line's latency, in microseconds.
pub fn latencies<'a, P, const N: usize>(statistics: [Statistic; N]) -> [CellColumn<TimedLine<'a, P>>; N] {
    statistics.map(|statistic| {
        let title = match statistic {
            Statistic::Mean => "average",
            Statistic::P999 => "p99.9",
            other => other.id(),
        };
        let head = Column::numbers(&format!("{statistic}_ns"), title, "µs", Digits::Fixed(3), "");
        head.shows(move |line: &TimedLine<'_, P>| line.latency(statistic))
    })
}

/// Column of lost, late or damaged messages; blank in the line of service.
pub fn loss<'a, P>() -> CellColumn<TimedLine<'a, P>> {
    Column::numbers("loss", "loss", "%", Digits::Percent, LOSS_HELP).shows(|line: &TimedLine<'_, P>| match line.place {
        1 => Cell::NOTHING,
        _ => line.row.loss(&line.stream),
    })
}

/// Meaning of the CPU time of either process.
pub const COST_HELP: &str = "user and system time, in per cent of one core; the sum of several followers";

fn costs(cpu_help: &'static str) -> [(Column, Figure); 7] {
    let percent = |id, title, help| Column { divisor: 0.01, ..Column::numbers(id, title, "%", Digits::Fixed(1), help) };
    let per_message_help = "CPU time of the same processes per message or call";
    let switches_help = "context switches of the same processes";
    let preempted_help = "times that the same processes lost their CPU";
    let faults_help = "page faults of the same processes";
    let memory = Column::numbers("peak_memory_bytes", "memory", "MB", Digits::Fixed(1), MEMORY_HELP);
    [
        (percent("cpu_share", "CPU", cpu_help), Figure::CpuShare),
        (percent("kernel_share", "kernel", KERNEL_HELP), Figure::KernelShare),
        (
            Column::numbers("cpu_per_message_ns", "CPU/msg", "µs", Digits::Significant(3), per_message_help),
            Figure::CpuPerMessage,
        ),
        (Column::numbers("switches_hz", "switches", "/s", Digits::Rate, switches_help), Figure::SwitchesRate),
        (
            Column::numbers("involuntary_switches", "preempted", "n", Digits::Integer, preempted_help).if_any(),
            Figure::InvoluntarySwitches,
        ),
        (
            Column::numbers("faults_per_message", "faults", "/msg", Digits::Fixed(3), faults_help),
            Figure::FaultsPerMessage,
        ),
        (Column { divisor: 1e6, ..memory }, Figure::PeakMemory),
    ]
}

/// Column of a resource used by the processes of a row's lines, in their order; blank in further lines.
fn cost_column<L: TableLine>((head, figure): (Column, Figure), of_lines: &'static [Process]) -> CellColumn<L> {
    head.shows(move |line: &L| {
        of_lines.get(line.place()).map_or(Cell::NOTHING, |process| line.row().cost(*process, figure))
    })
}

/// Columns of resources used by the leader, as `cpu_help` says.
pub fn costs_of_leader<L: TableLine>(cpu_help: &'static str) -> [CellColumn<L>; 7] {
    costs(cpu_help).map(|cost| cost_column(cost, &[Process::Leader]))
}

/// Columns of resources used by the leader in the first line, by the followers in the second.
pub fn cost<L: TableLine>(cpu_help: &'static str) -> [CellColumn<L>; 7] {
    costs(cpu_help).map(|cost| cost_column(cost, &[Process::Leader, Process::Follower]))
}

/// As [`cost`], without CPU share and memory.
pub fn message_costs<L: TableLine>() -> impl Iterator<Item = CellColumn<L>> {
    let is_shown = |(_, figure): &(Column, Figure)| !matches!(figure, Figure::CpuShare | Figure::PeakMemory);
    costs("").into_iter().filter(is_shown).map(|cost| cost_column(cost, &[Process::Leader, Process::Follower]))
}

/// Columns of resources used by both processes, in the first line of a row; without columns that are empty.
pub fn costs_of_both<L: TableLine>(cpu_help: &'static str) -> impl Iterator<Item = CellColumn<L>> {
    let sides: [(&[Process], &str); 2] = [(&[Process::Leader], "leader"), (&[Process::Follower], "follower")];
    sides.into_iter().flat_map(move |(process, name)| {
        costs(cpu_help).map(|(head, figure)| {
            let head = Column { id: format!("{name}_{}", head.id), ..head }.grouped(name).if_any();
            cost_column((head, figure), process)
        })
    })
}

/// Column of damaged messages, shown if there are any.
pub fn damaged() -> Column {
    Column::numbers(Figure::Damaged.id(), "damaged", "n", Digits::Integer, DAMAGED_HELP).if_any()
}

/// Column of path proofs.
pub fn path_proof<L: TableLine>() -> CellColumn<L> {
    Column::words("path_proof", "path\nproof", PROOF_HELP).shows(|line: &L| Cell::text(proof(line.row().sub)))
}
