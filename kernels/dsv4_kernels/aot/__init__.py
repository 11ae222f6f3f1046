"""Ahead-of-time compilation for a card that is not there, and the compiler's own report of what it needs."""
