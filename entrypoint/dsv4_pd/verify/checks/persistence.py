"""The appliance comes back after a crash and after a reboot of the host."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dsv4_pd.verify.base import Result, Subject, failed, passed, skipped

LASTING = ("always", "unless-stopped")
# What systemd says of a unit that it starts at boot. A socket alone starts Docker when somebody asks it something.
_AT_BOOT = ("enabled", "enabled-runtime", "alias")
_ENGINES = ("docker", "podman")


@dataclass(frozen=True, slots=True)
class Seen:
    """What decides whether a container comes back."""

    policy: str  # of the engine: "unless-stopped", "no", ...
    unit: str  # who starts it at boot: "docker.service", "podman-restart.service", or its own of a quadlet
    state: str | None  # of that unit, in systemd's words; None: no systemd here
    created: datetime | None = None
    started: datetime | None = None
    booted: datetime | None = None  # the host

    @property
    def own_unit(self) -> bool:
        """Whether systemd itself restarts the container."""
        return self.unit not in ("docker.service", "podman-restart.service")

    @property
    def came_back_s(self) -> float | None:
        """How long after the host's boot it ran again; None where it has seen no boot."""
        if self.created is None or self.started is None or self.booted is None:
            return None
        return (self.started - self.booted).total_seconds() if self.created < self.booted <= self.started else None


def check(subject: Subject) -> Result:
    """The restart policy, whether the engine itself starts at boot, and whether a boot was seen, as far as can be."""
    name = subject.options.container
    if name is None:
        where = "the container can't see its own restart policy" if _contained(subject) else "it runs outside Docker"
        return skipped(where, "on the host: dsv4-pd verify --container NAME --only persistence")
    engines = [engine for engine in _ENGINES if shutil.which(engine)]
    if not engines:
        return skipped("no docker or podman command here", "run this check where docker inspect works")
    said = ""
    for engine in engines:
        done = subprocess.run([engine, "inspect", name], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return judge(_seen(engine, json.loads(done.stdout)[0]), name)
        said = said or f"{engine} inspect {name}: {done.stderr.strip()}"
    return failed(said, f"{engines[0]} ps names the containers")


def judge(seen: Seen, name: str) -> Result:
    """The verdict on what was seen."""
    details = {"policy": seen.policy, "unit": seen.unit, "unit_state": seen.state}
    if not seen.own_unit and seen.policy not in LASTING:
        return failed(
            f"restart policy of {name}: {seen.policy or 'no'}; a reboot of the host ends the service",
            f"set it in compose.yaml; for now: docker update --restart unless-stopped {name}",
            **details,
        )
    if seen.state is not None and seen.state not in _AT_BOOT:
        return failed(f"{seen.unit} is {seen.state}: nothing starts {name} at boot", _remedy(seen), **details)
    read = f"{name}: started by {seen.unit}" if seen.own_unit else f"restart policy of {name}: {seen.policy}"
    read += (
        f", {seen.unit} {seen.state}" if seen.state else "; no systemd here to ask whether the engine starts at boot"
    )
    if (back := seen.came_back_s) is not None:
        return passed(f"{read}; it came back {back:.0f} s after the host's last boot", **details)
    return passed(f"{read}; no boot of the host since it was created, so none was seen", **details)


def _remedy(seen: Seen) -> str:
    if seen.own_unit:
        return "give its .container file [Install] WantedBy=multi-user.target, then systemctl daemon-reload"
    return f"sudo systemctl enable {seen.unit}"


def _seen(engine: str, found: Mapping[str, Any]) -> Seen:
    """From `inspect`'s answer, systemd's and the kernel's."""
    own = ((found.get("Config") or {}).get("Labels") or {}).get("PODMAN_SYSTEMD_UNIT")
    unit = own or {"docker": "docker.service", "podman": "podman-restart.service"}[engine]
    return Seen(
        policy=str(found["HostConfig"]["RestartPolicy"]["Name"]),
        unit=unit,
        state=_state(unit, own is not None),
        created=moment(found.get("Created")),
        started=moment((found.get("State") or {}).get("StartedAt")),
        booted=None if os.environ.get("DOCKER_HOST") else _booted(),  # another host's engine
    )


def _state(unit: str, own: bool) -> str | None:
    """Whether systemd starts a unit at boot. Every quadlet is "generated"; who wants it is what counts."""
    if not Path("/run/systemd/system").is_dir():
        return None
    question = ["show", "--property=WantedBy", "--value", unit] if own else ["is-enabled", unit]
    done = subprocess.run(["systemctl", *question], capture_output=True, text=True, check=False)
    said = done.stdout.strip()
    return ("enabled" if said else "wanted by nothing") if own else said or "not there"


def moment(text: object) -> datetime | None:
    """
    >>> moment("2026-11-30T10:00:00.123456789Z").isoformat(), moment("soon")
    ('2026-11-30T10:00:00.123456+00:00', None)
    """
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _booted() -> datetime | None:
    stat = Path("/proc/stat")
    seconds = re.search(r"^btime (\d+)$", stat.read_text(encoding="ascii"), re.MULTILINE) if stat.exists() else None
    return datetime.fromtimestamp(int(seconds[1]), UTC) if seconds else None


def _contained(subject: Subject) -> bool:
    return bool((subject.status.get("about") or {}).get("container"))
