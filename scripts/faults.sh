#!/usr/bin/env bash
# The fault campaign: for every transport that can run here, runs with a random fault at a random moment, both from a
# seed. Checks after each run: the fault has struck, finished results are intact and readable, nothing is left behind,
# the error names the cause, other sub-experiments are complete, and `tripmeter run --resume` measures the rest.
#
#   scripts/faults.sh                       50 trials of each system; the same command continues after an interruption
#   scripts/faults.sh --budget SECONDS      starts no trial after that time
#   scripts/faults.sh --short               each fault once, over several systems: a minute; fails if no system here has one
#   scripts/faults.sh --systems LIST --trials N --seed N --jobs N
#   scripts/faults.sh --keep                adds the trials to docs/results/faults, the source of the table in docs/faults.md
#
# Trials are lines of JSON in target/faults/trials.jsonl (--file names another). Trials there or in docs/results/faults
# are not repeated if they are of the same build (program, plugins and their sources). TRIPMETER and
# TRIPMETER_TRANSPORTS name program and plugins (default: those that scripts/test.sh builds). Needs root or user
# namespaces, libfaketime, and Python with tests/requirements.txt (PYTHON). Exit code 1 if a trial had an exception, now
# or before, or if there is nothing to do.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
python=${PYTHON:-$target/tools/checks/bin/python}
# Made as in scripts/test.sh: an incomplete environment is made again.
if [[ $python == "$target/tools/checks/bin/python" ]] && ! cmp -s tests/requirements.txt "$target/tools/checks/installed"; then
    rm -rf -- "$target/tools/checks"
    python3 -m venv "$target/tools/checks"
    "$python" -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt
    cp -- tests/requirements.txt "$target/tools/checks/installed"
fi
if ! compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null; then
    echo "faults: no libfaketime; scripts/install-middleware.sh --packages installs it" >&2
    exit 69
fi
scripts/isolated.sh --check
exec "$python" tests/faults/campaign.py --tripmeter "${TRIPMETER:-$target/debug/tripmeter}" \
    --transports "${TRIPMETER_TRANSPORTS:-$target/transports-dev}" "$@"
