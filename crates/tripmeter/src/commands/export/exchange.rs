//! Results in other programs' formats.

use crate::args::{ExchangeFormat, ExportArgs};
use crate::commands::show;
use crate::error::CliError;
use crate::output;
use crate::plotting::create_folder;
use crate::results::{listed, names};
use crate::sample_files::{self, SampleFile};
use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use tripmeter_engine::parquet;
use tripmeter_model::exit;
use tripmeter_model::expected::ExpectedRows;
use tripmeter_model::file::{self, write_named};
use tripmeter_model::manifest::{Manifest, SubExperimentResult};
use tripmeter_model::samples::{SAMPLES, copy_rows};
use tripmeter_model::verdict::{JudgedFolder, VerdictDocument, VerdictRow};
use tripmeter_report::document::Block;
use tripmeter_report::export::{self, ExportInput};
use tripmeter_report::{NamedResults, render};

/// Variable that names the file of GitHub's job summary.
const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";
const MOST_VERDICT_BYTES: u64 = 64 << 20;

pub fn export(args: &ExportArgs, format: ExchangeFormat) -> Result<u8, CliError> {
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
    match format {
        ExchangeFormat::Junit => written(args, &export::junit(&input)),
        ExchangeFormat::Bencher => {
            let (metrics, left_out) = export::bencher(&results);
            say_left_out(&left_out);
            written(args, &format!("{metrics:#}\n"))
        }
        ExchangeFormat::OpenMetrics => {
            let (gauges, left_out) = export::openmetrics(&results);
            say_left_out(&left_out);
            written(args, &gauges)
        }
        ExchangeFormat::Github => github(args, &input),
        ExchangeFormat::Parquet => parquet_files(args, &results),
    }
}

fn say_left_out(lines: &[String]) {
    lines.iter().for_each(|line| output::say(&format!("note: left out: {line}")));
}

fn read_verdict(file: &Path) -> Result<VerdictDocument, CliError> {
    let text = file::read(file, MOST_VERDICT_BYTES)?;
    VerdictDocument::read(&String::from_utf8_lossy(&text)).map_err(|why| {
        let text =
            format!("'{}' is not a verdict printed by `check`, `compare`, `history` or `ab`: {why}", file.display());
        CliError::new(exit::DATA, text)
    })
}

/// Checks that a verdict is about the exported results. The error names the results that it is about, and the remedy.
fn is_of(verdict: &VerdictDocument, file: &Path, folder: &Path, manifest: &Manifest) -> Result<(), CliError> {
    let judged = &verdict.judged;
    if judged.iter().any(|one| one.is_of(manifest)) {
        return Ok(());
    }
    let has_row = |row: &VerdictRow| {
        let mut planned = manifest.plan.sub_experiments.iter();
        planned.any(|plan| plan.name == row.sub_experiment && plan.payloads.contains(&row.payload_bytes))
    };
    // Documents before 1.1 do not name their results.
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
    let (file, place, command) = (file.display(), folder.display(), verdict.command);
    let text = format!(
        "'{file}' is the verdict on {others}, not on '{place}' (begun {}); export those, or judge '{place}' first \
         (`tripmeter {command} … --json`)",
        manifest.started
    );
    Err(CliError::new(exit::DATA, text))
}

fn written(args: &ExportArgs, text: &str) -> Result<u8, CliError> {
    match &args.output {
        Some(file) => output::write_file(file, text.as_bytes())?,
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
    let samples = match (&args.folders[..], results) {
        ([folder], [one]) => samples(folder, one.manifest)?,
        _ => Vec::new(),
    };
    create_folder(place)?;
    let named: Vec<(&str, &Manifest)> = results.iter().map(|one| (one.name, one.manifest)).collect();
    let document = tripmeter_report::figures(&named);
    let tables = document.blocks.iter().filter_map(|block| match block {
        Block::Table(table) => Some(render::csv(table)),
        _ => None,
    });
    let csv = tables.collect::<String>();
    let mut source = tempfile::NamedTempFile::new().map_err(cannot)?;
    source.write_all(csv.as_bytes()).map_err(cannot)?;
    let figures = place.join("figures.parquet");
    convert(&program, Some("--figures"), source.path(), &figures)?;
    samples.iter().try_for_each(|job| job.write(&program, place))?;
    Ok(exit::GOOD)
}

/// Converts one file, and prints its name.
fn convert(program: &Path, flag: Option<&str>, csv: &Path, file: &Path) -> Result<(), CliError> {
    let bytes = fs::metadata(csv).map_err(cannot)?.len();
    let flag = flag.map(OsStr::new);
    let arguments: Vec<_> = flag.into_iter().chain([csv.as_os_str(), file.as_os_str()]).collect();
    parquet::run(program, &arguments, bytes, &AtomicBool::new(false)).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => CliError::new(exit::DATA, format!("no Parquet: {error}")),
        _ => cannot(error),
    })?;
    output::print(&format!("{}\n", file.display()))
}

fn cannot(error: std::io::Error) -> CliError {
    CliError::new(exit::CANNOT_CREATE, format!("no Parquet: {error}"))
}

/// Complete samples of a sub-experiment in a round.
struct SamplesJob<'a> {
    result: &'a SubExperimentResult,
    file: SampleFile,
    /// True if the file also has rows that do not count.
    has_others: bool,
    /// Relative path of the output.
    within: PathBuf,
}

fn samples<'a>(folder: &Path, manifest: &'a Manifest) -> Result<Vec<SamplesJob<'a>>, CliError> {
    let job = |result: &'a SubExperimentResult| {
        let file = sample_files::find(folder, manifest, result)?;
        let has_others = match &file {
            SampleFile::Csv(csv) => sample_files::has_others(csv, result)?,
            SampleFile::Parquet(_) | SampleFile::None => false,
        };
        let round = PathBuf::from(sample_files::round_folder(manifest, result.round));
        let within = round.join(SAMPLES).join(format!("{}.parquet", result.name));
        Ok(SamplesJob { result, file, has_others, within })
    };
    manifest.sub_experiments.iter().map(job).collect()
}

impl SamplesJob<'_> {
    /// Writes the rows of counted trials as Parquet. A Parquet file made by the run is copied.
    fn write(&self, program: &Path, place: &Path) -> Result<(), CliError> {
        let file = place.join(&self.within);
        let folder = file.parent().unwrap_or(place);
        let beside = || {
            create_folder(folder)?;
            let permissions = fs::Permissions::from_mode(0o666);
            tempfile::Builder::new().prefix(".tripmeter-").permissions(permissions).tempfile_in(folder).map_err(cannot)
        };
        match &self.file {
            SampleFile::None => Ok(()),
            SampleFile::Parquet(made) => {
                let mut copy = beside()?;
                std::io::copy(&mut file::open(made)?, &mut copy).map_err(cannot)?;
                copy.persist(&file).map_err(|error| cannot(error.error))?;
                output::print(&format!("{}\n", file.display()))
            }
            SampleFile::Csv(csv) if self.has_others => {
                let (counted, mut expected) = (beside()?, ExpectedRows::of_result(self.result));
                copy_rows(csv, counted.path(), |row| expected.add(row))?;
                convert(program, None, counted.path(), &file)
            }
            SampleFile::Csv(csv) => {
                create_folder(folder)?;
                convert(program, None, csv, &file)
            }
        }
    }
}
