"""Keys and certificate of the front are looked at before anything starts, by the settings that name them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from dsv4_pd.doctor.base import CheckVerdict
from dsv4_pd.doctor.checks.settings import door_files as check
from dsv4_pd.doctor.preflight import refuse
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.front.files import refusals
from dsv4_pd.settings.load import load
from entrypoint.test_checks import situation
from front.test_tls import certificate
from support.plans import eight_cards
from support.rewording import reworded


def found(**settings: str) -> dict[str, str]:
    return dict(refusals(load({f"DSV4_{name}": value for name, value in settings.items()})))


def test_good_files_are_no_refusal(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text('[a]\nkey = "x"\n')
    cert, key = certificate(tmp_path, "host")
    assert not found(API_KEY="k", API_KEYS_FILE=str(tmp_path / "keys.toml"), TLS_CERT=cert, TLS_KEY=key)


@pytest.mark.parametrize("text", ["[a]\n", "no toml", '[a]\nkey="x"\nnosuch=1\n', ""])
def test_a_keys_file_that_cannot_be_used_is_named_without_its_text(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(text)
    told = found(API_KEY="k", API_KEYS_FILE=str(path))
    assert told.keys() == {"DSV4_API_KEYS_FILE"}
    assert str(path) in told["DSV4_API_KEYS_FILE"]


def test_a_pair_that_does_not_fit_and_one_that_is_not_there(tmp_path: Path) -> None:
    cert, _ = certificate(tmp_path, "host")
    _, other = certificate(tmp_path, "host", "2")
    assert "mismatch" in found(TLS_CERT=cert, TLS_KEY=other)["DSV4_TLS_CERT"]
    assert "No such file" in found(TLS_CERT=cert, TLS_KEY=str(tmp_path / "none"))["DSV4_TLS_CERT"]


def test_a_request_log_can_be_appended_to(tmp_path: Path) -> None:
    """Asked without making it: `plan` makes nothing."""
    log = tmp_path / "requests"
    assert not found(REQUEST_LOG=str(log)) and not log.exists()
    log.write_text("before\n")
    assert not found(REQUEST_LOG=str(log)) and log.read_text() == "before\n"
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for a reader, and every request with it
    for path, why in ((tmp_path, "no regular file"), (tmp_path / "pipe", "no regular file"),
                      (tmp_path / "none" / "log", "no folder"), (log / "log", "requests/log")):  # fmt: skip
        assert why in found(REQUEST_LOG=str(path))["DSV4_REQUEST_LOG"]


def test_a_request_log_that_may_not_be_written_refuses_the_start() -> None:
    held = replace(situation(request_log="/x/log"), door_files=(("DSV4_REQUEST_LOG", "any words"),))
    with pytest.raises(SettingsError, match="DSV4_REQUEST_LOG: found any words"):
        refuse(held)


def test_a_key_with_a_passphrase_asks_nobody(tmp_path: Path) -> None:
    import subprocess

    cert, key = certificate(tmp_path, "host")
    subprocess.run(["openssl", "ec", "-in", key, "-aes256", "-passout", "pass:x", "-out", f"{key}.e"], check=True,
                   capture_output=True)  # fmt: skip
    assert "passphrase" in found(TLS_CERT=cert, TLS_KEY=f"{key}.e")["DSV4_TLS_CERT"]


@pytest.mark.parametrize(("given", "missing"), [
    ({"TLS_CERT": "/c"}, "DSV4_TLS_KEY"), ({"TLS_KEY": "/k"}, "DSV4_TLS_CERT"),
    ({"API_KEYS_FILE": "/k"}, "DSV4_API_KEY"),
])  # fmt: skip
def test_half_of_a_pair_is_refused(given: dict[str, str], missing: str) -> None:
    with pytest.raises(SettingsError, match=f"{missing} is not set.*set {missing} as well"):
        load({f"DSV4_{name}": value for name, value in given.items()})


def test_a_start_is_refused_by_the_setting_whatever_the_words_are() -> None:
    told = replace(
        situation(eight_cards(), api_key="k", api_keys_file=Path("/k")), door_files=(("DSV4_API_KEYS_FILE", "why"),)
    )
    for one in (told, reworded(told)):
        assert check.CHECK.run(one).verdict is CheckVerdict.FAIL
        with pytest.raises(SettingsError, match=r"^DSV4_API_KEYS_FILE: found "):
            refuse(one)
