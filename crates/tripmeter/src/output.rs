//! Output: data to standard output, everything else to standard error. A closed pipe is not an error.

use crate::args::OutputArgs;
use crate::error::CliError;
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tripmeter_model::exit;
use tripmeter_model::file::write_named;
use tripmeter_model::printable::{line, lines};
use tripmeter_report::document::Document;
use tripmeter_report::render::Text;

/// Writes data to standard output; control characters except line breaks are escaped.
pub fn print(text: &str) -> Result<(), CliError> {
    write(lines(text).as_bytes())
}

/// Prints the path of the results folder if nothing else shows it: escaped on a terminal, unchanged for programs.
pub fn print_folder(asked: &OutputArgs, path: &Path) -> Result<(), CliError> {
    if !asked.quiet || asked.folder.is_some() || asked.json {
        return Ok(());
    }
    if std::io::stdout().is_terminal() {
        return write(format!("{}\n", line(&path.display().to_string())).as_bytes());
    }
    write(&[path.as_os_str().as_bytes(), b"\n"].concat())
}

/// Writes a document as text, with intervals and the meaning of its columns.
pub fn print_document(document: &Document) -> Result<(), CliError> {
    print(&text(document))
}

/// Document as text, like [`print_document`].
pub fn text(document: &Document) -> String {
    Text { has_intervals: true, has_help: true, ..Text::default() }.render(document)
}

/// Writes text that has the program's own colours and is otherwise printable.
pub fn print_coloured(text: &str) -> Result<(), CliError> {
    write(text.as_bytes())
}

/// True if standard output is a terminal that may show colours.
///
/// # Source
/// <https://no-color.org>
pub fn may_colour() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stdout().is_terminal() && !is_dumb && !is_unwanted
}

/// Writes a file that the user named; `-` is standard output.
pub fn write_file(file: &Path, contents: &[u8]) -> Result<(), CliError> {
    if is_stdout(file) { write(contents) } else { Ok(write_named(file, contents)?) }
}

pub fn is_stdout(file: &Path) -> bool {
    file == Path::new("-")
}

fn write(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(CliError::new(exit::CANNOT_CREATE, format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard error; control characters are escaped.
pub fn say(text: &str) {
    let text = line(text);
    match &mut *held() {
        Some(lines) => lines.push(text.into_owned()),
        None => write_line(&text),
    }
}

/// Lines for standard error that are held back while a full-screen view is shown.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

fn held() -> MutexGuard<'static, Option<Vec<String>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write_line(text: &str) {
    // There is nowhere left to report a failure.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Holds back lines for standard error until [`release`].
pub fn hold() {
    held().get_or_insert_default();
}

/// Writes the lines held back; later ones are written at once.
pub fn release() {
    let lines = held().take();
    lines.iter().flatten().for_each(|line| write_line(line));
}

/// Last lines held back, oldest first.
pub fn last_held(most: usize) -> Vec<String> {
    let held = held();
    let lines = held.as_deref().unwrap_or_default();
    lines[lines.len().saturating_sub(most)..].to_vec()
}
