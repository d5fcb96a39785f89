//! Notes on measurements between hosts.

use crate::document::{Note, Severity};
use crate::number::significant;
use tripmeter_analysis::{MetricTable, Row};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::Manifest;
use tripmeter_model::metric::Stream;
use tripmeter_model::plan::SubExperiment;

/// Kinds of these notes.
pub const KINDS: [&str; 4] = ["hosts", "clocks too far apart", "network", "two clocks"];

/// Notes on the hosts, the error of their clocks, and the latencies that are left out because of it.
pub fn notes(manifest: &Manifest, metrics: &MetricTable) -> Vec<Note> {
    let hosts = &manifest.environment.hosts;
    let Some(first) = hosts.first() else { return Vec::new() };
    let micros = |ns: f64| format!("{} µs", significant(ns / 1e3, 3, 3));
    let names = hosts.iter().map(|host| format!("'{}' ({}, {})", host.to, host.name, host.there.address));
    let text = format!("between this host ({}) and {}", first.here.address, names.collect::<Vec<_>>().join(", "));
    let mut all = vec![Note::info(KINDS[0], text)];
    let has_latencies = |row: &Row| {
        let planned = manifest.plan.sub_experiments.iter().find(|sub| sub.name == metrics.sub(*row));
        planned.is_some_and(SubExperiment::records_arrivals)
    };
    let without = |row: Row, why: String| {
        let (sub, at) = (metrics.sub(row), metrics.at_size(row));
        let text = format!("{sub} {at}: NO ONE-WAY LATENCY: {why}");
        Note::new(Severity::Warning, KINDS[1], Some(row), text)
    };
    for row in metrics.all_rows().filter(has_latencies) {
        let known = metrics.get(row, &Stream::all(), Figure::ClockError, Statistic::Value);
        let is_known = |round| known.is_some_and(|known| known.at(round).is_some());
        if metrics.trials(row).iter().any(|(round, _)| !is_known(*round)) {
            all.push(without(row, "a follower ended before its clock was read again".to_owned()));
        }
    }
    let (most_ns, mut largest_ns) = (manifest.plan.max_clock_error_ns as f64, 0.0_f64);
    for error in metrics.select(|key| key.figure == Figure::ClockError) {
        if metrics.stream(error.key) != &Stream::all() {
            continue;
        }
        let (row, ns) = (error.key.row, error.folded());
        if ns <= most_ns || !has_latencies(&row) {
            largest_ns = largest_ns.max(ns);
            continue;
        }
        let (ns, most) = (micros(ns), micros(most_ns));
        let why = format!("the clock error between the hosts is {ns}, above the limit of {most} (--max-clock-error)");
        all.push(without(row, why));
    }
    for (host, network, where_) in
        hosts.iter().flat_map(|host| [(host, &host.here, "here"), (host, &host.there, "there")])
    {
        let counted: Vec<String> = network.counted().iter().map(|(name, count)| format!("{name} {count}")).collect();
        if !counted.is_empty() {
            let (to, name, counted) = (&host.to, &network.interface, counted.join(", "));
            let text = format!("'{to}', {name} {where_}: {counted} during the measurement, counting all programs");
            all.push(Note::info(KINDS[2], text));
        }
    }
    if largest_ns > 0.0 {
        let apart = micros(largest_ns);
        let text =
            format!("times from host to host use two clocks with an error of up to {apart}; all intervals include it");
        all.push(Note::info(KINDS[3], text));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use tripmeter_analysis::MetricTable;
    use tripmeter_model::manifest::{HostEnvironment, Network};

    #[test]
    fn hosts_and_the_error_of_their_clocks_are_named_and_too_large_a_one_is_a_warning() {
        let mut manifest = fixture::manifest();
        assert!(notes(&manifest, &MetricTable::from_manifest(&manifest)).is_empty());
        let [to, name] = ["lab", "h1"].map(str::to_owned);
        let environment = Box::new(manifest.environment.clone());
        let at =
            |address: &str| Network { interface: "eth0".to_owned(), address: address.to_owned(), ..Network::default() };
        let (here, mut there) = (at("10.0.0.2"), at("10.0.0.1"));
        there.after.insert("rx_dropped".to_owned(), 3);
        manifest.environment.hosts = vec![HostEnvironment { to, name, environment, here, there }];
        manifest.plan.max_clock_error_ns = 5000;
        fixture::add(&mut manifest, "tcp", "tcp/loopback", &[64]);
        fixture::result(&mut manifest, "tcp", 1, &[(64, 10_000.0)]);
        fixture::put(fixture::trial_of(&mut manifest, 0), &[(Figure::ClockError, 4757.0)]);
        let texts = |manifest: &Manifest| -> Vec<String> {
            notes(manifest, &MetricTable::from_manifest(manifest)).into_iter().map(|note| note.text).collect()
        };
        assert_eq!(
            texts(&manifest),
            [
                "between this host (10.0.0.2) and 'lab' (h1, 10.0.0.1)",
                "'lab', eth0 there: rx_dropped 3 during the measurement, counting all programs",
                "times from host to host use two clocks with an error of up to 4.76 µs; all intervals include it"
            ]
        );
        manifest.plan.max_clock_error_ns = 1000;
        assert!(texts(&manifest)[2].contains("an error of up to 4.76 µs"), "rates have no limit");
        manifest.plan.sub_experiments.last_mut().unwrap().one_way = true;
        assert!(texts(&manifest)[1].contains(
            "at 64: NO ONE-WAY LATENCY: the clock error between the hosts is 4.76 µs, above the limit of 1.00 µs"
        ));
        fixture::trial_of(&mut manifest, 0).remove(&Stream::all(), Figure::ClockError);
        assert_eq!(
            texts(&manifest)[1],
            "tcp at 64: NO ONE-WAY LATENCY: a follower ended before its clock was read again"
        );
    }
}
