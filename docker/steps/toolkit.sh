#!/bin/sh
# Give the CUDA toolkit parts that came as wheels the layout that nvcc and every run-time compiler expect: lib64,
# unversioned library names for the linker, and a stub of the driver library (the driver itself comes from the host).
set -eu
toolkit=$1
ln -sfn lib "$toolkit/lib64"
for library in "$toolkit"/lib/*.so.*; do
    ln -sfn "$(basename "$library")" "${library%%.so.*}.so"
done
mkdir -p "$toolkit/lib/stubs"
echo | gcc -shared -x c - -Wl,-soname,libcuda.so.1 -o "$toolkit/lib/stubs/libcuda.so"
"$toolkit/bin/nvcc" --version | tail -n 1
