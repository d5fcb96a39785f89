//! Reader of `ab.json`, which `tripmeter ab` writes.

use crate::error::CliError;
use crate::output;
use serde_json::Value;
use std::path::Path;
use tripmeter_analysis::Selection;
use tripmeter_model::bounds::MOST_BYTES;
use tripmeter_model::folder::{AB, check_version};
use tripmeter_model::{exit, file};
use tripmeter_report::AskedPairs;
use tripmeter_stats::change::Control;
use tripmeter_stats::power::Layout;
use tripmeter_stats::runs::Question;

pub const SOURCE: &str = "ab";

/// Contents of `ab.json` in a folder; `None` if there is no such file. Fails if the file cannot be read, is not JSON,
/// or has an unknown version.
pub fn read(folder: &Path) -> Result<Option<Value>, CliError> {
    let file = folder.join(AB);
    if !file.exists() {
        return Ok(None);
    }
    let wrong = |why: String| CliError::new(exit::DATA, format!("'{}' {why}", file.display()));
    let text = file::read(&file, MOST_BYTES)?;
    let json: Value = serde_json::from_slice(&text).map_err(|error| wrong(format!("is not JSON: {error}")))?;
    check_version(&json["schema_version"]).map_err(wrong)?;
    Ok(Some(json))
}

/// Question that an `ab` folder answers; `None` if it has no `ab.json` yet. Fails if the file cannot be read, or is
/// damaged.
fn asked_pairs(folder: &Path) -> Result<Option<AskedPairs>, CliError> {
    let Some(json) = read(folder)? else { return Ok(None) };
    let wrong = |what: &str| {
        let text = format!("'{}': {what}; it is damaged, or not written by tripmeter", folder.join(AB).display());
        CliError::new(exit::DATA, text)
    };
    let question = &json["question"];
    let share = |of: &Value, name: &str| {
        let share = of[name].as_f64().filter(|share| (0.0..1.0).contains(share));
        share.ok_or_else(|| wrong(&format!("'{name}' is not a share from 0 to below 1")))
    };
    let rate =
        share(question, "rate").and_then(|rate| if rate > 0.0 { Ok(rate) } else { Err(wrong("'rate' is 0")) })?;
    let control = match question["control"].as_str() {
        Some("family-wise") => Control::Fwer(rate),
        _ => Control::Fdr(rate),
    };
    let names: Vec<String> = serde_json::from_value(json["asked_figures"].clone())
        .map_err(|error| wrong(&format!("'asked_figures': {error}")))?;
    let selection = Selection::asked(&names).map_err(|why| wrong(&why.to_string()))?;
    let (margin, power) = (share(question, "margin")?, share(question, "power")?.max(0.5));
    let question = Question { layout: Layout::Paired, margin, control, power };
    Ok(Some(AskedPairs { selection, question, effect: json["effect"].as_f64().unwrap_or(0.1) }))
}

/// Question that an `ab` folder answers. If it cannot be read, a note says so, and the usual figures are judged.
pub fn asked(folder: &Path) -> Option<AskedPairs> {
    asked_pairs(folder).unwrap_or_else(|error| {
        output::say(&format!("note: {error}; the usual figures are judged"));
        None
    })
}
