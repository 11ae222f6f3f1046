"""What the guard tells others, and the guard that comes after it."""
