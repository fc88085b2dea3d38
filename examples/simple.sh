#!/usr/bin/env bash
# Simple: a caption alone. The language model writes lyrics, metadata and the outline.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
"${ACESTEP:-acestep}" generate --request "$here/simple.json" "$@"
