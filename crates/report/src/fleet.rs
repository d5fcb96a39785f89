//! Results of one command on several hosts: each figure over all hosts or pairs, as heat maps and tables.

mod maps;

use crate::document::{Block, Cell, Column, Digits, Document, Heading, Missing, Note, Table};
use crate::number::counted;
use crate::values::unit;
use serde::Serialize;
use std::collections::BTreeSet;
use tripmeter_analysis::{MetricTable, Selected, Selection};
use tripmeter_model::address::FigureAddress;
use tripmeter_model::figure::{Better, Figure, Statistic};
use tripmeter_model::fleet::{Fleet, FleetJob, FleetMode, FleetState};
use tripmeter_model::folder::REPORT;
use tripmeter_model::group::by_key;
use tripmeter_model::manifest::Manifest;
use tripmeter_model::metric::Stream;
use tripmeter_stats::median;

/// Maximum width of a line.
const COLUMNS: u16 = 80;
/// Maximum number of matrices on the screen.
const MOST_ON_SCREEN: usize = 3;
/// Maximum number of hosts side by side on the screen.
const HOSTS_IN_A_LINE: usize = 8;

/// A figure of one host or pair.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetFigure {
    /// Name of the host that ran the command.
    pub from: String,
    /// Name of the host of the follower.
    pub to: Option<String>,
    /// Transport, as named in commands.
    pub transport: String,
    /// Address in the results.
    #[serde(flatten)]
    pub address: FigureAddress,
    /// Value, in the unit of the figure.
    pub value: f64,
    /// Both ends of the interval over rounds, if there are enough for one.
    pub interval: Option<[f64; 2]>,
}

/// The figures of a selection in the results of one host or pair.
pub fn fleet_figures(job: &FleetJob, manifest: &Manifest, selection: &Selection) -> Vec<FleetFigure> {
    let transport = |name: &str| {
        let planned = manifest.plan.sub_experiments.iter().find(|sub| sub.name == name);
        planned.map(|sub| sub.transport.to_string()).unwrap_or_default()
    };
    let selected = selection.select(&MetricTable::from_manifest(manifest)).into_iter();
    let figure = |selected: Selected| FleetFigure {
        from: job.from.clone(),
        to: job.to.clone(),
        transport: transport(&selected.address.sub_experiment),
        value: selected.value,
        interval: selected.interval().map(|one| [one.low, one.high]),
        address: selected.address,
    };
    selected.map(figure).collect()
}

/// Results of a fleet.
#[derive(Clone, Debug)]
pub struct FleetResults<'a> {
    pub fleet: &'a Fleet,
    /// Figures of all results.
    pub figures: &'a [FleetFigure],
    /// Names of the jobs that have a page; the pages must have been written already.
    pub pages: BTreeSet<String>,
}

/// Screen of figures over all hosts or pairs, and the first matrices.
pub fn fleet(results: &FleetResults<'_>) -> Document {
    let view = FleetView::new(results);
    let mut blocks = vec![Block::Text(view.answer())];
    blocks.extend(view.summary().map(Block::Table));
    let mut firsts = view.firsts();
    match results.fleet.mode {
        FleetMode::Pairs => {
            let more = firsts.len().saturating_sub(MOST_ON_SCREEN);
            firsts.truncate(MOST_ON_SCREEN);
            blocks.extend(firsts.iter().flat_map(|over| view.matrix(over)));
            if more > 0 {
                blocks.push(Block::Text(format!("{} more on the page (report.html)", counted(more, "figure"))));
            }
        }
        FleetMode::Hosts | FleetMode::Star => blocks.extend(view.by_host().map(Block::Table)),
    }
    blocks.extend(view.notes());
    Document { blocks }
}

/// HTML page: the screen, and a heat map of every figure.
pub fn fleet_page(results: &FleetResults<'_>) -> Document {
    let view = FleetView::new(results);
    let heading = |id, text: &str| Block::Heading(Heading { id, text: text.to_owned() });
    let mut blocks = vec![heading("answer", "Answer"), Block::Text(view.answer())];
    blocks.extend(view.notes());
    blocks.extend(view.summary().map(Block::Table));
    let maps: Vec<Block> = view.maps().into_iter().map(Block::Chart).collect();
    if !maps.is_empty() {
        blocks.push(heading("maps", "Heat maps"));
        blocks.extend(maps);
    }
    if let Some(table) = view.by_host() {
        blocks.extend([heading("hosts", "Hosts"), Block::Table(table)]);
    }
    blocks.push(heading("results", "Results"));
    blocks.push(Block::Table(view.jobs(&results.pages)));
    Document { blocks }
}

/// A figure over all hosts or pairs that have it.
struct OverAll<'a> {
    address: &'a FigureAddress,
    all: Vec<&'a FleetFigure>,
    median: f64,
}

impl OverAll<'_> {
    fn values(&self) -> impl Iterator<Item = f64> {
        self.all.iter().map(|one| one.value)
    }

    /// Best and worst result, by the better direction of the figure.
    fn ends(&self) -> Option<[&FleetFigure; 2]> {
        let least = self.all.iter().min_by(|a, b| a.value.total_cmp(&b.value))?;
        let most = self.all.iter().max_by(|a, b| a.value.total_cmp(&b.value))?;
        Some(if self.address.figure.better() == Better::Higher { [most, least] } else { [least, most] })
    }

    /// Value without its unit.
    fn written(&self, value: f64) -> String {
        Digits::Significant(3).write(value * unit(self.address.figure).0)
    }

    fn column(&self, id: &str, title: &str) -> Column {
        let (factor, unit) = unit(self.address.figure);
        Column { divisor: 1.0 / factor, unit, ..Column::numbers(id, title, "", Digits::Significant(3), "") }
    }
}

struct FleetView<'a> {
    fleet: &'a Fleet,
    /// Values of each figure over all hosts, in order of first appearance.
    overs: Vec<OverAll<'a>>,
}

impl<'a> FleetView<'a> {
    fn new(results: &FleetResults<'a>) -> Self {
        let over = |(address, all): (&'a FigureAddress, Vec<&'a FleetFigure>)| {
            let values: Vec<f64> = all.iter().map(|one| one.value).collect();
            OverAll { address, all, median: median(&values).unwrap_or(f64::NAN) }
        };
        let groups = by_key(results.figures.iter().map(|one| (&one.address, one)));
        let mut overs: Vec<OverAll<'a>> = groups.into_iter().map(over).collect();
        // A loss that is 0 everywhere needs no table.
        overs.retain(|over| over.address.figure != Figure::LossShare || over.values().any(|share| share > 0.0));
        overs.sort_by_key(|over| {
            (over.address.sub_experiment.clone(), over.address.payload_bytes, over.address.load.to_string())
        });
        Self { fleet: results.fleet, overs }
    }

    /// Transport, or the sub-experiment if several have the same transport.
    fn label(&self, over: &OverAll<'_>) -> String {
        let transport = |over: &OverAll<'_>| over.all[0].transport.clone();
        let (own, sub) = (transport(over), &over.address.sub_experiment);
        let is_shared = self.overs.iter().any(|one| transport(one) == own && one.address.sub_experiment != *sub);
        if is_shared || own.is_empty() { sub.clone() } else { own }
    }

    /// Transport, payload, load and figure.
    fn title(&self, over: &OverAll<'_>) -> String {
        format!("{}: {}", over.address.located_as(&self.label(over)), figure_name(over.address))
    }

    fn noun(&self) -> &'static str {
        if self.fleet.mode == FleetMode::Hosts { "host" } else { "pair" }
    }

    /// First figure of each sub-experiment, payload and load.
    fn firsts(&self) -> Vec<&OverAll<'a>> {
        let place = |over: &OverAll<'_>| {
            let address = over.address;
            (address.sub_experiment.clone(), address.payload_bytes, address.load.to_string())
        };
        let mut firsts: Vec<&OverAll<'_>> = Vec::new();
        for over in &self.overs {
            if !firsts.iter().any(|first| place(first) == place(over)) {
                firsts.push(over);
            }
        }
        firsts
    }

    fn answer(&self) -> String {
        let jobs = &self.fleet.jobs;
        let count = |state| jobs.iter().filter(|job| job.state == state).count();
        let (measured, failed) = (count(FleetState::Measured), count(FleetState::Failed));
        let failed = if failed > 0 { format!("; {failed} failed") } else { String::new() };
        let mut text = format!("{measured} of {} measured{failed}.", counted(jobs.len(), self.noun()));
        for over in self.firsts().into_iter().take(MOST_ON_SCREEN).filter(|over| over.all.len() > 1) {
            text += &format!("\n{}: {}", self.title(over), reading(over));
        }
        text
    }

    /// A row for each figure.
    fn summary(&self) -> Option<Table> {
        let number = |id: &str, title: &str, help| Column { is_right: true, ..Column::words(id, title, help) };
        let columns = vec![
            Column::words("transport", "transport", "").at_most(26),
            Column::words("at", "at", ""),
            Column::words("figure", "figure", ""),
            Column::numbers("n", "n", "", Digits::Integer, "hosts or pairs that have the figure"),
            Column::words("unit", "in", ""),
            number("median", "median", ""),
            number("best", "best", ""),
            Column::words("best_at", "of", ""),
            number("worst", "worst", ""),
            Column::words("worst_at", "of", ""),
        ];
        let row = |over: &OverAll<'_>| {
            let [best, worst] = over.ends()?;
            let (_, unit) = unit(over.address.figure);
            let written = |value: f64| Cell::text(over.written(value));
            let cells = vec![
                Cell::text(self.label(over)),
                Cell::text(over.address.place()),
                Cell::text(figure_name(over.address)),
                Cell::number(over.all.len() as f64),
                Cell::text(unit),
                written(over.median),
                written(best.value),
                Cell::text(name(best)),
                written(worst.value),
                Cell::text(name(worst)),
            ];
            Some((None, cells))
        };
        let rows: Vec<_> = self.overs.iter().filter_map(row).collect();
        (!rows.is_empty()).then(|| Table::new(String::new(), columns, rows).within(COLUMNS))
    }

    /// Matrix of a figure below its title.
    fn matrix(&self, over: &OverAll<'_>) -> impl Iterator<Item = Block> {
        let (_, unit) = unit(over.address.figure);
        let title = format!("{} in {unit}, leaders down, followers across", self.title(over));
        [Block::Text(title)].into_iter().chain(self.tables(over).into_iter().map(Block::Table))
    }

    /// Matrix as tables of at most [`HOSTS_IN_A_LINE`] columns: leaders are rows, followers columns.
    fn tables(&self, over: &OverAll<'_>) -> Vec<Table> {
        let hosts: Vec<&str> = self.fleet.hosts.iter().map(|host| host.name.as_str()).collect();
        let is_follower = |name: &&str| self.fleet.jobs.iter().any(|job| job.to.as_deref() == Some(*name));
        let followers: Vec<&str> = hosts.iter().copied().filter(is_follower).collect();
        let parts = followers.chunks(HOSTS_IN_A_LINE);
        let table = |columns: &[&str]| {
            let heads = columns.iter().map(|host| Column { unit: "", ..over.column(host, host) });
            let heads = [Column::words("leader", "", "")].into_iter().chain(heads).collect();
            let rows = hosts.iter().map(|from| {
                let cells = columns.iter().map(|to| self.cell(over, from, to));
                (None, [Cell::text(*from)].into_iter().chain(cells).collect::<Vec<_>>())
            });
            // Rows that are blank in this part are left out.
            let has_any = |row: &(_, Vec<Cell>)| row.1[1..].iter().any(|cell| *cell != Cell::NOTHING);
            Table::new(String::new(), heads, rows.filter(has_any).collect()).within(COLUMNS)
        };
        parts.map(table).filter(|table| !table.rows.is_empty()).collect()
    }

    fn cell(&self, over: &OverAll<'_>, from: &str, to: &str) -> Cell {
        let is_it = |one: &&&FleetFigure| one.from == from && one.to.as_deref() == Some(to);
        if let Some(one) = over.all.iter().find(is_it) {
            return Cell::Number { value: one.value, interval: None, mark: "" };
        }
        let is_planned = self.fleet.jobs.iter().any(|job| job.from == from && job.to.as_deref() == Some(to));
        if is_planned { Cell::Missing(Missing::NotMeasured) } else { Cell::NOTHING }
    }

    /// Median over the results of each host, as leader or follower.
    fn by_host(&self) -> Option<Table> {
        let firsts: Vec<_> = self.firsts();
        let of = |over: &OverAll<'_>, host: &str| {
            let mine = over.all.iter().filter(|one| one.from == host || one.to.as_deref() == Some(host));
            median(&mine.map(|one| one.value).collect::<Vec<_>>())
        };
        let column = |(place, over): (usize, &&OverAll<'_>)| {
            let address = &over.address;
            // The column is narrower than `process=follower`, so allow a break between the words.
            let figure = figure_name(address).replace('=', " ");
            let title = format!("{}\n{}\n{figure}", self.label(over), address.place());
            over.column(&format!("figure_{}", place + 1), &title)
        };
        let columns = firsts.iter().enumerate().map(column);
        let columns: Vec<_> = [Column::words("host", "host", "")].into_iter().chain(columns).collect();
        let row = |host: &str| {
            let cells = firsts.iter().map(|over| Cell::maybe(of(over, host)));
            (None, [Cell::text(host)].into_iter().chain(cells).collect::<Vec<_>>())
        };
        let rows: Vec<_> = self.fleet.hosts.iter().map(|host| row(&host.name)).collect();
        let title = match self.fleet.mode {
            FleetMode::Hosts => String::new(),
            FleetMode::Pairs | FleetMode::Star => "Median over the pairs of each host".to_owned(),
        };
        (!firsts.is_empty()).then(|| Table::new(title, columns, rows).within(COLUMNS))
    }

    /// Every result, with the link to its page if it has one.
    fn jobs(&self, pages: &BTreeSet<String>) -> Table {
        let columns = vec![
            Column::words("name", self.noun(), ""),
            Column::words("state", "state", ""),
            Column::words("problem", "problem", "").if_any(),
        ];
        let row = |job: &FleetJob| {
            let name = job.name();
            let first = match job.state {
                FleetState::Measured if pages.contains(&name) => {
                    Cell::Link { target: format!("{name}/{REPORT}"), text: name }
                }
                _ => Cell::text(name),
            };
            let state = match (job.state, job.exit_code) {
                (FleetState::Waiting, _) => "not measured".to_owned(),
                (FleetState::Failed, _) => "failed".to_owned(),
                (FleetState::Measured, Some(0) | None) => "measured".to_owned(),
                (FleetState::Measured, Some(code)) => format!("measured, exit code {code}"),
            };
            (None, vec![first, Cell::text(state), Cell::text(job.problem.clone().unwrap_or_default())])
        };
        Table::new(String::new(), columns, self.fleet.jobs.iter().map(row).collect())
    }

    /// Failed jobs and why; jobs that failed for the same reason share a line.
    fn notes(&self) -> Option<Block> {
        let failed = self.fleet.jobs.iter().filter_map(|job| Some((job.problem.as_deref()?, job.name())));
        let note = |(why, names): (&str, Vec<String>)| {
            let text = format!("FAILED: {}: {why}", names.join(", "));
            Note::error("fleet", text)
        };
        Block::notes(by_key(failed).into_iter().map(note).collect())
    }
}

/// Name like `rtt_half p50`; a stream other than all messages comes first.
fn figure_name(address: &FigureAddress) -> String {
    let figure = crate::values::name(address.figure);
    let name = match address.statistic {
        Statistic::Value => figure.to_owned(),
        statistic => format!("{figure} {statistic}"),
    };
    if address.stream == Stream::all() { name } else { format!("{} {name}", address.stream) }
}

/// Host or pair of a figure.
fn name(one: &FleetFigure) -> String {
    match &one.to {
        Some(to) => format!("{}--{to}", one.from),
        None => one.from.clone(),
    }
}

/// Sentence on the best and the worst result.
fn reading(over: &OverAll<'_>) -> String {
    let Some([best, worst]) = over.ends() else { return String::new() };
    let (_, unit) = unit(over.address.figure);
    let (ratio, median) = (worst.value / over.median, over.written(over.median));
    // There is no ratio to a median of 0.
    let median = match ratio.is_finite() {
        true => format!("×{} of the median, {median}", Digits::Significant(3).write(ratio)),
        false => format!("the median {median}"),
    };
    format!(
        "best {} with {} {unit}, worst {} with {} {unit}, {median} {unit}.",
        name(best),
        over.written(best.value),
        name(worst),
        over.written(worst.value)
    )
}

#[cfg(test)]
mod tests;
