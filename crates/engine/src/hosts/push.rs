//! Copies this program and the plugins of a plan to another host, if they are missing there.

use super::bounded::{ProgramOutput, run};
use super::ssh::command;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tripmeter_model::printable::line;

/// Number of hash digits in the name of a file's content, or of the folder of a set of files.
const NAME_DIGITS: usize = 16;
/// Folder with the contents of files, shared by all sets.
const FILES: &str = "files";
/// Longest shown name of a host's CPU architecture.
const MOST_LETTERS: usize = 80;
/// Longest stall of a copy: ssh buffers some MiB, which may take long on a slow line.
const STALLED: Duration = Duration::from_secs(300);

/// Folder in the user's cache on the host, quoted for `sh`.
fn folder(name: &str) -> String {
    format!("\"${{XDG_CACHE_HOME:-$HOME/.cache}}/tripmeter/{name}\"")
}

#[derive(Debug)]
pub struct Pushed {
    /// Name of the folder on the host for this set of files.
    pub name: String,
    files: Vec<PushedFile>,
}

#[derive(Debug)]
struct PushedFile {
    path: PathBuf,
    name: String,
    hash: String,
    bytes: u64,
}

impl PushedFile {
    fn read(path: PathBuf, name: String) -> io::Result<Self> {
        let content = std::fs::read(&path)?;
        let hash = digits(Sha256::new().chain_update(&content));
        Ok(Self { path, name, hash, bytes: content.len() as u64 })
    }

    /// Path of the file's content, for `sh`.
    fn content(&self) -> String {
        format!("{}/{}", folder(FILES), self.hash)
    }

    /// Script for `sh` that copies standard input. A copy that is interrupted, or runs out of space, leaves nothing.
    fn copying(&self) -> String {
        let (all, content) = (folder(FILES), self.content());
        // When ssh ends early, `cat` still exits with success.
        format!(
            "set -e; umask 077; mkdir -p {all}; new={content}.$$; trap 'rm -f \"$new\"' EXIT; trap 'exit 1' HUP INT TERM; \
             cat >\"$new\"; {} || {{ echo 'the copy broke off; run it again' >&2; exit 1; }}; \
             chmod 700 \"$new\"; mv \"$new\" {content}",
            is_whole("\"$new\"", self.bytes)
        )
    }
}

/// Condition of `sh` that is true if a file has all of its bytes.
fn is_whole(file: &str, bytes: u64) -> String {
    format!("[ -e {file} ] && [ \"$(wc -c <{file})\" -eq {bytes} ]")
}

fn digits(hash: Sha256) -> String {
    let all = hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    all[..NAME_DIGITS].to_owned()
}

impl Pushed {
    /// Collects this program and these plugins; the program comes last.
    pub fn collect(program: &Path, mut plugins: Vec<PathBuf>) -> io::Result<Self> {
        plugins.sort();
        plugins.dedup();
        let mut files = Vec::new();
        for plugin in plugins {
            let name = plugin_name(&plugin);
            files.push(PushedFile::read(plugin, name)?);
        }
        files.push(PushedFile::read(program.to_path_buf(), "tripmeter".to_owned())?);
        let hash =
            files.iter().fold(Sha256::new(), |hash, file| hash.chain_update(&file.name).chain_update(&file.hash));
        Ok(Self { name: digits(hash), files })
    }

    /// Copies each file whose content is missing on the host, then links all files into the folder of this set. The
    /// program is linked last, so if it is there, all files are. Returns true if anything was copied.
    pub fn push(&self, to: &str) -> Result<bool, String> {
        let mut script = "uname -m".to_owned();
        for file in &self.files {
            let _ = write!(script, "; if {}; then echo {}; fi", is_whole(&file.content(), file.bytes), file.hash);
        }
        let said = there(to, &script, None)?.text;
        let is_there = |line: &str| self.files.iter().any(|file| file.hash == line);
        // The shell may have printed something before.
        let machine = said.lines().rev().find(|said| !is_there(said)).unwrap_or_default().trim();
        let machine: String = machine.chars().take(MOST_LETTERS).collect();
        if machine != std::env::consts::ARCH {
            return Err(format!(
                "its CPUs are '{}', but this program is for '{}'; build tripmeter and its plugins there (cargo build \
                 --release), and leave --push out",
                line(&machine),
                std::env::consts::ARCH
            ));
        }
        let missing: Vec<&PushedFile> =
            self.files.iter().filter(|file| !said.lines().any(|line| line == file.hash)).collect();
        for file in &missing {
            let opened = File::open(&file.path).map_err(|error| format!("'{}': {error}", file.path.display()))?;
            there(to, &file.copying(), Some(opened))?;
        }
        let set = folder(&self.name);
        let mut script = format!("set -e; umask 077; mkdir -p {set}");
        for file in &self.files {
            let (content, name) = (file.content(), &file.name);
            // Not every file system has hard links.
            let _ = write!(
                script,
                "; [ {set}/{name} -ef {content} ] || ln -f {content} {set}/{name} 2>/dev/null \
                || cp {content} {set}/{name}"
            );
        }
        there(to, &script, None)?;
        Ok(!missing.is_empty())
    }
}

/// File name of a plugin; characters other than ASCII letters, digits and `._-` are dropped.
fn plugin_name(file: &Path) -> String {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.chars().filter(|letter| letter.is_ascii_alphanumeric() || "._-".contains(*letter)).collect()
}

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
            |plugins: &[&PathBuf]| Pushed::collect(&program, plugins.iter().copied().cloned().collect()).unwrap().name;
        assert_eq!(name(&[&a, &b]), name(&[&b, &a, &a]));
        assert!(name(&[&a]) != name(&[&b]) && name(&[]).len() == NAME_DIGITS);
        assert_eq!(plugin_name(Path::new("/x/tripmeter_$(x) y.so")), "tripmeter_xy.so");
    }
}
