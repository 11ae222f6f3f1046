"""owned_flags: what the plan sets is owned, under every name that the programs' own parsers take for it."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import VENVS
from dsv4_pd.plan.disk.paths import profiles_dir
from dsv4_pd.plan.flags.argument_parsers import refusal
from dsv4_pd.plan.programs import owned_flags as owned
from dsv4_pd.plan.shipped import profiles

KNOWN = profiles.read_all(profiles_dir())
ENGINE, ROUTER = owned.engine_owned(KNOWN), owned.router_owned()
LIST = Path(__file__).parent / "engine" / "list_flags.py"


def problems(name: str, text: str) -> list[str]:
    return [problem.subject for problem in owned.problems({name: text}, KNOWN)]


@pytest.mark.parametrize(
    "flag",
    ["--log-level error", "--log-level-http info", "--enable-cache-report", "--cuda-graph-max-bs-decode=8",
     "--log-le x", "--dtype half", "--speculative-num-steps 9", "--tensor-par 2",
     "--model x", "--h", "-h", "--served_model_name x"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["DSV4_PREFILL_EXTRA_ARGS", "DSV4_DECODE_EXTRA_ARGS", "dsv4_decode_extra_args"])
def test_what_the_plan_sets_on_a_server_is_refused(name: str, flag: str) -> None:
    assert problems(name, f"--log-requests {flag}") == [name.upper()]


@pytest.mark.parametrize(
    "flag",
    ["--worker-startup-timeout-secs 5", "--health-check-interval-secs=9", "--log-level debug", "--worker-startup-c 3",
     "--disable-health-check", "--host ::"],
)  # fmt: skip
def test_what_the_plan_sets_on_the_router_is_refused(flag: str) -> None:
    assert problems("DSV4_ROUTER_EXTRA_ARGS", flag) == ["DSV4_ROUTER_EXTRA_ARGS"]


@pytest.mark.parametrize(
    "name,text",
    [
        ("DSV4_DECODE_EXTRA_ARGS", "--max-total-tokens 8192 --log-requests --radix-eviction-policy lru"),
        ("DSV4_ROUTER_EXTRA_ARGS", "--policy cache_aware --log-dir /x"),
        ("DSV4_PREFILL_EXTRA_ARGS", "'open quote"),  # reported by the settings
        ("DSV4_PREFILL_EXTRA_ARGS", ""),
    ],
)
def test_the_rest_passes(name: str, text: str) -> None:
    assert problems(name, text) == []


# program -> (words, whether its parser ends on them)
WORDS = {
    "engine": [
        ("foo", True), ("--", True), ("-x", True), ("-tp 4", True), ("--no-such-flag 1", True),
        ("--stream-interval x", True), ("--stream-interval", True), ("--stream-interval 2 3", True),
        ("--stream-interval=2", False), ("--stream-interval -5", False), ("--stream-inter 2", False),
        ("--log_requests", True), ("--log-requests=1", True), ("--log-requests 1", True), ("--log-requests", False),
        ("--log-requests-level 3", False), ("--log-requests-level 9", True), ("--log-requests-l two", True),
        ("--schedule-policy lpm", False), ("--schedule-policy nonsense", True),
        ("--schedule-conservativeness 0.x", True), ("--schedule-conservativeness 1e-1", False),
        ("--lora-paths a b", False), ("--lora-paths a -- b", True),
        ("--preferred-sampling-params {x", True), ("--watchdog-timeout ''", True), ("--stream", True),
    ],
    "sglang-router": [
        ("foo", True), ("--no-such-flag 1", True), ("--policy nonsense", True), ("--policy cache_aware", False),
        ("--cache-threshold x", True), ("--cache-threshold 0.5 --log-dir /x", False), ("--dp-aware=1", True),
    ],
    "smg": [
        ("foo", True), ("--no-such-flag 1", True), ("--policy nonsense", True), ("--policy cache_aware", False),
        ("--cache-threshold x", True), ("--log-dir /x", False), ("--tokenizer-cache-l0-max-entries -1", False),
    ],
}  # fmt: skip
CASES = [(program, text, ends) for program, cases in WORDS.items() for text, ends in cases]


@pytest.mark.parametrize(("program", "text", "ends"), CASES)
def test_words_that_a_program_would_end_on_make_no_plan(program: str, text: str, ends: bool) -> None:
    name = "DSV4_DECODE_EXTRA_ARGS" if program == "engine" else "DSV4_ROUTER_EXTRA_ARGS"
    router = "smg" if program == "engine" else program
    found = owned.problems({name: text, "dsv4_router": f'"{router.upper()}"'}, KNOWN)
    assert bool(found) is ends, found
    assert all(problem.subject == name and repr(text) == problem.found for problem in found)


@pytest.mark.engine
@pytest.mark.parametrize(
    ("program", "venv", "module"), [("engine", "engine", "engine"), ("sglang-router", "router", "sglang_router"),
                                    ("smg", "smg", "smg")],
)  # fmt: skip
def test_the_program_s_own_parser_ends_on_the_same_words(program: str, venv: str, module: str) -> None:
    python = VENVS / venv / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{python} does not exist: run `make engine`")
    words = json.dumps([shlex.split(text) for text, _ in WORDS[program]])
    done = subprocess.run([str(python), str(LIST), module, words], capture_output=True, text=True, timeout=300,
                          check=False)  # fmt: skip
    ends = json.loads(done.stdout.strip().splitlines()[-1])
    assert dict(zip([text for text, _ in WORDS[program]], ends, strict=True)) == dict(WORDS[program])


def test_a_refused_word_is_named_and_a_secret_is_not() -> None:
    (problem,) = owned.problems({"DSV4_PREFILL_EXTRA_ARGS": "--admin-api-key hunter22 --stream-intervall 3"}, KNOWN)
    assert "did you mean --stream-interval?" in problem.expected and "hunter22" not in str(problem)
    assert refusal(["--admin-api-key", "hunter22", "beside"], "engine") == "'beside' belongs to no flag"


def test_each_owner_says_which_setting_does_it() -> None:
    assert ENGINE["--context-length"] == "DSV4_CONTEXT_LENGTH" and ENGINE["--host"] == "loopback by design"
    assert ENGINE["--tensor-parallel-size"] == ENGINE["--tp-size"] == "DSV4_PREFILL_GPUS and DSV4_DECODE_GPUS"
    assert ROUTER["--host"] == "loopback by design" and "--policy" not in ROUTER
    assert (ROUTER["--port"], ROUTER["--queue-size"]) == ("DSV4_ROUTER_PORT", "DSV4_QUEUE_SIZE")


def test_no_table_names_a_flag_that_the_plan_no_longer_sets() -> None:
    engine, router = owned.engine_flags(KNOWN), owned.router_flags()
    assert {*owned.ENGINE_FREE, *owned.ENGINE_SYNONYMS.values(), *owned._ENGINE_SETTINGS} <= engine
    assert {*owned.ROUTER_FREE, *owned.ROUTER_SYNONYMS.values(), *owned._ROUTER_SETTINGS} <= router
    assert not engine & owned.ENGINE_ALSO.keys() and not router & owned.ROUTER_ALSO.keys()


# What only one router has, the other need not know, so each is asked for its own.
PARSERS = [
    ("engine", "engine", ENGINE),
    ("router", "sglang_router", owned.router_owned(["sglang-router"])),
    ("smg", "smg", owned.router_owned(["smg"])),
]


def options(venv: str, name: str) -> dict[str, str]:
    """Option -> destination, as the program's own parser has them."""
    python = VENVS / venv / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{python} does not exist: run `make engine`")
    done = subprocess.run([str(python), str(LIST), name], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


@pytest.mark.engine
@pytest.mark.parametrize(("venv", "name", "table"), PARSERS, ids=lambda value: value if isinstance(value, str) else "")
def test_every_spelling_that_the_parser_takes_is_owned(venv: str, name: str, table: Mapping[str, str]) -> None:
    found = options(venv, name)
    dests = {found[flag] for flag in table if flag in found}
    mine = {option for option, dest in found.items() if dest in dests}
    assert mine <= table.keys(), "synonyms that are not owned"
    assert table.keys() <= found.keys(), "owned flags that the parser does not have"
    for option in mine:  # argparse takes each start that no other option shares
        for end in range(3, len(option) + 1):
            start = option[:end]
            sharing = {found[other] for other in found if other.startswith(start)}
            if start in mine or (start not in found and sharing <= dests):
                assert owned.taken(start, table), f"{start} sets {option}"


@pytest.mark.engine
@pytest.mark.parametrize(("venv", "name", "table"), PARSERS, ids=lambda value: value if isinstance(value, str) else "")
def test_every_other_option_stays_free(venv: str, name: str, table: Mapping[str, str]) -> None:
    free = {option for option in options(venv, name) if option not in table}
    assert len(free) > 50
    assert {option for option in free if owned.taken(option, table)} == set()
