"""The front as a process: its options, its exit codes, its end."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from dsv4_pd.host.address import bracketed
from dsv4_pd.plan.front.config import FrontConfig
from dsv4_pd.run.front.__main__ import read
from support.ports import free_ports

COMMAND = [sys.executable, "-m", "dsv4_pd.run.front", "--upstream", "http://127.0.0.1:1", "--model", "m"]


def begin(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait(port: int, process: subprocess.Popen[str], address: str = "127.0.0.1") -> None:
    for _ in range(600):
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
            if probe.connect_ex((address, port)) == 0:
                return
        assert process.poll() is None
        time.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_stop(number: signal.Signals) -> None:
    (port,) = free_ports(1)
    with begin(f"--port={port}") as process:
        wait(port, process)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=20) as answer:
            assert json.load(answer)["live"] is True
        process.send_signal(number)
        assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("host", "hears", "deaf"),
    [("::", ["127.0.0.1", "::1"], []), ("::1", ["::1"], ["127.0.0.1"]), ("0.0.0.0", ["127.0.0.1"], ["::1"])],
)
def test_it_listens_where_the_setting_says(host: str, hears: list[str], deaf: list[str]) -> None:
    """`::` is every address, of both kinds: an event loop's own socket would leave IPv4 out, without a word."""
    (port,) = free_ports(1)
    with begin(f"--port={port}", f"--host={host}") as process:
        try:
            wait(port, process, hears[-1])
            for address in hears:
                with urllib.request.urlopen(f"http://{bracketed(address)}:{port}/livez", timeout=20) as answer:
                    assert json.load(answer)["live"] is True
            for address in deaf:
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection((address, port), timeout=5)
        finally:
            process.terminate()


def test_a_port_that_is_taken_is_temporary() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with begin(f"--port={taken.getsockname()[1]}") as process:
            _, errors = process.communicate(timeout=60)
        assert process.returncode == 75
        assert "already in use" in errors


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--keys-file=/nosuch"], "/nosuch: No such file or directory"),
        (["--key-file=/nosuch"], "/nosuch: No such file or directory"),
        (["--tls-cert=/nosuch", "--tls-key=/nosuch"], "/nosuch, /nosuch: no such file or directory"),
    ],
)
def test_what_can_not_be_read_ends_the_start(options: list[str], words: str) -> None:
    with begin("--port=0", *options) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert words in errors
    assert "Traceback" not in errors


def test_the_plans_file_and_the_options_over_it(tmp_path: Path) -> None:
    config = FrontConfig("http://127.0.0.1:1", "m", cors_origins=("http://a",), max_output_tokens=5)
    (tmp_path / "front.json").write_text(config.to_json())
    assert read(["--config", str(tmp_path / "front.json")]) == config
    found = read(
        ["--config", str(tmp_path / "front.json"), "--port=1", "--cors-origins=http://b,http://c", "--page=off"]
    )
    assert (found.port, found.cors_origins, found.page) == (1, ("http://b", "http://c"), False)
    assert found.max_output_tokens == 5
    (tmp_path / "front.json").write_text('{"upstream": "u", "model": "m", "nosuch": 1}')
    with pytest.raises(TypeError, match="unknown nosuch"):
        read(["--config", str(tmp_path / "front.json")])
