//! End of a run that repeats rounds for a given time (`--for`).

use std::time::{Duration, Instant};
use tripmeter_model::plan::Plan;

/// End of a plan that starts now; `None` without `--for`.
pub fn end_by_time(plan: &Plan) -> Option<Instant> {
    plan.for_ns.and_then(|whole| Instant::now().checked_add(Duration::from_nanos(whole)))
}

/// Time until the end; `None` if there is no end or it has passed, because the last round may end later.
pub fn until(end: Option<Instant>) -> Option<Duration> {
    end?.checked_duration_since(Instant::now())
}
