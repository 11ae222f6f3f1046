from __future__ import annotations

import os
from pathlib import Path

import pytest
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.disk.paths import profiles_dir
from dsv4_pd.plan.shipped import profiles
from dsv4_pd.plan.survey import read_settings
from dsv4_pd.settings.load import load as load_settings
from dsv4_pd.settings.schema import Settings

SHIPPED = profiles.read_all(profiles_dir())


def load(monkeypatch: pytest.MonkeyPatch, **values: str) -> Settings:
    return read_settings({f"DSV4_{name}": value for name, value in values.items()}, SHIPPED)


def problems(monkeypatch: pytest.MonkeyPatch, **values: str) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        load(monkeypatch, **values)
    assert caught.value.exit_code == 2
    return {problem.subject: str(problem) for problem in caught.value.problems}


def test_defaults_need_no_environment() -> None:
    loaded = load_settings({})
    assert (loaded.port, loaded.layout, loaded.start_timeout, loaded.prefill_gpus) == (8000, None, 3600.0, ())


@pytest.mark.parametrize("blank", ["", " "])
def test_blank_means_unset_for_typed_values(monkeypatch: pytest.MonkeyPatch, blank: str) -> None:
    loaded = load(monkeypatch, PORT="", MODE="", PREFILL_GPUS=blank, API_KEY="")
    assert (loaded.port, loaded.layout, loaded.prefill_gpus, loaded.api_key) == (8000, None, (), None)


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("PORT", '"8123"', "port", 8123),
        ("PORT", " 8123 ", "port", 8123),
        ("ROUTER", "'SMG'", "router", "smg"),
        ("PREFILL_GPUS", "0,1", "prefill_gpus", ("0", "1")),
        ("PREFILL_GPUS", "[0, 1]", "prefill_gpus", ("0", "1")),
        ("PREFILL_GPUS", "GPU-8932f937 , 0000:c1:00.0", "prefill_gpus", ("GPU-8932f937", "0000:c1:00.0")),
        ("START_TIMEOUT", "90", "start_timeout", 90.0),
        ("START_TIMEOUT", "1.5h", "start_timeout", 5400.0),
        ("PREFILL_MEM_FRACTION", "0.7", "prefill_mem_fraction", 0.7),
        ("SERVED_MODEL_NAME", " a$b'\"% ", "served_model_name", " a$b'\"% "),
    ],
)
def test_values_are_understood(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, field: str, expected: object
) -> None:
    assert getattr(load(monkeypatch, **{name: value}), field) == expected


PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))


@pytest.mark.parametrize("key", ["-a$b'\"% {}", PRINTABLE, "two  words", "k" * 4096, "x"])
def test_a_key_is_kept_byte_for_byte_and_never_shown(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    loaded = load(monkeypatch, API_KEY=key)
    assert loaded.api_key is not None and loaded.api_key.get_secret_value() == key
    assert f"'{key}'" not in repr(loaded)


UNUSABLE = [
    ("hunter2 ", "a blank at its end"),
    (" hunter2", "a blank at its beginning"),
    (" ", "a blank at its beginning"),
    ("\ufeffhunter2", "a byte order mark at its beginning"),
    ("hunter2ü", "a character beyond ASCII"),
    ("hunter2\u200b", "a character beyond ASCII"),
    ("hunter2\nx", "a line break"),
    ("hunter2\n", "a line break"),
    ("hunter2\r", "a line break"),
    ("# a comment\nhunter2", "a line break"),
    ("hunter2\tx", "a control character"),
    ("hunter2\x7f", "a control character"),
    ("hunter2" * 700, "4900 characters"),
]


@pytest.mark.parametrize(("key", "why"), UNUSABLE)
@pytest.mark.parametrize("name", ["API_KEY", "API_KEY_FILE"])
def test_a_key_that_no_client_can_send_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, key: str, why: str
) -> None:
    (tmp_path / "file").write_bytes(key.encode() + b"\r\n")
    value = str(tmp_path / "file") if name == "API_KEY_FILE" else key
    found = problems(monkeypatch, **{name: value})
    assert list(found) == [f"DSV4_{name}"]
    assert why in found[f"DSV4_{name}"] and "printable ASCII" in found[f"DSV4_{name}"]
    assert "hunter2" not in found[f"DSV4_{name}"]


def test_a_key_of_bytes_that_are_no_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "beyond ASCII" in problems(monkeypatch, API_KEY=os.fsdecode(b"hunter2\xff"))["DSV4_API_KEY"]


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_secret_from_a_file_loses_its_line_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: str) -> None:
    (tmp_path / "key").write_bytes(f"s3cret{end}".encode())
    loaded = load(monkeypatch, API_KEY_FILE=str(tmp_path / "key"))
    assert loaded.api_key is not None and loaded.api_key.get_secret_value() == "s3cret"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"\n", "empty"),
        (b"\xff\xfea\0b\0", "not UTF-8 text"),
        (b"a" * 70_000, "longer than 65536 bytes"),
    ],
)
def test_a_file_that_holds_no_secret_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes, why: str
) -> None:
    (tmp_path / "key").write_bytes(content)
    found = problems(monkeypatch, API_KEY_FILE=str(tmp_path / "key"))["DSV4_API_KEY_FILE"]
    assert f"({why})" in found and "holds the secret alone" in found


def test_a_secret_file_without_end_or_writer_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, why in (("/dev/zero", "longer than"), ("/dev/null", "empty"), (str(tmp_path / "pipe"), "no file")):
        assert why in problems(monkeypatch, API_KEY_FILE=path)["DSV4_API_KEY_FILE"]
    assert "no file" in problems(monkeypatch, API_KEY_FILE=str(tmp_path))["DSV4_API_KEY_FILE"]


def test_names_of_the_first_compose_file_are_refused_there_only(monkeypatch: pytest.MonkeyPatch) -> None:
    old = dict.fromkeys(("API_KEY_FILE", "API_BIND", "OPS_BIND"), "x")
    load_settings(old)
    with pytest.raises(SettingsError) as caught:
        load_settings({**old, "DSV4_COMPOSE_VERSION": "2"})
    found = {problem.subject: str(problem) for problem in caught.value.problems}
    assert set(found) == set(old)
    assert "rename it to DSV4_API_KEY_FILE" in found["API_KEY_FILE"]
    load_settings({**dict.fromkeys(old, ""), "DSV4_COMPOSE_VERSION": "2"})


def test_the_ops_port_is_on_loopback_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(monkeypatch).ops_host == "127.0.0.1"
    assert load(monkeypatch, HOST="0.0.0.0").ops_host == "127.0.0.1"
    assert load(monkeypatch, OPS_HOST="10.0.0.5").ops_host == "10.0.0.5"


def test_every_problem_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = problems(monkeypatch, PORT="abc", MODE="both", CONTEXT_LENGTH="0", STALL_TIMEOUT="5 days", PRT="1",
                     PREFILL_MEM_FRACTION="1.5", API_KEY="k", API_KEY_FILE="/nonexistent", OPS_PORT="30000",
                     DECODE_EXTRA_ARGS="--page-size 64", ROUTER_EXTRA_ARGS="--port 1")  # fmt: skip
    assert set(found) == {
        "DSV4_PORT", "DSV4_MODE", "DSV4_CONTEXT_LENGTH", "DSV4_STALL_TIMEOUT", "DSV4_PRT",
        "DSV4_PREFILL_MEM_FRACTION", "DSV4_API_KEY_FILE", "DSV4_PREFILL_PORT", "DSV4_DECODE_EXTRA_ARGS",
        "DSV4_ROUTER_EXTRA_ARGS",
    }  # fmt: skip
    for line in found.values():
        assert "found" in line and "expected" in line and "; " in line
    assert "did you mean DSV4_PORT?" in found["DSV4_PRT"]
    assert "'abc'" in found["DSV4_PORT"] and "DSV4_PORT=8000" in found["DSV4_PORT"]


@pytest.mark.parametrize("field", ["MODEL", "SERVED_MODEL_NAME", "PREFILL_EXTRA_ARGS"])
@pytest.mark.parametrize("mark", ["\n", "\r"])
def test_line_breaks_are_refused(monkeypatch: pytest.MonkeyPatch, field: str, mark: str) -> None:
    assert "line break" in problems(monkeypatch, **{field: f"a{mark}x"})[f"DSV4_{field}"]


def test_unreadable_secret_file_names_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    found = problems(monkeypatch, API_KEY_FILE=absent)["DSV4_API_KEY_FILE"]
    assert f"{absent!r} (No such file or directory)" in found


@pytest.mark.parametrize("flag", ["--port=1", "--disaggregation-boot 1", "--tp 2", "--numa_node 0", "--model-path x"])
def test_owned_flags_are_refused_however_they_are_spelt(monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    assert "it owns" in problems(monkeypatch, PREFILL_EXTRA_ARGS=flag)["DSV4_PREFILL_EXTRA_ARGS"]


def test_other_flags_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "--log-requests --log-requests-level 1 --stream-interval=4"
    assert load(monkeypatch, PREFILL_EXTRA_ARGS=text).prefill_extra_args == text


def test_profile_defaults_yield_to_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(monkeypatch, CONTEXT_LENGTH="1024").with_defaults({"context_length": 4096, "numa": "off"})
    assert (loaded.context_length, loaded.numa) == (1024, "off")
