"""What /status tells about the appliance: enough for a receipt, no secret."""

from __future__ import annotations

import json
from typing import Any

from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.programs.about import settings_hash
from support.plans import eight_cards, make, no_gpu


def known(plan: Plan) -> dict[str, Any]:
    return dict(plan.about)


def test_eight_cards_have_expectations_for_both_roles() -> None:
    told = known(make({}, eight_cards()))
    assert set(told["expected_kv_tokens"]) == {"prefill", "decode"}
    assert all(tokens > 524288 for tokens in told["expected_kv_tokens"].values())
    assert len(told["machine"]["gpus"]) == 8 and told["machine"]["driver"] == "580.95.05"
    assert told["placement"]["decode"]["cpus"] == list(range(32, 64))


def test_demo_expects_what_its_profile_pins() -> None:
    told = known(make({"DSV4_PROFILE": "demo-cpu"}, no_gpu()))
    assert told["expected_kv_tokens"] == {"prefill": 16384, "decode": 16384}


def test_no_secret_is_told_and_none_moves_the_hash() -> None:
    plain, locked = (
        make({"DSV4_PROFILE": "demo-cpu", **more}, no_gpu()) for more in ({}, {"DSV4_API_KEY": "s3cret-key"})
    )
    assert "s3cret-key" not in json.dumps(known(locked))
    assert settings_hash(plain.settings) == settings_hash(locked.settings)


def test_hash_moves_with_what_is_served_and_not_with_places() -> None:
    def hash_of(**more: str) -> str:
        return settings_hash(make({"DSV4_PROFILE": "demo-cpu", **more}, no_gpu()).settings)

    assert hash_of() == hash_of(DSV4_STATE_DIR="/elsewhere")
    assert hash_of() != hash_of(DSV4_CONTEXT_LENGTH="2048")


def test_guard_is_told() -> None:
    plan = make({"DSV4_PROFILE": "demo-cpu"}, no_gpu())
    text = next(file.text for file in plan.files if file.path == plan.paths.guard_config)
    assert json.loads(text)["about"] == known(plan)
