"""Missing hardware, in words: no GPU, or too few that fit. Pure."""

from __future__ import annotations

from dsv4_pd.errors import HardwareError, Problem
from dsv4_pd.host.facts import HostFacts
from dsv4_pd.host.nvml_causes import explained
from dsv4_pd.plan.placement.gpu_choice import eligible, minimum_gb, unfit_reason
from dsv4_pd.plan.shipped.profiles import Profile
from dsv4_pd.settings.schema import Settings


def require_gpus(facts: HostFacts) -> None:
    """Raises HardwareError where the driver lists no GPU."""
    if facts.gpus:
        return
    inside = facts.software.container is not None
    read, remedy = explained(facts.gpu_error or "the driver lists no GPU", inside, facts.gpu_error_code)
    raise HardwareError(
        [
            Problem(
                "no GPU visible",
                read,
                "NVIDIA GPUs that the driver lists",
                f"{remedy}; DSV4_PROFILE=demo-cpu runs the whole appliance without a GPU",
            )
        ]
    )


def too_few(settings: Settings, profile: Profile, facts: HostFacts, count: int = 0) -> Problem:
    """`count`: what the layout asks for; 0 leaves it to the profile."""
    need = profile.gpus
    assert need is not None
    fit = len(eligible(settings, need, facts.gpus))
    unfit = [f"{gpu.index} ({gpu.name}): {why}" for gpu in facts.gpus if (why := unfit_reason(settings, need, gpu))]
    unfit += [f"{card.index}: does not answer (NVML: {card.words})" for card in facts.lost_gpus]
    listed = f" (not counted: {'; '.join(unfit)})" if unfit else ""
    major, minor = need.compute_capability
    own = settings.model_copy(update={"min_vram_gb": None})
    lower = "lower or unset DSV4_MIN_VRAM_GB, " if len(eligible(own, need, facts.gpus)) > fit else ""
    return Problem(
        f"profile {profile.name}",
        f"{fit} fitting GPU{'s' if fit != 1 else ''} of {len(facts.gpus) + len(facts.lost_gpus)}{listed}",
        f"{count or need.count} of compute capability {major}.{minor} with {minimum_gb(settings, need):g} GB or more",
        f"{lower}choose a smaller {'DSV4_LAYOUT' if settings.layout else 'DSV4_PROFILE'}, name the cards in "
        "DSV4_PREFILL_GPUS and DSV4_DECODE_GPUS, "
        "or run DSV4_PROFILE=demo-cpu",
    )
