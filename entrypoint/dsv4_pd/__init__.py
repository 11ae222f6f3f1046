"""The control plane of dsv4-pd: reads the environment, plans the placement, supervises the servers."""

__version__ = "0.1.0"
