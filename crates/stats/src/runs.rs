//! Two sides with several runs each, at many payloads: from the figures of runs to verdicts.
//!
//! The run is the unit: samples within a run depend on each other, and tests that take them as independent call nearly
//! every unchanged program slower. So of each run only its figures count, and a comparison is of one figure at one payload.
//! All comparisons are judged together, see [`crate::change`].

use crate::Figures;
use crate::change::{ChangeVerdict, Control, Judged, judge_all};
use crate::error::Error;
use crate::median;
use crate::power::{Design, Layout, sample_deviation};
use crate::rounds::figure_over_rounds;
use crate::shift::Shift;
use tripmeter_model::magnitude::Magnitude;
use tripmeter_model::summary::SummaryRow;

/// Below this the logarithms of a figure do not differ from run to run: what a coarse clock makes of a steady figure.
const LEAST_DEVIATION: f64 = 1e-12;

/// A figure of a run that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparedFigure {
    /// Half of the samples are below.
    Median,
    /// 99 % of the samples are below.
    P99,
    /// The arithmetic mean of the samples.
    Mean,
    /// 99.9 % of the samples are below.
    P999,
    /// The largest sample.
    Max,
    /// The share of what was sent that came in time and intact, in per cent: what is not lost, so that it is above 0.
    Delivered,
    /// Messages or calls per second that were sent or made.
    Rate,
    /// Calls per second that succeeded.
    Qps,
}

impl ComparedFigure {
    /// Those of half round trips that are compared, in the order of tables.
    pub const ALL: [ComparedFigure; 2] = [ComparedFigure::Median, ComparedFigure::P99];
    /// All that are compared of patterns `channel`, `rpc` and `log`, in the order of tables.
    pub const TIMED: [ComparedFigure; 8] = [
        ComparedFigure::Mean,
        ComparedFigure::Median,
        ComparedFigure::P99,
        ComparedFigure::P999,
        ComparedFigure::Max,
        ComparedFigure::Delivered,
        ComparedFigure::Rate,
        ComparedFigure::Qps,
    ];

    /// In tables and files.
    pub fn name(self) -> &'static str {
        match self {
            ComparedFigure::Median => "median",
            ComparedFigure::P99 => "p99",
            ComparedFigure::Mean => "mean",
            ComparedFigure::P999 => "p99.9",
            ComparedFigure::Max => "max",
            ComparedFigure::Delivered => "delivered",
            ComparedFigure::Rate => "rate",
            ComparedFigure::Qps => "QPS",
        }
    }

    /// The figure of a summary; `None` for the share delivered, which is what its loss leaves.
    fn magnitude(self) -> Option<Magnitude> {
        Some(match self {
            ComparedFigure::Median => Magnitude::Median,
            ComparedFigure::P99 => Magnitude::P99,
            ComparedFigure::Mean => Magnitude::Mean,
            ComparedFigure::P999 => Magnitude::P999,
            ComparedFigure::Max => Magnitude::Max,
            ComparedFigure::Rate => Magnitude::Rate,
            ComparedFigure::Qps => Magnitude::Qps,
            ComparedFigure::Delivered => return None,
        })
    }

    /// Its unit: `ns`, `%` or `/s`.
    pub fn unit(self) -> &'static str {
        match self {
            ComparedFigure::Delivered => "%",
            ComparedFigure::Rate | ComparedFigure::Qps => "/s",
            _ => "ns",
        }
    }

    /// True if less of it is worse.
    pub fn is_better_if_more(self) -> bool {
        self.unit() != "ns"
    }

    /// Its value in a run, in its unit; `None` if the run has none.
    pub fn of_row(self, row: &SummaryRow) -> Option<f64> {
        let Some(magnitude) = self.magnitude() else { return Some(100.0 - Magnitude::Loss.get(row)?) };
        let factor = if magnitude.is_latency() { 1000.0 } else { 1.0 };
        Some(magnitude.get(row)? * factor)
    }

    /// Its value in a run of half round trips, in nanoseconds.
    pub fn of(self, figures: &Figures) -> f64 {
        match self {
            ComparedFigure::Median => figures.median,
            ComparedFigure::P99 => figures.p99,
            ComparedFigure::Mean => figures.mean,
            ComparedFigure::Max => figures.max,
            _ => f64::NAN,
        }
    }
}

/// The runs of both sides at one payload.
#[derive(Clone, Debug, PartialEq)]
pub struct Runs {
    /// The sub-experiment.
    pub name: String,
    /// The payload.
    pub payload_bytes: u64,
    /// Of each figure, its values in the runs of the reference, and in those of the results, in its unit. If they were made
    /// in pairs, the i-th of one side belongs to the i-th of the other.
    pub figures: Vec<(ComparedFigure, [Vec<f64>; 2])>,
}

impl Runs {
    /// The figures of half round trips of both sides.
    pub fn of(name: &str, payload_bytes: u64, sides: &[Vec<Figures>; 2]) -> Self {
        let values =
            |figure: ComparedFigure| sides.each_ref().map(|side| side.iter().map(|run| figure.of(run)).collect());
        let figures = ComparedFigure::ALL.map(|figure| (figure, values(figure)));
        Self { name: name.to_owned(), payload_bytes, figures: figures.into() }
    }

    /// The figures of rows of summaries of both sides, as far as all of them have them.
    pub fn of_rows(name: &str, payload_bytes: u64, sides: &[Vec<SummaryRow>; 2]) -> Self {
        let values = |figure: ComparedFigure| -> Option<[Vec<f64>; 2]> {
            let side = |side: &Vec<SummaryRow>| side.iter().map(|row| figure.of_row(row)).collect::<Option<Vec<f64>>>();
            Some([side(&sides[0])?, side(&sides[1])?])
        };
        let figures = ComparedFigure::TIMED.iter().filter_map(|&figure| Some((figure, values(figure)?)));
        Self { name: name.to_owned(), payload_bytes, figures: figures.collect() }
    }
}

/// What is to be found out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// How runs of both sides belong together.
    pub layout: Layout,
    /// Changes up to this share are none, from 0 to below 1.
    pub margin: f64,
    /// How wrong verdicts may be.
    pub control: Control,
    /// The probability with which a change is to be seen, at least 0.5, below 1; for what is said of changes that cannot be.
    pub power: f64,
}

impl Question {
    fn design(&self, deviation: f64, comparisons: usize) -> Design {
        let (Control::FalseDiscoveries(alpha) | Control::AnyError(alpha)) = self.control;
        let (layout, margin, power) = (self.layout, self.margin, self.power);
        Design { layout, deviation, margin, alpha, comparisons: comparisons as u64, power }
    }
}

/// One figure at one payload, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The sub-experiment.
    pub name: String,
    /// The payload.
    pub payload_bytes: u64,
    /// The figure.
    pub figure: ComparedFigure,
    /// Runs of the reference and of the results; in pairs both are their number.
    pub runs: [usize; 2],
    /// Median over the runs of the reference, and over those of the results, in the figure's unit.
    pub sides: [f64; 2],
    /// The intervals of those medians at 95 %; `None` below six runs.
    pub side_intervals: [Option<[f64; 2]>; 2],
    /// The ratio results / reference and what it says.
    pub judged: Judged,
    /// Standard deviation of the log ratios of pairs, or of the log figures of runs; `None` below two runs.
    pub deviation: Option<f64>,
    /// The smallest ratio above 1 that so many runs show with the wanted power, or the largest below 1 of what is better if
    /// there is more; `None` if they are too few to show any.
    pub detectable: Option<f64>,
}

/// Judges every figure of every payload, in that order.
///
/// # Errors
/// If a side has no run, a figure is not above 0, or what should be pairs are not.
///
/// # Panics
/// If the question has a number outside its range.
pub fn compare(runs: &[Runs], question: &Question) -> Result<Vec<Comparison>, Error> {
    let cells: Vec<(&Runs, ComparedFigure, &[Vec<f64>; 2])> =
        runs.iter().flat_map(|runs| runs.figures.iter().map(move |(figure, sides)| (runs, *figure, sides))).collect();
    let shift = |[reference, result]: &[Vec<f64>; 2]| match question.layout {
        Layout::Paired => Shift::paired_ratio(reference, result),
        Layout::Independent => Shift::ratio(reference, result),
    };
    let shifts = cells.iter().map(|cell| shift(cell.2)).collect::<Result<Vec<_>, _>>()?;
    let judged = judge_all(&shifts, question.margin, question.control);
    let mut distances = Distances { question, comparisons: cells.len(), known: Vec::new() };
    let comparison = |(&(runs, figure, sides), judged): (&(&Runs, ComparedFigure, &[Vec<f64>; 2]), Judged)| {
        let deviation = deviation(sides, question.layout);
        let count = sides.each_ref().map(Vec::len);
        let detectable = deviation.and_then(|deviation| distances.detectable(count[0].min(count[1]), deviation));
        let (judged, detectable) = match figure.is_better_if_more() {
            true => (turned(judged), detectable.map(f64::recip)),
            false => (judged, detectable),
        };
        Comparison {
            name: runs.name.clone(),
            payload_bytes: runs.payload_bytes,
            figure,
            runs: count,
            sides: sides.each_ref().map(|values| median(values).expect("a shift has values on both sides")),
            side_intervals: sides.each_ref().map(|values| figure_over_rounds(values)?.interval),
            judged,
            deviation,
            detectable,
        }
    };
    Ok(cells.iter().zip(judged).map(comparison).collect())
}

/// The comparison whose figure differs most from run to run, and how many runs (pairs, or runs of either side) show a change
/// by the share `effect` even there, with the wanted power; `None` if a million do not. Nothing if no comparison has two
/// runs.
///
/// It depends on how much figures differ and not on how they differ between the sides, so that measuring on until there are
/// as many hardly favours a verdict: only steady stretches end sooner.
pub fn runs_needed<'a>(
    comparisons: &'a [Comparison],
    question: &Question,
    effect: f64,
) -> Option<(&'a Comparison, Option<u64>)> {
    let with_deviation = comparisons.iter().filter_map(|one| Some((one, one.deviation?)));
    let (hardest, deviation) = with_deviation.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some((hardest, question.design(deviation, comparisons.len()).runs_needed(1.0 + effect)))
}

/// The verdict on what is better if there is more.
fn turned(judged: Judged) -> Judged {
    let verdict = match judged.verdict {
        ChangeVerdict::Regressed => ChangeVerdict::Improved,
        ChangeVerdict::Improved => ChangeVerdict::Regressed,
        same => same,
    };
    Judged { verdict, ..judged }
}

/// As [`Design::deviation`] wants it, from values above 0.
fn deviation([reference, result]: &[Vec<f64>; 2], layout: Layout) -> Option<f64> {
    let logarithms = |values: &[f64]| -> Vec<f64> { values.iter().map(|value| value.ln()).collect() };
    let found = match layout {
        Layout::Paired => {
            let ratios = result.iter().zip(reference).map(|(result, reference)| result.ln() - reference.ln());
            sample_deviation(&ratios.collect::<Vec<_>>())?
        }
        Layout::Independent => {
            let sides = [sample_deviation(&logarithms(reference))?, sample_deviation(&logarithms(result))?];
            ((sides[0].powi(2) + sides[1].powi(2)) / 2.0).sqrt()
        }
    };
    Some(found.max(LEAST_DEVIATION))
}

/// How far from the margin a change must be to be seen, in deviations, by the number of runs. Few runs are simulated for it,
/// so each number is asked for once.
struct Distances<'a> {
    question: &'a Question,
    comparisons: usize,
    known: Vec<(usize, Option<f64>)>,
}

impl Distances<'_> {
    fn detectable(&mut self, runs: usize, deviation: f64) -> Option<f64> {
        let within = self.question.margin.ln_1p();
        let known = self.known.iter().find(|(number, _)| *number == runs).map(|(_, distance)| *distance);
        let distance = known.unwrap_or_else(|| {
            let ratio = self.question.design(1.0, self.comparisons).detectable_ratio(runs as u64);
            let distance = ratio.map(|ratio| ratio.ln() - within);
            self.known.push((runs, distance));
            distance
        });
        Some((within + distance? * deviation).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_model::summary::More;
    fn question(layout: Layout) -> Question {
        Question { layout, margin: 0.02, control: Control::FalseDiscoveries(0.05), power: 0.95 }
    }

    /// Runs whose figures wander together from run to run, and those of the results times `ratio` and a little noise.
    fn runs(name: &str, ratio: f64, count: u64, noise: f64) -> Runs {
        let mut random = fastrand::Rng::with_seed(count);
        let figures = |median: f64| Figures {
            min: median,
            mean: median,
            stdev: 0.0,
            median,
            p90: median,
            p99: 2.0 * median,
            p999: 2.0 * median,
            p9999: median,
            max: median,
        };
        let mut sides = [Vec::new(), Vec::new()];
        for _ in 0..count {
            let pace = 1000.0 * (1.0 + 0.5 * random.f64());
            sides[0].push(figures(pace));
            sides[1].push(figures(pace * ratio * (1.0 + noise * random.f64())));
        }
        Runs::of(name, 1024, &sides)
    }

    #[test]
    fn pairs_see_through_what_both_sides_have_in_common() {
        let cells = [runs("same", 1.0, 12, 0.005), runs("slower", 1.2, 12, 0.005), runs("faster", 0.8, 12, 0.005)];
        let verdicts = |layout| -> Vec<ChangeVerdict> {
            compare(&cells, &question(layout)).unwrap().iter().map(|one| one.judged.verdict).collect()
        };
        use ChangeVerdict::{Equivalent, Improved, Inconclusive, Regressed};
        assert_eq!(verdicts(Layout::Paired), [Equivalent, Equivalent, Regressed, Regressed, Improved, Improved]);
        assert_eq!(verdicts(Layout::Independent)[..2], [Inconclusive; 2]);
    }

    #[test]
    fn what_can_be_detected_is_what_the_design_says() {
        let cells = [runs("steady", 1.0, 10, 0.01), runs("noisy", 1.0, 10, 0.3), runs("few", 1.0, 3, 0.1)];
        let question = question(Layout::Paired);
        let compared = compare(&cells, &question).unwrap();
        for one in &compared[..4] {
            let direct = question.design(one.deviation.unwrap(), 6).detectable_ratio(10).unwrap();
            assert!((one.detectable.unwrap() / direct - 1.0).abs() < 1e-12, "{one:?} {direct}");
        }
        assert_eq!((compared[4].detectable, compared[4].runs, compared[4].judged.interval), (None, [3, 3], None));
        let (hardest, needed) = runs_needed(&compared, &question, 0.1).unwrap();
        assert_eq!(hardest.name, "noisy");
        let deviation = hardest.deviation.unwrap();
        assert_eq!(needed, question.design(deviation, 6).runs_needed(1.1));
        assert!(needed.unwrap() > 10 && compared[2].detectable.unwrap() > 1.1);
        assert_eq!(runs_needed(&compared, &question, 0.01).unwrap().1, None);
    }

    #[test]
    fn fewer_delivered_and_a_lower_rate_are_worse() {
        let row = |run: usize, rate: f64, loss: f64| {
            let mut row = crate::fixture::summary(&[(16, [1.0 + 0.001 * run as f64; 3])]).rows.remove(0);
            row.more = Some(More { loss_percent: Some(loss), rate_hz: Some(rate), ..More::default() });
            row
        };
        let side = |rate: f64, loss: f64| (0..10).map(|run| row(run, rate, loss)).collect::<Vec<_>>();
        let runs = Runs::of_rows("x", 16, &[side(1000.0, 0.0), side(900.0, 10.0)]);
        let compared = compare(&[runs], &question(Layout::Independent)).unwrap();
        let found: Vec<_> = compared.iter().map(|one| (one.figure.name(), one.judged.verdict, one.sides)).collect();
        assert_eq!(found[0].1, ChangeVerdict::Equivalent, "{found:?}");
        assert_eq!(found.len(), 6);
        assert_eq!(found[4], ("delivered", ChangeVerdict::Regressed, [100.0, 90.0]));
        assert_eq!(found[5], ("rate", ChangeVerdict::Regressed, [1000.0, 900.0]));
        assert!(compared[5].detectable.is_some_and(|ratio| ratio < 1.0), "{compared:?}");
        assert!((compared[0].sides[0] - 1004.5).abs() < 1e-9, "{compared:?}");
    }

    #[test]
    fn steady_figures_and_single_runs_are_judged() {
        let steady = runs("steady", 1.0, 8, 0.0);
        let first = |(figure, sides): &(ComparedFigure, [Vec<f64>; 2])| {
            (*figure, sides.each_ref().map(|side| side[..1].to_vec()))
        };
        let single = Runs { figures: steady.figures.iter().map(first).collect(), ..steady.clone() };
        for layout in [Layout::Paired, Layout::Independent] {
            let compared = compare(&[steady.clone(), single.clone()], &question(layout)).unwrap();
            assert!(compared[0].detectable.is_some_and(|ratio| ratio > 1.02 - 1e-9), "{compared:?}");
            assert_eq!((compared[2].deviation, compared[2].detectable), (None, None));
            assert_eq!(compared[2].judged.verdict, ChangeVerdict::Inconclusive);
        }
        assert_eq!(runs_needed(&[], &question(Layout::Paired), 0.1), None);
        assert_eq!(compare(&[], &question(Layout::Paired)), Ok(Vec::new()));
    }
}
