#!/usr/bin/env python3
"""Checks exports with the programs that read them: check_exports.py TRIPMETER RESULTS [--actions] [--parquet]
[--prometheus PROGRAM]

JUnit XML is read by junitparser, OpenMetrics by prometheus_client and, with --prometheus, by the
parser of Prometheus itself (tests/openmetrics, built by Go), with --parquet Parquet by DuckDB (needs `tripmeter_parquet`),
verdicts are validated against schema/verdict.schema.json, action.yml and ci/gitlab.yml against the schemas of SchemaStore and
GitLab that check-jsonschema brings. With --actions, workflow commands must be those that @actions/core writes of the same
texts (needs Node.js and npm). All of it again with hostile texts. Prints a line per finding; exit code 1 if there is one.
Needs tests/requirements.txt.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from csv import DictReader

import duckdb
import jsonschema
from junitparser import JUnitXml
from prometheus_client.openmetrics.parser import text_string_to_metric_families

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOSTILE = "<script>alert(1)</script> ]]> \"'&%0A \x1b[31m\u202e\ufffe\ufffd::error::FORGED\r\nFORGED | `x` \\ é "
FIGURES = {"folder": "VARCHAR", "sub_experiment": "VARCHAR", "payload_bytes": "BIGINT", "offered_load": "VARCHAR",
           "stream": "VARCHAR", "figure": "VARCHAR", "statistic": "VARCHAR", "rounds": "BIGINT", "value": "DOUBLE",
           "value_low": "DOUBLE", "value_high": "DOUBLE", "unit": "VARCHAR"}

# Samples of a round that give a percentile an upper bound at 95 %; with fewer it is left out.
FEWEST = {"p90": 29, "p99": 299, "p999": 2995, "p9999": 29956}


class Program:
    """The program under test."""

    def __init__(self, path):
        self.path = path

    def run(self, *words, codes=(0,)):
        environment = {name: value for name, value in os.environ.items() if name != "GITHUB_STEP_SUMMARY"}
        done = subprocess.run([self.path, *map(str, words)], capture_output=True, env=environment, check=False)
        if done.returncode not in codes:
            sys.exit(f"{words}: exit code {done.returncode}: {done.stderr.decode()}")
        return done.stdout.decode()


def hostile_results(folder, place):
    """A copy of results whose texts are hostile: a topic, an error, the kernel and the CPU."""
    shutil.copytree(folder, place)
    manifest = json.loads((place / "manifest.json").read_text())
    manifest["environment"].update(kernel=HOSTILE, cpu_model=HOSTILE + "x" * 10_000)
    (place / "manifest.json").write_text(json.dumps(manifest))
    lines, texts = [], (place / "trials.jsonl").read_text().split("\n")[:-1]
    whole = next(json.loads(text)["sub_experiment"] for text in texts if json.loads(text)["kind"] == "trial")
    for text in texts:
        line = json.loads(text)
        if line["kind"] == "trial":
            line["streams"]["topic=/" + HOSTILE] = line["streams"]["all"]
        # The first stays whole: what failed has no figures in some formats.
        if line["kind"] == "sub-experiment" and line["status"] == "complete" and line["name"] != whole:
            line.update(status="failed", error=HOSTILE + "y" * 10_000)
        lines.append(json.dumps(line))
    (place / "trials.jsonl").write_text("\n".join(lines) + "\n")
    return place


def hostile_verdict(verdict):
    """With a regression of a hostile name, and a hostile trouble."""
    row = {**verdict["figures"][0], "sub_experiment": HOSTILE, "stream": "topic=" + "z" * 10_000, "verdict": "regressed"}
    trouble = {"sub_experiment": HOSTILE, "what": HOSTILE, "fails": True}
    return {**verdict, "figures": [row, *verdict["figures"]], "troubles": [trouble]}


def check_junit(text, verdict):
    """Counts of the suites agree with their cases and with the verdict."""
    suites = list(JUnitXml.fromstring(text.encode()))
    if not suites:
        return ["junit: no suite"]
    findings = []
    for suite in suites:
        results = [type(result).__name__ for case in suite for result in case.result]
        counted = len(list(suite)), results.count("Failure"), results.count("Skipped")
        if counted != (suite.tests, suite.failures, suite.skipped):
            findings.append(f"junit: {suite.name}: {counted} in the place of {suite.tests, suite.failures, suite.skipped}")
    if verdict is not None:
        bad = {"regressed", "failed", "missing", "step", "drift"}
        wanted = sum(row["verdict"] in bad for row in verdict["figures"]) + sum(one["fails"] for one in verdict["troubles"])
        if (found := sum(suite.failures for suite in suites)) != wanted:
            findings.append(f"junit: {found} failures in the place of {wanted}")
    return findings


def check_openmetrics(text, folder):
    """Families have their units, and samples the values of metrics.csv where there is one round. What failed has none."""
    findings, values = [], {}
    lines = map(json.loads, (pathlib.Path(folder) / "trials.jsonl").read_text().split("\n")[:-1])
    failed = {line["name"] for line in lines if line["kind"] == "sub-experiment" and line["status"] == "failed"}
    for family in text_string_to_metric_families(text):
        if family.unit and not family.name.endswith("_" + family.unit):
            findings.append(f"openmetrics: {family.name} has unit {family.unit}")
        for sample in family.samples:
            key = tuple(sorted(sample.labels.items()))
            values[(sample.name, *key)] = sample.value
    if not any(name == "tripmeter_run_info" for name, *_ in values):
        findings.append("openmetrics: no tripmeter_run_info")
    rows = duckdb.sql("SELECT sub_experiment, payload_bytes, offered_load, stream, statistic, median(value), min(value) FROM "
                      f"read_csv('{folder}/metrics.csv') WHERE figure = 'rtt_half_ns' GROUP BY ALL").fetchall()
    samples = {tuple(row[:4]): row[6] for row in rows if row[4] == "n"}
    for sub, payload, load, stream, statistic, value, _ in rows:
        if statistic == "n":
            continue
        labels = {"sub_experiment": sub, "payload_bytes": str(payload), "offered_load": load, "stream": stream,
                  "statistic": statistic}
        found = values.get(("tripmeter_rtt_half_seconds", *tuple(sorted(labels.items()))))
        is_bounded = samples[(sub, payload, load, stream)] >= FEWEST.get(statistic, 0)
        is_right = abs(found - value / 1e9) <= 1e-9 * value / 1e9 if found is not None else False
        if is_right != (is_bounded and sub not in failed):
            findings.append(f"openmetrics: {labels} is {found}, and {value} ns in metrics.csv")
    return findings


def check_prometheus(reader, text):
    """Prometheus reads the same samples as prometheus_client, and refuses text without an end."""
    done = subprocess.run([reader], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [f"prometheus: {done.stderr}"]
    found = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
    found = {tuple(sorted(one["labels"].items())): float(one["value"]) for one in found}
    families = text_string_to_metric_families(text)
    wanted = {tuple(sorted({**sample.labels, "__name__": sample.name}.items())): float(sample.value)
              for family in families for sample in family.samples}
    findings = [] if found == wanted and wanted else [f"prometheus: {len(found)} samples, and prometheus_client reads {len(wanted)}"]
    cut = subprocess.run([reader], input=text.replace("# EOF\n", ""), capture_output=True, text=True, check=False)
    return findings + (["prometheus: text without an end is taken"] if cut.returncode != 65 else [])


def check_bencher(text):
    """Benchmarks by name, with measures that have a value."""
    findings = []
    for name, measures in json.loads(text).items():
        if not 0 < len(name) <= 1024:
            findings.append(f"bencher: a name of {len(name)} characters")
        for measure, metric in measures.items():
            numbers = [value for value in metric.values() if isinstance(value, (int, float))]
            is_known = set(metric) <= {"value", "lower_value", "upper_value"} and "value" in metric
            if len(measure) > 64 or not is_known or len(numbers) != len(metric):
                findings.append(f"bencher: {name}: {measure}: {metric}")
    return findings or ([] if json.loads(text) else ["bencher: nothing"])


def check_parquet(program, folder, place):
    """The rows of the CSV."""
    program.run("export", folder, "--format", "parquet", "-o", place)
    table = duckdb.read_parquet(str(place / "figures.parquet"))
    if dict(zip(table.columns, map(str, table.types))) != FIGURES:
        return [f"parquet: columns {table.columns} of types {table.types}"]
    (place / "figures.csv").write_text(program.run("export", folder, "--format", "csv"))
    columns = "sub_experiment, payload_bytes, offered_load, stream, figure, statistic, rounds, value, unit"
    csv = duckdb.read_csv(str(place / "figures.csv"), header=True, all_varchar=True, quotechar='"', escapechar='"')
    csv = csv.project(columns.replace("payload_bytes", "payload_bytes::BIGINT").replace("rounds", "rounds::BIGINT")
                      .replace("value", "value::DOUBLE")).fetchall()
    findings = [] if table.project(columns).fetchall() == csv else ["parquet: figures differ from the CSV"]
    lines = [json.loads(line) for line in (folder / "trials.jsonl").read_text().split("\n")[:-1]]
    def payload(line):
        return line["sub_experiment"], line["payload_bytes"], line["round"]

    last = {payload(line): line["attempt"] for line in lines if line["kind"] == "payload"}
    counted = {(line["sub_experiment"], line["round"], line["trial"]) for line in lines
               if line["kind"] == "trial" and last.get(payload(line)) == line["attempt"]}
    for samples in folder.rglob("samples/*.csv"):
        made = (place / samples.relative_to(folder)).with_suffix(".parquet")
        rows = duckdb.read_parquet(str(made)).count("*").fetchall()[0][0]
        # Attempts that were set aside do not count.
        with samples.open(newline="") as file:
            wanted = sum((samples.stem, int(row["round"]), int(row["trial"])) in counted for row in DictReader(file))
        if rows != wanted:
            findings.append(f"parquet: {made}: {rows} rows, and {wanted} count")
    return findings


def check_github(program, folder, verdict, place):
    """The commands of @actions/core, and a summary without markup of others."""
    tools = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "tools/actions"
    tools.mkdir(parents=True, exist_ok=True)
    here = ROOT / "tests/actions"
    lock = (here / "package-lock.json").read_text()
    if not (tools / "installed").exists() or (tools / "installed").read_text() != lock:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(here / name, tools)
        subprocess.run(["npm", "ci", "--prefix", tools, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"],
                       check=True, stdout=sys.stderr)
        (tools / "installed").write_text(lock)
    shutil.copy(here / "print.mjs", tools)
    # Short ones: GitHub cuts off long ones, and so do we.
    texts = [HOSTILE, "a,b:c%25", "100 %\n::warning::x", "\r", "é → µ"]
    verdict = {**verdict, "figures": [], "counts": {}, "troubles": [
        {"sub_experiment": text, "what": text[::-1], "fails": True} for text in texts]}
    (place / "annotated.json").write_text(json.dumps(verdict))
    summary = place / "summary.md"
    made = program.run("export", folder, "--format", "github", "--verdict", place / "annotated.json", "-o", summary)
    wanted = subprocess.run(["node", tools / "print.mjs"], input=json.dumps(
        [{"title": text, "text": text[::-1]} for text in texts]), text=True, capture_output=True, check=True).stdout
    # What a terminal acts on is shown escaped.
    for hidden in ("\x1b", "\u202e"):
        wanted = wanted.replace(hidden, f"\\u{ord(hidden):04x}")
    found = [line for line in made.split("\n") if line.startswith("::error")]
    findings = [] if found == wanted.rstrip("\n").split("\n") else [f"github: {found} in the place of {wanted!r}"]
    if "<script>" in summary.read_text() or "\nFORGED" in summary.read_text():
        findings.append("github: markup of others in the summary")
    return findings


def check_files(python):
    """The action and the template against the schemas of their readers."""
    findings = []
    for schema, file in (("vendor.github-actions", "action.yml"), ("vendor.gitlab-ci", "ci/gitlab.yml")):
        done = subprocess.run([python, "-m", "check_jsonschema", "--builtin-schema", schema, ROOT / file],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            findings.append(f"{file}: {done.stdout}{done.stderr}")
    return findings


def check(program, folder, place, options):
    """Findings of all formats."""
    schema = json.loads((ROOT / "schema/verdict.schema.json").read_text())
    hostile = hostile_results(folder, place / "hostile")
    findings = check_files(sys.executable)
    verdicts = {method: program.run("compare", folder, folder, "--json", "--method", method, codes=(0, 1))
                for method in ("threshold", *(["ranks"] if (folder / "round-04").exists() else []))}
    (place / "limits.csv").write_text("sub_experiment,payload_bytes,offered_load,stream,figure,statistic,limit\n")
    program.run("limits", folder, "-o", place / "limits.csv")
    verdicts["check"] = program.run("check", folder, "--limits", place / "limits.csv", "--json", codes=range(64))
    for name, text in verdicts.items():
        verdict = json.loads(text)
        for one in (verdict, hostile_verdict(verdict)):
            findings += [f"{name}: {error.message}" for error in jsonschema.Draft202012Validator(schema).iter_errors(one)]
            file = place / "verdict.json"
            file.write_text(json.dumps(one))
            findings += check_junit(program.run("export", folder, "--format", "junit", "--verdict", file), one)
            program.run("export", folder, "--format", "github", "--verdict", file)
    if options.count("--actions"):
        findings += check_github(program, folder, json.loads(verdicts["check"]), place)
    for results in (folder, hostile):
        findings += check_junit(program.run("export", results, "--format", "junit"), None)
        metrics = program.run("export", results, "--format", "openmetrics")
        findings += check_openmetrics(metrics, results)
        if "--prometheus" in options:
            findings += check_prometheus(options[options.index("--prometheus") + 1], metrics)
        findings += check_bencher(program.run("export", results, "--format", "bencher"))
        if "--parquet" in options:
            findings += check_parquet(program, results, place / f"parquet-{results.name}")
    return findings


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.splitlines()[0])
    program, folder, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        findings = check(Program(program), pathlib.Path(folder).resolve(), pathlib.Path(place), options)
    print("\n".join(findings) or "exports: good")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
