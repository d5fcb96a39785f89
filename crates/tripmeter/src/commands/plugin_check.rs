//! `tripmeter plugin-check FILE`: the conformance suite for a plugin of whoever wrote it.

use crate::args::{PluginArgs, PluginCheckArgs};
use crate::error::CliError;
use crate::{experiment, output};
use serde::Serialize;
use tripmeter_conformance::{Known, Suite, SuiteError};
use tripmeter_engine::scratch::fresh_run_id;
use tripmeter_model::exit;

/// A part of the suite.
type SuitePart = fn(&Suite, &Known) -> Result<Vec<String>, SuiteError>;

/// What is tried, in this order.
const PARTS: [(&str, SuitePart); 4] = [
    ("everything that it declares", Suite::contract),
    ("two experiments at once", Suite::two_at_once),
    ("refusals of what it does not declare", Suite::refusals),
    ("workers that are killed", Suite::killed),
];

/// What was found, as `--json` prints it.
#[derive(Serialize)]
struct CheckedPlugin<'a> {
    system: &'a str,
    version: &'a str,
    /// Why a variant was left out.
    skipped: &'a [String],
    parts: Vec<CheckedPart>,
}

/// A part of the suite, and what is wrong.
#[derive(Serialize)]
struct CheckedPart {
    name: &'static str,
    is_good: bool,
    faults: Vec<String>,
}

/// Prints a line for each part, and below it what is wrong; or all at the end as JSON.
///
/// # Errors
/// If the file is no plugin, or nothing of it can run here.
pub fn plugin_check(args: &PluginCheckArgs) -> Result<u8, CliError> {
    // A FIFO would be waited for.
    if args.file.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        let text = format!("plugin '{}' is no regular file", args.file.display());
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
    let mut parts = Vec::new();
    for (name, part) in PARTS {
        let faults = part(&suite, &known)?;
        let is_good = faults.is_empty();
        print(&format!("{name}: {}\n", if is_good { "ok" } else { "FAILED" }))?;
        faults.iter().try_for_each(|fault| print(&format!("  {}\n", fault.trim().replace('\n', "\n    "))))?;
        parts.push(CheckedPart { name, is_good, faults });
    }
    let is_good = parts.iter().all(|part| part.is_good);
    if args.json {
        let checked = CheckedPlugin { system: entry.system(), version: &version, skipped: &missing, parts };
        output::print(&(serde_json::to_string_pretty(&checked).expect("it is plain data") + "\n"))?;
    }
    Ok(if is_good { exit::GOOD } else { exit::FINDING })
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
