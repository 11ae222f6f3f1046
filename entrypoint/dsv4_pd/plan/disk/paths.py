"""Where things lie: shared data of the distribution, and the folders of one running appliance."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

_IMAGE_KEY = Path("/opt/dsv4-pd/cache-key")  # written by the Dockerfile


def share_dir() -> Path:
    """The folder that holds `config/` and `demo/model/`: beside the installation, or the checkout."""
    installed = Path(sys.prefix) / "share" / "dsv4-pd"
    return installed if installed.is_dir() else Path(__file__).resolve().parents[4]


def venvs_dir(engine_python: Path) -> Path:
    """The folder of all environments: VENVS/engine/bin/python lies in it, unless the operator names another engine."""
    above = engine_python.parents
    return above[2] if len(above) > 2 else Path(sys.prefix).parent


def models_dir() -> Path:
    """The catalogue's folder."""
    return share_dir() / "config" / "models"


def presets_dir() -> Path:
    """The folder of workload presets."""
    return share_dir() / "config" / "presets"


def profiles_dir() -> Path:
    """The profiles' folder."""
    return share_dir() / "config" / "profiles"


def image_key() -> str:
    """The key of the image that we run in, which names its compilers; blank outside an image."""
    try:
        return _IMAGE_KEY.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


@dataclass(frozen=True, slots=True)
class Paths:
    """The folders of one appliance; everything below `run` goes with the process tree."""

    run: Path
    state: Path
    cache: Path
    temp: Path  # TMPDIR of every child: emptied with the run, and on a file system that may execute

    @property
    def logs(self) -> Path:
        """One capped log per program."""
        return self.run / "log"

    @property
    def supervisor_socket(self) -> Path:
        """supervisord's XML-RPC, a unix socket of mode 0700."""
        return self.run / "supervisor.sock"

    @property
    def supervisor_conf(self) -> Path:
        """The rendered supervisord configuration."""
        return self.run / "supervisord.conf"

    @property
    def health(self) -> Path:
        """The guard's published state."""
        return self.run / "health.json"

    @property
    def verdict(self) -> Path:
        """The guard's last word: exit code and cause."""
        return self.run / "exit.json"

    @property
    def guard_config(self) -> Path:
        """What the guard needs to know, mode 0600."""
        return self.run / "guard.json"

    @property
    def control_key(self) -> Path:
        """The key to the router's administration, mode 0600: the router and the guard read it, nobody else has it."""
        return self.run / "router.control.key"

    @property
    def front_config(self) -> Path:
        """What the front needs to know, mode 0600."""
        return self.run / "front.json"

    @property
    def front_key(self) -> Path:
        """The guard's own key at the front, mode 0600: it is let in while nobody else is."""
        return self.run / "front.guard.key"

    @property
    def plugin_records(self) -> Path:
        """Where engine plugins prove, per process, that they are live."""
        return self.run / "plugins"

    def log(self, program: str) -> Path:
        """The log of one program."""
        return self.logs / f"{program}.log"
