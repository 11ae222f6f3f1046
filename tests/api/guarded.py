"""The real supervisord and the real guard over a real router; the servers alone are stand-ins."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from conftest import VENVS
from guard.appliance import Appliance
from support.plans import make, no_gpu
from support.ports import free_ports


class Guarded(Appliance):
    """Its router is the one that the plan describes, with the key that only the guard has."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.kind = kind
        super().__init__(folder)
        key = folder / "run/router.control.key"
        key.write_text("of-this-run")
        self.config = replace(self.config, control_key_file=str(key))
        (folder / "run/guard.json").write_text(self.config.to_json())

    def _supervisord(self) -> str:
        (metrics,) = free_ports(1)
        environ = {
            "DSV4_PROFILE": "demo-cpu",
            "DSV4_ROUTER": self.kind,
            "DSV4_HOST": "127.0.0.1",
            "DSV4_ROUTER_PORT": str(self.router),
            "DSV4_ROUTER_METRICS_PORT": str(metrics),
            "DSV4_PREFILL_PORT": str(self.prefill),
            "DSV4_DECODE_PORT": str(self.decode),
            "DSV4_BOOTSTRAP_PORT": str(self.bootstrap),
            "DSV4_ENGINE_PYTHON": str(VENVS / "engine/bin/python"),
        }
        plan = make(environ, no_gpu(), self.folder / "run")
        argv = next(program.argv for program in plan.programs if program.name == "router")
        lines = super()._supervisord().splitlines()
        at = lines.index("[program:router]") + 1
        lines[at] = f"command={shlex.join(argv)}".replace("%", "%%")
        return "\n".join(lines) + "\n"
