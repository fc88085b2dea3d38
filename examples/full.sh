#!/usr/bin/env bash
# Full: everything is given. The language model writes the outline alone.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
"${ACESTEP:-acestep}" generate --request "$here/full.json" "$@"
