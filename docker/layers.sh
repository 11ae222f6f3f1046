#!/usr/bin/env bash
# Print an image's size by layer and refuse one that is over the budget: layers.sh IMAGE [BYTES]
set -euo pipefail
image=$1
readonly BUDGET=${2:-7400000000}
docker history --no-trunc --human=false --format '{{.Size}} {{.CreatedBy}}' "$image" |
    awk '$1 >= 1000000 { printf "%8.1f MB  %.90s\n", $1 / 1e6, substr($0, length($1) + 2) }'
size=$(docker image inspect --format '{{.Size}}' "$image")
awk -v size="$size" -v budget="$BUDGET" 'BEGIN { printf "%8.1f MB  total, budget %.0f MB\n", size / 1e6, budget / 1e6 }'
((size <= BUDGET)) || { echo "$image: $size bytes, expected at most $BUDGET; see docs/image.md" >&2; exit 1; }
