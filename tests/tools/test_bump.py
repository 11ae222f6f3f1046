"""The bump check against small engines that lack, change or keep what ours needs, and against the pinned one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from bump import __main__ as program
from bump import checks, lines, needs, parsers, report
from bump.checks import Difference, Fit
from bump.source import Sources, digest
from conftest import VENVS
from dsv4_hooks.engine import ENGINE_VERSION
from dsv4_hooks.table import Hook

Make = Callable[..., Sources]


@pytest.fixture
def engine(tmp_path: Path) -> Make:
    """An engine made of the given files, each below sglang/; the name of a folder above it plays no part."""
    root = tmp_path / "test"

    def make(**files: str) -> Sources:
        for name, text in {"__init__": "", **files}.items():
            path = root / "sglang" / f"{name.replace('__', '/') if name != '__init__' else name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Sources(root)

    return make


def verdicts(findings: Iterable[Difference]) -> dict[str, Fit]:
    return {finding.subject: finding.verdict for finding in findings}


def never(_: object) -> Callable[..., None]:
    raise AssertionError("the check is static: no hook is loaded")


HOOK = Hook("x", "sglang.a.Server.handle", ("self", "request"), never)


@pytest.mark.parametrize(
    ("text", "verdict", "note"),
    [
        ("class Server:\n    def handle(self, request): ...", Fit.FITS, ""),
        ("class Base:\n    async def handle(self, request): ...\nclass Server(Base): ...", Fit.FITS, ""),
        ("try:\n    from .b import Server\nexcept ImportError:\n    Server = None", Fit.FITS, ""),
        ("from sglang.b import *", Fit.FITS, ""),
        ("class Server:\n    def handle(self, request, raw): ...", Fit.GONE, "takes self, request, raw; expected"),
        ("class Server:\n    def serve(self, request): ...", Fit.GONE, "no such function"),
        ("class Server:\n    handle = None", Fit.GONE, "no such function"),
        ("", Fit.GONE, "no such function"),
    ],
)
def test_hooks(engine: Make, text: str, verdict: Fit, note: str) -> None:
    made = engine(a=text, b="class Server:\n    def handle(self, request): ...")
    (found,) = checks.hooks([HOOK], made)
    assert found.verdict is verdict
    assert note in found.note


def test_imports_and_what_another_package_brings(engine: Make) -> None:
    made = engine(a="from fastapi import HTTPException\nimport os\nLIMIT: int = 3")
    wanted = {"sglang.a.HTTPException": "x.py", "sglang.a.LIMIT": "x.py", "sglang.a.Gone": "y.py", "sglang.c": "z.py"}
    found = list(checks.imports(wanted, made))
    gone = {finding.subject: finding.note for finding in found if finding.verdict is Fit.GONE}
    assert gone == {"sglang.a.Gone": "needed by y.py", "sglang.c": "needed by z.py"}


def test_fields(engine: Make) -> None:
    made = engine(io="class Request:\n    text: str = ''\n    rid = None")
    found = verdicts(checks.fields("sglang.io.Request", ("text", "rid"), made))
    assert found == {"sglang.io.Request.text": Fit.FITS, "sglang.io.Request.rid": Fit.GONE}


def test_flags_of_the_engine(engine: Make) -> None:
    made = engine(
        srt__server_args="""
parser.add_argument("--config", help="see --not-a-flag")
parser.add_argument("--disable-cuda-graph", action=DeprecatedStoreTrueAction, help="x")
""",
        srt__arg_groups__fields__serving="""
class Serving:
    host: A[str, "help"] = ""
    tp_size: A[int, Arg(help="x", aliases=["--tensor-parallel-size"])] = 1
    hidden: A[int, Arg(no_cli=True)] = 1
""",
    )
    declared, deprecated = parsers.engine_flags(made.root)
    assert {"--config", "--host", "--tp-size", "--tensor-parallel-size"} <= declared
    assert not {"--not-a-flag", "--hidden"} & declared
    wanted = ("--host", "--tp", "--gone", "--disable-cuda-graph")
    found = verdicts(checks.flags("flags", wanted, declared, deprecated))
    assert found == {
        "--host": Fit.FITS,
        "--tp": Fit.FITS,
        "--gone": Fit.GONE,
        "--disable-cuda-graph": Fit.CHANGED,
    }


def test_values_of_flags(engine: Make) -> None:
    made = engine(choices="BACKENDS = ['mooncake', 'nixl']")
    found = verdicts(checks.choices({"--backend": {"nixl", "fake"}}, made))
    assert found == {"--backend nixl": Fit.FITS, "--backend fake": Fit.GONE}


LOGS = """
log.info(f"Load weight end. elapsed={s:.2f} s, type={t}")
log.error("Disaggregation warmup failed "
          f"(mode={mode}): {error}")
log.error("%s watchdog timeout (self.watchdog_timeout=%d, self.soft=%s)", n, t, soft)
log.warning("Some {} timed out when bootstrapping")
raise RuntimeError("KV layout mismatch")
"""


@pytest.mark.parametrize(
    ("entry", "gone"),
    [
        ({"text": "Load weight end."}, []),
        ({"text": "Load weight start."}, ["Load weight start."]),
        ({"text": "Disaggregation warmup failed (mode="}, []),
        ({"text": "Some requests timed out when bootstrapping"}, []),
        ({"regex": r"\w+ watchdog timeout \(self\.watchdog_timeout=[^,]+, self\.soft=False\)"}, []),
        ({"regex": "(?:RuntimeError: )?(?:Page size|KV layout) mismatch"}, ["Page size mismatch"]),
    ],
)
def test_log_lines(engine: Make, entry: dict[str, str], gone: list[str]) -> None:
    made = engine(logs=LOGS)
    found = verdicts(checks.log_lines([entry], {}, made))
    assert [subject for subject, verdict in found.items() if verdict is Fit.GONE] == gone


def test_a_line_that_others_write_is_not_looked_for(engine: Make) -> None:
    (found,) = checks.log_lines([{"text": "CUDA error: x"}], {"CUDA error: ": "torch"}, engine())
    assert (found.verdict, found.note) == (Fit.OUTSIDE, "torch")


def test_messages_that_are_reworded(engine: Make) -> None:
    made = engine(
        m="raise KVTransferError('Handshake Failed for request')",
        srt__disaggregation__utils="class KVTransferError(Exception): ...",
    )
    patterns = [
        re.compile(r"KVTransferError.*timed out after"),
        re.compile(r"(?:bootstrap|handshake) failed for request", re.IGNORECASE),
    ]
    found = verdicts(checks.messages(patterns, made))
    assert found == {
        "KVTransferError … timed out after": Fit.GONE,
        "bootstrap failed for request": Fit.GONE,
        "handshake failed for request": Fit.FITS,
    }


def test_metrics_with_what_the_client_library_appends(engine: Make) -> None:
    made = engine(m="Counter(name='sglang:tokens')\nHistogram(name='sglang:seconds')\nCounter('sglang:named_total')")
    names = ("sglang:tokens_total", "sglang:seconds_bucket", "sglang:named_total", "sglang:gone_total")
    found = verdicts(checks.metrics(names, made))
    assert [name for name, verdict in found.items() if verdict is Fit.GONE] == ["sglang:gone_total"]


def test_variables(engine: Make) -> None:
    made = engine(srt__environ="class Envs:\n    SGLANG_A = EnvBool(False)", n="os.getenv('SGLANG_B')")
    found = verdicts(checks.variables(("SGLANG_A", "SGLANG_B", "SGLANG_C"), made))
    assert [name for name, verdict in found.items() if verdict is Fit.GONE] == ["SGLANG_C"]


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("def sums(a):\n    return a * 2", Fit.FITS),
        ("def sums(a):\n    'now with words'\n    return (a*2)  # as before", Fit.FITS),
        ("def sums(a):\n    return a * 3", Fit.CHANGED),
        ("def other(a): ...", Fit.GONE),
    ],
)
def test_code_that_ours_repeats(engine: Make, tmp_path: Path, text: str, verdict: Fit) -> None:
    made = engine(m=text)
    pinned = Sources(tmp_path / "pinned")
    (tmp_path / "pinned/sglang").mkdir(parents=True)
    (tmp_path / "pinned/sglang/m.py").write_text("def sums(a):\n    return a * 2")
    node = pinned.find("sglang.m.sums")
    assert node
    (found,) = checks.watched([{"name": "sglang.m.sums", "why": "x"}], {"sglang.m.sums": digest(node)}, made)
    assert found.verdict is verdict


def test_the_page_lists_what_breaks_first() -> None:
    findings = [Difference("hooks", "a", Fit.FITS), Difference("hooks", "b", Fit.GONE, "no such function")]
    page = report.render("0.0.2", "0.0.1", [*findings, Difference("metrics", "c", Fit.CHANGED)])
    assert "| hooks | 2 | 1 | 0 | 0 |" in page
    assert page.index("- hooks: `b`: no such function") < page.index("- metrics: `c`")
    assert "`a`" not in page


def test_what_is_needed_is_gathered_from_plans_and_data() -> None:
    planned = needs.plans()
    flags = needs.server_flags(planned)
    assert {"prefill", "decode"} <= flags["--disaggregation-mode"]
    assert {"EAGLE", "DSPARK"} == flags["--speculative-algorithm"]
    assert {"--numa-node", "--cuda-graph-max-bs-decode", "--model-path", "--max-total-tokens"} <= set(flags)
    assert "--disable-retries" in needs.router_flags(planned, "smg") & needs.router_flags(planned, "sglang-router")
    assert {"SGLANG_HOST_IP", "SGLANG_PLUGINS"} <= needs.variables(planned)
    assert {"sglang:realtime_tokens_total", "sglang:time_to_first_token_seconds_bucket"} <= needs.metrics()
    assert "sglang.srt.runtime_context.get_disagg" in needs.engine_paths()
    assert needs.refused_by_engine() > {"--port"} and needs.refused_by_router("smg") > {"--port"}
    assert program.reworded() and needs.signatures()


def test_the_pinned_digests_are_of_the_pinned_engine() -> None:
    assert f'"sglang": "{ENGINE_VERSION}"' in program.PINNED.read_text()
    assert set(needs.pinned()) == {entry["name"] for entry in program.watched()}


def test_every_line_that_others_write_is_a_signature() -> None:
    alternatives = [
        pieces
        for entry in needs.signatures()
        for pieces in (lines.pieces_of_regex(entry["regex"]) if "regex" in entry else [(entry["text"],)])
    ]
    subjects = [" … ".join(pieces) for pieces in alternatives]
    for start in program.OUTSIDE:
        assert any(subject.startswith(start) for subject in subjects), f"{start!r} is no signature any more"
    for start in program.QUOTED:
        assert any(piece.startswith(start) for pieces in alternatives for piece in pieces[1:]), start


@pytest.mark.parametrize("given", ["no-such-folder", "empty"])
def test_an_engine_that_is_none_is_one_line(tmp_path: Path, given: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises((SystemExit, FileNotFoundError)) as ended:
        program.version_of(program.folder_of(tmp_path / given), "sglang")
    assert isinstance(ended.value, SystemExit) and "ENGINE: " in str(ended.value)


@pytest.mark.engine
@pytest.mark.timeout(300)
def test_the_pinned_engine_fits() -> None:
    """All of its sources are read: about forty seconds."""
    engine = Sources(program.folder_of(VENVS / "engine/bin/python"))
    found = list(program.of_engine(engine))
    assert [finding for finding in found if finding.verdict in (Fit.GONE, Fit.CHANGED)] == []
    areas = Counter(finding.area for finding in found)
    assert {area: count for area, count in areas.items() if count < 4} == {}, "a need that is no longer gathered"
    assert len(areas) == 11
    routers = list(program.of_routers(VENVS / "router/bin/python", VENVS / "smg/bin/python"))
    assert [finding for finding in routers if finding.verdict is not Fit.FITS] == []
    areas.update(finding.area for finding in routers)
    for page in (needs.ROOT / "docs/engine-bumps").glob("*.md"):
        rows = re.findall(r"^\| ([^|]+) \| \d", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert rows == list(areas), f"{page.name} was written before an area was added: see docs/bump-engine.md"
