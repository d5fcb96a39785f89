//! The results of one folder, and which of them do not count.

use crate::selection::LATENCIES;
use crate::table::{MetricTable, Row};
use std::collections::BTreeMap;
use tripmeter_model::Pattern;
use tripmeter_model::address::FigureAddress;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::{
    Environment, Manifest, PayloadResult, RunStatus, SubExperimentResult, has_several_sizes,
};
use tripmeter_model::metric::Stream;
use tripmeter_model::payload::at_text;
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::workload::Topology;

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

/// An experiment that is judged.
#[derive(Clone, Debug)]
pub struct JudgedResults {
    /// What was measured.
    pub manifest: Manifest,
    /// Damaged messages are no reason to leave figures out.
    pub allows_damage: bool,
}

impl JudgedResults {
    /// Every figure that is there.
    pub fn table(&self) -> MetricTable {
        MetricTable::of(&self.manifest)
    }

    /// The figures that are trusted: not of sub-experiments that failed in their round, or whose messages came damaged, nor
    /// of payloads that were interrupted.
    pub fn trusted(&self) -> MetricTable {
        MetricTable::of_those(&self.manifest, |result, cell| {
            result.distrust(self.allows_damage).is_none() && !cell.is_cut_off()
        })
    }

    /// The trusted figures of sub-experiments that came to their end in their round.
    pub fn whole(&self) -> MetricTable {
        MetricTable::of_those(&self.manifest, |result, _| self.trouble(result).is_none())
    }

    /// One round by itself.
    #[must_use]
    pub fn of_round(&self, round: u32) -> Self {
        let mut one = self.clone();
        one.manifest.plan.rounds = 1;
        one.manifest.sub_experiments.retain(|result| result.round == round);
        one
    }

    /// Whether it is still measured; so it looks after a kill too.
    pub fn is_running(&self) -> bool {
        self.manifest.status == RunStatus::Running
    }

    /// What was planned, without passes of `tripmeter explain` that were disturbed.
    fn plans(&self) -> impl Iterator<Item = &SubExperiment> {
        self.manifest.plan.sub_experiments.iter().filter(|sub| !sub.is_disturbed())
    }

    /// The names of what was planned, in the order of the plan.
    pub fn names(&self) -> Vec<&str> {
        self.plans().map(|sub| sub.name.as_str()).collect()
    }

    /// What was planned under a name.
    pub fn plan(&self, name: &str) -> Option<&SubExperiment> {
        self.plans().find(|sub| sub.name == name)
    }

    /// Rounds of a sub-experiment that were begun.
    fn rounds_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a SubExperimentResult> {
        self.manifest.sub_experiments.iter().filter(move |result| result.name == name)
    }

    fn trouble(&self, result: &SubExperimentResult) -> Option<String> {
        result.trouble().or_else(|| result.distrust(self.allows_damage))
    }

    /// Before a reason, of which round it is if there are several.
    fn in_round(&self, result: &SubExperimentResult, why: &str) -> String {
        if self.manifest.plan.rounds > 1 { format!("round {}: {why}", result.round) } else { why.to_owned() }
    }

    /// Why the figures of a sub-experiment are not trusted, if so.
    pub fn distrust(&self, name: &str) -> Option<String> {
        let why = |result: &SubExperimentResult| Some(self.in_round(result, &result.distrust(self.allows_damage)?));
        self.rounds_of(name).find_map(why)
    }

    /// That a sub-experiment lacks payloads or samples because its run was killed or interrupted, if so.
    pub fn unfinished(&self, name: &str) -> Option<String> {
        let planned = self.plan(name)?.payloads.len();
        let is_ended = |result: &SubExperimentResult| matches!(result.status, RunStatus::Complete | RunStatus::Failed);
        let told = |measured: usize| format!("it did not come to its end: {measured} of {planned} payloads");
        let mut rounds = self.rounds_of(name).peekable();
        if rounds.peek().is_none() {
            return Some(told(0));
        }
        let why = |result: &SubExperimentResult| {
            let whole = result.cells.iter().filter(|cell| !cell.is_cut_off()).count();
            let cut_off = self.cut_off(result).map_or_else(String::new, |why| format!("; {why}"));
            let is_short = !is_ended(result) && whole < planned;
            is_short.then(|| self.in_round(result, &(told(whole) + &cut_off)))
        };
        rounds.find_map(why)
    }

    /// That a payload of a sub-experiment that came to its end has nothing at an offered load, if so.
    pub fn unmeasured(&self, name: &str) -> Option<String> {
        let plan = self.plan(name)?;
        self.rounds_of(name).find_map(|result| {
            let one = result.unmeasured(plan).next()?;
            Some(self.in_round(result, &one.to_string()))
        })
    }

    /// A line about the payloads of a sub-experiment that their time cap ended, if there are any.
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

    /// What is to be known of the figures of a sub-experiment: that its time cap ended it, and that it polled on a CPU that it
    /// shared.
    pub fn notes(&self, name: &str) -> Vec<String> {
        let plan = &self.manifest.plan;
        let polled = self.plan(name).filter(|one| plan.polls_on_shared_cpu(one));
        self.capped(name).into_iter().chain(polled.and_then(|one| plan.shared_cpus(one))).collect()
    }

    /// Why a sub-experiment fails whatever its figures are, and what else is to be known; `judged` are the figures of it that
    /// count. A rate that was missed is a failure unless it is judged itself.
    pub fn standing(&self, name: &str, table: &MetricTable, judged: &[&FigureAddress]) -> SubStanding {
        let [missed, known] = table.missed_rates(name, judged);
        let distrust = self.distrust(name).or_else(|| self.unfinished(name)).or_else(|| self.unmeasured(name));
        let distrust = distrust.or_else(|| missed.into_iter().next().map(|(_, why)| why));
        let notes = self.notes(name).into_iter().chain(known.into_iter().map(|(_, why)| why));
        SubStanding { distrust, notes: notes.collect() }
    }

    /// Why rounds of sub-experiments are not among the trusted figures, a line each that begins with their names.
    pub fn left_out(&self) -> Vec<String> {
        let why = |result: &SubExperimentResult| {
            let why = result.distrust(self.allows_damage).or_else(|| self.cut_off(result))?;
            Some(format!("'{}': {}", result.name, self.in_round(result, &why)))
        };
        let is_disturbed =
            |name: &str| self.manifest.plan.sub_experiments.iter().any(|sub| sub.name == name && sub.is_disturbed());
        self.manifest.sub_experiments.iter().filter(|result| !is_disturbed(&result.name)).filter_map(why).collect()
    }

    /// Why a payload that was interrupted has fewer samples than planned, if there is one.
    fn cut_off(&self, result: &SubExperimentResult) -> Option<String> {
        let cell = result.cells.iter().filter(|_| result.status != RunStatus::Failed).find(|cell| cell.is_cut_off())?;
        cell.shortfall(self.plan(&result.name)?)
    }

    /// Rounds of a side that do not count or were not run, and payloads of others that lack figures other rounds have.
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

    /// What figures of other experiments must share to be compared over time.
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

/// What a sub-experiment is worth beside its figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubStanding {
    /// Why it fails whatever its figures are.
    pub distrust: Option<String>,
    /// What is to be known of it, a line each.
    pub notes: Vec<String>,
}

/// Names of the hosts that followers were on.
fn followers_of(environment: &Environment) -> String {
    let names: Vec<&str> = environment.hosts.iter().map(|host| host.name.as_str()).collect();
    if names.is_empty() { "this host".to_owned() } else { names.join(", ") }
}

/// Planned payloads of a sub-experiment that have no latency in a round; none under `throughput`, whose rate of 0 is a
/// figure like any other.
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
    let payloads = if plan.pattern == Pattern::Throughput { &[][..] } else { &plan.payloads[..] };
    payloads.iter().filter(is_silent).copied()
}

/// What differs between two machines, as far as it is known of both: name, one, other.
pub fn differences<'a>(one: &'a MachineFacts, other: &'a MachineFacts) -> impl Iterator<Item = [&'a str; 3]> {
    let pairs = one.iter().filter_map(|(name, value)| Some([name, value, other.get(name)?].map(String::as_str)));
    pairs.filter(|[_, one, other]| one != other)
}

/// What differs between two sub-experiments of one name: what, one, other.
pub type PlanDifferences = Vec<(&'static str, String, String)>;

/// What differs in how two sub-experiments of one name were measured.
pub fn differences_of_plans(one: &SubExperiment, other: &SubExperiment) -> PlanDifferences {
    let own = [
        ("transport", [one.transport.to_string(), other.transport.to_string()]),
        ("wait", [one.wait.to_string(), other.wait.to_string()]),
        ("touch", [one.touch.to_string(), other.touch.to_string()]),
        ("sched", [one.sched.to_string(), other.sched.to_string()]),
        ("load", [one.load.to_string(), other.load.to_string()]),
    ];
    [differing(own), differences_of_workloads(one, other)].concat()
}

/// What differs in who sends to whom. Figures of one are no runs of the other.
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
