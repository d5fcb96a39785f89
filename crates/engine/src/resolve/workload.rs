//! Workload of an experiment. Each pattern has its own constructor and flags.

use super::error::Problem;
use super::{call, load, log, publish};
use tripmeter_abi::Pattern::{self, Call, Log, Ping, Publish, Throughput};
use tripmeter_model::experiment::Common;
use tripmeter_model::pace::LoadKind;
use tripmeter_model::pattern::{Axis, PATTERNS, PatternFacts, TrialEnd, facts};
use tripmeter_model::plan::Plan;
use tripmeter_model::workload::Workload;

/// Test that a pattern has a flag.
type Having = fn(&PatternFacts) -> bool;

const PACED: Having = |facts| facts.has_load(LoadKind::Rate);
const SEARCHED: Having = |facts| facts.has_load(LoadKind::Search);
const BOUNDED: Having = |facts| facts.allowed.iter().any(|allowed| allowed.end == TrialEnd::Bounds);
const TOPICS: Having = |facts| facts.has_axis(Axis::Topics);
const PUBLISHERS: Having = |facts| facts.has_axis(Axis::Publishers);
const CLIENTS: Having = |facts| facts.has_axis(Axis::Clients);
const MODES: Having = |facts| facts.allowed.iter().any(|allowed| allowed.names_request);

/// Workload with one follower; `common` has a single number of clients. `timeout_ns` is the requested loss timeout.
pub(super) fn for_pattern(common: &Common, pattern: Pattern, timeout_ns: Option<u64>) -> Result<Workload, Problem> {
    let given = [
        ("rate", common.rate.is_some(), PACED),
        ("loss_bound", common.loss_bound.is_some(), SEARCHED),
        ("demand", common.demand.is_some(), PACED),
        ("recovery_ms", common.recovery_ms.is_some(), PACED),
        ("duration_s", common.duration_s.is_some(), BOUNDED),
        ("topics", common.topics.is_some(), TOPICS),
        ("publishers", common.publishers.is_some(), PUBLISHERS),
        ("mode", common.mode.is_some(), MODES),
        ("clients", common.clients.is_some(), CLIENTS),
    ];
    let foreign = given.into_iter().find(|(_, is_given, has)| *is_given && !has(facts(pattern)));
    if let Some((flag, _, has)) = foreign {
        let having = PATTERNS.iter().filter(|facts| has(facts)).map(|facts| facts.pattern).collect();
        return Err(Problem::FlagOf { flag, pattern, having });
    }
    match pattern {
        Ping => call::round_trips(common, timeout_ns),
        Throughput => load::workload(common),
        Publish => publish::workload(common),
        Call => call::workload(common, timeout_ns),
        Log => log::lines(common),
    }
}

/// Default warm-up. For timed round trips, at most one second at the lowest rate, but at least one message.
pub(super) fn default_warmup(workload: &Workload, pattern: Pattern, samples: u64) -> u64 {
    let usual = Plan::default_warmup(samples);
    match pattern {
        Throughput => facts(pattern).defaults.warmup,
        Ping => {
            let slowest_hz = workload.loads.iter().filter_map(|load| load.hz()).fold(f64::INFINITY, f64::min);
            usual.min((slowest_hz as u64).max(1))
        }
        _ => usual,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(set: impl FnOnce(&mut Common), pattern: Pattern) -> String {
        let mut common = Common::default();
        set(&mut common);
        for_pattern(&common, pattern, None).unwrap_err().to_string()
    }

    #[test]
    fn a_flag_of_other_patterns_is_refused_with_those_that_have_it() {
        let error = refused(|common| common.duration_s = Some(1.0), Ping);
        assert!(error.contains("duration_s") && error.contains("pattern = \"throughput\""), "{error}");
        let error = refused(|common| common.topics = Some(2), Call);
        assert!(error.contains("topics") && error.contains("'publish' and 'throughput'"), "{error}");
        let error = refused(|common| common.mode = Some(tripmeter_model::experiment::Mode::Bench), Publish);
        assert!(error.contains("mode") && error.contains("pattern = \"call\""), "{error}");
        let error = refused(|common| common.clients = Some("2".to_owned()), Publish);
        assert!(error.contains("clients") && error.contains("'call'") && error.contains("'ping'"), "{error}");
        let error = refused(|common| common.rate = Some("1000".to_owned()), Log);
        for part in ["'log'", "'throughput'", "'ping'", "'publish'", "'call'"] {
            assert!(error.contains(part), "no {part} in {error}");
        }
        let error = refused(|common| common.demand = Some("4".to_owned()), Log);
        assert!(error.contains("'demand'") && error.contains("'call'"), "{error}");
    }

    #[test]
    fn round_trips_and_lines_follow_each_other() {
        let of = |pattern| for_pattern(&Common::default(), pattern, None).unwrap();
        assert_eq!((of(Ping), of(Log)), (Workload::default(), Workload::lines()));
    }

    #[test]
    fn rates_and_bursts_of_every_pattern_that_has_a_pace_are_loads() {
        let common = |rate: Option<&str>, demand: Option<&str>| {
            let (rate, demand) = (rate.map(str::to_owned), demand.map(str::to_owned));
            Common { rate, demand, ..Common::default() }
        };
        for pattern in [Ping, Throughput, Publish, Call] {
            for (common, is_burst) in [(common(Some("1000"), None), false), (common(None, Some("4")), true)] {
                let workload = for_pattern(&common, pattern, None).unwrap();
                assert_eq!((workload.loads.len(), workload.has_bursts()), (1, is_burst), "{pattern}");
            }
        }
    }
}
