from __future__ import annotations

import pytest
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.disk.paths import profiles_dir
from dsv4_pd.plan.shipped import profiles
from dsv4_pd.settings.schema import Settings

SHIPPED = profiles.read_all(profiles_dir())


@pytest.mark.parametrize("name", profiles.available(profiles_dir()))
def test_every_shipped_profile_loads_and_sets_only_settings_that_exist(name: str) -> None:
    profile = SHIPPED[name]
    assert profile.description and profile.tensor_parallel
    assert set(profile.defaults) <= set(Settings.model_fields)
    Settings(**profile.defaults)  # and only values that the settings accept
    assert set(profile.engine) <= {"common", "prefill", "decode", "single"}
    assert (profile.gpus is None) == (profile.device == "cpu")


def test_the_four_profiles_are_shipped() -> None:
    pairs = {"rtx-pro-6000-8x", "rtx-pro-6000-4x", "demo-cpu"}
    assert set(profiles.available(profiles_dir())) == pairs | {"rtx-pro-6000-2x", "single"}


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(SettingsError, match="auto or one of demo-cpu, rtx-pro-6000-2x, rtx-pro-6000-4x"):
        profiles.pick(SHIPPED, "demo")


def test_an_unknown_key_is_an_error() -> None:
    with pytest.raises(TypeError):
        profiles.parse("x", 'description = "d"\ndevice = "cpu"\ntypo = 1\n[tensor_parallel]\nsingle = 1\n')
