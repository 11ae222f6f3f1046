"""The servers of part `variants`, and what is read of their logs and metrics. Standard library alone.

NVFP4 experts take CUTLASS on sm_120, as the plan has it; another card has no such kernel, and Marlin, which reads the
same weights, stands in. The engine's own answer to each of the others is recorded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpu.servers import WORK, Server

FOLDERS = {name: WORK / f"model-{name}" for name in ("nvfp4", "dspark", "eagle", "nvfp4-dspark")}
# Tokens are not forced here, and both of these would keep drafts from what they do in service.
PLAIN: dict[str, str | None] = {"disable-overlap-schedule": None, "enable-custom-logit-processor": None}
DRAFTS: dict[str, dict[str, str | None]] = {
    "dspark": {"speculative-algorithm": "DSPARK"},
    "eagle": {
        "speculative-algorithm": "EAGLE",
        "speculative-num-steps": "3",
        "speculative-eagle-topk": "1",
        "speculative-num-draft-tokens": "4",
    },
}
CUTLASS: dict[str, str | None] = {"moe-runner-backend": "flashinfer_cutlass"}
MARLIN = "Current platform does not support NVFP4 quantization with the selected MoE backend."


@dataclass(frozen=True, slots=True)
class Variant:
    """`needs`: the least compute capability on which it starts; None: no card that the product is for.

    `says`: what the engine ends with elsewhere; blank: whatever it says is recorded.
    """

    server: Server
    needs: float | None = 0.0
    says: str = ""

    def starts(self, capability: float) -> bool:
        """Whether this card serves it. SM100 alone has the kernel of a draft beside NVFP4.

        >>> NVFP4_CUTLASS.starts(12.0), NVFP4_CUTLASS.starts(9.0), NVFP4_DSPARK.starts(12.0), DSPARK.starts(9.0)
        (True, False, False, True)
        """
        return self.needs is not None and capability >= self.needs


def variant(name: str, port: int, flags: dict[str, str | None], needs: float | None = 0.0, says: str = "") -> Variant:
    folder = FOLDERS[name.removesuffix("-cutlass")]
    return Variant(Server(name, port, "ours", flags={**PLAIN, **flags}, model=folder), needs, says)


PLAIN_MODEL = Server("plain", 35500, "ours", flags=PLAIN)  # what the others are compared with
NVFP4 = variant("nvfp4", 35000, {})
NVFP4_CUTLASS = variant("nvfp4-cutlass", 35100, CUTLASS, 10.0, MARLIN)
DSPARK = variant("dspark", 35200, DRAFTS["dspark"])
EAGLE = variant("eagle", 35300, DRAFTS["eagle"])
NVFP4_DSPARK = variant("nvfp4-dspark", 35400, DRAFTS["dspark"], None)
VARIANTS: Sequence[Variant] = (NVFP4, NVFP4_CUTLASS, DSPARK, EAGLE, NVFP4_DSPARK)
# variant -> settings of the appliance
PAIRED: dict[str, dict[str, str]] = {
    "nvfp4": {},
    "dspark": {"DSV4_SPECULATIVE": "dspark"},
    "eagle": {"DSV4_SPECULATIVE": "eagle"},
}
_RAISED = re.compile(r"^(?:\[[^\]]*\] )?((?:\w+\.)*\w*(?:Error|Exception)\b: ?.*)")


def raised(log: str) -> list[str]:
    """The exceptions that a log ends with, each once, in their order. The gate keeps a traceback on one line.

    >>> raised("[2026-11-30 08:00:00 TP0] x\\nTraceback:\\n  File\\nValueError: no\\nValueError: no\\nRuntimeError: a")
    ['ValueError: no', 'RuntimeError: a']
    >>> raised(r"[2026-12-01 01:05:07] Scheduler hit an exception: Traceback:\\n  File\\nAssertionError: sinks")
    ['AssertionError: sinks']
    """
    found = (_RAISED.match(line) for line in log.replace("\\n", "\n").splitlines())
    return list(dict.fromkeys(match[1][:500] for match in found if match))


def accepted(metrics: str) -> float | None:
    """Tokens that a step of speculative decoding adds, as the engine counts them; None where it counts none.

    >>> accepted('sglang:spec_accept_length{m="x"} 1.25'), accepted("sglang:num_running_reqs 1")
    (1.25, None)
    """
    rows = re.findall(r"^sglang:spec_accept_length(?:\{[^}]*\})? (\S+)", metrics, re.MULTILINE)
    return max(map(float, rows), default=None)
