//! Question that `ab` answers, and the builds that it compares.

use crate::args::AbArgs;
use crate::error::CliError;
use crate::{experiment, verdicts};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use tripmeter_analysis::Selection;
use tripmeter_model::exit;
use tripmeter_stats::power::Layout;
use tripmeter_stats::runs::Question;

/// Everything that must stay unchanged when rounds are added to earlier ones.
pub struct Asked<'a> {
    pub args: &'a AbArgs,
    pub question: Question,
    /// Figures judged; those of the headline if none is named.
    pub selection: Selection,
    /// Size and time of the program file.
    pub program: String,
    pub plugins: [Option<HashedPlugin>; 2],
}

pub struct HashedPlugin {
    pub file: PathBuf,
    pub sha256: String,
}

impl HashedPlugin {
    pub fn read(file: &Path) -> Result<Self, CliError> {
        const MOST_PLUGIN_BYTES: u64 = 4 << 30;
        let bytes = tripmeter_model::file::read(file, MOST_PLUGIN_BYTES)?;
        let sha256 = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { file: file.to_path_buf(), sha256 })
    }
}

/// Identifies this build of the program by size and date of its file.
pub fn this_build() -> Result<String, CliError> {
    let file = experiment::program()?;
    let unreadable = |error| CliError::new(exit::SOFTWARE, format!("'{}' cannot be read: {error}", file.display()));
    let metadata = file.metadata().map_err(unreadable)?;
    let modified = metadata.modified().map_err(unreadable)?.duration_since(std::time::UNIX_EPOCH);
    Ok(format!("{} bytes of {} s", metadata.len(), modified.map_or(0, |since| since.as_secs())))
}

impl<'a> Asked<'a> {
    pub fn new(args: &'a AbArgs, question: Question, plugins: [Option<HashedPlugin>; 2]) -> Result<Self, CliError> {
        let selection = selection(args)?;
        Ok(Self { args, question, selection, program: this_build()?, plugins })
    }

    /// Values by their JSON pointer in `ab.json`.
    pub fn parts(&self) -> Vec<(&'static str, Value)> {
        let args = self.args;
        let of = |side: usize, part: fn(&HashedPlugin) -> Value| self.plugins[side].as_ref().map_or(Value::Null, part);
        let (file, sha256) = (|plugin: &HashedPlugin| json!(plugin.file), |plugin: &HashedPlugin| json!(plugin.sha256));
        vec![
            ("/question", verdicts::question_json(&self.question)),
            ("/asked_figures", json!(args.figures.figures)),
            ("/effect", json!(args.effect.0)),
            ("/rounds_asked", json!(args.rounds)),
            ("/budget_s", json!(args.rounds.is_none().then_some(args.budget))),
            ("/program", json!(self.program)),
            ("/a/plugin", of(0, file)),
            ("/a/plugin_sha256", of(0, sha256)),
            ("/b/plugin", of(1, file)),
            ("/b/plugin_sha256", of(1, sha256)),
        ]
    }
}

/// Figures named on the command line. Fails if one is unknown or not judged.
pub fn selection(args: &AbArgs) -> Result<Selection, CliError> {
    let refused = |why| CliError::new(exit::USAGE, format!("{why} (--figures)"));
    Selection::asked(&args.figures.figures).map_err(refused)
}

/// Question from the flags, checked before any transport is looked up. Fails if a share or a count is out of range.
pub fn question(args: &AbArgs) -> Result<Question, CliError> {
    let (margin, effect, power) = (args.margin.0, args.effect.0, args.power.0);
    let wrong = |text: String| Err(CliError::new(exit::USAGE, text));
    if effect <= margin {
        let [effect, margin] = [effect, margin].map(tripmeter_report::percent);
        return wrong(format!("the effect of {effect} does not exceed the margin of {margin}; use a larger --effect"));
    }
    if power < 0.5 {
        let power = tripmeter_report::percent(power);
        return wrong(format!("--power {power} is below 50 %; use a higher one"));
    }
    if !(args.budget > 0.0 && args.budget <= 1e7) {
        let budget = args.budget;
        return wrong(format!("--budget {budget} s must be above 0 and at most 10000000 s"));
    }
    Ok(Question { layout: Layout::Paired, margin, control: verdicts::CONTROL, power })
}
