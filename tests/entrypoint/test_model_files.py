"""model_files: what is wrong with a model's folder is named before a server reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.plan.disk.paths import models_dir
from dsv4_pd.plan.memory.model import Load, estimate
from dsv4_pd.plan.model import checkpoint, speculative
from dsv4_pd.plan.model import config as model_config
from dsv4_pd.plan.model import context as model_context
from dsv4_pd.plan.model.config import SHAPE
from dsv4_pd.plan.model.files import find, hub_cache, inspect, look, read_config, stamp
from dsv4_pd.plan.model.shape import shape_of
from dsv4_pd.plan.model.shards import INDEX
from dsv4_pd.plan.shipped import catalogue
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


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


def with_header(header: bytes) -> Callable[[Path], object]:
    """A shard of a header alone."""
    return lambda path: path.write_bytes(len(header).to_bytes(8, "little") + header)


def only_its_settings(path: Path) -> None:
    path.rename(path.with_name("tokenizer_config.json"))


def indexed(total: str) -> str:
    return f'{{"metadata": {{"total_size": {total}}}, "weight_map": {{"x": "a.safetensors"}}}}'


def odd(key: str, value: Any) -> str:
    return json.dumps({"model_type": "deepseek_v4", key: value})


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
SMALL = ("config.json", "tokenizer.json", "special_tokens_map.json")
SMALL_HARM: tuple[tuple[Callable[[Path], object], str], ...] = (
    (lambda p: p.write_bytes(b""), "is empty"),
    (lambda p: p.write_bytes(b'{"a": '), "is no JSON, or cut short"),
    (lambda p: p.write_bytes(b"\xff\xfe"), "is no JSON, or cut short"),
    (lambda p: p.write_text("[" * 100_000), "is no JSON, or cut short"),
    (dangling, "is a link to ../../blobs/0123abcd, which is not there"),
    (lambda p: p.write_bytes(POINTER), "is git's note about the file, not the file (run `git lfs pull` there)"),
)


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
        ("tokenizer.json", only_its_settings, "no tokenizer"),
        (INDEX, lambda p: p.write_text("{"), f"{INDEX} can't be read"),
        (INDEX, Path.unlink, f"neither {INDEX}"),
        (INDEX, dangling, f"{INDEX} is a link to ../../blobs/0123abcd, which is not there"),
        (INDEX, lambda p: p.write_text("null"), f"{INDEX} can't be read (no weight_map in it)"),
        (INDEX, lambda p: p.write_text("[]"), f"{INDEX} can't be read (no weight_map in it)"),
        (INDEX, lambda p: p.write_text('{"weight_map": ["a.safetensors"]}'), "no weight_map in it"),
        (INDEX, lambda p: p.write_text('{"weight_map": {}}'), f"{INDEX} names no shard"),
        (INDEX, lambda p: p.write_text('{"weight_map": {"x": 7}}'), "weight_map names 7, which is no shard"),
        (INDEX, lambda p: p.write_text('{"weight_map": {"x": "../a.safetensors"}}'), "which is no shard"),
        (INDEX, lambda p: p.write_text('{"weight_map": {"x": "a\\u0000.safetensors"}}'), "which is no shard"),
        (INDEX, lambda p: p.write_text(indexed('"many"')), f"{INDEX} can't be read (total_size is 'many')"),
        (INDEX, lambda p: p.write_text(indexed("Infinity")), f"{INDEX} can't be read (total_size is inf)"),
        (INDEX, lambda p: p.write_text("[" * 100_000), f"{INDEX} can't be read"),
        ("b.safetensors", with_header(b"[]"), "its header says"),
        ("b.safetensors", with_header(b'{"x": {"data_offsets": [0, "9"]}}'), "its header says"),
        ("b.safetensors", with_header(b"{}"), "says 150 bytes of tensors, the shards have 120"),
        ("b.safetensors", os.mkfifo, "b.safetensors is no file"),
        ("config.json", os.mkfifo, "config.json is no file"),
        *((name, harm, f"{name} {words}") for name in SMALL for harm, words in SMALL_HARM),
        *((name, lambda p: p.write_text("[1]"), f"{name} is no JSON object but [1]") for name in SMALL[:2]),
        *((name, lambda p: p.write_text("null"), f"{name} is no JSON object but None") for name in SMALL[:2]),
        ("chat_template.jinja", lambda p: p.write_bytes(b""), "chat_template.jinja is empty"),
        ("chat_template.jinja", dangling, "chat_template.jinja is a link to ../../blobs/0123abcd, which is not there"),
        ("chat_template.jinja", lambda p: p.write_bytes(POINTER), "is git's note about the file, not the file"),
        ("config.json", lambda p: p.write_text(odd("num_hidden_layers", "43x")), "num_hidden_layers is '43x', not a"),
        ("config.json", lambda p: p.write_text(odd("compress_ratios", "abc")), "compress_ratios is 'abc', not a list"),
        ("config.json", lambda p: p.write_text(odd("dspark_target_layer_ids", 3)), "ids is 3, not a list of whole"),
        ("config.json", lambda p: p.write_text(odd("quantization_config", [1])), "is [1], not an object"),
    ],
)
def test_harm_is_named(model: Path, name: str, harm: Callable[[Path], object], words: str) -> None:
    path = model / name
    if harm is os.mkfifo:
        path.unlink()
    elif not path.exists():
        path.touch()
    harm(path)
    problems = inspect(model).problems
    assert any(words in text for text in problems), problems


def test_a_model_without_a_tensor_is_none(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with_header(b"{}")(tmp_path / "model.safetensors")
    assert inspect(tmp_path).problems == ("no tensor in any shard",)


def test_another_kind_of_model_may_mean_something_else(model: Path) -> None:
    config = {"model_type": "ernie", "moe_intermediate_size": [1536, 512], "num_hidden_layers": 28}
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = inspect(model)
    assert found.problems == () and read_config(found) == config and shape_of(config) is None
    assert model_config.sound(config) == {"model_type": "ernie", "num_hidden_layers": 28}


@pytest.mark.parametrize("text", ["null", "[]", '{"weight_map": {"x": 7}}', '{"weight_map": {}}'])
def test_the_command_names_a_broken_index(model: Path, tmp_path: Path, text: str) -> None:
    (model / INDEX).write_text(text, encoding="utf-8")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "DSV4_MODEL": str(model)}
    command = [sys.executable, "-m", "dsv4_pd", "download", "--check"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and f"found {INDEX} " in done.stderr and "Traceback" not in done.stderr, done.stderr


WORDS = st.sampled_from(["", "43x", "a.safetensors", "../x", "data_offsets", "factor", "total_size", "nvfp4", "ü\0"])
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
KEYS = (*SHAPE.values(), "model_type", "expert_dtype", "quantization_config", "compress_ratios", "dspark_block_size",
        "num_nextn_predict_layers", "dspark_markov_rank", "dspark_noise_token_id", "dspark_target_layer_ids",
        "rope_scaling", "rope_parameters", "max_position_embeddings", "model_max_length")  # fmt: skip
FLASH = catalogue.read_all(models_dir())["flash-0731"].config


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(KEYS), ANY, max_size=4))
def test_no_config_is_too_odd_to_be_read(changed: dict[str, Any]) -> None:
    config = {**FLASH, **changed}
    shape = shape_of(config, 160 * 10**9)
    for value in (checkpoint.expert_format(config), model_context.derived(config), shape_of(changed)):
        assert value is None or value
    assert isinstance(checkpoint.drafts(config), tuple) and checkpoint.draft_stages(config) >= 1
    assert isinstance(checkpoint.has_nvfp4_experts(config), bool)
    assert speculative.decide("auto", config, "m", "cuda")[0] in ("off", "dspark")
    assert model_config.problems(config) == () or shape is None
    if shape is not None:
        assert estimate(shape, Load("decode", 4, 0.8, 64, 8192), 96e9).weights > 0


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(index=ANY | st.fixed_dictionaries({"weight_map": ANY, "metadata": ANY}), config=ANY, header=ANY)
def test_no_folder_is_too_odd_to_be_inspected(
    tmp_path_factory: pytest.TempPathFactory, index: Any, config: Any, header: Any
) -> None:
    folder = tmp_path_factory.mktemp("odd")
    for name, data in ((INDEX, index), ("config.json", config), ("tokenizer.json", header)):
        (folder / name).write_text(json.dumps(data), encoding="utf-8")
    with_header(json.dumps(header).encode())(folder / "a.safetensors")
    found = inspect(folder)
    assert found.problems and all(isinstance(text, str) for text in found.problems)
    if (said := read_config(found)) is not None:
        shape_of(said), model_context.derived(said), model_config.sound(said)


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


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HF_HOME": "~nobody-here/hf"}, "~nobody-here/hf/hub"),
        ({"HF_HUB_CACHE": "~nobody-here/c"}, "~nobody-here/c"),
        ({"HOME": "~"}, "~/.cache/huggingface/hub"),
        ({"HOME": "/home/a"}, "/home/a/.cache/huggingface/hub"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
    ],
)
def test_a_home_that_nobody_has_ends_no_command(
    environ: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As huggingface_hub takes it; pathlib would raise."""
    monkeypatch.setenv("HOME", environ.get("HOME", "/home/a"))
    assert str(hub_cache(environ)) == folder
