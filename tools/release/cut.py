"""The cut: one commit in which the changelog, every place of the version and the list of promises say the release's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from release import changelog, places
from release.check import Refused
from release.git import subject
from release.request import PROMISES, Request


def cut(request: Request) -> str | None:
    """Make it; the commit, or None where it is only shown.

    Raises:
        Refused: a generated file would be stale; nothing is changed then.
    """
    texts = edits(request)
    if request.dry:
        for name, text in texts.items():
            request.show(name, text)
        return None
    request.write(texts)
    stale = _stale(request.root)
    if stale:
        _undo(request, list(texts))
        raise Refused([f"generated files: {stale}; name them in tools/release/places.py"])
    why = f"The changelog is cut, the version set, and what {request.version} promises listed. Made by `make release`."
    try:
        return request.git.commit(list(texts), f"{subject(request.version)}\n\n{why}")
    except subprocess.CalledProcessError as error:
        _undo(request, list(texts))
        raise Refused([f"git commit: {' '.join(str(error.stderr).split())[:300]}"]) from error


def edits(request: Request) -> dict[str, str]:
    """File -> its text in the release."""
    root, version = request.root, request.version
    date = request.git.date(request.git.head())[:10]
    listed = json.dumps(request.promised(version), indent=1, sort_keys=True, ensure_ascii=False)
    return {
        **places.renamed(root, places.current(root), version),
        "CHANGELOG.md": changelog.cut(request.present("CHANGELOG.md"), version, date),
        f"{PROMISES}/{version}.json": listed + "\n",
    }


def _stale(root: Path) -> str:
    """What docs/generate.py says of the tree as it is now; blank: all is fresh."""
    folders = os.pathsep.join(str(root / name) for name in ("entrypoint", "docs", "tools"))
    done = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": folders},
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stderr.strip() or f"docs/generate.py ended with {done.returncode}") if done.returncode else ""


def _undo(request: Request, names: list[str]) -> None:
    known = set(request.git.files())
    request.git("reset", "--quiet", "--", *names)
    request.git("checkout", "--", *(name for name in names if name in known))
    for name in names:
        if name not in known:
            (request.root / name).unlink()
