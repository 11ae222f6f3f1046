"""A cache travels to like hosts whole or not at all, and nothing in the file leads out of the cache folder."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dsv4_pd.cli import cache as commands
from dsv4_pd.client.ops import Ops
from dsv4_pd.errors import ApplianceError
from dsv4_pd.run.cache import archive, digests
from dsv4_pd.run.cache.check import check
from dsv4_pd.run.cache.systems import OURS, entries
from support import compiled
from support.compiled import ALL, TRITON, TVM_FFI

IMAGE = "0123456789ab"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    compiled.fill(source)
    check(source, 0.0, alone=True)
    assert archive.export(source, tmp_path / "cache.tar.gz", IMAGE) == len(ALL)
    return tmp_path / "cache.tar.gz"


def load(data: bytes, cache: Path, image: str = IMAGE) -> tuple[int, int]:
    return archive.load(io.BytesIO(data), cache, image)


def test_everything_arrives_under_its_own_paths(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    assert load(file.read_bytes(), target) == (len(ALL), 0)
    assert load(file.read_bytes(), target) == (0, len(ALL))
    report = check(target, 0.0, alone=True)
    assert (report.whole, report.sealed, report.moved) == (len(ALL), 0, [])
    known = digests.read(target, TVM_FFI)
    assert known is not None and known.origin == "import"
    index = json.loads((target / TRITON / "__grp__sparse_mla_split_kernel.json").read_text())
    assert {Path(path).parent for path in index["child_paths"].values()} == {target / TRITON}
    assert sorted(path.name for path in (target / OURS).iterdir()) == ["digests"]


def test_only_whole_entries_are_exported(tmp_path: Path) -> None:
    source = tmp_path / "source"
    compiled.fill(source)
    check(source, 0.0, alone=True)
    (source / TVM_FFI / "sgl_deps.json").write_text("[]")
    assert archive.export(source, tmp_path / "x.tar.gz", IMAGE) == len(ALL) - 1
    with pytest.raises(ApplianceError, match="no whole compiled kernel"):
        archive.export(tmp_path / "empty", tmp_path / "y.tar.gz", IMAGE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "x.tar.gz"]


def test_another_image_s_file_is_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ApplianceError, match=f"found image '{IMAGE}', expected 'ffff"):
        load(file.read_bytes(), tmp_path / "target", "ffffffffffff")
    assert list(entries(tmp_path / "target")) == []


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.99])
def test_a_file_that_is_cut_off_adds_nothing(file: Path, tmp_path: Path, share: float) -> None:
    data = file.read_bytes()
    with pytest.raises(ApplianceError, match="cut off"):
        load(data[: int(len(data) * share)], tmp_path / "target")
    assert list(entries(tmp_path / "target")) == []


Change = Callable[[dict[str, Any], list[tuple[tarfile.TarInfo, bytes]]], None]


def rewritten(data: bytes, change: Change) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(data)) as old:
        members = [(item, held.read() if (held := old.extractfile(item)) else b"") for item in old]
    head = json.loads(members[0][1])
    rest = members[1:]
    change(head, rest)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as new:
        first = json.dumps(head).encode()
        item = tarfile.TarInfo(archive.HEAD)
        item.size = len(first)
        for one, body in [(item, first), *rest]:
            new.addfile(one, io.BytesIO(body) if one.isreg() else None)
    return gzip.compress(out.getvalue())


def one_byte(_: dict[str, Any], rest: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    item, body = rest[0]
    rest[0] = item, bytes([body[0] ^ 1]) + body[1:]


def missing(_: dict[str, Any], rest: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    del rest[0]


def stranger(_: dict[str, Any], rest: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    item = tarfile.TarInfo("../../outside.so")
    item.size = 1
    rest.append((item, b"x"))


def link(_: dict[str, Any], rest: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    item = rest[0][0]
    item.type, item.linkname, item.size = tarfile.SYMTYPE, "/etc/passwd", 0
    rest[0] = item, b""


def escaping_entry(head: dict[str, Any], rest: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    head["entries"][0]["relative"] = "jit/../../../../etc/deps-x"


def other_place(head: dict[str, Any], rest: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    head["entries"][0]["relative"] = "somewhere/else"


def escaping_name(head: dict[str, Any], rest: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    files = head["entries"][0]["files"]
    name, value = next(iter(files.items()))
    files[f"../../{name}"] = value


def another_schema(head: dict[str, Any], rest: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    head["schema"] = 99


def no_list(head: dict[str, Any], rest: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    head["entries"] = "x"


def stray_index(_: dict[str, Any], rest: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    item = tarfile.TarInfo("../__grp__x.json")
    item.size = 2
    rest.append((item, b"{}"))


@pytest.mark.parametrize(
    "change",
    [one_byte, missing, stranger, link, escaping_entry, other_place, escaping_name, another_schema, no_list,
     stray_index],
    ids=lambda change: str(change.__name__),
)  # fmt: skip
def test_what_was_changed_adds_nothing_and_writes_nowhere(file: Path, tmp_path: Path, change: Change) -> None:
    before = {path.name for path in tmp_path.iterdir()}
    target = tmp_path / "deep" / "target"
    with pytest.raises(ApplianceError):
        load(rewritten(file.read_bytes(), change), target)
    assert list(entries(target)) == []
    assert {path.name for path in tmp_path.iterdir()} - before == {"deep"}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["target"]


def test_an_unchanged_rewriting_is_taken(file: Path, tmp_path: Path) -> None:
    """The negative control of the cases above."""
    assert load(rewritten(file.read_bytes(), lambda *_: None), tmp_path / "target") == (len(ALL), 0)


def _nobody(_: object) -> None:
    raise ApplianceError("no appliance answers")


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    compiled.fill(source)
    check(source, 0.0, alone=True)
    monkeypatch.setenv("DSV4_CACHE_DIR", str(source))
    row = {"member": "decode", "system": "triton", "kernel": "late", "count": 2, "seconds": 0.5, "since_ready": 1}
    told = {"since_start": 2, "since_ready": 1, "seconds": 0.5, "from_cache": [], "kernels": [row]}
    monkeypatch.setattr(Ops, "status", lambda _: {"compiles": told})
    said = CliRunner().invoke(commands.command, ["status"]).output
    assert "2 compiled in 0.5 s, 1 of them while ready" in said and "late" in said
    monkeypatch.setattr(Ops, "status", _nobody)
    shown = CliRunner().invoke(commands.command, ["status"])
    assert shown.exit_code == 0 and "sparse_mla_split_kernel" in shown.output and "1 here" in shown.output
    done = CliRunner().invoke(commands.command, ["export", str(tmp_path / "x.tar.gz")])
    assert done.exit_code == 0 and f"{len(ALL)} kernels" in done.output
    monkeypatch.setenv("DSV4_CACHE_DIR", str(target))
    done = CliRunner().invoke(commands.command, ["import", str(tmp_path / "x.tar.gz")])
    assert done.output == f"added {len(ALL)} kernels, 0 were there already\n"
    values = json.loads(CliRunner().invoke(commands.command, ["status", "--json"]).output)
    assert {row["system"]: row["origins"] for row in values["kernels"]}["triton"] == {"import": 1}
    assert values["aside"] == [] and values["running"] is None
