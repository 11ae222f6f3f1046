"""What the last release promised is kept, or its loss was told: docs/compatibility.md."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dsv4_pd.run.guard.decide.states import initial
from dsv4_pd.run.guard.tell.document import document
from dsv4_pd.run.guard.world import World
from dsv4_pd.run.ops.exposition import samples
from dsv4_pd.settings import deprecated
from guard.appliance import Appliance
from packaging.version import Version
from release import extract, sample
from release.compare import Break, breaks_of, losses, unexcused, unused
from release.promised import FORMAT, promised

ROOT = Path(__file__).resolve().parents[2]
LISTS = {Version(path.stem): path for path in (ROOT / "tests/release/promises").glob("*.json")}
LAST: dict[str, Any] = json.loads(LISTS[max(LISTS)].read_text(encoding="utf-8"))
BREAKS = breaks_of((ROOT / "tests/release/promises/breaks.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    return promised("next")


def test_nothing_that_the_last_release_promised_is_gone_without_a_word(now: dict[str, Any]) -> None:
    """A name that has to go: an entry in settings/deprecated.py, one release ahead."""
    assert list(map(str, unexcused(LAST, now, BREAKS))) == []


def test_every_listed_break_is_one(now: dict[str, Any]) -> None:
    assert unused(LAST, now, BREAKS) == []
    assert all(len(one.why) > 20 and len(one.do) > 10 for one in BREAKS)


def test_every_old_name_is_still_there(now: dict[str, Any]) -> None:
    """An entry that warns of what is gone already would be a lie, as would one without a successor."""
    for one in deprecated.everything():
        assert one.old in now["groups"][one.kind.value], one
        start = one.new.partition(" --")[0]
        assert start in now["groups"][one.kind.value], one


@pytest.mark.parametrize("group", LAST["groups"])
def test_a_loss_in_any_group_is_found(group: str) -> None:
    """Each group is emptied, each detail changed: a comparison that sees neither would excuse everything."""
    last = {**LAST, "deprecated": {}}
    without = copy.deepcopy(last)
    names = list(without["groups"].pop(group))
    assert names and {loss.name for loss in unexcused(last, without, ())} == set(names)
    changed = copy.deepcopy(last)
    named = last["groups"][group].items()
    details = [(name, detail) for name, found in named for detail, value in found.items() if value != []]
    for name, detail in details:
        changed["groups"][group][name][detail] = None
    assert [(loss.name, loss.detail) for loss in unexcused(last, changed, ())] == details


def warned(goes: str) -> tuple[dict[str, Any], dict[str, Any]]:
    before = {"version": "0.4.0", "groups": {"metrics": {"a": {}, "b": {}}}, "deprecated": {"metrics": {}}}
    told = {"new": "b", "since": "0.4.0", "goes": goes}
    now: dict[str, Any] = {"groups": {"metrics": {"b": {}}}, "deprecated": {}}
    return before | {"deprecated": {"metrics": {"a": told}}}, now


def test_a_warning_excuses_only_when_the_release_before_gave_it() -> None:
    before, now = warned("0.5.0")
    assert unexcused(before, now, ()) == unexcused(before, now, (), "0.5.0") == []
    assert [loss.name for loss in unexcused(before, now, (), "0.4.1")] == ["a"], "sooner than it said"
    late = before | {"deprecated": {}}
    assert unexcused(late, now | {"deprecated": before["deprecated"]}, ()), "told together with its end"


def test_a_break_excuses_one_loss_of_a_later_release() -> None:
    before, now = warned("0.9.0")
    before["deprecated"] = {}
    fits = Break("0.5.0", "metrics", "a", "", "", "")
    assert unexcused(before, now, [fits]) == [] and unused(before, now, [fits]) == []
    old, other = Break("0.4.0", "metrics", "a", "", "", ""), Break("0.5.0", "metrics", "b", "", "", "")
    assert len(unexcused(before, now, [old, other])) == 1 and unused(before, now, [old, other]) == [other]


def test_what_is_new_is_no_loss(now: dict[str, Any]) -> None:
    grown = copy.deepcopy(now)
    grown["groups"]["settings"]["DSV4_NEW"] = {"default": "1"}
    grown["groups"]["metrics"]["dsv4_ready"]["labels"].append("more")
    assert list(losses(now, grown)) == []
    assert len(list(losses(grown, now))) == 2


def test_lists_have_the_present_form() -> None:
    for version, path in LISTS.items():
        found = json.loads(path.read_text(encoding="utf-8"))
        assert found["format"] == FORMAT and Version(found["version"]) == version


def test_the_list_has_every_metric_that_the_page_has(now: dict[str, Any]) -> None:
    """A metric without a series in the sample would be promised without its labels, or not at all."""
    rows = [
        line.split("|")[1] for line in (ROOT / "docs/metrics.md").read_text().splitlines() if line.startswith("| `")
    ]
    listed = {name for row in rows for name in re.findall(r"`(dsv4_\w+)", row)}
    assert set(now["groups"]["metrics"]) == listed
    for name, labels in re.findall(r"`(dsv4_\w+)\{([\w,]+)\}", " ".join(rows)):
        assert set(labels.split(",")) <= set(now["groups"]["metrics"][name]["labels"]), name


def test_the_sample_has_no_key_that_no_guard_publishes(now: dict[str, Any]) -> None:
    """A misspelt one would take a metric out of the list, or promise one that never has a series."""
    whole, listed = sample.document(), set(now["groups"]["health_fields"])
    assert set(whole) - {"download"} <= listed  # of the download's own process, before the guard
    assert {f"roles.*.{key}" for key in whole["roles"]["prefill"]} <= listed
    for above in ("canary", "restarts"):
        assert {f"{above}.{key}" for key in whole[above]} <= listed
    assert {f"paths.*.{key}" for path in whole["paths"] for key in path} <= listed


def test_health_fields_are_those_that_a_guard_publishes(now: dict[str, Any], tmp_path: Path) -> None:
    """They are read out of the source; here a guard's own document is made."""
    config = Appliance(tmp_path).config
    world = World(config, None, SimpleNamespace(client=None), lambda: None)  # type: ignore[arg-type]
    found = json.loads(json.dumps(document(config, world, initial(0.0), [])))
    listed = set(now["groups"]["health_fields"])
    assert set(found) <= listed
    for above in ("canary", "restarts", "proof"):
        assert {f"{above}.{key}" for key in found[above]} == {n for n in listed if n.startswith(f"{above}.")}
    assert {f"roles.*.{key}" for role in found["roles"].values() for key in role} <= listed


def test_exit_codes_are_those_of_the_page(now: dict[str, Any]) -> None:
    table = (ROOT / "docs/health.md").read_text().split("## Exit codes")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| (\d+) \|", table, re.MULTILINE)) == set(now["groups"]["exit_codes"])


def test_families_name_their_labels() -> None:
    class Family:
        name, kind = "x", "histogram"
        lines = ('x_bucket{a="1",le="2"} 1', 'x_count{b="x{c=1"} 1')

    assert extract.metrics([Family()]) == {"x": {"kind": "histogram", "labels": ["a", "b"]}}
    assert samples('x{a="1"} 1')
