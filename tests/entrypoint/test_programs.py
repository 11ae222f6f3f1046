from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.programs import guard_build
from dsv4_pd.plan.programs.program import Program
from dsv4_pd.run import files
from dsv4_pd.run.console.banner import banner
from dsv4_pd.run.console.base import TextConsole
from support.plans import eight_cards, make, no_gpu


def by_name(programs: tuple[Program, ...]) -> dict[str, Program]:
    return {program.name: program for program in programs}


def config(program: Program) -> dict[str, object]:
    data = yaml.safe_load(program.files[0].text)
    assert isinstance(data, dict)
    return data


def test_eight_cards_make_two_groups_of_four() -> None:
    plan = make({}, eight_cards(), policy="membind")
    programs = by_name(plan.programs)
    assert list(programs) == ["prefill", "decode", "router", "front", "guard"]
    prefill, decode = config(programs["prefill"]), config(programs["decode"])
    assert (prefill["tp-size"], prefill["base-gpu-id"], decode["base-gpu-id"]) == (4, 0, 4)
    assert prefill["numa-node"] == decode["numa-node"] == [0, 0, 0, 0, 1, 1, 1, 1]  # indexed by GPU id
    assert programs["decode"].argv[:3] == ("numactl", "--cpunodebind=1", "--membind=1")
    assert (prefill["mem-fraction-static"], decode["mem-fraction-static"]) == (0.80, 0.85)
    assert decode["cuda-graph-max-bs-decode"] == 64 and "cuda-graph-max-bs-decode" not in prefill
    visible = dict(programs["prefill"].env)["CUDA_VISIBLE_DEVICES"]
    assert visible == dict(programs["decode"].env)["CUDA_VISIBLE_DEVICES"]
    assert visible.split(",") == [gpu.uuid for gpu in eight_cards().gpus]


def test_what_both_roles_must_agree_on_is_equal() -> None:
    programs = by_name(make({"DSV4_CONTEXT_LENGTH": "9217"}, eight_cards()).programs)
    own = {"port", "nccl-port", "disaggregation-mode", "base-gpu-id", "mem-fraction-static",
           "cuda-graph-max-bs-decode", "swa-full-tokens-ratio"}  # fmt: skip
    prefill, decode = config(programs["prefill"]), config(programs["decode"])
    assert {k: v for k, v in prefill.items() if k not in own} == {k: v for k, v in decode.items() if k not in own}


@pytest.mark.parametrize("key", ["plain", "-starts-with-dash", "a$b'\"% {}", "true", "123", "a: b # c"])
def test_the_key_stands_only_in_0600_files(key: str) -> None:
    plan = make({"DSV4_API_KEY": key}, eight_cards())
    for program in plan.programs:
        assert not any(key in part for part in program.argv if len(key) > 4)
        assert key not in dict(program.env).values()
    holders = {file.path.name for file in plan.files if key in file.text and len(key) > 4}
    assert holders <= {"prefill.key", "decode.key", "router.key", "front.key", "guard.json"}
    assert all(file.mode == 0o600 for file in plan.files)
    keys = {file.path.name: file.text for program in plan.programs for file in program.files}
    assert [keys[f"{name}.key"] for name in ("prefill", "decode", "router", "front")] == [key] * 4


def test_the_key_to_the_router_is_drawn_for_each_run_and_stands_in_one_file(tmp_path: Path) -> None:
    """No plan knows it: `plan`, the support bundle and the fingerprint of failed starts have nothing to hide."""
    plan, again = (make({}, eight_cards(), run=tmp_path) for _ in range(2))
    assert text(plan, "guard.json") == text(again, "guard.json"), "the fingerprint stays: failed starts are counted"
    assert [file.path.name for file in plan.files if file.drawn] == ["router.control.key", "front.guard.key"]
    drawn = set()
    for one in (plan, again):
        files.write(one.files)
        key = (tmp_path / "router.control.key").read_text()
        drawn.add(key)
        assert len(key) >= 32 and (tmp_path / "router.control.key").stat().st_mode & 0o777 == 0o600
        others = [path for path in tmp_path.iterdir() if path.name != "router.control.key"]
        assert len(others) >= 4 and not any(key in path.read_text() for path in others)
    assert len(drawn) == 2
    router = by_name(plan.programs)["router"].argv
    assert router[router.index("--control-key-file") + 1] == str(tmp_path / "router.control.key")
    assert router.index("--control-key-file") < router.index("--")


def text(plan: Plan, name: str) -> str:
    return next(file.text for file in plan.files if file.path.name == name)


@pytest.mark.parametrize(
    "flag", ["--control-plane-api-keys x:y:admin:z", "--max-payload-size=9", "--control-plane-api a"]
)
def test_an_extra_argument_opens_no_second_door(flag: str) -> None:
    with pytest.raises(SettingsError, match="does not own"):
        make({"DSV4_ROUTER_EXTRA_ARGS": flag}, eight_cards())


@pytest.mark.parametrize("environ", [{}, {"DSV4_HOST": "192.0.2.1"}, {"DSV4_HOST": "::"}])
def test_the_banner_tells_the_usable_context(environ: dict[str, str]) -> None:
    """The setting, or less where a server's KV pool is smaller than one longest request."""
    plan = make({**environ, "DSV4_CONTEXT_LENGTH": "65536"}, eight_cards())
    for health, told in (({}, 65536), ({"context_length": 65536}, 65536), ({"context_length": 60000}, 60000)):
        assert f" context  {told} tokens" in banner(plan, health)
    assert json.loads(text(plan, "front.json"))["context_length"] == 65536


@pytest.mark.parametrize("environ", [{}, {"DSV4_HOST": "192.0.2.1"}, {"DSV4_HOST": "::"}])
def test_an_open_api_is_said(environ: dict[str, str]) -> None:
    plan = make(environ, eight_cards())
    (notice,) = json.loads(text(plan, "guard.json"))["notices"]
    assert "DSV4_API_KEY" in notice and plan.settings.host in notice and "127.0.0.1" in notice
    assert notice in banner(plan, {})


@pytest.mark.parametrize("environ", [{"DSV4_API_KEY": "k"}, {"DSV4_HOST": "127.0.0.1"}, {"DSV4_HOST": "localhost"}])
def test_nothing_is_said_where_a_key_or_loopback_keeps_others_out(environ: dict[str, str]) -> None:
    plan = make(environ, eight_cards())
    assert json.loads(text(plan, "guard.json"))["notices"] == []
    assert "WARNING" not in banner(plan, {})


def test_the_console_says_it_first(capsys: pytest.CaptureFixture[str]) -> None:
    with TextConsole(make({}, eight_cards())):
        pass
    assert "asks for no key (DSV4_API_KEY is unset)" in capsys.readouterr().out


def test_the_console_says_that_a_setting_has_another_name(capsys: pytest.CaptureFixture[str]) -> None:
    for environ in ({"DSV4_MODE": "single"}, {"DSV4_LAYOUT": "single"}):
        with TextConsole(make(environ, eight_cards())):
            pass
        assert ("DSV4_MODE is deprecated" in capsys.readouterr().out) is ("DSV4_MODE" in environ)


def test_ranks_and_their_libraries_meet_on_loopback() -> None:
    env = dict(by_name(make({}, eight_cards()).programs)["decode"].env)
    assert [env[name] for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "UCX_NET_DEVICES")] == ["lo"] * 3


def test_operator_variables_win_over_our_defaults_but_not_over_the_plan() -> None:
    plan = make({"UCX_TLS": "rc,cuda", "CUDA_VISIBLE_DEVICES": "3", "NO_PROXY": "corp"}, eight_cards())
    env = dict(by_name(plan.programs)["prefill"].env)
    assert "UCX_TLS" not in env  # inherited as the operator set it
    assert len(env["CUDA_VISIBLE_DEVICES"].split(",")) == 8
    assert env["NO_PROXY"] == "corp,127.0.0.1,localhost"


def test_single_mode_is_one_server_over_all_cards() -> None:
    programs = by_name(make({"DSV4_MODE": "single"}, eight_cards()).programs)
    assert list(programs) == ["single", "router", "front", "guard"]
    flags = config(programs["single"])
    assert flags["tp-size"] == 8 and "disaggregation-mode" not in flags
    router = programs["router"].argv
    assert "--pd-disaggregation" not in router and "--worker-urls" in router


def test_router_knows_the_bootstrap_port_and_has_no_breaker() -> None:
    argv = by_name(make({"DSV4_BOOTSTRAP_PORT": "9111"}, eight_cards()).programs)["router"].argv
    at = argv.index("--prefill")
    assert argv[at + 1 : at + 3] == ("http://127.0.0.1:30000", "9111")
    assert {"--disable-circuit-breaker", "--disable-retries"} <= set(argv)
    assert argv[argv.index("--health-check-endpoint") + 1] == "/ready"


@pytest.mark.parametrize("engine", ["/bin/false", "python3", "/opt/venvs/engine/bin/python"])
def test_any_engine_interpreter_can_be_named(engine: str) -> None:
    router = by_name(make({"DSV4_ENGINE_PYTHON": engine}, eight_cards()).programs)["router"].argv[0]
    assert router.endswith("/smg/bin/python")


def test_extra_arguments_reach_their_program_as_words() -> None:
    text = "--log-requests --crash-dump-folder '/a b/c%d'"
    programs = by_name(make({"DSV4_DECODE_EXTRA_ARGS": text}, eight_cards()).programs)
    assert programs["decode"].argv[-3:] == ("--log-requests", "--crash-dump-folder", "/a b/c%d")
    assert "--log-requests" not in programs["prefill"].argv


def test_demo_needs_no_gpu_and_serves_our_model() -> None:
    programs = by_name(make({"DSV4_PROFILE": "demo-cpu"}, no_gpu()).programs)
    flags = config(programs["prefill"])
    assert flags["device"] == "cpu" and str(flags["model-path"]).endswith("demo/model")
    assert "tp-size" not in flags and "mem-fraction-static" not in flags
    assert dict(programs["prefill"].env)["CUDA_VISIBLE_DEVICES"] == ""  # even where a GPU is visible


def test_every_port_has_a_setting_and_internal_ones_stay_on_loopback() -> None:
    plan = make({}, eight_cards())
    ports = [port for program in plan.programs for port in program.ports]
    assert len({port.number for port in ports}) == len(ports) == 10
    assert {port.setting for port in ports if port.host != "127.0.0.1"} == {"DSV4_PORT"}


def test_the_ops_port_listens_and_is_checked_where_its_setting_says() -> None:
    plan = make({"DSV4_HOST": "10.0.0.4", "DSV4_OPS_HOST": "10.0.0.5", "DSV4_OPS_PORT": "9001"}, eight_cards())
    ops = next(port for port in by_name(plan.programs)["guard"].ports if port.setting == "DSV4_OPS_PORT")
    assert (ops.host, ops.number) == ("10.0.0.5", 9001)
    guard = guard_build.build(plan.settings, plan.profile, plan.placement, plan.programs, plan.paths)
    assert (guard.ops_host, guard.ops_port) == ("10.0.0.5", 9001)
    assert (guard.front_url, guard.router_url) == ("http://10.0.0.4:8000", "http://127.0.0.1:29001")


def test_run_folder_moves_every_file(tmp_path: Path) -> None:
    plan = make({}, eight_cards(), run=tmp_path)
    assert all(file.path.is_relative_to(tmp_path) for file in plan.files)
