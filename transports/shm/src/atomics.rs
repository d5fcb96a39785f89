//! What the hand-over is made of. `tests/models` has types of the same names, by which every order of what the ends do is
//! tried.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use tripmeter_abi::os::{EventCount, Waited};
