"""What we stand on, gathered from our own code and data: imports, flags, log lines, metrics, variables."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import yaml
from dsv4_pd.plan.disk import paths
from dsv4_pd.plan.programs import owned_flags
from dsv4_pd.plan.shipped import profiles
from support.plans import eight_cards, make, no_gpu

ROOT = Path(__file__).resolve().parents[2]
OURS = ("entrypoint/dsv4_pd", "gate", "kernels/dsv4_kernels", "demo/plugin", "demo/train", "docker/check", "hooks")
TESTS = ("tests/entrypoint/engine",)
PLANS: tuple[dict[str, str], ...] = (
    {
        "DSV4_PROFILE": "rtx-pro-6000-8x",
        "DSV4_MODEL": "flash-preview",
        "DSV4_MODEL_REVISION": "main",
        "DSV4_SPECULATIVE": "eagle",
    },
    {"DSV4_PROFILE": "rtx-pro-6000-8x", "DSV4_SPECULATIVE": "dspark", "DSV4_MODE": "single"},
    {"DSV4_PROFILE": "rtx-pro-6000-8x", "DSV4_ROUTER": "smg", "DSV4_LOG_LEVEL": "debug"},
    {"DSV4_PROFILE": "rtx-pro-6000-8x", "DSV4_ROUTER": "sglang-router"},
    {"DSV4_PROFILE": "rtx-pro-6000-4x"},
    {"DSV4_PROFILE": "single"},
    {"DSV4_PROFILE": "demo-cpu"},
)
# flags whose value is one of the engine's own words
CHOICES = (
    "attention-backend", "device", "disaggregation-decode-retraction-backup", "disaggregation-mode",
    "disaggregation-transfer-backend", "kv-cache-dtype", "reasoning-parser", "speculative-algorithm",
    "tool-call-parser",
)  # fmt: skip


class Planned(Protocol):
    """As much of a plan as is read here."""

    @property
    def settings(self) -> Any: ...
    @property
    def files(self) -> Sequence[Any]: ...
    @property
    def programs(self) -> Sequence[Any]: ...


def python_files(*folders: str) -> list[Path]:
    """Our sources, without what a build leaves beside them."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")) if "build" not in path.parts]


def imports(text: str) -> Iterator[str]:
    """Dotted paths below `sglang` that a module imports or names.

    >>> sorted(imports("from sglang.a import b, c\\nimport sglang.d as e\\nT = 'sglang.srt.x.Y.z'\\nW = 'sglang 1'"))
    ['sglang.a.b', 'sglang.a.c', 'sglang.d', 'sglang.srt.x.Y.z']
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "sglang")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sglang":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and re.fullmatch(r"sglang(\.\w+){2,}", str(node.value)):
            yield str(node.value)


def engine_paths() -> dict[str, str]:
    """Every dotted path of the engine that our code imports or names -> the file that needs it."""
    return {
        path: str(file.relative_to(ROOT))
        for file in python_files(*OURS, *TESTS)
        for path in imports(file.read_text(encoding="utf-8"))
    }


def plans() -> Sequence[Planned]:
    """Plans that between them set every flag and variable that the appliance can set."""
    facts = {"demo-cpu": no_gpu(), "rtx-pro-6000-4x": eight_cards(4), "single": eight_cards(4)}
    return [make(environ, facts.get(environ["DSV4_PROFILE"], eight_cards()), policy="membind") for environ in PLANS]


def server_flags(planned: Sequence[Planned]) -> dict[str, set[str]]:
    """flag -> values that some plan gives it, from the files that the servers read."""
    found: dict[str, set[str]] = {}
    for plan in planned:
        for file in plan.files:
            settings: Any = yaml.safe_load(file.text) if file.path.suffix == ".yaml" else {}
            for name, value in settings.items():
                found.setdefault(f"--{name}", set()).add(str(value))
    return found


def router_flags(planned: Sequence[Planned], name: str) -> set[str]:
    """Flags of the router's command line."""
    programs = [program for plan in planned if plan.settings.router == name for program in plan.programs]
    argvs = [program.argv[program.argv.index("--") + 1 :] for program in programs if program.name == "router"]
    return {word for argv in argvs for word in argv if word.startswith("--")}


def refused_by_engine() -> set[str]:
    """Flags that an operator may not give a server, the parser's own aside."""
    return _long(owned_flags.engine_owned(profiles.read_all(paths.profiles_dir())))


def refused_by_router(name: owned_flags.RouterName) -> set[str]:
    """The same for one router."""
    return _long(owned_flags.router_owned([name]))


def _long(words: Iterable[str]) -> set[str]:
    return {word for word in words if word.startswith("--") and word != "--help"}


def variables(planned: Sequence[Planned]) -> set[str]:
    """SGLANG_* and SGL_* variables that a server is started with, or that our code and data name."""
    set_by_plan = {name for plan in planned for program in plan.programs for name, _ in program.env}
    # What an older deployment's units set is read by `migrate`, and given to no engine.
    texts = [path.read_text(encoding="utf-8") for path in python_files(*OURS) if "migrate" not in path.parts]
    texts += [path.read_text(encoding="utf-8") for path in sorted((ROOT / "config").rglob("*.toml"))]
    texts.append((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    return {name for text in [*texts, *set_by_plan] for name in re.findall(r"\bSGL(?:ANG)?_[A-Z0-9_]+\b", text)}


def metrics() -> set[str]:
    """Names of the engine's metrics that the control plane, the rules and the dashboards read."""
    data = [path for path in sorted((ROOT / "config/monitoring").rglob("*")) if path.suffix in {".yml", ".json"}]
    texts = [path.read_text(encoding="utf-8") for path in [*python_files("entrypoint/dsv4_pd"), *data]]
    return {name for text in texts for name in re.findall(r"\bsglang:[a-z][a-z0-9_]+[a-z0-9]", text)}


def signatures() -> list[dict[str, Any]]:
    """Every entry of config/signatures.toml."""
    data = tomllib.loads((ROOT / "config/signatures.toml").read_text(encoding="utf-8"))
    return [entry for entries in data.values() if isinstance(entries, list) for entry in entries]


def watched() -> list[dict[str, str]]:
    """Code of the engine that ours repeats or leans on."""
    entries: list[dict[str, str]] = tomllib.loads(Path(__file__).with_name("watched.toml").read_text())["code"]
    return entries


def pinned() -> dict[str, str]:
    """What that code was, in the engine that we pin: dotted path -> digest."""
    digests: dict[str, str] = json.loads(Path(__file__).with_name("pinned.json").read_text())["code"]
    return digests
