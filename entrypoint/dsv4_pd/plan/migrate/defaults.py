"""What the product does where nothing is set, as far as that is the same on every machine. Reads the profiles."""

from __future__ import annotations

from functools import cache

from dsv4_pd.plan.disk.paths import profiles_dir
from dsv4_pd.plan.shipped import profiles
from dsv4_pd.settings.schema import PREFIX, Settings


@cache
def _profiled() -> frozenset[str]:
    """Fields that some profile for GPUs has a default of its own for."""
    known = profiles.read_all(profiles_dir()).values()
    return frozenset(name for profile in known if profile.device == "cuda" for name in profile.defaults)


def is_default(variable: str, value: str) -> bool:
    """Whether a setting's value is what it has on every machine anyway.

    >>> is_default("DSV4_PREFILL_PORT", "30000"), is_default("DSV4_PREFILL_MEM_FRACTION", "0.8")
    (True, False)
    """
    field = variable.removeprefix(PREFIX).lower()
    if field in _profiled():
        return False
    default = Settings.model_fields[field].default
    if not isinstance(default, float):
        return str(default) == value
    number = value.removesuffix("s")
    return number.replace(".", "", 1).isdigit() and float(number) == default
