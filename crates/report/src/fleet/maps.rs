//! Each figure of a fleet as a heat map.

use super::{FleetFigure, FleetView, OverAll, figure_name, name, reading};
use crate::plots::Chart;
use crate::plots::chart::{Heat, HeatCell, HeatLevel, X, Y};
use crate::values::unit;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::fleet::{FleetJob, FleetMode};

impl FleetView<'_> {
    /// Map for each figure of pairs, or for each kind of figure of single hosts.
    pub(super) fn maps(&self) -> Vec<Chart> {
        match self.fleet.mode {
            FleetMode::Hosts => self.maps_of_hosts(),
            FleetMode::Pairs | FleetMode::Star => self.overs.iter().map(|over| self.map(over)).collect(),
        }
    }

    /// Map of pairs: leaders are rows, followers columns.
    fn map(&self, over: &OverAll<'_>) -> Chart {
        let hosts = || self.fleet.hosts.iter().map(|host| host.name.clone());
        let is_follower = |name: &String| self.fleet.jobs.iter().any(|job| job.to.as_ref() == Some(name));
        let names: Vec<String> = hosts().filter(is_follower).collect();
        let place = |name: &str| names.iter().position(|host| host == name);
        let rows: Vec<String> = hosts().filter(|name| self.fleet.jobs.iter().any(|job| job.from == *name)).collect();
        let row = |name: &str| rows.iter().position(|host| host == name);
        let measured = over.all.iter().filter_map(|one| {
            let (column, row) = (place(one.to.as_deref()?)?, row(&one.from)?);
            Some(HeatCell { column, row, ..heat_cell(over, one) })
        });
        let has = |job: &&FleetJob| over.all.iter().any(|one| one.from == job.from && one.to == job.to);
        let without = self.fleet.jobs.iter().filter(|job| !has(job)).filter_map(|job| {
            let (column, row) = (place(job.to.as_deref()?)?, row(&job.from)?);
            let detail = format!("{}: {}", job.name(), job.problem.as_deref().unwrap_or("not measured"));
            Some(HeatCell { column, row, level: HeatLevel::Unclear, text: "-".to_owned(), detail })
        });
        let cells = measured.chain(without).collect();
        let (_, unit) = unit(over.address.figure);
        Chart {
            name: "fleet".to_owned(),
            title: format!("{} in {unit}", self.title(over)),
            reading: reading(over),
            x: X::Categories { label: "Follower".to_owned(), names: names.clone() },
            y: Y { label: "Leader".to_owned(), ..Y::default() },
            heat: Some(Heat { rows, cells }),
            ..Chart::default()
        }
    }

    /// Maps of single hosts, one for each figure: hosts are rows, sub-experiments with their payloads columns.
    fn maps_of_hosts(&self) -> Vec<Chart> {
        let mut kinds: Vec<(Figure, Statistic)> = Vec::new();
        for over in &self.overs {
            let kind = (over.address.figure, over.address.statistic);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let rows: Vec<String> = self.fleet.hosts.iter().map(|host| host.name.clone()).collect();
        let map = |kind: (Figure, Statistic)| {
            let overs: Vec<_> =
                self.overs.iter().filter(|over| (over.address.figure, over.address.statistic) == kind).collect();
            let cells = overs.iter().enumerate().flat_map(|(column, over)| {
                let rows = &rows;
                over.all.iter().filter_map(move |one| {
                    let row = rows.iter().position(|host| *host == one.from)?;
                    Some(HeatCell { column, row, ..heat_cell(over, one) })
                })
            });
            let column = |over: &&OverAll<'_>| format!("{} {}", self.label(over), over.address.place());
            Some(Chart {
                name: "fleet".to_owned(),
                title: format!("{} in {}", figure_name(overs.first()?.address), unit(kind.0).1),
                reading: "Each column has a scale of its own.".to_owned(),
                x: X::Categories { label: "Sub-experiment".to_owned(), names: overs.iter().map(column).collect() },
                y: Y { label: "Host".to_owned(), ..Y::default() },
                heat: Some(Heat { rows: rows.clone(), cells: cells.collect() }),
                ..Chart::default()
            })
        };
        kinds.into_iter().filter_map(map).collect()
    }
}

/// Cell coloured by the ratio to the smallest value, or by the difference if that is 0.
fn heat_cell(over: &OverAll<'_>, one: &FleetFigure) -> HeatCell {
    let (least, most) = over.values().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
    let place = match least > 0.0 {
        true => (one.value / least).ln() / (most / least).ln(),
        false => (one.value - least) / (most - least),
    };
    let level = HeatLevel::Scale(if place.is_finite() { place } else { 0.0 });
    let (_, unit) = unit(over.address.figure);
    let within = one.interval.map(|ends| format!(" ({} to {})", over.written(ends[0]), over.written(ends[1])));
    let detail = format!("{}: {} {unit}{}", name(one), over.written(one.value), within.unwrap_or_default());
    HeatCell { column: 0, row: 0, level, text: over.written(one.value), detail }
}
