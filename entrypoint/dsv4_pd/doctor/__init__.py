"""What is wrong with this host, why, and how to fix it: the checks that `serve` and `doctor` run."""
