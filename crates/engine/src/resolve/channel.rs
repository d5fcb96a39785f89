//! What is published under pattern `channel`.

use super::Problem;
use super::load::{MOST_OFFERS, list, number};
use tripmeter_abi::Pattern;
use tripmeter_model::channel::Flow;
use tripmeter_model::experiment::Common;

/// Messages per second on each topic, or calls of each client, if none are asked for.
///
/// # Source
/// AimRT's benchmarks of its channel and RPC back ends.
const DEFAULT_RATE_HZ: &str = "1000";
const HIGHEST_RATE_HZ: f64 = 1e6;
/// Each topic has a thread on both sides.
const MOST_TOPICS: u32 = 4096;

/// What is asked for; `None` under other patterns, where nothing of it may be asked for.
pub(super) fn of(common: &Common, pattern: Pattern) -> Result<Option<Flow>, Problem> {
    if pattern != Pattern::Channel {
        return common.topics.map_or(Ok(None), |_| Err(Problem::NotChannel { flag: "--topics", pattern }));
    }
    let topics = common.topics.unwrap_or(1);
    if !(1..=MOST_TOPICS).contains(&topics) {
        return Err(Problem::Topics { topics, most: MOST_TOPICS });
    }
    Ok(Some(Flow { rates_hz: rates(common.rate.as_deref())?, topics }))
}

/// The rates that are asked for, each once.
pub(super) fn rates(text: Option<&str>) -> Result<Vec<f64>, Problem> {
    let rate = |text: &str| {
        number(text, 0.001, HIGHEST_RATE_HZ, "messages per second (calls under rpc), 0.001 to 1e6 (--rate)")
    };
    let rates_hz = list(text.unwrap_or(DEFAULT_RATE_HZ), rate)?;
    if let Some(index) = (1..rates_hz.len()).find(|index| rates_hz[..*index].contains(&rates_hz[*index])) {
        return Err(Problem::OfferTwice { flags: "--rate", trial: index + 1 });
    }
    if rates_hz.len() > MOST_OFFERS {
        return Err(Problem::TooManyOffers { count: rates_hz.len(), most: MOST_OFFERS });
    }
    Ok(rates_hz)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(rate: Option<&str>, topics: Option<u32>) -> Result<Option<Flow>, String> {
        let common = Common { rate: rate.map(str::to_owned), topics, ..Common::default() };
        of(&common, Pattern::Channel).map_err(|problem| problem.to_string())
    }

    #[test]
    fn one_topic_at_1_khz_is_the_default_and_lists_sweep() {
        assert_eq!(flow(None, None), Ok(Some(Flow { rates_hz: vec![1000.0], topics: 1 })));
        assert_eq!(flow(Some("10, 2.5e3"), Some(8)), Ok(Some(Flow { rates_hz: vec![10.0, 2500.0], topics: 8 })));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_flag() {
        for rate in ["0", "max", "", "1,,2", "nan", "2e6", "10,10"] {
            assert!(flow(Some(rate), None).unwrap_err().contains("--rate"), "{rate}");
        }
        for topics in [0, MOST_TOPICS + 1] {
            let error = flow(None, Some(topics)).unwrap_err();
            assert!(error.contains(&topics.to_string()) && error.contains("--topics"), "{error}");
        }
        let common = Common { topics: Some(2), ..Common::default() };
        let error = of(&common, Pattern::Throughput).unwrap_err().to_string();
        assert!(error.contains("--topics") && error.contains("--pattern channel"), "{error}");
        assert_eq!(of(&Common::default(), Pattern::PingPong).unwrap(), None);
    }
}
