//! Result of a workload at one payload and one offered load, in one round.

use crate::count::{self, MOST_COUNT};
use crate::counts::Counts;
use crate::cut_short::CutShort;
use crate::figure::{Figure, Statistic, Unit};
use crate::known::known_keys;
use crate::metric::{Interval, Stream};
use crate::pace::OfferedLoad;
use crate::search::Step;
use crate::series::Series;
use schemars::JsonSchema;
use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

/// Largest number of followers that tables, figures over rounds and path evidence show individually.
pub const SHOWN_FOLLOWERS: usize = 16;

/// One figure of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialFigure<'a> {
    /// Messages or process that the figure belongs to.
    pub stream: &'a Stream,
    /// The figure.
    pub figure: Figure,
    /// Statistic of its samples.
    pub statistic: Statistic,
    /// Value in the unit of the figure.
    pub value: f64,
    /// Confidence interval within this trial.
    pub within: Option<Interval>,
}

/// Figures of one offered load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Number in its sub-experiment and round, from 1, also in its samples; repeated attempts count.
    #[serde(rename = "trial", default, skip_serializing_if = "is_unnumbered")]
    pub number: u32,
    /// Offered load.
    pub load: OfferedLoad,
    /// True if the figures are for a lower rate than offered: a stream took longer for its messages than its rate
    /// allows, by more than 1 % and one period (for bursts, one gap).
    #[serde(default, skip_serializing_if = "is_false")]
    pub rate_missed: bool,
    /// Streams that missed their rate, if streams are judged separately.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty", deserialize_with = "known_streams")]
    #[schemars(with = "Vec<String>")]
    pub missed: BTreeSet<Stream>,
    /// Reason that the trial ended early, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<CutShort>,
    /// Figures by stream and name. Streams are `all`, or dimensions such as `topic=NAME`, `follower=last` and
    /// `process=leader`.
    #[serde(deserialize_with = "known_figures")]
    #[schemars(with = "BTreeMap<String, BTreeMap<String, Stored>>")]
    streams: BTreeMap<Stream, BTreeMap<Figure, Values>>,
    /// Audits of samples in order of measurement, by stream and figure.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "known_series")]
    #[schemars(with = "BTreeMap<String, BTreeMap<String, Series>>")]
    series: BTreeMap<Stream, BTreeMap<Figure, Series>>,
    /// Rates that a search tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

fn is_unnumbered(number: &u32) -> bool {
    *number == 0
}

fn is_false(is: &bool) -> bool {
    !is
}

/// Reads streams; ignores unknown ones of newer versions.
fn known_streams<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<Stream>, D::Error> {
    let all = Vec::<Cow<'_, str>>::deserialize(deserializer)?;
    Ok(all.into_iter().filter_map(|name| name.parse().ok()).collect())
}

/// Reads figures by stream; ignores unknown streams and figures of newer versions.
fn known_figures<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<Stream, BTreeMap<Figure, Values>>, D::Error> {
    known_keys(|_: &Stream| known_keys(|figure: &Figure| ValuesOf(*figure))).deserialize(deserializer)
}

fn known_series<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<Stream, BTreeMap<Figure, Series>>, D::Error> {
    known_keys(|_: &Stream| known_keys(|_: &Figure| PhantomData::<Series>)).deserialize(deserializer)
}

/// Statistics of one figure, sorted. Not a `BTreeMap`, whose nodes have room for eleven: most figures have one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(into = "Stored")]
struct Values(Vec<(Statistic, f64, Option<Interval>)>);

impl Values {
    fn get(&self, statistic: Statistic) -> Option<(f64, Option<Interval>)> {
        let place = self.0.binary_search_by_key(&statistic, |one| one.0).ok()?;
        Some((self.0[place].1, self.0[place].2))
    }

    fn put(&mut self, statistic: Statistic, value: f64, within: Option<Interval>) {
        match self.0.binary_search_by_key(&statistic, |one| one.0) {
            Ok(place) => self.0[place] = (statistic, value, within),
            Err(place) => {
                self.0.reserve_exact(1);
                self.0.insert(place, (statistic, value, within));
            }
        }
    }
}

/// Figure as stored in files.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum Stored {
    /// Figure with one value.
    Value(#[schemars(with = "f64")] Number),
    /// Figure with statistics of samples.
    Samples {
        /// Statistics, by name.
        #[serde(flatten)]
        #[schemars(with = "BTreeMap<String, f64>")]
        statistics: BTreeMap<String, Number>,
        /// Confidence intervals at 95 % within the trial, by statistic; an end is null if there are too few samples for
        /// it. They do not hold for other trials, and are too narrow if neighbouring samples are correlated.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        within: BTreeMap<String, [Option<f64>; 2]>,
    },
}

/// Number in JSON, without a fraction if it is whole.
#[derive(Clone, Copy, Debug)]
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const EXACT: f64 = (1_u64 << 53) as f64;
        match self.0 {
            whole if whole.fract() == 0.0 && whole.abs() <= EXACT => serializer.serialize_i64(whole as i64),
            value => serializer.serialize_f64(value),
        }
    }
}

struct ValuesOf(Figure);

impl<'de> DeserializeSeed<'de> for ValuesOf {
    type Value = Values;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Values, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValuesOf {
    type Value = Values;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.has_samples() {
            true => formatter.write_str("an object of statistics"),
            false => write!(formatter, "{}, or an object with `value`", NumberOf(self.0, Statistic::Value).expected()),
        }
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Values, E> {
        NumberOf(self.0, Statistic::Value).refuse_large(value).and_then(|()| self.visit_f64(value as f64))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Values, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Values, E> {
        if self.0.has_samples() {
            return Err(E::invalid_type(Unexpected::Float(value), &self));
        }
        let value = NumberOf(self.0, Statistic::Value).visit_f64(value)?;
        Ok(Values(vec![(Statistic::Value, value, None)]))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Values, A::Error> {
        let (mut values, mut intervals) = (Values::default(), BTreeMap::new());
        while let Some(name) = map.next_key::<Cow<'_, str>>()? {
            match name.parse() {
                Ok(statistic) => {
                    let value = map.next_value_seed(NumberOf(self.0, statistic))?;
                    values.put(statistic, value, None);
                }
                Err(_) if name == "within" => {
                    intervals = map.next_value_seed(known_keys(|_: &Statistic| IntervalEnds))?;
                }
                Err(_) => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        for (statistic, _, within) in &mut values.0 {
            *within = intervals.get(statistic).copied();
        }
        Ok(values)
    }
}

/// Reader of an interval; null stands for an infinite end.
struct IntervalEnds;

impl<'de> DeserializeSeed<'de> for IntervalEnds {
    type Value = Interval;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Interval, D::Error> {
        let [low, high] = <[Option<f64>; 2]>::deserialize(deserializer)?;
        let (low, high) = (low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY));
        if low > high {
            return Err(de::Error::custom(format!("the interval {low} to {high} ends before it begins")));
        }
        Ok(Interval { low, high })
    }
}

/// Reader of one number, which refuses values that the figure cannot have.
struct NumberOf(Figure, Statistic);

impl NumberOf {
    fn is_count(&self) -> bool {
        self.1 == Statistic::N || self.0.unit() == Unit::Count
    }

    /// Refuses a count above [`MOST_COUNT`], except for cycles and instructions: many threads exceed it within a month.
    fn refuse_large<E: de::Error>(&self, value: u64) -> Result<(), E> {
        let is_bounded = self.is_count() && !matches!(self.0, Figure::Cycles | Figure::Instructions);
        if is_bounded && value > MOST_COUNT { Err(E::custom(count::too_large(value))) } else { Ok(()) }
    }

    fn expected(&self) -> &'static str {
        match self.0.unit() {
            _ if self.is_count() => "a whole number that is not negative",
            Unit::Ns => "a number",
            _ => "a number that is not negative",
        }
    }
}

impl<'de> DeserializeSeed<'de> for NumberOf {
    type Value = f64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<f64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for NumberOf {
    type Value = f64;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.expected())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<f64, E> {
        self.refuse_large(value).and_then(|()| self.visit_f64(value as f64))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<f64, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<f64, E> {
        let NumberOf(figure, statistic) = self;
        if figure.has_samples() == (statistic == Statistic::Value) {
            let has = if figure.has_samples() { "statistics of samples" } else { "one value" };
            return Err(E::custom(format!("{figure} has {has}, and no {statistic}")));
        }
        let is_wrong =
            self.0.unit() != Unit::Ns && value < 0.0 || self.is_count() && (value < 0.0 || value.fract() != 0.0);
        if is_wrong {
            return Err(E::invalid_value(Unexpected::Float(value), &self));
        }
        self.refuse_large(value as u64).map(|()| value)
    }
}

impl From<Values> for Stored {
    fn from(values: Values) -> Self {
        if let [(Statistic::Value, value, None)] = values.0[..] {
            return Stored::Value(Number(value));
        }
        let end = |end: f64| end.is_finite().then_some(end);
        let within = values.0.iter().filter_map(|(statistic, _, within)| Some((*statistic, (*within)?)));
        let within = within.map(|(statistic, of)| (statistic.to_string(), [end(of.low), end(of.high)])).collect();
        let statistics = values.0.into_iter().map(|(statistic, value, _)| (statistic.to_string(), Number(value)));
        Stored::Samples { statistics: statistics.collect(), within }
    }
}

impl Trial {
    /// Trial without figures.
    pub fn new(load: OfferedLoad) -> Self {
        Self {
            number: 0,
            load,
            rate_missed: false,
            missed: BTreeSet::new(),
            cut_short: None,
            streams: BTreeMap::new(),
            series: BTreeMap::new(),
            steps: Vec::new(),
        }
    }

    /// Adds or replaces a figure of one value.
    pub fn put(&mut self, stream: &Stream, figure: Figure, value: f64) {
        self.put_statistic(stream, figure, Statistic::Value, value, None);
    }

    /// Adds or replaces one statistic of a figure; ignores values that are not finite.
    pub fn put_statistic(
        &mut self,
        stream: &Stream,
        figure: Figure,
        statistic: Statistic,
        value: f64,
        within: Option<Interval>,
    ) {
        if !value.is_finite() {
            return;
        }
        if !self.streams.contains_key(stream) {
            self.streams.insert(stream.clone(), BTreeMap::new());
        }
        if let Some(figures) = self.streams.get_mut(stream) {
            figures.entry(figure).or_default().put(statistic, value, within);
        }
    }

    /// Adds counts of messages. Lost calls count as timed out, damaged ones as failed.
    pub fn put_counts(&mut self, stream: &Stream, counts: &Counts, are_calls: bool) {
        let Counts { sent, received, lost, late, duplicated, reordered, damaged } = *counts;
        for (figure, count) in
            [(Figure::Sent, sent), (Figure::Received, received), (Figure::Late, late), (Figure::Duplicated, duplicated)]
        {
            self.put(stream, figure, count as f64);
        }
        let [of_lost, of_damaged] =
            if are_calls { [Figure::TimedOut, Figure::Failed] } else { [Figure::Lost, Figure::Damaged] };
        self.put(stream, of_lost, lost as f64);
        self.put(stream, of_damaged, damaged as f64);
        if !are_calls {
            self.put(stream, Figure::Reordered, reordered as f64);
        }
    }

    /// Adds the audit of the samples of a figure.
    pub fn put_series(&mut self, stream: &Stream, figure: Figure, series: Option<Series>) {
        if let Some(series) = series {
            self.series.entry(stream.clone()).or_default().insert(figure, series);
        }
    }

    /// Removes a figure of a stream.
    pub fn remove(&mut self, stream: &Stream, figure: Figure) {
        self.streams.get_mut(stream).map(|figures| figures.remove(&figure));
    }

    /// Statistic of a figure, with its interval within this trial.
    pub fn get(&self, stream: &Stream, figure: Figure, statistic: Statistic) -> Option<TrialFigure<'_>> {
        let (stream, figures) = self.streams.get_key_value(stream)?;
        let (value, within) = figures.get(&figure)?.get(statistic)?;
        Some(TrialFigure { stream, figure, statistic, value, within })
    }

    /// Value of a statistic over all messages of the trial.
    pub fn of_all(&self, figure: Figure, statistic: Statistic) -> Option<f64> {
        self.get(&Stream::all(), figure, statistic).map(|one| one.value)
    }

    /// Value of a figure without samples.
    pub fn value(&self, stream: &Stream, figure: Figure) -> Option<f64> {
        self.get(stream, figure, Statistic::Value).map(|one| one.value)
    }

    /// Number of events; 0 if they were not counted.
    pub fn count(&self, stream: &Stream, figure: Figure) -> u64 {
        self.value(stream, figure).unwrap_or(0.0) as u64
    }

    /// Counts of messages. A call that timed out counts as lost, one that failed as damaged.
    pub fn counts(&self, stream: &Stream) -> Counts {
        let count = |figure| self.count(stream, figure);
        Counts {
            sent: count(Figure::Sent),
            received: count(Figure::Received),
            lost: count(Figure::Lost) + count(Figure::TimedOut),
            late: count(Figure::Late),
            duplicated: count(Figure::Duplicated),
            reordered: count(Figure::Reordered),
            damaged: count(Figure::Damaged) + count(Figure::Failed),
        }
    }

    /// True if its messages were calls.
    pub fn is_of_calls(&self) -> bool {
        self.value(&Stream::all(), Figure::Failed).is_some()
    }

    /// True if the trial, or any of its streams, received no message.
    pub fn is_all_lost(&self) -> bool {
        self.streams.keys().any(|stream| self.counts(stream).is_all_lost())
    }

    /// Names of topics with their own size and rate on which no message was sent.
    pub fn silent_topics(&self) -> impl Iterator<Item = &str> {
        let is_silent = |stream: &&Stream| self.value(stream, Figure::Sent) == Some(0.0);
        self.streams().filter(is_silent).filter_map(|stream| stream.topic.as_deref())
    }

    /// All streams with figures.
    pub fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.streams.keys()
    }

    /// True if its messages have several sizes, or may have; its payload is then the largest.
    pub fn has_several_sizes(&self) -> bool {
        let sizes = self.figures().filter(|one| one.figure == Figure::MessageBytes).map(|one| one.value);
        let range = sizes.fold(None, |range, size| {
            let (least, most) = range.unwrap_or((size, size));
            Some((size.min(least), size.max(most)))
        });
        range.map_or(self.load == OfferedLoad::Recorded, |(least, most)| least < most)
    }

    /// All figures.
    pub fn figures(&self) -> impl Iterator<Item = TrialFigure<'_>> {
        self.streams.iter().flat_map(|(stream, figures)| {
            figures.iter().flat_map(move |(&figure, values)| {
                let of = move |&(statistic, value, within)| TrialFigure { stream, figure, statistic, value, within };
                values.0.iter().map(of)
            })
        })
    }

    /// Audits of samples over time, with stream and figure.
    pub fn series(&self) -> impl Iterator<Item = (&Stream, Figure, &Series)> {
        let of = |(stream, figures)| {
            let figures: &BTreeMap<Figure, Series> = figures;
            figures.iter().map(move |(figure, series)| (stream, *figure, series))
        };
        self.series.iter().flat_map(of)
    }

    /// This trial without its figures.
    pub fn without_figures(self) -> Self {
        Self { streams: BTreeMap::new(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial() -> (Trial, Interval) {
        let mut trial = Trial::new(OfferedLoad::Rate { hz: 0.5 });
        trial.put(&Stream::all(), Figure::Lost, 3.0);
        trial.put(&Stream::follower(1), Figure::Lost, 2.0);
        trial.put(&Stream::topic("/a b=c"), Figure::AchievedRate, 0.1 + 0.2);
        let within = Interval { low: 1.0, high: f64::INFINITY };
        trial.put_statistic(&Stream::all(), Figure::RttHalf, Statistic::N, 10.0, None);
        trial.put_statistic(&Stream::all(), Figure::RttHalf, Statistic::P99, 5.0, Some(within));
        (trial, within)
    }

    #[test]
    fn figures_are_distinguished_by_stream_and_statistic() {
        let (mut trial, within) = trial();
        let value = |stream: &Stream, figure| trial.value(stream, figure);
        assert_eq!(value(&Stream::all(), Figure::Lost), Some(3.0));
        assert_eq!(value(&Stream::follower(1), Figure::Lost), Some(2.0));
        assert_eq!(value(&Stream::last(), Figure::Lost), None);
        let p99 = trial.get(&Stream::all(), Figure::RttHalf, Statistic::P99).unwrap();
        assert_eq!((p99.value, p99.within, trial.figures().count()), (5.0, Some(within), 5));
        trial.put(&Stream::all(), Figure::SlowestRate, f64::NAN);
        assert_eq!(trial.value(&Stream::all(), Figure::SlowestRate), None, "what is not a number is no figure");
    }

    #[test]
    fn a_trial_is_read_as_it_was_written_and_values_are_plain() {
        let (mut trial, _) = trial();
        trial.missed.insert(Stream::topic("/a b=c"));
        let text = serde_json::to_string(&trial).unwrap();
        assert_eq!(serde_json::from_str::<Trial>(&text).unwrap(), trial);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!({
            "load": { "kind": "rate", "rate_hz": 0.5 },
            "missed": ["topic=/a b=c"],
            "streams": {
                "all": { "rtt_half_ns": { "n": 10, "p99": 5, "within": { "p99": [1.0, null] } }, "lost": 3 },
                "topic=/a b=c": { "achieved_rate_hz": 0.1 + 0.2 },
                "follower=1": { "lost": 2 },
            },
        });
        assert_eq!(json, expected, "{text}");
        let newer = text.replace("\"all\":{", "\"robot=1\":{},\"all\":{\"new\":[1],");
        let newer = newer
            .replace("\"n\":10", "\"n\":10,\"how\":\"new\",\"p98\":null")
            .replace("[\"topic", "[\"robot=1\",\"topic");
        assert_eq!(serde_json::from_str::<Trial>(&newer).unwrap(), trial, "what is not known is ignored");
    }

    #[test]
    fn a_figure_of_the_wrong_type_is_an_error() {
        let (trial, _) = trial();
        let text = serde_json::to_string(&trial).unwrap();
        let count = "expected a whole number that is not negative";
        for (right, wrong, says) in [
            ("\"p99\":5", "\"p99\":\"x\"", "string \"x\", expected a number"),
            ("\"p99\":5", "\"p99\":null", "null, expected a number"),
            ("\"n\":10", "\"n\":-1", count),
            ("\"n\":10", "\"n\":0.5", count),
            ("\"lost\":3", "\"lost\":\"3\"", count),
            ("\"lost\":3", "\"lost\":-3", count),
            ("\"lost\":3", "\"lost\":[3]", count),
            ("\"lost\":2", "\"peak_memory_bytes\":-1", "expected a number that is not negative"),
            ("[1.0,null]", "[\"x\",null]", "string \"x\", expected f64"),
            ("[1.0,null]", "[5,1]", "the interval 5 to 1 ends before it begins"),
            ("\"n\":10", "\"value\":10", "rtt_half_ns has statistics of samples, and no value"),
            ("\"lost\":2", "\"rtt_half_ns\":7", "expected an object of statistics"),
            ("\"lost\":3", "\"sent\":{\"p50\":3}", "sent has one value, and no p50"),
        ] {
            let wrong = text.replace(right, wrong);
            assert_ne!(wrong, text, "{right}");
            let error = serde_json::from_str::<Trial>(&wrong).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn calls_have_counts_of_their_own() {
        let mut trial = Trial::new(OfferedLoad::Closed);
        let counts = Counts { sent: 10, received: 6, lost: 3, late: 1, duplicated: 2, reordered: 0, damaged: 1 };
        trial.put_counts(&Stream::all(), &counts, true);
        assert_eq!((trial.counts(&Stream::all()), trial.is_of_calls()), (counts, true));
        assert_eq!(trial.count(&Stream::all(), Figure::TimedOut), 3);
        assert_eq!(trial.value(&Stream::all(), Figure::Lost), None);
        trial.put_counts(&Stream::client(0), &Counts { sent: 1, lost: 1, ..Counts::default() }, true);
        assert!(trial.is_all_lost() && !trial.counts(&Stream::all()).is_all_lost());
    }
}
