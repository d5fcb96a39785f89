//! Pages for the outputs of eProsima's scripts: checks, comparisons and requirements.

mod checks;
mod comparison;
mod requirements;

pub use checks::checks;
pub use comparison::{ExperimentComparison, SubExperimentComparison, comparison, side_by_side};
pub use requirements::requirements;
