"""model_files: what is wrong with a model's folder is named before a server reads it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from dsv4_pd.plan.model_files import INDEX, find, inspect, look, stamp


def shard(path: Path, tensors: dict[str, int]) -> None:
    """A safetensors file of byte tensors."""
    header, at = {}, 0
    for name, size in tensors.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(at))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    shard(folder / "a.safetensors", {"x": 100, "y": 20})
    shard(folder / "b.safetensors", {"z": 30})
    index = {"metadata": {"total_size": 150}, "weight_map": {"x": "a.safetensors", "y": "a.safetensors",
                                                             "z": "b.safetensors"}}  # fmt: skip
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")
    return folder


def test_whole_model_has_no_problem(model: Path) -> None:
    found = inspect(model)
    assert (found.problems, found.total_bytes, found.missing_bytes) == ((), 150, 0)


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("../../blobs/0123abcd")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


@pytest.mark.parametrize(
    "name,harm,words",
    [
        ("b.safetensors", Path.unlink, "b.safetensors is missing"),
        ("b.safetensors", lambda p: p.write_bytes(b""), "b.safetensors is empty"),
        ("b.safetensors", dangling, "b.safetensors is a link to ../../blobs/0123abcd, which is not there"),
        ("a.safetensors", cut, "bytes, its header says"),
        ("a.safetensors", lambda p: p.write_bytes(b"<html>504</html>"), "no safetensors file, or cut short"),
        ("a.safetensors", lambda p: p.write_bytes(p.read_bytes() + b"!"), "bytes, its header says"),
        ("a.safetensors", lambda p: shard(p, {"x": 99, "y": 20}), "says 150 bytes of tensors, the shards have 149"),
        ("config.json", Path.unlink, "config.json is missing"),
        ("tokenizer.json", Path.unlink, "no tokenizer"),
        (INDEX, lambda p: p.write_text("{"), f"{INDEX} can't be read"),
        (INDEX, Path.unlink, f"neither {INDEX}"),
    ],
)
def test_harm_is_named(model: Path, name: str, harm: Callable[[Path], object], words: str) -> None:
    harm(model / name)
    problems = inspect(model).problems
    assert any(words in text for text in problems), problems


def test_missing_bytes_are_counted(model: Path) -> None:
    (model / "b.safetensors").unlink()
    assert inspect(model).missing_bytes == 30


@pytest.mark.skipif(os.getuid() == 0 and not hasattr(os, "setegid"), reason="needs file permissions")
def test_read_only_folder_is_enough(model: Path) -> None:
    model.chmod(0o555)
    try:
        assert inspect(model).problems == ()
    finally:
        model.chmod(0o755)


def test_one_file_without_an_index_is_a_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    shard(tmp_path / "model.safetensors", {"x": 5})
    assert inspect(tmp_path).problems == ()


def test_name_is_found_in_the_cache_by_ref_and_by_commit(tmp_path: Path, model: Path) -> None:
    base = tmp_path / "hub" / "models--org--name"
    (base / "refs").mkdir(parents=True)
    (base / "refs" / "main").write_text("abc123", encoding="ascii")
    (base / "snapshots").mkdir()
    model.rename(base / "snapshots" / "abc123")
    environ = {"HF_HOME": str(tmp_path)}
    snapshot = base / "snapshots" / "abc123"
    assert find("org/name", None, environ) == find("org/name", "abc123", environ) == snapshot
    assert find("org/name", "other", environ) is None
    assert find("org/name", None, {"HF_HUB_CACHE": str(tmp_path / "hub")}) == snapshot
    assert find("org/name", None, {"XDG_CACHE_HOME": str(tmp_path)}) is None
    assert look("org/name", None, environ).problems == ()
    assert look("org/absent", None, environ).path is None


def touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


CHANGES: dict[str, Callable[[Path], object]] = {
    "a shard is rewritten": lambda model: touch(model / "a.safetensors"),
    "a shard grows": lambda model: shard(model / "b.safetensors", {"z": 31}),
    "a setting changes": lambda model: (model / "config.json").write_text('{"a": 1}', encoding="utf-8"),
    "a file goes": lambda model: (model / "b.safetensors").unlink(),
    "a file comes": lambda model: (model / "chat_template.jinja").write_text("x", encoding="utf-8"),
    "a link turns to another file": lambda model: relink(model / "a.safetensors"),
}


def relink(path: Path) -> None:
    other = path.parent.parent / "blob"
    shard(other, {"x": 1})
    path.unlink()
    path.symlink_to(other)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_stamp_tells_a_changed_model(model: Path, change: Callable[[Path], object]) -> None:
    before = stamp(model)
    change(model)
    assert stamp(model) != before


def test_the_stamp_knows_only_what_an_engine_loads(model: Path) -> None:
    before = stamp(model)
    (model / "README.md").write_text("words", encoding="utf-8")
    (model / ".cache").mkdir()
    assert stamp(model) == before


def test_no_model_has_no_stamp(tmp_path: Path) -> None:
    assert stamp(None) == stamp(tmp_path) == stamp(tmp_path / "absent") == ""
