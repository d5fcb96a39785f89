use crate::args::{ExportArgs, ShowArgs, ShownArgs, SortArgs, TableFormat};
use crate::error::CliError;
use crate::{embedded, output};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use tripmeter_model::experiment::TableKind;
use tripmeter_model::folder::{self, FolderError};
use tripmeter_model::manifest::Manifest;
use tripmeter_model::{exit, printable};
use tripmeter_report::document::{Block, Document};
use tripmeter_report::markdown_words;
use tripmeter_report::render::{self, Text, csv, markdown};

const ICEPERF: Text = Text { has_intervals: false, has_help: false, is_coloured: false, is_unwrapped: true };
const ECAL: Text = Text { has_intervals: true, ..ICEPERF };

struct PrintedTable<'a> {
    /// `None` if the table covers all folders.
    folder: Option<&'a str>,
    /// True if the name of the folder is printed above the table.
    has_heading: bool,
    kind: TableKind,
    document: Document,
    text: Text,
    format: TableFormat,
}

pub fn show(args: &ShowArgs) -> Result<u8, CliError> {
    let asked = TablesAsked { tables: &args.tables, shown: args.shown, format: None, sorting: &args.sorting };
    let text = with_parts(&args.folders, &asked, |parts| Ok(joined(parts)))?;
    match output::may_colour() {
        true => output::print_coloured(&text)?,
        false => output::print(&text)?,
    }
    Ok(exit::GOOD)
}

pub fn exported(args: &ExportArgs, format: TableFormat) -> Result<String, CliError> {
    let tables = if args.tables.is_empty() { &[TableKind::Figures][..] } else { &args.tables };
    let asked = TablesAsked { tables, shown: ShownArgs::default(), format: Some(format), sorting: &args.sorting };
    with_parts(&args.folders, &asked, |parts| match format {
        TableFormat::Json if parts.len() > 1 => Ok(array(parts)),
        TableFormat::Csv if parts.len() > 1 => {
            let why = "--format csv writes one table; name one table and one folder, or use --format json";
            Err(CliError::new(exit::USAGE, why))
        }
        _ => Ok(joined(parts)),
    })
}

struct TablesAsked<'a> {
    /// Requested tables; the usual ones if empty.
    tables: &'a [TableKind],
    shown: ShownArgs,
    /// Requested format; the usual one if `None`.
    format: Option<TableFormat>,
    sorting: &'a SortArgs,
}

fn with_parts(
    folders: &[PathBuf],
    asked: &TablesAsked<'_>,
    use_parts: impl FnOnce(&[PrintedTable<'_>]) -> Result<String, CliError>,
) -> Result<String, CliError> {
    let manifests = folders.iter().map(|folder| read(folder)).collect::<Result<Vec<_>, _>>()?;
    let names: Vec<String> =
        folders.iter().map(|folder| printable::line(&folder.display().to_string()).into_owned()).collect();
    let named: Vec<(&str, &Manifest)> = names.iter().map(String::as_str).zip(&manifests).collect();
    let mut parts = parts(&named, asked);
    asked.sorting.apply(parts.iter_mut().map(|part| &mut part.document))?;
    use_parts(&parts)
}

/// Requested tables: first those that cover all folders, then those of each folder.
fn parts<'a>(named: &[(&'a str, &Manifest)], args: &TablesAsked<'_>) -> Vec<PrintedTable<'a>> {
    let kinds_of = |manifest| if args.tables.is_empty() { usual(manifest) } else { args.tables.to_vec() };
    let is_together = |kind: TableKind| match kind {
        TableKind::Ecal => named.len() > 1,
        TableKind::Figures => named.len() > 1 && args.format == Some(TableFormat::Csv),
        _ => false,
    };
    let mut parts = Vec::new();
    for kind in [TableKind::Ecal, TableKind::Figures].into_iter().filter(|kind| is_together(*kind)) {
        let of_kind: Vec<_> =
            named.iter().copied().filter(|(_, manifest)| kinds_of(manifest).contains(&kind)).collect();
        if !of_kind.is_empty() {
            parts.push(part(None, &of_kind, kind, args.shown, args.format));
        }
    }
    for one in named {
        let kinds = kinds_of(one.1).into_iter().filter(|kind| !is_together(*kind));
        parts.extend(kinds.enumerate().map(|(place, kind)| {
            let has_heading = named.len() > 1 && place == 0;
            PrintedTable { has_heading, ..part(Some(one.0), &[*one], kind, args.shown, args.format) }
        }));
    }
    parts
}

/// Prints tables of a run just measured, in the given order. The text of the manifest must be printable.
pub fn print(manifest: &Manifest, kinds: &[TableKind], shown: ShownArgs, sorting: &SortArgs) -> Result<(), CliError> {
    let mut parts: Vec<_> = kinds.iter().map(|kind| part(None, &[("", manifest)], *kind, shown, None)).collect();
    sorting.apply_or_say(parts.iter_mut().map(|part| &mut part.document));
    let text = joined(&parts);
    if output::may_colour() { output::print_coloured(&text) } else { output::print(&text) }
}

/// Table of one experiment, or of all if its kind can combine several.
fn part<'a>(
    folder: Option<&'a str>,
    named: &[(&str, &Manifest)],
    kind: TableKind,
    shown: ShownArgs,
    format: Option<TableFormat>,
) -> PrintedTable<'a> {
    let manifest = named[0].1;
    let whole = Text { has_intervals: true, has_help: true, is_coloured: output::may_colour(), is_unwrapped: false };
    let (document, text, usual) = match kind {
        TableKind::Screen if !shown.wide => {
            let text = Text { has_intervals: shown.intervals, has_help: shown.legend, ..whole };
            (tripmeter_report::screen(manifest, shown.notes), text, TableFormat::Text)
        }
        TableKind::Iceperf => (tripmeter_report::iceperf(manifest), ICEPERF, TableFormat::Text),
        TableKind::Ecal => (tripmeter_report::ecal(named), ECAL, TableFormat::Text),
        TableKind::Aimrt => (tripmeter_report::aimrt(manifest), whole, TableFormat::Markdown),
        TableKind::Figures => (tripmeter_report::figures(named), whole, TableFormat::Text),
        TableKind::Screen | TableKind::All => (tripmeter_report::all(manifest), whole, TableFormat::Text),
    };
    let (mut document, format) = (document, format.unwrap_or(usual));
    let is_screen = kind == TableKind::Screen && shown.intervals && !shown.wide;
    if format == TableFormat::Text && (is_screen || kind == TableKind::Figures) {
        document.blocks.extend(tripmeter_report::interval_legend(&document.blocks));
    }
    PrintedTable { folder, has_heading: false, kind, document, text, format }
}

fn joined(parts: &[PrintedTable<'_>]) -> String {
    let of_part = |part: &PrintedTable<'_>| {
        let heading = part.folder.filter(|_| part.has_heading).map(|name| match part.format {
            TableFormat::Markdown => format!("# {}\n\n", markdown_words(name)),
            _ => format!("{name}\n\n"),
        });
        heading.unwrap_or_default() + &written(&part.document, part.text, part.format)
    };
    parts.iter().map(of_part).collect::<Vec<_>>().join("\n")
}

fn array(parts: &[PrintedTable<'_>]) -> String {
    let of_part = |part: &PrintedTable<'_>| {
        let mut value = render::json(&part.document);
        (value["folder"], value["table"]) = (json!(part.folder), json!(part.kind));
        value
    };
    let all: Vec<Value> = parts.iter().map(of_part).collect();
    format!("{:#}\n", Value::Array(all))
}

fn written(document: &Document, text: Text, format: TableFormat) -> String {
    match format {
        TableFormat::Text => text.render(document),
        TableFormat::Markdown => markdown(document),
        TableFormat::Json => format!("{:#}\n", render::json(document)),
        TableFormat::Csv => {
            let tables = document.blocks.iter().filter_map(|block| match block {
                Block::Table(table) => Some(csv(table)),
                _ => None,
            });
            tables.collect::<Vec<_>>().join("\n")
        }
    }
}

/// Tables of the preset that was run, or else the first screen.
pub fn usual(manifest: &Manifest) -> Vec<TableKind> {
    let preset = embedded::preset_experiment(&manifest.plan.source).ok();
    preset.and_then(|preset| preset.tables).unwrap_or_else(|| vec![TableKind::Screen])
}

/// Manifest in a folder, with all text made printable, and with current names instead of those of older versions.
pub fn read(folder: &Path) -> Result<Manifest, CliError> {
    Ok(read_as_written(folder)?.named_as_today())
}

/// Manifest in a folder, with all text made printable, and with the names that its files have.
pub fn read_as_written(folder: &Path) -> Result<Manifest, CliError> {
    Ok(read_as(folder, |text| Cow::Owned(printable::json(text)))?.named_for_people())
}

/// Manifest in a folder, unchanged, for resuming.
pub fn read_exact(folder: &Path) -> Result<Manifest, CliError> {
    read_as(folder, |text| Cow::Borrowed(text))
}

/// Manifest just measured, with all text made printable.
pub fn printable(manifest: &Manifest) -> Manifest {
    let text = manifest.whole().to_string();
    serde_json::from_str(&printable::json(&text))
        .unwrap_or_else(|_| manifest.clone())
        .named_for_people()
        .named_as_today()
}

fn read_as(folder: &Path, made: impl Fn(&str) -> Cow<'_, str>) -> Result<Manifest, CliError> {
    folder::read(folder, made).map_err(|error| {
        let is_gone = matches!(error, FolderError::NotThere { .. } | FolderError::Replaced(_));
        let code = if is_gone { exit::NO_INPUT } else { exit::DATA };
        match error {
            FolderError::File(error) => error.into(),
            error => CliError::new(code, error.to_string()),
        }
    })
}
