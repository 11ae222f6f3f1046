#!/usr/bin/env bash
# Write what a build on this machine needs to reach its package index, for `docker build --secret`:
#   FOLDER/ca     the CA bundle that pip trusts, empty where pip uses its own
#   FOLDER/index  UV_* and PIP_* variables for the index that pip is configured with, empty for the default
set -euo pipefail
folder=$1
mkdir -p "$folder"
python=${PYTHON:-python3}

setting() { "$python" -m pip config list 2>/dev/null | sed -nE "s/^[^=]*\.$1='(.*)'$/\1/p" | tail -n 1; }

ca=${PIP_CERT:-$(setting cert)}
ca=${ca:-${SSL_CERT_FILE:-}}
if [[ -n $ca && -r $ca ]]; then cp "$ca" "$folder/ca"; else : >"$folder/ca"; fi

# Folders and file: addresses are this machine's own; a build can't see them.
remote() { tr -s ' ' '\n' | grep -E '^https?://' | paste -sd ' ' - || true; }
index=$(setting index-url | remote)
extra=$(setting extra-index-url | remote)
{
    [[ -z $index ]] || printf "UV_DEFAULT_INDEX='%s'\nPIP_INDEX_URL='%s'\n" "$index" "$index"
    [[ -z $extra ]] || printf "UV_INDEX='%s'\nPIP_EXTRA_INDEX_URL='%s'\n" "$extra" "$extra"
} >"$folder/index"
