"""Old systemd units in, settings out: nothing dropped, no secret shown, and a plan with the same engine flags."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, VENVS
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.disk.paths import models_dir
from dsv4_pd.plan.flags import command_line
from dsv4_pd.plan.migrate import report, unit, unit_text, words
from dsv4_pd.plan.migrate.accounts import Fate
from dsv4_pd.plan.migrate.translate import Migration, translate
from dsv4_pd.plan.shipped import catalogue
from support.plans import eight_cards, make

UNITS = Path(__file__).parent / "data" / "units"
SEEDS = ("sglang-dsv4-prefill", "sglang-dsv4-decode", "sglang-dsv4-router")
KEY = "sk-seed-0123456789"
HOST = ROOT / "tests" / "hosts" / "eight-two-sockets"
ENGINE = "ExecStart=/v/bin/python -m sglang.launch_server --model-path /m"


def migrate(tmp_path: Path, *texts: str, env: Mapping[str, str] | None = None) -> Migration:
    """Units of these texts, called u0.service and so on."""
    for number, text in enumerate(texts):
        (tmp_path / f"u{number}.service").write_text(text, encoding="utf-8")
    read = [unit.read(str(tmp_path / f"u{number}.service"), tmp_path) for number in range(len(texts))]
    return translate(read, dict(env or {}), tmp_path)


def seeds() -> Migration:
    return translate([unit.read(name, UNITS) for name in SEEDS], {}, UNITS)


def fates(found: Migration) -> dict[str, Fate]:
    return {one.what: one.fate for one in found.accounts}


# --- systemd's own rules ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b\t c", ["a", "b", "c"]),
        ("'a b' \"c d\"", ["a b", "c d"]),
        ("--x='{\"a\": 1}'", ['--x={"a": 1}']),
        (r"\x41\101\u0042 a\ b \t", ["AAB", "a\\ b", "\t"]),
        ("''", [""]),
        (r"'it\'s' \s\q", ["it's", r" \q"]),
    ],
)
def test_words_are_split_as_systemd_splits_them(text: str, expected: list[str]) -> None:
    assert words.split(text) == expected


def test_an_open_quote_is_refused() -> None:
    with pytest.raises(words.Unreadable):
        words.split("a 'b")


def test_variables_in_a_command_line() -> None:
    given = {"A": "1 '2 3'", "B": "x"}
    made, missing = words.expand(["p", "$A", "-${B}-", "$$B", "a$B", "${NO}"], given)
    assert made == ["p", "1", "2 3", "-x-", "$B", "a$B", ""] and missing == ["NO"]


def test_lines_are_joined_and_comments_between_them_left_out() -> None:
    text = "[Service]\n# a\nExecStart=/bin/a \\\n  # b\n; c\n  --x 1 \\\n\n  --y\nUser = me\nnonsense\n"
    found = [(item.key, " ".join(item.value.split()), item.line) for item in unit_text.read(text)]
    assert found[0][:2] == ("ExecStart", "/bin/a --x 1")
    assert ("User", "me", 9) in found and ("", "nonsense", 10) in found
    escaped = list(unit_text.read("[Service]\nA=x\\\\\nB=y\n"))
    assert [item.key for item in escaped] == ["A", "B"], "an escaped backslash joins nothing"


def test_an_environment_file_is_no_shell_script() -> None:
    text = """
# c
A=plain # not a comment
B="two words" 'and more'
C='$HOME "x"'
D=a\\
b
E="a \\"q\\" \\n \\$x"
 F = spaced\t
export G=1
H=
I="over
two lines"
J=ends\\\\
"""
    found, ignored = unit_text.environment(text)
    assert found == {
        "A": "plain # not a comment", "B": "two words and more", "C": '$HOME "x"', "D": "ab", "E": 'a "q" \\n $x',
        "F": "spaced", "H": "", "I": "over\ntwo lines", "J": "ends\\",
    }  # fmt: skip
    assert ignored == ["export G=1"]


def test_drop_ins_come_by_name_and_the_first_folder_has_a_name(tmp_path: Path) -> None:
    etc, usr = tmp_path / "etc/systemd/system", tmp_path / "usr/lib/systemd/system"
    for folder, name, text in [
        (usr, "pd@.service", f"[Service]\n{ENGINE} --port 1\nEnvironment=NCCL_A=unit NCCL_B=unit\n"),
        (etc, "pd@x.service.d/20-b.conf", "[Service]\nEnvironment=NCCL_A=b\n"),
        (usr, "pd@x.service.d/20-b.conf", "[Service]\nEnvironment=NCCL_A=masked\n"),
        (etc, "pd@.service.d/10-a.conf", "[Service]\nEnvironment=NCCL_A=a NCCL_I=%i\n"),
        (etc, "service.d/30-all.conf", f"[Service]\nExecStart=\n{ENGINE} --port 3\n"),
    ]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (etc / "pd@x.service").write_text((usr / "pd@.service").read_text())
    found = unit.read("pd@x", tmp_path)
    assert found.environment == {"NCCL_A": "b", "NCCL_B": "unit", "NCCL_I": "x"}
    assert len(found.commands) == 1 and found.commands[0][-1] == "3", "an empty ExecStart= takes the others back"


def test_files_override_environment_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "a.env").write_text("NCCL_X=file\n")
    text = f"[Service]\nEnvironmentFile=/a.env\nEnvironmentFile=-/none.env\nEnvironment=NCCL_X=unit\n{ENGINE}\n"
    found = migrate(tmp_path, text)
    assert found.kept == {"NCCL_X": "file"}
    assert any("/none.env" in note and "may be missing" in note for note in found.notes)


# --- the units of the deployment that is replaced ---------------------------------------------------------------------


def test_the_seeds_units_become_settings() -> None:
    found = seeds()
    assert found.problems == () and found.key == KEY
    assert dict(found.settings) == {
        "DSV4_LAYOUT": "pd:4+4",
        "DSV4_MODEL": "/models/DeepSeek-V4-Flash-NVFP4",
        "DSV4_SERVED_MODEL_NAME": "deepseek-v4-flash",
        "DSV4_CHAT_TEMPLATE": "/root/templates/dsv4.jinja",
        "DSV4_PORT": "30001",
        "DSV4_REQUEST_TIMEOUT": "3600s",
        "DSV4_PREFILL_GPUS": "0,1,2,3",
        "DSV4_DECODE_GPUS": "4,5,6,7",
        "DSV4_PREFILL_MEM_FRACTION": "0.80",
        "DSV4_DECODE_MEM_FRACTION": "0.85",
        "DSV4_CHUNKED_PREFILL_SIZE": "8192",
        "DSV4_MAX_RUNNING_REQUESTS": "32",
        "DSV4_ROUTER_EXTRA_ARGS": "--policy cache_aware",
        "DSV4_DECODE_PORT": "30002",
    }
    assert found.kept == {"NCCL_ALGO": "Ring", "NCCL_MIN_NCHANNELS": "8", "NCCL_P2P_LEVEL": "SYS"}


def test_every_flag_variable_and_directive_of_the_seeds_has_one_account() -> None:
    """Counted from the texts themselves, not from what was read of them."""
    found = seeds()
    told = [one.what for one in found.accounts]
    for name in SEEDS:
        folder = UNITS / "etc/systemd/system"
        drop_in = folder / f"{name}.service.d/10-port.conf"
        text = (drop_in if drop_in.exists() else folder / f"{name}.service").read_text()
        command = text[text.rindex("ExecStart=/") :].split("Restart=")[0]
        given = [word for word in command.replace("'", " ").split() if word.startswith("--")]
        given = [flag for flag in given if not flag.startswith(("--cpunodebind", "--membind"))]
        mine = [one.what.split()[0] for one in found.accounts if one.unit == f"{name}.service"]
        assert sorted(word for word in mine if word.startswith("--")) == sorted(given), name
        for line in (folder / f"{name}.service").read_text().splitlines():
            key, sign, value = line.partition("=")
            if sign and key.isalpha() and not key.startswith(("Exec", "Environment")):
                assert f"{key}={value}" in told
    for variable in ("SGLANG_DISAGGREGATION_NIXL_BACKEND", "SGLANG_SM120_MMA_FLASHMLA", "NCCL_ALGO", "HF_HOME", "PATH"):
        assert any(what.startswith(f"{variable}=") for what in told), variable
    assert sum(what.startswith("numactl") for what in told) == 2


def flags_of(plan: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A server's flags as the plan gives them: its file's, and the words behind it."""
    (text,) = [text for path, text in plan["files"].items() if path.endswith(f"/{name}.yaml")]
    (program,) = [program for program in plan["programs"] if program["name"] == name]
    behind, _ = command_line.read(program["argv"][program["argv"].index("--") + 3 :], "engine")
    return {f"--{key}": str(value) for key, value in yaml.safe_load(text).items()} | {
        flag.name: flag.value for flag in behind
    }


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What `plan` makes of the .env that the command prints, read by a shell."""
    folder = tmp_path_factory.mktemp("migrate")
    program = [sys.executable, "-m", "dsv4_pd"]
    done = subprocess.run([*program, "migrate", "--root", str(UNITS), "--key-file", "dsv4-api-key", *SEEDS],
                          capture_output=True, text=True, cwd=folder, check=True)  # fmt: skip
    assert KEY not in done.stdout + done.stderr
    assert (folder / "dsv4-api-key").read_text() == KEY + "\n"
    assert (folder / "dsv4-api-key").stat().st_mode & 0o777 == 0o600
    (folder / ".env").write_text(done.stdout)
    line = f"set -a; . ./.env; set +a; exec {sys.executable} -m dsv4_pd plan --replay {HOST} --json"
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    shown = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=folder, env=environ, check=False)
    assert shown.returncode == 0, shown.stderr
    found: Mapping[str, Any] = json.loads(shown.stdout)
    return found


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_the_plan_of_the_printed_settings_has_the_units_flags(planned: Mapping[str, Any], role: str) -> None:
    found = unit.read(f"sglang-dsv4-{role}", UNITS)
    from dsv4_pd.plan.migrate.command import started

    ((one, *_), _) = started(found, UNITS)
    old, _ = command_line.read(one.words, "engine")
    new = flags_of(planned, role)
    differ = {
        "--context-length": "524544",  # a page more, of which exactly the setting is usable
        "--disaggregation-bootstrap-port": "8998",  # of prefill, in both
        "--cuda-graph-max-bs-decode": "32",
    }
    for flag in old:
        if flag.name == "--dist-init-addr":
            assert new["--nccl-port"] == flag.value.rpartition(":")[2]
        elif flag.name not in (  # a file; not needed for this model; the plan's own
            "--api-key", "--trust-remote-code", "--moe-runner-backend", "--speculative-moe-runner-backend",
        ):  # fmt: skip
            want = differ.get(flag.name, flag.value)
            assert new[flag.name] == want or float(new[flag.name]) == float(want), flag.shown
    argv = next(program["argv"] for program in planned["programs"] if program["name"] == role)
    assert argv[:3] == ["numactl", f"--cpunodebind={0 if role == 'prefill' else 1}", argv[2]]
    assert "--api-key-file" in argv
    assert planned["settings"]["DSV4_API_KEY"] == "<secret>"


def test_the_model_of_the_seeds_gets_the_runner_that_its_experts_need(tmp_path: Path) -> None:
    """The units' own, Triton, ended the engine at its first forward, after the whole load."""
    entry = catalogue.read_all(models_dir())["flash-nvfp4"]
    (tmp_path / "config.json").write_text(json.dumps(dict(entry.config)), encoding="utf-8")
    settings = {**seeds().settings, "DSV4_MODEL": str(tmp_path)}
    del settings["DSV4_CHAT_TEMPLATE"]
    plan = make(settings, eight_cards())
    texts = [file.text for file in plan.files if file.path.suffix == ".yaml"]
    assert [text.count("moe-runner-backend: flashinfer_cutlass\n") for text in texts] == [1, 1]
    old = {**settings, "DSV4_DECODE_EXTRA_ARGS": "--moe-runner-backend triton --speculative-moe-runner-backend triton"}
    with pytest.raises(
        SettingsError, match=r"DSV4_DECODE_EXTRA_ARGS: found --moe-runner-backend triton, expected flas"
    ):
        make(old, eight_cards())


def test_the_template_is_given_once_to_both_roles(planned: Mapping[str, Any]) -> None:
    both = [flags_of(planned, role)["--chat-template"] for role in ("prefill", "decode")]
    assert both == ["/root/templates/dsv4.jinja"] * 2


def test_the_router_of_the_plan_has_the_unit_s_flags(planned: Mapping[str, Any]) -> None:
    argv = next(program["argv"] for program in planned["programs"] if program["name"] == "router")
    assert argv[argv.index("--request-timeout-secs") + 1] == "3600"
    settings = planned["settings"]
    assert (settings["DSV4_HOST"], settings["DSV4_PORT"]) == ("0.0.0.0", 30001), "clients find the API where it was"
    assert argv[argv.index("--port") + 1] != "30001", "the front has it; the router is behind"
    assert argv[-2:] == ["--policy", "cache_aware"], "the operator's own comes last, and counts"
    assert argv[argv.index("--prefill") + 1 :][:2] == ["http://127.0.0.1:30000", "8998"]
    assert argv[argv.index("--decode") + 1] == "http://127.0.0.1:30002"


# --- secrets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        ENGINE + " --api-key {}",
        ENGINE + " --api-key={}",
        "Environment=SOME_TOKEN={}\n" + ENGINE,
        "Environment=K={}\n" + ENGINE + " --admin-api-key ${{K}}",
        "Environment=HTTPS_PROXY=http://bob:{}@proxy:3128\n" + ENGINE,
        "Environment=HF_TOKEN={}\n" + ENGINE,
        "ExecStartPre=/bin/curl -H 'Authorization: Bearer {}' http://x\n" + ENGINE,
        "ExecStart=/v/bin/python -m sglang_router.launch_router --worker-urls http://a --api-key {}",
        "ExecStart=/v/bin/python -m sglang_router.launch_router --redis-url redis://u:{}@h",
        ENGINE + ' --hicache-storage-backend-extra-config \'{{"password": "{}"}}\'',
        "ExecStart=/bin/bash -c 'export A={}; exec python -m sglang.launch_server --model-path /m --api-key $A'",
    ],
)
def test_no_secret_of_a_unit_is_printed(tmp_path: Path, line: str) -> None:
    found = migrate(tmp_path, "[Service]\n" + line.format("hunter2-long") + "\n")
    text = report.env_file(found)
    assert "hunter2" not in text and "hunter2" not in json.dumps([str(one) for one in found.problems])
    assert found.accounts


def test_a_key_that_clients_send_is_never_lost_silently(tmp_path: Path) -> None:
    """Without --key-file the settings name a file that is not there yet, and a start without it is refused."""
    text = report.env_file(migrate(tmp_path, f"[Service]\n{ENGINE} --api-key abc\n"))
    assert "\nDSV4_API_KEY_FILE=./dsv4-api-key\n" in text


def test_a_short_key_does_not_blot_out_the_settings(tmp_path: Path) -> None:
    text = report.env_file(migrate(tmp_path, f"[Service]\n{ENGINE} --api-key 8 --port 38888 --context-length 8192\n"))
    assert "DSV4_PORT=38888\n" in text and "DSV4_CONTEXT_LENGTH=8192\n" in text


def test_the_key_s_file_is_not_overwritten(tmp_path: Path) -> None:
    from dsv4_pd.cli.migrate import write_key

    write_key(tmp_path / "key", "a")
    write_key(tmp_path / "key", "a")
    with pytest.raises(SettingsError, match="holds something else"):
        write_key(tmp_path / "key", "b")
    assert (tmp_path / "key").read_text() == "a\n"


# --- other shapes of the same -----------------------------------------------------------------------------------------


def test_a_whole_server_alone_has_the_api_s_port(tmp_path: Path) -> None:
    found = migrate(tmp_path, f"[Service]\n{ENGINE} --tp-size 8 --host 0.0.0.0 --port 30000\n")
    assert found.settings["DSV4_LAYOUT"] == "single:8" and found.settings["DSV4_PORT"] == "30000"
    assert found.settings["DSV4_PREFILL_PORT"] != "30000" and found.problems == ()


def test_a_fallback_beside_the_pair_is_accounted_for_and_does_not_count(tmp_path: Path) -> None:
    pair = [f"[Service]\n{ENGINE} --tp 4 --disaggregation-mode {role}\n" for role in ("prefill", "decode")]
    found = migrate(tmp_path, *pair, f"[Service]\n{ENGINE} --tp 8 --port 39999\n")
    assert found.settings["DSV4_LAYOUT"] == "pd:4+4" and "39999" not in found.settings.values()
    assert all(one.fate is Fate.NONE for one in found.accounts if one.unit == "u2.service")


@pytest.mark.parametrize(
    ("flag", "fate", "word"),
    [
        ("--disaggregation-transfer-backend mooncake", Fate.NONE, "NIXL"),
        ("--kv-cache-dtype bfloat16", Fate.NONE, "both roles must agree"),
        ("--page-size 64", Fate.NONE, "256"),
        ("--page-size 256", Fate.OWN, "plan"),
        ("--enable-pd-role-switch", Fate.NONE, "roles are fixed"),
        ("--disaggregation-decode-tp 4", Fate.NONE, "no such flag"),
        ("--enable-flashinfer-autotune", Fate.NONE, "no such flag"),
        ("--nnodes 2", Fate.NONE, "one host"),
        ("--dist-init-addr 10.0.0.5:5000", Fate.NONE, "one host"),
        ("--speculative-algorithm NEXTN", Fate.SETTING, "DSV4_SPECULATIVE=eagle"),
        ("--speculative-num-steps 7", Fate.NONE, "3 steps"),
        ("--hicache-size 50 --tp 4", Fate.SETTING, "DSV4_KV_OFFLOAD_GB=200"),
        ("--moe-runner-backend triton", Fate.NONE, "format of the checkpoint's experts"),
        ("--speculative-moe-runner-backend triton", Fate.NONE, "format of the checkpoint's experts"),
        ("--watchdog-timeout 900", Fate.EXTRA, "DSV4_PREFILL_EXTRA_ARGS"),
        ("--tensor-parallel-size 4", Fate.SETTING, "DSV4_LAYOUT"),
        ("--mem-frac 0.7", Fate.SETTING, "DSV4_PREFILL_MEM_FRACTION=0.7"),
        ("--chunked-prefill-size -1", Fate.NONE, "can't be switched off"),
        ("--chat-template chatml", Fate.NONE, "templates of other models"),
        ("--chat-template /t/x.jinja", Fate.SETTING, "DSV4_CHAT_TEMPLATE=/t/x.jinja"),
    ],
)
def test_single_flags(tmp_path: Path, flag: str, fate: Fate, word: str) -> None:
    found = migrate(tmp_path, f"[Service]\n{ENGINE} {flag}\n")
    first = flag.split(" --", maxsplit=1)[0]
    (account,) = [one for one in found.accounts if one.what == first]
    assert account.fate is fate and word in account.why


def test_roles_that_disagree_are_told_and_not_guessed(tmp_path: Path) -> None:
    texts = [
        f"[Service]\n{ENGINE} --tp 4 --disaggregation-mode prefill --served-model-name a --chunked-prefill-size 4096\n",
        f"[Service]\n{ENGINE} --tp 2 --disaggregation-mode decode --served-model-name b --chunked-prefill-size 512\n",
    ]
    found = migrate(tmp_path, *texts)
    assert "DSV4_LAYOUT" not in found.settings and any("[2, 4] GPUs" in note for note in found.notes)
    lost = [one for one in found.accounts if one.fate is Fate.NONE and one.what.startswith("--served-model-name")]
    assert len(lost) == 1 and "stands already" in lost[0].why
    assert found.settings["DSV4_CHUNKED_PREFILL_SIZE"] == "4096"


def test_one_environment_for_all_programs(tmp_path: Path) -> None:
    texts = [
        f"[Service]\nEnvironment=NCCL_ALGO={value} CUDA_VISIBLE_DEVICES={cards}\n{ENGINE} --tp 2 "
        f"--disaggregation-mode {role}\n"
        for role, value, cards in (("prefill", "Ring", "4,5"), ("decode", "Tree", "6,7"))
    ]
    found = migrate(tmp_path, *texts)
    assert found.settings["DSV4_PREFILL_GPUS"] == "4,5" and found.settings["DSV4_DECODE_GPUS"] == "6,7"
    assert [one.fate for one in found.accounts if one.what.startswith("NCCL_ALGO")] == [Fate.KEPT, Fate.NONE]


@pytest.mark.parametrize(
    ("given", "mounted", "words"),
    [
        ("--model-path /models/x", "/models", ("DSV4_MODEL: /models/x must be readable by group 0",)),
        ("--model-path /data/m/x", None, ("'/data/m/x:/data/m/x:ro'", "MODELS_DIR=/data/m and DSV4_MODEL=/models/x")),
        ("--model-path /models/x --chat-template /t/y.jinja", "/models", ("'/t/y.jinja:/t/y.jinja:ro'",)),
        ("--model-path nvidia/X-NVFP4", None, ("(~/.cache/huggingface of the units' user)",
                                               "DSV4_MODEL=/models/hub/models--nvidia--X-NVFP4/snapshots/REVISION")),
        ("HF_HOME=/models/hf --model-path a/b", None, ("cache (/models/hf), DSV4_MODEL=/models/hub/models--a--b/",)),
        ("HF_HUB_CACHE=/c --model-path a/b", None, ("cache (/c), DSV4_MODEL=/models/models--a--b/snapshots/",)),
        ("NCCL_TOPO_FILE=/etc/topo.xml --model-path /models/x", "/models",
         ("NCCL_TOPO_FILE: a container does not have /etc/topo.xml",)),
    ],
)  # fmt: skip
def test_what_a_container_does_not_have_is_told(
    tmp_path: Path, given: str, mounted: str | None, words: tuple[str, ...]
) -> None:
    variable, _, flags_ = given.rpartition("--model-path")
    line = ENGINE.replace("--model-path /m", f"--model-path{flags_}")
    found = migrate(tmp_path, f"[Service]\nEnvironment={variable.strip() or 'A=1'}\n{line}\n")
    text = report.env_file(found)
    notes = "\n".join(line for line in text.splitlines() if line.startswith("# CHECK: "))
    assert all(word in notes for word in words), notes
    assert "\nCOMPOSE_PROFILES=gpu\n" in text
    assert (f"\nMODELS_DIR={mounted}\n" in text) if mounted else "\nMODELS_DIR=" not in text
    assert not {"HF_HOME", "HF_HUB_CACHE"} & set(found.kept), "the image's own volume has it"


def test_what_a_unit_leaves_to_the_engine_is_told(tmp_path: Path) -> None:
    notes = "\n".join(migrate(tmp_path, f"[Service]\n{ENGINE}\n").notes)
    assert "DSV4_CONTEXT_LENGTH" in notes and "DSV4_PREFILL_MEM_FRACTION" in notes
    assert "DSV4_MAX_RUNNING_REQUESTS" in notes


def test_a_script_is_read_and_what_is_not_followed_is_told(tmp_path: Path) -> None:
    script = tmp_path / "opt" / "start.sh"
    script.parent.mkdir()
    script.write_text(
        "#!/usr/bin/env bash\nset -e\nexport NCCL_ALGO=Ring PORT=31000\nif true; then :; fi\ncd /root\n"
        "exec python3 -m sglang.launch_server \\\n  --model-path /m --port ${PORT} --tp ${TP:-2} 2>&1 | tee /log\n"
    )
    found = migrate(tmp_path, "[Service]\nExecStart=/opt/start.sh\n")
    assert found.settings["DSV4_PORT"] == "31000" and found.settings["DSV4_LAYOUT"] == "single:2"
    assert found.kept["NCCL_ALGO"] == "Ring"
    assert any("`if`" in note for note in found.notes) and any("tee is no program" in note for note in found.notes)


@pytest.mark.parametrize(
    "command",
    [
        "/usr/bin/docker run --rm --gpus all --shm-size 32g -e NCCL_ALGO=Ring -e HF_TOKEN=hunter2-x -v /m:/m "
        "lmsysorg/sglang:v0.5 python3 -m sglang.launch_server --model-path /m --tp 4",
        "/usr/bin/podman run --env=NCCL_ALGO=Ring --env=HF_TOKEN=hunter2-x img sglang serve --model-path /m --tp 4",
        "/usr/bin/env NCCL_ALGO=Ring HF_TOKEN=hunter2-x /v/python /v/sglang/launch_server.py --model-path /m --tp 4",
        "-/usr/bin/nice -n 5 /usr/bin/env NCCL_ALGO=Ring HF_TOKEN=hunter2-x /v/bin/sglang serve --model-path /m --tp=4",
    ],
)
def test_other_ways_to_start_the_same(tmp_path: Path, command: str) -> None:
    found = migrate(tmp_path, f"[Service]\nExecStart={command}\n")
    assert found.settings["DSV4_LAYOUT"] == "single:4" and found.settings["DSV4_MODEL"] == "/m"
    assert found.kept == {"NCCL_ALGO": "Ring"} and "hunter2" not in report.env_file(found)


def test_graphs_of_a_prefill_say_nothing_of_decode(tmp_path: Path) -> None:
    pair = [f"[Service]\n{ENGINE} --tp 4 --disaggregation-mode {role}" for role in ("prefill", "decode")]
    found = migrate(tmp_path, pair[0] + " --cuda-graph-max-bs 32\n", pair[1] + "\n")
    assert "DSV4_MAX_RUNNING_REQUESTS" not in found.settings


def test_units_without_sglang_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no program of SGLang"):
        migrate(tmp_path, "[Service]\nExecStart=/usr/bin/vllm serve x\n")
    with pytest.raises(SettingsError, match="no such unit"):
        unit.read("sglang-none", tmp_path)


def test_a_value_that_no_setting_takes_ends_with_2_and_the_text(tmp_path: Path) -> None:
    (tmp_path / "a.service").write_text(f"[Service]\n{ENGINE} --mem-fraction-static 1.5\n")
    command = [sys.executable, "-m", "dsv4_pd", "migrate", str(tmp_path / "a.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "DSV4_PREFILL_MEM_FRACTION" in done.stderr
    assert "# WRONG: DSV4_PREFILL_MEM_FRACTION" in done.stdout


def test_an_environment_file_beside_the_units_counts_below_them(tmp_path: Path) -> None:
    (tmp_path / "a.service").write_text(f"[Service]\nEnvironment=NCCL_A=unit\n{ENGINE} --port ${{PORT}}\n")
    (tmp_path / "old.env").write_text("NCCL_A=file\nNCCL_B=file\nPORT=32000\n")
    command = [sys.executable, "-m", "dsv4_pd", "migrate", "--json", "a.service", "old.env"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout)["kept"] == {"NCCL_A": "unit", "NCCL_B": "file"}


@pytest.mark.parametrize("value", ["a b", "it's", 'say "x"', "a$b", "$HOME", "back\\slash", "'", "a'$b\"c`d", "#x", ""])
def test_values_survive_a_shell(value: str) -> None:
    bash = shutil.which("bash")
    assert bash
    script = f'X={report.quoted(value)}; printf %s "$X"'
    assert subprocess.run([bash, "-c", script], capture_output=True, text=True, check=True).stdout == value


@pytest.mark.engine
@pytest.mark.parametrize("program", ["engine", "sglang-router", "smg"])
def test_the_list_of_flags_is_the_parsers_own(program: str) -> None:
    """config/parsers.json against the pinned programs: `python -m support.parsers` in tests/ writes it."""
    from support.parsers import read

    names = {"engine": "engine", "sglang-router": "router", "smg": "smg"}
    assert read(VENVS / names[program], program) == command_line.parsers()[program]
    assert read(VENVS / names[program], program, "kinds") == command_line.parsers()["kinds"][program]


@pytest.mark.engine
def test_the_list_of_variables_is_the_engine_s_own() -> None:
    from support.parsers import engine_variable_kinds, engine_variables

    assert engine_variables(VENVS / "engine") == command_line.parsers()["engine_variables"]
    assert engine_variable_kinds(VENVS / "engine") == command_line.parsers()["engine_variable_kinds"]
