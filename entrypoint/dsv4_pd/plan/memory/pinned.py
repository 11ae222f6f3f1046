"""KV pools whose size a profile or a person has pinned. Pure."""

from __future__ import annotations

from dsv4_pd.plan.flags.extra_args import engine_flags
from dsv4_pd.plan.placement.place import Placement, RolePlacement
from dsv4_pd.plan.shipped.profiles import Profile
from dsv4_pd.settings.schema import Settings

FLAG = "max-total-tokens"


def pinned_tokens(
    settings: Settings, profile: Profile, placement: Placement, *, by_person: bool = True
) -> dict[str, int]:
    """Member -> the most tokens that its KV pool may have, for those that have such a bound."""
    found = {role.name: token_limit(settings, profile, role, by_person=by_person) for role in placement.roles}
    return {name: tokens for name, tokens in found.items() if tokens is not None}


def token_limit(settings: Settings, profile: Profile, role: RolePlacement, *, by_person: bool = True) -> int | None:
    """The most tokens that a member's KV pool may have; the command line is read after the file, so it wins.

    `by_person`: with what extra arguments say.
    """
    given = {**profile.engine.get("common", {}), **profile.engine.get(role.role, {})}.get(FLAG)
    said = engine_flags(settings.extra_args(role.role)).get(f"--{FLAG}", ()) if by_person else ()
    value = said[0] if said and said[0].isdigit() else given  # the engine refuses another one
    return None if value is None else int(value)
