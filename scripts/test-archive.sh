#!/usr/bin/env bash
# Builds and tests tripmeter-archive, a workspace of its own: scripts/test-archive.sh [CARGO-TEST-ARGUMENT...]
#
# Its tests measure real results with `tripmeter`, and push them to a folder and to moto's S3 server. Without TRIPMETER,
# the program is built first.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
moto=$target/tools/moto
wanted=archive/tests/requirements.txt
if ! cmp -s "$wanted" "$moto/installed"; then
    rm -rf -- "$moto"
    python3 -m venv "$moto"
    "$moto/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted"
    cp -- "$wanted" "$moto/installed"
fi
if [[ -z ${TRIPMETER:-} ]]; then
    cargo build --locked -p tripmeter
    TRIPMETER=$target/debug/tripmeter
fi
export TRIPMETER TRIPMETER_MOTO=$moto/bin/python CARGO_TARGET_DIR=$target/archive
cargo test --locked --features ballista --manifest-path archive/Cargo.toml "$@"
