//! Exit codes, one table for all commands.
//!
//! 1 to 63 are findings (e.g. the number of failing sub-experiments); 64 and up follow sysexits.

/// Success.
pub const GOOD: u8 = 0;
/// A finding, in commands that do not count findings.
pub const FINDING: u8 = 1;
/// Wrong command line: an unknown flag, transport, preset, payload or CPU.
pub const USAGE: u8 = 64;
/// Wrong contents of a file.
pub const DATA: u8 = 65;
/// An input file is missing.
pub const NO_INPUT: u8 = 66;
/// A library, program or service is missing or unusable.
pub const UNAVAILABLE: u8 = 69;
/// An internal error.
pub const SOFTWARE: u8 = 70;
/// A folder or file cannot be created, written, renamed or removed.
pub const CANNOT_CREATE: u8 = 73;
/// Some sub-experiments failed; the others have results.
pub const PARTIAL: u8 = 75;
/// Interrupted; results so far are kept.
pub const INTERRUPTED: u8 = 130;
