#!/usr/bin/env bash
# Resolve docker/engine.lock, docker/build.lock and docker/sbom.lock from their .in files, with the uv that build.lock pins.
set -euo pipefail
python=${1:-python3}
cd "$(dirname "$0")"
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"$python" -m venv "$tools"
"$tools/bin/pip" install -q --disable-pip-version-check --require-hashes -r build.lock
compile() {
    "$tools/bin/uv" pip compile -q --native-tls --upgrade --python-version 3.11 --generate-hashes --no-header \
        --no-annotate "${@:2}" -o "$1.lock" "$1.in"
}
compile build
compile sbom
# nixl and cutlass-dsl ask for both CUDA majors; two majors' libraries overwrite each other.
compile engine --no-emit-package nixl-cu12 --no-emit-package nvidia-cutlass-dsl-libs-cu12
