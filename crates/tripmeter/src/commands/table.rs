use crate::args::{ShownArgs, TableArgs, TableFormat};
use crate::error::CliError;
use crate::{embedded, output};
use std::borrow::Cow;
use std::path::Path;
use tripmeter_model::experiment::TableKind;
use tripmeter_model::folder::{self, FolderError};
use tripmeter_model::manifest::Manifest;
use tripmeter_model::{exit, printable};
use tripmeter_report::document::{Block, Document};
use tripmeter_report::render::{Text, csv, json, markdown};

/// As iceperf prints it.
const ICEPERF: Text = Text { has_intervals: false, has_help: false, is_coloured: false, is_unwrapped: true };
/// As eCAL's page has it, with intervals.
const ECAL: Text = Text { has_intervals: true, ..ICEPERF };

/// `tripmeter table`
pub fn table(args: &TableArgs) -> Result<u8, CliError> {
    let manifests = args.folders.iter().map(|folder| read(folder)).collect::<Result<Vec<_>, _>>()?;
    let kinds_of = |manifest| if args.tables.is_empty() { usual(manifest) } else { args.tables.clone() };
    // With several folders, the table that takes columns from all of them comes first, and once.
    let is_together = |kind: &TableKind| *kind == TableKind::Ecal && manifests.len() > 1;
    let names: Vec<String> =
        args.folders.iter().map(|folder| printable::line(&folder.display().to_string()).into_owned()).collect();
    let named = names.iter().map(String::as_str).zip(&manifests);
    let together: Vec<(&str, &Manifest)> =
        named.filter(|(_, manifest)| kinds_of(manifest).iter().any(is_together)).collect();
    if !together.is_empty() {
        print_document(&tripmeter_report::ecal(&together), ECAL, args.format.unwrap_or(TableFormat::Text))?;
    }
    for (name, manifest) in names.iter().zip(&manifests) {
        let kinds: Vec<TableKind> = kinds_of(manifest).into_iter().filter(|kind| !is_together(kind)).collect();
        if kinds.is_empty() {
            continue;
        }
        if args.folders.len() > 1 && matches!(args.format, None | Some(TableFormat::Text)) {
            output::print(&format!("{name}\n\n"))?;
        }
        print_as(manifest, &kinds, args.shown, args.format)?;
    }
    Ok(exit::GOOD)
}

/// Prints these tables of a manifest whose text is printable, in this order.
pub fn print(manifest: &Manifest, kinds: &[TableKind], shown: ShownArgs) -> Result<(), CliError> {
    print_as(manifest, kinds, shown, None)
}

fn print_as(
    manifest: &Manifest,
    kinds: &[TableKind],
    shown: ShownArgs,
    format: Option<TableFormat>,
) -> Result<(), CliError> {
    let is_coloured = output::may_colour();
    let whole = Text { has_intervals: true, has_help: true, is_coloured, is_unwrapped: false };
    for (index, kind) in kinds.iter().enumerate() {
        if index > 0 {
            output::print("\n")?;
        }
        let (document, text, usual) = match kind {
            TableKind::Screen if !shown.wide => {
                let text = Text { has_intervals: shown.intervals, has_help: shown.legend, ..whole };
                (tripmeter_report::screen(manifest, shown.notes), text, TableFormat::Text)
            }
            TableKind::Iceperf => (tripmeter_report::iceperf(manifest), ICEPERF, TableFormat::Text),
            TableKind::Ecal => (tripmeter_report::ecal(&[("", manifest)]), ECAL, TableFormat::Text),
            TableKind::Aimrt => (tripmeter_report::aimrt(manifest), whole, TableFormat::Markdown),
            TableKind::Figures => (tripmeter_report::figures(manifest), whole, TableFormat::Text),
            TableKind::Screen | TableKind::All => (tripmeter_report::all(manifest), whole, TableFormat::Text),
        };
        print_document(&document, text, format.unwrap_or(usual))?;
    }
    Ok(())
}

fn print_document(document: &Document, text: Text, format: TableFormat) -> Result<(), CliError> {
    match format {
        TableFormat::Text if text.is_coloured => output::print_coloured(&text.render(document)),
        TableFormat::Text => output::print(&text.render(document)),
        TableFormat::Markdown => output::print(&markdown(document)),
        TableFormat::Json => output::print(&format!("{:#}\n", json(document))),
        TableFormat::Csv => {
            let tables = document.blocks.iter().filter_map(|block| match block {
                Block::Table(table) => Some(csv(table)),
                _ => None,
            });
            output::print(&tables.collect::<Vec<_>>().join("\n"))
        }
    }
}

/// The tables of the preset that was run, or else the first screen.
fn usual(manifest: &Manifest) -> Vec<TableKind> {
    let preset = embedded::preset_experiment(&manifest.plan.source).ok();
    preset.and_then(|preset| preset.tables).unwrap_or_else(|| vec![TableKind::Screen])
}

/// The manifest in a folder, with all text in it printable.
pub fn read(folder: &Path) -> Result<Manifest, CliError> {
    read_as(folder, |text| Cow::Owned(printable::json(text)))
}

/// The manifest in a folder as it stands there, to go on with.
pub fn read_exact(folder: &Path) -> Result<Manifest, CliError> {
    read_as(folder, |text| Cow::Borrowed(text))
}

/// A manifest that was just made, with all text in it printable.
pub fn printable(manifest: &Manifest) -> Manifest {
    let text = manifest.whole().to_string();
    serde_json::from_str(&printable::json(&text)).unwrap_or_else(|_| manifest.clone())
}

fn read_as(folder: &Path, made: impl Fn(&str) -> Cow<'_, str>) -> Result<Manifest, CliError> {
    folder::read(folder, made).map_err(|error| {
        let code = if matches!(error, FolderError::NotThere { .. }) { exit::NO_INPUT } else { exit::DATA };
        match error {
            FolderError::File(error) => error.into(),
            error => CliError::new(code, error.to_string()),
        }
    })
}
