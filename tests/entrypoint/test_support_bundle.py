"""support-bundle: complete enough to help, with nothing in it that should not leave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import yaml
from dsv4_pd.doctor.support_bundle import collect, environment, pack, renamed
from dsv4_pd.host.capture import invented_uuids, scrub
from dsv4_pd.host.machine import Recorder, Replay
from dsv4_pd.host.read import facts_of
from dsv4_pd.plan.survey import survey
from dsv4_pd.settings.redact import Redactor

HOSTS = Path(__file__).parents[1] / "hosts"


def bundle(tmp_path: Path, *words: str, **env: str) -> tuple[dict[str, str], Path]:
    run, target = tmp_path / "run", tmp_path / "b.tar.gz"
    (run / "log").mkdir(parents=True)
    (run / "log" / "prefill.log").write_text(
        "server_args=ServerArgs(api_key='sk-topsecret') token hf_abcdefghij0123456789\n"
    )
    (run / "health.json").write_text('{"state": "READY"}')
    (run / "prefill.yaml").write_text("api-key: sk-topsecret\n")
    environ = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path), "DSV4_PROFILE": "demo-cpu", "DSV4_RUN_DIR": str(run),
        "DSV4_STATE_DIR": str(tmp_path / "state"), "DSV4_API_KEY": "sk-topsecret", "HF_TOKEN": "plain-token-value",
        "HTTPS_PROXY": "http://alice:pw123456@proxy:3128", "EMPLOYER": "blue-heron-inc", **env,
    }  # fmt: skip
    command = [sys.executable, "-m", "dsv4_pd", "support-bundle", "-o", str(target), *words]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with tarfile.open(target) as archive:
        names = [member.name for member in archive.getmembers()]
        texts = {n.removeprefix("b/"): (archive.extractfile(n) or sys.stdin.buffer).read().decode() for n in names}
    return texts, target


def test_bundle_helps(tmp_path: Path) -> None:
    texts, target = bundle(tmp_path)
    assert {"doctor.txt", "doctor.json", "plan.txt", "facts.json", "machine.json", "environment.txt", "version.txt",
            "log/prefill.log", "health.json"} <= set(texts)  # fmt: skip
    assert any(item["check"] == "ports" for item in json.loads(texts["doctor.json"]))
    assert "program prefill" in texts["plan.txt"] and "READY" in texts["health.json"]
    assert target.stat().st_mode & 0o077 == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar.gz", "run"]


def test_nothing_secret_leaves(tmp_path: Path) -> None:
    texts, _ = bundle(tmp_path)
    everything = "".join(texts.values())
    for word in ("blue-heron-inc", "topsecret", "plain-token-value", "hf_abcdefghij", "pw123456"):
        assert word not in everything, word
    assert "HF_TOKEN=(17 characters)" in texts["environment.txt"]
    assert "prefill.yaml" not in texts


def test_redaction_can_be_turned_off(tmp_path: Path) -> None:
    texts, _ = bundle(tmp_path, "--no-redact")
    assert "topsecret" in texts["log/prefill.log"]


def test_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "b.tar.gz").write_text("mine")
    command = [sys.executable, "-m", "dsv4_pd", "support-bundle", "-o", str(tmp_path / "b.tar.gz")]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "DSV4_PROFILE": "demo-cpu"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "exists" in done.stderr
    assert (tmp_path / "b.tar.gz").read_text() == "mine"


def test_a_card_s_own_name_is_planned_with_and_never_leaves(tmp_path: Path) -> None:
    """DSV4_*_GPUS may hold real UUIDs: the plan is made with them, and shows the invented ones."""
    source = json.loads((HOSTS / "eight-two-sockets" / "machine.json").read_text(encoding="utf-8"))
    real = {f"GPU-{n:08x}-0000-4000-8000-{n:012x}": f"GPU-e588912b-1368-6b4f-0e2a-0d08f8afb39{n}" for n in range(8)}
    text = json.dumps(source)
    for invented, own in real.items():
        text = text.replace(invented, own)
    recorder = Recorder(Replay(json.loads(text)))
    names = list(real.values())
    environ = {"DSV4_RUN_DIR": str(tmp_path), "DSV4_PREFILL_GPUS": ",".join(names[4:])}
    situation = survey(environ, recorder)
    machine = scrub(recorder.record)
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "decode.log").write_text(f"CUDA_VISIBLE_DEVICES={names[0]}\n", encoding="utf-8")
    files = collect(situation, machine, facts_of(Replay(machine)))
    shown = {name: data.decode() for name, data in renamed(files, invented_uuids(names)).items()}
    assert not [name for name, data in shown.items() if "e588912b" in data]
    assert "prefill  4    GPU-00000004-0000-4000-8000-000000000004" in shown["plan.txt"]
    assert "CUDA_VISIBLE_DEVICES=GPU-00000000-0000" in shown["log/decode.log"]
    assert {"numactl", "--membind=1"} <= set(json.loads(shown["plan.json"])["programs"][0]["argv"])
    plan = next(item for item in json.loads(shown["doctor.json"]) if item["check"] == "gpu-plan")
    assert plan["verdict"] == "ok"


def test_what_a_unit_s_command_line_holds_does_not_leave(tmp_path: Path) -> None:
    """An older deployment's key stands in the facts; the capture's scrubbing applies to every file of the bundle."""
    source = json.loads((HOSTS / "old-deployment" / "machine.json").read_text(encoding="utf-8"))
    text = json.dumps(source).replace("--port 30000", "--port 30000 --admin-token sup3rs3cret")
    recorder = Recorder(Replay(json.loads(text)))
    situation = survey({"DSV4_RUN_DIR": str(tmp_path)}, recorder)
    assert "sup3rs3cret" in situation.facts.units[0].command
    machine = scrub(recorder.record)
    files = collect(situation, machine, facts_of(Replay(machine)))
    assert not [name for name, data in files.items() if b"sup3rs3cret" in data]


def test_the_environment_shows_what_matters_and_no_secret() -> None:
    secrets = {"HF_TOKEN": "hunter22", "DSV4_API_KYE": "hunter2", "DSV4_API_KEY": ""}
    others = {"NCCL_DEBUG": "INFO", "DSV4_API_KEY_FILE": "/run/secrets/api_key", "DSV4_MODE": "pd", "UNRELATED": "1"}
    shown = environment({**others, **secrets})
    assert shown.splitlines() == [
        "DSV4_API_KEY=", "DSV4_API_KEY_FILE=/run/secrets/api_key", "DSV4_API_KYE=(7 characters)", "DSV4_MODE=pd",
        "HF_TOKEN=(8 characters)", "NCCL_DEBUG=INFO",
    ]  # fmt: skip


def test_a_secret_over_several_lines_is_masked(tmp_path: Path) -> None:
    secret = "a pass phrase of many words " * 6
    files = {"a.yaml": yaml.safe_dump({"x": {"note": secret}}).encode(), "b.bin": b"\xff\xfe" + secret.encode()}
    pack(tmp_path / "x.tar.gz", files, Redactor([secret]))
    with tarfile.open(tmp_path / "x.tar.gz") as archive:
        texts = [(archive.extractfile(m) or sys.stdin.buffer).read().decode() for m in archive.getmembers()]
    assert all("phrase" not in text and "***" in text for text in texts)
