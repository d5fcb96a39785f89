//! Sub-experiments that others are compared with.

use crate::FLOOR;
use crate::measured::MeasuredSide;
use crate::merged::Merged;
use tripmeter_analysis::Row;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::group::alike;
use tripmeter_model::metric::Stream;
use tripmeter_model::plan::SubExperiment;

/// Floors, grouped by the lines that they apply to, because each of thousands of lines looks one up.
pub struct Floors {
    groups: Vec<Vec<u32>>,
    is_alike: fn(&SubExperiment, &SubExperiment) -> bool,
}

impl Floors {
    /// Collects the floors among `subs`; `is_alike` decides which lines they apply to.
    pub fn from_subs(subs: &[Merged<'_>], is_alike: fn(&SubExperiment, &SubExperiment) -> bool) -> Self {
        let planned = |index: &u32| subs[*index as usize].planned;
        let floors = (0..).zip(subs).filter(|(_, sub)| is_floor(sub)).map(|(index, _)| index);
        let mut groups = alike(floors, |first, index| is_alike(planned(first), planned(index)));
        // Prefer default settings, then the order of the plan.
        for group in &mut groups {
            group.sort_by_key(|index| planned(index).transport.given.len());
        }
        Self { groups, is_alike }
    }

    /// Floor for a line of `own`, among those that it `can` be compared with.
    pub fn find(&self, subs: &[Merged<'_>], own: &SubExperiment, can: impl Fn(u32) -> bool) -> Option<u32> {
        let group = self.groups.iter().find(|group| (self.is_alike)(subs[group[0] as usize].planned, own))?;
        group.iter().copied().find(|index| can(*index))
    }
}

/// True if it may serve as a floor: `shm` with figures, whose path proof did not fail.
fn is_floor(sub: &Merged<'_>) -> bool {
    sub.planned.transport.system == FLOOR
        && !sub.planned.workload.is_fan_out()
        && !sub.same_process()
        && sub.disqualified().is_none()
        && sub.results.iter().any(|result| !result.cells.is_empty())
}

/// Latency that represents all messages of a row.
pub fn headline(side: &MeasuredSide<'_>, row: Row) -> Option<Figure> {
    let has = |figure: &&Figure| side.metrics.get(row, &Stream::all(), **figure, Statistic::P50).is_some();
    Figure::HEADLINES.iter().find(has).copied()
}

/// Row of the same measurement without the background load.
pub fn at_rest(side: &MeasuredSide<'_>, row: Row) -> Option<Row> {
    let sub = &side.subs[row.sub as usize];
    let own = Some(sub.planned).filter(|own| !own.background.is_none() && sub.disqualified().is_none())?;
    let is_like = |other: &SubExperiment| {
        let is_same = other.transport == own.transport && other.workload == own.workload;
        let is_alike = is_same && other.one_way == own.one_way && other.has_conditions_of(own);
        is_alike && other.background.is_none() && !other.is_disturbed()
    };
    let rests = (0..).zip(&side.subs).filter(|(_, sub)| is_like(sub.planned) && sub.disqualified().is_none());
    rests.map(|(sub, _)| Row { sub, ..row }).find(|rest| headline(side, *rest).is_some())
}
