"""Whether the driver, its devices and its libraries reach the container."""
