#!/usr/bin/env bash
# Ends with the exit code of the verdict, EXIT_CODE, unless INPUT_FAIL is `false`.
set -euo pipefail

if [[ ${INPUT_FAIL:-true} == false ]]; then
    exit 0
fi
exit "${EXIT_CODE:-0}"
