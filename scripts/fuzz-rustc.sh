#!/usr/bin/env bash
# The compiler, as scripts/fuzz.sh has cargo call it: FUZZ_FLAGS are for crates of ours only. What of a library is generic
# is compiled with the code of ours that uses it, and so is seen by the fuzzer.
set -euo pipefail

case " $* " in
    *" --crate-name tripmeter_"* | *" --crate-name fuzz "*)
        read -ra flags <<<"$FUZZ_FLAGS"
        set -- "$@" "${flags[@]}"
        ;;
esac
exec "$@"
