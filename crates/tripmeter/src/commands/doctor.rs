use crate::args::{DoctorArgs, PluginArgs};
use crate::error::CliError;
use crate::experiment;
use crate::output;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use tripmeter_engine::audit::{self, Root};
use tripmeter_engine::clock::Calibration;
use tripmeter_engine::hosts::{look_at, own_look};
use tripmeter_engine::registry::{Entry, Registry, SystemSource};
use tripmeter_engine::{os, resolve};
use tripmeter_model::audit::{Audit, CheckInfo, Finding, Level};
use tripmeter_model::exit;
use tripmeter_model::host::HostLook;

#[derive(Serialize)]
struct Findings<'a> {
    #[serde(flatten)]
    audit: &'a Audit,
    /// Resources that others can reach while a system is measured, by system.
    open_to_others: &'a BTreeMap<&'a str, &'a [String]>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    hosts: &'a [HostLook],
}

pub fn doctor(args: &DoctorArgs) -> Result<u8, CliError> {
    if args.list {
        let checks: Vec<CheckInfo> = audit::checks().collect();
        output::print(&if args.json { json(&checks) } else { output::text(&tripmeter_report::audit_checks(&checks)) })?;
        return Ok(exit::GOOD);
    }
    let each_host = to_interfaces(args)?;
    let cpus = match &args.cpus {
        Some(list) => allowed(&list.0)?,
        None => resolve::usual_cpus(),
    };
    if !args.quiet {
        output::say(&spinning(&cpus, args.seconds));
    }
    let mut audit = audit::before(&Root::machine(), &cpus, &Calibration::new(), Some(args.seconds));
    let registry = experiment::program().and_then(|program| experiment::registry(&PluginArgs::default(), &program));
    let registry = registry.map_err(|error| audit.findings.push(unusable(&error))).ok();
    let open_to_others = &registry.as_ref().map_or_else(BTreeMap::new, open_to_others);
    let (mut hosts, mut unreached) = (Vec::new(), None);
    for (to, there) in args.to.iter().zip(each_host) {
        if !args.quiet {
            output::say(&format!("examining '{to}'"));
        }
        match look_at(to, args.interface.as_deref(), there) {
            Ok(host) => hosts.push(host),
            Err(error) => {
                output::say(&format!("tripmeter: {error}"));
                unreached = Some(error.exit_code());
            }
        }
    }
    let text = if args.json {
        json(&Findings { audit: &audit, open_to_others, hosts: &hosts })
    } else {
        output::text(&tripmeter_report::audit(&audit, open_to_others))
    };
    output::print(&text)?;
    if let (Some(registry), false) = (&registry, args.json || hosts.is_empty()) {
        let own = own_look(registry, audit.clone());
        for host in &hosts {
            output::print(&format!("\n{}", output::text(&tripmeter_report::side_by_side(&own, host))))?;
        }
    }
    let audits = hosts.iter().map(|host| &host.machine.audit).chain([&audit]);
    let is_refused = args.strict && audits.into_iter().any(|audit| !audit.refused().is_empty());
    Ok(unreached.unwrap_or(if is_refused { exit::FINDING } else { exit::GOOD }))
}

fn to_interfaces(args: &DoctorArgs) -> Result<Vec<Option<&str>>, CliError> {
    match &args.to_interface[..] {
        [] => Ok(vec![None; args.to.len()]),
        [one] => Ok(vec![Some(one); args.to.len()]),
        each if each.len() == args.to.len() => Ok(each.iter().map(|one| Some(one.as_str())).collect()),
        each => {
            let text = format!(
                "{} interfaces are given (--to-interface) for {} hosts (--to); give one for all, or one for each",
                each.len(),
                args.to.len()
            );
            Err(CliError::new(exit::USAGE, text))
        }
    }
}

fn unusable(error: &CliError) -> Finding {
    Finding {
        check: "transports".to_owned(),
        level: Level::Fail,
        visible: true,
        value: error.to_string(),
        limit: "those that are installed can be listed".to_owned(),
        fix: Some("tripmeter list".to_owned()),
    }
}

/// Resources that installed systems leave open to others, by system.
fn open_to_others(registry: &Registry) -> BTreeMap<&str, &[String]> {
    let is_here = |entry: &&Entry| !matches!(entry.source, SystemSource::Missing { .. });
    let all =
        registry.entries().iter().filter(is_here).map(|entry| (entry.system(), &entry.sidecar.open_to_others[..]));
    all.filter(|(_, what)| !what.is_empty()).collect()
}

fn allowed(cpus: &[usize]) -> Result<Vec<usize>, CliError> {
    let allowed = os::allowed_cpus();
    if let Some(cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        let choice = written(&allowed);
        let text =
            format!("CPU {cpu} does not exist or is not allowed for this process; choose from {choice} (--cpus)");
        return Err(CliError::new(exit::USAGE, text));
    }
    Ok(cpus.to_vec())
}

fn spinning(cpus: &[usize], length: Duration) -> String {
    format!("checking CPUs {} for hiccups during {} s", written(cpus), length.as_secs_f64())
}

fn written(cpus: &[usize]) -> String {
    cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("it is plain data") + "\n"
}
