//! `tripmeter fleet`: runs one command on many hosts, or between pairs of them.

mod asked;
mod measure;
mod measuring_command;

use crate::args::FleetArgs;
use crate::commands::{report, show};
use crate::error::CliError;
use crate::lock::CommandFolder;
use crate::output;
use crate::signals::{signals_end_us, stop_on_signals};
use asked::FleetAsked;
use measure::{FETCHED, measure};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::{fs, io};
use tripmeter_analysis::Selection;
use tripmeter_engine::results::{dated, holds_nothing};
use tripmeter_model::bounds::MOST_BYTES;
use tripmeter_model::exit;
use tripmeter_model::file::{FileError, read};
use tripmeter_model::fleet::{FILE, Fleet, FleetHost, FleetJob, FleetState, SCHEMA_VERSION};
use tripmeter_model::folder::{REPORT, check_version_of};
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_report::{FleetFigure, FleetResults, fleet_figures, fleet_page};

pub fn fleet(args: &FleetArgs) -> Result<u8, CliError> {
    let asked = FleetAsked::new(args)?;
    let selection = Selection::asked(&args.figures.figures)
        .map_err(|why| CliError::new(exit::USAGE, format!("{why} (--figures)")))?;
    let stop = stop_on_signals()?;
    let pushed = asked.pushed()?;
    let folder = match &args.output {
        Some(folder) => folder.clone(),
        None => dated(Path::new("results")).map_err(tripmeter_engine::RunError::from)?,
    };
    let taken = CommandFolder::take(&folder, "fleet", "-o")?;
    let mut fleet = resumed(&folder, &taken.folder, &asked)?;
    taken.folder.write_json(FILE, &fleet)?;
    measure(&asked, pushed.as_ref(), &taken.folder, &mut fleet, &stop)?;
    signals_end_us();
    tell(args, &folder, &taken.folder, &fleet, &selection)?;
    let waiting = fleet.jobs.iter().filter(|job| job.state == FleetState::Waiting).count();
    let is_stopped = waiting > 0;
    if is_stopped {
        output::say(&format!(
            "interrupted: {waiting} of {} are not measured yet; repeat the command with `-o {}` to measure them",
            fleet.jobs.len(),
            folder.display()
        ));
    }
    Ok(if is_stopped { exit::INTERRUPTED } else { exit_code(&fleet) })
}

/// Jobs to run, including those already measured. Fails if the folder belongs to another command, or to none.
fn resumed(folder: &Path, handle: &FolderHandle, asked: &FleetAsked<'_>) -> Result<Fleet, CliError> {
    let mut fleet = asked.fleet.clone();
    let failed = |error: std::io::Error| CliError::from(FileError::reading(folder, &error));
    let file = folder.join(FILE);
    if !file.exists() {
        if holds_nothing(folder).map_err(failed)? {
            return Ok(fleet);
        }
        let text =
            format!("'{}' has files that are not results of a fleet; name another folder (-o)", folder.display());
        return Err(CliError::new(exit::CANNOT_CREATE, text));
    }
    let earlier = earlier(&file)?;
    let differs = |what| {
        let text = format!("'{}' belongs to another {what}; name another folder (-o)", folder.display());
        Err(CliError::new(exit::DATA, text))
    };
    match () {
        () if earlier.command != fleet.command => return differs("command"),
        () if earlier.mode != fleet.mode => return differs("mode"),
        () if earlier.experiment != fleet.experiment => return differs("experiment"),
        () => {}
    }
    let is_same = |host: &FleetHost| {
        let mut measured = earlier.jobs.iter().filter(|job| job.state == FleetState::Measured);
        let has_results = measured.any(|job| job.hosts().any(|name| name == host.name));
        !has_results || earlier.hosts.iter().all(|old| old.name != host.name || old == host)
    };
    if let Some(host) = fleet.hosts.iter().find(|host| !is_same(host)) {
        let text = format!(
            "host '{}' had another address or interface when '{}' was measured; rename the host, or name another \
             folder (-o)",
            host.name,
            folder.display()
        );
        return Err(CliError::new(exit::DATA, text));
    }
    let is_known = |name: &str| fleet.hosts.iter().any(|host| host.name == name);
    let measured = earlier.jobs.into_iter().filter(|job| job.state == FleetState::Measured);
    let there: Vec<_> = measured.filter(|job| job.hosts().all(is_known) && folder.join(job.name()).is_dir()).collect();
    for job in there {
        match fleet.jobs.iter_mut().find(|new| new.is_like(&job)) {
            Some(new) => *new = job,
            // Requested by an earlier command.
            None => fleet.jobs.push(job),
        }
    }
    for job in fleet.jobs.iter_mut().filter(|job| job.state == FleetState::Waiting) {
        let there = folder.join(job.name());
        if show::read(&there).is_err() {
            continue;
        }
        // fleet.json forgets a host while HOSTS.toml does not list it, and its address may have changed since.
        let is_known = |name: &str| fleet.hosts.iter().any(|host| host.name == name && earlier.hosts.contains(host));
        if let Some(name) = job.hosts().find(|name| !is_known(name)) {
            let text = format!(
                "'{}' exists, but the address of host '{name}' at that time is unknown; remove it to measure again, or \
                 name another folder (-o)",
                there.display()
            );
            return Err(CliError::new(exit::DATA, text));
        }
        job.state = FleetState::Measured;
    }
    remove_unpacked(handle).map_err(failed)?;
    Ok(fleet)
}

/// Removes results that an earlier process had only partly unpacked. The lock keeps others from unpacking anything now.
fn remove_unpacked(handle: &FolderHandle) -> io::Result<()> {
    for entry in fs::read_dir(handle.at("")?)?.filter_map(Result::ok) {
        let is_left = entry.file_name().as_encoded_bytes().starts_with(FETCHED.as_bytes());
        if is_left && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

fn earlier(file: &Path) -> Result<Fleet, CliError> {
    let wrong = |what: String| CliError::from(FileError::wrong(file, what));
    let bytes = read(file, MOST_BYTES)?;
    let json: serde_json::Value = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    check_version_of(&json["schema_version"], SCHEMA_VERSION).map_err(wrong)?;
    serde_json::from_value(json).map_err(|error| wrong(error.to_string()))
}

fn tell(
    args: &FleetArgs,
    folder: &Path,
    handle: &FolderHandle,
    fleet: &Fleet,
    selection: &Selection,
) -> Result<(), CliError> {
    let figures = figures(folder, fleet, selection)?;
    let has_page = |job: &&FleetJob| folder.join(job.name()).join(REPORT).exists();
    let pages = fleet.jobs.iter().filter(has_page).map(FleetJob::name).collect();
    let results = FleetResults { fleet, figures: &figures, pages };
    report::of_document(&fleet_page(&results), "fleet", handle, args.quiet)?;
    if args.json {
        let mut json = json!(fleet);
        json["figures"] = json!(figures);
        return output::print(&format!("{json:#}\n"));
    }
    output::print_document(&tripmeter_report::fleet(&results))?;
    output::print(&format!("\n{}\n", folder.display()))
}

fn figures(folder: &Path, fleet: &Fleet, selection: &Selection) -> Result<Vec<FleetFigure>, CliError> {
    let mut figures = Vec::new();
    for job in fleet.jobs.iter().filter(|job| job.state == FleetState::Measured) {
        let results: PathBuf = folder.join(job.name());
        match show::read(&results) {
            Ok(manifest) => figures.extend(fleet_figures(job, &manifest, selection)),
            Err(error) => output::say(&format!("note: left out: '{}': {error}", job.name())),
        }
    }
    Ok(figures)
}

fn exit_code(fleet: &Fleet) -> u8 {
    let code = |job: &FleetJob| match job.state {
        FleetState::Measured => job.exit_code.unwrap_or(exit::GOOD),
        FleetState::Waiting | FleetState::Failed => exit::PARTIAL,
    };
    match fleet.jobs.iter().map(code).max().unwrap_or(exit::GOOD) {
        _ if fleet.jobs.iter().all(|job| job.state == FleetState::Failed) => exit::UNAVAILABLE,
        code if code >= exit::USAGE => exit::PARTIAL,
        code => code,
    }
}
