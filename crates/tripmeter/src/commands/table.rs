use crate::args::TableArgs;
use crate::error::CliError;
use crate::{embedded, output};
use std::path::Path;
use tripmeter_model::exit;
use tripmeter_model::experiment::TableKind;
use tripmeter_model::manifest::{Manifest, SCHEMA_VERSION};

/// `tripmeter table`
pub fn table(args: &TableArgs) -> Result<u8, CliError> {
    let manifests = args.folders.iter().map(|folder| read(folder)).collect::<Result<Vec<_>, _>>()?;
    let kinds_of = |manifest| if args.tables.is_empty() { usual(manifest) } else { args.tables.clone() };
    // With several folders, the table that takes columns from all of them comes first, and once.
    let is_together = |kind: &TableKind| *kind == TableKind::Ecal && manifests.len() > 1;
    let names: Vec<String> = args.folders.iter().map(|folder| folder.display().to_string()).collect();
    let named = names.iter().map(String::as_str).zip(&manifests);
    let together: Vec<(&str, &Manifest)> =
        named.filter(|(_, manifest)| kinds_of(manifest).iter().any(is_together)).collect();
    if !together.is_empty() {
        output::print(&tripmeter_report::ecal(&together))?;
    }
    for (folder, manifest) in args.folders.iter().zip(&manifests) {
        let kinds: Vec<TableKind> = kinds_of(manifest).into_iter().filter(|kind| !is_together(kind)).collect();
        if kinds.is_empty() {
            continue;
        }
        if args.folders.len() > 1 {
            output::print(&format!("{}\n\n", folder.display()))?;
        }
        output::print(&text(manifest, &kinds))?;
    }
    Ok(exit::GOOD)
}

/// These tables of a manifest, in this order.
pub fn text(manifest: &Manifest, kinds: &[TableKind]) -> String {
    let tables = kinds.iter().map(|kind| match kind {
        TableKind::Iceperf => tripmeter_report::iceperf(manifest),
        TableKind::Ecal => tripmeter_report::ecal(&[("", manifest)]),
        TableKind::Aimrt => tripmeter_report::aimrt(manifest),
        TableKind::All => tripmeter_report::all(manifest),
    });
    tables.collect::<Vec<_>>().join("\n")
}

/// The tables of the preset that was run, or else the one of everything.
fn usual(manifest: &Manifest) -> Vec<TableKind> {
    let preset = embedded::preset_experiment(&manifest.plan.source).ok();
    preset.and_then(|preset| preset.tables).unwrap_or_else(|| vec![TableKind::All])
}

/// The manifest in a folder.
pub fn read(folder: &Path) -> Result<Manifest, CliError> {
    let file = folder.join("manifest.json");
    let text = std::fs::read_to_string(&file).map_err(|error| {
        let text = format!("'{}' is no results folder: {} cannot be read: {error}", folder.display(), file.display());
        CliError::new(exit::NO_INPUT, text)
    })?;
    let wrong = |what: String| CliError::new(exit::DATA, format!("manifest '{}' {what}", file.display()));
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| wrong(format!("is not JSON: {error}; it may be cut off")))?;
    match value.get("schema_version").and_then(serde_json::Value::as_u64) {
        Some(version) if version == u64::from(SCHEMA_VERSION) => {}
        Some(version) => {
            return Err(wrong(format!("has schema version {version}, this tripmeter reads {SCHEMA_VERSION}")));
        }
        None => return Err(wrong("has no schema version, so it is none of tripmeter's".to_owned())),
    }
    serde_json::from_value(value).map_err(|error| wrong(format!("cannot be read: {error}")))
}
