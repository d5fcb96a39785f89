//! Injected faults, by message number.

use tripmeter_abi::{Error, Names, Result, Role, Setting, Status};

const MAX_STALL_NS: u64 = 600_000_000_000;
const MAX_DELAY_NS: u64 = 1_000_000_000;

/// Messages chosen by number, from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Picks {
    /// Sorted.
    numbers: Vec<u64>,
    every: Vec<u64>,
}

impl Picks {
    /// Parses `3,17` or `every:100`, or both in one list.
    fn parse(setting: &str, text: &str) -> Result<Self> {
        let mut picks = Self::default();
        for word in text.split(',').filter(|_| !text.is_empty()) {
            picks.add(setting, text, word)?;
        }
        Ok(picks)
    }

    fn add(&mut self, setting: &str, text: &str, word: &str) -> Result<()> {
        let (list, digits) = match word.strip_prefix("every:") {
            Some(digits) => (&mut self.every, digits),
            None => (&mut self.numbers, word),
        };
        let number = digits.parse::<u64>().ok().filter(|number| *number > 0).ok_or_else(|| {
            let why = format!("'{word}' is neither a message number, counted from 1, nor 'every:N'");
            invalid(setting, text, &why)
        })?;
        let at = list.partition_point(|other| *other < number);
        list.insert(at, number);
        Ok(())
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.numbers.binary_search(&number).is_ok() || self.every.iter().any(|every| number.is_multiple_of(*every))
    }
}

/// Faults of one direction. If several affect one message, loss comes first, then damage, stall, duplication and
/// reordering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    pub(crate) lose: Picks,
    pub(crate) duplicate: Picks,
    pub(crate) reorder: Picks,
    pub(crate) damage: Picks,
    pub(crate) damage_body: Picks,
    pub(crate) stall: Vec<(Picks, u64)>,
    pub(crate) stall_sender: Vec<(Picks, u64)>,
    pub(crate) delay_ns: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct FaultsAt {
    pub(crate) directions: [Faults; 2],
    /// Follower or publisher that they affect; `None`: all.
    pub(crate) only: Option<u32>,
}

impl FaultsAt {
    /// Parses the settings that `get` returns by name, for `count` followers or publishers. Fails with
    /// [`Status::Invalid`] if one is malformed, or names a follower or publisher that does not exist.
    pub(crate) fn parse<'a>(get: impl Fn(&str) -> &'a str, count: u32) -> Result<Self> {
        Ok(Self { only: Faults::only(get("at"), count)?, directions: Faults::parse(get)? })
    }

    /// Faults of a direction between the leader and one follower, or one publisher and the follower.
    pub(crate) fn faults_for(&self, direction: usize, follower: usize) -> Faults {
        match self.only {
            Some(only) if only as usize != follower => Faults::default(),
            _ => self.directions[direction].clone(),
        }
    }
}

impl Faults {
    pub(crate) fn parse<'a>(get: impl Fn(&str) -> &'a str) -> Result<[Self; 2]> {
        let picks = |name: &str| Picks::parse(name, get(name));
        let faults = Self {
            lose: picks("lose")?,
            duplicate: picks("duplicate")?,
            reorder: picks("reorder")?,
            damage: picks("damage")?,
            damage_body: picks("damage_body")?,
            stall: stalls("stall", get("stall"))?,
            stall_sender: stalls("stall_sender", get("stall_sender"))?,
            delay_ns: match get("delay") {
                "" => 0,
                text => duration_ns("delay", text, text, MAX_DELAY_NS)?,
            },
        };
        match get("side") {
            "leader" | "" => Ok([faults, Self::default()]),
            "follower" => Ok([Self::default(), faults]),
            "both" => Ok([faults.clone(), faults]),
            other => Err(invalid("side", other, "it is one of leader, follower, both")),
        }
    }

    /// Follower or publisher of the setting `at`; `None`: all.
    fn only(at: &str, count: u32) -> Result<Option<u32>> {
        match at {
            "" | "all" => Ok(None),
            index => match index.parse() {
                Ok(index) if index < count => Ok(Some(index)),
                Ok(_) => {
                    let last = count - 1;
                    let text =
                        format!("setting 'at={at}' names no follower or publisher: the last one has index {last}");
                    Err(Error::new(Status::Invalid, text))
                }
                Err(_) => Err(invalid("at", at, "it is all, or the index of a follower or publisher, from 0")),
            },
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// True if it flips bits.
    pub(crate) fn damages(&self) -> bool {
        self.damage != Picks::default() || self.damage_body != Picks::default()
    }

    pub(crate) fn stall_ns(&self, number: u64) -> u64 {
        total_ns(&self.stall, number)
    }

    pub(crate) fn stall_sender_ns(&self, number: u64) -> u64 {
        total_ns(&self.stall_sender, number)
    }
}

fn total_ns(stalls: &[(Picks, u64)], number: u64) -> u64 {
    stalls.iter().filter(|(picks, _)| picks.contains(number)).map(|(_, stall_ns)| stall_ns).sum()
}

pub(crate) fn direction_of(sender: Role) -> usize {
    match sender {
        Role::Leader => 0,
        Role::Follower => 1,
    }
}

pub(crate) fn settings() -> Vec<Setting> {
    let numbers = "message numbers from 1, e.g. 3,17, or every:N";
    vec![
        Setting::new("side", "leader", "leader | follower | both", "whose messages the faults hit", Names::Nothing),
        Setting::new(
            "at",
            "all",
            "all, or an index from 0",
            "of several followers or publishers, the one that the faults hit",
            Names::Nothing,
        ),
        Setting::new(
            "lose",
            "",
            numbers,
            "messages that vanish; numbers count every message of the link: first the path proof (256 KiB), then the \
             warm-up",
            Names::Nothing,
        ),
        Setting::new("duplicate", "", numbers, "messages that are delivered twice", Names::Nothing),
        Setting::new(
            "reorder",
            "",
            numbers,
            "messages held back, one at a time, until the next one was delivered",
            Names::Nothing,
        ),
        Setting::new("damage", "", numbers, "messages with one bit flipped in their first 16 bytes", Names::Nothing),
        Setting::new("damage_body", "", numbers, "messages with one bit flipped in their last byte", Names::Nothing),
        Setting::new(
            "stall",
            "",
            "NUMBER:DURATION or every:N:DURATION, e.g. 11:50ms",
            "messages kept back, and all behind them",
            Names::Nothing,
        ),
        Setting::new(
            "stall_sender",
            "",
            "as of stall",
            "messages whose sending returns late, once they are on their way",
            Names::Nothing,
        ),
        Setting::new("delay", "0", "duration of at most 1s, e.g. 10us", "busy delay of every message", Names::Nothing),
    ]
}

fn stalls(setting: &str, text: &str) -> Result<Vec<(Picks, u64)>> {
    let words = text.split(',').filter(|_| !text.is_empty());
    let stall = |word: &str| {
        let (which, duration) = word
            .rsplit_once(':')
            .ok_or_else(|| invalid(setting, text, &format!("'{word}' is not NUMBER:DURATION, e.g. 11:50ms")))?;
        let mut picks = Picks::default();
        picks.add(setting, text, which)?;
        Ok((picks, duration_ns(setting, text, duration, MAX_STALL_NS)?))
    };
    words.map(stall).collect()
}

fn duration_ns(setting: &str, text: &str, duration: &str, limit_ns: u64) -> Result<u64> {
    let (digits, unit) = duration.split_at(duration.find(|c: char| !c.is_ascii_digit()).unwrap_or(duration.len()));
    let unit_ns = match unit {
        "ns" => Some(1),
        "us" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        "" if digits.bytes().all(|digit| digit == b'0') => Some(1),
        _ => None,
    };
    let ns = digits.parse::<u64>().ok().zip(unit_ns).ok_or_else(|| {
        invalid(setting, text, &format!("'{duration}' is not a duration in ns, us, ms or s, e.g. 50ms"))
    })?;
    let ns = ns.0.checked_mul(ns.1).filter(|ns| *ns <= limit_ns);
    ns.ok_or_else(|| invalid(setting, text, &format!("'{duration}' is longer than {} s", limit_ns / 1_000_000_000)))
}

fn invalid(setting: &str, text: &str, why: &str) -> Error {
    Error::new(Status::Invalid, format!("setting '{setting}={text}' is not understood: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, value: &str) -> Result<[Faults; 2]> {
        Faults::parse(|asked| if asked == name { value } else { "" })
    }

    #[test]
    fn numbers_and_rates_are_picked() {
        let picks = Picks::parse("lose", "17,3,every:100").unwrap();
        let picked: Vec<u64> = (1..=300).filter(|number| picks.contains(*number)).collect();
        assert_eq!(picked, [3, 17, 100, 200, 300]);
        assert!(!Picks::parse("lose", "").unwrap().contains(1));
    }

    #[test]
    fn durations_have_units() {
        for (text, ns) in [("50ms", 50_000_000), ("10us", 10_000), ("7ns", 7), ("2s", 2_000_000_000), ("0", 0)] {
            assert_eq!(duration_ns("stall", text, text, MAX_STALL_NS).unwrap(), ns);
        }
        let faults = parse("stall", "11:50ms,every:10:1us").unwrap();
        assert_eq!([10, 11, 12].map(|number| faults[0].stall_ns(number)), [1_000, 50_000_000, 0]);
        assert!(faults[1].is_empty());
    }

    #[test]
    fn side_says_whose_messages() {
        let sides = |side: &'static str| {
            let faults = Faults::parse(|name| match name {
                "side" => side,
                "lose" => "3",
                _ => "",
            });
            faults.unwrap().map(|faults| !faults.is_empty())
        };
        assert_eq!(sides("leader"), [true, false]);
        assert_eq!(sides("follower"), [false, true]);
        assert_eq!(sides("both"), [true, true]);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let wrong = [
            ("lose", "0"),
            ("lose", "3,,4"),
            ("duplicate", "-1"),
            ("reorder", "every:0"),
            ("damage", "every:"),
            ("damage_body", "x"),
            ("stall", "11"),
            ("stall", "11:50"),
            ("stall", "x:50ms"),
            ("stall", "11:50h"),
            ("stall", "11:99999s"),
            ("stall", "11:99999999999999999999s"),
            ("stall_sender", "3:x"),
            ("delay", "2s"),
            ("delay", "fast"),
            ("side", "left"),
        ];
        for (name, value) in wrong {
            let error = parse(name, value).unwrap_err();
            assert_eq!(error.status, Status::Invalid);
            assert!(error.message.contains(&format!("'{name}={value}'")), "{error}");
        }
    }
}
