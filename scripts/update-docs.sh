#!/usr/bin/env bash
# Renews the tables in README.md and docs/ from committed results: scripts/update-docs.sh [--check].
#
# A table is between `<!-- table: COMMAND -->` and `<!-- end of table -->`, where COMMAND is one of
#   tripmeter ARGUMENTS...     the tables of a results folder below docs/results, for example
#   machine FOLDER             one line on the machine that made the folder
#   selftest FOLDER            results of a kept campaign of `tripmeter selftest --full`; nothing if none is kept
#   overhead FILE              the comparison with bare loops, from the JSON file of bench/overhead/run.py
#   native FILE                the comparison with the systems' own tools, from the JSON file of bench/native/run.py
#   process FILE               the comparison with pandas, from the JSON file of bench/process/run.py
#   plots FOLDER...            AimRT's plots of results folders, drawn into docs/plots
#   faults FILE                passes and exceptions of the fault campaign, from the trials of scripts/faults.sh --keep
#   kept FILE                  a table that was kept as Markdown
#   scale FILE                 time and memory over size, from the JSON file of bench/scale/run.py
#   fuzz FILE                  executions of fuzz targets, from the JSON file of scripts/fuzz.sh
#   checks                     the checks of `tripmeter doctor`
# With --check nothing is written; it fails if a table differs from the output of its command.
# TRIPMETER names the program (default target/release/tripmeter).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
tripmeter=${TRIPMETER:-${CARGO_TARGET_DIR:-target}/release/tripmeter}
check=${1:-}
if [[ $# -gt 1 || ! $check =~ ^(--check)?$ ]]; then
    echo "usage: scripts/update-docs.sh [--check]" >&2
    exit 64
fi
if [[ ! -x $tripmeter ]]; then
    echo "update-docs: '$tripmeter' is not there; build it (cargo build --release) or name it in TRIPMETER" >&2
    exit 69
fi

# Draws AimRT's plots of the results folders $* and prints them as Markdown; with --check compares them with the
# existing ones.
plots() {
    local file name
    "$tripmeter" export "$@" -o "$folder" --format svg >"$scratch.plots" || return
    while IFS= read -r file; do
        name=${file##*/}
        [[ $name == *_latency_by_* || $name == rpc_qps_* ]] || continue
        printf '![%s](plots/%s)\n' "${name%.svg}" "$name"
        if [[ -z $check ]]; then
            mkdir -p docs/plots && cp -- "$file" docs/plots
        elif ! cmp -s -- "$file" "docs/plots/$name"; then
            echo "update-docs: docs/plots/$name is not what \`tripmeter export\` draws; run scripts/update-docs.sh" >&2
            return 1
        fi
    done <"$scratch.plots"
}

# Prints the output of the command $* as Markdown.
table() {
    case $1 in
        tripmeter) echo '```text' && "$tripmeter" "${@:2}" && echo '```' ;;
        machine | overhead | process | selftest) python3 scripts/render.py "$@" ;;
        checks) "$tripmeter" doctor --list --json | python3 scripts/render.py checks /dev/stdin ;;
        kept) cat -- "$2" ;;
        faults) python3 tests/faults/campaign.py --table "$2" ;;
        scale) python3 bench/scale/run.py --table "$2" ;;
        fuzz) python3 scripts/fuzz.py table "$2" ;;
        plots) plots "${@:2}" ;;
        native) python3 bench/native/run.py --table "$2" ;;
        *)
            echo "update-docs: unknown command '$*'" >&2
            return 65
            ;;
    esac
}

# Prints the file $1 with all its tables renewed.
renewed() {
    local line inside='' words
    while IFS= read -r line; do
        if [[ $line == '<!-- end of table -->' ]]; then
            inside=''
        fi
        [[ -n $inside ]] || printf '%s\n' "$line"
        if [[ $line =~ ^'<!-- table: '(.*)' -->'$ ]]; then
            inside=1
            read -ra words <<<"${BASH_REMATCH[1]}"
            table "${words[@]}" || return
        fi
    done <"$1"
    if [[ -n $inside ]]; then
        echo "update-docs: $1: a table has no '<!-- end of table -->'" >&2
        return 65
    fi
}

scratch=$(mktemp)
folder=$(mktemp -d)
trap 'rm -rf -- "$scratch" "$scratch.plots" "$folder"' EXIT
stale=0
tables=0
for file in README.md docs/*.md; do
    renewed "$file" >"$scratch"
    tables=$((tables + $(grep -c '^<!-- table: ' "$file" || true)))
    if cmp -s "$scratch" "$file"; then
        continue
    fi
    if [[ -n $check ]]; then
        echo "update-docs: $file is not what its commands print; run scripts/update-docs.sh and commit it" >&2
        diff -u "$file" "$scratch" | head -n 40 >&2 || true
        stale=1
    else
        cat "$scratch" >"$file"
        echo "update-docs: renewed $file"
    fi
done
echo "update-docs: $tables tables"
exit "$stale"
