"""What the image build proves about the engine with no GPU: compilers, NIXL, one CUDA major, argument resolution.

    python engine.py              every check, one line each; the first failure ends the build

A part that is missing here would be found at the first request on the GPU machine otherwise.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

SITE = Path(sysconfig.get_path("purelib"))
TOOLKIT = SITE / "nvidia" / "cu13"
CUDA_MAJOR = "13"
C_SOURCE = """
#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *args) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "probe", NULL, -1, methods};
PyMODINIT_FUNC PyInit_probe(void) { return PyModule_Create(&module); }
"""
CUDA_SOURCE = """
#include <cuda.h>
#include <cuda_fp8.h>
#include <cub/block/block_reduce.cuh>
__global__ void twice(float *x) {
    using Reduce = cub::BlockReduce<float, 128>;
    __shared__ typename Reduce::TempStorage room;
    float sum = Reduce(room).Sum(2.0f * x[threadIdx.x]);
    if (threadIdx.x == 0) x[0] = sum;
}
extern "C" int launch(float *x) {
    twice<<<1, 128>>>(x);
    CUcontext context;
    return cuCtxGetCurrent(&context) + cudaGetLastError();
}
"""


def main() -> int:
    checks: tuple[Callable[[Path], str], ...] = (
        c_extension,
        cuda_for_sm_120,
        triton_for_sm_120,
        nixl_over_ucx,
        one_cuda_major,
        argument_resolution,
    )
    with tempfile.TemporaryDirectory() as folder:
        for check in checks:
            print(f"check {check.__name__}: {check(Path(folder))}", flush=True)
    return 0


def c_extension(folder: Path) -> str:
    source, module = folder / "probe.c", folder / "probe.so"
    source.write_text(C_SOURCE)
    include = sysconfig.get_path("include")
    run("gcc", "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(module))
    sys.path.insert(0, str(folder))
    found = importlib.import_module("probe").answer()
    assert found == 42, found
    return "gcc builds and Python imports a module that includes Python.h"


def cuda_for_sm_120(folder: Path) -> str:
    """As run-time compilers do it: machine code for sm_120, linked against libcudart and the driver's stub."""
    source, library, cubin = folder / "twice.cu", folder / "twice.so", folder / "twice.cubin"
    source.write_text(CUDA_SOURCE)
    run("nvcc", "-arch=sm_120a", "-cubin", "-o", str(cubin), str(source))
    machine, flags = elf_machine_and_flags(cubin.read_bytes())
    assert machine == 190, f"ELF machine {machine}, expected 190 (CUDA)"
    assert 120 in (flags & 0xFF, flags >> 8 & 0xFF), f"ELF flags {flags:#x}, expected sm_120"
    folders = [f"-L{TOOLKIT}/lib64", f"-L{TOOLKIT}/lib64/stubs"]
    run(
        "nvcc",
        "-arch=sm_120a",
        "-Xcompiler",
        "-fPIC",
        "-shared",
        "-cudart=none",
        *folders,
        "-lcudart",
        "-lcuda",
        "-o",
        str(library),
        str(source),
    )
    return f"nvcc {tool_version('nvcc')} and ptxas build for sm_120, libraries link"


def elf_machine_and_flags(data: bytes) -> tuple[int, int]:
    return int.from_bytes(data[18:20], "little"), int.from_bytes(data[48:52], "little")


def triton_for_sm_120(folder: Path) -> str:
    program = folder / "triton_probe.py"
    program.write_text(
        "import triton, triton.language as tl\n"
        "from triton.backends.compiler import GPUTarget\n"
        "from triton.compiler import ASTSource\n"
        "@triton.jit\n"
        "def double(x, n, B: tl.constexpr):\n"
        "    i = tl.program_id(0) * B + tl.arange(0, B)\n"
        "    tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)\n"
        "source = ASTSource(double, signature={'x': '*fp32', 'n': 'i32', 'B': 'constexpr'}, constexprs={'B': 128})\n"
        "print(len(triton.compile(source, target=GPUTarget('cuda', 120, 32)).asm['cubin']))\n"
    )
    size = int(run(sys.executable, str(program), TRITON_CACHE_DIR=str(folder / "triton")).split()[-1])
    return f"Triton {importlib.metadata.version('triton')} makes a cubin of {size} bytes for sm_120"


def nixl_over_ucx(folder: Path) -> str:
    """An agent with the UCX backend on host memory; every library of the plugin resolves (libcuda: the host's)."""
    plugin = next(SITE.glob("nixl_cu13.libs/nixl/libplugin_UCX.so"))
    loaded_before = {path.name for path in SITE.glob(".nixl_cu13.mesonpy.libs/**/*.so")}
    missing = {line.split()[0] for line in run("ldd", str(plugin)).splitlines() if "not found" in line}
    assert missing <= {"libcuda.so.1"} | loaded_before, f"{plugin.name} does not find {missing - loaded_before}"
    program = (
        "import torch, nixl._api as api\n"
        "agent = api.nixl_agent('probe', api.nixl_agent_config(backends=['UCX']))\n"
        "room = torch.zeros(4096, dtype=torch.uint8)\n"
        "assert agent.register_memory(room) is not None\n"
        "print(api.__file__)\n"
    )
    where = run(sys.executable, "-c", program, UCX_LOG_LEVEL="error").split()[-1]
    assert "nixl_cu13" in where, where
    return f"NIXL {importlib.metadata.version('nixl-cu13')} registers memory through UCX"


def one_cuda_major(folder: Path) -> str:
    """Two majors' libraries overwrite or shadow each other (ai-dynamo/nixl#1705)."""
    wheels = [name for dist in importlib.metadata.distributions() if re.search(r"[-_]cu\d\d$", name := dist.name)]
    strays = sorted(name for name in wheels if not name.endswith(CUDA_MAJOR))
    assert not strays, f"wheels of another CUDA major: {strays}"
    names = re.compile(r"lib(cudart|cublas|cublasLt|nvrtc|cupti|nvJitLink)[-.\w]*\.so\.(\d+)")
    majors = {m[2]: path for path in SITE.rglob("*.so.*") if (m := names.fullmatch(path.name))}
    assert set(majors) == {CUDA_MAJOR}, f"CUDA majors {majors}"
    outside = [path for top in ("/usr/lib", "/usr/local/lib", "/lib") for path in Path(top).rglob("libuc[pst].so*")]
    assert not outside, f"a second UCX on the loader's path: {outside}"
    return f"CUDA {CUDA_MAJOR} alone, {len(wheels)} wheels"


def argument_resolution(folder: Path) -> str:
    """SGLang resolves a prefill server's arguments as the appliance passes them, in its `--config` form."""
    (folder / "config.json").write_text(
        json.dumps(
            {
                "architectures": ["LlamaForCausalLM"],
                "model_type": "llama",
                "hidden_size": 64,
                "intermediate_size": 128,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
                "vocab_size": 512,
                "max_position_embeddings": 4096,
                "torch_dtype": "float32",
            }
        )
    )
    config = folder / "prefill.yaml"
    config.write_text(
        f"model-path: {folder}\ndevice: cpu\nhost: 127.0.0.1\nport: 30000\ndisaggregation-mode: prefill\n"
        "disaggregation-transfer-backend: nixl\ndisaggregation-bootstrap-port: 8998\nreasoning-parser: deepseek-v4\n"
        "tool-call-parser: deepseekv4\nenable-metrics: true\nmax-total-tokens: 4096\n"
    )
    program = (
        "import sys\nfrom sglang.srt.server_args import prepare_server_args\n"
        "args = prepare_server_args(sys.argv[1:])\n"
        "print(args.disaggregation_mode, args.disaggregation_transfer_backend, args.attention_backend)\n"
    )
    words = run(sys.executable, "-c", program, "--config", str(config), SGLANG_HOST_IP="127.0.0.1").split()[-3:]
    assert words[:2] == ["prefill", "nixl"], words
    return f"SGLang {importlib.metadata.version('sglang')} resolves {' '.join(words)}"


def tool_version(tool: str) -> str:
    found = re.search(r"release (\S+),", run(tool, "--version"))
    assert found
    return found[1]


def run(*argv: str, **environ: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, **environ})
    if done.returncode:
        sys.exit(f"{' '.join(argv)} exited {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
