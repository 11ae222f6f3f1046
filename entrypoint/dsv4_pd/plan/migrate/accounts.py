"""What became of each part of a unit, and the settings that came of it. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from dsv4_pd.settings.redact import Redactor


class Fate(enum.StrEnum):
    """What becomes of a flag, a variable or a directive."""

    SETTING = "setting"  # one of ours says the same
    EXTRA = "extra"  # handed on to the engine or the router as it is
    KEPT = "kept"  # a variable of another tool, which keeps its meaning
    OWN = "own"  # what the product does anyway
    NONE = "none"  # has no equivalent


@dataclass(frozen=True, slots=True)
class Account:
    """`what`: as the unit writes it, secrets hidden. `why`: the setting, or the reason."""

    unit: str
    what: str
    fate: Fate
    why: str


@dataclass
class Ledger:
    """Settings and accounts while units are read: every part of a unit gets an account, exactly one."""

    settings: dict[str, str] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)  # variables of other tools
    extra: dict[str, list[str]] = field(default_factory=dict)  # setting -> shell words
    accounts: list[Account] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set)  # values that no output may hold
    key: str | None = None
    key_origin: str = ""
    chunk: str | None = None  # prefill's, which stands for decode too
    caches: dict[str, str] = field(default_factory=dict)  # variables that say where the Hub's files lie, as given
    notes: list[str] = field(default_factory=list)

    def note(self, unit: str, what: str, fate: Fate, why: str) -> None:
        """Account for one part."""
        self.accounts.append(Account(unit, what, fate, why))

    def holds_secret(self, text: str) -> bool:
        """Whether a value that is known to be secret stands in it, or something that looks like one."""
        return Redactor(sorted(self.secrets)).text(text) != text

    def put(self, unit: str, what: str, name: str, value: str, aside: str = "") -> None:
        """A setting; where another unit says something else, the first one stays and the other is accounted for."""
        present = self.settings.setdefault(name, value)
        if present != value:
            self.note(unit, what, Fate.NONE, f"{name}={present} stands already, and all servers have one")
            return
        self.note(unit, what, Fate.SETTING, f"{name}={value}{f' ({aside})' if aside else ''}")

    def pass_on(self, unit: str, what: str, name: str, words: list[str]) -> None:
        """A flag that is handed on in one of the extra arguments; said twice alike it stands once."""
        if self.holds_secret(" ".join(words)):
            self.note(unit, words[0], Fate.NONE, "its value holds a secret, which is not written into extra arguments")
            return
        present = self.extra.setdefault(name, [])
        if words not in [present[i : i + len(words)] for i in range(len(present))]:
            present += words
        self.note(unit, what, Fate.EXTRA, name)
