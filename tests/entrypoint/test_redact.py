from __future__ import annotations

import pytest
from dsv4_pd.settings.redact import Redactor


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("server_args=ServerArgs(api_key='hunter2 x', admin_api_key=\"hunter2\", tp_size=4)", "tp_size=4"),
        ('{"api_key": "hunter2", "port": 1}', '"port": 1'),
        ("--api-key hunter2 --port 1", "--port 1"),
        ("--api-key=hunter2 --port 1", "--port 1"),
        ("api-key: hunter2", "api-key: "),
        ("Authorization: Bearer hunter2", "Authorization: Bearer "),
        ("http://user:hunter2@proxy:3128/", "http://user:"),
    ],
)
def test_a_secret_by_its_name_is_masked(line: str, kept: str) -> None:
    shown = Redactor().line(line)
    assert "hunter2" not in shown and kept in shown and "***" in shown


def test_a_token_by_its_shape_is_masked() -> None:
    token = "hf_" + "A" * 34
    assert token not in Redactor().line(f"downloading with {token}")


def test_a_known_secret_is_masked_anywhere() -> None:
    assert Redactor(["abc", "abcdef"]).line("x=abcdef y=abc") == "x=*** y=***"


@pytest.mark.parametrize("line", ["api_key=None", "'api_key': None, 'port': 1", "max_total_num_tokens=8192"])
def test_what_is_no_secret_stays(line: str) -> None:
    assert Redactor().line(line) == line
