//! Request to a fleet, checked before any host is contacted.

use super::measuring_command::MeasuringCommand;
use crate::args::{Cli, ExperimentArgs, FleetArgs, Written};
use crate::error::{CliError, in_one_line};
use crate::measurement::Prepared;
use clap::Parser;
use std::path::Path;
use tripmeter_engine::hosts::Pushed;
use tripmeter_model::exit;
use tripmeter_model::experiment::Experiment;
use tripmeter_model::file::read;
use tripmeter_model::fleet::{Fleet, FleetHost, FleetJob, FleetMode, HostsFile, SCHEMA_VERSION, jobs};
use tripmeter_model::name::is_name;
use tripmeter_model::toml_text::one_line;

/// Maximum size of a host file, or of an experiment file.
const MOST_BYTES: u64 = 16 << 20;
/// Name of the experiment file on a host, if its local name has unusual characters.
const EXPERIMENT: &str = "experiment.toml";

pub struct FleetAsked<'a> {
    pub args: &'a FleetArgs,
    /// All jobs, none of them measured.
    pub fleet: Fleet,
    /// Command to run on a host.
    words: Vec<String>,
    file: Option<String>,
    /// Parsed experiment, if the command measures one.
    experiment: Option<ExperimentArgs>,
    /// True if results get a page, which this host makes.
    pub has_pages: bool,
    /// True if the command already has `--quiet`.
    is_quiet: bool,
}

impl<'a> FleetAsked<'a> {
    /// Reads the hosts, and checks the command. Fails if the command does not measure, has flags that a fleet sets, or
    /// the host file is invalid.
    pub fn new(args: &'a FleetArgs) -> Result<Self, CliError> {
        let hosts = hosts(&args.hosts)?;
        let center = center(args, &hosts)?;
        if args.mode != FleetMode::Hosts && hosts.len() < 2 {
            let text = format!(
                "'{}': a pair needs two hosts, but there is only 1; add another, or use --mode hosts",
                args.hosts.display()
            );
            return Err(CliError::new(exit::DATA, text));
        }
        if args.mode == FleetMode::Hosts && args.both_ways {
            return Err(CliError::new(
                exit::USAGE,
                "--both-ways requires pairs; leave out --both-ways or --mode hosts",
            ));
        }
        let cli = Cli::try_parse_from([&["tripmeter".to_owned()][..], &args.command].concat());
        let cli = cli.map_err(|error| {
            let is_help = !error.use_stderr();
            let why = if is_help {
                "fleet does not show the command's help; run the command without fleet".into()
            } else {
                in_one_line(&error)
            };
            CliError::new(exit::USAGE, format!("after '--': {why}"))
        })?;
        let command = cli.command.measuring().ok_or_else(|| {
            let text =
                format!("after '--': '{}' is not a measuring command; `tripmeter --help` lists them", args.command[0]);
            CliError::new(exit::USAGE, text)
        })?;
        fits(&command)?;
        let mut words = args.command.clone();
        let written = command.experiment.as_ref().map(|experiment| &experiment.written);
        let (file, experiment) = match written {
            Some(Written::File(path)) => {
                let (name, text) = experiment_file(path)?;
                let word = words.iter_mut().skip(1).find(|word| Path::new(word.as_str()) == path.as_path());
                *word.expect("the file is a word of the command") = format!("./{name}");
                (Some(name), Some(text))
            }
            _ => (None, None),
        };
        let jobs = jobs(&hosts, args.mode, center, args.both_ways);
        let (mode, command_words, schema_version) = (args.mode, args.command.clone(), SCHEMA_VERSION.to_owned());
        let fleet = Fleet { schema_version, mode, command: command_words, experiment, hosts, jobs };
        let (is_quiet, has_pages) = (command.output.quiet, !command.output.no_report);
        Ok(Self { args, fleet, words, file, experiment: command.experiment, has_pages, is_quiet })
    }

    pub fn words(&self, job: &FleetJob) -> Vec<String> {
        let mut flags = Vec::new();
        if let Some(to) = &job.to {
            let (from, to) = (self.host(&job.from), self.host(to));
            let named = [("--to", Some(to.to())), ("--interface", from.interface.as_deref())];
            let named = named.into_iter().chain([("--to-interface", to.interface.as_deref())]);
            flags.extend(named.filter_map(|(flag, value)| Some(format!("{flag}={}", value?))));
            flags.extend(self.args.push.then(|| "--push".to_owned()));
        }
        flags.extend((!self.is_quiet).then(|| "--quiet".to_owned()));
        flags.extend(self.has_pages.then(|| "--no-report".to_owned()));
        let (name, others) = self.words.split_first().expect("clap requires a word");
        [std::slice::from_ref(name), &flags, others].concat()
    }

    /// Name and text of the experiment file on a host.
    pub fn file(&self) -> Option<(&str, &str)> {
        Some((self.file.as_deref()?, self.fleet.experiment.as_deref()?))
    }

    pub fn host(&self, name: &str) -> &FleetHost {
        self.fleet.hosts.iter().find(|host| host.name == name).expect("jobs are made of the hosts")
    }

    /// Program and plugins to copy; `None` if not requested.
    pub fn pushed(&self) -> Result<Option<Pushed>, CliError> {
        if !self.args.push {
            return Ok(None);
        }
        let Some(mut experiment) = self.experiment.clone() else {
            let command = &self.words[0];
            let text =
                format!("--push cannot find the plugins that '{command}' needs; copy them, and leave --push out");
            return Err(CliError::new(exit::USAGE, text));
        };
        // Not all transports can be measured between hosts; any second host shows which.
        if self.args.mode != FleetMode::Hosts {
            experiment.measuring.hosts.to = vec![self.fleet.hosts[1].to().to_owned()];
        }
        let prepared = Prepared::new(&experiment, &Default::default(), true)?;
        let systems = prepared.plan.sub_experiments.iter().map(|sub| &sub.transport.system);
        let plugins = systems.filter_map(|system| prepared.registry.plugin_file(system)).map(Path::to_path_buf);
        let pushed = Pushed::collect(&crate::experiment::program()?, plugins.collect());
        pushed.map(Some).map_err(|error| CliError::new(exit::NO_INPUT, format!("--push: {error}")))
    }
}

fn hosts(file: &Path) -> Result<Vec<FleetHost>, CliError> {
    let wrong = |why: String| CliError::new(exit::DATA, format!("'{}': {why}", file.display()));
    let text = String::from_utf8(read(file, MOST_BYTES)?).map_err(|_| wrong("it is not UTF-8 text".to_owned()))?;
    Ok(HostsFile::parse(&text).map_err(wrong)?.hosts)
}

/// Index of the host at the center of a star.
fn center(args: &FleetArgs, hosts: &[FleetHost]) -> Result<usize, CliError> {
    let Some(name) = &args.center else { return Ok(0) };
    if args.mode != FleetMode::Star {
        return Err(CliError::new(exit::USAGE, "--center requires --mode star"));
    }
    hosts.iter().position(|host| host.name == *name).ok_or_else(|| {
        let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
        CliError::new(exit::USAGE, format!("--center: there is no host '{name}'; choose from {}", names.join(", ")))
    })
}

/// Refuses flags that have no meaning on other hosts, or that a fleet sets.
fn fits(command: &MeasuringCommand<'_>) -> Result<(), CliError> {
    let (output, hosts) = (command.output, &command.measuring.hosts);
    let unfit = [("--output", output.folder.is_some()), ("--json", output.json), ("--to", !hosts.to.is_empty())];
    let unfit = unfit.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag).chain(command.unfit).next();
    match unfit {
        Some(flag) => {
            let text =
                format!("after '--': {flag} does not apply, as fleet chooses the folder and hosts; leave it out");
            Err(CliError::new(exit::USAGE, text))
        }
        None => Ok(()),
    }
}

fn experiment_file(path: &Path) -> Result<(String, String), CliError> {
    let wrong = |why: &str| CliError::new(exit::DATA, format!("experiment '{}': {why}", path.display()));
    let text = String::from_utf8(read(path, MOST_BYTES)?).map_err(|_| wrong("it is not UTF-8 text"))?;
    let experiment = Experiment::parse(&text).map_err(|error| wrong(&one_line(&error)))?;
    if experiment.to.is_some() {
        return Err(wrong("has `to`, but fleet chooses the hosts; remove it"));
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).filter(|name| is_name(name));
    Ok((name.unwrap_or_else(|| EXPERIMENT.to_owned()), text))
}
