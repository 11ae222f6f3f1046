"""What the guard is told."""
