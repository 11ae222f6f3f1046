"""The engine's compiled kernels on disk: what is there, whether it is whole, and what happens to what is not."""
