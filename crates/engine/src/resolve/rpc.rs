//! What is called under pattern `rpc`, and timed round trips, which are the calls of one client.

use super::load::{self, MOST_OFFERS, list};
use super::{DEFAULT_LOSS_TIMEOUT_S, Problem};
use tripmeter_abi::Pattern;
use tripmeter_model::experiment::Common;
use tripmeter_model::pace::{OfferedLoad, Offers};
use tripmeter_model::plan::Plan;
use tripmeter_model::rpc::{Calls, Mode};

/// Each client has a thread on both sides.
pub(super) const MOST_CLIENTS: u32 = 256;
/// How long an answer is waited for if nothing else is asked for.
///
/// # Source
/// AimRT's benchmark of its RPC back ends.
const DEFAULT_TIMEOUT_NS: u64 = 3_000_000_000;

/// The same for each number of clients that is asked for: each has processes of its own.
pub(super) fn each(common: &Common) -> Result<Vec<Common>, Problem> {
    let Some(clients) = &common.clients else { return Ok(vec![common.clone()]) };
    let numbers = list(clients, number)?;
    if let Some(index) = (1..numbers.len()).find(|index| numbers[..*index].contains(&numbers[*index])) {
        return Err(Problem::OfferTwice { flags: "--clients", trial: index + 1 });
    }
    if numbers.len() > MOST_OFFERS {
        return Err(Problem::TooManyNumbers { count: numbers.len(), most: MOST_OFFERS });
    }
    Ok(numbers.into_iter().map(|number| Common { clients: Some(number.to_string()), ..common.clone() }).collect())
}

fn number(text: &str) -> Result<u32, Problem> {
    let found = text.parse().ok().filter(|clients| (1..=MOST_CLIENTS).contains(clients));
    found.ok_or_else(|| Problem::Clients { text: text.to_owned(), most: MOST_CLIENTS })
}

/// What is asked for, with one number of clients; `None` under other patterns, where nothing of it may be asked for, and of
/// round trips that follow each other.
pub(super) fn of(common: &Common, pattern: Pattern, timeout_ns: Option<u64>) -> Result<Option<Calls>, Problem> {
    if pattern != Pattern::Rpc {
        let given = [("--mode", common.mode.is_some()), ("--clients", common.clients.is_some())];
        if let Some((flag, _)) = given.into_iter().find(|given| given.1) {
            return Err(Problem::NotRpc { flag, pattern });
        }
        let is_timed = pattern == Pattern::PingPong && pace(common).is_some();
        return is_timed.then(|| round_trips(common, timeout_ns)).transpose();
    }
    let mode = match (common.mode, pace(common)) {
        (Some(Mode::Bench), Some(flag)) => return Err(Problem::PaceOfBench(flag)),
        (None, Some(_)) => Mode::FixedFreq,
        (mode, _) => mode.unwrap_or(Mode::Bench),
    };
    let offers = if mode == Mode::Bench { Offers::default() } else { load::timed(common)? };
    let clients = common.clients.as_deref().map_or(Ok(1), number)?;
    Ok(Some(Calls { mode, clients, offers, timeout_ns: timeout_ns.unwrap_or(DEFAULT_TIMEOUT_NS) }))
}

/// The first flag that says when calls are due.
fn pace(common: &Common) -> Option<&'static str> {
    let given =
        [("--rate", &common.rate), ("--demand", &common.demand), ("--recovery", &common.recovery_ms)].into_iter();
    given.filter(|(_, text)| text.is_some()).map(|(flag, _)| flag).next()
}

/// The warm-up if none is asked for; of timed round trips no more than a second has at the slowest, but one.
pub(super) fn default_warmup(calls: Option<&Calls>, pattern: Pattern, samples: u64) -> u64 {
    let usual = Plan::default_warmup(samples);
    let Some(calls) = calls.filter(|_| pattern == Pattern::PingPong) else { return usual };
    let slowest_hz = calls.offers.loads().iter().filter_map(OfferedLoad::hz).fold(f64::INFINITY, f64::min);
    usual.min((slowest_hz as u64).max(1))
}

fn round_trips(common: &Common, timeout_ns: Option<u64>) -> Result<Calls, Problem> {
    if let Some(followers) = common.followers.filter(|followers| *followers > 1) {
        return Err(Problem::FollowersAtRate(followers));
    }
    let timeout_ns = timeout_ns.unwrap_or((DEFAULT_LOSS_TIMEOUT_S * 1e9) as u64);
    Ok(Calls { mode: Mode::FixedFreq, clients: 1, offers: load::timed(common)?, timeout_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_model::pace::Burst;

    fn calls(mode: Option<Mode>, rate: Option<&str>, clients: Option<&str>) -> Result<Vec<Calls>, String> {
        let own = |text: Option<&str>| text.map(str::to_owned);
        let common = Common { mode, rate: own(rate), clients: own(clients), ..Common::default() };
        let each = each(&common).map_err(|problem| problem.to_string())?;
        let of = |common| of(common, Pattern::Rpc, None).map_err(|problem| problem.to_string());
        each.iter().map(|common| Ok(of(common)?.unwrap())).collect()
    }

    #[test]
    fn one_client_in_a_closed_loop_is_the_default_and_lists_make_several() {
        let bench = Calls { mode: Mode::Bench, clients: 1, offers: Offers::default(), timeout_ns: 3_000_000_000 };
        assert_eq!(calls(None, None, None), Ok(vec![bench.clone()]));
        let found = calls(None, None, Some("1, 8")).unwrap();
        assert_eq!(found, [bench.clone(), Calls { clients: 8, ..bench.clone() }]);
        let fixed = Calls { mode: Mode::FixedFreq, offers: Offers::rates(vec![1000.0]), ..bench };
        assert_eq!(calls(Some(Mode::FixedFreq), None, None), Ok(vec![fixed.clone()]));
        let sweep = Calls { offers: Offers::rates(vec![10.0, 50.5]), ..fixed };
        assert_eq!(calls(Some(Mode::FixedFreq), Some("10,50.5"), None), Ok(vec![sweep.clone()]));
        assert_eq!(calls(None, Some("10,50.5"), None), Ok(vec![sweep]), "a rate says when calls are due");
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_flag() {
        for clients in ["0", "", "many", "1,,2", "257", "-1", "1.5", "4,4"] {
            assert!(calls(None, None, Some(clients)).unwrap_err().contains("--clients"), "{clients}");
        }
        let error = calls(Some(Mode::Bench), Some("100"), None).unwrap_err();
        assert!(error.contains("'--rate'") && error.contains("fixed-freq"), "{error}");
        assert!(calls(Some(Mode::FixedFreq), Some("max"), None).unwrap_err().contains("--rate"));
        for (flag, common) in [
            ("--mode", Common { mode: Some(Mode::Bench), ..Common::default() }),
            ("--clients", Common { clients: Some("2".to_owned()), ..Common::default() }),
        ] {
            let error = of(&common, Pattern::Channel, None).unwrap_err().to_string();
            assert!(error.contains(flag) && error.contains("--pattern rpc"), "{error}");
        }
        assert_eq!(of(&Common::default(), Pattern::PingPong, None).unwrap(), None);
    }

    #[test]
    fn bursts_are_offered_by_each_client_and_by_round_trips() {
        let demand = |pattern| {
            let common = Common { demand: Some("4".to_owned()), ..Common::default() };
            of(&common, pattern, None).unwrap().unwrap()
        };
        for pattern in [Pattern::Rpc, Pattern::PingPong] {
            let Calls { mode, clients, offers, .. } = demand(pattern);
            assert_eq!((mode, clients, offers.rates_hz.len()), (Mode::FixedFreq, 1, 0), "{pattern}");
            assert_eq!(offers.bursts, [Burst { size: 4, gap_ns: 5_000_000 }], "{pattern}");
        }
        assert_eq!(default_warmup(Some(&demand(Pattern::PingPong)), Pattern::PingPong, 10_000), 800);
    }

    #[test]
    fn round_trips_at_a_rate_are_calls_of_one_client_that_are_lost_as_round_trips_are() {
        let rate = |text: &str| Common { rate: Some(text.to_owned()), ..Common::default() };
        let of = |common: &Common, timeout_ns| of(common, Pattern::PingPong, timeout_ns);
        let sweep = Calls {
            mode: Mode::FixedFreq,
            clients: 1,
            offers: Offers::rates(vec![1.0, 1e5]),
            timeout_ns: 1_000_000_000,
        };
        assert_eq!(of(&rate("1,100000"), None).unwrap(), Some(sweep.clone()));
        assert_eq!(of(&rate("1,1e5"), Some(7)).unwrap(), Some(Calls { timeout_ns: 7, ..sweep }));
        for (rates, samples, warmup) in
            [("0.1,9", 10_000, 1), ("20.5", 10_000, 20), ("20", 50, 5), ("1e5", 50_000, 1000)]
        {
            let calls = of(&rate(rates), None).unwrap();
            assert_eq!(default_warmup(calls.as_ref(), Pattern::PingPong, samples), warmup, "{rates}");
            assert_eq!(default_warmup(calls.as_ref(), Pattern::Rpc, samples), samples.min(10_000) / 10, "{rates}");
        }
        for (flag, common) in [
            ("--followers", Common { followers: Some(2), ..rate("1") }),
            ("--mode", Common { mode: Some(Mode::FixedFreq), ..rate("1") }),
            ("--clients", Common { clients: Some("2".to_owned()), ..rate("1") }),
            ("--rate", rate("max")),
            ("--rate", rate("0")),
            ("--rate", rate("1e7")),
            ("--rate", rate("10,10.0")),
        ] {
            let error = of(&common, None).unwrap_err().to_string();
            assert!(error.contains(flag), "{error}");
        }
    }
}
