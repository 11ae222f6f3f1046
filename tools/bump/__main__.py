"""python -m bump ENGINE [--router FOLDER] [--smg FOLDER] [--out FILE]: what another SGLang would break.

ENGINE: the interpreter of an environment, its site-packages, or a folder with an unpacked wheel of sglang. Nothing of
it is run but that interpreter, to ask where its packages are.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from dsv4_gate import overload, rules, samples
from dsv4_gate import targets as gate
from dsv4_hooks.engine import ENGINE_VERSION
from dsv4_kernels.sglang_plugin import table as kernels
from dsv4_pd.plan.programs import owned_flags

from bump import checks, needs, parsers, report
from bump.checks import Difference, Fit
from bump.source import Sources

PINNED = Path(__file__).with_name("pinned.json")
HOOKS = (*gate.HOOKS, *gate.SCHEDULER_HOOKS, *kernels.HOOKS)
# start of a signature -> who writes it: none of these stands in SGLang's own Python files
OUTSIDE = {
    ": block: [": "the CUDA runtime, for a kernel's assertion",
    "] NCCL WARN ": "NCCL",
    "Allocation on device": "torch",
    "CUDA error: ": "the CUDA runtime, through torch",
    "CUDA out of memory.": "torch",
    "Cuda failure '": "NCCL",
    "DefaultCPUAllocator: ": "torch",
    "Found no NVIDIA driver on your system": "torch",
    "no kernel image is available": "the CUDA runtime",
    "CUDA driver version is insufficient": "the CUDA runtime",
    "Unexpected error from cudaGetDeviceCount": "torch",
    "No CUDA GPUs are available": "torch",
    ": UserWarning: CUDA initialization: ": "torch",
    "unable to ": "torch",
    "ProcessGroupNCCL.cpp:": "torch",
    "] Watchdog caught": "torch",
    "Failed to set the allowed dynamic shared memory": "TVM, through TileLang",
    "InternalError: ": "TVM, through TileLang",
    "Triton Error [CUDA]": "Triton",
    "[Errno 28]": "Python",
    "[Errno 98]": "Python's socket module, through uvicorn",
    "[sgl_kernel] CRITICAL": "the sglang-kernel wheel",
    "ncclInvalid": "NCCL, through torch",
    "torch.distributed.DistBackendError: ": "torch",
}
# what SGLang passes on behind words of its own
QUOTED = {"out of memory": "the CUDA runtime"}


def main() -> int:
    options = _options()
    engine = Sources(folder_of(options.engine))
    version = version_of(engine.root, "sglang")
    if options.accept:
        return accept(engine, version)
    findings = [*of_engine(engine), *of_routers(options.router, options.smg)]
    text = report.render(version, ENGINE_VERSION, findings)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text, encoding="utf-8")
    print(text)
    return int(any(finding.verdict is Fit.GONE for finding in findings))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bump", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("engine", type=Path, help="python, site-packages, or a folder with an unpacked wheel")
    parser.add_argument("--router", type=Path, help="the same for sglang-router; not checked where left out")
    parser.add_argument("--smg", type=Path, help="the same for smg")
    parser.add_argument("--out", type=Path, help="also write the report here")
    parser.add_argument("--accept", action="store_true", help="this is the engine that we pin: write pinned.json")
    return parser.parse_args()


def folder_of(given: Path) -> Path:
    """Where packages lie: the folder itself, or what an interpreter names."""
    if given.is_dir():
        return given
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    try:
        done = subprocess.run([given, "-c", program], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"ENGINE: {given} is no folder and does not run as Python: give one of the two") from error
    return Path(done.stdout.strip())


def version_of(root: Path, name: str) -> str:
    """From the folder of its metadata."""
    found = [path.name.removesuffix(".dist-info").removeprefix(f"{name}-") for path in root.glob(f"{name}-*.dist-info")]
    if not found:
        raise SystemExit(f"ENGINE: no {name}-*.dist-info in {root}: give an environment or an unpacked wheel of {name}")
    return found[0]


def of_engine(engine: Sources) -> Iterator[Difference]:
    """Everything that is looked for in SGLang."""
    planned = needs.plans()
    given = needs.server_flags(planned)
    declared, deprecated = parsers.engine_flags(engine.root)
    yield from checks.hooks(HOOKS, engine)
    yield from checks.imports(needs.engine_paths(), engine)
    yield from checks.fields(gate.REQUEST, {*gate.FIELDS, *samples.ADDRESS, *rules.UNSERVED}, engine)
    yield from checks.flags("flags that a plan sets", given, declared, deprecated)
    yield from checks.flags(
        "flags that are refused in extra arguments", needs.refused_by_engine() - set(given), declared
    )
    words = {f"--{name}": given.get(f"--{name}", set()) for name in needs.CHOICES}
    yield from checks.choices(words, engine)
    yield from checks.log_lines(needs.signatures(), OUTSIDE | QUOTED, engine)
    yield from checks.messages(reworded(), engine)
    yield from checks.metrics(needs.metrics(), engine)
    yield from checks.variables(needs.variables(planned), engine)
    yield from checks.watched(watched(), needs.pinned(), engine)


def reworded() -> list[re.Pattern[str]]:
    """The gate's patterns of the engine's exceptions."""
    return [value for value in vars(overload).values() if isinstance(value, re.Pattern)]


def watched() -> list[dict[str, str]]:
    """watched.toml, and the bodies of the functions that we hook."""
    targets = [{"name": hook.target, "why": "a hook runs around it, or instead of it"} for hook in HOOKS]
    return [*needs.watched(), *targets]


def of_routers(router: Path | None, smg: Path | None) -> Iterator[Difference]:
    """Flags of the routers whose sources were given."""
    planned = needs.plans()
    folders = {"sglang-router": (router, "sglang_router"), "smg": (smg, "smg")}
    for name in owned_flags.ROUTERS:
        given, package = folders[name]
        if given is not None:
            wanted = needs.router_flags(planned, name) | needs.refused_by_router(name)
            yield from checks.flags(f"{name} flags", wanted, parsers.router_flags(folder_of(given), package))


def accept(engine: Sources, version: str) -> int:
    """Remember the watched code as it is now, for the next bump's comparison."""
    if version != ENGINE_VERSION:
        raise SystemExit(f"--accept: found sglang {version}, expected {ENGINE_VERSION} (docker/engine.in)")
    found = checks.digests((entry["name"] for entry in watched()), engine)
    PINNED.write_text(json.dumps({"sglang": version, "code": found}, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
