//! The tables of everything, each described in a file of its own.

pub mod columns;
pub mod description;
mod logger;
pub mod row;

use crate::{channel, fan_out, interference, recording, rpc, throughput, trips};
use description::{MadeTable, PatternTable};
use tripmeter_model::Pattern;
use tripmeter_model::figure::Figure;

/// Every table, in the order of the page.
pub const TABLES: [PatternTable; 9] = [
    PatternTable {
        is_of: trips::is_of,
        what: "",
        figure: Some(|_| Figure::RttHalf),
        make: |title, side| MadeTable {
            payload_notes: trips::notes(&side.subs, &side.metrics),
            ..MadeTable::new(trips::table(title, &side.subs, &side.metrics), Vec::new())
        },
    },
    PatternTable {
        is_of: fan_out::is_of,
        what: ", several followers",
        figure: Some(|_| Figure::RttHalf),
        make: |title, side| MadeTable::new(fan_out::table(title, &side.subs, &side.metrics), Vec::new()),
    },
    PatternTable {
        is_of: |sub| sub.pattern == Pattern::Throughput,
        what: "",
        figure: Some(|_| Figure::ReceivedRate),
        make: |title, side| MadeTable {
            stars: throughput::stars(side),
            ..MadeTable::new(throughput::table(title, side), throughput::notes(side))
        },
    },
    PatternTable {
        is_of: |sub| sub.pattern == Pattern::Channel,
        what: "",
        figure: Some(|_| Figure::Response),
        make: |title, side| MadeTable::new(channel::table(title, side), channel::notes(side)),
    },
    PatternTable {
        is_of: |sub| sub.pattern == Pattern::PingPong && sub.workload.is_call(),
        what: ", at a rate",
        figure: Some(rpc::of_calls),
        make: |title, side| MadeTable::new(rpc::table(title, Pattern::PingPong, side), Vec::new()),
    },
    PatternTable {
        is_of: |sub| sub.pattern == Pattern::Rpc,
        what: "",
        figure: Some(rpc::of_calls),
        make: |title, side| MadeTable::new(rpc::table(title, Pattern::Rpc, side), rpc::notes(side)),
    },
    logger::TABLE,
    PatternTable {
        is_of: |_| false,
        what: "",
        figure: None,
        make: |_, side| MadeTable::new(interference::table(&side.subs, &side.metrics), Vec::new()),
    },
    PatternTable { is_of: |_| false, what: "", figure: None, make: |_, side| recording::make(side) },
];
