//! Results and verdicts in the formats of other programs: JUnit XML, workflow commands of GitHub, Bencher's metrics and
//! OpenMetrics.

mod bencher;
mod exported;
mod github;
mod junit;
mod openmetrics;

pub use bencher::bencher;
pub use exported::ExportInput;
pub use github::{github_commands, github_summary};
pub use junit::junit;
pub use openmetrics::openmetrics;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, add, result, set_trips};
    use crate::results::NamedResults;
    use tripmeter_model::Wait;
    use tripmeter_model::figure::Figure;
    use tripmeter_model::manifest::{Manifest, RunStatus};

    #[test]
    fn a_percentile_without_a_bound_is_none_in_any_format() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "mq", "mq/queue", &[1024]);
        result(&mut manifest, "mq", 1, &[(1024, 1000.0)]);
        for (samples, is_bound) in [(298, false), (299, true)] {
            set_trips(&mut manifest.sub_experiments[0].cells[0], samples);
            let results = [NamedResults { name: "r", manifest: &manifest }];
            let metrics = &bencher(&results).0["mq at 1k"];
            assert_eq!((metrics["latency"].is_object(), metrics["rtt-half-ns-p99"].is_object()), (true, is_bound));
            let summary = github_summary(&ExportInput { results: &results, verdict: None });
            assert_eq!(!summary.contains("| too few samples |"), is_bound, "{summary}");
            let suites = junit(&ExportInput { results: &results, verdict: None });
            assert_eq!(suites.contains("rtt_half_ns.p99\""), is_bound, "{suites}");
            let gauges = openmetrics(&results).0;
            assert_eq!(gauges.contains("statistic=\"p99\""), is_bound, "{gauges}");
            assert!(suites.contains("rtt_half_ns.p50") && gauges.contains("statistic=\"p50\""));
        }
    }

    /// Texts of each format on the payload 1k of a sub-experiment: JUnit, annotations, summary, and Bencher with its notes.
    fn exported(manifest: &Manifest) -> ([String; 3], bool, Vec<String>) {
        let results = [NamedResults { name: "r", manifest }];
        let input = ExportInput { results: &results, verdict: None };
        let (metrics, left_out) = bencher(&results);
        let texts = [junit(&input), github_commands(&input), github_summary(&input)];
        (texts, metrics.as_object().is_some_and(|metrics| !metrics.is_empty()), left_out)
    }

    #[test]
    fn what_was_not_measured_as_planned_passes_in_no_format() {
        let mut whole = fixture::manifest();
        add(&mut whole, "mq", "mq/queue", &[1024]);
        result(&mut whole, "mq", 1, &[(1024, 1000.0)]);
        let ([suites, commands, summary], is_in_bencher, left_out) = exported(&whole);
        assert!(!suites.contains("<failure") && commands.is_empty() && is_in_bencher && left_out.is_empty());
        assert!(summary.contains("| passed |"), "{summary}");
        let changed = |change: fn(&mut Manifest)| {
            let mut manifest = whole.clone();
            change(&mut manifest);
            exported(&manifest)
        };

        let ([suites, commands, summary], is_in_bencher, left_out) = changed(|manifest| {
            let cell = &mut manifest.sub_experiments[0].cells[0];
            (cell.samples, cell.cut_short) = (0, Some("time cap: 0 of 1 offered loads".into()));
            cell.trials.clear();
        });
        let why = "1k: time cap: 0 of 1 offered loads";
        assert!(suites.contains(&format!("<skipped message=\"{why}\"")) && !suites.contains("<failure"), "{suites}");
        assert!(commands.starts_with("::error title=mq at 1k::incomplete: 1k: time cap"), "{commands}");
        assert!(summary.contains(&format!("| incomplete: {why} |")), "{summary}");
        assert_eq!((is_in_bencher, left_out), (false, vec![format!("mq at 1k: {why}")]));

        let ([suites, commands, summary], _, left_out) = changed(|manifest| {
            manifest.plan.missing.push("transport 'tcp': no address can be bound".to_owned());
        });
        let why = "it was not measured: no address can be bound";
        assert_eq!(suites.matches(&format!("<skipped message=\"{why}\"")).count(), 2, "{suites}");
        assert_eq!(commands, format!("::error title=tcp at all payloads::incomplete: {why}\n"));
        assert!(summary.contains(&format!("| incomplete: {why} |")), "{summary}");
        assert_eq!(left_out, [format!("tcp at all payloads: {why}")]);

        let (_, is_in_bencher, left_out) = changed(|manifest| {
            (manifest.plan.leader_cpu, manifest.plan.follower_cpu) = (Some(1), Some(1));
            manifest.plan.sub_experiments[0].wait = Wait::Poll;
        });
        assert!(!is_in_bencher && left_out[0].contains("share CPU 1 and poll"), "{left_out:?}");

        let ([suites, commands, summary], is_in_bencher, left_out) = changed(|manifest| manifest.plan.rounds = 2);
        let why = "it did not finish: 1 of 2 rounds";
        assert!(suites.contains("<failure type=\"run\"") && commands.contains(why), "{suites} {commands}");
        assert!(summary.contains(why) && !is_in_bencher && left_out[0].ends_with(why), "{summary} {left_out:?}");

        let ([suites, commands, summary], is_in_bencher, left_out) = changed(|manifest| {
            let result = &mut manifest.sub_experiments[0];
            result.status = RunStatus::Interrupted;
            (result.cells[0].samples, result.cells[0].cut_short) = (932, Some("interrupted".into()));
        });
        let why = "1k: interrupted, 932 of 10000 samples";
        assert!(suites.contains("type=\"run\"") && suites.contains(&format!("message=\"{why}\"")), "{suites}");
        assert!(commands.starts_with("::error title=mq::it did not finish: 0 of 1 payloads"), "{commands}");
        assert!(summary.contains(&format!("| {why} |")) && !summary.contains("passed"), "{summary}");
        assert_eq!((is_in_bencher, left_out), (false, vec![format!("mq at 1k: {why}")]));

        let ([suites, commands, summary], is_in_bencher, left_out) = changed(|manifest| {
            let trial = fixture::trial_of(manifest, 0);
            trial.rate_missed = true;
            fixture::put(trial, &[(Figure::AchievedRate, 834.2), (Figure::OfferedRate, 20_000.0)]);
        });
        let why = "RATE MISSED at 1k closed: 834 of 20000 /s";
        assert!(suites.contains("<failure type=\"payload\"") && suites.contains(why), "{suites}");
        assert!(commands.starts_with("::error title=mq at 1k::RATE MISSED"), "{commands}");
        assert!(summary.contains(why) && !is_in_bencher && left_out[0].contains(why), "{summary}");

        let ([suites, commands, summary], is_in_bencher, left_out) = changed(|manifest| {
            let cell = &mut manifest.sub_experiments[0].cells[0];
            (cell.samples, cell.cut_short) = (500, Some("time cap of 2 s".into()));
        });
        let why = "fewer samples than planned: 1k: time cap of 2 s, 500 of 10000 samples";
        assert!(
            suites.contains(&format!("<system-out>{why}</system-out>")) && !suites.contains("<failure"),
            "{suites}"
        );
        assert!(commands.starts_with(&format!("::warning title=mq::{why}")), "{commands}");
        assert!(summary.contains("| passed |") && summary.contains(&format!("- mq: {why}")), "{summary}");
        assert!(is_in_bencher && left_out.is_empty());
    }
}
