"""What the plugins in the engine's processes share. Standard library only; see docs/bump-engine.md."""
