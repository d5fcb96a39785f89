//! Pages as data: tables of typed cells, notes and facts. Views make documents; renderers ([`crate::render`]) write
//! them.

use crate::merged::CHANGED;
use crate::number::{count, cpp, fixed, percent, signed, significant, whole_or};
use crate::plots::Chart;
use strum::Display;
use tripmeter_analysis::derived::Each;
use tripmeter_analysis::{Rounds, Row};
use tripmeter_model::figure::Fold;
use tripmeter_model::metric::Interval;
use tripmeter_model::payload::display_size;
use tripmeter_stats::ErrorBounds;
use tripmeter_stats::proportion::{self, Proportion};
use tripmeter_stats::rounds::figure_over_rounds;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    pub blocks: Vec<Block>,
}

impl Document {
    /// Charts of the page, from top to bottom.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.blocks.iter().flat_map(|block| match block {
            Block::Chart(chart) => std::slice::from_ref(chart),
            Block::Charts(charts) => charts,
            _ => &[],
        })
    }
}

/// A part of a page.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a page has dozens of blocks, and a few of them are charts")]
pub enum Block {
    /// Begins a part of a long page.
    Heading(Heading),
    Table(Table),
    /// A chart, which text output omits.
    Chart(Chart),
    /// Small charts of one kind, side by side if there is room; text output omits them.
    Charts(Vec<Chart>),
    /// Notes on figures or on the run, the most severe first.
    Notes(Vec<Note>),
    Facts(Facts),
    /// A paragraph.
    Text(String),
    /// Preformatted lines.
    Lines(String),
}

impl Block {
    /// Block of notes, if there are any.
    pub fn notes(notes: Vec<Note>) -> Option<Self> {
        (!notes.is_empty()).then_some(Self::Notes(notes))
    }
}

/// Heading of a part of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Identifier in links: lower-case letters, digits and `-`.
    pub id: &'static str,
    pub text: String,
}

/// Facts: pairs of a name and a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Title above the facts; empty if there is none.
    pub title: String,
    /// Names and values, from top to bottom.
    pub pairs: Vec<(String, String)>,
}

/// A table. Every row has a cell for each column.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Caption.
    pub title: String,
    /// From left to right.
    pub columns: Vec<Column>,
    /// Rows from top to bottom, each with its address if it has one.
    pub rows: Vec<(Option<Row>, Vec<Cell>)>,
    /// Rows between which text has a blank line.
    pub gaps: RowGaps,
    /// True if text has bars between columns, as iceperf prints them.
    pub has_bars: bool,
    /// Width of a line of text beyond which intervals and then cells are wrapped.
    pub most_columns: Option<u16>,
}

/// Rows between which text has blank lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowGaps {
    Nowhere,
    /// Between payloads.
    Payloads,
    /// Between payloads and between sub-experiments.
    Subs,
}

impl RowGaps {
    /// True if there is a blank line between these rows.
    pub fn is_between(self, above: Row, row: Row) -> bool {
        let is_other_payload = above.payload_bytes != row.payload_bytes;
        match self {
            RowGaps::Nowhere => false,
            RowGaps::Payloads => is_other_payload,
            RowGaps::Subs => is_other_payload || above.sub != row.sub,
        }
    }
}

/// A column: how its numbers are written, and what they mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name in JSON and CSV.
    pub id: String,
    pub title: String,
    /// Head above several adjacent columns, e.g. their payload.
    pub group: Option<String>,
    /// Unit of the numbers as written; empty for none.
    pub unit: &'static str,
    /// Numbers are divided by this before they are written.
    pub divisor: f64,
    pub digits: Digits,
    /// Meaning in one sentence; empty if the title is clear.
    pub help: &'static str,
    /// Replaces title and unit in narrow text tables.
    pub narrow_head: Option<String>,
    /// True if text has intervals below the numbers even if none are requested.
    pub has_intervals: bool,
    /// True for ratios, where an infinite end of an interval does not mean too few samples.
    pub is_ratio: bool,
    /// Format of pairs of numbers.
    pub pair: PairFormat,
    /// Width in text beyond which words are broken, before settings and brackets.
    pub most_chars: Option<usize>,
    /// True if cells are right-aligned.
    pub is_right: bool,
    /// True if text leaves a cell blank that repeats the row above: same address, same cells in all such columns.
    pub is_merged: bool,
    /// Condition under which it is shown.
    pub show: Show,
}

/// Format of the two numbers of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairFormat {
    /// Separator between both numbers.
    pub joint: &'static str,
    /// Divisor and digits of the second number, if they differ from those of the column.
    pub second: Option<(f64, Digits)>,
}

/// Condition under which a column is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    Always,
    /// If any of its cells is not empty: a number or share other than 0, or text.
    IfAny,
}

/// Format of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// This many decimals, halves rounded away from 0.
    Fixed(u8),
    /// This many decimals of the exact double, as numpy and C write them: 4.3565 is 4.356.
    Numpy(u8),
    /// This many significant digits, but no more decimals than digits.
    Significant(u8),
    /// This many significant digits, with any number of decimals.
    AllSignificant(u8),
    /// Without decimals.
    Integer,
    /// A share as a percentage.
    Percent,
    /// Number of events; their share has an interval in per cent.
    Events,
    /// At least three digits, and few decimals.
    Rate,
    /// Bytes in the largest unit that divides them: `1k`, `1500`.
    Size,
    /// No decimals if it is a whole number, else this many.
    WholeOr(u8),
    /// This many significant digits, as C++ streams write them: `1.6e+02`.
    Cpp(u8),
    /// A change in per cent, with its sign.
    Change,
    /// A number with its sign; one decimal below 1000, none above.
    Signed,
    /// A p-value: three decimals, or `<0.001`.
    PValue,
}

/// A cell. Numbers are in the unit of their figure; the column determines their format.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Number {
        value: f64,
        /// Confidence interval, if there is one.
        interval: Option<Interval>,
        /// Mark before a doubtful value, e.g. `*`; else empty.
        mark: &'static str,
    },
    /// Number of events out of a total.
    Share {
        /// Events of all rounds.
        events: u64,
        /// Total, e.g. messages sent.
        of: u64,
        /// Interval of the share, from 0 to 1.
        interval: Option<Interval>,
    },
    /// Two numbers in one cell, e.g. one for each side.
    Pair(Box<[Cell; 2]>),
    /// A ratio to the floor.
    Ratio {
        value: f64,
        interval: Option<Interval>,
    },
    /// Row of the floor itself.
    Floor,
    /// Bar, as a share of the longest, from 0 to 1.
    Bar(f64),
    /// Number in its own unit instead of the column's.
    InUnit(Box<Cell>, &'static str),
    /// An interval without a number.
    Range(Interval),
    Text(String),
    /// Link to a page; text output has its words only.
    Link {
        /// Words that are shown.
        text: String,
        /// A URL.
        target: String,
    },
    /// Text after a mark, which says that its figure is doubtful.
    Marked(&'static str, String),
    Missing(Missing),
}

/// Reason why there is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
pub enum Missing {
    /// It was not measured.
    #[strum(serialize = "not measured")]
    NotMeasured,
    /// There are too few samples for an upper bound.
    #[strum(serialize = "too few samples")]
    TooFewSamples,
    /// No message arrived.
    #[strum(serialize = "everything was lost")]
    NothingCame,
    /// Another row of the same address has it, or none; blank in text.
    #[strum(serialize = "not of this row")]
    NotOfThisRow,
    /// There are no samples, although some were planned.
    #[strum(serialize = "no samples")]
    NoSamples,
    /// The core-to-core probes disagree, so that they yield no latency.
    #[strum(serialize = "core-to-core probes differ, or a CPU was taken away")]
    ProbesDiffer,
    /// The kernel splits CPU time by timer ticks, which is inexact for short times.
    #[strum(serialize = "the kernel splits CPU time by timer ticks, which is inexact")]
    SplitByTicks,
}

impl Missing {
    /// Mark before the dash; empty for most reasons.
    pub fn mark(self) -> &'static str {
        match self {
            Missing::NoSamples => "*",
            Missing::ProbesDiffer => CHANGED,
            _ => "",
        }
    }
}

/// Severity of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Display)]
#[strum(serialize_all = "lowercase")]
pub enum Severity {
    /// Figures are wrong or missing.
    Error,
    /// Figures are not as planned.
    Warning,
    /// Worth knowing.
    Info,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub severity: Severity,
    /// Kind; notes of one kind are folded.
    pub kind: &'static str,
    /// Row that the note is about; `None` if it is about more.
    pub anchor: Option<Row>,
    /// Full text: what happened, where, value against limit.
    pub text: String,
}

impl Note {
    /// Note about a row, or about the whole page.
    pub fn new(severity: Severity, kind: &'static str, anchor: Option<Row>, text: String) -> Self {
        Self { severity, kind, anchor, text }
    }

    /// Error about the whole page.
    pub fn error(kind: &'static str, text: impl Into<String>) -> Self {
        Self::new(Severity::Error, kind, None, text.into())
    }

    /// Warning about the whole page.
    pub fn warning(kind: &'static str, text: impl Into<String>) -> Self {
        Self::new(Severity::Warning, kind, None, text.into())
    }

    /// Information about the whole page.
    pub fn info(kind: &'static str, text: impl Into<String>) -> Self {
        Self::new(Severity::Info, kind, None, text.into())
    }
}

impl Column {
    /// Column of left-aligned text.
    pub fn words(id: &str, title: &str, help: &'static str) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            group: None,
            unit: "",
            divisor: 1.0,
            digits: Digits::Integer,
            help,
            narrow_head: None,
            has_intervals: false,
            is_ratio: false,
            pair: PairFormat { joint: "/", second: None },
            most_chars: None,
            is_right: false,
            is_merged: false,
            show: Show::Always,
        }
    }

    /// Column of right-aligned numbers; nanoseconds are written as microseconds if `unit` is `µs`.
    pub fn numbers(id: &str, title: &str, unit: &'static str, digits: Digits, help: &'static str) -> Self {
        let divisor = if unit == "µs" { 1000.0 } else { 1.0 };
        Self { unit, divisor, digits, is_right: true, ..Self::words(id, title, help) }
    }

    /// Shows the column only as described at [`Show::IfAny`].
    #[must_use]
    pub fn if_any(self) -> Self {
        Self { show: Show::IfAny, ..self }
    }

    /// Blanks cells in text that repeat the row above.
    #[must_use]
    pub fn merged(self) -> Self {
        Self { is_merged: true, ..self }
    }

    /// Breaks longer cells before settings and brackets, in text output.
    #[must_use]
    pub fn at_most(self, chars: usize) -> Self {
        Self { most_chars: Some(chars), ..self }
    }

    /// Adds a head above the title, which neighbours share.
    #[must_use]
    pub fn grouped(mut self, group: &str) -> Self {
        self.group = Some(group.to_owned());
        self
    }
}

impl Table {
    /// Table of those columns that are to be shown.
    pub fn new(title: String, columns: Vec<Column>, rows: Vec<(Option<Row>, Vec<Cell>)>) -> Self {
        let is_shown = |index: usize| {
            columns[index].show == Show::Always || rows.iter().any(|(_, cells)| cells[index].says_something())
        };
        let shown: Vec<bool> = (0..columns.len()).map(is_shown).collect();
        let kept = |cells: Vec<Cell>| -> Vec<Cell> {
            cells.into_iter().zip(&shown).filter(|(_, is_shown)| **is_shown).map(|(cell, _)| cell).collect()
        };
        let rows = rows.into_iter().map(|(row, cells)| (row, kept(cells))).collect();
        let columns = columns.into_iter().zip(&shown).filter(|(_, is_shown)| **is_shown).map(|(column, _)| column);
        let columns = columns.collect();
        Self { title, columns, rows, gaps: RowGaps::Nowhere, has_bars: false, most_columns: None }
    }

    /// Adds bars between columns.
    #[must_use]
    pub fn with_bars(self) -> Self {
        Self { has_bars: true, ..self }
    }

    /// Limits lines of text output to this width.
    #[must_use]
    pub fn within(self, columns: u16) -> Self {
        Self { most_columns: Some(columns), ..self }
    }

    /// Adds a blank line between payloads, if any of them has several rows.
    #[must_use]
    pub fn grouped_by_payload(mut self) -> Self {
        let address = |row: &(Option<Row>, Vec<Cell>)| row.0;
        let mut addresses: Vec<Row> = self.rows.iter().filter_map(address).collect();
        addresses.dedup();
        let has_several = addresses.windows(2).any(|two| two[0].payload_bytes == two[1].payload_bytes)
            || self.rows.windows(2).any(|two| two[0].0.is_some() && two[0].0 == two[1].0);
        self.gaps = if has_several { RowGaps::Payloads } else { RowGaps::Nowhere };
        self
    }

    /// Adds a blank line between payloads and between sub-experiments.
    #[must_use]
    pub fn grouped_by_sub(self) -> Self {
        Self { gaps: RowGaps::Subs, ..self }
    }
}

impl Cell {
    /// Blank cell: another line of the row has the figure.
    pub const NOTHING: Self = Cell::Missing(Missing::NotOfThisRow);

    /// True if such a cell makes its column worth showing.
    fn says_something(&self) -> bool {
        match self {
            Cell::Number { value, .. } => *value != 0.0,
            Cell::Share { events, .. } => *events > 0,
            Cell::Pair(both) => both.iter().any(Cell::says_something),
            Cell::InUnit(cell, _) => cell.says_something(),
            Cell::Text(text) | Cell::Link { text, .. } => !text.is_empty(),
            Cell::Bar(_) | Cell::Missing(_) => false,
            Cell::Ratio { .. } | Cell::Floor | Cell::Range(_) | Cell::Marked(..) => true,
        }
    }

    /// A number, or that it was not measured.
    pub fn maybe(value: Option<f64>) -> Self {
        value.map_or(Cell::Missing(Missing::NotMeasured), Cell::number)
    }

    pub fn text(text: impl Into<String>) -> Self {
        Cell::Text(text.into())
    }

    /// Text, after a mark if there is one.
    pub fn starred(mark: &'static str, text: String) -> Self {
        if mark.is_empty() { Cell::Text(text) } else { Cell::Marked(mark, text) }
    }

    /// A number without an interval.
    pub fn number(value: f64) -> Self {
        Cell::Number { value, interval: None, mark: "" }
    }

    /// Figure over all rounds, with the interval over rounds, or within the only one.
    pub fn from_rounds(rounds: Option<Rounds<'_>>) -> Self {
        let Some(rounds) = rounds.filter(|rounds| !rounds.values.is_empty()) else {
            return Cell::Missing(Missing::NotMeasured);
        };
        let interval = match rounds.values.len() {
            1 => rounds.within[0],
            _ if rounds.key.figure.fold_of(rounds.key.statistic) != Fold::Median => None,
            _ => return Cell::over(rounds.values, rounds.errors()),
        };
        Cell::Number { value: rounds.folded(), interval, mark: "" }
    }

    /// Median over rounds, with its interval if there are several; `errors` is the error of two clocks.
    pub fn over(values: &[f64], errors: ErrorBounds) -> Self {
        let Some(over) = figure_over_rounds(values, errors) else { return Cell::Missing(Missing::NotMeasured) };
        let interval = (values.len() > 1).then_some(over.interval.unwrap_or(Interval::UNBOUNDED));
        Cell::Number { value: over.median, interval, mark: "" }
    }

    /// Median over the rounds of a figure, `planned` in total, with the interval over rounds, or within the only one.
    pub fn of_each(each: &Each, planned: u32) -> Self {
        match Self::over(&each.values, each.errors) {
            Cell::Number { value, interval, mark } => {
                let unbounded = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY };
                let over = interval.or(Some(unbounded));
                Cell::Number { value, interval: if planned > 1 { over } else { each.within[0] }, mark }
            }
            cell => cell,
        }
    }

    /// Median over rounds, with an interval only if there are enough: the interval within one round says nothing about
    /// others.
    pub fn over_rounds(each: &Each) -> Self {
        let Some(over) = figure_over_rounds(&each.values, each.errors) else {
            return Cell::Missing(Missing::NotMeasured);
        };
        Cell::Number { value: over.median, interval: over.interval, mark: "" }
    }

    /// Ratio to the floor: median over the rounds, with its interval as in [`Cell::of_each`].
    pub fn ratio_of_each(each: &Each, planned: u32) -> Self {
        match Self::of_each(each, planned) {
            Cell::Number { value, interval, .. } => Cell::Ratio { value, interval },
            cell => cell,
        }
    }

    /// Mean over rounds, as benchmarks publish it; with the interval of the median if there are several rounds.
    pub fn mean_over(rounds: Option<Rounds<'_>>) -> Self {
        let Some(rounds) = rounds else { return Cell::Missing(Missing::NotMeasured) };
        match Self::over(rounds.values, rounds.errors()) {
            Cell::Number { interval, mark, .. } => {
                Cell::Number { value: rounds.values.iter().sum::<f64>() / rounds.values.len() as f64, interval, mark }
            }
            missing => missing,
        }
    }

    /// Largest value of all rounds.
    pub fn largest(each: &Each) -> Self {
        Cell::maybe(each.values.iter().copied().reduce(f64::max))
    }

    /// Events of all rounds; with the interval of their share if there are events, or if `has_interval`.
    pub fn events(rounds: &[Proportion], has_interval: bool) -> Self {
        let Proportion { events, of } = proportion::sum(rounds);
        let interval = proportion::interval(rounds).filter(|_| events > 0 || has_interval);
        Cell::Share { events, of, interval }
    }

    /// Losses of all rounds, with the interval of their share.
    pub fn lost(rounds: &[Proportion]) -> Self {
        let Some(interval) = proportion::interval(rounds) else { return Cell::Missing(Missing::NotMeasured) };
        let Proportion { events, of } = proportion::sum(rounds);
        Cell::Share { events, of, interval: Some(interval) }
    }

    /// Replaces the cell by [`Missing::TooFewSamples`] unless `is_bounded`.
    #[must_use]
    pub fn if_bounded(self, is_bounded: bool) -> Self {
        match self {
            Cell::Number { .. } if !is_bounded => Cell::Missing(Missing::TooFewSamples),
            cell => cell,
        }
    }

    /// Interval, if the cell has one.
    pub fn interval(&self) -> Option<Interval> {
        match self {
            Cell::Number { interval, .. } | Cell::Share { interval, .. } | Cell::Ratio { interval, .. } => *interval,
            Cell::InUnit(cell, _) => cell.interval(),
            Cell::Range(interval) => Some(*interval),
            _ => None,
        }
    }

    /// Mark before the cell; empty if it has none.
    pub fn mark(&self) -> &'static str {
        match self {
            Cell::Number { mark, .. } | Cell::Marked(mark, _) => mark,
            Cell::InUnit(cell, _) => cell.mark(),
            Cell::Missing(missing) => missing.mark(),
            _ => "",
        }
    }

    /// Adds a mark before a number.
    #[must_use]
    pub fn marked(mut self, with: &'static str) -> Self {
        if let Cell::Number { mark, .. } = &mut self {
            *mark = with;
        }
        self
    }
}

impl Digits {
    /// Number as text.
    pub fn write(self, value: f64) -> String {
        match self {
            Digits::Fixed(decimals) => fixed(value, decimals.into()),
            Digits::Numpy(decimals) => format!("{value:.*}", decimals.into()),
            Digits::Integer | Digits::Events => fixed(value, 0),
            Digits::Percent => percent(value),
            Digits::Rate => count(value),
            Digits::Size => display_size(value as u64),
            Digits::WholeOr(decimals) => whole_or(value, decimals.into()),
            Digits::Cpp(digits) => cpp(value, digits.into()),
            Digits::Change => format!("{} %", signed(value, 1)),
            Digits::Signed => signed(value, if value < 1000.0 { 1 } else { 0 }),
            Digits::PValue if value < 0.001 => "<0.001".to_owned(),
            Digits::PValue => fixed(value, 3),
            Digits::Significant(digits) => significant(value, digits.into(), digits.into()),
            Digits::AllSignificant(digits) => significant(value, digits.into(), i32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_significant_digits_have_no_more_than_three_decimals() {
        let texts = [0.0651, 0.516, 5.157, 51.57, 515.7, 5157.0, 51_570.0, 9.996, 99.96, 0.0, 0.0004, 999.6];
        let expected =
            ["0.065", "0.516", "5.16", "51.6", "516", "5160", "51600", "10.0", "100", "0.00", "0.000", "1000"];
        assert_eq!(texts.map(|value| Digits::Significant(3).write(value)), expected);
        let at_powers =
            [0.09995, 0.009_995, 0.0005, 0.9996, 0.000_999_6].map(|value| Digits::Significant(3).write(value));
        assert_eq!(at_powers, ["0.100", "0.010", "0.001", "1.00", "0.001"]);
        let all = [0.0918, 1.43, 0.000_999_6, 0.0, 9.996].map(|value| Digits::AllSignificant(3).write(value));
        assert_eq!(all, ["0.0918", "1.43", "0.00100", "0.00", "10.0"]);
        assert_eq!((Digits::Fixed(1).write(2.25), Digits::Integer.write(2.5)), ("2.3".into(), "3".into()));
        assert_eq!([2.25, -2.25, 0.0].map(|value| Digits::Change.write(value)), ["+2.3 %", "-2.3 %", "+0.0 %"]);
        assert_eq!((Digits::Fixed(3).write(4.3565), Digits::Numpy(3).write(4.3565)), ("4.357".into(), "4.356".into()));
    }
}
