"""What the bundle says of the image's making: which engines know it by which id, and what it was built from."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((Path(__file__).parent / "provenance.schema.json").read_text())
IMAGE = "registry.example/dsv4-pd:97.1.0"
BASE = "b" * 64


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Saved:
    """A tar as `docker save` makes it: blobs by digest, index.json above them, manifest.json for older readers."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def blob(self, document: Any) -> str:
        content = json.dumps(document).encode()
        self.files[f"blobs/sha256/{sha256(content)}"] = content
        return f"sha256:{sha256(content)}"

    def write(self, folder: Path) -> Path:
        path = folder / "image.tar"
        with tarfile.open(path, "w") as archive:
            for name, content in self.files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        return path


def saved(attested: bool) -> tuple[Saved, list[str]]:
    """The tar of the older image store, or of containerd's with BuildKit's statement; and the ids in it."""
    tar = Saved()
    config = tar.blob({"os": "linux"})
    tar.files["manifest.json"] = json.dumps([{"Config": f"blobs/sha256/{config[7:]}", "Layers": []}]).encode()
    top = tar.blob({"schemaVersion": 2, "config": {"digest": config}, "layers": []})
    if attested:
        layers = [
            {"digest": tar.blob({"told": "by BuildKit"}), "annotations": {
                "in-toto.io/predicate-type": "https://slsa.dev/provenance/v0.2"}},
            {"digest": tar.blob({"told": "packages"}), "annotations": {
                "in-toto.io/predicate-type": "https://spdx.dev/Document"}},
        ]  # fmt: skip
        beside = tar.blob({"schemaVersion": 2, "layers": layers})
        kind = {"vnd.docker.reference.type": "attestation-manifest"}
        top = tar.blob({"manifests": [{"digest": top}, {"digest": beside, "annotations": kind}]})
    tar.files["index.json"] = json.dumps({"manifests": [{"digest": top}]}).encode()
    return tar, [config, top]


def labels(**more: str) -> dict[str, str]:
    found = {"revision": git("rev-parse", "HEAD"), "source": "https://git.example/dsv4-pd", "version": "97.1.0",
             "base.name": "debian:bookworm-slim", "base.digest": f"sha256:{BASE}"} | more  # fmt: skip
    return {f"org.opencontainers.image.{name}": value for name, value in found.items()} | {"dsv4-pd.baked": "all"}


def docker(folder: Path, told: dict[str, str]) -> str:
    """A PATH with a stand-in for `docker`. It hides what other versions answer; tests/image/test_new_host.py bundles
    with a real one."""
    inspected = [{"Config": {"Labels": told}, "Created": "2026-12-01T01:02:03.456789Z"}]
    script = f"""#!/bin/sh
case "$1" in
image) cat <<'X'
{json.dumps(inspected)}
X
;;
version) echo 26.1.5 ;;
buildx) echo github.com/docker/buildx 0.13.1 ;;
esac
"""
    (folder / "bin").mkdir()
    (folder / "bin/docker").write_text(script)
    (folder / "bin/docker").chmod(0o755)
    return f"{folder}/bin:{os.environ['PATH']}"


def run(path: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "docker/provenance.py"), *map(str, words)]
    return subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bundle in the making."""
    saved(attested=True)[0].write(tmp_path)
    (tmp_path / "sbom.cdx.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("attested", [False, True])
def test_every_id_of_the_image_is_named(tmp_path: Path, attested: bool) -> None:
    tar, ids = saved(attested)
    assert run(os.environ["PATH"], "ids", tar.write(tmp_path)).stdout.split() == ids


def test_an_old_engine_knows_one_id(tmp_path: Path) -> None:
    tar, ids = saved(attested=False)
    del tar.files["index.json"]
    assert run(os.environ["PATH"], "ids", tar.write(tmp_path)).stdout.split() == ids[:1]


def test_the_statement_has_the_published_form_and_names_what_went_in(folder: Path) -> None:
    done = run(docker(folder, labels()), "write", IMAGE, folder)
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "provenance.json").read_text())
    jsonschema.validate(found, SCHEMA, jsonschema.Draft202012Validator)
    subjects = [f"sha256:{one['digest']['sha256']}" for one in found["subject"]]
    assert subjects == saved(attested=True)[1] and found["subject"][0]["name"] == IMAGE
    taken = {one["uri"]: one["digest"] for one in found["predicate"]["buildDefinition"]["resolvedDependencies"]}
    head = git("rev-parse", "HEAD")
    assert taken.pop(f"git+https://git.example/dsv4-pd@{head}") == {"gitCommit": head}
    assert taken.pop("docker:debian:bookworm-slim") == {"sha256": BASE}
    tracked = {f"file:{name}" for name in git("ls-tree", "--name-only", head, "docker/").split() if ".lock" in name}
    assert set(taken) == tracked | {"file:Dockerfile"} and len(tracked) > 8
    committed = subprocess.run(["git", "show", f"{head}:docker/engine.lock"], cwd=ROOT, capture_output=True, check=True)
    assert taken["file:docker/engine.lock"] == {"sha256": sha256(committed.stdout)}
    details = found["predicate"]["runDetails"]
    assert details["byproducts"] == [{"name": "sbom.cdx.json", "digest": {"sha256": sha256(b"{}")}}]
    assert details["builder"]["version"]["docker"] == "26.1.5"


def test_buildkit_s_own_statement_is_kept_where_it_made_one(folder: Path) -> None:
    path = docker(folder, labels())
    assert run(path, "write", IMAGE, folder).returncode == 0
    assert json.loads((folder / "provenance-buildkit.json").read_text()) == {"told": "by BuildKit"}
    (folder / "provenance-buildkit.json").unlink()
    saved(attested=False)[0].write(folder)
    assert run(path, "write", IMAGE, folder).returncode == 0
    assert not (folder / "provenance-buildkit.json").exists()


def test_a_base_without_a_digest_is_said_to_have_none(folder: Path) -> None:
    assert run(docker(folder, labels(**{"base.digest": ""})), "write", IMAGE, folder).returncode == 0
    found = json.loads((folder / "provenance.json").read_text())
    jsonschema.validate(found, SCHEMA, jsonschema.Draft202012Validator)
    base = found["predicate"]["buildDefinition"]["resolvedDependencies"][1]
    assert base["uri"] == "docker:debian:bookworm-slim" and "unknown" in base["annotations"]["digest"]


@pytest.mark.parametrize(
    ("revision", "said"),
    [
        ("0" * 40, "found commit 0000"),
        ("", "found commit none in its labels"),
        ("unknown", "found commit unknown"),
        ("{head}-dirty", "expected one without changes beside it"),
    ],
)
def test_an_image_of_no_commit_here_gets_no_statement(folder: Path, revision: str, said: str) -> None:
    told = labels(revision=revision.format(head=git("rev-parse", "HEAD")))
    done = run(docker(folder, told), "write", IMAGE, folder)
    assert done.returncode == 1 and done.stderr.startswith("provenance: ") and said in done.stderr, done.stderr
    assert not (folder / "provenance.json").exists()


def test_without_a_bill_of_materials_there_is_no_statement(folder: Path) -> None:
    (folder / "sbom.cdx.json").unlink()
    done = run(docker(folder, labels()), "write", IMAGE, folder)
    assert done.returncode == 1 and "expected the image's bill of materials" in done.stderr
    assert not (folder / "provenance.json").exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda found: found.update(subject=[]),
        lambda found: found["subject"][0].update(digest={"sha256": "ab"}),
        lambda found: found["predicate"]["buildDefinition"].pop("buildType"),
        lambda found: found["predicate"].update(materials=[]),
    ],
)
def test_the_schema_refuses_what_is_no_provenance(folder: Path, damage: Any) -> None:
    run(docker(folder, labels()), "write", IMAGE, folder)
    found = json.loads((folder / "provenance.json").read_text())
    damage(found)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found, SCHEMA, jsonschema.Draft202012Validator)
