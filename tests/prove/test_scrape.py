"""A real Prometheus scrapes the pair, its rules evaluate, an alert fires when decode is killed. Last in this folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import ROOT
from dsv4_pd.verify import catalogue
from dsv4_pd.verify.base import Outcome
from prove.conftest import subject
from support.appliance import Appliance
from support.ports import free_ports

MONITORING = ROOT / "config" / "monitoring"
needs_prometheus = pytest.mark.skipif(
    not shutil.which("prometheus"), reason="no prometheus: apt-get install prometheus"
)


@pytest.fixture(scope="module")
def prometheus(appliance: Appliance, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus of our own with the shipped rules; only the pace is quicker."""
    folder = tmp_path_factory.mktemp("prometheus")
    shutil.copy(MONITORING / "rules.yml", folder / "rules.yml")
    target = appliance.ops.removeprefix("http://")
    text = (MONITORING / "prometheus.yml").read_text().replace("dsv4-pd:8001", target).replace(": 10s", ": 1s")
    assert target in text
    (folder / "prometheus.yml").write_text(text)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
               f"--web.listen-address={address}", "--log.level=warn"]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(30)


def ask(base: str, path: str, **query: str) -> Any:
    with urllib.request.urlopen(f"{base}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
        return json.load(answer)["data"]


def value(base: str, query: str) -> dict[str, float]:
    found = ask(base, "query", query=query)["result"]
    return {item["metric"].get("role", ""): float(item["value"][1]) for item in found}


def wait(what: str, seconds: float, true: Any) -> Any:
    begun = time.monotonic()
    while True:
        try:
            if found := true():
                return found
        except OSError:
            pass  # not up yet
        assert time.monotonic() - begun < seconds, f"not within {seconds} s: {what}"
        time.sleep(0.5)


def firing(base: str) -> set[tuple[str, str, str]]:
    """Name, role and severity of every alert; Prometheus lists them in no order."""
    alerts = [alert["labels"] for alert in ask(base, "alerts")["alerts"] if alert["state"] == "firing"]
    return {(labels["alertname"], labels.get("role", ""), labels["severity"]) for labels in alerts}


def named(base: str, name: str) -> set[tuple[str, str, str]]:
    return {alert for alert in firing(base) if alert[0] == name}


@pytest.mark.pair
@needs_prometheus
def test_prometheus_scrapes_every_role(appliance: Appliance, prometheus: str) -> None:
    wait("first scrape", 60, lambda: value(prometheus, "up") == {"": 1.0} and value(prometheus, "dsv4_scrape_up"))
    assert value(prometheus, "dsv4_scrape_up") == {"prefill": 1.0, "decode": 1.0, "router": 1.0, "front": 1.0}

    def both() -> bool:
        subject(appliance).api.chat("Hello!")  # the engine's gauges come after its first forty steps
        return set(value(prometheus, "sglang:num_running_reqs")) == {"prefill", "decode"}

    wait("both engines' gauges", 60, both)
    assert set(value(prometheus, "count by (role) (smg_worker_health)")) == {"router"}
    wait("the transfer is counted", 60, lambda: value(prometheus, "dsv4_kv_link_bytes_total")[""] > 0)


@pytest.mark.pair
@needs_prometheus
def test_every_rule_evaluates(appliance: Appliance, prometheus: str) -> None:
    def rules() -> list[dict[str, Any]]:
        found = [rule for group in ask(prometheus, "rules")["groups"] for rule in group["rules"]]
        return found if found and all(rule["health"] != "unknown" for rule in found) else []

    found = wait("all rules evaluated", 60, rules)
    assert len(found) >= 15
    assert {rule["name"]: rule.get("lastError") for rule in found if rule["health"] != "ok"} == {}
    assert firing(prometheus) == set(), "a healthy pair raises no alert"


# Panels that a machine without GPUs leaves empty.
EMPTY_ON_CPU = {
    "GPU memory", "GPU power", "GPU temperature", "GPU utilization", "PCIe traffic",
    "Card errors (Xid, uncorrected ECC)",
}  # fmt: skip


@pytest.mark.pair
@needs_prometheus
def test_every_panel_of_the_board_has_data(appliance: Appliance, prometheus: str) -> None:
    board = json.loads((MONITORING / "grafana" / "dashboards" / "dsv4-pd.json").read_text())

    def empty() -> set[str]:
        subject(appliance).api.chat("Hello!", stream=True)  # a rate needs traffic between two scrapes
        return {
            panel["title"]
            for panel in board["panels"]
            for target in panel["targets"]
            if not ask(prometheus, "query", query=target["expr"].replace("$instance", ".*"))["result"]
        }

    wait("first scrape", 60, lambda: value(prometheus, "up") == {"": 1.0})
    missing: set[str] = set()
    for _ in range(60):
        missing = empty() - EMPTY_ON_CPU
        if not missing:
            return
        time.sleep(1)
    pytest.fail(f"no data in {missing}")


@pytest.mark.pair
@needs_prometheus
def test_alert_fires_when_decode_is_killed(appliance: Appliance, prometheus: str) -> None:
    os.killpg(os.getpgid(appliance.pid("decode")), signal.SIGKILL)
    told = wait("Dsv4RoleDown", 90, lambda: named(prometheus, "Dsv4RoleDown"))
    assert told == {("Dsv4RoleDown", "decode", "critical")}, "the router only waits for it"
    appliance.wait_for("READY")
    wait("the alert ends", 60, lambda: not named(prometheus, "Dsv4RoleDown"))
    restarted = wait("the restart is told", 60, lambda: named(prometheus, "Dsv4Restarted"))
    assert {role for _, role, _ in restarted} == {"decode"}


@pytest.mark.pair
@needs_prometheus
def test_verify_tells_of_the_restart(appliance: Appliance) -> None:
    result = catalogue.chosen(("programs",), ())[0].run(subject(appliance))
    assert result.verdict is Outcome.FAIL and "decode 1 times" in result.evidence


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool: apt-get install prometheus")
def test_rules_pass_their_own_tests() -> None:
    done = subprocess.run(
        ["promtool", "test", "rules", "rules.test.yml"], cwd=MONITORING, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
