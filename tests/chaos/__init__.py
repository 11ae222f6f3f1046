"""Random faults against the real CPU pair under steady load: `make chaos`."""
