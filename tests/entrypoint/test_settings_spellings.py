"""However a setting is spelt: refused by name with what is accepted, or every consumer gets a form that it takes.

Hypothesis writes odd spellings of every setting; each form is held against the consumer's grammar. What the real engine
and the routers make of them is asked of them in test_consumers.py.
"""

from __future__ import annotations

import ipaddress
import math
import re
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from dsv4_pd.client import where
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.disk.paths import Paths
from dsv4_pd.plan.placement.members import member
from dsv4_pd.plan.placement.place import Placement
from dsv4_pd.plan.programs.router_args import router_argv
from dsv4_pd.plan.programs.server_env import _env_defaults
from dsv4_pd.plan.programs.server_flags import _common_flags, _role_flags
from dsv4_pd.run import health
from dsv4_pd.settings import hub_token
from dsv4_pd.settings.consumers import accepts, consumer
from dsv4_pd.settings.declare import declared
from dsv4_pd.settings.load import load
from dsv4_pd.settings.schema import SECRETS, Settings, env_name
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic.fields import FieldInfo

NUMBERS = [
    "0", "1", "-1", "+1", "007", "8000", "65535", "65536", "1e3", "1_000", "8k", "0x10", "inf", "nan", "-inf",
    "Infinity",
    "1.0", "1.5", ".5", "5.", "0.5", "0.999", "1/2", "٣", "８０００", "²", "9" * 30, "0.0000000000000000001",
    "90s", "60m", "1.5h", "0.5", "0.5s", "1d", "1 h", "1H", "10ms", "1:30", "PT1H", "2m30s", "1000000h",
]  # fmt: skip
TEXTS = [
    "", " ", "auto", "AUTO", "on", "true", "yes", "~", "~/m", "~nobody-here/m", "./m", "../m", "m/", "/m//", "a/b",
    "a/b/",
    "a//b",
    "a/b/c", "a:b", "https://x/y", "$HOME/m", "m" * 300, "-m", "--port 1", "'", "\"open", "a b", "a\\b", "%s",
    "%(x)s", "{}",
    "::", "[::]", "::1", "[::1]", "fe80::1%eth0", "localhost", "LOCALHOST", "box.example", "*", "0", "127.1",
    "127.0.0.01",
    "0.0.0.0:8000", "http://0.0.0.0", "::ffff:127.0.0.1", "10.0.0.5/24", "256.1.1.1",
    "0-3", "3-0", "all", "none", "void", "1+1", "device=0,1", "0, 1", "0;1", "[0]", "0-99999", "GPU-8932f937",
    "MIG-1/2/3", "0:1",
    "c1:00.0", "00010000:c1:00.0", "nvidia.com/gpu=0", "gpu:4", "v1.0", "refs/pr/1", "a..b", "a.lock", "main~1",
]  # fmt: skip
WRAPS = [
    "{}",
    '"{}"',
    "'{}'",
    " {} ",
    "{}\r",
    "\ufeff{}",
    "{}\t",
    '"{}',
    "{}\n",
    "\u200b{}",
    "{}\x00",
    "\"'{}'\"",
    "{}\udcff",
]
spelling = st.builds(
    lambda wrap, text: wrap.replace("{}", text),
    st.sampled_from(WRAPS),
    st.one_of(st.sampled_from(NUMBERS + TEXTS), st.text(max_size=12), st.integers().map(str), st.floats().map(str)),
)
PLACED = {"tls_cert", "tls_key", "api_keys_file", "run_dir", "state_dir", "cache_dir", "engine_python", "router_python"}


def consumed(field: str, found: Settings) -> None:
    """The value in each consumer's own grammar."""
    argv = router_argv(found, [member(found, "prefill", 0), member(found, "decode", 0)])
    assert ipaddress.ip_address(found.host)  # the front's socket takes it as it stands
    assert argv[argv.index("--max-concurrent-requests") + 1] == "-1"  # ours, and Python's to read
    for flag, word in pairwise(argv):
        if flag.startswith("--") and not word.startswith("-") and re.search("port|secs|requests|size|tokens", flag):
            assert re.fullmatch(r"0|[1-9][0-9]{0,18}", word), (flag, word)  # Rust takes no sign, blank or underscore
    assert int(argv[argv.index("--request-timeout-secs") + 1]) == found.request_timeout >= 1
    flags = _common_flags(found, None) | _role_flags(found, member(found, "decode", 0))
    assert yaml.safe_load(yaml.safe_dump(flags)) == flags
    env = _env_defaults(found, Placement("x", "pd", "cpu", (), ()), Paths(*[Path("/x")] * 4))
    assert int(env["SGLANG_DISAGGREGATION_WAITING_TIMEOUT"]) == found.link_timeout >= 1
    value = getattr(found, field)
    if isinstance(value, float):
        assert math.isfinite(value) and value > 0
    if field in PLACED and field in found.model_fields_set:
        assert value.is_absolute() and "~" not in str(value)[:2]
    if isinstance(value, str) and field not in SECRETS:
        assert value.isprintable() and len(value.encode()) >= len(value)
    if field == "request_log" and value not in ("off", "stdout"):
        assert value.startswith("/")
    if field == "cors_origins":
        assert all(part == "*" or re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s]+", part) for part in value)
    if field == "model":
        assert not value.startswith(("~", ".", "-"))
    if field in ("prefill_gpus", "decode_gpus"):
        assert all(
            re.fullmatch(r"[0-9]{1,3}|(GPU-)?[0-9a-fA-F-]+|[0-9a-f]{4,8}:[0-9a-f:]+\.[0-7]", card) for card in value
        )


@pytest.mark.parametrize("field", Settings.model_fields)
@settings(max_examples=60, deadline=None)
@given(text=spelling)
@example(text='""')
@example(text="1_0")
def test_every_spelling_is_refused_by_name_or_taken_as_its_consumer_takes_it(field: str, text: str) -> None:
    name = env_name(field)
    try:
        found = load({name: text, "HOME": "/home/a"})
    except SettingsError as error:
        for problem in error.problems:
            assert name in str(problem) and problem.expected and problem.remedy
            assert field in SECRETS or "port" in field or repr(text) in problem.found or "~" in text
        return
    consumed(field, found)


def test_every_setting_has_a_consumer_and_a_rule() -> None:
    assert all(consumer(field) and accepts(field) for field in Settings.model_fields)
    with pytest.raises(LookupError, match="without a consumer"):
        declared(FieldInfo(annotation=int, default=1, description="A number."))


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("HOST", "[::]", "host", "::"),
        ("HOST", '"0.0.0.0"', "host", "0.0.0.0"),
        ("HOST", "::ffff:127.0.0.1", "host", "127.0.0.1"),
        ("HOST", "localhost", "host", "127.0.0.1"),
        ("OPS_HOST", "0:0:0:0:0:0:0:1", "ops_host", "::1"),
        ("MODEL", "~/m/", "model", "/home/a/m"),
        ("MODEL", '"deepseek-ai/DeepSeek-V4-Flash"', "model", "deepseek-ai/DeepSeek-V4-Flash"),
        ("RUN_DIR", "~/run", "run_dir", Path("/home/a/run")),
        ("SERVED_MODEL_NAME", "'flash'", "served_model_name", "flash"),
        ("PREFILL_GPUS", "0-3", "prefill_gpus", ("0", "1", "2", "3")),
        ("PREFILL_GPUS", '"device=0,1"', "prefill_gpus", ("0", "1")),
        ("PREFILL_GPUS", '"0, 1"', "prefill_gpus", ("0", "1")),
        ("PREFILL_GPUS", "C1:00", "prefill_gpus", ("0000:c1:00.0",)),
        ("LINK_TIMEOUT", "0.5m", "link_timeout", 30.0),
        ("STALL_TIMEOUT", "1.5", "stall_timeout", 1.5),
        ("REQUEST_LOG", "./requests", "request_log", str(Path("requests").absolute())),
        ("REQUEST_LOG", "~/requests", "request_log", "/home/a/requests"),
        ("CONTEXT_LENGTH", "64", "context_length", 64),
        ("RUN_DIR", "/" + "r" * 90, "run_dir", Path("/" + "r" * 90)),
        ("PORT", '""', "port", 8000),
    ],
)
def test_one_form_for_all(name: str, value: str, field: str, expected: object) -> None:
    assert getattr(load({f"DSV4_{name}": value, "HOME": "/home/a"}), field) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("HOST", value) for value in ("*", "http://0.0.0.0", "0.0.0.0:80", "box.example", "fe80::1%eth0", "127.1")),
        *(("HOST", value) for value in ("[127.0.0.1]", "[]", "[::")),
        *(("HOST", value) for value in ("224.0.0.1", "239.1.2.3", "255.255.255.255", "ff02::1")),
        *(("REQUEST_LOG", value) for value in ("on", "true", "false", "none", "stderr", "-", "requests", "/var/log/")),
        *(("CONTEXT_LENGTH", value) for value in ("0", "1", "16", "63")),
        *((f"{name}_TIMEOUT", value) for name in ("STALL", "DOWNLOAD_STALL") for value in ("0.001", "1e-12", "0.9s")),
        ("RESTART_WINDOW", "0.001"), ("RUN_DIR", "/" + "r" * 91), ("RUN_DIR", "~/" + "r" * 85),
        ("OPS_HOST", "ff05::2"),
        *(("PREFILL_GPUS", value) for value in ("all", "none", "void", "1+1", "MIG-1/2/3", "3-0", "0-99999", "gpu:4")),
        *(("LINK_TIMEOUT", value) for value in ("0.5", "1.5s", "0", "inf", "1e3", "8760h", "-1")),
        *(("PORT", value) for value in ("8_000", "8e3", "+8000", "８０００", "80.0")),
        *(("MIN_VRAM_GB", value) for value in ("inf", "nan", "0")),
        *(("MODEL", value) for value in ("https://x/y", "a--b/c", "org/name.git", "~nobody-here/m", "x\udcff")),
        *(("PREFILL_GPUS", value) for value in (",", "0,", ",0", "0,,1", "0, ,1", "device=,1")),
        *((f"{name}_DIR", value) for name in ("RUN", "STATE", "CACHE") for value in ("off", "None", "AUTO", "1")),
        *((name, value) for name in ("STATE_DIR", "TLS_CERT", "REQUEST_LOG") for value in ("file:///x/y", "$HOME/x/y")),
        ("ENGINE_PYTHON", "`which python`"), ("MODEL", "/models/${NAME}"), ("CHAT_TEMPLATE", "http://x/t.jinja"),
        ("MODEL_REVISION", "a..b"), ("SERVED_MODEL_NAME", "a:b"), ("API_KEY", '""'), ("SERVED_MODEL_NAME", "\ufeffa"),
    ],
)  # fmt: skip
def test_what_no_consumer_takes_is_refused(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load({f"DSV4_{name}": value, "HOME": "/home/a"})
    assert [problem.subject for problem in caught.value.problems] == [f"DSV4_{name}"]


def test_a_default_that_depends_on_the_machine_is_not_offered() -> None:
    with pytest.raises(SettingsError, match=r"expected .*; fix or unset DSV4_ENGINE_PYTHON$"):
        load({"DSV4_ENGINE_PYTHON": "a\nb"})


@pytest.mark.parametrize("name", ["\ufeffDSV4_PORT", "DSV4_PORT ", "export DSV4_PORT", "\xa0DSV4_PORT"])
def test_a_name_with_what_an_editor_left_is_not_ignored(name: str) -> None:
    with pytest.raises(SettingsError, match="did you mean DSV4_PORT"):
        load({name: "1"})


def test_a_key_file_is_read_whatever_the_case_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret\r\n")
    for environ in (
        {"dsv4_api_key_file": str(tmp_path / "key")},
        {"DSV4_API_KEY_FILE": "~/key", "HOME": str(tmp_path)},
    ):
        found = load(environ)
        assert found.api_key is not None and found.api_key.get_secret_value() == "s3cret"
        assert where.api_key(environ) == "s3cret"


@pytest.mark.parametrize("text", ['"hf_x"', "'hf_x'", " hf_x\n", '" hf_x "', "hf_x"])
def test_the_hub_s_token_is_sent_without_what_an_env_file_leaves(text: str) -> None:
    assert hub_token.token({"HF_TOKEN": text}) == "hf_x" and not hub_token.problems({"HF_TOKEN": text})


@pytest.mark.parametrize("text", ['""', "''", "", " "])
def test_a_blank_token_is_none(text: str) -> None:
    assert hub_token.token({"HF_TOKEN": text}) is None and not hub_token.problems({"HF_TOKEN": text})


def test_ports_clash_however_they_are_spelt() -> None:
    with pytest.raises(SettingsError, match="DSV4_OPS_PORT: found 8000, which DSV4_PORT has as well"):
        load({"DSV4_OPS_PORT": "'08000'"})


@pytest.mark.parametrize(
    ("environ", "ops", "api"),
    [
        ({}, "http://127.0.0.1:8001", "http://127.0.0.1:8000"),
        ({"DSV4_HOST": "::", "DSV4_OPS_HOST": "::1"}, "http://[::1]:8001", "http://[::1]:8000"),
        ({"DSV4_HOST": "10.0.0.5", "DSV4_PORT": "'9000'"}, "http://127.0.0.1:8001", "http://10.0.0.5:9000"),
        ({"dsv4_ops_host": "localhost", "DSV4_OPS_PORT": " 9001"}, "http://127.0.0.1:9001", "http://127.0.0.1:8000"),
    ],
)
def test_our_own_commands_find_the_appliance(environ: dict[str, str], ops: str, api: str) -> None:
    assert where.ops_url(environ) == ops
    assert where.api_url(ops, environ) == api


def test_health_finds_the_run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("~/run", '"~/run/"', str(tmp_path / "run")):
        monkeypatch.setenv("DSV4_RUN_DIR", value)
        assert health._default_files() == [f"{tmp_path}/run/health.json"]
        assert str(load({"DSV4_RUN_DIR": value, "HOME": str(tmp_path)}).run_dir) == f"{tmp_path}/run"
