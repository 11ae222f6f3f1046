"""Who is let in, and when: keys, origins, the truth about the appliance."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from front.conftest import CHAT, HELLO, door

MESSAGES = {**HELLO, "max_tokens": 4}
KEYS = '[alice]\nkey = "a-secret"\n[bob]\nkey = "b-secret"\nrequests_per_minute = 2\n'


def health(folder: Path, state: str, reason: str = "why", **fields: Any) -> Path:
    path = folder / "health.json"
    path.write_text(json.dumps({"state": state, "reason": reason, "heartbeat_monotonic": time.monotonic(), **fields}))
    return path


async def test_keys(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text(KEYS)
    async with door(keys_file=str(tmp_path / "keys.toml")) as d:
        for headers in (
            {"Authorization": "Bearer a-secret"},
            {"authorization": "bEARER a-secret"},
            {"x-api-key": "a-secret"},
        ):
            assert (await d.post(**headers))[0] == 200, headers
        for headers in ({}, {"Authorization": "Bearer c"}, {"Authorization": "Basic a-secret"}, {"x-api-key": "é"}):
            status, body, got = await d.post(**headers)
            assert (status, body["error"]["code"], got["www-authenticate"]) == (401, "invalid_api_key", "Bearer")
        status, body, _ = await d.post("/v1/messages", MESSAGES)
        assert (status, body["error"]["type"]) == (401, "authentication_error")
        assert (await d.get("/v1/models"))[0] == 401
        assert [(await d.get(path))[0] for path in ("/health", "/readyz", "/livez")] == [200] * 3
        assert "a-secret" not in str([headers for _, headers, _ in d.router.heard])
    assert "Authorization" not in d.router.heard[0][1]


async def test_the_routers_own_key_is_the_fronts(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("inner\n")
    async with door(upstream_key_file=str(tmp_path / "key")) as d:
        await d.post(Authorization="Bearer a-clients")
        assert d.router.heard[0][1]["Authorization"] == "Bearer inner"


async def test_one_key_over_its_limit(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text(KEYS)
    async with door(keys_file=str(tmp_path / "keys.toml")) as d:
        bob, alice = {"x-api-key": "b-secret"}, {"x-api-key": "a-secret"}
        assert [(await d.post(**bob))[0] for _ in range(2)] == [200, 200]
        status, body, headers = await d.post(**bob)
        assert (status, body["error"]["type"]) == (429, "rate_limit_error")
        assert 1 <= int(headers["retry-after"]) <= 30
        assert "'bob'" in body["error"]["message"]
        assert (await d.post(**alice))[0] == 200


async def test_keys_change_while_the_front_runs(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(KEYS)
    async with door(keys_file=str(file)) as d:
        file.write_text("[broken")
        d.front.keyring.look()
        assert d.front.keyring.failed
        assert (await d.post(**{"x-api-key": "a-secret"}))[0] == 200
        file.write_text('[carol]\nkey = "c-secret"\n')
        d.front.keyring.look()
        assert [(await d.post(**{"x-api-key": key}))[0] for key in ("a-secret", "c-secret")] == [401, 200]


async def test_not_ready_is_said_in_the_dialect(tmp_path: Path) -> None:
    path = health(
        tmp_path, "LOADING", "decode: weights 42 %", roles={"decode": {"eta_s": 12.5}, "prefill": {"eta_s": None}}
    )
    async with door(health_file=str(path)) as d:
        status, body, headers = await d.post()
        assert (status, body["error"]["code"], headers["retry-after"]) == (503, "not_ready", "13")
        assert "LOADING: decode: weights 42 %" in body["error"]["message"]
        assert (await d.post("/v1/messages", MESSAGES))[1]["error"]["type"] == "overloaded_error"
        for where in ("/health", "/readyz", "/v1/health/ready"):
            status, body, _ = await d.get(where)
            assert (status, body) == (503, {"ready": False, "state": "LOADING", "reason": "decode: weights 42 %"})
        assert (await d.get("/livez"))[0] == 200
        assert (await d.get("/v1/models"))[0] == 503
        health(tmp_path, "READY")
        d.front.service.truth.look()
        assert (await d.post())[0] == 200
        assert (await d.get("/health"))[0] == 200
        health(tmp_path, "STOPPING", "told to stop")
        d.front.service.truth.look()
        assert [(await d.post())[0], (await d.get("/livez"))[0]] == [503, 503]
        path.unlink()
        d.front.service.truth.look()
        assert (await d.get("/health"))[1]["state"] == "BOOTING"


async def test_the_guard_is_let_in_before_ready(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("of-the-guard")
    path = health(tmp_path, "WARMING")
    async with door(health_file=str(path), guard_key_file=str(tmp_path / "key"), key_file=str(tmp_path / "key")) as d:
        assert (await d.post(Authorization="Bearer of-the-guard"))[0] == 200


async def test_a_silent_guard_is_not_healthy_and_takes_nothing_away(tmp_path: Path) -> None:
    path = health(tmp_path, "READY", heartbeat_monotonic=time.monotonic() - 60)
    async with door(health_file=str(path)) as d:
        assert (await d.get("/readyz"))[0] == 503
        assert "silent" in (await d.get("/livez"))[1]["reason"]
        assert (await d.post())[0] == 200


async def test_preflight_and_origins() -> None:
    asks = {"Origin": "http://app", "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,x-new"}  # fmt: skip
    async with door(cors_origins=("http://app",)) as d:
        async with d.client.options(d.url + CHAT, headers=asks) as got:
            assert got.status == 204
            assert got.headers["Access-Control-Allow-Origin"] == "http://app"
            assert got.headers["Access-Control-Allow-Headers"] == "authorization,x-new"
        async with d.client.options(d.url + CHAT, headers={**asks, "Origin": "http://other"}) as got:
            assert (got.status, got.headers.get("Access-Control-Allow-Origin")) == (405, None)
        _, _, headers = await d.post(Origin="http://app")
        assert headers["access-control-allow-origin"] == "http://app"
        assert (await d.post("/nosuch", Origin="http://app"))[2]["access-control-allow-origin"] == "http://app"
    async with door() as d:
        assert "access-control-allow-origin" not in (await d.post(Origin="http://app"))[2]
