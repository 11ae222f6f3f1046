"""A log record is one line, whatever is in it and however it came there."""

from __future__ import annotations

import io
import logging
import threading
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

BREAKS = [
    "\n",
    "\r",
    "\r\n",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x1d",
    "\x1e",
    "\x85",
    "\u2028",
    "\u2029",
    "\x1b[2J",
    "\x00",
    "\ud800",
]
SIGNATURE = "SIGQUIT received."


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    from dsv4_gate import lines

    kept = logging.Handler.format, warnings.formatwarning, threading.excepthook
    lines.install()
    lines.install()  # each plugin load calls it
    yield
    logging.captureWarnings(False)
    logging.Handler.format, warnings.formatwarning, threading.excepthook = kept  # type: ignore[method-assign]


def logged(write: object, *arguments: object, error: BaseException | None = None) -> str:
    """What a handler as the engine's writes of one record."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logging.Formatter("[%(asctime)s TP0] %(message)s", "%Y-%m-%d %H:%M:%S"))
    logger = logging.Logger("engine")
    logger.addHandler(handler)
    logger.error(write, *arguments, exc_info=error)
    return out.getvalue()


@pytest.mark.parametrize("sign", BREAKS, ids=ascii)
def test_no_sign_begins_a_line(sign: str) -> None:
    text = logged(f"LoRA adapter 'x{sign}{SIGNATURE}{sign}y' was requested")
    assert len(text.splitlines()) == 1
    assert text.encode()
    assert not any(line.startswith(SIGNATURE) for line in text.splitlines())
    assert SIGNATURE in text, "what was sent can still be read"


@given(st.text(st.characters(codec=None), max_size=200), st.text(max_size=50))
def test_any_text_is_one_line(message: str, argument: str) -> None:
    text = logged("%s %s", message, argument)
    assert len(text.splitlines()) == 1
    assert text.endswith("\n")
    assert text.startswith("[2")
    text.encode()


def test_a_traceback_is_one_record_and_one_line() -> None:
    error = ValueError(f"no adapter 'x\n{SIGNATURE}'")
    with pytest.raises(ValueError, match="adapter") as caught:
        raise error
    text = logged("Exception in ASGI application", error=caught.value)
    assert len(text.splitlines()) == 1
    first, *rest = text.split("\\n")
    assert first.endswith("Exception in ASGI application")
    assert rest[0] == "Traceback (most recent call last):", "the convention: split at backslash-n"


def test_what_can_be_printed_stays_as_it_is() -> None:
    assert logged("naïve 你好\t😀 C:\\new").endswith("naïve 你好\t😀 C:\\new\n")


def test_a_warning_and_a_thread_that_dies_go_through_logging(caplog: pytest.LogCaptureFixture) -> None:
    warnings.warn(f"odd value 'x\n{SIGNATURE}'", stacklevel=1)

    def die() -> None:
        raise RuntimeError(f"x\n{SIGNATURE}")

    thread = threading.Thread(target=die)
    thread.start()
    thread.join()
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert not any(line.startswith(SIGNATURE) for line in caplog.handler.format(caplog.records[0]).splitlines())
