use crate::args::{ShownArgs, TableArgs, TableFormat};
use crate::error::CliError;
use crate::{embedded, output};
use serde::Deserialize;
use serde_json::error::Category;
use std::borrow::Cow;
use std::path::Path;
use tripmeter_model::experiment::TableKind;
use tripmeter_model::file::{self, FileError};
use tripmeter_model::manifest::{self, Manifest, SCHEMA_VERSION};
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
    let text = serde_json::to_string(manifest).expect("a manifest is plain data");
    serde_json::from_str(&printable::json(&text)).unwrap_or_else(|_| manifest.clone())
}

fn read_as(folder: &Path, made: impl Fn(&str) -> Cow<'_, str>) -> Result<Manifest, CliError> {
    /// What every version has.
    #[derive(Deserialize)]
    struct Versioned {
        schema_version: u32,
    }
    let path = folder.join("manifest.json");
    let bytes = file::read(&path, manifest::MOST_BYTES).map_err(|error| match error {
        FileError::Unreadable { .. } => {
            CliError::new(exit::NO_INPUT, format!("'{}' is no results folder: {error}", folder.display()))
        }
        _ => error.into(),
    })?;
    let wrong = |what: String| CliError::new(exit::DATA, format!("manifest '{}' {what}", path.display()));
    let text = std::str::from_utf8(&bytes).map_err(|error| wrong(format!("is not UTF-8 text: {error}")))?;
    if let Some(what) = too_long(text) {
        return Err(wrong(format!("holds {what}; it is damaged, or not ours")));
    }
    let text = made(text);
    let versioned = serde_json::from_str(&text).map_err(|error: serde_json::Error| match error.classify() {
        Category::Data => wrong("has no schema version, so it is none of tripmeter's".to_owned()),
        _ => wrong(format!("is not JSON: {error}; it may be cut off")),
    });
    let Versioned { schema_version: version } = versioned?;
    if version != SCHEMA_VERSION {
        return Err(wrong(format!("has schema version {version}, this tripmeter reads {SCHEMA_VERSION}")));
    }
    let read: Manifest = serde_json::from_str(&text).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    read.check().map_err(wrong)?;
    Ok(read)
}

/// What of a JSON text is longer than a manifest's may be: the first such string, or all lists together.
fn too_long(text: &str) -> Option<String> {
    let (mut begin, mut is_escaped) = (None, false);
    // Of each bracket that is open, whether it is a list's.
    let (mut open, mut elements, mut members) = (Vec::new(), 0, 0);
    for (at, byte) in text.bytes().enumerate() {
        match (byte, begin) {
            _ if is_escaped => is_escaped = false,
            (b'\\', _) => is_escaped = true,
            (b'"', None) => begin = Some(at + 1),
            (b'"', Some(from)) if at - from > manifest::MOST_TEXT_BYTES => {
                let (length, most) = (at - from, manifest::MOST_TEXT_BYTES);
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
        if members > manifest::MOST_MEMBERS {
            return Some(format!("objects of more than {} members in all, which are the most", manifest::MOST_MEMBERS));
        }
        if elements > manifest::MOST_ELEMENTS {
            return Some(format!("lists of more than {} elements in all, which are the most", manifest::MOST_ELEMENTS));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_is_found() {
        let with = |length: usize| format!("{{\"a\\\"\": 1, \"b\": \"{}\", \"c\": \"\"}}", "x".repeat(length));
        assert_eq!(too_long(&with(manifest::MOST_TEXT_BYTES)), None);
        assert!(too_long(&with(manifest::MOST_TEXT_BYTES + 1)).is_some_and(|what| what.contains("65537 bytes")));
    }

    #[test]
    fn elements_of_all_lists_are_counted_and_members_apart() {
        let most = manifest::MOST_ELEMENTS;
        let list = |elements: usize| format!("[{}]", vec!["\"\""; elements].join(","));
        let fields = vec!["\"a,[\\\"\": 1"; most + 1].join(", ");
        assert_eq!(too_long(&format!("{{\"b\": {}, {fields}}}", list(most))), None);
        assert!(too_long(&list(most + 1)).is_some());
        let members = |members: usize| format!("{{{}}}", vec!["\"\":1"; members].join(","));
        assert_eq!(too_long(&members(manifest::MOST_MEMBERS)), None);
        let told = too_long(&members(manifest::MOST_MEMBERS + 2));
        assert!(told.is_some_and(|what| what.contains("4000000 members")));
        let two = format!("{{\"a\": {}, \"b\": {{\"c\": {}}}}}", list(most / 2), list(most / 2 + 1));
        assert!(too_long(&two).is_some_and(|what| what.contains("250000 elements")));
    }
}
