//! Results folders and other documents in JSON.

use crate::escaped;
use crate::texts::is_one_line;
use tripmeter_analysis::MetricTable;
use tripmeter_model::fleet::Fleet;
use tripmeter_model::folder::{FolderError, read_contents};
use tripmeter_model::manifest::Manifest;
use tripmeter_model::verdict::VerdictDocument;

/// Stands between the files of a folder in one input.
const BETWEEN: &[u8] = b"\n--\n";

/// A manifest that lists the sub-experiments of the seeds of trials.
const MANIFEST: &[u8] = include_bytes!("manifest.json");

pub(crate) fn manifest(bytes: &[u8]) {
    if let Some(manifest) = read(bytes, None, None) {
        let text = serde_json::to_vec(&manifest).expect("a manifest is written");
        assert!(read(&text, None, None).is_some(), "a manifest that was written is not read");
    }
    let _ = read(MANIFEST, None, Some(bytes));
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(document) = VerdictDocument::read(text) {
        let written = serde_json::to_string(&document).expect("a document is written");
        assert_eq!(VerdictDocument::read(&written), Ok(document));
    }
    if let Ok(fleet) = serde_json::from_str::<Fleet>(text) {
        let written = serde_json::to_string(&fleet).expect("a fleet is written");
        assert_eq!(serde_json::from_str::<Fleet>(&written).ok(), Some(fleet));
    }
}

pub(crate) fn trials(bytes: &[u8]) {
    let _ = read(MANIFEST, Some(bytes), None);
}

pub(crate) fn folder(bytes: &[u8]) {
    let mut files = split(bytes);
    let (manifest, trials, audit) = (files.next().unwrap_or_default(), files.next(), files.next());
    if let Some(manifest) = read(manifest, trials, audit) {
        let table = MetricTable::from_manifest(&manifest);
        for row in table.all_rows() {
            let _ = (table.sub(row), table.load(row), table.is_rate_missed(row), table.trials(row));
        }
    }
}

fn split(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let all = rest?;
        let end = all.windows(BETWEEN.len()).position(|window| window == BETWEEN);
        // The line break belongs to the file.
        rest = end.map(|end| &all[end + BETWEEN.len()..]);
        Some(end.map_or(all, |end| &all[..=end]))
    })
}

fn read(manifest: &[u8], trials: Option<&[u8]>, audit: Option<&[u8]>) -> Option<Manifest> {
    let read = read_contents(manifest, trials, audit, escaped);
    read.inspect_err(|error: &FolderError| is_one_line(&error.to_string())).ok()
}
