#!/usr/bin/env bash
# Checks HTML reports in a browser: tests/browser/run.sh [--screenshots DIR] REPORT.html... It needs Node.js, npm and
# Chromium (Debian: chromium); playwright-core is installed into target/tools.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tools=${CARGO_TARGET_DIR:-$here/../../target}/tools/browser
mkdir -p "$tools"
if ! cmp -s "$here/package-lock.json" "$tools/installed"; then
    cp -- "$here/package.json" "$here/package-lock.json" "$tools"
    npm ci --prefix "$tools" --ignore-scripts --no-audit --no-fund --loglevel error >&2
    cp -- "$here/package-lock.json" "$tools/installed"
fi
# A module is looked for beside the file that imports it.
cp -- "$here/run.mjs" "$tools/run.mjs"
exec node "$tools/run.mjs" "$@"
