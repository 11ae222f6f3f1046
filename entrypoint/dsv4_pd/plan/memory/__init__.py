"""What a card's memory is spent on, and whether a plan fits into it."""
