//! `tripmeter history`: figures over time, their steps and slow drifts.

use super::check::limits;
use crate::args::HistoryArgs;
use crate::database::last_part;
use crate::error::CliError;
use crate::output;
use crate::plotting::{PictureJob, draw_all};
use crate::results::{folders_in, note_left_out, open_finished, selection};
use crate::verdicts::{judged_folder, of_history, with_fields};
use serde_json::json;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tripmeter_analysis::JudgedResults;
use tripmeter_analysis::history::{Change, History, HistorySeries};
use tripmeter_model::address::FigureAddress;
use tripmeter_model::file::write_named;
use tripmeter_model::folder::REPORT;
use tripmeter_model::limits::FigureLimits;
use tripmeter_model::verdict::JudgedFolder;
use tripmeter_model::{exit, printable};
use tripmeter_report::document::Block;
use tripmeter_report::plots::Options;
use tripmeter_report::plots::addresses::{FigurePlot, LineRole, PlotLine};
use tripmeter_report::{Trends, changes, counted, render, trends};

pub fn history(args: &HistoryArgs) -> Result<u8, CliError> {
    args.sorting.refuse_with_json(args.json)?;
    let limits = args.limits.as_deref().map(limits).transpose()?;
    let (history, folders, judged) = read(args)?;
    let [steps, drifts] = args.changes.marks(&history).map_err(|why| CliError::new(exit::USAGE, why))?;
    let options = args.changes.options();
    let other_plans = history.changes_of_plans();
    let (found, series) = history.changes(&steps, &drifts, &options).map_err(|why| CliError::new(exit::DATA, why))?;
    let reach = history.reach(&steps, &options);
    let drawn = args.plots.as_ref().map(|folder| draw(&history, limits.as_ref(), folder, args.plotting.options()));
    let drawn = drawn.transpose()?;
    if let Some(file) = &args.html {
        let links: Vec<String> = folders.iter().map(|folder| link(file, folder)).collect();
        let limits = limits.as_ref();
        let other_plans = &other_plans;
        let page = trends(&Trends {
            history: &history,
            limits,
            changes: &found,
            series,
            reach: &reach,
            other_plans,
            links: &links,
        });
        let title = format!("History of {}", printable::line(&last_part(&args.folder)));
        write_named(file, render::html(&page, &title).as_bytes())?;
    }
    let is_changed = found.iter().any(Change::is_new);
    let code = if args.changes.fail_on_change && is_changed { exit::FINDING } else { exit::GOOD };
    let (gaps, too_few) = (history.gaps(), history.too_few());
    let environment: Vec<String> = history.changes_of_machine().into_iter().chain(other_plans).collect();
    if args.json {
        let fields = json!({
            "experiments": history.experiments,
            "changes_of_environment": environment,
            "experiments_needed": { "step": reach.step, "drift": reach.drift },
            "figures_too_short": { "step": reach.below(reach.step), "drift": reach.below(reach.drift) },
            "missing": gaps,
            "notes": Vec::from_iter(&too_few),
        });
        output::print(&format!("{:#}\n", with_fields(&of_history(&found, series, code).with_judged(judged), fields)))?;
        return Ok(code);
    }
    if let Some(file) = &args.html {
        output::print(&format!("{}\n", file.display()))?;
    }
    output::print(&drawn.unwrap_or_default())?;
    let mut page = changes(&found, series, &reach);
    page.blocks.extend((!gaps.is_empty()).then(|| Block::Text(gaps.join("\n"))));
    args.sorting.apply([&mut page])?;
    output::print_document(&page)?;
    environment.iter().chain(&too_few).try_for_each(|line| output::print(&format!("{line}\n")))?;
    Ok(code)
}

/// History, with folder and verdict entry of each experiment.
fn read(args: &HistoryArgs) -> Result<(History, Vec<PathBuf>, Vec<JudgedFolder>), CliError> {
    let mut all = Vec::new();
    for folder in folders_in(std::slice::from_ref(&args.folder))? {
        if let Some(results) = open_finished(&folder, args.allow_damage)? {
            note_left_out(&folder.name, &results);
            all.push((folder, results));
        }
    }
    // Not by name, because names contain the local time of their host. Experiments with equal start times stay in the
    // order of names.
    let begun = |results: &JudgedResults| tripmeter_engine::time_of(&results.manifest.started);
    all.sort_by_cached_key(|(_, results)| begun(results).map_or((true, 0), |time| (false, time)));
    let selection = selection(&args.figures.figures, &all.iter().map(|(_, results)| results).collect::<Vec<_>>())?;
    let mut history = History::default();
    all.iter().for_each(|(folder, results)| history.add(&folder.name, results, &selection));
    match history.series.is_empty() {
        true => Err(CliError::new(exit::DATA, format!("'{}' has no figures", args.folder.display()))),
        false => {
            let judged = all.iter().map(|(folder, results)| judged_folder(&folder.path, &results.manifest)).collect();
            Ok((history, all.into_iter().map(|(folder, _)| folder.path).collect(), judged))
        }
    }
}

/// URL of a results folder's page, relative to `file` if the page is below its folder; empty if there is no page.
fn link(file: &Path, folder: &Path) -> String {
    let Ok(page) = folder.join(REPORT).canonicalize() else { return String::new() };
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let base = parent.canonicalize().unwrap_or_default();
    let (beginning, path) = match page.strip_prefix(&base) {
        Ok(path) => ("", path),
        Err(_) => ("file://", page.as_path()),
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let written = path.as_os_str().as_bytes().iter().map(|&byte| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    beginning.to_owned() + &written.collect::<String>()
}

/// Plots every figure over experiments and over payloads; returns a line with the number of plots.
fn draw(history: &History, limits: Option<&FigureLimits>, folder: &Path, options: Options) -> Result<String, CliError> {
    let groups = history.lines();
    let drawing = Drawing { history, limits, options };
    let jobs: Vec<PictureJob> = groups
        .iter()
        .flat_map(|group| -> [PictureJob; 2] {
            let drawing = &drawing;
            [Box::new(move || drawing.by_run(group)), Box::new(move || drawing.by_payload(group))]
        })
        .collect();
    let count = draw_all(folder, jobs)?.len();
    let experiments = counted(history.experiments.len(), "experiment");
    Ok(format!("{count} plots of {experiments} are in '{}'\n", folder.display()))
}

struct Drawing<'a> {
    history: &'a History,
    limits: Option<&'a FigureLimits>,
    options: Options,
}

type Drawn = Result<tripmeter_report::plots::Picture, tripmeter_report::plots::PlotError>;

impl Drawing<'_> {
    fn limit(&self, address: &FigureAddress) -> Option<f64> {
        Some(self.limits?.limit_for(address)?.limit)
    }

    /// Plots one line per payload over the experiments, with its limit.
    fn by_run(&self, group: &[&HistorySeries]) -> Drawn {
        let count = self.history.experiments.len();
        let mut lines = Vec::new();
        for series in group {
            let mut values = vec![f64::NAN; count];
            series.points.iter().for_each(|point| values[point.experiment] = point.value);
            let name = series.address.size();
            if let Some(limit) = self.limit(&series.address) {
                let name = format!("limit of {name}");
                lines.push(PlotLine { name, values: vec![limit; count], role: LineRole::Limit });
            }
            lines.push(PlotLine { name, values, role: LineRole::Measured });
        }
        let subject = FigurePlot { address: &group[0].address, title: "History of", suffix: "by_run" };
        subject.over_experiments(&self.history.experiments, &lines, &self.options)
    }

    /// Plots one line per experiment over the payloads, with the limits.
    fn by_payload(&self, group: &[&HistorySeries]) -> Drawn {
        let of = self.history.experiments.len();
        let mut lines: Vec<PlotLine> = Vec::new();
        for (place, name) in self.history.experiments.iter().enumerate() {
            let value = |series: &&HistorySeries| {
                series.points.iter().find(|point| point.experiment == place).map_or(f64::NAN, |point| point.value)
            };
            let values: Vec<f64> = group.iter().map(value).collect();
            if values.iter().any(|value| value.is_finite()) {
                lines.push(PlotLine { name: name.clone(), values, role: LineRole::Experiment { place, of } });
            }
        }
        let limits: Vec<f64> = group.iter().map(|series| self.limit(&series.address).unwrap_or(f64::NAN)).collect();
        if limits.iter().any(|limit| limit.is_finite()) {
            lines.push(PlotLine { name: "limit".to_owned(), values: limits, role: LineRole::Limit });
        }
        let payloads: Vec<u64> = group.iter().map(|series| series.address.payload_bytes).collect();
        let subject = FigurePlot { address: &group[0].address, title: "History of", suffix: "by_payload" };
        subject.over_payloads(&payloads, &lines, &self.options)
    }
}
