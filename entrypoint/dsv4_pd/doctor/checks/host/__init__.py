"""The host's NUMA nodes, CPUs, memory and limits."""
