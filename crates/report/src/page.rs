//! Report of results: question and answer, then a part for each question that the figures allow.
//!
//! Only measured figures are drawn. A chart's title is its question. Its reading is one sentence computed from the
//! data, never more certain than the intervals: if they show no difference, so does the sentence.
//!
//! | Part | Shows |
//! |---|---|
//! | `answer` | the fastest transport, its lead, and how far the results can be trusted |
//! | `verdicts` | several results against the first, both sides of a pair, or limits |
//! | `size`, `tail`, `rounds`, `time`, `load` | a headline figure over payloads, percentiles, rounds, samples and offered rates |
//! | `copy` | the time to copy the payload in memory, in `size` |
//! | `pairs` | the verdicts of an `ab` |
//! | `sides` | the ratio of quantiles of two sides |
//! | `cost`, `loss` | CPU time per message, and lost messages |
//! | `background` | the audit, differences between results, plan and versions |
//! | `measured`, `curves`, `values` | results; selection and looks of lines; values, and how two of them compare |

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

/// Report of results.
pub fn page(results: &[NamedResults<'_>]) -> Document {
    page_of(&PageInput { results, ..PageInput::default() })
}

/// Report of results, and of what else a command has read, e.g. limits.
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

/// First screen and table of all figures, without notes: those that matter are next to the answer.
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
