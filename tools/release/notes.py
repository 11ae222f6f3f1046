"""Release notes: what changed, what to do about it, what it is made of, what is proven where. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from release.compare import Break


def notes(
    receipt: Mapping[str, Any],
    changes: str,
    breaks: Sequence[Break],
    deprecated: Mapping[str, Mapping[str, Mapping[str, str]]],
    proven: str,
) -> str:
    """docs/releases/VERSION.md. `changes`: its section of the changelog; `proven`: README's words on the rings."""
    version = receipt["version"]
    parts = [
        f"# dsv4-pd {version}",
        f"{receipt['date'][:10]}, commit `{receipt['commit']}`. Written by `make release`; "
        f"the same as data: [{version}.json]({version}.json).",
        "## Upgrade",
        _upgrade(receipt, breaks),
        "## Deprecated",
        _deprecated(deprecated),
        "## Sizes",
        _sizes(receipt["image"]),
        "## What is proven where",
        _from_here(proven),
        _rings(receipt["rings"]),
        "Not proven of this release:",
        "\n".join(f"* {line}" for line in receipt["not_proven"]),
        "## Changes",
        _from_here(changes),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _from_here(text: str) -> str:
    """Links from the repository's root as links from docs/releases/.

    >>> _from_here("[a](docs/a.md), [b](README.md), [c](https://c.example), [d](#d)")
    '[a](../../docs/a.md), [b](../../README.md), [c](https://c.example), [d](#d)'
    """
    return re.sub(r"\]\((?!https?:|mailto:|#)", "](../../", text)


def _upgrade(receipt: Mapping[str, Any], breaks: Sequence[Break]) -> str:
    """What the operator does, in order."""
    steps = [f"{one.name}{f' ({one.detail})' if one.detail else ''}: {one.do}. Why: {one.why}." for one in breaks]
    steps += [
        "`docker compose run --rm dsv4-pd doctor` with the new image names settings under old names.",
        "Take this release's `compose.yaml`, set `DSV4_IMAGE` in `.env` to its reference by digest, and run "
        f"`docker compose up -d --wait`. Keep both of {receipt['previous']}: they are the way back "
        "([new-host.md](../new-host.md)).",
    ]
    return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))


def _deprecated(deprecated: Mapping[str, Mapping[str, Mapping[str, str]]]) -> str:
    rows = [
        f"| `{old}` | `{told['new']}` | {told['since']} | {told['goes']} |"
        for names in deprecated.values()
        for old, told in names.items()
    ]
    head = "| name | write instead | warned since | may go with |\n|---|---|---|---|\n"
    return head + "\n".join(rows) if rows else "Nothing."


def _sizes(image: Mapping[str, Any] | None) -> str:
    if image is None:
        return "Not measured: no image of this commit was there when the notes were written."
    rows = [f"| {layer['bytes'] / 1e6:,.1f} | {layer['step'].replace('|', '&#124;')} |" for layer in image["layers"]]
    total = f"| {image['size_bytes'] / 1e6:,.1f} | all |"
    return "MB on disk, by layer:\n\n| MB | layer |\n|---:|---|\n" + "\n".join([*rows, total])


def _rings(rings: Mapping[str, Any] | None) -> str:
    if rings is None:
        return ""
    where = f"commit `{rings['commit']}`" if rings["commit"] else "a commit that they don't name"
    return f"Rings of CI that passed, at {where}: {', '.join(rings['passed']) or 'none'}."
