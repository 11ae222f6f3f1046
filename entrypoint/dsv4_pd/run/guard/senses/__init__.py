"""How the guard observes: what programs answer, whether requests come through, and what the host shows."""
