"""The KV link carries bytes unchanged, fast, and not over TCP. Tested by `doctor --link` and at each start."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, warn
from dsv4_pd.doctor.link.report import LinkReport
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    return ok("not tested: dsv4-pd doctor --link")


def judge(report: LinkReport | None) -> Finding:
    """A verdict on the test's result."""
    if report is None:
        return ok("not tested: one server, no link")
    if report.error or report.corrupt:
        return fail(report.text(), "fix iommu, acs and peer-access above; DSV4_LAYOUT=single serves without the link")
    if report.over_tcp:
        return warn(
            report.text(),
            "this is TCP through host memory: unset UCX_* overrides, and see peer-access; "
            "in a container --ipc=host or one container for both roles",
        )
    if report.slow:
        return warn(report.text(), "see pcie-link, peer-access, iommu and acs")
    return ok(report.text())


CHECK = Check(
    name="kv-link",
    place=None,  # `doctor --link` and each start ask it
    symptom="time to first token is long and grows with the prompt; everything else looks healthy",
    why="Every request's KV cache crosses this link; UCX does not report that it chose a slow transport.",
    source="vllm#52607; ai-dynamo/nixl#366, #1097, #1754; NVIDIA/open-gpu-kernel-modules#1257",
    run=_run,
    gpu_only=False,
)
