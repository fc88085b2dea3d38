#!/usr/bin/env bash
# Format: the language model writes caption and lyrics anew; then a song is made of them.
# Between the two steps format-plan.json can be changed by hand.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
"${ACESTEP:-acestep}" format --request "$here/format.json" --force --output format-plan.json
"${ACESTEP:-acestep}" generate --request format-plan.json "$@"
