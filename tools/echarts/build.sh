#!/usr/bin/env bash
# Makes crates/report/assets/echarts.js, the drawing library that every HTML report carries: the parts of ECharts named in
# entry.js, in one file. It needs Node.js and npm. With --check it is made elsewhere and compared with the one that is
# there; the same versions (package-lock.json) make the same bytes.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
committed=../../crates/report/assets/echarts.js
if [[ ! "$# ${1:-}" =~ ^(0 |1 --check)$ ]]; then
    echo "usage: tools/echarts/build.sh [--check]" >&2
    exit 64
fi
work=${CARGO_TARGET_DIR:-../../target}/tools/echarts
mkdir -p "$work"
work=$(cd "$work" && pwd)
cp -- package.json package-lock.json entry.js "$work"
npm ci --prefix "$work" --ignore-scripts --no-audit --no-fund --loglevel error >&2

modules=$work/node_modules
version() {
    node -p "require('$modules/$1/package.json').version"
}
# Files that are made of these must carry their notices.
{
    echo "/*!"
    echo "Made by tools/echarts/build.sh of ECharts $(version echarts), zrender $(version zrender) and tslib $(version tslib)."
    echo
    cat "$modules/echarts/NOTICE"
    echo
    echo
    echo "ECharts is under the Apache License, Version 2.0: https://www.apache.org/licenses/LICENSE-2.0"
    echo "tslib is under the 0BSD licence. zrender is under the BSD 3-Clause License:"
    echo
    cat "$modules/zrender/LICENSE"
    echo
    echo "Parts of ECharts embed d3.js, under the same conditions and this notice:"
    grep -m 1 '^Copyright' "$modules/echarts/licenses/LICENSE-d3"
    echo "*/"
} >"$work/banner.js"
"$modules/.bin/esbuild" "$work/entry.js" --bundle --minify --format=iife --global-name=echarts --target=es2020 \
    --charset=utf8 --legal-comments=none '--define:process.env.NODE_ENV="production"' --log-level=warning \
    --outfile="$work/code.js"
cat "$work/banner.js" "$work/code.js" >"$work/echarts.js"
if grep -qi '</script' "$work/echarts.js"; then
    echo "echarts.js has the end of a script in it, so a page cannot carry it" >&2
    exit 65
fi
if [[ ${1:-} == --check ]]; then
    cmp -- "$work/echarts.js" "$committed"
else
    mkdir -p "$(dirname "$committed")"
    cp -- "$work/echarts.js" "$committed"
fi
echo "$committed: $(wc -c <"$committed") bytes"
