"""The CPU plugin's parts, on stand-ins of NIXL's API; the real one is driven in test_plugin_engine.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

PLUGIN = Path(__file__).resolve().parents[2] / "demo/plugin"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PLUGIN))
    for name in [name for name in sys.modules if name.split(".")[0] == "dsv4_cpu_pd"]:
        monkeypatch.delitem(sys.modules, name)


class Config:
    pthrDelay = 0  # noqa: N815, NIXL's spelling


class Agent:
    """As much of nixl_agent as the plugin stands on."""

    def __init__(self, agent_name: str, nixl_conf: object = None) -> None:
        self.nixl_mems = {"DRAM": "dram", "VRAM": "vram", "FILE": "file", "cpu": "dram", "cuda": "vram"}

    def get_reg_descs(self, descs: object, mem_type: str) -> str:
        return self.nixl_mems[mem_type]

    def get_xfer_descs(self, descs: object, mem_type: str) -> str:
        return self.nixl_mems[mem_type]

    def make_prepped_xfer(
        self, operation: str, local_xfer_side: int, local_indices: list[int], remote_xfer_side: int,
        remote_indices: list[int], notif_msg: bytes = b"",
    ) -> tuple[Any, ...]:  # fmt: skip
        return local_indices, remote_indices, notif_msg


def api() -> ModuleType:
    """A fresh module with fresh classes, since installing changes them."""
    module: Any = ModuleType("nixl._api")
    module.nixl_agent = type("nixl_agent", (Agent,), {"__init__": Agent.__init__})
    bindings = SimpleNamespace(nixlAgent=lambda name, config: (name, config.pthrDelay), nixlAgentConfig=Config)
    module.nixlBind = bindings
    made: ModuleType = module
    return made


def record(directory: Path | None = None) -> Any:
    from dsv4_hooks.record import Record

    return Record("dsv4-cpu", directory)


def test_device_memory_becomes_host_memory() -> None:
    from dsv4_cpu_pd import host_memory

    made: Any = api()
    kept = record()
    host_memory.install(kept, made)
    assert kept.patches == {host_memory.SEGMENTS: "installed", host_memory.PAUSE: "installed"}
    agent = made.nixl_agent("a")
    assert {agent.get_reg_descs([], kind) for kind in ("VRAM", "cuda", "DRAM", "cpu")} == {"dram"}
    assert agent.get_xfer_descs([], "FILE") == "file"
    assert kept.patches[host_memory.SEGMENTS] == "active"


def test_the_progress_thread_pauses() -> None:
    from dsv4_cpu_pd import host_memory

    made: Any = api()
    host_memory.install(record(), made)
    assert made.nixlBind.nixlAgent("a", Config()) == ("a", host_memory.PAUSE_US)


def test_an_agent_that_no_longer_uses_the_table_is_refused() -> None:
    from dsv4_cpu_pd import host_memory
    from dsv4_hooks.targets import EngineChanged

    made: Any = api()
    made.nixl_agent.get_xfer_descs = lambda self, descs, mem_type: mem_type
    with pytest.raises(EngineChanged, match="get_xfer_descs no longer reads 'nixl_mems'"):
        host_memory.install(record(), made)


def test_corruption_sends_the_first_block_only() -> None:
    from dsv4_cpu_pd import corrupt

    made: Any = api()
    corrupt.install(record(), made.nixl_agent)
    assert made.nixl_agent("a").make_prepped_xfer("WRITE", 1, [4, 5, 6], 2, [7, 8, 9], b"n") == (
        [0, 0, 0],
        [7, 8, 9],
        b"n",
    )


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    from dsv4_cpu_pd.settings import Settings, read_settings

    assert read_settings() == Settings(corrupt=False)
    monkeypatch.setenv("DSV4_CPU_PD_CORRUPT", "1")
    assert read_settings() == Settings(corrupt=True)
    monkeypatch.setenv("DSV4_CPU_PD_CORRUPT", "yes")
    with pytest.raises(ValueError, match="DSV4_CPU_PD_CORRUPT is 'yes', expected 1"):
        read_settings()


def test_a_failure_ends_the_process_and_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SGLang catches Exception around this call, so it must not be one."""
    from dsv4_cpu_pd import plugin

    def broken(*_: object) -> None:
        raise RuntimeError("NIXL moved")

    monkeypatch.setattr(plugin, "install", broken)
    monkeypatch.setenv("DSV4_PLUGIN_RECORD_DIR", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        plugin.register()
    assert "dsv4-cpu plugin: NIXL moved" in str(ended.value)
    assert not isinstance(ended.value, Exception)
    content = json.loads(next(tmp_path.glob("dsv4-cpu.*.json")).read_text())
    assert (content["status"], content["reason"]) == ("failed", "RuntimeError: NIXL moved")


def test_a_bad_setting_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record's folder is known before the settings are read, so their error reaches the guard too."""
    from dsv4_cpu_pd import plugin

    monkeypatch.setenv("DSV4_PLUGIN_RECORD_DIR", str(tmp_path))
    monkeypatch.setenv("DSV4_CPU_PD_CORRUPT", "yes")
    with pytest.raises(SystemExit):
        plugin.register()
    content = json.loads(next(tmp_path.glob("dsv4-cpu.*.json")).read_text())
    assert "DSV4_CPU_PD_CORRUPT is 'yes'" in content["reason"]
