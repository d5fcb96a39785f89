//! Kinds of comparisons in a campaign.

/// Rounds of each comparison of a transport with itself.
pub const ROUNDS: u32 = 10;
/// Comparisons of each kind in the quick form, time permitting.
const QUICK_COMPARISONS: u32 = 5;

#[derive(Clone, Debug)]
pub struct Phase {
    /// Name in files.
    pub id: &'static str,
    pub transport: &'static str,
    /// Injected delay of follower B as a share of the median; `None` compares a transport with itself.
    pub injected: Option<f64>,
    /// Largest change that counts as none.
    pub margin: f64,
    pub number: u32,
    /// Share of comparisons that must detect the delay.
    pub required: f64,
    /// Offset of its seeds from that of the campaign.
    pub seeds: u64,
}

impl Phase {
    pub fn all(full: bool, number: Option<u32>) -> [Phase; 4] {
        let number = |of_campaign| number.unwrap_or(if full { of_campaign } else { QUICK_COMPARISONS });
        let same = |id, transport, seeds| Phase {
            id,
            transport,
            injected: None,
            margin: 0.0,
            number: number(100),
            required: 0.0,
            seeds,
        };
        let more = |id, share, margin, of_campaign, required, seeds| {
            let number = number(of_campaign);
            Phase { id, transport: "uds", injected: Some(share), margin, number, required, seeds }
        };
        [
            same("aa-uds", "uds", 0),
            same("aa-shm", "shm", 10_000),
            more("uds-plus-10", 0.10, 0.02, 100, 0.95, 20_000),
            more("uds-plus-5", 0.05, 0.01, 50, 0.80, 30_000),
        ]
    }

    pub fn effect(&self) -> f64 {
        self.injected.unwrap_or(0.10)
    }

    pub fn what(&self) -> String {
        let margin = tripmeter_report::percent(self.margin);
        match self.injected {
            None => format!("`{}` with itself, margin {margin}, {ROUNDS} rounds", self.transport),
            Some(share) => {
                let share = tripmeter_report::percent(share);
                format!("`{}` with answers delayed by {share} of the median, margin {margin}", self.transport)
            }
        }
    }
}
