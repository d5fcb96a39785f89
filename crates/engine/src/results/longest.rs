//! Tests that the longest texts and lists are written, and can be read again.

use super::*;
use serde_json::{Value, json};
use std::borrow::Cow;
use tripmeter_model::bounds::{MOST_ELEMENTS, MOST_TEXT_BYTES};
use tripmeter_model::folder::read;

/// Results with every part filled, as JSON.
fn everything() -> Value {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tripmeter/tests/golden/results-2.0");
    let mut whole = read(&golden, |text| text.into()).unwrap().whole();
    let mut environment = whole["environment"].clone();
    environment["hosts"] = json!([]);
    let network = json!({
        "interface": "eth0", "address": "10.0.0.1", "facts": { "kind": "veth" }, "hidden": ["speed"], "before": { "dropped": 1 },
    });
    whole["environment"]["hosts"] =
        json!([{ "to": "lab", "name": "lab", "environment": environment, "here": network, "there": network }]);
    for result in whole["sub_experiments"].as_array_mut().unwrap() {
        result["error"] = "it broke".into();
        result["cells"][0]["cut_short"] = "it was slow".into();
        result["processes"][0]["libraries"] = json!(["libx.so"]);
    }
    whole
}

fn places(value: &Value, at: &str, is_wanted: fn(&Value) -> bool, found: &mut Vec<String>) {
    if is_wanted(value) {
        found.push(at.to_owned());
    }
    let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(place, one)| places(one, &format!("{at}/{place}"), is_wanted, found));
        }
        Value::Object(values) => {
            values.iter().for_each(|(name, one)| places(one, &format!("{at}/{}", escaped(name)), is_wanted, found));
        }
        _ => {}
    }
}

fn replaced(whole: &Value, place: &str, by: impl Fn(&Value) -> Value) -> Value {
    let mut changed = whole.clone();
    let part = changed.pointer_mut(place).unwrap();
    *part = by(part);
    changed
}

fn store(results: &Results, manifest: &Manifest) -> Result<(), ResultsError> {
    for result in &manifest.sub_experiments {
        results.append_state(result)?;
        for cell in &result.cells {
            results.append_payload(result, cell, true)?;
        }
    }
    results.write_audits(manifest)?;
    results.write(manifest)
}

fn begun(whole: &Value) -> (tempfile::TempDir, Results) {
    let folder = tempfile::tempdir().unwrap();
    let results = Results::create(Some(folder.path()), false).unwrap();
    let manifest: Manifest = serde_json::from_value(whole.clone()).unwrap();
    results.begin_trials(&manifest).unwrap();
    store(&results, &manifest).unwrap();
    (folder, results)
}

#[test]
fn texts_of_any_length_are_stored_so_that_they_are_read() {
    let mut whole = everything();
    let (folder, results) = begun(&whole);
    let mut texts = Vec::new();
    places(&whole, "", Value::is_string, &mut texts);
    // JSON escapes these characters, which makes the text six times as long.
    let long = "x\u{1b}\n".repeat(MOST_TEXT_BYTES);
    let mut count = 0;
    for place in texts {
        // Names of files are limited by the checks of a plan.
        let is_name = place.ends_with("/name") && !place.contains("/hosts/") || place == "/schema_version";
        let changed = replaced(&whole, &place, |_| long.clone().into());
        // Some texts are values of an enumeration.
        if !is_name && serde_json::from_value::<Manifest>(changed).is_ok() {
            whole = replaced(&whole, &place, |_| long.clone().into());
            count += 1;
        }
    }
    assert!(count > 50, "{count} texts are free");
    store(&results, &serde_json::from_value(whole).unwrap()).unwrap();
    let plain: fn(&str) -> Cow<'_, str> = |text| Cow::Borrowed(text);
    for escape in [plain, |text| Cow::Owned(tripmeter_model::printable::json(text))] as [fn(&str) -> Cow<'_, str>; 2] {
        let back = read(folder.path(), escape).unwrap();
        for text in
            [&back.environment.kernel, &back.environment.hosts[0].name, back.sub_experiments[0].error.as_ref().unwrap()]
        {
            assert!(text.len() < MOST_TEXT_BYTES && text.ends_with(" bytes more"), "{}", text.len());
        }
    }
}

#[test]
fn hosts_that_together_say_more_than_fits_are_left_out_as_they_were_afterwards() {
    let (folder, results) = begun(&everything());
    let mut manifest: Manifest = serde_json::from_value(everything()).unwrap();
    let mut host = manifest.environment.hosts[0].clone();
    host.environment.cpus = vec![0; 15_000];
    host.there.after = [("dropped".to_owned(), 2)].into();
    manifest.environment.hosts = vec![host.clone(); 16];
    assert_eq!(leave_out_after(&mut manifest), None);
    let mut audit = manifest.environment.audit_before.clone().unwrap();
    audit.cpus = vec![0; 16_000];
    let hosts = &mut manifest.environment.hosts;
    hosts.iter_mut().for_each(|host| host.environment.audit_after = Some(audit.clone()));
    assert!(matches!(store(&results, &manifest), Err(ResultsError::TooLarge { .. })));
    let what = leave_out_after(&mut manifest).unwrap();
    assert!(what.contains(" elements in all (limit 250000)"), "{what}");
    store(&results, &manifest).unwrap();
    let back = read(folder.path(), |text| text.into()).unwrap();
    let host = back.environment.hosts.last().unwrap();
    assert_eq!((back.environment.hosts.len(), host.environment.cpus.len()), (16, 15_000));
    assert!(host.environment.audit_after.is_none() && host.there.after.is_empty());
}

#[test]
fn lists_that_no_reader_takes_are_refused_and_what_was_stored_stays() {
    let whole = everything();
    let mut lists = Vec::new();
    let is_of_small = |value: &Value| value.get(0).is_some_and(|one| one.to_string().len() < 40);
    places(&whole, "", is_of_small, &mut lists);
    let (folder, results) = begun(&whole);
    let mut refused = 0;
    for place in &lists {
        let long = replaced(&whole, place, |list| vec![list[0].clone(); MOST_ELEMENTS + 1].into());
        let Ok(manifest) = serde_json::from_value(long) else { continue };
        if let Err(error) = store(&results, &manifest) {
            let (told, limit) = (error.to_string(), format!("(limit {MOST_ELEMENTS}); measure less"));
            assert!(told.contains(" elements in all") && told.contains(&limit), "{place}: {told}");
            refused += 1;
        }
        read(folder.path(), |text| text.into()).unwrap_or_else(|error| panic!("{place}: {error}"));
    }
    assert!(refused > 3, "{refused} of {lists:?}");
}
