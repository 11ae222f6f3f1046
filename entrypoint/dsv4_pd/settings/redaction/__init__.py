"""How secrets are found in text: by their value in any spelling, by the name before them, by their own shape."""
