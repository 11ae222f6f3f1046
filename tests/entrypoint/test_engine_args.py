"""Our flags, resolved by the engine's and the routers' own parsers: a flag that a version drops fails here."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import VENVS
from support.engine import resolve, write
from support.plans import eight_cards, make

HERE = Path(__file__).parent
FLASH = HERE / "data" / "deepseek-v4-flash"
CASES = [
    ("rtx-pro-6000-8x", 8, {}, {"prefill": 4, "decode": 4}),
    ("rtx-pro-6000-8x", 8, {"DSV4_MODE": "single"}, {"single": 8}),
    ("rtx-pro-6000-8x", 8, {"DSV4_SPECULATIVE": "eagle"}, {"prefill": 4, "decode": 4}),
    ("rtx-pro-6000-4x", 4, {}, {"prefill": 2, "decode": 2}),
    ("single", 4, {}, {"single": 4}),
    ("rtx-pro-6000-2x", 2, {}, {"single": 2}),
]


@pytest.mark.engine
@pytest.mark.parametrize(("profile", "cards", "environ", "roles"), CASES)
def test_every_gpu_profile_resolves(
    tmp_path: Path, profile: str, cards: int, environ: Mapping[str, str], roles: Mapping[str, int]
) -> None:
    values = {"DSV4_PROFILE": profile, "DSV4_MODEL": str(FLASH), "DSV4_CACHE_DIR": str(tmp_path / "c"), **environ}
    plan = make(values, eight_cards(cards), run=tmp_path, policy="membind")
    write(plan)
    assert {role.role for role in plan.placement.roles} == set(roles)
    for role, tensor_parallel in roles.items():
        got = resolve(plan, role)
        assert got["tp_size"] == tensor_parallel
        assert got["attention_backend"] == "dsv4" and got["page_size"] == 256
        assert got["kv_cache_dtype"] == "fp8_e4m3" and got["moe_runner_backend"] == "flashinfer_mxfp4"
        assert got["context_length"] == plan.settings.context_length + 256  # the gate holds the setting's limit
        assert got["max_running_requests"] == plan.settings.max_running_requests
        prefill, decode = plan.settings.prefill_mem_fraction, plan.settings.decode_mem_fraction
        assert got["mem_fraction_static"] == (prefill if role == "prefill" else decode)
        assert (got["reasoning_parser"], got["tool_call_parser"]) == ("deepseek-v4", "deepseekv4")
        assert got["host"] == "127.0.0.1" and got["enable_metrics"]
        if role != "single":
            assert got["disaggregation_mode"] == role and got["disaggregation_transfer_backend"] == "nixl"
            assert len(got["numa_node"]) == cards  # indexed by GPU id, not by rank


_PARSE = """
import json, sys
from {module} import {function} as parse
args = parse(sys.argv[1:])
print(json.dumps({{k: v for k, v in vars(args).items() if k != "api_key"}}, default=str))
"""


@pytest.mark.engine
@pytest.mark.parametrize(
    ("router", "module", "function"),
    [("sglang-router", "sglang_router.launch_router", "parse_router_args"),
     ("smg", "smg.launch_router", "parse_router_args")],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["pd", "single"])
def test_both_routers_accept_the_command_line(
    tmp_path: Path, router: str, module: str, function: str, mode: str
) -> None:
    plan = make({"DSV4_ROUTER": router, "DSV4_MODE": mode}, eight_cards(), tmp_path)
    program = next(program for program in plan.programs if program.name == "router")
    python = VENVS / ("smg" if router == "smg" else "router") / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{python} does not exist: run `make engine`")
    flags = program.argv[program.argv.index("--") + 1 :]
    done = subprocess.run([str(python), "-c", _PARSE.format(module=module, function=function), *flags],
                          capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    got = json.loads(done.stdout.strip().splitlines()[-1])
    assert got["port"] == plan.settings.router_port and got["disable_circuit_breaker"] and got["disable_retries"]
    assert got["pd_disaggregation"] is (mode == "pd")
    if mode == "pd":
        assert got["prefill_urls"] == [["http://127.0.0.1:30000", 8998]]
