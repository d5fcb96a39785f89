#!/usr/bin/env bash
# Judges results; writes verdict, JUnit XML, metrics, annotations and the job summary. Outputs `result`, `exit-code`,
# `verdict`, `summary`, `junit` and `openmetrics`. TRIPMETER is the program, RESULTS the folder to judge, MEASURE_CODE
# the exit code of `run`. INPUT_LIMITS is a file of limits; without it, REFERENCE is a results folder to compare with,
# and INPUT_COMPARE_ARGUMENTS are more arguments of `tripmeter compare`.
#
# A finding does not fail the job here, so that later steps can report it: finish.sh does.
set -euo pipefail

out=${RUNNER_TEMP:?}/tripmeter-verdict
rm -rf -- "$out"
mkdir -p -- "$out"
verdict=$out/verdict.json
cd "${GITHUB_WORKSPACE:?}"
code=0
with=(--verdict "$verdict")
if [[ -n ${INPUT_LIMITS:-} ]]; then
    "${TRIPMETER:?}" check "${RESULTS:?}" --limits "$INPUT_LIMITS" --json >"$verdict" || code=$?
elif [[ -e ${REFERENCE:-}/manifest.json ]]; then
    read -ra words <<<"${INPUT_COMPARE_ARGUMENTS:-}"
    "${TRIPMETER:?}" compare "$REFERENCE" "${RESULTS:?}" "${words[@]}" --json >"$verdict" || code=$?
else
    echo "::notice title=tripmeter::there is no reference to compare with yet"
    with=()
    code=${MEASURE_CODE:-0}
fi
measured=${MEASURE_CODE:-0}
# Exit codes from 64 on are errors, except 75 for rounds that failed.
if [[ $code -ge 64 && $code -ne 75 ]]; then
    echo "::error title=tripmeter::the results cannot be judged (exit code $code)"
    exit "$code"
fi
if [[ ${#with[@]} -ne 0 ]]; then
    result=$(sed -n 's/^  "result": "\([a-z-]*\)".*/\1/p' "$verdict")
elif [[ $code -eq 0 ]]; then
    result=no-reference
else
    result=failed
fi
# A sub-experiment that failed in every round may have neither limit nor reference.
if [[ $code -eq 0 && $measured -ne 0 ]]; then
    code=$measured result=incomplete
    echo "::error title=tripmeter::some sub-experiments failed; the log of \`tripmeter run\` names them"
fi
"$TRIPMETER" export "$RESULTS" --format junit "${with[@]}" -o "$out/junit.xml"
"$TRIPMETER" export "$RESULTS" --format openmetrics -o "$out/metrics.txt"
"$TRIPMETER" export "$RESULTS" --format github "${with[@]}" -o "$out/summary.md"
[[ -z ${GITHUB_STEP_SUMMARY:-} ]] || cat -- "$out/summary.md" >>"$GITHUB_STEP_SUMMARY"
{
    echo "result=$result"
    echo "exit-code=$code"
    [[ ${#with[@]} -eq 0 ]] || echo "verdict=$verdict"
    echo "summary=$out/summary.md"
    echo "junit=$out/junit.xml"
    echo "openmetrics=$out/metrics.txt"
} >>"${GITHUB_OUTPUT:?}"
