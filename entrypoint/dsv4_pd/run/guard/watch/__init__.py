"""One program as the guard sees it: its processes, how they ended, and what its log says."""
