"""`dsv4-pd plan`: everything that `serve` would do, and nothing done."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from dsv4_pd.host import capture
from dsv4_pd.host.parse import format_cpu_list
from dsv4_pd.plan import boot, memory_plan, model_files
from dsv4_pd.plan.boot import Plan
from dsv4_pd.plan.memory_model import Estimate
from dsv4_pd.settings.redact import Redactor, known_secrets
from dsv4_pd.settings.schema import SECRETS, env_name


@click.command("plan")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--facts",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Plan for the machine captured in this file instead of this one.",
)
def command(as_json: bool, facts: Path | None) -> None:
    """Print settings (secrets masked), facts, placement, programs and rendered files. Starts nothing."""
    host = capture.from_json(facts.read_text(encoding="utf-8")) if facts else None
    plan = boot.make_plan(host)
    click.echo(json.dumps(as_dict(plan), indent=2) if as_json else as_text(plan))


def as_dict(plan: Plan) -> dict[str, Any]:
    """The plan as JSON values, with every secret masked, the rendered files' included."""
    secret = plan.settings.api_key
    redact = Redactor(known_secrets(os.environ, [secret.get_secret_value()] if secret else []))
    shown: dict[str, Any] = redact.data(_values(plan))
    return shown


def _values(plan: Plan) -> dict[str, Any]:
    return {
        "profile": plan.profile.name,
        "settings": _settings(plan),
        "facts": json.loads(capture.to_json(plan.facts)),
        "placement": _placement(plan),
        "memory": memory_values(plan),
        "programs": [_program(program) for program in plan.programs],
        "files": {str(file.path): file.text for file in plan.files},
    }


def _settings(plan: Plan) -> dict[str, Any]:
    shown = plan.settings.model_dump(mode="json")
    return {env_name(k): ("***" if k in SECRETS and v else v) for k, v in shown.items()}


def _placement(plan: Plan) -> dict[str, Any]:
    roles = [
        {
            "role": role.role,
            "tensor_parallel": role.tensor_parallel,
            "numa_node": role.numa_node,
            "cpus": sorted(role.cpus),
            "base_gpu_id": role.base_gpu_id,
            "gpus": [
                {
                    "index": gpu.index,
                    "uuid": gpu.uuid,
                    "pci_bus_id": gpu.pci_bus_id,
                    "name": gpu.name,
                    "numa_node": gpu.numa_node,
                }
                for gpu in role.gpus
            ],
        }
        for role in plan.placement.roles
    ]
    return {
        "mode": plan.placement.mode,
        "device": plan.placement.device,
        "roles": roles,
        "warnings": list(plan.placement.warnings),
    }


def _program(program: Any) -> dict[str, Any]:
    return {
        "name": program.name,
        "argv": list(program.argv),
        "env": dict(program.env),
        "numa_node": program.numa_node,
        "gpus": list(program.gpus),
        "ready_url": program.ready_url,
        "ports": {port.setting: f"{port.host}:{port.number}" for port in program.ports},
    }


def as_text(plan: Plan) -> str:
    """The plan for a person."""
    data = as_dict(plan)
    parts = [f"profile: {plan.profile.name} — {plan.profile.description}", "", "settings"]
    parts += [f"  {name} = {value}" for name, value in data["settings"].items() if value not in (None, "", [])]
    parts += ["", "placement", *_table(plan)]
    parts += [f"  warning: {text}" for text in plan.placement.warnings]
    parts += _memory_lines(plan)
    for program in data["programs"]:
        parts += ["", f"program {program['name']}", "  " + " ".join(program["argv"])]
        parts += [f"  {key}={value}" for key, value in program["env"].items()]
    for path, text in data["files"].items():
        parts += ["", f"file {path}", *("  " + line for line in text.splitlines())]
    return "\n".join(parts)


def _memory_lines(plan: Plan) -> list[str]:
    """The memory model's sum a role; it needs the model's shape, not a GPU."""
    cards = _estimates(plan)
    return ["", "memory (computed, not measured)", *("  " + line for line in memory_plan.table(cards))] if cards else []


def memory_values(plan: Plan) -> list[dict[str, Any]]:
    """The same as values, in bytes and tokens."""
    return [
        {
            "role": card.load.role,
            "weights": round(card.weights),
            "kv": round(card.kv),
            "runtime": round(card.runtime),
            "headroom": round(card.headroom),
            "used": round(card.used),
            "kv_tokens": card.tokens,
        }
        for card in _estimates(plan)
    ]


def _estimates(plan: Plan) -> tuple[Estimate, ...]:
    found = model_files.look(plan.settings.model, plan.settings.model_revision, os.environ)
    shape = memory_plan.read_shape(found.path, found.total_bytes)
    return memory_plan.estimates(plan.settings, plan.placement, shape) if shape else ()


def _table(plan: Plan) -> list[str]:
    """Role → GPU → UUID → bus → NUMA → CPUs."""
    rows = [("role", "GPU", "UUID", "bus", "NUMA", "CPUs")]
    for role in plan.placement.roles:
        cpus = format_cpu_list(role.cpus) or "all"
        node = ",".join(map(str, role.numa_nodes)) or "-"
        gpus = [(str(g.index), g.uuid, g.pci_bus_id) for g in role.gpus] or [("-", "(CPU)", "-")]
        rows += [(role.role, *gpu, node, cpus) for gpu in gpus]
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
