//! Programs of the system that tell facts.

use std::process::Command;

/// What a program says.
pub(super) fn ran(program: &str, arguments: &[&str]) -> Result<String, String> {
    // Where Debian has them, which not every user has in the path.
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let output = Command::new(program).args(arguments).env("PATH", path).env("LC_ALL", "C").output();
    let output = output.map_err(|_| format!("`{program}` is not installed"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().last().unwrap_or("it says nothing").trim().to_owned();
    Err(format!("`{program}`: {}", tripmeter_model::printable::line(&last)))
}
