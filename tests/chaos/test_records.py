"""Long runs in slices: what is recorded, what is still to be done, and what the report makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos import faults, records, report
from chaos.account import Disturbance, Request, Timeline
from chaos.clients import Outcomes
from chaos.run import Done, Order, Report

MARK = {"router": "smg", "seed": 1, "commit": "abc", "slice": "one"}
TIMELINE = Timeline([(0.0, "READY"), (12.0, "RECOVERING"), (40.0, "READY")])


def fault(number: int, ready: int = 50, **changed: Any) -> records.Line:
    base = {"line": "fault", "number": number, "fault": "kill decode", "did": "kill -9 decode", "act_s": 0.1,
            "back_s": 20.0, "count_s": 3.0, "back": True, "broken": "", "answered": {"ready": ready}, "failed": {},
            "hung": 0, "wrong": []}  # fmt: skip
    return MARK | base | changed


def end(**changed: Any) -> records.Line:
    base = {"line": "end", "exit_code": 0, "leftovers": [], "unfinished": 0, "start_s": 30.0, "wall_s": 90.0,
            "answered": {}, "failed": {}, "hung": 0, "wrong": []}  # fmt: skip
    return MARK | base | changed


def test_a_slice_is_the_same_whoever_did_the_slices_before() -> None:
    table = faults.FAULTS
    whole = Order(7, 1, 60).deal(table)
    assert [number for number, _ in whole] == list(range(1, 61))
    assert Order(7, 1, 9).deal(table) + Order(7, 10, 60).deal(table) == whole
    assert Order(8, 1, 60).deal(table) != whole
    assert {each.name for _, each in whole[: len(table)]} == {each.name for each in table}, "each kind comes once first"


def test_the_details_of_a_fault_are_its_numbers() -> None:
    rolls = [Order(7, first, 60).choices(31).random() for first in (1, 31)]
    assert rolls[0] == rolls[1] != Order(7, 1, 60).choices(32).random()


def test_the_next_slice_begins_where_nothing_is_recorded() -> None:
    lines = [fault(1), fault(2), end(), fault(3) | {"router": "sglang-router"}, fault(5)]
    assert records.next_number(lines, "smg", 1) == 3
    assert records.next_number(lines, "smg", 2) == 1
    assert records.next_number([*lines, fault(3), fault(4)], "smg", 1) == 6


def test_each_request_is_told_of_once(tmp_path: Path) -> None:
    record, done = Outcomes(), Report(done=[Disturbance(10.0, 10.0, 2.0)], exit_code=0)
    clients, watcher = SimpleNamespace(outcomes=record), SimpleNamespace(timeline=TIMELINE)
    run = SimpleNamespace(clients=clients, report=done, watcher=watcher)
    recorder = records.Recorder(tmp_path / "smg-1.jsonl", MARK, run)  # type: ignore[arg-type]
    record.requests += [Request(1.0, 2.0), Request(9.0, 11.0, "stream cut"), Request(20.0, 21.0, "503")]
    recorder.fault(Done(1, "kill decode", "kill -9 decode", 0.04, 21.26, 3.0, True))
    record.requests += [Request(41.0, 42.0), Request(43.0, 80.0, "no answer")]
    record.wrong.append("4, not 5")
    recorder.end(30.0, 90.0)
    first, last = records.read(tmp_path)
    assert (first["answered"], first["failed"]) == ({"ready": 1}, {"not_serving": 1, "in_flight": 1})
    assert (first["back_s"], first["hung"], first["number"]) == (21.3, 0, 1)
    assert (last["answered"], last["failed"]) == ({"ready": 1}, {"ready": 1})
    assert (last["hung"], last["wrong"], last["exit_code"]) == (1, ["4, not 5"], 0)


WHOLE = [*(fault(number) for number in range(1, 61)), end()]


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (WHOLE, "yes"),
        (WHOLE[1:], "so far (59 of 60)"),
        ([fault(1)] * 60 + [end()], "so far (1 of 60)"),
        (WHOLE[:-1], "**no**: 1 slices without an end"),
        ([*WHOLE, fault(7, back=False)], "**no**: 1 never READY again"),
        ([*WHOLE, fault(7, broken="a stranger heard a prompt")], "**no**: 1 broken"),
        ([*WHOLE, fault(7, hung=2)], "**no**: 2 hung"),
        ([*WHOLE, fault(7, wrong=["x"])], "**no**: 1 wrong"),
        ([*WHOLE[:-1], end(unfinished=1)], "**no**: 1 hung"),
        ([*WHOLE[:-1], end(leftovers=["process 7"])], "**no**: 1 left behind"),
        ([*WHOLE[:-1], end(exit_code=1)], "**no**: 1 bad exit codes"),
        ([*WHOLE[:-1], end(exit_code=None)], "**no**: 1 bad exit codes"),
        ([*WHOLE[:-1], end(failed={"ready": 3, "not_serving": 900})], "yes"),  # 3 of 3,003
        ([*WHOLE[:-1], end(failed={"ready": 4})], "**no**: 4 too many failed"),
    ],
)
def test_what_a_sequence_shows(lines: list[records.Line], verdict: str) -> None:
    assert report.totals(lines).verdict == verdict


def test_the_page_holds_the_table_and_nothing_else_changes(tmp_path: Path) -> None:
    page = f"before\n{report.BEGIN}old\n{report.END}\nafter\n"
    lines = [*WHOLE, fault(1) | {"router": "sglang-router", "commit": "def", "slice": "two"}]
    filled = report.fill(page, lines)
    assert filled.startswith("before\n") and filled.endswith(f"{report.END}\nafter\n") and "old" not in filled
    assert "| smg | 1 | 60 | 1 | 3000 | 0 | yes |" in filled
    assert "61 faults of 1 kinds; versions tried: abc, def." in filled
    assert report.fill(filled, lines) == filled
    assert "No slice" in report.fill(page, [])
    with pytest.raises(ValueError, match="expected <!-- BEGIN chaos"):
        report.fill("no marks", lines)


def test_every_committed_line_can_be_read() -> None:
    for file in records.FOLDER.glob("*.jsonl"):
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        assert {records.path(line["router"], line["seed"]) for line in lines} == {file}
        report.table(lines)


def test_the_table_in_the_documentation_is_of_these_records() -> None:
    page = report.PAGE.read_text(encoding="utf-8")
    assert report.fill(page, list(records.read())) == page, "run `make chaos-report`"
