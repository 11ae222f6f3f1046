"""Flags as the pinned programs read them, before any of them is started."""
