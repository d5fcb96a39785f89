//! Boundary between Tripmeter's measuring loop and a transport.
//!
//! A transport is written once: in C or C++ against `include/tripmeter_transport.h`, or in Rust against the traits
//! [`System`], [`Node`] and [`Link`]. A Rust transport is linked into the host, where the measuring loop is compiled
//! for its types. Or [`export_transport!`] exports it as a shared library, which is loaded like one in C.
//!
//! | Side | Uses |
//! |---|---|
//! | a Rust transport | [`System`], [`Node`], [`Link`], [`Error`], [`export_transport!`] |
//! | the host | the same traits, and `Plugin`, which implements them for a loaded library |

#![deny(missing_docs)]

pub mod blocks;
mod callback;
mod describe;
mod error;
mod export;
#[cfg(feature = "host")]
mod loader;
mod options;
pub mod os;
pub mod packets;
#[cfg(feature = "host")]
pub mod payload;
pub mod raw;
mod sdk;
#[cfg(feature = "testing")]
pub mod testing;

pub use callback::Callback;
pub use describe::{
    Description, Names, Path, Pattern, Setting, UnauthorizedPeer, Variant, Wait, kernel_version, locked_version,
};
pub use error::{Cause, Error, Result, Status, panicked};
pub use export::{Export, table};
#[cfg(feature = "host")]
pub use loader::{LoadError, Plugin, PluginLink, PluginNode};
pub use options::{AGREED_FOLDER, LinkOptions, NodeOptions, Role};
pub use raw::{tm_loan as Loan, tm_message as Message};
pub use sdk::{DaemonCommand, EitherLink, Limits, Link, Node, System};
