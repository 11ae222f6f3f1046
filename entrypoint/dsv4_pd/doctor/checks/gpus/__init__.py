"""Whether the GPUs are those of the plan, healthy, free and large enough."""
