"""`python -m dsv4_cpu_pd.selfcheck`: the engine of this environment imports, sees the plugin, and NIXL starts."""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import entry_points

GROUP = "sglang.srt.plugins"
NAME = "dsv4-cpu"


def main() -> None:
    names = [point.name for point in entry_points(group=GROUP)]
    if NAME not in names:
        sys.exit(f"no plugin {NAME!r} in the entry-point group {GROUP}, found {names!r}")
    importlib.import_module("sglang.srt.entrypoints.http_server")
    entry_points(group=GROUP)[NAME].load()()
    agent = importlib.import_module("nixl._api").nixl_agent("selfcheck")
    if agent.nixl_mems["VRAM"] != agent.nixl_mems["DRAM"] or "UCX" not in agent.backends:
        sys.exit(f"NIXL started without host memory or UCX: {agent.nixl_mems!r}, {sorted(agent.backends)!r}")


if __name__ == "__main__":
    main()
