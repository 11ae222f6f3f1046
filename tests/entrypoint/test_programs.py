from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from dsv4_pd.plan import guard_build
from dsv4_pd.plan.programs import Program
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
    assert list(programs) == ["prefill", "decode", "router", "guard"]
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
           "cuda-graph-max-bs-decode"}  # fmt: skip
    prefill, decode = config(programs["prefill"]), config(programs["decode"])
    assert {k: v for k, v in prefill.items() if k not in own} == {k: v for k, v in decode.items() if k not in own}


@pytest.mark.parametrize("key", ["plain", "-starts-with-dash", "a$b'\"% {}", "true", "123", "a: b # c"])
def test_the_key_stands_only_in_0600_files(key: str) -> None:
    plan = make({"DSV4_API_KEY": key}, eight_cards())
    for program in plan.programs:
        assert not any(key in part for part in program.argv if len(key) > 4)
        assert key not in dict(program.env).values()
    holders = {file.path.name for file in plan.files if key in file.text and len(key) > 4}
    assert holders <= {"prefill.key", "decode.key", "router.key", "guard.json"}
    assert all(file.mode == 0o600 for file in plan.files)
    keys = [file.text for program in plan.programs for file in program.files if file.path.suffix == ".key"]
    assert keys == [key] * 3


def test_operator_variables_win_over_our_defaults_but_not_over_the_plan() -> None:
    plan = make({"UCX_TLS": "rc,cuda", "CUDA_VISIBLE_DEVICES": "3", "NO_PROXY": "corp"}, eight_cards())
    env = dict(by_name(plan.programs)["prefill"].env)
    assert "UCX_TLS" not in env  # inherited as the operator set it
    assert len(env["CUDA_VISIBLE_DEVICES"].split(",")) == 8
    assert env["NO_PROXY"] == "corp,127.0.0.1,localhost"


def test_single_mode_is_one_server_over_all_cards() -> None:
    programs = by_name(make({"DSV4_MODE": "single"}, eight_cards()).programs)
    assert list(programs) == ["single", "router", "guard"]
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
    assert router.endswith("/router/bin/python")


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
    assert len({port.number for port in ports}) == len(ports) == 8
    assert {port.setting for port in ports if port.host != "127.0.0.1"} == {"DSV4_PORT"}


def test_the_ops_port_listens_and_is_checked_where_its_setting_says() -> None:
    plan = make({"DSV4_HOST": "10.0.0.4", "DSV4_OPS_HOST": "10.0.0.5", "DSV4_OPS_PORT": "9001"}, eight_cards())
    ops = next(port for port in by_name(plan.programs)["guard"].ports if port.setting == "DSV4_OPS_PORT")
    assert (ops.host, ops.number) == ("10.0.0.5", 9001)
    guard = guard_build.build(plan.settings, plan.profile, plan.placement, plan.programs, plan.paths)
    assert (guard.ops_host, guard.ops_port, guard.router_url) == ("10.0.0.5", 9001, "http://10.0.0.4:8000")


def test_run_folder_moves_every_file(tmp_path: Path) -> None:
    plan = make({}, eight_cards(), run=tmp_path)
    assert all(file.path.is_relative_to(tmp_path) for file in plan.files)
