"""What prefill and decode must agree on: from one source, and the same in every server's file, or refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.disk.paths import profiles_dir
from dsv4_pd.plan.flags import agreement
from dsv4_pd.plan.plan import make_plan
from dsv4_pd.plan.programs import owned_flags
from dsv4_pd.plan.shipped import profiles
from dsv4_pd.plan.survey import survey_facts
from support.plans import eight_cards, make

KNOWN = profiles.read_all(profiles_dir())


@pytest.mark.parametrize("flag", ["page-size", "kv-cache-dtype", "revision", "model-path", "tokenizer-path"])
def test_what_makes_the_kv_cache_is_no_argument_at_all(flag: str) -> None:
    assert f"--{flag}" in owned_flags.engine_owned(KNOWN)


@pytest.mark.parametrize("layout", ["pd:4+4", "pd:2x2+2x2", "replicas:4x2"])
def test_the_plan_gives_every_server_the_same(layout: str) -> None:
    plan = make({"DSV4_LAYOUT": layout, "DSV4_SPECULATIVE": "dspark"}, eight_cards())
    flags = {one.name: yaml.safe_load(one.files[0].text) for one in plan.programs if one.files and one.gpus}
    assert len(flags) == len(plan.placement.roles)
    assert list(agreement.differences(flags)) == []
    assert {"model-path", "speculative-algorithm", "context-length"} <= flags[min(flags)].keys()


@pytest.mark.parametrize("table", [{"decode": {"page-size": 64}}, {"prefill": {"kv-cache-dtype": "bf16"}}])
def test_a_profile_that_sets_it_for_one_role_is_refused(table: dict[str, dict[str, Any]]) -> None:
    found = survey_facts({}, eight_cards())
    plan = found.planned()
    profile = replace(plan.profile, engine=table)
    with pytest.raises(SettingsError, match="DSV4_PROFILE") as caught:
        make_plan(plan.settings, profile, plan.facts, found.around)
    assert "unset for" in str(caught.value) and "[engine.common]" in str(caught.value)
