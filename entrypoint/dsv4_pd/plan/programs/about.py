"""What runs here, for receipts and comparisons: versions, machine, topology, settings. Holds no secret."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from dsv4_pd import __version__
from dsv4_pd.host.facts import HostFacts
from dsv4_pd.plan.around.surroundings import Surroundings
from dsv4_pd.plan.memory import plan as memory_plan
from dsv4_pd.plan.memory.pinned import pinned_tokens
from dsv4_pd.plan.model.files import commit_of
from dsv4_pd.plan.model.shape import Shape
from dsv4_pd.plan.placement.place import Placement
from dsv4_pd.plan.shipped.profiles import Profile
from dsv4_pd.settings.schema import SECRETS, Settings

# Where an installation lies says nothing about what it does.
_PLACES = frozenset(
    {"run_dir", "state_dir", "cache_dir", "engine_python", "router_python", "host", "log_format", "request_log"}
    | {"api_keys_file", "tls_cert", "tls_key"}
    | {"role", "address", "net_devices", "prefills", "decodes"}
)


def about(
    settings: Settings, profile: Profile, facts: HostFacts, placement: Placement, around: Surroundings
) -> dict[str, Any]:
    """Plain values for /status, receipts and benchmark files."""
    return {
        "image": around.environ.get("DSV4_IMAGE") or None,  # as compose.yaml named it
        "container": facts.software.container,
        "run_dir": str(around.paths.run),
        "state_dir": str(around.paths.state),
        "versions": {"dsv4-pd": __version__, **around.versions},
        "weights": {
            "name": settings.model,
            "revision": settings.model_revision,
            "commit": commit_of(around.source),
        },
        "settings_hash": settings_hash(settings),
        "machine": machine(facts),
        "expected_kv_tokens": expected_kv_tokens(settings, profile, placement, around.shape),
        "layout": str(placement.layout),
        "sizes": sizes(settings, profile),
        "placement": {
            role.name: {
                "gpus": [gpu.uuid for gpu in role.gpus],
                "tensor_parallel": role.tensor_parallel,
                "numa_nodes": list(role.numa_nodes) or ([] if role.numa_node is None else [role.numa_node]),
                "cpus": sorted(role.cpus),
            }
            for role in placement.roles
        },
    }


def machine(facts: HostFacts) -> dict[str, Any]:
    """What decides how fast this host can be; benchmark comparisons refuse hosts that differ in it."""
    return {
        "cpu": facts.cpu_model,
        "cpus": len(facts.allowed_cpus),
        "memory_gb": round((facts.memory_bytes or 0) / 1e9),
        "numa_nodes": len(facts.numa_nodes),
        "kernel": facts.software.kernel,
        "driver": facts.driver_version,
        "gpus": [{"name": gpu.name, "memory_gb": round(gpu.memory_bytes / 1e9)} for gpu in facts.gpus],
        "topology": [{"numa_node": gpu.numa_node, "bridges": list(gpu.bridges)} for gpu in facts.gpus],
    }


def sizes(settings: Settings, profile: Profile) -> dict[str, int]:
    """What decides which classes of requests there are: see plan/guard/warm_up.py."""
    flags = profile.engine.get("common", {})
    return {
        "chunk": int(flags.get("chunked-prefill-size", settings.chunked_prefill_size)),
        "context": int(flags.get("context-length", settings.context_length)),
        "running": int(flags.get("max-running-requests", settings.max_running_requests)),
    }


def expected_kv_tokens(
    settings: Settings, profile: Profile, placement: Placement, shape: Shape | None
) -> dict[str, int]:
    """Member -> tokens of KV that it should hold: what the profile pins, else the memory model's figure."""
    pinned = pinned_tokens(settings, profile, placement, by_person=False)  # what a person took away is told
    if placement.device != "cuda":
        return pinned
    modelled = memory_plan.estimates(settings, placement, shape, pinned) if shape else ()
    held = {role.name: card.tokens for role, card in zip(placement.roles, modelled, strict=bool(modelled))}
    return pinned | held


def settings_hash(settings: Settings) -> str:
    """Of everything that changes what is served; places and secrets are left out."""
    values = settings.model_dump(mode="json", exclude={*_PLACES, *SECRETS})
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]
