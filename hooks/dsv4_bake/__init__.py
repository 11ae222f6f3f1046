"""Fill the caches of the engine's compilers for a card that is not there: `python -m dsv4_bake.STEP`."""
