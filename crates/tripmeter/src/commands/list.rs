use crate::args::ListArgs;
use crate::error::CliError;
use crate::{embedded, experiment, output};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use tripmeter_abi::{Description, NodeOptions, Role, Status, Variant, Wait};
use tripmeter_engine::registry::{Entry, RegistryError, SystemSource};
use tripmeter_engine::scratch::{fresh_run_id, temporary_folder};
use tripmeter_model::exit;
use tripmeter_model::figure::Figure;
use tripmeter_model::pattern::DEFAULT_PATTERN;
use tripmeter_model::payload::{HEADER_BYTES, display_size};

#[derive(Serialize)]
struct SystemRow<'a> {
    system: &'a str,
    aliases: &'a [String],
    summary: &'a str,
    language: &'a str,
    /// `built-in`, `plugin` or `missing`.
    source: &'static str,
    file: Option<&'a Path>,
    available: bool,
    /// Reason why it cannot be used, and the remedy.
    reason: Option<String>,
    packages: &'a [String],
    /// Resources that others can reach while it is measured.
    open_to_others: &'a [String],
    build: &'a str,
    description: Option<&'a Description>,
    variants: Vec<Here<'a>>,
}

/// State of a variant on this machine, with default settings.
#[derive(Serialize)]
struct Here<'a> {
    variant: &'a str,
    available: bool,
    /// True if its daemon must be started first, which `run` does.
    daemon_missing: bool,
    reason: Option<String>,
    max_payload_bytes: Option<u64>,
    /// Maximum bytes per send call; 0 if messages are not split.
    packet_bytes: Option<u64>,
}

pub fn list(args: &ListArgs) -> Result<u8, CliError> {
    match &args.what.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["presets"] => print_all(&presets()?, args.json, |rows| {
            let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
            rows.iter().map(|row| format!("{:width$}  {}\n", row.name, row.summary)).collect()
        })?,
        ["figures"] => print_all(&figures(), args.json, |rows| {
            let width = rows.iter().map(|row| row.figure.len()).max().unwrap_or(0);
            rows.iter().map(|row| format!("{:width$}  {}; better: {}\n", row.figure, row.help, row.better)).collect()
        })?,
        _ => return systems(args),
    }
    Ok(exit::GOOD)
}

fn print_all<T: Serialize>(rows: &[T], is_json: bool, text: impl FnOnce(&[T]) -> String) -> Result<(), CliError> {
    output::print(&match is_json {
        true => serde_json::to_string_pretty(rows).expect("rows are plain data") + "\n",
        false => text(rows),
    })
}

#[derive(Serialize)]
struct PresetRow {
    name: &'static str,
    summary: String,
}

fn presets() -> Result<Vec<PresetRow>, CliError> {
    let row = |&(name, _): &(&'static str, _)| {
        Ok(PresetRow { name, summary: embedded::preset_experiment(name)?.summary.unwrap_or_default() })
    };
    embedded::presets().iter().map(row).collect()
}

/// A figure, as in `metrics.csv`.
#[derive(Serialize)]
struct FigureRow {
    figure: &'static str,
    unit: &'static str,
    better: &'static str,
    help: &'static str,
}

fn figures() -> Vec<FigureRow> {
    Figure::ALL
        .iter()
        .map(|figure| FigureRow {
            figure: figure.id(),
            unit: figure.unit().as_str(),
            better: figure.better().into(),
            help: figure.help(),
        })
        .collect()
}

fn systems(args: &ListArgs) -> Result<u8, CliError> {
    let program = experiment::program()?;
    let registry = experiment::registry(&args.plugins, &program)?;
    let entries: Vec<&Entry> = if args.what.is_empty() {
        registry.entries().iter().collect()
    } else {
        args.what.iter().map(|system| registry.get(system)).collect::<Result<_, _>>()?
    };
    let scratch = temporary_folder(&fresh_run_id())
        .map_err(|error| CliError::new(exit::CANNOT_CREATE, format!("cannot create a scratch folder: {error}")))?;
    let rows: Vec<SystemRow> = entries.into_iter().map(|entry| row(entry, scratch.path())).collect();
    let text = if args.json {
        serde_json::to_string_pretty(&rows).expect("rows are plain data") + "\n"
    } else {
        rows.iter().map(paragraph).collect::<Vec<_>>().join("\n")
    };
    output::print(&text)?;
    Ok(exit::GOOD)
}

fn row<'a>(entry: &'a Entry, scratch: &Path) -> SystemRow<'a> {
    let description = entry.describe();
    let variants: Vec<Here> = match description {
        Ok(description) => {
            description.variants.iter().map(|variant| here(entry, description, variant, scratch)).collect()
        }
        Err(_) => Vec::new(),
    };
    let first_reason = || variants.iter().find_map(|here| here.reason.clone());
    let available = variants.iter().any(|here| here.available);
    SystemRow {
        system: entry.system(),
        aliases: &entry.sidecar.aliases,
        summary: match description {
            Ok(description) if entry.sidecar.summary.is_empty() => &description.summary,
            _ => &entry.sidecar.summary,
        },
        language: &entry.sidecar.language,
        source: match entry.source {
            SystemSource::BuiltIn(_) => "built-in",
            SystemSource::Plugin(_) => "plugin",
            SystemSource::Missing { .. } => "missing",
        },
        file: entry.plugin_file(),
        available,
        reason: match (description, available) {
            (Err(RegistryError::Missing { reason, .. }), _) => Some(reason.clone()),
            (Err(error), _) => Some(error.to_string()),
            (Ok(_), false) => first_reason(),
            (Ok(_), true) => None,
        },
        packages: &entry.sidecar.packages,
        open_to_others: &entry.sidecar.open_to_others,
        build: &entry.sidecar.build,
        description: description.ok(),
        variants,
    }
}

fn here<'a>(entry: &Entry, description: &Description, variant: &'a Variant, scratch: &Path) -> Here<'a> {
    let settings: BTreeMap<String, String> =
        description.settings.iter().map(|setting| (setting.name.clone(), setting.default.clone())).collect();
    let probed = entry.probe(&NodeOptions {
        role: Role::Leader,
        pattern: variant.patterns.first().copied().unwrap_or(DEFAULT_PATTERN),
        wait: variant.waits.first().copied().unwrap_or(Wait::Poll),
        variant: variant.name.clone(),
        settings,
        run_id: fresh_run_id(),
        scratch_dir: scratch.to_path_buf(),
        max_payload_bytes: HEADER_BYTES,
        link_count: 1,
        follower_count: 1,
        follower_index: 0,
        unauthorized_peer: None,
        local_address: None,
        publisher_count: 1,
    });
    let no_daemon = matches!(&probed, Err(RegistryError::Refused(error)) if error.status == Status::NoDaemon);
    let limits = probed.as_ref().ok();
    Here {
        variant: &variant.name,
        available: limits.is_some() || no_daemon,
        daemon_missing: no_daemon,
        max_payload_bytes: limits.map(|limits| limits.max_payload_bytes),
        packet_bytes: limits.map(|limits| limits.packet_bytes),
        reason: probed.err().map(|error| error.to_string()),
    }
}

/// Text of a row: a headline, one line per variant, and the settings.
fn paragraph(row: &SystemRow) -> String {
    let mut text = format!("{}: {}\n", row.system, row.summary);
    if !row.aliases.is_empty() {
        text += &format!("  also called {}\n", row.aliases.join(", "));
    }
    let Some(description) = row.description else {
        let label = if row.source == "missing" { "MISSING" } else { "NOT HERE" };
        return text + &format!("  {label}: {}\n", row.reason.as_deref().unwrap_or_default());
    };
    let version = &description.version;
    text += &format!("  {} {version} ({}), drives {}\n", row.source, row.language, description.system_version);
    let width = row.variants.iter().map(|here| here.variant.len()).max().unwrap_or(0);
    for (variant, here) in description.variants.iter().zip(&row.variants) {
        let does = [words(&variant.patterns), words(&variant.waits), properties(variant)].join("; ");
        text += &format!("  {}/{:width$}  {does}", row.system, variant.name);
        text += &match (here.max_payload_bytes, &here.reason) {
            (Some(bytes), _) => format!("; up to {}\n", size(bytes)),
            (None, Some(reason)) if here.available => format!("\n    {reason} (started for measurements)\n"),
            (None, reason) => format!("\n    NOT HERE: {}\n", reason.as_deref().unwrap_or_default()),
        };
    }
    for setting in &description.settings {
        text += &format!("  ?{}={}  {}: {}\n", setting.name, setting.default, setting.summary, setting.values);
    }
    row.open_to_others.iter().for_each(|what| text += &format!("  open to others: {what}\n"));
    text
}

fn words<T: ToString>(words: &[T]) -> String {
    words.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn properties(variant: &Variant) -> String {
    let properties = [
        (variant.zero_copy, "zero-copy"),
        (!variant.zero_copy, "copies"),
        (variant.lossy, "lossy"),
        (variant.remote, "remote"),
        (variant.secure, "secure"),
        (variant.same_process, "within one process"),
        (variant.fan_out, "fan-out"),
        (variant.publishers, "several publishers"),
        (variant.broker, "through a broker"),
    ];
    properties.iter().filter(|(holds, _)| *holds).map(|(_, word)| *word).collect::<Vec<_>>().join(", ")
}

/// Size limit as text: in bytes, or in MB from 1 MiB on.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{} bytes", display_size(bytes)),
        _ => format!("{} MB", bytes >> 20),
    }
}
