//! Labels that tell sub-experiments apart.

use crate::merged::Merged;
use crate::notes::words;
use crate::number::{count, counted, percent};
use std::collections::{BTreeMap, HashMap, HashSet};
use tripmeter_model::pace::{Burst, OfferedLoad};
use tripmeter_model::pattern::{PATTERNS, PatternFacts};
use tripmeter_model::plan::SubExperiment;

/// A sub-experiment at one offered load.
#[derive(Clone, Copy)]
pub struct LabelledLine<'a> {
    pub sub: &'a Merged<'a>,
    pub load: OfferedLoad,
}

/// Factors, as text, that may distinguish a sub-experiment from others of its transport.
const FACTORS: [fn(&SubExperiment) -> String; 7] = [
    |sub| sub.wait.to_string(),
    |sub| format!("touch {}", sub.touch),
    |sub| sub.sched.to_string(),
    |sub| if sub.background.is_none() { "at rest".to_owned() } else { format!("with {}", sub.background) },
    |sub| counted(sub.workload.followers() as usize, "follower"),
    |sub| counted(sub.workload.publishers() as usize, "publisher"),
    |sub| counted(sub.workload.follower_links() as usize, words(&sub.workload).link),
];

/// Factors that distinguish lines, collected once, because there may be thousands of lines.
pub struct Distinctions<'a> {
    words: [HashSet<String>; FACTORS.len()],
    loads: HashSet<String>,
    /// Names of sub-experiments, by the factors that they share.
    names: HashMap<String, HashSet<&'a str>>,
}

/// All factors of a sub-experiment as one key.
fn factors(sub: &SubExperiment) -> String {
    format!("{} {} {} {:?} {} {}", sub.transport, sub.wait, sub.touch, sub.workload.topology, sub.sched, sub.background)
}

impl<'a> Distinctions<'a> {
    pub fn from_lines(lines: impl IntoIterator<Item = LabelledLine<'a>>) -> Self {
        let mut found = Self { words: Default::default(), loads: HashSet::new(), names: HashMap::new() };
        for LabelledLine { sub, load } in lines {
            for (words, of) in found.words.iter_mut().zip(FACTORS) {
                words.insert(of(sub.planned));
            }
            found.loads.insert(load.to_string());
            found.names.entry(factors(sub.planned)).or_default().insert(&sub.planned.name);
        }
        found
    }

    /// Transport of a line, and the factors that distinguish it from the others.
    pub fn parts(&self, own: LabelledLine<'_>) -> Vec<String> {
        let planned = own.sub.planned;
        let mut parts = vec![planned.transport.to_string()];
        let factors_of = self.words.iter().zip(FACTORS).map(|(words, of)| (words, of(planned)));
        parts.extend(factors_of.filter(|(words, own)| words.iter().any(|word| word != own)).map(|(_, own)| own));
        if self.loads.iter().any(|load| *load != own.load.to_string()) {
            parts.push(load_text(own.load));
        }
        let like = self.names.get(&factors(planned));
        if like.is_some_and(|names| names.iter().any(|name| *name != planned.name)) {
            parts.push(planned.name.clone());
        }
        if own.sub.same_process() {
            parts.push("same process".to_owned());
        }
        parts
    }
}

/// Text for an offered load.
pub fn load_text(load: OfferedLoad) -> String {
    match load {
        OfferedLoad::Rate { hz } => format!("{hz} /s"),
        OfferedLoad::Search { loss_bound } => format!("search, {} % loss", loss_bound * 100.0),
        load => offered(load),
    }
}

/// Text for an offered load in tables and notes of trials: rates with few digits.
pub fn offered(load: OfferedLoad) -> String {
    match load {
        OfferedLoad::Rate { hz } => format!("{} /s", count(hz)),
        OfferedLoad::Search { loss_bound } => format!("search {} %", percent(loss_bound)),
        OfferedLoad::Burst(Burst { size, gap_ns }) => format!("{size} per {} ms", gap_ns as f64 / 1e6),
        load => load.to_string(),
    }
}

/// Transport of each sub-experiment, with its name if another one has the same factors.
pub fn transports(subs: &[Merged<'_>]) -> Vec<String> {
    let key = |sub: &Merged<'_>| {
        let SubExperiment { transport, workload, wait, touch, sched, background, .. } = sub.planned;
        format!("{transport:?} {:?} {wait:?} {touch:?} {sched:?} {background:?}", workload.reply)
    };
    let keys: Vec<String> = subs.iter().map(key).collect();
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for key in &keys {
        *counts.entry(key).or_default() += 1;
    }
    let label = |(sub, key): (&Merged<'_>, &String)| {
        let mut text = sub.planned.transport_text();
        if counts[key.as_str()] > 1 {
            text += &format!(" ({})", sub.planned.name);
        }
        if sub.same_process() {
            text += " (same process)";
        }
        text
    };
    subs.iter().zip(&keys).map(label).collect()
}

/// Names of the patterns of sub-experiments, without duplicates.
pub fn patterns<'a>(subs: impl Iterator<Item = &'a SubExperiment> + Clone) -> Vec<&'static str> {
    let is_used = |facts: &&PatternFacts| subs.clone().any(|sub| sub.facts() == *facts);
    PATTERNS.iter().filter(is_used).map(PatternFacts::word).collect()
}
