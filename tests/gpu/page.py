"""docs/gpu.md from the parts of any number of machines: python -m gpu.page RECORDS... > docs/gpu.md

RECORDS: folders of one machine and day each, with the .jsonl files that the parts wrote and notes.md in words.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Line = dict[str, Any]
ORDER = (
    "model",
    "memory",
    "serve",
    "ready",
    "answers",
    "kernels",
    "pair",
    "tensor-parallel",
    "layouts",
    "offload",
    "variants",
    "variants-pair",
)
HEAD = """# The GPU ring

Written by `make gpu-page` from the records in `tests/gpu/records/`; edit those or `tests/gpu/page.py`, not this page.

Ring 2 runs the product with the CUDA engine on whatever NVIDIA cards are there, with a tiny DeepSeek-V4 of the true
architecture. `make gpu-kit CARD=90` packs what a machine without a network needs; there, `bash setup.sh`, then
`python -m gpu PART` for each part below (tests/gpu/README.md). On a card other than sm_120 the engine is made to take
sm_120's code path in attention, indexer and MHC, and other GEMM and MoE kernels stand in.

**Nothing here was run on an sm_120 card.**"""


def read(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def of(lines: Iterable[Line], kind: str) -> list[Line]:
    return [line for line in lines if line["kind"] == kind]


def table(head: list[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table.

    >>> print(table(["a", "b"], [[1, "x|y"]]))
    | a | b |
    |---|---|
    | 1 | x\\|y |
    """
    lines = [head, ["---"] * len(head), *rows]
    cells = [[str(cell).replace("|", "\\|") if row is not head else str(cell) for cell in row] for row in lines]
    rendered = ["| " + " | ".join(row) + " |" for row in cells]
    rendered[1] = "|" + "---|" * len(head)
    return "\n".join(rendered)


def machine(lines: list[Line]) -> str:
    (found,) = of(lines, "machine")[:1]
    cards = ", ".join(f"{card['name']} ({card['memory']}, compute {card['capability']})" for card in found["cards"])
    driver = found["cards"][0]["driver"] if found["cards"] else "none"
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items() if version != "absent")
    return f"{found['date']} · {cards or 'no card'} · driver {driver} · nvcc {found['nvcc']} · {versions}"


def ran(parts: dict[str, list[Line]]) -> str:
    rows = []
    for name in ORDER:
        lines = parts.get(name)
        if lines is None:
            rows.append([name, "not run", "", ""])
            continue
        checks = of(lines, "check")
        ends = of(lines, "end")
        state = ("passed" if ends[-1]["ok"] else "FAILED") if ends else "did not end"
        seconds = f"{ends[-1]['seconds']:g} s" if ends else ""
        rows.append([name, state, f"{sum(c['ok'] for c in checks)} of {len(checks)}", seconds])
    return table(["part", "outcome", "checks passed", "took"], rows)


def failures(parts: dict[str, list[Line]]) -> str:
    found = [
        f"* {name}: {failure}"
        for name, lines in parts.items()
        for end in of(lines, "end")
        for failure in end["failures"]
    ]
    return "Failed:\n\n" + "\n".join(found) if found else ""


def kernels(lines: list[Line]) -> str:
    names = ("noise", "stock-oracle", "ours-stock", "ours-oracle", "scale-stock", "page-stock")
    rows = [
        [line["case"], line["kind"], line["tokens"], *(f"{line[key]:.3g}" for key in FIGURES)]
        for line in lines
        if line["kind"] in names
    ]
    head = ["requests x context", "pair", "tokens", "mean abs dlogprob", "max", "mean KL, nats", "max", "top-1 equal"]
    text = (
        "Teacher-forced through the engine's own decode with CUDA graphs. `noise`: the engine's own kernels, two runs. "
        "`stock`: the engine's own. `ours`: the plugin. `scale`, `page`: planted faults. `oracle`: transformers in "
        "float32.\n\n"
    )
    plugin = [
        f"In use: {', '.join(line['patches'])}. Where the engine's own ran instead: {json.dumps(line['fallbacks'])}."
        for line in of(lines, "plugin")
        if line["server"] == "ours" and line["patches"]
    ]
    return text + table(head, rows) + "\n\n" + "\n".join(plugin)


FIGURES = ("dlogprob_mean", "dlogprob_max", "kl_mean", "kl_max", "agree")


def memory(lines: list[Line]) -> str:
    rows = []
    for line in of(lines, "memory"):
        found, flags = line["found"], line["flags"]
        asked = [
            flags.get("disaggregation-mode", "single") + ("*" if "note" in line else ""),
            flags["mem-fraction-static"],
            flags["context-length"],
            flags.get("swa-full-tokens-ratio", "its own"),
        ]
        rows.append(asked + [f"{found[key]:,.10g}" if key in found else "" for key in MEMORY])
    notes = sorted({f"\\* {line['note']}" for line in of(lines, "memory") if "note" in line})
    return "\n\n".join([table(["server", "fraction", "context", "window ratio asked", *MEMORY], rows), *notes])


MEMORY = (
    "available_gb",
    "bytes_per_full_token",
    "full_tokens",
    "swa_ratio",
    "swa_tokens",
    "c4_state_tokens",
    "c128_state_fixed_gb",
)


def ready(lines: list[Line]) -> str:
    rows = [[c["server"], c["name"], c["loads"], c["compiled"], c["seconds"]] for c in of(lines, "class")]
    return table(
        ["server", "first request of this class", "kernels used for the first time", "compiled", "seconds"], rows
    )


def checks(lines: list[Line]) -> str:
    """Each check and each line of figures, in words."""
    return "\n".join(text for line in lines if (text := sentence(line)))


def sentence(line: Line) -> str:
    rest = {
        name: value for name, value in line.items() if name not in ("kind", "what", "ok", "said", "lines", "versions")
    }
    figures = ", ".join(f"{name} {short(value)}" for name, value in rest.items() if value not in (None, [], {}))
    if line["kind"] == "refusal":
        return f"* {line['variant']} does not start: {refusal(line['raised'])}"
    if line["kind"] == "check":
        return f"* {line['what']}: {'yes' if line['ok'] else '**no**'}" + (f" ({figures})" if figures else "")
    return f"* {line['kind']}: {figures}" if line["kind"] in ("model", "answers", "killed", "not-run") else ""


def refusal(raised: list[str] | dict[str, list[str]]) -> str:
    """The engine's own words, whole; of a pair by the server that said them.

    >>> refusal({"decode": ["ValueError: no"], "prefill": []}), refusal([])
    ('decode: `ValueError: no`', 'it says nothing')
    """
    if isinstance(raised, dict):
        return "; ".join(f"{name}: {refusal(texts)}" for name, texts in sorted(raised.items()) if texts) or refusal([])
    return ", ".join(f"`{text}`" for text in raised) or "it says nothing"


def short(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else json.dumps(value)
    return text if len(text) <= 300 else text[:300] + " ..."


SECTIONS = {"kernels": kernels, "memory": memory, "ready": ready}


def page(folders: list[Path]) -> str:
    texts = [HEAD]
    for folder in folders:
        parts = {path.stem: read(path) for path in sorted(folder.glob("*.jsonl"))}
        if not parts:
            continue
        first = next(iter(parts.values()))
        notes = folder / "notes.md"
        told = notes.read_text(encoding="utf-8").strip() if notes.exists() else ""
        paragraphs = (f"## {folder.name}", machine(first), told, ran(parts), failures(parts))
        texts.append("\n\n".join(text for text in paragraphs if text))
        shown = [name for name in ORDER if name in parts]
        texts += [f"### {folder.name}: {name}\n\n{SECTIONS.get(name, checks)(parts[name])}" for name in shown]
    return "\n\n".join(texts).rstrip() + "\n"


def main() -> int:
    sys.stdout.write(page([Path(word) for word in sys.argv[1:]]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
