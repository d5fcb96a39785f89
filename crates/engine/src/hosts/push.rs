//! Copies this program and the plugins of a plan to another host, if they are not there.

use super::bounded::{ProgramOutput, run};
use super::ssh::command;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tripmeter_model::printable::line;

/// Digits of its hash that name the folder of what was pushed.
const NAME_DIGITS: usize = 16;
/// Most letters of what a host says its CPUs are.
const MOST_LETTERS: usize = 80;
/// How long a copy may stand still: what ssh has taken, some MiB, may go over a slow line.
const STALLED: Duration = Duration::from_secs(300);

/// Where it is put, below the user's cache there, for `sh`.
fn folder(name: &str) -> String {
    format!("\"${{XDG_CACHE_HOME:-$HOME/.cache}}/tripmeter/{name}\"")
}

/// What is pushed, and the name of its folder.
#[derive(Debug)]
pub struct Pushed {
    /// Of its folder there.
    pub name: String,
    program: PathBuf,
    plugins: Vec<PathBuf>,
}

impl Pushed {
    /// Of this program and these plugins.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn of(program: &Path, mut plugins: Vec<PathBuf>) -> io::Result<Self> {
        plugins.sort();
        plugins.dedup();
        let mut hash = Sha256::new();
        for file in [program].into_iter().chain(plugins.iter().map(PathBuf::as_path)) {
            hash.update(file.file_name().map_or(&[] as &[u8], |name| name.as_encoded_bytes()));
            hash.update(std::fs::read(file)?);
        }
        let digits = hash.finalize().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        Ok(Self { name: digits[..NAME_DIGITS].to_owned(), program: program.to_path_buf(), plugins })
    }

    /// Copies what is missing there. The program comes last: where it is, all is. Returns whether anything was copied.
    ///
    /// # Errors
    /// Why not, in one line.
    pub fn push(&self, to: &str) -> Result<bool, String> {
        let folder = folder(&self.name);
        let size = |file: &Path| {
            let length = file.metadata().map(|found| found.len());
            length.map_err(|error| format!("'{}': {error}", file.display()))
        };
        // What broke off is shorter.
        let is_whole = |name: &str, size: u64| format!("[ \"$(wc -c <{folder}/{name})\" -eq {size} ]");
        let is_there = is_whole("tripmeter", size(&self.program)?);
        let script = format!("uname -m; if [ -x {folder}/tripmeter ] && {is_there}; then echo there; fi");
        let said = there(to, &script, None)?.text;
        // The shell may have said something before.
        let machine = said.lines().rev().find(|said| *said != "there").unwrap_or_default().trim();
        let machine: String = machine.chars().take(MOST_LETTERS).collect();
        if machine != std::env::consts::ARCH {
            return Err(format!(
                "its CPUs are '{}', this program is for '{}': build tripmeter and its plugins there (cargo build --release), \
                 and leave --push out",
                line(&machine),
                std::env::consts::ARCH
            ));
        }
        if said.lines().any(|said| said == "there") {
            return Ok(false);
        }
        for file in self.plugins.iter().chain([&self.program]) {
            let name = if *file == self.program { "tripmeter".into() } else { plugin_name(file) };
            let (new, size) = (format!("{name}.$$"), size(file)?);
            // Where ssh ends, `cat` ends well.
            let script = format!(
                "set -e; umask 077; mkdir -p {folder}; cat >{folder}/{new}; \
                 {} || {{ rm -f {folder}/{new}; echo 'the copy broke off; run it again' >&2; exit 1; }}; \
                 chmod 700 {folder}/{new}; mv {folder}/{new} {folder}/{name}",
                is_whole(&new, size)
            );
            let opened = File::open(file).map_err(|error| format!("'{}': {error}", file.display()))?;
            there(to, &script, Some(opened))?;
        }
        Ok(true)
    }
}

/// A plugin's file is named as its system is, which is of plain letters; anything else is not copied under its name.
fn plugin_name(file: &Path) -> String {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.chars().filter(|letter| letter.is_ascii_alphanumeric() || "._-".contains(*letter)).collect()
}

/// Runs a script of `sh` there.
fn there(to: &str, script: &str, input: Option<File>) -> Result<ProgramOutput, String> {
    let quoted = script.replace('\'', "'\\''");
    let ran = run(command(to).arg(format!("exec sh -c '{quoted}'")), input, STALLED);
    let output = ran.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "no `ssh` here: install openssh-client".to_owned(),
        _ => format!("ssh: {error}"),
    })?;
    match output.error {
        _ if output.status.success() => Ok(output),
        Some(why) => Err(why),
        None => Err(format!("ssh ended with {}", output.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_files_have_the_same_name_in_any_order_and_others_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let [program, a, b] = [file("tripmeter", "1"), file("tripmeter_a.so", "2"), file("tripmeter_b.so", "3")];
        let name =
            |plugins: &[&PathBuf]| Pushed::of(&program, plugins.iter().copied().cloned().collect()).unwrap().name;
        assert_eq!(name(&[&a, &b]), name(&[&b, &a, &a]));
        assert!(name(&[&a]) != name(&[&b]) && name(&[]).len() == NAME_DIGITS);
        assert_eq!(plugin_name(Path::new("/x/tripmeter_$(x) y.so")), "tripmeter_xy.so");
    }
}
