"""What another version of the engine would break, read from its sources: nothing of it is imported or run."""
