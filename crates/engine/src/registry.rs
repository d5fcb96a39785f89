//! Known systems: built in, found as plugins, or missing.
//!
//! Plugins are foreign code, and two of them may conflict in one process. So this process never loads one: a child
//! process loads it, reports its answers, and ends (see `child`). Only workers keep a plugin loaded, one each.

mod child;
mod error;

use crate::lanes::AnySystem;
use crate::os;
use crate::suggest::did_you_mean;
use child::{ChildAnswer, Request};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tripmeter_abi::{DaemonCommand, Description, Limits, NodeOptions, Variant};
use tripmeter_model::sidecar::Sidecar;

pub use child::{Prober, answer};
pub use error::RegistryError;

#[derive(Clone)]
pub enum SystemSource {
    BuiltIn(Arc<dyn AnySystem>),
    Plugin(PathBuf),
    /// Not found: known only by its sidecar.
    Missing {
        /// Reason, with the fix.
        reason: String,
    },
}

pub struct Entry {
    /// Facts that need no library; default values for a plugin without a sidecar.
    pub sidecar: Sidecar,
    pub source: SystemSource,
    prober: Prober,
    description: OnceLock<Result<Description, RegistryError>>,
}

impl Entry {
    fn new(sidecar: Sidecar, source: SystemSource, prober: &Prober) -> Self {
        Self { sidecar, source, prober: prober.clone(), description: OnceLock::new() }
    }

    pub fn system(&self) -> &str {
        &self.sidecar.system
    }

    /// Note on environment variables that the system ignores, if any is set in `environment` or in this process.
    pub fn ignores(&self, environment: &BTreeMap<String, String>) -> Option<String> {
        let is_set = |name: &&str| environment.contains_key(*name) || std::env::var_os(name).is_some();
        let names: Vec<&str> = self.sidecar.ignores_environment.iter().map(String::as_str).filter(is_set).collect();
        let (system, list) = (self.system(), names.join(", "));
        let hint = format!("`tripmeter list {system}` lists its settings");
        (!names.is_empty()).then(|| format!("transport '{system}' ignores {list} in the environment; {hint}"))
    }

    /// Description of the system; asked only once.
    ///
    /// # Errors
    /// If it is missing, cannot be loaded, or its process dies.
    pub fn describe(&self) -> Result<&Description, &RegistryError> {
        self.description.get_or_init(|| self.ask_description()).as_ref()
    }

    fn ask_description(&self) -> Result<Description, RegistryError> {
        let description = match &self.source {
            SystemSource::BuiltIn(system) => system.description(),
            SystemSource::Plugin(file) => match self.ask(file, &Request::Describe)? {
                ChildAnswer::Description(description) => description,
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

    /// Limits of the system with these options, if it can run here; see `System::probe`. [`RegistryError::Refused`] has
    /// the transport's reason.
    pub fn probe(&self, options: &NodeOptions) -> Result<Limits, RegistryError> {
        match &self.source {
            SystemSource::BuiltIn(system) => Ok(system.probe(options)?),
            SystemSource::Plugin(file) => {
                let request = Request::Probe(options.clone());
                match self.ask(file, &request)? {
                    ChildAnswer::Limits(limits) => Ok(limits),
                    _ => Err(self.nonsense(&request)),
                }
            }
            SystemSource::Missing { reason } => Err(self.missing(reason)),
        }
    }

    /// Command that starts its daemon for these options; `None` if it has none. See `System::daemon_command`.
    pub fn daemon_command(&self, options: &NodeOptions) -> Result<Option<DaemonCommand>, RegistryError> {
        match &self.source {
            SystemSource::BuiltIn(system) => Ok(system.daemon_command(options)?),
            SystemSource::Plugin(file) => {
                let request = Request::DaemonCommand(options.clone());
                match self.ask(file, &request)? {
                    ChildAnswer::DaemonCommand(command) => Ok(command),
                    _ => Err(self.nonsense(&request)),
                }
            }
            SystemSource::Missing { reason } => Err(self.missing(reason)),
        }
    }

    pub fn plugin_file(&self) -> Option<&Path> {
        match &self.source {
            SystemSource::Plugin(file) => Some(file),
            _ => None,
        }
    }

    /// Advice on how to get the system: install command and packages. Empty if unknown.
    pub fn remedy(&self) -> String {
        remedy(&self.sidecar)
    }

    fn ask(&self, file: &Path, request: &Request) -> Result<ChildAnswer, RegistryError> {
        match child::ask(&self.prober, file, self.system(), request)? {
            ChildAnswer::Refused { status, message } => Err(tripmeter_abi::Error::new(status, message).into()),
            ChildAnswer::NotLoaded { library: Some(library), .. } => Err(self.missing_library(library)),
            ChildAnswer::NotLoaded { message, .. } => Err(RegistryError::NotLoaded(message)),
            reply => Ok(reply),
        }
    }

    fn nonsense(&self, request: &Request) -> RegistryError {
        let how = "gave an answer that does not match the question".to_owned();
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

/// Advice that names the install command and Debian packages; empty for a plugin without a sidecar.
fn remedy(sidecar: &Sidecar) -> String {
    if sidecar.build.is_empty() {
        return String::new();
    }
    let packages = match &sidecar.packages[..] {
        [] => String::new(),
        packages => format!(" (packages needed: {})", packages.join(", ")),
    };
    format!("; install it with `tripmeter install {}`{packages}", sidecar.system)
}

/// Known systems: first those built in, in their order, then the others by name.
pub struct Registry {
    entries: Vec<Entry>,
}

impl Registry {
    /// Collects all systems. Plugins `tripmeter_<system>.so` in the folders `search` are only listed; of several with
    /// one name, the first is taken. Files in `plugins` are asked for their names at once, and take precedence.
    ///
    /// # Errors
    /// If one of `plugins` cannot be read, is not a transport, or has a name in use.
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
                let conflict = "which exists already; name each system once".to_owned();
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

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Names, as `system/variant`, of matching variants of all systems that can be described.
    pub fn variants_with(&self, is_meant: fn(&Variant) -> bool) -> Vec<String> {
        let described = self.entries.iter().filter_map(|entry| entry.describe().ok());
        let of = |description: &Description| -> Vec<String> {
            let meant = description.variants.iter().filter(|variant| is_meant(variant));
            meant.map(|variant| format!("{}/{}", description.system, variant.name)).collect()
        };
        described.flat_map(of).collect()
    }

    /// Finds a system by name, or else by alias.
    pub fn find(&self, name_or_alias: &str) -> Option<&Entry> {
        let named = self.entries.iter().find(|entry| entry.system() == name_or_alias);
        named.or_else(|| {
            self.entries.iter().find(|entry| entry.sidecar.aliases.iter().any(|alias| alias == name_or_alias))
        })
    }

    /// Finds a system like [`find`](Self::find); the error suggests a name.
    pub fn get(&self, name_or_alias: &str) -> Result<&Entry, RegistryError> {
        self.find(name_or_alias).ok_or_else(|| {
            let aliases = self.entries.iter().flat_map(|entry| entry.sidecar.aliases.iter().map(String::as_str));
            let names = self.entries.iter().map(Entry::system).chain(aliases);
            RegistryError::Unknown { name: name_or_alias.to_owned(), hint: did_you_mean(name_or_alias, names) }
        })
    }

    pub fn plugins(&self) -> BTreeMap<String, PathBuf> {
        let plugins = self.entries.iter().filter_map(|entry| Some((entry.system(), entry.plugin_file()?)));
        plugins.map(|(system, file)| (system.to_owned(), file.to_path_buf())).collect()
    }

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

/// Entry for a given file, under the name that the plugin reports.
fn ask_for_name(file: &Path, sidecars: &BTreeMap<String, Sidecar>, prober: &Prober) -> Result<Entry, RegistryError> {
    let unreadable =
        |error: std::io::Error| RegistryError::NoFile { file: file.to_path_buf(), reason: error.to_string() };
    let file = file.canonicalize().map_err(unreadable)?;
    // Opening a FIFO must not block.
    File::options().read(true).custom_flags(os::NO_WAIT).open(&file).map_err(unreadable)?;
    let nameless =
        Entry::new(made_up(&file.display().to_string(), "unknown"), SystemSource::Plugin(file.clone()), prober);
    let ChildAnswer::Description(description) = nameless.ask(&file, &Request::Describe)? else {
        return Err(nameless.nonsense(&Request::Describe));
    };
    let system = description.system.clone();
    let sidecar = sidecars.get(&system).cloned().unwrap_or_else(|| made_up(&system, "unknown"));
    let entry = Entry::new(sidecar, SystemSource::Plugin(file), prober);
    entry.description.get_or_init(|| Ok(description));
    Ok(entry)
}

/// Plugins in these folders, by name of the system. Missing folders are skipped.
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
