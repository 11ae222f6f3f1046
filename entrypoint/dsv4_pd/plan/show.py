"""A situation's plan as text and as JSON values: exactly what `serve` would start, secrets masked. Pure.

A secret is shown as `<secret>`, a value that each start draws for itself as `<per run>` (that is how it stands in the
plan); everything else is byte for byte what supervisord gets.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from dsv4_pd.host import capture
from dsv4_pd.host.parse import format_cpu_list
from dsv4_pd.plan.memory import offload
from dsv4_pd.plan.memory import plan as memory_plan
from dsv4_pd.plan.memory.model import Estimate
from dsv4_pd.plan.memory.pinned import pinned_tokens
from dsv4_pd.plan.placement.place import Placement, RolePlacement
from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.programs.program import Program
from dsv4_pd.plan.shipped import presets
from dsv4_pd.plan.situation import Situation
from dsv4_pd.settings.redact import MASK, Redactor, known_secrets
from dsv4_pd.settings.redaction.names import is_secret_variable
from dsv4_pd.settings.schema import SECRETS, env_name

SECRET = "<secret>"  # noqa: S105


class Mask:
    """Replaces what must not be shown in texts of a plan."""

    def __init__(self, plan: Plan) -> None:
        self._redactor = Redactor(known_secrets(plan.environ, plan.settings.secrets))

    def text(self, text: str) -> str:
        """Any text, line breaks kept."""
        shown = self._redactor.text(text)
        return text if shown == text else shown.replace(MASK, SECRET)

    def variables(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Environment variables; one that is named like a secret is one."""
        return {k: SECRET if is_secret_variable(k) and v else self.text(v) for k, v in variables.items()}


def as_dict(situation: Situation) -> dict[str, Any]:
    """The plan as JSON values.

    Raises:
        ApplianceError: why there is no plan.
    """
    plan = situation.planned()
    mask = Mask(plan)
    return {
        "profile": plan.profile.name,
        "tuned": tuned_lines(situation),
        "settings": _settings(plan),
        "facts": json.loads(capture.to_json(situation.facts)),
        "placement": _placement(situation),
        "numa_policy": situation.around.numa.policy,
        "memory": [_memory(card) for card in _estimates(situation)],
        "kv_offload": offload.lines(plan.settings, plan.profile, plan.placement, situation.around.shape),
        "environment": mask.variables(plan.environ),
        "programs": [_program(program, mask) for program in plan.programs],
        "files": {str(file.path): mask.text(file.text) for file in plan.files},
    }


def _settings(plan: Plan) -> dict[str, Any]:
    shown = plan.settings.model_dump(mode="json")
    return {env_name(k): (SECRET if k in SECRETS and v else v) for k, v in shown.items()}


def _placement(situation: Situation) -> dict[str, Any]:
    placement = situation.planned().placement
    return {
        "mode": placement.mode,
        "device": placement.device,
        "roles": [_role(role) for role in placement.roles],
        "notices": [
            {"kind": notice.kind.name.lower(), "subject": notice.subject, "text": notice.text}
            for notice in situation.notices
        ],
    }


def _role(role: RolePlacement) -> dict[str, Any]:
    return {
        "role": role.role,
        "member": role.name,
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


def _program(program: Program, mask: Mask) -> dict[str, Any]:
    return {
        "name": program.name,
        "argv": [mask.text(word) for word in program.argv],
        "env": mask.variables(dict(program.env)),
        "numa_node": program.numa_node,
        "gpus": list(program.gpus),
        "ready_url": program.ready_url,
        "ports": {port.setting: f"{port.host}:{port.number}" for port in program.ports},
    }


def _memory(card: Estimate) -> dict[str, Any]:
    """Bytes and tokens of one role."""
    return {
        "role": card.load.role,
        "weights": round(card.weights),
        "kv": round(card.kv),
        "runtime": round(card.runtime),
        "headroom": round(card.headroom),
        "used": round(card.used),
        "kv_tokens": card.tokens,
        "window_ratio": card.window_ratio,
        "kv_tokens_by_default_ratio": card.tokens_by_default,
    }


def _estimates(situation: Situation) -> tuple[Estimate, ...]:
    plan, shape = situation.planned(), situation.around.shape
    pinned = pinned_tokens(plan.settings, plan.profile, plan.placement)
    return memory_plan.estimates(plan.settings, plan.placement, shape, pinned) if shape else ()


def as_text(situation: Situation) -> str:
    """The plan for a person.

    Raises:
        ApplianceError: why there is no plan.
    """
    return "\n\n".join("\n".join(lines) for lines in sections(situation).values() if lines)


def sections(situation: Situation) -> dict[str, list[str]]:
    """The parts of the text, in their order."""
    plan = situation.planned()
    mask = Mask(plan)
    return {
        "profile": [f"profile: {plan.profile.name} — {plan.profile.description}"],
        "preset": _preset_lines(situation),
        "tuned": tuned_lines(situation),
        "settings": ["settings", *_setting_lines(plan)],
        "placement": placement_lines(situation),
        "memory": _memory_lines(situation),
        "environment": ["environment, inherited by every program", *_variable_lines(plan.environ, mask)],
        **{f"program {program.name}": program_lines(program, mask) for program in plan.programs},
        **{f"file {file.path}": _file_lines(file.path, mask.text(file.text)) for file in plan.files},
    }


def _preset_lines(situation: Situation) -> list[str]:
    """What the preset decided and where the operator's own value won; the figures stand under `memory`."""
    plan, preset = situation.planned(), situation.preset
    if preset is None:
        return []
    decided, own = presets.shares(preset, plan.profile, situation.own)
    shown = _settings(plan)
    kept = f"; your own: {', '.join(map(env_name, own))}" if own else ""
    return [
        f"preset: {preset.name} — {preset.description}{kept}",
        *(f"  {env_name(name)} = {shown[env_name(name)]}" for name in decided),
    ]


def tuned_lines(situation: Situation) -> list[str]:
    """What a receipt of `dsv4-pd tune` decided, or why it did not; how many it served is never said without one."""
    found = situation.tuned
    return [] if found is None else [f"tuned: {found.line}", *([f"  {found.users}"] if found.users else [])]


def _setting_lines(plan: Plan) -> list[str]:
    return [f"  {name} = {value}" for name, value in _settings(plan).items() if value not in (None, "", [])]


def placement_lines(situation: Situation) -> list[str]:
    """Role → GPU → UUID → bus → NUMA → CPUs, what NUMA policy is set, and what there is to say about it."""
    placement, permission = situation.planned().placement, situation.around.numa
    reason = f" ({permission.reason})" if permission.reason else ""
    bound = any(role.numa_nodes for role in placement.roles)
    return [
        "placement",
        *_table(placement),
        *([f"  NUMA policy: {permission.policy}{reason}"] if bound else []),
        *(f"  notice: {notice.text}" for notice in situation.notices),
    ]


def _table(placement: Placement) -> list[str]:
    rows = [("role", "GPU", "UUID", "bus", "NUMA", "CPUs")]
    for role in placement.roles:
        cpus = format_cpu_list(role.cpus) or "all"
        node = ",".join(map(str, role.numa_nodes)) or "-"
        gpus = [(str(g.index), g.uuid, g.pci_bus_id) for g in role.gpus] or [("-", "(CPU)", "-")]
        rows += [(role.name, *gpu, node, cpus) for gpu in gpus]
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _memory_lines(situation: Situation) -> list[str]:
    """The memory model's sum a role; it needs the model's shape, not a GPU."""
    cards, plan = _estimates(situation), situation.planned()
    names = tuple(role.name for role in plan.placement.roles if role.gpus)
    return (
        [
            "memory (computed, not measured)",
            *("  " + line for line in memory_plan.table(cards, situation.settings.context_length, names)),
            *(
                "  " + line
                for line in offload.lines(plan.settings, plan.profile, plan.placement, situation.around.shape)
            ),
        ]
        if cards
        else []
    )


def program_lines(program: Program, mask: Mask) -> list[str]:
    """Its command line as a shell takes it, and the variables that it gets on top of the inherited ones."""
    command = shlex.join(mask.text(word) for word in program.argv)
    return [f"program {program.name}", "  " + command, *_variable_lines(dict(program.env), mask)]


def _variable_lines(variables: Mapping[str, str], mask: Mask) -> list[str]:
    shown = mask.variables(variables)
    return [f"  {key}={value if value == SECRET else shlex.quote(value)}" for key, value in sorted(shown.items())]


def _file_lines(path: object, text: str) -> list[str]:
    return [f"file {path}", *("  " + line for line in text.splitlines())]
