"""checks: every fact of a good host, broken in turn, is caught; fatal ones refuse the start with their exit code."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.doctor import checks
from dsv4_pd.doctor.base import Check, CheckVerdict, Finding
from dsv4_pd.doctor.catalogue import CHECKS, ROOMS, examine, of_room, worst
from dsv4_pd.doctor.checks import links
from dsv4_pd.doctor.checks.links import iommu
from dsv4_pd.doctor.preflight import raise_failures, refuse
from dsv4_pd.errors import ApplianceError, HardwareError, SettingsError, TemporaryError
from dsv4_pd.host.facts import (
    Gpu,
    GpuProcess,
    HostFacts,
    LostGpu,
    PcieLink,
    ResourceLimits,
    Software,
    Unit,
    UnlistedGpu,
)
from dsv4_pd.host.numa import Permission
from dsv4_pd.plan.around.surroundings import Disk, Surroundings, appliance_runs, bind_refusal
from dsv4_pd.plan.disk.paths import Paths, models_dir, share_dir
from dsv4_pd.plan.front import files as door_files
from dsv4_pd.plan.model.files import Model
from dsv4_pd.plan.model.shape import Shape
from dsv4_pd.plan.placement.members import Port
from dsv4_pd.plan.shipped import catalogue
from dsv4_pd.plan.shipped import data as shipped
from dsv4_pd.plan.situation import Situation
from dsv4_pd.plan.survey import consider
from dsv4_pd.settings.layout import parse as layout_text
from dsv4_pd.settings.schema import Settings
from dsv4_pd.verify import catalogue as accepted
from support.machines import read_facts
from support.ports import free_ports
from support.rewording import reworded

GOOD = Path(__file__).parents[1] / "hosts" / "eight-two-sockets"
GIB = 1 << 30


RUN = Path("/run/dsv4-pd")
FLASH = catalogue.read_all(models_dir())["flash-0731"]
UNNAMED = {key: value for key, value in FLASH.config.items() if key != "expert_dtype"}
IN_ORDER = Surroundings(
    paths=Paths(RUN, Path("/var/lib/dsv4-pd"), Path("/var/lib/dsv4-pd/cache"), RUN / "tmp"),
    share=share_dir(),
    model=Model(Path("/models/dsv4")),
    tools={"gcc": True, "ninja": True, "nvcc": True},
)
SHIPPED = shipped.read()


def around(**more: Any) -> Surroundings:
    return replace(IN_ORDER, **more)


def situation(
    facts: HostFacts | None = None, surround: Surroundings = IN_ORDER, busy_ports: Any = (), **settings: Any
) -> Situation:
    given = Settings(**{"api_key": "k", **settings})
    found = consider(given, facts or read_facts(GOOD), SHIPPED, lambda _: surround)
    return replace(found, busy_ports=busy_ports)


def room_of(check: Check) -> str:
    return check.run.__module__.split(".")[-2]


def module_of(check: Check) -> str:
    return check.run.__module__.split(".")[-1]


def verdicts(found: Situation) -> dict[str, Finding]:
    return {check.name: finding for check, finding in examine(found)}


def gpus(change: Callable[[Gpu], Gpu], only: int = 3) -> Callable[[HostFacts], HostFacts]:
    return lambda f: replace(f, gpus=tuple(change(g) if g.index == only else g for g in f.gpus))


def link(**more: int) -> Callable[[HostFacts], HostFacts]:
    return gpus(lambda g: replace(g, link=replace(g.link, **more)))


def limits(**more: Any) -> Callable[[HostFacts], HostFacts]:
    return lambda f: replace(f, limits=replace(f.limits, **more))


def software(**more: Any) -> Callable[[HostFacts], HostFacts]:
    return lambda f: replace(f, software=replace(f.software, **more))


def unusable(**more: Any) -> Callable[[HostFacts], HostFacts]:
    """Device files are here, and NVML lists nothing."""
    return lambda f: replace(software(nvidia_devices=("nvidia0",), **more)(f), gpus=())


def matrix(f: HostFacts) -> HostFacts:
    rows = [list(row) for row in f.peer_access]
    rows[0][1] = "chipset not supported"
    return replace(f, peer_access=tuple(map(tuple, rows)))


def node(change: dict[str, Any]) -> Callable[[HostFacts], HostFacts]:
    return lambda f: replace(f, numa_nodes=(f.numa_nodes[0], replace(f.numa_nodes[1], **change)))


# what is broken -> (how, the check that must say so)
FACTS: dict[str, tuple[Callable[[HostFacts], HostFacts], str]] = {
    "gpus": (lambda f: replace(f, gpus=(), gpu_error="Driver Not Loaded"), "gpu-visible"),
    "gpus, too few": (lambda f: replace(f, gpus=f.gpus[:3], peer_access=()), "gpu-plan"),
    "gpu_error": (lambda f: replace(f, gpus=(), gpu_error="any words"), "gpu-visible"),
    "devices_revoked": (lambda f: replace(f, gpus=(), devices_revoked=True), "gpu-visible"),
    "gpu_error_code": (lambda f: replace(f, gpus=(), gpu_error_code=18), "gpu-visible"),
    "unread": (lambda f: replace(f, unread=("clock (ValueError: x)",)), "host-files"),
    "Software.selinux": (unusable(container="docker", selinux="enforcing, container_t"), "device-access"),
    "Software.user_namespace": (unusable(container="podman", user_namespace=True), "device-access"),
    "numa_nodes": (node({"memory_bytes": 0}), "numa-binding"),
    "NumaNode.id": (node({"id": 7}), "numa-binding"),
    "NumaNode.cpus": (node({"cpus": frozenset()}), "numa-binding"),
    "NumaNode.memory_bytes": (node({"memory_bytes": 0}), "numa-binding"),
    "allowed_cpus": (lambda f: replace(f, allowed_cpus=frozenset(range(8))), "cpus"),
    "allowed_cpus, one socket": (lambda f: replace(f, allowed_cpus=frozenset(range(64))), "numa-binding"),
    "allowed_nodes": (lambda f: replace(f, allowed_nodes=frozenset({0})), "numa-binding"),
    "driver_version": (lambda f: replace(f, driver_version="570.172.08"), "driver-version"),
    "cuda_version": (lambda f: replace(f, cuda_version=(12, 8)), "driver-version"),
    "peer_access": (matrix, "peer-access"),
    "bridges": (
        lambda f: replace(f, bridges=(replace(f.bridges[0], acs_request_redirect=True), *f.bridges[1:])),
        "acs",
    ),
    "PciBridge.acs_request_redirect": (
        lambda f: replace(f, bridges=tuple(replace(b, acs_request_redirect=True) for b in f.bridges)),
        "acs",
    ),
    "iommu": (lambda f: replace(f, iommu="translated"), "iommu"),
    "memory_bytes": (lambda f: replace(f, memory_bytes=32 * GIB), "host-memory"),
    "clock_skew_s": (lambda f: replace(f, clock_skew_s=-40 * 86400.0), "clock"),
    "units": (lambda f: replace(f, units=(Unit("a.service", "sglang --port 30000", (30000,)),)), "older-deployment"),
    "Unit.ports": (lambda f: replace(f, units=(Unit("b.service", "vllm", ()),)), "older-deployment"),
    "unlisted_gpus": (lambda f: replace(f, unlisted_gpus=(UnlistedGpu("0000:ff:00.0", None),)), "gpu-visible"),
    "lost_gpus": (lambda f: replace(f, lost_gpus=(LostGpu(8, "GPU is lost", 15),)), "gpu-visible"),
    "Gpu.compute_capability": (gpus(lambda g: replace(g, compute_capability=(9, 0))), "gpu-plan"),
    "Gpu.memory_bytes": (gpus(lambda g: replace(g, memory_bytes=32 * GIB)), "gpu-plan"),
    "Gpu.numa_node": (gpus(lambda g: replace(g, numa_node=None, socket=None)), "numa-binding"),
    "Gpu.socket": (
        lambda f: replace(f, gpus=(*f.gpus[:3], replace(f.gpus[3], socket=1, numa_node=1), *f.gpus[4:])),
        "numa-binding",
    ),
    "Gpu.name": (gpus(lambda g: replace(g, name="NVIDIA RTX PRO 6000 Blackwell Max-Q")), "gpu-architecture"),
    "Gpu.mig": (gpus(lambda g: replace(g, mig=True)), "gpu-mig"),
    "Gpu.ecc": (gpus(lambda g: replace(g, ecc=False)), "gpu-ecc"),
    "Gpu.persistence": (gpus(lambda g: replace(g, persistence=False)), "gpu-persistence"),
    "Gpu.memory_used_bytes": (gpus(lambda g: replace(g, memory_used_bytes=60 * GIB)), "gpu-processes"),
    "Gpu.processes": (gpus(lambda g: replace(g, processes=(GpuProcess(9, "Xorg", 1),))), "gpu-processes"),
    "PcieLink.width": (link(width=8), "pcie-link"),
    "PcieLink.slot_generation": (link(slot_generation=3), "pcie-link"),
    "Limits.nofile_hard": (limits(nofile=1024, nofile_hard=1024), "open-files"),
    "Limits.memlock_bytes": (limits(memlock_bytes=65536), "locked-memory"),
    "Limits.shm_bytes": (limits(shm_bytes=64 << 20), "shared-memory"),
    "Limits.shm_mounted": (limits(shm_mounted=False), "shared-memory"),
    "Limits.memory_limit_bytes": (limits(memory_limit_bytes=16 * GIB), "host-memory"),
    "Limits.cpu_quota": (limits(cpu_quota=2.0), "cpus"),
    "Limits.hugepages": (limits(hugepages=500_000), "huge-pages"),
    "Software.kernel": (software(kernel="4.18.0-553.el8"), "kernel-version"),
    "Software.docker": (software(docker="20.10.24+dfsg1"), "docker-version"),
    "Software.container_toolkit": (software(container_toolkit=None), "container-toolkit"),
    "Software.container_toolkit, old": (software(container_toolkit="1.13.5-1"), "docker-version"),
    "Software.toolkit_in_docker": (software(toolkit_in_docker=False), "container-toolkit"),
    "Software.nvidia_devices": (software(nvidia_devices=("nvidia0", "nvidiactl")), "unified-memory-device"),
}
# Facts that no check judges, and why.
UNJUDGED = {
    "cpu_model": "a name",
    "Limits.nofile": "`serve` sets it within the hard limit",
    "limits": "its fields are",
    "software": "its fields are",
    "virtual_machine": "only explains others",
    "memory_available_bytes": "changes by the minute",
    "Gpu.index": "a name",
    "Gpu.uuid": "a name",
    "Gpu.pci_bus_id": "a name",
    "Gpu.bridges": "a place, see acs",
    "Gpu.link": "its fields are",
    "Gpu.display": "a display card is no fault",
    "Gpu.nvlinks": "more is no fault",
    "PcieLink.generation": "falls to 1 on an idle card",
    "PcieLink.max_generation": "what the card is",
    "PcieLink.max_width": "what the card is",
    "Software.container": "both are well",
    "Software.driver_libraries": "see compat-libraries, which judges the loader path",
    "PciBridge.address": "a name",
    "NumaNode.distances": "a place",
    "NumaNode.free_bytes": "changes by the minute",
    "GpuProcess.pid": "a name",
    "GpuProcess.name": "a name",
    "GpuProcess.memory_bytes": "see memory_used_bytes",
    "Unit.name": "a name",
    "Unit.command": "read for its ports",
}
ENVIRONMENT: dict[str, tuple[dict[str, str], str]] = {
    "expandable segments": ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, "expandable-segments"),
    "expandable segments, new name": ({"PYTORCH_ALLOC_CONF": "a:b,expandable_segments:true"}, "expandable-segments"),
    "engine, KV by another way": ({"SGLANG_DISAGGREGATION_NIXL_BACKEND": "LIBFABRIC"}, "engine-overrides"),
    "engine, in its own case": ({"SGLANG_DISAGGREGATION_NIXL_BACKEND": "ucx"}, "engine-overrides"),
    "engine, parameters": ({"SGLANG_DISAGGREGATION_NIXL_BACKEND_PARAMS": '{"num_threads": 8}'}, "engine-overrides"),
    "engine, parameters of no form": ({"SGLANG_DISAGGREGATION_NIXL_BACKEND_PARAMS": "x=1"}, "engine-overrides"),
    "engine, no number": ({"SGLANG_DISAGGREGATION_WAITING_TIMEOUT": "10m"}, "engine-overrides"),
    "engine, no truth": ({"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "on"}, "engine-overrides"),
    "engine, nobody's name": ({"SGLANG_SM120_MMA_FLASHMLA": "1"}, "engine-overrides"),
    "UCX only TCP": ({"UCX_TLS": "tcp"}, "ucx-overrides"),
    "UCX without cuda_copy": ({"UCX_TLS": "cuda_ipc"}, "ucx-overrides"),
    "UCX forbids cuda_ipc": ({"UCX_TLS": "^cuda_ipc"}, "ucx-overrides"),
    "UCX other": ({"UCX_RNDV_SCHEME": "get_zcopy"}, "ucx-overrides"),
    "NCCL no peers": ({"NCCL_P2P_DISABLE": "1"}, "nccl-overrides"),
    "NCCL no shared memory": ({"NCCL_SHM_DISABLE": "1"}, "nccl-overrides"),
    "NCCL sockets only": ({"NCCL_SHM_DISABLE": "1", "NCCL_P2P_LEVEL": "LOC"}, "nccl-overrides"),
    "no device visible": ({"CUDA_VISIBLE_DEVICES": ""}, "visible-devices"),
    "some devices visible": ({"CUDA_VISIBLE_DEVICES": "0,1"}, "visible-devices"),
    "proxy": ({"HTTPS_PROXY": "http://proxy:3128"}, "proxies"),
    "stop grace": ({"DSV4_COMPOSE_VERSION": "2", "STOP_GRACE_PERIOD": "59s"}, "stop-grace"),
    "compat": ({"LD_LIBRARY_PATH": "/usr/local/cuda/compat:/usr/lib"}, "compat-libraries"),
}
AROUND: dict[str, tuple[dict[str, Any], str]] = {
    "disks": ({"disks": (Disk("state", "DSV4_STATE_DIR", Path("/x"), 1024),)}, "disk-space"),
    "disks, a file in the way": (
        {"disks": (Disk("state", "DSV4_STATE_DIR", Path("/x/y"), 20 * GIB, blocked=Path("/x")),)},
        "disk-space",
    ),
    "disks, cache": ({"disks": (Disk("cache", "DSV4_CACHE_DIR", Path("/x"), GIB),)}, "disk-space"),
    "disks, model": ({"disks": (Disk("model", "HF_HOME", Path("/x"), 20 * GIB),), "entry": FLASH}, "disk-space"),
    "disks, cache that may not execute": (
        {"disks": (Disk("cache", "DSV4_CACHE_DIR", Path("/x"), 20 * GIB, executable=False),)},
        "kernel-cache",
    ),
    "model": ({"model": Model(Path("/m"), ("model-1.safetensors is empty",))}, "model-files"),
    "model, absent and offline": ({"model": Model(None), "environ": {"HF_HUB_OFFLINE": "1"}}, "hub-access"),
    "model, absent": ({"model": Model(None)}, "model-files"),
    "config, not here": ({"model": Model(None)}, "model-known"),
    "config, of another kind": (
        {"config": {"model_type": "qwen2"}, "shape": None, "model_context": 4096},
        "model-known",
    ),
    "config, experts in no format": ({"config": UNNAMED, "shape": Shape(), "model_context": 4096}, "model-known"),
    "model_context": ({"config": FLASH.config, "shape": Shape()}, "model-known"),
    "executable": ({"executable": frozenset()}, "engine-installed"),
    "executable, no router": ({"executable": frozenset({Settings().engine_python})}, "engine-installed"),
    "tools": ({"tools": {"gcc": True, "ninja": False, "nvcc": True}}, "toolchain"),
    "numa": ({"numa": Permission("cpu", "set_mempolicy: Operation not permitted")}, "numa-permission"),
    "numa, not installed": ({"numa": Permission("none", "?", installed=False)}, "numa-permission"),
}


def test_good_host_is_good() -> None:
    assert worst(examine(situation())) == 0


def test_what_a_model_leaves_open_is_said() -> None:
    known = verdicts(situation(surround=around(entry=catalogue.read_all(models_dir())["flash-nvfp4"])))["model-known"]
    assert known.verdict is CheckVerdict.OK and "flash-nvfp4 of the catalogue; not known: license; " in known.read
    tells = around(config=FLASH.config, shape=Shape(), model_context=FLASH.context)
    assert verdicts(situation(surround=tells))["model-known"].verdict is CheckVerdict.OK
    silent = verdicts(situation(surround=around(config={"model_type": "qwen2"}, shape=None)))["model-known"].read
    assert "memory: its kind, 'qwen2'" in silent and "reasoning and tool calls" in silent and "context" in silent


@pytest.mark.parametrize("name", FACTS)
def test_broken_fact_is_caught(name: str) -> None:
    change, check = FACTS[name]
    facts = read_facts(GOOD)
    broken = change(facts)
    assert broken != facts, "the mutation changed nothing"
    finding = verdicts(situation(broken))[check]
    assert finding.verdict is not CheckVerdict.OK, finding.read
    assert finding.remedy


@pytest.mark.parametrize("name", [*FACTS, *AROUND])
def test_rewording_a_sentence_changes_no_verdict_and_no_subject(name: str) -> None:
    """Notices, reasons, errors and refusals carry other words; kinds, subjects and numbers stay."""
    if name in FACTS:
        found = situation(FACTS[name][0](read_facts(GOOD)))
    else:
        found = situation(surround=around(**AROUND[name][0]))
    plain = {check: (finding.verdict, finding.subject) for check, finding in verdicts(found).items()}
    assert plain == {c: (f.verdict, f.subject) for c, f in verdicts(reworded(found)).items()}


def test_the_remedy_for_lost_gpus_and_for_a_missing_numactl_hangs_on_no_words() -> None:
    lost = situation(FACTS["devices_revoked"][0](read_facts(GOOD)))
    assert "force-recreate" in verdicts(reworded(lost))["gpu-visible"].remedy
    bare = situation(surround=around(numa=Permission("none", "numactl is not there", installed=False)))
    assert "apt install numactl" in verdicts(reworded(bare))["numa-permission"].remedy


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_broken_environment_is_caught(name: str) -> None:
    environ, check = ENVIRONMENT[name]
    assert verdicts(situation(surround=around(environ=environ)))[check].verdict is not CheckVerdict.OK


@pytest.mark.parametrize("name", AROUND)
def test_broken_surrounding_is_caught(name: str) -> None:
    change, check = AROUND[name]
    assert verdicts(situation(surround=around(**change)))[check].verdict is not CheckVerdict.OK


@pytest.mark.parametrize(
    ("environ", "own", "verdict", "words"),
    [
        ({"SGLANG_DISAGGREGATION_NIXL_BACKEND": "UCX"}, {}, CheckVerdict.OK, "SGLANG_DISAGGREGATION_NIXL_BACKEND"),
        ({"SGLANG_DISAGGREGATION_NIXL_BACKEND": ""}, {}, CheckVerdict.OK, "none"),
        ({"SGLANG_DISAGGREGATION_NIXL_BACKEND_PARAMS": '{"num_threads": "8"}'}, {}, CheckVerdict.OK, "PARAMS"),
        ({"SGLANG_DISAGGREGATION_WAITING_TIMEOUT": "30"}, {}, CheckVerdict.OK, "WAITING_TIMEOUT"),
        (
            {"SGLANG_DISAGGREGATION_WAITING_TIMEOUT": "30"},
            {"link_timeout": 60.0},
            CheckVerdict.FAIL,
            "DSV4_LINK_TIMEOUT",
        ),
        ({"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "0"}, {"pcie_allreduce": "on"}, CheckVerdict.FAIL, "DSV4_PCIE_ALLREDUCE"),
        ({"SGLANG_ENABLE_PCIE_IPC_ALLREDUC": "1"}, {}, CheckVerdict.WARN, "write SGLANG_ENABLE_PCIE_IPC_ALLREDUCE"),
        ({"SGLANG_PLUGINS": "mine"}, {}, CheckVerdict.FAIL, "dsv4-kernels, dsv4-gate among them"),
        ({"SGLANG_PLUGINS": "mine, dsv4-gate,dsv4-kernels"}, {}, CheckVerdict.OK, "SGLANG_PLUGINS"),
        ({"SGLANG_CPU_OMP_THREADS_BIND": "0-3"}, {}, CheckVerdict.OK, "SGLANG_CPU_OMP_THREADS_BIND"),
    ],
)
def test_a_variable_of_the_engine_reaches_it_as_it_was_meant(
    environ: dict[str, str], own: dict[str, Any], verdict: CheckVerdict, words: str
) -> None:
    found = replace(situation(surround=around(environ=environ), **own), own=frozenset(own))
    finding = verdicts(found)["engine-overrides"]
    assert (finding.verdict, words in f"{finding.read} {finding.remedy}") == (verdict, True), finding


def test_one_bad_variable_of_the_engine_hides_no_other() -> None:
    environ = {"SGLANG_DISAGGREGATION_NIXL_BACKEND": "POSIX", "SGLANG_PREFETCH_BLOCK_SIZE_MB": "16M"}
    found = situation(surround=around(environ=environ))
    with pytest.raises(SettingsError, match=r"NIXL_BACKEND: found 'POSIX', expected UCX.*BLOCK_SIZE_MB: found '16M'"):
        refuse(found)


def test_an_engine_on_the_cpu_may_have_its_cache_where_nothing_may_be_executed() -> None:
    """Docker's own --tmpfs /tmp: it loads no compiled kernel from there."""
    surround = around(disks=(Disk("cache", "DSV4_CACHE_DIR", Path("/x"), 20 * GIB, executable=False),))
    on_cpu = situation(read_facts(GOOD.parent / "no-gpu"), surround, profile="demo-cpu")
    assert verdicts(on_cpu)["kernel-cache"].verdict is not CheckVerdict.FAIL
    assert verdicts(situation(surround=surround))["kernel-cache"].verdict is CheckVerdict.FAIL


@pytest.mark.parametrize(
    "kind,prefix",
    [
        (HostFacts, ""),
        (Gpu, "Gpu."),
        (PcieLink, "PcieLink."),
        (ResourceLimits, "Limits."),
        (Software, "Software."),
    ],
)
def test_every_fact_is_broken_or_excused(kind: type[Any], prefix: str) -> None:
    fields = {prefix + field.name for field in dataclasses.fields(kind)}
    broken = {name.partition(",")[0] for name in FACTS}
    assert fields - broken - set(UNJUDGED) == set()


def test_every_check_is_provoked() -> None:
    """A check that nothing here can turn away from ok would be one that can't fail."""
    provoked = {check for _, check in [*FACTS.values(), *ENVIRONMENT.values(), *AROUND.values()]}
    alone = {"gpu-memory", "memory-fit", "all-reduce", "ports", "api-key", "door-files", "listen-address"}  # below
    alone |= {"link-timeout", "deprecated-settings"}  # below; in test_deprecated.py
    assert {check.name for check in CHECKS} - provoked == alone


@pytest.mark.parametrize(
    ("drain", "grace", "verdict"),
    [
        (30.0, "", CheckVerdict.OK),
        (60.0, "", CheckVerdict.OK),
        (61.0, "", CheckVerdict.WARN),
        (600.0, "10m30s", CheckVerdict.OK),
        (600.0, "10m", CheckVerdict.WARN),
        (30.0, "soon", CheckVerdict.SKIP),
    ],
)
def test_docker_waits_for_the_drain(drain: float, grace: str, verdict: CheckVerdict) -> None:
    environ = {"DSV4_COMPOSE_VERSION": "2", "STOP_GRACE_PERIOD": grace}
    finding = verdicts(situation(surround=around(environ=environ), drain_timeout=drain))["stop-grace"]
    assert finding.verdict is verdict
    assert verdict is not CheckVerdict.WARN or f"STOP_GRACE_PERIOD={drain + 30:.0f}s" in finding.remedy
    alone = verdicts(situation(surround=around(environ={"STOP_GRACE_PERIOD": grace}), drain_timeout=drain))
    assert alone["stop-grace"].verdict is CheckVerdict.SKIP


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "fd00::7"])
def test_an_api_without_a_key_that_others_reach(host: str) -> None:
    finding = verdicts(situation(api_key=None, host=host))["api-key"]
    assert (finding.verdict, host in finding.read, "DSV4_API_KEY_FILE" in finding.remedy) == (
        CheckVerdict.WARN,
        True,
        True,
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_an_api_without_a_key_on_this_machine_alone(host: str) -> None:
    assert verdicts(situation(api_key=None, host=host))["api-key"].verdict is CheckVerdict.OK


NO_PROXY = {
    "127.0.0.1": CheckVerdict.OK,
    "corp, 127.0.0.1": CheckVerdict.OK,
    "127.0.0.0/8": CheckVerdict.OK,
    "localhost,127.0.0.0/8 ,10.0.0.0/8": CheckVerdict.OK,
    "127.0.0.1:8000": CheckVerdict.OK,
    "*": CheckVerdict.OK,
    "": CheckVerdict.WARN,
    "localhost": CheckVerdict.WARN,
    "127.0.0.10": CheckVerdict.WARN,
    "10.0.0.0/8,corp": CheckVerdict.WARN,
}


@pytest.mark.parametrize("listed", NO_PROXY)
def test_what_keeps_loopback_off_a_proxy(listed: str) -> None:
    environ = {"http_proxy": "http://proxy:3128", "no_proxy": listed}
    assert verdicts(situation(surround=around(environ=environ)))["proxies"].verdict is NO_PROXY[listed]


def test_files_of_the_front_that_cannot_be_used(tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    keys.write_text("[[key]\n")
    found = situation(api_keys_file=keys)
    finding = verdicts(replace(found, door_files=door_files.refusals(found.settings)))["door-files"]
    assert (finding.verdict, finding.subject) == (CheckVerdict.FAIL, "DSV4_API_KEYS_FILE")
    assert str(keys) in finding.read and "docs/keys.md" in finding.remedy


def test_named_small_card_is_seen_by_the_memory_check() -> None:
    facts = gpus(lambda g: replace(g, memory_bytes=32 * GIB))(read_facts(GOOD))
    bad = situation(facts, prefill_gpus=("0", "1", "2", "3"))
    assert isinstance(bad.refusal, HardwareError)
    assert verdicts(bad)["gpu-memory"].verdict is CheckVerdict.FAIL


def test_settings_that_cannot_fit_are_refused() -> None:
    found = verdicts(situation(decode_mem_fraction=0.42))["memory-fit"]
    assert (found.verdict, found.subject) == (CheckVerdict.FAIL, "DSV4_DECODE_MEM_FRACTION")
    assert "KV for" in verdicts(situation())["memory-fit"].read


@pytest.mark.parametrize(
    ("limit_gib", "layout", "weights_gib", "verdict"),
    [
        (150, "pd:4+4", 146, CheckVerdict.WARN),  # 56 for the ranks: the shards of both servers don't fit the cache
        (250, "pd:4+4", 146, CheckVerdict.OK),
        (150, "single:8", 146, CheckVerdict.OK),  # one reader: nothing is read twice
        (110, "single:8", 146, CheckVerdict.WARN),
        (250, "pd:4+4", 300, CheckVerdict.WARN),
    ],
)
def test_servers_that_load_side_by_side_want_their_shards_cached(
    limit_gib: int, layout: str, weights_gib: int, verdict: CheckVerdict
) -> None:
    facts = limits(memory_limit_bytes=limit_gib * GIB)(read_facts(GOOD))
    model = Model(Path("/models/dsv4"), total_bytes=weights_gib * GIB)
    found = verdicts(situation(facts, around(model=model), layout=layout_text(layout)))["host-memory"]
    assert found.verdict is verdict, found.read
    assert (
        verdict is CheckVerdict.OK
        or f"to cache {64 if layout == 'single:8' else weights_gib}.0 GiB of shards" in found.read
    )


def test_all_reduce_says_which_one() -> None:
    assert "PCIe all-reduce" in verdicts(situation())["all-reduce"].read
    assert verdicts(situation(pcie_allreduce="off"))["all-reduce"].verdict is CheckVerdict.WARN
    assert verdicts(situation(matrix(read_facts(GOOD))))["all-reduce"].read.endswith("NCCL")


@pytest.mark.parametrize(
    "change,error,words",
    [
        (
            {"environ": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}},
            SettingsError,
            "expandable-segments: found",
        ),
        ({"environ": {"UCX_TLS": "tcp"}}, SettingsError, "UCX_TLS=tcp"),
        ({"executable": frozenset()}, SettingsError, "DSV4_ENGINE_PYTHON: found no interpreter with SGLang"),
    ],
)
def test_fatal_failure_refuses_the_start(change: dict[str, Any], error: type[ApplianceError], words: str) -> None:
    found = examine(situation(surround=around(**change)), tuple(c for c in CHECKS if c.fatal))
    with pytest.raises(error, match=words):
        raise_failures(found)


def test_cards_in_use_are_temporary_and_named() -> None:
    busy = gpus(lambda g: replace(g, memory_used_bytes=60 * GIB, processes=(GpuProcess(77, "vllm", 60 * GIB),)))
    found = examine(situation(busy(read_facts(GOOD))), tuple(c for c in CHECKS if c.fatal))
    with pytest.raises(TemporaryError, match=r"vllm \(pid 77\) on GPU 3"):
        raise_failures(found)


def test_settings_come_before_hardware() -> None:
    old = replace(read_facts(GOOD), driver_version="535.1")
    found = examine(situation(old, around(executable=frozenset())))
    with pytest.raises(SettingsError):
        raise_failures(found)


def test_strict_numa_refuses_without_permission() -> None:
    denied = around(numa=Permission("cpu", "not permitted"))
    assert verdicts(situation(surround=denied))["numa-permission"].verdict is CheckVerdict.WARN
    assert verdicts(situation(surround=denied, numa="strict"))["numa-permission"].verdict is CheckVerdict.FAIL


def test_cpu_profile_is_not_asked_about_gpus() -> None:
    found = situation(read_facts(GOOD.parent / "no-gpu"), profile="demo-cpu")
    assert verdicts(found)["gpu-visible"].verdict is CheckVerdict.SKIP
    assert verdicts(found)["gpu-plan"].read == "profile demo-cpu: prefill on the CPU; decode on the CPU"


@pytest.mark.parametrize(
    ("selinux", "rootless", "words", "absent"),
    [
        ("enforcing, container_t", True, ["container_use_devices", "no-cgroups"], []),
        ("enforcing, container_t", False, ["container_use_devices"], ["no-cgroups"]),
        ("enforcing, container_init_t", False, ["container_use_devices"], []),
        ("enforcing, container_kvm_t", False, ["container_use_devices"], []),
        ("enforcing, svirt_lxc_net_t", False, ["container_use_devices"], []),
        ("enforcing, container_device_t", True, ["no-cgroups"], ["container_use_devices"]),
        ("enforcing, spc_t", True, ["no-cgroups"], ["container_use_devices"]),
        ("permissive", True, ["no-cgroups"], ["container_use_devices"]),
        (None, True, ["no-cgroups"], ["container_use_devices"]),
    ],
)
def test_whatever_keeps_devices_from_us_has_its_remedy(
    selinux: str | None, rootless: bool, words: list[str], absent: list[str]
) -> None:
    change = unusable(container="podman", selinux=selinux, user_namespace=rootless)
    found = verdicts(situation(change(read_facts(GOOD))))["device-access"]
    assert found.verdict is CheckVerdict.FAIL
    assert all(word in found.remedy for word in words) and not any(word in found.remedy for word in absent)


@pytest.mark.parametrize(
    "selinux",
    ["enforcing, container_device_plugin_t", "enforcing, container_runtime_t", "enforcing, spc_t", "permissive"],
)
def test_what_may_open_devices_is_not_blamed(selinux: str) -> None:
    change = unusable(container="docker", selinux=selinux)
    assert verdicts(situation(change(read_facts(GOOD))))["device-access"].verdict is CheckVerdict.SKIP


def test_taken_ports_refuse_the_start_by_the_first_one_s_setting() -> None:
    ports = [Port("DSV4_PORT", "0.0.0.0", 8000), Port("DSV4_OPS_PORT", "0.0.0.0", 8001)]
    taken = tuple((port, errno.EADDRINUSE) for port in ports)
    assert verdicts(situation(busy_ports=taken))["ports"].verdict is CheckVerdict.FAIL
    with pytest.raises(TemporaryError, match=r"^DSV4_PORT: found 0\S+:8000 can't .*; DSV4_OPS_PORT: 0\S+:8001 can't"):
        refuse(situation(busy_ports=taken))


def test_a_check_that_breaks_costs_its_own_line() -> None:
    def broken(_: Situation) -> Finding:
        raise KeyError("numa")

    bad = replace(CHECKS[0], name="bad", run=broken)
    (_, finding), (_, other) = examine(situation(), (bad, CHECKS[1]))
    assert (finding.verdict, finding.read) == (CheckVerdict.WARN, "check bad failed: KeyError: 'numa'")
    assert "report" in finding.remedy and other.verdict is CheckVerdict.OK
    raise_failures(((bad, finding),))  # and a start goes on


def test_running_appliance_holds_its_ports_and_cards_by_right(tmp_path: Path) -> None:
    busy = gpus(lambda g: replace(g, memory_used_bytes=60 * GIB))(read_facts(GOOD))
    taken = ((Port("DSV4_PORT", "0.0.0.0", 8000), errno.EADDRINUSE),)
    held = situation(busy, around(running=True), taken)
    found = verdicts(held)
    assert found["ports"].verdict is found["gpu-processes"].verdict is CheckVerdict.OK
    with pytest.raises(TemporaryError):  # a start has the lock itself: it finds strangers there
        refuse(held)
    assert not appliance_runs(tmp_path)
    holder = (tmp_path / "lock").open("w")
    with holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert appliance_runs(tmp_path)
    assert not appliance_runs(tmp_path)


def test_taken_port_is_seen_and_a_free_one_is_not() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        number = taken.getsockname()[1]
        assert bind_refusal("127.0.0.1", number) == errno.EADDRINUSE
    assert bind_refusal("127.0.0.1", number) is None


@pytest.mark.parametrize(
    ("host", "code"),
    [("8.8.8.8", errno.EADDRNOTAVAIL), ("2001:db8::1", errno.EADDRNOTAVAIL), ("fe80::1", errno.EINVAL), ("::1", None),
     ("::", None), ("0.0.0.0", None)],
)  # fmt: skip
def test_the_kernel_s_own_answer_for_an_address(host: str, code: int | None) -> None:
    (port,) = free_ports(1)
    assert bind_refusal(host, port) == code


def test_a_kernel_without_ipv6_refuses_and_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.socket

    def four_only(family: int = -1, *args: Any, **more: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return real(family, *args, **more)

    monkeypatch.setattr(socket, "socket", four_only)
    (port,) = free_ports(1)
    assert [bind_refusal(host, port) for host in ("::", "::1")] == [errno.EAFNOSUPPORT] * 2


def test_any_address_means_that_nobody_else_has_either_family() -> None:
    """`::` is both: it is taken where IPv4 alone is."""
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen(1)
        assert bind_refusal("::", taken.getsockname()[1]) == errno.EADDRINUSE


@pytest.mark.parametrize(
    ("port", "code", "subject", "words"),
    [
        (Port("DSV4_PORT", "8.8.8.8", 8000), errno.EADDRNOTAVAIL, "DSV4_HOST", "no address of this machine"),
        (Port("DSV4_OPS_PORT", "fe80::1", 8001), errno.EINVAL, "DSV4_OPS_HOST", "needs an interface"),
        (Port("DSV4_PORT", "::", 8000), errno.EAFNOSUPPORT, "DSV4_HOST", "this kernel does not have"),
        (Port("DSV4_PORT", "0.0.0.0", 80), errno.EACCES, "DSV4_PORT", "may not listen"),
        (Port("DSV4_ROUTER_PORT", "127.0.0.1", 80), errno.EACCES, "DSV4_ROUTER_PORT", "may not listen"),
    ],
)
def test_what_can_never_be_listened_on_is_a_wrong_setting(port: Port, code: int, subject: str, words: str) -> None:
    """And not a port that another program has: nothing is to be stopped, and no later start is better."""
    held = situation(busy_ports=((port, code),))
    assert verdicts(held)["ports"].verdict is CheckVerdict.OK
    with pytest.raises(SettingsError) as caught:
        refuse(held)
    (problem,) = caught.value.problems
    assert problem.subject == subject and words in problem.found and subject in problem.remedy
    assert "{" not in problem.remedy and "stop what listens" not in str(problem)


def test_wrong_addresses_are_told_together() -> None:
    ports = (Port("DSV4_PORT", "8.8.8.8", 8000), Port("DSV4_OPS_PORT", "8.8.4.4", 8001))
    held = situation(busy_ports=tuple((port, errno.EADDRNOTAVAIL) for port in ports))
    with pytest.raises(SettingsError, match=r"^DSV4_HOST: found 8\.8\.8\.8:8000.*; DSV4_OPS_HOST: 8\.8\.4\.4:8001"):
        refuse(held)


def test_every_file_of_a_check_is_in_the_report_s_order() -> None:
    """`doctor --link` asks the one that is not."""
    rooms = Path(str(checks.__file__)).parent
    files = [f"{room_of(check)}/{module_of(check)}.py" for check in CHECKS]
    assert {str(path.relative_to(rooms)) for path in rooms.rglob("[!_]*.py")} == {*files, "links/kv_link.py"}
    assert len(CHECKS) == len(set(files)) == len({check.name for check in CHECKS})


def test_a_file_in_a_room_is_all_that_a_new_check_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = of_room("links")
    text = Path(str(iommu.__file__)).read_text(encoding="utf-8")
    assert f"place={iommu.CHECK.place}" in text and 'name="iommu"' in text
    text = text.replace(f"place={iommu.CHECK.place}", f"place={(before[0].place or 0) + 5}")
    (tmp_path / "added.py").write_text(text.replace('name="iommu"', 'name="added"'), encoding="utf-8")
    monkeypatch.setattr(links, "__path__", [*links.__path__, str(tmp_path)])
    names = [check.name for check in of_room("links")]
    del sys.modules[f"{links.__name__}.added"], links.__dict__["added"]
    assert names == [before[0].name, "added", *(check.name for check in before[1:])]


def test_the_report_goes_room_by_room_and_by_each_check_s_own_place() -> None:
    """No two of a room have one place, so that no name decides."""
    places = [(ROOMS.index(room_of(check)), check.place) for check in CHECKS]
    assert places == sorted(set(places)) and None not in {place for _, place in places}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_check_explains_itself(check: Any) -> None:
    assert check.symptom and check.why.endswith(".") and check.source
    assert not check.fatal or check.expected


def test_a_check_s_file_has_its_name() -> None:
    assert [module_of(check).replace("_", "-") for check in CHECKS] == [check.name for check in CHECKS]
    for check in accepted.CHECKS:
        assert check.run.__module__ == f"dsv4_pd.verify.checks.{check.name}"


@pytest.mark.parametrize(
    ("seconds", "context", "layout", "verdict"),
    [
        (600.0, 1_048_576, "pd", CheckVerdict.OK),
        (60.0, 262_144, "pd", CheckVerdict.WARN),
        (132.0, 262_144, "pd", CheckVerdict.OK),
        (60.0, 262_144, "single", CheckVerdict.SKIP),
    ],
)
def test_the_link_waits_for_the_longest_prompt(
    seconds: float, context: int, layout: str, verdict: CheckVerdict
) -> None:
    found = situation(link_timeout=seconds, context_length=context, layout=layout)
    finding = verdicts(found)["link-timeout"]
    assert finding.verdict is verdict, finding
    assert verdict is not CheckVerdict.WARN or "DSV4_LINK_TIMEOUT=132 " in finding.remedy
