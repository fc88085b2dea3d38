#!/usr/bin/env bash
# Partial: caption and lyrics. The language model decides the metadata and writes the outline.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
"${ACESTEP:-acestep}" generate --request "$here/partial.json" "$@"
