"""Where things lie, whether a place is ours to write to, and files that others wrote."""
