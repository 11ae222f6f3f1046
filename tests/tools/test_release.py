"""`make release` on a copy of this repository: refused with every reason, cut once, recorded whenever there is news."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.settings.deprecated import everything
from release import changelog, image, places, rings, wheels
from release.check import Refused
from release.git import Git
from release.image import Image
from release.promised import promised
from release.request import Request
from release.steps import left, run
from release.version import parse

ROOT = Path(__file__).resolve().parents[2]
VERSION = "97.1.0"
IMAGE = Image(
    f"dsv4-pd:{VERSION}", "sha256:1d", 3_000_010, ("registry.example/dsv4-pd@sha256:d1",),
    ((3_000_000, "# debian.sh"), (10, "smaller layers")), "", "sha256:ba5e", "all",
)  # fmt: skip
SUMMARY = """
==== times, 3000 s in all
  packages 20 s
  check 60 s
  {last} 1 s{failed}
commit: {commit}
router: smg
second try: {again}
rings: 3 passed, 0 failed
"""


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The present files as one commit, so that a change can be tried before it is committed; without most tests."""
    folder = tmp_path_factory.mktemp("release") / "origin"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if name.startswith("tests/") and not name.startswith("tests/release/"):
            continue
        if (ROOT / name).is_file() and (ROOT / name).stat().st_size < 1 << 20:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    log = folder / "CHANGELOG.md"
    if not changelog.entries(changelog.section(log.read_text(), "Unreleased") or ""):  # just after a release
        log.write_text(log.read_text().replace("## [Unreleased]", "## [Unreleased]\n\n### Added\n- Something.", 1))
    break_a_promise(folder / "tests/release/promises")
    git(folder, "init", "-q", "-b", "main")
    for key, value in (("user.name", "t"), ("user.email", "t@example.org"), ("commit.gpgsign", "false")):
        git(folder, "config", key, value)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Everything")
    return folder


def break_a_promise(folder: Path) -> None:
    """The last release had a metric that this one lacks, for a reason; what the next one breaks is of this one."""
    last = max(folder.glob("*.json"), key=lambda path: parse(path.stem))
    listed = json.loads(last.read_text())
    listed["groups"]["metrics"]["dsv4_gone"] = {"kind": "gauge", "labels": []}
    last.write_text(json.dumps(listed))
    breaks = folder / "breaks.toml"
    breaks.write_text(
        "\n".join(
            line.replace(head[1], VERSION) if (head := re.match(r'\[\["(.+)"', line)) and new(head[1], last) else line
            for line in breaks.read_text().splitlines()
        )
        + f'\n[["{VERSION}"]]\ngroup = "metrics"\nname = "dsv4_gone"\nwhy = "it lied"\ndo = "drop its panel"\n'
    )


def new(version: str, last: Path) -> bool:
    return parse(version) > parse(last.stem)


def git(folder: Path, *arguments: str) -> str:
    return Git(folder)(*arguments)


@pytest.fixture
def tree(origin: Path, tmp_path: Path) -> Path:
    """Before the release."""
    shutil.copytree(origin, tmp_path / "tree")
    return tmp_path / "tree"


@pytest.fixture(scope="module")
def released(origin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "released"
    shutil.copytree(origin, folder)
    run(request(folder, Told()))
    return folder


@pytest.fixture
def done(released: Path, tmp_path: Path) -> Path:
    """After it, without an image and without rings."""
    shutil.copytree(released, tmp_path / "tree")
    return tmp_path / "tree"


@cache
def once(version: str) -> str:
    return json.dumps(promised(version))


class Told(list[str]):
    """Everything that a run told."""

    @property
    def text(self) -> str:
        return "\n".join(self)


def request(tree: Path, told: list[str], **more: Any) -> Request:
    given: dict[str, Any] = {
        "wheels": lambda root, commit: {"dsv4_pd.whl": "0" * 64},
        "look": lambda name: f"image {name}: none here",
        "tell": told.append,
        "promised": lambda version: json.loads(once(version)),
    }
    return Request(tree, VERSION, f"dsv4-pd:{VERSION}", **(given | more))


def refused(request: Request) -> list[str]:
    with pytest.raises(Refused) as caught:
        run(request)
    return caught.value.reasons


def receipt(tree: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tree / f"docs/releases/{VERSION}.json").read_text())
    return found


def test_a_release_is_cut_and_recorded(origin: Path, done: Path) -> None:
    tree, old, before = done, places.current(origin), git(origin, "rev-parse", "HEAD")
    assert git(tree, "log", "--format=%s", f"{before}..").splitlines() == [
        f"Record the release {VERSION}",
        f"Release {VERSION}",
    ]
    assert not Git(tree).unclean()
    log = (tree / "CHANGELOG.md").read_text()
    assert changelog.section(log, "Unreleased") == ""
    assert changelog.entries(changelog.section(log, VERSION) or "")
    assert re.search(rf"^## \[Unreleased\]\n\n## \[{re.escape(VERSION)}\] - \d{{4}}-\d\d-\d\d$", log, re.MULTILINE)
    assert places.current(tree) == VERSION != old
    assert places.strays(tree, Git(tree).files(), VERSION) == []
    assert json.loads((tree / f"tests/release/promises/{VERSION}.json").read_text())["groups"]["exit_codes"]["75"]


def test_the_receipt_says_what_it_is_made_of_and_what_is_not_proven(released: Path) -> None:
    tree, found = released, receipt(released)
    cut = Git(tree).cut(VERSION)
    assert (found["commit"], found["version"]) == (cut, VERSION) and parse(found["previous"]) < parse(VERSION)
    lock = subprocess.run(["sha256sum", "docker/engine.lock"], cwd=tree, capture_output=True, text=True, check=True)
    assert found["locks"]["docker/engine.lock"] == lock.stdout.split()[0]
    assert set(found["locks"]) == {f"docker/{path.name}" for path in (tree / "docker").glob("*.lock")}
    assert found["wheels"] == {"dsv4_pd.whl": "0" * 64} and "compose.yaml" in found["files"]
    assert found["image"] is None and found["rings"] is None
    lacks = "\n".join(found["not_proven"])
    assert "chaos" in lacks and "none here" in lacks and "ring 3" in lacks and "no signature" in lacks


def test_the_notes_say_what_to_do_and_where_it_is_proven(released: Path) -> None:
    tree = released
    text = (tree / f"docs/releases/{VERSION}.md").read_text()
    for head in ("Upgrade", "Deprecated", "Sizes", "What is proven where", "Changes"):
        assert f"\n## {head}\n" in text
    assert "1. " in text and "dsv4_gone: drop its panel. Why: it lied." in text
    assert all(f"| `{one.old}` | `{one.new}` | {one.since} | {one.goes} |" in text for one in everything())
    assert "Not measured: no image" in text and "Ring 3," in text
    links = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", text)
    assert links and not [link for link in links if not (tree / "docs/releases" / link).exists()]


def test_a_second_run_changes_nothing_and_one_with_news_records_it(done: Path) -> None:
    tree, told = done, Told()
    head, cut = Git(tree).head(), Git(tree).cut(VERSION)
    run(request(tree, told))
    assert Git(tree).head() == head and "record: as it was before" in told
    assert cut
    found = replace(IMAGE, revision=cut)
    run(request(tree, told, look=lambda name: found, rings=summary(tree, cut)))
    assert git(tree, "log", "--format=%s", f"{head}..").splitlines() == [f"Record the release {VERSION}"]
    assert Git(tree).cut(VERSION) == cut
    after = receipt(tree)
    assert after["image"]["layers"][0] == {"bytes": 3_000_000, "step": "# debian.sh"}
    assert after["image"]["digests"] == ["registry.example/dsv4-pd@sha256:d1"]
    assert after["rings"]["passed"] == ["packages", "check", "chaos"] and after["rings"]["commit"] == cut
    assert "ring mutants did not run" in after["not_proven"]
    assert not [line for line in after["not_proven"] if line.startswith(("ring chaos", "the image", "rings of CI"))]
    assert "| 3.0 | # debian.sh |" in (tree / f"docs/releases/{VERSION}.md").read_text()


def test_what_was_recorded_stays_where_it_can_t_be_seen_any_more(done: Path) -> None:
    """A receipt is made on several machines: one has the image, another ran CI."""
    cut = Git(done).cut(VERSION)
    assert cut
    found = replace(IMAGE, revision=cut)
    run(request(done, Told(), look=lambda name: found, rings=summary(done, cut)))
    head, told = Git(done).head(), Told()
    run(request(done, told))
    assert Git(done).head() == head and "record: as it was before" in told


def test_a_commit_that_git_refuses_leaves_the_tree_as_it_was(tree: Path) -> None:
    hook = tree / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho 'not today' >&2\nexit 1\n")
    hook.chmod(0o755)
    head = Git(tree).head()
    assert refused(request(tree, Told())) == ["git commit: not today"]
    assert Git(tree).head() == head and not Git(tree).unclean()


def summary(tree: Path, commit: str, last: str = "chaos", failed: str = "", again: str = "none") -> Path:
    path = tree.parent / "rings.log"
    path.write_text("noise\n" + SUMMARY.format(commit=commit, last=last, failed=failed, again=again))
    return path


@pytest.mark.parametrize("of_parent", [True, False])
def test_rings_of_another_commit_prove_nothing(origin: Path, done: Path, of_parent: bool) -> None:
    tree, parent = done, Git(origin).head()
    given = summary(tree, parent if of_parent else "a" * 40)
    if not of_parent:
        assert refused(request(tree, Told(), rings=given))[0].startswith(f"RINGS: {given}: found commit {'a' * 40}")
        return
    run(request(tree, Told(), rings=given))
    assert (
        f"that the rings ran at this commit: they did at {parent}, the one before the cut"
        in receipt(tree)["not_proven"]
    )


def test_an_image_of_another_commit_is_not_this_release_s(done: Path) -> None:
    tree = done
    run(request(tree, Told(), look=lambda name: replace(IMAGE, revision="b" * 40)))
    assert receipt(tree)["image"] is None
    assert f"the image: dsv4-pd:{VERSION} is of commit {'b' * 40}, not of the release's" in receipt(tree)["not_proven"]


def test_what_an_image_lacks_is_said(done: Path) -> None:
    tree = done
    cut = Git(tree).cut(VERSION)
    assert cut
    poor = replace(IMAGE, revision=cut, base_digest="", digests=(), baked="own")
    run(request(tree, Told(), look=lambda name: poor))
    lacks = "\n".join(receipt(tree)["not_proven"])
    assert "base: built without a digest" in lacks and "BAKE=own" in lacks and "no registry has given one" in lacks


def test_a_dry_run_shows_it_all_and_changes_nothing(tree: Path, released: Path) -> None:
    told, head = Told(), Git(tree).head()
    run(request(tree, told, dry=True))
    assert Git(tree).head() == head and not Git(tree).unclean()
    assert f'+version = "{VERSION}"' in told.text and f"+## [{VERSION}]" in told.text and "left to do:" in told.text
    head = Git(released).head()
    told.clear()
    run(request(released, told, dry=True, wheels=lambda root, commit: {"other.whl": "1" * 64}))
    assert Git(released).head() == head and not Git(released).unclean() and "other.whl" in told.text


REFUSALS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "unclean": (lambda tree: (tree / "new.txt").write_text("x"), "work tree: found 1 changes (?? new.txt)"),
    "changed": (lambda tree: (tree / "LICENSE").write_text("x"), "work tree: found 1 changes (M LICENSE)"),
    "tagged": (lambda tree: git(tree, "tag", f"v{VERSION}"), f"git tag: found v{VERSION} already"),
    "nothing new": (
        lambda tree: committed(tree, "CHANGELOG.md", "# C\n\n## [Unreleased]\n\n### Added\n\n## [0.1.0]\n- a\n"),
        "CHANGELOG.md: found nothing below [Unreleased]",
    ),
    "no head": (lambda tree: committed(tree, "CHANGELOG.md", "# Changelog\n"), "CHANGELOG.md: found nothing below"),
    "cut already": (
        lambda tree: committed(tree, "CHANGELOG.md", f"## [Unreleased]\n- a\n## [{VERSION}]\n- b\n"),
        f"CHANGELOG.md: found [{VERSION}] already",
    ),
    "a broken promise": (
        lambda tree: committed(tree, "tests/release/promises/breaks.toml", ""), "promise: metrics: dsv4_gone is gone"
    ),
    "a stray version": (
        lambda tree: committed(tree, "docs/demo.md", "docker run dsv4-pd:0.0.9\n"),
        "version: found 'docs/demo.md: dsv4-pd:0.0.9'",
    ),
}  # fmt: skip


def committed(tree: Path, name: str, text: str) -> None:
    (tree / name).write_text(text)
    git(tree, "commit", "-q", "-a", "-m", "x")


@pytest.mark.parametrize("name", REFUSALS)
def test_a_tree_that_is_not_ready_is_refused_and_left_alone(tree: Path, name: str) -> None:
    change, reason = REFUSALS[name]
    change(tree)
    head, state = Git(tree).head(), Git(tree).unclean()
    assert [found for found in refused(request(tree, Told())) if found.startswith(reason)]
    assert (Git(tree).head(), Git(tree).unclean()) == (head, state)


@pytest.mark.parametrize(
    "version", ["1", "1.2", "v9.0.0", "09.0.0", "9.0.0+local", "9.0.0.dev0", "9.0.0-beta", "", "9.0.0 "]
)
def test_what_is_no_version_is_refused(tree: Path, version: str) -> None:
    assert refused(replace(request(tree, Told()), version=version))[0].startswith(
        f"VERSION: found {version!r}, expected"
    )


def test_a_version_that_is_not_newer_is_refused(tree: Path) -> None:
    for version in (places.current(tree), "0.0.9", f"{places.current(tree)}-rc.1"):
        assert (
            f"VERSION: found {version}, expected one after"
            in refused(replace(request(tree, Told()), version=version))[0]
        )


def test_every_reason_is_given_at_once(tree: Path) -> None:
    committed(tree, "CHANGELOG.md", "")
    (tree / "new.txt").write_text("x")
    git(tree, "tag", f"v{VERSION}")
    heads = [reason.partition(":")[0] for reason in refused(request(tree, Told()))]
    assert heads[:3] == ["work tree", "git tag", "CHANGELOG.md"]


def test_a_stale_generated_file_undoes_the_cut(tree: Path) -> None:
    committed(tree, "docs/presets.md", "stale\n")
    head = Git(tree).head()
    assert "docs/presets.md is stale" in refused(request(tree, Told()))[0]
    assert Git(tree).head() == head and not Git(tree).unclean()


def test_the_way_that_is_left_names_tags_digest_and_what_was_not_done() -> None:
    text = left("1.2.3", "registry.example/team/dsv4-pd:1.2.3", "c0ffee")
    assert "git tag -s v1.2.3 c0ffee" in text and "make push IMAGE=REGISTRY/dsv4-pd:1.2.3" in text
    assert "docker push REGISTRY/dsv4-pd:1.2\n" in text and "@sha256:" in text and "nothing was pushed" in text
    assert "dsv4-pd:1.2\n" not in left("1.2.3-rc.1", "dsv4-pd:1.2.3-rc.1", "c0ffee"), "an rc moves no tag"


def test_no_page_names_another_version() -> None:
    """What is in neither table of tools/release/places.py would keep the last release's name."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert places.strays(ROOT, listed.splitlines(), places.current(ROOT)) == []
    renamed = places.renamed(ROOT, places.current(ROOT), VERSION)
    assert all(VERSION in text for text in renamed.values())


def test_rings_are_read_from_what_ci_says(tmp_path: Path) -> None:
    """.ci/run itself, with every command replaced."""
    for tool, does in (("id", "echo 1000"), ("make", '[ "$1" != test-pair ]')):
        (tmp_path / tool).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / tool).chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["bash", ROOT / ".ci/run"], env=environ, capture_output=True, text=True, check=False)
    found = rings.parse(done.stdout)
    assert found.failed == ("pair",) and found.passed == ("packages", "check", "test", "engine")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.commit == (head.stdout.strip() or None)
    listed = rings.expected((ROOT / ".ci/run").read_text())
    assert listed[:5] == (*found.passed, "pair") and {"attacks", "prove"} < set(listed) and "$name" not in listed


@pytest.mark.parametrize("text", ["", "==== times, 3 s in all\n  check 1 s\n", "rings: 3 passed, 0 failed\n"])
def test_what_is_no_summary_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="found no summary"):
        rings.parse(text)


def test_the_last_of_two_summaries_counts() -> None:
    two = SUMMARY.format(commit="a" * 40, last="x", failed=", failed", again="none") + SUMMARY.format(
        commit="b" * 40, last="chaos", failed="", again="chaos (may be tried again: it is random)"
    )
    found = rings.parse(two)
    assert (
        found.commit == "b" * 40 and not found.failed and found.again == ("chaos (may be tried again: it is random)",)
    )


LABELS = {"org.opencontainers.image.revision": "c", "org.opencontainers.image.base.digest": "", "dsv4-pd.baked": "own"}
INSPECTED = {"Id": "sha256:1d", "Size": 5_000_000, "RepoDigests": [], "Config": {"Labels": LABELS}}


def test_an_image_is_read_from_a_docker_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for `docker`. It hides what another version prints; no test here needs a real Docker Engine."""
    script = f"""#!/bin/sh
case "$1" in
  image) [ "$3" = there ] || {{ echo 'Error: No such image: x' >&2; exit 1; }}
         printf '%s' '{json.dumps([INSPECTED])}' ;;
  history) printf '4000000\\tRUN |2 A=1 B=2 /bin/bash -o pipefail -c set -e;  make # buildkit\\n0\\tCMD x\\n' ;;
esac
"""
    (tmp_path / "docker").write_text(script)
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = image.look("there")
    assert isinstance(found, Image) and (found.id, found.size, found.revision, found.baked) == (
        "sha256:1d",
        5_000_000,
        "c",
        "own",
    )
    assert image.look("away") == "image away: Error: No such image: x"
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert image.look("there") == "image there: there is no docker command here"


@pytest.mark.slow
def test_two_builds_make_the_same_wheels(origin: Path) -> None:
    once = wheels.hashes(origin, "HEAD")
    assert len(once) == len(wheels.FOLDERS) and once == wheels.hashes(origin, "HEAD")


def test_make_passes_on_what_it_is_given() -> None:
    def line(*given: str) -> str:
        done = subprocess.run(["make", "-n", "release", *given], cwd=ROOT, capture_output=True, text=True, check=True)
        return next(line for line in done.stdout.splitlines() if "-m release" in line).partition("-m ")[2].strip()

    assert line("VERSION=1.2.3").split() == ["release", "1.2.3"]
    assert line("VERSION=1.2.3", "DRY=1", "RINGS=a.log", "IMAGE=r/x:1").split() == [
        "release", "1.2.3", "--rings", "a.log", "--dry", "--image", "r/x:1",
    ]  # fmt: skip
