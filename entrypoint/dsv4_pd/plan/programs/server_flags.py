"""The flags of one SGLang server, those of 0.5.23. Pure; a test resolves them through SGLang's own resolution."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dsv4_pd.host import numa
from dsv4_pd.host.loopback import LOOPBACK
from dsv4_pd.plan.memory import offload
from dsv4_pd.plan.memory.pinned import pinned_tokens
from dsv4_pd.plan.memory.plan import window_ratio
from dsv4_pd.plan.model.checkpoint import expert_flags
from dsv4_pd.plan.model.shape import Shape
from dsv4_pd.plan.placement.members import Member, member
from dsv4_pd.plan.placement.place import Placement, RolePlacement
from dsv4_pd.plan.programs.engine_rules import server_context
from dsv4_pd.plan.programs.program import PER_RUN
from dsv4_pd.plan.shipped.profiles import Profile
from dsv4_pd.settings.schema import Settings


def server_flags(
    settings: Settings,
    profile: Profile,
    placement: Placement,
    role: RolePlacement,
    policy: numa.Policy = "none",
    shape: Shape | None = None,
    source: Path | None = None,
    config: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The flags of one SGLang server as its `--config` file spells them.

    `source` is the model's folder, here or to be fetched; None: a branch's commit decides, at the start.
    """
    flags = _common_flags(settings, source) | _role_flags(settings, member(settings, role.role, role.index))
    if placement.device == "cuda":
        flags |= _gpu_flags(settings, placement, role, policy) | expert_flags(config)
        if ratio := window_ratio(settings, role, shape, pinned_tokens(settings, profile, placement)):
            flags["swa-full-tokens-ratio"] = ratio
        flags |= offload.flags(settings, profile, role, shape)
    return flags | dict(profile.engine.get("common", {})) | dict(profile.engine.get(role.role, {}))


def _common_flags(settings: Settings, source: Path | None) -> dict[str, Any]:
    """What both roles must agree on, from one source; a mismatch kills decode at the first request.

    The model is given as its folder, which `serve` fills before the servers start: an engine that is given a name asks
    the Hub again at every start, and takes what a branch leads to by then.
    """
    flags: dict[str, Any] = {
        "model-path": str(source or PER_RUN),
        "served-model-name": settings.served_model_name or settings.model,
        "host": LOOPBACK,
        "context-length": server_context(settings),
        "chunked-prefill-size": settings.chunked_prefill_size,
        "max-running-requests": settings.max_running_requests,
        "reasoning-parser": "deepseek-v4",
        "tool-call-parser": "deepseekv4",
        "enable-metrics": True,
        "enable-cache-report": True,
        # The guard reads milestones at info; the console filters by DSV4_LOG_LEVEL.
        "log-level": "debug" if settings.log_level == "debug" else "info",
        "log-level-http": "warning",
    }
    if settings.chat_template:
        flags["chat-template"] = str(settings.chat_template)
    return flags | _speculative_flags(settings)


def _speculative_flags(settings: Settings) -> dict[str, Any]:
    """NEXTN asserts for this model in 0.5.23; EAGLE with top-k 1 is its spelling."""
    if settings.speculative == "eagle":
        return {
            "speculative-algorithm": "EAGLE",
            "speculative-num-steps": 3,
            "speculative-eagle-topk": 1,
            "speculative-num-draft-tokens": 4,
        }
    return {"speculative-algorithm": "DSPARK"} if settings.speculative == "dspark" else {}


def _role_flags(settings: Settings, one: Member) -> dict[str, Any]:
    own: dict[str, Any] = {"port": one.port, "nccl-port": one.nccl_port}
    if one.role == "single":
        return own
    return own | {
        "disaggregation-mode": one.role,
        "disaggregation-transfer-backend": "nixl",  # the engine's default is mooncake
        # Decode takes it from each request, which names the prefill that has it.
        "disaggregation-bootstrap-port": one.bootstrap_port or settings.bootstrap_port,
    }


def _gpu_flags(settings: Settings, placement: Placement, role: RolePlacement, policy: numa.Policy) -> dict[str, Any]:
    prefill = role.role == "prefill"
    flags: dict[str, Any] = {
        "tp-size": role.tensor_parallel,
        "base-gpu-id": role.base_gpu_id,
        "mem-fraction-static": settings.prefill_mem_fraction if prefill else settings.decode_mem_fraction,
    }
    if not prefill:
        flags["cuda-graph-max-bs-decode"] = settings.max_running_requests  # the default captures up to 512
    nodes = [gpu.numa_node for gpu in placement.visible]
    if policy != "none" and role.numa_nodes and None not in nodes:
        flags["numa-node"] = nodes  # indexed by GPU id: one entry for every visible GPU, not for the role's own
    return flags
