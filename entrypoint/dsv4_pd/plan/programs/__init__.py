"""What supervisord runs: command lines, environments and configuration files."""
