"""What an image was built from, as an in-toto statement with SLSA's predicate of provenance, version 1.

    provenance.py ids TAR             the ids under which engines know the image of `docker save`, one a line
    provenance.py write IMAGE FOLDER  provenance.json there; provenance-buildkit.json where BuildKit attested

BuildKit attests only on an engine with containerd's image store; its statement holds the steps, ours what they took:
the commit, the locks' hashes, the base's digest, the tools' versions. FOLDER holds image.tar and sbom.cdx.json already.
Needs the standard library, git and docker.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LABELS = "org.opencontainers.image."
# `make image` on a machine: the builder vouches for no isolation.
BUILD_TYPE, BUILDER = "urn:dsv4-pd:make-image:1", "urn:dsv4-pd:builder:make"
Json = dict[str, Any]


class Refused(Exception):
    """One line: found, expected, what to do."""


def main(arguments: list[str]) -> int:
    match arguments:
        case ["ids", tar]:
            print(*ids(Path(tar)), sep="\n")
        case ["write", image, folder]:
            try:
                write(image, Path(folder))
            except Refused as refused:
                print(f"provenance: {refused}", file=sys.stderr)
                return 1
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


def write(image: str, folder: Path) -> None:
    """Both statements.

    Raises:
        Refused: the image doesn't say which commit of this repository it is of.
    """
    tar = folder / "image.tar"
    inspected: Json = json.loads(output("docker", "image", "inspect", image))[0]
    labels = (inspected["Config"] or {}).get("Labels") or {}
    made = statement(image, ids(tar), labels, inspected.get("Created", ""), folder / "sbom.cdx.json")
    (folder / "provenance.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    for found in attested(tar):
        (folder / "provenance-buildkit.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def statement(image: str, names: list[str], labels: dict[str, str], created: str, sbom: Path) -> Json:
    """The in-toto statement; `names` are the image's ids, `created` is ISO 8601."""
    if not sbom.exists():
        raise Refused(f"{sbom}: found none, expected the image's bill of materials; build the image again")
    commit = labels.get(f"{LABELS}revision", "")
    if commit.endswith("-dirty"):
        raise Refused(
            f"image {image}: found commit {commit}, expected one without changes beside it; commit and build again"
        )
    try:
        locks = sorted(name for name in output("git", "ls-tree", "--name-only", commit, "docker/").split()
                       if name.endswith(".lock"))  # fmt: skip
    except subprocess.CalledProcessError:
        raise Refused(
            f"image {image}: found commit {commit or 'none'} in its labels, expected one of this repository; "
            "build it with `make image` from a clone"
        ) from None
    subjects = [image, *(f"{image}, manifest {number}" for number in range(1, len(names)))]
    source, base = labels.get(f"{LABELS}source", ""), f"docker:{labels.get(f'{LABELS}base.name', '')}"
    base_digest = labels.get(f"{LABELS}base.digest", "")
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": digest(one)} for name, one in zip(subjects, names, strict=True)],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "flavour": labels.get("dsv4-pd.target", ""),
                    "version": labels.get(f"{LABELS}version", ""),
                    "bake": labels.get("dsv4-pd.baked", ""),
                },
                "resolvedDependencies": [
                    {"uri": f"git+{source}@{commit}" if source else f"git:{commit}", "digest": {"gitCommit": commit}},
                    {"uri": base, "digest": digest(base_digest)}
                    if base_digest
                    else {"uri": base, "annotations": {"digest": "unknown: no registry gave one"}},
                    *({"uri": f"file:{name}", "digest": {"sha256": sha256(shown(commit, name))}} for name in locks),
                    {"uri": "file:Dockerfile", "digest": {"sha256": sha256(shown(commit, "Dockerfile"))}},
                ],
            },
            "runDetails": {
                "builder": {"id": BUILDER, "version": versions()},
                "metadata": {"finishedOn": created},
                "byproducts": [{"name": sbom.name, "digest": {"sha256": sha256(sbom.read_bytes())}}],
            },
        },
    }


def ids(tar: Path) -> list[str]:
    """The configuration's digest, by which the older image store goes, then the digests that containerd's goes by."""
    with tarfile.open(tar) as archive:
        (manifest,) = member(archive, "manifest.json")
        found = [f"sha256:{Path(manifest['Config']).name.removesuffix('.json')}"]
        try:
            index: Json = member(archive, "index.json")
        except KeyError:  # an engine before 25
            return found
        return found + [one["digest"] for one in index["manifests"]]


def attested(tar: Path) -> Iterator[Json]:
    """The statements of provenance that BuildKit put beside the image."""
    with tarfile.open(tar) as archive:
        try:
            index: Json = member(archive, "index.json")
        except KeyError:
            return
        for top in index["manifests"]:
            for one in blob(archive, top["digest"]).get("manifests", []):
                if one.get("annotations", {}).get("vnd.docker.reference.type") != "attestation-manifest":
                    continue
                for layer in blob(archive, one["digest"])["layers"]:
                    if "slsa.dev/provenance" in layer.get("annotations", {}).get("in-toto.io/predicate-type", ""):
                        yield blob(archive, layer["digest"])


def blob(archive: tarfile.TarFile, name: str) -> Json:
    """A JSON document of the tar by its digest, `sha256:…`."""
    found: Json = member(archive, f"blobs/sha256/{name.removeprefix('sha256:')}")
    return found


def member(archive: tarfile.TarFile, name: str) -> Any:
    """A JSON document of the tar by its name; KeyError where there is none."""
    file = archive.extractfile(name)
    assert file is not None, name
    return json.load(file)


def versions() -> dict[str, str]:
    """Of the tools that built it; those of this machine, where it is bundled."""
    return {
        "docker": output("docker", "version", "--format", "{{.Server.Version}}").strip(),
        "buildx": output("docker", "buildx", "version").strip(),
    }


def digest(text: str) -> dict[str, str]:
    """`sha256:ab` -> {"sha256": "ab"}."""
    algorithm, _, value = text.rpartition("@")[2].partition(":")
    return {algorithm: value}


def shown(commit: str, name: str) -> bytes:
    """A file as it was in the commit."""
    return subprocess.run(["git", "show", f"{commit}:{name}"], cwd=ROOT, capture_output=True, check=True).stdout


def sha256(content: bytes) -> str:
    """Hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def output(*command: str) -> str:
    """Of a command in the repository.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
