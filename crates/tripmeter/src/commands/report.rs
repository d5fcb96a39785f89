//! `tripmeter report`: writes results as one HTML page.

use super::{check, show};
use crate::ab_json::asked;
use crate::args::ReportArgs;
use crate::error::CliError;
use crate::results::{names, opened};
use crate::{explanation, output, sample_files, sample_plots};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tripmeter_analysis::JudgedResults;
use tripmeter_analysis::check::ResultsCheck;
use tripmeter_model::exit;
use tripmeter_model::explain::{Explanation, FILE};
use tripmeter_model::file::FileError;
use tripmeter_model::folder::REPORT;
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::manifest::Manifest;
use tripmeter_model::pattern::TrialEnd;
use tripmeter_report::document::Document;
use tripmeter_report::{NamedResults, PageChecks, PageInput, SampledTrial, page_of, render};

/// Maximum number of samples that a run reads back for its page; reading them takes a fraction of a second.
const MOST_SAMPLES: u64 = 1_000_000;

pub fn report(args: &ReportArgs) -> Result<u8, CliError> {
    no_folder_twice(&args.folders)?;
    let (file, own) = match (&args.output, &args.folders[..]) {
        (Some(file), _) => (file.clone(), None),
        (None, [folder]) if folder.join(FILE).exists() => {
            let page = folder.join(REPORT);
            let text = format!("'{}' is the page of `tripmeter explain`; name another file (-o FILE)", page.display());
            return Err(CliError::new(exit::USAGE, text));
        }
        (None, [folder]) => (folder.join(REPORT), Some(opened(folder)?)),
        (None, folders) => {
            let text = format!("{} folders were given, but no file for their page; name one (-o FILE)", folders.len());
            return Err(CliError::new(exit::USAGE, text));
        }
    };
    let manifests = args.folders.iter().map(|folder| show::read(folder)).collect::<Result<Vec<_>, _>>()?;
    let names = names(&args.folders);
    let results: Vec<_> =
        names.iter().zip(&manifests).map(|(name, manifest)| NamedResults { name, manifest }).collect();
    let limits = args.limits.as_ref().map(|file| checked(file, &manifests)).transpose()?.unwrap_or_default();
    let samples = args.folders.iter().zip(&manifests).enumerate();
    let samples = samples.map(|(index, (folder, manifest))| sample_plots::first_trials(index, folder, manifest));
    let samples = samples.collect::<Result<Vec<_>, _>>()?.concat();
    let checks = PageChecks { limits, pairs: args.folders.iter().map(|folder| asked(folder)).collect() };
    let page = html(&results, &samples, &checks);
    match own {
        Some(folder) => folder.write(REPORT, page.as_bytes())?,
        None => output::write_file(&file, page.as_bytes())?,
    }
    sample_files::note_absent(args.folders.iter().zip(&manifests));
    if !output::is_stdout(&file) {
        output::print(&format!("{}\n", file.display()))?;
    }
    Ok(exit::GOOD)
}

/// Refuses to compare results with themselves.
fn no_folder_twice(folders: &[PathBuf]) -> Result<(), CliError> {
    let real = |folder: &PathBuf| folder.canonicalize().unwrap_or_else(|_| folder.clone());
    let all: Vec<PathBuf> = folders.iter().map(real).collect();
    let twice = all.iter().enumerate().find(|(place, folder)| all[..*place].contains(folder));
    twice.map_or(Ok(()), |(place, _)| {
        let text = format!("'{}' is given twice; name each folder once", folders[place].display());
        Err(CliError::new(exit::USAGE, text))
    })
}

fn checked(file: &Path, manifests: &[Manifest]) -> Result<Vec<ResultsCheck>, CliError> {
    let limits = check::limits(file)?;
    let judged = |manifest: &Manifest| JudgedResults { manifest: manifest.clone(), allows_damage: false };
    let checks: Vec<_> = manifests.iter().map(|manifest| ResultsCheck::new(&limits, &judged(manifest))).collect();
    if checks.iter().all(|check| check.checked.is_empty()) {
        let names: Vec<String> = checks.iter().flat_map(|check| check.without_limits.clone()).collect();
        let (file, names) = (file.display(), names.join(", "));
        let text = format!("nothing to check: '{file}' has no limits for the sub-experiments in the results: {names}");
        return Err(CliError::new(exit::DATA, text));
    }
    Ok(checks)
}

/// Writes the findings of a command as the page of a results folder, and prints where unless `is_quiet`. If writing
/// fails, a note says so, because the results are valid without it. Fails only if the folder is gone.
pub fn of_document(found: &Document, command: &str, folder: &FolderHandle, is_quiet: bool) -> Result<(), CliError> {
    let title = format!("{command} · {}", crate::database::last_part(folder.path()));
    written(folder, &render::html(found, &title), is_quiet)
}

/// Writes an explanation as the page of its results folder, like [`of_document`].
pub fn of_explanation(found: &Explanation, folder: &FolderHandle, is_quiet: bool) -> Result<(), CliError> {
    of_document(&tripmeter_report::explain(found), "explain", folder, is_quiet)
}

fn written(folder: &FolderHandle, page: &str, is_quiet: bool) -> Result<(), CliError> {
    match folder.write(REPORT, page.as_bytes()) {
        Ok(()) if !is_quiet => output::say(&format!("report: {}", folder.path().join(REPORT).display())),
        Ok(()) => {}
        Err(FileError::Gone(gone)) => return Err(gone.into()),
        Err(error) => output::say(&format!("note: no report: {error}")),
    }
    Ok(())
}

/// Writes the page of results sent by another host, from their data. A page that came with them is removed, because it
/// could contain scripts of that host. Fails if it cannot be removed.
pub fn of_fetched(manifest: &Manifest, folder: &FolderHandle, is_wanted: bool) -> Result<(), CliError> {
    let came = folder.at(REPORT)?;
    let removed = match came.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(&came),
        Ok(_) => fs::remove_file(&came),
        Err(_) => Ok(()),
    };
    removed.map_err(|error| CliError::new(exit::CANNOT_CREATE, format!("its page cannot be removed: {error}")))?;
    if !is_wanted {
        return Ok(());
    }
    if !folder.path().join(FILE).exists() {
        return of_run(manifest, folder, true);
    }
    match explanation::read(folder.path()) {
        Ok(explanation) => of_explanation(&explanation, folder, true),
        Err(error) => {
            output::say(&format!("note: no report: {error}"));
            Ok(())
        }
    }
}

/// Writes the page of a run into its results folder, and prints where unless `is_quiet`. The run is valid without it.
/// Fails only if the folder is gone.
pub fn of_run(manifest: &Manifest, handle: &FolderHandle, is_quiet: bool) -> Result<(), CliError> {
    let folder = handle.path();
    let (name, manifest) = (crate::database::last_part(folder), show::printable(manifest));
    // Unreadable samples must not fail the run a second time.
    let samples = match first_samples(&manifest) {
        ..=MOST_SAMPLES => sample_plots::first_trials(0, folder, &manifest).unwrap_or_default(),
        _ if is_quiet => Vec::new(),
        many => {
            output::say(&format!(
                "note: the report has no charts of samples over time, as reading {many} samples takes long; `tripmeter \
                 report` draws them"
            ));
            Vec::new()
        }
    };
    let checks = PageChecks { limits: Vec::new(), pairs: vec![asked(folder)] };
    let page = html(&[NamedResults { name: &name, manifest: &manifest }], &samples, &checks);
    written(handle, &page, is_quiet)
}

/// Number of samples kept for the first payload and round of each sub-experiment. Sub-experiments whose trials end by
/// bounds do not count, because they keep few.
fn first_samples(manifest: &Manifest) -> u64 {
    let plan = &manifest.plan;
    if plan.raw.is_none() {
        return 0;
    }
    let is_whole = |name: &str| {
        plan.sub_experiments.iter().any(|sub| sub.name == name && sub.trial_end() != Some(TrialEnd::Bounds))
    };
    let mut seen = BTreeSet::new();
    let first = manifest.sub_experiments.iter().filter(|one| is_whole(&one.name) && seen.insert(&one.name));
    first.filter_map(|result| result.cells.first()).map(|cell| cell.samples).fold(0, u64::saturating_add)
}

fn html(results: &[NamedResults<'_>], samples: &[SampledTrial], checks: &PageChecks) -> String {
    let names: Vec<&str> = results.iter().map(|one| one.name).collect();
    let title = match results {
        // The source "flags" does not identify the results.
        [one] if ["flags", one.name].contains(&one.manifest.plan.source.as_str()) => one.name.to_owned(),
        [one] => format!("{} · {}", one.manifest.plan.source, one.name),
        _ => names.join(" · "),
    };
    render::html(&page_of(&PageInput { results, samples, check: Some(checks) }), &title)
}
