#!/usr/bin/env bash
# The fault campaign: runs with a fault at a moment, both drawn by seed, for every transport that can run here. After each, the
# fault has struck, what was finished is intact and readable, nothing is left, the error names the cause, other sub-experiments
# are whole, and `tripmeter run --resume` measures the rest.
#
#   scripts/faults.sh                       50 trials of each system; the same command goes on where it stopped
#   scripts/faults.sh --budget SECONDS      begins no trial after that time
#   scripts/faults.sh --short               each fault once, over several systems: a minute; fails if no system here has one
#   scripts/faults.sh --systems LIST --trials N --seed N --jobs N
#   scripts/faults.sh --keep                adds the trials to docs/results/faults, which the table in docs/faults.md shows
#
# Trials are lines of JSON in target/faults/trials.jsonl (--file names another). Those that are there, or are kept, of the
# same build (program, plugins and their sources) are not made again. TRIPMETER and TRIPMETER_TRANSPORTS name program and
# plugins (default: what scripts/test.sh builds). Needs root or user namespaces, libfaketime, and Python with tests/requirements.txt (PYTHON).
# Exit code 1 if a trial had an exception, now or before, or if there is nothing to do.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
python=${PYTHON:-$target/tools/checks/bin/python}
# As scripts/test.sh makes it: a folder that is not whole is made again.
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
