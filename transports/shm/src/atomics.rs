//! Atomics of the rings. `tests/models` has types with these names, which try every order of operations of both ends.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use tripmeter_abi::os::{EventCount, Waited};
