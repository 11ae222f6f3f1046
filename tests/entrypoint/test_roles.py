"""DSV4_ROLE: what a container of an appliance on several hosts is told, and what is refused (docs/adr/0304)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from dsv4_pd.errors import HardwareError, SettingsError
from dsv4_pd.plan.guard import config as guard_config
from dsv4_pd.plan.plan import Plan
from dsv4_pd.settings.load import load
from support.plans import eight_cards, make, no_gpu

KEY = {"DSV4_MEMBER_KEY": "k" * 32}
PREFILL = {"DSV4_ROLE": "prefill", "DSV4_ADDRESS": "192.0.2.1", "DSV4_NET_DEVICES": "eth9", **KEY}
DECODE = {"DSV4_ROLE": "decode", "DSV4_ADDRESS": "192.0.2.2", "DSV4_NET_DEVICES": "mlx5_0:1", **KEY}
ROUTER = {"DSV4_ROLE": "router", "DSV4_PREFILLS": "a:30000:8998,b:30000:8998", "DSV4_DECODES": "192.0.2.2:30001", **KEY}


def guard(plan: Plan) -> guard_config.GuardConfig:
    return guard_config.from_json(next(file.text for file in plan.files if file.path == plan.paths.guard_config))


def flags(plan: Plan, name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(next(file.text for file in plan.files if file.path.name == f"{name}.yaml"))
    return found


def test_a_member_is_its_server_and_the_guard_on_its_own_address() -> None:
    plan = make(PREFILL, eight_cards(4))
    assert [program.name for program in plan.programs] == ["prefill", "guard"]
    assert [(role.name, role.tensor_parallel) for role in plan.placement.roles] == [("prefill", 4)]
    server = plan.programs[0]
    assert {(port.setting, port.host) for port in server.ports} == {
        ("DSV4_PREFILL_PORT", "192.0.2.1"), ("DSV4_BOOTSTRAP_PORT", "192.0.2.1"),
        ("DSV4_PREFILL_NCCL_PORT", "127.0.0.1"),
    }  # fmt: skip
    env = dict(server.env)
    assert (env["SGLANG_HOST_IP"], env["UCX_NET_DEVICES"], env["NO_PROXY"]) == ("192.0.2.1", "eth9", "*")
    assert env["GLOO_SOCKET_IFNAME"] == env["NCCL_SOCKET_IFNAME"] == "lo", "the ranks are all here"
    told = guard(plan)
    assert (told.router_url, told.front_url, told.ops_host, told.warm_up) == ("", "", "192.0.2.1", "off")
    assert told.routes == ((told.servers[0],),) and "TCP on eth9" in told.notices[0]
    assert any(file.text == "k" * 32 for file in server.files), "the engine asks for the members' key"


def test_a_member_is_told_what_its_server_on_one_host_is_told() -> None:
    whole, part = make({}, eight_cards()), make(DECODE, eight_cards(4))
    assert flags(part, "decode") == {**flags(whole, "decode"), "host": "192.0.2.2", "base-gpu-id": 0}
    assert dict(part.programs[0].env)["UCX_TLS"] == "rc,cuda,sm,tcp,self", "RDMA is used where it is named"
    assert not guard(part).notices


def test_a_router_has_no_server_and_needs_no_card() -> None:
    plan = make({**ROUTER, "DSV4_API_KEY": "clients"}, no_gpu())
    assert [program.name for program in plan.programs] == ["router", "front", "guard"]
    argv = plan.programs[0].argv
    assert "--pd-disaggregation" in argv and not {"--prefill", "--decode", "--worker-urls"} & set(argv)
    told = guard(plan)
    assert [(one.name, one.url, one.ops_url, one.bootstrap_port) for one in told.servers] == [
        ("prefill-1", "http://a:30000", "http://a:8001", 8998),
        ("prefill-2", "http://b:30000", "http://b:8001", 8998),
        ("decode", "http://192.0.2.2:30001", "http://192.0.2.2:8001", None),
    ]
    assert len(told.routes) == 2 and told.servers[0].host == "a" and told.api_key == "k" * 32
    keys = {
        file.path.name: file.text for program in plan.programs for file in program.files if file.path.suffix == ".key"
    }
    assert (keys["router.key"], keys["front.key"]) == ("k" * 32, "clients"), "clients' key stays at the front"


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({**PREFILL, "DSV4_MEMBER_KEY": ""}, "DSV4_MEMBER_KEY_FILE: found unset, with a member at 192.0.2.1"),
        ({**ROUTER, "DSV4_MEMBER_KEY": ""}, "DSV4_MEMBER_KEY_FILE: found unset, with a member at a"),
        ({"DSV4_ROLE": "decode", **KEY}, "DSV4_ADDRESS: found unset, expected the address"),
        ({"DSV4_ROLE": "decode", "DSV4_NET_DEVICES": "none9", **KEY}, "none9 has no IPv4 address"),
        ({**ROUTER, "DSV4_DECODES": ""}, "DSV4_DECODES: found unset, with DSV4_ROLE=router"),
        ({**ROUTER, "DSV4_DECODES": "a:1,a:1"}, "a:1 is listed twice"),
        ({**ROUTER, "DSV4_PREFILLS": "a:1"}, "'a:1' is none"),
        ({**DECODE, "DSV4_LAYOUT": "replicas:2x4"}, "DSV4_LAYOUT: found replicas:2x4, with DSV4_ROLE=decode"),
        ({**DECODE, "DSV4_ADDRESS": "0.0.0.0"}, "an IPv4 address of this machine"),
        ({"DSV4_DECODES": "a:1"}, "DSV4_DECODES: found 'a:1', and DSV4_ROLE is all"),
    ],
)  # fmt: skip
def test_what_is_missing_or_means_nothing_is_refused(environ: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(environ)
    assert words in str(refused.value)


def test_a_key_is_asked_for_beyond_loopback_alone(tmp_path: Path) -> None:
    assert load({"DSV4_ROLE": "prefill", "DSV4_NET_DEVICES": "lo"}).address == "127.0.0.1"
    file = tmp_path / "key"
    file.write_text("m" * 32)
    found = load({**{k: v for k, v in PREFILL.items() if k not in KEY}, "DSV4_MEMBER_KEY_FILE": str(file)})
    assert found.inner_key and found.inner_key.get_secret_value() == "m" * 32 and "m" * 32 in found.secrets


def test_too_few_cards_for_one_server_are_hardware() -> None:
    with pytest.raises(HardwareError):
        make(PREFILL, eight_cards(1))
    assert [role.tensor_parallel for role in make(PREFILL, eight_cards(2)).placement.roles] == [2]
