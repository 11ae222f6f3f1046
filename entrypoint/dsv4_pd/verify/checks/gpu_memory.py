"""Each card carries one role's share, and nothing else sits on it."""

from __future__ import annotations

from typing import Any

from dsv4_pd.verify.base import Result, Subject, failed, passed, skipped

SPREAD = 0.05  # of a card: tensor-parallel ranks hold the same


def check(subject: Subject) -> Result:
    """Used and total memory per card, by role."""
    status = subject.status
    if not ((status.get("about") or {}).get("machine") or {}).get("gpus"):
        return skipped("no GPU on this profile")
    cards = {name: role["gpu_memory"] for name, role in status.get("roles", {}).items() if role.get("gpu_memory")}
    placed = {name: role["gpus"] for name, role in status["about"]["placement"].items()}
    return judge(cards, placed)


def judge(cards: dict[str, list[dict[str, Any]]], placed: dict[str, list[str]]) -> Result:
    """The verdict on the cards that each role reports."""
    for name, uuids in placed.items():
        seen = [card["uuid"] for card in cards.get(name, [])]
        if sorted(seen) != sorted(uuids):
            return failed(f"{name} should hold {uuids}, reports {seen}", "dsv4-pd doctor; a lost card needs the host")
        shares = [card["used_gb"] / card["total_gb"] for card in cards[name]]
        if max(shares) - min(shares) > SPREAD:
            return failed(
                f"{name}'s cards differ: {', '.join(f'{share:.0%}' for share in shares)}",
                "nvidia-smi names the process that does not belong there",
                cards=cards,
            )
    told = "; ".join(
        f"{name}: " + ", ".join(f"{card['used_gb']:.0f}/{card['total_gb']:.0f} GB" for card in seen)
        for name, seen in cards.items()
    )
    return passed(told, cards=cards)
