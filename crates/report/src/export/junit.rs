//! JUnit XML: a suite for each sub-experiment, a test case for each figure judged, or for each payload without a verdict.
//!
//! # Source
//! What both <https://github.com/windyroad/JUnit-Schema> and Jenkins' `junit-10.xsd` allow: figures are properties of the
//! suite, and a test case has one outcome.

use super::exported::{ExportInput, ExportedSub, PayloadState, measured, row_name, row_story};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use std::io;
use tripmeter_model::printable;
use tripmeter_model::verdict::{FigureVerdict, VerdictDocument};

struct TestSuite {
    name: String,
    time_s: f64,
    properties: Vec<(String, String)>,
    cases: Vec<TestCase>,
    /// Further notes, a line each.
    notes: Vec<String>,
}

struct TestCase {
    name: String,
    outcome: CaseOutcome,
}

enum CaseOutcome {
    Passed,
    /// Kind and reason.
    Failed(&'static str, String),
    Skipped(String),
}

/// The document.
pub fn junit(input: &ExportInput<'_>) -> String {
    let subs = measured(input.results);
    let suites: Vec<TestSuite> = match input.verdict {
        Some(verdict) => of_verdict(verdict, &subs),
        None => subs.iter().map(of_sub).collect(),
    };
    let started = input.results.first().map_or("", |one| one.manifest.started.as_str());
    let timestamp = started.get(..19).unwrap_or("1970-01-01T00:00:00");
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    // Writing to memory does not fail.
    let _ = writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)));
    let _ = writer.create_element("testsuites").write_inner_content(|writer| {
        suites.iter().enumerate().try_for_each(|(id, suite)| write_suite(writer, suite, id, timestamp))
    });
    String::from_utf8(writer.into_inner()).unwrap_or_default() + "\n"
}

fn properties(sub: &ExportedSub) -> Vec<(String, String)> {
    let figures = sub.payloads.iter().flat_map(|payload| &payload.figures);
    figures.map(|one| (format!("{} {}", one.address.place(), one.address.name()), one.value.to_string())).collect()
}

fn of_sub(sub: &ExportedSub) -> TestSuite {
    let skipped = sub.payloads.iter().map(|payload| match &payload.state {
        PayloadState::Skipped(why) => Some(why),
        _ => None,
    });
    let run = match (&sub.trouble, skipped.collect::<Option<Vec<_>>>().as_deref()) {
        (Some(why), _) => CaseOutcome::Failed("run", why.clone()),
        (None, Some([why, ..])) => CaseOutcome::Skipped((*why).clone()),
        (None, _) => CaseOutcome::Passed,
    };
    let payloads = sub.payloads.iter().map(|payload| TestCase {
        name: payload.size.clone(),
        outcome: match &payload.state {
            PayloadState::Passed => CaseOutcome::Passed,
            PayloadState::Lossy(why) | PayloadState::Failed(why) => CaseOutcome::Failed("payload", why.clone()),
            PayloadState::Skipped(why) => CaseOutcome::Skipped(why.clone()),
        },
    });
    TestSuite {
        name: sub.name.clone(),
        time_s: sub.duration_s,
        properties: properties(sub),
        cases: [TestCase { name: "run".to_owned(), outcome: run }].into_iter().chain(payloads).collect(),
        notes: sub.notes.clone(),
    }
}

fn of_verdict(verdict: &VerdictDocument, subs: &[ExportedSub]) -> Vec<TestSuite> {
    let mut suites: Vec<TestSuite> = Vec::new();
    let mut add = |name: &str, case: TestCase| match suites.iter_mut().find(|suite| suite.name == name) {
        Some(suite) => suite.cases.push(case),
        None => {
            let sub = subs.iter().find(|sub| sub.name == name);
            suites.push(TestSuite {
                name: name.to_owned(),
                time_s: sub.map_or(0.0, |sub| sub.duration_s),
                properties: sub.map_or_else(Vec::new, properties),
                cases: vec![case],
                notes: sub.map_or_else(Vec::new, |sub| sub.notes.clone()),
            });
        }
    };
    for row in &verdict.figures {
        let outcome = match row.verdict {
            bad if bad.is_bad() => CaseOutcome::Failed(bad.into(), row_story(row)),
            FigureVerdict::New | FigureVerdict::Inconclusive => CaseOutcome::Skipped(row_story(row)),
            _ => CaseOutcome::Passed,
        };
        add(&row.sub_experiment, TestCase { name: row_name(row), outcome });
    }
    let command = verdict.command.to_string();
    for (place, trouble) in verdict.troubles.iter().enumerate() {
        let outcome = match trouble.fails {
            true => CaseOutcome::Failed("trouble", trouble.what.clone()),
            false => CaseOutcome::Skipped(trouble.what.clone()),
        };
        let name = format!("trouble {}", place + 1);
        add(trouble.sub_experiment.as_deref().unwrap_or(&command), TestCase { name, outcome });
    }
    if verdict.exit_code != 0 && !verdict.figures.iter().any(|row| row.verdict.is_bad()) {
        let why = format!("{} ended with exit code {}", verdict.result, verdict.exit_code);
        let outcome = CaseOutcome::Failed("result", why);
        add(&command, TestCase { name: "result".to_owned(), outcome });
    }
    suites
}

fn write_suite(writer: &mut Writer<Vec<u8>>, suite: &TestSuite, id: usize, timestamp: &str) -> io::Result<()> {
    let count = |is: fn(&CaseOutcome) -> bool| suite.cases.iter().filter(|case| is(&case.outcome)).count().to_string();
    // A sum of nothing is -0.
    let (id, time) = (id.to_string(), format!("{:.3}", suite.time_s + 0.0));
    let tests = suite.cases.len().to_string();
    let failures = count(|outcome| matches!(outcome, CaseOutcome::Failed(..)));
    let skipped = count(|outcome| matches!(outcome, CaseOutcome::Skipped(_)));
    let name = clean(&suite.name);
    let attributes = [
        ("id", id.as_str()),
        ("package", "tripmeter"),
        ("name", &name),
        ("timestamp", timestamp),
        ("hostname", "localhost"),
        ("tests", &tests),
        ("failures", &failures),
        ("errors", "0"),
        ("skipped", &skipped),
        ("time", &time),
    ];
    let element = writer.create_element("testsuite").with_attributes(attributes);
    element.write_inner_content(|writer| {
        writer.create_element("properties").write_inner_content(|writer| {
            suite.properties.iter().try_for_each(|(name, value)| {
                let pair = [("name", clean(name)), ("value", clean(value))];
                let pair = pair.iter().map(|(name, value)| (*name, value.as_str()));
                writer.create_element("property").with_attributes(pair).write_empty().map(|_| ())
            })
        })?;
        suite.cases.iter().try_for_each(|case| write_case(writer, case, &name))?;
        let out = writer.create_element("system-out");
        match &suite.notes[..] {
            [] => out.write_empty()?,
            notes => out.write_text_content(BytesText::new(&clean(&notes.join("; "))))?,
        };
        writer.create_element("system-err").write_empty()?;
        Ok(())
    })?;
    Ok(())
}

fn write_case(writer: &mut Writer<Vec<u8>>, case: &TestCase, class: &str) -> io::Result<()> {
    let name = clean(&case.name);
    let attributes = [("name", name.as_str()), ("classname", class), ("time", "0")];
    let element = writer.create_element("testcase").with_attributes(attributes);
    match &case.outcome {
        CaseOutcome::Passed => element.write_empty()?,
        CaseOutcome::Failed(kind, why) => element.write_inner_content(|writer| {
            let why = clean(why);
            let failure = writer.create_element("failure").with_attributes([("type", *kind), ("message", &why)]);
            failure.write_text_content(BytesText::new(&why)).map(|_| ())
        })?,
        CaseOutcome::Skipped(why) => element.write_inner_content(|writer| {
            let skipped = writer.create_element("skipped").with_attribute(("message", clean(why).as_str()));
            skipped.write_empty().map(|_| ())
        })?,
    };
    Ok(())
}

/// Text on one line without what XML 1.0 cannot hold.
fn clean(text: &str) -> String {
    printable::line(text).chars().filter(|c| !matches!(c, '\u{fffe}' | '\u{ffff}')).collect()
}
