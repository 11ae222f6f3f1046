"""Whether requests really come through: canaries, what excuses a failed one, proofs of path and plugins."""
