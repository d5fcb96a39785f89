//! The folder of an experiment: its summaries, which are made first where only samples are there, or newer ones.

use crate::database::Contents;
use crate::error::CliError;
use crate::{commands, output};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tripmeter_engine::files::discarded::ATTEMPTS;
use tripmeter_model::bytes::Bytes;
use tripmeter_model::figure::Figure;
use tripmeter_model::folder::{AUDIT, MANIFEST, TRIALS};
use tripmeter_model::manifest::{Manifest, PayloadResult, RunStatus, SubExperimentResult, Verdict};
use tripmeter_model::metrics_file::METRICS;
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::raw::Reader;
use tripmeter_model::summary::{More, Summary, SummaryRow};
use tripmeter_model::workload::Reply;
use tripmeter_model::{exit, printable};
use tripmeter_report::plots::latency::LatencyKind;
use tripmeter_stats::pairs::{figures_of, half_trips};
use tripmeter_stats::timed;
use tripmeter_stats::verdict::Measured;

/// Ends the name of a run's folder until the run is finished.
pub const UNFINISHED: &str = ".unfinished";
/// How many names a note lists.
const NAMES_IN_A_NOTE: usize = 5;

/// Where the figures of one sub-experiment are.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Where.
    pub origin: Origin,
    /// What only the manifest has of payloads of a logger.
    more: Vec<(Bytes, More)>,
    /// The payloads that the manifest lists as finished, if it plans this sub-experiment: no others count.
    finished: Option<Vec<Bytes>>,
}

/// Whether a folder has a manifest; also one that cannot be read, or is a link.
pub fn has_manifest(folder: &Path) -> bool {
    folder.join(MANIFEST).symlink_metadata().is_ok()
}

/// What figures come from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// A file of figures.
    Summary(PathBuf),
    /// A file of samples.
    Samples(PathBuf),
    /// A manifest, where no samples were kept; empty if nothing was measured.
    Manifest(Summary),
}

impl Source {
    fn of(name: String, origin: Origin) -> Self {
        Self { name, origin, more: Vec::new(), finished: None }
    }

    /// Whether there are only samples, or newer ones than the summary.
    pub fn is_samples(&self) -> bool {
        matches!(self.origin, Origin::Samples(_))
    }

    /// Bytes to read.
    pub fn bytes(&self) -> u64 {
        match &self.origin {
            Origin::Summary(file) | Origin::Samples(file) => file.metadata().map_or(0, |metadata| metadata.len()),
            Origin::Manifest(_) => 0,
        }
    }
}

/// A folder with the files of one experiment, or of one round of it.
#[derive(Debug)]
pub struct ExperimentFolder {
    path: PathBuf,
    /// Of every sub-experiment that has files, by name; then of those that only the manifest has.
    pub sources: Vec<Source>,
    manifest: Option<Manifest>,
    round: u32,
    /// Damaged messages are no reason to distrust figures.
    pub allows_damage: bool,
}

impl ExperimentFolder {
    /// Looks what is in a folder. Files that belong to no experiment are named in one note.
    ///
    /// # Errors
    /// If it is no folder, holds rounds or no results, or has a manifest that cannot be read.
    pub fn open(path: &Path) -> Result<Self, CliError> {
        let contents = Contents::read(path)?;
        let found = Self::find(path, &contents)?;
        if found.sources.is_empty() {
            if let Some(round) = contents.folders.iter().find(|name| round_of(name).is_some()) {
                let text = format!("'{0}' holds rounds; name one of them, e.g. '{0}/{round}'", path.display());
                return Err(CliError::new(exit::USAGE, text));
            }
            let text = format!(
                "'{}' holds no results: neither measurements_<name>_summary.csv nor measurements_<name>.csv",
                path.display()
            );
            return Err(CliError::new(exit::DATA, text));
        }
        note_strays(path, &contents);
        Ok(found)
    }

    fn find(path: &Path, contents: &Contents) -> Result<Self, CliError> {
        // However it is spelled: as `.`, or by a link.
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let last = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (folder, round) = match (round_of(&last), real.parent()) {
            (Some(round), Some(parent)) if !has_manifest(path) => (parent, round),
            _ => (path, 1),
        };
        let manifest = match has_manifest(folder) {
            true => Some(commands::table::read(folder)?),
            false => None,
        };
        // With rounds, the files are in the folders of the rounds.
        let manifest = manifest.filter(|manifest| manifest.plan.rounds == 1 || folder != path);
        let mut found =
            Self { path: path.to_owned(), sources: sources(path, contents), manifest, round, allows_damage: false };
        found.add_manifest();
        Ok(found)
    }

    /// Adds what the manifest's plan has and no file is there for, and figures that stand in no file.
    fn add_manifest(&mut self) {
        let Some(manifest) = &self.manifest else { return };
        let mut added = Vec::new();
        for plan in &manifest.plan.sub_experiments {
            let result = self.result(&plan.name);
            if timed::is_of(plan) {
                let summaries = timed::summaries(plan, result).into_iter();
                added.extend(summaries.map(|(name, summary)| Source::of(name, Origin::Manifest(summary))));
            } else if !self.sources.iter().any(|source| source.name == plan.name) {
                let figures = result.map(figures).unwrap_or_default();
                added.push(Source::of(plan.name.clone(), Origin::Manifest(figures)));
            }
        }
        self.sources.extend(added);
        let of_log = |cell: &PayloadResult| Some((Bytes::from(cell.payload_bytes), timed::of_log(cell)?));
        let more = |name: &str| self.result(name).iter().flat_map(|result| &result.cells).filter_map(of_log).collect();
        let found: Vec<Vec<_>> = self.sources.iter().map(|source| more(&source.name)).collect();
        let finished: Vec<_> = self.sources.iter().map(|source| self.finished(&source.name)).collect();
        for ((source, more), finished) in self.sources.iter_mut().zip(found).zip(finished) {
            (source.more, source.finished) = (more, finished);
        }
    }

    /// Makes the summaries that are not there, or older than the samples, as files beside the samples; says so unless
    /// `quiet`. Where something is still measured, none is made: figures are those of the samples that are there.
    ///
    /// # Errors
    /// If samples are wrong, or a file cannot be written.
    pub fn summarise(&mut self, quiet: bool) -> Result<(), CliError> {
        if self.is_running() {
            output::say(&format!(
                "note: '{}' is being measured, or was killed: figures are of what is there, no summary is made",
                self.path.display()
            ));
            return Ok(());
        }
        let threads = threads();
        let reader = Reader::new(threads);
        let (mut missing, mut old) = (0, 0);
        for source in self.sources.iter_mut().filter(|source| source.is_samples()) {
            let summary = read(&reader, source, threads)?;
            let file = self.path.join(format!("measurements_{}_summary.csv", source.name));
            *if file.exists() { &mut old } else { &mut missing } += 1;
            summary.write(&file)?;
            source.origin = Origin::Summary(file);
        }
        let said = |made: usize, what: &str| {
            let summaries = if made == 1 { "summary was" } else { "summaries were" };
            output::say(&format!("note: {made} {what} {summaries} made of the samples in '{}'", self.path.display()));
        };
        for (made, what) in
            [(missing, "missing"), (old, "outdated")].into_iter().filter(|(made, _)| *made > 0 && !quiet)
        {
            said(made, what);
        }
        Ok(())
    }

    /// Whether it is still measured; so it looks after a kill too.
    pub fn is_running(&self) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| manifest.status == RunStatus::Running)
    }

    /// Every summary; that of a sub-experiment of which nothing was measured is empty.
    ///
    /// # Errors
    /// If a file is wrong.
    pub fn measured(&self) -> Result<Vec<Measured>, CliError> {
        let reader = Reader::new(threads());
        let measured = self.sources.iter().map(|source| {
            let summary = read(&reader, source, threads())?;
            Ok(Measured { name: source.name.clone(), summary, distrust: self.distrust(&source.name) })
        });
        measured.collect()
    }

    /// The file that the figures of a sub-experiment are in.
    pub fn file(&self, name: &str) -> PathBuf {
        match self.sources.iter().find(|source| source.name == name).map(|source| &source.origin) {
            Some(Origin::Summary(file) | Origin::Samples(file)) => file.clone(),
            _ => self.join(MANIFEST),
        }
    }

    /// What the manifest's plan says about a sub-experiment, or the one that a name of figures is of.
    pub fn plan(&self, name: &str) -> Option<&SubExperiment> {
        let name = timed::sub_experiment(name);
        self.manifest.as_ref()?.plan.sub_experiments.iter().find(|sub| sub.name == name)
    }

    /// What the manifest says came of a sub-experiment.
    fn result(&self, name: &str) -> Option<&SubExperimentResult> {
        let (name, results) = (timed::sub_experiment(name), &self.manifest.as_ref()?.sub_experiments);
        results.iter().find(|result| result.name == name && result.round == self.round)
    }

    /// The payloads of a sub-experiment that the manifest lists as finished; `None` if there is no plan of it. Of a run
    /// that was killed, files may hold one more, or a part of it.
    pub fn finished(&self, name: &str) -> Option<Vec<Bytes>> {
        let manifest = self.manifest.as_ref()?;
        manifest.plan.sub_experiments.iter().find(|sub| sub.name == name && !timed::is_of(sub))?;
        let cells = self.result(name).map_or(&[][..], |result| &result.cells);
        Some(cells.iter().map(|cell| Bytes::from(cell.payload_bytes)).collect())
    }

    /// That a sub-experiment lacks payloads because its run was killed or interrupted, if so.
    pub fn unfinished(&self, name: &str) -> Option<String> {
        let (plan, result) = (self.plan(name)?, self.result(name));
        let is_ended = |result: &SubExperimentResult| matches!(result.status, RunStatus::Complete | RunStatus::Failed);
        let measured = result.map_or(0, |result| result.cells.len());
        let planned = plan.payloads.len();
        let is_short = !result.is_some_and(is_ended) && measured < planned;
        is_short.then(|| format!("it did not come to its end: {measured} of {planned} payloads"))
    }

    /// Why the figures of a sub-experiment do not count, if so: they are not of what its name says, as its path proof
    /// failed; it failed itself, and what disturbed it may have begun before; or messages came damaged.
    pub fn distrust(&self, name: &str) -> Option<String> {
        let result = self.result(name)?;
        if let Some(proof) = result.path_proof.as_ref().filter(|proof| proof.verdict == Verdict::Failed) {
            let (claim, seen) = (&proof.claim, &proof.evidence);
            let text =
                format!("its path proof failed: claimed {claim}, seen: {seen}; its figures are of something else");
            return Some(text);
        }
        if result.status == RunStatus::Failed {
            return Some(format!("it failed: {}", result.error.as_deref().unwrap_or("no reason was recorded")));
        }
        let damaged = result.damaged();
        (damaged > 0 && !self.allows_damage).then(|| format!("{damaged} messages came damaged (--allow-damage)"))
    }

    /// What the latencies of a sub-experiment are the duration of, if a manifest says so.
    pub fn kind(&self, name: &str) -> Option<LatencyKind> {
        kind_of_name(name).or_else(|| kind_of(self.plan(name)?))
    }

    /// What figures of other experiments must share to be compared over time; nothing without a manifest.
    pub fn machine(&self) -> Option<MachineFacts> {
        self.manifest.as_ref().map(machine)
    }

    /// Its path as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// What a machine is and how it is set, by name.
pub type MachineFacts = BTreeMap<String, String>;

/// The checks of the audit that say how a machine is set, and not what happened on it.
const SETTINGS: [&str; 7] = [
    "frequency-governor",
    "turbo",
    "isolation",
    "hypervisor",
    "kernel-command-line",
    "mitigations",
    "transparent-hugepages",
];

/// Where an experiment was made.
pub fn machine(manifest: &Manifest) -> MachineFacts {
    let environment = &manifest.environment;
    let mut machine = MachineFacts::from([
        ("processors".to_owned(), environment.cpus.len().to_string()),
        ("processor".to_owned(), environment.cpu_model.clone()),
        ("kernel".to_owned(), environment.kernel.clone()),
        ("clock".to_owned(), environment.clock.source.clone()),
    ]);
    let findings = environment.audit_before.iter().flat_map(|audit| &audit.findings);
    let settings = findings.filter(|finding| SETTINGS.contains(&finding.check.as_str()));
    machine.extend(settings.map(|finding| (finding.check.clone(), finding.value.clone())));
    machine
}

/// What differs between two machines, as far as it is known of both: name, one, other.
pub fn differences<'a>(one: &'a MachineFacts, other: &'a MachineFacts) -> impl Iterator<Item = [&'a str; 3]> {
    let pairs = one.iter().filter_map(|(name, value)| Some([name, value, other.get(name)?].map(String::as_str)));
    pairs.filter(|[_, one, other]| one != other)
}

/// What the latencies are the duration of, if a name of figures says it.
pub fn kind_of_name(name: &str) -> Option<LatencyKind> {
    let kind = timed::kind(name)?;
    match kind.as_str() {
        _ if kind.starts_with("response_rtt") => Some(LatencyKind::ResponseRtt),
        _ if kind.starts_with("service_rtt") => Some(LatencyKind::ServiceRtt),
        _ if kind.starts_with("one_way") => Some(LatencyKind::OneWay),
        _ if kind.starts_with("response") => Some(LatencyKind::Response),
        _ if kind.starts_with("service") => Some(LatencyKind::Service),
        _ => None,
    }
}

/// The first of these names whose sub-experiment the others have only with latencies of other kinds, and one of theirs.
pub fn other_kind<'a, 'b, I: Iterator<Item = &'b str>>(
    names: impl Iterator<Item = &'a str>,
    others: impl Fn() -> I,
) -> Option<(&'a str, &'b str)> {
    let mut names = names;
    names.find_map(|name| {
        let own = || others().filter(|other| timed::sub_experiment(other) == timed::sub_experiment(name));
        let has_kind = own().any(|other| timed::kind(other) == timed::kind(name));
        own().next().filter(|_| !has_kind).map(|other| (name, other))
    })
}

/// What latencies of that pattern are the duration of.
pub fn kind_of(plan: &SubExperiment) -> Option<LatencyKind> {
    match plan.workload.reply {
        Reply::Answer if plan.workload.is_fan_out() => Some(LatencyKind::RttHalfOfLast),
        Reply::Answer => Some(LatencyKind::RttHalf),
        Reply::Call => Some(LatencyKind::Rtt),
        Reply::Nothing => plan.workload.is_publication().then_some(LatencyKind::OneWay),
        Reply::Lines => Some(LatencyKind::Call),
    }
}

/// The figures of one sub-experiment: read, or made of its samples.
///
/// # Errors
/// If the file is wrong.
pub fn read(reader: &Reader, source: &Source, threads: usize) -> Result<Summary, CliError> {
    let mut summary = read_file(reader, source, threads)?;
    let found = std::mem::take(&mut summary.rows).into_iter();
    let (rows, others) = found.partition::<Vec<_>, _>(|row| counts(source.finished.as_deref(), &row.bytes));
    summary.rows = rows;
    note_unfinished(&source.name, others.iter().map(|row| &row.bytes));
    for row in &mut summary.rows {
        let more = source.more.iter().find(|(bytes, _)| *bytes == row.bytes);
        row.more = row.more.or(more.map(|(_, more)| *more));
    }
    Ok(summary)
}

/// Whether a payload counts: where a manifest lists what is finished, nothing else does.
pub fn counts(finished: Option<&[Bytes]>, bytes: &Bytes) -> bool {
    finished.is_none_or(|finished| finished.contains(bytes))
}

/// One note of payloads that do not count; none if there are none.
pub fn note_unfinished<'a>(name: &str, payloads: impl Iterator<Item = &'a Bytes>) {
    let payloads: Vec<String> = payloads.map(|bytes| format!("{bytes} bytes")).collect();
    if !payloads.is_empty() {
        let listed = listed(&payloads);
        output::say(&format!("note: '{name}': {listed} left out: the manifest does not list it as finished"));
    }
}

fn read_file(reader: &Reader, source: &Source, threads: usize) -> Result<Summary, CliError> {
    let samples = match &source.origin {
        Origin::Summary(file) => return Ok(Summary::read(file)?),
        Origin::Manifest(summary) => return Ok(summary.clone()),
        Origin::Samples(file) => file,
    };
    let is_counted = |bytes: &Bytes| counts(source.finished.as_deref(), bytes);
    let rows = reader.read(samples, threads, is_counted, tripmeter_stats::summary_row)?;
    let rows = rows.into_iter().filter_map(|(bytes, row)| Some(SummaryRow { bytes, ..row? }));
    Ok(Summary { rows: rows.collect() })
}

/// The figures that a manifest has, of half round trips or of calls of a logger, in microseconds. It has none of jitter.
pub fn figures(result: &SubExperimentResult) -> Summary {
    let row = |cell: &PayloadResult| {
        let found = half_trips(cell).or_else(|| figures_of(cell, Figure::Call))?;
        let us = |ns: f64| ns / 1e3;
        Some(SummaryRow {
            bytes: Bytes::from(cell.payload_bytes),
            samples: cell.samples,
            max: us(found.max),
            min: us(found.min),
            mean: us(found.mean),
            median: us(found.median),
            stdev: us(found.stdev),
            mean_jitter: f64::NAN,
            max_jitter: f64::NAN,
            p90: us(found.p90),
            p99: us(found.p99),
            p9999: us(found.p9999),
            more: timed::of_log(cell),
        })
    };
    Summary { rows: result.cells.iter().filter_map(row).collect() }
}

/// Processors that this process may use.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Summaries, and samples of what has none or one that is older than they, by name.
fn sources(path: &Path, contents: &Contents) -> Vec<Source> {
    let mut found: BTreeMap<String, [Option<PathBuf>; 2]> = BTreeMap::new();
    // A folder in the place of a file is an error when it is read. Of a file and its compressed copy, the first is taken.
    for name in contents.others.iter().chain(&contents.folders) {
        if let Some((sub_experiment, is_summary)) = sub_experiment(name) {
            let files = found.entry(sub_experiment.to_owned()).or_default();
            files[usize::from(is_summary)].get_or_insert_with(|| path.join(name));
        }
    }
    let origin = |files: [Option<PathBuf>; 2]| match files {
        [Some(samples), Some(summary)] if is_newer(&samples, &summary) => Some(Origin::Samples(samples)),
        [_, Some(summary)] => Some(Origin::Summary(summary)),
        [samples, None] => samples.map(Origin::Samples),
    };
    found.into_iter().filter_map(|(name, files)| Some(Source::of(name, origin(files)?))).collect()
}

/// Whether a file was changed after the other.
fn is_newer(file: &Path, other: &Path) -> bool {
    let changed = |file: &Path| file.metadata().and_then(|metadata| metadata.modified()).ok();
    changed(file) > changed(other)
}

/// The sub-experiment that a file belongs to, and whether it is its summary.
fn sub_experiment(file: &str) -> Option<(&str, bool)> {
    let stem = file.strip_suffix(".gz").unwrap_or(file).strip_suffix(".csv")?.strip_prefix("measurements_")?;
    let found = stem.strip_suffix("_summary").map_or((stem, false), |name| (name, true));
    // What would be more than a name on a terminal is none.
    (!found.0.is_empty() && printable::line(found.0) == found.0).then_some(found)
}

/// Files that belong to an experiment or to what is made of it; hidden ones are nobody's business.
fn is_ours(file: &str) -> bool {
    let begins = ["measurements_", "checks_"].iter().any(|beginning| file.starts_with(beginning));
    let ends = [".csv", ".csv.gz"].iter().any(|ending| file.ends_with(ending));
    let is_picture = [".png", ".svg"].iter().any(|ending| file.ends_with(ending));
    let is_plain = printable::line(file) == file;
    begins && ends && is_plain
        || is_picture
        || [MANIFEST, TRIALS, AUDIT, METRICS, "ab.json"].contains(&file)
        || file == "report.html"
        || file.starts_with('.')
}

/// The number of a round's folder: `round-02`.
pub fn round_of(name: &str) -> Option<u32> {
    name.strip_prefix("round-")?.parse().ok().filter(|round| *round > 0)
}

/// One note of the files in the folder of an experiment that do not belong to it; none if there are none.
pub fn note_strays(folder: &Path, contents: &Contents) {
    ignored(folder, contents.others.iter().filter(|name| !is_ours(name)));
}

/// One note of what is ignored in a folder; none if that is nothing.
pub fn ignored<'a>(folder: &Path, names: impl Iterator<Item = &'a String>) {
    let names: Vec<_> = names.map(|name| format!("'{name}'")).collect();
    if !names.is_empty() {
        output::say(&format!("note: ignored in '{}': {}", folder.display(), listed(&names)));
    }
}

/// The first few names, and how many more there are.
pub fn listed(names: &[String]) -> String {
    let more = match names.len().saturating_sub(NAMES_IN_A_NOTE) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names[..names.len().min(NAMES_IN_A_NOTE)].join(", ") + &more
}

/// One experiment, or one round of it, in a folder of many.
#[derive(Clone, Debug)]
pub struct RunFolder {
    /// Its folder's name; of a round, with that of its experiment.
    pub name: String,
    /// Its folder.
    pub path: PathBuf,
}

/// The experiments in a folder, oldest first; of those with rounds, each round. Folders without results and files are
/// named in one note, but for that of attempts that do not count.
///
/// # Errors
/// If it is no folder, or there is no experiment in it.
pub fn runs(folder: &Path) -> Result<Vec<RunFolder>, CliError> {
    let contents = Contents::read(folder)?;
    let mut runs = Vec::new();
    let mut strays: Vec<String> = contents.others.into_iter().filter(|name| !is_ours(name)).collect();
    for name in contents.folders {
        let path = folder.join(&name);
        let inside = Contents::read(&path)?;
        let rounds: Vec<_> = inside.folders.iter().filter(|inner| round_of(inner).is_some()).collect();
        let is_listed = rounds.is_empty() && inside.others.iter().any(|file| file == MANIFEST);
        let is_aside = name == ATTEMPTS && !inside.others.iter().any(|file| file == MANIFEST);
        if name.starts_with('.') || name.ends_with(UNFINISHED) || is_aside {
            continue;
        } else if is_listed || !sources(&path, &inside).is_empty() {
            runs.push(RunFolder { name: printable::line(&name).into_owned(), path });
        } else if rounds.is_empty() {
            strays.push(name);
        } else {
            let shown = printable::line(&name);
            runs.extend(
                rounds.iter().map(|round| RunFolder { name: format!("{shown}/{round}"), path: path.join(round) }),
            );
        }
    }
    if runs.is_empty() {
        let text = format!("'{}' holds no folder with results of an experiment", folder.display());
        return Err(CliError::new(exit::DATA, text));
    }
    ignored(folder, strays.iter());
    Ok(runs)
}
