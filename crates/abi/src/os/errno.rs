use crate::Error;
use std::ffi::c_int;
use std::io;

/// Calling thread's `errno`.
#[inline]
pub fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Error of a system call from its `errno`.
#[cold]
pub fn os_error(what: &str, errno: c_int) -> Error {
    Error::os(what, io::Error::from_raw_os_error(errno))
}
