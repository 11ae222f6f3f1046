"""A support bundle: what somebody needs to help, redacted, in one archive."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path

from dsv4_pd.settings.redact import Redactor
from dsv4_pd.settings.redaction.names import is_secret_variable
from dsv4_pd.settings.schema import FOREIGN, PREFIX, names

_PREFIXES = ("DSV4_", "CUDA_", "NVIDIA_", "NCCL_", "UCX_", "SGLANG_", "HF_", "PYTORCH_", "OMP_", "TORCH_")
_NAMES = ("LD_LIBRARY_PATH", "PATH", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_LOG_TAIL = 2 << 20


def environment(environ: Mapping[str, str]) -> str:
    """The variables that matter to us; of a secret, and of a `DSV4_` name that is no setting, only the length.

    A misspelt name of a setting that is a secret looks like any other.
    """
    kept = sorted(name for name in environ if name.startswith(_PREFIXES) or name in _NAMES)
    return "".join(f"{name}={_shown(name, environ[name])}\n" for name in kept)


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
