"""The ring's own logic, where no card is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.plan.memory import model as memory_model
from dsv4_pd.plan.model.shape import shape_of
from dsv4_pd.plan.shipped import profiles

from gpu import __main__ as ring
from gpu import machine, servers
from gpu.model.shape import Shape
from gpu.parts import kept, lineup, memory, questions, ready, variant_lineup
from gpu.record import Part

HERE = Path(__file__).parent


def test_each_part_is_a_function_that_exists() -> None:
    for module, function, _ in ring.PARTS.values():
        source = (HERE.parent / module.replace(".", "/")).with_suffix(".py").read_text()
        assert f"\ndef {function}() -> int:" in source, module


def test_an_unknown_part_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert ring.main(["kernel"]) == 2
    said = capsys.readouterr().err
    assert "['kernel']" in said and all(name in said for name in ring.PARTS)


def test_a_part_records_how_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RING_OUT", str(tmp_path))
    with pytest.raises(RuntimeError), Part("x") as part:
        part.expect(True, "first")
        part.expect(False, "second", found=3)
        raise RuntimeError("no card")
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["machine", "check", "check", "end"]
    assert lines[2]["found"] == 3
    assert lines[3]["ok"] is False and lines[3]["failures"] == ["second", "RuntimeError: no card"]


def test_a_card_s_row_is_read_and_a_machine_without_one_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    (card,) = machine.cards("0, NVIDIA H200, 143771 MiB, 580.159.04, 9.0\n")
    assert card == {
        "index": "0",
        "name": "NVIDIA H200",
        "memory": "143771 MiB",
        "driver": "580.159.04",
        "capability": "9.0",
    }
    assert machine.text("/no/such/program") == ""
    monkeypatch.setenv("PATH", "/nowhere")
    assert isinstance(machine.facts()["cards"], list)


LOG = """[2026-11-30 07:53:26] Load weight begin. avail mem=139.11 GB
[2026-11-30 07:53:27] Load weight end. elapsed=1.21 s, type=DeepseekV4, avail mem=133.89 GB, mem usage=5.22 GB.
[2026-11-30 07:53:28] DSV4 SWA sizing: mode=ratio (explicit), swa_tokens=8762368, swa_full_tokens_ratio=0.1
[2026-11-30 07:53:28] DSV4 memory calculation: bytes_per_full_token=787.00, available_bytes=64.29 GB
[2026-11-30 07:53:28] DSV4 pool sizes: full=87624704, swa=8762368, c4=21906176, c128=684568, c4_state=273824
[2026-11-30 07:53:28] Memory pool end. avail mem=68.90 GB
"""


def test_the_engine_s_figures_are_read_off_its_own_lines() -> None:
    found = memory.fields("\n".join(memory.said(LOG)))
    assert found["full_tokens"] == 87_624_704 and found["swa_tokens"] == 8_762_368
    assert found["bytes_per_full_token"] == 787.0 and found["available_gb"] == 64.29
    assert found["c4_tokens"] == 21_906_176 and found["c4_state_tokens"] == 273_824
    assert found["avail_mem_after_load_gb"] == 133.89 and found["avail_mem_after_pools_gb"] == 68.9
    assert memory.DONE.search(LOG) and not memory.DONE.search(LOG.rsplit("[", 1)[0])


def sized(record: Path) -> list[dict[str, Any]]:
    """The servers of a record that got as far as their pools; one that did not is a failed check of the part."""
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    return [line for line in lines if line["kind"] == "memory" and "full_tokens" in line["found"]]


@pytest.mark.parametrize("record", sorted(HERE.glob("records/*/memory.jsonl")), ids=lambda path: path.parent.name)
def test_the_product_s_memory_model_says_what_the_engine_says_on_the_card(record: Path) -> None:
    """Weights, context and pools together, from the card's total memory alone: within 1 %."""
    model = shape_of(Shape().config())
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    (card,) = {card["memory"] for line in lines if line["kind"] == "machine" for card in line["cards"]}
    alone = [line for line in sized(record) if "note" not in line]
    assert model and len(alone) >= 4
    for line in alone:
        fraction, found = float(line["flags"]["mem-fraction-static"]), line["found"]
        load = memory_model.Load(
            "single", 1, fraction, int(found["max_num_reqs"]), 8192, window_ratio=found["swa_ratio"]
        )
        said = memory_model.estimate(model, load, int(card.split()[0]) * memory_model.MIB)
        assert said.tokens == pytest.approx(found["full_tokens"], rel=0.01)


@pytest.mark.parametrize("record", sorted(HERE.glob("records/*/memory.jsonl")), ids=lambda path: path.parent.name)
def test_recorded_pools_are_the_bytes_over_the_bytes_a_token(record: Path) -> None:
    """The engine's rule: what is available, less the state of c128, over bytes a token, in whole pages."""
    found = [line["found"] for line in sized(record)]
    assert len(found) >= 4
    for item in found:
        tokens = (item["available_gb"] - item["c128_state_fixed_gb"]) * 2**30 / item["bytes_per_full_token"]
        assert item["full_tokens"] == pytest.approx(tokens, rel=1e-3)
        assert item["full_tokens"] % 256 == 0
        assert item["swa_tokens"] == item["full_tokens"] * item["swa_ratio"] // 256 * 256


def test_prompts_of_one_seed_begin_alike_and_others_do_not() -> None:
    assert ready.ids(50, 3) == ready.ids(80, 3)[:50]
    assert ready.ids(50, 3)[1:] != ready.ids(50, 4)[1:]
    assert all(0 <= token < 1536 for token in ready.ids(5000, 9))


def test_records_say_that_pools_shrink_by_what_is_loaded_and_left_free() -> None:
    """available = free after the load, less the share left free of what was free before: as the engine logs them."""
    for record in HERE.glob("records/*/memory.jsonl"):
        for line in sized(record):
            if "share the card" in line.get("note", ""):
                continue
            found, fraction = line["found"], float(line["flags"]["mem-fraction-static"])
            kept_free = found["avail_mem_before_load_gb"] * (1 - fraction)
            assert found["available_gb"] == pytest.approx(found["avail_mem_after_load_gb"] - kept_free, abs=0.06)


def test_a_needle_stands_in_its_text_once() -> None:
    for text, code in questions.needles():
        assert text.count(code) == 1 and text.endswith("What is the code?")


@pytest.mark.parametrize("path", sorted((HERE / "profiles").glob("*.toml")), ids=lambda path: path.stem)
def test_the_ring_s_profiles_are_profiles(path: Path) -> None:
    profile = profiles.parse(path.stem, path.read_text(encoding="utf-8"))
    assert profile.device == "cuda" and "dsv4-ring" in profile.engine_env["SGLANG_PLUGINS"]
    # NVLink multicast can put a shared host's cards out of service.
    assert {profile.engine_env[name] for name in ("NCCL_NVLS_ENABLE", "NVSHMEM_DISABLE_NVLS")} == {"0", "1"}


def test_servers_share_no_port_and_no_file() -> None:
    every = [*lineup.SERVERS, lineup.ALONE, lineup.NCCL, lineup.IPC, kept.PLAIN, kept.KEPT]
    every += [one.server for one in variant_lineup.VARIANTS]
    ports = [port for server in every for port in (server.port, server.port + 5000)]
    assert len(ports) == len(set(ports))
    assert len({server.log for server in every}) == len(every)


def test_variants_have_models_of_their_own_and_what_is_refused_is_said() -> None:
    from dsv4_pd.plan.model.checkpoint import NVFP4_RUNNERS

    folders = {one.server.name: one.server.model for one in variant_lineup.VARIANTS}
    assert folders["nvfp4-cutlass"] == folders["nvfp4"] and len(set(folders.values())) == 4
    assert servers.Server("x", 1).command()[4] == str(servers.MODEL)
    here = {one.server.name for one in variant_lineup.VARIANTS if one.starts(9.0)}
    assert here == {"nvfp4", "dspark", "eagle"}, "on a Hopper card; the others' refusals are the record"
    assert {one.server.name for one in variant_lineup.VARIANTS if one.starts(12.0)} == here | {"nvfp4-cutlass"}
    runners = {one.server.flags.get("moe-runner-backend", servers.FLAGS["moe-runner-backend"])
               for one in variant_lineup.VARIANTS}  # fmt: skip
    assert runners <= set(NVFP4_RUNNERS)
    assert set(variant_lineup.PAIRED) <= set(variant_lineup.FOLDERS)


def test_flags_without_a_value_stand_alone() -> None:
    words = servers.Server("x", 1, flags={"max-total-tokens": None, "tp-size": "2"}).command()
    assert words[words.index("--tp-size") + 1] == "2" and "--max-total-tokens" not in words
    assert "" not in words


def test_a_server_that_is_gone_is_not_alive_and_stopping_it_is_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "WORK", tmp_path)
    server = servers.Server("gone", 1)
    server.stop()
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    server.pid_file.write_text(str(sleeper.pid))
    assert server.alive()
    server.stop(4)
    assert sleeper.wait(5) != 0 and not server.alive()
    assert os.listdir(tmp_path) == []  # noqa: PTH208


def test_the_offload_part_s_prompts_are_more_than_the_card_and_less_than_the_host_holds() -> None:
    """Each prompt has at least three quarters of the length (gpu.cases)."""
    ratio = float(kept.KEPT.flags["hicache-ratio"] or 0)
    assert kept.POOL < kept.COUNT * kept.CONTEXT * 3 // 4 and ratio * kept.POOL > kept.COUNT * kept.CONTEXT
    more = {name for name, value in kept.KEPT.flags.items() if kept.PLAIN.flags.get(name) != value}
    assert more == {"enable-hierarchical-cache", "hicache-ratio"}
    rows = [
        f'sglang:cached_tokens_total{{cache_source="{name}",m="x"}} {tokens}'
        for name, tokens in (("host", 7.0), ("device", 9.0))
    ]
    assert kept.counted("\n".join(["# HELP", *rows])) == 7.0
