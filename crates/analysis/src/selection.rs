//! Selection of the judged figures, with their values by address.

use crate::derived;
use crate::table::{MetricTable, Row};
use std::collections::HashSet;
use tripmeter_model::address::{FigureAddress, FigureName, statistic_named};
use tripmeter_model::figure::{Better, Figure, Statistic};
use tripmeter_model::metric::{Interval, Stream};
use tripmeter_stats::proportion::{self, Proportion};
use tripmeter_stats::rounds::figure_over_rounds;
use tripmeter_stats::{ErrorBounds, median};

/// Latencies that are judged by default, in these [`STATISTICS`].
pub(crate) const LATENCIES: [Figure; 7] = [
    Figure::RttHalf,
    Figure::OneWay,
    Figure::Response,
    Figure::Service,
    Figure::ResponseRtt,
    Figure::ServiceRtt,
    Figure::Call,
];
const MOST_TOLD: usize = 5;
const STATISTICS: [Statistic; 2] = [Statistic::P50, Statistic::P99];
/// Figures without samples that are judged by default.
const VALUES: [Figure; 4] = [Figure::LossShare, Figure::AchievedRate, Figure::ReceivedRate, Figure::Completed];

/// Figures to judge: those that the user named, or by default p50 and p99 of each latency, the rates and the loss.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection(Vec<Wanted>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Figure(FigureName),
    /// Statistic of the first headline figure that has samples.
    Latency(Statistic),
}

impl Wanted {
    fn parse(name: &str) -> Result<Self, String> {
        match statistic_named(name) {
            Ok(statistic) if statistic != Statistic::Value => Ok(Self::Latency(statistic)),
            _ => name.parse().map(Self::Figure),
        }
    }

    fn is_judged(self) -> bool {
        match self {
            Self::Figure(name) => name.figure.better() != Better::Neither && name.statistic != Some(Statistic::N),
            Self::Latency(statistic) => statistic != Statistic::N,
        }
    }

    /// Name of the figure in a row; `None` if the row has no latency.
    fn in_row(self, table: &MetricTable, row: Row) -> Option<FigureName> {
        match self {
            Self::Figure(name) => Some(name),
            Self::Latency(statistic) => {
                let mut latencies = Figure::HEADLINES.into_iter().filter(|figure| figure.has_samples());
                let figure = latencies.find(|figure| !streams(table, row, *figure).is_empty())?;
                Some(FigureName { figure, statistic: Some(statistic) })
            }
        }
    }
}

/// Error in a selection of figures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// The results have no such figure.
    #[error("the results have no figure '{name}'; they have {there}")]
    Unknown {
        /// Name as given.
        name: String,
        /// Figures that exist.
        there: String,
    },
    /// The figure has no direction of improvement.
    #[error("'{name}' cannot be judged, as neither a lower nor a higher value is better; choose one of {there}")]
    Neither {
        /// Name as given.
        name: String,
        /// Figures that can be judged.
        there: String,
    },
}

/// Selected figure of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Selected {
    /// Address of the figure.
    pub address: FigureAddress,
    /// Rounds that have the figure, ascending, with its values.
    pub rounds: Vec<(u32, f64)>,
    /// Median over the rounds, also for counts and maxima, so that it does not grow with the number of rounds. For
    /// losses, the share over all messages.
    pub value: f64,
    /// Largest error of the values from the clocks of two hosts, in their unit, over all rounds; 0 with one clock.
    pub error: f64,
    /// Samples per round that a percentile needs for an upper bound at 95 %, if a round has fewer.
    pub needs: Option<u64>,
}

impl Selected {
    /// Value of each round.
    pub fn values(&self) -> Vec<f64> {
        self.rounds.iter().map(|(_, value)| *value).collect()
    }

    /// Confidence interval of the median over the rounds; `None` with too few rounds.
    pub fn interval(&self) -> Option<Interval> {
        figure_over_rounds(&self.values(), ErrorBounds::both(self.error))?.interval
    }
}

impl Selection {
    /// Selects figures by name: `FIGURE`, `FIGURE.STATISTIC`, or the `STATISTIC` of the usual latency. Each must exist
    /// in one of the tables.
    ///
    /// # Errors
    /// If a figure is unknown, is in none of the tables, or cannot be judged; the text lists the valid ones.
    pub fn named(names: &[String], tables: &[&MetricTable]) -> Result<Self, SelectionError> {
        let there = || there(tables).join(", ");
        let mut found = Vec::new();
        for name in names {
            let unknown = || SelectionError::Unknown { name: name.clone(), there: there() };
            let wanted = Wanted::parse(name).map_err(|_| unknown())?;
            if !wanted.is_judged() {
                return Err(SelectionError::Neither { name: name.clone(), there: there() });
            }
            let alone = Self(vec![wanted]);
            if tables.iter().all(|table| alone.select(table).is_empty()) {
                return Err(unknown());
            }
            found.push(wanted);
        }
        Ok(Self(found))
    }

    /// Selects figures by name, before there are results.
    ///
    /// # Errors
    /// If a figure is unknown or cannot be judged; the text lists the valid ones.
    pub fn asked(names: &[String]) -> Result<Self, SelectionError> {
        let judged = Figure::ALL.iter().filter(|figure| figure.better() != Better::Neither);
        let there = || judged.clone().map(|figure| figure.id()).collect::<Vec<_>>().join(", ");
        let one = |name: &String| {
            let unknown = |_| SelectionError::Unknown { name: name.clone(), there: there() };
            let wanted = Wanted::parse(name).map_err(unknown)?;
            match wanted.is_judged() {
                true => Ok(wanted),
                false => Err(SelectionError::Neither { name: name.clone(), there: there() }),
            }
        };
        names.iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    /// Largest number of figures per row; `usual` if the user named none.
    pub fn most(&self, usual: usize) -> usize {
        let of = |wanted: &Wanted| match wanted {
            Wanted::Figure(FigureName { statistic: None, .. }) => STATISTICS.len(),
            _ => 1,
        };
        if self.0.is_empty() { usual } else { self.0.iter().map(of).sum() }
    }

    /// This selection; if the user named no figure, p50 and p99 or the value of the table's first headline figure.
    pub(crate) fn or_headline(&self, table: &MetricTable) -> Self {
        let has = |figure: &&Figure| table.select(|key| key.figure == **figure).next().is_some();
        match Figure::HEADLINES.iter().find(has) {
            Some(figure) if self.0.is_empty() => {
                Self(vec![Wanted::Figure(FigureName { figure: *figure, statistic: None })])
            }
            _ => self.clone(),
        }
    }

    /// Figures named by the user, for [`MetricTable::missed_rates`]: a default rate does not excuse a missed rate.
    pub(crate) fn asked_for<'a>(&self, judged: Vec<&'a FigureAddress>) -> Vec<&'a FigureAddress> {
        if self.0.is_empty() { Vec::new() } else { judged }
    }

    /// Selected figures of a table, by sub-experiment, payload and load, then in the order of the selection.
    ///
    /// Values are over all messages, and for the last of several followers; without these, for each stream.
    pub fn select(&self, table: &MetricTable) -> Vec<Selected> {
        self.select_of(table, preferred)
    }

    /// Figures of these kinds, for all streams.
    pub(crate) fn every(kinds: &[(Figure, Statistic)], table: &MetricTable) -> Vec<Selected> {
        let name = |&(figure, statistic): &(Figure, Statistic)| {
            Wanted::Figure(FigureName { figure, statistic: Some(statistic) })
        };
        Self(kinds.iter().map(name).collect()).select_of(table, streams)
    }

    fn select_of(&self, table: &MetricTable, streams: fn(&MetricTable, Row, Figure) -> Vec<Stream>) -> Vec<Selected> {
        let names = if self.0.is_empty() { usual() } else { self.0.clone() };
        let mut all = Vec::new();
        for row in table.all_rows() {
            for name in names.iter().filter_map(|wanted| wanted.in_row(table, row)) {
                let statistics = match name.statistic {
                    Some(statistic) => vec![statistic],
                    None => [Statistic::Value].into_iter().chain(STATISTICS).collect(),
                };
                for stream in streams(table, row, name.figure) {
                    all.extend(statistics.iter().filter_map(|of| selected(table, row, &stream, name.figure, *of)));
                }
            }
        }
        all
    }
}

fn usual() -> Vec<Wanted> {
    let named = |figure, statistic| Wanted::Figure(FigureName { figure, statistic: Some(statistic) });
    let latency = |figure| STATISTICS.map(|statistic| named(figure, statistic));
    let value = |figure| named(figure, Statistic::Value);
    LATENCIES.into_iter().flat_map(latency).chain(VALUES.map(value)).collect()
}

fn streams(table: &MetricTable, row: Row, figure: Figure) -> Vec<Stream> {
    let all = if figure.is_derived() { derived::streams(table, row, figure) } else { table.streams(row, figure) };
    all.into_iter().cloned().collect()
}

fn preferred(table: &MetricTable, row: Row, figure: Figure) -> Vec<Stream> {
    let all = streams(table, row, figure);
    let preferred: Vec<Stream> = [Stream::all(), Stream::last()].into_iter().filter(|one| all.contains(one)).collect();
    if preferred.is_empty() { all } else { preferred }
}

fn selected(table: &MetricTable, row: Row, stream: &Stream, figure: Figure, statistic: Statistic) -> Option<Selected> {
    let (rounds, value, error) = match figure.is_derived() {
        true if statistic == Statistic::Value => {
            let rounds = derived::by_round(table, row, stream, figure);
            let value = folded(table, row, stream, figure, &rounds)?;
            (rounds, value, 0.0)
        }
        true => return None,
        false => {
            let found = table.get(row, stream, figure, statistic)?;
            let rounds = found.rounds.iter().copied().zip(found.values.iter().copied()).collect();
            (rounds, median(found.values)?, found.error)
        }
    };
    let address = FigureAddress {
        sub_experiment: table.sub(row).to_owned(),
        payload_bytes: row.payload_bytes,
        has_several_sizes: table.has_several_sizes(row),
        load: table.load(row),
        stream: stream.clone(),
        figure,
        statistic,
    };
    let needs = table.samples_needed(row, stream, figure, statistic);
    Some(Selected { address, rounds, value, error, needs })
}

/// Value of a derived figure over rounds: the share over all messages for losses, else the median.
fn folded(table: &MetricTable, row: Row, stream: &Stream, figure: Figure, rounds: &[(u32, f64)]) -> Option<f64> {
    let values: Vec<f64> = rounds.iter().map(|(_, value)| *value).collect();
    if !matches!(figure, Figure::LossShare | Figure::DeliveredShare) {
        return median(&values);
    }
    let Proportion { events: lost, of } = proportion::sum(&derived::loss(table, row, stream));
    let share = (of > 0).then(|| lost as f64 / of as f64)?;
    Some(if figure == Figure::LossShare { share } else { 1.0 - share })
}

/// Figures in these tables that can be judged, in the order of the registry.
fn there(tables: &[&MetricTable]) -> Vec<String> {
    let is_there = |figure: Figure, statistic: Statistic| {
        let is_in = |table: &&MetricTable| match figure.is_derived() {
            true => {
                let has = |row| !derived::streams(table, row, figure).is_empty();
                statistic == Statistic::Value && table.all_rows().any(has)
            }
            false => table.select(|key| (key.figure, key.statistic) == (figure, statistic)).next().is_some(),
        };
        tables.iter().any(is_in)
    };
    let of_figure = |figure: Figure| {
        let statistics = Statistic::ALL.iter().copied().filter(move |statistic| *statistic != Statistic::N);
        statistics.map(move |statistic| (figure, statistic))
    };
    let judged = Figure::ALL.iter().copied().filter(|figure| figure.better() != Better::Neither);
    let all = judged.flat_map(of_figure).filter(|(figure, statistic)| is_there(*figure, *statistic));
    all.map(|(figure, statistic)| FigureName { figure, statistic: Some(statistic) }.to_string()).collect()
}

/// Line about percentiles with too few samples for an upper bound, with the samples that a round needs.
pub(crate) fn too_few<'a>(unbounded: impl Iterator<Item = (&'a FigureAddress, u64)>) -> Option<String> {
    too_few_named(unbounded.map(|(address, needs)| (format!("{} {}", address.place(), address.name()), needs)))
}

/// [`too_few`] for several sub-experiments.
pub(crate) fn too_few_anywhere<'a>(unbounded: impl Iterator<Item = (&'a FigureAddress, u64)>) -> Option<String> {
    too_few_named(unbounded.map(|(address, needs)| (address.to_string(), needs)))
}

fn too_few_named(unbounded: impl Iterator<Item = (String, u64)>) -> Option<String> {
    let told: Vec<String> = unbounded.map(|(name, needs)| format!("{name} needs {needs}")).collect();
    let more = match told.len().saturating_sub(MOST_TOLD) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = told[..told.len().min(MOST_TOLD)].join(", ");
    (!told.is_empty()).then(|| format!("too few samples per round for a one-sided upper bound: {shown}{more}; use -n"))
}

/// Items that the other side lacks, as coarse as possible: sub-experiments, payloads and loads, or figures.
pub fn missing(of_one: &[Selected], of_other: &[Selected]) -> Vec<String> {
    let place = FigureAddress::located;
    let addresses: HashSet<&FigureAddress> = of_other.iter().map(|one| &one.address).collect();
    let places: HashSet<String> = of_other.iter().map(|one| place(&one.address)).collect();
    let subs: HashSet<&str> = of_other.iter().map(|one| one.address.sub_experiment.as_str()).collect();
    let mut told: Vec<String> = Vec::new();
    for Selected { address, .. } in of_one.iter().filter(|one| !addresses.contains(&one.address)) {
        let place = place(address);
        let text = match (subs.contains(address.sub_experiment.as_str()), places.contains(&place)) {
            (false, _) => address.sub_experiment.clone(),
            (true, false) => place,
            (true, true) => address.to_string(),
        };
        if !told.contains(&text) {
            told.push(text);
        }
    }
    told
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::table::Builder;
    use tripmeter_model::manifest::Counts;
    use tripmeter_model::metric::Process;
    use tripmeter_model::pace::OfferedLoad;
    use tripmeter_model::trial::Trial;

    /// Trial of 100 round trips with this p50, p99 and number of lost messages.
    pub(crate) fn trial(p50: f64, p99: f64, lost: u64) -> Trial {
        let mut trial = Trial::new(OfferedLoad::Closed);
        for (statistic, value) in [(Statistic::N, 100.0), (Statistic::P50, p50), (Statistic::P99, p99)] {
            trial.put_statistic(&Stream::all(), Figure::RttHalf, statistic, value, None);
        }
        trial.put_counts(&Stream::all(), &Counts { sent: 100, received: 100 - lost, lost, ..Counts::default() }, false);
        trial
    }

    fn named(table: &MetricTable, names: &[&str]) -> Result<Vec<String>, SelectionError> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let selection = Selection::named(&names, &[table])?;
        Ok(selection.select(table).iter().map(|one| one.address.to_string()).collect())
    }

    #[test]
    fn the_usual_figures_are_medians_p99s_losses_and_rates() {
        let mut builder = Builder::new(vec!["a".to_owned()]);
        for (round, p50, lost) in [(1, 10.0, 0), (2, 30.0, 4), (3, 20.0, 0)] {
            builder.add("a", round, 1024, trial(p50, 99.0, lost));
            let mut timed = Trial::new(OfferedLoad::Rate { hz: 10.0 });
            timed.put(&Stream::all(), Figure::AchievedRate, 9.0);
            timed.put(&Stream::process(Process::Leader), Figure::CpuTime, 1.0);
            timed.put(&Stream::process(Process::Leader), Figure::Window, 4.0);
            builder.add("a", round, 1024, timed);
        }
        let table = builder.build();
        let found = Selection::default().select(&table);
        let told: Vec<(String, f64)> = found.iter().map(|one| (one.address.to_string(), one.value)).collect();
        let expected = [
            ("a at 1k: rtt_half_ns.p50", 20.0),
            ("a at 1k: rtt_half_ns.p99", 99.0),
            ("a at 1k: loss_share", 4.0 / 300.0),
            ("a at 1k 10hz: achieved_rate_hz", 9.0),
        ];
        assert_eq!(told, expected.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(found[0].values(), [10.0, 30.0, 20.0]);
        assert_eq!(found[2].rounds, [(1, 0.0), (2, 0.04), (3, 0.0)]);
        let share = "a at 1k 10hz: process=leader cpu_share".to_owned();
        assert_eq!(
            named(&table, &["cpu_share", "delivered_share"]),
            Ok(vec!["a at 1k: delivered_share".to_owned(), share])
        );
        assert_eq!(named(&table, &["rtt_half_ns"]).unwrap().len(), 2);
    }

    #[test]
    fn a_statistic_alone_is_of_the_usual_latency_of_each_row() {
        let mut builder = Builder::new(vec!["a".to_owned(), "b".to_owned()]);
        builder.add("a", 1, 1024, trial(1.0, 2.0, 0));
        let mut called = Trial::new(OfferedLoad::Closed);
        for figure in [Figure::ServiceRtt, Figure::OneWay] {
            called.put_statistic(&Stream::all(), figure, Statistic::P99, 3.0, None);
        }
        builder.add("b", 1, 1024, called);
        let table = builder.build();
        let p99 = ["a at 1k: rtt_half_ns.p99", "b at 1k: service_rtt_ns.p99"].map(str::to_owned).to_vec();
        assert_eq!(named(&table, &["p99"]), Ok(p99));
        let p50 = Ok(vec!["a at 1k: rtt_half_ns.p50".to_owned()]);
        assert_eq!((named(&table, &["median"]), named(&table, &["p50"])), (p50.clone(), p50));
        let refused = |name: &str| named(&table, &[name]).unwrap_err();
        assert!(matches!(refused("p999"), SelectionError::Unknown { .. }));
        assert!(matches!(refused("value"), SelectionError::Unknown { .. }));
        assert!(matches!(refused("n"), SelectionError::Neither { .. }));
        assert_eq!(Selection::asked(&["median".to_owned(), "one_way_ns".to_owned()]).unwrap().most(9), 3);
    }

    #[test]
    fn counts_and_maxima_over_rounds_are_judged_by_their_median() {
        let mut builder = Builder::new(vec!["a".to_owned()]);
        for (round, lost) in [(1, 3), (2, 1), (3, 8)] {
            let mut trial = trial(10.0, 20.0, lost);
            trial.put(&Stream::process(Process::Leader), Figure::PeakMemory, 100.0 * lost as f64);
            builder.add("a", round, 1024, trial);
        }
        let table = builder.build();
        let names = ["lost", "peak_memory_bytes"].map(str::to_owned);
        let found = Selection::named(&names, &[&table]).unwrap().select(&table);
        assert_eq!(found.iter().map(|one| one.value).collect::<Vec<_>>(), [3.0, 300.0]);
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        let mut builder = Builder::new(vec!["a".to_owned()]);
        builder.add("a", 1, 1024, trial(1.0, 2.0, 0));
        let table = builder.build();
        let told = |name: &str| named(&table, &[name]).unwrap_err().to_string();
        for name in ["latency", "service_ns.p50", "rtt_half_ns.p999", "cpu_share"] {
            let told = told(name);
            assert!(told.starts_with(&format!("the results have no figure '{name}'")), "{told}");
            assert!(told.contains("they have rtt_half_ns.p50, rtt_half_ns.p99, lost, late"), "{told}");
        }
        assert!(told("sent").contains("neither a lower nor a higher") && told("rtt_half_ns.n").contains("neither"));
    }

    #[test]
    fn what_one_side_lacks_is_told_coarsely() {
        let table = |subs: &[(&str, u64)], has_loss: bool| {
            let mut builder = Builder::new(Vec::new());
            for (name, bytes) in subs {
                let mut trial = trial(1.0, 2.0, 0);
                if !has_loss {
                    trial.remove(&Stream::all(), Figure::Sent);
                }
                builder.add(name, 1, *bytes, trial);
            }
            Selection::default().select(&builder.build())
        };
        let all = table(&[("a", 16), ("a", 32), ("b", 16)], true);
        assert_eq!(missing(&all, &table(&[("a", 16)], false)), ["a at 16: loss_share", "a at 32", "b"]);
        assert!(missing(&all, &all).is_empty());
    }
}
