"""The status page: one file with everything in it, so that it works where nothing else can be reached."""

from __future__ import annotations

from functools import cache
from pathlib import Path

# Nothing may be loaded from elsewhere, and nothing may frame the page.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}


@cache
def html() -> str:
    """The page's text."""
    return Path(__file__).with_name("page.html").read_text(encoding="utf-8")
