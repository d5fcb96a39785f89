use std::fmt;
use tripmeter_engine::registry::RegistryError;
use tripmeter_engine::resolve::{PlanError, Problem};
use tripmeter_model::file::{FileError, FolderGone};

/// Maximum size of a message: a few quoted texts, each cut to
/// [`MOST_SAID_BYTES`](tripmeter_model::bounds::MOST_SAID_BYTES), and the program's own words.
const MOST_MESSAGE_BYTES: usize = 32 << 10;

/// Error that ends a command: one line of text, and the exit code of its class.
#[derive(Debug)]
pub struct CliError {
    pub code: u8,
    message: String,
}

impl CliError {
    /// Error with a message. Text from a folder or host can make it far too long, so it is truncated.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MOST_MESSAGE_BYTES {
            let is_end = |end: &usize| message.is_char_boundary(*end);
            let end = (0..=MOST_MESSAGE_BYTES).rev().find(is_end).unwrap_or(0);
            message = format!("{} … and {} bytes more", &message[..end], message.len() - end);
        }
        Self { code, message }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<PlanError> for CliError {
    fn from(error: PlanError) -> Self {
        Self::new(error.exit_code(), error.to_string())
    }
}

impl From<Problem> for CliError {
    fn from(problem: Problem) -> Self {
        Self::new(problem.exit_code(), problem.to_string())
    }
}

impl From<FileError> for CliError {
    fn from(error: FileError) -> Self {
        Self::new(error.exit_code(), error.to_string())
    }
}

impl From<FolderGone> for CliError {
    fn from(error: FolderGone) -> Self {
        FileError::from(error).into()
    }
}

impl From<RegistryError> for CliError {
    fn from(error: RegistryError) -> Self {
        Self::new(error.exit_code(), error.to_string())
    }
}

impl From<tripmeter_engine::RunError> for CliError {
    fn from(error: tripmeter_engine::RunError) -> Self {
        Self::new(error.exit_code(), error.to_string())
    }
}

/// Usage error in one line.
pub fn in_one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let told = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let told = told.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    // Other tips are kept; the one about `--` does not help here.
    let told = told.filter(|line| !line.starts_with("tip: to pass"));
    let line = told.collect::<Vec<_>>().join("; ").replace(":;", ":");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_not_longer_than_people_can_use() {
        assert_eq!(CliError::new(65, "short").to_string(), "short");
        let long = CliError::new(65, "ä".repeat(5 << 20)).to_string();
        assert!(long.len() < MOST_MESSAGE_BYTES + 64 && long.ends_with(" bytes more"), "{}", long.len());
    }
}
