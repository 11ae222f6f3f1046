"""Choosing by measuring: layouts and engine switches are tried on this host, under the user's load, with a receipt."""
