"""download: the real huggingface_hub against a small Hub on loopback."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from dsv4_pd.errors import ApplianceError, TemporaryError
from dsv4_pd.run import download
from dsv4_pd.run.download import Wanted, require_space

COMMIT = "1" * 40


def safetensors(size: int) -> bytes:
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + os.urandom(size)


class Hub(BaseHTTPRequestHandler):
    """Three endpoints of the Hub: a revision, its tree, and the files, with ranges and a drop on demand."""

    files: dict[str, bytes] = {}
    drop_after: int | None = None  # bytes of the next large file after which the connection breaks
    seen: list[str] = []
    large = "model.safetensors"

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        path = self.path.split("?")[0]
        self.seen.append(f"{self.command} {path} {self.headers.get('Range', '')}".strip())
        if match := re.fullmatch(r"/api/models/org/tiny(?:/revision/([^/]+))?", path):
            if (match[1] or "main") not in ("main", COMMIT):
                return self._fail("RevisionNotFound")
            siblings = [{"rfilename": name, "size": len(data)} for name, data in self.files.items()]
            return self._send(json.dumps({"id": "org/tiny", "sha": COMMIT, "siblings": siblings}).encode(), {}, True)
        if re.fullmatch(rf"/api/models/org/tiny/tree/(main|{COMMIT})", path):
            tree = [{"type": "file", "path": n, "size": len(d), "oid": "0" * 40} for n, d in self.files.items()]
            return self._send(json.dumps(tree).encode(), {}, True)
        if match := re.fullmatch(r"/org/tiny/resolve/[^/]+/(.+)", path):
            return self._file(match[1], body)
        return self._fail("RepoNotFound")

    def _fail(self, code: str) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _file(self, name: str, body: bool) -> None:
        data = type(self).files[name]
        digest = hashlib.sha256(data).hexdigest()
        etag = digest if name == self.large else hashlib.sha1(data, usedforsecurity=False).hexdigest()
        extra = {"X-Repo-Commit": COMMIT, "ETag": f'"{etag}"', "Accept-Ranges": "bytes"}
        start = int(match[1]) if (match := re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))) else 0
        self._send(data, extra, body, start, drop=name == self.large)

    def _send(self, data: bytes, extra: dict[str, str], body: bool, start: int = 0, drop: bool = False) -> None:
        self.send_response(206 if start else 200)
        for key, value in extra.items():
            self.send_header(key, value)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        if not body:
            return
        rest = data[start:]
        if drop and type(self).drop_after is not None:
            rest = rest[: type(self).drop_after]
        self.wfile.write(rest)


@pytest.fixture
def hub() -> Iterator[str]:
    Hub.files = {
        "config.json": b'{"model_type": "tiny"}', "tokenizer.json": b"{}", "README.md": b"not needed",
        "model.safetensors": safetensors(300_000),
    }  # fmt: skip
    Hub.drop_after, Hub.seen = None, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def run(hub: str, home: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    environ = {
        "PATH": os.environ["PATH"], "HOME": str(home), "HF_HOME": str(home / "hf"), "HF_ENDPOINT": hub,
        "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "DSV4_MODEL": "org/tiny", **env,
    }  # fmt: skip
    command = [sys.executable, "-m", "dsv4_pd", "download", *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)


def test_model_is_fetched_verified_and_named(hub: str, tmp_path: Path) -> None:
    done = run(hub, tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"org/tiny at {COMMIT}" in done.stdout and "complete" in done.stdout
    assert f"pin it: DSV4_MODEL_REVISION={COMMIT}" in done.stdout
    snapshot = tmp_path / "hf" / "hub" / "models--org--tiny" / "snapshots" / COMMIT
    assert sorted(path.name for path in snapshot.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json"]
    offline = run("http://127.0.0.1:9", tmp_path, "--hashes", HF_HUB_OFFLINE="1")  # found by name, without the Hub
    assert offline.returncode == 0 and "complete" in offline.stdout, offline.stderr


def test_broken_download_goes_on_where_it_stopped(hub: str, tmp_path: Path) -> None:
    Hub.drop_after = 100_000
    first = run(hub, tmp_path, HF_HUB_DOWNLOAD_TIMEOUT="2")
    Hub.drop_after, Hub.seen = None, []
    second = run(hub, tmp_path, DSV4_MODEL_REVISION=COMMIT)
    assert second.returncode == 0, (first.stderr, second.stderr)
    assert "pin it" not in second.stdout
    if first.returncode:  # the library may also have resumed within the first run
        assert first.returncode == 75 and "resumes where it stopped" in first.stderr


@pytest.mark.parametrize(
    "env,code,words",
    [
        ({"DSV4_MODEL": "org/absent"}, 2, "DSV4_MODEL: found 'org/absent'"),
        ({"DSV4_MODEL_REVISION": "v9"}, 2, "DSV4_MODEL_REVISION: found 'v9'"),
        ({"HF_HUB_OFFLINE": "1"}, 2, "HF_HUB_OFFLINE: found '1', expected it unset"),
        ({"HF_ENDPOINT": "http://127.0.0.1:9"}, 75, "the Hub: found"),
    ],
)
def test_what_is_wrong_is_one_line_and_an_exit_code(
    hub: str, tmp_path: Path, env: dict[str, str], code: int, words: str
) -> None:
    done = run(hub, tmp_path, **env)
    assert done.returncode == code, done.stderr
    assert words in done.stderr and "Traceback" not in done.stderr


def test_damage_is_found_by_check_and_by_hash(tmp_path: Path) -> None:
    base = tmp_path / "models--org--tiny"
    snapshot, data = base / "snapshots" / COMMIT, bytearray(safetensors(5000))
    blob = base / "blobs" / hashlib.sha256(data).hexdigest()
    for folder in (snapshot, blob.parent):
        folder.mkdir(parents=True)
    blob.write_bytes(data)
    (snapshot / "model.safetensors").symlink_to(f"../../blobs/{blob.name}")
    for name in ("config.json", "tokenizer.json"):
        (snapshot / name).write_text("{}", encoding="utf-8")
    said: list[str] = []
    assert download.verify(snapshot) == snapshot
    assert download.check_hashes(snapshot, said.append) == () and said == ["model.safetensors ..."]
    data[-1] ^= 1  # one bit, the size stays
    blob.write_bytes(data)
    assert download.verify(snapshot) == snapshot
    assert download.check_hashes(snapshot, said.append)[0].startswith("model.safetensors is damaged")
    blob.write_bytes(data[:-5])
    with pytest.raises(ApplianceError, match="its header says"):
        download.verify(snapshot)


def test_too_little_room_is_refused_before_the_first_byte() -> None:
    wanted = Wanted(COMMIT, (("a.safetensors", 160 * 10**9),), 160 * 10**9)
    with pytest.raises(TemporaryError, match=r"HF_HOME: found 20\.0 GB free at /cache, expected 162"):
        require_space(wanted, Path("/cache"), 20 * 10**9)
    require_space(wanted, Path("/cache"), 200 * 10**9)
    require_space(wanted, Path("/cache"), None)


def test_importing_the_module_does_not_load_the_library() -> None:
    code = "import sys, dsv4_pd.run.download; print('huggingface_hub' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert download.PATTERNS
