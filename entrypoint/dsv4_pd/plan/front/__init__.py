"""What the front is told, and whether the files that it needs can be used."""
