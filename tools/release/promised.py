"""The list of what the present tree promises, from its code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dsv4_pd.cli.app import app
from dsv4_pd.errors import ApplianceError
from dsv4_pd.plan.front.config import RouterName
from dsv4_pd.run.front import metrics as front_metrics
from dsv4_pd.run.front import routes as front_routes
from dsv4_pd.run.front.metrics import Metrics
from dsv4_pd.run.guard.decide.states import Phase
from dsv4_pd.run.guard.senses import gpus
from dsv4_pd.run.guard.tell import document as guard_document
from dsv4_pd.run.ops import own, server
from dsv4_pd.run.states import StateName
from dsv4_pd.settings import deprecated
from generators.env import env_markdown

from release import extract, sample
from release.extract import Group

ROOT = Path(__file__).resolve().parents[2]
FORMAT = 1
# function of run/guard/tell/document.py -> where the document has what it returns
PLACES = {"document": "", "link": "link", "role": "roles.*", "paths": "paths.*", "budgets": "members.*", "canary": "canary"}  # fmt: skip  # noqa: E501


def promised(version: str) -> dict[str, Any]:
    """Every group, under the version that promises it."""
    groups = {
        "settings": extract.settings(env_markdown()),
        "exit_codes": extract.exit_codes(ApplianceError),
        "ops_routes": extract.ops_routes(server.application(dict, _Silent(), {})),
        "api_routes": _api_routes(),
        "metrics": extract.metrics(_families()),
        "states": extract.states(StateName, server.ready_of, server.live_of),
        "phases": {str(phase): {} for phase in Phase},
        "health_fields": _fields(),
        "commands": extract.commands(app),
        "compose": extract.compose(_text("compose.yaml"), _text("docker/compose.env")),
    }
    return {"format": FORMAT, "version": version, "deprecated": _deprecated(), "groups": groups}


def _deprecated() -> dict[str, Group]:
    found: dict[str, Group] = {}
    for one in deprecated.everything():
        told = {"new": one.new, "since": one.since, "goes": one.goes}
        found.setdefault(one.kind.value, {})[one.old] = told
    return found


def _api_routes() -> Group:
    routers: tuple[RouterName, ...] = ("sglang-router", "smg")
    routes = (*front_routes.ROUTES, front_routes.ONE_MODEL)
    return {
        f"{route.method} {route.path}": {"routers": [name for name in routers if name == "smg" or not route.smg]}
        for route in sorted(routes, key=lambda route: route.path)
    }


def _families() -> Iterator[Any]:
    yield from own.families(sample.document(), sample.TEXTS, {"cubin": 0})
    front = Metrics()
    series = front.of("/v1/completions", "key", "openai")
    for histogram in (series.first, series.gap, series.whole, series.waited):
        histogram.add(0.1)
    series.statuses["200"] = series.ended["whole"] = series.prompt_tokens = series.completion_tokens = 1
    yield from front.families(dict.fromkeys(front_metrics.TEXTS, 0.0))


def _fields() -> Group:
    found = extract.fields(_source(guard_document), PLACES)
    return found | extract.fields(_source(gpus), {"memory": "roles.*.gpu_memory.*"})


class _Silent:
    """The ops port's telemetry: only the routes are asked for."""

    async def metrics(self) -> str:
        return ""

    async def live(self) -> dict[str, Any]:
        return {}


def _source(module: Any) -> str:
    return Path(module.__file__).read_text(encoding="utf-8")


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")
