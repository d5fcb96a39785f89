//! Pages as data: tables of typed cells, notes and facts. Views make documents, and renderers ([`crate::render`]) write them.

use crate::merged::CHANGED;
use crate::number::{count, cpp, fixed, percent, signed, significant, whole_or};
use crate::plots::Chart;
use tripmeter_analysis::derived::Each;
use tripmeter_analysis::{Rounds, Row};
use tripmeter_model::figure::Fold;
use tripmeter_model::metric::Interval;
use tripmeter_model::payload::display_size;
use tripmeter_stats::ErrorBounds;
use tripmeter_stats::proportion::{self, Proportion};
use tripmeter_stats::rounds::figure_over_rounds;

/// A page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// From top to bottom.
    pub blocks: Vec<Block>,
}

impl Document {
    /// Its charts, from top to bottom.
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
    /// A table.
    Table(Table),
    /// A chart; text leaves it out.
    Chart(Chart),
    /// Small charts of one kind, side by side where there is room; text leaves them out.
    Charts(Vec<Chart>),
    /// Notes on figures or on the run, the most severe first.
    Notes(Vec<Note>),
    /// Facts.
    Facts(Facts),
    /// A paragraph.
    Text(String),
    /// Lines that stand as they are.
    Lines(String),
}

/// The head of a part of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Names it in links: lower-case letters, digits and `-`.
    pub id: &'static str,
    /// Its words.
    pub text: String,
}

/// Facts: a word and its value each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Their subject; empty if nothing stands above them.
    pub title: String,
    /// From top to bottom.
    pub pairs: Vec<(String, String)>,
}

/// A table. Every row has a cell for each column.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its caption.
    pub title: String,
    /// From left to right.
    pub columns: Vec<Column>,
    /// From top to bottom, with their address where they have one.
    pub rows: Vec<(Option<Row>, Vec<Cell>)>,
    /// Where a blank line stands in text.
    pub gaps: RowGaps,
    /// In text, columns stand between bars, as iceperf prints them.
    pub has_bars: bool,
    /// In text, intervals and then cells are wrapped where lines would be longer than so many columns.
    pub most_columns: Option<u16>,
}

/// Where text has blank lines between rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowGaps {
    /// None.
    Nowhere,
    /// Between payloads.
    Payloads,
    /// Between payloads and between sub-experiments.
    Subs,
}

impl RowGaps {
    /// True if a blank line stands between these rows.
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
    /// Its name in JSON and CSV.
    pub id: String,
    /// Its head.
    pub title: String,
    /// Head above several neighbours, e.g. their payload.
    pub group: Option<String>,
    /// Unit of the numbers as written; empty if they have none.
    pub unit: &'static str,
    /// Numbers are divided by it before they are written.
    pub divisor: f64,
    /// How they are written.
    pub digits: Digits,
    /// Its meaning in one sentence; empty if the head says it.
    pub help: &'static str,
    /// In text, stands in the place of title and unit where the table is narrow.
    pub narrow_head: Option<String>,
    /// In text, intervals stand below the numbers even where none are asked for.
    pub has_intervals: bool,
    /// An end of an interval that is infinite is a ratio from 0 to something, and not for want of samples.
    pub is_ratio: bool,
    /// Format of pairs of numbers.
    pub pair: PairFormat,
    /// In text, longer words are broken before settings and what stands in brackets.
    pub most_chars: Option<usize>,
    /// True if cells are on the right.
    pub is_right: bool,
    /// In text, cells are blank where the row above has the same address and the same cells in all such columns.
    pub is_merged: bool,
    /// When it is shown.
    pub show: Show,
}

/// Format of the two numbers of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairFormat {
    /// Stands between both.
    pub joint: &'static str,
    /// Divisor and digits of the second number, if they differ from those of the column.
    pub second: Option<(f64, Digits)>,
}

/// When a column is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Always.
    Always,
    /// If any of its cells is not empty: a number or share other than 0, or words.
    IfAny,
}

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// So many decimals, halves away from 0.
    Fixed(u8),
    /// So many decimals of the exact double, as numpy and C write them: 4.3565 is 4.356.
    Numpy(u8),
    /// So many significant digits, and no more decimals than that.
    Significant(u8),
    /// So many significant digits, whatever decimals that takes.
    AllSignificant(u8),
    /// Without decimals.
    Integer,
    /// Per cent of a share.
    Percent,
    /// Number of events of a share; its interval in per cent.
    Events,
    /// At least three digits, and few decimals.
    Rate,
    /// Bytes in the largest unit that divides them: `1k`, `1500`.
    Size,
    /// Whole if it is, else with so many decimals.
    WholeOr(u8),
    /// So many significant digits, as C++ streams write them: `1.6e+02`.
    Cpp(u8),
    /// Per cent with its sign, e.g. of a change.
    Change,
    /// A number with its sign and one decimal, without it from 1000 on.
    Signed,
    /// A p-value: three decimals, or `<0.001`.
    PValue,
}

/// A cell. Numbers are in the unit of their figure; the column says how they are written.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A number.
    Number {
        /// Its value.
        value: f64,
        /// Its confidence interval, where there is one.
        interval: Option<Interval>,
        /// Written before a doubtful value, e.g. `*`; else empty.
        mark: &'static str,
    },
    /// Events of so many.
    Share {
        /// Events of all rounds.
        events: u64,
        /// Number that could have been events.
        of: u64,
        /// The interval of the share, from 0 to 1.
        interval: Option<Interval>,
    },
    /// Two that are written as one, e.g. of both sides.
    Pair(Box<[Cell; 2]>),
    /// A ratio to the floor.
    Ratio {
        /// The ratio.
        value: f64,
        /// Its interval.
        interval: Option<Interval>,
    },
    /// This row is the floor.
    Floor,
    /// A share of the longest bar, from 0 to 1.
    Bar(f64),
    /// A number in a unit of its own, not that of its column.
    InUnit(Box<Cell>, &'static str),
    /// An interval by itself.
    Range(Interval),
    /// Words.
    Text(String),
    /// Words that lead to a page; text has the words alone.
    Link {
        /// Words that are shown.
        text: String,
        /// A URL.
        target: String,
    },
    /// Words after a mark, which says that their figure is doubtful.
    Marked(&'static str, String),
    /// No number.
    Missing(Missing),
}

/// Why there is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It was not measured.
    NotMeasured,
    /// Too few samples bound it.
    TooFewSamples,
    /// Everything was lost.
    NothingCame,
    /// It is in another row of the same address, or of none of them; in text the cell is blank.
    NotOfThisRow,
    /// There is no sample, although some were planned.
    NoSamples,
    /// The core-to-core probes give no latency.
    ProbesDiffer,
    /// The kernel splits CPU time by timer ticks, which say little of a short time.
    SplitByTicks,
}

impl Missing {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Missing::NotMeasured => "not measured",
            Missing::TooFewSamples => "too few samples",
            Missing::NothingCame => "everything was lost",
            Missing::NotOfThisRow => "not of this row",
            Missing::NoSamples => "no samples",
            Missing::ProbesDiffer => "core-to-core probes differ, or a CPU was taken away",
            Missing::SplitByTicks => "the kernel splits CPU time by timer ticks, which is inexact",
        }
    }

    /// Stands before the dash.
    pub fn mark(self) -> &'static str {
        match self {
            Missing::NoSamples => "*",
            Missing::ProbesDiffer => CHANGED,
            _ => "",
        }
    }
}

/// Severity of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Figures are wrong, or missing.
    Error,
    /// Figures are not as planned.
    Warning,
    /// Worth knowing.
    Info,
}

/// A note.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// Its severity.
    pub severity: Severity,
    /// Kind: notes of one are folded.
    pub kind: &'static str,
    /// The row it is of, if it is of one.
    pub anchor: Option<Row>,
    /// The whole of it: what happened, where, value against limit.
    pub text: String,
}

impl Note {
    /// A note of a row, or of the whole.
    pub fn new(severity: Severity, kind: &'static str, anchor: Option<Row>, text: String) -> Self {
        Self { severity, kind, anchor, text }
    }
}

impl Column {
    /// A column of words, on the left.
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

    /// A column of numbers, on the right; nanoseconds are written as microseconds if `unit` says so.
    pub fn numbers(id: &str, title: &str, unit: &'static str, digits: Digits, help: &'static str) -> Self {
        let divisor = if unit == "µs" { 1000.0 } else { 1.0 };
        Self { unit, divisor, digits, is_right: true, ..Self::words(id, title, help) }
    }

    /// Shown only as [`Show::IfAny`] says.
    #[must_use]
    pub fn if_any(self) -> Self {
        Self { show: Show::IfAny, ..self }
    }

    /// Blank in text where the row above is of the same thing.
    #[must_use]
    pub fn merged(self) -> Self {
        Self { is_merged: true, ..self }
    }

    /// Broken in text where words are longer.
    #[must_use]
    pub fn at_most(self, chars: usize) -> Self {
        Self { most_chars: Some(chars), ..self }
    }

    /// With a group above it.
    #[must_use]
    pub fn grouped(mut self, group: &str) -> Self {
        self.group = Some(group.to_owned());
        self
    }
}

impl Table {
    /// A table of the columns that are to be shown.
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

    /// With bars between columns.
    #[must_use]
    pub fn with_bars(self) -> Self {
        Self { has_bars: true, ..self }
    }

    /// In text, lines of at most so many columns.
    #[must_use]
    pub fn within(self, columns: u16) -> Self {
        Self { most_columns: Some(columns), ..self }
    }

    /// With a blank line between payloads, if any of them has several rows.
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

    /// With a blank line between payloads and between sub-experiments.
    #[must_use]
    pub fn grouped_by_sub(self) -> Self {
        Self { gaps: RowGaps::Subs, ..self }
    }
}

impl Cell {
    /// A figure that another line of the row has.
    pub const NOTHING: Self = Cell::Missing(Missing::NotOfThisRow);

    /// True if a column of such cells is worth showing.
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

    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Cell::Text(text.into())
    }

    /// Words, after a mark if there is one.
    pub fn starred(mark: &'static str, text: String) -> Self {
        if mark.is_empty() { Cell::Text(text) } else { Cell::Marked(mark, text) }
    }

    /// A number without an interval.
    pub fn number(value: f64) -> Self {
        Cell::Number { value, interval: None, mark: "" }
    }

    /// The rounds of a figure put together, with the interval over rounds, or within the only one.
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

    /// The median over rounds, with its interval if there are several; two clocks may put the values off by `errors`.
    pub fn over(values: &[f64], errors: ErrorBounds) -> Self {
        let Some(over) = figure_over_rounds(values, errors) else { return Cell::Missing(Missing::NotMeasured) };
        let interval = (values.len() > 1).then_some(over.interval.unwrap_or(Interval::UNBOUNDED));
        Cell::Number { value: over.median, interval, mark: "" }
    }

    /// The median over the rounds of a figure, `planned` in all, with its interval over them, or within the only one.
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

    /// The median over rounds that has an interval only over enough of them: what is within the only round does not say what
    /// other rounds would be.
    pub fn over_rounds(each: &Each) -> Self {
        let Some(over) = figure_over_rounds(&each.values, each.errors) else {
            return Cell::Missing(Missing::NotMeasured);
        };
        Cell::Number { value: over.median, interval: over.interval, mark: "" }
    }

    /// Ratio to the floor: the median over the rounds, with its interval as in [`Cell::of_each`].
    pub fn ratio_of_each(each: &Each, planned: u32) -> Self {
        match Self::of_each(each, planned) {
            Cell::Number { value, interval, .. } => Cell::Ratio { value, interval },
            cell => cell,
        }
    }

    /// The mean over rounds, as benchmarks publish it; with the interval of the median over them if there are several.
    pub fn mean_over(rounds: Option<Rounds<'_>>) -> Self {
        let Some(rounds) = rounds else { return Cell::Missing(Missing::NotMeasured) };
        match Self::over(rounds.values, rounds.errors()) {
            Cell::Number { interval, mark, .. } => {
                Cell::Number { value: rounds.values.iter().sum::<f64>() / rounds.values.len() as f64, interval, mark }
            }
            missing => missing,
        }
    }

    /// The largest of the rounds.
    pub fn largest(each: &Each) -> Self {
        Cell::maybe(each.values.iter().copied().reduce(f64::max))
    }

    /// Events of all rounds; with the interval of their share if there are any, or if `has_interval`.
    pub fn events(rounds: &[Proportion], has_interval: bool) -> Self {
        let Proportion { events, of } = proportion::sum(rounds);
        let interval = proportion::interval(rounds).filter(|_| events > 0 || has_interval);
        Cell::Share { events, of, interval }
    }

    /// The losses of all rounds, with the interval of their share.
    pub fn lost(rounds: &[Proportion]) -> Self {
        let Some(interval) = proportion::interval(rounds) else { return Cell::Missing(Missing::NotMeasured) };
        let Proportion { events, of } = proportion::sum(rounds);
        Cell::Share { events, of, interval: Some(interval) }
    }

    /// Unless its samples are too few to bound it.
    #[must_use]
    pub fn if_bounded(self, is_bounded: bool) -> Self {
        match self {
            Cell::Number { .. } if !is_bounded => Cell::Missing(Missing::TooFewSamples),
            cell => cell,
        }
    }

    /// Its interval, if it has one.
    pub fn interval(&self) -> Option<Interval> {
        match self {
            Cell::Number { interval, .. } | Cell::Share { interval, .. } | Cell::Ratio { interval, .. } => *interval,
            Cell::InUnit(cell, _) => cell.interval(),
            Cell::Range(interval) => Some(*interval),
            _ => None,
        }
    }

    /// The mark before it; empty if it has none.
    pub fn mark(&self) -> &'static str {
        match self {
            Cell::Number { mark, .. } | Cell::Marked(mark, _) => mark,
            Cell::InUnit(cell, _) => cell.mark(),
            Cell::Missing(missing) => missing.mark(),
            _ => "",
        }
    }

    /// With a mark before it, if it is a number.
    #[must_use]
    pub fn marked(mut self, with: &'static str) -> Self {
        if let Cell::Number { mark, .. } = &mut self {
            *mark = with;
        }
        self
    }
}

impl Digits {
    /// The number, as text.
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
