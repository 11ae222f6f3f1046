"""Which container engine runs us: a remedy for the host is none inside, however the engine hides itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from dsv4_pd.host.machine import Live
from dsv4_pd.host.system import read_software


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, None),
        ({"proc/1/environ": "PATH=/bin\0container_x=1\0MY_container=podman\0"}, None),
        ({".dockerenv": "", "proc/1/environ": "container=oci\0"}, "docker"),
        ({"run/.containerenv": ""}, "podman"),
        ({"proc/1/environ": "PATH=/bin\0container=podman\0"}, "podman"),
        ({"proc/1/environ": "container=systemd-nspawn"}, "systemd-nspawn"),
        # Podman with a tmpfs over /run, containerd under Kubernetes: only the image's own word is left.
        ({"proc/1/environ": "HOME=/tmp\0container=oci\0DSV4_HOST=0.0.0.0\0"}, "container"),
    ],
)
def test_a_container_is_told_by_the_marks_of_each_engine(
    tmp_path: Path, files: dict[str, str], found: str | None
) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert read_software(Live(tmp_path)).container == found


def test_the_image_says_that_it_is_one() -> None:
    dockerfile = (Path(__file__).resolve().parents[2] / "Dockerfile").read_text(encoding="utf-8")
    assert "ENV container=oci \\\n" in dockerfile
