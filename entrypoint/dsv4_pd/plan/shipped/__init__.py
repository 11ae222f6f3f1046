"""The data that the product ships: profiles, presets, the catalogue of models."""
