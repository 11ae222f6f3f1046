"""The page to try the API: one file with everything in it, so that it works where nothing else can be reached."""

from __future__ import annotations

from functools import cache
from pathlib import Path

# Nothing may be loaded from elsewhere, nothing may frame the page, and it talks to where it came from alone.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


@cache
def html() -> str:
    """The page's text."""
    return Path(__file__).with_name("page.html").read_text(encoding="utf-8")
