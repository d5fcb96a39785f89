//! Results in the formats of other programs.

use super::{names, show};
use crate::args::{ExportArgs, ExportFormat};
use crate::error::CliError;
use crate::output;
use crate::plotting::create_folder;
use crate::results::listed;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use tripmeter_engine::parquet;
use tripmeter_model::exit;
use tripmeter_model::file::{self, write_named};
use tripmeter_model::manifest::Manifest;
use tripmeter_model::verdict::{JudgedFolder, VerdictDocument, VerdictRow};
use tripmeter_report::document::Block;
use tripmeter_report::export::{self, ExportInput};
use tripmeter_report::{NamedResults, render};

/// Where GitHub wants the summary of a job.
const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";
/// Most that is read of a verdict.
const MOST_VERDICT_BYTES: u64 = 64 << 20;

/// `tripmeter export --format junit|github|bencher|openmetrics|parquet`
pub fn export(args: &ExportArgs) -> Result<u8, CliError> {
    if args.log || !args.tables.is_empty() {
        let text = "--log is for png and svg, --tables for csv, json and markdown; leave them out";
        return Err(CliError::new(exit::USAGE, text));
    }
    if args.sorting.sort.is_some() {
        return Err(CliError::new(exit::USAGE, "--sort is for csv, json and markdown; leave it out"));
    }
    let verdict = args.verdict.as_deref().map(read_verdict).transpose()?;
    let manifests = args.folders.iter().map(|folder| show::read(folder)).collect::<Result<Vec<_>, _>>()?;
    if let (Some(verdict), Some(file)) = (&verdict, &args.verdict) {
        args.folders
            .iter()
            .zip(&manifests)
            .try_for_each(|(folder, manifest)| is_of(verdict, file, folder, manifest))?;
    }
    let names = names(&args.folders);
    let results: Vec<_> =
        names.iter().zip(&manifests).map(|(name, manifest)| NamedResults { name, manifest }).collect();
    let input = ExportInput { results: &results, verdict: verdict.as_ref() };
    match args.format {
        ExportFormat::Junit => written(args, &export::junit(&input)),
        ExportFormat::Bencher => written(args, &format!("{:#}\n", export::bencher(&results))),
        ExportFormat::OpenMetrics => written(args, &export::openmetrics(&results)),
        ExportFormat::Github => github(args, &input),
        ExportFormat::Parquet => parquet_files(args, &results),
        ExportFormat::Plots(_) | ExportFormat::Table(_) => unreachable!("they are no formats of other programs"),
    }
}

fn read_verdict(file: &Path) -> Result<VerdictDocument, CliError> {
    let text = file::read(file, MOST_VERDICT_BYTES)?;
    VerdictDocument::read(&String::from_utf8_lossy(&text)).map_err(|why| {
        let text =
            format!("'{}' is no verdict that `check`, `compare`, `history` or `ab` printed: {why}", file.display());
        CliError::new(exit::DATA, text)
    })
}

/// A verdict is exported with the results that it is of.
///
/// # Errors
/// If it is of others, with which, and what to do.
fn is_of(verdict: &VerdictDocument, file: &Path, folder: &Path, manifest: &Manifest) -> Result<(), CliError> {
    let judged = &verdict.judged;
    if judged.iter().any(|one| one.is_of(manifest)) {
        return Ok(());
    }
    let has_row = |row: &VerdictRow| {
        let mut planned = manifest.plan.sub_experiments.iter();
        planned.any(|plan| plan.name == row.sub_experiment && plan.payloads.contains(&row.payload_bytes))
    };
    // Documents before 1.1 do not say what they are of.
    if judged.is_empty() && (verdict.figures.is_empty() || verdict.figures.iter().any(has_row)) {
        return Ok(());
    }
    let name = |one: &JudgedFolder| match &one.folder {
        Some(folder) => format!("'{folder}' (begun {})", one.started),
        None => format!("results begun {}", one.started),
    };
    let others = if judged.is_empty() {
        "other results".to_owned()
    } else {
        listed(&judged.iter().map(name).collect::<Vec<_>>())
    };
    let (file, place, command) = (file.display(), folder.display(), verdict.command.name());
    let text = format!(
        "'{file}' is the verdict of {others}, not of '{place}' (begun {}); export those, or judge '{place}' first \
         (`tripmeter {command} … --json`)",
        manifest.started
    );
    Err(CliError::new(exit::DATA, text))
}

fn written(args: &ExportArgs, text: &str) -> Result<u8, CliError> {
    match &args.output {
        Some(file) => write_named(file, text.as_bytes())?,
        None => output::print(text)?,
    }
    Ok(exit::GOOD)
}

fn github(args: &ExportArgs, input: &ExportInput<'_>) -> Result<u8, CliError> {
    let summary = export::github_summary(input);
    if let Some(file) = &args.output {
        write_named(file, summary.as_bytes())?;
    } else if let Some(file) = std::env::var_os(STEP_SUMMARY).map(PathBuf::from).filter(|file| *file != PathBuf::new())
    {
        let appended = fs::OpenOptions::new().append(true).create(true).open(&file);
        appended.and_then(|mut open| open.write_all(summary.as_bytes())).map_err(|error| {
            CliError::new(
                exit::CANNOT_CREATE,
                format!("'{}' ({STEP_SUMMARY}) cannot be written: {error}", file.display()),
            )
        })?;
    }
    output::print(&export::github_commands(input))?;
    Ok(exit::GOOD)
}

fn parquet_files(args: &ExportArgs, results: &[NamedResults<'_>]) -> Result<u8, CliError> {
    let Some(place) = &args.output else {
        return Err(CliError::new(exit::USAGE, "--format parquet writes several files; name their folder (-o DIR)"));
    };
    let program = crate::experiment::program()?;
    let program = crate::experiment::parquet_program(&program, "`--format parquet`", "choose `--format csv`")?;
    create_folder(place)?;
    let named: Vec<(&str, &Manifest)> = results.iter().map(|one| (one.name, one.manifest)).collect();
    let document = tripmeter_report::figures(&named);
    let tables = document.blocks.iter().filter_map(|block| match block {
        Block::Table(table) => Some(render::csv(table)),
        _ => None,
    });
    let csv = tables.collect::<String>();
    let cannot = |error: std::io::Error| CliError::new(exit::CANNOT_CREATE, format!("no Parquet: {error}"));
    let mut source = tempfile::NamedTempFile::new().map_err(cannot)?;
    source.write_all(csv.as_bytes()).map_err(cannot)?;
    let mut files = vec![(source.path().to_owned(), place.join("figures.parquet"), Some("--figures"))];
    if let [folder] = &args.folders[..] {
        files.extend(samples(folder, place)?);
    }
    for (csv, file, flag) in files {
        if let Some(parent) = file.parent() {
            create_folder(parent)?;
        }
        let bytes = fs::metadata(&csv).map_err(cannot)?.len();
        let flag = flag.map(std::ffi::OsStr::new);
        let arguments: Vec<_> = flag.into_iter().chain([csv.as_os_str(), file.as_os_str()]).collect();
        parquet::run(&program, &arguments, bytes, &AtomicBool::new(false)).map_err(|error| match error.kind() {
            ErrorKind::InvalidData => CliError::new(exit::DATA, format!("no Parquet: {error}")),
            _ => cannot(error),
        })?;
        output::print(&format!("{}\n", file.display()))?;
    }
    Ok(exit::GOOD)
}

type ParquetJob = (PathBuf, PathBuf, Option<&'static str>);

/// The CSV files of samples below a results folder, with the file that each becomes.
fn samples(folder: &Path, place: &Path) -> Result<Vec<ParquetJob>, CliError> {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let found = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut found: Vec<PathBuf> = found.collect();
        found.sort();
        found
    };
    let is_round = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("round-"));
    let mut jobs = Vec::new();
    for round in [folder.to_owned()].into_iter().chain(entries(folder).into_iter().filter(is_round)) {
        for csv in entries(&round.join("samples")) {
            let is_csv = csv.extension().is_some_and(|end| end == "csv");
            if is_csv && let Ok(within) = csv.strip_prefix(folder) {
                if !fs::symlink_metadata(&csv).is_ok_and(|one| one.is_file()) {
                    return Err(CliError::new(exit::NO_INPUT, format!("'{}' is no file of samples", csv.display())));
                }
                jobs.push((csv.clone(), place.join(within).with_extension("parquet"), None));
            }
        }
    }
    Ok(jobs)
}
