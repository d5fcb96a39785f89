//! Resumes an `ab` that was killed or interrupted.

use super::asked::Asked;
use crate::ab_json::{self, SOURCE};
use crate::commands::show;
use crate::error::CliError;
use crate::lock::lock;
use crate::results::{is_results, opened};
use serde_json::Value;
use std::fs::File;
use std::path::Path;
use std::time::Duration;
use tripmeter_engine::{Begun, LockedFolder, RunError};
use tripmeter_model::exit;
use tripmeter_model::folder::AB;
use tripmeter_model::manifest::{Manifest, RunStatus};
use tripmeter_model::plan::Plan;

pub struct Unfinished {
    folder: LockedFolder,
    manifest: Manifest,
    /// Contents of `ab.json`, if it was written.
    json: Option<Value>,
    /// Lock of the folder, held until dropped.
    _lock: File,
}

impl Unfinished {
    /// Finds an unfinished comparison in the output folder. Fails if another command is using the folder, or `ab.json`
    /// cannot be read.
    pub fn find(folder: Option<&Path>) -> Result<Option<Self>, CliError> {
        let Some(folder) = folder.and_then(|folder| folder.canonicalize().ok()) else { return Ok(None) };
        if unfinished(&folder)?.is_none() {
            return Ok(None);
        }
        let lock = lock(&opened(&folder)?, "ab", "-o")?;
        let folder = LockedFolder::take(&folder).map_err(RunError::from)?;
        // Another process may have finished it before the lock was taken.
        let Some((manifest, json)) = unfinished(folder.folder().path())? else { return Ok(None) };
        Ok(Some(Self { folder, manifest, json, _lock: lock }))
    }

    pub fn seed(&self) -> u64 {
        self.manifest.plan.seed
    }

    pub fn spent(&self) -> Duration {
        let seconds = self.json.as_ref().and_then(|json| json["spent_s"].as_f64()).unwrap_or(0.0);
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    /// Results for the engine to resume. Fails if anything differs from what was asked for before.
    pub fn begun(&self, plan: &Plan, asked: &Asked<'_>) -> Result<Begun, CliError> {
        if let Some(change) = self.change(plan, asked) {
            let text = format!(
                "'{}' was started with a different command: {change}; repeat that command, or name another folder with \
                 -o",
                self.folder.folder().path().display()
            );
            return Err(CliError::new(exit::DATA, text));
        }
        let begun = Begun::new(self.folder.clone(), self.manifest.clone());
        if self.json.is_none() && begun.rounds() > 0 {
            let text = format!("'{}' has no {AB}; name another folder with -o", self.folder.folder().path().display());
            return Err(CliError::new(exit::DATA, text));
        }
        Ok(begun)
    }

    fn change(&self, plan: &Plan, asked: &Asked<'_>) -> Option<String> {
        let version = env!("CARGO_PKG_VERSION");
        if self.manifest.tripmeter_version != version {
            return Some(format!("tripmeter {} before, {version} now", self.manifest.tripmeter_version));
        }
        // The number of rounds does not count: `ab` decides it while it measures.
        let of_plan = |plan: &Plan| read_back(&serde_json::to_value(Plan { rounds: 0, ..plan.clone() }).ok()?);
        let changed = difference(&of_plan(&self.manifest.plan)?, &of_plan(plan)?, String::new());
        let asked = || {
            let before = self.json.as_ref()?;
            asked.parts().into_iter().find_map(|(place, now)| {
                let name = place.trim_start_matches('/').replace('/', ".");
                difference(before.pointer(place).unwrap_or(&Value::Null), &read_back(&now)?, name)
            })
        };
        changed.or_else(asked)
    }
}

/// Contents of an `ab` folder that is not finished, or has no verdict on its last round yet: `ab.json` is written last.
fn unfinished(folder: &Path) -> Result<Option<(Manifest, Option<Value>)>, CliError> {
    if !is_results(folder) {
        return Ok(None);
    }
    let manifest = show::read_exact(folder)?;
    if manifest.plan.source != SOURCE {
        return Ok(None);
    }
    let json = ab_json::read(folder)?;
    let is_over = matches!(manifest.status, RunStatus::Complete | RunStatus::Failed);
    let status = serde_json::to_value(manifest.status).ok();
    let is_judged = json.as_ref().is_some_and(|json| json.get("status") == status.as_ref());
    Ok((!(is_over && is_judged)).then_some((manifest, json)))
}

/// Value after writing it to a file and reading it back.
fn read_back(value: &Value) -> Option<Value> {
    serde_json::from_str(&value.to_string()).ok()
}

/// First place where two values differ, and how.
fn difference(before: &Value, now: &Value, place: String) -> Option<String> {
    let below = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    match (before, now) {
        (Value::Object(one), Value::Object(other)) => {
            let names = one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)));
            let null = &Value::Null;
            names.into_iter().find_map(|name| {
                difference(one.get(name).unwrap_or(null), other.get(name).unwrap_or(null), below(name))
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other).enumerate();
            pairs.into_iter().find_map(|(index, (one, other))| difference(one, other, format!("{place}[{index}]")))
        }
        _ => (before != now).then(|| format!("{place} {before} before, {now} now")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_difference_is_named_by_its_place() {
        let told = |before: Value, now: Value| difference(&before, &now, String::new());
        let plan = |samples: u64| json!({ "seed": 7, "sub_experiments": [{ "samples": 20 }, { "samples": samples }] });
        assert_eq!(told(plan(20), plan(20)), None);
        assert_eq!(told(plan(20), plan(30)).unwrap(), "sub_experiments[1].samples 20 before, 30 now");
        assert_eq!(told(json!({ "a": [1] }), json!({ "a": [1, 2] })).unwrap(), "a [1] before, [1,2] now");
        assert_eq!(told(json!({}), json!({ "b": true })).unwrap(), "b null before, true now");
    }
}
