"""Whether an environment discovers SGLang plugins by these names: plugins.py NAME ..."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

found = {point.name: point for point in entry_points(group="sglang.srt.plugins")}
missing = [name for name in sys.argv[1:] if name not in found]
if missing:
    sys.exit(f"SGLang plugins: found {sorted(found)}, expected {missing} too")
for name in sys.argv[1:]:
    print(f"plugin {name}: {found[name].load().__module__}")
