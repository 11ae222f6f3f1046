"""A support bundle: what somebody needs to help, redacted, in one archive."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dsv4_pd import __version__
from dsv4_pd.doctor.catalogue import examine
from dsv4_pd.doctor.report import as_text, as_values
from dsv4_pd.host.capture import text_of, to_json
from dsv4_pd.host.facts import HostFacts
from dsv4_pd.host.machine import CAPTURE_FILE
from dsv4_pd.plan import show
from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.situation import Situation
from dsv4_pd.settings.redact import Redactor
from dsv4_pd.settings.redaction.names import is_secret_variable
from dsv4_pd.settings.schema import FOREIGN, PREFIX, names

_PREFIXES = ("DSV4_", "CUDA_", "NVIDIA_", "NCCL_", "UCX_", "SGLANG_", "HF_", "PYTORCH_", "OMP_", "TORCH_")
_NAMES = ("LD_LIBRARY_PATH", "PATH", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_LOG_TAIL = 2 << 20


def collect(situation: Situation, machine: dict[str, Any], facts: HostFacts) -> dict[str, bytes]:
    """Name → content: report, plan, environment, capture and facts as they may be shown, and the run's logs."""
    environ, found = situation.around.environ, examine(situation)
    texts = {
        "version.txt": f"dsv4-pd {__version__}\n",
        "doctor.txt": as_text(found) + "\n",
        "doctor.json": json.dumps(as_values(found), indent=2) + "\n",
        "facts.json": to_json(facts),
        "environment.txt": environment(environ),
    }
    if situation.plan is None:
        texts["plan.txt"] = f"{situation.refusal}\n"
    else:
        shown = replace(situation, facts=facts, plan=_without_strangers(situation.plan))
        texts["plan.txt"] = show.as_text(shown) + "\n"
        texts["plan.json"] = json.dumps(show.as_dict(shown), indent=2) + "\n"
    own = {name: text.encode() for name, text in texts.items()} | {CAPTURE_FILE: text_of(machine).encode()}
    return own | run_files(situation.around.paths.run)


def _without_strangers(plan: Plan) -> Plan:
    """Every program inherits the whole environment; most of it is nobody's business and explains nothing."""
    return replace(plan, environ={name: value for name, value in plan.environ.items() if _matters(name)})


def _matters(name: str) -> bool:
    return name.startswith(_PREFIXES) or name in _NAMES


def environment(environ: Mapping[str, str]) -> str:
    """The variables that matter to us; of a secret, and of a `DSV4_` name that is no setting, only the length.

    A misspelt name of a setting that is a secret looks like any other.
    """
    return "".join(f"{name}={_shown(name, environ[name])}\n" for name in sorted(filter(_matters, environ)))


def _shown(name: str, value: str) -> str:
    strange = name.startswith(PREFIX) and name.upper() not in names() and name.upper() not in FOREIGN
    if value and (strange or is_secret_variable(name)):
        return f"({len(value)} characters)"
    return value.replace("\n", "\\n")


def run_files(run: Path) -> dict[str, bytes]:
    """Logs (their ends) and state of a running or ended appliance; generated files with keys stay out."""
    wanted = [*sorted(run.glob("log/*.log*")), *(run / name for name in ("health.json", "link.json", "exit.json")),
              *sorted(run.glob("plugins/*.json"))]  # fmt: skip
    found: dict[str, bytes] = {}
    for path in wanted:
        try:
            found[str(path.relative_to(run))] = path.read_bytes()[-_LOG_TAIL:]
        except OSError:
            continue
    return found


def renamed(files: Mapping[str, bytes], names: Mapping[str, str]) -> dict[str, bytes]:
    """The files with each name of this machine (a GPU's UUID) replaced by the one that stands for it."""
    found = dict(files)
    for real, invented in names.items():
        found = {name: data.replace(real.encode(), invented.encode()) for name, data in found.items()}
    return found


def pack(target: Path, files: Mapping[str, bytes], redactor: Redactor | None) -> int:
    """Write the archive, mode 0600; every file goes through the redactor, whole. Returns its size."""
    stamp = int(time.time())
    with target.open("xb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
        target.chmod(0o600)
        for name, data in sorted(files.items()):
            clean = _clean(data, redactor)
            entry = tarfile.TarInfo(f"{target.name.removesuffix('.tar.gz')}/{name}")
            entry.size, entry.mtime, entry.mode = len(clean), stamp, 0o600
            archive.addfile(entry, io.BytesIO(clean))
    return target.stat().st_size


def _clean(data: bytes, redactor: Redactor | None) -> bytes:
    if redactor is None:
        return data
    return redactor.text(data.decode("utf-8", "replace")).encode()  # whole: a secret may run over lines
