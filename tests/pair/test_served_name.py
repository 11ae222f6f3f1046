"""A served name as an operator may write one, through both routers: shown, asked for and answered byte for byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from support.appliance import Appliance

pytestmark = pytest.mark.pair
# A slash as every name of the Hub has, and what addresses, headers and templates might take apart.
NAME = "org/DeepSeek V4 é%41 {x}"
HI = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module", params=["sglang-router", "smg"])
def appliance(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    """READY says that the guard's own request came through under this name."""
    settings = {"DSV4_ROUTER": request.param, "DSV4_SERVED_MODEL_NAME": NAME}
    with Appliance(tmp_path_factory.mktemp("name"), settings) as running:
        yield running


def call(appliance: Appliance, method: str, path: str, body: Any = None, **headers: str) -> httpx2.Response:
    with httpx2.Client(trust_env=False, timeout=60) as client:
        return client.request(method, appliance.api + path, json=body, headers=headers)


def test_it_is_the_one_name_of_the_list(appliance: Appliance) -> None:
    (one,) = call(appliance, "GET", "/v1/models").json()["data"]
    assert one["id"] == NAME
    (other,) = call(appliance, "GET", "/v1/models", **{"anthropic-version": "2023-06-01"}).json()["data"]
    assert other["id"] == other["display_name"] == NAME


@pytest.mark.parametrize("kept", ["/", ""])
def test_one_model_is_found_by_it_however_a_client_spells_its_slash(appliance: Appliance, kept: str) -> None:
    found = call(appliance, "GET", f"/v1/models/{quote(NAME, safe=kept)}")
    assert (found.status_code, found.json()["id"]) == (200, NAME)
    assert call(appliance, "GET", f"/v1/models/{quote(NAME.upper(), safe=kept)}").status_code == 404


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": HI, "max_tokens": 4}),
        ("/v1/completions", {"prompt": "Hi", "max_tokens": 4}),
        ("/v1/messages", {"messages": HI, "max_tokens": 4}),
        ("/v1/responses", {"input": "Hi", "max_output_tokens": 4}),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_a_request_by_it_and_one_without_a_name_are_answered_under_it(
    appliance: Appliance, path: str, body: dict[str, Any], named: bool
) -> None:
    own = path in ("/v1/messages", "/v1/responses")
    if own and appliance.environ["DSV4_ROUTER"] != "smg":
        pytest.skip("sglang-router lacks it (docs/api.md)")
    found = call(appliance, "POST", path, {**body, **({"model": NAME} if named else {})})
    assert (found.status_code, found.json().get("model")) == (200, NAME), found.text


def test_each_chunk_of_a_stream_names_it(appliance: Appliance) -> None:
    body = {"model": NAME, "messages": HI, "max_tokens": 4, "stream": True}
    text = call(appliance, "POST", "/v1/chat/completions", body).text
    chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    assert chunks and {chunk["model"] for chunk in chunks} == {NAME}


@pytest.mark.parametrize("other", ["dsv4-demo", "org", "DeepSeek V4 é%41 {x}", NAME + " ", NAME.replace("%41", "A")])
def test_no_other_name_is_taken_for_it(appliance: Appliance, other: str) -> None:
    found = call(appliance, "POST", "/v1/chat/completions", {"model": other, "messages": HI, "max_tokens": 1})
    assert (found.status_code, found.json()["error"]["code"]) == (404, "model_not_found")


def test_the_appliance_s_own_commands_speak_of_it(appliance: Appliance) -> None:
    with httpx2.Client(trust_env=False, timeout=30) as client:
        assert client.get(f"{appliance.ops}/status").json()["model"] == NAME
