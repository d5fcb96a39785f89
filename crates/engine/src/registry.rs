//! The known systems: built in, found as plugins, or missing.
//!
//! A plugin is code of others, and two of them may not get along in one process. So this process never loads one: a
//! child process does, says what the plugin says, and ends (see `child`). Only the workers load plugins for good, one each.

mod child;
mod error;

use crate::lanes::AnySystem;
use crate::os;
use crate::suggest::did_you_mean;
use child::{ChildReply, Request};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tripmeter_abi::{DaemonCommand, Description, Limits, NodeOptions, Variant};
use tripmeter_model::sidecar::Sidecar;

pub use child::{Prober, answer};
pub use error::RegistryError;

/// Where a system comes from.
#[derive(Clone)]
pub enum SystemSource {
    /// Linked into this program.
    BuiltIn(Arc<dyn AnySystem>),
    /// A shared library, not loaded yet.
    Plugin(PathBuf),
    /// Known by its sidecar only.
    Missing {
        /// What keeps it from being here, and what to do.
        reason: String,
    },
}

/// One known system.
pub struct Entry {
    /// What is known without its library; made up for a plugin that brings none.
    pub sidecar: Sidecar,
    /// Where it comes from.
    pub source: SystemSource,
    prober: Prober,
    description: OnceLock<Result<Description, RegistryError>>,
}

impl Entry {
    fn new(sidecar: Sidecar, source: SystemSource, prober: &Prober) -> Self {
        Self { sidecar, source, prober: prober.clone(), description: OnceLock::new() }
    }

    /// The system's name.
    pub fn system(&self) -> &str {
        &self.sidecar.system
    }

    /// What to tell if variables are set that the system ignores: in `environment`, or in that of this process.
    pub fn ignores(&self, environment: &BTreeMap<String, String>) -> Option<String> {
        let is_set = |name: &&str| environment.contains_key(*name) || std::env::var_os(name).is_some();
        let names: Vec<&str> = self.sidecar.ignores_environment.iter().map(String::as_str).filter(is_set).collect();
        let (system, list) = (self.system(), names.join(", "));
        let hint = format!("`tripmeter list {system}` lists its settings");
        (!names.is_empty()).then(|| format!("transport '{system}' ignores {list} of the environment; {hint}"))
    }

    /// What the system says of itself; asked once.
    ///
    /// # Errors
    /// If it is missing, cannot be loaded, or did not survive the question.
    pub fn describe(&self) -> Result<&Description, &RegistryError> {
        self.description.get_or_init(|| self.ask_description()).as_ref()
    }

    fn ask_description(&self) -> Result<Description, RegistryError> {
        let description = match &self.source {
            SystemSource::BuiltIn(system) => system.description(),
            SystemSource::Plugin(file) => match self.ask(file, &Request::Describe)? {
                ChildReply::Description(description) => description,
                _ => return Err(self.nonsense(&Request::Describe)),
            },
            SystemSource::Missing { reason } => return Err(self.missing(reason)),
        };
        if description.system == self.sidecar.system {
            return Ok(description);
        }
        let file = self.plugin_file().map(Path::to_path_buf).unwrap_or_default();
        let conflict = format!("but its file name or sidecar says '{}'", self.sidecar.system);
        Err(RegistryError::Name { file, system: description.system, conflict })
    }

    /// Can it run here with these options? See `System::probe`.
    ///
    /// # Errors
    /// As [`describe`](Self::describe), and [`RegistryError::Refused`] with the transport's own reason.
    pub fn probe(&self, options: &NodeOptions) -> Result<Limits, RegistryError> {
        match &self.source {
            SystemSource::BuiltIn(system) => Ok(system.probe(options)?),
            SystemSource::Plugin(file) => {
                let request = Request::Probe(options.clone());
                match self.ask(file, &request)? {
                    ChildReply::Limits(limits) => Ok(limits),
                    _ => Err(self.nonsense(&request)),
                }
            }
            SystemSource::Missing { reason } => Err(self.missing(reason)),
        }
    }

    /// How to start its daemon for these options; `None` if it has none. See `System::daemon_command`.
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    pub fn daemon_command(&self, options: &NodeOptions) -> Result<Option<DaemonCommand>, RegistryError> {
        match &self.source {
            SystemSource::BuiltIn(system) => Ok(system.daemon_command(options)?),
            SystemSource::Plugin(file) => {
                let request = Request::DaemonCommand(options.clone());
                match self.ask(file, &request)? {
                    ChildReply::DaemonCommand(command) => Ok(command),
                    _ => Err(self.nonsense(&request)),
                }
            }
            SystemSource::Missing { reason } => Err(self.missing(reason)),
        }
    }

    /// The shared library, if it is a plugin.
    pub fn plugin_file(&self) -> Option<&Path> {
        match &self.source {
            SystemSource::Plugin(file) => Some(file),
            _ => None,
        }
    }

    /// What a user can do to get it: packages and the command that builds it; empty if nothing is known.
    pub fn remedy(&self) -> String {
        remedy(&self.sidecar)
    }

    fn ask(&self, file: &Path, request: &Request) -> Result<ChildReply, RegistryError> {
        match child::ask(&self.prober, file, self.system(), request)? {
            ChildReply::Refused { status, message } => Err(tripmeter_abi::Error::new(status, message).into()),
            ChildReply::NotLoaded { library: Some(library), .. } => Err(self.missing_library(library)),
            ChildReply::NotLoaded { message, .. } => Err(RegistryError::NotLoaded(message)),
            reply => Ok(reply),
        }
    }

    fn nonsense(&self, request: &Request) -> RegistryError {
        let how = "gave an answer that does not belong to the question".to_owned();
        let transport = self.system().to_owned();
        RegistryError::Died { transport, how, phase: request.phase(), words: String::new() }
    }

    fn missing(&self, reason: &str) -> RegistryError {
        RegistryError::Missing { system: self.system().to_owned(), reason: reason.to_owned() }
    }

    fn missing_library(&self, library: String) -> RegistryError {
        let remedy = match self.remedy() {
            none if none.is_empty() => "; install it, or put its folder in LD_LIBRARY_PATH".to_owned(),
            remedy => remedy,
        };
        RegistryError::MissingLibrary { system: self.system().to_owned(), library, remedy }
    }
}

/// The command that installs it, and what it needs of Debian; empty of a plugin that nothing but its file is known of.
fn remedy(sidecar: &Sidecar) -> String {
    if sidecar.build.is_empty() {
        return String::new();
    }
    let packages = match &sidecar.packages[..] {
        [] => String::new(),
        packages => format!(" (packages needed: {})", packages.join(", ")),
    };
    format!("; `tripmeter install {}` gets it{packages}", sidecar.system)
}

/// All known systems: those built in, in their order, then the others by name.
pub struct Registry {
    entries: Vec<Entry>,
}

impl Registry {
    /// Collects what is known. Plugins `tripmeter_<system>.so` in the folders `search` are only listed, the first of a name
    /// wins; the files `plugins` are asked for their names at once, and go before those.
    ///
    /// # Errors
    /// If one of `plugins` cannot be read, is no transport, or has a name that is taken.
    pub fn new(
        sidecars: Vec<Sidecar>,
        builtin: Vec<Arc<dyn AnySystem>>,
        search: &[PathBuf],
        plugins: &[PathBuf],
        prober: impl Into<Prober>,
    ) -> Result<Registry, RegistryError> {
        let prober = &prober.into();
        let mut sidecars: BTreeMap<String, Sidecar> =
            sidecars.into_iter().map(|sidecar| (sidecar.system.clone(), sidecar)).collect();
        let mut entries = Vec::new();
        for system in builtin {
            let description = system.description();
            let sidecar = sidecars.remove(&description.system).unwrap_or_else(|| made_up(&description.system, "rust"));
            entries.push(Entry::new(sidecar, SystemSource::BuiltIn(system), prober));
        }
        let mut given = Vec::new();
        for file in plugins {
            let entry = ask_for_name(file, &sidecars, prober)?;
            if entries.iter().chain(&given).any(|other: &Entry| other.system() == entry.system()) {
                let conflict = "which is there already; give one system once".to_owned();
                let system = entry.system().to_owned();
                return Err(RegistryError::Name { file: file.clone(), system, conflict });
            }
            sidecars.remove(entry.system());
            given.push(entry);
        }
        let mut rest: Vec<Entry> = found_in(search)
            .into_iter()
            .filter(|(system, _)| !entries.iter().chain(&given).any(|entry| entry.system() == system))
            .map(|(system, file)| {
                let sidecar = sidecars.remove(&system).unwrap_or_else(|| made_up(&system, "unknown"));
                Entry::new(sidecar, SystemSource::Plugin(file), prober)
            })
            .collect();
        rest.extend(given);
        rest.extend(sidecars.into_values().map(|sidecar| {
            let reason = format!("not built{}", remedy(&sidecar));
            Entry::new(sidecar, SystemSource::Missing { reason }, prober)
        }));
        rest.sort_by(|a, b| a.system().cmp(b.system()));
        entries.extend(rest);
        Ok(Registry { entries })
    }

    /// All of them.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Names of all variants, as `system/variant`, of which that is true and which describe themselves.
    pub fn variants_with(&self, is_meant: fn(&Variant) -> bool) -> Vec<String> {
        let described = self.entries.iter().filter_map(|entry| entry.describe().ok());
        let of = |description: &Description| -> Vec<String> {
            let meant = description.variants.iter().filter(|variant| is_meant(variant));
            meant.map(|variant| format!("{}/{}", description.system, variant.name)).collect()
        };
        described.flat_map(of).collect()
    }

    /// The system of that name, or else the one with that alias.
    pub fn find(&self, name_or_alias: &str) -> Option<&Entry> {
        let named = self.entries.iter().find(|entry| entry.system() == name_or_alias);
        named.or_else(|| {
            self.entries.iter().find(|entry| entry.sidecar.aliases.iter().any(|alias| alias == name_or_alias))
        })
    }

    /// As [`find`](Self::find), with an error that says what name may have been meant.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`].
    pub fn get(&self, name_or_alias: &str) -> Result<&Entry, RegistryError> {
        self.find(name_or_alias).ok_or_else(|| {
            let aliases = self.entries.iter().flat_map(|entry| entry.sidecar.aliases.iter().map(String::as_str));
            let names = self.entries.iter().map(Entry::system).chain(aliases);
            RegistryError::Unknown { name: name_or_alias.to_owned(), hint: did_you_mean(name_or_alias, names) }
        })
    }

    /// The shared libraries of the systems that are plugins.
    pub fn plugins(&self) -> BTreeMap<String, PathBuf> {
        let plugins = self.entries.iter().filter_map(|entry| Some((entry.system(), entry.plugin_file()?)));
        plugins.map(|(system, file)| (system.to_owned(), file.to_path_buf())).collect()
    }

    /// The shared library of a system, if it is a plugin.
    pub fn plugin_file(&self, system: &str) -> Option<&Path> {
        self.find(system).and_then(Entry::plugin_file)
    }
}

fn made_up(system: &str, language: &str) -> Sidecar {
    Sidecar {
        system: system.to_owned(),
        summary: String::new(),
        aliases: Vec::new(),
        packages: Vec::new(),
        python_packages: Vec::new(),
        python_sources: Vec::new(),
        ignores_environment: Vec::new(),
        names_outside: BTreeMap::new(),
        open_to_others: Vec::new(),
        deb: String::new(),
        build: String::new(),
        language: language.to_owned(),
    }
}

/// An entry for a file given outright, under the name that the plugin itself gives.
fn ask_for_name(file: &Path, sidecars: &BTreeMap<String, Sidecar>, prober: &Prober) -> Result<Entry, RegistryError> {
    let unreadable =
        |error: std::io::Error| RegistryError::NoFile { file: file.to_path_buf(), reason: error.to_string() };
    let file = file.canonicalize().map_err(unreadable)?;
    // A FIFO keeps nobody waiting.
    File::options().read(true).custom_flags(os::NO_WAIT).open(&file).map_err(unreadable)?;
    let nameless =
        Entry::new(made_up(&file.display().to_string(), "unknown"), SystemSource::Plugin(file.clone()), prober);
    let ChildReply::Description(description) = nameless.ask(&file, &Request::Describe)? else {
        return Err(nameless.nonsense(&Request::Describe));
    };
    let system = description.system.clone();
    let sidecar = sidecars.get(&system).cloned().unwrap_or_else(|| made_up(&system, "unknown"));
    let entry = Entry::new(sidecar, SystemSource::Plugin(file), prober);
    entry.description.get_or_init(|| Ok(description));
    Ok(entry)
}

/// The plugins in these folders, by system; a folder that is not there has none.
fn found_in(search: &[PathBuf]) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for folder in search {
        // The processes that load them have another working directory.
        let Ok(files) = std::path::absolute(folder).and_then(std::fs::read_dir) else { continue };
        for file in files.flatten() {
            let name = file.file_name();
            let system = name
                .to_str()
                .and_then(|name| name.strip_prefix("tripmeter_"))
                .and_then(|name| name.strip_suffix(".so"));
            if let Some(system) = system.filter(|system| !system.is_empty()) {
                found.entry(system.to_owned()).or_insert_with(|| file.path());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
