"""A damaged cache costs the compilation of what is damaged: no crash at each start, no wait forever."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dsv4_pd.run.cache import aside, boot, digests, images, whole
from dsv4_pd.run.cache.check import Report, check
from dsv4_pd.run.cache.in_use import InUse
from dsv4_pd.run.cache.systems import OURS, SYSTEMS, Entry, belongs, entries, label
from support import compiled
from support.compiled import ALL, FLASHINFER, INDUCTOR, LIBRARY, TILELANG, TILELANG_BINARY, TRITON, TUNED, TVM_FFI

LATER = time.time() + 10_000
CUBIN = f"{TRITON}/sparse_mla_split_kernel.cubin"
TVM_LIBRARY = f"{TVM_FFI}/sgl_kernel_jit_dpsk_v4_topk_v1_true.so"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    compiled.fill(folder)
    return folder


def looked(cache: Path, now: float = LATER, *, alone: bool = True) -> Report:
    return check(cache, now, alone=alone)


def moved(report: Report) -> dict[str, str]:
    return {one.relative: one.reason for one in report.moved}


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def cut_to_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def one_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def gone(path: Path) -> None:
    path.unlink()


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "x").write_bytes(b"")


def test_every_entry_is_found_and_named(cache: Path) -> None:
    found = {entry.relative: (entry.system.name, label(entry)) for entry in entries(cache)}
    assert set(found) == set(ALL)
    assert found[TRITON] == ("triton", "sparse_mla_split_kernel")
    assert found[TVM_FFI] == ("tvm-ffi", "dpsk_v4_topk_v1_true")
    assert found[TILELANG] == ("tilelang", "mhc_post_tilelang")
    assert found[FLASHINFER] == ("flashinfer", "norm")
    assert {name for name, _ in found.values()} == {system.name for system in SYSTEMS}


def test_whole_entries_get_a_digest_once(cache: Path) -> None:
    first, second = looked(cache), looked(cache)
    assert (first.whole, first.sealed, first.moved) == (len(ALL), len(ALL), [])
    assert (second.whole, second.sealed, second.moved) == (len(ALL), 0, [])
    written = digests.read(cache, TVM_FFI)
    assert written is not None
    assert written.files["sgl_kernel_jit_dpsk_v4_topk_v1_true.so"] == digests.file_of(LIBRARY)
    assert (written.system, written.kernel, written.origin) == ("tvm-ffi", "dpsk_v4_topk_v1_true", "here")


# What shows by a file's form alone: the machine lost power before a digest was written.
BY_FORM = [
    (CUBIN, cut), (CUBIN, cut_to_half), (CUBIN, emptied), (CUBIN, zeroed), (CUBIN, gone),
    (f"{TRITON}/sparse_mla_split_kernel.json", cut_to_half), (f"{TRITON}/sparse_mla_split_kernel.ttir", zeroed),
    (f"{TRITON}/__grp__sparse_mla_split_kernel.json", cut_to_half),
    (TVM_LIBRARY, cut), (TVM_LIBRARY, zeroed), (TVM_LIBRARY, gone), (f"{TVM_FFI}/sgl_deps.json", cut_to_half),
    (f"{TILELANG}/executable.so", cut), (f"{TILELANG}/params.pkl", cut_to_half), (f"{TILELANG}/params.pkl", gone),
    (TILELANG_BINARY, cut), (TILELANG_BINARY, emptied),
    (f"{FLASHINFER}/norm.so", cut), (f"{FLASHINFER}/norm.cuda.o", zeroed),
    (INDUCTOR, cut_to_half), (INDUCTOR, emptied), (TUNED, cut_to_half),
]  # fmt: skip
# What only a digest shows, or the file system.
BY_DIGEST = [(name, one_bit) for name in (CUBIN, TVM_LIBRARY, f"{TILELANG}/executable.so", TILELANG_BINARY,
                                          f"{FLASHINFER}/norm.so", INDUCTOR, f"{TRITON}/sparse_mla_split_kernel.ttir",
                                          f"{TVM_FFI}/cuda.cu")]  # fmt: skip
FOREIGN = [(name, how) for name in (CUBIN, TVM_LIBRARY, TILELANG_BINARY) for how in (link, pipe, folder)]


def entry_of(name: str) -> str:
    return next(relative for relative in ALL if name == relative or name.startswith(f"{relative}/"))


@pytest.mark.parametrize(("name", "damage"), BY_FORM, ids=lambda value: getattr(value, "__name__", None))
@pytest.mark.parametrize("sealed", [False, True], ids=["new", "sealed"])
def test_what_is_cut_off_is_set_aside(cache: Path, name: str, damage: Callable[[Path], None], sealed: bool) -> None:
    if sealed:
        looked(cache)
    damage(cache / name)
    report, relative = looked(cache), entry_of(name)
    assert list(moved(report)) == [relative]
    assert not (cache / relative).exists() and digests.read(cache, relative) is None
    assert len(report.moved[0].line().splitlines()) == 1 and relative in report.moved[0].line()
    assert (cache / report.moved[0].to).exists()
    assert looked(cache).moved == [] and report.whole == len(ALL) - 1


@pytest.mark.parametrize(("name", "damage"), [*BY_DIGEST, *FOREIGN], ids=lambda value: getattr(value, "__name__", None))
def test_what_is_not_what_was_written_is_set_aside(cache: Path, name: str, damage: Callable[[Path], None]) -> None:
    looked(cache)
    damage(cache / name)
    assert list(moved(looked(cache))) == [entry_of(name)]
    assert looked(cache).moved == []


@pytest.mark.parametrize("place", ["triton", "jit", "jit/sm120f", "tilelang", ".cache/flashinfer"])
@pytest.mark.parametrize("what", ["pipe", "dangling link"])
def test_what_stands_where_a_compiler_makes_a_folder_is_moved(cache: Path, place: str, what: str) -> None:
    path = cache / place
    path.rename(cache / "before")
    os.mkfifo(path) if what == "pipe" else path.symlink_to("nowhere")
    assert list(moved(looked(cache))) == [place]
    assert not os.path.lexists(path)


def test_an_operator_s_link_to_another_disk_is_followed(cache: Path, tmp_path: Path) -> None:
    (cache / "triton").rename(tmp_path / "disk")
    (cache / "triton").symlink_to(tmp_path / "disk")
    report = looked(cache)
    assert report.moved == [] and report.whole == len(ALL)


@contextlib.contextmanager
def another_user(owner: int = 65534) -> Iterator[Path]:
    """A folder of a user who may not read everything: root may."""
    if os.geteuid():
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
        return
    with tempfile.TemporaryDirectory() as name:
        os.chown(name, owner, owner)
        os.seteuid(owner)
        try:
            yield Path(name)
        finally:
            os.seteuid(0)
            subprocess.run(["chmod", "-R", "u+rwx", name], check=True)


@pytest.mark.parametrize("name", [CUBIN, f"{TVM_FFI}/sgl_deps.json", TILELANG_BINARY, TRITON, TVM_FFI, "triton", "jit"])
def test_what_can_t_be_read_is_set_aside(name: str) -> None:
    with another_user() as base:
        compiled.fill(base)
        (base / name).chmod(0)
        report = looked(base)
        (relative,) = moved(report)
        assert name.startswith(relative) or relative.startswith(name)
        assert "can't be read" in report.moved[0].reason
        compiled.fill(base)  # a compiler can write there again
        assert looked(base).moved == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_another_user_s_entry_is_set_aside() -> None:
    with another_user() as base:
        compiled.fill(base)
        os.seteuid(0)
        os.chown(base / TRITON, 12345, 12345)
        os.chown(base / TVM_LIBRARY, 12345, 12345)
        os.seteuid(65534)
        report = looked(base)
        assert moved(report) == dict.fromkeys((TVM_FFI, TRITON), "belongs to user 12345")
        assert not (base / TRITON).exists() and looked(base).moved == []


def test_an_unfinished_build_is_left_to_its_compiler(cache: Path) -> None:
    (cache / TRITON / "__grp__sparse_mla_split_kernel.json").unlink()
    (cache / FLASHINFER / "norm.so").unlink()
    report = looked(cache)
    assert (report.moved, report.unfinished) == ([], 2)


def test_triton_s_own_helper_is_looked_at_too(cache: Path) -> None:
    helper = cache / "triton" / "HELPER" / "cuda_utils.cpython-311-x86_64-linux-gnu.so"
    helper.parent.mkdir()
    helper.write_bytes(LIBRARY)
    assert looked(cache).moved == []
    one_bit(helper)
    assert list(moved(looked(cache))) == ["triton/HELPER"]


def test_what_changes_after_compiling_is_no_damage(cache: Path) -> None:
    tuned = cache / "inductor" / "ud" / "0e53.best_config"
    tuned.parent.mkdir()
    tuned.write_text("{}")
    looked(cache)
    tuned.write_text('{"a": 1}')
    (cache / FLASHINFER / ".ninja_log").write_text("# ninja log v7")
    (cache / TILELANG / "new.cubin").write_bytes(LIBRARY)
    report = looked(cache)
    assert report.moved == [] and report.sealed == 1
    assert digests.read(cache, TILELANG) is not None


def test_a_cache_that_lies_elsewhere_now_is_still_found_by_triton(cache: Path) -> None:
    looked(cache)
    there = cache.rename(cache.with_name("moved"))
    assert looked(there).moved == []
    index = json.loads((there / TRITON / "__grp__sparse_mla_split_kernel.json").read_text())
    assert {Path(path).parent for path in index["child_paths"].values()} == {there / TRITON}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1}', '{"schema": 9, "relative": "x"}', "\0" * 80])
def test_a_damaged_digest_costs_no_kernel(cache: Path, text: str) -> None:
    looked(cache)
    digests.place(cache, TRITON).write_text(text)
    report = looked(cache)
    assert (report.moved, report.sealed) == ([], 1)


def test_a_disk_that_damages_each_start_s_kernels_does_not_fill_itself(cache: Path) -> None:
    for _ in range(aside.KEPT + 5):
        compiled.fill(cache)
        cut(cache / CUBIN)
        assert len(looked(cache).moved) == 1
    assert len(list((cache / OURS / "aside").iterdir())) == aside.KEPT


@pytest.mark.parametrize("count", [3, 40])
def test_the_log_stays_short(tmp_path: Path, count: int) -> None:
    cache = tmp_path / "cache"
    for number in range(count):
        cut(compiled.triton(cache, f"KEY{number:02}") / "sparse_mla_split_kernel.cubin")
    prepared = boot.prepare(cache, tmp_path / "no image", "")
    prepared.use.close()
    assert len(prepared.lines) == min(count, 9)
    assert count < 9 or prepared.lines[-1] == "kernel cache: 32 more entries moved aside"


# locks


def holder(path: Path) -> subprocess.Popen[str]:
    """Another process that holds a lock."""
    take = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX);"
    text = f"{take} print('held', flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", text, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize(("alone", "age", "moves"), [(True, 0, True), (False, 0, False), (False, 3600, True)], ids=str)
def test_a_lock_by_existence_is_moved_once_nobody_can_hold_it(
    cache: Path, alone: bool, age: float, moves: bool
) -> None:
    lock = cache / "torch_extensions" / "ext" / "lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("")
    report = looked(cache, lock.stat().st_mtime + age, alone=alone)
    assert ("torch_extensions/ext/lock" in moved(report)) is moves
    assert lock.exists() is not moves


@pytest.mark.parametrize("alone", [True, False])
def test_a_held_lock_is_left_to_another_appliance_and_to_nobody_else(cache: Path, alone: bool) -> None:
    lock = (cache / TVM_FFI).parent / ".lock"
    process = holder(lock)
    try:
        report = looked(cache, time.time() + 61, alone=alone)
    finally:
        process.communicate("\n")
    assert lock.exists() is not alone
    assert ("held by" in str(moved(report))) is alone


def test_a_lock_that_nobody_holds_needs_no_word(cache: Path) -> None:
    lock = (cache / TVM_FFI).parent / ".lock"
    lock.write_text("")
    assert looked(cache).moved == [] and not lock.exists()


@pytest.mark.parametrize("alone", [True, False])
def test_a_lock_that_is_a_pipe_holds_up_nothing(cache: Path, alone: bool) -> None:
    os.mkfifo((cache / TVM_FFI).parent / ".lock")
    begun = time.monotonic()
    assert "no file" in str(moved(looked(cache, alone=alone)))
    assert time.monotonic() - begun < 10


# two appliances on one volume


def test_what_another_appliance_is_writing_is_left_alone(cache: Path) -> None:
    cut(cache / CUBIN)
    assert looked(cache, time.time(), alone=False).moved == []
    assert list(moved(looked(cache, time.time() + 120, alone=False))) == [TRITON]


def test_who_comes_second_knows_that_it_is_not_alone(cache: Path) -> None:
    first = InUse(cache)
    assert first.alone
    first.share()
    with InUse(cache) as second:
        assert not second.alone
    first.close()
    with InUse(cache) as third:
        assert third.alone


def test_a_file_system_without_locks_is_not_waited_for(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr("dsv4_pd.run.cache.in_use._WAIT_S", 0.3)
    use = InUse(cache)
    assert not use.alone
    use.share()
    use.close()


def _start(cache: Path, image: Path, ready: multiprocessing.synchronize.Barrier) -> None:
    ready.wait()
    for _ in range(5):
        prepared = boot.prepare(cache, image, "0123456789ab")
        assert not [line for line in prepared.lines if "moved" in line], prepared.lines
        prepared.use.close()


def test_two_starts_at_once_on_an_empty_volume(tmp_path: Path) -> None:
    image, cache = tmp_path / "image", tmp_path / "cache"
    compiled.fill(image)
    for number in range(30):
        compiled.triton(image, f"KEY{number:02}")
    context = multiprocessing.get_context("fork")
    ready = context.Barrier(3)
    processes = [context.Process(target=_start, args=(cache, image, ready)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    report = looked(cache)
    assert (report.whole, report.moved) == (len(ALL) + 30, [])


# a fixed folder and another image


def test_another_image_s_kernels_are_parked_and_come_back(cache: Path) -> None:
    before = sorted(path.relative_to(cache) for path in cache.rglob("*") if path.is_file())
    looked(cache)
    assert images.change(cache, "aaaaaaaaaaaa") == []  # whose they are was not known: the first image's
    assert len(images.change(cache, "bbbbbbbbbbbb")) == 1
    assert list(entries(cache)) == []
    assert images.change(cache, "bbbbbbbbbbbb") == []
    assert len(images.change(cache, "aaaaaaaaaaaa")) == 1
    assert [path for path in before if not (cache / path).exists()] == []
    assert looked(cache).sealed == 0  # the digests came back with them


@pytest.mark.parametrize("text", ["", "{", '{"key": 1}', '{"key": "../../x"}'])
def test_a_damaged_owner_is_no_owner(cache: Path, text: str) -> None:
    (cache / OURS).mkdir()
    (cache / OURS / "image.json").write_text(text)
    assert images.owner(cache) == "" and images.change(cache, "aaaaaaaaaaaa") == []
    assert images.owner(cache) == "aaaaaaaaaaaa"


# pure


def test_paths_that_lead_elsewhere_belong_to_no_system() -> None:
    triton = next(system for system in SYSTEMS if system.name == "triton")
    assert belongs(triton, TRITON)
    for path in ("triton/..", "triton/.", "triton//x", "/triton/x", "triton/x/y", "jit/x", "triton"):
        assert not belongs(triton, path)
    assert all(any(belongs(system, path) for system in SYSTEMS) for path in ALL)


@pytest.mark.parametrize("length", range(0, len(LIBRARY), max(1, len(LIBRARY) // 40)))
def test_every_cut_of_a_library_shows(length: int) -> None:
    assert whole.fault("a.so", LIBRARY[:length])
    assert whole.fault("a.so", LIBRARY) is None


def test_an_entry_names_its_place() -> None:
    assert Entry(SYSTEMS[0], Path("/c"), TVM_FFI).path == Path("/c") / TVM_FFI
