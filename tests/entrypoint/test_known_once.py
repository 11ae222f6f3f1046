"""Facts that one place knows: by the source, so that a second copy is seen before it disagrees."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import dsv4_pd
import pytest
from dsv4_bake import card
from dsv4_kernels import cards, layout
from dsv4_pd.plan.resolve import engine_side
from dsv4_pd.run.console import live
from dsv4_pd.run.ops import page
from dsv4_pd.run.states import SERVING, TONES, StateName
from dsv4_pd.settings.layout import PAIR, PAIR_ROLES, ROLES

PACKAGE = Path(dsv4_pd.__file__).parent
SOURCES = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}


def texts(source: str) -> Iterator[str]:
    """Text constants of a module, those inside f-strings too; docstrings aside."""
    tree = ast.parse(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def holding(pattern: str) -> set[str]:
    return {name for name, source in SOURCES.items() if any(re.search(pattern, text) for text in texts(source))}


def test_the_address_that_our_programs_meet_on_has_one_name() -> None:
    """As a value or in a URL; in sentences, and where addresses of others are read, it is only mentioned."""
    # The settings are the layer beside: there it is the default of a setting, and what `localhost` means in one.
    reads = {"plan/migrate/router_map.py", "plan/migrate/engine_map.py", "doctor/checks/settings/proxies.py"}
    settings = {"settings/schema.py", "settings/names_of.py"}
    assert holding(r"^127\.0\.0\.1$|//127\.0\.0\.1") - reads - settings == {"host/loopback.py"}


def both_roles(source: str) -> bool:
    """Whether a module has a list of its own that holds both roles of a pair."""
    lists = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Tuple | ast.List | ast.Set))
    return any({"prefill", "decode"} <= {getattr(item, "value", None) for item in node.elts} for node in lists)


def test_roles_have_one_list() -> None:
    assert set(PAIR_ROLES) == {group.role for group in PAIR.groups} and set(PAIR_ROLES) < set(ROLES)
    words = "settings/redaction/names.py"  # of names that hide no secret; these are two of many
    assert {name for name, source in SOURCES.items() if both_roles(source)} - {words} == {"settings/layout.py"}


def test_the_engines_counters_of_the_link_are_read_in_one_place() -> None:
    """Their names say mb and gb_s, and mean MiB and GiB/s."""
    assert holding("kv_transfer_(total|speed)") - {"verify/checks/kv_link.py"} == {"run/ops/kv_link.py"}
    assert set(re.findall(r"kv_transfer_\w+", SOURCES["verify/checks/kv_link.py"])) == {"kv_transfer_total_mb_count"}
    assert holding("^(gb_s|gb_per_s|mb)$") == set(), "what is published is in bytes and bytes_per_s"


def test_the_card_that_is_not_here_is_the_same_for_all_who_stand_in_for_it() -> None:
    target = cards.of_capability(120)
    assert {target.sms, card.SMS, engine_side.SMS} == {188}
    assert card.NAME == engine_side.NAME and card.NAME.startswith(target.name)
    assert layout.INDEX_KEY_BYTES * layout.INDEX_PAGE == layout.INDEX_PAGE_BYTES == 8448


def test_every_state_looks_the_same_on_the_page_and_on_the_terminal() -> None:
    assert set(TONES) == set(StateName)
    assert {state for state, tone in TONES.items() if tone == "good"} < SERVING
    assert f"const TONES = {json.dumps(TONES)};" in page.html()
    rest = page.html().replace(json.dumps(TONES), "")
    assert not [state for state in StateName if f'"{state}"' in rest], "the page knows a state on its own"
    assert set(TONES.values()) <= set(re.findall(r"--(\w+):", rest))
    looks = {tone: {live.style(state) for state in StateName if TONES[state] == tone} for tone in TONES.values()}
    assert all(len(styles) == 1 for styles in looks.values()) and len({min(s) for s in looks.values()}) == 4


@pytest.mark.parametrize("state", ["", "BOOTED", "ready"])
def test_a_state_of_another_version_is_shown_as_one_on_its_way(state: str) -> None:
    assert live.style(state) == live.style("BOOTING")


@pytest.mark.parametrize("name", ["Verdict", "Record", "Load", "Check", "Outcome", "SettingsError"])
def test_a_name_that_readers_would_mix_up_is_one_class(name: str) -> None:
    roots = (PACKAGE, *(PACKAGE.parents[1] / part for part in ("kernels/dsv4_kernels", "hooks", "gate")))
    sources = [path.read_text(encoding="utf-8") for root in roots for path in root.rglob("*.py")]
    assert sum(len(re.findall(rf"^class {name}\b", source, re.MULTILINE)) for source in sources) == 1
