"""What is around the settings and the facts: folders, model, disks, tools, installed versions. Read once a start."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dsv4_pd.host import listening
from dsv4_pd.host.facts import HostFacts
from dsv4_pd.host.machine import Machine
from dsv4_pd.host.numa import Permission, Policy
from dsv4_pd.host.read import probe_node
from dsv4_pd.plan.disk import folders
from dsv4_pd.plan.disk.paths import Paths, share_dir, venvs_dir
from dsv4_pd.plan.model import config as model_config
from dsv4_pd.plan.model.context import derived
from dsv4_pd.plan.model.files import Model, hub_cache, look, read_config, snapshot
from dsv4_pd.plan.model.shape import Shape, shape_of
from dsv4_pd.plan.shipped import catalogue
from dsv4_pd.plan.shipped.catalogue import Entry
from dsv4_pd.settings.schema import Settings

TOOLS = ("gcc", "ninja", "nvcc")  # compile kernels at run time
_PACKAGES = ("sglang", "sglang_router", "nixl", "torch", "triton", "flashinfer_python", "smg")


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Disk:
    """Space below a folder that we write to or read from."""

    purpose: str
    setting: str
    path: Path
    free_bytes: int | None
    executable: bool = True  # whether what lies there may be executed, and loaded as a library


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Read once beside the facts; the defaults are a healthy machine."""

    paths: Paths
    share: Path
    environ: Mapping[str, str] = field(default_factory=_nothing)  # the operator's own variables
    numa: Permission = field(default_factory=lambda: Permission("membind"))
    model: Model = field(default_factory=lambda: Model(None))
    arriving: Path | None = None  # where a model that is not here will lie; None: that takes a commit to know
    model_context: int | None = None  # tokens that the model allows; None: not known
    shape: Shape | None = field(default_factory=Shape)  # of the model; None: not one that the memory model knows
    entry: Entry | None = None  # of the catalogue
    config: Mapping[str, Any] | None = None  # the model's config.json, or what the catalogue knows of it
    unreadable: Mapping[str, str] = field(default_factory=_nothing)  # field -> why the file that it names can't be read
    template: str = ""  # digest of DSV4_CHAT_TEMPLATE's text
    disks: tuple[Disk, ...] = ()
    executable: frozenset[Path] | None = None  # interpreters that can be started; None: not asked
    tools: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))  # program -> on the path
    versions: Mapping[str, str] = field(default_factory=_nothing)  # installed packages of engine and router
    running: bool = False  # an appliance runs in this run folder: ports and GPUs are then in use by right

    @property
    def source(self) -> Path | None:
        """The folder that the servers open; None: it is named after a commit that only the fetch tells."""
        return self.model.path or self.arriving

    @property
    def numa_policy(self) -> Policy:
        """The strongest policy that may be set."""
        return self.numa.policy

    def can_run(self, interpreter: Path) -> bool:
        """Whether an interpreter is there; what nobody looked at is taken to be."""
        return self.executable is None or interpreter in self.executable


def read(
    settings: Settings,
    environ: Mapping[str, str],
    facts: HostFacts,
    models: Mapping[str, Entry],
    machine: Machine,
    interpreters: Iterable[Path],
) -> Surroundings:
    """Ask the machine that we run on."""
    found = _anywhere(settings, environ, models)
    return replace(
        found,
        numa=_permission(settings, facts, machine),
        unreadable=_unreadable(settings),
        template=_digest(settings.chat_template),
        disks=tuple(_disks(found.paths, found.model, hub_cache(environ))),
        executable=frozenset(path for path in interpreters if os.access(path, os.X_OK)),
        tools={name: shutil.which(name, path=environ.get("PATH", os.defpath)) is not None for name in TOOLS},
        running=appliance_runs(found.paths.run),
    )


def assume(
    settings: Settings,
    environ: Mapping[str, str],
    facts: HostFacts,
    models: Mapping[str, Entry],
    machine: Machine | None = None,
) -> Surroundings:
    """For a machine that we can't ask: healthy, but for the NUMA policy that its capture holds and a model given as
    a folder here.
    """
    permission = _permission(settings, facts, machine) if machine else Permission("membind")
    return replace(_anywhere(settings, environ, models), numa=permission)


def _anywhere(settings: Settings, environ: Mapping[str, str], models: Mapping[str, Entry]) -> Surroundings:
    """What is asked of this machine even where another one is planned for."""
    model, known = _model(settings, environ), catalogue.find(settings.model, models)
    own = read_config(model)
    said = own or (known.config if known else None)
    return Surroundings(
        paths=folders.resolve(settings, environ),
        share=share_dir(),
        environ=environ,
        model=model,
        arriving=snapshot(settings.model, settings.model_revision, environ),
        model_context=(derived(own) if own else None) or (known.context if known else None),
        shape=shape_of(said, model.total_bytes or (known.weights_bytes if known else None)) if said else None,
        entry=known,
        config=model_config.sound(said) if said else None,
        versions=installed_versions(settings.engine_python),
    )


def _model(settings: Settings, environ: Mapping[str, str]) -> Model:
    """What lies in the model's folder; one that we may not look into is a problem of the model, not the end of all."""
    try:
        return look(settings.model, settings.model_revision, environ)
    except OSError as error:
        where = Path(error.filename or settings.model)
        return Model(where, (f"{where} can't be read ({error.strerror})",))


def _unreadable(settings: Settings) -> dict[str, str]:
    """Files that settings name and that can't be read as text."""
    if settings.chat_template is None:
        return {}
    try:
        settings.chat_template.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        return {"chat_template": (error.strerror or str(error)) if isinstance(error, OSError) else "not UTF-8 text"}
    return {}


def _digest(path: Path | None) -> str:
    """Of a file's content; blank where there is none that can be read."""
    with contextlib.suppress(OSError):
        return hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path else ""
    return ""


def _permission(settings: Settings, facts: HostFacts, machine: Machine) -> Permission:
    """Not tried where nothing is to be bound."""
    return Permission("membind") if settings.numa == "off" else machine.numa(probe_node(facts))


def _disks(paths: Paths, model: Model, hub: Path) -> Iterator[Disk]:
    yield Disk("run", "DSV4_RUN_DIR", paths.run, folders.free_below(paths.run))
    yield Disk("state", "DSV4_STATE_DIR", paths.state, folders.free_below(paths.state))
    yield Disk("cache", "DSV4_CACHE_DIR", paths.cache, folders.free_below(paths.cache), folders.executable(paths.cache))
    if model.path is None:
        yield Disk("model", "HF_HOME", hub, folders.free_below(hub))


def bind_refusal(host: str, number: int) -> int | None:
    """Why a TCP port can't be bound (errno), or None."""
    try:
        listening.open_socket(host, number, 1).close()
    except OSError as error:
        return error.errno or errno.EIO
    return None


def appliance_runs(run: Path) -> bool:
    """Whether an appliance holds the lock of a run folder."""
    try:
        with (run / "lock").open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def installed_versions(engine_python: Path) -> dict[str, str]:
    """Read from the names of installed distributions: importing them would take seconds."""
    found: dict[str, str] = {}
    for environment in sorted(venvs_dir(engine_python).glob("*/lib/python3.*/site-packages")):
        for package in _PACKAGES:
            for path in environment.glob(f"{package}-*.dist-info"):
                found.setdefault(package, path.name.removesuffix(".dist-info").split("-", 1)[1])
    return found
