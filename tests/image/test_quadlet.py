"""config/quadlet: Podman's generator reads it, its keys exist, and it says what compose.yaml says. Nothing starts."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
import yaml
from dsv4_pd.settings.schema import SECRETS, Settings, env_name, names

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "config/quadlet"
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]["dsv4-pd"]
# podman-systemd.unit(5) of Podman 5.4.2, "Container units" and "Volume units".
CONTAINER_KEYS = """
    AddCapability AddDevice AddHost Annotation AutoUpdate CgroupsMode ContainerName ContainersConfModule DNS DNSOption
    DNSSearch DropCapability Entrypoint Environment EnvironmentFile EnvironmentHost Exec ExposeHostPort GIDMap
    GlobalArgs Group GroupAdd HealthCmd HealthInterval HealthLogDestination HealthMaxLogCount HealthMaxLogSize
    HealthOnFailure HealthRetries HealthStartPeriod HealthStartupCmd HealthStartupInterval HealthStartupRetries
    HealthStartupSuccess HealthStartupTimeout HealthTimeout HostName Image IP IP6 Label LogDriver LogOpt Mask Mount
    Network NetworkAlias NoNewPrivileges Notify PidsLimit Pod PodmanArgs PublishPort Pull ReadOnly ReadOnlyTmpfs Rootfs
    RunInit SeccompProfile Secret SecurityLabelDisable SecurityLabelFileType SecurityLabelLevel SecurityLabelNested
    SecurityLabelType ShmSize StartWithPod StopSignal StopTimeout SubGIDMap SubUIDMap Sysctl Timezone Tmpfs UIDMap
    Ulimit Unmask User UserNS Volume WorkingDir
"""
VOLUME_KEYS = (
    "ContainersConfModule Copy Device Driver GlobalArgs Group Image Label Options PodmanArgs Type User VolumeName"
)
KEYS = {
    "Container": CONTAINER_KEYS.split(),
    "Volume": VOLUME_KEYS.split(),
    "Unit": ["Description", "Documentation", "After", "Wants"],
    "Service": ["Environment", "EnvironmentFile", "Restart", "RestartSec", "TimeoutStopSec"],
    "Install": ["WantedBy"],
}
# Container Device Interface specification: vendor/class=device, a vendor as a domain's name.
CDI_DEVICE = r"[A-Za-z0-9][\w.-]*[A-Za-z0-9]/[A-Za-z][\w-]*=[A-Za-z0-9][\w.:-]*"
Unit = dict[str, dict[str, list[str]]]


def read(path: Path) -> Unit:
    """Section -> key -> its values, in order; comments left out."""
    found: Unit = defaultdict(lambda: defaultdict(list))
    section = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith(("#", ";")):
            key, sign, value = line.partition("=")
            assert sign, line
            found[section][key].append(value)
    return found


UNIT = read(FOLDER / "dsv4-pd.container")
CONTAINER, SERVICE = UNIT["Container"], UNIT["Service"]


def one(key: str, section: str = "Container") -> str:
    (value,) = UNIT[section][key]
    return value


def pairs(lines: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for line in lines for word in line.split())


def seconds(text: str) -> float:
    number, unit = re.fullmatch(r"(\d+)([smh]?)", text).groups()  # type: ignore[union-attr]
    return int(number) * {"": 1, "s": 1, "m": 60, "h": 3600}[unit]


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_every_key_is_one_of_podman_s_or_systemd_s(path: Path) -> None:
    for section, keys in read(path).items():
        assert set(keys) <= set(KEYS[section]), section


def test_it_says_what_compose_says() -> None:
    assert one("ShmSize") == COMPOSE["shm_size"] and int(one("PidsLimit")) == COMPOSE["pids_limit"]
    assert CONTAINER["AddCapability"] == COMPOSE["cap_add"] and one("DropCapability") == "all"
    assert one("NoNewPrivileges") == "true" and one("ReadOnly") == "true"
    assert CONTAINER["Tmpfs"] == COMPOSE["tmpfs"]
    limits = {
        name: f"{value['soft']}:{value['hard']}" if isinstance(value, dict) else f"{value}:{value}"
        for name, value in COMPOSE["ulimits"].items()
    }
    assert dict(limit.split("=") for limit in CONTAINER["Ulimit"]) == limits
    (reserved,) = COMPOSE["deploy"]["resources"]["reservations"]["devices"]
    assert CONTAINER["AddDevice"] == reserved["device_ids"]
    assert all(re.fullmatch(CDI_DEVICE, device) for device in CONTAINER["AddDevice"])
    image = re.fullmatch(r"\$\{DSV4_IMAGE:-(.+)\}", COMPOSE["image"])
    assert image and one("Image") == f"localhost/{image[1]}"


def test_the_volumes_are_compose_s_and_each_has_its_unit() -> None:
    mounted = dict(volume.split(":", 1) for volume in CONTAINER["Volume"])
    named = dict(volume.split(":") for volume in COMPOSE["volumes"] if not volume.startswith("$"))
    assert mounted == {f"dsv4-pd-{name}.volume": target for name, target in named.items()}
    for file in mounted:
        assert read(FOLDER / file)["Volume"]["VolumeName"] == [file.removesuffix(".volume")]
    assert {path.name for path in FOLDER.iterdir()} == {"dsv4-pd.container", *mounted}


def test_health_is_the_image_s_own() -> None:
    """Podman drops an image's HEALTHCHECK where the image is in OCI format."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    said = re.search(r"HEALTHCHECK (.*) \\\n\s*CMD \[(.*)\]", text)
    assert said
    options = dict(option.lstrip("-").split("=") for option in said[1].split())
    assert one("HealthStartPeriod") == options["start-period"] and one("HealthRetries") == options["retries"]
    assert one("HealthInterval") == options["interval"] and one("HealthTimeout") == options["timeout"]
    assert shlex.split(one("HealthCmd")) == shlex.split(said[2].replace(",", ""))


def test_systemd_waits_longer_than_podman_and_podman_longer_than_a_drain() -> None:
    grace = re.fullmatch(r"\$\{STOP_GRACE_PERIOD:-(\w+)\}", COMPOSE["stop_grace_period"])
    assert grace and seconds(one("StopTimeout")) == seconds(grace[1])
    assert seconds(one("TimeoutStopSec", "Service")) >= seconds(one("StopTimeout")) + 20
    assert Settings().drain_timeout + 30 <= seconds(one("StopTimeout"))


def test_one_file_of_settings_says_what_is_published_and_what_runs() -> None:
    """The container listens on its own addresses; the host's are those of the settings, through systemd."""
    assert CONTAINER["EnvironmentFile"] == SERVICE["EnvironmentFile"]
    inside, outside = pairs(CONTAINER["Environment"]), pairs(SERVICE["Environment"])
    published = [re.findall(r"\$\{(\w+)\}", port) for port in CONTAINER["PublishPort"]]
    assert [name for pair in published for name in pair] == list(outside)
    for pair, port, published_as in zip(published, CONTAINER["PublishPort"], COMPOSE["ports"], strict=True):
        assert int(port.rsplit(":", 1)[1]) == published_as["target"] == int(inside[pair[1]])
        assert f"${{{pair[0]}:-{outside[pair[0]]}}}" == published_as["host_ip"]
        assert f"${{{pair[1]}:-{outside[pair[1]]}}}" == published_as["published"]
    assert set(inside) - {"HF_HOME"} <= set(names())


def test_what_is_commented_out_is_a_key_of_ours() -> None:
    text = (FOLDER / "dsv4-pd.container").read_text(encoding="utf-8")
    offered = re.findall(r"^#(\w+)=(.*)$", text, re.MULTILINE)
    assert {key for key, _ in offered} <= set(KEYS["Container"])
    secrets = {f"{env_name(field)}_FILE" for field in SECRETS}
    assert {value.split("=")[0] for key, value in offered if key == "Environment"} <= secrets
    (target,) = re.findall(r"target=(\S+?),", dict(offered)["Secret"])
    assert dict(offered)["Environment"].endswith(f"={target}")


def generator() -> str | None:
    """Podman's own: of the machine, or of the Docker Engine's folder (docker/engine-on-debian.sh)."""
    unpacked = Path(os.environ.get("DOCKER_ENGINE_ROOT", "/var/lib/dsv4-docker")) / "unpacked"
    places = [root / "libexec/podman" for root in (Path("/usr"), Path("/usr/lib"), unpacked / "usr")]
    return shutil.which("quadlet", path=os.pathsep.join(map(str, places)))


@pytest.mark.docker  # the ring that has it: docker/engine-on-debian.sh unpacks it
@pytest.mark.skipif(generator() is None, reason="no quadlet: Podman 4.4 or newer, or make docker-engine")
def test_podman_s_generator_makes_services_of_it() -> None:
    environ = {"QUADLET_UNIT_DIRS": str(FOLDER), "PATH": os.environ["PATH"]}
    command = [str(generator()), "-dryrun", "-no-kmsg-log"]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    assert done.returncode == 0, done.stderr
    services = dict(re.findall(r"^---(\S+)---\n((?:(?!---).*\n?)*)", done.stdout, re.MULTILINE))
    assert set(services) == {
        "dsv4-pd.service",
        *(f"dsv4-pd-{v}-volume.service" for v in ("huggingface", "cache", "state")),
    }
    run = re.search(r"^ExecStart=(.*)$", services["dsv4-pd.service"], re.MULTILINE)
    assert run
    words = shlex.split(run[1])
    assert words[1] == "run" and words[-1] == one("Image")
    for option, value in (
        ("--device", "nvidia.com/gpu=all"), ("--cap-drop", "all"), ("--cap-add", "sys_nice"), ("--shm-size", "32gb"),
        ("--stop-timeout", "90"), ("--pids-limit", "16384"), ("--ulimit", "memlock=-1:-1"), ("--tmpfs", "/run"),
        ("--publish", "${DSV4_HOST}:${DSV4_PORT}:8000"), ("--env-file", "/etc/dsv4-pd/dsv4-pd.env"),
        ("--health-cmd", one("HealthCmd")), ("--env", "DSV4_HOST=0.0.0.0"), ("--log-driver", "journald"),
    ):  # fmt: skip
        assert any(words[i : i + 2] == [option, value] for i in range(len(words))), (option, value)
    assert "--read-only" in words
