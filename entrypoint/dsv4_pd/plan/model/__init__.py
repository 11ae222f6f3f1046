"""The model: its files, and what its config.json says."""
