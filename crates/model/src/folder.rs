//! A results folder: `manifest.json` says what was asked for and how it went, `trials.jsonl` what was measured, a line for
//! each payload, and `audit.json` what disturbs measuring on this machine.

use crate::audit::{Audit, ProcessActivity};
use crate::file::{self, FileError};
use crate::manifest::{
    MOST_BYTES, MOST_ELEMENTS, MOST_MEMBERS, MOST_TEXT_BYTES, Manifest, PayloadResult, RunStatus, SCHEMA_VERSION,
    SubExperimentResult,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The plan, the environment, and the state of every sub-experiment.
pub const MANIFEST: &str = "manifest.json";
/// Most bytes of `trials.jsonl`: about 200,000 payloads.
const MOST_TRIALS_BYTES: u64 = 512 << 20;
/// What was measured: a [`TrialsLine`] for each payload.
pub const TRIALS: &str = "trials.jsonl";
/// The audits of the machine: [`Audits`].
pub const AUDIT: &str = "audit.json";

/// A line of `trials.jsonl`: one payload of one sub-experiment in one round. A later line of the same takes its place: the
/// payload was measured again.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "A line of trials.jsonl")]
pub struct TrialsLine<C = PayloadResult> {
    /// The name of the sub-experiment.
    pub sub_experiment: String,
    /// 1-based.
    pub round: u32,
    /// What was measured.
    #[serde(flatten)]
    pub cell: C,
}

/// The whole of `audit.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Audits of a Tripmeter run")]
pub struct Audits {
    /// Before the first sub-experiment.
    #[serde(default)]
    pub before: Option<Audit>,
    /// After the last, with what happened in between.
    #[serde(default)]
    pub after: Option<Audit>,
    /// Of each sub-experiment that has ended.
    #[serde(default)]
    pub processes: Vec<ProcessesOf>,
}

/// What the processes of a sub-experiment in one round were allowed and did.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ProcessesOf {
    /// The name of the sub-experiment.
    pub sub_experiment: String,
    /// 1-based.
    pub round: u32,
    /// Leader and followers.
    pub processes: Vec<ProcessActivity>,
}

impl Audits {
    /// Every audit that a manifest holds.
    pub fn of(manifest: &Manifest) -> Self {
        let (before, after) = (&manifest.environment.audit_before, &manifest.environment.audit_after);
        let ended = manifest.sub_experiments.iter().filter(|result| !result.processes.is_empty());
        let processes = ended.map(|result| ProcessesOf {
            sub_experiment: result.name.clone(),
            round: result.round,
            processes: result.processes.clone(),
        });
        Self { before: before.clone(), after: after.clone(), processes: processes.collect() }
    }

    /// Puts each in its place.
    fn put_into(self, manifest: &mut Manifest) {
        (manifest.environment.audit_before, manifest.environment.audit_after) = (self.before, self.after);
        for one in self.processes {
            let is_of =
                |result: &&mut SubExperimentResult| result.round == one.round && result.name == one.sub_experiment;
            manifest
                .sub_experiments
                .iter_mut()
                .filter(is_of)
                .for_each(|result| result.processes = one.processes.clone());
        }
    }
}

/// Why results cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// There is no manifest.
    #[error("'{}' is no results folder: {error}", .folder.display())]
    NotThere {
        /// The folder.
        folder: PathBuf,
        /// Why.
        error: FileError,
    },
    /// A file cannot be read.
    #[error(transparent)]
    File(FileError),
    /// What stands in a file is wrong.
    #[error("'{}' {what}", .file.display())]
    Wrong {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// Everything in a results folder; `escape` is applied to the text of each file first. Of a run that
/// was killed, the last line of `trials.jsonl` may be cut off, and then is none.
///
/// # Errors
/// If a file is missing, too large, or wrong.
pub fn read(folder: &Path, escape: impl Fn(&str) -> Cow<'_, str>) -> Result<Manifest, FolderError> {
    let text = |name: &str| {
        let text = read_text(&folder.join(name), MOST_BYTES)?;
        match too_long(&text) {
            Some(what) => {
                let what = format!("holds {what}; it is damaged, or not ours");
                Err(FolderError::Wrong { file: folder.join(name), what })
            }
            None => Ok(escape(&text).into_owned()),
        }
    };
    let path = folder.join(MANIFEST);
    let wrong = |what| FolderError::Wrong { file: path.clone(), what };
    let manifest = text(MANIFEST).map_err(|error| match error {
        FolderError::File(error @ FileError::Unreadable { .. }) => {
            FolderError::NotThere { folder: folder.to_path_buf(), error }
        }
        error => error,
    })?;
    let mut manifest = parse_manifest(&manifest).map_err(wrong)?;
    manifest.check().map_err(wrong)?;
    let is_there = |name: &str| folder.join(name).symlink_metadata().is_ok();
    let wrong = |what| FolderError::Wrong { file: folder.join(TRIALS), what };
    if is_there(TRIALS) {
        let trials = read_text(&folder.join(TRIALS), MOST_TRIALS_BYTES)?;
        add_trials(&mut manifest, &escape(&trials)).map_err(wrong)?;
    }
    check_whole(&manifest).map_err(wrong)?;
    if is_there(AUDIT) {
        let what = |error| format!("cannot be read: {error}; figures do not need this file: remove it to see them");
        let wrong = |error| FolderError::Wrong { file: folder.join(AUDIT), what: what(error) };
        let audits: Audits = serde_json::from_str(&text(AUDIT)?).map_err(wrong)?;
        audits.put_into(&mut manifest);
    }
    Ok(manifest)
}

fn read_text(path: &Path, most: u64) -> Result<String, FolderError> {
    let bytes = file::read(path, most).map_err(FolderError::File)?;
    let wrong = |what| FolderError::Wrong { file: path.to_path_buf(), what };
    String::from_utf8(bytes).map_err(|error| wrong(format!("is not UTF-8 text: {error}")))
}

fn parse_manifest(text: &str) -> Result<Manifest, String> {
    /// What every version has.
    #[derive(Deserialize)]
    struct Versioned {
        schema_version: serde_json::Value,
    }
    let Versioned { schema_version } =
        serde_json::from_str(text).map_err(|error: serde_json::Error| match error.classify() {
            Category::Data => "has no schema version, so it is none of tripmeter's".to_owned(),
            _ => format!("is not JSON: {error}; it may be cut off"),
        })?;
    let version = schema_version.as_str().map_or_else(|| schema_version.to_string(), str::to_owned);
    let major = |version: &str| version.split('.').next().map(str::to_owned);
    if major(&version) != major(SCHEMA_VERSION) {
        return Err(format!(
            "has schema version {version}, this tripmeter reads {SCHEMA_VERSION}; read it with the tripmeter that wrote \
             it, or measure again"
        ));
    }
    serde_json::from_str(text).map_err(|error| format!("cannot be read: {error}"))
}

/// Puts every whole line in its place. Lines of rounds that the manifest does not have are left out: the run was killed
/// while it was resumed.
fn add_trials(manifest: &mut Manifest, text: &str) -> Result<(), String> {
    let results = manifest.sub_experiments.iter().enumerate();
    let places: HashMap<(u32, String), usize> =
        results.map(|(place, result)| ((result.round, result.name.clone()), place)).collect();
    let mut payloads: HashMap<(usize, u64), usize> = HashMap::new();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for (number, line) in (1..).zip(whole.split('\n').filter(|line| !line.is_empty())) {
        if let Some(what) = too_long(line) {
            return Err(format!("holds {what} in line {number}; it is damaged, or not ours"));
        }
        let TrialsLine { sub_experiment, round, cell }: TrialsLine =
            serde_json::from_str(line).map_err(|error| format!("cannot be read: line {number}: {error}"))?;
        let Some(&place) = places.get(&(round, sub_experiment)) else { continue };
        let cells = &mut manifest.sub_experiments[place].cells;
        let index = *payloads.entry((place, cell.payload_bytes)).or_insert(cells.len());
        match cells.get_mut(index) {
            Some(before) => *before = cell,
            None => cells.push(cell),
        }
    }
    Ok(())
}

/// Fails if a sub-experiment that has ended lacks payloads that it had then.
fn check_whole(manifest: &Manifest) -> Result<(), String> {
    let is_short = |result: &&SubExperimentResult| {
        result.status != RunStatus::Running && result.cells.len() < result.payloads as usize
    };
    manifest.sub_experiments.iter().find(is_short).map_or(Ok(()), |result| {
        let (name, round, there, all) = (&result.name, result.round, result.cells.len(), result.payloads);
        Err(format!(
            "has {there} payloads of '{name}', round {round}, and {all} were measured: it is damaged, or was not copied \
             with the manifest"
        ))
    })
}

/// What of a JSON text is longer than a file of results may have it: the first such string, or all lists together.
fn too_long(text: &str) -> Option<String> {
    let (mut begin, mut is_escaped) = (None, false);
    // Of each bracket that is open, whether it is a list's.
    let (mut open, mut elements, mut members) = (Vec::new(), 0, 0);
    for (at, byte) in text.bytes().enumerate() {
        match (byte, begin) {
            _ if is_escaped => is_escaped = false,
            (b'\\', _) => is_escaped = true,
            (b'"', None) => begin = Some(at + 1),
            (b'"', Some(from)) if at - from > MOST_TEXT_BYTES => {
                let (length, most) = (at - from, MOST_TEXT_BYTES);
                return Some(format!("a text of {length} bytes, and the most are {most}"));
            }
            (b'"', Some(_)) => begin = None,
            (b'[' | b'{', None) => {
                open.push(byte == b'[');
                elements += usize::from(byte == b'[');
            }
            (b']' | b'}', None) => {
                open.pop();
            }
            (b',', None) if open.last() == Some(&true) => elements += 1,
            (b',', None) => members += 1,
            _ => {}
        }
        if members > MOST_MEMBERS {
            return Some(format!("objects of more than {} members in all, which are the most", MOST_MEMBERS));
        }
        if elements > MOST_ELEMENTS {
            return Some(format!("lists of more than {} elements in all, which are the most", MOST_ELEMENTS));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a folder with a sub-experiment `a` in round 1.
    fn folder(version: &str, trials: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let manifest = serde_json::json!({
            "schema_version": version, "tripmeter_version": "", "started": "", "ended": null, "status": "running",
            "from_the_future": 1,
            "plan": {
                "source": "", "sub_experiments": [], "rounds": 1, "seed": 1, "raw": "csv", "daemons": "start",
                "loss_timeout_ns": 1, "leader_cpu": null, "follower_cpu": null, "left_out": [],
            },
            "environment": {
                "kernel": "", "cpu_model": "", "cpus": [], "virtual_machine": false, "memory_bytes": 1,
                "clock": { "source": "tsc", "reason": null, "frequency_hz": 1.0, "read_cost_ns": 1.0,
                    "granularity_ns": 1.0, "drift_ppm": null },
                "before": { "load_1min": 0.0, "steal_ns": 0 }, "after": null,
            },
            "sub_experiments": [{
                "name": "a", "round": 1, "status": "running", "error": null, "transport_version": "",
                "system_version": "", "same_process": false, "path_proof": null, "memory_lock": null, "payloads": 2,
            }],
        });
        std::fs::write(folder.path().join(MANIFEST), manifest.to_string()).unwrap();
        std::fs::write(folder.path().join(TRIALS), trials).unwrap();
        folder
    }

    fn line(round: u32, payload_bytes: u64, samples: u64) -> String {
        let cell = PayloadResult { payload_bytes, samples, ..PayloadResult::default() };
        serde_json::to_string(&TrialsLine { sub_experiment: "a".to_owned(), round, cell }).unwrap() + "\n"
    }

    #[test]
    fn the_last_line_of_a_payload_counts_and_one_that_is_cut_off_does_not() {
        let text =
            [line(1, 64, 1), line(1, 128, 2), line(2, 64, 9), line(1, 64, 3)].concat() + "{\"sub_experiment\": \"a\", ";
        let there = folder("2.7", &text);
        let read = read(there.path(), |text| text.into()).unwrap();
        let cells: Vec<_> =
            read.sub_experiments[0].cells.iter().map(|cell| (cell.payload_bytes, cell.samples)).collect();
        assert_eq!(cells, [(64, 3), (128, 2)]);
        let audit = read.environment.audit_before;
        assert!(audit.is_none(), "there is no file of it");
    }

    #[test]
    fn payloads_that_an_ended_sub_experiment_lacks_are_missed() {
        let there = folder("2.0", &line(1, 64, 1));
        assert!(read(there.path(), |text| text.into()).is_ok(), "it was killed");
        let manifest = std::fs::read_to_string(there.path().join(MANIFEST)).unwrap();
        let ended = manifest.replace("\"status\":\"running\"", "\"status\":\"complete\"");
        std::fs::write(there.path().join(MANIFEST), ended).unwrap();
        let refused = read(there.path(), |text| text.into()).unwrap_err().to_string();
        assert!(refused.contains("trials.jsonl' has 1 payloads of 'a', round 1, and 2 were measured"), "{refused}");
    }

    #[test]
    fn other_major_versions_and_wrong_lines_are_refused() {
        let refused = |version: &str, trials: &str| {
            let there = folder(version, trials);
            read(there.path(), |text| text.into()).unwrap_err().to_string()
        };
        assert!(refused("3.0", "").contains("manifest.json' has schema version 3.0, this tripmeter reads 2.0"));
        let text = line(1, 64, 1) + "{}\n";
        assert!(refused("2.0", &text).contains("trials.jsonl' cannot be read: line 2: missing field"));
        let nowhere = read(Path::new("/nowhere"), |text| text.into()).unwrap_err();
        assert!(matches!(nowhere, FolderError::NotThere { .. }), "{nowhere}");
    }

    #[test]
    fn a_text_that_is_too_long_is_found() {
        let with = |length: usize| format!("{{\"a\\\"\": 1, \"b\": \"{}\", \"c\": \"\"}}", "x".repeat(length));
        assert_eq!(too_long(&with(MOST_TEXT_BYTES)), None);
        assert!(too_long(&with(MOST_TEXT_BYTES + 1)).is_some_and(|what| what.contains("65537 bytes")));
    }

    #[test]
    fn elements_of_all_lists_are_counted_and_members_apart() {
        let most = MOST_ELEMENTS;
        let list = |elements: usize| format!("[{}]", vec!["\"\""; elements].join(","));
        let fields = vec!["\"a,[\\\"\": 1"; most + 1].join(", ");
        assert_eq!(too_long(&format!("{{\"b\": {}, {fields}}}", list(most))), None);
        assert!(too_long(&list(most + 1)).is_some());
        let members = |members: usize| format!("{{{}}}", vec!["\"\":1"; members].join(","));
        assert_eq!(too_long(&members(MOST_MEMBERS)), None);
        let told = too_long(&members(MOST_MEMBERS + 2));
        assert!(told.is_some_and(|what| what.contains("4000000 members")));
        let two = format!("{{\"a\": {}, \"b\": {{\"c\": {}}}}}", list(most / 2), list(most / 2 + 1));
        assert!(too_long(&two).is_some_and(|what| what.contains("250000 elements")));
    }
}
