"""The front's part of a plan, and that the front itself understands it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from dsv4_pd.plan.disk.paths import Paths
from dsv4_pd.plan.front.config import FrontConfig
from dsv4_pd.plan.programs.front_build import argv, configuration
from dsv4_pd.run.front.__main__ import read
from dsv4_pd.settings.load import load
from dsv4_pd.settings.schema import env_name
from support.plans import eight_cards, make

KEY = Path("/r/front.key")
PATHS = Paths(Path("/r"), Path("/s"), Path("/c"), Path("/t"))
SAID = {
    "DSV4_HOST": "10.0.0.4", "DSV4_PORT": "8443", "DSV4_API_KEY": "k", "DSV4_API_KEYS_FILE": "/k/keys.toml",
    "DSV4_CORS_ORIGINS": "http://a.example", "DSV4_TLS_CERT": "/t/cert", "DSV4_TLS_KEY": "/t/key",
    "DSV4_MAX_OUTPUT_TOKENS": "9", "DSV4_REQUEST_LOG": "/l/requests", "DSV4_PAGE": "off", "DSV4_QUEUE_SIZE": "3",
    "DSV4_MAX_CONCURRENT_REQUESTS": "5", "DSV4_REQUEST_TIMEOUT": "11", "DSV4_DRAIN_TIMEOUT": "7",
    "DSV4_CONTEXT_LENGTH": "100000", "DSV4_ROUTER": "sglang-router", "DSV4_ROUTER_PORT": "30005",
    "DSV4_FRONT_METRICS_PORT": "30006", "DSV4_SERVED_MODEL_NAME": "m",
}  # fmt: skip


def told(environ: dict[str, str]) -> FrontConfig:
    return configuration(load(environ), PATHS, KEY)


def test_the_front_reads_what_the_plan_writes(tmp_path: Path) -> None:
    config = told(SAID)
    (tmp_path / "front.json").write_text(config.to_json())
    words = argv(tmp_path / "front.json")
    assert words[1:3] == ("-m", "dsv4_pd.run.front")
    assert read(list(words[3:])) == config


def test_every_setting_reaches_the_front() -> None:
    """Each one changes the configuration by itself: none is dropped on the way. The halves of a pair go together."""
    whole = told(SAID)
    pairs = {"DSV4_TLS_CERT": "DSV4_TLS_KEY", "DSV4_TLS_KEY": "DSV4_TLS_CERT", "DSV4_API_KEY": "DSV4_API_KEYS_FILE"}
    for name in SAID:
        left = {key: value for key, value in SAID.items() if key not in (name, pairs.get(name))}
        assert (told(left) != whole) or name == "DSV4_API_KEY", name


def test_no_field_of_the_front_stays_at_a_default_that_a_setting_has() -> None:
    """What no setting moves is named here, so that a new one is not forgotten."""
    fixed = {"queue_timeout", "stall_timeout", "body_timeout", "keep_alive", "max_connections", "health_file",
             "guard_key_file"}  # fmt: skip
    changed = {field.name for field in dataclasses.fields(FrontConfig)
               if getattr(told(SAID), field.name) != _default(field)}  # fmt: skip
    assert changed == {field.name for field in dataclasses.fields(FrontConfig)} - fixed | {
        "health_file", "guard_key_file"}  # fmt: skip


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default


def test_the_plan_gives_the_front_the_public_port_and_the_router_loopback() -> None:
    plan = make(SAID, eight_cards())
    by_name = {program.name: program for program in plan.programs}
    listen = {name: {(port.setting, port.host, port.number) for port in by_name[name].ports} for name in by_name}
    assert ("DSV4_PORT", "10.0.0.4", 8443) in listen["front"]
    assert ("DSV4_FRONT_METRICS_PORT", "127.0.0.1", 30006) in listen["front"]
    assert {host for _, host, _ in listen["router"]} == {"127.0.0.1"}
    assert by_name["front"].ready_url == "https://10.0.0.4:8443/livez"
    assert [program.name for program in plan.programs][-3:] == ["router", "front", "guard"]


def test_keys_stand_in_files_of_their_own(tmp_path: Path) -> None:
    """The client's key is the router's too; the guard's is drawn for each run, and is neither."""
    plan = make(SAID | {"DSV4_API_KEY": "only-in-files"}, eight_cards(), tmp_path)
    front = next(program for program in plan.programs if program.name == "front")
    texts = {file.path.name: file.text for file in front.files}
    assert texts["front.key"] == "only-in-files"
    assert "only-in-files" not in texts["front.json"] + " ".join(front.argv) + str(front.env)
    assert [file.drawn for file in front.files if file.path.name == "front.guard.key"] == [True]
    assert {file.mode for file in front.files} == {0o600}


def test_without_a_key_nothing_asks_for_one() -> None:
    found = configuration(load({}), PATHS, None)
    assert (found.key_file, found.keys_file, found.upstream_key_file) == (None, None, None)
    assert found.guard_key_file == "/r/front.guard.key"


def test_names_of_the_settings_are_known() -> None:
    assert {name.lower().removeprefix("dsv4_") for name in SAID} <= set(type(load({})).model_fields)
    assert env_name("api_keys_file") in SAID
