"""The image's compiled kernels reach the engine's cache whole, once, and under their own paths."""

from __future__ import annotations

import json
from pathlib import Path

from dsv4_pd.run import prebuilt


def entry(folder: Path, key: str, text: str = "binary") -> None:
    home = folder / key
    home.mkdir(parents=True)
    (home / "k.cubin").write_text(text)
    (home / "__grp__k.json").write_text(json.dumps({"child_paths": {"k.cubin": str(home / "k.cubin")}}))


def test_seeds_what_is_missing_and_leaves_the_rest(tmp_path: Path) -> None:
    image, cache = tmp_path / "image", tmp_path / "cache" / "triton"
    entry(image, "A")
    entry(image, "B")
    entry(cache, "B", "compiled here")
    assert prebuilt.seed(image, cache) == 1
    assert prebuilt.seed(image, cache) == 0
    assert (cache / "B" / "k.cubin").read_text() == "compiled here"
    paths = json.loads((cache / "A" / "__grp__k.json").read_text())["child_paths"]
    assert paths == {"k.cubin": str(cache / "A" / "k.cubin")}
    assert sorted(path.name for path in cache.iterdir()) == ["A", "B"]


def test_no_prebuilt_kernels_no_folder(tmp_path: Path) -> None:
    assert prebuilt.seed(tmp_path / "absent", tmp_path / "cache") == 0
    assert not (tmp_path / "cache").exists()
