//! Tables with all figures: the sub-experiments that each one shows, and notes on its rows.

pub mod background;
mod call;
mod columns;
pub mod costs;
mod description;
mod fan_out;
mod log;
mod notes;
mod ping;
mod publish;
pub mod replay;
pub mod row;
mod throughput;
pub mod topics;

use crate::document::{Note, Table};
use crate::measured::MeasuredSide;
use notes::{of_calls, of_logger, of_publications, of_streams, of_trips};
use row::TableRow;
use std::collections::BTreeSet;
use tripmeter_analysis::Row;
use tripmeter_model::Pattern;
use tripmeter_model::figure::Figure;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::pattern::latency_of_calls;
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::workload::Workload;

/// Table of a pattern, as shown by `all`.
pub struct PatternTable {
    pub pattern: Pattern,
    /// End of the caption.
    pub what: &'static str,
    /// True for those workloads of the pattern that it shows; recordings have their own table.
    has: fn(&Workload) -> bool,
    /// Figure by which rows are ranked.
    pub figure: fn(OfferedLoad) -> Figure,
    /// Makes the table with a title and these rows.
    pub table: fn(String, &MeasuredSide<'_>, &[TableRow<'_>]) -> Table,
}

const PING: PatternTable =
    table(Pattern::Ping, "", |one| one.is_round_trips() && !one.is_fan_out(), |_| Figure::RttHalf, ping::table);
const FAN_OUT: PatternTable =
    table(Pattern::Ping, ", several followers", Workload::is_fan_out, |_| Figure::RttHalf, fan_out::table);
const THROUGHPUT: PatternTable = table(Pattern::Throughput, "", |_| true, |_| Figure::ReceivedRate, throughput::table);
const PUBLISH: PatternTable = table(Pattern::Publish, "", |_| true, |_| Figure::Response, publish::table);
const AT_A_RATE: PatternTable =
    table(Pattern::Ping, ", at a rate or of several clients", Workload::is_call, latency_of_calls, call::table);
const CALL: PatternTable = table(Pattern::Call, "", |_| true, latency_of_calls, call::table);
const LOG: PatternTable = table(Pattern::Log, "", |_| true, |_| Figure::Call, log::table);

/// Tables that follow the tables of patterns; `None` without a line.
pub const FURTHER_TABLES: [fn(&MeasuredSide<'_>) -> Option<Table>; 2] = [background::table, replay::table];

/// Every table of a pattern, in the order of the page.
pub const TABLES: [PatternTable; 7] = [PING, FAN_OUT, THROUGHPUT, PUBLISH, AT_A_RATE, CALL, LOG];

const fn table(
    pattern: Pattern,
    what: &'static str,
    has: fn(&Workload) -> bool,
    figure: fn(OfferedLoad) -> Figure,
    table: fn(String, &MeasuredSide<'_>, &[TableRow<'_>]) -> Table,
) -> PatternTable {
    PatternTable { pattern, what, has, figure, table }
}

impl PatternTable {
    /// Caption, e.g. `pattern ping, several followers`.
    pub fn caption(&self) -> String {
        format!("pattern {}{}", self.pattern.as_str(), self.what)
    }

    /// True if the table shows a sub-experiment.
    pub fn is_of(&self, sub: &SubExperiment) -> bool {
        sub.pattern == self.pattern && !sub.workload.is_recorded() && (self.has)(&sub.workload)
    }

    pub fn rows<'a>(&self, side: &'a MeasuredSide<'a>) -> Vec<TableRow<'a>> {
        TableRow::rows(side, |sub| self.is_of(sub))
    }
}

/// Notes on payloads of round trips, which the first screen words differently.
pub fn payload_notes(side: &MeasuredSide<'_>) -> Vec<Note> {
    of_trips(&[PING.rows(side), FAN_OUT.rows(side)].concat())
}

/// Notes on trials.
pub fn notes(side: &MeasuredSide<'_>) -> Vec<Note> {
    let calls = TableRow::rows(side, |sub| AT_A_RATE.is_of(sub) || CALL.is_of(sub));
    [
        of_streams(&throughput::lines(&THROUGHPUT.rows(side))),
        TableRow::notes(&PUBLISH.rows(side), of_publications),
        TableRow::notes(&calls, of_calls),
        LOG.rows(side).iter().flat_map(of_logger).collect(),
        replay::notes(side),
    ]
    .concat()
}

/// Rows of throughput that the first screen marks with `*`.
pub fn stars(side: &MeasuredSide<'_>) -> BTreeSet<Row> {
    let lines = throughput::lines(&THROUGHPUT.rows(side));
    lines.iter().filter(|line| !line.star().is_empty()).map(|line| line.row.row).collect()
}
