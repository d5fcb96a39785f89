//! Results of one folder, and reasons why some do not count.

use crate::selection::LATENCIES;
use crate::table::{MetricTable, Row};
use std::collections::BTreeMap;
use tripmeter_model::address::FigureAddress;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::{
    Environment, Manifest, PayloadResult, RunStatus, SubExperimentResult, has_several_sizes,
};
use tripmeter_model::metric::Stream;
use tripmeter_model::pattern::TrialEnd;
use tripmeter_model::payload::at_text;
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::workload::Topology;

/// Properties and settings of a machine, by name.
pub type MachineFacts = BTreeMap<String, String>;

/// Audit checks of machine settings, as opposed to events.
const SETTINGS: [&str; 7] = [
    "frequency-governor",
    "turbo",
    "isolation",
    "hypervisor",
    "kernel-command-line",
    "mitigations",
    "transparent-hugepages",
];

/// Results of an experiment that is judged.
#[derive(Clone, Debug)]
pub struct JudgedResults {
    /// Manifest with results.
    pub manifest: Manifest,
    /// True if damaged messages do not exclude figures.
    pub allows_damage: bool,
}

impl JudgedResults {
    /// All figures.
    pub fn table(&self) -> MetricTable {
        MetricTable::from_manifest(&self.manifest)
    }

    /// Trusted figures: without sub-experiments that failed in their round or had damaged messages, and without
    /// interrupted payloads.
    pub fn trusted(&self) -> MetricTable {
        MetricTable::of_those(&self.manifest, |result, cell| {
            let plan = self.plan(&result.name);
            let is_whole =
                plan.is_none_or(|plan| result.unmeasured(plan).all(|one| one.payload_bytes != cell.payload_bytes));
            result.distrust(self.allows_damage).is_none() && !cell.is_cut_off() && is_whole
        })
    }

    /// Trusted figures of sub-experiments that finished their round.
    pub fn whole(&self) -> MetricTable {
        MetricTable::of_those(&self.manifest, |result, _| self.trouble(result).is_none())
    }

    /// Results of one round.
    #[must_use]
    pub fn of_round(&self, round: u32) -> Self {
        let mut one = self.clone();
        one.manifest.plan.rounds = 1;
        one.manifest.sub_experiments.retain(|result| result.round == round);
        one
    }

    /// True if the run is still measuring, or was killed.
    pub fn is_running(&self) -> bool {
        self.manifest.status == RunStatus::Running
    }

    /// Planned sub-experiments, without the disturbed passes of `tripmeter explain`.
    fn plans(&self) -> impl Iterator<Item = &SubExperiment> {
        self.manifest.plan.sub_experiments.iter().filter(|sub| !sub.is_disturbed())
    }

    /// Lines about transports that were requested by name and could not run.
    pub fn not_measured(&self) -> Vec<String> {
        self.manifest.plan.missing.iter().map(|line| format!("not measured: {line}")).collect()
    }

    /// Names of planned sub-experiments, in order.
    pub fn names(&self) -> Vec<&str> {
        self.plans().map(|sub| sub.name.as_str()).collect()
    }

    /// Planned sub-experiment of this name.
    pub fn plan(&self, name: &str) -> Option<&SubExperiment> {
        self.plans().find(|sub| sub.name == name)
    }

    fn rounds_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a SubExperimentResult> {
        self.manifest.sub_experiments.iter().filter(move |result| result.name == name)
    }

    fn trouble(&self, result: &SubExperimentResult) -> Option<String> {
        result.trouble().or_else(|| result.distrust(self.allows_damage))
    }

    fn in_round(&self, result: &SubExperimentResult, why: &str) -> String {
        if self.manifest.plan.rounds > 1 { format!("round {}: {why}", result.round) } else { why.to_owned() }
    }

    /// Reason that the figures of a sub-experiment are not trusted.
    pub fn distrust(&self, name: &str) -> Option<String> {
        let why = |result: &SubExperimentResult| Some(self.in_round(result, &result.distrust(self.allows_damage)?));
        self.rounds_of(name).find_map(why)
    }

    /// Note that a sub-experiment lacks rounds, payloads or samples because its run was killed or interrupted.
    pub fn unfinished(&self, name: &str) -> Option<String> {
        let planned = self.plan(name)?.payloads.len();
        let is_ended = |result: &SubExperimentResult| matches!(result.status, RunStatus::Complete | RunStatus::Failed);
        let told = |measured: usize| format!("it did not finish: {measured} of {planned} payloads");
        if self.rounds_of(name).next().is_none() {
            return Some(told(0));
        }
        let why = |result: &SubExperimentResult| {
            let whole = result.cells.iter().filter(|cell| !cell.is_cut_off()).count();
            let cut_off = self.cut_off(result).map_or_else(String::new, |why| format!("; {why}"));
            let is_short = !is_ended(result) && whole < planned;
            is_short.then(|| self.in_round(result, &(told(whole) + &cut_off)))
        };
        self.rounds_of(name).find_map(why).or_else(|| self.lacking_rounds(name))
    }

    /// Note that some of the planned rounds of a sub-experiment were not run.
    fn lacking_rounds(&self, name: &str) -> Option<String> {
        let (begun, rounds) = (self.rounds_of(name).count(), self.manifest.plan.rounds);
        (begun < rounds as usize).then(|| format!("it did not finish: {begun} of {rounds} rounds"))
    }

    /// Note that a finished sub-experiment has a payload without messages at an offered load or topic.
    pub fn unmeasured(&self, name: &str) -> Option<String> {
        let plan = self.plan(name)?;
        self.rounds_of(name).find_map(|result| {
            let one = result.unmeasured(plan).next()?;
            Some(self.in_round(result, &one.to_string()))
        })
    }

    /// Line about payloads of a sub-experiment that a time cap ended.
    pub fn capped(&self, name: &str) -> Option<String> {
        let plan = self.plan(name)?;
        let cells = self.rounds_of(name).flat_map(|result| result.cells.iter().map(move |cell| (result, cell)));
        let mut capped = cells.filter(|(_, cell)| cell.is_capped());
        let (result, first) = capped.next()?;
        let more = match capped.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let first = self.in_round(result, &first.shortfall(plan)?);
        Some(format!("fewer samples than planned: {first}{more}"))
    }

    /// Notes on a sub-experiment that a time cap ended, or that polled on a shared CPU.
    pub fn notes(&self, name: &str) -> Vec<String> {
        let plan = &self.manifest.plan;
        let polled = self.plan(name).filter(|one| plan.polls_on_shared_cpu(one));
        self.capped(name).into_iter().chain(polled.and_then(|one| plan.shared_cpus(one))).collect()
    }

    /// Reason that a sub-experiment fails whatever its figures, and other notes; `judged` are its judged figures. A
    /// missed rate is a failure unless the rate itself is judged.
    pub fn standing(&self, name: &str, table: &MetricTable, judged: &[&FigureAddress]) -> SubStanding {
        let [missed, known] = table.missed_rates(name, judged);
        let distrust = self.distrust(name).or_else(|| self.unfinished(name)).or_else(|| self.unmeasured(name));
        let distrust = distrust.or_else(|| missed.into_iter().next().map(|(_, why)| why));
        let notes = self.notes(name).into_iter().chain(known.into_iter().map(|(_, why)| why));
        SubStanding { distrust, notes: notes.collect() }
    }

    /// Lines about rounds that are not trusted, were not run or missed their rate; each begins with the sub-experiment.
    pub fn left_out(&self) -> Vec<String> {
        let why = |result: &SubExperimentResult| {
            let unmeasured = || Some(result.unmeasured(self.plan(&result.name)?).next()?.to_string());
            let why = result.distrust(self.allows_damage).or_else(|| self.cut_off(result)).or_else(unmeasured)?;
            Some(format!("'{}': {}", result.name, self.in_round(result, &why)))
        };
        let is_disturbed =
            |name: &str| self.manifest.plan.sub_experiments.iter().any(|sub| sub.name == name && sub.is_disturbed());
        let results = self.manifest.sub_experiments.iter().filter(|result| !is_disturbed(&result.name));
        let table = self.trusted();
        let of_sub = |name: &str| {
            let [missed, _] = table.missed_rates(name, &[]);
            let missing = missed.into_iter().map(|(_, why)| why).chain(self.lacking_rounds(name));
            missing.map(|why| format!("'{name}': {why}")).collect::<Vec<_>>()
        };
        results.filter_map(why).chain(self.names().into_iter().flat_map(of_sub)).collect()
    }

    /// Lines about everything in the results called `name` that limits and a history omit, or use with a reservation.
    pub fn reservations(&self, name: &str) -> Vec<String> {
        let missing = self.not_measured().into_iter().map(|line| format!("'{name}': {line}"));
        let left_out = self.left_out().into_iter().map(|line| format!("left out of '{name}': {line}"));
        let of_sub = |sub| self.notes(sub).into_iter().map(move |why| format!("'{sub}' of '{name}': {why}"));
        missing.chain(left_out).chain(self.names().into_iter().flat_map(of_sub)).collect()
    }

    /// Reason that an interrupted payload has fewer samples than planned.
    fn cut_off(&self, result: &SubExperimentResult) -> Option<String> {
        let cell = result.cells.iter().filter(|_| result.status != RunStatus::Failed).find(|cell| cell.is_cut_off())?;
        cell.shortfall(self.plan(&result.name)?)
    }

    /// Lines about rounds of a side that do not count or were not run, and about payloads without latencies in other
    /// rounds.
    pub fn failures(&self, side: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let table = self.whole();
        for round in 1..=self.manifest.plan.rounds {
            for plan in self.plans() {
                let place = format!("round {round} of the {side}");
                match self.rounds_of(&plan.name).find(|result| result.round == round) {
                    None => lines.push(format!("{}, {place}: it was not run", plan.name)),
                    Some(result) => match self.trouble(result) {
                        Some(why) => lines.push(format!("{}, {place}: {why}", plan.name)),
                        None => lines.extend(silent(&table, plan, round).map(|bytes| {
                            let cell = result.cells.iter().find(|cell| cell.payload_bytes == bytes);
                            let why = cell.map_or("it was not measured", PayloadResult::why_silent);
                            let at = at_text(bytes, has_several_sizes(plan, cell));
                            format!("{} {at}, {place}: {why}", plan.name)
                        })),
                    },
                }
            }
        }
        lines
    }

    /// Properties that experiments must share to be compared over time.
    pub fn machine(&self) -> MachineFacts {
        let environment = &self.manifest.environment;
        let mut machine = MachineFacts::from([
            ("CPUs".to_owned(), environment.cpus.len().to_string()),
            ("CPU".to_owned(), environment.cpu_model.clone()),
            ("kernel".to_owned(), environment.kernel.clone()),
            ("clock".to_owned(), environment.clock.source.clone()),
            ("hosts of followers".to_owned(), followers_of(environment)),
        ]);
        let findings = environment.audit_before.iter().flat_map(|audit| &audit.findings);
        let settings = findings.filter(|finding| SETTINGS.contains(&finding.check.as_str()));
        machine.extend(settings.map(|finding| (finding.check.clone(), finding.value.clone())));
        machine
    }
}

/// Findings about a sub-experiment apart from its figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubStanding {
    /// Reason that it fails whatever its figures.
    pub distrust: Option<String>,
    /// Notes, a line each.
    pub notes: Vec<String>,
}

fn followers_of(environment: &Environment) -> String {
    let names: Vec<&str> = environment.hosts.iter().map(|host| host.name.as_str()).collect();
    if names.is_empty() { "this host".to_owned() } else { names.join(", ") }
}

/// Planned payloads of a sub-experiment without latencies in a round. None if bounds end a trial, because a rate of 0 is
/// a valid figure then.
fn silent<'a>(table: &'a MetricTable, plan: &'a SubExperiment, round: u32) -> impl Iterator<Item = u64> + 'a {
    let has_latency = move |row: Row| {
        let has = |figure: &Figure| {
            let found = table.get(row, &Stream::all(), *figure, Statistic::P50);
            found.is_some_and(|rounds| rounds.at(round).is_some())
        };
        LATENCIES.iter().any(has)
    };
    let is_silent = move |bytes: &&u64| {
        let is_of = |row: &Row| row.payload_bytes == **bytes && table.sub(*row) == plan.name;
        let mut rows = table.all_rows().filter(is_of).peekable();
        rows.peek().is_none() || rows.any(|row| !has_latency(row))
    };
    let payloads = if plan.trial_end() == Some(TrialEnd::Bounds) { &[][..] } else { &plan.payloads[..] };
    payloads.iter().filter(is_silent).copied()
}

/// Differences between two machines in properties known for both: name, first value, second value.
pub fn differences<'a>(one: &'a MachineFacts, other: &'a MachineFacts) -> impl Iterator<Item = [&'a str; 3]> {
    let pairs = one.iter().filter_map(|(name, value)| Some([name, value, other.get(name)?].map(String::as_str)));
    pairs.filter(|[_, one, other]| one != other)
}

/// Differences between two sub-experiments: property, first value, second value.
pub type PlanDifferences = Vec<(&'static str, String, String)>;

/// Differences between the measurements of two sub-experiments with the same name.
pub fn differences_of_plans(one: &SubExperiment, other: &SubExperiment) -> PlanDifferences {
    let own = [
        ("transport", [one.transport.to_string(), other.transport.to_string()]),
        ("wait", [one.wait.to_string(), other.wait.to_string()]),
        ("touch", [one.touch.to_string(), other.touch.to_string()]),
        ("sched", [one.sched.to_string(), other.sched.to_string()]),
        ("background load", [one.background.to_string(), other.background.to_string()]),
    ];
    [differing(own), differences_of_workloads(one, other)].concat()
}

/// Differences in topology, which make figures incomparable.
pub fn differences_of_workloads(one: &SubExperiment, other: &SubExperiment) -> PlanDifferences {
    let topologies = [one, other].map(|plan| plan.workload.topology);
    let of = |count: fn(&Topology) -> u32| topologies.each_ref().map(|of| count(of).to_string());
    differing([
        ("followers", of(|of| of.followers)),
        ("topics", of(|of| of.topics)),
        ("publishers", of(|of| of.publishers)),
        ("clients", of(|of| of.clients)),
    ])
}

fn differing<const N: usize>(all: [(&'static str, [String; 2]); N]) -> PlanDifferences {
    let differing = all.into_iter().filter(|(_, [one, other])| one != other);
    differing.map(|(what, [one, other])| (what, one, other)).collect()
}
