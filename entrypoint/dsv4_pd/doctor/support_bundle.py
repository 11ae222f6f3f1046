"""A support bundle: what somebody needs to help, redacted, in one archive."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from dsv4_pd.settings.redact import Redactor

# Variables whose names say that their values are nobody's business.
_SECRET_NAME = ("TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "COOKIE")
_PREFIXES = ("DSV4_", "CUDA_", "NVIDIA_", "NCCL_", "UCX_", "SGLANG_", "HF_", "PYTORCH_", "OMP_", "TORCH_")
_NAMES = ("LD_LIBRARY_PATH", "PATH", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_LOG_TAIL = 2 << 20


def secrets_of(environ: Mapping[str, str], known: Iterable[str]) -> list[str]:
    """Every value that must not leave: the known ones, and those of variables that are named like a secret."""
    named = [value for name, value in environ.items() if is_secret(name) and len(value) >= 4]
    return [*filter(None, known), *named]


def is_secret(name: str) -> bool:
    """
    >>> is_secret("HF_TOKEN"), is_secret("HF_HOME"), is_secret("DSV4_API_KEY_FILE")
    (True, False, False)
    """
    return not name.endswith("_FILE") and any(word in name.upper() for word in _SECRET_NAME)


def environment(environ: Mapping[str, str]) -> str:
    """The variables that matter to us, values of secrets replaced by their length."""
    kept = sorted(name for name in environ if name.startswith(_PREFIXES) or name in _NAMES)
    return "".join(
        f"{name}={f'({len(environ[name])} characters)' if is_secret(name) else environ[name]}\n" for name in kept
    )


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
    """Write the archive, mode 0600; every line of every file goes through the redactor. Returns its size."""
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
    text = data.decode("utf-8", "replace")
    return "".join(redactor.line(line) for line in text.splitlines(keepends=True)).encode()
