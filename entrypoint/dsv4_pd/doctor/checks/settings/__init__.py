"""Addresses, keys, and variables of the environment that would undo the plan."""
