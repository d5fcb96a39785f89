//! Requests for undeclared features, which must be refused before anything is started.

use crate::entry::{Faults, VariantHere};
use crate::suite::{Suite, SuiteError};
use tripmeter_abi::{Description, Names, Pattern, Wait};
use tripmeter_model::exit;
use tripmeter_model::pattern::{Axis, DEFAULT_PATTERN, facts};
use tripmeter_model::payload::LARGEST_BYTES;

/// Words that show that a setting names a file or a host.
const NAMING: &str = "file files path folder directory dir host hosts address addresses url uri port domain";

/// Checks that each setting declares if it names a file, a host or nothing. A resumed run trusts no value of a setting
/// without that declaration.
pub(crate) fn check_settings(faults: &mut Faults, description: &Description) {
    for setting in &description.settings {
        let place = format!("setting '{}' of {}", setting.name, description.system);
        faults.check(setting.names.is_some(), || format!("{place} does not declare what it names (TM_NAMES_*)"));
        let text = format!("{} {}", setting.name, setting.values).to_lowercase();
        let mut words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
        let naming = words
            .find(|word| NAMING.split(' ').any(|naming| naming == *word))
            .filter(|_| setting.names == Some(Names::Nothing));
        faults.check(naming.is_none(), || {
            let word = naming.unwrap_or_default();
            format!("{place} declares that it names nothing, but its name or values contain '{word}'")
        });
    }
}

/// Requests each missing wait and pattern, and more followers, publishers and bytes than supported.
pub(crate) fn check(suite: &Suite, faults: &mut Faults, variant: &VariantHere<'_>) -> Result<(), SuiteError> {
    let name = &variant.name();
    let declared = variant.declared;
    let first = declared.patterns.first().copied().unwrap_or(DEFAULT_PATTERN);
    let under = |pattern: Pattern, flags: &[&str]| {
        let words = [&[pattern.as_str(), name, "-n", "10"], flags].concat();
        words.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut refused = |words: Vec<String>, parts: &[&str]| is_refused(suite, faults, variant, words, parts);
    for wait in Wait::ALL.iter().filter(|wait| !declared.waits.contains(wait)) {
        let cannot = format!("cannot wait by '{wait}'");
        let other = declared.waits.first().map_or("", |wait| wait.as_str());
        refused(under(first, &["--wait", wait.as_str()]), &[name, &cannot, other, "--wait"])?;
    }
    for pattern in Pattern::ALL.iter().filter(|pattern| !variant.can(**pattern)) {
        refused(under(*pattern, &[]), &[&format!("'{pattern}'"), first.as_str()])?;
    }
    let axes = [
        (Axis::Followers, declared.fan_out, "--followers", ["it delivers each message to one follower only", ""]),
        (Axis::Publishers, declared.publishers, "--publishers", ["one publisher", "uds/datagram"]),
    ];
    for (axis, _, flag, [why, other]) in axes.into_iter().filter(|(_, can, ..)| !can) {
        if let Some(pattern) = declared.patterns.iter().find(|pattern| facts(**pattern).has_axis(axis)) {
            refused(under(*pattern, &[flag, "2"]), &[name, why, "2 were requested", other, flag])?;
        }
    }
    if let Some(most) = variant.here.max_payload_bytes.filter(|most| *most < LARGEST_BYTES) {
        let largest = LARGEST_BYTES.to_string();
        refused(under(first, &["--payloads", &largest]), &[name, &largest, "bytes"])?;
        (suite.say)(&format!("conformance: {name} refuses more than {most} bytes"));
    }
    Ok(())
}

/// Checks for a usage error of one line that contains all `parts`, with nothing started.
fn is_refused(
    suite: &Suite,
    faults: &mut Faults,
    variant: &VariantHere<'_>,
    words: Vec<String>,
    parts: &[&str],
) -> Result<(), SuiteError> {
    let (folder, line) = (suite.folder()?, words.join(" "));
    let results = folder.path().join("results");
    let output = ["-o".to_owned(), results.display().to_string(), "--no-spin".to_owned()];
    let finished = suite.start(&[words, output.to_vec()].concat())?.wait(suite.longest());
    let (stdout, stderr) = (&finished.stdout, &finished.stderr);
    let one = stderr.starts_with("tripmeter: ") && stderr.ends_with('\n') && stderr.lines().count() == 1;
    let named = parts.iter().all(|part| stderr.contains(part));
    let good = finished.code() == Some(exit::USAGE.into()) && one && named && stdout.is_empty();
    let code = finished.code();
    faults.check(good, || format!("`{line}` is not refused with {parts:?}: exit code {code:?}: {stdout}{stderr}"));
    finished.left().into_iter().for_each(|left| faults.0.push(format!("`{line}` left {left}")));
    faults.check(!results.exists(), || format!("{}: `{line}` has started something", variant.name()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_abi::Setting;

    #[test]
    fn a_setting_that_names_something_must_say_so() {
        let faults_of = |setting: Setting| {
            let (mut faults, mut description) = (Faults::default(), description());
            description.settings = vec![setting];
            check_settings(&mut faults, &description);
            faults.0
        };
        let of = |name: &str, values: &str, names| Setting::new(name, "", values, "", names);
        for good in [
            of("profile", "file", Names::File),
            of("host", "own | IP address", Names::Host),
            of("depth", "messages, 1 to 9", Names::Nothing),
        ] {
            assert_eq!(faults_of(good), [""; 0]);
        }
        let undeclared = Setting { names: None, ..of("depth", "1 to 9", Names::Nothing) };
        assert_eq!(faults_of(undeclared), ["setting 'depth' of test does not declare what it names (TM_NAMES_*)"]);
        for (name, values) in [("profile", "file"), ("log_path", "text"), ("to", "URL"), ("peer", "an address")] {
            let [fault] = &faults_of(of(name, values, Names::Nothing))[..] else { panic!("{name}") };
            assert!(fault.contains("declares that it names nothing"), "{fault}");
        }
    }

    fn description() -> Description {
        Description {
            system: "test".to_owned(),
            summary: String::new(),
            version: String::new(),
            system_version: String::new(),
            variants: Vec::new(),
            settings: Vec::new(),
            daemon: None,
        }
    }
}
