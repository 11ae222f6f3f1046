"""A certificate that signs itself, for loopback."""

from __future__ import annotations

import subprocess
from pathlib import Path


def certificate(folder: Path, name: str, tag: str = "") -> tuple[Path, Path]:
    """Certificate and key for 127.0.0.1."""
    cert, key = folder / f"cert{tag}.pem", folder / f"key{tag}.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", str(key), "-out", str(cert), "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key
