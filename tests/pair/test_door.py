"""The appliance as an operator sets its door up: HTTPS, two named keys, pages of one origin, a request log."""

from __future__ import annotations

import hashlib
import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from front.test_tls import certificate, served
from support.appliance import Appliance

pytestmark = pytest.mark.pair
MAIN, ALICE, BOB = "the-appliances-own-key", "alices-key-0001", "bobs-key-0002"
PAGE = "https://chat.example.org"
CHAT = {"model": "dsv4-demo", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "temperature": 0}
KEYS = f"""
[alice]
key = "{ALICE}"

[bob]
sha256 = "{hashlib.sha256(BOB.encode()).hexdigest()}"
requests_per_minute = 2
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("door")


@pytest.fixture(scope="module", params=["sglang-router", "smg"])
def appliance(request: pytest.FixtureRequest, folder: Path) -> Iterator[Appliance]:
    """READY says that the guard's own request came through: with its key, and over TLS."""
    root = folder / request.param
    root.mkdir()
    cert, key = certificate(root, "first")
    (root / "keys.toml").write_text(KEYS)
    settings = {
        "DSV4_ROUTER": request.param,
        "DSV4_API_KEY": MAIN,
        "DSV4_API_KEYS_FILE": str(root / "keys.toml"),
        "DSV4_TLS_CERT": cert,
        "DSV4_TLS_KEY": key,
        "DSV4_CORS_ORIGINS": PAGE,
        "DSV4_REQUEST_LOG": str(root / "requests.jsonl"),
    }
    with Appliance(root, settings) as running:
        yield running


def call(appliance: Appliance, method: str, path: str, body: Any = None, **headers: str) -> httpx2.Response:
    """Over HTTPS, by a client that trusts the operator's certificate and nothing else."""
    context = ssl.create_default_context(cafile=str(appliance.root / "cert.pem"))
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    url = f"https://127.0.0.1:{appliance.ports['DSV4_PORT']}{path}"
    with httpx2.Client(trust_env=False, timeout=60, verify=context) as client:
        return client.request(method, url, json=body, headers=named)


def chat(appliance: Appliance, **headers: str) -> httpx2.Response:
    return call(appliance, "POST", "/v1/chat/completions", CHAT, **headers)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def entries(appliance: Appliance) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (appliance.root / "requests.jsonl").read_text().splitlines()]


def test_each_key_is_let_in_and_named(appliance: Appliance) -> None:
    for name, headers in (("alice", bearer(ALICE)), ("bob", {"x_api_key": BOB}), ("main", bearer(MAIN))):
        answer = chat(appliance, x_request_id=f"who-{name}", **headers)
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-request-id"] == f"who-{name}"
    found = {entry["id"]: entry for entry in entries(appliance)}
    assert found["who-alice"]["key"] == "alice"
    assert found["who-bob"]["key"] == "bob"
    assert len({found[f"who-{name}"]["key"] for name in ("alice", "bob", "main")}) == 3
    assert all(found[f"who-{name}"]["completion_tokens"] == 4 for name in ("alice", "bob"))


def test_a_key_over_its_limit_waits_and_the_other_does_not(appliance: Appliance) -> None:
    answers = [chat(appliance, **bearer(BOB)) for _ in range(3)]
    over = [answer for answer in answers if answer.status_code == 429]
    assert over, [answer.text for answer in answers]
    assert 1 <= int(over[0].headers["retry-after"]) <= 60
    assert over[0].json()["error"]["type"] == "rate_limit_error"
    assert chat(appliance, **bearer(ALICE)).status_code == 200


def test_others_are_not_let_in(appliance: Appliance) -> None:
    assert chat(appliance).status_code == 401
    assert chat(appliance, **bearer("nobodys")).status_code == 401
    with pytest.raises(httpx2.HTTPError), httpx2.Client(trust_env=False, timeout=20) as plain:
        plain.get(f"http://127.0.0.1:{appliance.ports['DSV4_PORT']}/readyz").raise_for_status()
    with pytest.raises(httpx2.ConnectError), httpx2.Client(trust_env=False, timeout=20) as public:
        public.get(f"https://127.0.0.1:{appliance.ports['DSV4_PORT']}/readyz")


def test_pages_of_the_one_origin_may_call(appliance: Appliance) -> None:
    asked = {"origin": PAGE, "access_control_request_method": "POST",
             "access_control_request_headers": "authorization,content-type"}  # fmt: skip
    preflight = call(appliance, "OPTIONS", "/v1/chat/completions", **asked)
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == PAGE
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    answer = chat(appliance, origin=PAGE, **bearer(ALICE))
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, PAGE)
    asked["origin"] = "https://elsewhere.example"
    refused = call(appliance, "OPTIONS", "/v1/chat/completions", **asked)
    assert "access-control-allow-origin" not in refused.headers


def test_a_renewed_certificate_and_a_new_key_need_no_restart(appliance: Appliance) -> None:
    port = appliance.ports["DSV4_PORT"]
    assert served(port, str(appliance.root / "cert.pem")) == "first"
    front = _front(appliance)
    fresh = certificate(appliance.root, "second", "2")
    (appliance.root / "key.pem").write_bytes(Path(fresh[1]).read_bytes())
    (appliance.root / "cert.pem").write_bytes(Path(fresh[0]).read_bytes())
    with (appliance.root / "keys.toml").open("a") as file:
        file.write('\n[carol]\nkey = "carols-key-0003"\n')
    until(lambda: _shown(appliance) == "second", 30)
    until(lambda: chat(appliance, **bearer("carols-key-0003")).status_code == 200, 30)
    assert _front(appliance) == front
    assert appliance.state() == "READY"


def test_no_secret_and_no_content_is_written(appliance: Appliance) -> None:
    written = [appliance.root / "console.log", appliance.root / "requests.jsonl"]
    logs = appliance.root / "run/log"
    written += [path for path in logs.glob("*") if path.is_file() and path.stem not in appliance.members]
    for path in written:
        text = path.read_text(errors="replace")
        assert not [key for key in (MAIN, ALICE, BOB) if key in text], path
    assert "content" not in entries(appliance)[0]
    # The engine prints its own arguments, the key among them, into its log, which nobody else may read; shown masked.
    assert not logs.stat().st_mode & 0o077
    for name in appliance.members:
        text = (logs / f"{name}.log").read_text(errors="replace")
        assert ALICE not in text and BOB not in text, name


def _front(appliance: Appliance) -> list[int]:
    """The front's processes: another one after a restart."""
    return [pid for pid in appliance.pids() if b"dsv4_pd.run.front" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def _shown(appliance: Appliance) -> str:
    try:
        return served(appliance.ports["DSV4_PORT"], str(appliance.root / "cert2.pem"))
    except ssl.SSLError:
        return "another"


def until(true: Any, bound: float) -> None:
    begun = time.monotonic()
    while not true():
        assert time.monotonic() - begun < bound
        time.sleep(0.2)
