"""A setting's old name: read, told once, refused where it contradicts the present one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dsv4_pd.cli.app import main
from dsv4_pd.client import child
from dsv4_pd.doctor.base import CheckVerdict, Finding
from dsv4_pd.doctor.catalogue import examine
from dsv4_pd.errors import SettingsError
from dsv4_pd.host.machine import Live
from dsv4_pd.plan import show
from dsv4_pd.plan.notices import NoticeKind
from dsv4_pd.plan.situation import Situation
from dsv4_pd.plan.survey import survey
from dsv4_pd.settings import deprecated
from dsv4_pd.settings.deprecated import PD_VS_SINGLE, Kind, Renamed
from dsv4_pd.settings.load import load, secret_of
from dsv4_pd.settings.schema import env_name, names
from dsv4_pd.settings.text import given
from packaging.version import Version

OLD = (
    Renamed(Kind.SETTING, "DSV4_LISTEN", "DSV4_PORT", "0.8.0", "0.9.0"),
    Renamed(Kind.SETTING, "DSV4_TOKEN", "DSV4_API_KEY", "0.8.0", "0.9.0"),
    Renamed(Kind.SETTING, "DSV4_TOKEN_FILE", "DSV4_API_KEY_FILE", "0.8.0", "0.9.0"),
    Renamed(Kind.SETTING, "DSV4_ROOM", "DSV4_STATE_DIR", "0.8.0", "0.9.0"),
    Renamed(Kind.SETTING, "DSV4_VERBOSE", "DSV4_LOG_LEVEL", "0.8.0", "0.9.0", words=("debug", "info")),
    Renamed(Kind.SETTING, "DSV4_FLAGS", "DSV4_ROUTER_EXTRA_ARGS", "0.8.0", "0.9.0"),
)
OF_LISTEN = "DSV4_LISTEN is deprecated and will be removed in 0.9.0: use DSV4_PORT"


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecated, "SETTINGS", (*deprecated.SETTINGS, *OLD))


def refused(environ: dict[str, str]) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(environ)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.usefixtures("old")
@pytest.mark.parametrize("name", ["DSV4_LISTEN", "dsv4_listen"])
def test_an_old_name_is_read_and_told(name: str) -> None:
    found = load({name: "'8123'"})
    assert found.port == 8123 and found.model_fields_set == {"port"}
    assert found.deprecated == {"DSV4_LISTEN": OF_LISTEN}
    assert found.with_defaults({"queue_size": 1}).deprecated == found.deprecated
    assert found.variable("port") == "DSV4_LISTEN" and found.variable("ops_port") == "DSV4_OPS_PORT"


@pytest.mark.usefixtures("old")
def test_a_present_name_and_a_blank_old_one_are_told_nothing() -> None:
    assert not load({"DSV4_PORT": "8123", "DSV4_LISTEN": "", "DSV4_MODE": "''"}).deprecated


@pytest.mark.usefixtures("old")
def test_both_names_may_say_the_same() -> None:
    found = load({"DSV4_LISTEN": "8123", "DSV4_PORT": "8123"})
    assert found.port == 8123 and list(found.deprecated) == ["DSV4_LISTEN"]
    expected = "DSV4_LISTEN: found 8123, and DSV4_PORT=8124, expected one of the two; unset DSV4_LISTEN"
    assert refused({"DSV4_LISTEN": "8123", "DSV4_PORT": "8124"})[0].startswith(expected)


@pytest.mark.usefixtures("old")
def test_a_wrong_text_is_blamed_on_the_name_that_was_written() -> None:
    assert refused({"DSV4_LISTEN": "x"})[0].startswith("DSV4_LISTEN: found 'x', expected a port")
    assert refused({"DSV4_VERBOSE": "error"})[0].startswith("DSV4_VERBOSE: found 'error', expected one of debug, info;")
    assert refused({"DSV4_MODE": "pd:4+4"})[0].startswith("DSV4_MODE: found 'pd:4+4', expected one of pd, single;")
    assert load({"DSV4_VERBOSE": "Debug"}).log_level == "debug"


@pytest.mark.usefixtures("old")
def test_a_secret_s_old_name_shows_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-file\n")
    for environ, key in (({"DSV4_TOKEN": "sk-word"}, "sk-word"), ({"DSV4_TOKEN_FILE": f"{tmp_path}/key"}, "sk-file")):
        found = load(environ)
        assert found.api_key is not None and found.api_key.get_secret_value() == key
        assert found.deprecated and "sk-" not in str(found.deprecated) + repr(found)
        assert secret_of("api_key", given(environ)) == key
    both = refused({"DSV4_TOKEN": "sk-word", "DSV4_API_KEY": "sk-other"})
    assert len(both) == 1 and "sk-" not in both[0]


@pytest.mark.usefixtures("old")
def test_only_one_of_a_few_words_is_repeated() -> None:
    """Free text may hold a key: flags, URLs, paths."""
    flags = load({"DSV4_FLAGS": "--hidden sk-word", "DSV4_VERBOSE": "debug"}).deprecated
    assert flags["DSV4_VERBOSE"].endswith("use DSV4_LOG_LEVEL=debug") and "sk-word" not in str(flags)


@pytest.mark.usefixtures("old")
def test_whoever_reads_one_variable_reads_its_old_name_too() -> None:
    assert given({"DSV4_ROOM": "/srv/a"})["DSV4_STATE_DIR"] == "/srv/a"
    assert {"DSV4_LISTEN", "DSV4_MODE"} <= set(names())


@pytest.mark.usefixtures("old")
def test_no_old_name_is_suggested() -> None:
    assert "did you mean DSV4_LISTEN" not in refused({"DSV4_LISTENS": "1"})[0]


def machine(root: Path, **more: str) -> Situation:
    own = {"DSV4_PROFILE": "demo-cpu", "DSV4_STATE_DIR": str(root / "state"), "DSV4_RUN_DIR": str(root / "run")}
    return survey({**own, "HOME": str(root), "PATH": "/usr/bin:/bin", **more}, Live())


def finding(found: Situation) -> Finding:
    return next(finding for check, finding in examine(found) if check.name == "deprecated-settings")


@pytest.mark.usefixtures("old")
def test_plan_and_doctor_tell_it_once(tmp_path: Path) -> None:
    """What `serve` says of it: test_programs.py."""
    found = machine(tmp_path, DSV4_LISTEN="8123")
    told = [notice for notice in found.notices if notice.kind is NoticeKind.DEPRECATED]
    assert [(notice.subject, notice.text) for notice in told] == [("DSV4_LISTEN", OF_LISTEN)]
    assert show.as_text(found).count(OF_LISTEN) == 1
    assert json.dumps(show.sections(found)).count(OF_LISTEN) == 1
    assert finding(found) == Finding(CheckVerdict.WARN, "DSV4_LISTEN set", OF_LISTEN)
    assert finding(machine(tmp_path, DSV4_PORT="8123")).verdict is CheckVerdict.OK


def test_an_appliance_of_our_own_has_none_of_the_caller_s_old_names() -> None:
    assert child._named({"layout": "single", "port": "1"}) == {
        "DSV4_MODE": "", "DSV4_LAYOUT": "single", "DSV4_PORT": "1",
    }  # fmt: skip


@pytest.mark.parametrize("one", deprecated.everything(), ids=lambda one: one.old)
def test_every_entry_warns_for_a_minor_version_at_least(one: deprecated.Deprecated) -> None:
    since, goes = Version(one.since), Version(one.goes)
    assert (goes.major, goes.minor) > (since.major, since.minor) and goes.micro == 0


def test_every_old_setting_leads_to_a_present_one() -> None:
    present = set(names()) - {one.old for one in deprecated.SETTINGS}
    assert {one.new for one in deprecated.SETTINGS} <= present and env_name("layout") in present


def test_an_old_command_says_what_to_write(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from dsv4_pd.cli import bench

    monkeypatch.setattr(bench, "_layouts", lambda *_: None)  # it would start two appliances
    assert main(PD_VS_SINGLE.old.split()) == 0
    assert capsys.readouterr().err.strip() == PD_VS_SINGLE.told()
