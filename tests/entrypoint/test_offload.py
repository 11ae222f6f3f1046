"""KV kept in host memory: the flags, the host's memory, the refusals, and the engine's own word on each of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import VENVS
from dsv4_pd.doctor.base import CheckVerdict
from dsv4_pd.doctor.checks.host import host_memory
from dsv4_pd.errors import SettingsError
from dsv4_pd.host.facts import HostFacts, ResourceLimits
from dsv4_pd.host.numa import Permission
from dsv4_pd.plan.disk import paths
from dsv4_pd.plan.memory import offload
from dsv4_pd.plan.memory import plan as memory_plan
from dsv4_pd.plan.memory.model import state_bytes
from dsv4_pd.plan.model.shape import Shape
from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.programs import engine_rules, owned_flags
from dsv4_pd.plan.shipped import catalogue, profiles
from dsv4_pd.plan.situation import Situation
from dsv4_pd.plan.survey import survey_facts
from support.engine import SCRIPTS, resolve, write
from support.plans import eight_cards, make, no_gpu

FLASH = Path(__file__).parent / "data" / "deepseek-v4-flash"
HOST = {"DSV4_MODEL": str(FLASH), "DSV4_KV_OFFLOAD_GB": "400"}


def flags_of(plan: Plan, name: str) -> Mapping[str, Any]:
    (text,) = [file.text for file in plan.files if file.path.name == f"{name}.yaml"]
    found: Mapping[str, Any] = yaml.safe_load(text)
    return found


def test_prefill_keeps_kv_and_decode_which_has_no_prefix_cache_does_not() -> None:
    plan = make(HOST, eight_cards())
    assert flags_of(plan, "prefill")["enable-hierarchical-cache"] is True
    assert not {flag for flag in flags_of(plan, "decode") if "hi" in flag and "cache" in flag}
    assert "hicache-size" not in flags_of(plan, "prefill")
    assert "enable-hierarchical-cache" not in flags_of(make({"DSV4_MODEL": str(FLASH)}, eight_cards()), "prefill")


@pytest.mark.parametrize("gigabytes", [50, 400, 1500])
@pytest.mark.parametrize("layout", ["pd:4+4", "pd:2x2+2x2", "replicas:4x2", "single:8"])
@pytest.mark.parametrize("speculative", ["off", "eagle"])
def test_all_ranks_copies_together_take_what_was_asked_for(gigabytes: int, layout: str, speculative: str) -> None:
    environ = {"DSV4_KV_OFFLOAD_GB": str(gigabytes), "DSV4_LAYOUT": layout, "DSV4_SPECULATIVE": speculative}
    plan = make(HOST | environ, eight_cards())
    shape = Shape()
    for role, card in zip(
        plan.placement.roles, memory_plan.estimates(plan.settings, plan.placement, shape), strict=True
    ):
        share = offload.ratio(plan.settings, role, shape)
        if role.role == "decode":
            assert share is None
            continue
        assert share is not None
        # What is not mirrored is the fixed state: everything else of the card's KV is, rank by rank.
        mirrored = card.kv - state_bytes(shape, card.load)
        taken = share * mirrored * role.tensor_parallel
        assert taken == pytest.approx(gigabytes * 1e9, rel=0.005)
        assert taken <= gigabytes * 1e9 * 1.0005
        assert flags_of(plan, role.name)["hicache-ratio"] == pytest.approx(share)


@pytest.mark.parametrize(
    "flag", ["--enable-hierarchical-cache", "--enable-hicache", "--hicache-ratio 2", "--hicache-size 9"]
)
def test_the_flags_are_the_settings_own(flag: str) -> None:
    (problem,) = owned_flags.problems({"DSV4_PREFILL_EXTRA_ARGS": flag}, profiles.read_all(paths.profiles_dir()))
    assert "DSV4_KV_OFFLOAD_GB" in str(problem)


def refusals(environ: Mapping[str, str], facts: HostFacts, **around: Any) -> list[str]:
    situation = survey_facts({"DSV4_KV_OFFLOAD_GB": "64"} | dict(environ), facts)
    assert situation.profile is not None
    surrounding = replace(situation.around, environ=environ, **around)
    return [str(item) for item in engine_rules.problems(situation.settings, situation.profile, surrounding)]


def test_it_is_refused_where_the_engine_could_not_do_it() -> None:
    with pytest.raises(SettingsError, match=r"DSV4_KV_OFFLOAD_GB.*copies KV with CUDA"):
        survey_facts({"DSV4_PROFILE": "demo-cpu", "DSV4_KV_OFFLOAD_GB": "8"}, no_gpu()).planned()
    assert refusals({}, eight_cards()) == []
    assert "config.json is known" in refusals({}, eight_cards(), shape=None)[0]
    assert "unset SGLANG_OPT_SM120_DIRECT_SWA_KV" in refusals({offload.DIRECT_WINDOWS: "1"}, eight_cards())[0]
    assert refusals({offload.DIRECT_WINDOWS: "0"}, eight_cards()) == []


def test_the_plan_says_what_it_buys() -> None:
    plan = make(HOST, eight_cards())
    (line,) = offload.lines(plan.settings, plan.profile, plan.placement, Shape())
    assert line.startswith("prefill: 400 GB of host memory keep KV of ") and "each of 4 ranks keeps a copy" in line


@pytest.mark.parametrize("words", ["--max-total-tokens 262144", "--max-total-tokens=262144 --log-requests"])
def test_a_smaller_pool_has_a_larger_ratio_for_the_same_memory(words: str) -> None:
    whole, pinned = (
        float(flags_of(make(HOST | {"DSV4_PREFILL_EXTRA_ARGS": extra}, eight_cards()), "prefill")["hicache-ratio"])
        for extra in ("", words)
    )
    card, _ = memory_plan.estimates(make(HOST, eight_cards()).settings, make(HOST, eight_cards()).placement, Shape())
    assert pinned == pytest.approx(whole * card.tokens / 262144, rel=1e-3)


def situation(gigabytes: str, total_gib: int, node_gib: int, limit_gib: int = 0, **environ: str) -> Situation:
    nodes = tuple(replace(node, memory_bytes=node_gib << 30) for node in eight_cards().numa_nodes)
    facts = replace(
        eight_cards(), memory_bytes=total_gib << 30, numa_nodes=nodes,
        limits=replace(ResourceLimits(), memory_limit_bytes=(limit_gib << 30) or None),
    )  # fmt: skip
    found = survey_facts({"DSV4_KV_OFFLOAD_GB": gigabytes, **environ}, facts)
    return replace(found, around=replace(found.around, numa=Permission("membind")))


def test_the_host_s_memory_holds_servers_and_what_they_keep() -> None:
    enough = host_memory.CHECK.run(situation("400", 1024, 512))
    assert enough.verdict is CheckVerdict.OK and "372.5 GiB of it for KV" in enough.read
    limited = host_memory.CHECK.run(situation("400", 1024, 512, limit_gib=256))
    assert limited.verdict is CheckVerdict.FAIL and limited.subject == "DSV4_KV_OFFLOAD_GB"
    assert "lower DSV4_KV_OFFLOAD_GB" in limited.remedy
    nothing_kept = host_memory.CHECK.run(situation("", 1024, 512, limit_gib=256))
    assert nothing_kept.verdict is CheckVerdict.OK


def test_a_server_bound_to_a_node_must_find_it_there() -> None:
    crowded = host_memory.CHECK.run(situation("500", 2048, 384))
    assert crowded.verdict is CheckVerdict.FAIL and "node 0, 384.0 GiB" in crowded.read
    two = host_memory.CHECK.run(situation("200", 2048, 384, DSV4_LAYOUT="replicas:4x2"))
    assert two.verdict is CheckVerdict.FAIL and "single-1 and single-2" in two.read, "each fits alone, both do not"
    free = host_memory.CHECK.run(situation("500", 2048, 384, DSV4_NUMA="off"))
    assert free.verdict is CheckVerdict.OK


def host_pools(plan: Plan, tokens: int, windows: int) -> Mapping[str, Any]:
    """The engine's own function under the plan's own command line."""
    write(plan)
    program = next(program for program in plan.programs if program.name == "prefill")
    flags = program.argv[program.argv.index("--") + 1 :]
    env = {"PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1", "HOME": str(plan.paths.run), **dict(program.env)}
    env.pop("SGLANG_PLUGINS", None)
    command = [str(VENVS / "engine/bin/python"), str(SCRIPTS / "host_pools.py"), f"{tokens},{windows}", *flags]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: Mapping[str, Any] = json.loads(done.stdout.strip().splitlines()[-1].removeprefix("RESULT"))
    return found


@pytest.mark.engine
def test_the_engine_takes_the_ratio_and_refuses_what_the_plan_avoids(tmp_path: Path) -> None:
    plan = make(HOST | {"DSV4_CACHE_DIR": str(tmp_path / "c")}, eight_cards(), run=tmp_path)
    (prefill,) = (role for role in plan.placement.roles if role.role == "prefill")
    card, _ = memory_plan.estimates(plan.settings, plan.placement, Shape())
    windows = int(card.tokens * card.window_ratio) // 256 * 256
    found = host_pools(plan, card.tokens, windows)
    share = offload.ratio(plan.settings, prefill, Shape())
    assert share is not None
    assert found["on"] and found["radix"] and found["ratio"] == pytest.approx(share)
    assert found["fraction"] is None, "sized by the ratio, not by the machine's free memory"
    pages, window_pages, compressed = found["pages"]
    assert pages == compressed == int(card.tokens // 256 * found["ratio"])
    assert window_pages == int(windows // 256 * found["ratio"])
    assert (found["layout"], found["io"], found["policy"]) == ("page_first", "kernel", "write_through")
    assert found["direct_windows"] is False
    assert "does not support --hicache-size; use --hicache-ratio" in found["sized"]
    assert "auto-sizing does not support" in found["automatic"]
    assert "Disable SGLANG_OPT_SM120_DIRECT_SWA_KV" in found["direct"]


@pytest.mark.engine
@pytest.mark.parametrize(
    ("entry", "environ"),
    [
        ("flash-preview", {"DSV4_SPECULATIVE": "eagle"}),
        ("flash-preview", {"DSV4_LAYOUT": "single:8"}),
        ("flash-0731", {"DSV4_SPECULATIVE": "dspark"}),
        ("flash-0731", {"DSV4_SPECULATIVE": "dspark", "DSV4_LAYOUT": "single:8"}),
        ("flash-nvfp4", {}),
    ],
)
def test_it_resolves_beside_a_draft_and_in_a_whole_server(
    tmp_path: Path, entry: str, environ: Mapping[str, str]
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    config = dict(catalogue.read_all(paths.models_dir())[entry].config)
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    host = HOST | {"DSV4_MODEL": str(model), "DSV4_CACHE_DIR": str(tmp_path / "c"), **environ}
    plan = make(host, eight_cards(), run=tmp_path / "run")
    write(plan)
    got = resolve(plan, "single" if "DSV4_LAYOUT" in environ else "prefill")
    assert got["enable_hierarchical_cache"] is True and got["hicache_host_memory_fraction"] is None
    assert str(got["speculative_algorithm"]).lower() == environ.get("DSV4_SPECULATIVE", "none")
