//! The tables of everything, each described in a file of its own.

pub mod background;
pub mod call;
mod columns;
pub mod description;
mod fan_out;
mod log;
mod notes;
mod ping;
pub mod publish;
mod replay;
pub mod row;
mod throughput;
pub mod topics;

use description::PatternTable;

/// Every table, in the order of the page.
pub const TABLES: [PatternTable; 9] = [
    ping::TABLE,
    fan_out::TABLE,
    throughput::TABLE,
    publish::TABLE,
    call::AT_A_RATE,
    call::TABLE,
    log::TABLE,
    background::TABLE,
    replay::TABLE,
];
