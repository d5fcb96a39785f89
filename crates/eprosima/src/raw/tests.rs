use super::*;
use std::io::Write;

const HEADER: &str = "Sample,Payload [Bytes],Latency [us]\n";

/// Contents of a file by payload as written; one thread and three must agree.
fn read(name: &Path) -> Result<Vec<(String, Vec<f64>)>, FileError> {
    let by = |threads: usize| {
        let done = Reader::new(threads).read(name, threads, |_| true, |_, samples: &mut [f64]| samples.to_vec());
        done.map(|done| done.into_iter().map(|(bytes, samples)| (bytes.text().to_owned(), samples)).collect::<Vec<_>>())
    };
    let (one, three) = (by(1), by(3));
    match (&one, &three) {
        (Ok(one), Ok(three)) => assert_eq!(one, three),
        (Err(one), Err(three)) => assert_eq!(one.to_string(), three.to_string()),
        _ => panic!("{one:?} {three:?}"),
    }
    one
}

fn parsed(contents: impl AsRef<[u8]>) -> Result<Vec<(String, Vec<f64>)>, FileError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(contents.as_ref()).unwrap();
    read(file.path())
}

fn rows_of(text: &str) -> Vec<(String, Vec<f64>)> {
    parsed(text).unwrap()
}

fn rows(text: &str) -> Vec<(String, Vec<f64>)> {
    rows_of(&format!("{HEADER}{text}"))
}

#[track_caller]
fn wrong(contents: impl AsRef<[u8]>, parts: &[&str]) {
    let error = parsed(contents).unwrap_err();
    assert_eq!(error.exit_code(), tripmeter_model::exit::DATA);
    let text = error.to_string();
    assert!(parts.iter().all(|part| text.contains(part)) && !text.contains('\n'), "{text}");
}

#[test]
fn payloads_come_in_order_of_appearance_with_samples_in_order_of_rows() {
    let text = "1,32,2.5\n2,32,1.25\n3,16,0.697615\n4,64,123456.789\n";
    let expected = [("32", vec![2.5, 1.25]), ("16", vec![0.697615]), ("64", vec![123456.789])];
    assert_eq!(rows(text), expected.map(|(bytes, samples)| (bytes.to_owned(), samples)));
    assert_eq!(rows(""), []);
}

#[test]
fn rows_of_a_payload_need_not_be_contiguous() {
    let text = "1,16,1.0\n2,32,2.0\n3,16,3.0\n4,64,4.0\n5,32,5.0\n";
    let expected = [("16", vec![1.0, 3.0]), ("32", vec![2.0, 5.0]), ("64", vec![4.0])];
    assert_eq!(rows(text), expected.map(|(bytes, samples)| (bytes.to_owned(), samples)));
    let many: String = (0..4000).map(|i| format!("{i},{},{i}.5\n", 16 << (i / 1000 % 2))).collect();
    let samples =
        |from: [i32; 2]| from.iter().flat_map(|&from| from..from + 1000).map(|i| f64::from(i) + 0.5).collect();
    let expected = [("16".to_owned(), samples([0, 2000])), ("32".to_owned(), samples([1000, 3000]))];
    assert_eq!(rows(&many), expected);
}

#[test]
fn payloads_written_as_floats_stay_floats() {
    let bytes = |text: &str| rows(text).into_iter().map(|(bytes, _)| bytes).collect::<Vec<_>>();
    assert_eq!(bytes("1,16.0,1.0\n2,32.0,2.0\n"), ["16.0", "32.0"]);
    assert_eq!(bytes("1,16,1.0\n2,32.5,2.0\n3,16.0,3.0\n"), ["16.0", "32.5"]);
}

#[test]
fn other_ways_to_write_the_same_are_read() {
    let plain = rows("1,16,1.5\n2,16,2.25\n3,4194304,1500.125\n");
    let same = |contents: &[u8]| assert_eq!(parsed(contents).unwrap(), plain, "{}", String::from_utf8_lossy(contents));
    let text = format!("{HEADER}1,16,1.5\n2,16,2.25\n3,4194304,1500.125\n");
    same(text.replace('\n', "\r\n").as_bytes());
    same(format!("\u{feff}{text}").as_bytes());
    same(text.replace(',', " , ").as_bytes());
    same(text.replace("\n2", "\n\n  \n2").as_bytes());
    same(text.replace("16", "\"16\"").replace("Payload [Bytes]", "\"Payload [Bytes]\"").as_bytes());
    same(format!("{HEADER}1,16,15e-1\n2,16,+2.25\n3,4194304,1.500125E3\n").as_bytes());
    same(b"Latency [us],Note,Payload [Bytes]\n1.5,a,16\n2.25,,16\n1500.125,c,4194304\n");
    let packed = |text: &str| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        gzip.finish().unwrap()
    };
    let gzip = packed(&text);
    same(&gzip);
    // `cat` and parallel compressors make files of several members.
    let (front, back) = text.split_at(text.len() - 20);
    same(&[packed(front), packed(back)].concat());
    wrong(&gzip[..gzip.len() - 12], &["damaged or cut off"]);
}

#[test]
fn latencies_are_the_numbers_nearest_to_their_text() {
    let texts =
        ["0.697615", "39.4555", "7", "0", "123456789.123", "1.0000000000000002", "12345678901234567890.5", ".5", "2."];
    let text: String = texts.iter().map(|text| format!("1,16,{text}\n")).collect::<String>().repeat(20);
    let expected: Vec<f64> = texts.iter().map(|text| text.parse().unwrap()).collect();
    assert_eq!(rows(&text)[0].1, expected.repeat(20));
}

#[test]
fn rows_of_every_width_are_read_wherever_they_stand() {
    const ODD: [&str; 14] = [
        "7",
        "12.",
        ".5",
        "1e3",
        "1.5e1",
        "+2.25",
        "1234.567",
        "12345.678",
        "1234567.",
        "12345678",
        "123456789",
        "12345678.",
        "123456789012.5",
        " 4.5",
    ];
    let mut random = fastrand::Rng::with_seed(11);
    // Covers every combination of the three values below.
    for round in 0..24_u32 {
        let odd_in = [0, 2, 40, 1000][round as usize % 4];
        let (end, first) = (["\n", "\r\n"][round as usize / 4 % 2], 10_u64.pow(round % 12));
        let mut text = HEADER.replace('\n', end);
        let changes = random.u64(500..3000);
        for row in 0..4000 {
            let digits = random.usize(0..5);
            let number = match odd_in != 0 && random.u32(0..odd_in) == 0 {
                true => ODD[random.usize(..ODD.len())].to_owned(),
                false => format!("{:.digits$}", random.f64() * 150.0),
            };
            text += &format!("{},{},{number}{end}", first + row, 16_u64 << (4 * (row / changes)));
        }
        let expected: Vec<(String, Vec<f64>)> = plainly(&text).unwrap();
        assert_eq!(rows_of(&text), expected, "round {round}");
        let cut = text.trim_end().len() - random.usize(0..3);
        wrong(&text[..cut], &[" line 4001"]);
    }
}

#[test]
fn a_wrong_row_is_reported_with_line_column_and_value() {
    let filler = "1,16,1.5\n".repeat(1000);
    for (row, parts) in [
        ("2,16,nan", ["column 'Latency [us]': 'nan'", "not a number"]),
        ("2,16,-inf", ["column 'Latency [us]': '-inf'", "infinite"]),
        ("2,16,1e999", ["'1e999'", "too large"]),
        ("2,16,-1.5", ["column 'Latency [us]': '-1.5'", "negative"]),
        ("2,16,fast", ["column 'Latency [us]': 'fast'", "not a number"]),
        ("2,16,", ["column 'Latency [us]': ''", "empty"]),
        ("2,16,\"1,5\"", ["column 'Latency [us]': '1,5'", "decimal point"]),
        ("2,16,1,5", ["'2,16,1,5'", "4 values instead of 3"]),
        ("2,16", ["'2,16'", "2 values instead of 3"]),
        ("2,many,1.5", ["column 'Payload [Bytes]': 'many'", "number of bytes"]),
        ("2,-16,1.5", ["column 'Payload [Bytes]': '-16'", "number of bytes"]),
        ("2,,1.5", ["column 'Payload [Bytes]': ''", "number of bytes"]),
    ] {
        wrong(format!("{HEADER}{row}\n{filler}"), &[parts[0], parts[1], " line 2"]);
        wrong(format!("{HEADER}{filler}{row}\n{filler}-"), &[parts[0], parts[1], " line 1002"]);
    }
    wrong(format!("{HEADER}1,16,1.5\n2,16,1.").as_bytes(), &["line 3: '2,16,1.'", "no line break"]);
    wrong(format!("{HEADER}1,16,1.5\n2,16").as_bytes(), &["line 3: '2,16'", "2 values instead of 3"]);
    wrong(format!("{HEADER}{}\n", "9".repeat(2 << 20)).as_bytes(), &["line 2", "too long"]);
}

#[test]
fn a_wrong_header_is_reported_with_the_column_that_is_missing() {
    wrong("", &["the file is empty"]);
    wrong("1,16,1.5\n2,16,1.5\n", &["line 1: '1,16,1.5' has no column 'Payload [Bytes]'"]);
    wrong("Sample,Payload [Bytes]\n1,16\n", &["line 1", "no column 'Latency [us]'"]);
    wrong("Sample;Payload [Bytes];Latency [us]\n1;16;1,5\n", &["no column", "separated by commas"]);
    wrong("Sample,Payload [Bytes],Latency [ns]\n1,16,1.5\n", &["no column 'Latency [us]'"]);
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(read(folder.path()).unwrap_err().exit_code(), tripmeter_model::exit::NO_INPUT);
    assert_eq!(read(&folder.path().join("none.csv")).unwrap_err().exit_code(), tripmeter_model::exit::NO_INPUT);
}

/// Reference parser: contents of the file, or the first invalid line.
fn plainly(text: &str) -> Result<Vec<(String, Vec<f64>)>, usize> {
    let mut payloads: Vec<(f64, String, Vec<f64>)> = Vec::new();
    for (index, line) in text.split_inclusive('\n').enumerate().skip(1) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split(',').map(str::trim_ascii).collect();
        let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite() && !text.starts_with('-'));
        let [_, payload, latency] = fields[..] else { return Err(index + 1) };
        let (Some(bytes), Some(latency), true) = (number(payload), number(latency), line.ends_with('\n')) else {
            return Err(index + 1);
        };
        match payloads.iter_mut().find(|other| other.0 == bytes) {
            Some(other) => other.2.push(latency),
            None => payloads.push((bytes, payload.to_owned(), vec![latency])),
        }
    }
    Ok(payloads.into_iter().map(|(bytes, _, samples)| (bytes.to_string(), samples)).collect())
}

#[test]
fn damaged_files_are_read_as_a_plain_reader_reads_them() {
    const LETTERS: &[u8] = b"0123456789.,,\n\n -+einfa;\r\x00\x80";
    let mut random = fastrand::Rng::with_seed(7);
    let mut refused = 0;
    for round in 0..600 {
        let mut text = HEADER.to_owned();
        let (scale, decimals) = (10_f64.powi(random.i32(0..7)), random.usize(0..8));
        for row in 0..random.usize(1..900) {
            let payload = 16_u64 << (row / 300 * random.usize(1..3));
            text += &format!("{row},{payload},{:.decimals$}\n", random.f64() * scale);
        }
        let mut bytes = text.into_bytes();
        for _ in 0..round % 4 {
            let at = random.usize(HEADER.len()..bytes.len());
            match random.u32(0..4) {
                0 => bytes[at] = LETTERS[random.usize(..LETTERS.len())],
                1 => bytes.insert(at, LETTERS[random.usize(..LETTERS.len())]),
                2 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(HEADER.len() + 1)),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        let found = parsed(&bytes).map(|payloads| {
            let same = |(bytes, samples): (String, Vec<f64>)| (bytes.parse::<f64>().unwrap().to_string(), samples);
            payloads.into_iter().map(same).collect::<Vec<_>>()
        });
        match (found, plainly(&text)) {
            (Ok(found), expected) => assert_eq!(Ok(found), expected),
            (Err(error), expected) => {
                refused += 1;
                let line = expected.expect_err(&format!("{error}"));
                assert!(error.to_string().contains(&format!(" line {line}")), "{error}, expected line {line}");
            }
        }
    }
    assert!((100..500).contains(&refused), "{refused}");
}

#[test]
fn a_file_that_becomes_shorter_meanwhile_is_an_error() {
    const ROWS: usize = 1_000_000;
    for (left, threads) in [(0, 1), (100, 1), (4096, 3), (9_000_001, 1), (9_000_001, 3)] {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text: String = (1..=ROWS).map(|row| format!("{row},{},5.125\n", 16 << (row * 10 / ROWS))).collect();
        file.write_all(format!("{HEADER}{text}").as_bytes()).unwrap();
        let cut = |_: &Bytes, _: &mut [f64]| file.as_file().set_len(left).unwrap();
        let error = Reader::new(threads).read(file.path(), threads, |_| true, cut).unwrap_err().to_string();
        let name = file.path().display().to_string();
        assert!(error.contains(&name) && error.contains("became shorter"), "{left}: {error}");
    }
}

#[test]
fn more_samples_than_are_held_are_an_error() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(HEADER.as_bytes()).unwrap();
    let rows = "1,16,1.0\n".repeat(1 << 16);
    (0..17).for_each(|_| packed.write_all(rows.as_bytes()).unwrap());
    wrong(packed.finish().unwrap(), &["exceeds the maximum of samples held at a time (200000000)", "line 1"]);
}

#[test]
fn a_file_has_no_more_payloads_than_any_experiment() {
    let rows = |count: usize| (0..count).map(|i| format!("{i},{},1.0\n", i + 1)).collect::<String>();
    assert_eq!(parsed(format!("{HEADER}{}", rows(1000))).unwrap().len(), 1000);
    wrong(format!("{HEADER}{}", rows(2000)), &["line 1002", "more payloads than"]);
    // Alternating payloads are all held.
    wrong(format!("{HEADER}{}{}", rows(2), rows(2000)), &["line 1004", "more payloads than"]);
}
