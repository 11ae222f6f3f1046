"""Every package that an image ships has a licence that may be shipped, and the list says what the packages say."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.metadata import distributions
from pathlib import Path

import pytest
from release import licences
from release.licences import Licences, Reason

ROOT = Path(__file__).resolve().parents[2]
LISTED = licences.parse((ROOT / licences.FILE).read_text())
LOCKS = [(ROOT / f"docker/{name}.lock").read_text() for name in licences.SHIPPED]
DEMO = ("engine-cpu", "engine-cpu-nodeps", "engine-cpu-torch", "router", "smg", "appliance")


def test_all_that_is_shipped_may_be() -> None:
    assert list(licences.problems(LISTED, LOCKS)) == []
    assert len(LISTED.shipped) > 200


def test_every_lock_of_an_image_is_looked_at() -> None:
    """Each `*.lock` that the Dockerfile installs, but for the tools of the build, which are in no layer."""
    used = set(re.findall(r"docker/([\w-]+)\.lock", (ROOT / "Dockerfile").read_text()))
    assert used - {"build", "sbom", "engine-cpu-pip"} <= set(licences.SHIPPED)


@pytest.mark.parametrize("name", ["engine", "router", "smg", "appliance"])
def test_the_list_says_what_the_packages_declare(name: str) -> None:
    folders = [str(path) for path in (ROOT / f".venvs/{name}").glob("lib/python3*/site-packages")]
    if not folders:
        pytest.skip(f".venvs/{name} is not there; make engine")
    declared = {
        licences.normal(dist.name): dist.metadata["License-Expression"]
        for dist in distributions(path=folders)
        if "License-Expression" in dist.metadata
    }
    assert len(declared) > 2 and list(licences.lies(LISTED, declared)) == []


def found(given: Licences, locks: list[str]) -> str:
    return "\n".join(licences.problems(given, locks))


def test_an_unknown_licence_is_refused() -> None:
    assert "new-one: found no licence" in found(LISTED, [*LOCKS, "new_one==1.0 \\\n    --hash=sha256:00\n"])


@pytest.mark.parametrize(
    "expression",
    [
        "GPL-3.0-only",
        "MIT AND AGPL-3.0-or-later",
        "LicenseRef-Mine",
        "GPL-3.0-only OR SSPL-1.0",
        "Apache-2.0 WITH Classpath-exception-2.0",
    ],
)
def test_an_unacceptable_licence_is_refused(expression: str) -> None:
    changed = replace(LISTED, shipped={**LISTED.shipped, "aiohttp": expression})
    said = found(changed, LOCKS)
    assert "aiohttp: found" in said and "expected a licence in `allow`" in said


@pytest.mark.parametrize("expression", ["Apache", "MIT AND", "see the file LICENSE", ""])
def test_what_is_no_expression_is_refused(expression: str) -> None:
    changed = replace(LISTED, shipped={**LISTED.shipped, "aiohttp": expression})
    assert "aiohttp: found" in found(changed, LOCKS)


@pytest.mark.parametrize("expression", ["MIT", "GPL-3.0-only OR MIT", "MIT AND (GPL-2.0-only OR Apache-2.0)"])
def test_one_side_of_an_or_is_enough(expression: str) -> None:
    assert found(replace(LISTED, shipped={**LISTED.shipped, "aiohttp": expression}), LOCKS) == ""


def test_a_reason_excuses_only_its_package_and_its_licence() -> None:
    nvidia = replace(LISTED, shipped={**LISTED.shipped, "aiohttp": "LicenseRef-NVIDIA-Proprietary"})
    assert "aiohttp: found LicenseRef-NVIDIA-Proprietary" in found(nvidia, LOCKS)
    other = Reason("GPL-3.0-only", ("easydict",), "yes", "")
    assert "easydict: found a reason for GPL-3.0-only" in found(
        replace(LISTED, reasons=(*LISTED.reasons, other)), LOCKS
    )
    odd = Reason("LGPL-3.0-only", ("easydict",), "maybe", "")
    assert "found ship = 'maybe'" in found(replace(LISTED, reasons=(*LISTED.reasons, odd)), LOCKS)


def test_what_is_in_no_lock_is_refused() -> None:
    assert "gone: found it in no lock" in found(replace(LISTED, shipped={**LISTED.shipped, "gone": "MIT"}), LOCKS)


def test_every_package_of_nvidia_s_terms_has_one_reason() -> None:
    held = {name for name, text in LISTED.shipped.items() if "NVIDIA" in text}
    named = [name for reason in LISTED.reasons if "NVIDIA" in reason.licence for name in reason.packages]
    assert sorted(named) == sorted(held) and all(len(reason.why) > 30 for reason in LISTED.reasons)


def test_another_declaration_is_found() -> None:
    assert list(licences.lies(LISTED, {"aiohttp": "MIT AND Apache-2.0"})) == []
    assert "expected GPL-3.0-only, which it declares" in "".join(licences.lies(LISTED, {"aiohttp": "GPL-3.0-only"}))


def test_the_demo_s_image_holds_nothing_that_has_to_be_checked() -> None:
    """docs/image.md says so: it may be given to anyone."""
    names = set().union(*(licences.locked((ROOT / f"docker/{name}.lock").read_text()) for name in DEMO))
    assert not names & {name for reason in LISTED.reasons if reason.ship != "yes" for name in reason.packages}
    assert not [name for name in names if "NVIDIA" in LISTED.shipped.get(name, "")]
