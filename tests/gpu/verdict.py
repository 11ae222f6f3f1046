"""What is demanded of a kernel, in figures. Standard library alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass

# Ours against the engine's own kernels, both measured against the oracle: this much farther is still noise.
FARTHER = 1.15
FARTHER_FLOOR = 2e-4  # nats of mean KL: below it two bfloat16 pipelines cannot be told apart
# Ours against the engine's own may differ by so many times what two runs of the engine's own differ by, or by its
# distance from the oracle, whichever is larger.
NOISE_TIMES = 4.0


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
    allowed = FARTHER * stock_oracle.kl_mean + FARTHER_FLOOR
    if not ours_oracle.kl_mean <= allowed:
        why.append(f"mean KL from the oracle {ours_oracle.kl_mean:.3g}, the engine's own {stock_oracle.kl_mean:.3g}")
    close = max(NOISE_TIMES * noise.kl_mean, stock_oracle.kl_mean) + FARTHER_FLOOR
    if not ours_stock.kl_mean <= close:
        why.append(f"mean KL from the engine's own {ours_stock.kl_mean:.3g}, expected at most {close:.3g}")
    apart = max(NOISE_TIMES * noise.dlogprob_mean, stock_oracle.dlogprob_mean) + 5 * FARTHER_FLOOR
    if not ours_stock.dlogprob_mean <= apart:
        why.append(
            f"mean |dlogprob| from the engine's own {ours_stock.dlogprob_mean:.3g}, expected at most {apart:.3g}"
        )
    least = min(noise.agree, stock_oracle.agree) - 0.02
    if not ours_stock.agree >= least:
        why.append(f"top-1 agreement with the engine's own {ours_stock.agree:.3f}, expected at least {least:.3f}")
    return why
