"""The types of the settings: each is a rule (`settings.rule`) of whoever consumes the value."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, InstanceOf, PlainSerializer, SecretStr

from dsv4_pd.settings import gpu_list, interfaces, layout, names_of, peers
from dsv4_pd.settings.layout import Layout
from dsv4_pd.settings.rule import Rule

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
# Routers count in 32 bits, some of them signed; no machine comes near it.
COUNT_MAX = 2**31 - 1
# Tokens. The guard's own request and the warm-up's shortest (28) must fit, or nothing ever becomes READY.
CONTEXT_MIN = 64
# A timer beyond overflows in one of the programs; nobody waits longer.
LONGEST_S = 30 * 86400.0
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,12})?|\.[0-9]{1,12}"


def whole(value: Any, least: int, most: int) -> int:
    """A whole number in ASCII digits, in bounds: what Python, Rust and a shell all read alike.

    >>> whole("0080", 1, 65535)
    80
    """
    if isinstance(value, str):
        if not re.fullmatch(r"[0-9]{1,12}", value):
            raise ValueError
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError
    return value


def number(value: Any) -> float:
    """A plain decimal number: no exponent, sign, `inf` or `nan`."""
    if isinstance(value, str):
        if not re.fullmatch(_NUMBER, value):
            raise ValueError
        return float(value)
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not known:
        raise ValueError
    return float(value)


def parse_duration(value: Any) -> float:
    """Seconds from '90', '90s', '60m' or '1.5h'.

    >>> parse_duration("60m")
    3600.0
    """
    if isinstance(value, str):
        match = re.fullmatch(rf"({_NUMBER})\s*([smh]?)", value.lower())
        if not match:
            raise ValueError
        value = float(match[1]) * _UNITS[match[2]]
    seconds = number(value)
    if not 1 <= seconds <= LONGEST_S:  # a probe alone may take longer than less
        raise ValueError
    return seconds


def parse_whole_duration(value: Any) -> float:
    """The same for a consumer that counts whole seconds, of which 0 often means something else.

    >>> parse_whole_duration("1.5m"), parse_whole_duration("0.025h")
    (90.0, 90.0)
    """
    seconds = parse_duration(value)
    if round(seconds, 6) != int(round(seconds, 6)):
        raise ValueError
    return float(round(seconds))


def _share(value: Any) -> float:
    found = number(value)
    if not 0 < found < 1:
        raise ValueError
    return found


def _gigabytes(value: Any) -> float:
    found = number(value)
    if found <= 0:
        raise ValueError
    return found


def _word(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _spelled(value: Layout | None) -> str:
    return str(value) if value else layout.AUTO


def shell_words(value: Any) -> Any:
    """Text that a shell would split into words.

    >>> shell_words('"--log-requests --x 1"'), shell_words("--a 'b c'")
    ('--log-requests --x 1', "--a 'b c'")

    Raises:
        ValueError: for an open quote.
    """
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise ValueError(f"shell words ({error})") from error
    # No flag has a blank before its value: these are the quotes that `docker run --env-file` keeps.
    if len(words) == 1 and words[0].startswith("-") and " " in words[0].partition("=")[0]:
        return shell_words(words[0])
    return value


PORT = Rule("a port from 1 to 65535, in digits", lambda value: whole(value, 1, 65535))
COUNT = Rule(f"a whole number from 1 to {COUNT_MAX}, in digits", lambda value: whole(value, 1, COUNT_MAX))
FRACTION = Rule("a number between 0 and 1, such as 0.85", _share)
GIGABYTES = Rule("a number of GB above 0, such as 94", _gigabytes)
CONTEXT = Rule(
    f"a whole number from {CONTEXT_MIN} to {COUNT_MAX}, in digits", lambda value: whole(value, CONTEXT_MIN, COUNT_MAX)
)
DURATION = Rule("a duration from 1s to 30 days, such as 90s, 60m or 1.5h", parse_duration)
SECONDS = Rule("a duration of whole seconds from 1s to 30 days, such as 90s, 60m or 1.5h", parse_whole_duration)
LAYOUT = Rule(layout.EXPECTED, layout.read)
WORD = Rule("one of the words listed, in any case", _word)
GPUS = Rule(gpu_list.ACCEPTS, gpu_list.read)
ADDRESS = Rule(names_of.ADDRESS_ACCEPTS, names_of.address)
OWN_ADDRESS = Rule(names_of.OWN_ADDRESS_ACCEPTS, names_of.own_address)
NET_DEVICES = Rule(interfaces.ACCEPTS, interfaces.read)
PREFILLS = Rule(peers.PREFILLS_ACCEPTS, peers.prefills)
DECODES = Rule(peers.DECODES_ACCEPTS, peers.decodes)
MODEL = Rule(names_of.MODEL_ACCEPTS, names_of.model)
TEMPLATE = Rule(names_of.TEMPLATE_ACCEPTS, names_of.template)
REVISION = Rule(names_of.REVISION_ACCEPTS, names_of.revision)
SERVED_NAME = Rule(names_of.SERVED_NAME_ACCEPTS, names_of.served_name, shell_file=False)
FOLDER = Rule(names_of.FOLDER_ACCEPTS, names_of.folder)
RUN_FOLDER = Rule(names_of.RUN_FOLDER_ACCEPTS, names_of.run_folder)
FILE = Rule(names_of.FILE_ACCEPTS, names_of.folder)
REQUEST_LOG = Rule(names_of.REQUEST_LOG_ACCEPTS, names_of.request_log)
ORIGINS = Rule(names_of.ORIGINS_ACCEPTS, names_of.origins)
PROGRAM = Rule(names_of.PROGRAM_ACCEPTS, names_of.folder)
# Quotes are part of shell words. Which flags are allowed is the plan's question: see plan/programs/owned_flags.py.
SHELL_WORDS = Rule("shell words: flags that the appliance does not own", shell_words, shell_file=False)

Port = Annotated[int, PORT]
Count = Annotated[int, COUNT]
Context = Annotated[int, CONTEXT]
Fraction = Annotated[float, FRACTION]
Gigabytes = Annotated[float, GIGABYTES]
Duration = Annotated[float, DURATION]
Seconds = Annotated[float, SECONDS]
GpuList = Annotated[tuple[str, ...], GPUS]
ExtraArgs = Annotated[str, SHELL_WORDS]
LayoutText = Annotated[InstanceOf[Layout] | None, LAYOUT, PlainSerializer(_spelled)]
Address = Annotated[str, ADDRESS]
OwnAddress = Annotated[str, OWN_ADDRESS]
NetDevices = Annotated[tuple[str, ...], NET_DEVICES]
Prefills = Annotated[tuple[str, ...], PREFILLS]
Decodes = Annotated[tuple[str, ...], DECODES]
Model = Annotated[str, MODEL]
Revision = Annotated[str, REVISION]
ServedName = Annotated[str, SERVED_NAME]
Folder = Annotated[Path, FOLDER]
RunFolder = Annotated[Path, RUN_FOLDER]
Template = Annotated[Path, TEMPLATE]
File = Annotated[Path, FILE]
RequestLog = Annotated[str, REQUEST_LOG]
Origins = Annotated[tuple[str, ...], ORIGINS]
Interpreter = Annotated[Path, PROGRAM]

KEY_MAX = 4096  # bytes; half of what common proxies take as one header
KEY_ACCEPTS = f"1 to {KEY_MAX} printable ASCII characters, no blank at either end, as `openssl rand -hex 32` makes"


class UnusableKey(ValueError):
    """A key that no client can send; `found` says why in words that don't show it."""

    def __init__(self, found: str) -> None:
        super().__init__(KEY_ACCEPTS)
        self.found = found


def sendable(value: SecretStr) -> SecretStr:
    """A key that arrives as it was sent, in `Authorization: Bearer KEY`.

    HTTP drops blanks around a header's value, both routers answer 401 to any byte beyond printable ASCII, and a line
    break ends the header. The value is never part of the error.
    """
    found = _unsendable(value.get_secret_value())
    if found:
        raise UnusableKey(found)
    return value


def _unsendable(text: str) -> str | None:
    """What is wrong with a key, in words that don't show it; None when nothing is.

    >>> _unsendable("abc "), _unsendable("a b'c"), _unsendable('""')
    ('a blank at its end', None, 'nothing between its quotes')
    """
    strange = [character for character in text if not " " <= character <= "~"]
    checks = {
        "a byte order mark at its beginning": text.startswith("\ufeff"),
        "a line break": any(mark in text for mark in "\n\r"),
        "a control character": any(character < " " or character == "\x7f" for character in strange),
        "a character beyond ASCII": bool(strange),
        "a blank at its beginning": text.startswith(" "),
        "a blank at its end": text.endswith(" "),
        "nothing between its quotes": text in ('""', "''"),  # `docker run --env-file` keeps the quotes of a blank value
        f"{len(text)} characters": len(text) > KEY_MAX,
    }
    return next((words for words, wrong in checks.items() if wrong), None)


Key = Annotated[SecretStr, AfterValidator(sendable)]


def is_duration(item: object) -> bool:
    """Whether a field's metadata says that it is in seconds."""
    return item in (DURATION, SECONDS)
