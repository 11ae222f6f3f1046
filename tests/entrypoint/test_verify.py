"""The checks' judgements on values, the receipt and the command line; the real pair is in tests/prove."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from dsv4_pd.cli.verify import command
from dsv4_pd.client.api import Call, Reply
from dsv4_pd.client.where import api_key
from dsv4_pd.run.ops.exposition import Sample
from dsv4_pd.verify import catalogue, prompts
from dsv4_pd.verify.base import AcceptanceCheck, Local, Outcome, Result, Subject, failed, passed, skipped
from dsv4_pd.verify.checks import (
    compiles,
    equals_single,
    gpu_memory,
    kv_capacity,
    kv_link,
    metrics,
    numa,
    persistence,
    programs,
    tool_call,
)
from dsv4_pd.verify.compare import broken, difference
from dsv4_pd.verify.run import receipt, run, verdict
from dsv4_pd.verify.sizing import context_length, words_for

PASS, FAIL, SKIP = Outcome.PASS, Outcome.FAIL, Outcome.SKIP


def test_a_failure_without_a_next_step_is_refused() -> None:
    with pytest.raises(ValueError, match="next step"):
        failed("it broke", "")


def test_catalogue_names_are_files_and_unique() -> None:
    files = {path.stem for path in Path(catalogue.__file__).parent.joinpath("checks").glob("*.py")} - {"__init__"}
    assert files == set(catalogue.NAMES) and len(catalogue.CHECKS) == len(files)


def test_compiles_are_counted_after_every_kind_of_request() -> None:
    assert catalogue.NAMES[-1] == "compiles"


class Counting:
    """An ops port as the check asks it."""

    def __init__(self, files: int, late: int) -> None:
        row = {"member": "decode", "system": "tilelang", "kernel": "mhc_post", "count": 2, "seconds": 31.0}
        self._files = files
        self._status = {
            "compiles": {
                "since_start": 2, "seconds": 31.0,
                "from_cache": [{"member": "decode", "system": "triton", "count": 40}],
                "kernels": [row | {"since_ready": late}],
            }
        }  # fmt: skip

    def samples(self) -> list[Sample]:
        return [Sample("dsv4_compiles", {"kind": "cubin"}, self._files)]

    def status(self) -> dict[str, Any]:
        return self._status


@pytest.mark.parametrize(
    ("files", "late", "wanted", "words"),
    [
        (0, 0, PASS, "2 since the start (31 s), 40 found compiled"),
        (0, 1, FAIL, "tilelang mhc_post"),
        (3, 0, FAIL, "3 cubin"),
    ],
)
def test_what_was_compiled_after_readiness_is_named(files: int, late: int, wanted: Outcome, words: str) -> None:
    result = compiles.check(Subject(None, Counting(files, late)))  # type: ignore[arg-type]
    assert result.verdict is wanted and words in result.evidence, result


@pytest.mark.parametrize(
    ("held", "expected", "context", "wanted"),
    [
        ({"prefill": 1000, "decode": 1000}, {"prefill": 1000, "decode": 1000}, 500, PASS),
        ({"prefill": 1000, "decode": 850}, {"prefill": 1000, "decode": 1000}, 500, FAIL),
        ({"prefill": 1000, "decode": 950}, {"prefill": 1000, "decode": 1000}, 500, PASS),
        ({"prefill": 1000, "decode": 400}, {}, 500, FAIL),
        ({"prefill": 1000, "decode": 1000}, {}, 500, SKIP),
    ],
)
def test_kv_capacity(held: dict[str, int], expected: dict[str, int], context: int, wanted: Outcome) -> None:
    assert kv_capacity.judge(held, expected, context).verdict is wanted


def card(uuid: str, used: float) -> dict[str, Any]:
    return {"uuid": uuid, "used_gb": used, "total_gb": 100.0}


@pytest.mark.parametrize(
    ("cards", "wanted", "said"),
    [
        ({"prefill": [card("a", 80), card("b", 81)], "decode": [card("c", 85)]}, PASS, "prefill: 80/100 GB, 81/100"),
        ({"prefill": [card("a", 80), card("b", 95)], "decode": [card("c", 85)]}, FAIL, "80%, 95%"),
        ({"prefill": [card("a", 80)], "decode": [card("c", 85)]}, FAIL, "should hold ['a', 'b']"),
    ],
)
def test_gpu_memory(cards: dict[str, list[dict[str, Any]]], wanted: Outcome, said: str) -> None:
    result = gpu_memory.judge(cards, {"prefill": ["a", "b"], "decode": ["c"]})
    assert result.verdict is wanted and said in result.evidence


def process(root: Path, pid: int, cpus: str, children: str = "") -> None:
    (root / f"proc/{pid}/task/{pid}").mkdir(parents=True)
    (root / f"proc/{pid}/status").write_text(f"Name:\tx\nCpus_allowed_list:\t{cpus}\n")
    (root / f"proc/{pid}/task/{pid}/children").write_text(children)


def test_numa_looks_at_every_process_of_the_tree(tmp_path: Path) -> None:
    process(tmp_path, 10, "0-31", "11 12")
    process(tmp_path, 11, "0-15")
    process(tmp_path, 12, "0-63")
    bound = {"prefill": frozenset(range(32))}
    result = numa.judge(tmp_path, bound, {"prefill": 10})
    assert result.verdict is FAIL and "pid 12" in result.evidence and "0-63 (64)" in result.evidence
    (tmp_path / "proc/12/status").write_text("Cpus_allowed_list:\t16-31\n")
    result = numa.judge(tmp_path, bound, {"prefill": 10})
    assert result.verdict is PASS and "3 processes" in result.evidence
    assert numa.judge(tmp_path, bound, {"prefill": 99}).verdict is FAIL, "no such process"


@pytest.mark.parametrize(("policy", "wanted"), [("unless-stopped", PASS), ("always", PASS), ("no", FAIL), ("", FAIL),
                                                ("on-failure", FAIL)])  # fmt: skip
def test_restart_policy(policy: str, wanted: Outcome) -> None:
    assert persistence.judge(persistence.Seen(policy, "docker.service", "enabled"), "box").verdict is wanted


@pytest.mark.parametrize(
    ("unit", "state", "wanted", "words"),
    [
        ("docker.service", "enabled", PASS, "docker.service enabled"),
        ("docker.service", "disabled", FAIL, "sudo systemctl enable docker.service"),  # docker.socket alone is no start
        ("docker.service", "masked", FAIL, "is masked"),
        ("docker.service", "not there", FAIL, "nothing starts box at boot"),
        ("docker.service", None, PASS, "no systemd here to ask"),
        ("podman-restart.service", "disabled", FAIL, "sudo systemctl enable podman-restart.service"),
        ("dsv4-pd.service", "enabled", PASS, "started by dsv4-pd.service"),
        ("dsv4-pd.service", "wanted by nothing", FAIL, "WantedBy=multi-user.target"),
    ],
)
def test_who_starts_the_container_at_boot(unit: str, state: str | None, wanted: Outcome, words: str) -> None:
    policy = "no" if unit == "dsv4-pd.service" else "unless-stopped"
    found = persistence.judge(persistence.Seen(policy, unit, state), "box")
    assert (found.verdict, words in f"{found.evidence} {found.next_step}") == (wanted, True), found


@pytest.mark.parametrize(
    ("created", "booted", "started", "words"),
    [
        ("2026-11-01T10:00:00Z", "2026-11-02T10:00:00Z", "2026-11-02T10:00:42.123456789Z", "came back 42 s after"),
        ("2026-11-01T10:00:00+01:00", "2026-11-01T09:30:00Z", "2026-11-01T09:30:05Z", "came back 5 s after"),
        ("2026-11-03T10:00:00Z", "2026-11-02T10:00:00Z", "2026-11-03T10:00:01Z", "none was seen"),
        ("2026-11-01T10:00:00Z", "2026-11-02T10:00:00Z", "never", "none was seen"),
    ],
)
def test_a_boot_that_was_seen_is_told_from_one_that_is_inferred(
    created: str, booted: str, started: str, words: str
) -> None:
    moments = map(persistence.moment, (created, started, booted))
    found = persistence.judge(persistence.Seen("always", "docker.service", "enabled", *moments), "box")
    assert found.verdict is PASS and words in found.evidence


@pytest.mark.parametrize(
    ("engine", "labels", "unit"),
    [
        ("docker", "{}", "docker.service"),
        ("podman", "null", "podman-restart.service"),
        ("podman", '{"PODMAN_SYSTEMD_UNIT": "dsv4-pd.service"}', "dsv4-pd.service"),
    ],
)
def test_the_engine_that_knows_the_container_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, labels: str, unit: str
) -> None:
    answer = f'[{{"HostConfig": {{"RestartPolicy": {{"Name": "always"}}}}, "Config": {{"Labels": {labels}}}}}]'
    for name in ("docker", "podman"):
        text = f"echo '{answer}'" if name == engine else "echo no such object >&2; exit 1"
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(persistence, "_state", lambda unit, own: "enabled")
    asked = SimpleNamespace(options=SimpleNamespace(container="box"), status={})
    found = persistence.check(asked)  # type: ignore[arg-type]
    assert found.verdict is PASS and found.details["unit"] == unit
    (tmp_path / engine).write_text("#!/bin/sh\necho no such object >&2; exit 1\n")
    assert persistence.check(asked).verdict is FAIL  # type: ignore[arg-type]


def link(transfers: float, moved: float, speed: float) -> list[Sample]:
    return [
        Sample("dsv4_kv_link_transfers_total", {}, transfers),
        Sample("dsv4_kv_link_bytes_total", {}, moved),
        Sample("sglang:kv_transfer_speed_gb_s_count", {"role": "prefill"}, transfers),
        Sample("sglang:kv_transfer_speed_gb_s_sum", {"role": "prefill"}, speed),
    ]


def test_link_speed_is_that_of_the_request_alone() -> None:
    """A thousand slow canaries before must not hide a fast transfer, nor a slow one behind fast ones."""
    fast = kv_link.judge(link(1000, 1e6, 1.0), link(1001, 5e8, 31.0), 8000, gpus=True)
    assert fast.verdict is PASS and fast.details["bytes_per_s"] == 30 * 2**30
    slow = kv_link.judge(link(1000, 1e6, 30000.0), link(1001, 5e8, 30000.3), 8000, gpus=True)
    assert slow.verdict is FAIL and "0.322 GB/s" in slow.evidence
    assert kv_link.judge(link(1000, 1e6, 1.0), link(1001, 5e8, 1.001), 8000, gpus=False).verdict is PASS
    assert kv_link.judge(link(5, 1e6, 1.0), link(5, 1e6, 1.0), 8, gpus=False).verdict is FAIL


def test_metrics_families_announced_twice_are_refused() -> None:
    own = "".join(f"# TYPE {name} gauge\n{name} 1\n" for name in metrics.OWN if name != "dsv4_scrape_up")
    up = '# TYPE dsv4_scrape_up gauge\ndsv4_scrape_up{role="decode"} 1\ndsv4_scrape_up{role="router"} 1\n'
    engine = '# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs{role="decode"} 0\n'
    assert metrics.judge(own + up + engine, {"decode", "router"}).verdict is PASS
    assert "announced twice" in metrics.judge(own + up + engine * 2, {"decode", "router"}).evidence
    assert "no metrics from prefill" in metrics.judge(own + up + engine, {"decode", "router", "prefill"}).evidence
    assert "missing" in metrics.judge(engine, {"decode"}).evidence
    young = '# TYPE sglang:num_requests_total counter\nsglang:num_requests_total{role="decode"} 1\n'
    assert metrics.judge(own + up + young, {"decode", "router"}).verdict is PASS, "gauges come after 40 steps"
    assert "no sglang: metrics with role decode" in metrics.judge(own + up, {"decode", "router"}).evidence


def calls(*cities: str, finish: str = "tool_calls", content: str = "") -> Reply:
    made = [Call("get_weather", json.dumps({"city": city})) for city in cities]
    return Reply(200, content=content, calls=made, finish_reason=finish)


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (calls("Paris"), None),
        (calls("Paris, France"), None),
        (calls(), "nothing"),
        (calls("Rome"), "expected calls for ['Paris']"),
        (calls("Paris", "Rome"), "expected calls for"),
        (calls("Paris", finish="stop"), "finish_reason"),
        (calls("Paris", content="<｜DSML｜tool_calls>"), "markup"),
        (Reply(200, calls=[Call("get_weather", '{"city": "Par')], finish_reason="tool_calls"), "invalid call"),
    ],
)
def test_tool_call_faults(reply: Reply, fault: str | None) -> None:
    found = tool_call.fault_in(reply, ["Paris"])
    assert (found is None) if fault is None else (found is not None and fault in found)


def test_a_cut_stream_is_a_failure_of_its_own() -> None:
    result = broken(Reply(200, content="half an ans", done=False), streamed=True)
    assert result and result.verdict is FAIL and "[DONE]" in result.evidence
    assert broken(Reply(200)) is None
    assert "503" in broken(Reply(503, error="no workers")).evidence  # type: ignore[union-attr]


def test_difference_names_the_part() -> None:
    assert difference(Reply(200, reasoning="a"), Reply(200, reasoning="b")).startswith("reasoning")  # type: ignore[union-attr]
    one, two = Reply(200, calls=[Call("f", '{"a": 1}')]), Reply(200, calls=[Call("f", '{"a":1}')])
    assert difference(one, two) is None, "the same arguments, spelled differently"


def test_equality_names_the_first_question_that_differs() -> None:
    same = equals_single.judge({"q": "a"}, {"q": "a"}, "recorded")
    assert same.verdict is PASS
    other = equals_single.judge({"q": "a", "r": "x"}, {"q": "a", "r": "y"}, "recorded")
    assert other.verdict is FAIL and "'r'" in other.evidence


class Telling:
    """An appliance of which only the status document and one answer are asked."""

    def __init__(self, **document: Any) -> None:
        self.document = {"state": "READY", "roles": {}, **document}

    def status(self) -> dict[str, Any]:
        return self.document

    def chat(self, *_: object, **__: object) -> Reply:
        return Reply(200, content="Rome.")


def subject(state: Path, **document: Any) -> Subject:
    told: Any = Telling(**document)
    return Subject(told, told, local=Local(Path("/"), state, state))


def test_the_longest_request_is_the_published_one_before_the_schedulers_figure(tmp_path: Path) -> None:
    """The scheduler is given a page more than is let in, so that exactly the setting is usable."""
    metrics = [Sample("sglang:context_len", {"member": name}, 4352.0) for name in ("prefill", "decode")]
    for told, limit in ((4096, 4096), (None, 4352)):
        ops: Any = Telling(context_length=told)
        ops.samples = lambda: metrics
        assert context_length(ops) == limit


@pytest.mark.parametrize("mode", ["single", "replicas"])
def test_whole_servers_have_no_link_and_are_the_reference_of_a_pair(tmp_path: Path, mode: str) -> None:
    whole = subject(tmp_path, mode=mode)
    assert equals_single.check(whole).verdict is SKIP and kv_link.check(whole).verdict is SKIP
    pair = equals_single.check(subject(tmp_path, mode="pd"))
    assert pair.verdict is PASS and "whole servers" in pair.evidence


@pytest.mark.parametrize(
    ("path", "verdict"),
    [
        ({"failures": 0, "proved_s_ago": 3.0}, PASS),
        ({"failures": 1, "proved_s_ago": 3.0}, FAIL),
        ({"failures": 0, "proved_s_ago": None}, FAIL),
    ],
)
def test_each_of_several_routes_has_to_be_proved(tmp_path: Path, path: dict[str, Any], verdict: Outcome) -> None:
    ready = {"ready": True, "restarts": 0}
    routes = [{"members": ["single-1"], "failures": 0, "proved_s_ago": 1.0}, {"members": ["single-2"], **path}]
    result = programs.check(subject(tmp_path, roles={"single-1": ready, "single-2": ready}, paths=routes))
    assert result.verdict is verdict
    assert verdict is PASS or "single-2" in result.evidence


def test_needle_stands_at_its_depth() -> None:
    text = prompts.needle(100, 0.25, "4711", 1)
    words = text.split()
    assert abs(words.index("4711.") - 25) < 8 and text.endswith("What is the code?")


def test_prompt_sizes_come_from_the_servers_own_count() -> None:
    class Counting:
        def chat(self, text: str, **_: Any) -> Reply:
            return Reply(200, usage={"prompt_tokens": 12 + round(1.3 * len(text.split()))})

    assert abs(words_for(Counting(), 4000, 0) - (4000 - 12) / 1.3) < 5  # type: ignore[arg-type]


def giving(result: Result) -> Callable[[Any], Result]:
    return lambda _: result


def answers(*results: Result) -> tuple[Any, ...]:
    checks = [AcceptanceCheck(f"c{i}", "", giving(result)) for i, result in enumerate(results)]
    return run(checks, None, lambda _: None)  # type: ignore[arg-type]


def test_verdict_over_all_launches() -> None:
    good, bad, none = answers(passed("")), answers(failed("", "x")), answers(skipped("x"))
    assert verdict([good, good]) is PASS
    assert verdict([good, bad]) is FAIL, "the second launch counts like the first"
    assert verdict([none]) is SKIP


def test_a_check_that_raises_has_failed() -> None:
    def explode(_: Subject) -> Result:
        raise KeyError("roles")

    answer = run([AcceptanceCheck("x", "", explode)], None, lambda _: None)[0]  # type: ignore[arg-type]
    assert answer.result.verdict is FAIL and "KeyError" in answer.result.evidence and answer.result.next_step


def test_receipt_says_on_what() -> None:
    status = {"mode": "pd", "profile": "p", "model": "m", "about": {"versions": {"sglang": "1"}, "settings_hash": "h"}}
    paper = receipt([answers(passed("seen", number=1))], status, "http://x", 0.0)
    assert (
        paper["verdict"] == "pass" and paper["appliance"]["settings_hash"] == "h" and paper["appliance"]["model"] == "m"
    )
    check = paper["launches"][0][0]
    assert check["evidence"] == "seen" and check["details"] == {"number": 1} and "next_step" not in check
    json.dumps(paper)


def test_more_launches_need_a_way_to_restart() -> None:
    done = CliRunner().invoke(command, ["--launches", "3", "--url", "http://127.0.0.1:9"])
    assert done.exit_code == 2 and "--restart" in done.output


def test_key_from_where_serve_takes_it(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-file\n")
    assert api_key({"DSV4_API_KEY": "x"}, tmp_path / "key") == "from-file"
    assert api_key({"DSV4_API_KEY_FILE": str(tmp_path / "key")}) == "from-file"
    assert api_key({"DSV4_API_KEY": "x"}) == "x"
    assert api_key({}) is None


def test_list_needs_no_appliance() -> None:
    done = CliRunner().invoke(command, ["--list"])
    assert done.exit_code == 0 and len(done.output.splitlines()) == len(catalogue.CHECKS)


def test_the_page_lists_every_check() -> None:
    text = Path(__file__).resolve().parents[2].joinpath("docs/verify.md").read_text()
    assert [name for name in catalogue.NAMES if f"| `{name}` |" not in text] == []
