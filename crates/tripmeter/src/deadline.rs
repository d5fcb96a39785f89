//! End of a run that ends by time.

use std::time::{Duration, Instant};
use tripmeter_model::plan::Plan;

/// End of a plan that is begun now, if it ends by time.
pub fn end_by_time(plan: &Plan) -> Option<Instant> {
    plan.for_ns.and_then(|whole| Instant::now().checked_add(Duration::from_nanos(whole)))
}

/// The time until the end, if there is one and it has not come: the last round may end after it.
pub fn until(end: Option<Instant>) -> Option<Duration> {
    end?.checked_duration_since(Instant::now())
}
