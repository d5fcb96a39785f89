//! Workloads of pattern `call`, and of round trips at a rate, in bursts or from several clients.

use super::defaults::DEFAULT_LOSS_TIMEOUT_S;
use super::error::Problem;
use super::load::{self, MOST_OFFERS, list};
use tripmeter_model::experiment::{Common, Mode};
use tripmeter_model::workload::Workload;

/// Largest number of clients: each has a thread on both sides.
pub(super) const MOST_CLIENTS: u32 = 256;
/// Default timeout of a call.
///
/// # Source
/// AimRT's benchmark of its RPC back ends.
const DEFAULT_TIMEOUT_NS: u64 = 3_000_000_000;

/// Splits settings by the numbers of clients, as each number runs in processes of its own.
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
    let found = text.parse().ok().filter(|clients| self::clients(*clients).is_ok());
    found.ok_or_else(|| Problem::Clients { text: text.to_owned(), most: MOST_CLIENTS })
}

pub(super) fn clients(clients: u32) -> Result<(), Problem> {
    match clients {
        1..=MOST_CLIENTS => Ok(()),
        _ => Err(Problem::Clients { text: clients.to_string(), most: MOST_CLIENTS }),
    }
}

pub(super) fn workload(common: &Common, timeout_ns: Option<u64>) -> Result<Workload, Problem> {
    let mode = match (common.mode, pace(common)) {
        (Some(Mode::Bench), Some(flag)) => return Err(Problem::PaceOfBench(flag)),
        (None, Some(_)) => Mode::FixedFreq,
        (mode, _) => mode.unwrap_or(Mode::Bench),
    };
    let timed = if mode == Mode::Bench { None } else { Some(load::timed(common)?) };
    let clients = common.clients.as_deref().map_or(Ok(1), number)?;
    let timeout_ns = timeout_ns.unwrap_or(DEFAULT_TIMEOUT_NS);
    Ok(match timed {
        Some(loads) => Workload::calls(loads, clients, timeout_ns),
        None => Workload::closed_calls(clients, timeout_ns),
    })
}

/// First flag that sets due times of calls.
pub(super) fn pace(common: &Common) -> Option<&'static str> {
    let given =
        [("--rate", &common.rate), ("--demand", &common.demand), ("--recovery", &common.recovery_ms)].into_iter();
    given.filter(|(_, text)| text.is_some()).map(|(flag, _)| flag).next()
}

/// Workload of round trips: a closed loop by default. At a rate, in bursts or with a number of clients, it consists of
/// calls, but has the loss timeout of round trips.
pub(super) fn round_trips(common: &Common, timeout_ns: Option<u64>) -> Result<Workload, Problem> {
    let is_timed = pace(common).is_some();
    if !is_timed && common.clients.is_none() {
        return Ok(Workload::default());
    }
    let clients = common.clients.as_deref().map_or(Ok(1), number)?;
    let timeout_ns = timeout_ns.unwrap_or((DEFAULT_LOSS_TIMEOUT_S * 1e9) as u64);
    Ok(match is_timed {
        true => Workload::calls(load::timed(common)?, clients, timeout_ns),
        false => Workload::closed_calls(clients, timeout_ns),
    })
}

#[cfg(test)]
mod tests {
    use super::super::workload::{default_warmup, for_pattern};
    use super::*;
    use tripmeter_abi::Pattern;
    use tripmeter_model::pace::{Burst, OfferedLoad};

    fn rate(hz: f64) -> OfferedLoad {
        OfferedLoad::Rate { hz }
    }

    fn calls(mode: Option<Mode>, rate: Option<&str>, clients: Option<&str>) -> Result<Vec<Workload>, String> {
        let own = |text: Option<&str>| text.map(str::to_owned);
        let common = Common { mode, rate: own(rate), clients: own(clients), ..Common::default() };
        let each = each(&common).map_err(|problem| problem.to_string())?;
        each.iter().map(|common| workload(common, None).map_err(|problem| problem.to_string())).collect()
    }

    #[test]
    fn one_client_in_a_closed_loop_is_the_default_and_lists_make_several() {
        let bench = |clients| Workload::closed_calls(clients, 3_000_000_000);
        assert_eq!(calls(None, None, None), Ok(vec![bench(1)]));
        assert_eq!(calls(None, None, Some("1, 8")), Ok(vec![bench(1), bench(8)]));
        let fixed = |loads| Workload::calls(loads, 1, 3_000_000_000);
        assert_eq!(calls(Some(Mode::FixedFreq), None, None), Ok(vec![fixed(vec![rate(1000.0)])]));
        let sweep = fixed(vec![rate(10.0), rate(50.5)]);
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
    }

    #[test]
    fn bursts_are_offered_by_each_client_and_by_round_trips() {
        let demand = |pattern| {
            let common = Common { demand: Some("4".to_owned()), ..Common::default() };
            for_pattern(&common, pattern, None).unwrap()
        };
        let clients = Common { clients: Some("3".to_owned()), ..Common::default() };
        let of_clients = for_pattern(&clients, Pattern::Ping, None).unwrap();
        assert_eq!(of_clients, Workload::closed_calls(3, 1_000_000_000), "lost as round trips are");
        for pattern in [Pattern::Call, Pattern::Ping] {
            let workload = demand(pattern);
            let burst = OfferedLoad::Burst(Burst { size: 4, gap_ns: 5_000_000 });
            assert_eq!((workload.is_call(), workload.links(), workload.loads), (true, 1, vec![burst]), "{pattern}");
        }
        assert_eq!(default_warmup(&demand(Pattern::Ping), Pattern::Ping, 10_000), 800);
    }

    #[test]
    fn round_trips_at_a_rate_are_calls_of_one_client_that_are_lost_as_round_trips_are() {
        let at = |text: &str| Common { rate: Some(text.to_owned()), ..Common::default() };
        let of = |common: &Common, timeout_ns| for_pattern(common, Pattern::Ping, timeout_ns);
        let sweep = |timeout_ns| Workload::calls(vec![rate(1.0), rate(1e5)], 1, timeout_ns);
        assert_eq!(of(&at("1,100000"), None).unwrap(), sweep(1_000_000_000));
        assert_eq!(of(&at("1,1e5"), Some(7)).unwrap(), sweep(7));
        for (rates, samples, warmup) in
            [("0.1,9", 10_000, 1), ("20.5", 10_000, 20), ("20", 50, 5), ("1e5", 50_000, 1000)]
        {
            let calls = of(&at(rates), None).unwrap();
            assert_eq!(default_warmup(&calls, Pattern::Ping, samples), warmup, "{rates}");
            assert_eq!(default_warmup(&calls, Pattern::Call, samples), samples.min(10_000) / 10, "{rates}");
        }
        for (flag, common) in [
            ("mode", Common { mode: Some(Mode::FixedFreq), ..at("1") }),
            ("--clients", Common { clients: Some("257".to_owned()), ..at("1") }),
            ("--rate", at("max")),
            ("--rate", at("0")),
            ("--rate", at("1e7")),
            ("--rate", at("10,10.0")),
        ] {
            let error = of(&common, None).unwrap_err().to_string();
            assert!(error.contains(flag), "{error}");
        }
    }
}
