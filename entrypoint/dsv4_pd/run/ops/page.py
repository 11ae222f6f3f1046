"""The status page: one file with everything in it, so that it works where nothing else can be reached."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from dsv4_pd.run.states import TONES

_TONES = "{/* state: tone */}"

# Nothing may be loaded from elsewhere, and nothing may frame the page.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}


@cache
def html() -> str:
    """The page's text, with the states' tones in it."""
    text = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    return text.replace(_TONES, json.dumps(TONES))
