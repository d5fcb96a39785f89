//! Which transport for a workload: a ranking with intervals, what fails the limits and why, and the answer.

use crate::document::{Block, Cell, Column, Digits, Document, Missing, Note, Severity, Table};
use crate::labels::load_text;
use crate::merged::Merged;
use crate::notes::failed_proof;
use crate::number::{counted, percent};
use crate::page::curves::{Curve, Panel};
use crate::page::measured::MeasuredSide;
use crate::page::values::{Seen, Value, listed};
use crate::plots::aimrt::NamedResults;
use crate::run_notes;
use tripmeter_analysis::derived::{self, cpu_share};
use tripmeter_analysis::{MetricTable, Row};
use tripmeter_model::figure::{Better, Figure, Statistic};
use tripmeter_model::manifest::Manifest;
use tripmeter_model::metric::{Process, Stream};
use tripmeter_model::payload::display_size;
use tripmeter_stats::median;
use tripmeter_stats::order::fewest_for_upper_bound;
use tripmeter_stats::proportion::{self, Proportion};
use tripmeter_stats::rounds::ALPHA;

/// What a transport is to be chosen for.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The statistic of the latency that is ranked and limited.
    pub by: Statistic,
    /// Most latency, in nanoseconds.
    pub max_latency_ns: Option<f64>,
    /// Most CPU time of publisher and subscribers together, as a share of one CPU.
    pub max_cpu: Option<f64>,
    /// Most messages lost, late or damaged, as a share of those sent.
    pub max_loss: f64,
    /// The payload, if results have several.
    pub payload_bytes: Option<u64>,
    /// Messages per second, if results have several rates.
    pub rate_hz: Option<f64>,
    /// Subscribers, if results have several numbers.
    pub followers: Option<u32>,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The ranking, what is not in it and why, and the answer.
    pub document: Document,
    /// Whether anything meets the limits.
    pub has_answer: bool,
}

/// Ranks the transports of results for one workload.
///
/// # Errors
/// If there is no latency of that workload, or there are several workloads; with what there is.
pub fn choose(manifest: &Manifest, wish: &Wish) -> Result<Choice, String> {
    let side = MeasuredSide::new(&NamedResults { name: "", manifest });
    let (figure, rows) = rows_of(&side, wish)?;
    let panel = Panel::of_rows(&side, figure, &rows);
    let payload = panel.payloads[0];
    let mut judged: Vec<JudgedTransport<'_>> =
        panel.curves.iter().filter_map(|curve| JudgedTransport::new(&side, curve, payload, wish)).collect();
    judged
        .sort_by(|a, b| (!a.fails.is_empty()).cmp(&!b.fails.is_empty()).then(a.value.value.total_cmp(&b.value.value)));
    let fits = judged.iter().take_while(|one| one.fails.is_empty()).count();
    let ranking = Ranking { panel: &panel, payload, wish, judged: &judged, fits };
    let mut blocks = vec![Block::Text(ranking.question(&side))];
    if !judged.is_empty() {
        blocks.push(Block::Table(ranking.table(&side)));
    }
    let notes = ranking.notes(&side);
    if !notes.is_empty() {
        blocks.push(Block::Notes(notes));
    }
    blocks.push(Block::Text(ranking.answer()));
    Ok(Choice { document: Document { blocks }, has_answer: fits > 0 })
}

/// The rows of the workload, and their latency.
fn rows_of(side: &MeasuredSide<'_>, wish: &Wish) -> Result<(Figure, Vec<Row>), String> {
    let followers = |row: &Row| side.subs[row.sub as usize].planned.workload.followers();
    let is_meant = |row: &Row| {
        let hz = side.metrics.load(*row).hz();
        wish.payload_bytes.is_none_or(|bytes| bytes == row.payload_bytes)
            && wish.rate_hz.is_none_or(|rate| hz == Some(rate))
            && wish.followers.is_none_or(|number| number == followers(row))
    };
    let rows: Vec<Row> = side.metrics.all_rows().filter(is_meant).collect();
    let latencies = Figure::HEADLINES.into_iter().filter(|figure| figure.better() == Better::Lower);
    let has = |row: &&Row, figure: Figure| !side.metrics.streams(**row, figure).is_empty();
    let of_figure = |figure| rows.iter().filter(|row| has(row, figure)).copied().collect::<Vec<Row>>();
    let found = latencies.map(|figure| (figure, of_figure(figure))).find(|(_, rows)| !rows.is_empty());
    let (figure, rows) = found.ok_or("nothing of this workload was measured there; leave --payload, --rate and --subscribers out, or name what was measured")?;
    let several = |what: &str, flag: &str, mut all: Vec<String>| {
        all.sort();
        all.dedup();
        if all.len() > 1 {
            Err(format!("there are several {what}: {}; choose one ({flag})", all.join(", ")))
        } else {
            Ok(())
        }
    };
    several("payloads", "--payload", rows.iter().map(|row| display_size(row.payload_bytes)).collect())?;
    several("rates", "--rate", rows.iter().map(|row| load_text(side.metrics.load(*row))).collect())?;
    several("numbers of subscribers", "--subscribers", rows.iter().map(|row| followers(row).to_string()).collect())?;
    Ok((figure, rows))
}

/// A transport under the workload.
struct JudgedTransport<'a> {
    curve: &'a Curve<'a>,
    row: Row,
    value: Value,
    lost: Option<Proportion>,
    /// Publisher and subscribers.
    cpu: [Vec<f64>; 2],
    /// Why it does not do: value against limit.
    fails: Vec<String>,
}

impl<'a> JudgedTransport<'a> {
    fn new(side: &MeasuredSide<'_>, curve: &'a Curve<'a>, payload: u64, wish: &Wish) -> Option<Self> {
        if curve.merged().planned.added_as_floor {
            return None;
        }
        let (metrics, row) = (&side.metrics, curve.row(payload));
        let value = curve.value(payload, wish.by)?;
        let lost = loss_of(metrics, row);
        let cpu = [Process::Leader, Process::Follower].map(|process| cpu_share(metrics, row, process));
        let mut one = Self { curve, row, value, lost, cpu, fails: Vec::new() };
        one.fails = one.failures(side, payload, wish);
        Some(one)
    }

    /// The median over rounds of the CPU time of all processes.
    fn cpu_of_all(&self) -> Option<f64> {
        let [publisher, subscribers] = &self.cpu;
        let both: Vec<f64> = publisher.iter().zip(subscribers).map(|(one, other)| one + other).collect();
        median(&both)
    }

    fn failures(&self, side: &MeasuredSide<'_>, payload: u64, wish: &Wish) -> Vec<String> {
        let mut fails = Vec::new();
        let statistic = wish.by;
        // The largest of all rounds is what was seen, whatever their median is.
        let latency = match statistic {
            Statistic::Max => self
                .curve
                .rounds(payload, statistic)
                .map_or(f64::NAN, |rounds| rounds.values.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
            _ => self.value.value,
        };
        if let Some(limit) = wish.max_latency_ns.filter(|limit| latency > *limit) {
            fails.push(format!("{statistic} {}, limit {} (--max-latency)", time(latency), time(limit)));
        }
        match (wish.max_cpu, self.cpu_of_all()) {
            (Some(limit), Some(cpu)) if cpu > limit => {
                fails.push(format!("CPU {} %, limit {} % (--max-cpu)", percent(cpu), percent(limit)));
            }
            (Some(_), None) => fails.push("its CPU time was not measured (--max-cpu)".to_owned()),
            _ => {}
        }
        match self.lost {
            Some(lost) if lost.share() > wish.max_loss => {
                let (events, of) = (lost.events, lost.of);
                let share = percent(lost.share());
                let limit = percent(wish.max_loss);
                fails.push(format!("loss {share} % ({events} of {of}), limit {limit} % (--max-loss)"));
            }
            Some(_) => {}
            None => fails.push("its loss was not counted".to_owned()),
        }
        if side.metrics.is_rate_missed(self.row) {
            let of = |figure| side.metrics.get(self.row, &Stream::all(), figure, Statistic::Value);
            let total = |figure| of(figure).map_or(0.0, |rounds| rounds.folded());
            let achieved = Digits::Rate.write(total(Figure::AchievedRate));
            let (behind, sent) = (total(Figure::Behind), total(Figure::Sent));
            let load = load_text(side.metrics.load(self.row));
            fails.push(format!(
                "it missed the rate of {load}: {achieved} /s, {behind} of {sent} messages were sent more than a period late"
            ));
        }
        let sub = self.curve.merged();
        fails.extend(failed_proof(sub).map(|_| "its path proof failed".to_owned()));
        let (measured, planned) = (self.value.rounds, sub.rounds as usize);
        if measured < planned {
            fails.push(format!("it was measured in {measured} of {planned} rounds"));
        }
        fails
    }
}

/// What was lost, of the stream that has a loss: all messages, or of the last of several followers; else the worst follower.
fn loss_of(metrics: &MetricTable, row: Row) -> Option<Proportion> {
    let streams = derived::streams(metrics, row, Figure::LossShare);
    let preferred = [Stream::all(), Stream::last()].into_iter().find(|one| streams.contains(&one));
    let of = |stream: &Stream| proportion::sum(&derived::loss(metrics, row, stream));
    let all = match &preferred {
        Some(stream) => vec![of(stream)],
        None => streams.into_iter().map(of).collect(),
    };
    all.into_iter().filter(|lost| lost.of > 0).max_by(|a, b| a.share().total_cmp(&b.share()))
}

/// What was measured, in its order.
struct Ranking<'a> {
    panel: &'a Panel<'a>,
    payload: u64,
    wish: &'a Wish,
    /// Those that meet the limits first, each part by its latency.
    judged: &'a [JudgedTransport<'a>],
    /// How many meet them.
    fits: usize,
}

impl Ranking<'_> {
    fn question(&self, side: &MeasuredSide<'_>) -> String {
        let size = display_size(self.payload);
        let Some(curve) = self.panel.curves.first() else { return format!("Which transport for {size}?") };
        let to = counted(curve.merged().planned.workload.followers() as usize, "subscriber");
        let rounds = counted(side.manifest.plan.rounds as usize, "round");
        let wait = curve.merged().planned.wait;
        let wait = match self.panel.curves.iter().all(|one| one.merged().planned.wait == wait) {
            true => format!(", wait {wait}"),
            false => String::new(),
        };
        format!("Which transport for {size} at {} to {to}? ({rounds}{wait})", load_text(curve.offered()))
    }

    /// How many times the latency of another.
    fn ratio(&self, one: &JudgedTransport<'_>, other: &JudgedTransport<'_>) -> Option<Value> {
        one.curve.over(other.curve, self.payload, self.wish.by)
    }

    fn is_like(&self, one: &JudgedTransport<'_>, other: &JudgedTransport<'_>) -> bool {
        self.ratio(one, other).is_some_and(|ratio| ratio.seen() == Seen::NoDifference)
    }

    /// The ranks of those that meet the limits: 1 where no difference from the first is seen; of the others, the place of the
    /// first from which none is seen. Where rounds are too few to tell, the order counts.
    fn ranks(&self) -> Vec<usize> {
        let (mut ranks, mut leader) = (Vec::new(), 0);
        for (place, one) in self.judged[..self.fits].iter().enumerate() {
            let is_first = place == 0 || self.is_like(one, &self.judged[0]);
            if !is_first && (leader == 0 || !self.is_like(one, &self.judged[leader])) {
                leader = place;
            }
            ranks.push(if is_first { 1 } else { leader + 1 });
        }
        ranks
    }

    fn table(&self, side: &MeasuredSide<'_>) -> Table {
        let by = self.wish.by;
        let latency = |id: &str, title: &str, help| Column::numbers(id, title, "µs", Digits::Significant(3), help);
        let share =
            |id, title, help| Column { divisor: 0.01, ..Column::numbers(id, title, "%", Digits::Fixed(1), help) };
        let memory =
            |id, title, help| Column { divisor: 1e6, ..Column::numbers(id, title, "MB", Digits::Fixed(1), help) };
        let columns = vec![
            Column { is_right: true, ..Column::words("rank", "rank", "one number where no difference is seen") },
            Column::words("transport", "transport", "").at_most(26),
            latency(by.id(), by.id(), "median over rounds of this percentile of the latency; what is ranked"),
            Column { is_right: true, ..Column::words("ratio", "ratio", "to the first, round by round") },
            Column::numbers("loss", "loss", "%", Digits::Percent, "messages lost, late or damaged, of those sent"),
            share("publisher_cpu", "CPU\npub", "CPU time of the publisher, of one CPU"),
            share("subscribers_cpu", "CPU\nsubs", "CPU time of all subscribers together, of one CPU"),
            memory("publisher_memory", "mem\npub", "most memory of the publisher, our samples included"),
            memory("subscriber_memory", "mem\nsub", "most memory of one subscriber, our samples included"),
            Column::words("limits", "limits", ""),
        ];
        let ranks = self.ranks();
        let rows = (0..self.judged.len()).map(|place| {
            let rank = ranks.get(place).copied();
            (Some(self.judged[place].row), self.cells(side, place, rank))
        });
        Table::new(String::new(), columns, rows.collect())
    }

    fn cells(&self, side: &MeasuredSide<'_>, place: usize, rank: Option<usize>) -> Vec<Cell> {
        let one = &self.judged[place];
        let number = |value: Value| Cell::Number { value: value.value, interval: value.interval, mark: "" };
        let ratio = match self.ratio(one, &self.judged[0]) {
            _ if place == 0 => Cell::Missing(Missing::NotOfThisRow),
            Some(ratio) => Cell::Ratio { value: ratio.value, interval: ratio.interval },
            None => Cell::Missing(Missing::NotMeasured),
        };
        let memory = |process: Process| {
            Cell::of(side.metrics.get(one.row, &Stream::process(process), Figure::PeakMemory, Statistic::Value))
        };
        let loss = one.lost.map_or(Cell::Missing(Missing::NotMeasured), |lost| Cell::Share {
            events: lost.events,
            of: lost.of,
            interval: None,
        });
        vec![
            Cell::text(rank.map_or(String::new(), |rank| rank.to_string())),
            Cell::text(&one.curve.label),
            number(one.value),
            ratio,
            loss,
            Cell::over(&one.cpu[0]),
            Cell::over(&one.cpu[1]),
            memory(Process::Leader),
            memory(Process::Follower),
            Cell::text(if rank.is_some() { "met" } else { "FAILED" }),
        ]
    }

    /// What fails and why, what did not run, and what is not here.
    fn notes(&self, side: &MeasuredSide<'_>) -> Vec<Note> {
        let (plan, by) = (&side.manifest.plan, self.wish.by);
        let note = |severity, kind, text| Note::new(severity, kind, None, text);
        let failed = self.judged[self.fits..].iter().map(|one| {
            let text = format!("FAILED: {}: {}", one.curve.label, one.fails.join("; "));
            note(Severity::Error, "limits", text)
        });
        let mut notes: Vec<Note> = failed.chain(run_notes::outcomes(&side.subs)).collect();
        let has_row =
            |sub: &&Merged<'_>| self.judged.iter().any(|one| one.curve.merged().planned.name == sub.planned.name);
        let silent = side.subs.iter().filter(|sub| !has_row(sub) && !sub.payload(self.payload).cells.is_empty());
        let silent = silent.filter(|sub| !sub.planned.added_as_floor && sub.unfinished().is_empty());
        notes.extend(silent.map(|sub| {
            note(Severity::Error, "limits", format!("FAILED: {}: no message arrived", sub.planned.transport))
        }));
        notes.extend(self.too_few(by).map(|text| note(Severity::Warning, "too few messages", text)));
        let meant = self.judged.iter().map(|one| one.curve.merged().planned);
        let mut shared: Vec<String> = meant.filter_map(|planned| plan.shared_cpus(planned)).collect();
        shared.dedup();
        notes.extend(shared.into_iter().map(|text| note(Severity::Warning, "shared CPUs", text)));
        let absent = left_out(&plan.left_out).into_iter().chain(plan.not_installed());
        notes.extend(absent.map(|text| note(Severity::Info, "not measured", text)));
        notes
    }

    /// That rounds have too few messages for the percentile.
    fn too_few(&self, by: Statistic) -> Option<String> {
        let share = match by {
            Statistic::P99 => 0.99,
            Statistic::P999 => 0.999,
            _ => return None,
        };
        let needed = fewest_for_upper_bound(share, ALPHA) as f64;
        let rounds = self.judged.iter().filter_map(|one| one.curve.rounds(self.payload, Statistic::N));
        let fewest = rounds.flat_map(|rounds| rounds.values.to_vec()).fold(f64::INFINITY, f64::min);
        (fewest < needed).then(|| {
            format!(
                "{by} is of as few as {fewest} messages a round, and below {needed} it is nearly the largest; measure more (-n, --budget)"
            )
        })
    }

    /// In plain words.
    fn answer(&self) -> String {
        let by = self.wish.by;
        let fits = &self.judged[..self.fits];
        let Some((first, others)) = fits.split_first() else {
            return match self.judged.first() {
                None => "Nothing was measured.".to_owned(),
                Some(nearest) => {
                    let (label, value) = (&nearest.curve.label, time(nearest.value.value));
                    format!("Nothing meets the limits; {label} has the least latency: {by} {value}.")
                }
            };
        };
        let latency = with_interval(first.value);
        let label = first.curve.label.as_str();
        let ratios: Vec<(&str, Value)> =
            others.iter().filter_map(|one| Some((one.curve.label.as_str(), self.ratio(one, first)?))).collect();
        let alike: Vec<&str> =
            ratios.iter().filter(|one| one.1.seen() == Seen::NoDifference).map(|one| one.0).collect();
        if others.is_empty() {
            return format!("{label}: {by} {latency}; nothing else meets the limits.");
        }
        let next = ratios.iter().find(|one| one.1.seen() != Seen::NoDifference);
        let next = next.map(|(name, ratio)| format!("; the next is {name}, {}", ratio.as_ratio())).unwrap_or_default();
        if !alike.is_empty() {
            let names: Vec<String> = [label].into_iter().chain(alike).map(in_a_list).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            return format!("No difference seen between {}: {by} {latency}{next}.", listed(&names));
        }
        let lows: Option<Vec<f64>> = ratios.iter().map(|one| Some(one.1.interval?.low)).collect();
        let within = lows
            .and_then(|lows| lows.into_iter().reduce(f64::min))
            .map(|low| format!("; no other is within ×{}", Digits::Significant(3).write(low)));
        format!("{label}: {by} {latency}{}{next}.", within.unwrap_or_default())
    }
}

/// What cannot do it, a line for each reason.
fn left_out(lines: &[String]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in lines {
        let named = line.strip_prefix("transport '").and_then(|rest| rest.split_once("': "));
        let (name, why) = named.unwrap_or(("", line));
        match reasons.iter_mut().find(|one| one.0 == why) {
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    let line = |(why, names): (&str, Vec<&str>)| match names.join(", ").as_str() {
        "" => format!("cannot do it: {why}"),
        names => format!("cannot do it: {names}: {why}"),
    };
    reasons.into_iter().map(line).collect()
}

/// `shm/ring (block)` of `shm/ring, block`.
fn in_a_list(label: &str) -> String {
    label.split_once(", ").map_or(label.to_owned(), |(name, rest)| format!("{name} ({rest})"))
}

/// Nanoseconds as `5 ms`, `12.3 µs`.
fn time(ns: f64) -> String {
    let (value, unit) = if ns >= 1e6 { (ns / 1e6, "ms") } else { (ns / 1e3, "µs") };
    format!("{} {unit}", Digits::Significant(3).write(value))
}

fn with_interval(value: Value) -> String {
    let interval = value.interval.map(|interval| format!(" ({} to {})", time(interval.low), time(interval.high)));
    time(value.value) + &interval.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, add, put_costs, put_times, result};
    use tripmeter_model::Pattern;
    use tripmeter_model::pace::OfferedLoad;
    use tripmeter_model::workload::Workload;

    const WISH: Wish = Wish {
        by: Statistic::P99,
        max_latency_ns: None,
        max_cpu: None,
        max_loss: 0.0,
        payload_bytes: None,
        rate_hz: None,
        followers: None,
    };
    const LOAD: OfferedLoad = OfferedLoad::Rate { hz: 30.0 };

    /// Eight rounds of messages at 30 Hz: systems with their medians, which differ a little from round to round.
    fn manifest(systems: &[(&str, f64)]) -> Manifest {
        let mut manifest = fixture::manifest();
        manifest.plan.rounds = 8;
        for (name, _) in systems {
            let plan = add(&mut manifest, name, &format!("{name}/one"), &[1024]);
            (plan.pattern, plan.workload) = (Pattern::Channel, Workload::publications(vec![LOAD], 1, 1));
        }
        for round in 1..=8 {
            for (place, (name, median)) in (0..).zip(systems) {
                let cell = &mut result(&mut manifest, name, round, &[(1024, 1000.0)]).cells[0];
                let mut trial = fixture::trial(LOAD, 1000);
                let wobble = 1.0 + 0.01 * f64::from((round + place) % 3);
                put_times(&mut trial, &Stream::all(), Figure::Response, (1000, median * wobble));
                put_costs(&mut trial);
                cell.trials = vec![trial];
            }
        }
        manifest
    }

    fn page(choice: &Choice) -> String {
        fixture::text(&choice.document).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_fastest_leads_and_ties_have_one_rank() {
        let choice = choose(&manifest(&[("mq", 3e6), ("uds", 1e6), ("tcp", 1e6)]), &WISH).unwrap();
        let text = page(&choice);
        assert!(
            choice.has_answer && text.starts_with("Which transport for 1k at 30 /s to 1 subscriber? (8 rounds"),
            "{text}"
        );
        assert!(text.contains("No difference seen between ") && text.contains("; the next is mq/one, ×2.9"), "{text}");
        let Block::Table(table) = &choice.document.blocks[1] else { panic!() };
        let ranks: Vec<&Cell> = table.rows.iter().map(|(_, cells)| &cells[0]).collect();
        assert_eq!(ranks, [&Cell::text("1"), &Cell::text("1"), &Cell::text("3")]);
        let choice = choose(&manifest(&[("mq", 3e6), ("uds", 1e6)]), &WISH).unwrap();
        let text = page(&choice);
        assert!(text.contains("uds/one: p99 2.02 ms (2.00 ms to 2.04 ms); no other is within ×2.9"), "{text}");
    }

    #[test]
    fn what_fails_a_limit_is_named_with_value_and_limit() {
        let mut measured = manifest(&[("mq", 3e6), ("uds", 1e6)]);
        let wish = Wish { max_latency_ns: Some(5e6), ..WISH };
        let text = page(&choose(&measured, &wish).unwrap());
        assert!(text.contains("FAILED: mq/one: p99 6.06 ms, limit 5.00 ms (--max-latency)"), "{text}");
        assert!(text.ends_with("; nothing else meets the limits."), "{text}");
        let choice = choose(&measured, &Wish { max_cpu: Some(0.02), ..WISH }).unwrap();
        assert!(!choice.has_answer, "{choice:?}");
        let text = page(&choice);
        assert!(text.contains("FAILED: uds/one: CPU ") && text.contains(" limit 2 % (--max-cpu)"), "{text}");
        assert!(text.contains("Nothing meets the limits; uds/one has the least latency"), "{text}");
        let trial = fixture::trial_of(&mut measured, 1);
        fixture::put(trial, &[(Figure::Lost, 1.0)]);
        let text = page(&choose(&measured, &WISH).unwrap());
        assert!(text.contains("FAILED: uds/one: loss 0.01") && text.contains(" (1 of 8000), limit 0 %"), "{text}");
        fixture::trial_of(&mut measured, 3).rate_missed = true;
        let text = page(&choose(&measured, &Wish { max_loss: 0.1, ..WISH }).unwrap());
        assert!(text.contains("it missed the rate") && text.contains("mq/one: p99"), "{text}");
    }

    #[test]
    fn what_is_not_here_or_cannot_do_it_is_named_once_for_each_reason() {
        let mut measured = manifest(&[("uds", 1e6)]);
        let why = |name: &str| format!("transport '{name}': it reaches 1 follower");
        measured.plan.left_out = vec![why("mq"), why("pipe"), "shm as the floor".to_owned()];
        measured.plan.not_installed = vec!["ecal".to_owned()];
        let text = page(&choose(&measured, &WISH).unwrap());
        assert!(text.contains("cannot do it: mq, pipe: it reaches 1 follower"), "{text}");
        assert!(
            text.contains("cannot do it: shm as the floor") && text.contains("not installed: ecal; `tripmeter"),
            "{text}"
        );
    }

    #[test]
    fn one_workload_is_ranked_and_another_is_refused() {
        let measured = manifest(&[("uds", 1e6)]);
        let other = Wish { payload_bytes: Some(64), ..WISH };
        assert!(choose(&measured, &other).unwrap_err().contains("nothing of this workload"));
        let mut several = measured.clone();
        let cells = &mut several.sub_experiments[0].cells;
        let large = tripmeter_model::manifest::PayloadResult { payload_bytes: 2048, ..cells[0].clone() };
        cells.push(large);
        assert!(choose(&several, &WISH).unwrap_err().contains("several payloads: 1k, 2k; choose one (--payload)"));
        assert!(choose(&several, &Wish { payload_bytes: Some(1024), ..WISH }).is_ok());
    }
}
