"""Environment variables and directives of a unit -> what becomes of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from dsv4_pd.plan.flags import command_line
from dsv4_pd.plan.migrate.accounts import Fate, Ledger
from dsv4_pd.plan.migrate.unit import Unit
from dsv4_pd.settings.redact import known_secrets
from dsv4_pd.settings.redaction.names import is_secret_variable

_HOST = "of the old installation: the image has its own"
_VOLUME = "the image has a volume for it; without containers, set it in the shell as before"
_CACHES = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")
_OWN = {
    "CUDA_DEVICE_ORDER": "the plan sets it",
    "SGLANG_HOST_IP": "the plan sets it: loopback",
    "SGLANG_DISAGGREGATION_NIXL_BACKEND": "UCX is the engine's own",
    "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "DSV4_PCIE_ALLREDUCE=auto",
    "SGLANG_SM120_MMA_FLASHMLA": "a patched engine's switch; DSV4_KERNELS=auto installs the kernels that it stood for",
    "SGLANG_SM120_TRITON_INDEXER": "a patched engine's switch; the engine's own indexer is level or ahead now",
    "SGLANG_CACHE_DIR": "DSV4_CACHE_DIR, in the image a volume",
    "SGLANG_JIT_CACHE_DIR": "DSV4_CACHE_DIR, in the image a volume",
    "HF_HOME": _VOLUME,
    "HF_HUB_CACHE": _VOLUME,
    "HUGGINGFACE_HUB_CACHE": _VOLUME,
    "PYTHONUNBUFFERED": "the logs are not buffered",
    "TMPDIR": "below the run folder",
    "DSV4_CONTEXT_LIMIT": "the plan sets it",
}
_PLACES = frozenset(
    ["PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "HOME", "USER", "LOGNAME", "SHELL", "CUDA_HOME",
     "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "TRITON_CACHE_DIR", "XDG_CACHE_HOME", "LANG", "LC_ALL", "PWD", "CC", "CXX"]
)  # fmt: skip
_OTHERS = re.compile(
    r"(HF|HUGGINGFACE|NVIDIA|CUDA|NCCL|UCX|NIXL|SGLANG|SGL|TORCH|PYTORCH|TRITON|FLASHINFER|OMP|MKL|GLOO|OTEL|TZ|"
    r"SSL_CERT|HTTP|HTTPS|NO|ALL|http|https|no|all)(_|$)"
)


def account(ledger: Ledger, unit: str, variables: Mapping[str, str], origins: Mapping[str, str]) -> None:
    """Every variable of one unit."""
    for name, value in variables.items():
        if name in _CACHES:
            ledger.caches.setdefault(name, value)
        where = origins.get(name, "")
        shown = f"{name}={command_line.HIDDEN if is_secret_variable(name) else value}"
        if is_secret_variable(name):
            _secret(ledger, unit, name, value, where)
        elif name == "CUDA_VISIBLE_DEVICES":
            ledger.note(unit, shown, Fate.SETTING, "DSV4_PREFILL_GPUS, DSV4_DECODE_GPUS")
        elif name in _OWN:
            ledger.note(unit, shown, Fate.OWN, _OWN[name])
        elif name in _PLACES:
            ledger.note(unit, shown, Fate.NONE, _HOST)
        elif name.startswith(("SGLANG_", "SGL_")) and name not in command_line.parsers()["engine_variables"]:
            ledger.note(unit, shown, Fate.NONE, "SGLang 0.5.23 reads no such variable")
        elif _OTHERS.match(name):
            _keep(ledger, unit, shown, name, value, where)
        else:
            ledger.note(unit, shown, Fate.NONE, "no program of the appliance is known to read it")


def _secret(ledger: Ledger, unit: str, name: str, value: str, where: str) -> None:
    if value:
        ledger.secrets.add(value)
    if value and value == ledger.key:
        ledger.note(unit, f"{name}={command_line.HIDDEN}", Fate.SETTING, "DSV4_API_KEY_FILE")
    elif name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_TOKEN"):
        ledger.notes.append(f"HF_TOKEN_FILE: write the token of {name} ({where}) into a file, and name it there")
        ledger.note(unit, f"{name}={command_line.HIDDEN}", Fate.KEPT, "as HF_TOKEN_FILE, in a file of your own")
    else:
        why = f"a secret, and no program of the appliance reads it from here; it stays in {where}"
        ledger.note(unit, f"{name}={command_line.HIDDEN}", Fate.NONE, why)


def _keep(ledger: Ledger, unit: str, shown: str, name: str, value: str, where: str) -> None:
    """One environment for all servers: two values can't both be kept."""
    if hidden := known_secrets({name: value}):
        ledger.secrets.update(hidden)
        ledger.notes.append(f"{name}: it holds a password and is not printed; copy it from {where} into .env")
        ledger.note(unit, f"{name}={command_line.HIDDEN}", Fate.KEPT, "as it is, once you have copied it")
        return
    present = ledger.kept.setdefault(name, value)
    if present == value:
        if value.startswith("/"):
            ledger.notes.append(f"{name}: a container does not have {value}: mount it there, or leave the variable out")
        ledger.note(unit, shown, Fate.KEPT, "as it is")
    else:
        ledger.note(unit, shown, Fate.NONE, f"{name}={present} stands already, and all programs have one environment")


_DIRECTIVES = {
    "Restart": "the guard restarts servers within DSV4_RESTART_LIMIT, compose the container (restart: unless-stopped)",
    "RestartSec": "the guard's own pauses",
    "StartLimitBurst": "DSV4_RESTART_LIMIT, 3",
    "StartLimitIntervalSec": "DSV4_RESTART_WINDOW, 30m",
    "StartLimitInterval": "DSV4_RESTART_WINDOW, 30m",
    "TimeoutStartSec": "DSV4_START_TIMEOUT, 1h",
    "TimeoutStopSec": "DSV4_DRAIN_TIMEOUT, and compose's stop_grace_period",
    "KillMode": "a stop ends the whole tree",
    "KillSignal": "TERM, after what runs has ended",
    "SendSIGKILL": "a stop ends the whole tree",
    "LimitMEMLOCK": "compose.yaml sets it (ulimits)",
    "LimitNOFILE": "compose.yaml sets it (ulimits)",
    "LimitSTACK": "compose.yaml sets it (ulimits)",
    "TasksMax": "compose.yaml sets it (pids_limit)",
    "After": "the guard starts in order",
    "Before": "the guard starts in order",
    "Wants": "one container has all programs",
    "Requires": "one container has all programs",
    "BindsTo": "one container has all programs",
    "PartOf": "one container has all programs",
    "WantedBy": "Docker starts the container at boot (`systemctl enable docker`)",
    "RequiredBy": "Docker starts the container at boot (`systemctl enable docker`)",
    "Type": "serve reports READY itself",
    "User": "the image's own user, 10001",
    "Group": "the image's own group",
    "WorkingDirectory": "nothing depends on it",
    "StandardOutput": "docker logs",
    "StandardError": "docker logs",
    "SyslogIdentifier": "docker logs; each line names its program",
    "Description": "a name for people",
    "Documentation": "a name for people",
    "OOMScoreAdjust": "not set: compose's oom_score_adj does it",
    "CPUAffinity": "DSV4_NUMA=auto binds each server to its cards' node",
    "NUMAPolicy": "DSV4_NUMA=auto binds each server to its cards' node",
    "NUMAMask": "DSV4_NUMA=auto binds each server to its cards' node",
    "PrivateTmp": "a container has its own",
    "UnsetEnvironment": "a container's environment holds what .env says",
}
_NO_DIRECTIVE = {
    "ExecStartPre": "a command of your own before the start: run it on the host, or from a unit that starts compose",
    "ExecStartPost": "a command of your own after the start: `docker compose up --wait`, then the command",
    "ExecStop": "the container stops by TERM",
    "ExecStopPost": "a command of your own after the stop",
    "ExecReload": "a change of settings is a restart",
    "PassEnvironment": "a container has only what .env and compose.yaml say",
}


_SYSTEMD = "a directive of systemd; in a container, an option of compose where there is one"


def account_directives(ledger: Ledger, unit: Unit) -> None:
    """Everything else of the unit; a command of one's own may hold a secret and is named by its program alone."""
    for item in unit.directives:
        what = f"{item.key}={item.value}"
        if item.key.startswith("Exec"):
            what = f"{item.key}={item.value.split(' ')[0]} …"
        if why := _DIRECTIVES.get(item.key):
            ledger.note(unit.name, what, Fate.OWN, why)
        else:
            ledger.note(unit.name, what, Fate.NONE, _NO_DIRECTIVE.get(item.key, _SYSTEMD))


def account_wrappers(ledger: Ledger, unit: str, wrappers: Iterable[tuple[str, ...]]) -> None:
    """numactl and its like."""
    for words in wrappers:
        named = [word if word.startswith("-") else word.partition("=")[0] for word in words]
        shown = " ".join(named if words[0] == "env" else words)
        if words[0] == "numactl":
            spread = any(word.startswith(("-i", "--interleave")) for word in words)
            why = "memory is bound to the cards' node, never spread" if spread else "DSV4_NUMA=auto binds each server"
            ledger.note(unit, shown, Fate.NONE if spread else Fate.OWN, why)
        elif words[0] in ("docker", "podman", "nerdctl"):
            ledger.note(unit, shown, Fate.NONE, "compose.yaml is the container now: its mounts, devices and limits")
        elif words[0] in ("taskset", "chrt", "nice", "ionice"):
            ledger.note(unit, shown, Fate.NONE, "the servers run with the container's own priority, bound by DSV4_NUMA")
        else:
            ledger.note(unit, shown, Fate.OWN, "nothing to wrap: serve is the parent of every program")
