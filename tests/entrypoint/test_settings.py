from __future__ import annotations

from pathlib import Path

import pytest
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan import profiles
from dsv4_pd.plan.paths import profiles_dir
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
    assert (loaded.port, loaded.mode, loaded.start_timeout, loaded.prefill_gpus) == (8000, "pd", 3600.0, ())


@pytest.mark.parametrize("blank", ["", " "])
def test_blank_means_unset_for_typed_values(monkeypatch: pytest.MonkeyPatch, blank: str) -> None:
    loaded = load(monkeypatch, PORT="", MODE="", PREFILL_GPUS=blank, API_KEY="")
    assert (loaded.port, loaded.mode, loaded.prefill_gpus, loaded.api_key) == (8000, "pd", (), None)


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("PORT", '"8123"', "port", 8123),
        ("PORT", " 8123 ", "port", 8123),
        ("MODE", "'Single'", "mode", "single"),
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


def test_secret_is_kept_byte_for_byte_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "-a$b'\"% ü{}"
    loaded = load(monkeypatch, API_KEY=key)
    assert loaded.api_key is not None and loaded.api_key.get_secret_value() == key
    assert key not in repr(loaded)


def test_secret_from_a_file_loses_its_last_newline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("s3cret \n")
    loaded = load(monkeypatch, API_KEY_FILE=str(file))
    assert loaded.api_key is not None and loaded.api_key.get_secret_value() == "s3cret "


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


@pytest.mark.parametrize("field", ["API_KEY", "MODEL", "SERVED_MODEL_NAME", "PREFILL_EXTRA_ARGS"])
def test_line_breaks_are_refused_without_showing_a_secret(monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    found = problems(monkeypatch, **{field: "hunter2\nx"})
    assert "line break" in found[f"DSV4_{field}"]
    assert ("hunter2" in found[f"DSV4_{field}"]) == (field != "API_KEY")


def test_unreadable_secret_file_names_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        "'/nonexistent' (No such file or directory)"
        in problems(monkeypatch, API_KEY_FILE="/nonexistent")["DSV4_API_KEY_FILE"]
    )


def test_an_empty_secret_file_is_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("\n")
    assert "which is empty" in problems(monkeypatch, API_KEY_FILE=str(tmp_path / "key"))["DSV4_API_KEY_FILE"]


@pytest.mark.parametrize("flag", ["--port=1", "--disaggregation-boot 1", "--tp 2", "--numa_node 0", "--model-path x"])
def test_owned_flags_are_refused_however_they_are_spelt(monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    assert "it owns" in problems(monkeypatch, PREFILL_EXTRA_ARGS=flag)["DSV4_PREFILL_EXTRA_ARGS"]


def test_other_flags_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "--enable-hierarchical-cache --hicache-size 64 --log-requests"
    assert load(monkeypatch, PREFILL_EXTRA_ARGS=text).prefill_extra_args == text


def test_profile_defaults_yield_to_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(monkeypatch, CONTEXT_LENGTH="1024").with_defaults({"context_length": 4096, "numa": "off"})
    assert (loaded.context_length, loaded.numa) == (1024, "off")
