#!/usr/bin/env bash
# Measures; outputs `results` and `measure-code`. TRIPMETER is the program, INPUT_RUN a preset or an experiment file,
# INPUT_ROUNDS the number of rounds, INPUT_ARGUMENTS more words for `tripmeter run`.
#
# Failed sub-experiments (exit code 75) do not end the job here: what was measured is judged first, by judge.sh.
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
