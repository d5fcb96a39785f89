//! Draws plots on all CPUs, and writes each of them whole or not at all.

use crate::error::CliError;
use std::num::NonZero;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tripmeter_model::exit;
use tripmeter_model::file::write_whole;
use tripmeter_report::plots::{Picture, PlotError};

pub type PictureJob<'a> = Box<dyn FnOnce() -> Result<Picture, PlotError> + Send + 'a>;

/// Draws all pictures into the folder, which is created; returns their paths in the order of the jobs. Fails if the
/// folder is a link, or for the first picture that fails; those written before it stay.
pub fn draw_all(folder: &Path, jobs: Vec<PictureJob<'_>>) -> Result<Vec<PathBuf>, CliError> {
    no_link(folder)?;
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = cpus.min(jobs.len());
    let queue = Mutex::new(jobs.into_iter().enumerate());
    let failed = AtomicBool::new(false);
    let next = || queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
    let work = || -> Result<Vec<(usize, PathBuf)>, CliError> {
        let mut written = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let Some((index, job)) = next() else { break };
            let path = draw(folder, job).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
            written.push((index, path));
        }
        Ok(written)
    };
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let mut written = Vec::new();
    for outcome in outcomes {
        let panicked = || CliError::new(exit::SOFTWARE, "a plot could not be drawn: its thread panicked");
        written.extend(outcome.map_err(|_| panicked())??);
    }
    written.sort_by_key(|(index, _)| *index);
    Ok(written.into_iter().map(|(_, path)| path).collect())
}

fn draw(folder: &Path, job: PictureJob<'_>) -> Result<PathBuf, CliError> {
    let picture = job().map_err(|error| CliError::new(exit::SOFTWARE, error.to_string()))?;
    // A second check: names of sub-experiments are also checked where they are read.
    if !Path::new(&picture.path).components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(CliError::new(exit::DATA, format!("the plot '{}' would leave its folder", picture.path)));
    }
    let path = folder.join(&picture.path);
    let mut inside = folder.to_path_buf();
    for part in Path::new(&picture.path).parent().into_iter().flat_map(Path::components) {
        inside.push(part);
        no_link(&inside)?;
    }
    path.parent().map_or(Ok(()), create_folder)?;
    write_whole(&path, &picture.bytes)?;
    Ok(path)
}

/// Refuses to write through a link, which may lead anywhere. Fails if the folder is a link.
pub fn no_link(folder: &Path) -> Result<(), CliError> {
    // A trailing slash would follow the link.
    match folder.components().as_path().is_symlink() {
        true => {
            let text = format!("'{}' is a link, which is not followed for writing; remove it", folder.display());
            Err(CliError::new(exit::CANNOT_CREATE, text))
        }
        false => Ok(()),
    }
}

/// Creates a folder for plots and its parents. Call it before any other output, so that a wrong name leaves nothing
/// behind. Fails if the folder cannot be created, or is a link.
pub fn create_folder(folder: &Path) -> Result<(), CliError> {
    no_link(folder)?;
    let failed = |error| format!("the folder '{}' cannot be created: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(|error| CliError::new(exit::CANNOT_CREATE, failed(error)))
}
