"""Nothing secret is printed, however it is spelt; what is no secret stays readable."""

from __future__ import annotations

import json
import os
import random
import shlex
import string
import time
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
import yaml
from dsv4_pd.settings.redact import MASK, Redactor, known_secrets
from dsv4_pd.settings.redaction import names, shapes
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("REDACTION_EXAMPLES", "60"))  # fewer where each of many mutants is tried


# --- a secret that nobody told us: by its name, its place in a URL, or its shape

H = "hunter2-Zq9"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"server_args=ServerArgs(api_key='{H} x', admin_api_key=\"{H}\", tp_size=4)",
         "server_args=ServerArgs(api_key='***', admin_api_key=\"***\", tp_size=4)"),
        (f"api_key='it\\'s\"{H}', host='127.0.0.1'", "api_key='***', host='127.0.0.1'"),
        (f'{{"api_key": "{H}", "port": 1}}', '{"api_key": "***", "port": 1}'),
        (f'"{{\\"api_key\\": \\"it\'s \\\\\\"{H}\\", \\"port\\": 1}}"', '"{\\"api_key\\": \\"***\\", \\"port\\": 1}"'),
        (f"Config {{ api_key: Some(\"{H}\"), port: 1 }}", "Config { api_key: Some(***), port: 1 }"),
        (f"api_key=SecretStr('{H}'), b=1", "api_key=SecretStr(***), b=1"),
        (f"api_keys=['{H}', '{H}'] next", "api_keys=[***] next"),
        (f"--api-key {H} --port 1", "--api-key *** --port 1"),
        (f"--api-key={H} --port 1", "--api-key=*** --port 1"),
        (f"--api-key='two words {H}' --port 1", "--api-key='***' --port 1"),
        (f"--api-key 'it'\"'\"'s {H}' --port 1", "--api-key '*** --port 1"),
        (f"['--api-key', '{H}', '--port', '1']", "['--api-key', '***', '--port', '1']"),
        (f"--control-plane-api-keys a:b:admin:{H} c:d:user:{H} --port 1", "--control-plane-api-keys *** *** --port 1"),
        (f"['--control-plane-api-keys', 'a:b:admin:{H}', 'c:d:user:{H}', '--port']",
         "['--control-plane-api-keys', '***', '***', '--port']"),
        (f"DSV4_ROUTER_EXTRA_ARGS=--control-plane-api-keys id:n:admin:{H}",
         "DSV4_ROUTER_EXTRA_ARGS=--control-plane-api-keys ***"),
        (f"DSV4_PREFILL_EXTRA_ARGS=--ssl-keyfile-password {H} --admin-api-key {H}",
         "DSV4_PREFILL_EXTRA_ARGS=--ssl-keyfile-password *** --admin-api-key ***"),
        (f"--tenant-api-key acme:{H} --oracle-password={H}", "--tenant-api-key *** --oracle-password=***"),
        (f"  api-key: {H} with blanks", "  api-key: ***"),
        (f"- api-key: '{H}'", "- api-key: '***'"),
        (f"HF_TOKEN={H} with blanks", "HF_TOKEN=***"),
        (f"SIGNER_KEY={H}", "SIGNER_KEY=***"),
        (f"SIGNER_KEYS={H} {H}", "SIGNER_KEYS=***"),
        (f"< Cookie: a=1; session={H}", "< Cookie: ***"),
        (f"api_keys=['', ')]', '{H}'] next", "api_keys=[***] next"),
        (f"api_keys=['{H}', '{H}' and no end", "api_keys=[***"),  # a line that was cut
        (f"api_key='{H}'", "api_key='***'"),
        (f"export API_KEY='{H}'", "export API_KEY='***'"),
        (f"Authorization: Bearer {H}", "Authorization: Bearer ***"),
        (f"authorization: bEaReR {H}", "authorization: bEaReR ***"),
        (f"AUTHORIZATION: Token {H}", "AUTHORIZATION: Token ***"),
        (f"Authorization: Unheard-Of {H}", "Authorization: ***"),
        (f'Authorization: Digest username="u", response="{H}"', "Authorization: Digest ***"),
        (f"Proxy-Authorization: Basic {H}==", "Proxy-Authorization: Basic ***"),
        (f"curl -H 'Authorization: Bearer {H}' -H 'A: b'", "curl -H 'Authorization: Bearer ***' -H 'A: b'"),
        (f"[(b'authorization', b'Bearer {H}'), (b'host', b'x')]",
         "[(b'authorization', b'Bearer ***'), (b'host', b'x')]"),
        (f"{{'authorization': 'Bearer {H}', 'host': 'x'}}", "{'authorization': 'Bearer ***', 'host': 'x'}"),
        (f"x-api-key: {H}", "x-api-key: ***"),
        (f"Set-Cookie: session={H}; Path=/", "Set-Cookie: ***"),
        (f"invalid key in bearer {H}!", "invalid key in bearer ***!"),
        (f"http://user:{H}@proxy:3128/", "http://***@proxy:3128/"),
        (f"HTTP_PROXY=http://user:{H}/p/ss@proxy:3128", "HTTP_PROXY=http://***@proxy:3128"),
        (f"HTTP_PROXY=http://user:{H}@p@ss@proxy:3128", "HTTP_PROXY=http://***@proxy:3128"),
        (f"HTTP_PROXY=http://{H}@proxy:3128", "HTTP_PROXY=http://***@proxy:3128"),
        (f"https_proxy=user:{H}@proxy:3128", "https_proxy=***@proxy:3128"),
        (f"https_proxy=bob:{H}://x@proxy:3128", "https_proxy=***@proxy:3128"),
        (f"HTTP_PROXY=http://bob:{H}@b://{H}@proxy:1", "HTTP_PROXY=http://***@proxy:1"),
        (f"HF_ENDPOINT=https://tok:{H}@mirror/", "HF_ENDPOINT=https://***@mirror/"),
        (f"--redis-url redis://:{H}@db:6379/0 --x", "--redis-url redis://***@db:6379/0 --x"),
        (f"DSV4_MODEL=https://x/?token={H}&a=b", "DSV4_MODEL=https://x/?token=***&a=b"),
        (f"GET https://x/f?Expires=1&Signature={H}&Key-Pair-Id={H} 200",
         "GET https://x/f?Expires=1&Signature=***&Key-Pair-Id=*** 200"),
        (f"'GET /v1/models?api_key={H} HTTP/1.1' 401", "'GET /v1/models?api_key=*** HTTP/1.1' 401"),
        ("downloading with hf_" + "A" * 34, "downloading with ***"),
        ("key sk-" + "a1" * 12 + " is wrong", "key *** is wrong"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----\nnext", "***\nnext"),
    ],
)  # fmt: skip
def test_a_secret_by_its_place_is_masked(text: str, shown: str) -> None:
    assert Redactor().text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "api_key=None",
        "'api_key': None, 'port': 1",
        '"token": null, "api_key": ""',
        "max_total_num_tokens=8192, token_usage=0.3, prompt_tokens: 12",
        "eos_token='</s>', pad_token: <pad>",
        "--tokenizer-path /models/x --tls-key-path /etc/key.pem",
        "DSV4_API_KEY_FILE=/run/secrets/api_key",
        "cache_key=7f3a, routing_key=abc, public_key=xyz",
        "https://host:8443/path@v1 and http://127.0.0.1:30000/ready",
        "pip install git+https://host/repo@v1.2",
        "the author of this token said nothing",
        "--enable-api-key --port 1",
        "Bearer authentication is required",
        "NO_PROXY=127.0.0.1,localhost",
        "api_key=***, token=(17 characters)",
        "[2026-11-30 05:27:16 TP0] Decode batch, #token: 200, token usage: 0.01, gen throughput (token/s): 3",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor().text(text) == text


CARRIERS: dict[str, Callable[[str], str]] = {
    "repr": lambda key: f"ServerArgs(model='x', api_key={key!r}, port=1)",
    "dict": lambda key: repr({"admin_api_key": key, "port": 1}),
    "json": lambda key: json.dumps({"apiKey": key, "port": 1}),
    "json of repr": lambda key: json.dumps({"line": f"api_key={key!r}"}),
    "json of json": lambda key: json.dumps(json.dumps({"hf_token": key})),
    "argv": lambda key: repr(["x", "--api-key", key, "--port", "1"]),
    "shell": lambda key: shlex.join(["x", "--ssl-keyfile-password", key, "--port", "1"]),
    "shell =": lambda key: f"x --api-key={shlex.quote(key)} --port 1",
    "yaml": lambda key: yaml.safe_dump({"port": 1, "api-key": key}, width=10**6),
    "variable": lambda key: f"A=1\nMY_PASSWD={key}\nB=2",
    "header": lambda key: f"GET / HTTP/1.1\r\nAuthorization: Bearer {key}\r\nHost: x",
    "url": lambda key: f"connecting to http://user:{quote(key, safe='')}@proxy:3128/x",
    "query": lambda key: f"GET /x?a=1&access_token={quote_plus(key)}&b=2",
}
PRINTABLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=8, max_size=24)


@pytest.mark.parametrize("carrier", CARRIERS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(key=PRINTABLE)
@example(key="it's\"x-Tail-SECRET")
@example(key="back\\slash\\\\'\"end")
@example(key="00_token")
def test_unknown_secrets_are_masked_whatever_they_hold(carrier: str, key: str) -> None:
    assume(not (carrier == "shell" and key.startswith("-")))  # no parser takes that as the flag's value
    shown = Redactor().text(CARRIERS[carrier](key))
    around = CARRIERS[carrier]("another")  # "00_token" has a run in common with the name hf_token
    assert [run for run in survivors(key, shown) if run not in around] == [], shown


# --- a secret that we know


def survivors(secret: str, shown: str, length: int = 6) -> list[str]:
    """Runs of so many characters of the secret that can still be read."""
    runs = {secret[start : start + length] for start in range(len(secret) - length + 1)} or {secret}
    left = shown.replace(MASK, "<\ue000masked\ue000>")
    return sorted(run for run in runs if run in left and not run.isspace() and run.strip("*"))


SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "repr": repr,
    "repr of repr": lambda text: repr(repr(text)),
    "bytes": lambda text: repr(text.encode()),
    "ascii": ascii,
    "json": json.dumps,
    "json, letters kept": lambda text: json.dumps(text, ensure_ascii=False),
    "json of repr": lambda text: json.dumps(repr(text)),
    "json of json of json": lambda text: json.dumps(json.dumps(json.dumps(text))),
    "yaml": lambda text: yaml.safe_dump({"k": {"v": text}}),
    "yaml quoted": lambda text: yaml.safe_dump([text], default_style='"', allow_unicode=True),
    "yaml single": lambda text: yaml.safe_dump([text], default_style="'", allow_unicode=True, width=20),
    "shell": shlex.quote,
    "repr of shell": lambda text: repr(shlex.quote(text)),
    "url": quote,
    "url, all": lambda text: quote(text, safe=""),
    "form": quote_plus,
    "url of url": lambda text: quote(quote(text)),
    "json of url": lambda text: json.dumps({"u": f"http://x/?q={quote(text)}"}),
    "flag": lambda text: f"--api-key {text} --port 1",
    "supervisor": lambda text: f"environment=X={text.replace('%', '%%')}" if "%" not in text else text,
    "rust": lambda text: '"' + "".join(rust(c) for c in text) + '"',
    "html": lambda text: __import__("html").escape(text),
}


def rust(character: str) -> str:
    """As `{:?}` prints a string's character."""
    if character in '\\"':
        return "\\" + character
    return character if character.isprintable() else f"\\u{{{ord(character):x}}}"


ANY = st.text(st.characters(exclude_categories=["Cs"]), min_size=6, max_size=60)
AWKWARD = st.text(st.sampled_from("'\"\\ab \n%+&;<x0u"), min_size=6, max_size=40)


@pytest.mark.parametrize("spelling", SPELLINGS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(secret=ANY | AWKWARD | PRINTABLE)
@example(secret="it's\"x-Tail-SECRET")
@example(secret="schlüssel-ß-\U0001f511")
@example(secret="key-\U00010000-first-beyond-the-plane")
@example(secret="a key with blanks " * 12)
@example(secret="k\\\n'\"\nTail-SECRET'\\ '")  # what looks like a fold is its own
@example(secret="q'" * 40)
def test_a_known_secret_is_masked_in_every_spelling(spelling: str, secret: str) -> None:
    text = f"before {SPELLINGS[spelling](secret)} after"
    shown = Redactor([secret]).text(text)
    own = survivors(secret, f"before {SPELLINGS[spelling]('')} after")  # "0nviron" shares letters with `environment=`
    assert [run for run in survivors(secret, shown) if run not in own] == [], (text, shown)


def test_a_known_secret_is_masked_in_place() -> None:
    assert Redactor(["abc", "abcdef"]).line("x=abcdef y=abc") == "x=*** y=***"
    assert Redactor(["s3cret-key"]).text('{"a": "s3cret-key", "b": 1}') == '{"a": "***", "b": 1}'


def test_a_long_secret_is_masked_whole() -> None:
    secret = "".join(random.Random(1).choices(string.printable, k=4096))
    for spell in (str, repr, json.dumps, quote):
        assert survivors(secret, Redactor([secret]).text(f"<{spell(secret)}>")) == []


@pytest.mark.parametrize("text", ["\\" * 20_000, "'" * 20_000, " " * 20_000, "+%25" * 5_000, "--api-key=" * 2_000,
                                  "://" * 7_000, "token" * 4_000, "[(" * 10_000, "a'\\" * 7_000, "@" * 20_000,
                                  "\\n" * 10_000, "api_key=\"" * 2_000])  # fmt: skip
def test_no_text_makes_it_slow(text: str) -> None:
    redactor = Redactor(["\\\\'\"'\\" * 6, " n n n n n n", "+ + + + + + +", "aaaaaaaaaaab", "%%%%%%%%"])
    redactor.text("warm")
    started = time.process_time()
    redactor.text(text)
    assert time.process_time() - started < 2.0


# --- values rather than text


def test_data_is_masked_by_its_structure() -> None:
    shown = Redactor(["known-value"]).data(
        {
            "settings": {"DSV4_API_KEY": H, "DSV4_PORT": 8000, "DSV4_ROUTER_EXTRA_ARGS": f"--api-key {H}"},
            "argv": ["x", "--api-key", H, "--control-plane-api-keys", H, H, "--port", "1", f"--oracle-password={H}"],
            "env": {"HF_TOKEN": H, "SIGNER_KEY": H, "https_proxy": f"bob:{H}/@proxy:1", "HF_HOME": "/models"},
            "note": "with known-value",
            "known-value": [True, None, 1.5, ("--token", H)],
        }
    )
    assert shown == {
        "settings": {"DSV4_API_KEY": "***", "DSV4_PORT": 8000, "DSV4_ROUTER_EXTRA_ARGS": "--api-key ***"},
        "argv": [
            "x",
            "--api-key",
            "***",
            "--control-plane-api-keys",
            "***",
            "***",
            "--port",
            "1",
            "--oracle-password=***",
        ],
        "env": {"HF_TOKEN": "***", "SIGNER_KEY": "***", "https_proxy": "***@proxy:1", "HF_HOME": "/models"},
        "note": "with ***",
        "***": [True, None, 1.5, ["--token", "***"]],
    }


def test_secrets_of_the_environment_are_known() -> None:
    environ = {
        "HF_TOKEN": "abcdefgh",
        "HTTPS_PROXY": "http://bob:p%40ss/word@proxy:3128",
        "HOME": "/root",
        "MY_PASSWORD": "hunter22",
        "X_TOKEN": "on",
        "PWD": "/some/folder",
        "SSH_AUTH_SOCK": "/tmp/agent.1",
        "TOKENIZERS_PARALLELISM": "disabled",
        "DB_PWD": "hunter33",
        "Y_KEY": "12345678",
        "all_proxy": "carol:pass-word@proxy",
        "SIGNED": "https://h/x?sig=abcdefghi",
    }
    known = known_secrets(environ, ["k", ""])
    assert {"k", "abcdefgh", "hunter22", "hunter33", "p%40ss/word", "p@ss/word", "pass-word"} <= set(known)
    assert not {"on", "12345678", "/root", "", "proxy", "/some/folder", "/tmp/agent.1", "disabled"} & set(known)
    assert "abcdefgh" not in Redactor(known).text("the hub said: token abcdefgh is unknown")


# --- values of JSON, lists of arguments, variables: what each name and place decides


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"https_proxy": f"http://bob:{H}@proxy:3128"}, {"https_proxy": "http://***@proxy:3128"}),
        ({"https_proxy": f"bob:{H}@x@proxy:3128"}, {"https_proxy": "***@proxy:3128"}),
        ({"https_proxy": f"a://b://bob:{H}@proxy"}, {"https_proxy": "a://***@proxy"}),
        ({"https_proxy": f"http://bob:{H}@b://{H}@proxy:1"}, {"https_proxy": "http://***@proxy:1"}),
        ({"https_proxy": f"bob:{H}://{H}@proxy:1"}, {"https_proxy": "***@proxy:1"}),  # that is no scheme
        ({"https_proxy": "http://@proxy:3128"}, {"https_proxy": "http://@proxy:3128"}),
        ({"https_proxy": "http://proxy:3128"}, {"https_proxy": "http://proxy:3128"}),
        ({"mail": "someone@example.org"}, {"mail": "someone@example.org"}),  # an address is no proxy's user
        (["--mail", "someone@example.org"], ["--mail", "someone@example.org"]),
        (["word", "word"], ["word", "word"]),
        ([f"--api-key={H}", "word"], ["--api-key=***", "word"]),
        ([f"--api-key={H}=={H}", "word"], ["--api-key=***", "word"]),
        (["--api-key", H, "word"], ["--api-key", "***", "word"]),
        (["--api-keys", H, H, "--port", "1"], ["--api-keys", "***", "***", "--port", "1"]),
        (["--api-key", 7, "word"], ["--api-key", 7, "***"]),
        ({"": H, "plain": H}, {"": H, "plain": H}),
        (H, H),
        (["--port", [f"--api-key={H}"]], ["--port", ["--api-key=***"]]),
    ],
    ids=str,
)
def test_values_of_json(value: object, shown: object) -> None:
    assert Redactor().data(value) == shown


@pytest.mark.parametrize(
    ("environ", "known"),
    [
        ({"A_KEY": "sixsix"}, ("sixsix",)),
        ({"A_KEY": "fives"}, ()),
        ({"A_KEY": "1234567"}, ()),
        ({"HTTP_PROXY": "bob:passwd@x@proxy"}, ("bob:passwd@x", "passwd@x")),  # up to the last @, with no scheme
        ({"HTTP_PROXY": "http://proxy:3128"}, ()),
        ({"HTTP_PROXY": "bob:passwd://x@proxy"}, ("bob:passwd://x", "passwd://x")),
        ({"HTTP_PROXY": "http://bob:pass:word@proxy"}, ("bob:pass:word", "pass:word")),
        ({"INDEX_URL": "https://token-of-mine@index/simple"}, ("token-of-mine",)),
        ({"INDEX_URL": "https://host/a@v1234567"}, ()),
        ({"MAIL": "bob:passwd@x"}, ()),  # no URL and no proxy
        ({"TWO": "a://bob:passwd1@h://x"}, ("bob:passwd1", "passwd1")),
        ({"ONE": "://bob:passwd1@h"}, ("bob:passwd1", "passwd1")),
    ],
    ids=str,
)
def test_what_the_environment_gives_away(environ: dict[str, str], known: tuple[str, ...]) -> None:
    assert known_secrets(environ) == known


@pytest.mark.parametrize(
    "name", ["KEY", "MY_KEY", "MY_KEYS", "KEYS", "DB_PASS", "PASS", "GH_PAT", "PAT", "SIGNKEY", "Pass"]
)
def test_a_bare_key_is_a_variable_s_secret(name: str) -> None:
    assert names.is_secret_variable(name) and Redactor().data({name: H}) == {name: "***"}


@pytest.mark.parametrize(
    "name",
    ["PUBLIC_KEY", "CACHE_KEY", "HOST_KEYS", "MY_KEY_FILE", "KEYBOARD", "PATH", "COMPASS", "", "_", "ROUTING_KEY"],
)
def test_what_only_sounds_like_a_key_is_shown(name: str) -> None:
    assert not names.is_secret_variable(name)


@pytest.mark.parametrize(
    ("rest", "length"),
    [
        ("u:p@h/a@b", 7),  # a password may hold a slash: rather too much than too little
        ("u:p?q@h", 5),  # nothing that should have been escaped ends it
        ("u:p/q/r@h", 7),
        ("u:p@", 3),
        ("u@h@", 3),
        ("@", 0),
        ("h/?a@b", 0),
        ("u:p@-/h x", 3),
    ],
)
def test_where_a_user_part_ends(rest: str, length: int) -> None:
    assert shapes.user_part(rest) == length
