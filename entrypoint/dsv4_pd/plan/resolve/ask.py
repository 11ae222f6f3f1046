"""Ask each program's own interpreter what it makes of its command line. Starts no server and touches no GPU."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.programs.program import ConfigFile, Program

_TIMEOUT_S = 300.0  # the engine imports torch: half a minute on a cold disk
_ENGINE_SIDE = Path(__file__).with_name("engine_side.py")
_ROUTER_SIDE = "import json, sys; from {module} import parse_router_args as parse; " + (
    "print(json.dumps({{'resolved': {{k: v for k, v in vars(parse(sys.argv[1:])).items() if 'key' not in k}}}}, "
    "default=str))"
)
# What a program may change without changing what was meant: it is shown, not refused.
_COMPARED = (
    "context_length", "max_running_requests", "chunked_prefill_size", "mem_fraction_static", "served_model_name",
    "model_path", "port", "nccl_port", "tp_size", "disaggregation_mode", "disaggregation_bootstrap_port",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Resolved:
    """One program's answer: the values that it resolved, or why it refused; `absent`: it is not installed here."""

    name: str
    values: Mapping[str, Any]
    error: str | None = None
    absent: bool = False

    def line(self, asked: Mapping[str, Any]) -> str:
        """For a person; `asked` are the flags as the plan spells them."""
        if self.error:
            return f"{self.name}: {self.error}"
        other = [
            f"{name}: {asked[flag]!r} becomes {self.values[name]!r}"
            for name in _COMPARED
            if (flag := name.replace("_", "-")) in asked and name in self.values and self.values[name] != asked[flag]
        ]
        return f"{self.name}: accepted" + (f" ({'; '.join(other)})" if other else "")


def resolve(plan: Plan) -> tuple[Resolved, ...]:
    """Every program that has a parser of its own: the servers and the router; front and guard read our own files."""
    asked = [program for program in plan.programs if program.name not in ("front", "guard")]
    return tuple(_router(plan, item) if item.name == "router" else _server(plan, item) for item in asked)


def flags_of(plan: Plan, name: str) -> Mapping[str, Any]:
    """A server's flags as it is asked about them; none for the router, which has no file."""
    program = next(program for program in plan.programs if program.name == name)
    text = next((_askable(plan, file) for file in program.files if file.path.suffix == ".yaml"), "{}")
    found: Mapping[str, Any] = yaml.safe_load(text)
    return found


def _askable(plan: Plan, file: ConfigFile) -> str:
    """A file's text; a model that is not here yet goes by its name on the Hub, where the engine finds its config."""
    if file.path.suffix != ".yaml":
        return file.text
    flags = yaml.safe_load(file.text)
    if Path(flags["model-path"]).is_dir():
        return file.text
    flags |= {"model-path": plan.settings.model, "revision": plan.settings.model_revision or "main"}
    return yaml.safe_dump(flags, sort_keys=False)


def _server(plan: Plan, program: Program) -> Resolved:
    python = str(plan.settings.engine_python)
    role = next(role for role in plan.placement.roles if role.name == program.name)
    cards = [str(len(plan.placement.visible)), "0", "0.0"]
    if role.gpus:
        cards[1:] = [str(role.gpus[0].memory_bytes), ".".join(map(str, role.gpus[0].compute_capability))]
    flags = program.argv[program.argv.index("--") + 1 :]
    environ = {**plan.environ, **dict(program.env)}
    if role.gpus:
        environ.pop("SGLANG_PLUGINS", None)  # the kernels' plugin looks for a GPU
        environ["CUDA_VISIBLE_DEVICES"] = ""
    with tempfile.TemporaryDirectory(prefix="dsv4-pd-resolve-") as folder:
        given = {}
        for file in program.files:
            copy = Path(folder) / file.path.name
            copy.write_text(_askable(plan, file), encoding="utf-8")
            copy.chmod(0o600)
            given[str(file.path)] = str(copy)
        environ["TMPDIR"] = folder
        words = [given.get(word, word) for word in flags]
        return _ask(program.name, [python, str(_ENGINE_SIDE), *cards, "--", *words], environ)


def _router(plan: Plan, program: Program) -> Resolved:
    start = program.argv.index("--")
    module = next(word for word in program.argv if word.endswith(".launch_router"))
    flags = program.argv[start + 1 :]
    argv = [program.argv[0], "-c", _ROUTER_SIDE.format(module=module), *flags]
    return _ask(program.name, argv, {**plan.environ, **dict(program.env)})


def _ask(name: str, argv: Sequence[str], environ: Mapping[str, str]) -> Resolved:
    if not os.access(argv[0], os.X_OK):
        return Resolved(name, {}, f"not asked: {argv[0]} is not here", absent=True)
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", env=dict(environ), timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Resolved(name, {}, f"not asked: {error}", absent=True)
    return _read(name, done.returncode, done.stdout, done.stderr)


def _read(name: str, code: int, out: str, err: str) -> Resolved:
    """Its last line is the answer; whoever ends without one has said why on standard error."""
    try:
        answer = json.loads(out.strip().splitlines()[-1])
        return Resolved(name, answer.get("resolved") or {}, answer.get("error"))
    except (ValueError, IndexError, AttributeError):
        words = (err.strip().splitlines() or [f"it ended with code {code}"])[-1]
        return Resolved(name, {}, words)
