//! The page of an HTML report.

use crate::document::{Block, Document, Heading};
use crate::plots::aimrt::{self, NamedResults};

/// The page of these results.
pub fn page(results: &[NamedResults<'_>]) -> Document {
    let heading = |id, text: &str| Block::Heading(Heading { id, text: text.to_owned() });
    let mut blocks = Vec::new();
    blocks.push(heading("results", "Results"));
    for one in results {
        blocks.extend(crate::screen(one.manifest, true).blocks);
    }
    blocks.push(heading("charts", "Charts"));
    blocks.extend(aimrt::charts(results).blocks);
    blocks.push(heading("all", "All figures"));
    for one in results {
        blocks.extend(crate::all(one.manifest).blocks);
    }
    blocks.push(heading("audit", "Machine"));
    Document { blocks }
}
