//! What is offered: under pattern `throughput`, and to the streams of timed patterns.

use super::Problem;
use tripmeter_abi::Pattern;
use tripmeter_model::experiment::Common;
use tripmeter_model::pace::{Burst, OfferedLoad, Offers};
use tripmeter_model::throughput::Load;

/// Messages of a warm-up if none are asked for.
pub(super) const DEFAULT_WARMUP: u64 = 100;
/// Length of a trial if neither time nor number is asked for.
const DEFAULT_DURATION_S: f64 = 1.0;
/// Period of bursts if none is asked for.
///
/// # Source
/// The default of eProsima's throughput test.
const DEFAULT_RECOVERY_MS: &str = "5";
const LONGEST_DURATION_S: f64 = 86_400.0;
const HIGHEST_RATE_HZ: f64 = 1e9;
const LARGEST_DEMAND: f64 = 1e9;
const LONGEST_RECOVERY_MS: f64 = 60_000.0;
/// Messages per second on each topic, or calls of each client, if nothing else is asked for.
///
/// # Source
/// AimRT's benchmarks of its channel and RPC back ends.
const DEFAULT_RATE_HZ: &str = "1000";
/// Of each topic or client.
const HIGHEST_TIMED_RATE_HZ: f64 = 1e6;
/// A burst at this period has to be over before the next one, which is due at some time.
const SHORTEST_RECOVERY_MS: f64 = 0.001;
/// Trials of one payload.
pub(super) const MOST_OFFERS: usize = 100;

/// The load that is asked for; `None` under other patterns, where nothing of it may be asked for.
pub(super) fn of(common: &Common, pattern: Pattern) -> Result<Option<Load>, Problem> {
    let Common { rate, loss_bound, demand, recovery_ms, duration_s, .. } = common;
    let duration = duration_s.map(|seconds| seconds.to_string());
    let given = [
        ("--rate", rate),
        ("--loss-bound", loss_bound),
        ("--demand", demand),
        ("--recovery", recovery_ms),
        ("--duration", &duration),
    ];
    let given: Vec<&'static str> = given.iter().filter(|(_, value)| value.is_some()).map(|(flag, _)| *flag).collect();
    if pattern != Pattern::Throughput {
        let has = |flag: &&&str| pattern != Pattern::Log && ["--rate", "--demand", "--recovery"].contains(*flag);
        return given.iter().find(|flag| !has(flag)).map_or(Ok(None), |flag| {
            let is_timed = ["--rate", "--demand", "--recovery"].contains(flag);
            Err(if is_timed { Problem::PaceOf { flag, pattern } } else { Problem::NotThroughput { flag, pattern } })
        });
    }
    let exclusive: Vec<&str> =
        given.iter().copied().filter(|flag| !["--recovery", "--duration"].contains(flag)).collect();
    if exclusive.len() > 1 {
        return Err(Problem::OffersExclude(exclusive.join(", ")));
    }
    recovery_fits(common)?;
    if let Some(seconds) = duration_s.filter(|seconds| !(*seconds > 0.0 && *seconds <= LONGEST_DURATION_S)) {
        return Err(Problem::Duration(seconds));
    }
    let duration_s = duration_s.or_else(|| common.samples.is_none().then_some(DEFAULT_DURATION_S));
    let offers = match (rate, loss_bound, demand) {
        (_, Some(bound), _) => vec![OfferedLoad::Search { loss_bound: share(bound)? }],
        (_, _, Some(demand)) => {
            bursts(demand, recovery_ms.as_deref(), 0.0)?.into_iter().map(OfferedLoad::Burst).collect()
        }
        (rate, ..) => list(rate.as_deref().unwrap_or("max"), self::rate)?,
    };
    check(&offers)?;
    let duration_ns = duration_s.map(|seconds| (seconds * 1e9).ceil() as u64);
    Ok(Some(Load { offers, messages: common.samples, duration_ns }))
}

/// What is asked for of each topic, publisher or client: rates, then bursts, or the usual rate.
pub(super) fn timed(common: &Common) -> Result<Offers, Problem> {
    recovery_fits(common)?;
    let rate = |text: &str| {
        number(text, 0.001, HIGHEST_TIMED_RATE_HZ, "messages per second (calls under rpc), 0.001 to 1e6 (--rate)")
    };
    let usual = common.demand.is_none().then_some(DEFAULT_RATE_HZ);
    let rates_hz = common.rate.as_deref().or(usual).map_or(Ok(Vec::new()), |rates| list(rates, rate))?;
    let bursts = common
        .demand
        .as_deref()
        .map_or(Ok(Vec::new()), |demand| bursts(demand, common.recovery_ms.as_deref(), SHORTEST_RECOVERY_MS))?;
    let offers = Offers { rates_hz, bursts, recorded: None };
    check(&offers.loads())?;
    Ok(offers)
}

fn recovery_fits(common: &Common) -> Result<(), Problem> {
    if common.recovery_ms.is_some() && common.demand.is_none() { Err(Problem::RecoveryAlone) } else { Ok(()) }
}

/// Refuses loads that are there twice, and too many of them.
fn check(loads: &[OfferedLoad]) -> Result<(), Problem> {
    if let Some(index) = (1..loads.len()).find(|index| loads[..*index].contains(&loads[*index])) {
        let flags = if loads[index].burst().is_some() { "--demand and --recovery" } else { "--rate" };
        return Err(Problem::OfferTwice { flags, trial: index + 1 });
    }
    if loads.len() > MOST_OFFERS {
        return Err(Problem::TooManyOffers { count: loads.len(), most: MOST_OFFERS });
    }
    Ok(())
}

pub(super) fn list<T>(text: &str, one: impl Fn(&str) -> Result<T, Problem>) -> Result<Vec<T>, Problem> {
    text.split(',').map(|word| one(word.trim())).collect()
}

/// A number in a range, both ends allowed.
pub(super) fn number(text: &str, low: f64, high: f64, what: &'static str) -> Result<f64, Problem> {
    let wrong = || Problem::NotALoad { text: text.to_owned(), what };
    text.parse().ok().filter(|value: &f64| *value >= low && *value <= high).ok_or_else(wrong)
}

fn rate(text: &str) -> Result<OfferedLoad, Problem> {
    if text == "max" {
        return Ok(OfferedLoad::Max);
    }
    let what = "'max' or messages per second, 0.001 to 1e9 (--rate)";
    Ok(OfferedLoad::Rate { hz: number(text, 0.001, HIGHEST_RATE_HZ, what)? })
}

/// `0.5%` or `0.005`.
fn share(text: &str) -> Result<f64, Problem> {
    let what = "a loss as 0, 0.5% or 0.005, below 100% (--loss-bound)";
    let share = match text.strip_suffix('%') {
        Some(percent) => number(percent.trim_end(), 0.0, 99.999, what).map(|percent| percent / 100.0),
        None => number(text, 0.0, 0.99999, what),
    };
    share.map_err(|_| Problem::NotALoad { text: text.to_owned(), what })
}

fn bursts(demand: &str, recovery_ms: Option<&str>, shortest_ms: f64) -> Result<Vec<Burst>, Problem> {
    let whole = |text: &str| {
        let what = "a number of messages per burst, 1 to 1e9 (--demand)";
        let wrong = Problem::NotALoad { text: text.to_owned(), what };
        let demand = number(text, 1.0, LARGEST_DEMAND, what)?;
        if demand.fract() == 0.0 { Ok(demand as u64) } else { Err(wrong) }
    };
    let what = match shortest_ms {
        0.0 => "milliseconds, 0 to 60000 (--recovery)",
        _ => "milliseconds, 0.001 to 60000 (--recovery)",
    };
    let milliseconds = |text: &str| number(text, shortest_ms, LONGEST_RECOVERY_MS, what);
    let recoveries = list(recovery_ms.unwrap_or(DEFAULT_RECOVERY_MS), milliseconds)?;
    let pairs = list(demand, whole)?.into_iter().flat_map(|size| recoveries.iter().map(move |ms| (size, *ms)));
    Ok(pairs.map(|(size, ms)| Burst { size, gap_ns: (ms * 1e6).round() as u64 }).collect())
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
        of(&common(set), Pattern::Throughput).unwrap().unwrap().offers
    }

    fn refused(set: impl FnOnce(&mut Common)) -> String {
        of(&common(set), Pattern::Throughput).unwrap_err().to_string()
    }

    #[test]
    fn as_fast_as_it_goes_for_a_second_is_the_default() {
        let load = of(&Common::default(), Pattern::Throughput).unwrap().unwrap();
        assert_eq!(load, Load { offers: vec![OfferedLoad::Max], messages: None, duration_ns: Some(1_000_000_000) });
        let load = of(&common(|common| common.samples = Some(7)), Pattern::Throughput).unwrap().unwrap();
        assert_eq!((load.messages, load.duration_ns), (Some(7), None));
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
    fn under_other_patterns_there_is_no_load() {
        assert_eq!(of(&Common::default(), Pattern::PingPong).unwrap(), None);
        let error = of(&common(|common| common.duration_s = Some(1.0)), Pattern::PingPong).unwrap_err().to_string();
        assert!(error.contains("--duration") && error.contains("--pattern throughput"), "{error}");
    }

    #[test]
    fn streams_are_offered_rates_then_bursts_and_the_usual_rate_only_without_either() {
        let of = |rate: Option<&str>, demand: Option<&str>, recovery: Option<&str>| {
            let own = |text: Option<&str>| text.map(str::to_owned);
            let (rate, demand, recovery_ms) = (own(rate), own(demand), own(recovery));
            timed(&Common { rate, demand, recovery_ms, ..Common::default() }).map_err(|problem| problem.to_string())
        };
        let burst = |size, gap_ns| Burst { size, gap_ns };
        assert_eq!(of(None, None, None).unwrap(), Offers::rates(vec![1000.0]));
        let bursts = of(None, Some("4"), None).unwrap();
        assert_eq!(bursts, Offers { bursts: vec![burst(4, 5_000_000)], ..Offers::default() });
        let mixed = of(Some("10,20"), Some("1,4"), Some("0.5,2")).unwrap();
        let each = [(1, 500_000), (1, 2_000_000), (4, 500_000), (4, 2_000_000)].map(|(size, gap)| burst(size, gap));
        assert_eq!((mixed.rates_hz.as_slice(), mixed.bursts.as_slice()), (&[10.0, 20.0][..], &each[..]));
        assert_eq!(mixed.loads().len(), 6);
        for (rate, demand, recovery, part) in [
            (None, None, Some("5"), "--demand"),
            (None, Some("4"), Some("0"), "0.001 to 60000"),
            (None, Some("0"), None, "--demand"),
            (None, Some("4,4"), None, "trial 2 is the same"),
            (Some("7"), Some("4"), Some("1,1"), "trial 3 is the same"),
            (Some("max"), Some("4"), None, "--rate"),
        ] {
            let error = of(rate, demand, recovery).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_pace_names_all_patterns_that_have_one() {
        let rate = common(|common| common.rate = Some("1000".to_owned()));
        let error = of(&rate, Pattern::Log).unwrap_err().to_string();
        for part in ["'log'", "--pattern throughput", "pingpong", "channel", "--pattern rpc"] {
            assert!(error.contains(part), "no {part} in {error}");
        }
        let bursts = common(|common| common.demand = Some("4".to_owned()));
        let error = of(&bursts, Pattern::Log).unwrap_err().to_string();
        assert!(error.contains("'--demand'") && error.contains("--pattern rpc"), "{error}");
        for pattern in [Pattern::PingPong, Pattern::Channel, Pattern::Rpc] {
            assert_eq!((of(&rate, pattern).unwrap(), of(&bursts, pattern).unwrap()), (None, None), "{pattern}");
        }
    }
}
