"""Part `shrunk`: CUDA's libraries without the code of other cards compute what they compute with it.

Copies of torch's, NVIDIA's and SGLang's libraries lose this card's foreign code as the image's do (docker/steps), in
their files and not only by zeroes. A program that uses each of them runs with the whole ones and with the copies.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpu import machine
from gpu.record import Part
from gpu.servers import PYTHON, WORK

STEPS = next((path for path in (Path(__file__).parents[1] / "steps", Path(__file__).parents[3] / "docker/steps")
              if path.is_dir()), Path("docker/steps"))  # fmt: skip
SMALLEST = 1_000_000
# Deterministic on purpose: the two runs must print the same bits.
PROGRAM = """
import hashlib, importlib.util, sys, time
begun = time.monotonic()
import torch
def show(name, value):
    torch.cuda.synchronize()
    print(name, hashlib.sha256(value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()[:16])
torch.manual_seed(1)
a = torch.randn(1024, 1024, device="cuda")
show("rand", a)
show("gemm", a @ a)
show("half", a.half() @ a.half())
show("bf16", a.bfloat16() @ a.bfloat16())
eight = a.to(torch.float8_e4m3fn)
show("fp8", torch._scaled_mm(eight, eight.t(), torch.ones((), device="cuda"), torch.ones((), device="cuda"),
                             out_dtype=torch.bfloat16))
show("batched", torch.bmm(a.view(4, 256, 1024), a.view(4, 1024, 256)))
show("solve", torch.linalg.solve(a[:256, :256].double(), a[:256, :1].double()))
show("cholesky", torch.linalg.cholesky(a.double() @ a.double().T + 2000 * torch.eye(1024, device="cuda").double()))
show("fft", torch.view_as_real(torch.fft.fft(a[:8])))
show("sparse", torch.sparse.mm((a * (a > 2)).to_sparse_csr(), a))
show("sort", a.sort(dim=1).values)
show("softmax", a.softmax(-1))
show("norm", torch.nn.functional.layer_norm(a, (1024,)))
import torch.distributed as dist
dist.init_process_group("nccl", init_method="tcp://127.0.0.1:" + sys.argv[1], rank=0, world_size=1)
dist.all_reduce(a)
show("nccl", a)
dist.destroy_process_group()
if importlib.util.find_spec("sgl_kernel"):
    import sgl_kernel
    show("sgl_kernel", sgl_kernel.silu_and_mul(a.half()))
print("seconds", round(time.monotonic() - begun, 2), torch.__file__, file=sys.stderr)
print("mappings", len(open("/proc/self/maps").readlines()), file=sys.stderr)
"""


def main() -> int:
    with Part("shrunk") as part:
        card = machine.facts()["cards"][0]["capability"].replace(".", "")
        site = WORK / "shrunk"
        shutil.rmtree(site, ignore_errors=True)
        try:
            packages = copied(site)
            part.line("copied", packages={name: str(path) for name, path in packages.items()})
            part.expect(shrink(part, site, int(card)) > 0, "the libraries lose code of other cards")
            compare(part, site)
        finally:
            shutil.rmtree(site, ignore_errors=True)
    return 0 if not part.failures else 1


def copied(site: Path) -> dict[str, Path]:
    """The packages with CUDA libraries, from wherever the engine's interpreter finds them."""
    code = (
        "import importlib.util as u\n"
        "for n in ('torch', 'nvidia', 'sgl_kernel'):\n"
        "    s = u.find_spec(n)\n"
        "    print(n, *(s.submodule_search_locations if s else ()))"
    )
    out = subprocess.run([str(PYTHON), "-c", code], capture_output=True, text=True, check=True).stdout
    found: dict[str, Path] = {}
    for line in out.splitlines():
        name, *places = line.split()
        for child in (child for place in places for child in Path(place).iterdir()):
            target = site / name / child.name
            target.parent.mkdir(parents=True, exist_ok=True)
            found.setdefault(name, child.parent)
            if target.exists():
                continue
            if child.is_dir():  # one that is a link leads to the machine's own CUDA
                shutil.copytree(child.resolve(), target, symlinks=True)
            else:
                shutil.copy2(child, target, follow_symlinks=False)
    return found


def shrink(part: Part, site: Path, card: int) -> int:
    """Bytes that the files lose together; each is then looked over for what the card needs."""
    sys.path.insert(0, str(STEPS))
    import fatbin

    saved = 0
    for path in libraries(site):
        before = path.stat().st_size
        lost = fatbin.shrink(path, card)
        if lost:
            part.line("library", name=path.name, before_mb=round(before / 1e6, 1), lost_mb=round(lost / 1e6, 1))
            part.expect(not fatbin.missing(path, card), f"{path.name} has all that sm_{card} needs")
        saved += lost
    part.line("saved", mb=round(saved / 1e6))
    return saved


def libraries(site: Path) -> Iterator[Path]:
    for path in sorted(site.rglob("*.so*")):
        if path.is_file() and not path.is_symlink() and path.stat().st_size > SMALLEST:
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def compare(part: Part, site: Path) -> None:
    whole, short = run({}), run({"PYTHONPATH": str(site)})
    for name, done in (("whole", whole), ("shrunk", short)):
        part.line("run", libraries=name, status=done.returncode, said=done.stderr.strip().splitlines()[-3:])
    part.expect(whole.returncode == 0, "the program runs with the whole libraries")
    part.expect(short.returncode == 0 and str(site) in short.stderr, "it runs with the shrunk ones")
    want, got = (dict(line.split() for line in done.stdout.splitlines()) for done in (whole, short))
    differ = [name for name in want if want[name] != got.get(name)]
    part.expect(bool(want) and not differ, "every result is the same, bit by bit", operations=len(want), differ=differ)


def run(more: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    port = "29611" if more else "29610"
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "0", "CUBLAS_WORKSPACE_CONFIG": ":4096:8", **more}
    return subprocess.run(
        [str(PYTHON), "-c", PROGRAM, port], env=environ, capture_output=True, text=True, timeout=240, check=False
    )
