"""Negative control: prefill sends its first KV block in place of every block of the request.

It exists for one test, which shows that comparing tokens notices a KV cache that arrived wrong.
"""

from __future__ import annotations

from typing import Any

from dsv4_hooks.record import Record
from dsv4_hooks.targets import require_attribute, require_leading

TARGET = "nixl._api.nixl_agent.make_prepped_xfer"


def install(record: Record, agent: Any) -> None:
    original = require_attribute("nixl_agent", agent, "make_prepped_xfer")
    leading = ("self", "operation", "local_xfer_side", "local_indices", "remote_xfer_side", "remote_indices")
    require_leading("make_prepped_xfer", original, leading)

    def first_block_only(self: Any, operation: str, local: Any, indices: Any, *rest: Any, **options: Any) -> Any:
        record.active(TARGET)
        return original(self, operation, local, [0] * len(indices), *rest, **options)

    agent.make_prepped_xfer = first_block_only
    record.installed(TARGET)
