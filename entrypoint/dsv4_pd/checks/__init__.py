"""Preflight and doctor: one check a file, all of them listed here in the order of the report."""

from __future__ import annotations

from dsv4_pd.checks.preflight import numa_policy, prove_link, refuse

__all__ = ["numa_policy", "prove_link", "refuse"]
