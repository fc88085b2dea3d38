#!/usr/bin/env bash
# Without the language model: the diffusion transformer follows caption and metadata alone.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
"${ACESTEP:-acestep}" generate --request "$here/dit-only.json" --no-thinking "$@"
