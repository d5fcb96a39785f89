#!/usr/bin/env bash
# Measures; outputs `results` and `measure-code`. TRIPMETER is the program, INPUT_RUN a preset or an experiment file,
# INPUT_ROUNDS the number of rounds, INPUT_ARGUMENTS more arguments of `tripmeter run`.
#
# Failed sub-experiments (exit code 75) do not fail the job here: judge.sh judges the others first.
set -euo pipefail

results=${RUNNER_TEMP:?}/tripmeter-results
rm -rf -- "$results"
read -ra words <<<"${INPUT_ARGUMENTS:-}"
code=0
cd "${GITHUB_WORKSPACE:?}"
"${TRIPMETER:?}" run "${INPUT_RUN:-quick}" --rounds "${INPUT_ROUNDS:-8}" "${words[@]}" -o "$results" || code=$?
if [[ $code -ne 0 && $code -ne 75 ]]; then
    echo "::error title=tripmeter::\`tripmeter run\` ended with exit code $code"
    exit "$code"
fi
{
    echo "results=$results"
    echo "measure-code=$code"
} >>"${GITHUB_OUTPUT:?}"
