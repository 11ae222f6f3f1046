"""What the Markdown pages name is there: files, links, make targets, commands with their options, settings, routes."""

from __future__ import annotations

import fnmatch
import functools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from dsv4_pd import errors
from dsv4_pd.cli import app
from dsv4_pd.settings.schema import COMPOSE_RENAMED, FOREIGN, SECRETS, Settings, env_name
from generators import decisions

ROOT = Path(__file__).resolve().parents[2]
# Named, and rightly not in the repository: the name, as a pattern -> why
ELSEWHERE = {
    "health.json": "the guard writes it, in the run folder",
    "exit.json": "the guard writes it, in the run folder",
    "link.json": "the link test writes it, in the run folder",
    "run/plugins/*.json": "each process of the engine writes one, in the run folder",
    "starts.json": "the guard writes it, in the state folder",
    "state/tuned/*": "`dsv4-pd tune` writes them, in the state folder",
    "tests/chaos/records/": "`make chaos` makes it at its first recorded slice",
    "docs/releases/*": "`make release` makes it at the first release",
    ".github/CODEOWNERS": "docs/releasing.md says why there is none, and how to make one",
    "provenance*.json": "`make bundle` writes them, into dist/",
    "sbom.cdx.json": "the image build writes it, and `make bundle` takes it out into dist/",
    "compose.override.yaml": "an operator's file, which Compose reads by itself",
    "openapi.json": "a route of the API; tests/api/openai holds an excerpt of OpenAI's",
    "disaggregation/common/conn.py": "the engine's, below sglang/srt",
    "entrypoints/openai/chat_encoding.py": "the engine's, below sglang/srt",
    "layers/quantization/modelopt_quant.py": "the engine's, below sglang/srt",
    "hybrid_pool_assembler.py": "the engine's, below sglang/srt",
    "sglang/*": "the engine's: tests/entrypoint/test_signature_sources.py looks for the words in them",
    "hardware/*.md": "a page of the project that the note names as its source",
    "launchers/glm52-pcie-calibration.py": "a file of the project that the note names as its source",
}
CLIENTS_OWN = {"DSV4_KEY"}  # on a client's machine, by docs/clients.md
ENDINGS = (".py", ".md", ".toml", ".lock", ".in", ".sh", ".yml", ".yaml", ".mk", ".mjs", ".css", ".html", ".awk",
           ".json", ".jsonl", ".txt")  # fmt: skip
PLACEHOLDER = re.compile(r"(?<![a-z])(?:NAME|NNNN-TITLE|X\.Y\.Z|VERSION|ROLE|ROOM|HASH|PID)(?![a-z])")
# Where `python -m` is run from, or what PYTHONPATH holds, in the commands of the pages.
IMPORTED_FROM = ("", "tests/", "tools/", "docs/", "kernels/", "hooks/", "gate/", "demo/", "entrypoint/")
# Roots of a Linux machine: what begins there is no route.
SYSTEM = ("bin", "dev", "etc", "home", "lib", "mnt", "models", "opt", "proc", "root", "run", "srv", "sys", "tmp",
          "usr", "var", "boot", "data")  # fmt: skip


@functools.cache
def tracked() -> frozenset[str]:
    """Files and their folders, from the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    files = {name for name in listed if (ROOT / name).is_file()}
    return frozenset(files | {str(folder) for name in files for folder in Path(name).parents} - {"."})


PAGES = sorted(name for name in tracked() if name.endswith(".md"))


@functools.cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(text: str) -> list[str]:
    """Fenced code: one string a block.

    >>> blocks("a `b`\\n   ```sh\\n   make c\\n   ```\\n")
    ['   make c\\n']
    """
    return re.findall(r"^[ ]*```[^\n]*\n(.*?)^[ ]*```", text, re.MULTILINE | re.DOTALL)


def spans(text: str) -> list[str]:
    """Code between backticks, in the text outside of fences."""
    return re.findall(r"`([^`]+)`", re.sub(r"^[ ]*```.*?^[ ]*```", "", text, flags=re.MULTILINE | re.DOTALL))


def code(text: str) -> Iterator[str]:
    """Everything that is typed: spans on one line, and the lines of blocks with their continuations joined.

    What stands behind `#` or two spaces says what a line does.
    """
    yield from (" ".join(span.split()) for span in spans(text))
    for block in blocks(text):
        yield from (re.split(" #|  ", line.strip())[0] for line in re.sub(r"\\\n\s*", "", block).splitlines())


# --- files ------------------------------------------------------------------------------------------------------


def paths(span: str) -> Iterator[str]:
    """Words that name a file or folder of the repository: by their ending, or by the folder that they begin in.

    >>> list(paths("docs/adr/NNNN-TITLE.md")), list(paths("guard/test_x.py::test_y")), list(paths("a/b /etc/x.json"))
    (['docs/adr/NNNN-TITLE.md'], ['guard/test_x.py'], [])
    """
    tops = {name.partition("/")[0] for name in tracked()}
    for word in re.findall(r"(?<![\w/~$.{<@:=*-])\.?[\w*][\w.*-]*(?:/[\w.*-]+)*/?(?![\w/])", span):
        name = word.rstrip(".")
        if (name.endswith(ENDINGS) and name not in ENDINGS) or ("/" in name and name.partition("/")[0] in tops):
            yield name


def is_there(name: str) -> bool:
    """As the path from the root, or as its end: pages say `guard/policy.py` where the wing is clear."""
    pattern = PLACEHOLDER.sub("*", name).rstrip("/")
    return any(fnmatch.fnmatchcase(f"/{path}", f"*/{pattern}") for path in tracked())


def elsewhere(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in ELSEWHERE)


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_is_there(page: str) -> None:
    named = {name for span in spans(text_of(page)) for name in paths(span)}
    assert sorted(name for name in named if not is_there(name) and not elsewhere(name)) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    """`guard/test_x.py::test_y`: below tests/, whoever renames a test renames it there too."""
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", text_of(page))
    assert [
        f"{file}::{test}" for file, test in named if f"def {test}(" not in (ROOT / "tests" / file).read_text()
    ] == []


def test_every_name_that_is_elsewhere_is_still_named() -> None:
    named = {name for page in PAGES for span in spans(text_of(page)) for name in paths(span)}
    missing = {name for name in named if not is_there(name)}
    assert [one for one in ELSEWHERE if not fnmatch.filter(missing, one)] == []


def anchors(text: str) -> set[str]:
    """The names that a page's headings get."""
    plain = re.sub(r"^[ ]*```.*?^[ ]*```", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", plain, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_page_and_a_heading(page: str) -> None:
    broken = []
    for target, anchor in re.findall(r"\]\((?![a-z]+:)([^)#\s]*)#?([^)\s]*)\)", text_of(page)):
        path = (ROOT / page).parent / target if target else ROOT / page
        if not path.exists() or (anchor and anchor not in anchors(path.read_text(encoding="utf-8"))):
            broken.append(f"{target}#{anchor}" if anchor else target)
    assert broken == []


# --- commands ---------------------------------------------------------------------------------------------------


@functools.cache
def targets() -> frozenset[str]:
    rules = "".join(
        (ROOT / path).read_text(encoding="utf-8") for path in tracked() if path.endswith((".mk", "Makefile"))
    )
    return frozenset(re.findall(r"^([a-z][a-z-]*)\s*:(?!=)", rules, re.MULTILINE))


def made(line: str) -> list[str]:
    """The targets of a `make` command.

    >>> made('make image push IMAGE=x'), made('make bundle ARGS="a b" && y'), made("cmake x"), made("sudo make check")
    (['image', 'push'], ['bundle'], [], ['check'])
    """
    calls = re.findall(r"(?:^|&& |; |sudo )make((?: +[^\s;&|]+)+)", re.sub(r"\"[^\"]*\"", "", line))
    return [word for call in calls for word in call.split() if re.fullmatch(r"[a-z][a-z-]+", word)]


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_is_there(page: str) -> None:
    named = {target for line in code(text_of(page)) for target in made(line)}
    assert sorted(named - targets()) == []


def commands(line: str) -> Iterator[tuple[list[str], list[str]]]:
    """(words, options) of each `dsv4-pd` in it, also of a `docker compose run dsv4-pd …`.

    >>> list(commands("docker compose exec dsv4-pd dsv4-pd verify --only auth | tee x"))
    [(['verify', 'auth'], ['--only'])]
    """
    for call in re.findall(r"(?<![\w/:.=-])dsv4-pd((?: +[^\s|;&]+)+)", line):
        words = call.split()
        while words and words[0] == "dsv4-pd":
            words = words[1:]
        options = [word.partition("=")[0] for word in words if re.fullmatch(r"--?[a-z][a-z-]*(?:=.*)?", word)]
        yield [word for word in words if not word.startswith("-")], options


def wrong(words: list[str], options: list[str]) -> str:
    """What the command line would not know; nothing where it would."""
    if not words or not re.fullmatch(r"[a-z][a-z-]*", words[0]) or words[0] in ("sh", "bash", "down", "up"):
        return ""
    command = app.app.get_command(click.Context(app.app), words[0])
    if command is None:
        return words[0]
    if isinstance(command, click.Group):
        below = next((word for word in words[1:] if word in command.commands), None)
        if below is None and len(words) > 1 and re.fullmatch(r"[a-z-]+", words[1]):
            return f"{words[0]} {words[1]}"
        command = command.commands[below] if below else command
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"--help", "-h"}
    return " ".join(option for option in options if option not in known)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_option_is_there(page: str) -> None:
    found = [(line, wrong(*call)) for line in code(text_of(page)) for call in commands(line)]
    assert [(line, what) for line, what in found if what] == []


@pytest.mark.parametrize("form", sorted(name for name in tracked() if name.startswith(".github/ISSUE_TEMPLATE/")))
def test_a_form_asks_for_commands_that_are_there(form: str) -> None:
    assert [what for span in spans(text_of(form)) for call in commands(span) if (what := wrong(*call))] == []


def test_the_development_container_has_what_ci_installs_and_runs_what_is_there() -> None:
    container = json.loads(text_of(".devcontainer/devcontainer.json"))
    assert made(container["postCreateCommand"]) and set(made(container["postCreateCommand"])) <= targets()
    named = f".devcontainer/{container['build']['dockerfile']}"
    packages = [
        set(re.search(r"--no-install-recommends((?:[ \\\n]+[a-z][a-z0-9+.-]+)+)", text_of(name))[1].split()) - {"\\"}  # type: ignore[index]
        for name in (".ci/run", named)
    ]
    assert len(packages[0]) > 10 and packages[0] <= packages[1]


@pytest.mark.parametrize("page", PAGES)
def test_every_module_that_is_run_is_there(page: str) -> None:
    named = {name for line in code(text_of(page)) for name in re.findall(r"python3? -m ([a-z_][\w.]*)", line)}
    ours = {name for name in named if name.partition(".")[0] not in {*sys.stdlib_module_names, "pip", "pytest", "mypy"}}
    tails = [(name, name.replace(".", "/")) for name in ours]
    assert [
        name
        for name, tail in tails
        if not any({f"{base}{tail}.py", f"{base}{tail}/__main__.py"} & tracked() for base in IMPORTED_FROM)
    ] == []


def test_readme_lists_every_command() -> None:
    rows = re.findall(r"^\| `dsv4-pd ([a-z-]+)", text_of("README.md"), re.MULTILINE)
    assert sorted(rows) == sorted(app.COMMANDS)


def test_every_page_can_be_reached_from_readme() -> None:
    """A page that nothing leads to is found by nobody. Records and recorded hosts are found by their folders."""
    reached, left = set(), ["README.md"]
    while left:
        page = left.pop()
        reached.add(page)
        named = {
            str(path.relative_to(ROOT))
            for target in re.findall(r"\]\((?![a-z]+:)([^)#\s]+)", text_of(page))
            if (path := ((ROOT / page).parent / target).resolve()).suffix == ".md"
        }
        left += sorted(named - reached - set(left))
    assert [page for page in PAGES if page.startswith("docs/") and page not in reached] == []


def test_the_glossary_has_the_words_that_everything_else_uses() -> None:
    words = re.findall(r"^\| ([a-z ,]+) \|", text_of("docs/architecture.md").split("## Words")[1], re.MULTILINE)
    wanted = ["role", "server", "member", "program", "peer", "probe", "canary", "proof", "incident"]
    assert [word for word in wanted if word not in words] == []


# --- settings, routes, exit codes ---------------------------------------------------------------------------------


@functools.cache
def sources() -> str:
    """What runs: no page, no test."""
    kept = [name for name in tracked() if name.endswith((".py", ".sh", ".yaml", ".toml", "Dockerfile", ".c", ".html"))]
    return "\n".join(
        (ROOT / name).read_text(encoding="utf-8") for name in kept if not name.startswith(("tests/", "docs/"))
    )


@functools.cache
def everything() -> str:
    """With the tests, which send what the routers serve."""
    kept = [name for name in tracked() if name.endswith((".py", ".json")) and not name.startswith("docs/")]
    return sources() + "".join((ROOT / name).read_text(encoding="utf-8") for name in kept)


def settings() -> set[str]:
    ours = {env_name(name) for name in Settings.model_fields}
    return ours | {f"{env_name(name)}_FILE" for name in SECRETS} | FOREIGN | set(COMPOSE_RENAMED.values())


# In the changelog and in a table of old names a setting that is gone is named rightly.
@pytest.mark.parametrize("page", [page for page in PAGES if page not in ("CHANGELOG.md", "docs/compatibility.md")])
def test_every_setting_is_there(page: str) -> None:
    named = set(re.findall(r"\bDSV4_[A-Z0-9_]*[A-Z0-9]\b(?!\*)", text_of(page)))
    inside = {name for name in named - settings() if re.search(rf"\b{name}\b", sources())}  # the image's, the plugins'
    assert sorted(named - settings() - inside - CLIENTS_OWN) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_route_is_served_or_known(page: str) -> None:
    """A path of HTTP stands in a source: whoever serves, asks or refuses it writes it there."""
    named = {
        span
        for span in spans(text_of(page))
        if re.fullmatch(r"/[a-z][a-z0-9_]*(?:/[a-z0-9_]+)*", span) and span.split("/")[1] not in SYSTEM
    }
    assert sorted(route for route in named if route not in everything()) == []


def test_every_exit_code_is_in_both_tables() -> None:
    """README's line, docs/health.md's table and the errors know the same codes."""

    def below(kind: type[errors.ApplianceError]) -> set[int]:
        return {kind.exit_code}.union(*map(below, kind.__subclasses__()))

    line = re.search(r"^Exit codes: (.+)$", text_of("README.md"), re.MULTILINE)
    assert line is not None
    readme = {int(code) for code in re.findall(r"(?:^|· )(\d+) ", line[1])}
    table = text_of("docs/health.md").split("## Exit codes")[1].split("## ")[0]
    health = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    assert readme == health == below(errors.ApplianceError) | {0}


# --- decisions ---------------------------------------------------------------------------------------------------

STATUS = re.compile(
    r"accepted(?:; (?:supersedes|supersedes in part|superseded in part by) \[\d{4}\]\([\w.-]+\))*"
    r"|superseded by \[\d{4}\]\([\w.-]+\)"
)
BACK = {"supersedes": "superseded by", "supersedes in part": "superseded in part by"}
BACK |= {back: way for way, back in BACK.items()}


def relations(status: str) -> list[tuple[str, str]]:
    """(how, number) of the other decisions that a status names.

    >>> relations("accepted; supersedes in part [0601](0601-x.md)")
    [('supersedes in part', '0601')]
    """
    return re.findall(r"(supersede[sd][a-z ]*?) \[(\d{4})\]", status)


@pytest.mark.parametrize("path", decisions.pages(), ids=lambda path: path.stem)
def test_a_decision_has_the_one_format(path: Path) -> None:
    one = decisions.read(path)
    assert path.name.startswith(f"{one.number}-") and one.number[:2] in decisions.GROUPS
    assert STATUS.fullmatch(one.status), one.status
    assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", one.date)
    headings = re.findall(r"^## (.+)$", one.body, re.MULTILINE)
    assert headings[:2] == ["Context", "Decision"] and "Consequences" in headings[2:], headings
    assert len(set(headings)) == len(headings) and not re.search(r"^# |^## .+\n(?!\n)", one.body, re.MULTILINE)


def test_a_decision_that_supersedes_another_is_named_there() -> None:
    status = {one.number: one.status for one in map(decisions.read, decisions.pages())}
    said = {(number, how, other) for number, text in status.items() for how, other in relations(text)}
    assert said and {(other, BACK[how], number) for number, how, other in said} == said


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("Status: ", "State: "),
        lambda text: text.replace("\n\nDate: ", "\nDate: "),
        lambda text: text.replace("# 0101. ", "# "),
    ],
)
def test_a_decision_without_its_head_is_refused(tmp_path: Path, damage: Callable[[str], str]) -> None:
    whole = (decisions.FOLDER / "0101-kernels-what-is-on.md").read_text(encoding="utf-8")
    page = tmp_path / "0101-kernels.md"
    page.write_text(damage(whole))
    assert damage(whole) != whole
    with pytest.raises(ValueError, match=r"0101-kernels\.md: expected"):
        decisions.read(page)


# --- the test itself ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("dsv4-pd doctor --link", ""),
        ("dsv4-pd bench compare a.jsonl b.jsonl", ""),
        ("docker compose run --rm dsv4-pd diagnose", "diagnose"),
        ("dsv4-pd verify --olny auth", "--olny"),
        ("dsv4-pd bench sweeps", "bench sweeps"),
    ],
)
def test_a_command_that_is_none_is_found(line: str, what: str) -> None:
    assert [wrong(*call) for call in commands(line)] == [what]


def test_names_that_are_gone_are_found() -> None:
    assert not is_there("settings/flags.py") and is_there("settings/schema.py") and is_there("docs/adr/NNNN-TITLE.md")
    assert "test-all" in targets() and "tests-all" not in targets()
    assert anchors("## What `x` does, and why\n```\n# no heading\n```\n") == {"what-x-does-and-why"}
