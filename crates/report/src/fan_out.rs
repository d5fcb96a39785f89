//! The table of messages to several followers: latency to each of them, to the last, and until the last answer.

use crate::interval;
use crate::merged::{Merged, MergedCell, largest};
use crate::notes::proof;
use crate::number::micros;
use crate::trips::lost_column;
use comfy_table::{CellAlignment, LineStyle, Table, presets};
use tripmeter_model::Pattern;
use tripmeter_model::manifest::{AtFollower, Bounds, Cell, Figures, WithinRun};
use tripmeter_model::payload::display_size;
use tripmeter_model::plan::SubExperiment;
use tripmeter_stats::handover::one_way_ns;
use tripmeter_stats::losses::Losses;

const HEADER: [&str; 12] = [
    "transport",
    "wait",
    "touch",
    "payload\n[bytes]",
    "n",
    "latency",
    "median\n[µs]",
    "p99\n[µs]",
    "max\n[µs]",
    "over\nhandover\n[µs]",
    "lost\n[n]",
    "path\nproof",
];

/// What the columns mean.
pub const LEGEND: &str = "\
one_way to i: from sending a message to its arrival at follower i, two readings of one clock; to last: to the last of
them, message by message. rtt of last: from sending a message until the last follower's answer is there.
lost: messages that follower i never answered, below it the interval of their share in per cent at 95 %: from the least to the
most of a round; of one round, or without a loss, by Clopper and Pearson as if messages were lost one by one. In the line of
rtt those of all followers, without an interval.
";

/// The lines of one sub-experiment and payload.
pub struct Rows<'a> {
    sub: &'a Merged<'a>,
    pub cell: MergedCell<'a>,
}

/// True if a sub-experiment is of this table.
pub fn is_of(sub: &SubExperiment) -> bool {
    sub.pattern == Pattern::PingPong && sub.is_fan_out()
}

/// All that there is, by payload.
pub fn rows<'a>(subs: &'a [Merged<'a>]) -> Vec<Rows<'a>> {
    let several = subs.iter().filter(|sub| is_of(sub.planned));
    let mut rows: Vec<_> =
        several.flat_map(|sub| sub.payloads().into_iter().map(move |cell| Rows { sub, cell })).collect();
    rows.sort_by_key(|rows| rows.cell.payload_bytes);
    rows
}

/// The table itself.
pub fn table(rows: &[Rows<'_>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING.header_separator(LineStyle::none().fill('-').junction('-')));
    table.set_header(HEADER);
    for (index, rows) in rows.iter().enumerate() {
        if index > 0 {
            table.add_row([""; HEADER.len()]);
        }
        table.add_rows(rows.lines());
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index + 1 == HEADER.len() { 0 } else { 1 }));
        if [3, 4, 6, 7, 8, 9, 10].contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

impl<'a> Rows<'a> {
    pub fn sub(&self) -> &'a Merged<'a> {
        self.sub
    }

    fn lines(&self) -> Vec<[String; HEADER.len()]> {
        let mut lines: Vec<_> = (0..self.sub.planned.followers as usize)
            .map(|follower| {
                let at = move |cell: &Cell| cell.followers.get(follower).copied();
                let lost = |at: AtFollower| (at.counts.lost, at.counts.sent);
                let lost: Vec<Losses> = self.cell.cells.iter().filter_map(|cell| at(cell)).map(lost).collect();
                self.line(
                    &format!("one_way to {follower}"),
                    |cell| at(cell)?.one_way_ns,
                    |cell| at(cell)?.one_way_within_run_ns,
                    1.0,
                    &lost_column(&lost, self.has_within() || self.sub.rounds > 1),
                )
            })
            .collect();
        lines.push(self.line(
            "one_way to last",
            |cell| cell.one_way_last_ns,
            |cell| cell.one_way_last_within_run_ns,
            1.0,
            "",
        ));
        lines.push(self.line(
            "rtt of last",
            |cell| cell.rtt_ns,
            |cell| Some(cell.rtt_half_within_run_ns?.scaled(2.0)),
            2.0,
            &self.cell.counts().lost.to_string(),
        ));
        let planned = self.sub.planned;
        let first = [
            planned.transport.to_string() + if self.sub.same_process() { " (same process)" } else { "" },
            planned.wait.to_string(),
            planned.touch.to_string(),
            display_size(self.cell.payload_bytes),
            format!("{}{}", self.cell.star(), self.cell.samples()),
        ];
        lines[0][..first.len()].clone_from_slice(&first);
        lines[0][HEADER.len() - 1] = proof(self.sub).to_owned();
        lines
    }

    /// Whether figures have intervals within the only round.
    pub fn has_within(&self) -> bool {
        self.sub.rounds == 1 && self.cell.cells.iter().any(|cell| cell.rtt_half_within_run_ns.is_some())
    }

    /// Whether there is a probe.
    pub fn has_handover(&self) -> bool {
        self.cell.cells.iter().any(|cell| one_way_ns(&cell.handover_ns).is_some())
    }

    /// The median less the hand-over one way, or less the whole of it of a round trip.
    fn over(&self, of: &dyn Fn(&Cell) -> Option<Figures>, within: Option<Bounds>, ways: f64) -> String {
        let each = self.cell.cells.iter().filter_map(|cell| Some((of(cell)?, one_way_ns(&cell.handover_ns)?)));
        let each: Vec<f64> = each.map(|(figures, handover)| figures.median - ways * handover).collect();
        let handover = self.cell.cells.first().and_then(|cell| one_way_ns(&cell.handover_ns)).unwrap_or(0.0);
        let within = within.map(|within| within.map(|ns| ns - ways * handover));
        let mark = if each.is_empty() { "" } else { self.cell.mark() };
        format!("{mark}{}", interval::figure(&each, self.sub.rounds, within, micros))
    }

    fn line(
        &self,
        what: &str,
        of: impl Fn(&Cell) -> Option<Figures>,
        within: impl Fn(&Cell) -> Option<WithinRun>,
        ways: f64,
        lost: &str,
    ) -> [String; HEADER.len()] {
        let figures: Vec<Figures> = self.cell.cells.iter().filter_map(|cell| of(cell)).collect();
        let each = |figure: fn(&Figures) -> f64| figures.iter().map(figure).collect::<Vec<_>>();
        let shown = |ns: Option<f64>| ns.map_or("-".to_owned(), micros);
        let mut line = [""; HEADER.len()].map(str::to_owned);
        line[5] = what.to_owned();
        let rounds = self.sub.rounds;
        let within = self.cell.cells.first().and_then(|cell| within(cell));
        let (of_median, of_p99) = (within.map(|within| within.median), within.map(|within| within.p99));
        line[6] = interval::figure(&each(|figures| figures.median), rounds, of_median, micros);
        line[7] = interval::figure(&each(|figures| figures.p99), rounds, of_p99, micros);
        line[8] = shown(largest(&each(|figures| figures.max)));
        line[9] = self.over(&of, of_median, ways);
        line[10] = lost.to_owned();
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, add, result};
    use tripmeter_model::manifest::Counts;

    #[test]
    fn each_follower_has_a_line_and_so_have_the_last_and_the_round_trip() {
        let mut manifest = fixture::manifest();
        let sub = add(&mut manifest, "shm", "shm/ring", &[1024]);
        (sub.followers, sub.follower_cpus) = (2, vec![1, 1]);
        let cell = &mut result(&mut manifest, "shm", 1, &[(1024, 500.0)]).cells[0];
        let one_way = |factor: f64| cell.rtt_ns.map(|figures| figures.scaled(factor));
        let lost = |lost| Counts { sent: 11_000, received: 11_000 - lost, lost, ..Counts::default() };
        cell.followers = vec![
            AtFollower { follower: 0, counts: lost(0), one_way_ns: one_way(0.4), one_way_within_run_ns: None },
            AtFollower { follower: 1, counts: lost(2), one_way_ns: None, one_way_within_run_ns: None },
        ];
        (cell.one_way_last_ns, cell.counts.lost) = (one_way(0.6), 2);
        let expected = "\
All transports, pattern pingpong, several followers

transport  wait  touch  payload      n  latency          median    p99     max      over          lost  path
                        [bytes]                            [µs]   [µs]    [µs]  handover           [n]  proof
                                                                                    [µs]
-------------------------------------------------------------------------------------------------------------
shm/ring   poll  none        1k  10000  one_way to 0      0.400  0.800   4.000         -             0  ok
                                        one_way to 1          -      -       -         -             2
                                                                                          0.002..0.066
                                        one_way to last   0.600  1.200   6.000         -
                                        rtt of last       1.000  2.000  10.000         -             2

shm: its 2 followers share processor 1: they take turns, and their latencies show it

";
        assert_eq!(fixture::all(&manifest), expected.to_owned() + LEGEND + crate::all::PROOF_LEGEND);
    }
}
