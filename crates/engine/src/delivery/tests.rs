use super::*;
use tripmeter_model::figure::Statistic;
use tripmeter_model::pace::OfferedLoad;

const PERIOD: f64 = 1000.0;
const PATIENCE: u64 = 50_000;

fn topic(sent: &[u64], arrived: &[u64], marks: &[u8]) -> Topic {
    let schedule = Some(Schedule { first: 10_000, period: PERIOD });
    Topic { schedule, sent: sent.into(), arrived: arrived.to_vec(), marks: marks.to_vec(), requests: Vec::new() }
}

fn tally(raw: Raw) -> Tally {
    Tally::new(Timebase::NANOSECONDS, raw, PATIENCE, 1, PERIOD, 1)
}

#[test]
fn every_message_has_one_fate_and_both_times() {
    let sent = [10_000, 11_500, 12_000, 13_000, 14_000, 15_000];
    let arrived = [10_100, 11_600, 64_000, NEVER, NEVER, 15_200];
    let topic = topic(&sent, &arrived, &[0, OVERTAKEN | AGAIN, 0, 0, DAMAGED, AGAIN]);
    let counted = Arrived { received: 4, duplicated: 2, reordered: 1, damaged: 1, ..Arrived::default() };
    let (mut tally, mut rows) = (tally(Raw::SAMPLES), Vec::new());
    tally.add(&[topic], &[counted], |topic, index, delivery| rows.push((topic, index, delivery.status)));
    let statuses = [
        DeliveryStatus::Ok,
        DeliveryStatus::Reordered,
        DeliveryStatus::Late,
        DeliveryStatus::Lost,
        DeliveryStatus::Damaged,
        DeliveryStatus::Duplicated,
    ];
    assert_eq!(rows, statuses.into_iter().enumerate().map(|(index, status)| (0, index, status)).collect::<Vec<_>>());
    let counts = Counts { sent: 6, received: 3, lost: 1, late: 1, duplicated: 2, reordered: 1, damaged: 1 };
    assert_eq!((tally.counts(), tally.behind, tally.before_sent), (counts, 0, 0));
    let (response, service) = (tally.response.figures().unwrap(), tally.service.figures().unwrap());
    assert_eq!([tally.response.histogram().unwrap().len(), tally.service.histogram().unwrap().len()], [3; 2]);
    assert_eq!((response.min, response.median, response.max), (100.0, 200.0, 600.0));
    assert_eq!((service.min, service.median, service.max), (100.0, 100.0, 200.0));
    assert_eq!(tally.lateness.figures().unwrap().max, 500.0);
}

#[test]
fn the_last_of_several_followers_has_what_all_have_when_the_last_has_it() {
    let sent = [10_000, 11_000, 12_000, 13_000];
    let counted = |received, duplicated, damaged| Arrived { received, duplicated, damaged, ..Arrived::default() };
    let quick = topic(&sent, &[10_100, 11_100, 12_100, 13_100], &[0, AGAIN, 0, 0]);
    // The slow follower lacks the third message, and cannot read the header of another.
    let slow = topic(&sent, &[10_200, NEVER, NEVER, 13_050], &[0, DAMAGED, 0, OVERTAKEN]);
    let each = [(quick, counted(4, 1, 0)), (slow, counted(2, 0, 2))];
    let each = each.map(|(topic, arrived)| Delivered { topics: vec![topic], arrived: vec![arrived] });
    let last = Delivered::at_last(&each.iter().collect::<Vec<_>>());
    assert_eq!(last.topics[0].arrived, [10_200, NEVER, NEVER, 13_100]);
    let mut tally = tally(Raw::SAMPLES);
    tally.add(&last.topics, &last.arrived, |_, _, _| ());
    let counts = Counts { sent: 4, received: 2, lost: 0, duplicated: 1, reordered: 1, damaged: 2, late: 0 };
    assert_eq!((tally.counts(), tally.service.figures().unwrap().max), (counts, 200.0));
}

#[test]
fn each_publisher_has_counts_of_its_own_and_what_is_nobodys_is_in_the_sum() {
    let sent = [10_000, 11_000];
    let late = topic(&sent, &[10_100, 11_001 + PATIENCE], &[0, 0]);
    let lost = topic(&sent, &[NEVER, 11_100], &[0, AGAIN]);
    let mut tally = Tally::new(Timebase::NANOSECONDS, Raw::SAMPLES, PATIENCE, 2, PERIOD, 0);
    let counted = |received, duplicated, damaged| Arrived { received, duplicated, damaged, ..Arrived::default() };
    tally.add(&[late, lost], &[counted(2, 0, 0), counted(1, 1, 0), counted(0, 0, 1)], |_, _, _| ());
    let mut trial = Trial::new(OfferedLoad::Rate { hz: 1e6 });
    tally.put_links(&mut trial, Stream::publisher, usize::MAX, None);
    let of = |index| {
        let publisher = Stream::publisher(index);
        (trial.value(&publisher, Figure::AchievedRate), trial.counts(&publisher))
    };
    assert_eq!(of(0), (Some(1e6), Counts { sent: 2, received: 1, late: 1, ..Counts::default() }));
    assert_eq!(of(1), (Some(1e6), Counts { sent: 2, received: 1, lost: 1, duplicated: 1, ..Counts::default() }));
    let all = Counts { sent: 4, received: 2, late: 1, duplicated: 1, damaged: 1, ..Counts::default() };
    assert_eq!((trial.streams().count(), tally.counts()), (2, all));
}

#[test]
fn what_came_before_it_was_sent_is_in_no_figure() {
    let mut tally = tally(Raw::SAMPLES);
    let counted = Arrived { received: 2, ..Arrived::default() };
    tally.add(&[topic(&[10_000, 11_000], &[9_999, 11_001], &[0, 0])], &[counted], |_, _, _| ());
    assert_eq!((tally.before_sent, tally.counts().received, tally.service.figures().unwrap().min), (1, 2, 1.0));
}

#[test]
fn what_came_at_the_tick_of_its_sending_took_no_time() {
    let mut tally = tally(Raw::SAMPLES);
    let counted = Arrived { received: 1, ..Arrived::default() };
    tally.add(&[topic(&[10_500], &[10_500], &[0])], &[counted], |_, _, _| ());
    let (response, service) = (tally.response.figures().unwrap(), tally.service.figures().unwrap());
    assert_eq!((tally.before_sent, response.max, service.max), (0, 500.0, 0.0));
}

#[test]
fn more_than_a_period_late_is_behind_and_the_patience_is_still_in_time() {
    let mut tally = tally(Raw::NONE);
    let sent = [11_000, 12_001, 13_001];
    tally.add(&[topic(&sent, &sent.map(|sent| sent + 1 + PATIENCE), &[0; 3])], &[], |_, _, _| ());
    assert_eq!((tally.behind, tally.late[0]), (2, 3));
    tally.add(&[topic(&[10_000], &[10_000 + PATIENCE], &[0])], &[], |_, _, _| ());
    assert_eq!((tally.behind, tally.late[0], tally.response.histogram().unwrap().len()), (2, 3, 1));
}

fn rates(tally: &Tally, publishers: u32) -> Vec<f64> {
    let mut trial = Trial::new(OfferedLoad::Max);
    tally.put_links(&mut trial, Stream::publisher, usize::MAX, None);
    (0..publishers).map(|one| trial.value(&Stream::publisher(one), Figure::AchievedRate).unwrap()).collect()
}

#[test]
fn pieces_add_up_and_a_topic_that_sent_nothing_has_no_rate() {
    let mut tally = Tally::new(Timebase::NANOSECONDS, Raw::NONE, PATIENCE, 2, PERIOD, 0);
    let piece = |sent: &[u64]| topic(sent, &vec![NEVER; sent.len()], &vec![0; sent.len()]);
    for _ in 0..2 {
        let counted = Arrived { damaged: 1, ..Arrived::default() };
        tally.add(&[piece(&[10_000, 11_000]), piece(&[])], &[counted], |_, _, _| ());
    }
    assert_eq!(tally.paces.kept(), KeptRate { achieved_hz: 1e6, slowest_hz: 1e6, rate_missed: false });
    assert_eq!((tally.paces.paced_ns(), rates(&tally, 2)), (4000, vec![1e6, 0.0]));
    assert_eq!(tally.counts(), Counts { sent: 4, lost: 2, damaged: 2, ..Counts::default() });
}

#[test]
fn the_rate_is_the_mean_of_all_topics_and_missed_by_the_slowest() {
    let mut tally = Tally::new(Timebase::NANOSECONDS, Raw::NONE, PATIENCE, 2, PERIOD, 0);
    let until = |last: u64| topic(&[10_000, 11_000, 12_000, last], &[NEVER; 4], &[0; 4]);
    // Each topic sent four messages, one in 4 periods and the other in 8.
    tally.add(&[until(13_000), until(17_000)], &[], |_, _, _| ());
    assert_eq!(tally.paces.kept(), KeptRate { achieved_hz: 7.5e5, slowest_hz: 5e5, rate_missed: true });
    assert_eq!(tally.paces.paced_ns(), 8000);
    assert_eq!(rates(&tally, 2), [1e6, 5e5]);
}

#[test]
fn ticks_that_are_no_nanoseconds_become_times_and_rates() {
    let timebase = Timebase { source: crate::clock::ClockSource::Tsc, frequency_hz: 2e9 };
    let mut tally = Tally::new(timebase, Raw::SAMPLES, PATIENCE / 2, 1, PERIOD, 0);
    let calls = topic(&[10_000, 11_000], &[10_300, 11_000 + PATIENCE], &[0, 0]);
    tally.add(&[calls], &[Arrived { received: 2, ..Arrived::default() }], |_, _, _| ());
    let service = tally.service.figures().unwrap();
    assert_eq!((service.min, service.max, tally.counts().late), (150.0, PATIENCE as f64 / 2.0, 0));
    assert_eq!((tally.paces.kept().achieved_hz, tally.paces.paced_ns()), (2e6, 1000));
}

#[test]
fn a_call_that_was_answered_too_late_timed_out() {
    let mut tally = tally(Raw::SAMPLES);
    let calls = topic(&[10_000, 11_000, 12_000, 13_000], &[10_001, 11_001 + PATIENCE, NEVER, NEVER], &[0; 4]);
    let counted = Arrived { received: 2, duplicated: 3, damaged: 1, ..Arrived::default() };
    tally.add(&[calls], &[counted], |_, _, _| ());
    let expected = Counts { sent: 4, received: 1, lost: 2, late: 6, duplicated: 3, reordered: 0, damaged: 1 };
    assert_eq!(tally.calls(5), expected);
}

#[test]
fn requests_are_joined_by_number_with_the_calls_that_succeeded() {
    for raw in [Raw::SAMPLES, Raw::NONE] {
        // The second answer was lost, the third came too late, and the fourth was damaged.
        let mut calls = topic(
            &[10_000, 11_000, 12_000, 13_000, 14_000, 15_000, 16_000],
            &[10_500, NEVER, 64_000, NEVER, 14_700, 15_500, 16_800],
            &[0, 0, 0, DAMAGED, 0, 0, 0],
        );
        // The fifth request was not recorded, and the sixth arrived before it was sent.
        calls.requests = vec![10_300, 11_900, 12_700, 13_800, NEVER, 14_999, 16_400, NEVER];
        let (mut tally, mut rows) = (tally(raw), Vec::new());
        tally.add(&[calls], &[], |_, index, delivery| rows.push((index, delivery.requested)));
        let mut trial = Trial::new(OfferedLoad::Closed);
        tally.one_way.put(&mut trial, &Stream::all());
        let of = |statistic| trial.of_all(Figure::OneWay, statistic).unwrap();
        let found = [Statistic::N, Statistic::Min, Statistic::Mean, Statistic::Max].map(of);
        assert_eq!(found, [2.0, 300.0, 350.0, 400.0]);
        let median = trial.get(&Stream::all(), Figure::OneWay, Statistic::P50).unwrap();
        assert_eq!((tally.one_way.missing, median.within.is_some()), (2, raw == Raw::SAMPLES));
        assert_eq!(tally.service.histogram().unwrap().len(), 4);
        assert_eq!((rows[1], rows[4]), ((1, Some(11_900)), (4, None)));
    }
    let mut nothing = tally(Raw::SAMPLES);
    nothing.add(&[topic(&[10_000], &[10_500], &[0])], &[], |_, _, _| ());
    let mut trial = Trial::new(OfferedLoad::Closed);
    nothing.one_way.put(&mut trial, &Stream::all());
    assert_eq!(trial.figures().count(), 0);
}

#[test]
fn nothing_is_kept_of_two_clocks_that_may_be_too_far_apart() {
    let error = |ns: f64| ClockError { ns, is_too_large: ns > 100.0 };
    for (are_calls, error) in [(false, error(90.0)), (false, error(110.0)), (true, error(90.0)), (true, error(110.0))] {
        let mut messages = topic(&[10_000, 11_000, 12_000], &[10_500, 10_990, NEVER], &[0, 0, 0]);
        messages.requests = if are_calls { vec![10_200, 10_980, NEVER] } else { Vec::new() };
        let mut tally = tally(Raw::SAMPLES).with_two_clocks(Raw::SAMPLES, are_calls);
        tally.set_clock_error(error);
        let mut rows = Vec::new();
        tally.add(&[messages], &[], |_, _, row| rows.push((row.actual, row.arrived, row.requested, row.status)));
        let mut trial = Trial::new(OfferedLoad::Closed);
        if are_calls {
            tally.put_calls(&mut trial, &Stream::all(), 0, false)
        } else {
            tally.put_messages(&mut trial, &Stream::all())
        }
        let (figure, of_other) = if are_calls { (Figure::OneWay, rows[1].2) } else { (Figure::Service, rows[1].1) };
        let kept = !error.is_too_large;
        assert_eq!(trial.of_all(figure, Statistic::N).is_some(), kept, "{are_calls} {error:?}");
        assert_eq!((of_other.is_some(), rows[1].0, rows[1].3), (kept, 11_000, DeliveryStatus::Ok), "{are_calls}");
        let histogram = if are_calls { tally.one_way.histogram() } else { tally.service.histogram() };
        assert_eq!(histogram.is_some(), kept, "{are_calls} {error:?}");
        assert_eq!(trial.value(&Stream::all(), Figure::ClockError), Some(error.ns));
        assert!(!are_calls || rows[0].1 == Some(10_500), "an answer comes back to the clock of its request");
    }
}

#[test]
fn a_mean_is_that_of_all_and_exact() {
    for raw in [Raw::SAMPLES, Raw::NONE] {
        let mut distribution = Distribution::new(raw);
        [10_000_001, 10_000_002, 10_000_006].into_iter().for_each(|ns| distribution.record(ns));
        let found = distribution.figures().unwrap();
        assert_eq!(distribution.histogram().unwrap().len(), 3);
        assert_eq!((found.min, found.mean, found.max), (10_000_001.0, 10_000_003.0, 10_000_006.0));
    }
}

#[test]
fn each_client_has_an_audit_of_its_own() {
    let mut tally = Tally::new(Timebase::NANOSECONDS, Raw::NONE, PATIENCE, 3, PERIOD, 2);
    let calls = |slower: u64| {
        let sent: Vec<u64> = (0..200).map(|index| 10_000 + index * 1000).collect();
        let arrived: Vec<u64> = sent.iter().map(|sent| sent + 300 + slower + sent % 7).collect();
        topic(&sent, &arrived, &[0; 200])
    };
    tally.add(&[calls(0), calls(400), calls(800)], &[], |_, _, _| ());
    let [first, second] = [0, 1].map(|client| {
        let [response, service] = tally.series(client);
        assert_eq!(response, service, "all were sent in time");
        service.unwrap()
    });
    assert_eq!((first.samples, second.samples, tally.audited()), (200, 200, 2));
    let mean = |series: &Series| series.warm_up.unwrap().mean_ns[0];
    assert!((mean(&second) - mean(&first) - 400.0).abs() < 1e-6);
    assert_eq!(tally.series(2), [None, None]);
}

#[test]
fn a_rate_is_missed_by_more_than_a_period_and_a_hundredth() {
    let kept = |last: u64| {
        let sent: Vec<u64> = (0..99).map(|index| 10_000 + index * 1000).chain([last]).collect();
        let mut tally = tally(Raw::NONE);
        tally.add(&[topic(&sent, &[NEVER; 100], &[0; 100])], &[], |_, _, _| ());
        tally.paces.kept()
    };
    assert_eq!(kept(109_000), KeptRate { achieved_hz: 1e6, slowest_hz: 1e6, rate_missed: false });
    assert!(!kept(111_000).rate_missed && kept(111_002).rate_missed);
    assert!((kept(209_000).slowest_hz - 5e5).abs() < 1.0);
    // Each piece may be late by one gap.
    let sent: Vec<u64> = (0..99).map(|index| 10_000 + index * 1000).chain([111_000]).collect();
    let mut tally = tally(Raw::NONE);
    (0..2).for_each(|_| tally.add(&[topic(&sent, &[NEVER; 100], &[0; 100])], &[], |_, _, _| ()));
    assert!(!tally.paces.kept().rate_missed);
}

#[test]
fn histograms_tell_the_same_as_samples_to_three_digits() {
    let mut figures = [Raw::SAMPLES, Raw::NONE].map(|raw| {
        let mut distribution = Distribution::new(raw);
        (0..100_000_u64).for_each(|index| distribution.record(1000 + index * 7919 % 100_003));
        distribution.figures().unwrap()
    });
    let [exact, near] = &mut figures;
    assert_eq!((exact.min, exact.mean, exact.max), (near.min, near.mean, near.max));
    for (exact, near) in [(exact.median, near.median), (exact.p99, near.p99), (exact.p999, near.p999)] {
        assert!((near / exact - 1.0).abs() < 2e-3, "{exact} {near}");
    }
    assert_eq!(Distribution::new(Raw::SAMPLES).figures(), None);
}
