//! Exit codes, one table for all commands.
//!
//! 1 to 63 are findings (e.g. the number of failing sub-experiments); 64 and up follow sysexits.

/// All is well.
pub const GOOD: u8 = 0;
/// A finding where they are not counted.
pub const FINDING: u8 = 1;
/// The command line is wrong: an unknown flag, transport, preset, payload or CPU.
pub const USAGE: u8 = 64;
/// A file's contents are wrong.
pub const DATA: u8 = 65;
/// A file to read is not there.
pub const NO_INPUT: u8 = 66;
/// A service or library is missing.
pub const UNAVAILABLE: u8 = 69;
/// Our fault.
pub const SOFTWARE: u8 = 70;
/// A folder or file cannot be created.
pub const CANNOT_CREATE: u8 = 73;
/// Some sub-experiments failed; the rest is there.
pub const PARTIAL: u8 = 75;
/// Interrupted; what was measured is kept.
pub const INTERRUPTED: u8 = 130;
