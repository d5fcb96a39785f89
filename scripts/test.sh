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
again_log=$scratch/again.log
touch "$tests_log" "$again_log"
current=start

# Prints the counts of all tests so far, and what failed, whatever ends this script. Skipped are ignored tests, and what
# a test says it skipped.
finish() {
    local code=$?
    # The release build, if what runs beside it has failed.
    jobs -p | xargs -r kill 2>/dev/null || true
    [[ $code -eq 0 ]] || echo "test.sh: failed: $current (exit code $code)" >&2
    awk '/SKIPPED: / { skipped++ }
         again && /^test .* \.\.\. ok$/ { failed--; passed++; print "unstable, passed when run again: " $2 }
         !again && /^test result:/ { for (i = 2; i <= NF; i++) {
             if ($i ~ /^passed/) passed += $(i - 1)
             if ($i ~ /^failed/) failed += $(i - 1)
             if ($i ~ /^ignored/) skipped += $(i - 1)
         } }
         END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }' "$tests_log" again=1 "$again_log"
    rm -rf -- "$scratch"
    exit "$code"
}
trap finish EXIT

# step WORDS: what is being done from here on.
step() {
    current=$*
    printf '\n== %s (after %d min)\n' "$current" $((SECONDS / 60))
}

# Runs cargo test, for 45 minutes at most, and keeps what it prints for the counts. Many tests start real middleware and
# have time-outs, on machines that others may use too: what fails is run once more, by itself. What passes then is counted
# as passed, and named in the end as unstable: a fault that is to be found, of the test or of the program.
cargo_test() {
    local log=$scratch/run.log code=0 target names targets
    timeout 2700 cargo test --locked --no-fail-fast "$@" 2>&1 | tee "$log" || code=$?
    cat "$log" >>"$tests_log"
    [[ $code -ne 0 ]] || return 0
    mapfile -t names < <(awk '/^failures:$/ { on = 1 } /^test result:/ { on = 0 } on && /^    [^ ]+$/ { print $1 }' "$log" | sort -u)
    # The quotes of cargo's own list.
    # shellcheck disable=SC2016
    mapfile -t targets < <(sed -n 's/^    `\(-.*\)`$/\1/p' "$log")
    [[ $code -ne 124 && ${#names[@]} -gt 0 && ${#targets[@]} -gt 0 ]] || return "$code"
    for target in "${targets[@]}"; do
        printf '\ntest.sh: once more: %s of %s\n' "${names[*]}" "$target"
        # The target is several words.
        # shellcheck disable=SC2086
        timeout 1800 cargo test --locked $target -- --exact "${names[@]}" 2>&1 | tee "$log" || return
        # A target that broke off without naming a test has nothing to run again.
        grep -q '^test .* ok$' "$log" || return "$code"
        cat "$log" >>"$again_log"
    done
}

core() {
    step format
    cargo fmt --all --check
    step clippy
    cargo clippy --workspace --all-targets --locked -- -D warnings
    step tests
    if [[ $stage == core ]]; then
        cargo_test --workspace
    else
        # Those of transports come when all are there.
        mapfile -t flags < <(tests built_in)
        cargo_test --workspace --lib --bins "${flags[@]}"
        cargo_test --workspace --doc
    fi
    step documentation
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --lib --no-deps --locked
    step tables in the documents
    TRIPMETER=$target/debug/tripmeter scripts/update-docs.sh --check
}

# The programs of tests that need the built-in transports only: they skip nothing.
built_in_only=' ab audit checks cli example faults handover jobs plots process recording selftest timed '

# tests built_in: their flags, one per line, and those of the libraries' tests; tests of_transports: all others'.
tests() {
    local file name of
    for file in crates/*/tests/*.rs crates/*/tests/*/main.rs; do
        name=${file#crates/*/tests/}
        name=${name%.rs}
        name=${name%/main}
        of=of_transports
        [[ $file != crates/tripmeter/* || $built_in_only == *" $name "* ]] && of=built_in
        [[ $of != "$1" ]] || printf -- '--test=%s\n' "$name"
    done
}

# Crates that are workspaces of their own.
plugin_crates() {
    grep -l '^\[workspace\]' transports/*/Cargo.toml bench/native/*/Cargo.toml
}

lint_plugins() {
    local manifest
    while read -r manifest; do
        step format and clippy of "$manifest"
        cargo fmt --check --manifest-path "$manifest"
        CARGO_TARGET_DIR=$target/plugins cargo clippy --release --all-targets --locked --manifest-path "$manifest" -- -D warnings
    done < <(plugin_crates)
}

# check_preset NAME [FLAGS]: runs a preset and checks the files that it wrote with tools that are not ours.
check_preset() {
    local results=$scratch/results/$1
    "$target/release/tripmeter" run --preset "$@" -o "$results"
    "$scratch/venv/bin/python" tests/check_results.py "$results"
}

everything() {
    step middleware, and the release build beside it
    # Both wait for others most of the time: packages for the network, the build for its largest crate.
    cargo build --release --locked -p tripmeter >"$scratch/release.log" 2>&1 &
    local release=$!
    scripts/install-middleware.sh
    wait "$release" || {
        cat "$scratch/release.log"
        return 1
    }
    step transports that are plugins
    OUT=$target/transports scripts/build-transports.sh
    lint_plugins
    step every transport, none skipped
    mapfile -t flags < <(tests of_transports)
    TRIPMETER_REQUIRE_ALL=1 cargo_test --workspace "${flags[@]}"
    if grep 'SKIPPED: ' "$tests_log" "$again_log"; then
        return 1
    fi
    step tools that check results
    python3 -m venv "$scratch/venv"
    "$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt
    step recordings of another library
    "$scratch/venv/bin/python" tests/foreign_recording.py "$target/release/tripmeter"
    step shell scripts
    "$scratch/venv/bin/shellcheck" .ci/run scripts/*.sh
    step preset iceperf
    check_preset iceperf -n 100
    step preset quick
    check_preset quick
    step benchmark against bare loops
    overhead
    step summaries against pandas
    against_pandas
}

# That the benchmark works, not how it comes out: one pair of short runs says nothing about its aims, so 1 is good too.
overhead() {
    local code=0
    python3 bench/overhead/run.py --tripmeter "$target/release/tripmeter" --rounds 1 --repeats 1 --samples 500 --warmup 50 \
        --output "$scratch/overhead.json" || code=$?
    [[ $code -le 1 ]] || return "$code"
    python3 -m json.tool "$scratch/overhead.json" >/dev/null
}

# That both make the same summaries; how long they take on such small files says nothing.
against_pandas() {
    local code=0 numbers
    "$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check -r bench/process/requirements.txt
    for numbers in ours latencytest; do
        "$scratch/venv/bin/python" bench/process/run.py --tripmeter "$target/release/tripmeter" --rounds 1 \
            --samples 3000 --numbers "$numbers" || code=$?
        [[ $code -le 1 ]] || return "$code"
    done
}

core
if [[ $stage == all ]]; then
    everything
fi
