//! Errors of a transport: a class and one line of text.

use crate::raw;
use std::any::Any;
use std::fmt;

const MOST_CHARACTERS: usize = 200;

/// Class of an error, as in the C header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The peer is gone.
    Closed,
    /// A library, device or kernel facility is missing.
    Unavailable,
    /// The system's daemon or broker is not running.
    NoDaemon,
    /// A value exceeds a limit.
    Limit,
    /// A setting or an argument is invalid.
    Invalid,
    /// Anything else.
    Failed,
}

impl Status {
    /// Status of a negative return code of the C interface; unknown codes are [`Status::Failed`].
    pub fn from_code(code: i32) -> Self {
        match code {
            raw::TM_CLOSED => Status::Closed,
            raw::TM_UNAVAILABLE => Status::Unavailable,
            raw::TM_NO_DAEMON => Status::NoDaemon,
            raw::TM_LIMIT => Status::Limit,
            raw::TM_INVALID => Status::Invalid,
            _ => Status::Failed,
        }
    }

    /// Return code in the C interface, always negative.
    pub fn code(self) -> i32 {
        match self {
            Status::Closed => raw::TM_CLOSED,
            Status::Unavailable => raw::TM_UNAVAILABLE,
            Status::NoDaemon => raw::TM_NO_DAEMON,
            Status::Limit => raw::TM_LIMIT,
            Status::Invalid => raw::TM_INVALID,
            Status::Failed => raw::TM_FAILED,
        }
    }
}

/// Error in one line: what failed, value against limit, and what to do.
///
/// One pointer wide, so that a received message travels through `Result<Option<Message>>` in registers: with inline
/// fields, copying them cost a quarter of a shared-memory trip.
#[derive(Clone, Debug)]
pub struct Error(Box<Cause>);

/// Fields of an [`Error`].
#[derive(Clone, Debug)]
pub struct Cause {
    /// Class of the failure.
    pub status: Status,
    /// Error text in one line.
    pub message: String,
}

impl std::ops::Deref for Error {
    type Target = Cause;

    fn deref(&self) -> &Cause {
        &self.0
    }
}

/// Result of a transport's call.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Error of the given class.
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Self(Box::new(Cause { status, message: message.into() }))
    }

    /// Error of class [`Status::Failed`].
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Status::Failed, message)
    }

    /// Error of class [`Status::Closed`]: the peer is gone.
    pub fn closed(message: impl Into<String>) -> Self {
        Self::new(Status::Closed, message)
    }

    /// Failure of `what` with the calling thread's `errno`.
    #[cold]
    pub fn last_os(what: &str) -> Self {
        Self::os(what, std::io::Error::last_os_error())
    }

    /// Failure of `what` with an operating system error; broken connections are [`Status::Closed`].
    #[cold]
    pub fn os(what: &str, error: std::io::Error) -> Self {
        use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, NotConnected};
        let status = match error.kind() {
            BrokenPipe | ConnectionAborted | ConnectionRefused | ConnectionReset | NotConnected => Status::Closed,
            _ => Status::Failed,
        };
        Self::new(status, format!("{what} failed: {error}"))
    }
}

/// Text for a panic of `what`, with its message in one line, cut to 200 characters.
pub fn panicked(what: &str, panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let line = message.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|letter| !letter.is_control()).take(MOST_CHARACTERS).collect();
    if line.is_empty() { format!("{what} panicked") } else { format!("{what} panicked: \"{line}\"") }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    fn quote_panic(panics: fn()) -> String {
        panicked("it", &*catch_unwind(panics).unwrap_err())
    }

    #[test]
    fn a_panic_is_quoted_in_one_short_line() {
        assert_eq!(quote_panic(|| panic!("no thread")), "it panicked: \"no thread\"");
        assert_eq!(panicked("it", &"no thread\n  \x1b[1mhere".to_owned()), "it panicked: \"no thread [1mhere\"");
        assert_eq!(panicked("it", &"é".repeat(1000)), format!("it panicked: \"{}\"", "é".repeat(MOST_CHARACTERS)));
        assert_eq!(quote_panic(|| std::panic::panic_any(7)), "it panicked");
    }
}
