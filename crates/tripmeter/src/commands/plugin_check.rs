//! `tripmeter plugin-check FILE`: runs the conformance suite for a third-party plugin.

use crate::args::{PluginArgs, PluginCheckArgs};
use crate::error::CliError;
use crate::{experiment, output};
use serde::Serialize;
use tripmeter_conformance::{Known, Suite, SuiteError};
use tripmeter_engine::scratch::fresh_run_id;
use tripmeter_model::exit;

type SuitePart = fn(&Suite, &Known) -> Result<Vec<String>, SuiteError>;

const PARTS: [(&str, SuitePart); 4] = [
    ("everything that it declares", Suite::contract),
    ("two experiments at once", Suite::two_at_once),
    ("refusals of what it does not declare", Suite::refusals),
    ("workers that are killed", Suite::killed),
];

/// Schema version of the `--json` output.
const PLUGIN_CHECK_VERSION: &str = "1.0";

#[derive(Serialize)]
struct CheckedPlugin<'a> {
    plugin_check_version: &'static str,
    system: &'a str,
    version: &'a str,
    /// Variants left out, with the reason.
    skipped: &'a [String],
    parts: Vec<CheckedPart>,
    /// Reason why the next part could not be run.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
struct CheckedPart {
    name: &'static str,
    is_good: bool,
    faults: Vec<String>,
}

/// Prints each part with its faults below it; with `--json` all at the end, also if a part cannot be run. Fails if the
/// file is not a plugin, or nothing in it can run here.
pub fn plugin_check(args: &PluginCheckArgs) -> Result<u8, CliError> {
    // Opening a FIFO would block.
    if args.file.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        let text = format!("plugin '{}' is not a regular file", args.file.display());
        return Err(CliError::new(exit::DATA, text));
    }
    let program = experiment::program()?;
    let registry = experiment::registry(&PluginArgs { plugin: vec![args.file.clone()] }, &program)?;
    let file = args.file.canonicalize().ok();
    let entry = registry.entries().iter().find(|entry| entry.plugin_file() == file.as_deref());
    let entry = entry.ok_or_else(|| {
        let text = format!("plugin '{}' was replaced while it was read", args.file.display());
        CliError::new(exit::NO_INPUT, text)
    })?;
    let version = entry.describe().map(|description| description.version.clone()).unwrap_or_default();
    let suite = Suite {
        program,
        plugin: file,
        environment: Vec::new(),
        prefix: fresh_run_id(),
        is_thorough: args.thorough,
        say: if args.quiet { |_| () } else { output::say },
    };
    let known = suite.known(entry.system())?;
    let missing = known.missing();
    if !known.available {
        return Err(CliError::new(exit::UNAVAILABLE, format!("nothing can be checked: {}", missing.join("; "))));
    }
    let print = |text: &str| if args.json { Ok(()) } else { output::print(text) };
    print(&format!("{} {version}\n", entry.system()))?;
    missing.iter().try_for_each(|reason| print(&format!("SKIPPED: {reason}\n")))?;
    let (suite, known) = (&suite, &known);
    let (parts, ended) = run_parts(PARTS.map(|(name, part)| (name, move || part(suite, known))), print);
    let is_good = parts.iter().all(|part| part.is_good);
    if args.json {
        let checked = CheckedPlugin {
            plugin_check_version: PLUGIN_CHECK_VERSION,
            system: entry.system(),
            version: &version,
            skipped: &missing,
            parts,
            error: ended.as_ref().err().map(CliError::to_string),
        };
        output::print(&(serde_json::to_string_pretty(&checked).expect("it is plain data") + "\n"))?;
    }
    ended.map(|()| if is_good { exit::GOOD } else { exit::FINDING })
}

/// Runs and prints parts until one cannot be run; returns the parts before it, and its error.
fn run_parts(
    all: impl IntoIterator<Item = (&'static str, impl FnOnce() -> Result<Vec<String>, SuiteError>)>,
    print: impl Fn(&str) -> Result<(), CliError>,
) -> (Vec<CheckedPart>, Result<(), CliError>) {
    let mut parts = Vec::new();
    let ended = all.into_iter().try_for_each(|(name, part)| {
        let faults = part()?;
        let is_good = faults.is_empty();
        print(&format!("{name}: {}\n", if is_good { "ok" } else { "FAILED" }))?;
        faults.iter().try_for_each(|fault| print(&format!("  {}\n", fault.trim().replace('\n', "\n    "))))?;
        parts.push(CheckedPart { name, is_good, faults });
        Ok(())
    });
    (parts, ended)
}

impl From<SuiteError> for CliError {
    fn from(error: SuiteError) -> Self {
        let code = match error {
            SuiteError::Folder { .. } => exit::CANNOT_CREATE,
            SuiteError::Start { .. } => exit::SOFTWARE,
            SuiteError::List(_) => exit::UNAVAILABLE,
        };
        Self::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_before_a_part_that_cannot_be_run_is_kept() {
        let found = [Ok(vec![]), Ok(vec!["x".to_owned()]), Err(SuiteError::List("gone".to_owned())), Ok(vec![])];
        let all = ["a", "b", "c", "d"].into_iter().zip(found.map(|found| || found));
        let (parts, ended) = run_parts(all, |_| Ok(()));
        let parts: Vec<_> = parts.iter().map(|part| (part.name, part.is_good, part.faults.len())).collect();
        assert_eq!(parts, [("a", true, 0), ("b", false, 1)]);
        let error = ended.unwrap_err();
        assert_eq!(error.code, exit::UNAVAILABLE);
        assert!(error.to_string().contains("gone"), "{error}");
    }
}
