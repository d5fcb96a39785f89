//! What a system does not declare is refused before anything is started.

use crate::{Faults, Suite, SuiteError, VariantHere, command_of};
use tripmeter_abi::{Pattern, Wait};
use tripmeter_model::exit;
use tripmeter_model::payload::LARGEST_BYTES;

/// Asks a variant for each wait and pattern that it lacks, for more followers, publishers and bytes than it has.
pub(crate) fn check(suite: &Suite, faults: &mut Faults, variant: &VariantHere<'_>) -> Result<(), SuiteError> {
    let name = &variant.name();
    let declared = variant.declared;
    let first = declared.patterns.first().copied().unwrap_or(Pattern::PingPong);
    let own = command_of(first);
    let flagged = |flag: &'static str, value: &str| [own, name, "-n", "10", flag, value].map(str::to_owned).to_vec();
    let mut refused = |words: Vec<String>, parts: &[&str]| is_refused(suite, faults, variant, words, parts);
    for wait in Wait::ALL.iter().filter(|wait| !declared.waits.contains(wait)) {
        let cannot = format!("cannot wait by '{wait}'");
        let other = declared.waits.first().map_or("", |wait| wait.as_str());
        refused(flagged("--wait", wait.as_str()), &[name, &cannot, other, "--wait"])?;
    }
    for pattern in Pattern::ALL.iter().filter(|pattern| !variant.can(**pattern)) {
        let words = [command_of(*pattern), name, "-n", "10"].map(str::to_owned).to_vec();
        refused(words, &[&format!("'{pattern}'"), first.as_str()])?;
    }
    if !variant.can(Pattern::Log) && !declared.fan_out {
        refused(flagged("--followers", "2"), &[name, "it reaches 1 follower", "2 were asked for", "--followers"])?;
    }
    if variant.can(Pattern::Channel) && !declared.publishers {
        let words = ["publish", name, "--publishers", "2"].map(str::to_owned).to_vec();
        refused(words, &[name, "1 publisher", "2 were asked for", "uds/datagram", "--publishers"])?;
    }
    if let Some(most) = variant.here.max_payload_bytes.filter(|most| *most < LARGEST_BYTES) {
        let largest = LARGEST_BYTES.to_string();
        refused(flagged("--payloads", &largest), &[name, &largest, "bytes"])?;
        (suite.say)(&format!("conformance: {name} refuses more than {most} bytes"));
    }
    Ok(())
}

/// It is wrong usage, in one line with all of these in it, and nothing is started.
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
