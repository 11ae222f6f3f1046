#!/bin/bash
# On the GPU machine, once every part lies in this script's folder: the environments under ROOT/venvs, as the image has
# them, and ROOT/env.sh for the ring's commands. Needs Python 3.12 with PyTorch for CUDA 13 (or a kit with CUDA=kit) and
# nvcc; no network.
#   bash setup.sh [ROOT] [CACHE]      /opt/dsv4-pd and ROOT/cache
# A cache that the kit brings is whole only where it was made: FlashInfer rebuilds at another path.
set -euo pipefail
parts=$(cd "$(dirname "$0")" && pwd) root=${1:-/opt/dsv4-pd} begun=$SECONDS
cache=${2:-$root/cache}
python=${PYTHON:-python3}
site=$root/venvs/engine/lib/python3.12/site-packages

unpack() { cat "$parts/$1".tar.zst.* | PYTHONPATH=$parts "$python" "$parts/unpack.py" | tar -x -C "$2"; }

"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' ||
    { echo "setup: $("$python" --version), expected Python 3.12, for which the kit's wheels are" >&2; exit 2; }
for name in engine router smg appliance; do
    [[ -x $root/venvs/$name/bin/python ]] || "$python" -m venv --without-pip "$root/venvs/$name"
done
unpack app "$root" &
app=$!
unpack engine "$site"
wait "$app"
cp -r "$root/plugins/." "$site/"

# What the kit left to the machine: its CUDA libraries, and the other packages of the Python that has PyTorch.
own=$("$python" -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")')
if [[ -n $own && ! -e $site/nvidia/cu13 ]]; then
    for name in cu13 cudnn cusparselt nvshmem; do ln -sfn "$(dirname "$own")/nvidia/$name" "$site/nvidia/$name"; done
    dirname "$own" > "$site/zz-machine.pth"
fi

# Several servers start at once, and each would compile the same sources.
"$root/venvs/engine/bin/python" -m compileall -q -j 0 "$site"/{sglang,torch,transformers,tilelang,triton} > /dev/null || true

# Triton's index names files by absolute path: moved to where this cache lies.
if compgen -G "$parts/jit-cache.tar.zst.*" > /dev/null; then
    mkdir -p "$cache"
    fresh=$(mktemp -d -p "$(dirname "$cache")")
    unpack jit-cache "$fresh"
    cp -a "$fresh"/*/. "$cache" && rm -rf "$fresh"
    find "$cache/triton" -name '__grp__*.json' -exec sed -i -E "s|\"[^\"]*/triton/|\"$cache/triton/|g" {} +
fi

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
cat > "$root/env.sh" <<ENV
export CUDA_HOME=\${CUDA_HOME:-$(dirname "$(dirname "$(readlink -f "$nvcc")")")}
export PATH=$root/venvs/engine/bin:\$CUDA_HOME/bin:\$PATH:$(dirname "$(command -v "$python")")
export RING_ROOT=$root RING_CACHE=$cache PYTHONPATH=$root/ring PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
# Multicast over NVLink can put a shared host's GPUs out of service.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export PYTORCH_SKIP_CUDNN_COMPATIBILITY_CHECK=1  # torch asks for a newer cuDNN than the machine's; nothing here uses it
ENV
echo "set up in $((SECONDS - begun)) s: $(du -sm "$site" | cut -f1) MB for the engine"
. "$root/env.sh"
"$root/venvs/engine/bin/python" -m gpu machine
