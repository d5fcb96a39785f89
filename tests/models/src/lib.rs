//! The sources of transport `shm` over types that try every order in which threads may see what others do (loom).
//!
//! `ring` and `event_count` are the files of the program. `atomics` and `futex` stand for those that they use.
#![allow(dead_code)]

mod atomics;
#[path = "../../../crates/abi/src/os/event_count.rs"]
mod event_count;
mod futex;
#[path = "../../../transports/shm/src/ring.rs"]
mod ring;

#[cfg(test)]
mod tests;
