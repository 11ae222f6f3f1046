"""What is around the settings and the facts: folders, model, disks, tools, installed versions. Read once a start."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dsv4_pd.host.facts import HostFacts
from dsv4_pd.host.machine import Machine
from dsv4_pd.host.numa import Permission, Policy
from dsv4_pd.host.read import probe_node
from dsv4_pd.plan import catalogue, folders, model_context
from dsv4_pd.plan.catalogue import Entry
from dsv4_pd.plan.memory_model import Shape
from dsv4_pd.plan.model_files import Model, hub_cache, look, read_config, read_shape
from dsv4_pd.plan.paths import Paths, models_dir, share_dir, venvs_dir
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


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Read once beside the facts; the defaults are a machine in order."""

    paths: Paths
    share: Path
    environ: Mapping[str, str] = field(default_factory=_nothing)  # the operator's own variables
    numa: Permission = field(default_factory=lambda: Permission("membind"))
    model: Model = field(default_factory=lambda: Model(None))
    model_context: int | None = None  # tokens that the model allows; None: not known
    shape: Shape | None = field(default_factory=Shape)  # of the model; None: not one that the memory model knows
    entry: Entry | None = None  # of the catalogue
    config: Mapping[str, Any] | None = None  # the model's config.json, or what the catalogue knows of it
    disks: tuple[Disk, ...] = ()
    executable: frozenset[Path] | None = None  # interpreters that can be started; None: not asked
    tools: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))  # program -> on the path
    versions: Mapping[str, str] = field(default_factory=_nothing)  # installed packages of engine and router
    running: bool = False  # an appliance runs in this run folder: ports and GPUs are then in use by right

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
    machine: Machine,
    interpreters: Iterable[Path],
) -> Surroundings:
    """Ask the machine that we run on."""
    paths = folders.resolve(settings, environ)
    model = _model(settings, environ)
    known = catalogue.find(settings.model, catalogue.read_all(models_dir()))
    return Surroundings(
        paths=paths,
        share=share_dir(),
        environ=environ,
        numa=_permission(settings, facts, machine),
        model=model,
        model_context=_context(model, known),
        shape=read_shape(model, known.config if known else None),
        entry=known,
        config=read_config(model) or (known.config if known else None),
        disks=tuple(_disks(paths, model, hub_cache(environ))),
        executable=frozenset(path for path in interpreters if os.access(path, os.X_OK)),
        tools={name: shutil.which(name, path=environ.get("PATH", os.defpath)) is not None for name in TOOLS},
        versions=installed_versions(settings.engine_python),
        running=appliance_runs(paths.run),
    )


def assume(
    settings: Settings, environ: Mapping[str, str], facts: HostFacts, machine: Machine | None = None
) -> Surroundings:
    """For a machine that we can't ask: in order, but for the NUMA policy that its capture holds and a model given
    as a folder here.
    """
    model = _model(settings, environ)
    known = catalogue.find(settings.model, catalogue.read_all(models_dir()))
    permission = _permission(settings, facts, machine) if machine else Permission("membind")
    return Surroundings(
        paths=folders.resolve(settings, environ),
        share=share_dir(),
        environ=environ,
        numa=permission,
        model=model,
        model_context=_context(model, known),
        shape=read_shape(model, known.config if known else None),
        entry=known,
        config=read_config(model) or (known.config if known else None),
        versions=installed_versions(settings.engine_python),
    )


def _model(settings: Settings, environ: Mapping[str, str]) -> Model:
    """What lies in the model's folder; one that we may not look into is a problem of the model, not the end of all."""
    try:
        return look(settings.model, settings.model_revision, environ)
    except OSError as error:
        where = Path(error.filename or settings.model)
        return Model(where, (f"{where} can't be read ({error.strerror})",))


def _context(model: Model, known: Entry | None) -> int | None:
    """Tokens that the model allows: by its config.json, or what the catalogue knows before it is here."""
    if model.path is not None:
        return model_context.read(model.path)
    return known.context if known else None


def _permission(settings: Settings, facts: HostFacts, machine: Machine) -> Permission:
    """Not tried where nothing is to be bound."""
    return Permission("membind") if settings.numa == "off" else machine.numa(probe_node(facts))


def _disks(paths: Paths, model: Model, hub: Path) -> Iterator[Disk]:
    yield Disk("run", "DSV4_RUN_DIR", paths.run, folders.free_below(paths.run))
    yield Disk("state", "DSV4_STATE_DIR", paths.state, folders.free_below(paths.state))
    yield Disk("cache", "DSV4_CACHE_DIR", paths.cache, folders.free_below(paths.cache))
    if model.path is None:
        yield Disk("model", "HF_HOME", hub, folders.free_below(hub))


def bind_refusal(host: str, number: int) -> str | None:
    """Why a TCP port can't be bound, or None."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        # As the servers do: a port in TIME_WAIT is free for them.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, number))
            sock.listen(1)
        except OSError as error:
            return f"can't be bound ({(error.strerror or str(error)).lower()})"
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
