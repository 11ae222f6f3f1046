"""Each card should have its full PCIe link."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, ok, warn
from dsv4_pd.host.facts import Gpu
from dsv4_pd.plan.situation import Situation


def _short(gpu: Gpu) -> str | None:
    """What a link lacks. The generation now is no sign: an idle card runs at generation 1 to save power."""
    link = gpu.link
    if link.width and link.max_width and link.width < link.max_width:
        return f"GPU {gpu.index}: x{link.width} of x{link.max_width}"
    if link.slot_generation and link.max_generation and link.slot_generation < link.max_generation:
        return f"GPU {gpu.index}: the slot allows generation {link.slot_generation} of {link.max_generation}"
    return None


def _run(s: Situation) -> Finding:
    short = [text for gpu in s.gpus if (text := _short(gpu))]
    if short:
        return warn(
            "; ".join(short),
            "reseat the card or its riser, and set the slot to x16 and its full generation "
            "in the firmware; `nvidia-smi -q -d PCIE` shows the link",
        )
    links = {(gpu.link.max_width, gpu.link.max_generation) for gpu in s.gpus}
    read = ", ".join(f"x{width} generation {generation}" for width, generation in sorted(links, key=str))
    return ok(f"{read} on every card" if read else "no GPU")


CHECK = Check(
    name="pcie-link",
    place=10,
    symptom="one TP group is slower than the other; KV transfers far below 50 GB/s",
    why="Two all-reduces a layer and every KV transfer cross this link; the narrowest card paces its group.",
    source="local-inference-lab/rtx6kpro hardware/pcie-bandwidth.md; nvidia-smi -q of an idle card (generation 1 of 5)",
    run=_run,
)
