"""Both roles on the only card: what is folded, and that the product alone refuses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# In a process of its own: the patch stays in force for the whole process.
SCRIPT = """
import shutil, sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, {tests!r})
import dsv4_pd
from gpu import one_card
from support import plans
from dsv4_pd.plan.shipped import data as shipped
from dsv4_pd.errors import HardwareError

folder = Path({folder!r})
for path in [*Path({root!r}, "config/profiles").glob("*.toml"), *Path({tests!r}, "gpu/profiles").glob("*.toml")]:
    shutil.copy(path, folder)
shipped.profiles_dir = lambda: folder
card = replace(plans.eight_cards(1).gpus[0], compute_capability=(9, 0), numa_node=None)
facts = replace(plans.eight_cards(1), gpus=(card,) * {cards})
places = one_card.patch(dsv4_pd) if {patched} else 0
try:
    plan = plans.make({{"DSV4_PROFILE": "ring-one-card", "DSV4_MODEL": "/models/m"}}, facts)
except HardwareError as error:
    sys.exit(f"refused: {{error}}")
print(places > 0, [role.role for role in plan.placement.roles], [role.base_gpu_id for role in plan.placement.roles],
      len(plan.placement.visible),
      {{dict(program.env).get("CUDA_VISIBLE_DEVICES") for program in plan.programs[:2]}} == {{card.uuid}})
"""


def planned(folder: Path, *, patched: bool, cards: int = 1) -> subprocess.CompletedProcess[str]:
    script = SCRIPT.format(tests=str(ROOT / "tests"), root=str(ROOT), folder=str(folder), patched=patched, cards=cards)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


def test_both_roles_see_the_one_card(tmp_path: Path) -> None:
    done = planned(tmp_path, patched=True)
    assert done.stdout.strip() == "True ['prefill', 'decode'] [0, 0] 1 True", done.stderr[-800:]


def test_the_product_gives_each_role_a_card_of_its_own(tmp_path: Path) -> None:
    done = planned(tmp_path, patched=False)
    assert done.returncode == 1 and "1 fitting GPU" in done.stderr


@pytest.mark.parametrize("cards", [2])
def test_with_more_cards_it_is_not_used(tmp_path: Path, cards: int) -> None:
    done = planned(tmp_path, patched=True, cards=cards)
    assert done.returncode == 1 and "found 2 cards, expected one" in done.stderr
