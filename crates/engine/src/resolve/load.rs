//! Offered loads of pattern `throughput`, and of patterns that send at due times.

use super::error::Problem;
use super::topology;
use tripmeter_model::experiment::Common;
use tripmeter_model::pace::{Burst, OfferedLoad};
use tripmeter_model::pattern::{AllowedWorkload, TrialEnd};
use tripmeter_model::workload::{Topology, Workload};

/// Default length of a trial in seconds, if no number of messages is given either.
const DEFAULT_DURATION_S: f64 = 1.0;
/// Default period of bursts, in milliseconds.
///
/// # Source
/// eProsima's throughput test.
const DEFAULT_RECOVERY_MS: &str = "5";
const LONGEST_DURATION_S: f64 = 86_400.0;
const LOWEST_RATE_HZ: f64 = 0.001;
const HIGHEST_RATE_HZ: f64 = 1e9;
const MOST_LOSS: f64 = 0.99999;
const LARGEST_DEMAND: f64 = 1e9;
const LONGEST_RECOVERY_MS: f64 = 60_000.0;
/// Default rate of messages on each topic, or of calls of each client.
///
/// # Source
/// AimRT's benchmarks of its channel and RPC back ends.
const DEFAULT_RATE_HZ: &str = "1000";
const HIGHEST_TIMED_RATE_HZ: f64 = 1e6;
/// Shortest period of timed bursts: each must end before the next is due.
const SHORTEST_RECOVERY_MS: f64 = 0.001;
pub(super) const MOST_OFFERS: usize = 100;

/// Workload as fast as possible, at rates, in bursts, or at the highest rate within a loss bound.
pub(super) fn workload(common: &Common) -> Result<Workload, Problem> {
    let Common { rate, loss_bound, demand, recovery_ms, duration_s, .. } = common;
    let given = [("--rate", rate), ("--loss-bound", loss_bound), ("--demand", demand)];
    let exclusive: Vec<&str> = given.iter().filter(|(_, value)| value.is_some()).map(|(flag, _)| *flag).collect();
    if exclusive.len() > 1 {
        return Err(Problem::OffersExclude(exclusive.join(", ")));
    }
    recovery_fits(common)?;
    duration_s.map_or(Ok(()), duration)?;
    let duration_s = duration_s.or_else(|| common.samples.is_none().then_some(DEFAULT_DURATION_S));
    let loads = match (rate, loss_bound, demand) {
        (_, Some(bound), _) => vec![OfferedLoad::Search { loss_bound: share(bound)? }],
        (_, _, Some(demand)) => bursts(demand, recovery_ms.as_deref(), 0.0)?,
        (rate, ..) => list(rate.as_deref().unwrap_or("max"), self::rate)?,
    };
    check(&loads)?;
    let duration_ns = duration_s.map(|seconds| (seconds * 1e9).ceil() as u64);
    let (topics, publishers) = topology::streams(common)?;
    let workload = Workload::saturating(loads, common.samples, duration_ns);
    Ok(Workload { topology: Topology { topics, publishers, ..workload.topology }, ..workload })
}

/// Loads of each topic, publisher or client: rates, then bursts. The default rate is used if neither is given.
pub(super) fn timed(common: &Common) -> Result<Vec<OfferedLoad>, Problem> {
    recovery_fits(common)?;
    let rate = |text: &str| {
        let hz = timed_rate(
            text,
            "--rate takes a plain number of messages or calls per second, from 0.001 to 1e6, e.g. 30",
        )?;
        Ok(OfferedLoad::Rate { hz })
    };
    let usual = common.demand.is_none().then_some(DEFAULT_RATE_HZ);
    let mut loads = common.rate.as_deref().or(usual).map_or(Ok(Vec::new()), |rates| list(rates, rate))?;
    if let Some(demand) = &common.demand {
        loads.extend(bursts(demand, common.recovery_ms.as_deref(), SHORTEST_RECOVERY_MS)?);
    }
    check(&loads)?;
    Ok(loads)
}

pub(super) fn timed_rate(text: &str, what: &'static str) -> Result<f64, Problem> {
    number(text, LOWEST_RATE_HZ, HIGHEST_TIMED_RATE_HZ, what)
}

fn recovery_fits(common: &Common) -> Result<(), Problem> {
    if common.recovery_ms.is_some() && common.demand.is_none() { Err(Problem::RecoveryAlone) } else { Ok(()) }
}

pub(super) fn duration(seconds: f64) -> Result<(), Problem> {
    if seconds > 0.0 && seconds <= LONGEST_DURATION_S { Ok(()) } else { Err(Problem::Duration(seconds)) }
}

/// Checks that all loads belong to the workload and are within range.
pub(super) fn check_of(allowed: Option<&AllowedWorkload>, workload: &Workload) -> Result<(), Problem> {
    check(&workload.loads)?;
    let (highest_hz, shortest_ms) = match allowed.is_some_and(|allowed| allowed.end == TrialEnd::Bounds) {
        true => (HIGHEST_RATE_HZ, 0.0),
        false => (HIGHEST_TIMED_RATE_HZ, SHORTEST_RECOVERY_MS),
    };
    let is_bounded = |load: &OfferedLoad| match *load {
        OfferedLoad::Closed | OfferedLoad::Recorded => workload.loads.len() == 1,
        OfferedLoad::Max => true,
        OfferedLoad::Search { loss_bound } => (0.0..=MOST_LOSS).contains(&loss_bound),
        OfferedLoad::Rate { hz } => (LOWEST_RATE_HZ..=highest_hz).contains(&hz),
        OfferedLoad::Burst(Burst { size, gap_ns }) => {
            let is_gap = (shortest_ms..=LONGEST_RECOVERY_MS).contains(&(gap_ns as f64 / 1e6));
            (1..=LARGEST_DEMAND as u64).contains(&size) && is_gap
        }
    };
    let fits = |load: &OfferedLoad| allowed.is_some_and(|allowed| allowed.allows(load)) && is_bounded(load);
    let what = "not a load of its pattern, or outside the bounds of --rate, --loss-bound, --demand and --recovery";
    match workload.loads.iter().find(|load| !fits(load)) {
        Some(load) => Err(Problem::NotALoad { text: load.to_string(), what }),
        None if workload.loads.is_empty() => Err(Problem::NotALoad { text: String::new(), what }),
        None => Ok(()),
    }
}

/// Refuses too many loads, and equal ones.
fn check(loads: &[OfferedLoad]) -> Result<(), Problem> {
    if loads.len() > MOST_OFFERS {
        return Err(Problem::TooManyOffers { count: loads.len(), most: MOST_OFFERS });
    }
    if let Some(index) = (1..loads.len()).find(|index| loads[..*index].contains(&loads[*index])) {
        let flags = if loads[index].burst().is_some() { "--demand and --recovery" } else { "--rate" };
        return Err(Problem::OfferTwice { flags, trial: index + 1 });
    }
    Ok(())
}

pub(super) fn list<T>(text: &str, one: impl Fn(&str) -> Result<T, Problem>) -> Result<Vec<T>, Problem> {
    text.split(',').map(|word| one(word.trim())).collect()
}

pub(super) fn number(text: &str, low: f64, high: f64, what: &'static str) -> Result<f64, Problem> {
    let wrong = || Problem::NotALoad { text: text.to_owned(), what };
    text.parse().ok().filter(|value: &f64| *value >= low && *value <= high).ok_or_else(wrong)
}

fn rate(text: &str) -> Result<OfferedLoad, Problem> {
    if text == "max" {
        return Ok(OfferedLoad::Max);
    }
    let what = "--rate takes 'max' or a plain number of messages per second, from 0.001 to 1e9, e.g. 30";
    Ok(OfferedLoad::Rate { hz: number(text, LOWEST_RATE_HZ, HIGHEST_RATE_HZ, what)? })
}

/// Parses a share such as `0.5%` or `0.005`.
fn share(text: &str) -> Result<f64, Problem> {
    let what = "--loss-bound takes a share below 100%, e.g. 0, 0.5% or 0.005";
    let share = match text.strip_suffix('%') {
        Some(percent) => number(percent.trim_end(), 0.0, MOST_LOSS * 100.0, what).map(|percent| percent / 100.0),
        None => number(text, 0.0, MOST_LOSS, what),
    };
    share.map_err(|_| Problem::NotALoad { text: text.to_owned(), what })
}

fn bursts(demand: &str, recovery_ms: Option<&str>, shortest_ms: f64) -> Result<Vec<OfferedLoad>, Problem> {
    let whole = |text: &str| {
        let what = "--demand takes a number of messages per burst, from 1 to 1e9";
        let wrong = Problem::NotALoad { text: text.to_owned(), what };
        let demand = number(text, 1.0, LARGEST_DEMAND, what)?;
        if demand.fract() == 0.0 { Ok(demand as u64) } else { Err(wrong) }
    };
    let what = match shortest_ms {
        0.0 => "--recovery takes milliseconds, from 0 to 60000",
        _ => "--recovery takes milliseconds, from 0.001 to 60000",
    };
    let milliseconds = |text: &str| number(text, shortest_ms, LONGEST_RECOVERY_MS, what);
    let recoveries = list(recovery_ms.unwrap_or(DEFAULT_RECOVERY_MS), milliseconds)?;
    let pairs = list(demand, whole)?.into_iter().flat_map(|size| recoveries.iter().map(move |ms| (size, *ms)));
    let burst = |(size, ms): (u64, f64)| OfferedLoad::Burst(Burst { size, gap_ns: (ms * 1e6).round() as u64 });
    Ok(pairs.map(burst).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common(set: impl FnOnce(&mut Common)) -> Common {
        let mut common = Common::default();
        set(&mut common);
        common
    }

    fn offers(set: impl FnOnce(&mut Common)) -> Vec<OfferedLoad> {
        workload(&common(set)).unwrap().loads
    }

    fn refused(set: impl FnOnce(&mut Common)) -> String {
        workload(&common(set)).unwrap_err().to_string()
    }

    #[test]
    fn as_fast_as_it_goes_for_a_second_is_the_default() {
        let usual = workload(&Common::default()).unwrap();
        assert_eq!(usual, Workload::saturating(vec![OfferedLoad::Max], None, Some(1_000_000_000)));
        let counted = workload(&common(|common| common.samples = Some(7))).unwrap();
        assert_eq!((counted.most_messages, counted.duration_ns), (Some(7), None));
    }

    #[test]
    fn lists_make_trials() {
        let rates = offers(|common| common.rate = Some("1000, 2.5e5,max".to_owned()));
        assert_eq!(rates, [OfferedLoad::Rate { hz: 1000.0 }, OfferedLoad::Rate { hz: 250_000.0 }, OfferedLoad::Max]);
        let bursts = offers(|common| {
            (common.demand, common.recovery_ms) = (Some("10,20".to_owned()), Some("0,2.5".to_owned()));
        });
        let burst = |demand, recovery_ns| OfferedLoad::Burst(Burst { size: demand, gap_ns: recovery_ns });
        assert_eq!(bursts, [burst(10, 0), burst(10, 2_500_000), burst(20, 0), burst(20, 2_500_000)]);
        for (text, loss_bound) in [("0", 0.0), ("0.5%", 0.005), ("0.005", 0.005), ("1 %", 0.01)] {
            assert_eq!(
                offers(|common| common.loss_bound = Some(text.to_owned())),
                [OfferedLoad::Search { loss_bound }]
            );
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_flag() {
        for rate in ["0", "-1", "fast", "1e10", "", "1,,2", "nan", "inf"] {
            assert!(refused(|common| common.rate = Some(rate.to_owned())).contains("--rate"), "{rate}");
        }
        for bound in ["1", "100%", "-0.1", "x", "%", "nan"] {
            assert!(refused(|common| common.loss_bound = Some(bound.to_owned())).contains("--loss-bound"), "{bound}");
        }
        assert!(refused(|common| common.loss_bound = Some("200 %".to_owned())).contains("'200 %'"));
        assert!(refused(|common| common.rate = Some("10,20,10.0".to_owned())).contains("trial 3"));
        let twice =
            refused(|common| (common.demand, common.recovery_ms) = (Some("9".to_owned()), Some("1,1".to_owned())));
        assert!(twice.contains("--demand and --recovery") && twice.contains("trial 2"), "{twice}");
        for demand in ["0", "1.5", "x"] {
            assert!(refused(|common| common.demand = Some(demand.to_owned())).contains("--demand"), "{demand}");
        }
        let both = refused(|common| (common.rate, common.demand) = (Some("1".to_owned()), Some("1".to_owned())));
        assert!(both.contains("--rate, --demand"), "{both}");
        assert!(refused(|common| common.recovery_ms = Some("1".to_owned())).contains("--demand"));
        assert!(refused(|common| common.duration_s = Some(0.0)).contains("--duration"));
        let many = (1..200).map(|rate| rate.to_string()).collect::<Vec<_>>().join(",");
        assert!(refused(|common| common.rate = Some(many)).contains("199"));
    }

    #[test]
    fn streams_are_offered_rates_then_bursts_and_the_usual_rate_only_without_either() {
        let of = |rate: Option<&str>, demand: Option<&str>, recovery: Option<&str>| {
            let own = |text: Option<&str>| text.map(str::to_owned);
            let (rate, demand, recovery_ms) = (own(rate), own(demand), own(recovery));
            timed(&Common { rate, demand, recovery_ms, ..Common::default() }).map_err(|problem| problem.to_string())
        };
        let burst = |size, gap_ns| OfferedLoad::Burst(Burst { size, gap_ns });
        let rate = |hz| OfferedLoad::Rate { hz };
        assert_eq!(of(None, None, None).unwrap(), [rate(1000.0)]);
        assert_eq!(of(None, Some("4"), None).unwrap(), [burst(4, 5_000_000)]);
        let mixed = of(Some("10,20"), Some("1,4"), Some("0.5,2")).unwrap();
        let each = [(1, 500_000), (1, 2_000_000), (4, 500_000), (4, 2_000_000)].map(|(size, gap)| burst(size, gap));
        assert_eq!(mixed, [&[rate(10.0), rate(20.0)][..], &each].concat());
        for (rate, demand, recovery, part) in [
            (None, None, Some("5"), "--demand"),
            (None, Some("4"), Some("0"), "0.001 to 60000"),
            (None, Some("0"), None, "--demand"),
            (None, Some("4,4"), None, "trial 2 repeats"),
            (Some("7"), Some("4"), Some("1,1"), "trial 3 repeats"),
            (Some("max"), Some("4"), None, "--rate"),
        ] {
            let error = of(rate, demand, recovery).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
