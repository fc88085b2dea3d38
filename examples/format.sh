#!/usr/bin/env bash
# Format: the language model writes caption and lyrics anew; then a song is made of them.
# Between the two steps format-plan.json can be changed by hand.
# What is typed goes to the second step; flags for the first, such as --lm-model lm-0.6b, can stand
# in FORMAT_FLAGS.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
read -ra flags <<< "${FORMAT_FLAGS:-}"
"${ACESTEP:-acestep}" format --request "$here/format.json" --force --output format-plan.json \
  ${flags[@]+"${flags[@]}"}
"${ACESTEP:-acestep}" generate --request format-plan.json "$@"
