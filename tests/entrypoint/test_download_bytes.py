"""download: bytes that are not the file's, or not all of them, or too many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dsv4_pd.run.download.progress import LONGEST_WAIT_S, Progress, Tally
from support.downloads import base, run, storage_bytes, whole
from support.hub import Hub, running, tiny

FIRST = "model-00001-of-00002.safetensors"
CHUNKED = {"Transfer-Encoding": "chunked"}  # a body that names no length
PAGES = {
    "a page": (200, {"Content-Type": "text/html; charset=utf-8", **CHUNKED}, b"<html>log in</html>"),
    "a page as text": (200, {"Content-Type": "text/plain", **CHUNKED}, b"please log in at http://portal.example"),
    "a page without a type": (200, CHUNKED, b"<html>log in</html>"),
    "a page with its length": (200, {"Content-Type": "text/html"}, b"<html>log in</html>"),
    "a range past the end": (416, {"Content-Range": "bytes */7"}, b""),
    "a range of another file": (206, {"Content-Range": "bytes 90000-90006/90007"}, b"another"),
    "no range": (206, {}, b"another"),
}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running(Hub("org/tiny", tiny())) as stub:
        yield stub


def half_here(hub: Hub, home: Path, data: bytes) -> Path:
    """What an interrupted download of the first shard left."""
    part = base(home) / "blobs" / f"{hub.etag(FIRST)}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(data)
    return part


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_another_s_answer_does_not_cost_what_is_there(
    hub: Hub, tmp_path: Path, page: tuple[int, dict[str, str], bytes]
) -> None:
    half_here(hub, tmp_path, hub.files[FIRST][:90_000])
    hub.faults.status["storage"] = [page, page, page]
    done = run(hub, tmp_path)
    assert done.returncode == 0 and whole(hub, tmp_path), done.stderr
    assert hub.sent == storage_bytes(hub) - 90_000


@pytest.mark.parametrize("here", [0, 90_000])
def test_bytes_too_many_are_not_kept(hub: Hub, tmp_path: Path, here: int) -> None:
    half_here(hub, tmp_path, hub.files[FIRST][:here])
    hub.faults.surplus = [500, 500]
    done = run(hub, tmp_path)
    assert done.returncode == 0 and whole(hub, tmp_path), done.stderr


@pytest.mark.parametrize("suffix", [".part", ""])
def test_what_is_longer_than_the_file_is_fetched_again(hub: Hub, tmp_path: Path, suffix: str) -> None:
    part = half_here(hub, tmp_path, hub.files[FIRST] + b"!" * 500)
    part.rename(part.with_suffix(suffix))
    done = run(hub, tmp_path)
    assert done.returncode == 0 and whole(hub, tmp_path), done.stderr
    assert hub.sent == storage_bytes(hub)


@pytest.mark.parametrize("ignores", [False, True], ids=["ranges", "no ranges"])
def test_a_storage_that_names_no_length_is_read_to_its_end(hub: Hub, tmp_path: Path, ignores: bool) -> None:
    hub.faults.chunked, hub.faults.ignore_range, hub.faults.cut_after = True, ignores, [50_000, 40_000]
    done = run(hub, tmp_path)
    assert done.returncode == 0 and whole(hub, tmp_path), done.stderr
    again = 90_000 if ignores else 0
    assert hub.sent == storage_bytes(hub) + again


def test_a_beginning_of_other_bytes_is_found_by_its_hash(hub: Hub, tmp_path: Path) -> None:
    half_here(hub, tmp_path, b"!" * 90_000)
    done = run(hub, tmp_path)
    assert done.returncode == 0 and whole(hub, tmp_path), done.stderr


def test_a_page_again_and_again_ends_with_its_cause(hub: Hub, tmp_path: Path) -> None:
    hub.faults.status["storage"] = [PAGES["a page as text"]] * 99
    done = run(hub, tmp_path, DSV4_DOWNLOAD_STALL_TIMEOUT="2")
    assert done.returncode == 75 and "not the Hub's" in done.stderr, done.stderr
    assert "no new byte for 2 s" in done.stderr


class Clock:
    moment = 0.0

    def __call__(self) -> float:
        return self.moment


def test_the_same_bytes_again_are_no_progress() -> None:
    """Else nothing would ever end a download that breaks at the same byte forever."""
    clock = Clock()
    progress = Progress(clock)
    tally = Tally(progress, 10)
    tally(50)
    clock.moment = 7.0
    for size in (0, 30, 50):  # a storage without ranges: from the beginning, to the same byte
        tally(size)
    assert (progress.still_s, progress.snapshot().fetched) == (7.0, 40)
    tally(51)
    assert progress.still_s == 0


def test_a_wait_that_the_hub_asked_for_is_no_stall_while_other_files_come() -> None:
    clock = Clock()
    progress = Progress(clock)
    progress.say("rate limit", excused_s=600)
    clock.moment = 10.0
    progress.fetched(1)
    clock.moment = 600.0
    assert progress.still_s == 0
    progress.say("rate limit", excused_s=86400)
    clock.moment = 10.0 + LONGEST_WAIT_S
    assert progress.still_s == 0
    clock.moment += 5
    progress.say("rate limit", excused_s=86400)
    assert progress.still_s == 5


def test_an_empty_file_is_whole_without_a_byte(hub: Hub, tmp_path: Path) -> None:
    hub.files["encoding/__init__.py"] = hub.files["modeling.py"] = b""
    done = run(hub, tmp_path)
    assert done.returncode == 0 and whole(hub, tmp_path), done.stderr
