//! Page of `choose`: a ranking with intervals, what fails the limits and why, and the answer.

mod answering;
mod limits;
mod wish;

pub use wish::Wish;

use crate::curves::Panel;
use crate::document::{Block, Cell, Column, Digits, Document, Missing, Note, Table};
use crate::labels::load_text;
use crate::measured::MeasuredSide;
use crate::merged::Merged;
use crate::number::counted;
use crate::results::NamedResults;
use crate::tables::costs;
use crate::tables::row::TableRow;
use crate::values::{Seen, Value, lead, listed};
use crate::verdicts::quotient_outside;
use crate::{hosts, queues, run_notes};
use answering::LATENCY;
use limits::{JudgedTransport, Standing, time, written};
use tripmeter_analysis::Row;
use tripmeter_analysis::derived::{self, Each};
use tripmeter_analysis::table::samples_for;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::group::by_key;
use tripmeter_model::manifest::{Manifest, PayloadResult};
use tripmeter_model::metric::{Process, Stream};
use tripmeter_model::payload::display_size;
use tripmeter_stats::multiplicity::{discoveries, level_of};
use tripmeter_stats::order::median_p;
use tripmeter_stats::proportion::{self, Proportion};
use tripmeter_stats::rounds::{ALPHA, interval_over_rounds};
use tripmeter_stats::shift::fewest_pairs;
use tripmeter_stats::{ErrorBounds, median};

/// Maximum width of a line.
const COLUMNS: u16 = 80;

/// Outcome of `choose`.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Ranking, transports that are not in it with the reason, and the answer.
    pub document: Document,
    /// True if any transport meets the limits.
    pub has_answer: bool,
}

/// Ranks the transports of results for one workload.
///
/// # Errors
/// If the results lack that workload, with the workloads that they have and a command that measures it; or if they have
/// several.
pub fn choose(manifest: &Manifest, wish: &Wish) -> Result<Choice, String> {
    let side = MeasuredSide::new(&NamedResults { name: "", manifest });
    let rows = answering::rows(&side, wish)?;
    let panel = Panel::of_rows(&side, LATENCY, &rows);
    let planned = || manifest.plan.sub_experiments.first()?.payloads.first().copied();
    let payload = rows.first().map(|row| row.payload_bytes).or_else(planned).unwrap_or(0);
    let mut judged: Vec<JudgedTransport<'_>> =
        panel.besides_floor().filter_map(|curve| JudgedTransport::new(&side, curve, payload, wish)).collect();
    judged.sort_by(|a, b| a.standing().cmp(&b.standing()).then(a.value.value.total_cmp(&b.value.value)));
    for group in judged.chunk_by_mut(|a, b| a.standing() == b.standing()) {
        lead(group, |one, first| ratio([one, first], payload, wish, ALPHA));
    }
    let mut ranking = Ranking { panel: &panel, rows: &rows, payload, wish, judged: &judged, level: ALPHA };
    ranking.level = ranking.level_of_ratios();
    let level = ranking.level;
    // Transports are ranked, and their rows sorted, by the ratio to the first, round by round.
    let is_first = |one: &JudgedTransport<'_>| one.row == judged[0].row;
    let place = |one: &JudgedTransport<'_>| {
        let ratio = ratio([one, &judged[0]], payload, wish, level);
        let differs = ratio.is_none_or(|ratio| ratio.seen() != Seen::NoDifference);
        let value = ratio.map_or(f64::INFINITY, |ratio| ratio.value);
        if is_first(one) { (one.standing(), false, f64::NEG_INFINITY) } else { (one.standing(), differs, value) }
    };
    let places: Vec<_> = judged.iter().map(place).collect();
    let mut ordered: Vec<_> = judged.into_iter().zip(places).collect();
    ordered.sort_by(|(_, a), (_, b)| (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)));
    let judged: Vec<JudgedTransport<'_>> = ordered.into_iter().map(|(one, _)| one).collect();
    let ranking = Ranking { panel: &panel, rows: &rows, payload, wish, judged: &judged, level };
    let mut blocks = vec![Block::Text(ranking.question(&side))];
    if !judged.is_empty() {
        blocks.push(Block::Table(ranking.table(&side)));
        blocks.push(Block::Table(ranking.costs(&side)));
    }
    let notes = ranking.notes(&side);
    blocks.extend(Block::notes(notes));
    blocks.push(Block::Text(ranking.answer()));
    let has_answer = !ranking.those(Standing::Met).is_empty();
    Ok(Choice { document: Document { blocks }, has_answer })
}

/// Ratio to the latency of another, in each round.
fn ratios(one: &JudgedTransport<'_>, other: &JudgedTransport<'_>, payload: u64, wish: &Wish) -> Option<Each> {
    let [ours, theirs] = [one, other].map(|of| of.curve.rounds(payload, wish.by));
    Some(derived::ratio(&ours?, &theirs?))
}

/// Median of the ratios by round, with its interval; with too few rounds for one, the ratio of the latencies.
fn ratio(of: [&JudgedTransport<'_>; 2], payload: u64, wish: &Wish, level: f64) -> Option<Value> {
    let Each { values, errors, .. } = ratios(of[0], of[1], payload, wish)?;
    let interval = interval_over_rounds(&values, errors, level).filter(|interval| interval.high.is_finite());
    let of_latencies = of[0].value.value / of[1].value.value;
    let value = if interval.is_some() { median(&values)? } else { of_latencies };
    Some(Value { value, interval, rounds: values.len() })
}

struct Ranking<'a> {
    panel: &'a Panel<'a>,
    /// Rows that answer the question, even if no message arrived.
    rows: &'a [Row],
    payload: u64,
    wish: &'a Wish,
    /// Transports by standing, then by latency.
    judged: &'a [JudgedTransport<'a>],
    /// Ratios have intervals at a confidence of 1 - `level`.
    level: f64,
}

impl<'a> Ranking<'a> {
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

    /// Level of the intervals of all ratios to the first, corrected for the number of comparisons.
    fn level_of_ratios(&self) -> f64 {
        let Some((first, others)) = self.judged.split_first() else { return ALPHA };
        // Two clocks add an error to the ratios: test the value nearest to their median that is still no difference.
        let p_of = |Each { values, errors, .. }: Each| {
            let nearest = median(&values)?.clamp(1.0 - errors.above, 1.0 + errors.below);
            Some(median_p(&values, nearest))
        };
        let p = |one| ratios(one, first, self.payload, self.wish).and_then(p_of).unwrap_or(1.0);
        let p: Vec<f64> = others.iter().map(p).collect();
        level_of(discoveries(&p, ALPHA), p.len().max(1), ALPHA)
    }

    /// Ratio to the latency of another, with an interval if there are enough rounds.
    fn ratio(&self, one: &JudgedTransport<'_>, other: &JudgedTransport<'_>) -> Option<Value> {
        ratio([one, other], self.payload, self.wish, self.level)
    }

    fn is_like(&self, one: &JudgedTransport<'_>, other: &JudgedTransport<'_>) -> bool {
        self.ratio(one, other).is_some_and(|ratio| ratio.seen() == Seen::NoDifference)
    }

    /// Transports of a standing, the fastest first.
    fn those(&self, standing: Standing) -> &'a [JudgedTransport<'a>] {
        let first = self.judged.partition_point(|one| one.standing() < standing);
        let next = self.judged.partition_point(|one| one.standing() <= standing);
        &self.judged[first..next]
    }

    /// Ranks of the transports that meet the limits. Rank 1 is shared by all without a measurable difference from the
    /// first. Each further group shares the place of its first member. Empty if a ratio has no interval.
    fn ranks(&self) -> Vec<usize> {
        let met = self.those(Standing::Met);
        let (mut ranks, mut leader) = (Vec::new(), 0);
        for (place, one) in met.iter().enumerate() {
            let ratio = self.ratio(one, &met[0]).map_or(Seen::Unknown, Value::seen);
            if place > 0 && ratio == Seen::Unknown {
                return Vec::new();
            }
            let is_first = place == 0 || ratio == Seen::NoDifference;
            if !is_first && (leader == 0 || !self.is_like(one, &met[leader])) {
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
        let unclear = if self.those(Standing::Unclear).is_empty() { "" } else { "unclear: they may be met or not" };
        let columns = vec![
            Column {
                is_right: true,
                ..Column::words(
                    "rank",
                    "rank",
                    "among transports that meet the limits; equal numbers mean no measurable difference; - too few \
                     rounds",
                )
            },
            Column::words("transport", "transport", "").at_most(26),
            latency(by.id(), by.id(), "this percentile of the latency; median over rounds"),
            Column {
                is_right: true,
                ..Column::words(
                    "ratio",
                    "ratio\nby round",
                    "latency divided by that of the first, round by round: the median; the ranking uses it",
                )
            },
            Column::numbers(
                "loss",
                "loss",
                "%",
                Digits::Percent,
                "share of sent messages that were lost, late or damaged",
            ),
            share("publisher_cpu", "CPU\npub", "CPU time of the publisher; 100 % = one CPU"),
            share("subscribers_cpu", "CPU\nsubs", "CPU time of all subscribers together; 100 % = one CPU"),
            memory("publisher_memory", "mem\npub", "peak memory of the publisher, including our samples"),
            memory("subscriber_memory", "mem\nsub", "peak memory of one subscriber, including our samples"),
            Column::words("limits", "limits", unclear),
        ];
        let ranks = self.ranks();
        let rows = (0..self.judged.len()).map(|place| (Some(self.judged[place].row), self.cells(side, place, &ranks)));
        Table::new(String::new(), columns, rows.collect()).within(COLUMNS)
    }

    fn costs(&self, side: &MeasuredSide<'_>) -> Table {
        let rows = self.judged.iter().map(|one| (TableRow::new(side, one.row), &*one.curve.label));
        costs::table(rows, ["publisher", "subscribers"]).within(COLUMNS)
    }

    fn cells(&self, side: &MeasuredSide<'_>, place: usize, ranks: &[usize]) -> Vec<Cell> {
        let one = &self.judged[place];
        let rank = match (one.standing(), ranks.get(place)) {
            (Standing::Met, Some(rank)) => Cell::text(rank.to_string()),
            (Standing::Met, None) => Cell::Missing(Missing::NotMeasured),
            _ => Cell::NOTHING,
        };
        let number = |value: Value| Cell::Number { value: value.value, interval: value.interval, mark: "" };
        let ratio = match self.ratio(one, &self.judged[0]) {
            _ if place == 0 || one.standing() == Standing::NotRanked => Cell::NOTHING,
            Some(ratio) => Cell::Ratio { value: ratio.value, interval: ratio.interval },
            None => Cell::Missing(Missing::NotMeasured),
        };
        let memory = |process: Process| {
            Cell::from_rounds(side.metrics.get(
                one.row,
                &Stream::process(process),
                Figure::PeakMemory,
                Statistic::Value,
            ))
        };
        let loss = one.lost.as_deref().map(proportion::sum);
        let loss = loss.map_or(Cell::Missing(Missing::NotMeasured), |Proportion { events, of }| Cell::Share {
            events,
            of,
            interval: None,
        });
        vec![
            rank,
            Cell::text(&one.curve.label),
            number(one.value),
            ratio,
            loss,
            Cell::over(&one.cpu[0], ErrorBounds::NONE),
            Cell::over(&one.cpu[1], ErrorBounds::NONE),
            memory(Process::Leader),
            memory(Process::Follower),
            Cell::text(one.standing().to_string()),
        ]
    }

    /// Notes on transports that failed, that did not run, or that are not installed.
    fn notes(&self, side: &MeasuredSide<'_>) -> Vec<Note> {
        let (plan, by) = (&side.manifest.plan, self.wish.by);
        let failed = self.those(Standing::Failed).iter().map(|one| {
            let text = format!("FAILED: {}: {}", one.curve.label, one.fails.join("; "));
            Note::error("limits", text)
        });
        let mut notes: Vec<Note> = failed.chain(run_notes::outcomes(&side.subs)).collect();
        let left_out_floors: Vec<&str> = match self.panel.leaves_out_floor() {
            true => {
                self.panel.curves.iter().filter(|one| one.is_floor()).map(|one| &*one.merged().planned.name).collect()
            }
            false => Vec::new(),
        };
        let has_row =
            |sub: &&Merged<'_>| self.judged.iter().any(|one| one.curve.merged().planned.name == sub.planned.name);
        let meant = (0..).zip(&side.subs).filter(|(index, _)| self.rows.iter().any(|row| row.sub == *index));
        let silent = meant.map(|(_, sub)| sub).filter(|sub| !has_row(sub));
        let is_floor =
            |sub: &&Merged<'_>| sub.planned.added_as_floor || left_out_floors.contains(&sub.planned.name.as_str());
        let silent = silent.filter(|sub| !is_floor(sub) && sub.unfinished().is_empty());
        notes.extend(silent.map(|sub| {
            let cells = sub.results.iter().flat_map(|result| &result.cells);
            let why = cells.map(PayloadResult::why_silent).next().unwrap_or("no message was answered or arrived");
            Note::error("limits", format!("FAILED: {}: {why}", sub.planned.transport))
        }));
        notes.extend(self.those(Standing::Unclear).iter().map(|one| {
            let (label, doubts) = (&one.curve.label, one.doubts.join("; "));
            Note::warning("limits", format!("UNDECIDED: {label}: {doubts}"))
        }));
        notes.extend(self.modes().map(|text| Note::warning("medians and ratio differ", text)));
        notes.extend(self.too_few_rounds().map(|text| Note::warning("too few rounds", text)));
        notes.extend(self.too_few(by).map(|text| Note::warning("too few messages", text)));
        let capped = self.judged.iter().filter_map(JudgedTransport::capped);
        notes.extend(capped.map(|text| Note::warning("fewer samples than planned", text)));
        let meant = self.judged.iter().map(|one| one.curve.merged().planned);
        let mut shared: Vec<String> = meant.filter_map(|planned| plan.shared_cpus(planned)).collect();
        shared.dedup();
        notes.extend(shared.into_iter().map(|text| Note::warning("shared CPUs", text)));
        notes.extend(queues::notes(&side.subs));
        notes.extend(answering::notes(side, self.rows));
        notes.extend(hosts::notes(side.manifest, &side.metrics));
        let floors = self.panel.curves.iter().filter(|one| left_out_floors.contains(&&*one.merged().planned.name));
        notes.extend(floors.map(|floor| {
            let value = floor.value(self.payload, by).map(|value| format!(", {by} {}", time(value.value)));
            let text =
                format!("not ranked: {} (the floor: our own shared memory){}", floor.label, value.unwrap_or_default());
            Note::info("not ranked", text)
        }));
        let (missing, unable): (Vec<String>, Vec<String>) =
            plan.left_out.iter().cloned().partition(|line| plan.missing.contains(line));
        let missing = missing.into_iter().map(|line| format!("NOT MEASURED: {line}"));
        notes.extend(missing.map(|text| Note::warning("not measured", text)));
        let absent = left_out(&unable).into_iter().chain(plan.not_installed());
        notes.extend(absent.map(|text| Note::info("not measured", text)));
        notes
    }

    /// Note if there are too few rounds for a ranking, or for intervals of the figures with limits.
    fn too_few_rounds(&self) -> Option<String> {
        // Where nothing is ranked, more rounds would not help.
        let ranked = self.judged.iter().filter(|one| one.standing() != Standing::NotRanked);
        let rounds = ranked.map(|one| one.value.rounds).min()?;
        let (needed, needed_by_ratios) = (fewest_pairs(ALPHA) as usize, fewest_pairs(self.level) as usize);
        let has = counted(rounds, "round");
        if rounds < needed {
            return Some(format!(
                "{has}: too few for confidence intervals, so the answer may change if you repeat it; use --rounds \
                 {needed} or more"
            ));
        }
        (rounds < needed_by_ratios).then(|| {
            let transports = counted(self.judged.len(), "transport");
            format!(
                "{has}: too few to rank {transports}, as some may differ by chance; use --rounds {needed_by_ratios}"
            )
        })
    }

    /// Notes on ratios that differ from the quotient of the medians.
    fn modes(&self) -> impl Iterator<Item = String> {
        self.judged.iter().skip(1).filter_map(|one| {
            let (first, ratio) = (&self.judged[0], self.ratio(one, &self.judged[0])?);
            let quotient = quotient_outside([first.value.value, one.value.value], ratio.interval)?;
            let (digits, label) = (Digits::Significant(3), &one.curve.label);
            Some(format!(
                "{label}: its median is ×{} of the first's, but ×{} round by round, because rounds fall into two \
                 groups; the rank uses the latter",
                digits.write(quotient),
                digits.write(ratio.value)
            ))
        })
    }

    /// Note if rounds have too few messages for the percentile.
    fn too_few(&self, by: Statistic) -> Option<String> {
        let needed = samples_for(by)? as f64;
        let rounds = self.judged.iter().filter_map(|one| one.curve.rounds(self.payload, Statistic::N));
        let fewest = rounds.flat_map(|rounds| rounds.values.to_vec()).fold(f64::INFINITY, f64::min);
        (fewest < needed).then(|| {
            format!(
                "with only {fewest} messages per round, {by} has no upper bound; at least {needed} are needed (-n, \
                 --budget)"
            )
        })
    }

    /// Answer in a sentence: the best transport that meets the limits, else the best that may meet them, else of all.
    fn answer(&self) -> String {
        let standings = [Standing::Met, Standing::Unclear, Standing::Failed];
        let Some(([first, others @ ..], standing)) =
            standings.map(|one| (self.those(one), one)).into_iter().find(|(group, _)| !group.is_empty())
        else {
            return match self.those(Standing::NotRanked).is_empty() {
                true => "Nothing was measured.".to_owned(),
                false => "Nothing can be ranked: every transport polled on a shared CPU. Use --wait block or --wait \
                          callback, or more CPUs."
                    .to_owned(),
            };
        };
        let by = self.wish.by;
        let mut text = match standing {
            Standing::Met => self.best(first, others),
            Standing::Unclear => format!(
                "{} Of these, {} Measure longer with -n, --rounds or --budget.",
                undecided(self.those(standing)),
                self.least(first, others)
            ),
            Standing::Failed | Standing::NotRanked => {
                format!("No transport meets the limits; {}", self.least(first, others))
            }
        };
        let beside = |other: Standing| -> Vec<String> {
            let those = self.those(other).iter().filter(|_| other > standing);
            those.filter(|one| self.is_like(one, first)).map(|one| in_a_list(&one.curve.label)).collect()
        };
        let failed = beside(Standing::Failed);
        if !failed.is_empty() {
            let fail = if failed.len() == 1 { "fails" } else { "fail" };
            text += &format!(" {} {fail} a limit, without a measurable difference in {by}.", list(&failed));
        }
        let unclear = self.those(Standing::Unclear);
        if standing == Standing::Met && !unclear.is_empty() {
            text += &format!(" {}", undecided(unclear));
            let alike = beside(Standing::Unclear);
            if !alike.is_empty() {
                text += &format!(" No measurable difference in {by} from {}.", list(&alike));
            }
        }
        text
    }

    /// Sentence on the lowest latency among transports that are not known to meet the limits.
    fn least(&self, first: &JudgedTransport<'_>, others: &[JudgedTransport<'_>]) -> String {
        let (by, latency) = (self.wish.by, with_interval(first.value));
        let alike = others.iter().filter(|one| self.is_like(one, first));
        let alike: Vec<String> = alike.map(|one| in_a_list(&one.curve.label)).collect();
        if alike.is_empty() {
            return format!("{} has the lowest latency: {by} {latency}.", first.curve.label);
        }
        let names = [vec![in_a_list(&first.curve.label)], alike].concat();
        format!("no measurable difference between {}: {by} {latency}.", list(&names))
    }

    /// Sentence on the best transport that meets the limits.
    fn best(&self, first: &JudgedTransport<'_>, others: &[JudgedTransport<'_>]) -> String {
        let (by, latency) = (self.wish.by, with_interval(first.value));
        let label = first.curve.label.as_str();
        if others.is_empty() {
            return format!("{label}: {by} {latency}; no other transport meets the limits.");
        }
        let ratios: Vec<(&str, Value)> =
            others.iter().filter_map(|one| Some((one.curve.label.as_str(), self.ratio(one, first)?))).collect();
        let alike = ratios.iter().filter(|one| one.1.seen() == Seen::NoDifference).map(|one| in_a_list(one.0));
        let alike: Vec<String> = alike.collect();
        let next = ratios.iter().find(|one| one.1.seen() != Seen::NoDifference);
        let next_text = next.map(|(name, ratio)| format!("; the next is {name}, {}", ratio.as_ratio()));
        let next_text = next_text.unwrap_or_default();
        if !alike.is_empty() {
            let names = [vec![in_a_list(label)], alike].concat();
            return format!("No measurable difference between {}: {by} {latency}{next_text}.", list(&names));
        }
        if let Some((_, ratio)) = next.filter(|(_, ratio)| ratio.seen() == Seen::Unknown) {
            return format!("{label} {}: {by} {latency}{next_text}.", ratio.claim("fastest"));
        }
        let lows: Option<Vec<f64>> = ratios.iter().map(|one| Some(one.1.interval?.low)).collect();
        let within = lows
            .and_then(|lows| lows.into_iter().reduce(f64::min))
            .map(|low| format!("; no other is within ×{}", Digits::Significant(3).write(low)));
        format!("{label}: {by} {latency}{}{next_text}.", within.unwrap_or_default())
    }
}

/// Sentence on transports whose intervals contain a limit.
fn undecided(those: &[JudgedTransport<'_>]) -> String {
    let names: Vec<String> = those.iter().map(|one| in_a_list(&one.curve.label)).collect();
    format!("Undecided: {} may or may not meet the limits.", list(&names))
}

fn list(names: &[String]) -> String {
    listed(&names.iter().map(String::as_str).collect::<Vec<_>>())
}
/// Transports that cannot carry the workload, a line for each reason.
fn left_out(lines: &[String]) -> Vec<String> {
    let reasons = lines.iter().map(|line| {
        let named = line.strip_prefix("transport '").and_then(|rest| rest.split_once("': "));
        named.map_or((line.as_str(), ""), |(name, why)| (why, name))
    });
    let line = |(why, names): (&str, Vec<&str>)| match names.join(", ").as_str() {
        "" => format!("cannot carry this workload: {why}"),
        names => format!("cannot carry this workload: {names}: {why}"),
    };
    by_key(reasons).into_iter().map(line).collect()
}

/// Converts `shm/ring, block` to `shm/ring (block)`.
fn in_a_list(label: &str) -> String {
    label.split_once(", ").map_or(label.to_owned(), |(name, rest)| format!("{name} ({rest})"))
}

fn with_interval(value: Value) -> String {
    time(value.value) + &written(value.interval, time)
}

#[cfg(test)]
mod tests;
