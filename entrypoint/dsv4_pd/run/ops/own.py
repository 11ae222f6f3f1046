"""The appliance's own metrics: prefix `dsv4_`, base units. Pure: from the published document and the engines' text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from dsv4_pd.run.ops.exposition import Family, Sample, gauge, samples
from dsv4_pd.run.states import StateName

_MEBI, _GIBI = 2.0**20, 2.0**30
Document = Mapping[str, Any]


def families(document: Document, texts: Mapping[str, str | None], compiles: Mapping[str, int]) -> Iterator[Family]:
    """Everything of ours. `texts`: member -> what it exposed, None without an answer; `compiles`: kind -> count."""
    yield from _state(document)
    yield from _download(document.get("download") or {})
    yield from _roles(document)
    yield from _canary(document.get("canary", {}))
    yield from _paths(document.get("paths") or ())
    yield gauge(
        "dsv4_scrape_up",
        "1 while the program behind this address answered with its own metrics.",
        ((labels(document, name), float(text is not None)) for name, text in texts.items()),
    )
    yield from _link(texts)
    yield gauge(
        "dsv4_compiles",
        "Kernels compiled since the servers became ready; a warm image compiles none.",
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


def _link(texts: Mapping[str, str | None]) -> Iterator[Family]:
    """What crossed the KV link, by the engines' own histograms (MiB and GiB/s there)."""
    seen = [sample for text in texts.values() if text for sample in samples(text) if "kv_transfer" in sample.name]
    if not seen:
        return
    count = total(seen, "sglang:kv_transfer_total_mb_count")
    moved = total(seen, "sglang:kv_transfer_total_mb_sum") * _MEBI
    yield gauge(
        "dsv4_kv_link_transfers_total", "KV caches transferred from prefill to decode.", [({}, count)], "counter"
    )
    yield gauge("dsv4_kv_link_bytes_total", "Bytes of KV cache transferred.", [({}, moved)], "counter")
    speeds = total(seen, "sglang:kv_transfer_speed_gb_s_count")
    if speeds:
        mean = total(seen, "sglang:kv_transfer_speed_gb_s_sum") / speeds * _GIBI
        yield gauge("dsv4_kv_link_bytes_per_second", "Mean speed of a KV transfer since the start.", [({}, mean)])


def total(seen: Iterable[Sample], name: str) -> float:
    """The sum of a metric over all labels."""
    return sum(sample.value for sample in seen if sample.name == name)
