"""The front's part of a plan, and that the front itself understands it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from dsv4_pd.front.__main__ import read
from dsv4_pd.plan.front_build import Behind, Door, argv, configuration

DOOR = Door(
    host="0.0.0.0", port=8000, metrics_port=29001, keys_file=Path("/k/keys.toml"), cors_origins=("http://a",),
    tls_cert=Path("/t/cert"), tls_key=Path("/t/key"), max_output_tokens=9, request_log="/l/requests", page=False,
)  # fmt: skip
BEHIND = Behind(
    router="sglang-router", router_port=30002, model="m", health_file=Path("/r/health.json"), key_file=Path("/r/key"),
    guard_key_file=Path("/r/control.key"), max_body=7, max_concurrent=5, queue_size=3, request_timeout=11.0,
)  # fmt: skip


def test_the_front_reads_what_the_plan_writes(tmp_path: Path) -> None:
    config = configuration(DOOR, BEHIND)
    (tmp_path / "front.json").write_text(config.to_json())
    words = argv(tmp_path / "front.json")
    assert words[1:3] == ("-m", "dsv4_pd.front")
    assert read(list(words[3:])) == config


def test_every_setting_reaches_the_front() -> None:
    """Each field of both halves changes the configuration: none is dropped on the way."""
    plain = configuration(DOOR, BEHIND)
    others = {"page": True, "router": "smg", "cors_origins": (), "host": "::", "model": "n", "request_log": None}
    parts: list[tuple[Any, str]] = [(part, field.name) for part in (DOOR, BEHIND) for field in dataclasses.fields(part)]
    for part, name in parts:
        value = getattr(part, name)
        other = others[name] if name in others else Path("/other") if isinstance(value, Path) else value + 1
        changed = dataclasses.replace(part, **{name: other})
        found = configuration(changed, BEHIND) if part is DOOR else configuration(DOOR, changed)
        assert found != plain, name


def test_without_a_key_nothing_asks_for_one() -> None:
    found = configuration(dataclasses.replace(DOOR, keys_file=None), dataclasses.replace(BEHIND, key_file=None))
    assert (found.key_file, found.keys_file, found.upstream_key_file) == (None, None, None)
    assert found.guard_key_file == "/r/control.key"
