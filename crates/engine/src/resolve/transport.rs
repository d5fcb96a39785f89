//! Checks of one transport against its description and this machine.

use super::error::{Problem, listed};
use super::names::default_name;
use super::planner::{Candidate, Planner};
use super::task::PlannedTask;
use super::{log, real_time};
use crate::node_options::node_options;
use crate::registry::RegistryError;
use crate::suggest::did_you_mean;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use tripmeter_abi::{Description, Names, NodeOptions, Role, Status, Variant, Wait};
use tripmeter_model::pattern::facts;
use tripmeter_model::plan::{Daemons, SubExperiment};
use tripmeter_model::recording::Recording;
use tripmeter_model::secret::secret;
use tripmeter_model::transport::{Selector, Transport};

pub(super) fn variants<'a>(description: &'a Description, word: Option<&str>) -> Result<Vec<&'a Variant>, Problem> {
    match word {
        None => Ok(description.variants.first().into_iter().collect()),
        Some("*") => Ok(description.variants.iter().collect()),
        Some(name) => match description.variant(name) {
            Some(variant) => Ok(vec![variant]),
            None => {
                let names = || description.variants.iter().map(|variant| variant.name.as_str());
                let hint = did_you_mean(name, names());
                Err(Problem::UnknownVariant { variant: name.to_owned(), known: listed(names()), hint })
            }
        },
    }
}

impl Planner<'_> {
    /// Plans a sub-experiment of this transport, if it can run here.
    pub(super) fn make(
        &self,
        candidate: &Candidate,
        selector: &Selector,
        task: &PlannedTask,
    ) -> Result<SubExperiment, Problem> {
        let transport = settle(candidate, &selector.settings)?;
        let variant = candidate.variant;
        let PlannedTask { pattern, ref workload, .. } = *task;
        if !variant.patterns.contains(&pattern) {
            return Err(Problem::Pattern { pattern, can: listed(&variant.patterns) });
        }
        if workload.is_fan_out() && !variant.fan_out {
            return Err(Problem::NoFanOut(workload.followers()));
        }
        if workload.publishers() > 1 && !variant.publishers {
            let can = self.registry.variants_with(|variant| variant.publishers);
            return Err(Problem::OnePublisher { publishers: workload.publishers(), can: listed(can) });
        }
        if !self.plan.hosts.is_empty() && !variant.remote {
            return Err(Problem::OneHost {
                path: variant.path,
                can: Some(listed(self.registry.variants_with(|variant| variant.remote))),
            });
        }
        let facts = facts(pattern);
        let has_several = task.has_clients || workload.links() > 1;
        if !self.plan.cpus.is_empty() && !facts.takes_cpu_set && !has_several {
            return Err(Problem::CpusOf(pattern));
        }
        let follower_cpus = self.cpus_of_followers(workload.followers());
        // On a single CPU, a polling loop would also block the threads that deliver messages from other hosts.
        let takes_turns = self.plan.shares_cpus(&follower_cpus) || self.machine.cpus.len() == 1;
        let wait = wait_of(variant, task.wait, takes_turns || facts.blocks || has_several)?;
        let mut sub_experiment = SubExperiment {
            name: String::new(),
            title: transport.to_string().to_uppercase(),
            transport,
            pattern,
            workload: workload.clone(),
            wait,
            touch: task.touch,
            sched: task.sched,
            background: task.background,
            payloads: task.payloads.clone(),
            samples: task.samples,
            samples_above: task.samples_above.clone(),
            warmup: task.warmup,
            one_way: task.one_way,
            follower_cpus,
            time_cap_ns: task.time_cap_ns,
            environment: BTreeMap::new(),
            answer_delay_ns: 0,
            instrument: None,
            added_as_floor: false,
        };
        real_time::check(self.plan, &sub_experiment, variant)?;
        self.probe(candidate, &sub_experiment)?;
        log::check_lines(variant, &sub_experiment, self.scratch)?;
        sub_experiment.name = default_name(&sub_experiment, self.plan);
        Ok(sub_experiment)
    }

    /// CPUs of several followers; empty for a single follower, which uses the plan's CPU.
    fn cpus_of_followers(&self, followers: u32) -> Vec<usize> {
        // Other hosts have other CPUs, and choose themselves. With `--cpus`, the kernel chooses.
        if !self.plan.hosts.is_empty() || !self.plan.cpus.is_empty() {
            return Vec::new();
        }
        let leader = self.plan.leader_cpu.unwrap_or_default();
        if followers > 1 { self.machine.spread(leader, self.follower_cpu, followers) } else { Vec::new() }
    }

    fn probe(&self, candidate: &Candidate, sub_experiment: &SubExperiment) -> Result<(), Problem> {
        let options = NodeOptions {
            run_id: self.run_id.clone(),
            scratch_dir: self.scratch.to_path_buf(),
            // Only its presence matters: the real address is known once the hosts are connected.
            local_address: (!self.plan.hosts.is_empty()).then_some(Ipv4Addr::LOCALHOST.into()),
            ..node_options(sub_experiment, Role::Leader)
        };
        let largest = options.max_payload_bytes;
        match candidate.entry.probe(&options) {
            Ok(limits) if limits.max_payload_bytes < largest => {
                let daemon = candidate.description.daemon.clone();
                if let Some(topic) = self.plan.recording.as_ref().and_then(Recording::largest) {
                    let (topic, limit) = (topic.name.clone(), limits.max_payload_bytes);
                    return Err(Problem::RecordedOverLimit { topic, payload: largest, limit, daemon });
                }
                Err(Problem::PayloadOverLimit { payload: largest, limit: limits.max_payload_bytes, daemon })
            }
            Ok(_) => Ok(()),
            Err(RegistryError::Refused(error)) if error.status == Status::NoDaemon => self.daemon(candidate, &options),
            Err(RegistryError::Refused(error)) => Err(match &self.plan.recording {
                Some(recording) if error.status == Status::Limit => {
                    let topic = recording.largest().map_or_else(String::new, |topic| topic.name.clone());
                    let topics = recording.topics.len();
                    Problem::RecordingRefused { topics, topic, payload: largest, error: Box::new(error.into()) }
                }
                _ => RegistryError::from(error).into(),
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Checks that a daemon that is not running may be started, and that its program is installed.
    fn daemon(&self, candidate: &Candidate, options: &NodeOptions) -> Result<(), Problem> {
        let daemon = candidate.description.daemon.clone().unwrap_or_default();
        if self.plan.daemons == Daemons::Require {
            return Err(Problem::DaemonRequired { daemon });
        }
        let command = candidate.entry.daemon_command(options)?;
        let program = command.map_or_else(|| daemon.clone(), |command| command.program);
        // If a script starts the daemon, the daemon's program must be installed too.
        let needed = [if program == "sh" { daemon.clone() } else { program.clone() }, program];
        match needed.into_iter().find(|program| !(self.machine.has_program)(program)) {
            None => Ok(()),
            Some(program) => {
                let remedy = candidate.entry.remedy();
                Err(Problem::DaemonMissing { daemon, program, remedy })
            }
        }
    }
}

/// Transport with the values of all settings, and those that differ from their defaults.
fn settle(candidate: &Candidate, given: &BTreeMap<String, String>) -> Result<Transport, Problem> {
    let description = candidate.description;
    for key in given.keys() {
        let names = || description.settings.iter().map(|setting| setting.name.as_str());
        if !names().any(|name| name == key) {
            let known = match description.settings.len() {
                0 => "it has none".to_owned(),
                _ => format!("settings are {}", listed(names())),
            };
            let hint = did_you_mean(key, names());
            return Err(Problem::UnknownSetting { setting: key.clone(), known, hint });
        }
    }
    let mut transport = Transport {
        system: description.system.clone(),
        variant: candidate.variant.name.clone(),
        given: BTreeMap::new(),
        settings: BTreeMap::new(),
    };
    for setting in &description.settings {
        let mut value = given.get(&setting.name).unwrap_or(&setting.default).clone();
        if setting.names == Some(Names::File) && !value.is_empty() {
            value = absolute(value);
        }
        if value != setting.default {
            transport.given.insert(setting.name.clone(), value.clone());
        }
        transport.settings.insert(setting.name.clone(), value);
    }
    Ok(transport)
}

/// Absolute path of a file, for processes with another working directory; unchanged if our own is unknown.
fn absolute(path: String) -> String {
    let made = std::path::absolute(&path).ok().and_then(|path| path.into_os_string().into_string().ok());
    made.unwrap_or(path)
}

pub(super) fn check_secrets(settings: &BTreeMap<String, String>) -> Result<(), Problem> {
    match settings.iter().find_map(|(setting, value)| Some((setting, secret(setting, value)?))) {
        Some((setting, why)) => Err(Problem::SecretSetting { setting: setting.clone(), why }),
        None => Ok(()),
    }
}

/// The requested wait, else the first that the variant supports of poll, block and callback. If `sleeps` is true, as on
/// a shared CPU, poll comes last.
fn wait_of(variant: &Variant, asked: Option<Wait>, sleeps: bool) -> Result<Wait, Problem> {
    let mut order = Wait::ALL.to_vec();
    if sleeps {
        order.sort_by_key(|wait| *wait == Wait::Poll);
    }
    match asked {
        Some(wait) if variant.waits.contains(&wait) => Ok(wait),
        Some(wait) => Err(Problem::Wait { wait, can: listed(&variant.waits) }),
        None => order.into_iter().find(|wait| variant.waits.contains(wait)).ok_or(Problem::NoWait),
    }
}
