#!/usr/bin/env bash
# The tests: scripts/test.sh needs a Rust toolchain, a C compiler, make and Python 3; scripts/test.sh all installs every
# middleware (as root or by sudo) and then tests every transport, where a skipped test fails.
#
# Ends with the number of tests: `N passed, N failed, N skipped`.
set -euo pipefail
exec </dev/null

cd "$(dirname "${BASH_SOURCE[0]}")/.."
stage=${1:-core}
if [[ $# -gt 1 || ! $stage =~ ^(core|all)$ ]]; then
    echo "usage: scripts/test.sh [core|all]" >&2
    exit 64
fi

export CARGO_TERM_COLOR=never
target=${CARGO_TARGET_DIR:-$PWD/target}
export CARGO_TARGET_DIR=$target TRIPMETER_TRANSPORTS=$target/transports
scratch=$(mktemp -d)
tests_log=$scratch/tests.log
touch "$tests_log"
current=start

# Prints the counts of all tests so far, and what failed, whatever ends this script. Skipped are ignored tests, and what
# a test says it skipped.
finish() {
    local code=$?
    [[ $code -eq 0 ]] || echo "test.sh: failed: $current (exit code $code)" >&2
    awk '/SKIPPED: / { skipped++ }
         /^test result:/ { for (i = 2; i <= NF; i++) {
             if ($i ~ /^passed/) passed += $(i - 1)
             if ($i ~ /^failed/) failed += $(i - 1)
             if ($i ~ /^ignored/) skipped += $(i - 1)
         } }
         END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }' "$tests_log"
    rm -rf -- "$scratch"
    exit "$code"
}
trap finish EXIT

# step WORDS: what is being done from here on.
step() {
    current=$*
    printf '\n== %s\n' "$current"
}

# Runs cargo test, for half an hour at most, and keeps what it prints for the counts.
cargo_test() {
    timeout 1800 cargo test --locked --no-fail-fast "$@" 2>&1 | tee -a "$tests_log"
}

core() {
    step format
    cargo fmt --all --check
    step clippy
    cargo clippy --workspace --all-targets --locked -- -D warnings
    step tests
    cargo_test --workspace
    step documentation
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --lib --no-deps --locked
    step tables in the documents
    TRIPMETER=$target/debug/tripmeter scripts/update-docs.sh --check
    if command -v shellcheck >/dev/null; then
        step shell scripts
        shellcheck .ci/run scripts/*.sh
    fi
}

# Crates that are workspaces of their own.
plugin_crates() {
    grep -l '^\[workspace\]' transports/*/Cargo.toml
}

lint_plugins() {
    local manifest
    while read -r manifest; do
        step format and clippy of "$manifest"
        cargo fmt --check --manifest-path "$manifest"
        CARGO_TARGET_DIR=$target/plugins cargo clippy --all-targets --locked --manifest-path "$manifest" -- -D warnings
    done < <(plugin_crates)
}

# check_preset NAME [FLAGS]: runs a preset and checks the files that it wrote with tools that are not ours.
check_preset() {
    local results=$scratch/results/$1
    "$target/release/tripmeter" run --preset "$@" -o "$results"
    "$scratch/venv/bin/python" tests/check_results.py "$results"
}

everything() {
    step middleware
    scripts/install-middleware.sh
    step transports that are plugins
    OUT=$target/transports scripts/build-transports.sh
    lint_plugins
    step every transport, none skipped
    # What was skipped above for want of a library is run now, or else fails.
    sed -i '/SKIPPED: /d' "$tests_log"
    TRIPMETER_REQUIRE_ALL=1 cargo_test -p tripmeter --tests
    if grep 'SKIPPED: ' "$tests_log"; then
        return 1
    fi
    step release build
    cargo build --release --locked -p tripmeter
    step tools that check results
    python3 -m venv "$scratch/venv"
    "$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt
    step preset iceperf
    check_preset iceperf -n 100
    step preset quick
    check_preset quick
    step benchmark against bare loops
    overhead
}

# That the benchmark works, not how it comes out: one pair of short runs says nothing about its aims, so 1 is good too.
overhead() {
    local code=0
    python3 bench/overhead/run.py --tripmeter "$target/release/tripmeter" --pairs 1 --samples 500 --warmup 50 \
        --output "$scratch/overhead.json" || code=$?
    [[ $code -le 1 ]] || return "$code"
    python3 -m json.tool "$scratch/overhead.json" >/dev/null
}

core
if [[ $stage == all ]]; then
    everything
fi
