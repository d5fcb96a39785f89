//! Resolution of arguments to an experiment and a registry of systems.

use crate::args::{Cpu, ExperimentArgs, PluginArgs, Written};
use crate::error::CliError;
use crate::recording::files::is_recording;
use crate::{embedded, output};
use std::path::{Path, PathBuf};
use std::{fs, io};
use tripmeter_engine::os::stranger_at;
use tripmeter_engine::parquet;
use tripmeter_engine::registry::{Prober, Registry};
use tripmeter_engine::resolve::{fits_recording, resolve};
use tripmeter_model::experiment::{Common, Experiment, SubExperimentFile};
use tripmeter_model::plan::Plan;
use tripmeter_model::recording::{Played, Recording};
use tripmeter_model::toml_text::one_line;
use tripmeter_model::transport::Selector;
use tripmeter_model::{VERSION, exit, file};

/// All systems found: built in, in the usual folders, and given by `--plugin`.
pub fn registry(args: &PluginArgs, program: &Path) -> Result<Registry, CliError> {
    registry_with(&[], &args.plugin, program.into())
}

/// Like [`registry`], with folders that are searched before the usual ones.
pub fn registry_with(first: &[PathBuf], plugins: &[PathBuf], prober: Prober) -> Result<Registry, CliError> {
    let search = [first, &search_folders(&prober.program)].concat();
    Ok(Registry::new(embedded::sidecars(), tripmeter_builtin::systems(), &search, plugins, prober)?)
}

/// File of this program, from which workers and probing processes are started.
pub fn program() -> Result<PathBuf, CliError> {
    std::env::current_exe()
        .map_err(|error| CliError::new(exit::SOFTWARE, format!("the path of this program is unknown: {error}")))
}

/// Program that writes Parquet, if the plan needs it. Fails if there is none of this version next to the plugins.
pub fn parquet(plan: &Plan, program: &Path) -> Result<Option<PathBuf>, CliError> {
    if !plan.raw.parquet {
        return Ok(None);
    }
    parquet_program(program, "`--raw parquet`", "use `--raw samples`").map(Some)
}

/// Program of this version that writes Parquet; an error says that `what` needs it and suggests `instead`.
pub fn parquet_program(program: &Path, what: &str, instead: &str) -> Result<PathBuf, CliError> {
    let name = parquet::PROGRAM;
    let files = search_folders(program).into_iter().map(|folder| folder.join(name)).filter(|file| file.is_file());
    let mut other = None;
    for file in files {
        let version = parquet::version(&file).map_err(|error| {
            let text = format!("{what} needs {name}: '{}' cannot be run: {error}", file.display());
            CliError::new(exit::UNAVAILABLE, text)
        })?;
        if version.as_deref() == Some(VERSION) {
            return Ok(file);
        }
        other.get_or_insert((file, version));
    }
    let text = match other {
        Some((file, version)) => format!(
            "{what} needs {name} of version {VERSION}, but '{}' has {}; update it with `tripmeter \
             install parquet`, or {instead}",
            file.display(),
            version.map_or("an older one".to_owned(), |version| format!("version {version}"))
        ),
        None => format!(
            "{what} needs {name}, which is not in any plugin folder; install it with `tripmeter install parquet`, or \
             {instead}"
        ),
    };
    Err(CliError::new(exit::UNAVAILABLE, text))
}

/// True if a plugin folder has this file.
pub fn is_beside_plugins(name: &str, program: &Path) -> bool {
    search_folders(program).iter().any(|folder| folder.join(name).is_file())
}

fn search_folders(program: &Path) -> Vec<PathBuf> {
    let given = std::env::var_os("TRIPMETER_TRANSPORTS").unwrap_or_default();
    let mut folders: Vec<PathBuf> =
        std::env::split_paths(&given).filter(|folder| !folder.as_os_str().is_empty()).collect();
    // Another user who can write to these folders could make this user run any code, so `trusted` checks them.
    let beside = program.ancestors().skip(1).take(2).map(Path::to_path_buf);
    let packaged = program.ancestors().nth(2).map(|prefix| prefix.join("lib/tripmeter"));
    let usual = beside.chain(data_folder()).chain(packaged).chain([PathBuf::from("/usr/lib/tripmeter")]);
    let mut usual: Vec<PathBuf> = usual.map(|folder| folder.join("transports")).collect();
    // For a packaged program, two of them are the same.
    usual.dedup();
    let named: Vec<PathBuf> = folders.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
    folders.extend(usual.into_iter().filter_map(|folder| match trusted(&folder, program) {
        Ok(folder) => Some(folder),
        Err(_) if folder.canonicalize().map_or(true, |folder| named.contains(&folder)) => None,
        Err(why) => {
            let folder = folder.display();
            output::say(&format!(
                "tripmeter: transports in '{folder}' are left out: {why}; if you trust them, name the folder in \
                 TRIPMETER_TRANSPORTS"
            ));
            None
        }
    }));
    folders
}

/// Canonical path of a usual transport folder. Fails if another user could write to it or to a plugin in it, or if a
/// plugin is a link.
fn trusted(folder: &Path, program: &Path) -> io::Result<PathBuf> {
    let folder = folder.canonicalize()?;
    let check = |path: &Path| stranger_at(path, program)?.map_or(Ok(()), |why| Err(io::Error::other(why)));
    check(&folder)?;
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        // Plugins and their programs have this prefix.
        if !entry.file_name().as_encoded_bytes().starts_with(b"tripmeter_") {
            continue;
        }
        if entry.file_type()?.is_symlink() {
            return Err(io::Error::other(format!("'{}' is a link", entry.path().display())));
        }
        match check(&entry.path()) {
            // A file that has disappeared is being rebuilt.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
    }
    Ok(folder)
}

/// Folder in which this program finds plugins built from `sources`: in their build folder if the program is there, else
/// in the user's `data` folder.
pub fn folder_of_built(sources: &Path, program: &Path, data: &Path) -> PathBuf {
    let build = sources.canonicalize().map(|folder| folder.join("target"));
    let is_beside = build.as_ref().is_ok_and(|build| program.ancestors().skip(1).take(2).any(|folder| folder == build));
    if let (true, Ok(build)) = (is_beside, build) { build.join("transports") } else { data.join("transports") }
}

/// Data folder of this user: `$XDG_DATA_HOME/tripmeter`, or `~/.local/share/tripmeter`.
pub fn data_folder() -> Option<PathBuf> {
    let given = |name| std::env::var_os(name).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let home = || given("HOME").map(|home| home.join(".local/share"));
    given("XDG_DATA_HOME").or_else(home).map(|folder| folder.join("tripmeter"))
}

/// Plan of a file or preset with the flags applied. `open` reads the recording once everything else is valid.
pub fn plan(
    args: &ExperimentArgs,
    registry: &Registry,
    open: impl FnOnce(&Experiment) -> Result<Recording, CliError>,
) -> Result<Plan, CliError> {
    let mut plan = resolved(args, registry, open)?.1?;
    // With a single CPU there is no choice, and results show that both sides share it.
    if plan.leader_cpu.is_some() && plan.leader_cpu == plan.follower_cpu {
        return Ok(plan);
    }
    if args.measuring.pinning.leader_cpu == Some(Cpu::Any) {
        plan.leader_cpu = None;
    }
    if args.measuring.pinning.follower_cpu == Some(Cpu::Any) {
        plan.follower_cpu = None;
        plan.sub_experiments.iter_mut().for_each(|sub_experiment| sub_experiment.follower_cpus.clear());
    }
    Ok(plan)
}

/// Experiment with the flags applied, and its plan or the reason why it has none. Fails if file, preset or recording
/// cannot be read, or the recording does not fit the experiment.
fn resolved(
    args: &ExperimentArgs,
    registry: &Registry,
    open: impl FnOnce(&Experiment) -> Result<Recording, CliError>,
) -> Result<(Experiment, Result<Plan, CliError>), CliError> {
    let (mut experiment, source) = flagged(args, registry)?;
    if experiment.is_recorded() {
        check_recording(&experiment)
            .map_err(|error| of_the_file(args, error, |alone| check_recording(alone).is_err()))?;
        // No flag changes the recording or topics of a file, so the file is to blame.
        let opened = open(&experiment).map_err(|error| of_the_file(args, error, |_| true))?;
        experiment.recording = Some(opened);
    }
    let plan = resolve(&experiment, &source, registry).map_err(|error| {
        of_the_file(args, error.into(), |alone| {
            let alone = Experiment { recording: experiment.recording.clone(), ..alone.clone() };
            resolve(&alone, "", registry).is_err()
        })
    });
    Ok((experiment, plan))
}

fn check_recording(experiment: &Experiment) -> Result<(), CliError> {
    let whole = experiment.common();
    let parts = experiment.sub_experiments.iter().map(|entry| entry.common().or(&whole));
    let played = if experiment.written_recording.is_some() { Played::Recording } else { Played::Topics };
    Ok(parts.chain([whole.clone()]).try_for_each(|common| fits_recording(&common, played).map(drop))?)
}

/// Experiment from a file or preset with the flags applied, and the name of its source.
fn flagged(args: &ExperimentArgs, registry: &Registry) -> Result<(Experiment, String), CliError> {
    let (mut experiment, source) = written(args)?;
    if !args.transports.is_empty() {
        if args.written == Written::Flags {
            no_experiments(&args.transports, registry)?;
        }
        choose(&mut experiment, &split(&args.transports), registry);
    }
    apply(&mut experiment, args);
    if let Some(file) = &args.profile {
        experiment.settings.insert("profile".to_owned(), absolute("profile", file)?);
    }
    Ok((experiment, source))
}

/// Refuses presets and files given as transports.
fn no_experiments(transports: &[String], registry: &Registry) -> Result<(), CliError> {
    // A system may have the name of a preset.
    let is_preset =
        |name: &str| embedded::presets().iter().any(|(preset, _)| *preset == name) && registry.find(name).is_none();
    let is_file =
        |name: &str| name.ends_with(".toml") || is_recording(name) || name.contains('/') && Path::new(name).is_file();
    match transports.iter().find(|name| is_preset(name) || is_file(name)) {
        Some(name) if is_recording(name) => {
            let text =
                format!("'{name}' is a recording, not a transport; play it with `tripmeter replay {name} TRANSPORT`");
            Err(CliError::new(exit::USAGE, text))
        }
        Some(name) => {
            let text = format!("'{name}' is an experiment, not a transport; run it with `tripmeter run {name}`");
            Err(CliError::new(exit::USAGE, text))
        }
        None => Ok(()),
    }
}

/// Experiment as the text of an experiment file; a preset without flags is copied unchanged. Fails like [`plan`],
/// except if something is not installed here.
pub fn text(
    args: &ExperimentArgs,
    registry: &Registry,
    open: impl FnOnce(&Experiment) -> Result<Recording, CliError>,
) -> Result<String, CliError> {
    if [args.measuring.pinning.leader_cpu, args.measuring.pinning.follower_cpu].contains(&Some(Cpu::Any)) {
        let text = "an experiment file cannot leave a CPU to the kernel; leave out `none` or --print";
        return Err(CliError::new(exit::USAGE, text));
    }
    let (mut experiment, plan) = resolved(args, registry, open)?;
    // Another machine may have what is missing here.
    plan.map(drop).or_else(|error| if error.code == exit::UNAVAILABLE { Ok(()) } else { Err(error) })?;
    if let Some(written) = &mut experiment.written_recording {
        for file in &mut written.files {
            *file = absolute_of("recording", file, true)?.into();
        }
    }
    let (plain, ..) = written(&ExperimentArgs { written: args.written.clone(), ..ExperimentArgs::default() })?;
    let as_toml = |experiment: &Experiment| {
        toml::to_string(experiment)
            .map_err(|error| CliError::new(exit::SOFTWARE, format!("the experiment cannot be written: {error}")))
    };
    let made = as_toml(&experiment)?;
    match &args.written {
        Written::Preset(name) if made == as_toml(&plain)? => Ok(embedded::preset(name)?.to_owned()),
        _ => Ok(made),
    }
}

/// Absolute path of a readable file, valid in every process; `what` names the file in errors.
fn absolute(what: &str, file: &Path) -> Result<String, CliError> {
    absolute_of(what, file, false)
}

/// Like [`absolute`]; also accepts a folder if `may_be_folder`.
fn absolute_of(what: &str, file: &Path, may_be_folder: bool) -> Result<String, CliError> {
    let cannot =
        |why: &str| CliError::new(exit::NO_INPUT, format!("{what} '{}' cannot be read: {why}", file.display()));
    let path = std::fs::canonicalize(file).map_err(|error| cannot(&error.to_string()))?;
    let is_there = path.is_file() || (may_be_folder && path.is_dir());
    if !is_there {
        return Err(cannot("it is not a file"));
    }
    std::fs::File::open(&path).map_err(|error| cannot(&error.to_string()))?;
    path.into_os_string().into_string().map_err(|_| cannot("its path is not UTF-8 text"))
}

/// Adds the name of the file to an error that it causes without flags as well. A usage error becomes a data error.
fn of_the_file(args: &ExperimentArgs, error: CliError, is_wrong: impl Fn(&Experiment) -> bool) -> CliError {
    let Written::File(file) = &args.written else { return error };
    if error.code == exit::INTERRUPTED || !read(file).is_ok_and(|alone| is_wrong(&alone)) {
        return error;
    }
    let code = if error.code == exit::USAGE { exit::DATA } else { error.code };
    CliError::new(code, format!("experiment '{}': {error}", file.display()))
}

fn written(args: &ExperimentArgs) -> Result<(Experiment, String), CliError> {
    match &args.written {
        Written::File(file) => Ok((read(file)?, file.display().to_string())),
        Written::Preset(name) => Ok((embedded::preset_experiment(name)?, name.clone())),
        Written::Flags if args.transports.is_empty() => {
            let experiment =
                Experiment { sub_experiments: vec![SubExperimentFile::for_transport("*")], ..Experiment::default() };
            Ok((experiment, "flags".to_owned()))
        }
        Written::Flags => Ok((Experiment::default(), "flags".to_owned())),
    }
}

const MOST_EXPERIMENT_BYTES: u64 = 16 << 20;

fn read(path: &Path) -> Result<Experiment, CliError> {
    let text = String::from_utf8(file::read(path, MOST_EXPERIMENT_BYTES)?).map_err(|_| {
        CliError::new(exit::DATA, format!("'{}' is not UTF-8 text; give an experiment in TOML", path.display()))
    })?;
    let mut experiment = Experiment::parse(&text)
        .map_err(|error| CliError::new(exit::DATA, format!("experiment '{}': {}", path.display(), one_line(&error))))?;
    // Paths are relative to the experiment file, not to the working directory.
    if let (Some(recording), Some(folder)) = (&mut experiment.written_recording, path.parent()) {
        recording.files.iter_mut().for_each(|file| *file = folder.join(&*file));
    }
    Ok(experiment)
}

/// Splits comma-separated lists of transports. A piece that begins with a digit belongs to the setting before it.
fn split(lists: &[String]) -> Vec<String> {
    let mut transports: Vec<String> = Vec::new();
    for list in lists {
        for (index, piece) in list.split(',').enumerate() {
            match transports.last_mut() {
                Some(last) if index > 0 && last.contains('?') && piece.starts_with(|c: char| c.is_ascii_digit()) => {
                    *last += &format!(",{piece}");
                }
                _ => transports.push(piece.to_owned()),
            }
        }
    }
    transports
}

/// Keeps sub-experiments of the named `transports` unchanged, and adds named transports that have none.
fn choose(experiment: &mut Experiment, transports: &[String], registry: &Registry) {
    let parts = |text: &str| {
        let selector: Selector = text.parse().ok()?;
        let system = registry.find(&selector.system).map_or(selector.system.clone(), |entry| entry.system().to_owned());
        Some(Selector { system, ..selector })
    };
    let written = std::mem::take(&mut experiment.sub_experiments);
    for transport in transports {
        let wanted = parts(transport);
        let is_wanted = |entry: &&SubExperimentFile| match (&wanted, parts(&entry.transport)) {
            (Some(wanted), Some(entry)) => {
                wanted.system == entry.system
                    && wanted.variant.as_ref().is_none_or(|variant| Some(variant) == entry.variant.as_ref())
                    && wanted.settings.iter().all(|(key, value)| entry.settings.get(key) == Some(value))
            }
            _ => false,
        };
        let kept: Vec<_> = written.iter().filter(is_wanted).cloned().collect();
        if kept.is_empty() {
            experiment.sub_experiments.push(SubExperimentFile::for_transport(transport));
        }
        experiment.sub_experiments.extend(kept);
    }
}

/// Overrides the experiment and every sub-experiment with the flags.
fn apply(experiment: &mut Experiment, args: &ExperimentArgs) {
    fn put<T: Clone>(place: &mut Option<T>, flag: &Option<T>) {
        if flag.is_some() {
            place.clone_from(flag);
        }
    }
    let measuring = &args.measuring;
    experiment.override_with(&Common {
        payloads: measuring.payloads.clone(),
        samples: measuring.samples,
        warmup: measuring.warmup,
        time_cap_s: measuring.time_cap,
        wait: measuring.wait,
        touch: measuring.touch,
        sched: measuring.interference.sched,
        background: Some(measuring.interference.background.clone()).filter(|loads| !loads.is_empty()),
        ..args.workload.common.clone()
    });
    if let Some(most) = measuring.samples {
        let entries = experiment.sub_experiments.iter_mut().map(|entry| &mut entry.samples_above);
        let ranges = entries.chain([&mut experiment.samples_above]).flatten().flatten();
        ranges.for_each(|range| range.samples = range.samples.min(most));
    }
    put(&mut experiment.written_recording, &args.recording);
    if !args.workload.topics.is_empty() {
        experiment.written_topics.clone_from(&args.workload.topics);
    }
    put(&mut experiment.rounds, &args.rounds);
    put(&mut experiment.for_s, &args.repeat_for);
    // `--rounds` replaces `for_s` in the file, and `--for` replaces `rounds`.
    match (args.rounds, args.repeat_for) {
        (Some(_), _) => experiment.for_s = None,
        (_, Some(_)) => experiment.rounds = None,
        _ => {}
    }
    put(&mut experiment.cpus, &args.cpus);
    put(&mut experiment.seed, &measuring.seed);
    put(&mut experiment.raw, &measuring.kept.raw);
    put(&mut experiment.keep_samples, &measuring.kept.keep_samples);
    put(&mut experiment.streams, &measuring.kept.streams);
    put(&mut experiment.daemons, &measuring.daemons);
    put(&mut experiment.attempts, &measuring.attempts);
    put(&mut experiment.loss_timeout_s, &measuring.loss_timeout);
    let hosts = &measuring.hosts;
    put(&mut experiment.to, &Some(hosts.to.clone()).filter(|to| !to.is_empty()));
    put(&mut experiment.max_clock_error_us, &hosts.max_clock_error);
    put(&mut experiment.interface, &hosts.interface);
    put(&mut experiment.to_interface, &Some(hosts.to_interface.clone()).filter(|names| !names.is_empty()));
    let pinning = &measuring.pinning;
    for (place, flag) in
        [(&mut experiment.leader_cpu, pinning.leader_cpu), (&mut experiment.follower_cpu, pinning.follower_cpu)]
    {
        match flag {
            Some(Cpu::Number(cpu)) => *place = Some(cpu),
            Some(Cpu::Any) => *place = None,
            None => {}
        }
    }
    if args.no_floor {
        experiment.floor = Some(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn args(line: &str) -> ExperimentArgs {
        let words = ["tripmeter"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).unwrap().command {
            Command::Run(run) => run.experiment(),
            Command::Pattern(command) => command.experiment(),
            _ => unreachable!(),
        }
    }

    fn registry() -> Registry {
        Registry::new(embedded::sidecars(), Vec::new(), &[], &[], Path::new("/nowhere")).unwrap()
    }

    fn titles(experiment: &Experiment) -> Vec<&str> {
        experiment.sub_experiments.iter().map(|entry| entry.title.as_deref().unwrap_or(&entry.transport)).collect()
    }

    #[test]
    fn nothing_means_quick_and_transports_alone_mean_flags() {
        assert_eq!(written(&args("run")).unwrap().1, "quick");
        assert_eq!(written(&args("ping uds tcp")).unwrap().1, "flags");
    }

    #[test]
    fn lists_of_transports_are_split_but_not_within_a_setting() {
        assert_eq!(split(&args("ping uds,tcp mq").transports), ["uds", "tcp", "mq"]);
        let list = ["inmem?lose=3,17&stall=11:50ms,12:1s,uds?packet=64,tcp".to_owned(), "7".to_owned()];
        assert_eq!(split(&list), ["inmem?lose=3,17&stall=11:50ms,12:1s", "uds?packet=64", "tcp", "7"]);
    }

    #[test]
    fn transports_choose_among_those_of_a_preset_and_add_others() {
        let (mut experiment, ..) = written(&args("run iceperf")).unwrap();
        let transports = ["iceoryx-cpp-api", "mq", "uds/stream", "mq?packet=64"].map(str::to_owned);
        choose(&mut experiment, &transports, &registry());
        assert_eq!(titles(&experiment), ["ICEORYX", "MESSAGE QUEUE", "uds/stream", "mq?packet=64"]);
    }

    #[test]
    fn fewer_samples_are_fewer_for_large_payloads_too() {
        let samples = |line: &str| {
            let (mut experiment, ..) = written(&args("run ecal")).unwrap();
            apply(&mut experiment, &args(&format!("run ecal {line}")));
            (experiment.samples, experiment.samples_above.unwrap()[0].samples)
        };
        assert_eq!(samples(""), (Some(200_000), 10_000));
        assert_eq!(samples("-n 50000"), (Some(50_000), 10_000));
        assert_eq!(samples("-n 70"), (Some(70), 70));
    }

    #[test]
    fn flags_override_every_sub_experiment() {
        let (mut experiment, ..) = written(&args("run iceperf")).unwrap();
        apply(&mut experiment, &args("run -n 7 --wait block --no-floor --leader-cpu 1 --follower-cpu none"));
        assert!(experiment.sub_experiments.iter().all(|entry| entry.wait == Some(tripmeter_model::Wait::Block)));
        assert_eq!((experiment.samples, experiment.floor, experiment.leader_cpu), (Some(7), Some(false), Some(1)));
    }
}
