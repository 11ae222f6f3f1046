"""NIXL over host memory.

SGLang registers its KV cache with NIXL as VRAM, on a CPU too, and UCX refuses host memory under that name. And
NIXL's Python API asks for a progress thread without a pause, which keeps one core busy per agent.
Both are set where an agent is made; nothing of a transfer itself is changed.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dsv4_hooks.record import Record
from dsv4_hooks.targets import EngineChanged, require_attribute, require_leading, require_use

SEGMENTS = "nixl._api.nixl_agent.nixl_mems"
PAUSE = "nixl._api.nixlBind.nixlAgent"
# Idle use of a core falls from 100 % to about 0 % (two-core machine); a transfer is noticed at most this much later.
PAUSE_US = 200


def install(record: Record, api: ModuleType) -> None:
    agent = require_attribute("nixl._api", api, "nixl_agent")
    require_leading("nixl_agent.__init__", agent.__init__, ("self", "agent_name", "nixl_conf"))
    check_segment_use(agent)
    install_segments(record, agent)
    install_pause(record, require_attribute("nixl._api", api, "nixlBind"))


def check_segment_use(agent: type) -> None:
    """Every method that turns a memory kind into a segment must go through the table that is changed below."""
    for method in ("get_reg_descs", "get_xfer_descs"):
        function = require_attribute("nixl_agent", agent, method)
        require_use(f"nixl_agent.{method}", function, "nixl_mems")


def install_segments(record: Record, agent: Any) -> None:
    original = agent.__init__

    def with_host_segments(self: Any, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        missing = {"VRAM", "DRAM", "cuda"} - set(self.nixl_mems)
        if missing:
            raise EngineChanged(f"nixl_agent.nixl_mems has no {sorted(missing)!r}")
        self.nixl_mems |= dict.fromkeys(("VRAM", "cuda"), self.nixl_mems["DRAM"])
        record.active(SEGMENTS)

    agent.__init__ = with_host_segments
    record.installed(SEGMENTS)


def install_pause(record: Record, bindings: Any) -> None:
    make = require_attribute("nixlBind", bindings, "nixlAgent")
    require_attribute("nixlAgentConfig", bindings.nixlAgentConfig(), "pthrDelay")

    def with_pause(name: str, config: Any) -> Any:
        config.pthrDelay = PAUSE_US
        record.active(PAUSE)
        return make(name, config)

    bindings.nixlAgent = with_pause
    record.installed(PAUSE)
