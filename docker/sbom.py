"""The image's bill of materials, CycloneDX 1.6 JSON on standard output: sbom.py VERSION VENV ...

Python distributions by cyclonedx-py, one component with components of its own for each environment; Debian's packages
from dpkg. Validated, without a network, against the schema that comes with the generator. The same image gives the same
text.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

Json = dict[str, Any]


def main(arguments: list[str]) -> int:
    version, *venvs = arguments
    document = bill(version, list(debian(dpkg())), {Path(venv).name: environment(Path(venv)) for venv in sorted(venvs)})
    text = json.dumps(document, indent=1) + "\n"
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        print(f"sbom: not valid CycloneDX 1.6: {error}", file=sys.stderr)
        return 1
    print(text, end="")
    print(f"sbom: {sum(1 + len(one['components']) for one in document['components'])} components", file=sys.stderr)
    return 0


def bill(version: str, packages: list[Json], environments: dict[str, Json]) -> Json:
    """One document. References are only unique inside their environment, so each gets its name in front."""
    groups = [group("debian", packages)]
    edges: list[Json] = []
    for name, found in environments.items():
        groups.append(group(name, [renamed(one, name) for one in found.get("components", [])]))
        edges += [
            {"ref": f"{name}:{edge['ref']}", "dependsOn": [f"{name}:{ref}" for ref in edge["dependsOn"]]}
            for edge in found.get("dependencies", [])
            if edge.get("dependsOn")
        ]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"bom-ref": "dsv4-pd", "type": "container", "name": "dsv4-pd", "version": version},
            "tools": {"components": [{"type": "application", "name": "cyclonedx-py"}]},
        },
        "components": groups,
        "dependencies": [{"ref": "dsv4-pd", "dependsOn": [one["bom-ref"] for one in groups]}, *edges],
    }


def group(name: str, components: list[Json]) -> Json:
    """An environment, or all of Debian's packages."""
    kind = "operating-system" if name == "debian" else "application"
    return {"bom-ref": name, "type": kind, "name": name, "components": components}


def renamed(component: Json, environment: str) -> Json:
    return {**component, "bom-ref": f"{environment}:{component['bom-ref']}"}


def environment(venv: Path) -> Json:
    """What cyclonedx-py sees in a virtual environment."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--sv", "1.6"]
    done = subprocess.run([*command, str(venv / "bin/python")], capture_output=True, text=True, check=True)
    found: Json = json.loads(done.stdout)
    return found


def dpkg() -> str:
    """Name, version, architecture and source of each installed package, a line each, tabs between."""
    form = "${Package}\\t${Version}\\t${Architecture}\\t${source:Package}\\n"
    return subprocess.run(["dpkg-query", "-W", "-f", form], capture_output=True, text=True, check=True).stdout


def debian(listed: str) -> Iterator[Json]:
    """
    >>> [one["purl"] for one in debian("libc6\\t2.36-9+deb12u1\\tamd64\\tglibc\\ntini\\t1:0.19.0-1\\tamd64\\ttini")]
    ['pkg:deb/debian/libc6@2.36-9%2Bdeb12u1?arch=amd64&distro=debian-12', 'pkg:deb/debian/tini@1:0.19.0-1?arch=amd64&distro=debian-12']
    """  # noqa: E501
    for line in sorted(listed.splitlines()):
        name, version, architecture, source = line.split("\t")
        escaped = version.replace("%", "%25").replace("+", "%2B")
        yield {
            "bom-ref": f"debian:{name}:{architecture}",
            "type": "library",
            "name": name,
            "version": version,
            "purl": f"pkg:deb/debian/{name}@{escaped}?arch={architecture}&distro=debian-12",
            "properties": [{"name": "dpkg:source", "value": source}],
        }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
