"""Kernel, Docker, engine, tools, and the room on the disks."""
