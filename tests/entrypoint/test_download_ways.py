"""download: proxies, certificates, mirrors, signed addresses, and whatever else lies between us and the Hub."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from dsv4_pd.plan.programs.environment import child_environment
from dsv4_pd.run.download import causes, classify, progress
from dsv4_pd.run.download.causes import Asked, Cause, Failed
from dsv4_pd.run.download.job import Job, Task
from dsv4_pd.run.download.progress import Progress
from dsv4_pd.run.download.store import Lock, Store
from dsv4_pd.settings.proxies import Proxies
from support.certificates import certificate
from support.downloads import base, run, start, storage_bytes, whole
from support.hub import Hub, running, tiny
from support.proxy import Proxy, serving


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running(Hub("org/tiny", tiny())) as stub:
        yield stub


# --- proxies


@pytest.mark.parametrize("user", [None, "bob:p%40ss"])
def test_a_proxy_is_gone_through(hub: Hub, tmp_path: Path, user: str | None) -> None:
    with serving(Proxy(user=user and "bob:p@ss")) as proxy:
        address = proxy.url.replace("//", f"//{user}@") if user else proxy.url
        done = run(hub, tmp_path, http_proxy=address)
        assert done.returncode == 0 and whole(hub, tmp_path), done.stderr
        assert any("/resolve/" in line for line in proxy.seen) and any("Expires=" in line for line in proxy.seen)


def test_no_proxy_is_kept(hub: Hub, tmp_path: Path) -> None:
    with serving(Proxy()) as proxy:
        done = run(hub, tmp_path, HTTP_PROXY=proxy.url, NO_PROXY="localhost,127.0.0.0/8")
        assert done.returncode == 0 and whole(hub, tmp_path) and proxy.seen == [], done.stderr


REFUSALS: dict[str, tuple[dict[str, Any], bool, str]] = {
    "a password, plain": ({"user": "a:b"}, False, "407"),
    "a password, tunnel": ({"user": "a:b"}, True, "407"),
    "the tunnel": ({"refuse": 403}, True, "403"),
}


@pytest.mark.parametrize("kept,tls,words", REFUSALS.values(), ids=REFUSALS)
def test_a_proxy_that_refuses_is_named(tmp_path: Path, kept: dict[str, Any], tls: bool, words: str) -> None:
    pair = certificate(tmp_path, "hub") if tls else None
    with running(Hub("org/tiny", tiny()), tls=pair) as hub, serving(Proxy(**kept)) as proxy:
        name = "HTTPS_PROXY" if tls else "HTTP_PROXY"
        done = run(hub, tmp_path, DSV4_DOWNLOAD_STALL_TIMEOUT="1", **{name: proxy.url})
    assert done.returncode == 75 and done.stderr.startswith(f"dsv4-pd: {name}: found the proxy does not let us"), (
        done.stderr
    )
    assert f"{name}={proxy.url}: {words}" in done.stderr and "please report" not in done.stderr


def test_an_authority_of_one_s_own_is_trusted_by_its_file_alone(tmp_path: Path) -> None:
    pair = certificate(tmp_path, "hub")
    with running(Hub("org/tiny", tiny()), tls=pair) as hub, serving(Proxy()) as proxy:
        refused = run(hub, tmp_path)
        assert refused.returncode == 2 and "SSL_CERT_FILE: found https://127.0.0.1" in refused.stderr, refused.stderr
        assert "a certificate that is not trusted here" in refused.stderr
        done = run(hub, tmp_path, SSL_CERT_FILE=str(pair[0]), HTTPS_PROXY=proxy.url)
        assert done.returncode == 0 and whole(hub, tmp_path), done.stderr
        assert all(line.startswith("CONNECT 127.0.0.1:") for line in proxy.seen) and proxy.seen


GIVEN = (
    {"HTTPS_PROXY": "http://p:1"}, {"ALL_PROXY": "p:2"}, {"all_proxy": "http://p:2", "http_proxy": "http://p:1"},
    {"HTTPS_PROXY": "http://p:1", "https_proxy": ""},
)  # fmt: skip
DIRECT = (
    "", "*", "example.org", ".example.org", "*.example.org", "hub.example.org", "EXAMPLE.ORG", "localhost", "127.0.0.1",
    "127.0.0.0/8", "10.0.0.0/8", "::1", "[::1]", "fd00::/8", "example.org:443", "example.org:8080", "127.0.0.1:8080",
    "https://example.org", "http://hub.example.org", "all://hub.example.org", "https://*.example.org", "*example.org",
    "a,b, example.org",
)  # fmt: skip
ADDRESSES = (
    "https://example.org/x", "http://example.org", "https://hub.example.org", "https://notexample.org",
    "https://example.org:8080", "http://127.0.0.1:8080", "https://127.0.0.1", "http://localhost:1", "http://[::1]:8",
    "https://[fd00::1]",
)  # fmt: skip


@pytest.mark.parametrize("given", GIVEN, ids=[" ".join(given) for given in GIVEN])
def test_the_proxy_that_we_name_is_the_one_that_the_library_takes(
    given: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    for direct in DIRECT:
        monkeypatch.setenv("NO_PROXY", direct)
        client, ours = httpx2.Client(), Proxies.read(os.environ)
        theirs = {url: client._transport_for_url(httpx2.URL(url)) is not client._transport for url in ADDRESSES}
        assert {url: ours.of(url) is not None for url in ADDRESSES} == theirs, direct


# --- the Hub's answers


def test_an_address_that_expires_in_the_middle_is_asked_for_again(hub: Hub, tmp_path: Path) -> None:
    """By the clock: each address lives a moment, and the first requests come too late."""
    hub.faults.expire_s = -1.0
    process = start(hub, tmp_path)
    while len(hub.asked("storage")) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    hub.faults.expire_s = 3600.0
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0 and whole(hub, tmp_path), err
    assert hub.sent == storage_bytes(hub)


def test_an_address_that_is_never_right_is_named(hub: Hub, tmp_path: Path) -> None:
    hub.faults.expire_s = -1.0
    done = run(hub, tmp_path, DSV4_DOWNLOAD_STALL_TIMEOUT="1")
    assert done.returncode == 75 and "its signed address is refused (403)" in done.stderr
    assert "check this machine's clock" in done.stderr


def test_a_rate_limit_of_the_storage_is_waited_out(hub: Hub, tmp_path: Path) -> None:
    hub.faults.status["storage"] = [(429, {"Retry-After": "2"}, b"")] * 2
    began = time.monotonic()
    done = run(hub, tmp_path, DSV4_DOWNLOAD_STALL_TIMEOUT="1")
    assert done.returncode == 0 and whole(hub, tmp_path), done.stderr
    assert time.monotonic() - began >= 2


def test_a_mirror_that_lists_neither_sizes_nor_hashes_is_asked_for_each(hub: Hub, tmp_path: Path) -> None:
    hub.faults.unlisted = True
    done = run(hub, tmp_path)
    assert done.returncode == 0 and whole(hub, tmp_path), done.stderr
    assert len([line for line in hub.asked("hub") if line.startswith("HEAD ")]) >= len(hub.files) - 1


def test_a_mirror_s_own_etags_are_no_hashes(tmp_path: Path) -> None:
    class Mirror(Hub):
        def etag(self, name: str) -> str:
            return f"{len(self.files[name]):x}-5f3a"  # as nginx makes them

    with running(Mirror("org/tiny", tiny())) as hub:
        hub.faults.unlisted = True
        done = run(hub, tmp_path)
        assert done.returncode == 0 and whole(hub, tmp_path), done.stderr
        asked = len(hub.seen)
        assert run(hub, tmp_path).returncode == 0 and len(hub.seen) == asked, "its size and time are what is known"


WAITS = {
    "a day": {"Retry-After": "86400"},
    "a year": {"RateLimit": '"api";r=0;t=99999999'},
}


@pytest.mark.parametrize("headers", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("status", [429, 503])
def test_a_wait_without_an_end_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], status: int
) -> None:
    """What the Hub asks for is no stall, but only for an hour; here for an instant."""
    for module in (progress, sys.modules["dsv4_pd.run.download.patience"]):
        monkeypatch.setattr(module, "LONGEST_WAIT_S", 0.2)
    asked = Asked("org/tiny", "main", "http://hub", str(tmp_path))

    class Limited:
        def listing(self) -> None:
            raise classify.of_answer(status, headers, asked)

    job = Job(Task(asked, Store(tmp_path, "org/tiny"), tmp_path / "s", 0.3), Limited, Progress())  # type: ignore[arg-type]
    found: list[BaseException] = []
    thread = threading.Thread(target=lambda: found.append(raised(job)), daemon=True)
    thread.start()
    thread.join(20)
    job.stop()
    thread.join(20)
    assert isinstance(found[0], Failed) and found[0].stalled_s == 0.3, found


def raised(job: Job) -> BaseException:
    try:
        job.run()
    except BaseException as error:
        return error
    raise AssertionError("it ended well")


# --- the disk


SYSTEM: dict[str, tuple[int, Cause, str]] = {
    "a disk that fails": (errno.EIO, causes.DISK, "input/output error"),
    "a volume that went away": (errno.ESTALE, causes.DISK, "stale file handle"),
    "a full disk": (errno.ENOSPC, causes.NO_ROOM, "no space left on device"),
    "a quota": (errno.EDQUOT, causes.NO_ROOM, "disk quota exceeded"),
    "no such place": (errno.ENOENT, causes.NO_WRITING, "no such file or directory"),
    "files of 4 GB at most": (errno.EFBIG, causes.NO_WRITING, "file too large"),
    "no locks": (errno.ENOLCK, causes.NO_WRITING, "a volume without file locks: no locks available"),
    "locks not supported": (
        errno.EOPNOTSUPP,
        causes.NO_WRITING,
        "a volume without file locks: operation not supported",
    ),
}


@pytest.mark.parametrize("number,cause,words", SYSTEM.values(), ids=SYSTEM)
def test_what_the_file_system_says_has_a_cause(number: int, cause: Cause, words: str) -> None:
    failed = classify.of(OSError(number, os.strerror(number)), Asked("m", "r", "http://hub", "/c"))
    assert (failed.cause, failed.detail) == (cause, words) and not failed.again


def test_a_volume_without_locks_is_said_to_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    task = Task(Asked("org/tiny", "main", "http://hub", str(tmp_path)), Store(tmp_path, "org/tiny"), tmp_path / "s", 1)
    error = raised(Job(task, lambda: None, Progress()))  # type: ignore[arg-type,return-value]
    assert isinstance(error, Failed) and error.cause is causes.NO_WRITING
    assert "without file locks" in str(task.asked.problem(error))


def test_another_process_that_does_nothing_is_named(hub: Hub, tmp_path: Path) -> None:
    lock = Lock(Store(base(tmp_path).parent, "org/tiny"))
    assert lock.take()
    lock.tell(1000, 10, 0)
    done = run(hub, tmp_path, DSV4_DOWNLOAD_STALL_TIMEOUT="2")
    lock.release()
    assert done.returncode == 75 and hub.seen == [], done.stderr
    assert f"HF_HOME: found process {os.getpid()} on " in done.stderr and "fetches org/tiny into" in done.stderr


# --- blank means unset


def test_blank_variables_of_the_library_are_unset(hub: Hub, tmp_path: Path) -> None:
    blank = {"HF_HUB_DOWNLOAD_TIMEOUT": "", "HF_HUB_CACHE": "", "HF_TOKEN": "", "HF_HUB_ETAG_TIMEOUT": " "}
    done = run(hub, tmp_path, **blank)
    assert done.returncode == 0 and whole(hub, tmp_path), done.stderr
    assert child_environment({"HF_ENDPOINT": "", "HF_HOME": "/x"}, "") == {"HF_HOME": "/x"}


def test_the_library_would_have_taken_blank_for_a_value() -> None:
    """Why they are left out: the day this fails, it is no longer needed."""
    for name in ("HF_HUB_DOWNLOAD_TIMEOUT", "HF_ENDPOINT"):
        code = "from huggingface_hub import constants; assert constants.ENDPOINT"
        env = {"PATH": os.environ["PATH"], name: ""}
        assert subprocess.run([sys.executable, "-c", code], env=env, capture_output=True).returncode
