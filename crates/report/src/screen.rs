//! First screen: at most 80 columns; systems are rows, payloads groups of columns, the best first. The table `all` has
//! all other figures.

mod lines;
pub(crate) mod notes;
mod topics;

use self::lines::{COLUMNS, ScreenPage, is_alike};
use crate::document::{Block, Document};
use crate::fastest;
use crate::floors::Floors;
use crate::measured::MeasuredSide;
use crate::merged::Merged;
use crate::results::NamedResults;
use crate::tables::{self, background};
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::Manifest;
use tripmeter_model::pattern::PATTERNS;

/// A table for each pattern, path proofs, and notes, one line for each kind; with `all_notes`, all of them.
pub fn screen(manifest: &Manifest, all_notes: bool) -> Document {
    let side = MeasuredSide::new(&NamedResults { name: "", manifest });
    let (subs, metrics) = (&side.subs, &side.metrics);
    let floors = Floors::from_subs(subs, is_alike);
    let page = ScreenPage { manifest, subs, metrics, floors };
    let mut blocks = Vec::new();
    for (facts, shown) in PATTERNS.iter().flat_map(|facts| facts.latencies.iter().map(move |shown| (facts, shown))) {
        blocks.extend(page.latencies(facts, shown).map(Block::Table));
        blocks.extend(topics::blocks(&page, facts, shown));
        blocks.extend(fastest::line(&side, |sub| sub.facts() == facts, shown.figure));
    }
    blocks.extend(background::table(&side).map(|table| Block::Table(table.within(COLUMNS))));
    blocks.extend(page.throughput(&tables::stars(&side)).map(Block::Table));
    blocks.extend(fastest::line(&side, |_| true, |_| Figure::ReceivedRate));
    let is_lost = || subs.iter().flat_map(Merged::payloads).any(|cell| cell.is_wholly_lost());
    // If everything was lost, notes say so.
    if blocks.is_empty() && !is_lost() {
        let mut cells = subs.iter().flat_map(|sub| &sub.results).flat_map(|result| &result.cells);
        let is_withheld = !manifest.environment.hosts.is_empty() && cells.any(|cell| cell.samples > 0);
        let text = if is_withheld {
            "There is no latency to show; --wide shows counts and rates."
        } else {
            "Nothing was measured."
        };
        blocks.push(Block::Text(text.to_owned()));
    }
    blocks.extend(page.facts());
    let notes = notes::notes(&side, tables::notes(&side), all_notes);
    blocks.extend(Block::notes(notes));
    Document { blocks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, add, put, result};
    use crate::render::Text;
    use tripmeter_model::Pattern;
    use tripmeter_model::Wait;
    use tripmeter_model::experiment::Mode;
    use tripmeter_model::figure::Statistic;
    use tripmeter_model::manifest::{RunStatus, Verdict};
    use tripmeter_model::metric::Stream;
    use tripmeter_model::pace::OfferedLoad;

    fn text(manifest: &Manifest) -> String {
        Text::default().render(&screen(manifest, false))
    }

    #[test]
    fn systems_are_rows_and_payloads_are_groups_and_the_fastest_is_first() {
        let mut manifest = fixture::manifest();
        let sizes = [1024, 65536, 1 << 20];
        add(&mut manifest, "iox2", "iceoryx2/publish-subscribe", &sizes);
        add(&mut manifest, "uds", "uds/stream", &sizes);
        add(&mut manifest, "shm", "shm/ring", &sizes).added_as_floor = true;
        result(&mut manifest, "iox2", 1, &sizes.map(|size| (size, 516.0)));
        let uds = result(&mut manifest, "uds", 1, &[(1024, 5157.0), (65536, 20_000.0)]);
        put(&mut uds.cells[1].trials[0], &[(Figure::Lost, 2.0)]);
        result(&mut manifest, "shm", 1, &[(1024, 65.0), (65536, 35.0), (1 << 20, 40.0)]);
        let expected = "\
ping

                                    1k         64k          1M
µs, half a round trip        p50   p99   p50   p99   p50   p99 floor
-------------------------------------------------------------------------------
shm/ring                   0.065 0.130 0.035 0.070 0.040 0.080 floor
iceoryx2/publish-subscribe 0.516  1.03 0.516  1.03 0.516  1.03 ×11.5 ▇▇▇▇▇
uds/stream                  5.16  10.3  20.0  40.0     -     -  ×213 ▇▇▇▇▇▇▇▇▇▇

Floor aside, at 1k: iceoryx2/publish-subscribe was fastest, p50 0.516 µs;
  uds/stream is 9.99 times slower (one round, no interval). At 64k:
  iceoryx2/publish-subscribe was fastest, p50 0.516 µs; uds/stream is 38.8 times
  slower (one round, no interval). Use --rounds 6 for confidence intervals.

path proofs: 3 ok

uds at 64k: 2 lost
";
        assert_eq!(text(&manifest), expected);
    }

    #[test]
    fn a_killed_run_tells_how_many_rounds_its_figures_are_of() {
        let mut manifest = fixture::manifest();
        (manifest.plan.rounds, manifest.status) = (3, RunStatus::Running);
        for name in ["uds", "mq"] {
            add(&mut manifest, name, &format!("{name}/x"), &[1024]);
            result(&mut manifest, name, 1, &[(1024, 1000.0)]);
        }
        let killed = |manifest: &mut Manifest, name: &str, round: u32, cells: &[(u64, f64)]| {
            result(manifest, name, round, cells).status = RunStatus::Running;
            text(manifest).lines().next().unwrap().to_owned()
        };
        let title = killed(&mut manifest, "uds", 2, &[]);
        assert_eq!(title, "ping, INCOMPLETE, median of 1 round (3 planned)");
        let title = killed(&mut manifest, "mq", 2, &[(1024, 1000.0)]);
        assert_eq!(title, "ping, INCOMPLETE, median of 1 to 2 rounds (3 planned)");
    }

    #[test]
    fn marked_lines_are_ordered_by_latency() {
        let mut manifest = fixture::manifest();
        let names = ["slow", "slower", "fast", "missed-slow", "missed-fast"];
        for (name, ns) in names.into_iter().zip([3000.0, 4000.0, 2000.0, 2500.0, 1000.0]) {
            add(&mut manifest, name, &format!("{name}/x"), &[1024]);
            let result = result(&mut manifest, name, 1, &[(1024, ns)]);
            match name.strip_prefix("missed") {
                Some(_) => result.cells[0].trials[0].rate_missed = true,
                None => result.path_proof.as_mut().unwrap().verdict = Verdict::Failed,
            }
        }
        let text = text(&manifest);
        let marked: Vec<&str> =
            text.lines().filter(|line| line.contains('!')).filter_map(|line| line.split('/').next()).collect();
        assert_eq!(marked, ["missed-fast", "fast", "missed-slow", "slow", "slower"], "{text}");
    }

    #[test]
    fn lines_tell_what_they_differ_in() {
        let mut manifest = fixture::manifest();
        for (name, wait) in [("poll", Wait::Poll), ("block", Wait::Block)] {
            add(&mut manifest, name, "fastdds/udp?mode=sync&history=16", &[1024]).wait = wait;
            result(&mut manifest, name, 1, &[(1024, 1000.0)]);
        }
        let text = text(&manifest);
        for line in ["fastdds/udp?history=16", "  &mode=sync, poll", "  &mode=sync, block"] {
            assert!(text.lines().any(|found| found.starts_with(line)), "{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn nothing_measured_is_said() {
        assert_eq!(text(&fixture::manifest()), "Nothing was measured.\n");
    }

    #[test]
    fn that_all_was_lost_is_said_once() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "udp", "udp/loopback", &[64]);
        let cell = &mut result(&mut manifest, "udp", 1, &[(64, 1000.0)]).cells[0];
        fixture::set_trips(cell, 0);
        put(&mut cell.trials[0], &[(Figure::Received, 0.0), (Figure::Sent, 200.0), (Figure::Lost, 200.0)]);
        let expected = "\
path proofs: 1 ok

* udp at 64: no message arrived intact and in time: 200 lost; exit code 75,
  unless --allow-loss is given
";
        assert_eq!(text(&manifest), expected);
    }

    #[test]
    fn intervals_do_not_widen_the_screen_and_a_floor_without_a_ratio_is_left_out() {
        let mut manifest = fixture::manifest();
        let sizes = [1024, 65536, 1 << 20];
        add(&mut manifest, "iox2", "iceoryx2/publish-subscribe", &sizes);
        let cells = &mut result(&mut manifest, "iox2", 1, &sizes.map(|size| (size, 51_600.0))).cells;
        for cell in cells {
            let within = [(Statistic::P50, 51_500.0, 51_700.0), (Statistic::P99, 103_000.0, 104_000.0)];
            fixture::put_within(&mut cell.trials[0], Figure::RttHalf, &within);
        }
        let text = Text { has_intervals: true, ..Text::default() }.render(&screen(&manifest, false));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("51.5..") && text.contains("51.7") && !text.contains("floor"), "{text}");
    }

    #[test]
    fn round_trips_at_a_rate_have_a_table_of_each_time_apart_from_the_others() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "plain", "uds/stream", &[1024]);
        result(&mut manifest, "plain", 1, &[(1024, 1000.0)]);
        crate::fixture::add_calls(&mut manifest, "paced", "uds/stream", Mode::FixedFreq, 1);
        manifest.plan.sub_experiments[1].pattern = Pattern::Ping;
        let trial = fixture::trial_of(&mut manifest, 1);
        fixture::put_times(trial, &Stream::all(), Figure::OneWay, (1000, 10e3));
        let text = text(&manifest);
        let titles: Vec<&str> = text.lines().filter(|line| line.starts_with("ping")).collect();
        assert_eq!(titles, ["ping", "ping, 1000 /s", "ping, 1000 /s", "ping, 1000 /s"], "{text}");
        for what in ["half a round trip", "round trip, since due", "round trip, since sent", "one way, since sent"] {
            assert_eq!(text.matches(what).count(), 1, "{text}");
        }
        assert_eq!(text.matches("uds/stream").count(), 4, "{text}");
        let all = fixture::all(&manifest);
        let captions: Vec<&str> = all.lines().filter(|line| line.starts_with("All transports")).collect();
        assert_eq!(
            captions,
            ["All transports, pattern ping", "All transports, pattern ping, at a rate or of several clients"]
        );
    }

    /// Round trips at 1 kHz of these systems, with their medians.
    fn paced(systems: &[(&str, &str, f64)]) -> Manifest {
        let mut manifest = fixture::manifest();
        for (index, (name, transport, median)) in systems.iter().enumerate() {
            crate::fixture::add_calls(&mut manifest, name, transport, Mode::FixedFreq, 1);
            manifest.plan.sub_experiments[index].pattern = Pattern::Ping;
            let trial = fixture::trial_of(&mut manifest, index);
            fixture::put_times(trial, &Stream::all(), Figure::ServiceRtt, (1000, *median));
        }
        manifest
    }

    #[test]
    fn a_missed_rate_is_marked_last_and_not_compared_with_the_floor() {
        let systems = [("mq", "mq/queue", 5e3), ("uds", "uds/stream", 2e3), ("shm", "shm/ring", 1e3)];
        let mut manifest = paced(&systems);
        let table = |manifest: &Manifest| {
            let blocks = screen(manifest, false).blocks.into_iter();
            let mut tables =
                blocks.filter_map(|block| if let Block::Table(table) = block { Some(table) } else { None });
            tables.find(|table| table.columns[0].title.ends_with("since sent")).unwrap()
        };
        let rows = |manifest: &Manifest| {
            let document = Document { blocks: vec![Block::Table(table(manifest))] };
            let text = fixture::squeezed(&Text::default().render(&document));
            text.into_iter().filter(|line| line.contains('/') && !line.contains("1000 /s")).collect::<Vec<_>>()
        };
        let bars = |row: &String| row.trim_end_matches(['▇', ' ']).to_owned();
        let found: Vec<String> = rows(&manifest).iter().map(bars).collect();
        assert_eq!(
            found,
            ["shm/ring 1.00 2.00 floor", "uds/stream 2.00 4.00 ×2.00", "mq/queue 5.00 10.0 ×5.00"],
            "{found:?}"
        );
        fixture::trial_of(&mut manifest, 1).rate_missed = true;
        let found: Vec<String> = rows(&manifest).iter().map(bars).collect();
        assert_eq!(
            found,
            ["shm/ring 1.00 2.00 floor", "mq/queue 5.00 10.0 ×5.00", "uds/stream !2.00 !4.00 -"],
            "{found:?}"
        );
        let csv = crate::render::csv(&table(&manifest));
        let header = "transport,1k_p50,1k_p50_mark,1k_p99,1k_p99_mark,floor,distance";
        assert_eq!(csv.lines().next(), Some(header), "{csv}");
        assert!(csv.lines().last().unwrap().starts_with("uds/stream,2000,!,4000,!,,"), "{csv}");
        let missed = |manifest: &Manifest| {
            let text = fixture::squeezed(&text(manifest)).join(" ");
            assert_eq!(text.matches("RATE MISSED").count(), 1, "{text}");
            text
        };
        let one = missed(&manifest);
        assert!(
            one.contains(" ! uds at 1k, 1000 /s: RATE MISSED: 990 messages /s were sent; 0 of 1000 messages "),
            "{one}"
        );
        let trial = fixture::trial_of(&mut manifest, 0);
        (trial.rate_missed, trial.cut_short) = (true, Some("time cap".into()));
        let both = missed(&manifest);
        assert!(both.contains(" 2 × rate missed: ! mq at 1k, 1000 /s: RATE MISSED: "), "{both}");
        assert!(both.contains(" * mq at 1k, 1000 /s: time cap "), "{both}");
        fixture::trial_of(&mut manifest, 2).rate_missed = true;
        assert!(rows(&manifest).iter().all(|row| row.ends_with(" -") || row.ends_with(" floor")), "{manifest:?}");
    }

    #[test]
    fn calls_time_out_and_fail_and_are_not_lost() {
        let mut manifest = paced(&[("uds", "uds/stream", 2e3)]);
        let counts = tripmeter_model::manifest::Counts {
            sent: 1000,
            received: 989,
            lost: 10,
            late: 4,
            damaged: 1,
            ..Default::default()
        };
        let cell = &mut manifest.sub_experiments[0].cells[0];
        cell.trials[0].put_counts(&Stream::all(), &counts, true);
        (cell.samples, cell.samples_planned) = (989, 1000);
        let page = text(&manifest);
        assert!(page.contains("\nuds at 1k: 10 timed out, 1 failed, 4 answered late\n"), "{page}");
        assert!(page.contains("\nuds at 1k: some timed out or failed\n"), "{page}");
        let counts = tripmeter_model::manifest::Counts { sent: 10, lost: 10, ..Default::default() };
        let mut trial = tripmeter_model::trial::Trial::new(OfferedLoad::Rate { hz: 1000.0 });
        trial.put_counts(&Stream::all(), &counts, true);
        manifest.sub_experiments[0].cells[0].trials[0] = trial;
        let page = fixture::text(&screen(&manifest, true));
        assert!(page.contains("* uds at 1k: no call succeeded: 10 timed out; exit code 75"), "{page}");
        assert_eq!(page.matches("uds at 1k").count(), 1, "{page}");
        assert!(!page.contains(" lost") && !page.contains("damaged"), "{page}");
    }
}
