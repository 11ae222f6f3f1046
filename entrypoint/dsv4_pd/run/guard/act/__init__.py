"""The guard's hands, and nothing else that acts on processes."""
