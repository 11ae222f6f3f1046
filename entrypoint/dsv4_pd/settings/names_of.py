"""What addresses, models, names and folders may look like: the rules of whoever takes them. Pure.

Each reads text that is already on one line and, but for the served name, without quotes around it (`settings.rule`).
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Any

from dsv4_pd.settings.text import bare

ADDRESS_ACCEPTS = "an IP address of this machine, such as 0.0.0.0, 127.0.0.1 or ::, or localhost; no port, no URL"
OWN_ADDRESS_ACCEPTS = "an IPv4 address of this machine that other hosts reach, such as 10.0.0.1"
MODEL_ACCEPTS = (
    "a name that `dsv4-pd models` lists, a Hugging Face name such as deepseek-ai/DeepSeek-V4-Flash-0731, "
    "or a folder (/models/x, ~/x, ./x)"
)
REVISION_ACCEPTS = "a commit, branch or tag, as git allows it"
SERVED_NAME_ACCEPTS = "a name of 1 to 256 printable characters without a colon, not beginning with a dash"
FOLDER_ACCEPTS = "a folder of at most 200 bytes: absolute, or from ~ or the working directory"
TEMPLATE_ACCEPTS = "a Jinja file's path, ending in .jinja: absolute, or from ~ or the working directory"
RUN_FOLDER_ACCEPTS = "a folder of at most 91 bytes (sockets lie in it): absolute, or from ~ or the working directory"
FILE_ACCEPTS = "a file's path of at most 200 bytes: absolute, or from ~ or the working directory"
REQUEST_LOG_ACCEPTS = "off, stdout, or a file's path with a / in it (./requests.log), of at most 200 bytes"
ORIGINS_ACCEPTS = "origins such as https://chat.example.org or http://10.0.0.5:3000, comma-separated, or *"
PROGRAM_ACCEPTS = "an interpreter's path: absolute, or from ~ or the working directory"
PATH_MAX = 200  # bytes; compilers put their own names behind it
RUN_PATH_MAX = 107 - len("/supervisor.sock")  # bytes; what unix(7) has for a socket's path
# huggingface_hub's own rule (utils/_validators.py): both parts of letters, digits, _ - and dots inside.
_REPO = re.compile(r"(?:\b[\w\-.]+\b/)?\b[\w\-.]{1,96}\b", re.ASCII)
_BROADCAST = ipaddress.IPv4Address("255.255.255.255")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9.-]+|\[[0-9a-f:]+\])(?::[0-9]{1,5})?")  # as a browser writes it
_NO_REF = re.compile(r"[\s~^:?*\[\\\x7f]|\.\.|//|@\{|^[/.-]|[/.]$|\.lock$")  # git-check-ref-format(1)


def address(value: Any) -> str:
    """A listening address in its shortest form. Both routers parse it themselves and resolve no name.

    >>> address("[::]"), address("localhost"), address("0:0:0:0:0:0:0:1")
    ('::', '127.0.0.1', '::1')
    """
    text = value.lower()
    if text in ("localhost", "localhost."):
        return "127.0.0.1"
    inside = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        found = ipaddress.ip_address(_plain(inside))
    except ValueError as error:
        raise ValueError from error
    if found.version == 4 and inside != text:  # brackets are for IPv6
        raise ValueError
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
        found = found.ipv4_mapped
    if found.is_multicast or found == _BROADCAST:  # the kernel would take it, and nobody could connect
        raise ValueError(f"{ADDRESS_ACCEPTS} ({found} is one of many listeners, and connects nobody)")
    return str(found)


def own_address(value: Any) -> str:
    """One address, which others are told.

    >>> own_address("10.0.0.1")
    '10.0.0.1'
    """
    found = address(value)
    if ":" in found or found == "0.0.0.0":
        raise ValueError
    return found


def _plain(text: str) -> str:
    """Without a zone: a number in one program is a name in the next."""
    if "%" in text or not text.isascii():
        raise ValueError
    return text


def is_folder_like(text: str) -> bool:
    """Whether a model's name can only be a folder."""
    return text.startswith(("/", "~", "./", "../")) or text in (".", "..")


def model(value: Any) -> str:
    """A name of the Hub, or a folder as it was written; `settings.places` makes it absolute."""
    if is_folder_like(value):
        return value.rstrip("/") or "/"
    if value.endswith("/") and value.count("/") <= 2:  # a folder's name completed by the shell
        value = value.rstrip("/")
    parts = value.split("/")
    if len(parts) > 2 and all(parts):
        return str(value)  # deeper than any name of the Hub: a folder from the working directory
    if not _REPO.fullmatch(value) or "--" in value or ".." in value or value.endswith(".git"):
        raise ValueError
    return str(value)


def revision(value: Any) -> str:
    """What the Hub takes as a revision; it becomes a part of an address there and a file name here."""
    if not value.isascii() or _NO_REF.search(value) or len(value) > 256:
        raise ValueError
    return str(value)


def served_name(value: Any) -> str:
    """Byte for byte, but for quotes around it. The engine keeps the colon for `model:adapter` (validation_hook.py).

    >>> served_name(" a b "), served_name('"flash"')
    (' a b ', 'flash')
    """
    value = bare(value) if bare(value) != value.strip() else value
    if not value.strip() or len(value) > 256 or ":" in value or value.startswith("-"):
        raise ValueError
    return str(value)


def folder(value: Any) -> Path:
    """A path; `settings.places` makes it absolute."""
    if isinstance(value, Path):
        return value
    if not value or len(value.encode()) > PATH_MAX:
        raise ValueError
    return Path(value)


def run_folder(value: Any) -> Path:
    """The same for the folder of the sockets."""
    if not isinstance(value, Path) and len(value.encode()) > RUN_PATH_MAX:
        raise ValueError
    return folder(value)


def template(value: Any) -> Path:
    """A chat template's path. The engine also takes names and JSON files: those are for other models, without tools.

    >>> template("~/t.jinja")
    PosixPath('~/t.jinja')
    """
    path = folder(value)
    if path.suffix != ".jinja" or path.name == ".jinja":
        raise ValueError
    return path


def request_log(value: Any) -> str:
    """Where the request log goes.

    >>> request_log("STDOUT"), request_log("/var/log/requests")
    ('stdout', '/var/log/requests')
    """
    if value.lower() in ("off", "stdout"):
        return str(value.lower())
    if "/" not in value or value.endswith("/"):  # a word that is no file's name: on, none, stderr; or a folder
        raise ValueError
    return str(folder(value))


def origins(value: Any) -> tuple[str, ...]:
    """Origins of pages, which browsers send in small letters and without a path.

    >>> origins("https://A.example, http://[::1]:3000/"), origins("*")
    (('https://a.example', 'http://[::1]:3000'), ('*',))
    """
    if isinstance(value, tuple):
        return value
    found = tuple(part.strip().lower().removesuffix("/") for part in value.split(",") if part.strip())
    if not found or not all(part == "*" or _ORIGIN.fullmatch(part) for part in found):
        raise ValueError
    if "*" in found and len(found) > 1:
        raise ValueError
    return found
