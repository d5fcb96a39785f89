#!/usr/bin/env bash
# Fuzzing of every parser: scripts/fuzz.sh OPTION [TARGET...], of all targets if none is named.
#
#   --seconds N       runs each target for so long, and adds its executions to docs/results/fuzz/executions.json
#   --executions N    the same until so many executions are counted there for the target as it is now
#   --ci              runs each target for a second on its corpus, and keeps nothing
#   --minimise        packs what has covered something new into fuzz/corpus
#   --list            the names of all targets
#
# With --asan in front, under AddressSanitizer, in a folder of its own: nothing is counted then. Needs a C++ compiler. Inputs
# are in target/fuzz/work, what made a target fail is in target/fuzz/faults. See docs/fuzzing.md.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
usage() {
    sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | head -n -1 >&2
    exit 64
}
sanitizer=none
if [[ ${1:-} == --asan ]]; then
    sanitizer=address
    shift
fi
what=${1:-}
number=0
case $what in
    --seconds | --executions)
        number=${2:-}
        [[ $number =~ ^[1-9][0-9]*$ ]] || usage
        shift 2
        ;;
    --ci | --minimise | --list) shift ;;
    *) usage ;;
esac

folder=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
# What cargo-fuzz passes, too. The pass is in every LLVM, so that a stable compiler will do.
flags=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing)
build=$folder/build
profile=release
[[ $what != --ci ]] || profile=dev
if [[ $sanitizer == address ]]; then
    # A stable compiler has sanitizers only with RUSTC_BOOTSTRAP.
    flags+=(-Zsanitizer=address)
    export RUSTC_BOOTSTRAP=1
    build=$folder/build-asan
fi
CARGO_TARGET_DIR=$build RUSTFLAGS=${flags[*]} \
    cargo build --quiet --profile "$profile" --locked --manifest-path fuzz/Cargo.toml --target "$host"
program=$build/$host/${profile/dev/debug}/fuzz

mapfile -t all < <(TRIPMETER_FUZZ_TARGET='' "$program" 2>&1 | sed -n 's/^fuzz: .* one of //p' | tr -d ' ' | tr , '\n')
[[ ${#all[@]} -ne 0 ]] || exit 70
if [[ $what == --list ]]; then
    printf '%s\n' "${all[@]}"
    exit
fi
targets=("$@")
[[ ${#targets[@]} -ne 0 ]] || targets=("${all[@]}")

# unpack TARGET: its inputs, and words of them that a fuzzer does not find by itself.
unpack() {
    local work=$folder/work/$1
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
    # Without a leak check, which needs ptrace.
    TRIPMETER_FUZZ_TARGET=$target ASAN_OPTIONS=detect_leaks=0 "$program" -print_final_stats=1 -timeout=120 -rss_limit_mb=2048 \
        -max_len="$length" "${dictionary[@]}" -artifact_prefix="$folder/faults/$target/" -verbosity=1 "${@:2}" \
        >"$folder/log-$target" 2>&1
}

failed=0
for target in "${targets[@]}"; do
    unpack "$target"
    work=$folder/work/$target
    code=0
    case $what in
        --ci) run "$target" -max_total_time=1 -seed=1 "$work" || code=$? ;;
        --minimise)
            rm -rf -- "$folder/merged"
            mkdir "$folder/merged"
            run "$target" -merge=1 "$folder/merged" "$work" || code=$?
            [[ $code -ne 0 ]] || python3 scripts/fuzz.py pack "$folder/merged" "fuzz/corpus/$target.tar.gz"
            ;;
        *)
            limit=-max_total_time=$number
            if [[ $what == --executions ]]; then
                left=$(python3 scripts/fuzz.py left "$target" "$number")
                [[ $left -gt 0 ]] || continue
                limit=-runs=$left
            fi
            run "$target" "$limit" "$work" || code=$?
            [[ $sanitizer != none ]] || python3 scripts/fuzz.py record "$target" "$folder/log-$target" "$work"
            ;;
    esac
    executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/log-$target")
    echo "fuzz: $target: ${executed:-0} executions, exit code $code"
    if [[ $code -ne 0 ]]; then
        tail -n 40 "$folder/log-$target" >&2
        failed=1
    fi
done
exit "$failed"
