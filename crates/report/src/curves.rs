//! Curves of all charts: their selection, names and looks.

use crate::FLOOR;
use crate::document::Digits;
use crate::labels::{Distinctions, LabelledLine};
use crate::measured::MeasuredSide;
use crate::merged::{MISSED, Merged};
use crate::pairs::JudgedPairs;
use crate::plots::chart::{BLACK, Line, Look, Stroke};
use crate::values::{Value, compare, lead, listed, name, unit};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tripmeter_analysis::{MetricTable, Rounds, Row};
use tripmeter_model::figure::{Better, Figure, Statistic};
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::payload::{at_text, size_key};

/// Maximum number of lines in a chart; more could not be told apart.
pub const MOST_LINES: usize = 12;

/// All curves of one headline figure.
pub struct Panel<'a> {
    pub figure: Figure,
    pub curves: Vec<Curve<'a>>,
    /// All payloads, ascending.
    pub payloads: Vec<u64>,
    /// Indices of the curves that were measured at each payload.
    at: HashMap<u64, Vec<usize>>,
}

/// A sub-experiment at one offered load, over payloads.
#[derive(Clone)]
pub struct Curve<'a> {
    pub side: &'a MeasuredSide<'a>,
    pub folder: usize,
    pub sub: u32,
    pub load: u32,
    /// Name that tells it apart from the other curves.
    pub label: String,
    /// Look in all charts.
    pub look: Look,
    figure: Figure,
    stream: Stream,
    /// True if the label contains the name of its folder.
    has_folder: bool,
}

/// Address of a line without a name: index of its results, sub-experiment, load, and the stream of its figures.
type LineAddress = (usize, u32, u32, Stream);

/// Lines of a panel, collected row by row; there may be thousands.
#[derive(Default)]
struct FoundLines {
    lines: Vec<LineAddress>,
    places: HashMap<(usize, u32, u32), usize>,
    payloads: BTreeSet<u64>,
}

impl FoundLines {
    fn add(&mut self, folder: usize, row: Row, stream: Stream) {
        self.payloads.insert(row.payload_bytes);
        self.places.entry((folder, row.sub, row.load)).or_insert_with(|| {
            self.lines.push((folder, row.sub, row.load, stream));
            self.lines.len() - 1
        });
    }

    fn panel<'a>(self, sides: &'a [MeasuredSide<'a>], figure: Figure) -> Panel<'a> {
        let mut at: HashMap<u64, Vec<usize>> = HashMap::new();
        for (folder, row) in
            (0..).zip(sides).flat_map(|(folder, side)| side.metrics.all_rows().map(move |row| (folder, row)))
        {
            if let Some(place) = self.places.get(&(folder, row.sub, row.load)) {
                at.entry(row.payload_bytes).or_default().push(*place);
            }
        }
        at.values_mut().for_each(|places| places.sort_unstable());
        let curves = curves(sides, figure, &self.lines);
        Panel { figure, curves, payloads: self.payloads.into_iter().collect(), at }
    }
}

/// All panels, in the order of the headlines.
pub fn panels<'a>(sides: &'a [MeasuredSide<'a>]) -> Vec<Panel<'a>> {
    // Messages of several sizes have no place on a payload axis, so they have panels of their own.
    let mut found: Vec<((Figure, bool), FoundLines)> = Vec::new();
    for (folder, side) in sides.iter().enumerate() {
        for row in side.metrics.all_rows() {
            let has_several_sizes = side.metrics.has_several_sizes(row);
            for (figure, stream) in headlines(&side.metrics, row) {
                let of = (figure, has_several_sizes);
                let index = found.iter().position(|one| one.0 == of).unwrap_or_else(|| {
                    found.push((of, FoundLines::default()));
                    found.len() - 1
                });
                found[index].1.add(folder, row, stream);
            }
        }
    }
    found.sort_by_key(|((of, has_several_sizes), _)| {
        (Figure::HEADLINES.iter().position(|figure| figure == of), *has_several_sizes)
    });
    found.into_iter().map(|((figure, _), lines)| lines.panel(sides, figure)).collect()
}

/// Headline of a row, and its stream: all messages, or the last of several followers. After a rate follows the next
/// headline, a latency.
fn headlines(metrics: &MetricTable, row: Row) -> Vec<(Figure, Stream)> {
    let mut all = Figure::HEADLINES.into_iter().filter_map(|figure| Some((figure, stream_of(metrics, row, figure)?)));
    let first = all.next();
    let is_rate = first.as_ref().is_some_and(|one| one.0.better() == Better::Higher);
    first.into_iter().chain(all.take(usize::from(is_rate))).collect()
}

/// Stream that is judged: all messages, or the last of several followers.
fn stream_of(metrics: &MetricTable, row: Row, figure: Figure) -> Option<Stream> {
    let has = |stream: &Stream| {
        let get = |statistic| metrics.get(row, stream, figure, statistic).is_some();
        get(Statistic::P50) || get(Statistic::Value)
    };
    [Stream::all(), Stream::last()].into_iter().find(has)
}

fn curves<'a>(sides: &'a [MeasuredSide<'a>], figure: Figure, lines: &[LineAddress]) -> Vec<Curve<'a>> {
    let labelled = |(folder, sub, load, _): &LineAddress| {
        let side = &sides[*folder];
        LabelledLine {
            sub: &side.subs[*sub as usize],
            load: side.metrics.load(Row { sub: *sub, payload_bytes: 0, load: *load }),
        }
    };
    let all: Vec<LabelledLine<'_>> = lines.iter().map(labelled).collect();
    let folders: BTreeSet<usize> = lines.iter().map(|line| line.0).collect();
    // Names distinguish sub-experiments within a folder, not between folders.
    let beside = |folder: usize| all.iter().zip(lines).filter(move |(_, other)| other.0 == folder).map(|(one, _)| *one);
    let distinctions: BTreeMap<usize, Distinctions<'_>> =
        folders.iter().map(|folder| (*folder, Distinctions::from_lines(beside(*folder)))).collect();
    let kind = |line: &LabelledLine<'a>| (line.sub.planned.name.as_str(), format!("{:?}", line.load));
    let kinds: Vec<_> = all.iter().zip(lines).map(|(line, address)| (kind(line), address.0)).collect();
    let looks = Look::by_kind(&kinds).unwrap_or_else(|| (0..lines.len()).map(look).collect());
    let curve = |(place, line): (usize, &LineAddress)| {
        let (folder, sub, load, stream) = line.clone();
        let side = &sides[folder];
        let mut label = distinctions[&folder].parts(all[place]).join(", ");
        if side.is_of_pairs() {
            label = format!("{}: {label}", side.subs[sub as usize].planned.name);
        }
        if sides.len() > 1 {
            label += &format!(" · {}", side.name);
        }
        let look = looks[place];
        Curve { side, folder, sub, load, label, look, figure, stream, has_folder: sides.len() > 1 }
    };
    lines.iter().enumerate().map(curve).collect()
}

/// Look of a line: colour, marker and dashes change in turn, without the floor's black. The first 36 differ.
pub fn look(place: usize) -> Look {
    Look { stroke: if place % 2 == 1 { Stroke::Dashed } else { Stroke::Solid }, ..Look::for_line(place, 0) }
}

/// Reasons why curves are not compared at these payloads, each with the names of its curves.
fn unfit<'c, 'a: 'c>(
    curves: impl Iterator<Item = &'c Curve<'a>>,
    payloads: &[u64],
) -> BTreeMap<&'static str, Vec<&'c str>> {
    let mut found: BTreeMap<&'static str, Vec<&str>> = BTreeMap::new();
    for curve in curves {
        if let Some(why) = curve.unfit(payloads) {
            found.entry(why).or_default().push(&curve.label);
        }
    }
    found.values_mut().for_each(Vec::dedup);
    found
}

impl<'a> Panel<'a> {
    /// Panel of one figure for some rows of one side.
    pub fn of_rows(side: &'a MeasuredSide<'a>, figure: Figure, rows: &[Row]) -> Self {
        let mut lines = FoundLines::default();
        for row in rows {
            if let Some(stream) = stream_of(&side.metrics, *row, figure) {
                lines.add(0, *row, stream);
            }
        }
        lines.panel(std::slice::from_ref(side), figure)
    }

    pub fn has_folders(&self) -> bool {
        self.curves.iter().any(|curve| curve.has_folder)
    }

    /// Verdicts on the pairs of the ranked results, if they are of an `ab`.
    pub fn pairs(&self) -> Option<&JudgedPairs> {
        self.curves.iter().max_by_key(|curve| curve.folder)?.side.pairs.as_ref()
    }

    /// True if the floor is not ranked because others were measured beside it. If it was requested together with only
    /// one other, it is ranked; so is a side of an `ab`.
    pub fn leaves_out_floor(&self) -> bool {
        let last = self.curves.iter().map(|curve| curve.folder).max();
        let ranked = || self.curves.iter().filter(|curve| Some(curve.folder) == last && !curve.side.is_of_pairs());
        let others = ranked().filter(|curve| !curve.is_floor()).count();
        others > 0 && ranked().any(|curve| curve.is_floor() && (others > 1 || curve.merged().planned.added_as_floor))
    }

    /// Curves without a floor that was measured beside others.
    pub fn besides_floor(&self) -> impl Iterator<Item = &Curve<'a>> {
        let leaves_out_floor = self.leaves_out_floor();
        self.curves.iter().filter(move |curve| !(leaves_out_floor && curve.is_floor()))
    }

    /// Curves that sentences compare at these payloads; without failed proofs, missed rates and polling on a shared
    /// CPU.
    pub fn compared(&self, payloads: &[u64]) -> impl Iterator<Item = &Curve<'a>> {
        self.besides_floor().filter(move |curve| curve.unfit(payloads).is_none())
    }

    /// Sentence below a chart: `told`, or empty if nothing can be compared; `None` if there is something to compare.
    pub fn reading(&self, payloads: &[u64], told: Option<String>) -> Option<String> {
        told.or_else(|| self.compared(payloads).next().is_none().then(String::new))
    }

    /// Curves of [`Self::besides_floor`] that may have a value at a payload.
    fn besides_floor_at(&self, payload_bytes: u64) -> impl Iterator<Item = &Curve<'a>> {
        let leaves_out_floor = self.leaves_out_floor();
        let places = self.at.get(&payload_bytes).map_or(&[][..], Vec::as_slice);
        places.iter().map(|place| &self.curves[*place]).filter(move |curve| !(leaves_out_floor && curve.is_floor()))
    }

    /// Beginning of a comparing sentence below a chart that also draws the floor.
    pub fn preface(&self) -> &'static str {
        if self.leaves_out_floor() { "The floor is not counted. " } else { "" }
    }

    /// Factor by which another curve is worse than the best.
    pub fn distance(&self, best: &Curve<'_>, other: &Curve<'_>, payload: u64) -> Option<Value> {
        match self.figure.better() {
            Better::Higher => best.over(other, payload, self.statistic()),
            _ => other.over(best, payload, self.statistic()),
        }
    }

    /// True if the messages of a payload have several sizes.
    fn has_several_sizes(&self, payload: u64) -> bool {
        self.curves.iter().any(|curve| curve.side.metrics.has_several_sizes(curve.row(payload)))
    }

    /// Place of a payload's figures within a sentence: `at 64k`, `on all topics`.
    pub fn at(&self, payload: u64) -> String {
        at_text(payload, self.has_several_sizes(payload))
    }

    /// Payload within the names of charts.
    pub fn key(&self, payload: u64) -> String {
        size_key(payload, self.has_several_sizes(payload))
    }

    /// Statistic that represents the figure.
    pub fn statistic(&self) -> Statistic {
        if self.has_samples() { Statistic::P50 } else { Statistic::Value }
    }

    pub fn has_samples(&self) -> bool {
        let has = |curve: &Curve<'_>, payload: &u64| curve.rounds(*payload, Statistic::P50).is_some();
        self.curves.iter().any(|curve| self.payloads.iter().any(|payload| has(curve, payload)))
    }

    /// The name of the figure, e.g. `rtt_half`.
    pub fn name(&self) -> &'static str {
        name(self.figure)
    }

    /// The label of an axis, e.g. `Median rtt_half [µs]`.
    pub fn axis(&self) -> String {
        let median = if self.has_samples() { "Median of " } else { "" };
        format!("{median}{} [{}]", self.name(), unit(self.figure).1)
    }

    /// A value as a number of the axis.
    pub fn scaled(&self, value: Value) -> Value {
        value.scaled(unit(self.figure).0)
    }

    /// A value with its unit, e.g. `0.065 µs`.
    pub fn written(&self, value: f64) -> String {
        let (factor, unit) = unit(self.figure);
        let value = factor * value;
        let text = if value >= 1e4 { format!("{value:.0}") } else { Digits::Significant(3).write(value) };
        format!("{text} {unit}")
    }

    /// First and last payload, if there are several.
    pub fn ends(&self) -> Option<[u64; 2]> {
        (self.payloads.len() > 1).then(|| [self.payloads[0], self.payloads[self.payloads.len() - 1]])
    }

    /// At most `most` payloads: the ends, and evenly spaced ones between them.
    pub fn some_payloads(&self, most: usize) -> Vec<u64> {
        let count = self.payloads.len();
        if count <= most {
            return self.payloads.clone();
        }
        (0..most).map(|index| self.payloads[index * (count - 1) / (most - 1)]).collect()
    }

    /// Curves with a value at a payload, the best first; of several rates, those at the lowest, of bursts if there are no
    /// even rates. Without added floors, missed rates, failed proofs and polling on a shared CPU.
    pub fn ranking(&self, payload_bytes: u64) -> Vec<(&Curve<'a>, Value)> {
        let last = self.curves.iter().map(|curve| curve.folder).max();
        let rate = |load: &OfferedLoad| (load.is_uneven(), load.hz().unwrap_or(f64::INFINITY));
        let order = |a: &OfferedLoad, b: &OfferedLoad| {
            let ((a_is_uneven, a_hz), (b_is_uneven, b_hz)) = (rate(a), rate(b));
            a_is_uneven.cmp(&b_is_uneven).then(a_hz.total_cmp(&b_hz))
        };
        let has_rate = |load: &OfferedLoad| load.hz().is_some();
        let lowest = self.curves.iter().map(Curve::offered).filter(has_rate).min_by(order);
        let counts = |curve: &&Curve<'_>| {
            let is_lowest = !has_rate(&curve.offered()) || Some(curve.offered()) == lowest;
            Some(curve.folder) == last && is_lowest && curve.counts(payload_bytes)
        };
        let value = |curve: &'_ Curve<'a>| curve.value(payload_bytes, self.statistic());
        let mut all: Vec<(&Curve<'a>, Value)> = self
            .besides_floor_at(payload_bytes)
            .filter(counts)
            .filter_map(|curve| Some((curve, value(curve)?)))
            .collect();
        all.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
        if self.figure.better() == Better::Higher {
            all.reverse();
        }
        lead(&mut all, |one, first| self.distance(first.0, one.0, payload_bytes));
        all
    }

    /// Note on curves that are not ranked at a payload, with the reason.
    pub fn unranked(&self, payload_bytes: u64) -> Option<String> {
        let last = self.curves.iter().map(|curve| curve.folder).max();
        let is_meant = |curve: &&Curve<'_>| {
            Some(curve.folder) == last
                && !curve.merged().planned.added_as_floor
                && curve.value(payload_bytes, self.statistic()).is_some()
        };
        let meant = self.besides_floor_at(payload_bytes).filter(is_meant);
        let parts = unfit(meant, &[payload_bytes]);
        let parts: Vec<String> =
            parts.into_iter().map(|(why, names)| format!("{}, which {why}", listed(&names))).collect();
        (!parts.is_empty()).then(|| format!("not ranked: {}", parts.join("; ")))
    }

    /// At most [`MOST_LINES`] curves: the best at the first payload with a ranking, and the floor.
    pub fn drawn(&self) -> Vec<&Curve<'a>> {
        if self.curves.len() <= MOST_LINES {
            return self.curves.iter().collect();
        }
        let first = self.payloads.first().copied().unwrap_or(0);
        let place = |curve: &Curve<'a>| {
            let value = curve.value(first, self.statistic()).map_or(f64::INFINITY, |value| value.value);
            let value = if self.figure.better() == Better::Higher { -value } else { value };
            if curve.is_floor() { (false, f64::NEG_INFINITY) } else { (curve.unfit(&[first]).is_some(), value) }
        };
        let mut places: Vec<((bool, f64), &Curve<'a>)> =
            self.curves.iter().map(|curve| (place(curve), curve)).collect();
        places.sort_by(|((a_unfit, a), _), ((b_unfit, b), _)| a_unfit.cmp(b_unfit).then(a.total_cmp(b)));
        places.into_iter().take(MOST_LINES).map(|(_, curve)| curve).collect()
    }

    /// Notes below a chart of these payloads: how many curves are drawn, and which are not compared.
    pub fn notes(&self, payloads: &[u64]) -> Vec<String> {
        let drawn = self.drawn();
        let (all, shown) = (self.curves.len(), drawn.len());
        let at = self.at(self.payloads.first().copied().unwrap_or(0));
        let note = || format!("The chart shows the best {shown} of {all} {at}; the table shows all.");
        let marks = unfit(drawn.into_iter(), payloads);
        let marks = marks.into_iter().map(|(why, names)| format!("{MISSED} {why}, not compared: {}.", listed(&names)));
        (shown < all).then(note).into_iter().chain(marks).collect()
    }

    /// Subtitle of a chart: its figure, rounds, and intervals.
    pub fn subtitle(&self, parts: &[&str], lines: &[Line]) -> String {
        self.subtitle_of(parts, lines.iter().any(|line| !line.intervals.is_empty()))
    }

    /// Subtitle of a chart with or without intervals.
    pub fn subtitle_of(&self, parts: &[&str], has_intervals: bool) -> String {
        let rounds: BTreeSet<usize> = self.curves.iter().map(Curve::measured_rounds).collect();
        let counts: Vec<String> = rounds.iter().map(usize::to_string).collect();
        let (counts, intervals) = match counts.join(" or ").as_str() {
            "1" => ("one round".to_owned(), "95 % intervals within the round"),
            // With one round, the interval is the one within it.
            counts if rounds.contains(&1) => (format!("{counts} rounds"), "95 % intervals"),
            counts => (format!("{counts} rounds"), "95 % intervals over rounds"),
        };
        let intervals = if has_intervals { intervals } else { "" };
        let help = self.figure.help();
        let parts = [&[help], parts, &[counts.as_str(), intervals]].concat();
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
    }
}

impl Curve<'_> {
    pub fn row(&self, payload_bytes: u64) -> Row {
        Row { sub: self.sub, payload_bytes, load: self.load }
    }

    /// Statistic of the headline figure, round by round.
    pub fn rounds(&self, payload_bytes: u64, statistic: Statistic) -> Option<Rounds<'_>> {
        self.side.metrics.get(self.row(payload_bytes), &self.stream, self.figure, statistic)
    }

    pub fn value(&self, payload_bytes: u64, statistic: Statistic) -> Option<Value> {
        Value::from_rounds(&self.rounds(payload_bytes, statistic)?)
    }

    /// True if each round has enough samples for a percentile; see [`tripmeter_analysis::MetricTable::is_bounded`].
    pub fn is_bounded(&self, payload_bytes: u64, statistic: Statistic) -> bool {
        self.side.metrics.is_bounded(self.row(payload_bytes), &self.stream, self.figure, statistic)
    }

    /// Largest number of rounds that were measured at any payload; a killed run has fewer than planned.
    pub fn measured_rounds(&self) -> usize {
        self.merged().payloads().iter().map(|payload| payload.cells.len()).max().unwrap_or(0)
    }

    pub fn offered(&self) -> OfferedLoad {
        self.side.metrics.load(self.row(0))
    }

    pub fn merged(&self) -> &Merged<'_> {
        &self.side.subs[self.sub as usize]
    }

    /// True if the other transports are measured against this one.
    pub fn is_floor(&self) -> bool {
        self.merged().planned.transport.system == FLOOR
    }

    /// Look (black and strong for the floor) and label, marked if it is not compared at these payloads.
    pub fn drawn(&self, payloads: &[u64]) -> (Look, String) {
        let mark = if self.unfit(payloads).is_some() { MISSED } else { "" };
        match self.is_floor() {
            true => (Look { color: Some(BLACK), strong: true, ..self.look }, format!("{}{mark} (floor)", self.label)),
            false => (self.look, format!("{}{mark}", self.label)),
        }
    }

    /// Reason why its figures are not compared at these payloads; `None` if they are.
    pub fn unfit(&self, payloads: &[u64]) -> Option<&'static str> {
        let is_missed = |payload: &u64| self.side.metrics.is_rate_missed(self.row(*payload));
        match self.merged().disqualified() {
            Some(why) => Some(why.into()),
            None => payloads.iter().any(is_missed).then_some("missed the rate"),
        }
    }

    fn counts(&self, payload_bytes: u64) -> bool {
        self.unfit(&[payload_bytes]).is_none() && !self.merged().planned.added_as_floor
    }

    /// Ratio to another curve: round by round within one folder, else of independent rounds.
    pub fn over(&self, other: &Curve<'_>, payload_bytes: u64, statistic: Statistic) -> Option<Value> {
        let (ours, theirs) = (self.rounds(payload_bytes, statistic)?, other.rounds(payload_bytes, statistic)?);
        compare(&ours, &theirs, self.folder == other.folder)
    }
}
