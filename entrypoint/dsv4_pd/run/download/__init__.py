"""The model arrives: asked for, fetched, checked, linked into the cache, all before a server starts."""
