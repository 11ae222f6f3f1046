"""Keys and their limits, by table."""

from __future__ import annotations

from pathlib import Path

import pytest
from dsv4_pd.plan.front import client_keys as keys
from dsv4_pd.plan.front.client_keys import KeysError
from dsv4_pd.plan.front.config import FrontConfig
from dsv4_pd.run.front import limits
from dsv4_pd.run.front.errors import Refusal
from dsv4_pd.run.front.keyring import Keyring

HASH = keys.digest("abc").hex()
BROKEN = {
    "": "found no key",
    "[a": "no TOML (at its end)",
    "a = 1": "is no table",
    "[a]\n": "expected key or sha256, one of the two",
    f'[a]\nkey = "x"\nsha256 = "{HASH}"': "expected key or sha256, one of the two",
    '[a]\nkey = " x"': "printable ASCII",
    '[a]\nkey = ""': "printable ASCII",
    '[a]\nkey = "schlüssel"': "printable ASCII",
    '[a]\nkey = "a\\nb"': "printable ASCII",
    "[a]\nkey = 3": "printable ASCII",
    '[a]\nsha256 = "abc"': "64 hex digits",
    '[a]\nkey = "x"\nconcurrent = 0': "concurrent: found 0",
    '[a]\nkey = "x"\nconcurrent = true': "concurrent: found True",
    '[a]\nkey = "x"\ntokens = 3': "unknown tokens",
    '[a]\nkey = "x"\n[b]\nkey = "x"': "two names have the same key",
    '[guard]\nkey = "x"': "expected a name",
    '["a b"]\nkey = "x"': "expected a name",
    f'[a]\nkey = "abc"\n[b]\nsha256 = "{HASH}"': "same key",
}  # fmt: skip


@pytest.mark.parametrize("text", BROKEN)
def test_a_file_that_can_not_be_used(text: str) -> None:
    with pytest.raises(KeysError) as caught:
        keys.parse(text, "keys.toml")
    assert BROKEN[text] in str(caught.value)
    assert str(caught.value).startswith("keys.toml: ")


def test_no_error_shows_a_secret() -> None:
    for text in ('[a]\nkey = "s3cret" x', '[a]\nkey = "s3cret\x7f"', '[a]\nkey = " s3cret"'):
        with pytest.raises(KeysError) as caught:
            keys.parse(text, "keys.toml")
        assert "s3cret" not in str(caught.value)


def test_every_problem_is_said_at_once() -> None:
    with pytest.raises(KeysError) as caught:
        keys.parse('[a]\nkey = "x"\nconcurrent = 0\ntokens = 1\n[b]\n', "f")
    assert str(caught.value).count("f: ") == 3


def test_a_hash_is_as_good_as_its_key() -> None:
    found = keys.parse(f'[a]\nsha256 = "{HASH.upper()}"', "f")
    assert keys.find("abc", found) == found[0]
    assert keys.find("abcd", found) is None


@pytest.mark.parametrize("secret", ["", "a" * 100_000, "\udcff", "é"])
def test_any_text_may_be_sent(secret: str) -> None:
    assert keys.find(secret, keys.parse('[a]\nkey = "x"', "f")) is None


def test_a_door_without_its_keys_does_not_open(tmp_path: Path) -> None:
    for name, text in (("keys_file", None), ("key_file", None), ("key_file", "\n"), ("keys_file", "")):
        path = tmp_path / f"{name}-{text!r}"
        if text is not None:
            path.write_text(text)
        with pytest.raises(KeysError):
            Keyring(FrontConfig("http://127.0.0.1:1", "m", **{name: str(path)}))  # type: ignore[arg-type]


def test_the_guards_key_alone_leaves_the_door_open(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("of-the-guard")
    ring = Keyring(FrontConfig("http://127.0.0.1:1", "m", guard_key_file=str(tmp_path / "key")))
    assert [ring.find(secret).name for secret in (None, "x", "of-the-guard")] == ["anyone", "anyone", "guard"]


def key(**bounds: int) -> keys.Key:
    return keys.Key("a", b"", **bounds)


def test_requests_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("dsv4_pd.run.front.limits.time.monotonic", lambda: clock[0])
    use, one = limits.KeyLimits(), key(requests_per_minute=6)
    for _ in range(6):
        with use.entered(one):
            pass
    with pytest.raises(Refusal) as caught, use.entered(one):
        pass
    assert (caught.value.status, caught.value.retry_after) == (429, 10)
    clock[0] += 10
    with use.entered(one):
        pass
    with pytest.raises(Refusal), use.entered(one):
        pass


def test_tokens_are_paid_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("dsv4_pd.run.front.limits.time.monotonic", lambda: clock[0])
    use, one = limits.KeyLimits(), key(tokens_per_minute=600)
    with use.entered(one):
        use.spend(one, 1200)
    with pytest.raises(Refusal) as caught, use.entered(one):
        pass
    assert caught.value.retry_after == 61
    clock[0] += 61
    with use.entered(one):
        pass


def test_running_at_once_and_another_key() -> None:
    use, one = limits.KeyLimits(), key(concurrent=1)
    with use.entered(one):
        with pytest.raises(Refusal), use.entered(one):
            pass
        with use.entered(keys.Key("b", b"", concurrent=1)):
            pass
    with use.entered(one):
        pass


def test_answers_at_once_and_not_requests() -> None:
    use, one = limits.KeyLimits(), key(concurrent=4)
    with use.entered(one) as first, use.entered(one) as second:
        first.take(3)
        with pytest.raises(Refusal) as caught:
            second.take(2)
        assert (caught.value.status, caught.value.retry_after) == (429, 1)
        with pytest.raises(Refusal, match="may have 4 at once") as caught:
            second.take(5)
        assert caught.value.status == 400, "it would be refused forever"
        second.take(1)
        with pytest.raises(Refusal), use.entered(one):
            pass
        assert use.uses["a"].running == 4
    assert use.uses["a"].running == 0


def test_a_changed_limit_counts_at_once() -> None:
    use = limits.KeyLimits()
    with use.entered(key(requests_per_minute=1)):
        pass
    with use.entered(key(requests_per_minute=2)), use.entered(key()):
        pass
