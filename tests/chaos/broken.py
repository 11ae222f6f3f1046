"""What a fault itself found wrong."""

from __future__ import annotations


class Broken(Exception):
    """The appliance did not do what is promised; the run goes on, and fails."""
