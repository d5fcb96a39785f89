#!/usr/bin/env bash
# Fails if the machine code of a program that `cargo test --no-run` made exceeds its budget. Code that is generic over
# systems is compiled once for each. Raise the budget only for a reason, in the commit that needs it.
set -euo pipefail

budget=40000000
bytes=$(size -A "$1" | awk '$1 == ".text" { print $2 }')
echo "$1: $bytes bytes of code, the budget is $budget"
[[ $bytes -le $budget ]]
