//! The report of results: what was asked and the answer, then a part for each question that the figures allow.
//!
//! Nothing is drawn for what was not measured. A chart's title is its question, and its reading is one sentence computed from
//! the data, never more certain than the intervals: where they hold "no difference", the sentence says so.
//!
//! | Part | Shows |
//! |---|---|
//! | `answer` | what is fastest, by how much, and whether it can be believed |
//! | `verdicts` | several results against the first, both sides of a pair, or limits |
//! | `size`, `tail`, `rounds`, `time`, `load` | a headline figure over payloads, percentiles, rounds, samples and offered rates |
//! | `copy` | the limit that copying memory sets, in `size` |
//! | `pairs` | the verdicts of an `ab` |
//! | `sides` | the ratio of quantiles of two sides |
//! | `cost`, `loss` | CPU time per message, and what did not come |
//! | `background` | the audit, what differs between results, plan and versions |
//! | `measured`, `curves`, `values` | results; which lines there are and how they look; values, and how two of them compare |

mod answer;
mod background;
mod copy;
mod cost;
mod input;
mod load;
mod loss;
mod rounds;
mod sides;
mod size;
mod tail;
#[cfg(test)]
mod tests;
mod time;
mod verdicts;

pub use self::input::{PageChecks, PageInput, SampledTrial};
use crate::curves::{Panel, panels};
use crate::document::{Block, Document, Heading};
use crate::measured::MeasuredSide;
use crate::plots::Chart;
use crate::results::NamedResults;
use crate::{all, screen};

/// The report of results.
pub fn page(results: &[NamedResults<'_>]) -> Document {
    page_of(&PageInput { results, ..PageInput::default() })
}

/// The report of results, with what a command has read beside them.
pub fn page_of(input: &PageInput<'_>) -> Document {
    let asked = |place: usize| input.check.and_then(|check| check.pairs.get(place)?.as_ref());
    let sides = input.results.iter().enumerate().map(|(place, one)| MeasuredSide::judged(one, asked(place)));
    let sides: Vec<MeasuredSide<'_>> = sides.collect();
    let (panels, maps) = (panels(&sides), verdicts::maps(&sides, input));
    let mut page = Document::default();
    page.part("answer", "Answer", answer::blocks(&sides, &panels, &maps));
    page.part("verdicts", "Verdicts", verdicts::blocks(&maps, &sides));
    page.part("results", "Results", results(input.results));
    let charts = |of: &dyn Fn(&Panel<'_>) -> Vec<Chart>| -> Vec<Block> {
        panels.iter().flat_map(of).map(Block::Chart).collect()
    };
    page.part("size", "Size", charts(&size::charts));
    page.part("tail", "Tail", charts(&tail::charts));
    page.part("rounds", "Rounds", charts(&rounds::charts));
    page.part("time", "Time", charts(&|panel| time::charts(panel, input.samples)));
    page.part("load", "Load", charts(&load::charts));
    page.part("sides", "Two sides", charts(&sides::charts));
    page.part("cost", "Cost", charts(&cost::charts));
    page.part("loss", "Loss", loss::charts(&sides).into_iter().map(Block::Chart).collect());
    page.part("background", "What disturbed it?", background::blocks(input.results));
    page
}

impl Document {
    /// Adds a part, if there is anything in it.
    fn part(&mut self, id: &'static str, text: &str, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            self.blocks.push(Block::Heading(Heading { id, text: text.to_owned() }));
            self.blocks.extend(blocks);
        }
    }
}

/// The first screen and the table of everything, without notes: those that matter are beside the answer.
fn results(results: &[NamedResults<'_>]) -> Vec<Block> {
    let of_one = |one: &NamedResults<'_>| {
        let tables = [screen(one.manifest, false), all(one.manifest)].into_iter().flat_map(|document| document.blocks);
        let mut blocks: Vec<Block> = tables.filter(|block| matches!(block, Block::Table(_))).collect();
        for block in &mut blocks {
            if let (Block::Table(table), true) = (block, results.len() > 1) {
                table.title = format!("{}: {}", one.name, table.title);
            }
        }
        blocks
    };
    results.iter().flat_map(of_one).collect()
}
