#!/usr/bin/env bash
# Finds or builds the program; output `binary`. INPUT_BINARY names an existing program; GITHUB_ACTION_PATH is the folder
# of the sources.
set -euo pipefail

binary=${INPUT_BINARY:-}
if [[ -n $binary ]]; then
    if [[ ! -x $binary ]]; then
        echo "::error title=tripmeter::input 'binary' names no program"
        exit 66
    fi
    binary=$(realpath -- "$binary")
else
    target=${RUNNER_TEMP:?}/tripmeter-target
    cargo build --release --locked -p tripmeter --manifest-path "${GITHUB_ACTION_PATH:?}/Cargo.toml" --target-dir "$target"
    binary=$target/release/tripmeter
fi
"$binary" --version
echo "binary=$binary" >>"${GITHUB_OUTPUT:?}"
