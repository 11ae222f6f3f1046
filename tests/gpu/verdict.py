"""What is demanded of a kernel, in figures. Standard library alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass

# Ours and the engine's own, both measured against the oracle: this much farther is still noise.
FARTHER = 1.15
KL_FLOOR, DLOGPROB_FLOOR = 2e-4, 1e-3  # nats: below it two bfloat16 pipelines cannot be told apart
# Ours reads the same quantised cache and activations as the engine's own, so it lies nearer to it than the oracle does.
# On an H200 (2026-11-30), as shares of the oracle's distance from the engine's own. A model with little training: ours
# 0.03 to 0.51 (KL) and 0.22 to 0.37 (|dlogprob|), a kernel one page off 1.09 or more. One that recalls, whose every
# rounding decides what is looked at next: ours 0.30 to 0.63 and 0.52 to 0.82; wrong kernels have not run on it yet.
NEARER_KL, NEARER_DLOGPROB = 0.75, 0.9
NOISE_TIMES = 4.0  # or within so many times what two runs of the engine's own differ by


@dataclass(frozen=True, slots=True)
class Difference:
    """dlogprob: of the forced token; kl: of the whole distribution, in nats; agree: same most likely token."""

    tokens: int
    dlogprob_mean: float
    dlogprob_max: float
    kl_mean: float
    kl_max: float
    agree: float

    def figures(self) -> dict[str, float]:
        return {name: float(f"{value:.4g}") for name, value in asdict(self).items()}


def verdict(noise: Difference, stock_oracle: Difference, ours_stock: Difference, ours_oracle: Difference) -> list[str]:
    """Why ours is refused; empty when it passes.

    noise: the engine's own kernels against themselves. The oracle decides; the comparison with the engine's own catches
    a fault that happens to lie no farther from the oracle.
    """
    why = []
    allowed = FARTHER * stock_oracle.kl_mean + KL_FLOOR
    if not ours_oracle.kl_mean <= allowed:
        why.append(f"mean KL from the oracle {ours_oracle.kl_mean:.3g}, expected at most {allowed:.3g}")
    close = max(NOISE_TIMES * noise.kl_mean, NEARER_KL * stock_oracle.kl_mean) + KL_FLOOR
    if not ours_stock.kl_mean <= close:
        why.append(f"mean KL from the engine's own {ours_stock.kl_mean:.3g}, expected at most {close:.3g}")
    apart = max(NOISE_TIMES * noise.dlogprob_mean, NEARER_DLOGPROB * stock_oracle.dlogprob_mean) + DLOGPROB_FLOOR
    if not ours_stock.dlogprob_mean <= apart:
        found = ours_stock.dlogprob_mean
        why.append(f"mean |dlogprob| from the engine's own {found:.3g}, expected at most {apart:.3g}")
    least = min(noise.agree, stock_oracle.agree) - 0.02
    if not ours_stock.agree >= least:
        why.append(f"top-1 agreement with the engine's own {ours_stock.agree:.3f}, expected at least {least:.3f}")
    return why
