"""Whether the GPUs reach each other, and the KV cache gets across."""
