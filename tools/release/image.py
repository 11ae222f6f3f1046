"""The image of a release, where a Docker Engine has it. Looks only."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from typing import Any

LEAST = 1_000_000  # bytes; smaller layers are told as one


@dataclass(frozen=True, slots=True)
class Image:
    """`digests`: references by digest that a registry gave; `layers`: (bytes, what made it), base first."""

    name: str
    id: str
    size: int
    digests: tuple[str, ...]
    layers: tuple[tuple[int, str], ...]
    revision: str
    base_digest: str
    baked: str


def look(name: str) -> Image | str:
    """The image, or why there is none to be seen."""
    try:
        found = json.loads(_docker("image", "inspect", name))[0]
        history = _docker("history", "--no-trunc", "--human=false", "--format", "{{.Size}}\t{{.CreatedBy}}", name)
    except FileNotFoundError:
        return f"image {name}: there is no docker command here"
    except subprocess.CalledProcessError as error:
        return f"image {name}: {error.stderr.strip().splitlines()[-1] if error.stderr.strip() else 'not found'}"
    return read(name, found, history)


def read(name: str, found: dict[str, Any], history: str) -> Image:
    """From what `docker image inspect` and `docker history` say."""
    labels = found.get("Config", {}).get("Labels") or {}
    return Image(
        name,
        found["Id"],
        found["Size"],
        tuple(found.get("RepoDigests") or ()),
        layers(history),
        labels.get("org.opencontainers.image.revision", ""),
        labels.get("org.opencontainers.image.base.digest", ""),
        labels.get("dsv4-pd.baked", ""),
    )


def layers(history: str) -> tuple[tuple[int, str], ...]:
    """Layers above a megabyte in the order of a pull; the rest as one.

    >>> layers("2000000\\tRUN /bin/sh -c set -e;  make # buildkit\\n10\\tCOPY x /y # buildkit\\n3000000\\t# debian.sh")
    ((3000000, '# debian.sh'), (2000000, 'set -e; make'), (10, 'smaller layers'))
    """
    rows = [line.partition("\t") for line in reversed(history.splitlines()) if line.strip()]
    sized = [(int(size), words) for size, _, words in rows]
    large = [(size, _short(words)) for size, words in sized if size >= LEAST]
    small = sum(size for size, _ in sized if size < LEAST)
    return (*large, *([(small, "smaller layers")] if small else []))


def _short(words: str) -> str:
    """A build step in a few words, without its arguments and line breaks."""
    plain = re.sub(r"^RUN (?:\|\d+ (?:\S+=\S* )*)?(?:/bin/\w+ (?:-\S+ )*)?|\s*# buildkit$", "", " ".join(words.split()))
    return plain if len(plain) <= 90 else f"{plain[:89]}…"


def _docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout
