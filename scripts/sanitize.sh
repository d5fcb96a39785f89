#!/usr/bin/env bash
# Tests under sanitizers: scripts/sanitize.sh address|systems|thread|clang|miri. Not in CI; see docs/fuzzing.md.
#
#   address   unit tests of abi, stats, model and eprosima, and C plugins that the tests of the loader build
#   systems   plugins in C and C++, built by gcc with AddressSanitizer and UBSan, measured by the program; as root
#   thread    Rust: the unit tests of shm; needs `rustup component add --toolchain nightly rust-src`
#   clang     the plugins of the loader, built by clang with AddressSanitizer and UBSan; installs Debian's clang, as root
#   miri      the ring of shm between threads; needs `rustup component add --toolchain nightly miri rust-src`
#
# Exit code 69: something that it needs is missing.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
folder=${CARGO_TARGET_DIR:-$PWD/target}/sanitize
mkdir -p "$folder"

missing() {
    echo "sanitize.sh: $1" >&2
    exit 69
}

# plugins COMPILER SANITIZERS LIBRARY: runs the tests of the loader with C plugins built this way. The test itself is
# not instrumented, so the sanitizer's library is loaded first.
plugins() {
    local shims=$folder/shims
    mkdir -p "$shims"
    printf '#!/bin/sh\nunset LD_PRELOAD\nexec %s -g -fsanitize=%s "$@"\n' "$1" "$2" >"$shims/cc"
    chmod +x "$shims/cc"
    [[ -f $3 ]] || missing "there is no '$3'"
    local runner=CARGO_TARGET_${host^^}_RUNNER
    export "${runner//-/_}=env LD_PRELOAD=$3 PATH=$shims:$PATH ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1"
    CARGO_TARGET_DIR=$folder/plain cargo test --locked -p tripmeter-abi --features host --test loader --target "$host"
}

case ${1:-} in
    address)
        # With RUSTC_BOOTSTRAP a stable compiler accepts nightly options.
        RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=0 CARGO_TARGET_DIR=$folder/address \
            cargo test --locked --lib --target "$host" -p tripmeter-abi -p tripmeter-stats -p tripmeter-model \
            -p tripmeter-eprosima --features tripmeter-abi/host
        plugins /usr/bin/cc address "$(cc -print-file-name=libasan.so)"
        ;;
    systems)
        tripmeter=$(realpath -- "${TRIPMETER:-${CARGO_TARGET_DIR:-target}/debug/tripmeter}")
        [[ -x $tripmeter ]] || missing "build the program (cargo build), or name it in TRIPMETER"
        flags="-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined"
        mkdir -p "$folder/systems"
        for system in zeromq iceoryx-c cyclonedds spdlog; do
            make --silent -C "transports/$system" OUT="$(realpath "$folder/systems")" CFLAGS="$flags" CXXFLAGS="$flags" LDFLAGS="$flags"
        done
        measured() {
            # Workers must not be allowed to lock memory: they would lock all of AddressSanitizer's, which is terabytes.
            TRIPMETER_TRANSPORTS=$(realpath "$folder/systems") scripts/isolated.sh setpriv --bounding-set -ipc_lock \
                prlimit --memlock=8388608 env LD_PRELOAD="$(cc -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 \
                "$tripmeter" "$@" -q --no-floor --no-report --rounds 1 --samples 200 -o /tmp/results
        }
        for pattern in ping publish; do
            measured "$pattern" zeromq iceoryx-c cyclonedds --payloads 64
        done
        measured log spdlog
        ;;
    thread)
        [[ -d $(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library ]] ||
            missing "Rust under ThreadSanitizer needs rust-src: \`rustup component add --toolchain nightly rust-src\`"
        RUSTFLAGS=-Zsanitizer=thread CARGO_TARGET_DIR=$folder/thread \
            cargo +nightly test -Zbuild-std --locked --lib --target "$host" -p tripmeter-transport-shm
        ;;
    clang)
        if ! command -v clang >/dev/null; then
            apt-get install --yes --no-install-recommends clang libclang-rt-14-dev ||
                missing "clang cannot be installed"
        fi
        plugins "$(command -v clang) -shared-libsan" address,undefined \
            "$(clang -print-file-name="libclang_rt.asan-${host%%-*}.so")"
        ;;
    miri)
        cargo +nightly miri --version >/dev/null 2>&1 ||
            missing "Miri is not installed: \`rustup component add --toolchain nightly miri rust-src\`"
        export CARGO_TARGET_DIR=$folder/miri MIRIFLAGS=-Zmiri-disable-isolation
        cargo +nightly miri test --locked --lib -p tripmeter-transport-shm ring_tests
        ;;
    --help | -h) sed -n '2,/^set/s/^# \{0,1\}//p' scripts/sanitize.sh ;;
    *)
        sed -n '2,/^set/s/^# \{0,1\}//p' scripts/sanitize.sh >&2
        exit 64
        ;;
esac
