"""The image's bill of materials, SPDX 2.3 JSON on standard output: sbom.py VENV ...

Debian packages from dpkg, Python distributions from each environment's own records.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

VERSION = Path("/opt/dsv4-pd/version")


def main(venvs: list[str]) -> int:
    packages = [*debian(), *(item for venv in venvs for item in python(Path(venv)))]
    version = VERSION.read_text().strip()
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"dsv4-pd {version}",
        "documentNamespace": f"urn:dsv4-pd:sbom:{version}",
        # A fixed time: the same inputs give the same layer.
        "creationInfo": {"created": "1970-01-01T00:00:00Z", "creators": ["Tool: dsv4-pd docker/sbom.py"]},
        "packages": packages,
    }
    json.dump(document, sys.stdout, indent=1)
    print(f"sbom: {len(packages)} packages", file=sys.stderr)
    return 0 if packages else 1


def debian() -> Iterator[dict[str, Any]]:
    query = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package}\t${Version}\t${Architecture}\n"],
        capture_output=True,
        text=True,
        check=True,
    )
    for line in query.stdout.splitlines():
        name, version, architecture = line.split("\t")
        yield entry("debian", name, version, f"pkg:deb/debian/{name}@{version}?arch={architecture}", "NOASSERTION")


def python(venv: Path) -> Iterator[dict[str, Any]]:
    folders = [str(path) for path in venv.glob("lib/python3.*/site-packages")]
    for dist in sorted(distributions(path=folders), key=lambda dist: dist.name.lower()):
        name = re.sub(r"[-_.]+", "-", dist.name).lower()
        yield entry(venv.name, name, dist.version, f"pkg:pypi/{name}@{dist.version}", licence(dist))


def licence(dist: Distribution) -> str:
    """The SPDX expression that the package declares; its classifiers are no expression."""
    declared = dist.metadata.get_all("License-Expression") or ["NOASSERTION"]
    return str(declared[0])


def entry(group: str, name: str, version: str, url: str, declared: str) -> dict[str, Any]:
    return {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", f"{group}-{name}-{version}"),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseDeclared": declared,
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": url}],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
