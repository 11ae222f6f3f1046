from __future__ import annotations

import json
from pathlib import Path

from gpu import page

ROOT = Path(__file__).resolve().parents[2]
RECORDS = sorted(path for path in (ROOT / "tests/gpu/records").iterdir() if path.is_dir())


def test_the_page_is_what_the_records_give() -> None:
    assert (ROOT / "docs/gpu.md").read_text(encoding="utf-8") == page.page(RECORDS), "run `make gpu-page`"


def test_it_never_claims_sm_120_and_names_what_did_not_run() -> None:
    text = page.page(RECORDS)
    assert "Nothing here was run on an sm_120 card" in text
    assert "| tensor-parallel | not run |" in text


def test_what_a_card_refuses_stands_there_in_the_engine_s_own_words(tmp_path: Path) -> None:
    folder = tmp_path / "a-card"
    folder.mkdir()
    words = "ValueError: " + 30 * "NVFP4 quantization is for another card. "
    lines: list[dict[str, object]] = [
        {"kind": "machine", "date": "today", "cards": [], "nvcc": "13.0", "versions": {}},
        {"kind": "refusal", "variant": "nvfp4-cutlass", "capability": 9.0, "raised": [words]},
        {"kind": "end", "ok": True, "failures": [], "seconds": 1},
    ]
    (folder / "variants.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert f"* nvfp4-cutlass does not start: `{words}`" in page.page([folder])


def test_a_part_that_was_cut_short_is_not_passed(tmp_path: Path) -> None:
    folder = tmp_path / "a-card"
    folder.mkdir()
    machine = '{"kind": "machine", "date": "today", "cards": [], "nvcc": "13.0", "versions": {}}\n'
    (folder / "pair.jsonl").write_text(machine + '{"kind": "check", "what": "READY", "ok": true}\n')
    (folder / "memory.jsonl").write_text(
        machine + '{"kind": "end", "ok": false, "failures": ["no card"], "seconds": 1}\n'
    )
    text = page.page([folder])
    assert "| pair | did not end | 1 of 1 |" in text
    assert "| memory | FAILED |" in text and "* memory: no card" in text
