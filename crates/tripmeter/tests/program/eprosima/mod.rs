//! `tripmeter eprosima` on the running program.

mod checks;
mod jobs;
mod plots;
mod process;
