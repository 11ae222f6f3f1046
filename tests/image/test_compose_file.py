"""compose.yaml itself: what it passes on, publishes and allows. Nothing is started.

What `docker compose config` makes of it needs the real program, so those tests stand in the ring that has it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from dsv4_pd.settings import deprecated
from dsv4_pd.settings.declare import Section
from dsv4_pd.settings.schema import COMPOSE_RENAMED, FOREIGN, SECRETS, Settings, env_name, names
from generators import env

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "compose.yaml").read_text(encoding="utf-8")
FILE = yaml.safe_load(TEXT)
EXAMPLE = (ROOT / ".env.example").read_text(encoding="utf-8")
APPLIANCES = ("dsv4-pd", "demo")


def variables(text: str) -> set[str]:
    """The names that an .env file sets or has commented out."""
    return set(re.findall(r"^#?([A-Z][A-Z0-9_]*)=", text, re.MULTILINE))


def read_by(service: str) -> set[str]:
    """What reaches a service from .env or the shell: passed through, or substituted anywhere in the file."""
    return set(FILE["services"][service]["environment"]) | set(re.findall(r"\$\{([A-Z0-9_]+)", TEXT))


@pytest.mark.parametrize("service", APPLIANCES)
def test_every_name_of_the_example_is_read(service: str) -> None:
    named = {name for name in variables(EXAMPLE) if name.startswith("DSV4_")}
    assert named <= read_by(service)
    others = variables(EXAMPLE) - named - {"COMPOSE_PROFILES"}
    assert others <= read_by("dsv4-pd"), "the demo's model is in the image: it asks no Hub"


def test_the_example_and_the_file_name_the_same_settings() -> None:
    """What is in neither is a container's own business, and in docs/env.md alone."""
    own = {"DSV4_COMPOSE_VERSION"}
    passed = {name for name in FILE["services"]["dsv4-pd"]["environment"] if name.startswith("DSV4_")}
    assert passed - own == {name for name in variables(EXAMPLE) if name.startswith("DSV4_")}
    internals = {env_name(field) for field in env.groups()[Section.INTERNALS]}
    assert set(names()) - passed == internals
    assert passed - own - set(names()) <= FOREIGN


def test_nothing_fixed_is_silently_meaningless() -> None:
    """A name that compose.yaml gives a value of its own has the operator's in what it publishes or mounts."""
    fixed = {name for name, value in FILE["x-container"].items() if value is not None}
    assert fixed - {"DSV4_COMPOSE_VERSION"} == {
        name for name in re.findall(r"\$\{(DSV4_[A-Z_]+)", TEXT) if name in set(names()) | FOREIGN
    }


def test_all_of_dotenv_reaches_the_settings_own_check() -> None:
    for service in APPLIANCES:
        assert FILE["services"][service]["env_file"] == [{"path": ".env", "required": False}]


def test_names_of_the_first_file_reach_the_check_that_refuses_them() -> None:
    for service in APPLIANCES:
        assert set(COMPOSE_RENAMED) <= set(FILE["services"][service]["environment"])


def test_the_demo_takes_its_model_and_memory_from_its_own_profile() -> None:
    environment = FILE["services"]["demo"]["environment"]
    own = {env_name(field) for title in env.DEMO_OWN for field in env.groups()[title]} - {"DSV4_PROFILE", "DSV4_LAYOUT"}
    own |= {old for name in (*own, "DSV4_LAYOUT") for old in deprecated.old_names(name)}
    assert {name for name, value in environment.items() if value == ""} == own
    assert environment["DSV4_PROFILE"] == "demo-cpu" and environment["DSV4_API_KEY"] is None
    assert environment["DSV4_LAYOUT"] == "${DEMO_LAYOUT:-}", "a host's would be refused"


def test_the_merged_lists_share_no_name() -> None:
    """Parsers disagree on which of two merged mappings wins."""
    for lists in (("x-container", "x-common", "x-host"), ("x-container", "x-common", "x-demo")):
        listed = [name for part in lists for name in FILE[part]]
        assert len(set(listed)) == len(listed)
    assert set(FILE["x-host"]) == set(FILE["x-demo"])


@pytest.mark.parametrize("name", FILE["services"])
def test_every_service_is_confined(name: str) -> None:
    service = FILE["services"][name]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["cap_drop"] == ["ALL"]
    assert 0 < service["pids_limit"] <= 16384
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}


def test_only_the_api_leaves_loopback_by_default() -> None:
    published = [port for service in FILE["services"].values() for port in service.get("ports", [])]
    addresses = [port["host_ip"] if isinstance(port, dict) else port.split(":")[0] for port in published]
    assert set(addresses) == {"127.0.0.1", "${DSV4_HOST:-0.0.0.0}", "${DSV4_OPS_HOST:-127.0.0.1}"}


def test_nobody_has_a_default_password() -> None:
    grafana = FILE["services"]["grafana"]["environment"]
    assert grafana["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert grafana["GF_AUTH_DISABLE_LOGIN_FORM"] == grafana["GF_AUTH_ANONYMOUS_ENABLED"] == "true"
    assert not [
        name for service in FILE["services"].values() for name in service.get("environment", {}) if "PASSWORD" in name
    ]


def test_every_image_can_be_pinned() -> None:
    images = {service["image"] for name, service in FILE["services"].items() if name != "demo"}
    # The demo's own image where one is named, else the appliance's.
    assert FILE["services"]["demo"]["image"] == f"${{DEMO_IMAGE:-{FILE['services']['dsv4-pd']['image']}}}"
    assert "#DEMO_IMAGE=\n" in EXAMPLE
    found = [re.fullmatch(r"\$\{([A-Z0-9_]+):-([^}]+)\}", image) for image in sorted(images)]
    for match in found:
        assert match, images
        assert f"#{match[1]}={match[2]}\n" in EXAMPLE, "the default differs from .env.example"


def test_the_generations_agree() -> None:
    version = (ROOT / "docker/compose-version").read_text().strip()
    assert FILE["x-container"]["DSV4_COMPOSE_VERSION"] == version
    assert 'dsv4-pd.compose-version="${COMPOSE_VERSION}"' in (ROOT / "Dockerfile").read_text()
    assert "COMPOSE_VERSION=$(shell cat docker/compose-version)" in (ROOT / "make/image.mk").read_text()


def test_secrets_have_a_file_form() -> None:
    for field in SECRETS:
        assert f"{env_name(field)}_FILE" in FILE["x-container"] and field in FILE["secrets"]
        assert field in Settings.model_fields


def test_the_doctor_knows_the_files_own_grace_period() -> None:
    from dsv4_pd.doctor.checks.software import stop_grace

    assert (
        f"stop_grace_period: ${{STOP_GRACE_PERIOD:-{stop_grace.DEFAULT_S:.0f}s}}" in (ROOT / "compose.yaml").read_text()
    )


# --- as `docker compose` reads it

Config = Callable[..., dict[str, Any]]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """compose.yaml as Docker Compose resolves it beside an .env file of this content."""
    shutil.copy(ROOT / "compose.yaml", tmp_path)
    shutil.copytree(ROOT / "config", tmp_path / "config")

    def read(dotenv: str, profile: str = "gpu", **shell: str) -> dict[str, Any]:
        (tmp_path / ".env").write_text(dotenv)
        words = ["docker", "compose", "--profile", profile, "config", "--format", "json"]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("DSV4_")}
        done = subprocess.run(words, cwd=tmp_path, env=clean | shell, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        data: dict[str, Any] = json.loads(done.stdout)
        return data

    return read


def environment(data: dict[str, Any], service: str = "dsv4-pd") -> dict[str, str]:
    """What the container sees; names without a value are left out, as `up` leaves them."""
    found = data["services"][service]["environment"]
    return {name: value.replace("$$", "$") for name, value in found.items() if value is not None}


@pytest.mark.docker
@pytest.mark.parametrize("profile", ["gpu", "demo", "monitoring", "autoheal"])
def test_every_profile_is_valid(config: Config, profile: str) -> None:
    assert config(EXAMPLE, profile)["services"]


@pytest.mark.docker
def test_without_dotenv_only_the_containers_own_values_are_set(config: Config) -> None:
    found = environment(config(""))
    assert {name for name in found if name.startswith("DSV4_")} == {
        name for name, value in FILE["x-container"].items() if value is not None
    }
    assert found["DSV4_API_KEY_FILE"] == ""  # blank means unset


@pytest.mark.docker
@pytest.mark.parametrize("service", APPLIANCES)
def test_a_key_in_dotenv_arrives_byte_for_byte(config: Config, service: str) -> None:
    profile = "demo" if service == "demo" else "gpu"
    found = environment(config("DSV4_API_KEY='a$b # c\"d'\n", profile), service)
    assert found["DSV4_API_KEY"] == 'a$b # c"d' and found["DSV4_API_KEY_FILE"] == ""


@pytest.mark.docker
def test_a_key_file_is_mounted_as_a_secret(config: Config) -> None:
    data = config("DSV4_API_KEY_FILE=/etc/hostname\n")
    assert environment(data)["DSV4_API_KEY_FILE"] == "/run/secrets/api_key"
    assert data["secrets"]["api_key"]["file"] == "/etc/hostname"


@pytest.mark.docker
def test_a_token_file_is_mounted_as_a_secret_and_none_is_none(config: Config) -> None:
    data = config("HF_TOKEN_FILE=/etc/hostname\n")
    assert environment(data)["HF_TOKEN_FILE"] == "/run/secrets/hub_token"
    assert data["secrets"]["hub_token"]["file"] == "/etc/hostname"
    mounted = [secret["source"] for secret in data["services"]["dsv4-pd"]["secrets"]]
    assert mounted == ["api_key", "hub_token"]
    assert environment(config(""))["HF_TOKEN_FILE"] == "", "blank means unset"
    assert "hub_token" not in [secret["source"] for secret in config("", "demo")["services"]["demo"]["secrets"]]


@pytest.mark.docker
def test_what_a_migration_prints_starts_the_appliance_with_its_model(tmp_path: Path) -> None:
    """docs/migrate.md: the printed text is .env, and then a plain `docker compose up`."""
    for name in ("compose.yaml", "compose.gpus.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "config", tmp_path / "config")
    units = ROOT / "tests/entrypoint/data/units"
    names = [f"sglang-dsv4-{role}" for role in ("prefill", "decode", "router")]
    program = [sys.executable, "-m", "dsv4_pd", "migrate", "--root", str(units), "--key-file", "./dsv4-api-key", *names]
    text = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    (tmp_path / ".env").write_text(text, encoding="utf-8")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DSV4_", "COMPOSE_"))}
    done = subprocess.run(["docker", "compose", "config", "--format", "json"], cwd=tmp_path, env=clean,
                          capture_output=True, text=True, check=True)  # fmt: skip
    data = json.loads(done.stdout)
    assert list(data["services"]) == ["dsv4-pd"]
    mounts = {mount["target"]: mount for mount in data["services"]["dsv4-pd"]["volumes"]}
    assert (mounts["/models"]["source"], mounts["/models"]["read_only"]) == ("/models", True)
    assert data["secrets"]["api_key"]["file"] == str(tmp_path / "dsv4-api-key")
    found = environment(data)
    assert found["DSV4_MODEL"].startswith("/models/") and found["DSV4_LAYOUT"] == "pd:4+4"
    assert [port["published"] for port in data["services"]["dsv4-pd"]["ports"]] == ["30001", "8001"]


@pytest.mark.docker
def test_addresses_and_ports_are_what_is_published(config: Config) -> None:
    dotenv = "DSV4_HOST=127.0.0.1\nDSV4_PORT=9000\nDSV4_OPS_HOST=10.0.0.5\nDSV4_OPS_PORT=9001\n"
    data = config(dotenv)
    ports = {port["target"]: (port["host_ip"], port["published"]) for port in data["services"]["dsv4-pd"]["ports"]}
    assert ports == {8000: ("127.0.0.1", "9000"), 8001: ("10.0.0.5", "9001")}
    found = environment(data)
    assert (found["DSV4_HOST"], found["DSV4_PORT"], found["DSV4_OPS_PORT"]) == ("0.0.0.0", "8000", "8001")
    default = config("")["services"]["dsv4-pd"]["ports"]
    assert [port["host_ip"] for port in default] == ["0.0.0.0", "127.0.0.1"]
    v6 = config("DSV4_HOST=::1\n")["services"]["dsv4-pd"]["ports"]
    assert v6[0]["host_ip"] == "::1"


@pytest.mark.docker
def test_a_misspelt_name_and_an_old_one_reach_the_check(config: Config) -> None:
    found = environment(config("DSV4_PRTO=1\nAPI_KEY_FILE=/x\n", API_BIND="127.0.0.1"))
    assert (found["DSV4_PRTO"], found["API_KEY_FILE"], found["API_BIND"]) == ("1", "/x", "127.0.0.1")


@pytest.mark.docker
def test_the_shell_wins_over_dotenv(config: Config) -> None:
    found = environment(config("DSV4_MODEL=a\nDSV4_ROUTER=smg\n", DSV4_MODEL="b"))
    assert (found["DSV4_MODEL"], found["DSV4_ROUTER"]) == ("b", "smg")


@pytest.mark.docker
def test_the_demo_is_not_given_a_hosts_gpus(config: Config) -> None:
    found = environment(config("DSV4_MODEL=/models/x\nDSV4_PREFILL_GPUS=0,1\nDSV4_LOG_LEVEL=debug\n", "demo"), "demo")
    assert (found["DSV4_MODEL"], found["DSV4_PREFILL_GPUS"], found["DSV4_LOG_LEVEL"]) == ("", "", "debug")


@pytest.mark.docker
def test_stop_grace_exceeds_the_sum_of_the_waits(config: Config) -> None:
    service = config("")["services"]["dsv4-pd"]
    assert service["stop_grace_period"] == "1m30s"  # drain 30 s, router, hard ends and the sweep 20 s more
    assert int(service["labels"]["autoheal.stop.timeout"]) >= 90


def reserved(text: str) -> list[dict[str, Any]]:
    service = yaml.safe_load(text.replace("!override", ""))["services"]["dsv4-pd"]
    found: list[dict[str, Any]] = service["deploy"]["resources"]["reservations"]["devices"]
    return found


def test_gpus_are_taken_by_cdi_whatever_their_number() -> None:
    """No list of cards, and no hook behind systemd's back; the demo takes none."""
    assert reserved(TEXT) == [{"driver": "cdi", "device_ids": ["nvidia.com/gpu=all"], "capabilities": ["gpu"]}]
    assert not re.search(r"/dev/nvidia[0-9]", TEXT) and "devices" not in FILE["services"]["dsv4-pd"]
    assert not {"devices", "deploy"} & set(FILE["services"]["demo"])


def test_the_fallback_reserves_all_and_names_no_device() -> None:
    text = (ROOT / "compose.gpus.yaml").read_text(encoding="utf-8")
    assert reserved(text) == [{"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}]
    assert "devices: !override" in text  # merged lists would ask for both
