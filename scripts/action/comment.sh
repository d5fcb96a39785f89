#!/usr/bin/env bash
# Posts the summary in the file SUMMARY as a comment on the pull request PULL_REQUEST, or replaces an earlier comment
# for the same INPUT_NAME. `gh` needs GH_TOKEN with the permission `pull-requests: write`. A pull request from a fork
# has none, so a failure is only a warning.
set -euo pipefail

body=${RUNNER_TEMP:?}/tripmeter-comment.md
mark="<!-- tripmeter: ${INPUT_NAME:-tripmeter} -->"
# A comment has at most 65,536 characters.
{
    echo "$mark"
    head -c 60000 -- "${SUMMARY:?}" | iconv -c -f UTF-8 -t UTF-8
} >"$body"
comments=repos/${GITHUB_REPOSITORY:?}/issues/${PULL_REQUEST:?}/comments
post() {
    local known
    known=$(MARK=$mark gh api --paginate "$comments" --jq '.[] | select(.body | startswith(env.MARK)) | .id') || return
    known=$(tail -n 1 <<<"$known")
    if [[ -n $known ]]; then
        gh api --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$known" --field "body=@$body" --silent
    else
        gh api --method POST "$comments" --field "body=@$body" --silent
    fi
}
post || echo "::warning title=tripmeter::the comment could not be written; it needs pull-requests: write"
