"""What a pull of an image transfers and fills, by layer: python3 docker/pull-size.py IMAGE [LEVEL]

Each layer is packed with zstd, as a registry would hold it that is pushed to with compression=zstd. Needs `zstd` and a
Docker Engine; level 3 where none is given.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from typing import IO

CHUNK = 1 << 20


def main(arguments: list[str]) -> int:
    image, level = arguments[0], arguments[1] if len(arguments) > 1 else "3"
    sizes: dict[str, tuple[int, int]] = {}
    order: list[str] = []
    with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as save:
        assert save.stdout is not None
        with tarfile.open(fileobj=save.stdout, mode="r|") as archive:
            for item in archive:
                file = archive.extractfile(item) if item.isfile() else None
                if file is None:
                    continue
                if item.name == "manifest.json":
                    order = json.load(file)[0]["Layers"]
                elif item.size > 4096 and not item.name.endswith(".json"):
                    sizes[item.name] = item.size, packed(file, level)
    history = subprocess.run(["docker", "history", "--no-trunc", "--format", "{{.Size}}\t{{.CreatedBy}}", image],
                             capture_output=True, text=True, check=True).stdout  # fmt: skip
    made = [line.split("\t")[1] for line in reversed(history.splitlines()) if not line.startswith("0B")]
    layers = [name for name in order if name in sizes]
    for number, name in enumerate(layers):
        what = made[number][:80] if len(made) == len(layers) else name
        print(f"{sizes[name][0] / 1e6:9.1f} MB on disk {sizes[name][1] / 1e6:9.1f} MB packed  {what}")
    disk, pull = (sum(sizes[name][at] for name in layers) for at in (0, 1))
    print(f"{disk / 1e6:9.1f} MB on disk {pull / 1e6:9.1f} MB packed  all, zstd -{level}")
    return 0


def packed(file: IO[bytes], level: str) -> int:
    """How many bytes zstd makes of a file."""
    with subprocess.Popen(
        ["zstd", f"-{level}", "-T0", "-q", "-c"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as zstd:
        assert zstd.stdin is not None and zstd.stdout is not None
        counter = subprocess.Popen(["wc", "-c"], stdin=zstd.stdout, stdout=subprocess.PIPE)
        while chunk := file.read(CHUNK):
            zstd.stdin.write(chunk)
        zstd.stdin.close()
        zstd.stdout.close()
        return int(counter.communicate()[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
