//! The kinds of comparisons that a campaign makes.

/// Rounds of a comparison with itself.
pub const ROUNDS: u32 = 10;
/// Comparisons of each kind in the quick form, if there is time.
const QUICK_COMPARISONS: u32 = 5;

/// Comparisons of one kind.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Its name in files.
    pub id: &'static str,
    /// What is compared.
    pub transport: &'static str,
    /// Share of the median that the follower of B is delayed by; none compares a transport with itself.
    pub injected: Option<f64>,
    /// Changes up to it are none.
    pub margin: f64,
    /// Comparisons.
    pub number: u32,
    /// Share of them that must be called, where there is something to call.
    pub required: f64,
    /// Seeds of its comparisons begin so far behind the campaign's.
    pub seeds: u64,
}

impl Phase {
    /// All of them, with the numbers of the form chosen.
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

    /// The change that is to be seen.
    pub fn effect(&self) -> f64 {
        self.injected.unwrap_or(0.10)
    }

    /// For people.
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
