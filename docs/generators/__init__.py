"""Generators of the pages that describe the code: each is a function from nothing to text."""
