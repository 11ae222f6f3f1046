"""The Docker SDK, which has no types, imported past our own folder docker/, which type checkers take for it."""

from importlib import import_module
from typing import Any

docker: Any = import_module("docker")
import_module("docker.errors")
DockerClient = Any
Container = Any
Image = Any
Volume = Any
