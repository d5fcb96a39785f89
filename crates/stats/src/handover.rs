//! What the hand-over probes before and after a cell say of it.

use tripmeter_model::manifest::{Handover, Handovers, ModeChange, PayloadResult};

/// Two probes are of one mode if neither their smallest nor their median round trips are further apart than this ratio.
///
/// Within a mode they were up to 2.0 apart (the median of siblings that spin), between modes 2.7 and more.
pub const ONE_MODE: f64 = 2.5;

/// A median round trip of this many nanoseconds or more is none of a cache line: a processor was away.
pub const AWAY_NS: f64 = 5_000.0;

/// How the probes differ, or what is wrong with both; `None` if they are alike, or if there are not two.
pub fn change(handovers: &Handovers) -> Option<ModeChange> {
    let (before, after) = (handovers.before?, handovers.after?);
    let is_away = |probe: Handover| probe.median_ns >= AWAY_NS;
    if is_away(before) || is_away(after) {
        return Some(ModeChange::TakenAway);
    }
    if differ(before.min_ns, after.min_ns) {
        return Some(ModeChange::Moved);
    }
    differ(before.median_ns, after.median_ns).then_some(ModeChange::Disturbed)
}

fn differ(a: f64, b: f64) -> bool {
    a.max(b) > ONE_MODE * a.min(b)
}

/// The change that a cell has noted, or that its probes show.
pub fn change_of(cell: &PayloadResult) -> Option<ModeChange> {
    cell.handover_changed.or_else(|| change(&cell.handover_ns))
}

/// One cache line one way, in nanoseconds: half of the median round trip, by the mean of both probes, or by the only one.
pub fn one_way_ns(handovers: &Handovers) -> Option<f64> {
    let medians: Vec<f64> =
        [handovers.before, handovers.after].into_iter().flatten().map(|probe| probe.median_ns).collect();
    (!medians.is_empty()).then(|| medians.iter().sum::<f64>() / medians.len() as f64 / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probes(before: (f64, f64), after: (f64, f64)) -> Handovers {
        let probe = |(min_ns, median_ns)| Some(Handover { samples: 2000, min_ns, median_ns });
        Handovers { before: probe(before), after: probe(after) }
    }

    /// Probes as this project's results have them.
    #[test]
    fn modes_are_told_apart() {
        assert_eq!(change(&probes((60.0, 120.0), (40.0, 60.0))), None);
        assert_eq!(change(&probes((200.0, 210.0), (220.0, 420.0))), None);
        assert_eq!(change(&probes((60.0, 70.0), (210.0, 220.0))), Some(ModeChange::Moved));
        assert_eq!(change(&probes((190.0, 200.0), (60.0, 120.0))), Some(ModeChange::Moved));
        assert_eq!(change(&probes((60.0, 70.0), (60.0, 400.0))), Some(ModeChange::Disturbed));
        assert_eq!(change(&probes((60.0, 14_000.0), (60.0, 20_000.0))), Some(ModeChange::TakenAway));
        assert_eq!(change(&Handovers { after: None, ..probes((1.0, 1.0), (9.0, 9.0)) }), None);
    }
}
