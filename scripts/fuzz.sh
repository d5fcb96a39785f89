#!/usr/bin/env bash
# Fuzzes every parser: scripts/fuzz.sh OPTION [TARGET...]; without TARGET, all of them.
#
#   --seconds N       runs each target for N seconds, and adds its executions to docs/results/fuzz/executions.json
#   --executions N    runs each target until N executions with its current source are counted there
#   --ci              runs each target for a second on its corpus, and keeps nothing
#   --minimise        packs the inputs that add coverage into fuzz/corpus
#   --list            prints the names of all targets
#
# With --asan in front, runs under AddressSanitizer in a separate folder, and counts nothing. Needs a C++ compiler.
# Inputs are in target/fuzz/work, inputs that made a target fail in target/fuzz/faults. See docs/fuzzing.md.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
usage() {
    sed -n '2,/^set/s/^# \{0,1\}//p' scripts/fuzz.sh
    exit "${1:-0}"
}
sanitizer=none
if [[ ${1:-} == --asan ]]; then
    sanitizer=address
    shift
fi
what=${1:-}
[[ $sanitizer == none || $what != --executions ]] || usage 64 >&2
number=0
case $what in
    --seconds | --executions)
        number=${2:-}
        [[ $number =~ ^[1-9][0-9]*$ ]] || usage 64 >&2
        shift 2
        ;;
    --ci | --minimise | --list) shift ;;
    --help | -h) usage ;;
    *) usage 64 >&2 ;;
esac

folder=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
# Edges are counted, as with cargo-fuzz. Every LLVM has this pass, so a stable compiler will do. Compared values are
# traced only under AddressSanitizer, because tracing took more than half of the time.
counters=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table --cfg fuzzing)
profile=release
[[ $what != --ci ]] || profile=dev
if [[ $sanitizer == address ]]; then
    counters+=(-Cllvm-args=-sanitizer-coverage-trace-compares)
    # A stable compiler has sanitizers only with RUSTC_BOOTSTRAP.
    export RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address
fi
# Cargo does not see these flags, so each set of flags has its own build folder.
build=$folder/build-$sanitizer-$(cat scripts/fuzz-rustc.sh - <<<"${counters[*]}" | sha256sum | head -c 8)
FUZZ_FLAGS=${counters[*]} RUSTC_WRAPPER=$PWD/scripts/fuzz-rustc.sh CARGO_TARGET_DIR=$build \
    cargo build --quiet --profile "$profile" --locked --manifest-path fuzz/Cargo.toml --target "$host"
program=$build/$host/${profile/dev/debug}/fuzz

mapfile -t all < <(TRIPMETER_FUZZ_TARGET='' "$program" -artifact_prefix="$build/" 2>&1 | sed -n 's/^fuzz: .* one of //p' | tr -d ' ' | tr , '\n')
[[ ${#all[@]} -ne 0 ]] || exit 70
if [[ $what == --list ]]; then
    printf '%s\n' "${all[@]}"
    exit
fi
targets=("$@")
[[ ${#targets[@]} -ne 0 ]] || targets=("${all[@]}")

# unpack TARGET: unpacks its inputs, and collects words in them that a fuzzer would not find by itself.
unpack() {
    local work=$folder/inputs/$1
    mkdir -p "$work" "$folder/faults/$1"
    [[ ! -f fuzz/corpus/$1.tar.gz ]] || tar -xzf "fuzz/corpus/$1.tar.gz" -C "$work" --skip-old-files
    cp -n -- "fuzz/regressions/$1"/* "$work" 2>/dev/null || true
    cp -n -- "$folder/seeds/$1"/* "$work" 2>/dev/null || true
    python3 scripts/fuzz.py words "$work" >"$folder/words-$1"
}

# run TARGET OPTIONS...: runs it, with its log in $folder/log-TARGET.
run() {
    local target=$1 length dictionary=()
    [[ ! -s $folder/words-$1 ]] || dictionary=(-dict="$folder/words-$1")
    length=$(python3 scripts/fuzz.py length "$target")
    # No leak check, because that needs ptrace. Freed memory stays with the program: otherwise a target with large
    # buffers spent most of its time in the kernel.
    MALLOC_TRIM_THRESHOLD_=-1 MALLOC_MMAP_THRESHOLD_=1000000000 TRIPMETER_FUZZ_TARGET=$target ASAN_OPTIONS=detect_leaks=0 "$program" -print_final_stats=1 -timeout=120 -rss_limit_mb=2048 \
        -max_len="$length" "${dictionary[@]}" -artifact_prefix="$folder/faults/$target/" -verbosity=1 "${@:2}" \
        >"$folder/log-$target" 2>&1
}

# counted LIMIT: runs the target within a limit of libFuzzer, and counts.
counted() {
    run "$target" "$1" "$work" || code=$?
    [[ $sanitizer != none ]] || python3 scripts/fuzz.py record "$target" "$folder/log-$target" "$work"
}

PART=1000000
failed=0
for target in "${targets[@]}"; do
    unpack "$target"
    work=$folder/inputs/$target
    code=0
    rm -f -- "$folder/log-$target"
    case $what in
        --ci) run "$target" -max_total_time=1 -seed=1 "$work" || code=$? ;;
        --minimise)
            rm -rf -- "$folder/merged"
            mkdir "$folder/merged"
            run "$target" -merge=1 "$folder/merged" "$work" || code=$?
            [[ $code -ne 0 ]] || python3 scripts/fuzz.py pack "$folder/merged" "fuzz/corpus/$target.tar.gz"
            ;;
        --seconds) counted -max_total_time="$number" ;;
        --executions)
            # Runs in parts, so that an interruption loses little.
            left=$(python3 scripts/fuzz.py left "$target" "$number")
            while [[ $left -gt 0 && $code -eq 0 ]]; do
                counted -runs=$((left < PART ? left : PART))
                left=$(python3 scripts/fuzz.py left "$target" "$number")
            done
            ;;
    esac
    executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/log-$target" 2>/dev/null || true)
    echo "fuzz: $target: ${executed:-0} executions, exit code $code"
    if [[ $code -ne 0 ]]; then
        tail -n 40 "$folder/log-$target" >&2
        failed=1
    fi
done
exit "$failed"
