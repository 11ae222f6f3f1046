"""docs/health.md shows the diagram that the code has, and the code has the edges that the design names."""

from __future__ import annotations

from pathlib import Path

from dsv4_pd.run.states import ARRIVING, CLOSING, StateName
from generators.diagram import edges, fill

PAGE = Path(__file__).resolve().parents[2] / "docs/health.md"
READY, DEGRADED, RECOVERING = StateName.READY, StateName.DEGRADED, StateName.RECOVERING


def test_the_page_is_fresh() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert fill(text) == text, "stale: run `make docs`"


def test_the_edges_of_the_design() -> None:
    found, members = edges(), edges(member=True)
    assert {(READY, DEGRADED), (DEGRADED, READY), (RECOVERING, READY), (READY, RECOVERING)} <= found
    for name in set(StateName) - CLOSING - ARRIVING:
        assert (name, StateName.STOPPING) in found | members
    assert not [edge for edge in found if edge[0] in CLOSING], "an ending is final"
    assert not [edge for edge in found if StateName.SAFE in edge and edge[1] is not StateName.STOPPING]
    assert not [edge for edge in found if edge[1] is DEGRADED and edge[0] is not READY], "doubt is only for who serves"
    assert not [edge for edge in found if StateName.JOINABLE in edge], "on one host the router's canary proves the path"
    assert {
        (StateName.JOINABLE, READY),
        (READY, StateName.JOINABLE),
        (StateName.LOADING, StateName.JOINABLE),
    } <= members
    assert not [edge for edge in members if edge[0] in CLOSING], "an ending is final"
