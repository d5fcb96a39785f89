//! `tripmeter install SYSTEM...`: installs Debian packages, Python packages, and the plugin.

mod python;

use crate::args::InstallArgs;
use crate::error::CliError;
use crate::{embedded, experiment, output};
use python::PythonEnvironment;
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tripmeter_engine::parquet;
use tripmeter_engine::suggest::did_you_mean;
use tripmeter_model::exit;
use tripmeter_model::sidecar::Sidecar;

/// Script in the source tree that builds plugins.
const BUILD: &str = "scripts/build-transports.sh";
/// Name for the Parquet writer, which belongs to no system.
const PARQUET: &str = "parquet";
/// Debian package of the Parquet writer.
const PARQUET_DEB: &str = "tripmeter-parquet";

/// Prints the steps and runs them. An error names the first step that fails, and the remedy.
pub fn install(args: &InstallArgs) -> Result<u8, CliError> {
    let sidecars = embedded::sidecars();
    let is_wanted = |sidecar: &&Sidecar| match args.python {
        true => !sidecar.python_packages.is_empty(),
        false => !sidecar.build.is_empty(),
    };
    let chosen: Vec<&Sidecar> = match args.all {
        true => sidecars.iter().filter(is_wanted).collect(),
        false => {
            let systems = args.systems.iter().filter(|name| *name != PARQUET);
            systems.map(|system| find(&sidecars, system)).collect::<Result<_, _>>()?
        }
    };
    let data = experiment::data_folder().ok_or_else(|| {
        let text = "neither XDG_DATA_HOME nor HOME is set; set one of them to choose the install folder";
        CliError::new(exit::CANNOT_CREATE, text)
    })?;
    let steps = Steps::new(args, &chosen, &data)?;
    if !args.quiet || args.dry_run {
        steps.say();
    }
    if !args.dry_run {
        steps.take(args.quiet)?;
    }
    Ok(exit::GOOD)
}

fn find<'a>(sidecars: &'a [Sidecar], system: &str) -> Result<&'a Sidecar, CliError> {
    let found = sidecars.iter().find(|sidecar| sidecar.system == system || sidecar.aliases.iter().any(|a| a == system));
    found.ok_or_else(|| {
        let hint = did_you_mean(system, sidecars.iter().map(|sidecar| sidecar.system.as_str()));
        CliError::new(exit::USAGE, format!("unknown transport '{system}'{hint}; `tripmeter list` lists them"))
    })
}

struct Steps<'a> {
    packages: Vec<&'a str>,
    /// Python environments that are missing or old, with their folders.
    python: Vec<(&'a Sidecar, PathBuf)>,
    /// Python environments already installed.
    finished: Vec<PathBuf>,
    plugins: Vec<&'a str>,
    /// True if the Parquet writer is built as well.
    parquet: bool,
    source: Option<PathBuf>,
    /// Output folder of the build.
    built: PathBuf,
    /// Systems without a package, if there are no sources to build them from.
    left_out: Vec<&'a str>,
}

impl<'a> Steps<'a> {
    fn new(args: &InstallArgs, chosen: &[&'a Sidecar], data: &Path) -> Result<Self, CliError> {
        let environments = chosen.iter().filter(|sidecar| !sidecar.python_packages.is_empty());
        let environments = environments.map(|&sidecar| (sidecar, data.join("python").join(&sidecar.system)));
        let (finished, python): (Vec<_>, Vec<_>) =
            environments.partition(|(sidecar, folder)| PythonEnvironment { sidecar, folder }.is_finished());
        let finished = finished.into_iter().map(|(_, folder)| folder).collect();
        if args.python {
            let none = |sidecar: &&&Sidecar| sidecar.python_packages.is_empty();
            if let Some(sidecar) = chosen.iter().find(none) {
                let text = format!("'{}' needs no Python packages; leave --python out", sidecar.system);
                return Err(CliError::new(exit::USAGE, text));
            }
            return Ok(Self {
                packages: Vec::new(),
                python,
                finished,
                plugins: Vec::new(),
                parquet: false,
                source: None,
                built: PathBuf::new(),
                left_out: Vec::new(),
            });
        }
        let parquet = args.all || args.systems.iter().any(|name| name == PARQUET);
        let (source, program) = (source(args)?, experiment::program()?);
        let is_prebuilt =
            |one: &Sidecar| !one.deb.is_empty() || experiment::is_beside_plugins(&plugin_file(one), &program);
        let (chosen, left_out): (Vec<&Sidecar>, Vec<&Sidecar>) =
            chosen.iter().partition(|one| source.is_some() || !args.all || is_prebuilt(one));
        let left_out = left_out.into_iter().map(|one| one.system.as_str()).collect();
        let mut plugins: Vec<&Sidecar> = chosen.iter().copied().filter(|one| !one.build.is_empty()).collect();
        if source.is_none() {
            // Plugins that a package has installed need no sources.
            plugins.retain(|one| !experiment::is_beside_plugins(&plugin_file(one), &program));
            let no_parquet = parquet && !experiment::is_beside_plugins(parquet::PROGRAM, &program);
            if no_parquet || !plugins.is_empty() {
                return Err(not_built(&plugins, no_parquet));
            }
        }
        let (parquet, is_built) = (parquet && source.is_some(), source.is_some());
        let plugins = plugins.into_iter().map(|one| one.system.as_str()).collect();
        let mut packages: Vec<&str> = chosen
            .iter()
            .flat_map(|sidecar| &sidecar.packages)
            .map(String::as_str)
            .filter(|one| (is_built || !one.ends_with("-dev")) && !is_there(one))
            .collect();
        packages.sort_unstable();
        packages.dedup();
        let built = source.as_deref().map(|source| experiment::folder_of_built(source, &program, data));
        let built = built.unwrap_or_default();
        Ok(Self { packages, python, finished, plugins, parquet, source, built, left_out })
    }

    fn say(&self) {
        if !self.packages.is_empty() {
            output::say(&format!("Debian packages, by apt-get: {}", self.packages.join(" ")));
        }
        for (sidecar, folder) in &self.python {
            let count = sidecar.python_packages.len();
            output::say(&format!("Python packages of {}: {count}, in '{}'", sidecar.system, folder.display()));
        }
        let folder = self.built.display();
        if let (false, Some(source)) = (self.plugins.is_empty(), &self.source) {
            let (script, plugins) = (source.join(BUILD), self.plugins.join(" "));
            output::say(&format!("plugins, by '{}': {plugins}, in '{folder}'", script.display()));
        }
        if let (true, Some(source)) = (self.parquet, &self.source) {
            let script = source.join(BUILD);
            output::say(&format!("a program that writes Parquet, by '{} --parquet', in '{folder}'", script.display()));
        }
        if !self.left_out.is_empty() {
            let systems = self.left_out.join(", ");
            output::say(&format!(
                "left out, because no package has the plugin: {systems}; name the sources (--source DIR)"
            ));
        }
        if self.packages.is_empty() && self.python.is_empty() && self.plugins.is_empty() && !self.parquet {
            output::say("everything is there");
        }
    }

    fn take(&self, quiet: bool) -> Result<(), CliError> {
        if !self.packages.is_empty() {
            install_packages(&self.packages)?;
        }
        for (sidecar, folder) in &self.python {
            PythonEnvironment { sidecar, folder }.make(quiet)?;
            output::print(&format!("{}\n", folder.display()))?;
        }
        for folder in &self.finished {
            output::print(&format!("{}\n", folder.display()))?;
        }
        let Some(source) = &self.source else { return Ok(()) };
        if !self.plugins.is_empty() {
            build(source, &self.plugins, &self.built)?;
        }
        if self.parquet {
            build(source, &["--parquet"], &self.built)?;
        }
        Ok(())
    }
}

fn plugin_file(one: &Sidecar) -> String {
    format!("tripmeter_{}.so", one.system)
}

/// Error that says how to get missing plugins without the sources.
fn not_built(plugins: &[&Sidecar], parquet: bool) -> CliError {
    let own = parquet.then_some(PARQUET);
    let names: Vec<&str> = plugins.iter().map(|one| one.system.as_str()).chain(own).collect();
    let packages = plugins.iter().map(|one| one.deb.as_str()).chain(own.map(|_| PARQUET_DEB));
    let packages: BTreeSet<&str> = packages.filter(|package| !package.is_empty()).collect();
    let prebuilt = match packages.into_iter().collect::<Vec<_>>() {
        none if none.is_empty() => String::new(),
        some => format!("install the Debian packages that have them ({}), ", some.join(", ")),
    };
    let text = format!(
        "building plugins ({}) needs the project's sources, which are not beside this program; {prebuilt}name their \
         folder (--source DIR), or install only Python packages (--python)",
        names.join(", ")
    );
    CliError::new(exit::UNAVAILABLE, text)
}

/// Sources of the project: those named, or those that this program was built from.
fn source(args: &InstallArgs) -> Result<Option<PathBuf>, CliError> {
    let is_source = |folder: &Path| folder.join(BUILD).is_file();
    if let Some(folder) = &args.source {
        return match is_source(folder) {
            true => Ok(Some(folder.clone())),
            false => {
                let text = format!("'{}' has no {BUILD}; name the folder of the project's sources", folder.display());
                Err(CliError::new(exit::NO_INPUT, text))
            }
        };
    }
    let program = experiment::program()?;
    Ok(program.ancestors().skip(1).find(|folder| is_source(folder)).map(Path::to_path_buf))
}

/// True if a Debian package is installed; false without dpkg.
fn is_there(package: &str) -> bool {
    let asked =
        Command::new("dpkg-query").args(["-W", "-f", "${db:Status-Status}", package]).stderr(Stdio::null()).output();
    asked.is_ok_and(|output| output.stdout == b"installed")
}

fn install_packages(packages: &[&str]) -> Result<(), CliError> {
    let line = format!("apt-get install --no-install-recommends {}", packages.join(" "));
    let unavailable = |why: &str| CliError::new(exit::UNAVAILABLE, format!("{why}; as root: {line}"));
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let has_terminal = std::io::stdin().is_terminal();
    let as_root: &[&str] = match (is_root, has_terminal) {
        (true, _) => &[],
        (false, true) => &["sudo"],
        // Without a terminal nobody could type a password.
        (false, false) => &["sudo", "-n"],
    };
    let apt = |arguments: &[&str]| {
        let words = [as_root, &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"], arguments].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(if has_terminal { Stdio::inherit() } else { Stdio::null() });
        // Standard output is for data only.
        match command.stdout(std::io::stderr()).status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(unavailable(&format!("Debian packages are not installed: apt-get failed ({status})"))),
            Err(error) => Err(unavailable(&format!("Debian packages are not installed: `{}`: {error}", words[0]))),
        }
    };
    apt(&["update"])?;
    apt(&[&["install", "-y", "--no-install-recommends"], packages].concat())
}

fn build(source: &Path, arguments: &[&str], folder: &Path) -> Result<(), CliError> {
    let script = source.join(BUILD);
    let mut command = Command::new(&script);
    let command = command.args(arguments).env("OUT", folder).stdin(Stdio::null());
    let status = command.stdout(std::io::stderr()).status();
    let failed = |why: String| CliError::new(exit::UNAVAILABLE, format!("'{}' {why}", script.display()));
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(format!("failed ({status}); see above for what is missing"))),
        Err(error) => Err(failed(format!("cannot be started: {error}"))),
    }
}
