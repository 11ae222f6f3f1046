"""The one-screen banner that greets the operator once the appliance serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsv4_pd import __version__
from dsv4_pd.host.address import url_of
from dsv4_pd.plan.front import open_api
from dsv4_pd.plan.placement.place import RolePlacement
from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.programs.front_build import front_url
from dsv4_pd.settings.layout import PAIR_ROLES

_RULE = "─" * 78


def banner(plan: Plan, health: Mapping[str, Any]) -> str:
    """Version, roles → devices → NUMA, ports, and a curl line that works as printed."""
    settings = plan.settings
    if settings.role in PAIR_ROLES:
        return _of_member(plan, health)
    lines = [
        _RULE,
        f" dsv4-pd {__version__}   {health.get('state', '')}   profile {plan.profile.name}   model {_model_name(plan)}",
        "",
        *(_role_line(role) for role in plan.placement.roles),
        "",
        f" context  {_context(plan, health)} tokens, prompt and answer together; a longer request is refused",
        f" API      {front_url(settings)}/v1   (front, {settings.router})",
        f" ops      {url_of(settings.ops_host, settings.ops_port)}/status   /livez  /readyz  /metrics",
        *(f" WARNING  {notice}" for notice in open_api.notices(settings)),
        "",
        " try it:",
        *(" " + line for line in curl_line(plan).splitlines()),
        _RULE,
    ]
    return "\n".join(lines)


def _of_member(plan: Plan, health: Mapping[str, Any]) -> str:
    """What a router's list has to name: clients do not come here."""
    settings, ready = plan.settings, plan.programs[0].ready_url or ""
    lines = [
        _RULE,
        f" dsv4-pd {__version__}   {health.get('state', '')}   profile {plan.profile.name}   model {_model_name(plan)}",
        "",
        *(_role_line(role) for role in plan.placement.roles),
        "",
        f" member   {ready.removesuffix('/ready')}   for a router's list; clients use the router's API",
        f" ops      {url_of(settings.ops_host, settings.ops_port)}/status   /livez  /readyz  /metrics",
        _RULE,
    ]
    return "\n".join(lines)


def curl_line(plan: Plan) -> str:
    """A chat completion that a shell can run as it stands; the key stays a variable."""
    key = ' -H "Authorization: Bearer $DSV4_API_KEY"' if plan.settings.api_key else ""
    body = f'{{"model": "{_model_name(plan)}", "messages": [{{"role": "user", "content": "Hello!"}}]}}'
    return (
        f"curl -sN {front_url(plan.settings)}/v1/chat/completions{key} \\\n"
        f"  -H 'Content-Type: application/json' -d '{body}'"
    )


def _context(plan: Plan, health: Mapping[str, Any]) -> int:
    """What is refused above it: the setting, or less where a server's KV pool is smaller."""
    return min(plan.settings.context_length, health.get("context_length") or plan.settings.context_length)


def _model_name(plan: Plan) -> str:
    return plan.settings.served_model_name or plan.settings.model


def _role_line(role: RolePlacement) -> str:
    devices = f"GPU {','.join(str(gpu.index) for gpu in role.gpus)} ({role.gpus[0].name})" if role.gpus else "CPU"
    node = f"NUMA node {role.numa_node}" if role.numa_node is not None else "not bound to a NUMA node"
    return f" {role.name:<8} TP{role.tensor_parallel}  {devices} → {node}"
