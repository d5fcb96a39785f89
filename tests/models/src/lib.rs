//! Sources of transport `shm`, compiled with loom's types, which try every order in which threads may see memory
//! operations.
//!
//! `ring` and `event_count` are the program's files. `atomics` and `futex` replace the modules that they use.
#![allow(dead_code)]

mod atomics;
#[path = "../../../crates/abi/src/os/event_count.rs"]
mod event_count;
mod futex;
#[path = "../../../transports/shm/src/ring.rs"]
mod ring;

#[cfg(test)]
mod tests;
