"""The appliance's own metrics: prefix `dsv4_`, base units. Pure: from the published document and the engines' text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

from dsv4_pd.run.ops.exposition import Family, Sample, gauge, samples
from dsv4_pd.run.ops.kv_link import link_of
from dsv4_pd.run.states import StateName

Document = Mapping[str, Any]


def families(document: Document, texts: Mapping[str, str | None], compiles: Mapping[str, int]) -> Iterator[Family]:
    """Everything of ours. `texts`: member -> what it exposed, None without an answer; `compiles`: kind -> count."""
    yield from _state(document)
    yield from _download(document.get("download") or {})
    yield from _roles(document)
    yield from _cards(document)
    yield from _canary(document.get("canary", {}))
    yield from _paths(document.get("paths") or ())
    yield gauge(
        "dsv4_scrape_up",
        "1 while the program behind this address answered with its own metrics.",
        ((labels(document, name), float(text is not None)) for name, text in texts.items()),
    )
    yield from _link(texts)
    yield from _warm_up(document)
    yield from _compiles(document)
    yield gauge(
        "dsv4_compiles",
        "Kernels compiled since the servers were warmed up; a warm image compiles none.",
        (({"kind": kind}, count) for kind, count in compiles.items()),
    )


def labels(document: Document, name: str) -> dict[str, str]:
    """What a series of one program carries: its role, and the name that is its own among several of that role."""
    found = (document.get("roles") or {}).get(name) or {}
    return {"role": str(found.get("role") or name), "member": name}


def _state(document: Document) -> Iterator[Family]:
    known = {name: str(document.get(name, "")) for name in ("version", "mode", "profile", "model")}
    yield gauge("dsv4_build_info", "Version, mode, profile and model of the appliance.", [(known, 1)])
    state = document.get("state")
    yield gauge(
        "dsv4_state",
        "1 for the state that the appliance is in.",
        (({"state": name}, float(name == state)) for name in StateName),
    )
    age = document.get("heartbeat", 0.0) - document.get("since", document.get("heartbeat", 0.0))
    yield gauge("dsv4_state_duration_seconds", "Time in the present state.", [({}, max(0.0, age))])
    yield gauge("dsv4_ready", "1 while requests are served.", [({}, float(bool(document.get("serving"))))])
    budget = document.get("restarts") or {}
    if "limit" in budget:
        yield gauge(
            "dsv4_restart_budget_used", "Restarts inside the window of the budget.", [({}, budget.get("spent", 0))]
        )
        yield gauge("dsv4_restart_budget", "Restarts that the window allows.", [({}, budget["limit"])])


def _download(download: Mapping[str, Any]) -> Iterator[Family]:
    """The model on its way; nothing once the servers are started."""
    known = {
        "total_bytes": "Bytes of the model's files.",
        "done_bytes": "Bytes of the model that are on the disk.",
        "checked_bytes": "Bytes of the model that were compared with their hashes.",
        "bytes_per_s": "Rate of the download, or of the check, over the last seconds.",
        "eta_s": "Seconds until it is through at this rate.",
    }
    names = {"bytes_per_s": "bytes_per_second", "eta_s": "remaining_seconds"}
    for key, text in known.items():
        if download.get(key) is not None:
            yield gauge(f"dsv4_download_{names.get(key, key)}", text, [({}, float(download[key]))])


def _roles(document: Document) -> Iterator[Family]:
    roles: Mapping[str, Mapping[str, Any]] = document.get("roles", {})
    yield gauge("dsv4_role_ready", "1 while the program is ready.", _each(document, "ready"))
    yield gauge("dsv4_role_restarts_total", "Unexpected exits of the program.",
                _each(document, "restarts"), "counter")  # fmt: skip
    yield gauge("dsv4_role_kv_capacity_tokens", "Tokens that the KV pool holds.", _each(document, "kv_capacity_tokens"))
    yield gauge(
        "dsv4_role_load_seconds",
        "Seconds that each phase of the last start took.",
        (
            (labels(document, name) | {"phase": phase}, took)
            for name, role in roles.items()
            for phase, took in phases(role).items()
        ),
    )
    cards = [(name, card) for name, role in roles.items() for card in role.get("gpu_memory") or ()]
    for key, text in (("used", "GPU memory in use."), ("total", "GPU memory of the card.")):
        yield gauge(
            f"dsv4_gpu_memory_{key}_bytes",
            text,
            ((labels(document, name) | {"gpu": card["uuid"]}, card[f"{key}_bytes"]) for name, card in cards),
        )


def _cards(document: Document) -> Iterator[Family]:
    """How each card is; a figure that it does not give has no series."""
    roles: Mapping[str, Mapping[str, Any]] = document.get("roles", {})
    cards = [
        (labels(document, name) | {"gpu": str(card["uuid"])}, card)
        for name, role in roles.items()
        for card in role.get("gpu_memory") or ()
    ]
    for key, (name, text) in _FIGURES.items():
        yield gauge(f"dsv4_gpu_{name}", text, ((label, float(card[key])) for label, card in cards if key in card))
    yield gauge(
        "dsv4_gpu_pcie_bytes_per_second",
        "Traffic of the card on PCIe, over 20 ms.",
        (
            (label | {"direction": way}, float(card[f"pcie_{way}_bytes_per_s"]))
            for label, card in cards
            for way in ("tx", "rx")
            if f"pcie_{way}_bytes_per_s" in card
        ),
    )
    yield gauge(
        "dsv4_gpu_xid_errors_total",
        "Errors that the driver reported of the card since the guard began, by number.",
        (
            (label | {"xid": number}, float(count))
            for label, card in cards
            for number, count in (card.get("xids") or {}).items()
        ),
        "counter",
    )


# key of a card in the document -> metric, and what it is
_FIGURES = {
    "power_w": ("power_watts", "Power that the card draws."),
    "power_limit_w": ("power_limit_watts", "Power that the card may draw."),
    "temperature_c": ("temperature_celsius", "Temperature of the GPU."),
    "utilization": ("utilization_ratio", "Share of time in which a kernel ran."),
    "memory_utilization": ("memory_utilization_ratio", "Share of time in which memory was read or written."),
    "ecc_uncorrected": ("ecc_uncorrected_errors", "Uncorrected memory errors since the driver was loaded."),
    "rows_pending": ("rows_remap_pending", "1 while a memory row waits for a reset to be remapped."),
    "rows_failed": ("rows_remap_failed", "1 once a memory row could not be remapped."),
}


def phases(role: Mapping[str, Any]) -> dict[str, float]:
    """Phase -> seconds, from the moments (seconds since start) at which each phase was entered.

    >>> phases({"phase_times": {"weights": 2.0, "kv": 12.0, "ready": 15.0}})
    {'start': 2.0, 'weights': 10.0, 'kv': 3.0}
    """
    entered = sorted((role.get("phase_times") or {}).items(), key=lambda item: item[1])
    if not entered:
        return {}
    starts = [("start", 0.0), *entered]
    return {name: round(end - begin, 3) for (name, begin), (_, end) in pairwise(starts)}


def _each(document: Document, key: str) -> Iterator[tuple[Mapping[str, str], float]]:
    for name, role in document.get("roles", {}).items():
        if role.get(key) is not None:
            yield labels(document, name), float(role[key])


def _canary(canary: Mapping[str, Any]) -> Iterator[Family]:
    if canary.get("proved_s_ago") is not None:
        yield gauge("dsv4_canary_age_seconds", "Time since a request last went through, end to end.",
                    [({}, canary["proved_s_ago"])])  # fmt: skip
    if canary.get("seconds") is not None:
        yield gauge("dsv4_canary_latency_seconds", "How long the last test request took.", [({}, canary["seconds"])])
    yield gauge("dsv4_canary_failures", "Test requests that failed in a row.", [({}, canary.get("failures", 0))])


def _paths(paths: Iterable[Mapping[str, Any]]) -> Iterator[Family]:
    """Of several routes, what the guard sends to each of them."""
    named = [({"path": " to ".join(path["members"])}, path) for path in paths]
    yield gauge(
        "dsv4_path_canary_age_seconds",
        "Since a test request last went through this path.",
        ((label, path["proved_s_ago"]) for label, path in named if path["proved_s_ago"] is not None),
    )
    yield gauge(
        "dsv4_path_canary_failures",
        "Test requests on this path that failed in a row.",
        ((label, path["failures"]) for label, path in named),
    )


def _warm_up(document: Document) -> Iterator[Family]:
    """What each server ran before clients reached it."""
    roles: Mapping[str, Mapping[str, Any]] = document.get("roles", {})
    ran = [(labels(document, name), found["warm_up"]) for name, found in roles.items() if found.get("warm_up")]
    yield gauge(
        "dsv4_warm_up_classes",
        "Classes of requests in the warm-up of the present process, by what became of them.",
        (
            (named | {"outcome": outcome}, float(count))
            for named, told in ran
            for outcome, count in (("done", told["done"]), ("failed", len(told["failed"])), ("left", told["left"]))
        ),
    )
    yield gauge(
        "dsv4_warm_up_seconds",
        "How long that warm-up took.",
        ((named, told["seconds"]) for named, told in ran if told["seconds"] is not None),
    )


def _compiles(document: Document) -> Iterator[Family]:
    """By name, since the appliance's start."""
    compiles = document.get("compiles") or {}
    rows = [
        (labels(document, row["member"]) | {key: str(row[key]) for key in ("system", "kernel")}, row)
        for row in compiles.get("kernels", ())
    ]
    counted = (
        ("dsv4_kernel_compiles_total", "Kernels compiled since the start.", "count"),
        ("dsv4_kernel_compile_seconds_total", "Seconds that compiling them took.", "seconds"),
        ("dsv4_kernel_compiles_since_ready_total", "Of these, compiled after the server's warm-up.", "since_ready"),
    )
    for name, text, key in counted:
        yield gauge(name, text, ((labels, float(row[key])) for labels, row in rows), "counter")
    found = (
        (labels(document, row["member"]) | {"system": str(row["system"])}, row["count"])
        for row in compiles.get("from_cache", ())
    )
    yield gauge("dsv4_kernel_loads_total", "Kernels found compiled.", found, "counter")


def _link(texts: Mapping[str, str | None]) -> Iterator[Family]:
    """What crossed the KV link."""
    seen = [sample for text in texts.values() if text for sample in samples(text) if "kv_transfer" in sample.name]
    if not seen:
        return
    link = link_of(partial(total, seen))
    what = "KV caches transferred from prefill to decode."
    yield gauge("dsv4_kv_link_transfers_total", what, [({}, link.transfers)], "counter")
    yield gauge("dsv4_kv_link_bytes_total", "Bytes of KV cache transferred.", [({}, link.bytes)], "counter")
    if (mean := link.bytes_per_s) is not None:
        yield gauge("dsv4_kv_link_bytes_per_second", "Mean speed of a KV transfer since the start.", [({}, mean)])


def total(seen: Iterable[Sample], name: str) -> float:
    """The sum of a metric over all labels."""
    return sum(sample.value for sample in seen if sample.name == name)
