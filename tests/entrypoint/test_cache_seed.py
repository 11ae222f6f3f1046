"""The image's compiled kernels reach the engine's cache whole, once, and under their own paths."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path

import pytest
from dsv4_pd.run.cache import boot, digests
from dsv4_pd.run.cache.check import check
from dsv4_pd.run.cache.check import main as check_main
from dsv4_pd.run.cache.seed import seed
from dsv4_pd.run.cache.systems import OURS
from support import compiled
from support.compiled import ALL, TRITON


def test_seeds_what_is_missing_and_leaves_the_rest(tmp_path: Path) -> None:
    image, cache = tmp_path / "image", tmp_path / "cache"
    compiled.triton(image, "A")
    compiled.triton(image, "B")
    mine = compiled.triton(cache, "B") / "sparse_mla_split_kernel.ttir"
    mine.write_text("compiled here")
    assert seed(image, cache) == 1
    assert seed(image, cache) == 0
    assert mine.read_text() == "compiled here"
    paths = json.loads((cache / "triton" / "A" / "__grp__sparse_mla_split_kernel.json").read_text())["child_paths"]
    assert {Path(path).parent for path in paths.values()} == {cache / "triton" / "A"}
    assert sorted(path.name for path in (cache / "triton").iterdir()) == ["A", "B"]
    assert [path.name for path in (cache / OURS).iterdir()] == ["digests"]


def test_every_system_s_entries_come_with_digests_and_their_times(tmp_path: Path) -> None:
    image, cache = tmp_path / "image", tmp_path / "cache"
    compiled.fill(image)
    assert seed(image, cache) == len(ALL)
    for relative in ALL:
        known = digests.read(cache, relative)
        assert known is not None and known.origin == "image"
        for path in (path for path in (image / relative).rglob("*") if not path.name.startswith("__grp__")):
            assert (cache / path.relative_to(image)).stat().st_mtime == path.stat().st_mtime  # ninja builds by times
    assert check(cache, 0.0, alone=True).sealed == 0


def test_what_is_not_what_the_image_build_made_stays_where_it_is(tmp_path: Path) -> None:
    image, cache = tmp_path / "image", tmp_path / "cache"
    compiled.fill(image)
    assert check_main([str(image)]) == 0
    cubin = image / TRITON / "sparse_mla_split_kernel.cubin"
    data = bytearray(cubin.read_bytes())
    data[len(data) // 2] ^= 1
    cubin.write_bytes(data)
    assert seed(image, cache) == len(ALL) - 1
    assert not (cache / TRITON).exists() and cubin.exists()


def test_an_image_build_without_a_kernel_fails(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert check_main([str(tmp_path / "empty")]) == 1


def test_no_prebuilt_kernels_no_folder(tmp_path: Path) -> None:
    assert seed(tmp_path / "absent", tmp_path / "cache") == 0
    assert not (tmp_path / "cache").exists()


def test_an_appliance_that_was_quicker_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image, cache = tmp_path / "image", tmp_path / "cache"
    compiled.fill(image)
    copy = shutil.copytree

    def slow(source: Path, target: Path) -> Path:
        compiled.fill(cache)
        return Path(copy(source, target))

    monkeypatch.setattr(shutil, "copytree", slow)
    seed(image, cache)
    report = check(cache, 0.0, alone=True)
    assert (report.whole, report.moved) == (len(ALL), [])


def test_a_full_disk_leaves_nothing_half_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image, cache = tmp_path / "image", tmp_path / "cache"
    compiled.fill(image)

    def full(source: Path, target: Path) -> None:
        Path(target).mkdir()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copytree", full)
    with pytest.raises(OSError, match="No space"):
        boot.prepare(cache, image, "")
    assert not (cache / "triton").exists()
    assert [path for path in (cache / OURS).iterdir() if path.name.startswith("seed-")] == []


def test_a_damaged_kernel_of_the_image_s_comes_from_the_image_again(tmp_path: Path) -> None:
    image, cache = tmp_path / "image", tmp_path / "cache"
    compiled.fill(image)
    boot.prepare(cache, image, "").use.close()
    cubin = cache / TRITON / "sparse_mla_split_kernel.cubin"
    cubin.write_bytes(cubin.read_bytes()[:-1])
    prepared = boot.prepare(cache, image, "")
    prepared.use.close()
    assert len(prepared.lines) == 2 and prepared.lines[1] == "kernel cache: 1 kernels taken from the image"
    assert cubin.read_bytes() == compiled.LIBRARY
