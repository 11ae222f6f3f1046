"""Which names say that their value is nobody's business: of settings, flags, variables, headers, query parameters."""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# A name with one of these holds a secret, whatever else it says.
_ALWAYS = frozenset(
    ["password", "passwords", "passwd", "passphrase", "pwd", "secret", "secrets", "credential", "credentials",
     "cookie", "cookies", "authorization", "apikey", "apikeys", "authtoken", "accesstoken", "privatekey",
     "secretkey", "bearer"]
)  # fmt: skip
_ENDINGS = (
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "token",
)  # of a word that nothing separates: DBPASSWORD
# `key` alone is a word of dictionaries, caches and routing; with one of these before it, it opens something.
_OPENS = frozenset(
    ["api", "admin", "secret", "private", "access", "auth", "signing", "encryption", "session", "account",
     "master", "service", "tenant", "ssh", "shared", "storage", "subscription", "deploy", "license", "hmac",
     "aes", "jwt", "plane"]
)  # fmt: skip
# `token` is also what the engine counts and the tokenizer names.
_LINGUISTIC = frozenset(
    ["eos", "bos", "pad", "unk", "sep", "cls", "mask", "stop", "next", "last", "first", "per", "image", "audio",
     "video", "special", "think", "begin", "end", "start", "draft", "output", "input", "prompt", "new", "current",
     "each", "generated", "accepted", "verified", "tool", "prefix", "suffix", "of", "in", "one", "a", "the",
     "decode", "prefill", "cached", "reasoning"]
)  # fmt: skip
# What is said about a secret, not the secret.
_ABOUT = frozenset(
    ["file", "path", "dir", "folder", "name", "names", "type", "length", "size", "count", "limit", "threshold",
     "usage", "ttl", "expiry", "algorithm", "policy", "prefix", "env", "enabled", "required", "mode", "header",
     "headers", "override"]
)  # fmt: skip
_LOCATES = frozenset(["public", "routing", "cache", "sort", "primary", "partition", "foreign", "lookup", "host"])
_QUERY = frozenset(
    ["sig", "signature", "key", "code", "auth", "policy", "pass", "sas", "credential", "jwt", "password"]
)  # fmt: skip


def is_secret(name: str) -> bool:
    """Whether a flag, field, header or variable of this name holds a secret.

    >>> [is_secret(n) for n in ("--admin-api-key", "hfToken", "ssl_keyfile_password", "AWS_SECRET_ACCESS_KEY")]
    [True, True, True, True]
    >>> [is_secret(n) for n in ("DSV4_API_KEY_FILE", "max_total_num_tokens", "eos_token", "cache_key")]
    [False, False, False, False]
    """
    said = _words(name)
    if not said or said[-1] in _ABOUT or said == ["pwd"]:  # the working folder of every shell
        return False
    if any(word in _ALWAYS for word in said):
        return True
    last, before = said[-1], said[-2] if len(said) > 1 else ""
    if last in ("key", "keys"):
        return before in _OPENS
    if last == "token":
        return before not in _LINGUISTIC
    return last == "auth" or (last == "tokens" and before in _OPENS) or last.endswith(_ENDINGS)


def is_secret_variable(name: str) -> bool:
    """The same for a variable of the environment, where a bare KEY or TOKEN anywhere is a secret too.

    >>> is_secret_variable("SIGNER_KEY"), is_secret_variable("HF_TOKEN"), is_secret_variable("HF_HOME")
    (True, True, False)
    """
    said = _words(name)
    if is_secret(name):
        return True
    if not said or said[-1] in _ABOUT:
        return False
    last, before = said[-1], said[-2] if len(said) > 1 else ""
    return (last in ("key", "keys", "pass", "pat") or last.endswith("key")) and before not in _LOCATES


def is_secret_parameter(name: str) -> bool:
    """The same for a parameter of a URL's query, signatures of object stores among them."""
    said = _words(name)
    return is_secret(name) or bool(said and said[-1] in _QUERY) or name.lower() == "key-pair-id"


def is_proxy(name: str) -> bool:
    """Whether a value is a proxy's address, which may hold a password, with or without a scheme."""
    return _words(name)[-1:] == ["proxy"] and "no" not in _words(name)


def is_header(name: str) -> bool:
    """A header whose value runs to the end of its line: schemes, parameters and blanks included."""
    return _words(name)[-1:] in (["authorization"], ["cookie"])


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]
