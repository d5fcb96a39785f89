#!/usr/bin/env bash
# Builds the reader of OpenMetrics: tests/openmetrics/build.sh PROGRAM. Exit code 69, with the reason, if this machine cannot:
# without Go, with an older one than go.mod names, or with neither the modules nor a network.
set -euo pipefail

program=$1
[[ $program == /* ]] || program=$PWD/$program
cd "${BASH_SOURCE[0]%/*}"
# Otherwise Go downloads a newer one and runs that.
export GOTOOLCHAIN=local

cannot() {
    echo "$1" >&2
    exit 69
}

# Whether a version is below another; go1.27rc1 counts as 1.27.
is_below() {
    local -a ours theirs
    local part one="${1##*go}"
    IFS=. read -ra ours <<<"${one%%[!0-9.]*}"
    IFS=. read -ra theirs <<<"$2"
    for part in 0 1 2; do
        ((${ours[part]:-0} == ${theirs[part]:-0})) || break
    done
    ((${ours[part]:-0} < ${theirs[part]:-0}))
}

while read -r word version; do
    [[ $word != go ]] || needed=$version
done <go.mod
command -v go >/dev/null || cannot "go is missing; version $needed or later is needed"
# Not here: an old Go cannot read this go.mod.
found=$(cd / && go env GOVERSION)
! is_below "$found" "$needed" || cannot "$found is too old; version $needed or later is needed"
if ! log=$(go mod download 2>&1); then
    # Another content than go.sum has is no lack of a network.
    [[ $log != *"SECURITY ERROR"* ]] || { echo "$log" >&2 && exit 1; }
    cannot "the modules are not here and cannot be downloaded: ${log##*$'\n'}"
fi
go build -o "$program" .
