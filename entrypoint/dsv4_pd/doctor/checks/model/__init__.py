"""Whether the model is here and whole, known, or can be fetched."""
