"""The table of what will go, in docs/compatibility.md."""

from __future__ import annotations

from dsv4_pd.settings.deprecated import Kind, everything

_WORDS = {
    Kind.SETTING: "setting",
    Kind.OPS_ROUTE: "route of the ops port",
    Kind.API_ROUTE: "route of the API",
    Kind.METRIC: "metric",
    Kind.FIELD: "field of health.json and /status",
    Kind.COMMAND: "command",
}
BEGIN, END = "<!-- BEGIN deprecated: written by `make docs` -->\n", "<!-- END deprecated -->"


def fill(page: str) -> str:
    """The page with its table regenerated.

    >>> fill(BEGIN + "old\\n" + END).count("| `DSV4_MODE` |")
    1
    """
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}{_table()}{END}{tail}"


def _table() -> str:
    rows = [f"| `{one.old}` | {_WORDS[one.kind]} | `{one.new}` | {one.since} | {one.goes} |\n" for one in everything()]
    head = "| name | is a | write instead | warns since | may go with |\n|---|---|---|---|---|\n"
    return head + "".join(rows) if rows else "Nothing is deprecated.\n"
