"""download: the real huggingface_hub against a Hub on loopback that misbehaves (tests/support/hub.py)."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest
from support.downloads import base, environ, run, start, storage_bytes, whole
from support.hub import COMMIT, Hub, running, tiny

Answer = tuple[int, dict[str, str], bytes]
HTML = (200, {"Content-Type": "text/html"}, b"<html>log in</html>")


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running(Hub("org/tiny", tiny())) as stub:
        yield stub


def test_model_is_fetched_checked_and_named(hub: Hub, tmp_path: Path) -> None:
    done = run(hub, tmp_path, HF_TOKEN="hf_right")
    assert done.returncode == 0, done.stderr
    assert whole(hub, tmp_path) and "complete" in done.stdout
    assert f"pin it: DSV4_MODEL_REVISION={COMMIT}" in done.stdout
    assert (base(tmp_path) / "refs" / "main").read_text() == COMMIT
    assert not list(base(tmp_path).glob("blobs/*.part"))
    assert hub.sent == storage_bytes(hub) and hub.leaked == [], "the token is the Hub's alone"
    hub.seen.clear()
    again = run(hub, tmp_path)
    assert again.returncode == 0 and hub.seen == [], "a whole model needs no Hub"
    offline = run(hub, tmp_path, "--hashes", HF_HUB_OFFLINE="1", HF_ENDPOINT="http://127.0.0.1:9")
    assert offline.returncode == 0 and "complete" in offline.stdout, offline.stderr


def test_a_cut_connection_resumes_at_the_byte_where_it_broke(hub: Hub, tmp_path: Path) -> None:
    hub.faults.cut_after = [50_000, 40_000, 10_000]
    done = run(hub, tmp_path)
    assert done.returncode == 0 and whole(hub, tmp_path), done.stderr
    assert hub.sent == storage_bytes(hub), "no byte twice"


def test_an_address_that_expired_is_asked_for_again(hub: Hub, tmp_path: Path) -> None:
    hub.faults.status["storage"] = [(403, {"Content-Type": "application/xml"}, b"<Error/>")]
    hub.faults.cut_after = [50_000]
    done = run(hub, tmp_path)
    assert done.returncode == 0 and whole(hub, tmp_path), done.stderr
    assert len(set(hub.asked("storage"))) >= 4, "each try has an address of its own"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_download_resumes_at_the_byte_where_it_was(hub: Hub, tmp_path: Path, number: signal.Signals) -> None:
    hub.faults.bytes_per_s = 60_000.0
    first = start(hub, tmp_path)
    parts = base(tmp_path) / "blobs"
    while sum(part.stat().st_size for part in parts.glob("*.part")) < 100_000:
        assert first.poll() is None, first.communicate()
        time.sleep(0.02)
    first.send_signal(number)
    first.communicate(timeout=60)
    assert first.returncode != 0
    assert not (base(tmp_path) / "snapshots").exists(), "no half folder that looks whole"
    assert not (base(tmp_path) / "refs").exists()
    kept = sum(part.stat().st_size for part in parts.glob("*.part"))
    time.sleep(0.2)
    hub.faults.bytes_per_s, hub.sent = None, 0
    second = run(hub, tmp_path, DSV4_MODEL_REVISION=COMMIT)
    assert second.returncode == 0 and whole(hub, tmp_path), second.stderr
    assert hub.sent == storage_bytes(hub) - kept, "what was there is not fetched again"
    assert "pin it" not in second.stdout


def test_a_storage_that_ignores_ranges_starts_over(hub: Hub, tmp_path: Path) -> None:
    hub.faults.cut_after, hub.faults.ignore_range = [50_000], True
    done = run(hub, tmp_path)
    assert done.returncode == 0 and whole(hub, tmp_path), done.stderr


def test_a_portal_in_the_middle_does_not_cost_what_is_there(hub: Hub, tmp_path: Path) -> None:
    hub.faults.cut_after = [90_000]
    hub.faults.status["storage"] = []
    first = run(hub, tmp_path)  # one cut, healed
    shutil.rmtree(tmp_path / "hf")
    hub.faults.cut_after, hub.sent = [90_000, 90_000], 0
    hub.faults.status["storage"] = []
    process = start(hub, tmp_path)
    while hub.sent < 180_000 and process.poll() is None:
        time.sleep(0.005)
    hub.faults.status["storage"] += [HTML, HTML]
    process.communicate(timeout=60)
    assert first.returncode == process.returncode == 0 and whole(hub, tmp_path)
    assert hub.sent == storage_bytes(hub)


def test_a_byte_that_arrived_wrong_is_fetched_again(hub: Hub, tmp_path: Path) -> None:
    hub.faults.flip = 1
    done = run(hub, tmp_path)
    assert done.returncode == 0 and whole(hub, tmp_path), done.stderr
    hub.faults.flip = 100
    shutil.rmtree(tmp_path / "hf")
    bad = run(hub, tmp_path)
    assert bad.returncode == 75 and "fetched twice, is not what its hash says" in bad.stderr
    assert not (base(tmp_path) / "snapshots").exists()


@pytest.mark.parametrize("value", ["2", "date"])
def test_a_rate_limit_is_waited_out_as_the_hub_says(hub: Hub, tmp_path: Path, value: str) -> None:
    wait = value if value == "2" else formatdate(time.time() + 3, usegmt=True)
    hub.faults.status["hub"] = [(429, {"Retry-After": wait}, b"slow down")]
    began = time.monotonic()
    done = run(hub, tmp_path, DSV4_DOWNLOAD_STALL_TIMEOUT="1")  # shorter than the wait, which is no stall
    assert done.returncode == 0 and whole(hub, tmp_path), done.stderr
    assert time.monotonic() - began >= 2
    assert len([line for line in hub.asked("hub") if "blobs=true" in line]) == 2, "asked once more, not in between"


TOKEN = {"HF_TOKEN": "hf_" + "a" * 20}
REFUSED = (401, {"X-Error-Message": "Invalid credentials in Authorization header"}, b"{}")
CAUSES = {
    "no such model": ({"DSV4_MODEL": "org/absent"}, [], 2, ["DSV4_MODEL: found 'org/absent'", "set DSV4_MODEL"]),
    "no such revision": ({"DSV4_MODEL_REVISION": "v9"}, [], 2, ["DSV4_MODEL_REVISION: found 'v9'"]),
    "offline": ({"HF_HUB_OFFLINE": "1"}, [], 2, ["HF_HUB_OFFLINE: found set", "unset HF_HUB_OFFLINE"]),
    "bad token": (TOKEN, [REFUSED] * 9, 2, ["HF_TOKEN: found a token that", "refuses (401)", "HF_TOKEN_FILE"]),
    "gated, no token": ({}, [(401, {"X-Error-Code": "GatedRepo"}, b"")] * 9, 2, ["found no token", "accept the cond"]),
    "gated, token": (TOKEN, [(403, {"X-Error-Code": "GatedRepo"}, b"")] * 9, 2, ["may not read org/tiny yet"]),
    "forbidden": (TOKEN, [(403, {"X-Error-Message": "read scope"}, b"")] * 9, 2, ["(403: read scope)"]),
    "forbidden by another": (TOKEN, [(403, {"Server": "filter"}, b"blocked")] * 99, 75, ["not the Hub's: 403"]),
    "log in to the network": ({}, [(511, {}, HTML[2])] * 99, 75, ["not the Hub's: 511", "a login page or a proxy"]),
    "rate limit": ({}, [(429, {}, b"")] * 99, 75, ["too many requests", "set HF_TOKEN", "no new byte for 3 s"]),
    "hub down": ({}, [(503, {}, b"")] * 99, 75, ["answers 503", "status.huggingface.co"]),
    "portal": ({}, [HTML] * 99, 75, ["not the Hub's", "a login page or a proxy"]),
    "not a hub": ({}, [(404, {}, b"nginx")] * 99, 75, ["not the Hub's", "HF_ENDPOINT"]),
    "refused": ({"HF_ENDPOINT": "http://127.0.0.1:9"}, [], 75, ["no connection to http://127.0.0.1:9", "firewall"]),
    "no name": ({"HF_ENDPOINT": "http://hub.invalid"}, [], 75, ["the name in http://hub.invalid has no", "DNS"]),
    "no scheme": ({"HF_ENDPOINT": "hf.example"}, [], 2, ["HF_ENDPOINT: found 'hf.example'", "HF_ENDPOINT=https://hf.e"]),
    "no seconds": ({"HF_HUB_DOWNLOAD_TIMEOUT": "10s"}, [], 2, ["HF_HUB_DOWNLOAD_TIMEOUT: found '10s', expected"]),
    "no seconds either": ({"HF_HUB_ETAG_TIMEOUT": "-1"}, [], 2, ["HF_HUB_ETAG_TIMEOUT: found '-1'"]),
    "no certificates": ({"SSL_CERT_FILE": "/nope.pem"}, [], 2, ["SSL_CERT_FILE: found '/nope.pem' (no such file"]),
    "no certificate in it": ({"SSL_CERT_FILE": "/etc/passwd"}, [], 2, ["'/etc/passwd' (no certificate in it)"]),
    "no certificate folder": ({"SSL_CERT_DIR": "/nope"}, [], 2, ["SSL_CERT_DIR: found '/nope', which is no folder"]),
    "socks": ({"ALL_PROXY": "socks5://u:pass@p:1080"}, [], 2, ["ALL_PROXY: found a proxy by socks5", "SOCKS is not"]),
    "half a proxy": ({"HTTP_PROXY": "http://u:pass@"}, [], 2, ["HTTP_PROXY: found an address (hidden) that can't be"]),
    "no proxy": ({"HTTP_PROXY": "http://u:pass@127.0.0.1:9"}, [], 75, ["HTTP_PROXY: found the proxy does not let us",
                                                                       "HTTP_PROXY=http://127.0.0.1:9: ", "NO_PROXY"]),
    "no name of a proxy": ({"ALL_PROXY": "p.invalid:3128"}, [], 75, ["ALL_PROXY=http://p.invalid:3128: "]),
    "no place": ({"HF_HOME": "/proc/x"}, [], 2, ["HF_HOME: found /proc/x/hub, which can't be written (no such file"]),
}  # fmt: skip


@pytest.mark.parametrize("env,answers,code,words", CAUSES.values(), ids=CAUSES)
def test_each_cause_has_its_own_words(
    hub: Hub, tmp_path: Path, env: dict[str, str], answers: list[Answer], code: int, words: list[str]
) -> None:
    hub.faults.status["hub"] = list(answers)
    done = run(hub, tmp_path, **{"DSV4_DOWNLOAD_STALL_TIMEOUT": "3", **env})
    assert done.returncode == code, done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert "Traceback" not in done.stderr
    assert not any(secret in done.stdout + done.stderr for secret in (TOKEN["HF_TOKEN"], "u:pass"))
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_gated_model_lists_its_files_and_refuses_them(hub: Hub, tmp_path: Path) -> None:
    """As the Hub does: the names are public, the files are not."""
    hub.faults.gated = True
    done = run(hub, tmp_path)
    assert done.returncode == 2 and "found no token, and org/tiny is gated" in done.stderr


def test_silence_is_told_from_a_refusal(hub: Hub, tmp_path: Path) -> None:
    hub.faults.hang_s = 30
    done = run(hub, tmp_path, HF_HUB_DOWNLOAD_TIMEOUT="1", DSV4_DOWNLOAD_STALL_TIMEOUT="2")
    assert done.returncode == 75 and "no answer in time" in done.stderr and "HF_HUB_DOWNLOAD_TIMEOUT" in done.stderr


@pytest.mark.parametrize("spelling", ["{}", '"{}"', "~/token"])
def test_a_token_from_a_file_is_sent_and_never_shown(hub: Hub, tmp_path: Path, spelling: str) -> None:
    hub.faults.token, hub.faults.gated = "hf_fromthefile", True
    secret = tmp_path / "token"
    secret.write_text("hf_fromthefile\n")
    done = run(hub, tmp_path, HF_TOKEN_FILE=spelling.format(secret))
    assert done.returncode == 0 and whole(hub, tmp_path), done.stderr
    assert "hf_fromthefile" not in done.stdout + done.stderr and hub.leaked == []


BAD_TOKENS = {
    "both": ({"HF_TOKEN": "hf_x"}, "hf_y", "HF_TOKEN_FILE: found HF_TOKEN set as well"),
    "empty": ({}, "", "HF_TOKEN_FILE: found"),
    "two words": ({}, "hf_x hf_y", "HF_TOKEN_FILE: found a token (hidden)"),
    "beyond ASCII": ({}, "hf_ü", "HF_TOKEN_FILE: found a token (hidden)"),
}


@pytest.mark.parametrize("env,text,words", BAD_TOKENS.values(), ids=BAD_TOKENS)
def test_a_token_that_cannot_be_one_is_refused(
    hub: Hub, tmp_path: Path, env: dict[str, str], text: str, words: str
) -> None:
    (tmp_path / "token").write_text(text)
    done = run(hub, tmp_path, HF_TOKEN_FILE=str(tmp_path / "token"), **env)
    assert done.returncode == 2 and words in done.stderr and hub.seen == []


def test_a_folder_that_cannot_be_written_is_named(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "hf").write_text("a file in its place")
    done = run(hub, tmp_path)
    assert done.returncode in (2, 75) and "HF_HOME" in done.stderr and "Traceback" not in done.stderr


def test_too_little_room_is_refused_before_the_first_byte(hub: Hub, tmp_path: Path) -> None:
    big = tiny()
    big["model.safetensors.index.json"] = b"{}" + b" " * 9_000
    hub.files = big
    done = on_a_small_disk(hub, tmp_path, "true")
    assert done.returncode == 75, done.stderr
    assert "HF_HOME: found 0.00 GB free, 0.02 GB needed at" in done.stderr and hub.sent == 0


def test_a_disk_that_fills_up_in_the_middle_is_named(hub: Hub, tmp_path: Path) -> None:
    hub.files, hub.faults.bytes_per_s = tiny(4_000_000), 500_000.0
    begun = f"ls {tmp_path}/hf/hub/*/blobs/*.part"
    hog = f"(until {begun}; do sleep 0.05; done; head -c 40m /dev/zero > {tmp_path}/hf/hog) >/dev/null 2>&1 &"
    done = on_a_small_disk(hub, tmp_path, hog, size="24m")
    assert done.returncode == 75, done.stderr
    assert "HF_HOME: found no space left on device at" in done.stderr and "resumes where it stopped" in done.stderr


def on_a_small_disk(hub: Hub, home: Path, before: str, size: str = "1m") -> subprocess.CompletedProcess[str]:
    """The download into a file system of its own."""
    mount = f"mount -t tmpfs -o size={size} none {home}/hf"
    script = f"{mount} && {{ {before}\n}}; exec {sys.executable} -m dsv4_pd download"
    (home / "hf").mkdir()
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    if subprocess.run([*command[:4], "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode:
        pytest.skip("no mounts in a user namespace here")
    return subprocess.run(command, env=environ(hub, home), capture_output=True, text=True, timeout=60)


def test_what_a_killed_library_left_is_removed(hub: Hub, tmp_path: Path) -> None:
    """The Hub's library starts a file over each time, and what it had stays: tens of GB after a few interruptions."""
    blobs = base(tmp_path) / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{'a' * 64}.0123abcd.incomplete").write_bytes(b"x" * 1000)
    assert run(hub, tmp_path).returncode == 0
    assert not list(blobs.glob("*.incomplete"))


def test_a_half_cache_of_the_engines_own_download_is_completed(hub: Hub, tmp_path: Path) -> None:
    assert run(hub, tmp_path).returncode == 0
    snapshot = base(tmp_path) / "snapshots" / COMMIT
    gone = snapshot / "model-00002-of-00002.safetensors"
    gone.resolve().unlink()
    gone.unlink()
    shutil.rmtree(base(tmp_path) / ".dsv4-pd")
    hub.sent = 0
    done = run(hub, tmp_path)
    assert done.returncode == 0 and whole(hub, tmp_path), done.stderr
    assert hub.sent == len(hub.files[gone.name]), "only what is missing"


def test_a_file_that_changed_on_the_disk_is_noticed_and_fetched_again(hub: Hub, tmp_path: Path) -> None:
    assert run(hub, tmp_path).returncode == 0
    blob = (base(tmp_path) / "snapshots" / COMMIT / "model-00001-of-00002.safetensors").resolve()
    data = bytearray(blob.read_bytes())
    data[-1] ^= 1  # one bit; size and header stay
    blob.write_bytes(data)
    assert "is damaged" in run(hub, tmp_path, "--check", "--hashes").stderr
    done = run(hub, tmp_path)
    assert done.returncode == 0 and whole(hub, tmp_path), done.stderr


def test_a_whole_model_of_another_tool_is_checked_once_and_without_the_hub(hub: Hub, tmp_path: Path) -> None:
    assert run(hub, tmp_path).returncode == 0
    shutil.rmtree(base(tmp_path) / ".dsv4-pd")
    hub.seen.clear()
    assert run(hub, tmp_path).returncode == 0 and hub.seen == []
    assert (base(tmp_path) / ".dsv4-pd" / "checked.json").exists()


def test_one_of_two_downloads_fetches_and_the_other_waits(hub: Hub, tmp_path: Path) -> None:
    hub.faults.bytes_per_s = 100_000.0
    both = [start(hub, tmp_path) for _ in range(2)]
    said = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0] and whole(hub, tmp_path)
    assert hub.sent == storage_bytes(hub), "each byte once"
    assert all("complete" in text for text in said)


def test_a_repository_without_a_whole_model_is_named(hub: Hub, tmp_path: Path) -> None:
    del hub.files["tokenizer.json"]
    done = run(hub, tmp_path)
    assert done.returncode == 2 and "no tokenizer" in done.stderr
    assert not (base(tmp_path) / "refs").exists(), "no name leads to it"


def test_importing_the_command_does_not_load_the_library() -> None:
    code = "import sys, dsv4_pd.cli.download; print('huggingface_hub' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
