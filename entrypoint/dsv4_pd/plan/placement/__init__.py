"""Which members there are, and on which GPUs, CPUs and NUMA nodes each of them runs."""
