"""The record of a release: receipt and notes of its cut, made again from what is there now."""

from __future__ import annotations

import json
from typing import Any

from release import changelog, image, notes, places, receipt, rings
from release.check import Refused
from release.compare import breaks_of
from release.request import PROMISES, RECORDS, Request

CI = ".ci/run"


def record(request: Request, commit: str) -> None:
    """Write and commit them where they say something new.

    Raises:
        Refused: the rings that were given are of another commit, or none.
    """
    texts = written(request, commit)
    if all(request.present(name) == text for name, text in texts.items()):
        request.tell("record: as it was before")
        return
    if request.dry:
        for name, text in texts.items():
            request.show(name, text)
        return
    request.write(texts)
    why = "Receipt and notes of its commit: what it is made of, what was proven of it, what was not."
    made = request.git.commit(list(texts), f"Record the release {request.version}\n\n{why}")
    request.tell(f"record: {made}")


def written(request: Request, commit: str) -> dict[str, str]:
    """File -> text."""
    version, text = request.version, request.git.text
    made = _receipt(request, commit)
    breaks = [one for one in breaks_of(text(commit, f"{PROMISES}/breaks.toml")) if one.version == version]
    deprecated = json.loads(text(commit, f"{PROMISES}/{version}.json"))["deprecated"]
    changes = changelog.section(text(commit, "CHANGELOG.md"), version) or ""
    proven = text(commit, "README.md").partition("## What is proven where")[2].partition("\n## ")[0].strip()
    return {
        f"{RECORDS}/{version}.json": json.dumps(made, indent=1, ensure_ascii=False) + "\n",
        f"{RECORDS}/{version}.md": notes.notes(made, changes, breaks, deprecated, proven),
    }


def _receipt(request: Request, commit: str) -> dict[str, Any]:
    git = request.git
    names = [*receipt.FILES, CI, f"{PROMISES}/{request.version}.json"]
    names += [name for name in git.files(commit) if name.startswith("docker/") and name.endswith(".lock")]
    files = {name: git.text(commit, name) for name in names}
    found = receipt.Found(
        version=request.version,
        previous=places.current_of(git.text(f"{commit}^", places.DECIDES)),
        commit=commit,
        date=git.date(commit),
        files=files,
        image=_image(request, commit),
        rings=_rings(request, commit),
        expected=rings.expected(files[CI]),
    )
    return receipt.of(found, request.wheels(request.root, commit))


def _before(request: Request) -> dict[str, Any]:
    """The receipt as it is: what was seen once stays, where this machine does not have it any more."""
    text = request.present(f"{RECORDS}/{request.version}.json")
    found: dict[str, Any] = json.loads(text) if text else {}
    return found


def _image(request: Request, commit: str) -> image.Image | str:
    found = request.look(request.image)
    if isinstance(found, image.Image) and found.revision != commit:
        found = f"{request.image} is of commit {found.revision or 'unknown'}, not of the release's"
    if isinstance(found, image.Image):
        return found
    return receipt.recorded_image(_before(request), commit) or found


def _rings(request: Request, commit: str) -> rings.Rings | str:
    if request.rings is None:
        missing = "no output of .ci/run was given (RINGS=FILE)"
        return receipt.recorded_rings(_before(request), commit) or missing
    try:
        found = rings.parse(request.rings.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError) as error:
        raise Refused([f"RINGS: {request.rings}: {error}"]) from error
    before = request.git("rev-parse", f"{commit}^")
    if found.commit not in (None, commit, before):
        raise Refused([f"RINGS: {request.rings}: found commit {found.commit}, expected {commit} or the one before it"])
    return found
