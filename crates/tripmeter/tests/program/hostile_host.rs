//! Hosts of `--to` that send too much: whatever they send, the results so far are kept and readable.

use crate::common::{alone, is_nightly, manifest};
use crate::other_hosts::ScriptedHosts;
use std::path::Path;
use tripmeter_model::manifest::RunStatus;

/// Replacement for `tripmeter` on the host.
const LIAR: &str =
    "#!/bin/sh\n[ \"$1\" = remote ] || exec \"$REAL\" \"$@\"\nexec python3 \"$LAB/lie.py\" \"$REAL\" \"$LAB\"\n";
/// Forwards the true program's output, and lies as the file `lie` says.
const LIE: &str = r#"
import json, subprocess, sys, time
real, lab = sys.argv[1:]
lie = open(lab + "/lie").read()
with open(lab + "/calls", "a+") as calls:
    calls.write("x")
    calls.flush()
    calls.seek(0)
    call = len(calls.read())
reports = 0
child = subprocess.Popen([real, "remote"], stdout=subprocess.PIPE)
out = sys.stdout.buffer
LONG, LIST, ERROR, LINE = "x" * 65537, [0] * 250001, "x" * 5000000, b"x" * ((64 << 20) + 1)

def has_payload():
    try:
        return b'"kind":"payload"' in open(lab + "/results/trials.jsonl", "rb").read()
    except OSError:
        return False

def is_late(message):
    """True from the report of a second payload on. The first report is of no payload."""
    global reports
    if '"Report"' in message:
        reports += 1
        end = time.monotonic() + (reports > 1)
        while not has_payload() and time.monotonic() < end:
            time.sleep(0.01)
    return has_payload()

def say(message):
    out.write(json.dumps(message).encode() + b"\n")
    out.flush()

def lied(message):
    """True if something else was said."""
    if type(message) is not dict:
        return False
    if lie == "greeting" and "versions" in message:
        message["name"] = LONG
        message["interfaces"] = [["lo" + LONG, "127.0.0.1"]] + message["interfaces"]
    elif lie == "greeting-list" and "versions" in message:
        message["interfaces"] = [["lo", "127.0.0.1"]] * 25001
    elif lie == "greeting-line" and "versions" in message:
        out.write(LINE)
        out.flush()
        return True
    elif "Prepared" in message and lie in ["texts", "late-texts"][:1 if call < 3 else 2]:
        found = message["Prepared"]
        for name in ["kernel", "cpu_model", "manufacturer"]:
            found["environment"][name] = LONG
        found["network"]["facts"][LONG] = LONG
        found["network"]["hidden"] = [LONG]
        found["audit"]["findings"][0]["value"] = LONG
    elif "Prepared" in message and lie in ["list", "late-list"][:1 if call < 3 else 2]:
        message["Prepared"]["environment"]["cpus"] = LIST
    elif "Prepared" in message and lie == "refusal":
        say({"Failed": ERROR})
        return True
    elif "Control" in message and lie == "late-error" and is_late(message["Control"]):
        say({"Control": json.dumps({"Failed": ERROR})})
        return True
    elif "Control" in message and lie == "late-line" and is_late(message["Control"]):
        out.write(b'{"Control":"' + LINE)
        out.flush()
        return True
    elif "Control" in message and lie == "late-failure" and is_late(message["Control"]):
        say({"Failed": ERROR})
        return True
    elif "Ended" in message and lie == "last-word":
        say({"Ended": {"Failed": ERROR}})
        return True
    elif "Ended" in message and lie == "last-list":
        message["Ended"]["Used"]["cpus"] = LIST
    return False

for line in child.stdout:
    message = json.loads(line)
    if not lied(message):
        say(message)
"#;

/// A lie, its exit code, and the text of its error.
struct Lie {
    name: &'static str,
    code: i32,
    says: &'static str,
}

impl Lie {
    const fn new(name: &'static str, code: i32, says: &'static str) -> Self {
        Self { name, code, says }
    }

    /// True if the error is reported. A long line may also exceed the time that its host is waited for.
    fn is_said(&self, said: &str) -> bool {
        let late = ["no greeting from `tripmeter` within 60 s", "host 'a': it has sent nothing for 15 s"];
        said.contains(self.says) || self.name.ends_with("-line") && late.iter().any(|late| said.contains(late))
    }

    /// Allowed exit codes of a command, and true if it reports the host's error. `choose` only fails that transport,
    /// and a recording has no second payload. On a busy machine `choose` may find a missed rate, and `ab` a difference.
    fn expected(&self, command: &str) -> (&'static [i32], bool) {
        match (command, self.code) {
            ("choose", 75) => (&[1], true),
            ("choose" | "ab", 0) => (&[0, 1], true),
            ("replay", 75) => (&[0], false),
            (_, 0) => (&[0], true),
            (_, 75) => (&[75], true),
            _ => (&[69], true),
        }
    }

    /// True if the lie comes after the first payload.
    fn is_late(&self) -> bool {
        self.code == 75
    }
}

const LIES: [Lie; 11] = [
    Lie::new("greeting", 0, ""),
    Lie::new("greeting-list", 69, "host 'a': it sent "),
    Lie::new("texts", 0, ""),
    Lie::new("list", 69, "host 'a': it sent lists of 2500"),
    Lie::new("late-texts", 0, ""),
    Lie::new("late-list", 0, "host 'a' was not audited afterwards: it sent lists of 2500"),
    Lie::new("refusal", 69, " bytes more"),
    Lie::new("late-error", 75, " bytes more"),
    Lie::new("late-failure", 75, " bytes more"),
    Lie::new("last-word", 0, ""),
    Lie::new("last-list", 0, ""),
];
/// Lines of more than 64 MiB, which take long to write.
const LONG_LINES: [Lie; 2] = [
    Lie::new("greeting-line", 69, "host 'a': it sent a message of more than 67108864 bytes, the limit of a line"),
    Lie::new("late-line", 75, "host 'a': it sent a message of more than 67108864 bytes, the limit of a line"),
];

fn is_told_and_kept(lie: &Lie, words: &[&str]) {
    let hosts = ScriptedHosts::new(&["a"]);
    hosts.program("a/bin/tripmeter", LIAR);
    std::fs::write(hosts.path("lie.py"), LIE).unwrap();
    let between =
        ["--to", "a", "--interface", "127.0.0.1", "--to-interface", "127.0.0.1", "--no-report", "-o", "results"];
    let experiment = "payloads = \"1k,2k\"\nsamples = 50\n[[sub_experiment]]\ntransport = \"tcp\"\n";
    std::fs::write(hosts.path("mine.toml"), experiment).unwrap();
    let is_recorded = words[0] == "replay";
    let recording = is_recorded.then(|| crate::recording::write(hosts.0.path(), None, &crate::recording::drive()));
    let recording = recording.map(|file| file.display().to_string());
    let resumes = words.contains(&"--resume");
    if resumes {
        // One payload is complete, the other missing.
        std::fs::write(hosts.path("lie"), "late-error").unwrap();
        let (code, said) = hosts.run(&[&["run", "mine.toml", "--no-spin"], &between[..]].concat());
        assert_eq!(code, 75, "{said}");
        std::fs::remove_file(hosts.path("calls")).unwrap();
    }
    std::fs::write(hosts.path("lie"), lie.name).unwrap();
    let between = &between[..if resumes { between.len() - 2 } else { between.len() }];
    let words = &words[..1].iter().copied().chain(recording.as_deref()).chain(words[1..].iter().copied());
    let words = &words.clone().collect::<Vec<_>>()[..];
    let (code, said) = hosts.run(&[words, between].concat());
    let (name, longest) = (lie.name, said.lines().map(str::len).max().unwrap_or(0));
    let shown = said.chars().take(4000).collect::<String>();
    let (expected, is_said) = lie.expected(words[0]);
    assert!(expected.contains(&code), "{words:?}: {name}: {code}: {shown}");
    assert!(
        longest < 16_000 && (!is_said || lie.is_said(&said)),
        "{words:?}: {name}: {longest} bytes in a line: {shown}"
    );
    assert!(!said.contains("signal: 9"), "{words:?}: {name}: {shown}");
    let results = hosts.path("results");
    assert!(results.exists() == (code != 69 || resumes), "{words:?}: {name}");
    if !results.exists() {
        return;
    }
    let (shows, said) = hosts.run(&["show", "results"]);
    assert_eq!(shows, 0, "{words:?}: {name}: {said}");
    if words.contains(&"1k,2k") || words[0] == "run" {
        is_kept(&results, lie, words, code);
    }
}

fn is_kept(results: &Path, lie: &Lie, words: &[&str], code: i32) {
    let found = manifest(results);
    let of = &found.sub_experiments[0];
    let payloads = of.cells.iter().filter(|cell| !cell.unfinished).count();
    // A run that could not be resumed changes nothing.
    if lie.is_late() || code == 69 {
        let error = of.error.as_deref().unwrap();
        assert!(
            of.status == RunStatus::Failed && error.len() < 16_000 && payloads > 0,
            "{words:?}: {}: {error}",
            lie.name
        );
    } else {
        assert_eq!((of.status, payloads), (RunStatus::Complete, 2), "{words:?}: {}", lie.name);
    }
    let host = &found.environment.hosts[0];
    let is_cut = |text: &str| text.len() <= 4096 && text.ends_with(" bytes more");
    match lie.name {
        // A resumed run keeps the texts from its start.
        _ if words.contains(&"--resume") => {}
        "greeting" => assert!(is_cut(&host.name)),
        "texts" => assert!(is_cut(&host.environment.kernel) && is_cut(&host.there.hidden[0])),
        _ => {}
    }
}

const PING: [&str; 7] = ["ping", "tcp", "--payloads", "1k,2k", "-n", "50", "--no-spin"];

#[test]
fn a_host_that_says_too_much_is_told_in_a_line_and_what_was_measured_is_read() {
    let _alone = alone();
    for lie in &LIES {
        is_told_and_kept(lie, &PING);
    }
}

#[test]
fn a_line_of_a_host_over_the_limit_is_called_that() {
    let _alone = alone();
    for lie in &LONG_LINES {
        is_told_and_kept(lie, &PING);
    }
}

#[test]
fn every_command_that_measures_with_hosts_keeps_what_it_has() {
    let _alone = alone();
    let few = ["--no-spin"];
    let commands: [&[&str]; 8] = [
        &["run", "mine.toml"],
        &["run", "--resume", "results"],
        &["publish", "tcp", "--payloads", "1k,2k", "-n", "50", "--rate", "1000"],
        &["call", "tcp", "--payloads", "1k,2k", "-n", "50", "--rate", "1000"],
        &["throughput", "tcp", "--payloads", "1k,2k", "--duration", "0.1"],
        &["choose", "tcp", "--payload", "1k", "--rate", "1000", "-n", "50"],
        &["ab", "tcp", "tcp", "--payloads", "1k", "-n", "50", "--rounds", "6"],
        &["replay", "tcp"],
    ];
    let lies: Vec<&Lie> = LIES.iter().chain(&LONG_LINES).collect();
    let lies: Vec<&Lie> = lies.into_iter().filter(|lie| is_nightly() || lie.name == "late-error").collect();
    for command in if is_nightly() { &commands[..] } else { &commands[..4] } {
        for lie in &lies {
            is_told_and_kept(lie, &[command, &few[..]].concat());
        }
    }
}
