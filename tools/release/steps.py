"""The release, step by step; each looks at the repository first, so that a second run resumes where the first ended.

cut      changelog, version, list of promises: one commit, `Release VERSION`
record   receipt and notes of that commit: docs/releases/, another commit whenever they say something new
left     the commands that are left, and what was not done
"""

from __future__ import annotations

from release.check import Refused, refusals, unclean
from release.cut import cut
from release.record import record
from release.request import Request
from release.version import tags


def run(request: Request) -> None:
    """All of it.

    Raises:
        Refused: with every reason, before anything is changed.
    """
    commit = request.git.cut(request.version)
    if commit is None:
        if reasons := refusals(request.root, request.version, request.promised):
            raise Refused(reasons)
        commit = cut(request)
        request.tell(f"cut: {commit}" if commit else "cut: not made, and so neither receipt nor notes of it (dry run)")
    else:
        if reasons := unclean(request.git):
            raise Refused(reasons)
        request.tell(f"cut: made before, {commit}")
    if commit:
        record(request, commit)
    request.tell(left(request.version, request.image, commit or "COMMIT"))


def left(version: str, image: str, commit: str) -> str:
    """The commands that a person runs, with a registry and a key that this command never has."""
    name = f"REGISTRY/{image.rpartition(':')[0].rpartition('/')[2] or 'dsv4-pd'}"
    moving = [f"docker tag {name}:{version} {name}:{tag} && docker push {name}:{tag}" for tag in tags(version)[1:]]
    again = f"make release VERSION={version}"
    lines = [
        f"git checkout {commit} && make image test-image",
        f".ci/run 2>&1 | tee rings.log; git checkout -; {again} RINGS=rings.log",
        f"git tag -s v{version} {commit} && git push origin v{version} HEAD",
        f"docker tag {image} {name}:{version}",
        f"make push IMAGE={name}:{version}   # prints {name}@sha256:…, by which hosts pull it; {again} records it",
        *moving,
        f"make bundle IMAGE={name}:{version} && make sign IMAGE={name}:{version} KEY=…   # the folder to publish",
    ]
    done = "not done: nothing was pushed, tagged or signed; no image was built; no ring was run."
    return "\n".join(["left to do:", *(f"  {line}" for line in lines), done])
