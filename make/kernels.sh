#!/usr/bin/env bash
# kernels.sh PYTHON VENV: the environment of tests/kernels. torch for the CPU where a wheel of it can be had, else the
# stock build with its CUDA libraries (the same two locks as the engine's on a machine without a GPU).
set -euo pipefail
python=$1 venv=$2
here=$(cd "$(dirname "$0")/../docker" && pwd)
install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$1"; }

echo "setting up $venv (from docker/kernels-test.lock) ..."
"$python" -m venv --clear "$venv"
install "$here/engine-cpu-torch.lock" 2> /dev/null || install "$here/engine-cpu-cuda.lock"
install "$here/kernels-test.lock"  # last: its triton is the engine's, not the one that the stock torch asks for
"$venv/bin/python" -c 'import torch, triton; print(f"torch {torch.__version__}, triton {triton.__version__}")'
