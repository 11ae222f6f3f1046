"""Parts of `dsv4-pd tune`: loads, candidates, switches, gate, model; and never beside an appliance that serves."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from dsv4_pd.bench import driver
from dsv4_pd.bench.stats import Interval
from dsv4_pd.bench.tune import alone, gate, objective, predict, switches, workload
from dsv4_pd.bench.tune.candidates import layouts
from dsv4_pd.bench.tune.objective import Objective
from dsv4_pd.bench.tune.workload import Ask, Workload
from dsv4_pd.errors import SettingsError, TemporaryError
from dsv4_pd.plan.around.tuned import EXTRA
from dsv4_pd.plan.disk.paths import models_dir
from dsv4_pd.plan.shipped import catalogue
from dsv4_pd.plan.survey import survey_facts
from dsv4_pd.settings.layout import parse
from support import plans
from support.simulated import play

ANY = Objective("throughput")
STEADY = Objective("throughput", itl_s=0.018)
MIXED = Workload("mixed", tuple(Ask(0.0, *((3000, 2) if n // 2 % 2 else (16, 100))) for n in range(24)), 6)


def test_calibration_finds_the_scaling_over_two_sizes() -> None:
    costs = predict.Costs(1e-4, 0.01, 0.001, 0.7)
    runs = []
    for gpus in (2, 4):
        token, step, more = costs.on(gpus)
        runs.append(predict.Seen(gpus, 1000, 1000 * token, step + more, step + 9 * more, 9))
    found = predict.calibrate(*runs)
    assert found.scaling == pytest.approx(0.7)
    assert (found.per_prompt_token, found.step, found.per_request) == pytest.approx((1e-4, 0.01, 0.001))


def test_a_load_beyond_capacity_is_predicted_as_one() -> None:
    costs = predict.Costs(1e-3, 0.01, 0.001, 0.8)
    fast = Workload("open", tuple(Ask(n * 0.1, 1000, 10) for n in range(50)), 1, open=True)
    found = predict.predict(parse("pd:1+1"), fast, costs, ANY)
    assert found.per_s < 1.01 and found.ttft > 10, "ten a second where one is read"


def test_bounds_decide_what_counts() -> None:
    found = play(parse("replicas:2x1"), MIXED, 1)
    assert STEADY.score(found) < ANY.score(found)
    assert Objective("latency").gain([2.0] * 5, [1.0] * 5, 0.95).value == pytest.approx(2.0)
    assert objective.better(Interval(2.0, 1.9, 2.1)) and ANY.score([]) == 0.0
    assert ANY.gain([0.0] * 5, [5.0] * 5, 0.95).low > 1, "something is better than nothing"


def test_noise_of_what_stands_is_not_held_against_a_candidate() -> None:
    wanted, trouble = gate.reference([{"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "2", "c": "4"}])
    assert wanted == {"a": "1", "b": "2"} and trouble is None
    assert gate.fault(wanted, [{"a": "1", "b": "2", "c": "9"}] * 2) is None
    assert gate.fault(wanted, [{"a": "1", "b": ""}] * 2) == "'b' was not answered"
    assert gate.fault(wanted, []) is not None
    assert gate.reference([{"a": "1", "b": "2"}, {"a": "2", "b": "3"}])[1] is not None


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "0 requests"),
        ('{"input": 1, "output": 2}\nno\n', "line 2"),
        ('{"input": 0, "output": 2}\n', "line 1"),
        ('{"input": true, "output": 2}\n', "line 1"),
        ('{"input": 5}\n', "line 1"),
        ("[1]\n", "line 1"),
        ('{"input": 1, "output": 2, "at_s": 1}\n{"input": 1, "output": 2}\n', "at_s on some"),
    ],
)
def test_a_trace_that_is_none_is_named_by_its_line(tmp_path: Path, text: str, match: str) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(text)
    with pytest.raises(SettingsError, match=match):
        workload.read(file)


def test_a_trace_keeps_lengths_and_arrivals(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    rows = [{"at_s": 105.0, "input": 9, "output": 3}, {"at_s": 100.0, "input": 7, "output": 2}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = workload.read(file)
    assert found.asks == (Ask(0.0, 7, 2), Ask(5.0, 9, 3)) and found.open and found.rate == pytest.approx(0.2)
    assert [json.loads(line)["at_s"] for line in found.text().splitlines()] == [0.0, 5.0]
    closed = workload.read(file, 2)
    assert not closed.open and closed.concurrency == 2
    assert [json.loads(line)["at_s"] for line in closed.text().splitlines()] == [0.0, 0.0]


@pytest.mark.parametrize("word", workload.WORDS)
def test_each_word_fits_the_demos_context(word: str) -> None:
    work = workload.of_word(word).within(4096)
    assert all(ask.input > 0 and ask.output > 0 and ask.input * 1.25 + ask.output <= 4096 for ask in work.asks)
    assert len(work.asks) >= work.concurrency


def test_the_words_are_those_of_the_presets() -> None:
    assert set(workload.WORDS) == {path.stem for path in (plans.ROOT / "config/presets").glob("*.toml")}


async def test_the_load_driver_sends_what_the_trace_says(tmp_path: Path) -> None:
    """The generator's two functions are replaced for the step and put back; test_trace.py has the real one."""
    file = tmp_path / "t.jsonl"
    file.write_text('{"at_s": 0, "input": 5, "output": 2}\n{"at_s": 0.05, "input": 8, "output": 3}\n')

    class Serving:
        get_dataset = staticmethod(
            lambda args, *_: [(args.random_input_len, args.random_output_len)] * args.num_prompts
        )
        get_request = None

    class Args:
        num_prompts = 99

    serving, args = Serving(), Args()
    before = serving.get_dataset
    with driver._traced(serving, str(file)):
        rows = serving.get_dataset(args, None)
        sent = [row async for row in serving.get_request(rows, float("inf"))]  # type: ignore[misc]
    assert sent == [(5, 2), (8, 3)] and args.num_prompts == 2
    assert serving.get_dataset is before and serving.get_request is None


def test_every_layout_uses_every_card() -> None:
    for cards in (1, 2, 4, 8):
        found = list(layouts(cards))
        assert len({str(one) for one in found}) == len(found)
        assert {sum(g.count * (g.tensor_parallel or 0) for g in one.groups) for one in found} == {cards}
        assert all(parse(str(one)) == one for one in found), "each can be said in DSV4_LAYOUT"
    assert {"pd:4+4", "replicas:4x2", "replicas:2x4", "single:8", "pd:2+3x2", "pd:2x2+2x2"} <= {
        str(one) for one in layouts(8)
    }


def test_each_switch_is_known_here_and_says_where_it_is_from() -> None:
    table = switches.read()
    plan = plans.make({}, plans.eight_cards())
    cpu = plans.make({"DSV4_PROFILE": "demo-cpu"}, plans.no_gpu())
    assert len({one.name for one in table}) == len(table) and all(one.source and one.default for one in table)
    may = {one.name for one in table if switches.obstacle(one, plan.placement, plan.settings, {}) is None}
    assert may == {one.name for one in table}, "on the cards that they are for"
    here = {one.name for one in table if switches.obstacle(one, cpu.placement, cpu.settings, {}) is None}
    assert here == {"half-chunk", "double-chunk"}
    by_hand = switches.obstacle(table[0], plan.placement, plan.settings, {"SGLANG_OPT_DEEPGEMM_HC_PRENORM": "0"})
    assert by_hand is not None and "by hand" in by_hand
    nvfp4 = catalogue.read_all(models_dir())["flash-nvfp4"].config
    left = {one.name: switches.obstacle(one, plan.placement, plan.settings, {}, nvfp4) for one in table}
    assert {name: why for name, why in left.items() if why} == {"moe-triton": "is for experts in mxfp4, fp8, not nvfp4"}
    for one in table:  # the plan takes each as settings and flags
        wanted = switches.candidate(one, plan.settings, "pd:4+4")
        environ = {f"DSV4_{name.upper()}": text for name, text in wanted.settings.items()}
        environ |= {f"DSV4_{name.upper()}": " ".join(wanted.flags) for name in EXTRA if wanted.flags}
        plans.make(environ, plans.eight_cards())


def test_tune_never_runs_beside_a_serving_appliance() -> None:
    found = survey_facts({}, plans.eight_cards())
    alone.refuse(found)
    busy = replace(found, around=replace(found.around, running=True))
    with pytest.raises(TemporaryError, match="an appliance that runs"):
        alone.refuse(busy)
    port = found.planned().programs[0].ports[0]
    with pytest.raises(TemporaryError, match=str(port.number)):
        alone.refuse(replace(found, busy_ports=((port, errno.EADDRINUSE),)))


def test_two_experiments_on_one_folder_are_one_too_many(tmp_path: Path) -> None:
    with alone.only_one(tmp_path), pytest.raises(TemporaryError, match="one at a time"), alone.only_one(tmp_path):
        pass
    with alone.only_one(tmp_path):
        pass


def test_what_was_started_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    """Even when that one is killed and can't say goodbye."""
    words = """
import subprocess, sys, time
from dsv4_pd.client.child import tied
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], preexec_fn=tied())
print(child.pid, flush=True)
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", words], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = Path("/proc") / parent.stdout.readline().strip()
    assert child.exists()
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 30
    while _lives(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _lives(child)


def _lives(process: Path) -> bool:
    try:
        return "\nState:\tZ" not in (process / "status").read_text()
    except OSError:
        return False
