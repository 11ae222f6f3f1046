"""The receipt of a release: what it is made of, and what was proven of it and what was not. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from release.image import Image
from release.rings import Rings

FORMAT = 1
# What an operator gets beside the image.
FILES = ("compose.yaml", "compose.gpus.yaml", ".env.example", "docker/install.sh", "Dockerfile", "LICENSE")
SIGNED = "no signature: neither the tag nor the image is signed by this command"
RING_3 = "ring 3, RTX PRO 6000 (sm_120): no such card was available; figures for it are models or compile-time facts"


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that was looked at. `image`, `rings`: a text where there is none, which says why."""

    version: str
    previous: str
    commit: str
    date: str
    files: Mapping[str, str]  # name -> text, of the commit: FILES, the locks, .ci/run, the list of promises
    image: Image | str
    rings: Rings | str
    expected: Sequence[str]  # the rings of the commit's .ci/run


def of(found: Found, wheels: Mapping[str, str]) -> dict[str, Any]:
    """The receipt, as JSON. `wheels`: file name -> SHA-256."""
    hashed = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(found.files.items())}
    return {
        "receipt": FORMAT,
        "version": found.version,
        "previous": found.previous,
        "commit": found.commit,
        "date": found.date,
        "image": _image(found.image) if isinstance(found.image, Image) else None,
        "wheels": dict(sorted(wheels.items())),
        "locks": {name: digest for name, digest in hashed.items() if name.endswith(".lock")},
        "files": {name: digest for name, digest in hashed.items() if not name.endswith(".lock")},
        "rings": _rings(found.rings) if isinstance(found.rings, Rings) else None,
        "not_proven": not_proven(found),
    }


def recorded_image(receipt: Mapping[str, Any], commit: str) -> Image | None:
    """The image that an earlier receipt of the same release has."""
    told = receipt.get("image")
    if told is None or receipt.get("commit") != commit:
        return None
    layers = tuple((layer["bytes"], layer["step"]) for layer in told["layers"])
    base, baked = told["base_digest"] or "", told["baked"] or ""
    return Image(told["name"], told["id"], told["size_bytes"], tuple(told["digests"]), layers, commit, base, baked)


def recorded_rings(receipt: Mapping[str, Any], commit: str) -> Rings | None:
    """The rings that an earlier receipt of the same release has."""
    told = receipt.get("rings")
    if told is None or receipt.get("commit") != commit:
        return None
    passed, failed, again = (tuple(told[name]) for name in ("passed", "failed", "second_try"))
    return Rings(told["commit"], passed, failed, again, told["router"], told["seconds"])


def not_proven(found: Found) -> list[str]:
    """In words: rings that did not pass at this commit, and what the image lacks."""
    return [*_rings_lack(found), RING_3, *_image_lacks(found), SIGNED]


def _rings_lack(found: Found) -> list[str]:
    rings = found.rings
    if isinstance(rings, str):
        return [f"rings of CI ({', '.join(found.expected)}): {rings}"]
    lacks = [f"ring {name} failed" for name in rings.failed]
    lacks += [f"ring {name} did not run" for name in found.expected if name not in (*rings.passed, *rings.failed)]
    lacks += [f"ring {words}: passed at its second try" for words in rings.again]
    if rings.commit is None:
        lacks.append("that the rings ran at this commit: their last lines name none")
    elif not rings.proves(found.commit):
        lacks.append(f"that the rings ran at this commit: they did at {rings.commit}, the one before the cut")
    return lacks


def _image_lacks(found: Found) -> list[str]:
    image = found.image
    if isinstance(image, str):
        return [f"the image: {image}"]
    lacks = []
    if not image.base_digest:
        lacks.append("the image's base: built without a digest of it (docs/releasing.md)")
    if image.baked != "all":
        lacks.append(f"the engine's own kernels in the image: built with BAKE={image.baked or 'unknown'}, expected all")
    if not image.digests:
        lacks.append("the image's digest: no registry has given one yet")
    return lacks


def _image(image: Image) -> dict[str, Any]:
    return {
        "name": image.name,
        "id": image.id,
        "digests": list(image.digests),
        "size_bytes": image.size,
        "base_digest": image.base_digest or None,
        "baked": image.baked or None,
        "layers": [{"bytes": size, "step": step} for size, step in image.layers],
    }


def _rings(rings: Rings) -> dict[str, Any]:
    return {
        "commit": rings.commit,
        "passed": list(rings.passed),
        "failed": list(rings.failed),
        "second_try": list(rings.again),
        "router": rings.router,
        "seconds": rings.seconds,
    }
