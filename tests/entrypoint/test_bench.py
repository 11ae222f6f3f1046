"""Figures, comparisons, trends and the report, from requests made here; the real generator runs in tests/prove."""

from __future__ import annotations

import io
import json
import math
import re
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from dsv4_pd.bench import compare, driver, interference, report, results, saturation, soak, stats
from dsv4_pd.bench.load import LoadStep, Request, Target, arguments, run
from dsv4_pd.bench.results import Run
from dsv4_pd.bench.summary import summarise
from dsv4_pd.cli import bench as cli
from dsv4_pd.cli.bench import command
from dsv4_pd.errors import ApplianceError, SettingsError

TARGET = Target("http://127.0.0.1:8000", "served", "/models/m", Path("/engine/python"))
MACHINE = {
    "cpu": "c",
    "cpus": 2,
    "memory_gb": 1,
    "numa_nodes": 1,
    "kernel": "k",
    "driver": None,
    "gpus": [],
    "topology": [],
}


def request(start: float, ttft: float, gaps: list[float], step: str = "x", ok: bool = True) -> Request:
    return Request(step, start, ttft, tuple(gaps), ttft + sum(gaps), 100, len(gaps) + 1, ok, "" if ok else "boom")


def run_of(ttfts: list[float], label: str = "a", **machine: Any) -> Run:
    load = LoadStep("in100 c4", 4, len(ttfts), 100, 3, seed=1)
    requests = [request(n * 0.1, ttft, [0.01, 0.01]) for n, ttft in enumerate(ttfts)]
    status = {
        "mode": label,
        "profile": "p",
        "model": "m",
        "about": {"machine": MACHINE | machine, "versions": {"sglang": "1"}},
    }
    return Run(results.head("sweep", status, label), [summarise(load, requests)], {load.name: results.short(requests)})


def test_summary_counts_what_failed_and_what_was_cut() -> None:
    load = LoadStep("x", 2, 3, 100, 10)
    good = request(0.0, 0.5, [0.1] * 9)
    found = summarise(load, [good, request(0.2, 0.5, [0.1]), request(0.0, 0.0, [], ok=False)])
    assert (found["completed"], found["failed"], found["short"]) == (2, 1, 1)
    assert found["output_tokens_per_s"] == pytest.approx(12 / 1.4, rel=1e-3)
    assert found["ttft"]["p50"] == 0.5 and found["itl"]["p99"] == pytest.approx(0.1)


def test_generator_gets_fresh_prompts_of_full_length() -> None:
    line = arguments(LoadStep("x", 4, 8, 100, 10, seed=9), TARGET)
    said = dict(pairwise(line))
    assert said["--seed"] == "9" and said["--random-range-ratio"] == "1.0" and said["--served-model-name"] == "served"
    real = arguments(LoadStep("x", 4, 8, 100, 10, dataset="real"), TARGET)
    assert Path(real[real.index("--dataset-path") + 1]).is_file()


def test_shipped_prompts_are_conversations() -> None:
    lines = Path(results.__file__).with_name("prompts.jsonl").read_text().splitlines()
    assert len(lines) >= 16 and all(len(json.loads(line)["conversations"]) == 2 for line in lines)


def streams_with_stall(during: float) -> dict[str, Any]:
    """Two streams with a token each 10 ms; from 1 s to 2 s a prompt is read and tokens come each `during` seconds."""
    gaps, moment = [], 0.0
    while moment < 3.0:
        gap = during if 1.0 <= moment < 2.0 else 0.01
        gaps.append(gap)
        moment += gap
    return interference.judge([request(0.0, 0.0, gaps), request(0.0, 0.0, gaps)], [request(1.0, 1.0, [])])


def test_interference_sees_a_stall() -> None:
    found = streams_with_stall(0.25)
    assert found["quiet"]["itl"]["p99"] == pytest.approx(0.01) and found["busy"]["itl"]["p50"] == pytest.approx(0.25)
    assert found["rate"]["left"] == pytest.approx(0.04, abs=0.02)
    assert found["windows"] == [[1.0, 2.0]]


def test_no_stall_leaves_the_rate() -> None:
    found = streams_with_stall(0.01)
    assert found["rate"]["left"] == pytest.approx(1.0, abs=0.03)
    assert found["busy"]["itl"]["p99"] == pytest.approx(0.01)


def test_streams_that_end_too_early_are_no_measurement() -> None:
    with pytest.raises(ApplianceError, match="--stream-output"):
        interference.judge([request(0.0, 0.0, [0.01] * 50)], [request(1.0, 1.0, [])])


def test_ratio_tells_a_difference_from_noise() -> None:
    base = [1.0 + 0.1 * math.sin(n) for n in range(40)]
    assert not stats.ratio(base, list(reversed(base))).excludes(1.0)
    slower = stats.ratio(base, [value * 1.3 for value in base])
    assert slower.excludes(1.0) and slower.low < 1.3 < slower.high


def test_comparison_names_what_became_slower() -> None:
    base = [0.1 + 0.01 * math.sin(n) for n in range(30)]
    rows = {row.figure: row for row in compare.compare(run_of(base), run_of([value * 2 for value in base], "b"))}
    assert rows["ttft p50"].verdict == "slower" and rows["ttft p50"].ratio.value == pytest.approx(2, rel=0.01)
    assert rows["itl mean"].verdict == "no difference shown"


def test_unlike_hosts_are_refused_by_name() -> None:
    with pytest.raises(SettingsError, match=r"host: driver: found null and 580\.95, expected the same"):
        compare.compare(run_of([0.1] * 9), run_of([0.1] * 9, driver="580.95"))


def test_other_loads_have_nothing_in_common() -> None:
    with pytest.raises(SettingsError, match="no point in common"):
        compare.compare(run_of([0.1] * 9), run_of([0.1] * 8))


def test_command_line_compares_files(tmp_path: Path) -> None:
    base = [0.1 + 0.01 * math.sin(n) for n in range(30)]
    results.write(tmp_path / "a", run_of(base))
    results.write(tmp_path / "b", run_of([value * 2 for value in base]))
    done = CliRunner().invoke(command, ["compare", str(tmp_path / "a"), str(tmp_path / "b")], standalone_mode=False)
    assert done.return_value == 1 and "slower" in done.output
    same = CliRunner().invoke(command, ["compare", str(tmp_path / "a"), str(tmp_path / "a")], standalone_mode=False)
    assert same.return_value == 0 and "slower" not in same.output


def test_file_round_trip(tmp_path: Path) -> None:
    before = run_of([0.1, 0.2])
    results.write(tmp_path / "r.jsonl", before)
    after = results.read(tmp_path / "r.jsonl")
    assert after.head == before.head and after.points == before.points
    assert [r["ttft"] for r in after.requests["in100 c4"]] == [0.1, 0.2]
    (tmp_path / "other").write_text("{}\n")
    with pytest.raises(SettingsError, match="another kind of file"):
        results.read(tmp_path / "other")


def test_drift_of_a_leak_is_shown_and_noise_is_not() -> None:
    def point(number: int, itl: float) -> dict[str, Any]:
        return {"output_tokens_per_s": 100 + (number % 3), "itl": {"p50": itl}, "ttft": {"p50": 0.1}}

    noise = [0.01, 0.0101, 0.0099, 0.0102, 0.01, 0.0098, 0.0101, 0.01]
    steady = soak.trends([point(n, itl) for n, itl in enumerate(noise)])
    assert not any(trend["worse"] for trend in steady)
    leaking = soak.trends([point(n, itl * (1 + 0.03 * n)) for n, itl in enumerate(noise)])
    assert [trend["figure"] for trend in leaking if trend["worse"]] == ["itl p50"]


def test_saturation_ends_at_a_late_first_token() -> None:
    point = {"output_tokens_per_s": 100, "ttft": {"p99": 12.0}, "concurrency": 1}
    assert "above 10 s" in (saturation.saturated([point], 10.0) or "")
    assert saturation.saturated([point | {"ttft": {"p99": 1.0}}], 10.0) is None


def test_saturation_ends_where_requests_are_refused_and_the_knee_lies_below() -> None:
    served = {"output_tokens_per_s": 100, "ttft": {"p99": 0.1}, "concurrency": 16, "failed": 0, "completed": 48}
    refused = {"output_tokens_per_s": 300, "ttft": {"p99": 0.1}, "concurrency": 32, "failed": 72, "completed": 24}
    reason = saturation.saturated([served, refused], 10.0)
    assert reason == "72 of 96 requests were refused or failed at 32 at once"
    assert saturation._knee([served, refused]) == 16
    assert saturation._knee([refused]) == 0


@pytest.fixture
def page() -> str:
    measured = {"plan": {"streams": 2, "prompt_tokens": 3000}, **streams_with_stall(0.25)}
    one = run_of([0.1, 0.2, 0.3], "pd")
    one.points.append({"name": "interference", **measured})
    two = run_of([0.2, 0.3, 0.4], "single <b>")
    two.head["saturation"] = {"knee": 8, "reason": "throughput grew by 4 %"}
    two.points += [{**two.points[0], "name": f"w{n}", "at_s": n * 60.0} for n in range(4)]
    return report.html([one, two])


def test_report_needs_nothing_else(page: str) -> None:
    assert not re.search(r"(src|href)=|@import|url\(", page)
    assert "single <b>" not in page and "single &lt;b&gt;" in page, "labels are text"


def test_report_has_its_sections_and_plots_are_well_formed(page: str) -> None:
    for title in (
        "What a long prompt does",
        "Throughput and latency",
        "Time to the first token",
        "Saturation",
        "Soak",
        "All points",
    ):
        assert title in page, title
    plots = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(plots) == 4
    for text in plots:
        tree = ElementTree.fromstring(text)
        numbers = [float(n) for e in tree.iter() for k in ("x", "y", "cx", "cy") if (n := e.get(k))]
        assert all(-20 <= n <= 760 for n in numbers), "something is drawn outside the plot"
    assert 'class="span"' in plots[0], "the interference is not marked"


def test_help_needs_no_engine() -> None:
    done = CliRunner().invoke(command, ["--help"])
    for name in ("sweep", "interference", "layouts", "saturation", "soak", "compare", "report"):
        assert name in done.output


async def test_an_answer_without_text_took_its_whole_time(tmp_path: Path) -> None:
    """The generator has no first token's moment then, and a prompt that takes no time would shade nothing."""

    async def send() -> Any:
        return SimpleNamespace(
            start_time=1.0, ttft=0.0, itl=[], latency=0.3, prompt_len=9, output_len=1, success=True, error=""
        )

    out = io.StringIO()
    await driver._recorded(send, "x", out, tmp_path / "begun")()
    assert json.loads(out.getvalue())["ttft"] == 0.3


def test_the_old_name_of_layouts_says_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[tuple[str, ...], str]] = []
    monkeypatch.setattr(cli, "_layouts", lambda names, wanted, output, experiment: asked.append((names, experiment)))
    old = CliRunner().invoke(command, ["pd-vs-single", "--streams", "2"])
    assert old.exit_code == 0 and "deprecated" in old.stderr and "bench layouts --layouts pd,single" in old.stderr
    new = CliRunner().invoke(command, ["layouts", "--layouts", "pd:1+1, replicas:2x1"])
    assert new.exit_code == 0 and "deprecated" not in new.stderr
    assert asked == [(("pd", "single"), "pd-vs-single"), (("pd:1+1", "replicas:2x1"), "layouts")]
    assert "pd-vs-single" not in CliRunner().invoke(command, ["--help"]).output


@pytest.mark.parametrize("names", ["pd", "pd,pd", "pd,tea", ""])
def test_layouts_that_are_none_are_refused_before_anything_starts(names: str) -> None:
    done = CliRunner().invoke(command, ["layouts", "--layouts", names])
    assert done.exit_code == 2 and repr(names) in done.output


GENERATOR = """
import json, sys, time
from pathlib import Path
plan = json.loads(Path(sys.argv[2]).read_text())
with open(plan["requests"], "a", buffering=1) as out:
    for step in plan["steps"]:
        if step["name"] == plan["steps"][-1]["name"]:
            while not Path(__file__).with_name("written").exists():  # what was measured is in the file by now
                time.sleep(0.01)
        for number in range(0 if step["name"] == "dies" else 2 if step["name"] == "short" else 3):
            out.write(json.dumps({"step": step["name"], "start": 1.0 + number, "ttft": 0.5, "itls": [0.1, 0.1],
                "latency": 0.7, "prompt_tokens": 8, "output_tokens": 3, "ok": True, "error": ""}) + "\\n")
        if step["name"] == "dies":
            sys.exit(3)
        out.write(json.dumps({"step": step["name"], "end": 9.0}) + "\\n")
"""


@pytest.mark.parametrize("last", ["second", "short", "dies"])
def test_points_are_in_the_file_before_the_run_ends_however_it_ends(tmp_path: Path, last: str) -> None:
    """A night's run that is cut in the morning has measured something. The real generator runs in tests/prove."""
    (tmp_path / "generator.py").write_text(GENERATOR)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/generator.py "$@"\n')
    python.chmod(0o755)
    loads = [LoadStep(name, 1, 3, 8, 3) for name in ("first", last)]
    file = results.Growing(tmp_path / "run.jsonl", results.head("sweep", {"mode": "pd"}, "night"))

    def on_load(load: LoadStep, requests: list[Request]) -> None:
        file.add(summarise(load, requests), requests)
        if [point["name"] for point in results.read(tmp_path / "run.jsonl").points] == ["first"]:
            (tmp_path / "written").touch()

    target = Target("http://127.0.0.1:1", "m", "m", python)
    if last == "dies":
        with pytest.raises(ApplianceError, match="ended with 3"):
            run(loads, target, on_load=on_load)
    else:
        run(loads, target, on_load=on_load)
    found = results.read(tmp_path / "run.jsonl")
    counts = {"first": 3} | {"second": {"second": 3}, "short": {"short": 2}, "dies": {}}[last]
    assert {name: len(requests) for name, requests in found.requests.items()} == counts
    assert [point["name"] for point in found.points] == list(counts) and found.label == "night"
    results.write(tmp_path / "again.jsonl", found)
    assert results.read(tmp_path / "again.jsonl").points == found.points
