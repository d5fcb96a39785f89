//! `tripmeter eprosima process`: turns samples into summaries.

use super::folder::{ExperimentFolder, FinishedPayload, check_rows, counts, note_unfinished, sub_experiment, threads};
use crate::args::ProcessArgs;
use crate::error::CliError;
use crate::output;
use crate::plotting::{self, create_folder, draw_all, no_link};
use crate::results::{opened, round_of};
use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use tripmeter_eprosima::bytes::Bytes;
use tripmeter_eprosima::raw::Reader;
use tripmeter_eprosima::summary::{Summary, SummaryRow};
use tripmeter_eprosima::summary_row;
use tripmeter_model::exit;
use tripmeter_model::file::write_named;
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_report::plots::Options;
use tripmeter_report::plots::distribution::{histogram, series};
use tripmeter_report::plots::eprosima::subject;
use tripmeter_report::plots::samples::{Histogram, SampleSeries};

struct RawFile {
    raw: PathBuf,
    summary: PathBuf,
    /// Folder of both files; `None` if the user named both.
    folder: Option<FolderHandle>,
    name: String,
    /// Payloads that count; `None` if all do.
    finished: Option<Vec<FinishedPayload>>,
    plots: Option<PathBuf>,
}

/// Results from the samples of one payload.
struct Payload {
    bytes: Bytes,
    row: SummaryRow,
    shapes: Option<(Histogram, SampleSeries)>,
}

pub fn process(args: &ProcessArgs) -> Result<u8, CliError> {
    let options = args.plotting.options();
    args.plots_directory.as_deref().map_or(Ok(()), no_link)?;
    let (Some(raw), Some(summary)) = (&args.raw_csv, &args.output_csv) else {
        return folders(&args.folders, args.plots_directory.as_deref().map(|plots| (plots, options)));
    };
    if raw.canonicalize().is_ok_and(|raw| summary.canonicalize().is_ok_and(|summary| summary == raw)) {
        let text = format!("the summary would overwrite the samples in '{}'; name another file with -o", raw.display());
        return Err(CliError::new(exit::USAGE, text));
    }
    let name = raw.file_name().and_then(|name| name_of_samples(name.to_str()?)).unwrap_or_default().to_owned();
    let plots = args.plots_directory.clone();
    let job = RawFile { raw: raw.clone(), summary: summary.clone(), folder: None, name, finished: None, plots };
    let threads = threads();
    process_one(&Reader::new(threads).of_named(), threads, &job, options)?;
    Ok(exit::GOOD)
}

/// Summarises every sample file in results folders, and plots if a folder for plots is given. Prints errors, continues,
/// and returns the exit code.
///
/// Plots go to `<plots>/measurements_<name>`, those of rounds to `<plots>/round-<number>/measurements_<name>`. Fails if
/// a folder cannot be read, or holds no samples.
pub fn folders(folders: &[PathBuf], plots: Option<(&Path, Options)>) -> Result<u8, CliError> {
    let (mut jobs, mut code) = (Vec::new(), exit::GOOD);
    for folder in folders {
        match jobs_in_all(folder, None, plots) {
            Err(error) if error.code == exit::DATA && folders.len() > 1 => {
                output::say(&format!("tripmeter: {error}"));
                code = error.code;
            }
            found => jobs.extend(found?),
        }
    }
    Ok(code.max(process_all(jobs, plots.map(|(_, options)| options))))
}

/// Processes one open results folder, like [`folders`].
pub fn folder(handle: &FolderHandle, plots: (&Path, Options)) -> Result<u8, CliError> {
    Ok(process_all(jobs_in_all(handle.path(), Some(handle), Some(plots))?, Some(plots.1)))
}

fn jobs_in_all(
    folder: &Path,
    handle: Option<&FolderHandle>,
    plots: Option<(&Path, Options)>,
) -> Result<Vec<RawFile>, CliError> {
    let jobs = jobs_in(folder, handle, plots.map(|(plots, _)| plots))?;
    if jobs.is_empty() {
        let text = format!("'{}' has no measurements_*.csv; name the folder of an experiment", folder.display());
        return Err(CliError::new(exit::NO_INPUT, text));
    }
    Ok(jobs)
}

/// Processes all files, as many in parallel as there are CPUs; prints errors and returns the exit code.
fn process_all(mut jobs: Vec<RawFile>, options: Option<Options>) -> u8 {
    // Largest first, so that no large file is left for one CPU at the end.
    jobs.sort_by_cached_key(|job| Reverse(fs::metadata(&job.raw).map_or(0, |metadata| metadata.len())));
    // The plots of one file use all CPUs.
    let threads = threads();
    let workers = if options.is_some() { 1 } else { threads.min(jobs.len()) };
    let reader = Reader::new(threads);
    let next = AtomicUsize::new(0);
    let work = || {
        let mine = std::iter::from_fn(|| jobs.get(next.fetch_add(1, Ordering::Relaxed)));
        let each = |job| process_one(&reader, threads / workers, job, options.unwrap_or_default()).err();
        mine.filter_map(each).collect::<Vec<_>>()
    };
    let mut failed: Vec<CliError> = thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
        let mut failed = work();
        for other in others {
            failed.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        failed
    });
    failed.sort_by_key(|error| (error.code, error.to_string()));
    failed.iter().for_each(|error| output::say(&format!("tripmeter: {error}")));
    if !failed.is_empty() && jobs.len() > 1 {
        output::say(&format!("tripmeter: {} of {} files were not processed", failed.len(), jobs.len()));
    }
    failed.first().map_or(exit::GOOD, |error| error.code)
}

/// Writes the summary and the plots of a file; prints a note if there is nothing to summarise.
fn process_one(reader: &Reader, threads: usize, job: &RawFile, options: Options) -> Result<(), CliError> {
    let is_counted = |bytes: &Bytes| counts(job.finished.as_deref(), bytes);
    let found = reader.read(&job.raw, threads, is_counted, |bytes, samples| {
        let draw = job.plots.is_some();
        let shapes = draw
            .then(|| (Histogram::from_samples(samples, options.log), SampleSeries::from_samples(samples, options.log)));
        (summary_row(bytes, samples), shapes)
    })?;
    let payload = |(bytes, (row, shapes)): (Bytes, (Option<SummaryRow>, _))| {
        Some(Payload { row: SummaryRow { bytes: bytes.clone(), ..row? }, bytes, shapes })
    };
    let payloads = found.into_iter().filter_map(payload);
    let (payloads, others) = payloads.partition::<Vec<_>, _>(|payload| counts(job.finished.as_deref(), &payload.bytes));
    note_unfinished(&job.name, others.iter().map(|payload| &payload.bytes));
    let summary = Summary { rows: payloads.iter().map(|payload| payload.row.clone()).collect() };
    check_rows(&job.raw, job.finished.as_deref(), &summary.rows)?;
    if payloads.is_empty() {
        output::say(&format!("tripmeter: '{}' has no samples; its summary has only a header", job.raw.display()));
    }
    if let Some(folder) = job.plots.as_deref().filter(|_| !payloads.is_empty()) {
        create_folder(folder)?;
    }
    match &job.folder {
        None => write_named(&job.summary, &summary.to_csv())?,
        Some(folder) => {
            let name = job.summary.file_name().unwrap_or_default().to_string_lossy();
            folder.write(&name, &summary.to_csv())?;
        }
    }
    if let Some(folder) = &job.plots {
        let drawings = payloads.iter().flat_map(|payload| drawings(job, payload, options));
        draw_all(folder, drawings.collect())?;
    }
    Ok(())
}

fn drawings<'a>(job: &'a RawFile, payload: &'a Payload, options: Options) -> Vec<plotting::PictureJob<'a>> {
    let Some((counts, points)) = &payload.shapes else { return Vec::new() };
    let of = || subject(&job.name, &payload.bytes, Some(&payload.row));
    vec![Box::new(move || histogram(counts, &of(), &options)), Box::new(move || series(points, &of(), &options))]
}

fn jobs_in(folder: &Path, handle: Option<&FolderHandle>, plots: Option<&Path>) -> Result<Vec<RawFile>, CliError> {
    let unreadable = |error: std::io::Error| {
        let text = format!("'{}' is not a results folder: {error}", folder.display());
        CliError::new(exit::NO_INPUT, text)
    };
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let handle = handle.map_or_else(|| opened(folder), |handle| Ok(handle.clone()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>().map_err(unreadable)?;
    paths.sort();
    let mut jobs: Vec<RawFile> = Vec::new();
    for raw in paths {
        let file_name = raw.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if round_of(&file_name).is_some() && raw.is_dir() {
            no_link(&raw)?;
            let plots = plots.map(|plots| plots.join(&file_name));
            plots.as_deref().map_or(Ok(()), no_link)?;
            jobs.extend(jobs_in(&raw, None, plots.as_deref())?);
        } else if let Some(name) = name_of_samples(&file_name) {
            let summary = raw.with_file_name(format!("measurements_{name}_summary.csv"));
            // If a file has a compressed copy, the first of both is used.
            if !jobs.iter().any(|job| job.summary == summary) {
                let (name, plots) = (name.to_owned(), plots.map(|plots| plots.join(format!("measurements_{name}"))));
                plots.as_deref().map_or(Ok(()), no_link)?;
                jobs.push(RawFile { raw, summary, folder: Some(handle.clone()), name, finished: None, plots });
            }
        }
    }
    let is_here = |job: &RawFile| job.raw.parent() == Some(folder);
    if jobs.iter().any(is_here) {
        let experiment = ExperimentFolder::open(folder)?;
        experiment.check_files()?;
        jobs.retain(|job| !is_here(job) || experiment.sources.iter().any(|source| source.name == job.name));
        jobs.iter_mut().filter(|job| is_here(job)).for_each(|job| job.finished = experiment.finished(&job.name));
    }
    Ok(jobs)
}

/// Sub-experiment `x` of `measurements_x.csv` and `measurements_x.csv.gz`; `None` for a summary.
fn name_of_samples(file: &str) -> Option<&str> {
    sub_experiment(file).filter(|(_, is_summary)| !is_summary).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_samples_are_told_from_others() {
        assert_eq!(name_of_samples("measurements_uds_stream.csv"), Some("uds_stream"));
        assert_eq!(name_of_samples("measurements_x.csv.gz"), Some("x"));
        for other in ["measurements_x_summary.csv", "checks_x.csv", "measurements_x.hlog", "manifest.json"] {
            assert_eq!(name_of_samples(other), None);
        }
    }
}
