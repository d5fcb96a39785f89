use super::*;
use crate::delivery::Delivery;
use crate::measure::stamps::{MISSING, TripRow};
use tripmeter_model::delivery::DeliveryStatus;
use tripmeter_model::folder::HISTOGRAMS;
use tripmeter_model::metric::Stream;
use tripmeter_model::samples::{HEADER, SampleReader};

const ALL: Raw = Raw { samples: true, eprosima: true, parquet: false };

fn histogram(values: &[u64]) -> Histogram<u64> {
    let mut histogram = Histogram::new(3).unwrap();
    values.iter().for_each(|value| histogram.record(*value).unwrap());
    histogram
}

fn append(files: &mut Files, payload_bytes: u64, rtt_ns: &[u64]) -> io::Result<()> {
    let histogram = histogram(rtt_ns);
    let histograms = [(format!("payload_{payload_bytes}"), &histogram)];
    files.append_payload(payload_bytes, rtt_ns.iter().copied(), histograms, Duration::from_millis(1))
}

#[test]
fn a_file_that_exists_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let mut files =
        Files::create(&FolderHandle::open(folder.path()).unwrap(), "uds_stream", 1, ALL, Some("Round trips")).unwrap();
    append(&mut files, 16, &[2000, 4001]).unwrap();
    files.forget_latest();
    append(&mut files, 16, &[2]).unwrap();
    let text = fs::read_to_string(folder.path().join("measurements_uds_stream.csv")).unwrap();
    assert!(text.ends_with("\n1,16,1.000\n2,16,2.001\n1,16,0.001\n"), "{text}");
    let again = Files::create(
        &FolderHandle::open(folder.path()).unwrap(),
        "uds_stream",
        1,
        Raw { eprosima: true, ..Raw::NONE },
        None,
    );
    assert!(again.is_err());
}

#[test]
fn a_full_disk_is_an_error_and_leaves_nothing_of_the_payload() {
    let full = || File::options().append(true).open("/dev/full").unwrap();
    // Each of the three files in turn has no room.
    for place in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let mut files =
            Files::create(&FolderHandle::open(folder.path()).unwrap(), "x", 1, ALL, Some("Round trips")).unwrap();
        let write = |files: &mut Files| {
            let mut rows = files.rows(Timebase::NANOSECONDS, 16, 0);
            rows.add("all", 0, "ok", SampleStamps::default());
            rows.finish().and_then(|()| append(files, 16, &[2000]))
        };
        write(&mut files).unwrap();
        let names = ["samples/x.csv", "measurements_x.csv", "histograms/x.hlog"];
        let written = || names.map(|name| fs::read_to_string(folder.path().join(name)).unwrap());
        let before = written();
        match place {
            0 => files.samples = Some(SamplesFile { file: full(), round: 1 }),
            1 => files.measurements.as_mut().unwrap().csv = full(),
            _ => files.histograms.as_mut().unwrap().file = full(),
        }
        let lengths = files.lengths().unwrap();
        let error = write(&mut files).inspect_err(|_| files.cut(lengths)).unwrap_err();
        assert_eq!((error.kind(), written()), (io::ErrorKind::StorageFull, before), "{}", names[place]);
    }
}

fn delivery(intended: u64, actual: u64, arrived: Option<u64>, status: DeliveryStatus) -> Delivery {
    Delivery { intended, actual, arrived, requested: None, status }
}

#[test]
fn rows_of_all_patterns_have_one_form_and_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Files::create(&FolderHandle::open(folder.path()).unwrap(), "x", 2, Raw::SAMPLES, None).unwrap();
    let mut rows = files.rows(Timebase::NANOSECONDS, 1024, 5000);
    let topic = field(&Stream::topic("/a,\"b\""));
    rows.add_delivery(&topic, 0, &delivery(5000, 5001, Some(5100), DeliveryStatus::Ok), false, true);
    rows.add_delivery("topic=1", 7, &delivery(5500, 5600, None, DeliveryStatus::Lost), false, true);
    rows.finish().unwrap();
    assert_eq!(files.next_trial(), 1);
    let mut rows = files.rows(Timebase::NANOSECONDS, 64, 5000);
    let call = Delivery { requested: Some(5040), ..delivery(5001, 5001, Some(5100), DeliveryStatus::Ok) };
    rows.add_delivery("all", 0, &call, true, false);
    rows.add_delivery("all", 1, &delivery(5200, 5200, Some(9000), DeliveryStatus::Late), true, false);
    rows.finish().unwrap();
    assert_eq!(files.next_trial(), 2);
    // Message 12 was not answered.
    let trips =
        [TripRow { first_sample: 0, sequence: 10, began: 100 }, TripRow { first_sample: 2, sequence: 13, began: 500 }];
    let mut rows = files.rows(Timebase::NANOSECONDS, 16, 90);
    rows.add_trips(&trips, &[10, 20, 30], Some(&[4, MISSING, -25]), 10);
    rows.add_trips(&trips[..1], &[10, 20], Some(&[-25, -10]), 10);
    rows.finish().unwrap();
    let path = folder.path().join("samples/x.csv");
    let text = fs::read_to_string(&path).unwrap();
    let expected = [
        "2,1,1024,\"topic=/a,\"\"b\"\"\",1,ok,0,1,100,",
        "2,1,1024,topic=1,8,lost,500,600,,",
        "2,2,64,all,1,ok,,1,40,100",
        "2,2,64,all,2,timed_out,,200,,4000",
        "2,3,16,all,1,ok,,10,14,20",
        "2,3,16,all,2,ok,,20,,40",
        "2,3,16,all,4,ok,,410,385,440",
        // With two clocks, the message seems to arrive before the trial began.
        "2,3,16,all,1,ok,,10,-15,20",
        "2,3,16,all,2,ok,,20,10,40",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), [&[HEADER.join(",").as_str()][..], &expected].concat());
    let rows: Vec<_> = SampleReader::open(&path).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!((rows.len(), rows[0].stream.as_str()), (9, "topic=/a,\"b\""));
    assert_eq!((rows[7].sent_ns, rows[7].received_ns), (Some(10), Some(-15)));
    assert!(
        Files::create(&FolderHandle::open(folder.path()).unwrap(), "x", 2, Raw::SAMPLES, None).is_err(),
        "it is not overwritten"
    );
}

#[test]
fn without_raw_samples_there_are_no_rows() {
    let folder = tempfile::tempdir().unwrap();
    let mut files =
        Files::create(&FolderHandle::open(folder.path()).unwrap(), "x", 1, Raw::NONE, Some("Calls")).unwrap();
    files.rows(Timebase::NANOSECONDS, 1024, 0).finish().unwrap();
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [HISTOGRAMS]);
}

#[test]
fn no_file_is_made_where_a_link_leads_to() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("samples")).unwrap();
    assert!(Files::create(&FolderHandle::open(folder.path()).unwrap(), "x", 1, Raw::SAMPLES, None).is_err());
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn the_histogram_log_is_read_back_by_its_own_library() {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    let folder = tempfile::tempdir().unwrap();
    let mut files =
        Files::create(&FolderHandle::open(folder.path()).unwrap(), "x", 1, Raw::NONE, Some("Round trips")).unwrap();
    append(&mut files, 16, &[2000, 4001]).unwrap();
    append(&mut files, 32, &[5000]).unwrap();
    let text = fs::read(folder.path().join("histograms/x.hlog")).unwrap();
    let entries: Vec<_> = IntervalLogIterator::new(&text).map(Result::unwrap).collect();
    let mut found = Vec::new();
    for entry in &entries {
        if let LogEntry::Interval(interval) = entry {
            let bytes = base64_decode(interval.encoded_histogram());
            let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            found.push((interval.tag().unwrap().as_str().to_owned(), histogram.len()));
        }
    }
    assert_eq!(found, [("payload_16".to_owned(), 2), ("payload_32".to_owned(), 1)]);
    assert_eq!(String::from_utf8(text).unwrap().matches("Histogram log format version").count(), 1);
}

fn base64_decode(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bits = text.bytes().filter(|byte| *byte != b'=').flat_map(|byte| {
        let value = LETTERS.iter().position(|letter| *letter == byte).unwrap();
        (0..6).rev().map(move |bit| (value >> bit) & 1)
    });
    let mut bytes = Vec::new();
    while let Some(first) = bits.next() {
        let rest: Vec<usize> = bits.by_ref().take(7).collect();
        if rest.len() == 7 {
            bytes.push(rest.iter().fold(first, |byte, bit| byte << 1 | bit) as u8);
        }
    }
    bytes
}
