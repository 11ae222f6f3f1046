#!/usr/bin/env bash
# The clients' environments, each from a hashed lock of its own in tests/clients/locks.
#   clients.sh install PYTHON UV VENV LOCK   one environment; LOCK is NAME.lock (Python) or NAME/package-lock.json
#   clients.sh lock PYTHON UV                resolve every lock again: what people install today
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

# as_pip PYTHON: uv asks the index that pip is configured with, and trusts whom pip trusts
as_pip() {
  inputs=$(mktemp -d)
  trap 'rm -rf "$inputs"' EXIT
  PYTHON=$1 "$root/docker/build-inputs.sh" "$inputs"
  set -a
  # shellcheck source=/dev/null
  . "$inputs/index"
  set +a
  if [[ -s $inputs/ca ]]; then export SSL_CERT_FILE=$inputs/ca; fi
}

install_python() {
  local python=$1 uv=$2 venv=$3 lock=$4
  as_pip "$python"
  "$uv" venv -q --clear -p "$python" "$venv"
  # sync and not install: a lock with overrides lacks what its packages ask for
  "$uv" pip sync -q --native-tls --require-hashes -p "$venv" "$lock"
}

install_npm() {
  local venv=$1 lock=$2
  if ! command -v npm > /dev/null; then
    echo "npm: found none, expected Node.js 20 or newer with npm for $venv; install it, or leave out clients of npm: \
make test-clients CLIENTS=openai_python" >&2
    exit 2
  fi
  rm -rf "$venv"
  mkdir -p "$venv"
  cp "$(dirname "$lock")"/package.json "$lock" "$venv"
  (cd "$venv" && npm ci --silent --no-audit --no-fund)
}

install() {
  local python=$1 uv=$2 venv=$3 lock=$4
  echo "setting up $venv (from $lock) ..."
  if [[ $lock == *.json ]]; then install_npm "$venv" "$lock"; else install_python "$python" "$uv" "$venv" "$lock"; fi
}

lock() {
  local uv file name options
  as_pip "$1"
  uv=$(realpath "$2")
  cd "$root/tests/clients/locks"
  for file in *.in; do
    name=${file%.in}
    options=(--upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate)
    if [[ -f $name.overrides ]]; then options+=(--override "$name.overrides"); fi
    "$uv" pip compile -q --native-tls "${options[@]}" -o "$name.lock" "$file"
  done
  for file in */package.json; do
    (cd "$(dirname "$file")" && rm -f package-lock.json \
      && npm install --package-lock-only --omit-lockfile-registry-resolved --silent --no-audit --no-fund)
  done
}

"$@"
