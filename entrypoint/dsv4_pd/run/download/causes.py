"""Why a download fails: one table of causes, each with its words, its remedy and its exit code.

docs/troubleshooting.md is made from this table. Which cause an error has is decided in `classify`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dsv4_pd.errors import ApplianceError, Problem, SettingsError, TemporaryError
from dsv4_pd.settings.proxies import Proxies

STALL_SETTING = "DSV4_DOWNLOAD_STALL_TIMEOUT"


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason. `{model}`, `{revision}`, `{endpoint}`, `{cache}`, `{proxy}` (the variable that names one) and
    `{detail}` are filled in when it is told.
    """

    name: str
    subject: str
    found: str
    expected: str
    remedy: str
    again: bool = False  # tried again by itself while DSV4_DOWNLOAD_STALL_TIMEOUT allows
    error: type[ApplianceError] = TemporaryError


_LATER = "run it again: it resumes where it stopped"
# fmt: off
BAD_TOKEN = Cause(
    "bad-token", "HF_TOKEN", "a token that {endpoint} refuses (401)", "a valid token, or none for a public model",
    "make one under {endpoint}/settings/tokens and set HF_TOKEN or HF_TOKEN_FILE, or unset both",
    error=SettingsError)
NEEDS_TOKEN = Cause(
    "needs-token", "HF_TOKEN", "no token, and {model} is gated", "a token of an account that may read {model}",
    "accept the conditions at {endpoint}/{model}, then set HF_TOKEN or HF_TOKEN_FILE", error=SettingsError)
GATED = Cause(
    "gated", "HF_TOKEN", "a token whose account may not read {model} yet", "an account with access to this gated model",
    "accept the conditions at {endpoint}/{model} with the token's account, or use another account's token",
    error=SettingsError)
FORBIDDEN = Cause(
    "forbidden", "HF_TOKEN", "{endpoint} refuses {model} (403: {detail})", "leave to read it",
    "give the token read access to {model}, or ask its owner", error=SettingsError)
NO_MODEL = Cause(
    "no-model", "DSV4_MODEL", "'{model}', which {endpoint} does not have, or shows only to its readers",
    "a model on the Hub, a name that `dsv4-pd models` lists, or a folder",
    "set DSV4_MODEL; for a private model set HF_TOKEN or HF_TOKEN_FILE too", error=SettingsError)
NO_REVISION = Cause(
    "no-revision", "DSV4_MODEL_REVISION", "'{revision}'", "a branch, tag or commit of {model}",
    "set DSV4_MODEL_REVISION", error=SettingsError)
NOT_WHOLE = Cause(
    "not-whole", "DSV4_MODEL", "'{model}' at {revision}: {detail}", "a repository with a whole model",
    "choose another revision or model", error=SettingsError)
NO_WRITING = Cause(
    "no-writing", "HF_HOME", "{cache}, which can't be written ({detail})", "a folder for the model's files",
    "mount a volume there that this user may write and that has file locks, or set HF_HOME", error=SettingsError)
OFFLINE = Cause(
    "offline", "{detail}", "set, and {model} is not whole in {cache}", "it unset, or the model there",
    "unset {detail} and run `dsv4-pd download`, or set DSV4_MODEL to a folder that has it", error=SettingsError)
NO_ROOM = Cause(
    "no-room", "HF_HOME", "{detail} at {cache}", "room for what is missing",
    f"free space there, or point HF_HOME to a larger disk, and {_LATER}")
DISK = Cause(
    "disk", "HF_HOME", "{cache} fails ({detail})", "a disk that reads and writes",
    f"look at the kernel's log (dmesg) for the disk's errors, and {_LATER}")
DAMAGED = Cause(
    "damaged", "the model's files", "{detail}", "the bytes that the Hub names by their hash",
    "look for a proxy or mirror that changes files, and check the memory and the disk of this machine")
RATE_LIMIT = Cause(
    "rate-limit", "the Hub", "too many requests from this address or account (429)", "an answer",
    f"wait, set HF_TOKEN (accounts have higher limits), and {_LATER}", again=True)
HUB_DOWN = Cause(
    "hub-down", "the Hub", "{endpoint} answers {detail}", "an answer",
    f"wait, see https://status.huggingface.co, and {_LATER}", again=True)
PORTAL = Cause(
    "portal", "the Hub", "an answer that is not the Hub's: {detail}", "the Hub's own answer",
    f"a login page or a proxy stands between: log in, set HTTPS_PROXY, or correct HF_ENDPOINT, and {_LATER}",
    again=True)
NAME_LOOKUP = Cause(
    "name-lookup", "the Hub", "the name in {endpoint} has no address ({detail})", "a name that DNS knows",
    f"check DNS in this container (`--dns`, /etc/resolv.conf) and HF_ENDPOINT, and {_LATER}", again=True)
NO_ROUTE = Cause(
    "no-route", "the Hub", "no connection to {endpoint} ({detail})", "a way to it",
    f"check the network, firewall, HTTPS_PROXY and NO_PROXY, or carry the model here (docs/new-host.md), and {_LATER}",
    again=True)
PROXY = Cause(
    "proxy", "{proxy}", "the proxy does not let us through ({detail})", "a proxy that connects to {endpoint}",
    f"correct {{proxy}} (with its user and password), or name the Hub in NO_PROXY, and {_LATER}", again=True)
CERTIFICATE = Cause(
    "certificate", "SSL_CERT_FILE", "{endpoint} shows a certificate that is not trusted here ({detail})",
    "a trusted certificate, and a right clock",
    "where a proxy looks into TLS, mount its authority's certificate and name it in SSL_CERT_FILE",
    error=SettingsError)
SILENCE = Cause(
    "silence", "the Hub", "no answer in time ({detail})", "an answer",
    f"check the network and proxies, raise HF_HUB_DOWNLOAD_TIMEOUT on a slow line, and {_LATER}", again=True)
CUT = Cause(
    "cut", "the Hub", "the connection was cut ({detail})", "the whole file",
    f"check the network and proxies, and {_LATER}", again=True)
URL_REFUSED = Cause(
    "url-refused", "the Hub's storage", "its signed address is refused ({detail})", "a file",
    f"check this machine's clock, and that proxies let the storage's host through, and {_LATER}", again=True)
OTHER_STUCK = Cause(
    "other-stuck", "HF_HOME", "{detail} fetches {model} into {cache}", "an end of that",
    f"look at that container; end it, and {_LATER}")
UNKNOWN = Cause(
    "unknown", "the download", "{detail}", "the model",
    f"please report this with `dsv4-pd support-bundle`, and {_LATER}", again=True)

CAUSES = (BAD_TOKEN, NEEDS_TOKEN, GATED, FORBIDDEN, NO_MODEL, NO_REVISION, NOT_WHOLE, NO_WRITING, OFFLINE, NO_ROOM,
          DISK, DAMAGED, RATE_LIMIT, HUB_DOWN, PORTAL, NAME_LOOKUP, NO_ROUTE, PROXY, CERTIFICATE, SILENCE, CUT,
          URL_REFUSED, OTHER_STUCK, UNKNOWN)
# fmt: on


class Failed(Exception):
    """A download step failed for one of the causes."""

    def __init__(self, cause: Cause, detail: str = "", wait_s: float | None = None, stalled_s: float | None = None):
        super().__init__(f"{cause.name}: {detail}")
        self.cause, self.detail = cause, detail
        self.wait_s = wait_s  # that the Hub asked for
        self.stalled_s = stalled_s  # how long nothing came while it was tried again; None: it may be tried again

    @property
    def again(self) -> bool:
        """Whether trying again may help."""
        return self.cause.again and self.stalled_s is None


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for: the words of a cause are filled in from this."""

    model: str
    revision: str
    endpoint: str
    cache: str
    has_token: bool = False
    proxies: Proxies = field(default_factory=Proxies)

    def _words(self, detail: str) -> Mapping[str, str]:
        return {
            "model": self.model,
            "revision": self.revision,
            "endpoint": self.endpoint.rstrip("/"),
            "cache": self.cache,
            "proxy": (self.proxies.of(self.endpoint) or ("HTTPS_PROXY", ""))[0],
            "detail": detail or "no further word",
        }

    def problem(self, failed: Failed) -> Problem:
        """The cause in the operator's words."""
        cause, words = failed.cause, self._words(failed.detail)
        found = cause.found.format_map(words)
        if failed.stalled_s is not None:
            found += f", and no new byte for {failed.stalled_s:.0f} s ({STALL_SETTING})"
        return Problem(
            cause.subject.format_map(words), found, cause.expected.format_map(words), cause.remedy.format_map(words)
        )

    def short(self, failed: Failed) -> str:
        """What was found, for a line of progress."""
        return failed.cause.found.format_map(self._words(failed.detail))
